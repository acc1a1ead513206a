"""The Laplacian kernel beside the Gaussian one: the same calls, grids and folds."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import click
import numpy as np
from sklearn.model_selection import GridSearchCV, StratifiedKFold, cross_val_score
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from benchmarks.tables import Table
from kernlet import (
    CompressedClassifier,
    HullPerceptronClassifier,
    L1KernelClassifier,
    MinimalKernelClassifier,
    ProximalClassifier,
)
from kernlet.datasets import Dataset, load
from kernlet.kernels import RBF, Kernel, Laplacian

KERNELS = {"rbf": RBF, "laplacian": Laplacian}
#: gamma is one of these divided by the number of features, for both kernels.
WIDTHS = (1 / 16, 1 / 8, 1 / 4, 1 / 2, 1, 2, 4)
COSTS = (1.0, 10.0, 100.0, 1000.0, 10000.0)
SIZES = (12, 50, 200)
FOLDS = StratifiedKFold(3, shuffle=True, random_state=0)
MACHINES = {
    "L1KernelClassifier, 500 candidates": L1KernelClassifier(candidates=500, random_state=0),
    "MinimalKernelClassifier, 500 candidates": MinimalKernelClassifier(
        candidates=500, random_state=0
    ),
    "HullPerceptronClassifier": HullPerceptronClassifier(),
    "ProximalClassifier, 500 landmarks": ProximalClassifier(landmarks=500, random_state=0),
}
#: Machines tried on each set beside the SVC.
SETS: dict[str, dict[str, Any]] = {"thyroid": MACHINES, "satimage": {}}


def laplacian(quick: bool) -> Iterator[Table]:
    """Held-out and test accuracy of the same calls with both kernels."""
    figures = ("held out %", "test %", "centers")
    columns = [f"{kernel}, {figure}" for kernel in KERNELS for figure in figures]
    for name, machines in SETS.items():
        data = load(name)
        table = Table(
            f"{name}: {len(data.y):,} standardised training rows; C and gamma by 3-fold "
            f"cross-validation on them; {len(data.y_test):,} test rows",
            ["call", *columns],
        )
        calls = _calls(data, SIZES[:1], {}) if quick else _calls(data, SIZES, machines)
        for title, cells in calls:
            click.echo(f"{name}: {title}", err=True)
            table.add(title, *cells)
        yield table


def _calls(
    data: Dataset, sizes: tuple[int, ...], machines: dict[str, Any]
) -> Iterator[tuple[str, list[str]]]:
    """Titles of calls, and their cells for both kernels."""
    searches = [_search(SVC(), name, data) for name in KERNELS]
    yield "SVC", [cell for search in searches for cell in _searched(search, data)]
    for size in sizes:
        small = [
            CompressedClassifier(search.best_estimator_, size, random_state=0)
            for search in searches
        ]
        title = f"CompressedClassifier of it, {size} centers"
        yield title, [cell for machine in small for cell in _compressed(machine, data)]
    for title, machine in machines.items():
        searches = [_search(machine, name, data) for name in KERNELS]
        yield title, [cell for search in searches for cell in _searched(search, data)]


def _search(machine: Any, name: str, data: Dataset) -> GridSearchCV:
    kernels: list[Kernel] = [KERNELS[name](s / data.X.shape[1]) for s in WIDTHS]
    pipeline = Pipeline([("scale", StandardScaler()), ("machine", machine)])
    grid = {"machine__kernel": kernels, "machine__C": COSTS}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of settings at the ends of the grid
        return GridSearchCV(pipeline, grid, cv=FOLDS).fit(data.X, data.y)


def _searched(search: GridSearchCV, data: Dataset) -> list[str]:
    machine, results = search.best_estimator_[-1], search.cv_results_
    scores = [results[f"split{fold}_test_score"][search.best_index_] for fold in range(3)]
    click.echo(f"  {search.best_params_}", err=True)
    n_centers = len(machine.support_) if isinstance(machine, SVC) else machine.n_centers_
    return _cells(scores, search.score(data.X_test, data.y_test), n_centers)


def _compressed(machine: CompressedClassifier, data: Dataset) -> list[str]:
    scores = cross_val_score(machine, data.X, data.y, cv=FOLDS)
    machine.fit(data.X, data.y)
    return _cells(scores, machine.score(data.X_test, data.y_test), machine.n_centers_)


def _cells(scores: Any, accuracy: float, n_centers: int) -> list[str]:
    """Mean of the folds and its standard error, test accuracy and centers."""
    error = np.std(scores, ddof=1) / np.sqrt(len(scores))
    held_out = f"{100 * np.mean(scores):.2f} ± {100 * error:.2f}"
    return [held_out, f"{100 * accuracy:.2f}", f"{n_centers:,}"]


BENCHMARKS = {"laplacian": laplacian}
