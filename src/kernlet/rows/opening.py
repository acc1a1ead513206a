"""Whatever holds rows, as rows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from kernlet.rows.files import open_npy
from kernlet.rows.parquet import ParquetRows
from kernlet.rows.source import ArrayRows, Rows


def is_source(X: Any) -> bool:
    """Whether rows are to be read block by block: a source of rows, or a Dask collection."""
    return isinstance(X, Rows) or type(X).__module__.partition(".")[0] in ("dask", "dask_expr")


def as_rows(X: Any) -> Rows:
    """Rows in memory, in a source of rows or in a Dask collection.

    Parameters
    ----------
    X : Rows, dask array, dask dataframe, ndarray or csr matrix

    Returns
    -------
    rows : Rows
    """
    if isinstance(X, Rows):
        return X
    if is_source(X):
        from kernlet.rows.dask import DaskRows

        return DaskRows(X)
    return ArrayRows(X)


def open_rows(path: str | Path, columns: Any = None) -> Rows:
    """Rows on disk: a ``.npy`` file, a Parquet file or a folder of them.

    Parameters
    ----------
    path : str or Path
    columns : sequence of str, optional
        Of Parquet files.

    Returns
    -------
    rows : Rows
    """
    if Path(path).suffix == ".npy":
        return open_npy(path)
    return ParquetRows(path, columns)
