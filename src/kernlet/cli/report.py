"""kernlet report: one page on a machine."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from kernlet.cli.common import labelled_rows, read_model, trained_on
from kernlet.console import plain_warnings, say
from kernlet.model.model import Model
from kernlet.report.page import write_report
from kernlet.tables.read import TableFile, file_digest
from kernlet.tables.split import split_rows


def run(*, model: Path, table: TableFile, target: str | None, sizes: bool, output: Path) -> None:
    """Read, measure, write; of the training file only the held-out rows."""
    machine = read_model(model)
    X, y = labelled_rows(machine, table, target)
    name, training = table.path.name, None
    split = _training_split(machine, table.path, y)
    if split is not None:
        trained, held_out = split
        name = f"{len(held_out):,} rows of {table.path.name} that it has not seen"
        training, X, y = (X[trained], y[trained]), X[held_out], y[held_out]
    with plain_warnings():
        names = {"name": model.stem, "data": name}
        evaluation = write_report(
            machine, X, y, output, **names, training=training, sizes=sizes, say=say
        )
    score = "R2" if machine.kind == "regressor" else "accuracy"
    click.echo(f"{score} {evaluation.score:.4f} on {evaluation.n_rows:,} rows; wrote {output}")


def _training_split(machine: Model, table: Path, y: Any) -> tuple[Any, Any] | None:
    """Training rows and held-out rows, if kernlet fit was given this very file."""
    split = machine.summary.get("split")
    if not isinstance(split, dict) or trained_on(machine).get("sha256") != file_digest(table):
        return None
    test, seed = split.get("test", 0.0), split.get("seed", 0)
    # a model file may state anything: do not pass it on unchecked
    if type(test) not in (int, float) or not 0 <= test < 1:
        return None
    if type(seed) is not int or not 0 <= seed < 2**32:
        return None
    trained, held_out = split_rows(y, test, seed, machine.kind == "regressor")
    if not len(held_out):
        say("note: the machine was trained on all rows of this file; the score is too optimistic")
        return None
    return trained, held_out
