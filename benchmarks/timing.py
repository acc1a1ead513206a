"""CPU time and memory of a function, in this process or in a new one."""

from __future__ import annotations

import multiprocessing
import resource
from collections.abc import Callable
from dataclasses import dataclass
from statistics import median
from typing import Any

import click

from papers.cache import timed


def median_seconds(repeats: int, function: Callable[..., Any], *arguments: Any) -> float:
    """Median CPU time of several calls."""
    return median(timed(function, *arguments)[1] for _ in range(repeats))


@dataclass(frozen=True)
class Run:
    """What a function cost in a new process.

    ``seconds`` is CPU time, ``peak`` the largest memory of the process in MB, and ``growth`` how
    much of it the function added.
    """

    seconds: float
    peak: float
    growth: float
    answer: dict[str, Any]


def measure(
    prepare: Callable[..., Any],
    function: Callable[..., dict[str, Any]],
    *arguments: Any,
    repeats: int = 1,
) -> Run:
    """Run ``function(prepare(*arguments))`` in a new process, ``function`` several times in a row.

    ``prepare`` is not measured. Both must be importable. Time is the median, memory and the answer
    are those of the first call.
    """
    click.echo(f"measuring {function.__name__} on {arguments}", err=True)
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(_run, (prepare, function, arguments, repeats))


def _run(
    prepare: Callable[..., Any],
    function: Callable[..., Any],
    arguments: tuple[Any, ...],
    repeats: int,
) -> Run:
    prepared = prepare(*arguments)
    before = _peak()
    answer, first = timed(function, prepared)
    peak = _peak()
    times = [first] + [timed(function, prepared)[1] for _ in range(repeats - 1)]
    return Run(median(times), peak, peak - before, answer)


def _peak() -> float:
    """Largest memory of this process so far, in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
