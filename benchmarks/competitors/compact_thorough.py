"""The call of ``compact_call`` with ``effort="thorough"``."""

from __future__ import annotations

from typing import Any

from benchmarks.competitors.compact_call import build
from benchmarks.competitors.contract import Shape

TITLE = 'compact, one call, effort="thorough"'
IS_KERNLET = True
IS_RANDOM = True
VERSION = 1
IS_TUNED = False

__all__ = ["IS_KERNLET", "IS_RANDOM", "IS_TUNED", "TITLE", "VERSION", "build", "settings"]


def settings(shape: Shape, max_bytes: int) -> list[dict[str, Any]]:
    return [{"max_bytes": max_bytes, "effort": "thorough"}]
