"""Pictures of the frontier: who is ahead, and accuracy against bytes for each data set."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from benchmarks.frontier.summary import (
    OURS,
    VERDICTS,
    Document,
    by_peer,
    counts,
    our_pairs,
    pairs,
    records_at,
)
from kernlet.report.draw import picture_style, save_picture

#: Colour, marker and label of the peers with a line each; all others share one thin grey line.
SHOWN = {
    "mlp_call": ("C0", "s", "MLP, one call"),
    "hist_gradient_boosting": ("C2", "^", "gradient boosting"),
    "nystroem": ("C3", "D", "Nystroem + linear"),
}
OTHERS = (
    "random_forest",
    "shared_trees",
    "rbf_sampler",
    "seeded_features",
    "knn_prototypes",
    "rvm",
    "svc",
    "knn",
)
_OTHER_LABEL = f"{len(OTHERS)} other peers"
_OURS = "CompactKernelClassifier(max_bytes)"
_VERDICT_COLORS = {"ahead": "C0", "tied": "#b0b0b0", "behind": "C1"}


def groups(document: Document) -> dict[str, tuple[str, list[str]]]:
    """Files, their descriptions, and the data sets in them."""
    ours = [name for name, _ in our_pairs(document)]
    names = [name for name in dict.fromkeys(ours) if ours.count(name) > 1]  # a line has two points
    most = document["limits"]["small_rows"]
    small = [name for name in names if document["sets"][name]["rows"] <= most]
    others = [name for name in names if name not in small]
    files = {
        "frontier-large.png": ("Accuracy against bytes on larger data sets", others),
        "frontier-small.png": ("Accuracy against bytes on small data sets", small),
    }
    return {file: (what, names) for file, (what, names) in files.items() if names}


def draw(document: Document, folder: Path) -> None:
    """The summary, and the data sets in two files."""
    save_picture(draw_verdicts(document), folder / "frontier-verdicts.png")
    for file, (_, names) in groups(document).items():
        save_picture(draw_sets(document, names), folder / file)


@picture_style()
def draw_verdicts(document: Document) -> Figure:
    """One bar per peer: pairs at which the call is ahead, tied and behind."""
    peers = {name: counts(found) for name, found in by_peer(document).items()}
    figure = Figure(figsize=(7.2, 0.3 * len(peers) + 1.0), layout="constrained")
    axes = figure.subplots()
    left = np.zeros(len(peers))
    for verdict in VERDICTS:
        numbers = np.array([n[verdict] for n in peers.values()])
        color = _VERDICT_COLORS[verdict]
        bars = axes.barh(list(peers), numbers, left=left, height=0.72, color=color)
        bars.set_label(f"kernlet {verdict}")
        ink = "black" if verdict == "tied" else "white"
        axes.bar_label(
            bars,
            [str(n) if n > 1 else "" for n in numbers],
            label_type="center",
            fontsize=8,
            color=ink,
        )
        left += numbers
    axes.invert_yaxis()
    axes.tick_params(left=False)
    axes.spines["left"].set_visible(False)
    axes.set_xlabel("pairs of a data set and a number of bytes")
    figure.legend(loc="outside upper right", ncols=3)
    return figure


def _columns(n_panels: int) -> int:
    """As many columns as leave the fewest empty places."""
    return min((5, 4, 3), key=lambda n: (-n_panels % n, abs(n - 4)))


@picture_style()
def draw_sets(document: Document, names: list[str]) -> Figure:
    """A panel per data set: the call, three peers, and all others in grey."""
    n_columns = _columns(len(names))
    n_lines = -(-len(names) // n_columns)
    figure = Figure(figsize=(2.2 * n_columns, 2.1 * n_lines + 0.6), layout="constrained")
    panels = figure.subplots(n_lines, n_columns, squeeze=False)
    for ax, name in zip(panels.flat, names, strict=False):
        _draw_set(ax, document, name)
    for ax in panels.flat[len(names) :]:
        ax.set_visible(False)
    figure.supxlabel("bytes", fontsize=10)
    figure.supylabel("test accuracy, %", fontsize=10)
    handles = dict(zip(*panels[0, 0].get_legend_handles_labels()[::-1], strict=True))
    handles[_OTHER_LABEL] = handles.pop(_OTHER_LABEL)  # last
    n_entries = 5 if n_columns > 4 else 3  # per line of the legend
    figure.legend(handles.values(), handles.keys(), loc="outside upper center", ncols=n_entries)
    return figure


def _draw_set(ax: Any, document: Document, name: str) -> None:
    budgets = [budget for at, budget in pairs(document) if at == name]
    ours = [records_at(document, *pair)[OURS] for pair in our_pairs(document) if pair[0] == name]
    # Ours is wide and below the others, so that it hides none of them.
    means = _line(ax, ours, color="C1", marker="o", lw=4, ms=8, alpha=0.75, label=_OURS, zorder=2)
    for competitor in OTHERS:
        peers = _records(document, name, competitor, budgets)
        means += _line(ax, peers, color="C6", lw=0.8, alpha=0.8, label=_OTHER_LABEL, zorder=3)
    for competitor, (color, marker, label) in SHOWN.items():
        peers = _records(document, name, competitor, budgets)
        style = {"color": color, "marker": marker, "lw": 1.4, "ms": 4, "zorder": 4}
        means += _line(ax, peers, label=label, **style)
    ax.set_xscale("log", base=2)
    ax.set_xticks(budgets, [f"{b // 1024}k" if b >= 1024 else str(b) for b in budgets])
    ax.minorticks_off()
    ax.set_title(name.removesuffix("_generated"), fontsize=10)
    ax.grid()
    # Cut off very inaccurate machines, which would flatten all others.
    low = max(min(means), np.median(means) - 4 * max(1.0, max(means) - np.median(means)))
    margin = 0.06 * (max(means) - low) + 0.1
    ax.set_ylim(low - margin, max(means) + margin)


def _records(document: Document, name: str, competitor: str, budgets: list[int]) -> list[Any]:
    return [
        record
        for record in document["records"]
        if (record["set"], record["competitor"]) == (name, competitor)
        and record["fits"]
        and record["budget"] in budgets
    ]


def _line(ax: Any, records: list[Any], **style: Any) -> list[float]:
    means = [float(100 * np.mean(r["accuracies"])) for r in records]
    if len(means) == 1 and "marker" not in style:
        style["marker"] = "."
    if means:
        ax.plot([r["budget"] for r in records], means, **style)
    return means
