"""The data sets of the frontier: splits and standardisation."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any

import numpy as np
from sklearn import datasets
from sklearn.model_selection import (
    KFold,
    RepeatedKFold,
    RepeatedStratifiedKFold,
    StratifiedKFold,
    StratifiedShuffleSplit,
    train_test_split,
)
from sklearn.preprocessing import OneHotEncoder

from benchmarks.competitors.contract import Shape, subsample
from kernlet.datasets import Dataset, load

SMALL_ROWS = 1000
N_FOLDS = 3  # to score a setting on small data sets
#: At most ``SMALL_ROWS`` rows, scored by folds.
SMALL = (
    "iris",
    "wine",
    "sonar",
    "cleveland",
    "bupa",
    "ionosphere",
    "breast_cancer",
    "breastw",
    "breastw_699",
    "pima",
    "tictactoe",
    "checkerboard_generated",
)
MEDIUM = (
    "digits",
    "thyroid",
    "optdigits",
    "satimage",
    "pendigits",
    "usps",
    "mushroom",
    "letter",
)
LARGE = ("covertype", "mnist")
#: More rows of large sets, measured at the largest budget of ``LARGE`` by the calls only.
MORE_ROWS = {"covertype_100000": ("covertype", 100_000), "mnist_60000": ("mnist", 60_000)}
REGRESSION = ("diabetes", "friedman1", "friedman2", "friedman3")
NAMES = SMALL + MEDIUM + LARGE + tuple(MORE_ROWS) + REGRESSION

SMALL_BUDGETS = (256, 1024, 4096)
BUDGETS = (256, 1024, 4096, 16_384, 65_536)
LARGE_BUDGETS = BUDGETS[2:4]
DRAWN_ROWS, DRAWN_TEST_ROWS = 1000, 4000  # of sets drawn from a formula

MOST_ROWS = 20_000  # training rows
TUNING_ROWS = 2000  # training rows while settings are tried
CHECKING_ROWS = 2000  # held-out rows that score them
FINAL_ROWS = 7500  # each is held out once while the best settings are scored again
N_REPEATS = 4  # of the folds of small data sets, while the best settings are scored again
_INSTALLED = ("iris", "wine", "breast_cancer", "digits", "diabetes")  # with scikit-learn
_CATEGORICAL = ("mushroom", "tictactoe")  # one-hot encoded
_ONE_UNIT = (
    "usps",
    "mnist",
    "mnist_60000",
    "optdigits",
    "digits",
    "pendigits",
)  # pixels, positions: one common scale


@dataclass(frozen=True, eq=False)
class Split:
    """Rows (standardised float32 unless they are raw) and class codes or numbers."""

    X: Any
    y: Any
    X_test: Any
    y_test: Any

    @property
    def shape(self) -> Shape:
        """Sizes of the task."""
        n_classes = int(self.y.max()) + 1 if self.y.dtype.kind in "iu" else 0
        return Shape(len(self.X), self.X.shape[1], n_classes)


def budgets_of(name: str) -> tuple[int, ...]:
    """Budgets in bytes."""
    if name in SMALL or name in REGRESSION:
        return SMALL_BUDGETS
    if name in MORE_ROWS:
        return LARGE_BUDGETS[-1:]
    return LARGE_BUDGETS if name in LARGE else BUDGETS


def seeds_of(name: str) -> range:
    """Seeds of the model, and of the split or the drawing if there is no official test set."""
    if name in SMALL or name in REGRESSION:
        return range(10)
    return range(5) if name in MEDIUM else range(3)


def kind_of_test(name: str) -> str:
    """What the seeds are tested on.

    ``"official"``: an official test set, the same rows for all. ``"splits"``: random splits of the
    same rows. ``"samples"``: splits of samples of a much larger set, which share few rows.
    ``"draws"``: rows drawn from a formula for every seed.
    """
    if name.startswith("friedman"):
        return "draws"
    if _whole(name).X_test is not None:
        return "official"
    return "samples" if MORE_ROWS.get(name, (name,))[0] in LARGE else "splits"


def has_test_set(name: str) -> bool:
    """Whether all seeds share an official test set."""
    return kind_of_test(name) == "official"


@lru_cache(maxsize=2)
def split(name: str, seed: int) -> Split:
    """Training and test rows of a seed; official splits do not depend on it."""
    if name in REGRESSION:
        return _numbers(name, seed)
    raw = raw_split(name, seed)
    return _standardised(name, raw.X, raw.y, raw.X_test, raw.y_test)


def raw_split(name: str, seed: int) -> Split:
    """The rows of a classification task before they are standardised."""
    data = _whole(name)
    most = MORE_ROWS[name][1] if name in MORE_ROWS else MOST_ROWS
    codes = np.unique(data.y, return_inverse=True)[1]
    X = _one_hot(data.X) if name in _CATEGORICAL else data.X
    if data.X_test is not None:
        rows = subsample(codes, most, 0)
        test = np.searchsorted(np.unique(data.y), data.y_test)
        return Split(X[rows], codes[rows], data.X_test, test)
    share = 0.3
    if len(X) > 2 * MOST_ROWS:
        rows = subsample(codes, most + MOST_ROWS, seed)
        X, codes = X[rows], codes[rows]
        share = MOST_ROWS / (most + MOST_ROWS)
    shuffle = StratifiedShuffleSplit(1, test_size=share, random_state=seed)
    train, test = next(shuffle.split(X, codes))
    return Split(X[train], codes[train], X[test], codes[test])


def _numbers(name: str, seed: int) -> Split:
    """Rows with numbers; the targets have mean 0 and deviation 1 on the training rows."""
    if kind_of_test(name) == "draws":
        X, y = _drawn(name, seed)
        parts = X[:DRAWN_ROWS], X[DRAWN_ROWS:], y[:DRAWN_ROWS], y[DRAWN_ROWS:]
    else:
        data = _whole(name)
        parts = train_test_split(data.X, data.y, test_size=0.3, random_state=seed)
    X, X_test, y, y_test = parts
    y, y_test = (((of - y.mean()) / y.std()).astype(np.float32) for of in (y, y_test))
    return _standardised(name, X, y, X_test, y_test)


def _drawn(name: str, seed: int) -> tuple[Any, Any]:
    """Friedman's regression problems; the noise is a third of the deviation of the targets."""
    make = getattr(datasets, f"make_{name}")
    X, y = make(DRAWN_ROWS + DRAWN_TEST_ROWS, noise=0.0, random_state=seed)
    noise = np.random.RandomState(10_000 + seed).standard_normal(len(y))
    return X, y + y.std() / 3 * noise


