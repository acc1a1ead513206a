"""Telling people how far things are, on standard error."""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click


def say(text: str) -> None:
    """A line about what happens now."""
    click.echo(text, err=True)


@contextmanager
def reading_bar(path: Path) -> Iterator[Callable[[int], None]]:
    """A bar over the bytes of a file; on no terminal, a line at the start."""
    size = path.stat().st_size
    if not sys.stderr.isatty():
        say(f"reading {path.name} ({size / 1e6:.1f} MB)")
        yield lambda n: None
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True)) as progress:
        task = progress.add_task(f"reading {path.name}", total=size)
        yield lambda n: progress.advance(task, n)
        progress.update(task, completed=size)


def show_training(estimator: Any) -> Any:
    """Give an estimator a progress bar, or lines where there is no terminal."""
    from sklearn.callback import ProgressBar

    estimator.set_callbacks(ProgressBar() if sys.stderr.isatty() else EpochLines())
    return estimator


class EpochLines:
    """A callback of scikit-learn that says how many tasks of a fit are done, now and then."""

    def __init__(self, seconds: float = 5.0) -> None:
        self.seconds = seconds

    def setup(self, estimator: Any, context: Any) -> None:
        """Start counting."""
        self.done, self.last = 0, time.monotonic()

    def on_fit_task_begin(self, estimator: Any, context: Any) -> None:
        """Nothing to say."""

    def on_fit_task_end(self, estimator: Any, context: Any) -> None:
        """Say how far it is, at most every few seconds."""
        self.done += 1
        if time.monotonic() - self.last > self.seconds:
            self.last = time.monotonic()
            name = str(context.task_name)
            say(f"  {name}" if name.startswith("pass") else f"  {self.done} epochs or trials done")

    def teardown(self, estimator: Any, context: Any) -> None:
        """Nothing is left to do."""


@contextmanager
def plain_warnings() -> Iterator[None]:
    """Warnings as one line each."""
    with warnings.catch_warnings():
        warnings.simplefilter("default")
        warnings.showwarning = lambda message, *rest, **more: say(f"note: {message}")
        yield
