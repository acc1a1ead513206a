"""Removal of support vectors, round by round, on one of ten folds."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.model_selection import StratifiedKFold
from sklearn.preprocessing import StandardScaler

from kernlet.datasets import load
from kernlet.estimators.hull_removal import Schedule, removal_rounds
from kernlet.kernels import RBF
from kernlet.kernels.gram import Gram
from kernlet.problems.hull import Hull
from kernlet.solvers import find_nearest_point

GAMMA, C = 1 / 50, 10.0  # the paper's, for all sets
SCHEDULE = Schedule(0.5, 0.025, 20)
UNSCALED = ("ionosphere",)  # the others are standardised, as fits the paper's counts


def rows_of(name: str, n_rows: int | None = None) -> tuple[Any, Any]:
    """Rows of a set (all, or so many drawn at random), and signs; thyroid is normal or not."""
    data = load(name)
    X, y = np.asarray(data.X, dtype=float), data.y
    if data.X_test is not None and data.y_test is not None:
        X, y = np.vstack([X, data.X_test]), np.concatenate([y, data.y_test])
    y = y == 3 if name == "thyroid" else y == np.unique(y)[1]
    some = np.random.RandomState(0).permutation(len(y))[: n_rows or len(y)]
    some = some if n_rows else np.arange(len(y))
    return X[some], np.where(y[some], 1.0, -1.0)


def fold_of(name: str, n_rows: int | None, fold: int) -> tuple[Any, Any, Any, Any]:
    """Training rows and signs, test rows and signs of one of ten folds, scaled."""
    X, signs = rows_of(name, n_rows)
    splits = StratifiedKFold(10, shuffle=True, random_state=0).split(X, signs)
    train, test = list(splits)[fold]
    is_scaled = name not in UNSCALED
    scaler = StandardScaler(with_mean=is_scaled, with_std=is_scaled).fit(X[train])
    return scaler.transform(X[train]), signs[train], scaler.transform(X[test]), signs[test]


def _ten_thousand_sk_steps(hull: Hull, rows: Any, start: Any) -> Any:
    return find_nearest_point(hull, method="sk", tol=0.0, max_iter=10_000)


def _exactly(hull: Hull, rows: Any, start: Any) -> Any:
    return find_nearest_point(hull, tol=1e-4, start=start)


SOLVERS: dict[str, Callable[[Hull, Any, Any], Any]] = {
    "sk": _ten_thousand_sk_steps,
    "exact": _exactly,
}


def follow_removal(name: str, n_rows: int | None, fold: int, solver: str) -> list[list[float]]:
    """Validation accuracy, support vectors, test accuracy and gap of all rounds.

    Parameters
    ----------
    name : str
    n_rows : int or None
        The paper's number of patterns, drawn at random.
    fold : int
    solver : {"sk", "exact"}
        10,000 steps of Schlesinger and Kozinec, or a gap of 1e-4.

    Returns
    -------
    rounds : list of lists
    """
    X, signs, X_test, signs_test = fold_of(name, n_rows, fold)
    hull = Hull(Gram(RBF(GAMMA), X, hold=True), signs, np.full(len(X), C))
    path = []
    for trained in removal_rounds(hull, np.ones(len(X)), SCHEDULE, SOLVERS[solver]):
        rows = trained.rows[trained.solution.rows]
        coef = trained.solution.alpha * signs[rows]
        values = Gram(RBF(GAMMA), X_test, X[rows]).dot(coef) + coef.sum()
        record = trained.record
        validation = 0.0 if np.isnan(record.validation_accuracy) else record.validation_accuracy
        right = float((values * signs_test > 0).mean())
        path.append([validation, float(record.n_support), right, float(record.gap)])
    return path