def folds(name: str, data: Split) -> list[tuple[Any, Any]]:
    """Training and held-out rows to score settings, the same for every competitor."""
    if name in REGRESSION:
        return list(KFold(N_FOLDS, shuffle=True, random_state=0).split(data.X))
    if name in SMALL:
        return list(StratifiedKFold(N_FOLDS, shuffle=True, random_state=0).split(data.X, data.y))
    shuffle = StratifiedShuffleSplit(1, test_size=0.2, random_state=0)
    train, check = next(shuffle.split(data.X, data.y))
    train = train[subsample(data.y[train], TUNING_ROWS, 0)]
    check = check[subsample(data.y[check], CHECKING_ROWS, 0)]
    return [(train, check)]


def final_folds(name: str, data: Split) -> list[tuple[Any, Any]]:
    """Folds to score the best settings again: every row is held out at least once."""
    if name in REGRESSION:
        repeated = RepeatedKFold(n_splits=N_FOLDS, n_repeats=N_REPEATS, random_state=1)
        return list(repeated.split(data.X))
    if name in SMALL:
        stratified = RepeatedStratifiedKFold(n_splits=N_FOLDS, n_repeats=N_REPEATS, random_state=1)
        return list(stratified.split(data.X, data.y))
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


@lru_cache(maxsize=2)
def _whole(name: str) -> Dataset:
    """All rows of a set, of scikit-learn's own or of the catalog."""
    if name in MORE_ROWS:
        return _whole(MORE_ROWS[name][0])
    if name in _INSTALLED:
        X, y = getattr(datasets, f"load_{name}")(return_X_y=True)
        return Dataset(name, X, y)
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


@cache
def facts_of(name: str) -> dict[str, Any]:
    """Sizes and kind of split of a data set."""
    data, kind = split(name, 0), kind_of_test(name)
    used = data.shape.n_rows + (0 if kind == "official" else len(data.y_test))
    return {
        "task": "regression" if name in REGRESSION else "classification",
        "rows": data.shape.n_rows,
        "features": data.shape.n_features,
        "classes": data.shape.n_classes,
        "is_sample": kind != "draws" and len(_whole(name).X) > used,
        "test_rows": len(data.y_test),
        "test": kind,
        "seeds": len(seeds_of(name)),
    }
