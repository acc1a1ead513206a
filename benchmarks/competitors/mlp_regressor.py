"""The call of ``mlp_call`` in regression, with the squared error."""

from __future__ import annotations

from typing import Any

from benchmarks.competitors.contract import Shape, device
from benchmarks.competitors.mlp_plan import Network
from benchmarks.competitors.mlp_search import search
from kernlet.devices import find_device

TITLE = "MLP, one call"
IS_KERNLET = False
IS_RANDOM = True
VERSION = 1
IS_TUNED = False
TASK = "regression"


def settings(shape: Shape, max_bytes: int) -> list[dict[str, Any]]:
    return [{"max_bytes": max_bytes}]


def build(setting: dict[str, Any], X: Any, y: Any, seed: int) -> Network:
    return search(X, y, seed=seed, device=find_device(device()), n_classes=0, **setting)
