"""Rows in Parquet files, read by row groups."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from kernlet.rows.source import Rows


class ParquetRows(Rows):
    """Rows in a Parquet file, or in all files of a folder in the order of their names.

    Row groups are read one at a time; a block of rows is put together from those it meets.

    Parameters
    ----------
    path : str or Path
    columns : sequence of str, optional
        Features; all columns unless given.

    Attributes
    ----------
    columns : list of str
    """

    def __init__(self, path: str | Path, columns: Sequence[str] | None = None) -> None:
        self.path = Path(path)
        files = sorted(self.path.glob("*.parquet")) if self.path.is_dir() else [self.path]
        if not files:
            raise ValueError(f"The folder {path} holds no file that ends in .parquet.")
        self._groups: list[tuple[Path, int]] = []
        counts = []
        for file in files:
            metadata = _open(file).metadata
            self._groups += [(file, number) for number in range(metadata.num_row_groups)]
            counts += [metadata.row_group(n).num_rows for n in range(metadata.num_row_groups)]
        schema = _open(files[0]).schema_arrow
        self.columns = list(schema.names if columns is None else columns)
        strange = [name for name in self.columns if name not in schema.names]
        if strange:
            raise ValueError(f"{path} has no column {strange[0]!r}; it has {schema.names}.")
        self._starts = np.concatenate([[0], np.cumsum(counts)]).astype(np.intp)
        self.shape = (int(self._starts[-1]), len(self.columns))
        kinds = {str(schema.field(name).type) for name in self.columns}
        self.dtype = np.dtype(np.float32 if kinds <= {"float", "halffloat"} else np.float64)
        self._last: tuple[int, Any] | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_last": None}

    def tables(self, columns: Sequence[str] | None = None) -> Iterator[tuple[int, Any]]:
        """Row groups as Arrow tables, each with the number of its first row.

        Parameters
        ----------
        columns : sequence of str, optional
            Of the file; the features unless given.
        """
        for group, start in enumerate(self._starts[:-1].tolist()):
            yield start, self._table(group, list(self.columns if columns is None else columns))

    def split(self, column: str) -> tuple[Rows, Any]:
        """The rows without a column, and that column."""
        others = [name for name in self.columns if name != column]
        labels = [self._table(g, [column]).column(0) for g in range(len(self._groups))]
        values = np.concatenate([part.to_numpy(zero_copy_only=False) for part in labels])
        return ParquetRows(self.path, others), values

    def read(self, rows: slice) -> Any:
        """Consecutive rows."""
        start, stop, _ = rows.indices(self.shape[0])
        first = int(np.searchsorted(self._starts, start, side="right")) - 1
        parts = [np.empty((0, self.shape[1]), self.dtype)]
        for group in range(first, len(self._groups)):
            origin = int(self._starts[group])
            if origin >= stop:
                break
            parts.append(self._group(group)[max(0, start - origin) : stop - origin])
        return np.concatenate(parts)

    def _group(self, group: int) -> Any:
        """A row group as an array; the last one is kept, for blocks end within groups."""
        if self._last is None or self._last[0] != group:
            self._last = (group, self._numbers(self._table(group, self.columns)))
        return self._last[1]

    def _numbers(self, table: Any) -> Any:
        values = np.empty((table.num_rows, len(self.columns)), self.dtype)
        for number, column in enumerate(table.columns):
            values[:, number] = column.to_numpy(zero_copy_only=False)
        return values

    def _table(self, group: int, columns: list[str]) -> Any:
        file, number = self._groups[group]
        return _open(file).read_row_group(number, columns=columns).select(columns)


def _open(file: Path) -> Any:
    import pyarrow.parquet

    try:
        return pyarrow.parquet.ParquetFile(file)
    except pyarrow.ArrowException as error:
        said = str(error).splitlines()[0]
        raise ValueError(f"{file.name} is damaged, or no Parquet file ({said})") from None
