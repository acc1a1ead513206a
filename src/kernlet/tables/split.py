"""From a table to training and test rows, in memory or block by block."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.model_selection import train_test_split

from kernlet.affine import AffineMap
from kernlet.console import say
from kernlet.rows.parquet import ParquetRows
from kernlet.rows.source import RowSubset
from kernlet.tables.encode import (
    MOST_CATEGORIES,
    CategoryColumn,
    ColumnEncoding,
    NumberColumn,
    as_numbers,
    choose_scaler,
)
from kernlet.tables.read import Table, arrow_columns, gaps, is_number, is_parquet, labels, texts

_MANY_NUMBERS = 50  # different numbers from which a target is no class


@dataclass(frozen=True, eq=False)
class Prepared:
    """Rows to train on and to test with."""

    X: Any
    y: Any
    X_test: Any
    y_test: Any
    encoding: ColumnEncoding | None
    scaler: AffineMap | None
    summary: dict[str, Any]
    classes: Any = None  # where y holds their numbers


def prepare(
    table: Table, target: str | None, regression: bool, scale: str, test: float, seed: int
) -> Prepared:
    """Labels, encoding, scaling and the rows kept aside."""
    rows, y = table.split_target(target)
    summary = _summary(rows, y, target, regression)
    if rows.columns is not None and not rows.columns:
        raise ValueError("The table has no column besides the target.")
    kept, held_out = split_rows(y, test, seed, regression)
    require_enough(y, kept, regression)
    encoding, X = None, rows.X
    if rows.columns is not None:
        say(f"encoding {len(rows.columns)} columns")
        _require_numbers(rows.columns)
        encoding = ColumnEncoding.learned({k: v[kept] for k, v in rows.columns.items()})
        _note_names_of_rows(encoding, len(kept))
        X = encoding.transform(rows.columns)
    is_category = None if encoding is None else encoding.is_category
    scaler, words = choose_scaler(X[kept], scale, is_category)
    summary["scaling"] = words
    say(f"scaling: {words}")
    if scaler is not None:
        X = scaler(X)
    return Prepared(X[kept], y[kept], X[held_out], y[held_out], encoding, scaler, summary)


def require_enough(y: Any, kept: Any, regression: bool) -> None:
    """Refuse too few rows to train on."""
    if len(kept) < 2 or not (regression or len(np.unique(y[kept])) > 1):
        raise ValueError(
            f"Of {len(y)} rows, the {len(kept)} to train on are too few, or of one class only: "
            "give more rows, or another --test or --seed."
        )


def _require_numbers(columns: dict[str, Any]) -> None:
    """Name the row of the file that is wrong, before the rows are split."""
    for name, values in columns.items():
        if values.dtype.kind == "f":
            as_numbers(values, name)


def _note_names_of_rows(encoding: ColumnEncoding, n_rows: int) -> None:
    """Say which columns are texts that hardly repeat."""
    for column in encoding.columns:
        count = len(column.categories) if isinstance(column, CategoryColumn) else 0
        if 2 * count > max(n_rows, 8):
            say(
                f"note: column {column.name!r} has {count} different texts in {n_rows} rows; ids, "
                f"dates and the like teach nothing: --drop {column.name} leaves it out"
            )


def without(table: Table, drop: tuple[str, ...]) -> Table:
    """The table without some columns."""
    if not drop:
        return table
    if table.columns is None:
        raise ValueError("--drop is for tables of named columns.")
    require_columns(table.columns, drop)
    return Table({k: v for k, v in table.columns.items() if k not in drop})


def require_columns(names: Iterable[str], drop: tuple[str, ...]) -> None:
    """Refuse to drop what is not there."""
    unknown = [name for name in drop if name not in names]
    if unknown:
        raise ValueError(f"There is no column {unknown[0]!r} to drop.")


def split_rows(y: Any, test: float, seed: int, regression: bool) -> tuple[Any, Any]:
    """Rows to train on, and rows kept aside; the same ones for the same table."""
    numbers = np.arange(len(y))
    if not test:
        return numbers, numbers[:0]
    _, counts = np.unique(y, return_counts=True)
    stratify = None if regression or counts.min() < 2 or test * len(y) < len(counts) else y
    kept, held_out = train_test_split(numbers, test_size=test, random_state=seed, stratify=stratify)
    return np.sort(kept), np.sort(held_out)


def _summary(rows: Table, y: Any, target: str | None, regression: bool) -> dict[str, Any]:
    data: dict[str, Any] = {"rows": len(y), "target": target}
    if rows.columns is not None:
        data["columns"] = len(rows.columns)
        data["missing"] = {
            name: n for name, values in rows.columns.items() if (n := int(gaps(values).sum()))
        }
    if regression:
        if y.dtype.kind not in "iuf":
            raise ValueError(f"The target {target!r} holds texts; --regression needs numbers.")
        return {"data": data | {"target range": [float(y.min()), float(y.max())]}}
    labels, counts = np.unique(y, return_counts=True)
    require_classes(labels)
    data["classes"] = {str(k): int(n) for k, n in zip(labels, counts, strict=True)}
    return {"data": data}


def require_classes(labels: Any) -> None:
    """Refuse a target that is no class, by its distinct values."""
    if len(labels) < 2:
        raise ValueError(f"The target has one class only, {str(labels[0])!r}: nothing to learn.")
    if labels.dtype.kind == "f" and len(labels) > _MANY_NUMBERS:
        raise ValueError(
            f"The target has {len(labels)} different numbers: say --regression to predict them."
        )
    if len(labels) > 1000:
        raise ValueError(f"The target has {len(labels)} classes, too many to learn.")


class EncodedRows(ParquetRows):
    """Rows that a table of numbers and categories becomes, in float32.

    Parameters
    ----------
    path : Path
        A Parquet file, or a folder of them.
    encoding : ColumnEncoding
    scaler : AffineMap or None
    """

    def __init__(self, path: Path, encoding: ColumnEncoding, scaler: AffineMap | None) -> None:
        super().__init__(path, encoding.names)
        self.encoding, self.scaler = encoding, scaler
        self.shape = (self.shape[0], len(encoding.feature_names))
        self.dtype = np.dtype(np.float32)
        del self.columns  # of the file; the features have other names
        self._names = list(encoding.names)

    def _group(self, group: int) -> Any:
        if self._last is None or self._last[0] != group:
            table = self._table(group, self._names)
            self._last = (group, encoded(table, self.encoding, self.scaler))
        return self._last[1]


def encoded(table: Any, encoding: ColumnEncoding, scaler: AffineMap | None) -> Any:
    """An Arrow table as rows of numbers.

    Parameters
    ----------
    table : pyarrow.Table
    encoding : ColumnEncoding
    scaler : AffineMap or None

    Returns
    -------
    X : ndarray of shape (n_rows, n_features), float32
    """
    parts = [_encoded(table[column.name], column) for column in encoding.columns]
    X = np.empty((table.num_rows, len(encoding.feature_names)), dtype=np.float32)
    with np.errstate(over="ignore"):
        np.concatenate(parts, axis=1, out=X, casting="same_kind")
    return X if scaler is None else scaler(X)


def _encoded(cells: Any, column: NumberColumn | CategoryColumn) -> Any:
    if isinstance(column, NumberColumn):
        return column.encoded(numbers(cells, column.name))
    words, places = distinct(cells)
    return column.encoded([*words, None])[places]


def numbers(cells: Any, name: str) -> Any:
    """A column of numbers, NaN where one is missing."""
    import pyarrow as pa

    try:
        return cells.cast(pa.float64(), safe=False).to_numpy()
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        raise ValueError(f"Column {name!r} holds other things than numbers.") from None


def distinct(cells: Any) -> tuple[Sequence[str | None], Any]:
    """The texts of a column, each once, and the place of each cell among them.

    The last place is for cells that are missing.
    """
    import pyarrow as pa

    found = cells.combine_chunks().dictionary_encode()
    if isinstance(found, pa.ChunkedArray):
        found = found.unify_dictionaries().combine_chunks()
    words = texts(found.dictionary.to_pylist()).tolist()
    return words, found.indices.fill_null(len(words)).to_numpy(zero_copy_only=False)


_MEMORY = 2 * 2**30
_SAMPLE = 100_000  # rows that tell medians and scales


def is_large(path: Path, memory: int | None) -> bool:
    """Whether a table is to be read piece by piece.

    Parameters
    ----------
    path : Path
        Only Parquet files can be.
    memory : int or None
        Bytes that the table may take as float64 numbers; None for a quarter of what the machine
        has.

    Returns
    -------
    is_large : bool
    """
    if not is_parquet(path):
        return False
    if memory is None:
        if not hasattr(os, "sysconf"):  # Windows does not say
            memory = _MEMORY
        else:
            memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 4
    n_rows, n_columns = ParquetRows(path).shape
    return 8 * n_rows * n_columns > memory


def prepare_large(
    path: Path,
    target: str | None,
    regression: bool,
    drop: tuple[str, ...],
    category: tuple[str, ...],
    scale: str,
    test: float,
    seed: int,
) -> Prepared:
    """The same for a table that is read piece by piece: its rows stay where they are."""
    if regression:
        raise ValueError("--regression needs the table in memory: raise --memory.")
    found = read_labels(path, target, category)
    require_classes(found.classes)
    names = ParquetRows(path).columns
    require_columns(names, drop)
    names = [name for name in names if name != target and name not in drop]
    if not names:
        raise ValueError("The table has no column besides the target.")
    kept, held_out = split_rows(found.codes, test, seed, regression)
    require_enough(found.codes, kept, regression)
    is_training = np.zeros(len(found.codes), dtype=bool)
    is_training[kept] = True
    say(f"encoding {len(names)} columns")
    rows, words, missing = learn_rows(path, names, category, is_training, scale)
    say(f"scaling: {words}")
    data = {"rows": len(found.codes), "target": target, "columns": len(names), "missing": missing}
    return Prepared(
        RowSubset(rows, kept),
        found.codes[kept],
        RowSubset(rows, held_out),
        found.codes[held_out],
        rows.encoding,
        rows.scaler,
        {"data": data | {"classes": found.counts}, "scaling": words},
        found.classes,
    )


@dataclass(frozen=True, eq=False)
class LabelColumn:
    """Labels as numbers of classes, which take less memory than texts."""

    classes: Any
    codes: Any

    @property
    def counts(self) -> dict[str, int]:
        """Rows of each class."""
        numbers = np.bincount(self.codes, minlength=len(self.classes)).tolist()
        return dict(zip(map(str, self.classes.tolist()), numbers, strict=True))


def read_labels(path: Path, target: str | None, category: Sequence[str]) -> LabelColumn:
    """The column to predict, all of it.

    Parameters
    ----------
    path : Path
    target : str or None
    category : sequence of str
        Columns whose numbers are names.

    Returns
    -------
    labels : LabelColumn
    """
    rows = ParquetRows(path)
    if target is None:
        raise ValueError(f"Say with --target which of {', '.join(rows.columns[:8])} to predict.")
    if target not in rows.columns:
        raise ValueError(f"There is no column {target!r} among {', '.join(rows.columns[:8])}.")
    parts = []
    for start, table in rows.tables([target]):
        with _rows_from(start):
            column = arrow_columns(table, category, target).columns
            assert column is not None
            parts.append(np.unique(labels(column[target], target), return_inverse=True))
    kinds = {"texts" if found.dtype.kind in "US" else "numbers" for found, _ in parts if len(found)}
    if len(kinds) > 1:
        raise ValueError(
            f"Column {target!r} holds numbers in some row groups of {path} and texts or true and "
            "false in others: write it with one type."
        )
    classes = np.unique(np.concatenate([found for found, _ in parts]))
    places = [np.searchsorted(classes, found).astype(np.int32)[codes] for found, codes in parts]
    return LabelColumn(classes, np.concatenate(places))


@dataclass
class _Seen:
    """What a pass over the training rows of a column has met."""

    words: set[str] = field(default_factory=set)
    has_missing: bool = False
    missing: int = 0


def learn_rows(
    path: Path, names: Sequence[str], category: Sequence[str], is_training: Any, scale: str
) -> tuple[EncodedRows, str, dict[str, int]]:
    """Rows of numbers by a rule that is learned from the rows to train on.

    Categories come from all of these; medians and scales from 100,000 of them.

    Parameters
    ----------
    path : Path
    names : sequence of str
        Columns of features.
    category : sequence of str
        Columns whose numbers are names.
    is_training : ndarray of bool of shape (n_rows,)
    scale : {"auto", "standard", "none"}

    Returns
    -------
    rows : EncodedRows
    words : str
        How they were scaled.
    missing : dict of str to int
        Cells without a value, by column.
    """
    import pyarrow as pa

    numbers = np.flatnonzero(is_training)
    if len(numbers) > _SAMPLE:
        numbers = np.sort(np.random.RandomState(0).choice(numbers, _SAMPLE, replace=False))
    seen, sample = {name: _Seen() for name in names}, []
    for start, table in ParquetRows(path).tables(names):
        _look(table, start, seen, category, is_training[start : start + table.num_rows])
        own = numbers[(numbers >= start) & (numbers < start + table.num_rows)] - start
        sample.append(table.take(own))
    some = pa.concat_tables(sample, promote_options="permissive")
    columns = arrow_columns(some, category, None).columns
    assert columns is not None
    encoding = ColumnEncoding(
        tuple(
            _whole(column, seen[column.name]) for column in ColumnEncoding.learned(columns).columns
        )
    )
    scaler, words = choose_scaler(encoded(some, encoding, None), scale, encoding.is_category)
    missing = {name: found.missing for name, found in seen.items() if found.missing}
    return EncodedRows(path, encoding, scaler), words, missing


def _look(
    table: Any, start: int, seen: dict[str, _Seen], category: Sequence[str], is_mine: Any
) -> None:
    """Note the texts and the gaps of a row group, which starts at a row of the table."""
    for name, found in seen.items():
        cells = table[name]
        if is_number(cells.type) and name not in category:
            with _rows_from(start):
                values = as_numbers(numbers(cells, name), name)
            found.missing += int(np.count_nonzero(np.isnan(values)))
            continue
        found.missing += cells.null_count
        words, places = distinct(cells)
        here = np.unique(places[is_mine]).tolist()
        met = [words[place] if place < len(words) else None for place in here]
        found.words |= {word for word in met if word is not None}
        found.has_missing |= None in met
        if len(found.words) > MOST_CATEGORIES:
            raise ValueError(
                f"Column {name!r} has more than {MOST_CATEGORIES} different texts: leave it out "
                f"with --drop {name}, or group them."
            )


def _whole(column: Any, seen: _Seen) -> Any:
    """The rule of a column with the categories of all training rows."""
    if not isinstance(column, CategoryColumn):
        return column
    return CategoryColumn(column.name, tuple(sorted(seen.words)), seen.has_missing)


@contextmanager
def _rows_from(start: int) -> Iterator[None]:
    """Say from which row on an error counts."""
    try:
        yield
    except ValueError as error:
        raise ValueError(f"counted from row {start + 1} on: {error}" if start else error) from None


def note_rows(path: Path) -> None:
    """Say how much there is to read."""
    rows = ParquetRows(path)
    n_rows, n_columns = rows.shape
    say(
        f"reading {path.name} piece by piece: {n_rows:,} rows of {n_columns} columns are more than "
        "memory should hold (--memory says how much it may)"
    )
