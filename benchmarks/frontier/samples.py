"""Samples of training rows."""

from __future__ import annotations

from typing import Any

import numpy as np

from kernlet.estimators.sampling import stratified_sample


def sample_of(y: Any, most: int, seed: int) -> Any:
    """At most so many rows, the classes in proportion."""
    rows = np.arange(len(y))
    if len(rows) <= most:
        return rows
    return stratified_sample(y, rows, most, np.random.RandomState(seed))
