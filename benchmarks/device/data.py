"""Rows to train, choose and test with, the same for every library: whole numbers, as of sensors."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from sklearn.model_selection import train_test_split

from benchmarks.frontier.data import raw_split

NAMES = ("letter", "pendigits", "satimage", "covertype", "thyroid")
VALIDATION_SHARE = 0.2  # of the training rows
LARGEST_COUNT = 32_000  # of a feature that is not a whole number
MEASURED_ROWS = 8  # test rows whose predictions are counted


@dataclass(frozen=True, eq=False)
class ThreeWaySplit:
    """Rows of whole numbers and class codes; nothing is trained on validation or test rows."""

    name: str
    X: Any
    y: Any
    X_validation: Any
    y_validation: Any
    X_test: Any
    y_test: Any

    @property
    def n_classes(self) -> int:
        """Number of classes, whose codes are 0, 1, ..."""
        return int(self.y.max()) + 1

    @property
    def measured(self) -> Any:
        """The test rows whose predictions are counted."""
        return self.X_test[np.linspace(0, len(self.X_test) - 1, MEASURED_ROWS).astype(int)]


@lru_cache(maxsize=1)
def three_way(name: str) -> ThreeWaySplit:
    """Training rows of the frontier's first seed, a fifth of them held out, and its test rows."""
    data = raw_split(name, 0)
    factors = _count_factors(np.asarray(data.X, dtype=np.float64))
    X, X_test = (_counts(A, factors) for A in (data.X, data.X_test))
    X, X_validation, y, y_validation = train_test_split(
        X, data.y, test_size=VALIDATION_SHARE, random_state=0, stratify=data.y
    )
    return ThreeWaySplit(name, X, y, X_validation, y_validation, X_test, data.y_test)


def _count_factors(X: Any) -> Any:
    """One for columns of whole numbers; others are stretched to the largest count."""
    is_whole = (np.round(X) == X).all(axis=0)
    largest = np.maximum(np.abs(X).max(axis=0), 1e-30)
    return np.where(is_whole, 1.0, LARGEST_COUNT / largest)


def _counts(X: Any, factors: Any) -> Any:
    """Whole numbers that int16 holds."""
    return np.clip(np.round(X * factors), -LARGEST_COUNT, LARGEST_COUNT)
