"""Accuracy against bytes: one small picture per data set."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib
import numpy as np

from benchmarks.frontier.summary import OURS, Document, our_pairs, pairs, records_at

#: Okabe and Ito's colour-blind safe colours, and a marker for each competitor.
STYLES = {
    "mlp_call": ("#E69F00", "s", "-"),
    "first_mlp": ("#E69F00", "p", ":"),
    "random_forest": ("#009E73", "^", "-"),
    "hist_gradient_boosting": ("#009E73", "v", "--"),
    "shared_trees": ("#009E73", "<", ":"),
    "nystroem": ("#56B4E9", "D", "-"),
    "rbf_sampler": ("#56B4E9", "x", "--"),
    "seeded_features": ("#56B4E9", "+", ":"),
    "knn_prototypes": ("#CC79A7", "P", "-"),
    "rvm": ("#CC79A7", "*", "--"),
    "svc": ("#000000", "+", ":"),
    "knn": ("#000000", "1", ":"),
}
_OUR_STYLE = ("#D55E00", "o", "-")
_COLUMNS = 4
_OURS = "CompactKernelClassifier(max_bytes)"


def groups(document: Document) -> dict[str, tuple[str, list[str]]]:
    """Files, their descriptions, and the data sets in them."""
    ours = [name for name, _ in our_pairs(document)]
    names = [name for name in dict.fromkeys(ours) if ours.count(name) > 1]  # a line has two points
    most = document["limits"]["small_rows"]
    small = [name for name in names if document["sets"][name]["rows"] <= most]
    others = [name for name in names if name not in small]
    files = {
        "frontier-small.png": ("accuracy against bytes on small data sets", small),
        "frontier-large.png": ("accuracy against bytes on larger data sets", others),
    }
    return {file: (what, names) for file, (what, names) in files.items() if names}


def draw(document: Document, folder: Path) -> None:
    """Small data sets in one file, the others in another."""
    for file, (_, names) in groups(document).items():
        _draw_sets(document, names, folder / file)


def _draw_sets(document: Document, names: list[str], path: Path) -> None:
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    n_lines = -(-len(names) // _COLUMNS)
    figure, axes = plt.subplots(
        n_lines,
        _COLUMNS,
        figsize=(3.1 * _COLUMNS, 2.7 * n_lines + 0.7),
        layout="constrained",
        squeeze=False,
    )
    for ax, name in zip(axes.flat, names, strict=False):
        _draw_set(ax, document, name)
    for ax in axes.flat[len(names) :]:
        ax.set_visible(False)
    for ax in axes.flat[max(0, len(names) - _COLUMNS) : len(names)]:
        ax.set_xlabel("bytes")
    figure.supylabel("test accuracy in %")
    handles, labels = _legend(axes)
    figure.legend(handles, labels, loc="outside lower center", ncols=5, frameon=False)
    figure.savefig(path, dpi=110, metadata={"Software": None})
    plt.close(figure)


def _legend(axes: Any) -> tuple[list[Any], list[str]]:
    by_label: dict[str, Any] = {}
    for ax in axes.flat:
        for handle, label in zip(*ax.get_legend_handles_labels(), strict=True):
            by_label.setdefault(label, handle)
    titles = sorted(by_label, key=lambda title: title != _OURS)  # ours first
    return [by_label[title] for title in titles], titles


def _draw_set(ax: Any, document: Document, name: str) -> None:
    budgets = [budget for at, budget in pairs(document) if at == name]
    means: list[float] = []
    for competitor, style in STYLES.items():
        records = [
            r
            for r in document["records"]
            if (r["set"], r["competitor"]) == (name, competitor)
            and r["fits"]
            and r["budget"] in budgets
        ]
        if records:
            title = document["competitors"][competitor]["title"]
            means += _line(ax, records, style, title, 1.2, 5.5)
    ours = [records_at(document, *pair)[OURS] for pair in our_pairs(document) if pair[0] == name]
    means += _line(ax, ours, _OUR_STYLE, _OURS, 2.4, 6)
    ax.set_xscale("log", base=2)
    ax.set_xticks(budgets, [f"{b // 1024}k" if b >= 1024 else str(b) for b in budgets])
    ax.minorticks_off()
    ax.set_title(name.removesuffix("_generated"), fontsize=10)
    ax.grid(color="0.9", linewidth=0.6)
    ax.set_axisbelow(True)
    # Cut off very inaccurate machines, which would flatten all others.
    low = max(min(means), np.median(means) - 4 * max(1.0, max(means) - np.median(means)))
    margin = 0.06 * (max(means) - low) + 0.1
    ax.set_ylim(low - margin, max(means) + margin)


def _line(
    ax: Any, records: list[Any], style: tuple[str, ...], title: str, width: float, size: float
) -> list[float]:
    color, marker, dashes = style
    means = [float(100 * np.mean(r["accuracies"])) for r in records]
    ax.plot(
        [r["budget"] for r in records],
        means,
        color=color,
        marker=marker,
        linestyle=dashes,
        linewidth=width,
        markersize=size,
        label=title,
        zorder=3 if width > 2 else 2,
    )
    return means
