"""Messages and progress on a terminal."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click


def say(text: str) -> None:
    """Print a line of progress."""
    click.echo(printable(text), err=True)


def printable(text: object) -> str:
    """A text in one line that no terminal takes for a command.

    Names of files, columns and classes may hold line ends, control characters or bytes that are
    not UTF-8.
    """
    return "".join(
        character if character.isprintable() else "\N{REPLACEMENT CHARACTER}"
        for character in " ".join(str(text).split())
    )


@contextmanager
def reading_bar(path: Path) -> Iterator[Callable[[int], None]]:
    """A progress bar over the bytes of a file; a single line if this is not a terminal."""
    size = path.stat().st_size
    if not sys.stderr.isatty():
        say(f"reading {path.name} ({size / 1e6:.1f} MB)")
        yield lambda n: None
        return
    from rich.console import Console
    from rich.markup import escape
    from rich.progress import Progress

    with Progress(console=Console(stderr=True)) as progress:
        task = progress.add_task(escape(printable(f"reading {path.name}")), total=size)
        yield lambda n: progress.advance(task, n)
        progress.update(task, completed=size)


def task_bars() -> Any:
    """Bars for the tasks of a fit, shown on standard output; None where they cannot be.

    That is without a terminal, without rich, and inside another display before rich 14.1.
    """
    if not sys.stdout.isatty():
        return None
    try:
        from rich import progress
        from rich.errors import LiveError
    except ImportError:
        return None
    bars = progress.Progress(
        progress.TextColumn("{task.description}"),
        progress.BarColumn(),
        progress.MofNCompleteColumn(),
        progress.TimeRemainingColumn(),
        transient=True,
    )
    try:
        bars.start()
    except LiveError:
        return None
    return bars


@contextmanager
def plain_warnings() -> Iterator[None]:
    """Warnings as one line each."""
    with warnings.catch_warnings():
        warnings.simplefilter("default")
        warnings.showwarning = lambda message, *rest, **more: say(f"note: {message}")
        yield
