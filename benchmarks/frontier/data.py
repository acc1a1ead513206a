"""The data sets of the frontier: splits and standardisation."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from sklearn.model_selection import (
    RepeatedStratifiedKFold,
    StratifiedKFold,
    StratifiedShuffleSplit,
)
from sklearn.preprocessing import OneHotEncoder

from benchmarks.competitors.contract import Shape, subsample
from kernlet.datasets import load

SMALL_ROWS = 1000
N_FOLDS = 3  # to score a setting on small data sets
#: At most ``SMALL_ROWS`` rows, scored by folds and five splits.
SMALL = (
    "sonar",
    "cleveland",
    "bupa",
    "ionosphere",
    "breastw",
    "pima",
    "tictactoe",
    "checkerboard_generated",
)
MEDIUM = ("thyroid", "optdigits", "satimage", "pendigits", "usps", "mushroom", "letter")
LARGE = ("covertype", "mnist")
NAMES = SMALL + MEDIUM + LARGE

SMALL_BUDGETS = (256, 1024, 4096)
BUDGETS = (1024, 4096, 16_384, 65_536)
LARGE_BUDGETS = BUDGETS[1:3]

MOST_ROWS = 20_000  # training rows
TUNING_ROWS = 2000  # training rows while settings are tried
CHECKING_ROWS = 2000  # held-out rows that score them
FINAL_ROWS = 7500  # each is held out once while the best settings are scored again
N_REPEATS = 4  # of the folds of small data sets, while the best settings are scored again
_CATEGORICAL = ("mushroom", "tictactoe")  # one-hot encoded
_ONE_UNIT = ("usps", "mnist", "optdigits", "pendigits")  # pixels, positions: one common scale


@dataclass(frozen=True, eq=False)
class Split:
    """Standardised float32 rows and class codes, for training and testing."""

    X: Any
    y: Any
    X_test: Any
    y_test: Any

    @property
    def shape(self) -> Shape:
        """Sizes of the task."""
        return Shape(len(self.X), self.X.shape[1], int(self.y.max()) + 1)


def budgets_of(name: str) -> tuple[int, ...]:
    """Budgets in bytes."""
    if name in SMALL:
        return SMALL_BUDGETS
    return LARGE_BUDGETS if name in LARGE else BUDGETS


def seeds_of(name: str) -> range:
    """Seeds of the model, and of the split if there is no official test set."""
    return range(5) if name in SMALL and _whole(name).X_test is None else range(3)


def has_test_set(name: str) -> bool:
    """Whether all seeds share an official test set."""
    return _whole(name).X_test is not None


@lru_cache(maxsize=2)
def split(name: str, seed: int) -> Split:
    """Training and test rows of a seed; official splits do not depend on it."""
    data = _whole(name)
    codes = np.unique(data.y, return_inverse=True)[1]
    X = _one_hot(data.X) if name in _CATEGORICAL else data.X
    if data.X_test is not None:
        rows = subsample(codes, MOST_ROWS, 0)
        test = np.searchsorted(np.unique(data.y), data.y_test)
        return _standardised(name, X[rows], codes[rows], data.X_test, test)
    if len(X) > 2 * MOST_ROWS:
        rows = subsample(codes, 2 * MOST_ROWS, seed)
        X, codes = X[rows], codes[rows]
        share: float = 0.5
    else:
        share = 0.3
    shuffle = StratifiedShuffleSplit(1, test_size=share, random_state=seed)
    train, test = next(shuffle.split(X, codes))
    return _standardised(name, X[train], codes[train], X[test], codes[test])


def folds(name: str, data: Split) -> list[tuple[Any, Any]]:
    """Training and held-out rows to score settings, the same for every competitor."""
    if name in SMALL:
        return list(StratifiedKFold(N_FOLDS, shuffle=True, random_state=0).split(data.X, data.y))
    shuffle = StratifiedShuffleSplit(1, test_size=0.2, random_state=0)
    train, check = next(shuffle.split(data.X, data.y))
    train = train[subsample(data.y[train], TUNING_ROWS, 0)]
    check = check[subsample(data.y[check], CHECKING_ROWS, 0)]
    return [(train, check)]


def final_folds(name: str, data: Split) -> list[tuple[Any, Any]]:
    """Folds to score the best settings again: every row is held out at least once."""
    if name in SMALL:
        repeated = RepeatedStratifiedKFold(n_splits=N_FOLDS, n_repeats=N_REPEATS, random_state=1)
        return list(repeated.split(data.X, data.y))
    rows = subsample(data.y, FINAL_ROWS, 1)
    splits = StratifiedKFold(N_FOLDS, shuffle=True, random_state=1).split(rows, data.y[rows])
    return [(rows[train], rows[check]) for train, check in splits]


def growing(name: str, n_rows: int) -> Split:
    """``n_rows`` training rows, nested for different ``n_rows``, and the same test rows."""
    data = _whole(name)
    codes = np.unique(data.y, return_inverse=True)[1]
    order = np.random.RandomState(0).permutation(len(codes))
    test, train = order[:MOST_ROWS], order[MOST_ROWS : MOST_ROWS + n_rows]
    return _standardised(name, data.X[train], codes[train], data.X[test], codes[test])


@lru_cache(maxsize=1)
def _whole(name: str) -> Any:
    return load(name)


def _one_hot(X: Any) -> Any:
    return OneHotEncoder(sparse_output=False, dtype=np.float32).fit_transform(X)


def _standardised(name: str, X: Any, y: Any, X_test: Any, y_test: Any) -> Split:
    """Standardise by the training rows; columns with two values become 0 and 1."""
    X, X_test = np.asarray(X, dtype=float), np.asarray(X_test, dtype=float)
    if name in _ONE_UNIT:
        shift, scale = X.mean(), X.std()
    else:
        shift, scale = X.mean(axis=0), X.std(axis=0)
        low, high = X.min(axis=0), X.max(axis=0)
        binary = ((low == X) | (high == X)).all(axis=0)
        shift, scale = np.where(binary, low, shift), np.where(binary, high - low, scale)
        scale = np.where(scale > 0, scale, 1.0)
    rows, test_rows = (((A - shift) / scale).astype(np.float32) for A in (X, X_test))
    return Split(rows, y, test_rows, y_test)


def facts_of(name: str) -> dict[str, Any]:
    """Sizes and kind of split of a data set."""
    data = split(name, 0)
    official = has_test_set(name)
    return {
        "rows": data.shape.n_rows,
        "features": data.shape.n_features,
        "classes": data.shape.n_classes,
        "is_sample": len(_whole(name).X)
        > data.shape.n_rows + (0 if official else len(data.y_test)),
        "test_rows": len(data.y_test),
        "test": "official" if official else "splits",
        "seeds": len(seeds_of(name)),
    }
