"""Tables that do not fit into memory: Parquet files, read a row group at a time."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from kernlet.cli.encoded_rows import EncodedRows, distinct, encoded, numbers
from kernlet.cli.preparing import (
    Prepared,
    require_classes,
    require_columns,
    require_enough,
    split_rows,
)
from kernlet.cli.progress import say
from kernlet.cli.reading import arrow_columns, is_number, is_parquet, labels
from kernlet.cli.scaling import choose_scaler
from kernlet.export.encoding import MOST_CATEGORIES, CategoryColumn, ColumnEncoding, as_numbers
from kernlet.rows import ParquetRows, SomeRows

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
        SomeRows(rows, kept),
        found.codes[kept],
        SomeRows(rows, held_out),
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
