"""kernlet report: one page on a machine."""

from __future__ import annotations

from pathlib import Path

import click

from kernlet.cli.common import read_model
from kernlet.cli.rows import labelled_rows, training_split
from kernlet.console import plain_warnings, printable, say
from kernlet.report.evaluate import MIN_TEST_ROWS, output_lines
from kernlet.report.page import write_report
from kernlet.tables.read import TableFile


def run(*, model: Path, table: TableFile, target: str | None, sizes: bool, output: Path) -> None:
    """Read, measure, write; of the training file only the held-out rows."""
    machine = read_model(model)
    X, y = labelled_rows(machine, table, target, note=False)
    name, training = table.path.name, None
    split = training_split(machine, table.path, len(X) if y is None else y)
    if split is not None and not len(split[1]):
        name = f"the rows of {table.path.name}, on which it was trained"
    elif split is not None:
        trained, held_out = split
        name = f"{len(held_out):,} rows of {table.path.name} that it has not seen"
        if y is not None:
            training, y = (X[trained], y[trained]), y[held_out]
        X = X[held_out]
    with plain_warnings():
        names = {"name": model.stem, "data": name}
        evaluation = write_report(
            machine, X, y, output, **names, training=training, sizes=sizes, say=say
        )
    rows = f"{evaluation.n_rows:,} row{'s' if evaluation.n_rows != 1 else ''}"
    if split is not None and not len(split[1]):
        rows += " that it was trained on, which is too optimistic"
    if evaluation.n_rows < MIN_TEST_ROWS:
        rows += ", too few to say much"
    if machine.kind == "novelty":
        found = "" if evaluation.roc_auc is None else f"; ROC AUC {evaluation.roc_auc:.4f}"
        click.echo(f"{_percent(evaluation.score)} flagged as outliers of {rows}{found}")
    elif machine.kind == "regressor":
        name = "D2" if machine.quantiles else "R2"
        click.echo(f"{name} {evaluation.score:.4f} on {rows}")
        for line in output_lines(machine, evaluation.outputs, evaluation.coverage):
            click.echo(line)
    else:
        click.echo(f"accuracy {_percent(evaluation.score)} on {rows}")
        click.echo(
            f"the largest class is {_percent(evaluation.majority)} of them; balanced accuracy "
            f"{_percent(evaluation.balanced_accuracy)}"
        )
    click.echo(f"wrote {printable(output)}")


def _percent(share: float | None) -> str:
    return "unknown" if share is None else f"{100 * share:.2f} %"
