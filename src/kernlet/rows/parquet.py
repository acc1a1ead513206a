"""Rows in Parquet files, read by row groups."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from kernlet.extras import require
from kernlet.rows.source import PiecewiseRows, RowSource

# A row group is decoded in batches straight into its array: decoding whole columns would hold
# every number twice.
_BATCH_ROWS = 2**16
# Bytes of a column read at a time; without it pyarrow reads whole column chunks ahead.
_BUFFER_BYTES = 2**20


class ParquetRows(PiecewiseRows):
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
        for file, schema in schemas.items():
            missing = [name for name in self.columns if name not in schema.names]
            if missing:
                raise ValueError(f"{file} has no column {missing[0]!r}; it has {schema.names}.")
        self.starts = np.concatenate([[0], np.cumsum(counts)]).astype(np.intp)
        self.shape = (int(self.starts[-1]), len(self.columns))
        kinds = {
            str(schema.field(name).type) for schema in schemas.values() for name in self.columns
        }
        self.dtype = np.dtype(np.float32 if kinds <= {"float", "halffloat"} else np.float64)

    def tables(self, columns: Sequence[str] | None = None) -> Iterator[tuple[int, Any]]:
        """Row groups as Arrow tables of some columns, each with the number of its first row."""
        names = list(self.columns if columns is None else columns)
        for (file, group), start in zip(self._groups, self.starts[:-1].tolist(), strict=True):
            yield start, _open(file).read_row_group(group, columns=names).select(names)

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

    def load_piece(self, number: int) -> Any:
        """A row group as an array."""
        file, group = self._groups[number]
        n_rows = self.starts[number + 1] - self.starts[number]
        values = np.empty((n_rows, len(self.columns)), self.dtype)
        options = {"row_groups": [group], "columns": self.columns}
        start = 0
        for batch in _open(file).iter_batches(_BATCH_ROWS, **options):
            stop = start + batch.num_rows
            for k, name in enumerate(self.columns):
                column = batch.column(name)
                if not _is_number(column.type):
                    raise ValueError(
                        f"Column {name!r} of {self.path} does not hold numbers ({column.type}). "
                        "Name the features with columns=[...]."
                    )
                values[start:stop, k] = column.to_numpy(zero_copy_only=False)
            start = stop
        return values


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


def _open(file: Path) -> Any:
    parquet = require("pyarrow.parquet", f"The Parquet file {file.name}", "parquet")
    from pyarrow import ArrowException

    try:
        return parquet.ParquetFile(file, pre_buffer=False, buffer_size=_BUFFER_BYTES)
    except ArrowException as error:
        reason = str(error).splitlines()[0]
        raise ValueError(f"{file.name} is corrupt, or not a Parquet file ({reason})") from None
