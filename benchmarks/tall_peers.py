"""The tall method beside LinearSVC on Nystroem features, and beside one call of HiGHS."""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
from scipy import sparse
from scipy.optimize import linprog
from sklearn.exceptions import ConvergenceWarning
from sklearn.kernel_approximation import Nystroem
from sklearn.svm import LinearSVC

from benchmarks.isolated import measure
from benchmarks.tables import Table
from benchmarks.tall import covertype, fit, prepare
from kernlet.kernels import RBF, kernel_matrix

_SWEEPS = (10, 100, 1000)


def nystroem(n_rows: int, s: int, C: float) -> tuple[Any, Any, float]:
    """The features of the peers, on the same rows."""
    X, y = covertype(n_rows)
    features = Nystroem(gamma=1 / 54, n_components=s, random_state=0).fit_transform(X)
    return features.astype(np.float64), np.where(y, 1.0, -1.0), C


def linear_svc(prepared: Any) -> dict[str, Any]:
    """LinearSVC(loss="hinge") stopped after more and more sweeps: seconds and objective of each."""
    features, signs, C = prepared
    runs = []
    for sweeps in _SWEEPS:
        machine = LinearSVC(loss="hinge", C=C, tol=1e-12, max_iter=sweeps, random_state=0)
        start = time.process_time()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            machine.fit(features, signs)
        seconds = time.process_time() - start
        w, b = machine.coef_[0], machine.intercept_[0]
        errors = np.maximum(0, 1 - signs * (features @ w + b))
        runs.append((sweeps, seconds, 0.5 * (w @ w + b * b) + C * errors.sum()))
    return {"runs": runs}


def one_call(prepared: Any) -> dict[str, Any]:
    """The linear program of our machine in one call of HiGHS, by its dual simplex method."""
    X, y, machine = prepared
    n_rows, s = len(X), machine.candidates
    random = np.random.RandomState(0)
    points = X[np.sort(random.permutation(n_rows)[:s])].astype(np.float64)
    K = machine_kernel(X, points, machine.gamma)
    d = np.where(y, 1.0, -1.0)[:, None]
    signed = d * np.hstack([K, -K, np.ones((n_rows, 1))])
    lines = sparse.hstack([sparse.csr_array(signed), sparse.eye_array(n_rows)], format="csr")
    costs = np.concatenate([np.ones(2 * s), [0.0], np.full(n_rows, machine.C)])
    bounds = [(0, None)] * (2 * s) + [(None, None)] + [(0, None)] * n_rows
    answer = linprog(costs, -lines, -np.ones(n_rows), bounds=bounds, method="highs")
    return {"objective": answer.fun}


def machine_kernel(X: Any, points: Any, gamma: float) -> Any:
    """Kernel values of all rows."""
    return kernel_matrix(RBF(gamma), X.astype(np.float64), points)


def peers(quick: bool) -> Iterator[Table]:
    """Beside LinearSVC on Nystroem features, and beside one call of HiGHS."""
    n_rows = 20_000 if quick else 561_012
    table = Table(
        f"covertype, {n_rows:,} rows, 100 centers",
        ["method", "C", "CPU seconds", "times ours", "relative accuracy of its objective"],
    )
    for C in (0.01, 1.0, 10.0):
        ours = measure(prepare, fit, "covertype", n_rows, 100, C)
        gap = f"gap {ours.answer['gap']:.0e}"
        table.add("kernlet, tall", C, f"{ours.seconds:.1f}", "1", gap)
        runs = measure(nystroem, linear_svc, n_rows, 100, C).answer["runs"]
        best = min(objective for _, _, objective in runs)
        for sweeps, seconds, objective in runs:
            away = (objective - best) / best
            table.add(
                f'LinearSVC(loss="hinge") on Nystroem features, at most {sweeps:,} sweeps',
                C,
                f"{seconds:.1f}",
                f"{seconds / ours.seconds:.1f}",
                f"{away:.0e} above its best" if away else "its best; unknown",
            )
    yield table
    n_rows = 5_000 if quick else 50_000
    table = Table(
        f"covertype, {n_rows:,} rows, 100 candidates, C = 0.01",
        ["method", "CPU seconds", "times ours", "peak MB", "objective"],
    )
    one = measure(prepare, fit, "covertype", n_rows, 100, 0.01)
    two = measure(prepare, one_call, "covertype", n_rows, 100, 0.01)
    for name, run in (("kernlet, tall", one), ("one call of HiGHS", two)):
        table.add(
            name,
            f"{run.seconds:.1f}",
            f"{run.seconds / one.seconds:.1f}",
            f"{run.peak:.0f}",
            f"{run.answer['objective']:.6f}",
        )
    yield table


BENCHMARKS = {"tall-peers": peers}
