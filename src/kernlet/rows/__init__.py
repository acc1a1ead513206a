"""Where rows come from: arrays, files, Parquet and Dask, read block by block."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from kernlet.rows.npy import FileRows, open_npy
from kernlet.rows.parquet import ParquetRows
from kernlet.rows.source import (
    DASK_PACKAGES,
    ArrayRows,
    RowReader,
    RowSource,
    require_file,
)

__all__ = ["ArrayRows", "FileRows", "ParquetRows", "RowReader", "RowSource", "as_rows", "open_rows"]


def as_rows(X: Any) -> RowSource:
    """A row source for an array, a sparse matrix, a Dask collection or a row source itself."""
    if isinstance(X, RowSource):
        return X
    if type(X).__module__.partition(".")[0] in DASK_PACKAGES:
        from kernlet.rows.dask import DaskRows

        return DaskRows(X)
    return ArrayRows(X)


def open_rows(path: str | Path, columns: Any = None) -> RowSource:
    """Rows on disk: a ``.npy`` file, a Parquet file or a folder of them.

    Parameters
    ----------
    path : str or Path
        A file, or a folder of Parquet files.
    columns : sequence of str, optional
        The columns of Parquet files that are features; all unless given.

    Returns
    -------
    rows : RowSource
    """
    require_file(Path(path))
    if Path(path).suffix == ".npy":
        return open_npy(path)
    return ParquetRows(path, columns)
