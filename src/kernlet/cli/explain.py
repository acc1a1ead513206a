"""kernlet explain: Shapley values of the rows of a table."""

from __future__ import annotations

import csv
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import numpy as np

from kernlet.atomic import atomic_write
from kernlet.cli.common import read_model
from kernlet.cli.predict import is_formula
from kernlet.cli.rows import labelled_rows
from kernlet.console import plain_warnings, printable, say
from kernlet.explain.shapley import Explanation, refuse_missing, shapley_values
from kernlet.kernels.gram import as_dense
from kernlet.model.model import Model
from kernlet.report.explanation import (
    error_and_size,
    error_sentence,
    order_note,
    write_explanation,
)
from kernlet.tables.read import TableFile, errors_in

_MOST_ROWS = 100  # of which a page takes the importance
_CSV_BATCH = 100  # rows explained between two lines of progress


def run(
    *, model: Path, table: TableFile, background: int, rows: int, seed: int, output: Path
) -> None:
    """Read, explain, write."""
    machine = read_model(model)
    X, _ = labelled_rows(machine, table, None, required=False, note=False, encoded=False)
    n_rows = X.shape[0] if isinstance(X, np.ndarray) else len(X)
    order = np.random.RandomState(seed).permutation(n_rows)
    others = np.sort(order[:background])
    if machine.expansion.skips_missing:  # row numbers of the whole table, before any work
        with plain_warnings(), errors_in(table.path):
            refuse_missing(machine, as_dense(machine.rows(X)), "the table")

    def explain(numbers: Any) -> Explanation:
        with plain_warnings(), errors_in(table.path):
            given = _taken(X, numbers), _taken(X, others)
            return shapley_values(machine, *given, random_state=seed)

    if output.suffix.lower() == ".csv":
        error = _write_csv(machine, explain, n_rows, output)
        click.echo(error)
        _say_note(machine)
        click.echo(f"wrote {printable(output)}")
        return
    shown = np.arange(min(rows, n_rows))
    numbers = np.union1d(shown, order[:_MOST_ROWS])
    say(f"explaining {len(numbers):,} rows against {len(others):,} rows")
    explanation = explain(numbers)
    write_explanation(
        machine,
        explanation,
        _predicted(machine, _taken(X, shown)) if len(shown) else [],
        output,
        name=model.stem,
        data=table.path.name,
        n_background=len(others),
    )
    click.echo(error_sentence(explanation.error_kind, *error_and_size(explanation)))
    _say_note(machine)
    for name, value in _leading(explanation):
        click.echo(f"  {value:.4g}  {printable(name)}")
    click.echo(f"wrote {printable(output)}")


def _say_note(machine: Model) -> None:
    """Print what to know of the values of quantiles."""
    if note := order_note(machine):
        click.echo(note)


def _taken(X: Any, numbers: Any) -> Any:
    """Rows of an array or an Arrow table."""
    return X[numbers] if isinstance(X, np.ndarray) else X.take(numbers)


def _predicted(machine: Model, X: Any) -> Any:
    """Numbers of the classes of rows, or 0 for the only output of a regressor."""
    outputs = machine.outputs(machine.rows(X))
    return machine.codes(outputs) if machine.kind == "classifier" else np.zeros(len(X), dtype=int)


def _leading(explanation: Explanation, most: int = 5) -> list[tuple[str, float]]:
    importance = explanation.importance().sum(axis=1)
    order = np.argsort(-importance, kind="stable")[:most]
    return [(explanation.feature_names[e], float(importance[e])) for e in order]


def _write_csv(
    machine: Model, explain: Callable[[Any], Explanation], n_rows: int, output: Path
) -> str:
    """One line per row and output, with a column per feature; returns a sentence on the error."""

    def text(cell: str) -> str:
        return f"'{cell}" if is_formula(cell) else cell

    kind, error, largest = "bound", 0.0, 0.0
    with (
        atomic_write(output) as temporary,
        temporary.open("w", encoding="utf-8", newline="", errors="backslashreplace") as file,
    ):
        writer = csv.writer(file, lineterminator="\n")
        for start in range(0, n_rows, _CSV_BATCH):
            numbers = np.arange(start, min(start + _CSV_BATCH, n_rows))
            say(f"explaining rows {start + 1:,} to {numbers[-1] + 1:,} of {n_rows:,}")
            explanation = explain(numbers)
            sizes = error_and_size(explanation)
            error, largest = max(error, sizes[0]), max(largest, sizes[1])
            if start == 0:
                kind = explanation.error_kind
                names = ["row", "output", "base", *explanation.feature_names, kind]
                writer.writerow(map(text, names))
            for row, values, errors in zip(
                numbers, explanation.values, explanation.error, strict=True
            ):
                for c, output_name in enumerate(explanation.output_names):
                    given = [explanation.base_values[c], *values[:, c], errors[:, c].max()]
                    cells = [f"{value:.9g}" for value in given]
                    writer.writerow([row + 1, text(output_name), *cells])
    return error_sentence(kind, error, largest)
