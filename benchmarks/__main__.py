"""Run benchmarks: python -m benchmarks [--quick] [--folder docs/results] [NAME ...]."""

from __future__ import annotations

import platform
from importlib.metadata import version
from pathlib import Path

import click

from benchmarks import (
    compact,
    compact_bytes,
    compact_device,
    condense,
    core_vector,
    hull,
    minimal_kernel,
    mmda,
    proximal,
    ship,
    synthetic,
    tall,
    tall_blocks,
    tall_peers,
    tall_places,
)
from benchmarks.frontier import growth as frontier_growth
from benchmarks.frontier import run as frontier

_MODULES = (
    minimal_kernel,
    synthetic,
    compact_bytes,
    compact,
    compact_device,
    hull,
    proximal,
    condense,
    core_vector,
    mmda,
    ship,
    frontier,
    frontier_growth,
    tall,
    tall_blocks,
    tall_peers,
    tall_places,
)
BENCHMARKS = {name: work for module in _MODULES for name, work in module.BENCHMARKS.items()}


@click.command()
@click.argument("names", nargs=-1, type=click.Choice(list(BENCHMARKS)))
@click.option("--quick", is_flag=True, help="Leave out what takes minutes.")
@click.option(
    "--folder", type=click.Path(file_okay=False, path_type=Path), help="Write one file a benchmark."
)
def main(names: tuple[str, ...], quick: bool, folder: Path | None) -> None:
    """Measure kernlet beside its peers. CPU seconds, one thread, medians; ratios in one run."""
    click.echo(_setting() + "\n")
    for name in names or BENCHMARKS:
        tables = []
        for table in BENCHMARKS[name](quick):
            tables.append(table.markdown())
            click.echo(tables[-1] + "\n")
        if folder is not None:
            folder.mkdir(parents=True, exist_ok=True)
            command = f"`make bench ARGS={name}`"
            text = "\n\n".join([*tables, f"{command}: {_setting()}"]) + "\n"
            (folder / f"{name}.md").write_text(text, encoding="utf-8")


def _setting() -> str:
    packages = ", ".join(f"{p} {version(p)}" for p in ("scikit-learn", "highspy", "numpy"))
    return f"CPU seconds, one thread; Python {platform.python_version()}, {packages}."


if __name__ == "__main__":
    main()
