"""Tsang, Kocsor and Kwok (KDD 2006): margin features by core sets."""

from __future__ import annotations

from typing import Any

from kernlet.reproduce.cells import Cell
from kernlet.reproduce.feature_scores import score_features

#: Nodes of the decision trees, Table 2, by set: none, KPCA, KFD, MMDA(SVM), MMDA(CVM).
NODES: dict[str, tuple[int | None, ...]] = {
    "optdigits": (143, 117, 19, 19, 19),
    "satimage": (109, 113, 43, 119, 79),
    "pendigits": (161, 75, 21, 19, 19),
    "letter": (777, 323, 109, 449, 285),
    "mnist": (1631, 197, 23, None, 619),
    "usps": (876, 43, 3, None, 29),
}
SMALL = ("optdigits", "satimage", "pendigits")
N_SEEDS = 3
SOLVED = {"solver": "exact"}
ROWS = {"usps": 66_520}  # of the 266,079: every fourth, and so of the test rows


def cells(quick: bool) -> dict[str, list[Cell]]:
    """The measurements, by set and method."""
    return {
        f"{name} {way}": [
            Cell(score_features, {**parameters, "seed": seed}) for seed in range(n_seeds)
        ]
        for name in (SMALL[:1] if quick else NODES)
        for way, (parameters, n_seeds) in _ways(name, quick).items()
    }


def _ways(name: str, quick: bool) -> dict[str, tuple[dict[str, Any], int]]:
    """Parameters and seeds of each method on a set."""
    none, kpca, kfd, exact, core = NODES[name]
    few = 1 if quick or name not in SMALL else N_SEEDS
    n_rows = 1000 if quick else ROWS.get(name)

    def way(method: str, nodes: int | None, **options: Any) -> dict[str, Any]:
        return {
            "name": name,
            "method": method,
            "n_rows": n_rows,
            "n_nodes": nodes,
            "options": options,
        }

    n_landmarks = 1000 if name == "letter" else 500
    ways = {
        "none": (way("none", none), few),
        "kpca": (way("kpca", kpca), few),
        "kfd": (way("kfd", kfd), few),
        "landmarks": (way("mmda", core, solver="landmarks", n_landmarks=n_landmarks), few),
        "core": (way("mmda", core, solver="core"), few if name == "optdigits" else 1),
    }
    if exact is not None:
        ways["svm"] = way("mmda", exact, **_solved(name)), 1
    return ways


def _solved(name: str) -> dict[str, Any]:
    """The problem to its optimum: exactly on the smallest set, else in the span of landmarks."""
    return SOLVED if name == "optdigits" else {"solver": "landmarks", "n_landmarks": 1000}


TABLES: dict = {}
