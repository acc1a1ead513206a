"""Columns of a table as numbers, and whether to standardise them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from kernlet._typing import Floats
from kernlet.affine import AffineMap, unlike_columns
from kernlet.devices import is_sparse

MAX_CATEGORIES = 200
MISSING, OTHER = "(missing)", "(other)"
#: Texts of cells that are equal for scikit-learn.
BOOLEANS = {"False": "0", "True": "1", "0": "False", "1": "True"}
_MAX_NUMBER = 1e30  # the square of a larger one overflows float32
#: Called with the name of a column that has no known category, and a sentence about it.
Note = Callable[[str, str], None]


@dataclass(frozen=True)
class NumberColumn:
    """A column of numbers; missing ones are replaced by ``fill``, or refused where it is None.

    With ``passes_missing`` they stay NaN, for a machine that takes missing features.
    """

    name: str
    fill: float | None
    passes_missing: bool = False

    @property
    def features(self) -> tuple[str, ...]:
        """Names of the features that it becomes."""
        return (self.name,)

    @property
    def rule(self) -> str:
        """What it becomes, for people who encode rows in another language."""
        fill = "never missing" if self.fill is None else f"{self.fill:g} where it is missing"
        fill = "NaN where it is missing" if self.passes_missing else fill
        return f"{self.name}: the number, {fill}."

    def encoded(self, values: Any, note: Note | None = None) -> Floats:
        """One column of numbers."""
        numbers = as_numbers(values, self.name)
        if self.passes_missing:
            return numbers[:, None]
        is_missing = np.isnan(numbers)
        if self.fill is None and is_missing.any():
            raise ValueError(
                f"Row {is_missing.argmax() + 1}, column {self.name!r}: the number is missing, and "
                "the model has no value for missing numbers, which a SimpleImputer would give it."
            )
        return np.where(is_missing, self.fill or 0.0, numbers)[:, None]


@dataclass(frozen=True)
class CategoryColumn:
    """A column of categories, one-hot encoded.

    A category that did not occur in training is 0 everywhere, unless ``unknown`` says otherwise.
    Missing cells are a category where ``has_missing`` says so, and unknown elsewhere.

    ``codes`` has the number of the feature of each category, and of missing cells last: several
    may share one, and those of -1 are 0 everywhere. Without codes each has its own. ``unknown`` is
    the number of the feature of all other cells: -1 for none, None where they are refused.
    """

    name: str
    categories: tuple[str, ...]
    has_missing: bool
    codes: tuple[int, ...] = ()
    unknown: int | None = -1

    @property
    def index(self) -> dict[str | None, int]:
        """The feature of each text, and of missing cells (None) where they are a category."""
        texts: tuple[str | None, ...] = self.categories
        texts = (*texts, None) if self.has_missing else texts
        return dict(zip(texts, self.codes or range(len(texts)), strict=True))

    @property
    def features(self) -> tuple[str, ...]:
        """Names of the features that it becomes."""
        index = self.index
        n_features = 1 + max(-1 if self.unknown is None else self.unknown, *index.values(), -1)
        members: list[list[str]] = [[] for _ in range(n_features)]
        for text, code in index.items():
            if code >= 0 and text is not None and BOOLEANS.get(text) not in members[code]:
                members[code].append(text)
        missing = index.get(None, -1)
        if self.unknown is not None and self.unknown >= 0:
            members[self.unknown] = []
        labels = [texts[0] if len(texts) == 1 else OTHER for texts in members]
        if missing >= 0 and not members[missing] and missing != self.unknown:
            labels[missing] = MISSING
        return tuple(f"{self.name}={label}" for label in labels)

    @property
    def rule(self) -> str:
        """What it becomes, for people who encode rows in another language."""
        names = self.features
        members: dict[int, list[str]] = {}
        for text, code in self.index.items():
            members.setdefault(code, []).append("a missing cell" if text is None else text)
        parts = [
            f"{names[code]} is 1 for {', '.join(texts)}"
            for code, texts in sorted(members.items())
            if code >= 0
        ]
        others = "0 in all of these"
        if self.unknown is None or self.unknown >= 0:
            others = "refused" if self.unknown is None else f"1 in {names[self.unknown]}"
        return f"{self.name}: {'; '.join(parts)}; 0 elsewhere. Other cells are {others}."

    def encoded(self, values: Any, note: Note | None = None) -> Floats:
        """One column of 0 and 1 per category."""
        n_features = len(self.features)
        one_hot = np.zeros((n_features + 1, n_features), dtype=np.float32)  # a last row for -1
        np.fill_diagonal(one_hot, 1.0)
        codes = _looked_up(values, self, note)
        return one_hot[codes.astype(np.intp)]


@dataclass(frozen=True)
class OrdinalColumn:
    """A column of categories as one number: the one of ``values`` for each of ``categories``.

    ``missing`` is the number of missing cells, ``unknown`` of other texts; None refuses them.
    """

    name: str
    categories: tuple[str, ...]
    values: tuple[float, ...]
    missing: float | None = None
    unknown: float | None = None

    @property
    def index(self) -> dict[str | None, float]:
        """The number of each text, and of missing cells (None) where they have one."""
        index: dict[str | None, float] = dict(zip(self.categories, self.values, strict=True))
        return index if self.missing is None else index | {None: self.missing}

    @property
    def features(self) -> tuple[str, ...]:
        """Names of the features that it becomes."""
        return (self.name,)

    @property
    def rule(self) -> str:
        """What it becomes, for people who encode rows in another language."""
        cells = [*self.categories, "a missing cell", "any other text"]
        numbers = [*self.values, self.missing, self.unknown]
        pairs = zip(cells, numbers, strict=True)
        parts = [f"{cell} is {number:g}" for cell, number in pairs if number is not None]
        return f"{self.name}: {', '.join(parts)}."

    def encoded(self, values: Any, note: Note | None = None) -> Floats:
        """One column of numbers."""
        return _looked_up(values, self, note).astype(np.float64)[:, None]


def _looked_up(values: Any, column: CategoryColumn | OrdinalColumn, note: Note | None) -> Any:
    """What the column's index has for each cell, or its ``unknown``; None refuses the cell."""
    from kernlet.tables.spelling import find_categories  # late: regular expressions and decimals

    texts, codes = distinct_texts(values)
    # look each distinct text up once, then repeat it for every cell
    found = find_categories(texts, column.index)
    entries = [entry if is_known else column.unknown for entry, is_known in found]
    refused = np.array([entry is None for entry in entries], dtype=bool)[codes]
    if refused.any():
        row = int(refused.argmax())
        text = texts[codes[row]]
        what = "the cell is missing" if text is None else f"{text[:40]!r} is an unknown category"
        raise ValueError(
            f"Row {row + 1}, column {column.name!r}: {what}, and the encoder of the model refuses "
            'such cells: fit it with handle_unknown="ignore", or correct the cell.'
        )
    if note is not None and column.categories:
        used = np.flatnonzero(np.bincount(codes, minlength=len(texts)))
        given = {texts[code]: found[code][1] for code in used.tolist()}
        given.pop(None, None)
        if given and not any(given.values()):
            note(column.name, _unknown_column(column, list(given)))
    known = [0 if entry is None else entry for entry in entries]
    return np.array(known)[codes]


