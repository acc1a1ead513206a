"""kernlet predict: a column of predictions for a table."""

from __future__ import annotations

import csv
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import parquet

from kernlet.atomic import atomic_write
from kernlet.cli.common import read_model, trained_on
from kernlet.cli.rows import note_training_rows, read_for, rows_for, spelled_as
from kernlet.console import say
from kernlet.model.model import Model
from kernlet.tables.read import DataTable, TableFile, errors_in, is_parquet

Columns = dict[str, Any]


def run(*, model: Path, table: TableFile, output: Path | None, raw_labels: bool = False) -> None:
    """Predict the rows of a table and write them as CSV or Parquet."""
    machine = read_model(model)
    target = trained_on(machine).get("target")
    target = target if isinstance(target, str) and machine.kind == "classifier" else None
    data = read_for(machine, table, target, max_bytes=0)  # Parquet in batches, whatever its size
    labels = _labels(machine, data, target)
    noted: set[str] = set()
    # read only the columns of the machine, if the table has all of them
    names = machine.feature_names if machine.encoding is None else machine.encoding.names
    if names is not None and not set(names) <= set(data.names):
        names = None

    def predictions() -> Iterator[Columns]:
        for start, batch in data.batches(names):
            if len(batch):
                with errors_in(table.path, start):
                    outputs = machine.outputs(rows_for(machine, batch, noted))
                columns = _columns(machine, outputs)
                if labels is not None:
                    labels.compare(start, columns["prediction"])
                yield columns

    is_csv = output is None or not is_parquet(output)
    if is_csv and not raw_labels and machine.classes is not None:
        formulas = [label for label in machine.classes.tolist() if is_formula(label)]
        if formulas:
            say(
                f"note: {formulas[0]!r} and the like get a ' in front, because a spreadsheet would "
                "take them for formulas; --raw-labels leaves it out"
            )
    write = partial(_write_csv, is_regressor=machine.kind == "regressor", raw_labels=raw_labels)
    if output is None:
        write(sys.stdout, predictions())
    else:
        with atomic_write(output) as temporary:
            if is_parquet(output):
                _write_parquet(temporary, predictions())
            else:
                with temporary.open("w", encoding="utf-8", newline="") as file:
                    write(file, predictions())
        say(f"wrote {data.n_rows:,} predictions to {output}")
    if labels is not None:
        note_training_rows(machine, table.path, labels.known)
        say(
            f"accuracy {100 * labels.accuracy:.2f} % on the {len(labels.known):,} rows with a label"
        )


@dataclass(eq=False)
class _Labels:
    """Labels of a table, and how many of the predictions are right."""

    classes: Any
    codes: Any  # of each row, -1 without a label
    n_right: int = 0

    @property
    def known(self) -> Any:
        """The labels that are not missing."""
        return self.classes[self.codes[self.codes >= 0]]

    @property
    def accuracy(self) -> float:
        """The share of the predictions that are right."""
        return self.n_right / len(self.known)

    def compare(self, start: int, predicted: Any) -> None:
        """Count predictions of the rows from ``start`` on, as texts: types may differ."""
        codes = self.codes[start : start + len(predicted)]
        is_known = codes >= 0
        truth = self.classes[codes[is_known]].astype(str)
        self.n_right += int(np.count_nonzero(truth == predicted[is_known].astype(str)))


def _labels(model: Model, table: DataTable, target: str | None) -> _Labels | None:
    """The labels of a table that has some."""
    if target not in table.names:
        return None
    try:
        _, classes, codes = table.split_target(target, skip_unlabelled=True)
    except ValueError:  # the column is empty, for example
        return None
    return _Labels(spelled_as(model, classes), codes)


def _columns(model: Model, outputs: Any) -> Columns:
    if model.kind == "regressor":
        values = model.scores(outputs).reshape(len(outputs), -1)
        if model.output_labels:
            return dict(zip(model.output_labels, values.T, strict=True))
        if values.shape[1] == 1:
            return {"prediction": values[:, 0]}
        return {f"prediction {k + 1}": column for k, column in enumerate(values.T)}
    columns = {"prediction": model.classes[model.codes(outputs)]}
    if model.kind == "novelty":
        columns["score"] = model.scores(outputs)
    if model.temperature is not None:
        probabilities = np.asarray(model.probabilities(outputs)).T
        for label, column in zip(model.classes, probabilities, strict=True):
            columns[f"probability of {label}"] = column
    return columns


def is_formula(cell: Any) -> bool:
    """Whether a spreadsheet may run a text as a formula; numbers such as -1 are not texts of this.

    The first characters are those that OWASP names for CSV injection.
    """
    if not isinstance(cell, str) or not cell.startswith(("=", "+", "-", "@", "\t", "\r")):
        return False
    try:
        float(cell)
    except ValueError:
        return True
    return False


def _write_csv(
    file: Any, batches: Iterator[Columns], *, is_regressor: bool, raw_labels: bool
) -> None:
    def as_text(cell: Any) -> Any:
        return f"'{cell}" if not raw_labels and is_formula(cell) else cell

    def cells(name: str, values: Any) -> list[Any]:
        if name.startswith("probability of "):
            return [f"{value:.6f}" for value in values]
        if is_regressor or name == "score":
            return [f"{value:.9g}" for value in values]
        return [as_text(label) for label in values.tolist()]

    writer = csv.writer(file, lineterminator="\n")
    for number, columns in enumerate(batches):
        if number == 0:
            writer.writerow(map(as_text, columns))
        writer.writerows(zip(*(cells(k, v) for k, v in columns.items()), strict=True))


def _write_parquet(path: Path, batches: Iterator[Columns]) -> None:
    """One row group per batch; the first batch determines the types."""
    tables = (
        pa.table({name: pa.array(values.tolist()) for name, values in columns.items()})
        for columns in batches
    )
    first = next(tables)  # a table has rows: read_table refuses others
    with parquet.ParquetWriter(path, first.schema) as writer:
        for table in chain([first], tables):
            writer.write_table(table)
