"""Where rows come from: blocks of them, samples of them, and sums over all of them."""

from kernlet.rows.files import FileRows, open_npy
from kernlet.rows.opening import as_rows, is_source, open_rows
from kernlet.rows.parquet import ParquetRows, parquet_files
from kernlet.rows.source import ArrayRows, BlockStore, RowReader, Rows, SomeRows, added

__all__ = [
    "ArrayRows",
    "BlockStore",
    "FileRows",
    "ParquetRows",
    "RowReader",
    "Rows",
    "SomeRows",
    "added",
    "as_rows",
    "is_source",
    "open_npy",
    "open_rows",
    "parquet_files",
]
