"""Threads left alone against one thread, on quiet cores and beside two busy processes."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from statistics import median
from typing import Any

import numpy as np
from sklearn.datasets import load_digits
from sklearn.svm import SVC

import kernlet
from benchmarks.suites.defaults import estimators
from benchmarks.tables import Table

_VARIABLES = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")
_N_BUSY = 2
_N_REPEATS = 3
_CENTERS = 100
_ROWS_TO_PREDICT = 20_000


def jobs() -> dict[str, Callable[[], Any]]:
    """Every estimator on digits with its defaults, ``compress``, a prediction and a transform."""
    X, y = load_digits(return_X_y=True)
    X = X / 16.0
    svc = SVC(C=10).fit(X, y)
    machine = kernlet.ProximalClassifier(landmarks=_CENTERS, random_state=0).fit(X, y)
    features = kernlet.MMDA(random_state=0).fit(X, y)
    many = np.resize(X, (_ROWS_TO_PREDICT, X.shape[1]))
    return {
        **{name: _fit(estimator, X, y) for name, estimator in estimators().items()},
        "compress(SVC, 50)": lambda: kernlet.compress(svc, 50, X, y, random_state=0),
        f"predict, {_ROWS_TO_PREDICT:,} rows": lambda: machine.predict(many),
        f"MMDA.transform, {_ROWS_TO_PREDICT:,} rows": lambda: features.transform(many),
    }


def _fit(estimator: Any, X: Any, y: Any) -> Callable[[], Any]:
    if "random_state" in estimator.get_params():
        estimator.set_params(random_state=0)
    method = estimator.fit_resample if hasattr(estimator, "fit_resample") else estimator.fit
    return lambda: method(X, y)


def serve() -> None:
    """Run the jobs named on standard input, and answer with their wall seconds."""
    by_name = jobs()
    print(*by_name, sep="|", flush=True)
    for line in sys.stdin:
        start = time.perf_counter()
        by_name[line.strip()]()
        print(time.perf_counter() - start, flush=True)


@contextmanager
def _server(**variables: str) -> Iterator[tuple[list[str], Callable[[str], float]]]:
    environment = {name: value for name, value in os.environ.items() if name not in _VARIABLES}
    command = [sys.executable, "-W", "ignore", "-c", f"from {__name__} import serve; serve()"]
    with subprocess.Popen(
        command,
        env={**environment, **variables},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        stdin: Any = process.stdin
        stdout: Any = process.stdout

        def seconds(name: str) -> float:
            print(name, file=stdin, flush=True)
            return float(stdout.readline())

        yield stdout.readline().strip().split("|"), seconds
        stdin.close()


@contextmanager
def _busy_processes(n: int) -> Iterator[None]:
    with ExitStack() as stack:
        for _ in range(n):
            process = subprocess.Popen([sys.executable, "-c", "while True: pass"])
            stack.callback(process.wait)
            stack.callback(process.kill)
        yield


def threads(quick: bool) -> Iterator[Table]:
    """Wall time, since that is what threads are for; medians of alternating runs."""
    repeats = 1 if quick else _N_REPEATS
    table = Table(
        "Digits, 1,797 rows of 64 features, defaults: wall seconds on one thread, and how much "
        "longer with the number of threads left alone, on quiet cores and beside "
        f"{_N_BUSY} busy processes; medians of {repeats}",
        ["call", "one thread, quiet", "ratio", "one thread, busy", "ratio"],
    )
    one_thread = dict.fromkeys(_VARIABLES, "1")
    with _server(**one_thread) as (names, limited), _server() as (_, default):
        for name in names[:2] if quick else names:
            row = [name]
            for n_busy in (0, _N_BUSY):
                with _busy_processes(n_busy):
                    limited(name), default(name)  # warm up
                    pairs = [(limited(name), default(name)) for _ in range(repeats)]
                seconds, left_alone = (median(times) for times in zip(*pairs, strict=True))
                row += [f"{seconds:.3f} s", f"{left_alone / seconds:.2f}"]
            table.add(*row)
    yield table


BENCHMARKS = {"threads": threads}
