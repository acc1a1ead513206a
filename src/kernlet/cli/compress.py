"""kernlet compress: fewer centers for a trained machine."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kernlet.cli.common import check_metric, read_model
from kernlet.compression.compress import compress
from kernlet.compression.record import Compression
from kernlet.console import plain_warnings, printable, say
from kernlet.export.file import save

if TYPE_CHECKING:
    from kernlet.tables.read import TableFile

_LARGEST_LOSS = 0.01  # of accuracy, R2 or D2, without a remark


def run(
    *,
    model: Path,
    table: TableFile | None,
    target: str | None,
    centers: str,
    metric: str | None,
    force: bool,
    seed: int,
    output: Path,
) -> None:
    """Compress, save, and print sizes and what was lost."""
    machine = read_model(model)
    size = _size(centers)
    check_metric(metric)
    if metric is not None and machine.quantiles is not None:
        raise ValueError("Quantiles are judged by their pinball loss: leave --metric out.")
    if metric is not None and table is None:
        raise click.UsageError("--metric is measured on rows: give a TABLE too.")
    X = y = None
    if table is not None:
        from kernlet.cli.rows import labelled_rows

        # a regressor is compared with itself where its table has no targets
        required = machine.kind == "classifier"
        X, y = labelled_rows(machine, table, target, required=required)
        y = None if machine.kind == "novelty" else y
    say(f"compressing {machine.expansion.n_centers:,} centers")
    with plain_warnings():
        small = compress(machine, size, X, y, scoring=metric, random_state=seed)
    facts = small.compression_
    if facts.bytes_after >= facts.bytes_before and not force:
        raise ValueError(
            f"{facts.centers_after:,} centers take {facts.bytes_after:,} bytes, no fewer than the "
            f"{facts.bytes_before:,} of {model}; nothing was written. Give fewer --centers than "
            f"{facts.centers_before:,}, or --force."
        )
    # the smaller machine still knows the columns of the training table
    data = {name: value for name, value in machine.summary.items() if name == "data"}
    save(replace(small.model_, summary=small.model_.summary | data), output)
    _print_record(facts, "more --centers" if size == "auto" else "more --centers or --centers auto")
    click.echo(f"wrote {printable(output)}")


def _size(centers: str) -> Any:
    if centers == "auto":
        return centers
    if not centers.isdecimal() or int(centers) < 1:
        raise click.UsageError(f'--centers is a number or "auto", not {centers!r}.')
    return int(centers)


def _print_record(facts: Compression, remedy: str) -> None:
    _, *lines = str(facts).splitlines()
    for line in lines:
        click.echo(" ".join(line.split()))
    name, before, after = "accuracy", facts.accuracy_before, facts.accuracy_after
    if facts.kind == "regressor" and facts.scoring in ("r2", "D2"):
        name, before, after = facts.scoring.upper(), facts.score_before, facts.score_after
    if before is None or after is None:
        return
    lost = before - after
    if lost > _LARGEST_LOSS:
        by = f"{lost:.3f}" if name != "accuracy" else f"{100 * lost:.1f} points"
        click.echo(
            f"{name} falls by {by}: give {remedy}, or train a small machine with kernlet fit, "
            "which often does better"
        )
