"""Parquet files as rows of numbers, by the rule of a table, a row group at a time."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from kernlet.affine import AffineMap
from kernlet.cli.reading import texts
from kernlet.export.encoding import CategoryColumn, ColumnEncoding, NumberColumn
from kernlet.rows import ParquetRows


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