def _unknown_column(column: CategoryColumn | OrdinalColumn, texts: Sequence[Any]) -> str:
    return (
        f"No value of column {column.name!r} occurred in the training: it has {_some(texts)}, and "
        f"the training had {_some(column.categories)}. All its cells count as unknown categories."
    )


def _some(texts: Sequence[str]) -> str:
    """A few texts, as examples."""
    shown = ", ".join(repr(text[:40]) for text in texts[:3])
    return f"{shown} and {len(texts) - 3} more" if len(texts) > 3 else shown


@dataclass(frozen=True)
class ColumnEncoding:
    """How the columns of a table become rows of numbers.

    ``positions`` are the places of the columns in an array of ``n_columns`` columns, where they
    are known: arrays are taken by these. Without ``has_names`` the model was trained on an array,
    and tables that lack the names of the columns are taken by their places too.
    """

    columns: tuple[Any, ...]  # NumberColumn, CategoryColumn, OrdinalColumn or DateColumn
    positions: tuple[int, ...] = ()
    n_columns: int = 0
    has_names: bool = True

    @classmethod
    def learned(cls, table: Any) -> ColumnEncoding:
        """Learn medians of numbers, and the categories of texts and booleans.

        A table is a dict of columns, or a pandas, polars or Arrow table.
        """
        return cls(tuple(_learned_column(n, _cells(table, n)) for n in column_names(table)))

    def passing_missing(self) -> ColumnEncoding:
        """The encoding that leaves missing numbers NaN, for a machine that takes them."""
        columns = [
            replace(column, fill=None, passes_missing=True)
            if isinstance(column, NumberColumn)
            else column
            for column in self.columns
        ]
        return replace(self, columns=tuple(columns))

    @property
    def names(self) -> tuple[str, ...]:
        """The columns that a table must have."""
        return tuple(dict.fromkeys(column.name for column in self.columns))

    @property
    def feature_names(self) -> tuple[str, ...]:
        """Names of the features that a row becomes, in their order."""
        return tuple(name for column in self.columns for name in column.features)

    @property
    def is_category(self) -> Any:
        """Which of the features are 0 or 1."""
        kinds = [isinstance(c, CategoryColumn) for c in self.columns for _ in c.features]
        return np.array(kinds, dtype=bool)

    def transform(self, table: Any, dtype: Any = np.float32, note: Note | None = None) -> Floats:
        """Rows of numbers from a table that has the columns of the encoding, and maybe others.

        ``note`` is called for each column that has no known category at all.
        """
        cells = self.column_cells(table)
        blocks = [column.encoded(cells(number), note) for number, column in enumerate(self.columns)]
        X = np.empty((len(blocks[0]), len(self.feature_names)), dtype=dtype)
        with np.errstate(over="ignore"):
            np.concatenate(blocks, axis=1, out=X, casting="same_kind")
        return X

    def column_cells(self, table: Any) -> Callable[[int], Any]:
        """The cells of a column of the encoding, by its number."""
        table = as_columns(table)
        if self.positions and not has_columns(table):
            table = table.tocsc() if is_sparse(table) else _as_array(table)
            self._require_width(table.shape[1])
            return lambda number: _array_column(table, self.positions[number])
        available = column_names(table)
        known = set(available)
        missing = [name for name in self.names if name not in known]
        if missing and not self.has_names:
            self._require_width(len(available))
            return lambda number: _cells(table, available[self.positions[number]])
        if missing:
            raise ValueError(
                f"The table lacks {listed(missing)}; the machine was trained on "
                f"{listed(self.names)}."
            )
        return lambda number: _cells(table, self.columns[number].name)

    def _require_width(self, n_columns: int) -> None:
        if n_columns != self.n_columns:
            raise ValueError(f"X has {n_columns} columns, but the model takes {self.n_columns}.")


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
    if is_missing(value):
        return np.nan
    try:
        return float(value)
    except (TypeError, ValueError):
        raise ValueError(
            f"Row {row + 1}, column {name!r}: {str(value)[:40]!r} is not a number."
        ) from None


