"""CompactKernelRegressor as users call it: a number of bytes, and nothing else."""

from __future__ import annotations

from typing import Any

from benchmarks.competitors.contract import Shape, device
from benchmarks.competitors.expansions import NumberMachine
from kernlet import CompactKernelRegressor

TITLE = "compact regressor, one call"
TASK = "regression"
IS_KERNLET = True
IS_RANDOM = True
VERSION = 1
IS_TUNED = False


def settings(shape: Shape, max_bytes: int) -> list[dict[str, Any]]:
    return [{"max_bytes": max_bytes}]


def build(setting: dict[str, Any], X: Any, y: Any, seed: int) -> NumberMachine:
    machine = CompactKernelRegressor(**setting, device=device(), random_state=seed)
    return NumberMachine(machine.fit(X, y).expansion_)
