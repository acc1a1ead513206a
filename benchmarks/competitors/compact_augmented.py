"""The call of ``compact_call`` with ``augment="affine"``, on square images only."""

from __future__ import annotations

from typing import Any

from benchmarks.competitors.compact_call import build
from benchmarks.competitors.contract import Shape

TITLE = 'compact, one call, augment="affine"'
IS_KERNLET = True
IS_RANDOM = True
VERSION = 1
IS_TUNED = False
SETS = ("optdigits", "usps", "mnist", "mnist_60000")

__all__ = ["IS_KERNLET", "IS_RANDOM", "IS_TUNED", "SETS", "TITLE", "VERSION", "build", "settings"]


def settings(shape: Shape, max_bytes: int) -> list[dict[str, Any]]:
    return [{"max_bytes": max_bytes, "augment": "affine"}]
