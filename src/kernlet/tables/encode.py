"""Columns of a table as numbers, and whether to standardise them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from kernlet._typing import Floats
from kernlet.affine import AffineMap, has_unlike_columns

MAX_CATEGORIES = 200
MISSING = "(missing)"
_MAX_NUMBER = 1e30  # the square of a larger one overflows float32


@dataclass(frozen=True)
class NumberColumn:
    """A column of numbers; missing ones are replaced by ``fill``, the median."""

    name: str
    fill: float

    @property
    def features(self) -> tuple[str, ...]:
        """Names of the features that it becomes."""
        return (self.name,)

    def encoded(self, values: Any) -> Floats:
        """One column of numbers."""
        numbers = as_numbers(values, self.name)
        return np.where(np.isnan(numbers), self.fill, numbers)[:, None]


@dataclass(frozen=True)
class CategoryColumn:
    """A column of categories, one-hot encoded.

    A category that did not occur in training is 0 everywhere. Missing cells are a category where
    training had some.
    """

    name: str
    categories: tuple[str, ...]
    has_missing: bool

    @property
    def features(self) -> tuple[str, ...]:
        """Names of the features that it becomes."""
        all_names = (*self.categories, MISSING) if self.has_missing else self.categories
        return tuple(f"{self.name}={category}" for category in all_names)

    def encoded(self, values: Any) -> Floats:
        """One column of 0 and 1 per category."""
        texts, codes = distinct_texts(values)
        index: dict[str | None, int] = {category: i for i, category in enumerate(self.categories)}
        if self.has_missing:
            index[None] = len(self.categories)
        # encode each distinct text once, then repeat its row for every cell
        one_hot = np.zeros((len(texts), len(self.features)), dtype=np.float32)
        for row, text in enumerate(texts):
            if text in index:
                one_hot[row, index[text]] = 1.0
        return one_hot[codes]


@dataclass(frozen=True)
class ColumnEncoding:
    """How the columns of a table become rows of numbers."""

    columns: tuple[Any, ...]  # NumberColumn, CategoryColumn or DateColumn

    @classmethod
    def learned(cls, table: Any) -> ColumnEncoding:
        """Learn medians of numbers, and the categories of texts and booleans.

        A table is a dict of columns, or a pandas, polars or Arrow table.
        """
        return cls(tuple(_learned_column(n, _cells(table, n)) for n in _column_names(table)))

    @property
    def names(self) -> tuple[str, ...]:
        """The columns that a table must have."""
        return tuple(column.name for column in self.columns)

    @property
    def feature_names(self) -> tuple[str, ...]:
        """Names of the features that a row becomes, in their order."""
        return tuple(name for column in self.columns for name in column.features)

    @property
    def is_category(self) -> Any:
        """Which of the features are 0 or 1."""
        kinds = [isinstance(c, CategoryColumn) for c in self.columns for _ in c.features]
        return np.array(kinds, dtype=bool)

    def transform(self, table: Any) -> Floats:
        """Rows of float32 from a table that has the columns of the encoding, and maybe others."""
        available = set(_column_names(table))
        missing = [name for name in self.names if name not in available]
        if missing:
            raise ValueError(
                f"The table lacks {listed(missing)}; the machine was trained on "
                f"{listed(self.names)}."
            )
        blocks = [column.encoded(_cells(table, column.name)) for column in self.columns]
        X = np.empty((len(blocks[0]), len(self.feature_names)), dtype=np.float32)
        with np.errstate(over="ignore"):
            np.concatenate(blocks, axis=1, out=X, casting="same_kind")
        return X


def as_numbers(values: Any, name: str) -> Floats:
    """A column as float64, NaN where a value is missing; errors name the row, counted from 1."""
    values = np.asarray(values)
    if values.dtype.kind in "iufb":
        numbers = values.astype(np.float64)
    else:
        numbers = np.array([_number(v, row, name) for row, v in enumerate(values)], dtype=float)
    wrong = np.flatnonzero(np.abs(np.nan_to_num(numbers, posinf=np.inf)) > _MAX_NUMBER)
    if len(wrong):
        raise ValueError(f"Row {wrong[0] + 1}, column {name!r}: {numbers[wrong[0]]} is too large.")
    return numbers


def _number(value: Any, row: int, name: str) -> float:
    if _is_missing(value):
        return np.nan
    try:
        return float(value)
    except (TypeError, ValueError):
        raise ValueError(
            f"Row {row + 1}, column {name!r}: {str(value)[:40]!r} is not a number."
        ) from None


def _is_missing(value: Any) -> bool:
    return value is None or (isinstance(value, float | np.floating) and value != value)


def _category(value: Any) -> str | None:
    """The text of a cell; 10.0 is 10, because a missing cell elsewhere makes integers floats."""
    if _is_missing(value):
        return None
    if isinstance(value, float | np.floating) and float(value).is_integer():
        return str(int(value))
    return str(value)


def distinct_texts(values: Any) -> tuple[Sequence[str | None], Any]:
    """The distinct texts of a column, None for missing cells, and the index of each cell's text."""
    if not hasattr(values, "dictionary_encode"):
        index: dict[str | None, int] = {}
        codes = [index.setdefault(_category(value), len(index)) for value in values]
        return list(index), np.array(codes, dtype=np.intp)
    # Arrow finds the distinct cells itself, without a Python object for each cell
    try:
        encoded = values.dictionary_encode()
    except NotImplementedError:  # lists and the like
        return distinct_texts(values.to_pylist())
    if hasattr(encoded, "chunks"):
        encoded = encoded.unify_dictionaries().combine_chunks()
    texts = [_category(value) for value in encoded.dictionary.to_pylist()]
    codes = encoded.indices.fill_null(len(texts)).to_numpy(zero_copy_only=False)
    return [*texts, None], codes.astype(np.intp)


