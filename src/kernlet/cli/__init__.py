"""The command line; each command imports what it needs when it runs."""

from pathlib import Path

import click

from kernlet import __version__


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="kernlet")
def main() -> None:
    """Train, shrink and ship kernel machines that depend on very few points."""


@main.command("demo")
@click.option(
    "--folder",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("demo"),
    show_default=True,
    help="Where the pictures and the table go.",
)
def run_demo(folder: Path) -> None:
    """Compare SVC and kernlet on a checkerboard and on digits."""
    from kernlet.cli.demo import run

    run(folder)