def is_missing(value: Any) -> bool:
    """Whether a cell is None, NaN, NaT or pandas' NA."""
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return True
    if isinstance(value, np.datetime64 | np.timedelta64):
        return bool(np.isnat(value))
    return isinstance(value, float | np.floating) and value != value


def category_text(value: Any) -> str | None:
    """The text of a cell; 10.0 is 10, because a missing cell elsewhere makes integers floats."""
    if is_missing(value):
        return None
    if isinstance(value, float | np.floating) and float(value).is_integer():
        return str(int(value))
    if isinstance(value, bytes):
        return value.decode("utf-8", "backslashreplace")
    return str(value)


def distinct_texts(values: Any) -> tuple[Sequence[str | None], Any]:
    """The distinct texts of a column, None for missing cells, and the index of each cell's text."""
    if not hasattr(values, "dictionary_encode"):
        if isinstance(values, np.ndarray) and values.dtype.kind in "biuf":
            numbers, inverse = np.unique(values, return_inverse=True)
            return [category_text(number) for number in numbers], inverse
        if isinstance(values, np.ndarray) and values.dtype.kind in "mM":
            # as the dates and durations that Arrow and pandas' objects give
            microseconds = values.astype(f"{values.dtype.kind}8[us]")
            is_same = (microseconds == values) | np.isnat(values)
            values = microseconds.astype(object) if is_same.all() else values
        index: dict[str | None, int] = {}
        cells = (value if type(value) is str else category_text(value) for value in values)
        numbered = [index.setdefault(text, len(index)) for text in cells]
        return list(index), np.array(numbered, dtype=np.intp)
    if values.null_count == len(values):
        return [None], np.zeros(len(values), dtype=np.intp)
    # Arrow finds the distinct cells itself, without a Python object for each cell
    try:
        encoded = values.dictionary_encode()
        if hasattr(encoded, "chunks"):
            encoded = encoded.unify_dictionaries().combine_chunks()
    except NotImplementedError:  # lists, columns of nulls and the like
        return distinct_texts(values.to_pylist())
    texts = [category_text(value) for value in encoded.dictionary.to_pylist()]
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
    from kernlet.tables.spelling import one_spelling

    texts = set(texts)
    categories = {text for text in texts if text is not None}
    if len(categories) > MAX_CATEGORIES:
        raise ValueError(
            f"Column {name!r} has {len(categories)} different texts in {n_rows:,} rows, more than "
            f"{MAX_CATEGORIES}: leave it out (--drop {name}), or group them."
        )
    return CategoryColumn(name, tuple(sorted(one_spelling(categories))), None in texts)