def _learned_column(name: str, values: Any) -> NumberColumn | CategoryColumn:
    if not _holds_numbers(values):
        texts, codes = distinct_texts(values)
        return learned_categories(name, [texts[code] for code in np.unique(codes)], len(codes))
    numbers = as_numbers(values, name)
    known = numbers[~np.isnan(numbers)]
    if not len(known):
        raise ValueError(f"Column {name!r} is empty: leave it out.")
    return NumberColumn(name, float(np.median(known)))


def learned_categories(name: str, texts: Iterable[str | None], n_rows: int) -> CategoryColumn:
    """Categories of a column from its distinct texts, None among them for missing cells."""
    categories = tuple(sorted({text for text in texts if text is not None}))
    if len(categories) > MAX_CATEGORIES:
        raise ValueError(
            f"Column {name!r} has {len(categories)} different texts in {n_rows:,} rows, more than "
            f"{MAX_CATEGORIES}: leave it out (--drop {name}), or group them."
        )
    return CategoryColumn(name, categories, None in texts)


def _holds_numbers(values: Any) -> bool:
    """Whether no cell is a text or a boolean; an empty column counts as numbers."""
    values = np.asarray(values)
    if values.dtype.kind != "O":
        return values.dtype.kind in "iuf"
    kinds = int | float | np.integer | np.floating
    return all(v is None or (isinstance(v, kinds) and not isinstance(v, bool)) for v in values)


def _column_names(table: Any) -> Sequence[str]:
    names = getattr(table, "column_names", None) or getattr(table, "columns", None)
    if names is None and not isinstance(table, Mapping):
        raise TypeError(
            "The machine takes a table with named columns, such as a pandas frame or a dict of "
            f"columns, not {type(table).__name__}."
        )
    return list(table) if names is None else list(names)


def _cells(table: Any, name: str) -> Any:
    """A column as an Arrow or NumPy array."""
    values = table[name]
    if isinstance(values, list | tuple):  # None stays None, and numbers stay apart from texts
        cells = np.empty(len(values), dtype=object)
        cells[:] = values
        return cells
    return values if hasattr(values, "dictionary_encode") else np.asarray(values)


def listed(names: Sequence[str]) -> str:
    """The first names, for an error message."""
    shown = ", ".join(repr(name) for name in names[:5])
    return shown if len(names) <= 5 else f"{shown} and {len(names) - 5} more columns"


def choose_scaler(X: Any, scale: str, is_category: Any = None) -> tuple[AffineMap | None, str]:
    """The shift and scale of the number columns, and a sentence about it.

    "auto" standardises only columns of unlike range; pixels stay as they are. Categories stay
    0 and 1.
    """
    is_number = np.ones(X.shape[1], dtype=bool) if is_category is None else ~is_category
    if scale == "none" or not is_number.any():
        return None, "none"
    if scale == "auto":
        # beside categories, whose range is 1, numbers of a larger range would outweigh them
        outweigh = not is_number.all() and np.ptp(X, axis=0).max() > 1
        if not (outweigh or has_unlike_columns(X)):
            return None, "none: the columns are of like range"
    shift, factor = np.zeros(X.shape[1]), np.ones(X.shape[1])
    columns = np.flatnonzero(is_number)
    shift[columns] = X[:, columns].mean(axis=0, dtype=np.float64)
    deviation = X[:, columns].std(axis=0, dtype=np.float64)
    # the deviation of a constant column is round-off: dividing by it would blow that up
    constant = deviation <= 1e-12 * np.abs(shift[columns])
    factor[columns] = 1 / np.where(constant | (deviation == 0), 1.0, deviation)
    kept = " (categories stay 0 and 1)" if not is_number.all() else ""
    return AffineMap(shift, factor), f"numbers to mean 0 and deviation 1{kept}"
