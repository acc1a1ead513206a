"""kernlet compress: fewer centers for a trained machine."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from kernlet.cli.common import labelled_rows, read_model
from kernlet.compression.compress import compress
from kernlet.console import plain_warnings, say
from kernlet.export.file import save
from kernlet.tables.read import TableFile


def run(
    *,
    model: Path,
    table: TableFile | None,
    target: str | None,
    centers: str,
    seed: int,
    output: Path,
) -> None:
    """Compress, save, and print sizes and accuracies."""
    machine = read_model(model)
    if machine.kind != "classifier":
        raise ValueError(f"{model} is not a classifier; train a smaller machine with kernlet fit.")
    size = _size(centers)
    X, y = labelled_rows(machine, table, target)
    say(f"compressing {machine.expansion.n_centers:,} centers")
    with plain_warnings():
        small = compress(machine, size, X, y, random_state=seed)
    # the smaller machine still knows the columns of the training table
    data = {name: value for name, value in machine.summary.items() if name == "data"}
    save(replace(small.model_, summary=small.model_.summary | data), output)
    _print_cost(small.compression_)
    click.echo(f"wrote {output}")


def _size(centers: str) -> Any:
    if centers == "auto":
        return centers
    if not centers.isdecimal() or int(centers) < 1:
        raise click.UsageError(f'--centers is a number or "auto", not {centers!r}.')
    return int(centers)


def _print_cost(cost: Any) -> None:
    click.echo(
        f"{cost.centers_before:,} centers and {cost.bytes_before:,} bytes before, "
        f"{cost.centers_after:,} and {cost.bytes_after:,} after"
    )
    if cost.agreement is not None:
        click.echo(f"same class for {100 * cost.agreement:.2f} % of the rows")
    if cost.accuracy_before is not None:
        click.echo(
            f"accuracy {100 * cost.accuracy_before:.2f} % before, "
            f"{100 * cost.accuracy_after:.2f} % after"
        )
