"""The picture of the start page and the README; ``python -m benchmarks.pictures`` draws it.

Left a checkerboard, drawn here; right accuracy against bytes on digits, from docs/results, and SVCs
fitted here to the same splits.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from matplotlib.figure import Figure
from sklearn.svm import SVC

from benchmarks.competitors import svc as packed_svc
from benchmarks.frontier.data import raw_split
from kernlet import MinimalKernelClassifier
from kernlet.datasets import make_checkerboard
from kernlet.report.draw import picture_style

RESULTS = Path("docs/results/frontier.json")
BLUE, ORANGE, GREEN, GREY = "C0", "C1", "C2", "C6"
PEERS = {
    "compact_call": ("kernlet", BLUE, "o-"),
    "nystroem": ("Nystroem", GREEN, "s--"),
    "random_forest": ("random forest", GREY, "^:"),
}


def draw_board(axes: Any) -> None:
    """1,000 points of a checkerboard, the boundary learned from them, and its centers."""
    board = make_checkerboard(random_state=0)
    # C, gamma and mu as chosen by cross-validation in ``kernlet demo``
    machine = MinimalKernelClassifier(C=1000, gamma=2, mu=100, random_state=0)
    machine.fit(board.X, board.y)
    side = np.linspace(board.X.min() - 0.02, board.X.max() + 0.02, 400)
    grid = np.stack(np.meshgrid(side, side), -1).reshape(-1, 2)
    values = machine.decision_function(grid).reshape(400, 400)
    axes.contourf(side, side, values, [-np.inf, 0, np.inf], colors=[BLUE, ORANGE], alpha=0.25)
    for label, color in zip(machine.classes_, (BLUE, ORANGE), strict=True):
        axes.plot(*board.X[board.y == label].T, ".", color=color, markersize=3, alpha=0.6)
    centers = machine.expansion_.centers
    axes.plot(*centers.T, "*", color="C4", markeredgecolor="#333333", markersize=15, clip_on=False)
    axes.set(xticks=[], yticks=[], aspect="equal")
    axes.spines[["left", "bottom"]].set_visible(False)
    axes.set_title(f"{len(centers)} of {len(board.X):,} points")


def svc_points(n_splits: int) -> list[tuple[str, float, float]]:
    """Name, bytes and accuracy of an SVC in float64, and with 8-bit support vectors."""
    sizes, scores = np.zeros((2, n_splits)), np.zeros((2, n_splits))
    for seed in range(n_splits):
        data = raw_split("digits", seed)
        plain = SVC().fit(data.X, data.y)
        setting = {"storage": ("int8", "float16"), "gamma": plain._gamma, "C": 1.0}
        packed = packed_svc.build(setting, data.X, data.y, seed)
        arrays = plain.support_vectors_, plain.dual_coef_, plain.intercept_
        sizes[:, seed] = sum(array.nbytes for array in arrays), packed.nbytes
        scores[:, seed] = [np.mean(m.predict(data.X_test) == data.y_test) for m in (plain, packed)]
    names = ("SVC\n64 bits", "SVC\n8 bits")
    return list(zip(names, sizes.mean(axis=1), scores.mean(axis=1), strict=True))


def draw_bytes(axes: Any) -> None:
    """Accuracy on digits against bytes."""
    records = json.loads(RESULTS.read_text(encoding="utf-8"))["records"]
    for competitor, (name, color, line) in PEERS.items():
        points = [
            (record["nbytes"], 100 * np.mean(record["accuracies"]))
            for record in records
            if (record["set"], record["competitor"]) == ("digits", competitor) and record["fits"]
        ]
        axes.plot(*zip(*points, strict=True), line, color=color, label=name)
    for name, size, accuracy in svc_points(3):
        axes.plot(size, 100 * accuracy, "D", color=ORANGE, markersize=8)
        axes.annotate(name, (size, 97.8), ha="center", va="top", color=ORANGE, fontsize=12)
    axes.set(xscale="log", xlim=(180, 1e6), ylim=(80, 100))
    axes.set(xlabel="bytes", title="accuracy on digits, %")
    axes.set_xticks([1e3, 1e4, 1e5], ["1 k", "10 k", "100 k"])
    axes.set_yticks([80, 85, 90, 95, 100])
    axes.minorticks_off()
    axes.grid()


def draw_hero() -> Figure:
    """Both panels, with letters that stay legible on a phone."""
    large = {"font.size": 14, "axes.titlesize": 15, "axes.labelsize": 14}
    ticks = {"xtick.labelsize": 13, "ytick.labelsize": 13, "legend.fontsize": 13}
    with picture_style(), matplotlib.rc_context({**large, **ticks}):
        figure = Figure(figsize=(7.2, 3.6))
        left, right = figure.subplots(1, 2)
        draw_board(left)
        draw_bytes(right)
        right.legend(loc="lower right", borderaxespad=0)
    return figure
