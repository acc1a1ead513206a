"""kernlet reproduce: the tables of the five papers, ours beside them."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click

from kernlet.cli.progress import plain_warnings, say
from kernlet.reproduce.papers import PAPERS, Watch, reproduce, tables_of
from kernlet.reproduce.summary import write_summary


def run(paper: str, table: str | None, quick: bool, folder: Path, fresh: bool, kept: bool) -> None:
    """Measure, print and write; what was done stays where it is interrupted."""
    if paper == "summary":
        click.echo(write_summary(folder))
        return
    papers = list(PAPERS) if paper == "all" else [paper]
    wanted = {name: tables_of(name, table) for name in papers}
    try:
        with plain_warnings(), _watching() as watch:
            for name, numbers in wanted.items():
                for page in reproduce(
                    name, numbers, folder, quick=quick, fresh=fresh, kept=kept, watch=watch
                ):
                    click.echo(page)
    except KeyboardInterrupt:
        say(
            f"\nStopped. What was measured is kept in {folder / 'cells'}; the same command "
            "(without --fresh) goes on from there, and --kept makes tables of what there is."
        )
        raise SystemExit(130) from None
    click.echo(write_summary(folder))
    click.echo(f"Wrote the tables and summary.md to {folder}/")


@contextmanager
def _watching() -> Iterator[Watch]:
    """A bar over the measurements of a table; on no terminal, a line for each."""
    if not sys.stderr.isatty():
        yield _line
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn()
    with Progress(*columns, TimeElapsedColumn(), console=Console(stderr=True)) as progress:
        task = progress.add_task("", total=None)

        def watch(name: str, done: int, total: int, seconds: float | None) -> None:
            progress.update(task, description=name, completed=done, total=total)

        yield watch


def _line(name: str, done: int, total: int, seconds: float | None) -> None:
    if seconds is not None:
        took = f"{seconds:.1f} s" if seconds else "kept"
        say(f"{name} ({done} of {total}): {took}")
