"""Rows in Parquet files, read by row groups."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from kernlet._typing import Indices
from kernlet.extras import require
from kernlet.rows.source import PiecewiseRows, RowSource, memory_bytes, reader_errors

# A row group is decoded in batches straight into its array: decoding whole columns would hold
# every number twice.
_BATCH_ROWS = 2**16
# Bytes of a column read at a time; without it pyarrow reads whole column chunks ahead.
_BUFFER_BYTES = 2**20
_MAX_ROWS = 2**48  # of a file; a larger number is not one of rows


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
            schemas[file], own = read_schema(file)
            self._groups += [(file, number) for number in range(len(own))]
            counts += own
        self.columns = list(schemas[files[0]].names if columns is None else columns)
        for file, schema in schemas.items():
            missing = [name for name in self.columns if name not in schema.names]
            if missing:
                raise ValueError(f"{file} has no column {missing[0]!r}; it has {schema.names}.")
        self.starts = group_starts(counts)
        self.shape = (int(self.starts[-1]), len(self.columns))
        # by name, the first type that is not one of numbers, where there is one
        self._kinds = {
            name: min((schema.field(name).type for schema in schemas.values()), key=_is_number)
            for name in self.columns
        }
        kinds = {
            str(schema.field(name).type) for schema in schemas.values() for name in self.columns
        }
        self.dtype = np.dtype(np.float32 if kinds <= {"float", "halffloat"} else np.float64)

    def tables(self, columns: Sequence[str] | None = None) -> Iterator[tuple[int, Any]]:
        """Row groups as Arrow tables of some columns, each with the number of its first row."""
        names = list(self.columns if columns is None else columns)
        counts = dict(zip(self.starts[:-1].tolist(), np.diff(self.starts).tolist(), strict=True))
        for (file, group), start in zip(self._groups, self.starts[:-1].tolist(), strict=True):
            with reader_errors(str(file), "a Parquet file"):
                table = _open(file).read_row_group(group, columns=names).select(names)
            require_rows(file, table.num_rows, counts[start])
            yield start, table

    def split(self, column: str) -> tuple[RowSource, Any]:
        """The rows without a column, and that column."""
        if column not in self.columns:
            raise ValueError(f"{self.path} has no column {column!r}; it has {self.columns}.")
        others = [name for name in self.columns if name != column]
        if not others:
            raise ValueError(f"{self.path} has no column besides {column!r}.")
        labels = []
        for start, table in self.tables([column]):
            _require_labels(table.column(0), column, start)
            with reader_errors(f"Column {column!r} of {self.path}", "one of labels"):
                labels.append(_labels(table.column(0)))
        return ParquetRows(self.path, others), np.concatenate(labels or [np.empty(0)])

    def select(self, columns: Sequence[str]) -> RowSource:
        """The same rows with some of the columns."""
        return ParquetRows(self.path, columns)

    def load_piece(self, number: int) -> Any:
        """A row group as an array."""
        file, group = self._groups[number]
        n_rows = int(self.starts[number + 1] - self.starts[number])
        for name, kind in self._kinds.items():
            if not _is_number(kind):
                raise ValueError(
                    f"Column {name!r} of {self.path} does not hold numbers ({kind}). "
                    "Name the features with columns=[...]."
                )
        require_memory(file, n_rows, len(self.columns))
        options = {"row_groups": [group], "columns": self.columns}
        start = 0
        with reader_errors(str(file), "a Parquet file"):
            values = np.empty((n_rows, len(self.columns)), self.dtype)
            for batch in _open(file).iter_batches(_BATCH_ROWS, **options):
                stop = start + batch.num_rows
                for k, name in enumerate(self.columns):
                    values[start:stop, k] = _numbers(batch.column(name))
                start = stop
        require_rows(file, start, n_rows)
        return values


def _is_number(kind: Any) -> bool:
    from pyarrow import types

    tests = (types.is_integer, types.is_floating, types.is_boolean, types.is_decimal, types.is_null)
    return any(test(kind) for test in tests)


def _numbers(column: Any) -> Any:
    """Numbers of a batch, NaN where they are missing."""
    from pyarrow import float64, types

    if not (types.is_integer(column.type) or types.is_floating(column.type)):
        column = column.cast(float64(), safe=False)
    return column.to_numpy(zero_copy_only=False)


def _require_labels(column: Any, name: str, start: int) -> None:
    if column.null_count:
        row = start + int(np.flatnonzero(column.is_null().to_numpy())[0])
        raise ValueError(f"Row {row}, counted from 0, has no label in column {name!r}.")


def _labels(column: Any) -> Any:
    """Labels of a row group; equal strings are one object, because there may be millions."""
    from pyarrow import types

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
    with reader_errors(file.name, "a Parquet file"):
        return parquet.ParquetFile(file, pre_buffer=False, buffer_size=_BUFFER_BYTES)


def read_schema(file: Path) -> tuple[Any, list[int]]:
    """The Arrow schema of a file, whose columns have different names, and rows per row group."""
    opened = _open(file)
    with reader_errors(file.name, "a Parquet file"):
        schema, metadata = opened.schema_arrow, opened.metadata
        counts = [metadata.row_group(n).num_rows for n in range(metadata.num_row_groups)]
        names = Counter(schema.names)
    repeated = [name for name, count in names.items() if count > 1]
    if repeated:
        raise ValueError(f"{file.name} has two columns {repeated[0]!r}: rename one of them.")
    if min(counts, default=0) < 0 or sum(counts) != metadata.num_rows or sum(counts) > _MAX_ROWS:
        raise ValueError(f"{file.name} is corrupt: its row groups do not have the rows it claims.")
    return schema, counts


def group_starts(counts: Sequence[int]) -> Indices:
    """The first row of each row group, and last the number of rows."""
    return np.concatenate([[0], np.cumsum(counts)]).astype(np.intp)


def require_memory(file: Path | str, n_rows: int, n_columns: int) -> None:
    """Refuse rows that cannot fit; runs of one value make a small file of very many rows."""
    if 8 * n_rows * n_columns > memory_bytes():
        raise ValueError(
            f"{file} has {n_rows:,} rows of {n_columns:,} columns in one piece, which do not fit "
            "into memory: write it with a smaller row_group_size, or fewer rows."
        )


def require_rows(file: Path | str, n_rows: int, claimed: int) -> None:
    """Refuse a row group that has other rows than its file claims."""
    if n_rows != claimed:
        raise ValueError(f"{file} is corrupt: a row group has {n_rows:,} of {claimed:,} rows.")
