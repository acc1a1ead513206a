"""ChunkingSyntheticClassifier: few synthetic points, from a sample of the rows."""

from __future__ import annotations

from typing import Any

from benchmarks.competitors.contract import Shape, grid, subsample
from benchmarks.competitors.expansions import ExpansionMachine, pack, room_for, widths
from kernlet import ChunkingSyntheticClassifier

TITLE = "chunking-synthetic"
IS_KERNLET = True
IS_RANDOM = True
VERSION = 1
MOST_ROWS = 2000
MOST_POINTS = 20
_WIDTHS = (0.03, 0.1, 0.3, 1.0, 2.0, 3.0)  # factors of gamma, if only one size fits
#: Factors of gamma, and C, if two sizes fit.
_FACTORS = ((0.1, 10.0), (0.3, 10.0), (1.0, 1.0), (1.0, 10.0), (3.0, 1.0), (3.0, 10.0))


def settings(shape: Shape, max_bytes: int) -> list[dict[str, Any]]:
    n = room_for(shape, max_bytes, "int8", "float16", MOST_POINTS)
    sizes = sorted({n, max(1, n // 2)} - {0})
    if len(sizes) == 1:
        return grid(n_points=sizes, gamma=widths(shape, _WIDTHS), C=[1.0, 10.0])
    return [
        {"n_points": n, "gamma": factor / shape.n_features, "C": C}
        for n in sizes
        for factor, C in _FACTORS
    ]


def build(setting: dict[str, Any], X: Any, y: Any, seed: int) -> ExpansionMachine:
    rows = subsample(y, MOST_ROWS, seed)
    machine = ChunkingSyntheticClassifier(
        **setting, n_runs=2, stage_sizes=[min(500, len(rows) // 2)], random_state=seed
    )
    return pack(machine.fit(X[rows], y[rows]).expansion_)
