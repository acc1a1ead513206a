"""Data sets from OpenML, in the rows and codes of the local files as far as they allow.

Each conversion is a function of two arrays, the features and the target as
`sklearn.datasets.fetch_openml` gives them, so that it can be tested without a network.
No copy on OpenML was compared with a local file row by row.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from string import ascii_lowercase, ascii_uppercase
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import fetch_covtype, fetch_openml

from kernlet.datasets.catalog import Entry, count_classes
from kernlet.datasets.dataset import Dataset, Labels, Rows

Codes = dict[str, float]
Conversion = Callable[[Rows, Rows], tuple[Rows, Labels]]

BOARD_CODES: Codes = {"x": 1, "o": -1, "b": 0}
LETTER_CODES: Codes = {letter: code for code, letter in enumerate(ascii_lowercase)}
CAPITAL_CODES: Codes = {letter: code for code, letter in enumerate(ascii_uppercase)}
MISSING_LETTER = 26.0

HEART_CODES: dict[int, Codes] = {
    1: {"female": 0, "male": 1},
    2: {"typ_angina": 1, "atyp_angina": 2, "non_anginal": 3, "asympt": 4},
    5: {"f": 0, "t": 1},
    6: {"normal": 0, "st_t_wave_abnormality": 1, "left_vent_hyper": 2},
    8: {"no": 0, "yes": 1},
    10: {"up": 1, "flat": 2, "down": 3},
    12: {"normal": 3, "fixed_defect": 6, "reversable_defect": 7},
}
HEART_LABELS: Codes = {"<50": 0, ">50_1": 1, ">50_2": 1, ">50_3": 1, ">50_4": 1}


def fetch(entry: Entry, data_home: Any = None) -> Dataset:
    """Download a set, or take it from scikit-learn's cache.

    Parameters
    ----------
    entry : Entry
        Of a set that is online.
    data_home : str, path-like or None, default=None
        Folder of the cache; None for scikit-learn's own.

    Returns
    -------
    dataset : Dataset
    """
    if entry.openml_id is None:
        bunch = fetch_covtype(data_home=data_home)
    else:
        bunch = fetch_openml(
            data_id=entry.openml_id, data_home=data_home, as_frame=False, parser="auto"
        )
    convert = CONVERSIONS.get(entry.name, numbers)
    return arrange(entry, *convert(np.asarray(bunch.data), np.asarray(bunch.target)))


def arrange(entry: Entry, X: Rows, y: Labels) -> Dataset:
    """Cut off the official test part, if the rows come in the official order.

    They do if the training part at the front has the class counts of the catalog. If not,
    all rows stay together: a split of another order would not be the official one.

    Parameters
    ----------
    entry : Entry
    X, y : ndarray
        All rows, converted.

    Returns
    -------
    dataset : Dataset
    """
    X, n = X.astype(entry.dtype), entry.n_rows
    complete = len(X) == n + entry.n_test
    if entry.n_test and complete and count_classes(y[:n]) == entry.class_counts:
        return Dataset(entry.name, X[:n], y[:n], X[n:], y[n:])
    return Dataset(entry.name, X, y)


def coded(values: Rows, codes: Codes, missing: float = np.nan) -> NDArray[np.float64]:
    """Numbers for categories; whatever is not a string is missing.

    Examples
    --------
    >>> import numpy as np
    >>> from kernlet.datasets.openml import BOARD_CODES, coded
    >>> coded(np.array(["x", "b", None]), BOARD_CODES, missing=9)
    array([1., 0., 9.])
    """
    strings = [value for value in values.flat if isinstance(value, str)]
    unknown = sorted(set(strings) - set(codes))
    if unknown:
        raise ValueError(
            f"OpenML gives {', '.join(map(repr, unknown))} where one of {', '.join(codes)} "
            "was expected; its copy has changed."
        )
    numbers = [codes[value] if isinstance(value, str) else missing for value in values.flat]
    return np.array(numbers, dtype=float).reshape(values.shape)


def numbers(X: Rows, target: Rows) -> tuple[Rows, Labels]:
    """Features as they are, labels such as '3' or '3.' as whole numbers."""
    return X, target.astype(float).astype(np.int64)


def named_classes(X: Rows, target: Rows, codes: Codes) -> tuple[Rows, Labels]:
    """Features as they are, labels from names."""
    return X, coded(target, codes).astype(np.int64)


def usps(X: Rows, target: Rows) -> tuple[Rows, Labels]:
    """Pixels from [-1, 1] to [0, 1], labels from 1..10 to the digits 0..9."""
    X, y = numbers(X, target)
    return (X + 1.0) / 2.0, y - 1


def tictactoe(X: Rows, target: Rows) -> tuple[Rows, Labels]:
    """Fields of the board as 1, -1 and 0."""
    return named_classes(coded(X, BOARD_CODES), target, {"negative": 0, "positive": 1})


def mushroom(X: Rows, target: Rows) -> tuple[Rows, Labels]:
    """Letters as 0..25, missing ones as 26."""
    return named_classes(coded(X, LETTER_CODES, MISSING_LETTER), target, {"e": 0, "p": 1})


def breastw_all(X: Rows, target: Rows) -> tuple[Rows, Labels]:
    """All rows, missing values as -1."""
    X, y = named_classes(X.astype(float), target, {"benign": 2, "malignant": 4})
    return np.where(np.isnan(X), -1.0, X), y


def breastw(X: Rows, target: Rows) -> tuple[Rows, Labels]:
    """Rows without missing values."""
    return _complete(*named_classes(X.astype(float), target, {"benign": 2, "malignant": 4}))


def cleveland(X: Rows, target: Rows) -> tuple[Rows, Labels]:
    """Rows without missing values, categories by the numbers of the original file."""
    columns = [
        coded(X[:, j], HEART_CODES[j]) if j in HEART_CODES else X[:, j].astype(float)
        for j in range(X.shape[1])
    ]
    return _complete(*named_classes(np.column_stack(columns), target, HEART_LABELS))


def _complete(X: Rows, y: Labels) -> tuple[Rows, Labels]:
    keep = ~np.isnan(X).any(axis=1)
    return X[keep], y[keep]


# A set that is not named here holds numbers only.
CONVERSIONS: dict[str, Conversion] = {
    "usps": usps,
    "ionosphere": partial(named_classes, codes={"b": 0, "g": 1}),
    "cleveland": cleveland,
    "pima": partial(named_classes, codes={"tested_negative": 0, "tested_positive": 1}),
    "tictactoe": tictactoe,
    "mushroom": mushroom,
    "breastw": breastw,
    "breastw_699": breastw_all,
    "sonar": partial(named_classes, codes={"Rock": 0, "Mine": 1}),
    "letter": partial(named_classes, codes=CAPITAL_CODES),
}
