"""``python -m papers``: the tables of the five papers with our figures beside them."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click

from kernlet.console import plain_warnings, say
from papers.reproduce import PAPERS, Progress, reproduce, tables_of
from papers.summary import write_summary


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("paper", type=click.Choice([*PAPERS, "all", "summary"]))
@click.option("--table", metavar="N", help="One table of a paper, such as 1 or figure4.")
@click.option("--quick", is_flag=True, help="Fewer rows, folds and seeds: minutes for all.")
@click.option(
    "--folder",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("results"),
    show_default=True,
    help="Where tables, pictures and the cache of results go.",
)
@click.option("--fresh", is_flag=True, help="Run every experiment again.")
@click.option("--cached", is_flag=True, help="Run nothing: tables of the cached results.")
def main(
    paper: str, table: str | None, quick: bool, folder: Path, fresh: bool, cached: bool
) -> None:
    """Reproduce the tables of five papers, our figures beside theirs.

    \b
    fung2002          Minimal kernel classifiers
    gonzalez2000      Chunking-synthetic approaches to large-scale kernel machines
    garcia2006        Optimal support vector selection for kernel perceptrons
    vishwanathan2002  Use of multi-category proximal SVM for data set reduction
    tsang2006         Efficient kernel feature extraction for massive data sets

    Results are cached, so that an interrupted run resumes where it stopped. "summary" counts the
    verdicts of the tables in the folder. Data come from the folder in KERNLET_DATA.
    """  # noqa: D301 - \b keeps click from wrapping the list
    if table is not None and paper in ("all", "summary"):
        raise click.UsageError(f"--table belongs to one paper, not to {paper}.")
    if fresh and cached:
        raise click.UsageError("--fresh runs everything again, --cached nothing; give one.")
    try:
        _run(paper, table, quick, folder, fresh, cached)
    except (ValueError, OSError, ImportError) as error:
        raise click.ClickException(" ".join(str(error).split())) from error


def _run(
    paper: str, table: str | None, quick: bool, folder: Path, fresh: bool, cached: bool
) -> None:
    if paper != "summary":
        papers = list(PAPERS) if paper == "all" else [paper]
        tables = {name: tables_of(name, table) for name in papers}
        try:
            with plain_warnings(), _progress() as progress:
                for name, numbers in tables.items():
                    pages = reproduce(
                        *(name, numbers, folder),
                        quick=quick,
                        fresh=fresh,
                        cached_only=cached,
                        progress=progress,
                    )
                    for page in pages:
                        click.echo(page)
        except KeyboardInterrupt:
            say(
                f"\nInterrupted. Results so far are in {folder / 'cache'}; the same command "
                "(without --fresh) resumes there, and --cached makes tables of them."
            )
            raise SystemExit(130) from None
    click.echo(write_summary(folder))
    if paper != "summary":
        click.echo(f"Wrote the tables and summary.md to {folder}/")


@contextmanager
def _progress() -> Iterator[Progress]:
    """A progress bar over the experiments of a table; without a terminal, a line for each."""
    if not sys.stderr.isatty():
        yield _print_line
        return
    from rich import progress as rich_progress
    from rich.console import Console

    columns = (
        rich_progress.TextColumn("{task.description}"),
        rich_progress.BarColumn(),
        rich_progress.MofNCompleteColumn(),
        rich_progress.TimeElapsedColumn(),
    )
    with rich_progress.Progress(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task("", total=None)

        def update(name: str, done: int, total: int, seconds: float | None) -> None:
            bar.update(task, description=name, completed=done, total=total)

        yield update


def _print_line(name: str, done: int, total: int, seconds: float | None) -> None:
    if seconds is not None:
        duration = f"{seconds:.1f} s" if seconds else "cached"
        say(f"{name} ({done} of {total}): {duration}")


if __name__ == "__main__":
    main(prog_name="python -m papers")
