"""kernlet predict: a column of predictions for a table."""

from __future__ import annotations

import csv
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import parquet

from kernlet.atomic import atomic_write
from kernlet.cli.common import read_for, read_model, rows_for
from kernlet.console import say
from kernlet.model.model import Model
from kernlet.tables.read import errors_in, is_parquet

Columns = dict[str, Any]
Write = Callable[[Columns], None]


def run(model: Path, table: Path, output: Path | None) -> None:
    """Predict the rows of a table and write them as CSV or Parquet."""
    machine = read_model(model)
    data = read_for(machine, table, max_bytes=0)  # Parquet in batches, whatever its size
    # read only the columns of the machine, if the table has all of them
    names = machine.feature_names if machine.encoding is None else machine.encoding.names
    if names is not None and not set(names) <= set(data.names):
        names = None
    n_rows = 0
    with _writer(output, machine.kind == "regressor") as write:
        for start, batch in data.batches(names):
            if not len(batch):
                continue
            with errors_in(table, start):
                outputs = machine.outputs(rows_for(machine, batch))
            write(_predictions(machine, outputs))
            n_rows += len(outputs)
    if output is not None:
        say(f"wrote {n_rows:,} predictions to {output}")


def _predictions(model: Model, outputs: Any) -> Columns:
    if model.kind == "regressor":
        values = model.scores(outputs).reshape(len(outputs), -1)
        if values.shape[1] == 1:
            return {"prediction": values[:, 0]}
        return {f"prediction {k + 1}": column for k, column in enumerate(values.T)}
    columns = {"prediction": model.classes[model.codes(outputs)]}
    if model.temperature is not None:
        probabilities = np.asarray(model.probabilities(outputs)).T
        for label, column in zip(model.classes, probabilities, strict=True):
            columns[f"probability of {label}"] = column
    return columns


@contextmanager
def _writer(output: Path | None, is_regressor: bool) -> Iterator[Write]:
    """A function that appends columns to standard output or, atomically, to a file."""
    if output is None:
        yield _csv_writer(sys.stdout, is_regressor)
        return
    with ExitStack() as stack:
        temporary = stack.enter_context(atomic_write(output))
        if is_parquet(output):
            yield _parquet_writer(temporary, stack)
        else:
            text = stack.enter_context(temporary.open("w", encoding="utf-8", newline=""))
            yield _csv_writer(text, is_regressor)


def _csv_writer(file: Any, is_regressor: bool) -> Write:
    writer = csv.writer(file, lineterminator="\n")
    header: list[str] = []

    def cells(name: str, values: Any) -> list[Any]:
        if name.startswith("probability of "):
            return [f"{value:.6f}" for value in values]
        return [f"{value:.9g}" for value in values] if is_regressor else values.tolist()

    def write(columns: Columns) -> None:
        if not header:
            header.extend(columns)
            writer.writerow(header)
        writer.writerows(zip(*(cells(k, v) for k, v in columns.items()), strict=True))

    return write


def _parquet_writer(path: Path, stack: ExitStack) -> Write:
    """One row group per batch; the first batch determines the types."""
    writers: list[Any] = []

    def write(columns: Columns) -> None:
        table = pa.table({name: pa.array(values.tolist()) for name, values in columns.items()})
        if not writers:
            writers.append(stack.enter_context(parquet.ParquetWriter(path, table.schema)))
        writers[0].write_table(table)

    return write
