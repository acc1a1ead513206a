"""Machines side by side: accuracy, size, time and certificate."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from statistics import median
from typing import Any

from sklearn.svm import SVC

from kernlet.datasets import Dataset


@dataclass(frozen=True)
class Measurement:
    """One line of a comparison.

    Parameters
    ----------
    data, machine : str
    accuracy : float
        On the test part.
    centers : int
        Points the machine depends on.
    nbytes : int
        Bytes of its tables as they are held.
    fit_seconds, predict_seconds : float
        CPU time; the median of several predictions of the whole test part.
    loo_bound : float
        Upper bound on the leave-one-out error.
    gap : float or None
        Relative duality gap, where the machine knows it.
    """

    data: str
    machine: str
    accuracy: float
    centers: int
    nbytes: int
    fit_seconds: float
    predict_seconds: float
    loo_bound: float | None
    gap: float | None


def measure(name: str, machine: Any, data: Dataset, *, repeats: int = 5) -> Measurement:
    """Fit a machine on the training part of a data set and measure it on the test part.

    Parameters
    ----------
    name : str
    machine : SVC or a kernlet classifier
    data : Dataset
        With a test part.
    repeats : int, default=5
        Predictions of which the median time is taken.

    Returns
    -------
    measurement : Measurement
    """
    fit_seconds = cpu_seconds(lambda: machine.fit(data.X, data.y))
    predict_seconds = median(
        cpu_seconds(lambda: machine.predict(data.X_test)) for _ in range(repeats)
    )
    gap = machine.duality_gap_.max() if hasattr(machine, "duality_gap_") else None
    return Measurement(
        data=data.name,
        machine=name,
        accuracy=float(machine.score(data.X_test, data.y_test)),
        centers=_centers(machine),
        nbytes=_nbytes(machine),
        fit_seconds=fit_seconds,
        predict_seconds=predict_seconds,
        loo_bound=_loo_bound(machine, len(data.X)),
        gap=gap,
    )


def cpu_seconds(call: Callable[[], Any]) -> float:
    """CPU time of a call in this process."""
    start = time.process_time()
    call()
    return time.process_time() - start


def markdown_table(measurements: Iterable[Measurement]) -> str:
    """The measurements as a Markdown table."""
    header = (
        "| data | machine | test accuracy | centers | bytes | fit (CPU) | predict (CPU) "
        "| leave-one-out error | duality gap |"
    )
    lines = [header, "|---|---|--:|--:|--:|--:|--:|--:|--:|"]
    lines += [_line(m) for m in measurements]
    return "\n".join(lines)


def _line(m: Measurement) -> str:
    gap = "-" if m.gap is None else f"{m.gap:.0e}"
    bound = "-" if m.loo_bound is None else f"<= {100 * m.loo_bound:.0f} %"
    return (
        f"| {m.data} | {m.machine} | {100 * m.accuracy:.1f} % | {m.centers:,} | {m.nbytes:,} "
        f"| {m.fit_seconds:.2f} s | {1000 * m.predict_seconds:.1f} ms "
        f"| {bound} | {gap} |"
    )


def _centers(machine: Any) -> int:
    return len(machine.support_) if isinstance(machine, SVC) else machine.n_centers_


def _nbytes(machine: Any) -> int:
    if isinstance(machine, SVC):
        tables = (machine.support_vectors_, machine.dual_coef_, machine.intercept_)
        return sum(table.nbytes for table in tables)
    return int(machine.expansion_.nbytes)


def _loo_bound(machine: Any, n_rows: int) -> float | None:
    """For an SVC the share of support vectors: no other row can change the machine."""
    if isinstance(machine, SVC):
        return len(machine.support_) / n_rows
    return getattr(machine, "loo_error_bound_", None)
