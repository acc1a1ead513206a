"""CompactKernelClassifier as users call it: a number of bytes, and nothing else."""

from __future__ import annotations

from typing import Any

from benchmarks.competitors.contract import Shape, device
from benchmarks.competitors.expansions import ExpansionMachine
from kernlet import CompactKernelClassifier

TITLE = "compact, one call"
IS_KERNLET = True
IS_RANDOM = True
VERSION = 2
IS_TUNED = False


def settings(shape: Shape, max_bytes: int) -> list[dict[str, Any]]:
    return [{"max_bytes": max_bytes}]


def build(setting: dict[str, Any], X: Any, y: Any, seed: int) -> ExpansionMachine:
    machine = CompactKernelClassifier(**setting, device=device(), random_state=seed)
    return ExpansionMachine(machine.fit(X, y).expansion_)
