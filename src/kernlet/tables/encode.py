"""Columns of a table as numbers, and whether to standardise them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from kernlet._typing import Floats
from kernlet.affine import AffineMap

MOST_CATEGORIES = 200
MISSING = "(missing)"


@dataclass(frozen=True)
class NumberColumn:
    """A column of numbers; a missing one is taken as ``fill``.

    Parameters
    ----------
    name : str
    fill : float
    """

    name: str
    fill: float

    @property
    def features(self) -> tuple[str, ...]:
        """Names of the numbers that it becomes."""
        return (self.name,)

    def encoded(self, values: Any) -> Floats:
        """One column of numbers."""
        numbers = as_numbers(values, self.name)
        return np.where(np.isnan(numbers), self.fill, numbers)[:, None]


@dataclass(frozen=True)
class CategoryColumn:
    """A column of categories: one number for each, 1 where it applies and 0 elsewhere.

    A category that was not there in training is 0 everywhere. Missing values are a category
    of their own where there were some in training.

    Parameters
    ----------
    name : str
    categories : tuple of str
    has_missing : bool
    """

    name: str
    categories: tuple[str, ...]
    has_missing: bool

    @property
    def features(self) -> tuple[str, ...]:
        """Names of the numbers that it becomes."""
        all_names = (*self.categories, MISSING) if self.has_missing else self.categories
        return tuple(f"{self.name}={category}" for category in all_names)

    def encoded(self, values: Any) -> Floats:
        """One column of 0 and 1 for each category."""
        number = {category: i for i, category in enumerate(self.categories)}
        X = np.zeros((len(values), len(self.features)), dtype=np.float32)
        for row, value in enumerate(values):
            place = self._place(value, number)
            if place is not None:
                X[row, place] = 1.0
        return X

    def _place(self, value: Any, number: dict[str, int]) -> int | None:
        if _is_missing(value):
            return len(self.categories) if self.has_missing else None
        return number.get(category_text(value))


@dataclass(frozen=True)
class ColumnEncoding:
    """How the columns of a table become rows of numbers.

    Parameters
    ----------
    columns : tuple of NumberColumn or CategoryColumn

    Examples
    --------
    >>> from kernlet.tables.encode import ColumnEncoding
    >>> table = {"size": [1.0, None, 3.0], "color": ["red", "blue", "red"]}
    >>> encoding = ColumnEncoding.learned(table)
    >>> encoding.feature_names
    ('size', 'color=blue', 'color=red')
    >>> encoding.transform({"size": [None], "color": ["green"]})
    array([[2., 0., 0.]], dtype=float32)
    """

    columns: tuple[NumberColumn | CategoryColumn, ...]

    @classmethod
    def learned(cls, table: Mapping[str, Any]) -> ColumnEncoding:
        """The rule for a table: medians of numbers, and the categories that occur.

        Parameters
        ----------
        table : mapping of str to array-like
            Columns of equal length; those of texts and booleans are categories.

        Returns
        -------
        encoding : ColumnEncoding
        """
        return cls(tuple(_learned_column(name, _values(table, name)) for name in table))

    @property
    def names(self) -> tuple[str, ...]:
        """The columns that a table must have."""
        return tuple(column.name for column in self.columns)

    @property
    def feature_names(self) -> tuple[str, ...]:
        """Names of the numbers that a row becomes, in their order."""
        return tuple(name for column in self.columns for name in column.features)

    @property
    def is_category(self) -> Any:
        """Which of these numbers are 0 or 1."""
        kinds = [isinstance(c, CategoryColumn) for c in self.columns for _ in c.features]
        return np.array(kinds, dtype=bool)

    def transform(self, table: Any) -> Floats:
        """Rows of numbers.

        Parameters
        ----------
        table : mapping of str to array-like, or a pandas, polars or Arrow table
            With the columns of the rule; others are not looked at.

        Returns
        -------
        X : ndarray of shape (n_rows, n_features), float32
        """
        have = set(_column_names(table))
        missing = [name for name in self.names if name not in have]
        if missing:
            raise ValueError(
                f"The table lacks {_listed(missing)}; the machine was trained on "
                f"{_listed(self.names)}."
            )
        parts = [column.encoded(_values(table, column.name)) for column in self.columns]
        X = np.empty((len(parts[0]), len(self.feature_names)), dtype=np.float32)
        with np.errstate(over="ignore"):
            np.concatenate(parts, axis=1, out=X, casting="same_kind")
        return X


def as_numbers(values: Any, name: str) -> Floats:
    """A column as float64, NaN where a value is missing.

    Raises
    ------
    ValueError
        With the first row that is no finite number; rows count from 1.

    Examples
    --------
    >>> from kernlet.tables.encode import as_numbers
    >>> as_numbers(["1.5", None], "size")
    array([1.5, nan])
    """
    values = np.asarray(values)
    if values.dtype.kind in "iufb":
        numbers = values.astype(np.float64)
    else:
        numbers = np.array([_number(v, row, name) for row, v in enumerate(values)], dtype=float)
    wrong = np.flatnonzero(np.abs(np.nan_to_num(numbers, posinf=np.inf)) > 1e30)
    if len(wrong):
        raise ValueError(
            f"Row {wrong[0] + 1}, column {name!r}: {numbers[wrong[0]]} is too large a number."
        )
    return numbers


def _number(value: Any, row: int, name: str) -> float:
    if _is_missing(value):
        return np.nan
    try:
        return float(value)
    except (TypeError, ValueError):
        raise ValueError(
            f"Row {row + 1}, column {name!r}: {str(value)[:40]!r} is no number."
        ) from None


def category_text(value: Any) -> str:
    """The name of a category: whole numbers have no decimals, as a gap elsewhere gives them.

    Examples
    --------
    >>> from kernlet.tables.encode import category_text
    >>> category_text(10.0), category_text(10), category_text("10.0")
    ('10', '10', '10.0')
    """
    if isinstance(value, float | np.floating) and float(value).is_integer():
        return str(int(value))
    return str(value)


def _is_missing(value: Any) -> bool:
    return value is None or (isinstance(value, float) and value != value)


def _learned_column(name: str, values: Any) -> NumberColumn | CategoryColumn:
    values = np.asarray(values)
    if values.dtype.kind not in "iuf" and not _all_numbers(values):
        return _learned_categories(name, values)
    numbers = as_numbers(values, name)
    known = numbers[~np.isnan(numbers)]
    if not len(known):
        raise ValueError(f"Column {name!r} is empty: leave it out.")
    return NumberColumn(name, float(np.median(known)))


def _all_numbers(values: Any) -> bool:
    kinds = int | float | np.integer | np.floating
    return values.dtype.kind == "O" and all(
        v is None or (isinstance(v, kinds) and not isinstance(v, bool)) for v in values
    )


def _learned_categories(name: str, values: Any) -> CategoryColumn:
    counts = Counter(category_text(value) for value in values if not _is_missing(value))
    has_missing = sum(counts.values()) < len(values)
    if len(counts) > MOST_CATEGORIES:
        raise ValueError(
            f"Column {name!r} has {len(counts)} different texts, more than {MOST_CATEGORIES}: "
            "leave it out, or group them."
        )
    return CategoryColumn(name, tuple(sorted(counts)), has_missing)


def _column_names(table: Any) -> Sequence[str]:
    names = getattr(table, "column_names", None) or getattr(table, "columns", None)
    if names is None and not isinstance(table, Mapping):
        raise TypeError(
            "The machine takes a table with named columns, such as a pandas frame or a dict of "
            f"columns, not {type(table).__name__}."
        )
    return list(table) if names is None else list(names)


def _values(table: Any, name: str) -> Any:
    values = table[name]
    if isinstance(values, list | tuple):  # None stays None, and numbers stay apart from texts
        made = np.empty(len(values), dtype=object)
        made[:] = values
        return made
    return np.asarray(values)


def _listed(names: Sequence[str]) -> str:
    some = ", ".join(repr(name) for name in names[:5])
    return some if len(names) <= 5 else f"{some} and {len(names) - 5} more columns"


_UNLIKE = 4.0  # largest range over that of a column near the lower quarter


def choose_scaler(X: Any, scale: str, is_category: Any = None) -> tuple[AffineMap | None, str]:
    """A shift and a scale for every column of numbers, where that is wanted.

    "auto" leaves columns as they are where the ranges of three quarters of them are within a
    factor of four, as pixels are. Categories stay 0 and 1.

    Parameters
    ----------
    X : ndarray of shape (n_rows, n_features)
    scale : {"auto", "standard", "none"}
    is_category : ndarray of bool of shape (n_features,) or None

    Returns
    -------
    scaler : AffineMap or None
    words : str
        What was done.

    Examples
    --------
    >>> import numpy as np
    >>> from kernlet.tables.encode import choose_scaler
    >>> choose_scaler(np.array([[0.0, 0.0], [1.0, 1.0]]), "auto")
    (None, 'none: the columns are of like range')
    """
    numbers = np.ones(X.shape[1], dtype=bool) if is_category is None else ~is_category
    if scale == "none" or not numbers.any():
        return None, "none"
    if scale == "auto" and not _are_unlike(X, numbers):
        return None, "none: the columns are of like range"
    shift, factor = np.zeros(X.shape[1]), np.ones(X.shape[1])
    columns = np.flatnonzero(numbers)
    shift[columns] = X[:, columns].mean(axis=0, dtype=np.float64)
    deviation = X[:, columns].std(axis=0, dtype=np.float64)
    constant = deviation <= 1e-12 * np.abs(shift[columns])
    factor[columns] = 1 / np.where(constant | (deviation == 0), 1.0, deviation)
    kept = " (categories stay 0 and 1)" if not numbers.all() else ""
    return AffineMap(shift, factor), f"numbers to mean 0 and deviation 1{kept}"


def _are_unlike(X: Any, numbers: Any) -> bool:
    ranges = np.ptp(X, axis=0).astype(np.float64)
    ranges = ranges[ranges > 0]
    if not numbers.all() and len(ranges) and ranges.max() > 1:
        return True
    return bool(len(ranges)) and ranges.max() > _UNLIKE * np.quantile(ranges, 0.25)