def _holds_numbers(values: Any) -> bool:
    """Whether no cell is a text or a boolean; an empty column counts as numbers."""
    values = np.asarray(values)
    if values.dtype.kind != "O":
        return values.dtype.kind in "iuf"
    from decimal import Decimal

    kinds = int | float | np.integer | np.floating | Decimal
    return all(is_missing(v) or (isinstance(v, kinds) and not isinstance(v, bool)) for v in values)


def has_columns(table: Any) -> bool:
    """Whether cells are found by the name of their column: a frame or a dict of columns."""
    is_frame = any(hasattr(table, name) for name in ("column_names", "columns"))
    return is_frame or isinstance(table, Mapping)


def as_columns(table: Any) -> Any:
    """A list of dicts, one per row, as a dict of columns; anything else as it is."""
    is_list = isinstance(table, list | tuple) and len(table) > 0
    if not is_list or not all(isinstance(row, Mapping) for row in table):
        return table
    columns = {}
    for name in table[0]:
        lacking = next((number for number, row in enumerate(table) if name not in row), None)
        if lacking is not None:
            raise ValueError(
                f"Row {lacking + 1} lacks the column {name!r}, which the first row has: give None "
                "where a cell is missing."
            )
        columns[name] = [row[name] for row in table]
    return columns


def _as_array(rows: Any) -> Any:
    """Rows of an array or of lists, whose cells keep their types."""
    rows = rows if isinstance(rows, np.ndarray) else np.asarray(rows, dtype=object)
    if rows.ndim != 2:
        raise ValueError(f"X must be rows of a 2-d array, not of {rows.ndim} dimensions.")
    return rows


def _array_column(X: Any, position: int) -> Any:
    return X[:, [position]].toarray()[:, 0] if is_sparse(X) else X[:, position]


def column_names(table: Any) -> Sequence[str]:
    """The columns of a table."""
    names = getattr(table, "column_names", None)
    names = getattr(table, "columns", None) if names is None else names
    if not has_columns(table):
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
    n_more = len(names) - 5
    return f"{shown} and {n_more} more column{'s'[: n_more - 1]}" if n_more > 0 else shown


def choose_scaler(X: Any, scale: str, is_category: Any = None) -> tuple[AffineMap | None, str]:
    """The shift and scale of the number columns, and a sentence about it.

    "machine" leaves the scaling to a machine that does so by itself.
    "auto" standardises only columns of unlike range; pixels stay as they are. Categories stay
    0 and 1.
    """
    if scale == "machine":
        return None, "by the machine itself"
    is_number = np.ones(X.shape[1], dtype=bool) if is_category is None else ~is_category
    if scale == "none" or not is_number.any():
        return None, "none"
    if scale == "auto":
        # beside categories, whose range is 1, numbers of a larger range would outweigh them
        ranges = np.fmax.reduce(X, axis=0) - np.fmin.reduce(X, axis=0)  # without NaN
        outweigh = not is_number.all() and ranges.max() > 1
        if not (outweigh or unlike_columns(X)):
            return None, "none: the columns are of like range"
    shift, factor = np.zeros(X.shape[1]), np.ones(X.shape[1])
    columns = np.flatnonzero(is_number)
    # a plain mean where nothing is missing: nanmean adds in another order
    has_missing = bool(np.isnan(X).any())
    mean, std = (np.nanmean, np.nanstd) if has_missing else (np.mean, np.std)
    shift[columns] = mean(X[:, columns], axis=0, dtype=np.float64)
    deviation = std(X[:, columns], axis=0, dtype=np.float64)
    # the deviation of a constant column is round-off: dividing by it would blow that up
    constant = deviation <= 1e-12 * np.abs(shift[columns])
    factor[columns] = 1 / np.where(constant | (deviation == 0), 1.0, deviation)
    kept = " (categories stay 0 and 1)" if not is_number.all() else ""
    return AffineMap(shift, factor), f"numbers to mean 0 and deviation 1{kept}"
