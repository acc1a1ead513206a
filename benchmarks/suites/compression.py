"""Synthetic centers: compressed SVMs and the chunking-synthetic method."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from sklearn.model_selection import GridSearchCV
from sklearn.svm import SVC

from benchmarks.tables import Table
from benchmarks.timing import measure, median_seconds
from kernlet import ChunkingSyntheticClassifier, compress
from kernlet.chunking.stage import Plan, Sample, train
from kernlet.compression.synthetic import synthesize
from kernlet.datasets import load
from kernlet.kernels.rbf import RBF
from kernlet.model.model import as_model
from papers import tasks
from papers.cache import timed
from papers.tasks import Task


def _rows(pool: Task, numbers: Any) -> Sample:
    return Sample(pool.X[numbers], pool.y[numbers], np.ones(len(numbers)))


def compression(quick: bool) -> Iterator[Table]:
    """Compressed SVMs: accuracy, bytes and speed of predictions."""
    table = Table(
        "Compressed SVMs, official splits, mean and deviation of 3 seeds",
        [
            "data",
            "centers before",
            "after",
            "test % before",
            "after",
            "lost",
            "coefficients",
            "bytes before",
            "after",
            "CPU s",
        ],
    )
    speed = Table(
        "Predictions at 100 centers, USPS ten classes",
        [
            "rows as",
            "SVC ms",
            "uncompressed ms",
            "compressed ms",
            "SVC / ours",
            "uncompressed / ours",
        ],
    )
    eight, ten, pen = tasks.usps_eight(), tasks.usps(), _pendigits()
    machines = {"USPS 8 v rest": (eight, _svc(eight, 10.0))}
    machines["USPS ten"] = (ten, _svc(ten, 10.0))
    machines["pendigits"] = (pen, _tuned_svc(pen))
    cases = [("USPS 8 v rest", 20), ("USPS ten", 200), ("USPS ten", 100), ("pendigits", 100)]
    for name, n_centers in cases:
        task, svc = machines[name]
        line, small = _compression_line(task, svc, n_centers, n_seeds=1 if quick else 3)
        table.add(name, *line)
        if (name, n_centers) == ("USPS ten", 100):
            for speed_line in _speed_lines(svc, small, task.X_test):
                speed.add(*speed_line)
    yield table
    yield speed


def _compression_line(
    task: Task, svc: SVC, n_centers: int, n_seeds: int
) -> tuple[list[object], Any]:
    """Cells of a compression with several seeds, and the first machine."""
    before = 100 * svc.score(task.X_test, task.y_test)
    machines, seconds = timed(
        lambda: [
            compress(svc, n_centers, task.X, task.y, random_state=seed) for seed in range(n_seeds)
        ]
    )
    after = [100 * small.score(task.X_test, task.y_test) for small in machines]
    facts = machines[0].compression_
    kinds = sorted({small.compression_.coefficients for small in machines})
    return [
        facts.centers_before,
        facts.centers_after,
        f"{before:.2f}",
        f"{np.mean(after):.2f} +- {np.std(after):.2f}",
        f"{before - np.mean(after):.2f}",
        ", ".join(kinds),
        f"{facts.bytes_before:,}",
        f"{facts.bytes_after:,}",
        f"{seconds / n_seeds:.1f}",
    ], machines[0]


def _svc(task: Task, C: float) -> SVC:
    return SVC(C=C, gamma=task.gamma).fit(task.X, task.y)


def _tuned_svc(task: Task) -> SVC:
    grid = {"C": [3.0, 10.0, 30.0], "gamma": [1.0, 2.0, 4.0, 8.0]}
    return GridSearchCV(SVC(), grid, cv=3).fit(task.X, task.y).best_estimator_


def _pendigits() -> Task:
    digits = load("pendigits")
    return Task(digits.X / 100.0, digits.y, digits.X_test / 100.0, digits.y_test)


def _speed_lines(svc: SVC, small: Any, X: Any) -> Iterator[list[object]]:
    uncompressed = compress(svc, len(svc.support_))
    for dtype in (np.float64, np.float32):
        rows = X.astype(dtype)
        theirs = 1000 * median_seconds(3, svc.predict, rows)
        full = 1000 * median_seconds(7, uncompressed.predict, rows)
        ours = 1000 * median_seconds(25, small.predict, rows)
        yield [
            dtype.__name__,
            f"{theirs:.0f}",
            f"{full:.1f}",
            f"{ours:.2f}",
            f"{theirs / ours:.0f}x",
            f"{full / ours:.1f}x",
        ]


def reduced_set(quick: bool) -> Iterator[Table]:
    """One reduced-set problem with 10 points on USPS."""
    table = Table(
        "Ten synthetic points for a machine on USPS 8 v rest",
        ["machine", "centers", "residual", "steps", "CPU s", "paper, 2000"],
    )
    task = tasks.usps_eight()
    plan = Plan(RBF(task.gamma), np.array([False, True]), (1.4,), 10, False, None, "lp")
    random = np.random.RandomState(0)
    chosen = random.permutation(len(task.y))[:500]
    ((machine, *_),) = train(plan, _rows(task, chosen), None, (1.4,), random)
    svc = _svc(task, 10.0)
    for name, expansion in (
        ("1-norm, 500 rows", machine),
        ("SVC, 7291 rows", as_model(svc).expansion),
    ):
        reduction, seconds = timed(synthesize, expansion, 10, random_state=0)
        table.add(
            name,
            expansion.n_centers,
            f"{reduction.residual:.3f}",
            len(reduction.residuals) - 2,
            f"{seconds:.2f}",
            "4 to 9 min",
        )
    yield table


def fit_chunks(task: Task) -> dict[str, Any]:
    machine = ChunkingSyntheticClassifier(
        C=10.0,
        gamma=task.gamma,
        n_runs=4,
        stage_sizes=(500,),
        random_state=0,
    )
    machine.fit(task.X, task.y)
    return {"centers": machine.n_centers_, "score": machine.score(task.X_test, task.y_test)}


def chunking_growth(quick: bool) -> Iterator[Table]:
    """Time of the chunking-synthetic fit by number of rows, everything else fixed."""
    table = Table(
        "MNIST 8 v rest: 4 runs of 10 points on 500 rows, then all rows",
        ["rows", "CPU s", "ms per row", "centers", "test %", "peak MB"],
    )
    for m in (1000, 4000, 16_000) if quick else (1000, 2000, 4000, 8000, 16_000, 32_000, 60_000):
        run = measure(tasks.mnist_eight, fit_chunks, m)
        table.add(
            f"{m:,}",
            f"{run.seconds:.2f}",
            f"{1000 * run.seconds / m:.2f}",
            run.answer["centers"],
            f"{100 * run.answer['score']:.2f}",
            f"{run.peak:.0f}",
        )
    yield table


BENCHMARKS = {
    "reduced-set": reduced_set,
    "compression": compression,
    "chunking-growth": chunking_growth,
}
