"""Measuring a piece of work in a process of its own."""

from __future__ import annotations

import multiprocessing
import resource
import time
from collections.abc import Callable
from dataclasses import dataclass
from statistics import median
from typing import Any

import click


@dataclass(frozen=True)
class Run:
    """What a piece of work cost.

    ``seconds`` is CPU time; ``peak`` the largest memory of the process in MB, ``growth`` by how
    much the work raised it.
    """

    seconds: float
    peak: float
    growth: float
    answer: dict[str, Any]


def measure(
    prepare: Callable[..., Any],
    work: Callable[..., dict[str, Any]],
    *arguments: Any,
    repeats: int = 1,
) -> Run:
    """Run ``work(prepare(*arguments))`` in a fresh process, ``work`` several times in a row.

    ``prepare`` is not measured. Functions must be importable. The median time is returned, with
    the memory and the answer of the first time.
    """
    click.echo(f"measuring {work.__name__} on {arguments}", err=True)
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(_run, (prepare, work, arguments, repeats))


def _run(
    prepare: Callable[..., Any], work: Callable[..., Any], arguments: tuple[Any, ...], repeats: int
) -> Run:
    prepared = prepare(*arguments)
    before = _peak()
    seconds, answer = _timed(work, prepared)
    peak = _peak()
    times = [seconds] + [_timed(work, prepared)[0] for _ in range(repeats - 1)]
    return Run(median(times), peak, peak - before, answer)


def _timed(work: Callable[..., Any], prepared: Any) -> tuple[float, Any]:
    start = time.process_time()
    answer = work(prepared)
    return time.process_time() - start, answer


def _peak() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
