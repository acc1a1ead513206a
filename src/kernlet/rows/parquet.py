"""Rows in Parquet files, read by row groups."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from kernlet.rows.source import RowSource, slice_bounds

# A row group is decoded in batches straight into its array: decoding whole columns would hold
# every number twice.
_BATCH_ROWS = 2**16
# Bytes of a column read at a time; without it pyarrow reads whole column chunks ahead.
_BUFFER_BYTES = 2**20


class ParquetRows(RowSource):
    """Rows in a Parquet file, or in all files of a folder in the order of their names.

    Numbers within names are compared as numbers: part.2 comes before part.10, as Dask writes them.
    Row groups are read one at a time, and a block is assembled from those it overlaps; this takes
    the memory of about three row groups. The features are all ``columns`` unless given.
    """

    def __init__(self, path: str | Path, columns: Sequence[str] | None = None) -> None:
        self.path = Path(path)
        files = parquet_files(self.path)
        self._groups: list[tuple[Path, int]] = []
        counts, schemas = [], {}
        for file in files:
            opened = _open(file)
            metadata, schemas[file] = opened.metadata, opened.schema_arrow
            self._groups += [(file, number) for number in range(metadata.num_row_groups)]
            counts += [metadata.row_group(n).num_rows for n in range(metadata.num_row_groups)]
        self.columns = list(schemas[files[0]].names if columns is None else columns)
        _require_columns(schemas, self.columns)
        self._starts = np.concatenate([[0], np.cumsum(counts)]).astype(np.intp)
        self.shape = (int(self._starts[-1]), len(self.columns))
        kinds = {
            str(schema.field(name).type) for schema in schemas.values() for name in self.columns
        }
        self.dtype = np.dtype(np.float32 if kinds <= {"float", "halffloat"} else np.float64)
        self._last: tuple[int, Any] | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_last": None}

    def tables(self, columns: Sequence[str] | None = None) -> Iterator[tuple[int, Any]]:
        """Row groups as Arrow tables of some columns, each with the number of its first row."""
        for group, start in enumerate(self._starts[:-1].tolist()):
            yield start, self._table(group, list(self.columns if columns is None else columns))

    def split(self, column: str) -> tuple[RowSource, Any]:
        """The rows without a column, and that column."""
        if column not in self.columns:
            raise ValueError(f"{self.path} has no column {column!r}; it has {self.columns}.")
        others = [name for name in self.columns if name != column]
        if not others:
            raise ValueError(f"{self.path} has no column besides {column!r}.")
        labels = [_labels(table.column(0), column, start) for start, table in self.tables([column])]
        return ParquetRows(self.path, others), np.concatenate(labels or [np.empty(0)])

    def select(self, columns: Sequence[str]) -> RowSource:
        """The same rows with some of the columns."""
        return ParquetRows(self.path, columns)

    def read(self, rows: slice) -> Any:
        """Consecutive rows."""
        start, stop = slice_bounds(rows, len(self))
        first = int(np.searchsorted(self._starts, start, side="right")) - 1
        pieces = [np.empty((0, self.shape[1]), self.dtype)]
        for group in range(first, len(self._groups)):
            origin = int(self._starts[group])
            if origin >= stop:
                break
            pieces.append(self._group(group)[max(0, start - origin) : stop - origin])
        return np.concatenate(pieces)

    def _group(self, group: int) -> Any:
        """A row group as an array; the last one is cached, because blocks end within groups."""
        if self._last is None or self._last[0] != group:
            self._last = None  # free it before the next one is allocated
            self._last = (group, self._decoded(group))
        return self._last[1]

    def _decoded(self, group: int) -> Any:
        file, number = self._groups[group]
        n_rows = self._starts[group + 1] - self._starts[group]
        values = np.empty((n_rows, len(self.columns)), self.dtype)
        options = {"row_groups": [number], "columns": self.columns}
        start = 0
        for batch in _open(file).iter_batches(_BATCH_ROWS, **options):
            stop = start + batch.num_rows
            for k, name in enumerate(self.columns):
                values[start:stop, k] = self._checked(batch.column(name), name)
            start = stop
        return values

    def _checked(self, column: Any, name: str) -> Any:
        if not _is_number(column.type):
            raise ValueError(
                f"Column {name!r} of {self.path} does not hold numbers ({column.type}). "
                "Name the features with columns=[...]."
            )
        return column.to_numpy(zero_copy_only=False)

    def _table(self, group: int, columns: list[str]) -> Any:
        file, number = self._groups[group]
        return _open(file).read_row_group(number, columns=columns).select(columns)


def _is_number(kind: Any) -> bool:
    from pyarrow import types

    tests = (types.is_integer, types.is_floating, types.is_boolean, types.is_decimal, types.is_null)
    return any(test(kind) for test in tests)


def _labels(column: Any, name: str, start: int) -> Any:
    """Labels of a row group; equal strings are one object, because there may be millions."""
    from pyarrow import types

    if column.null_count:
        row = start + int(np.flatnonzero(column.is_null().to_numpy())[0])
        raise ValueError(f"Row {row}, counted from 0, has no label in column {name!r}.")
    kind = column.type
    if not (types.is_string(kind) or types.is_large_string(kind) or types.is_dictionary(kind)):
        return column.to_numpy(zero_copy_only=False)
    encoded = column if types.is_dictionary(kind) else column.dictionary_encode()
    encoded = encoded.unify_dictionaries().combine_chunks()
    if hasattr(encoded, "chunks"):
        encoded = encoded.chunk(0)
    values = encoded.dictionary.to_pylist()
    is_text = any(isinstance(value, str) for value in values)
    labels = np.array(values, dtype=object if is_text else None)
    return labels[encoded.indices.to_numpy(zero_copy_only=False)]


def parquet_files(path: Path) -> list[Path]:
    """The file itself, or those of a folder in the order of their names, numbers as numbers."""
    files = sorted(path.glob("*.parquet"), key=_natural_order) if path.is_dir() else [path]
    if not files:
        raise ValueError(f"The folder {path} holds no file that ends in .parquet.")
    return files


def _natural_order(file: Path) -> tuple[list[Any], str]:
    pieces = re.split(r"([0-9]+)", file.name)  # every second piece is a number
    return [int(piece) if k % 2 else piece for k, piece in enumerate(pieces)], file.name


def _require_columns(schemas: dict[Path, Any], columns: list[str]) -> None:
    for file, schema in schemas.items():
        missing = [name for name in columns if name not in schema.names]
        if missing:
            raise ValueError(f"{file} has no column {missing[0]!r}; it has {schema.names}.")


def _open(file: Path) -> Any:
    import pyarrow.parquet

    try:
        return pyarrow.parquet.ParquetFile(file, pre_buffer=False, buffer_size=_BUFFER_BYTES)
    except pyarrow.ArrowException as error:
        reason = str(error).splitlines()[0]
        raise ValueError(f"{file.name} is corrupt, or not a Parquet file ({reason})") from None
