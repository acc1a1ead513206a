"""kernlet report: one page on a machine."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from kernlet.cli.common import labelled_rows, read_model, trained_on
from kernlet.console import plain_warnings, say
from kernlet.model.model import Model
from kernlet.report.page import write_report
from kernlet.tables.read import file_digest
from kernlet.tables.split import split_rows


def run(*, model: Path, table: Path, target: str | None, sizes: bool, output: Path) -> None:
    """Read, measure, write; of the file that the machine was trained on, the rows kept aside."""
    machine = read_model(model)
    X, y = labelled_rows(machine, table, target)
    name, training = table.name, None
    split = _own_split(machine, table, y)
    if split is not None:
        kept, held_out = split
        name = f"{len(held_out):,} rows of {table.name} that it has not seen"
        training, X, y = (X[kept], y[kept]), X[held_out], y[held_out]
    with plain_warnings():
        evaluation = write_report(
            machine,
            X,
            y,
            output,
            name=model.stem,
            data=name,
            training=training,
            sizes=sizes,
            say=say,
        )
    what = "R2" if machine.kind == "regressor" else "accuracy"
    click.echo(f"{what} {evaluation.score:.4f} on {evaluation.n_rows:,} rows; wrote {output}")


def _own_split(machine: Model, table: Path, y: Any) -> tuple[Any, Any] | None:
    """How kernlet fit split this very file; None for another one."""
    split = machine.summary.get("split")
    if not isinstance(split, dict) or trained_on(machine).get("sha256") != file_digest(table):
        return None
    test, seed = split.get("test", 0.0), split.get("seed", 0)
    if not (_is_share(test) and _is_seed(seed)):
        return None
    kept, held_out = split_rows(y, test, seed, machine.kind == "regressor")
    if not len(held_out):
        say("note: the machine was trained on all rows of this file, so the score is too good")
        return None
    return kept, held_out


def _is_share(value: Any) -> bool:
    return type(value) in (int, float) and 0 <= value < 1


def _is_seed(value: Any) -> bool:
    return type(value) is int and 0 <= value < 2**32
