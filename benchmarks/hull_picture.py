"""Accuracy against centers: python -m benchmarks.hull_picture draws docs/images/hull_removal.png.

The points are those of docs/results/hull-removal.md; the line, refits on more and fewer centers by
k-means, is computed here, over the same ten folds.
"""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from benchmarks.hull import folds, k_means_refit
from papers.garcia2006 import REDUCTION

SIZES = (5, 10, 20, 40, 80)
_CELL = re.compile(r"([\d.]+) / ([\d.]+) ± ([\d.]+)")
_SHOWN = {"full": "s", "iterative removal": "v", "drop once, train on these": "^", "1-norm": "*"}


def measured(table: Path) -> dict[str, dict[str, tuple[float, float]]]:
    """Centers and accuracy of each way on each set, from the table."""
    lines = [
        line.split("|") for line in table.read_text(encoding="utf-8").splitlines() if "|" in line
    ]
    header = [cell.strip() for cell in lines[0]]
    points: dict[str, dict[str, tuple[float, float]]] = {}
    for line in lines[2:]:
        for way, cell in zip(header, line, strict=True):
            if found := _CELL.search(cell):
                points.setdefault(line[1].strip(), {})[way] = float(found[1]), float(found[2])
    return points


def curve(name: str) -> list[float]:
    """Accuracy by ten folds of refits on clusters."""
    scores: list[list[float]] = [[] for _ in SIZES]
    for X, signs, X_test, signs_test in folds(name):
        for size, found in zip(SIZES, scores, strict=True):
            values = k_means_refit(X, signs, size).decision_values(X_test)[:, 0]
            found.append(float(np.mean(np.where(values > 0, 1.0, -1.0) == signs_test)))
    return [float(np.mean(found)) for found in scores]


def main() -> None:
    points = measured(Path("docs/results/hull-removal.md"))
    figure = Figure(figsize=(9, 5.5), layout="constrained")
    for axes, name in zip(figure.subplots(2, 3).flat, REDUCTION, strict=True):
        axes.plot(SIZES, curve(name), ".-", color="#2b6cb0", label="k-means centers, refit on all")
        for way, (centers, accuracy) in points[name].items():
            marks = [mark for shown, mark in _SHOWN.items() if way.startswith(shown)]
            if marks:
                axes.plot(centers, accuracy, marks[0], markersize=8, label=way)
        axes.set(xscale="log", title=name)
    axes.figure.supxlabel("centers")
    axes.figure.supylabel("accuracy, ten folds")
    figure.legend(*axes.get_legend_handles_labels(), loc="outside upper center", ncols=3)
    figure.savefig("docs/images/hull_removal.png", dpi=120)


if __name__ == "__main__":
    main()
