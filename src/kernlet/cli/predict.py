"""kernlet predict: a column of answers for a table."""

from __future__ import annotations

import csv
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click
import numpy as np

from kernlet.atomic import atomic_write
from kernlet.cli.common import categories, errors_of, read_for, rows_for, shipped_model
from kernlet.model.model import Model
from kernlet.rows.parquet import ParquetRows
from kernlet.tables.read import Table, arrow_columns, is_parquet

Columns = dict[str, Any]
Write = Callable[[Columns], None]


def run(model: Path, table: Path, output: Path | None) -> None:
    """Predict the rows of a table and write them as CSV or Parquet."""
    shipped = shipped_model(model)
    n_rows = 0
    with _opened(output, is_measured=shipped.kind == "regressor") as write:
        for start, part in _parts(shipped, table):
            if not part.n_rows:  # says nothing of its types
                continue
            with errors_of(table if not start else f"{table}, counted from row {start + 1} on"):
                outputs = shipped.outputs(rows_for(shipped, part))
            write(_answers(shipped, outputs))
            n_rows += len(outputs)
    if output is not None:
        click.echo(f"wrote {n_rows:,} predictions to {output}", err=True)


def _parts(shipped: Model, path: Path) -> Iterator[tuple[int, Table]]:
    """The table, or one row group of Parquet after the other, with the number of its first row."""
    if not is_parquet(path):
        yield 0, read_for(shipped, path)
        return
    texts = categories(shipped)
    with errors_of(path):
        rows = ParquetRows(path)
    if not len(rows):
        raise ValueError(f"{path} has no rows.")
    known = shipped.encoding.names if shipped.encoding is not None else shipped.feature_names
    needed = None
    if known is not None and set(known) <= set(rows.columns):
        needed = list(known)
    for start, table in rows.tables(needed):
        yield start, arrow_columns(table, texts, None)


def _answers(shipped: Model, outputs: Any) -> Columns:
    """Columns by their names."""
    if shipped.kind == "regressor":
        values = shipped.scores(outputs).reshape(len(outputs), -1)
        names = ["prediction"] if values.shape[1] == 1 else _numbered(values.shape[1])
        return dict(zip(names, values.T, strict=True))
    columns = {"prediction": shipped.classes[shipped.codes(outputs)]}
    if shipped.temperature is not None:
        probabilities = np.asarray(shipped.probabilities(outputs)).T
        names = [f"probability of {label}" for label in shipped.classes]
        columns |= dict(zip(names, probabilities, strict=True))
    return columns


def _numbered(count: int) -> list[str]:
    return [f"prediction {i + 1}" for i in range(count)]


@contextmanager
def _opened(output: Path | None, is_measured: bool) -> Iterator[Write]:
    """Something to write columns to, part by part; a file is there whole or not at all."""
    if output is None:
        yield _CsvFile(sys.stdout, is_measured)
        return
    with atomic_write(output) as temporary:
        if is_parquet(output):
            with _ParquetFile(temporary) as file:
                yield file
        else:
            with temporary.open("w", encoding="utf-8", newline="") as text:
                yield _CsvFile(text, is_measured)


class _CsvFile:
    """Lines of a file: a header before the first part."""

    def __init__(self, file: Any, is_measured: bool) -> None:
        self.writer, self.has_header = csv.writer(file, lineterminator="\n"), False
        self.is_measured = is_measured

    def __call__(self, columns: Columns) -> None:
        if not self.has_header:
            self.writer.writerow(columns)
        self.has_header = True
        cells = [self._cells(name, values) for name, values in columns.items()]
        self.writer.writerows(zip(*cells, strict=True))

    def _cells(self, name: str, values: Any) -> list[Any]:
        if name.startswith("probability of "):
            return [f"{value:.6f}" for value in values]
        return [f"{value:.9g}" for value in values] if self.is_measured else values.tolist()


class _ParquetFile:
    """Row groups of a file, one a part."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.writer: Any = None

    def __enter__(self) -> _ParquetFile:
        return self

    def __exit__(self, *error: Any) -> None:
        if self.writer is not None:
            self.writer.close()

    def __call__(self, columns: Columns) -> None:
        import pyarrow as pa
        from pyarrow import parquet

        table = pa.table({name: pa.array(values.tolist()) for name, values in columns.items()})
        if self.writer is None:
            self.writer = parquet.ParquetWriter(self.path, table.schema)
        self.writer.write_table(table)
