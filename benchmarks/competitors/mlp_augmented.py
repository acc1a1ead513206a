"""The call of ``mlp_call`` with ``augment="affine"``, on square images only."""

from __future__ import annotations

from benchmarks.competitors.compact_augmented import SETS, settings
from benchmarks.competitors.mlp_call import build

TITLE = 'MLP, one call, augment="affine"'
IS_KERNLET = False
IS_RANDOM = True
VERSION = 1
IS_TUNED = False

__all__ = ["IS_KERNLET", "IS_RANDOM", "IS_TUNED", "SETS", "TITLE", "VERSION", "build", "settings"]
