"""kernlet predict: a column of answers for a table."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import Any

import click
import numpy as np

from kernlet.cli.models import errors_of, read_for, rows_for, shipped_model
from kernlet.export import ShippedModel
from kernlet.files import written_whole


def run(model: Path, table: Path, output: Path | None) -> None:
    """Predict the rows of a table and write them as CSV."""
    shipped = shipped_model(model)
    read = read_for(shipped, table)
    with errors_of(table):
        outputs = shipped.outputs(rows_for(shipped, read))
    text = _csv(*_answers(shipped, outputs))
    if output is None:
        click.echo(text, nl=False)
        return
    with written_whole(output) as temporary:
        temporary.write_text(text, encoding="utf-8")
    click.echo(f"wrote {len(outputs):,} predictions to {output}", err=True)


def _answers(shipped: ShippedModel, outputs: Any) -> tuple[list[str], list[Any]]:
    """Header and columns."""
    if shipped.kind == "regressor":
        values = shipped.scores(outputs).reshape(len(outputs), -1)
        names = ["prediction"] if values.shape[1] == 1 else _numbered(values.shape[1])
        return names, [[f"{v:.9g}" for v in column] for column in values.T]
    labels = shipped.classes[shipped.codes(outputs)]
    header, columns = ["prediction"], [labels.tolist()]
    if shipped.temperature is not None:
        probabilities = shipped.probabilities(outputs)
        header += [f"probability of {label}" for label in shipped.classes]
        columns += [[f"{v:.6f}" for v in column] for column in np.asarray(probabilities).T]
    return header, columns


def _numbered(count: int) -> list[str]:
    return [f"prediction {i + 1}" for i in range(count)]


def _csv(header: list[str], columns: list[Any]) -> str:
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(header)
    writer.writerows(zip(*columns, strict=True))
    return buffer.getvalue()
