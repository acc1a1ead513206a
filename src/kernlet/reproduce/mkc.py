"""Fung, Mangasarian and Smola (JMLR 2002): minimal kernel classifiers."""

from __future__ import annotations

from typing import Any

from kernlet.reproduce import boards
from kernlet.reproduce.boards import fit_board
from kernlet.reproduce.cells import Cell
from kernlet.reproduce.digit_machines import minimal, relevance_vectors, support_vectors
from kernlet.reproduce.uci_folds import N_FOLDS, fit_minimal, fit_svc

N_BOARDS = 5
GRID = {"C": [0.3, 1, 3, 10, 30, 100], "mu": [1, 10, 100], "width": [0.03, 0.1, 0.3, 1.0]}
FEW = {"C": [1, 10], "mu": [10], "width": [0.1, 1.0]}
#: Table 2 by set: m1, m2, correctness of MKC and of the SVM, reduction of support vectors and of
#: testing time, ten-fold seconds of MKC and of the SVM, and random rows that may be centers.
SETS: dict[str, tuple[Any, ...]] = {
    "ionosphere": (30.2, 15.7, 94.9, 92.9, 94.6, 94.9, 172.3, 288.2, None),
    "cleveland": (64.6, 7.6, 85.8, 85.5, 96.9, 96.3, 147.2, 241.0, None),
    "pima": (263.1, 7.8, 77.7, 76.6, 98.8, 98.8, 303.3, 637.3, 150),
    "bupa": (144.4, 10.5, 75.0, 72.7, 96.6, 97.5, 285.9, 310.5, None),
    "tictactoe": (31.3, 14.3, 98.4, 98.3, 98.3, 98.2, 150.4, 861.4, 96),
    "mushroom": (933.8, 47.9, 89.3, None, None, None, 2763.5, None, 400),
}
SETTINGS = [
    {"C": C, "mu": mu, "gamma": 1 / width}
    for width in (128, 256)
    for mu in (10, 100)
    for C in (0.3, 0.6, 1.0, 2.0, 3.0)
]
SVM_SETTINGS = [{"C": C, "gamma": 1 / width} for width in (64, 128, 256) for C in (3.0, 10.0)]
RVM_SETTINGS = [{"gamma": 1 / width, "n_candidates": 2000} for width in (64, 128, 256, 512)]


def cells(quick: bool) -> dict[str, list[Cell]]:
    """The measurements that depend on no other."""
    grid = {"C": [100, 300], "gamma": [3, 4], "mu": [10]} if quick else boards.GRID
    found = {
        f"figure 4, board {seed}": [
            Cell(fit_board, {"seed": seed, "n_folds": 3 if quick else 5, "grid": grid})
        ]
        for seed in range(1 if quick else N_BOARDS)
    }
    n_rows = 1000 if quick else None
    for name, work, settings in (
        ("minimal", minimal, SETTINGS),
        ("SVM", support_vectors, SVM_SETTINGS),
        ("RVM", relevance_vectors, RVM_SETTINGS),
    ):
        found[f"table 1, {name}"] = [
            Cell(work, {**setting, "n_rows": 3000 if name == "RVM" and not quick else n_rows, "part": "held out"})
            for setting in settings[: 2 if quick else None]
        ]
    for name, figures in SETS.items():
        if not quick or name == "ionosphere":
            found |= _folds(name, figures, quick)
    return found


def _folds(name: str, figures: tuple[Any, ...], quick: bool) -> dict[str, list[Cell]]:
    grid = FEW if quick or name == "mushroom" else GRID
    folds = range(3 if quick else N_FOLDS)
    shared = {"n_candidates": figures[-1], "grid": grid, "most": list(figures[:2])}
    found = {
        f"table 2, {name}": [
            Cell(fit_minimal, {"name": name, "fold": fold, **shared}) for fold in folds
        ]
    }
    n_rows = 2000 if name == "mushroom" else None
    found[f"table 2, {name}, SVM"] = [
        Cell(fit_svc, {"name": name, "fold": fold, "n_rows": n_rows}) for fold in folds
    ]
    return found
