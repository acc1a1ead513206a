"""MinimalKernelClassifier, on a sample of the rows; its size is not a parameter."""

from __future__ import annotations

from typing import Any

from benchmarks.competitors.contract import Shape, subsample
from benchmarks.competitors.expansions import ExpansionMachine, pack
from kernlet import MinimalKernelClassifier

TITLE = "minimal (MKC)"
IS_KERNLET = True
IS_RANDOM = True
VERSION = 1
MOST_ROWS = 2000
CANDIDATES = 500
#: Factors of gamma = factor / n_features, and C.
_FACTORS = (
    *((0.1, 1.0), (0.1, 10.0)),
    *((0.3, 0.1), (0.3, 1.0), (0.3, 10.0)),
    *((1.0, 0.1), (1.0, 1.0), (1.0, 10.0), (1.0, 100.0)),
    *((3.0, 1.0), (3.0, 100.0)),
    (10.0, 10.0),
)


def settings(shape: Shape, max_bytes: int) -> list[dict[str, Any]]:
    return [{"C": C, "gamma": factor / shape.n_features} for factor, C in _FACTORS]


def build(setting: dict[str, Any], X: Any, y: Any, seed: int) -> ExpansionMachine:
    rows = subsample(y, MOST_ROWS, seed)
    candidates = min(CANDIDATES, len(rows))
    machine = MinimalKernelClassifier(**setting, candidates=candidates, random_state=seed)
    return pack(machine.fit(X[rows], y[rows]).expansion_)
