"""Run benchmarks: ``python -m benchmarks [--quick] [--folder docs/results] [NAME ...]``.

Every module of ``benchmarks/suites`` and ``benchmarks/frontier`` may have ``BENCHMARKS``: functions
by name, each of which takes ``quick`` and yields tables.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules

import click

from benchmarks import frontier, suites
from benchmarks.tables import Table
from papers.tables import environment


def discover() -> dict[str, Callable[[bool], Iterator[Table]]]:
    """All benchmarks by name, those of the suites first."""
    found: dict[str, Callable[[bool], Iterator[Table]]] = {}
    for package in (suites, frontier):
        for module in iter_modules(package.__path__, f"{package.__name__}."):
            found |= getattr(import_module(module.name), "BENCHMARKS", {})
    return found


BENCHMARKS = discover()


@click.command()
@click.argument("names", nargs=-1, type=click.Choice(list(BENCHMARKS)))
@click.option("--quick", is_flag=True, help="Leave out what takes minutes.")
@click.option(
    "--folder",
    type=click.Path(file_okay=False, path_type=Path),
    help="Write one file per benchmark.",
)
def main(names: tuple[str, ...], quick: bool, folder: Path | None) -> None:
    """Measure kernlet beside its peers. CPU seconds, one thread, medians; ratios in one run."""
    click.echo(environment() + "\n")
    for name in names or BENCHMARKS:
        tables = []
        for table in BENCHMARKS[name](quick):
            tables.append(table.markdown())
            click.echo(tables[-1] + "\n")
        if folder is not None:
            folder.mkdir(parents=True, exist_ok=True)
            command = f"`make bench ARGS={name}`"
            text = "\n\n".join([*tables, f"{command}: {environment()}"]) + "\n"
            (folder / f"{name}.md").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
