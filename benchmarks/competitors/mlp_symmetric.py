"""A perceptron of three or four layers in four bits without a zero level, as BitNetMCU's.

Found in one call, with the protocol of ``mlp_call``.
"""

from __future__ import annotations

from typing import Any

from benchmarks.competitors.contract import Shape, device
from benchmarks.competitors.mlp_plan import Network
from benchmarks.competitors.mlp_search import search
from kernlet.devices import find_device

TITLE = "deep MLP, 4 bits without zero"
IS_KERNLET = False
IS_RANDOM = True
VERSION = 1
IS_TUNED = False
DEPTHS = (2, 3)  # hidden layers


def settings(shape: Shape, max_bytes: int) -> list[dict[str, Any]]:
    return [{"max_bytes": max_bytes}]


def build(setting: dict[str, Any], X: Any, y: Any, seed: int) -> Network:
    return search(
        X,
        y,
        seed=seed,
        device=find_device(device()),
        n_classes=int(y.max()) + 1,
        depths=DEPTHS,
        is_symmetric=True,
        **setting,
    )
