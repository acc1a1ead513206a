"""Pictures of benchmarks in docs/images: ``python -m benchmarks.pictures``.

condense.png and hull_removal.png show the tables condense-sets.md and hull-removal.md of
docs/results, the latter with a curve computed here; device.png shows device.json and drift.png
drift.json; deleted_digits.png has the USPS digits that the condensers remove; hero.png is the
picture of the start page.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from benchmarks.device.picture import draw_device
from benchmarks.hero import draw_hero
from benchmarks.suites.drift import draw_drift
from benchmarks.suites.hull import folds, k_means_refit
from kernlet import BoundaryCondenser, TypicalCondenser
from kernlet.condense.base import DeletedImagesDisplay
from kernlet.datasets import load
from kernlet.report.draw import picture_style, save_picture
from papers.garcia2006 import REDUCTION

_MARKS = {
    "typical, linear": ("v", "C0"),
    "typical, rbf": ("^", "C0"),
    "boundary, T=300": ("s", "C3"),
    "EditedNearestNeighbours": ("+", "C2"),
    "AllKNN": ("x", "C2"),
    "NeighbourhoodCleaningRule": ("1", "C2"),
}
Points = dict[str, list[tuple[float, float, float]]]


def condense_points(table: Path) -> dict[str, Points]:
    """By data set and condenser: share kept, accuracy, and accuracy of a random subset."""
    by_set: dict[str, Points] = {}
    for line in table.read_text(encoding="utf-8").splitlines():
        if line.startswith("**"):
            points = by_set.setdefault(line[2:].split(":")[0], {})
        numbers = re.findall(r"\| *(-?[\d.]+)(?: %| ±[^|]*)? *(?=\|)", line)
        if "|" in line and "%" in line and "±" in line:
            cells = [cell.strip() for cell in line.split("|")[1:-1]]
            name = cells[0].split(", ")[0] if cells[0].startswith("centroids") else cells[0]
            kept, accuracy, baseline = (float(cells[k].split()[0]) for k in (1, 3, 4))
            points.setdefault(name, []).append((kept, accuracy, baseline))
        elif "all rows" in line:
            points["all rows"] = [(100.0, float(numbers[-1]), np.nan)]
    return by_set


@picture_style()
def draw_shares(by_set: dict[str, Points]) -> Figure:
    """Accuracy of k-NN against the share of training rows kept, a panel per data set."""
    figure = Figure(figsize=(9.6, 5.6), layout="constrained")
    panels = figure.subplots(2, 3)
    for axes, (name, points) in zip(panels.flat, by_set.items(), strict=False):
        pairs = sorted({(kept, accuracy) for p in points.values() for kept, _, accuracy in p})
        kept, baseline = np.array([pair for pair in pairs if np.isfinite(pair[1])]).T
        axes.plot(kept, baseline, ".--", color="C6", label="random subset")
        shares, accuracies, _ = zip(*points["centroids"], strict=True)
        axes.plot(shares, accuracies, "o-", color="C1", label="centroids")
        for condenser, (mark, color) in _MARKS.items():
            for share, accuracy, _ in points.get(condenser, []):
                axes.plot(share, accuracy, mark, color=color, markersize=8, label=condenser)
        full = points["all rows"][0][1]
        axes.axhline(full, color="C6", linewidth=1, label="all rows")
        axes.set(title=name, xscale="log", ylim=(full - 9, full + 1), xlim=(1.7, 120))
        axes.set_xticks([2, 5, 10, 20, 50, 100], ["2", "5", "10", "20", "50", "100"])
        axes.minorticks_off()
        axes.grid()
    handles = dict(zip(*panels[0, 0].get_legend_handles_labels()[::-1], strict=True))
    panels[-1, -1].axis("off")
    panels[-1, -1].legend(handles.values(), handles.keys(), loc="center")
    figure.supxlabel("training rows kept, %")
    figure.supylabel("accuracy of k-NN, %")
    return figure


@picture_style()
def draw_digits() -> Figure:
    """USPS digits that two condensers remove."""
    digits = load("usps")
    figure = Figure(figsize=(10, 3.8), layout="constrained")
    left, right = figure.subplots(1, 2)
    pairs = {
        "typical": (TypicalCondenser(), left),
        "about the boundary (T=300)": (BoundaryCondenser(300), right),
    }
    for title, (condenser, axes) in pairs.items():
        condenser.fit(digits.X, digits.y)
        DeletedImagesDisplay.from_estimator(
            condenser, digits.X, image_shape=(16, 16), n_images=12, ax=axes
        )
        axes.set_title(f"left out: {title}")
    return figure


SIZES = (5, 10, 20, 40, 80)
_CELL = re.compile(r"([\d.]+) / ([\d.]+) ± ([\d.]+)")
_SHOWN = {
    "full": ("s", "C6"),
    "iterative removal": ("v", "C1"),
    "drop once, train on these": ("^", "C4"),
    "1-norm machine": ("*", "C2"),
    "compact": ("P", "C3"),
    "Forgetron": ("x", "C5"),
    "Projectron++": ("+", "C5"),
    "BSGD, merging": ("d", "C5"),
}


def removal_points(tables: str) -> dict[str, dict[str, list[tuple[float, float]]]]:
    """Centers and accuracy by data set and method, from all tables of a page."""
    points: dict[str, dict[str, list[tuple[float, float]]]] = {}
    for line in tables.splitlines():
        cells = [cell.strip() for cell in line.split("|")]
        if cells[1:2] == ["set"]:
            header = cells
        for k, match in enumerate(map(_CELL.search, cells)):
            if match:
                pair = float(match[1]), float(match[2])
                pairs = points.setdefault(cells[1], {}).setdefault(header[k], [])
                if pair not in pairs:  # a method may stand in several tables
                    pairs.append(pair)
    return points


def k_means_curve(name: str) -> list[float]:
    """Ten-fold accuracy in % of refits on k-means centers, by number of centers."""
    scores: list[list[float]] = [[] for _ in SIZES]
    for X, signs, X_test, signs_test in folds(name):
        for size, accuracies in zip(SIZES, scores, strict=True):
            values = k_means_refit(X, signs, size).decision_values(X_test)[:, 0]
            accuracies.append(float(np.mean(np.where(values > 0, 1.0, -1.0) == signs_test)))
    return [float(100 * np.mean(accuracies)) for accuracies in scores]


@picture_style()
def draw_removal() -> Figure:
    """Accuracy against centers: removal, other methods, and k-means centers."""
    points = removal_points(Path("docs/results/hull-removal.md").read_text(encoding="utf-8"))
    figure = Figure(figsize=(9, 5.5), layout="constrained")
    for axes, name in zip(figure.subplots(2, 3).flat, REDUCTION, strict=True):
        axes.plot(
            SIZES, k_means_curve(name), ".-", color="C0", label="k-means centers, refit on all"
        )
        for method, pairs in points[name].items():
            for mark, color in (of for shown, of in _SHOWN.items() if method.startswith(shown)):
                centers, accuracies = zip(*pairs, strict=True)
                percent = 100 * np.array(accuracies)
                axes.plot(centers, percent, mark, color=color, ms=7, label=method)
        axes.set(xscale="log", title=name)
        axes.set_xticks([5, 20, 100, 500], ["5", "20", "100", "500"])
        axes.minorticks_off()
        axes.grid()
    figure.supxlabel("centers")
    figure.supylabel("accuracy by ten folds, %")
    figure.legend(*axes.get_legend_handles_labels(), loc="outside upper center", ncols=3)
    return figure


def main() -> None:
    images = Path("docs/images")
    device = json.loads(Path("docs/results/device.json").read_text(encoding="utf-8"))
    drift = json.loads(Path("docs/results/drift.json").read_text(encoding="utf-8"))
    pictures = {
        "deleted_digits.png": draw_digits(),
        "condense.png": draw_shares(condense_points(Path("docs/results/condense-sets.md"))),
        "device.png": draw_device(device),
        "drift.png": draw_drift(drift),
        "hull_removal.png": draw_removal(),
    }
    for name, figure in pictures.items():
        save_picture(figure, images / name)
    save_picture(draw_hero(), images / "hero.png", dpi=200)


if __name__ == "__main__":
    main()
