"""CompactKernelClassifier with its shape and smoothing as settings, tuned like the peers.

What is left open, sizes and formats within the bytes, a quick search of the call chooses.
"""

from __future__ import annotations

from itertools import product
from typing import Any

from benchmarks.competitors.compact_call import build
from benchmarks.competitors.contract import Shape, spread_out

TITLE = "compact, tuned"
IS_KERNLET = True
IS_RANDOM = True
VERSION = 2
_SMOOTHINGS = (0.0, 0.03, 0.1)
_MOST_TABLE_FEATURES = 32  # with more, no steps are tried

__all__ = ["IS_KERNLET", "IS_RANDOM", "TITLE", "VERSION", "build", "settings"]


def settings(shape: Shape, max_bytes: int) -> list[dict[str, Any]]:
    shapes: list[dict[str, Any]] = [
        {"kernel": "rbf", "width": "shared", "classes_per_center": None, "n_steps": 0},
        {"kernel": "rational_quadratic", "width": "per_center", "n_steps": 0},
    ]
    if shape.n_classes > 2:
        shapes.append({"kernel": "rbf", "width": "shared", "classes_per_center": 2, "n_steps": 0})
    if shape.n_features <= _MOST_TABLE_FEATURES:
        shapes.append({"kernel": "rbf", "width": "shared", "n_steps": 8})
    fixed = {"max_bytes": max_bytes, "effort": "quick"}
    return spread_out(
        [{**fixed, **of, "smoothing": smoothing} for of, smoothing in product(shapes, _SMOOTHINGS)]
    )
