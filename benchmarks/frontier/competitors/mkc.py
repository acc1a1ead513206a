"""MinimalKernelClassifier; its size is what it is. From ``MOST_ROWS`` rows it takes a sample."""

from __future__ import annotations

from typing import Any

from benchmarks.frontier.contract import Shape, grid
from benchmarks.frontier.expansions import ExpansionMachine, pack, widths
from benchmarks.frontier.samples import sample_of
from kernlet import MinimalKernelClassifier

TITLE = "minimal (MKC)"
IS_KERNLET = True
IS_RANDOM = True
MOST_ROWS = 2000


def settings(shape: Shape, max_bytes: int) -> list[dict[str, Any]]:
    return grid(C=[0.1, 1.0, 10.0, 100.0], gamma=widths(shape, (0.3, 1.0, 3.0)))


def build(setting: dict[str, Any], X: Any, y: Any, seed: int) -> ExpansionMachine:
    rows = sample_of(y, MOST_ROWS, seed)
    candidates = min(500, len(rows))
    machine = MinimalKernelClassifier(**setting, candidates=candidates, random_state=seed)
    return pack(machine.fit(X[rows], y[rows]).expansion_)
