"""The minimal kernel classifier and an SVM on one of ten folds, tuned inside the fold."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from sklearn.model_selection import GridSearchCV, StratifiedKFold
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from kernlet.datasets import load
from kernlet.estimators import MinimalKernelClassifier
from kernlet.selection import count_centers

N_FOLDS, N_INNER = 10, 3


def rows_of(name: str) -> tuple[Any, Any]:
    """Rows and labels as they come."""
    data = load(name)
    return np.asarray(data.X, dtype=float), data.y


def fold_of(name: str, fold: int) -> tuple[Any, Any, Any, Any]:
    """Training and test part of a fold, standardised."""
    X, y = rows_of(name)
    splits = StratifiedKFold(N_FOLDS, shuffle=True, random_state=0).split(X, y)
    train, test = list(splits)[fold]
    scaler = StandardScaler().fit(X[train])
    return scaler.transform(X[train]), y[train], scaler.transform(X[test]), y[test]


def count_margin_rows(machine: Any, X: Any, y: Any = None) -> int:
    """A scorer that counts the rows with a positive dual, the paper's m1."""
    return len(machine.margin_indices_)


def fit_minimal(
    name: str,
    fold: int,
    n_candidates: int | None,
    grid: dict[str, list[float]],
    most: list[float],
) -> dict[str, Any]:
    """The minimal machine of a fold.

    Of the settings whose machines in inner folds are no larger than ``most``, m1 (in proportion to
    the rows) and m2, the most accurate one; the smallest where all are larger. Beside it the most
    accurate of all settings.

    Parameters
    ----------
    name : str
    fold : int
    n_candidates : int or None
        Random rows that may become centers, the paper's reduced kernel; None for all.
    grid : dict
        C, mu, and "width": gamma times the number of features.
    most : list of two float
        The paper's m1 and m2.

    Returns
    -------
    facts : dict
    """
    X, y, X_test, y_test = fold_of(name, fold)
    machine = MinimalKernelClassifier(candidates=n_candidates, random_state=0)
    grid = {
        "C": grid["C"],
        "mu": grid["mu"],
        "gamma": [width / X.shape[1] for width in grid["width"]],
    }
    search = GridSearchCV(
        machine,
        grid,
        scoring={"score": "accuracy", "centers": count_centers, "rows": count_margin_rows},
        cv=StratifiedKFold(N_INNER, shuffle=True, random_state=0),
        refit=False,
    ).fit(X, y)
    results = search.cv_results_
    facts = {}
    for way, best in (("sized", _sized(results, most)), ("accurate", _most_accurate(results))):
        machine.set_params(**results["params"][best]).fit(X, y)
        seconds = _predict_seconds(machine, X_test)
        facts[way] = {
            "m1": len(machine.margin_indices_),
            "m2": machine.n_centers_,
            "train": 100 * machine.score(X, y),
            "test": 100 * machine.score(X_test, y_test),
            "parameters": results["params"][best],
            "gap": float(machine.duality_gap_.max()),
            "predict": seconds,
        }
    return facts


def _sized(results: dict[str, Any], most: list[float]) -> int:
    growth = N_INNER / (N_INNER - 1)
    rows = results["mean_test_rows"] * growth / most[0]
    size = np.maximum(rows, results["mean_test_centers"] / most[1])
    fits = size <= max(1.0, size.min())
    return int(np.argmax(np.where(fits, results["mean_test_score"], -1.0)))


def _most_accurate(results: dict[str, Any]) -> int:
    return int(np.argmax(results["mean_test_score"]))


def fit_svc(name: str, fold: int, n_rows: int | None) -> dict[str, Any]:
    """The SVM of a fold, C and gamma by inner folds."""
    X, y, X_test, y_test = fold_of(name, fold)
    X, y = X[:n_rows], y[:n_rows]
    widths = (0.03, 0.1, 0.3, 1.0, 3.0)
    grid = {"C": [0.3, 1, 3, 10, 30, 100], "gamma": [width / X.shape[1] for width in widths]}
    folds = StratifiedKFold(N_INNER, shuffle=True, random_state=0)
    search = GridSearchCV(SVC(), grid, cv=folds).fit(X, y)
    machine = search.best_estimator_
    return {
        "support": len(machine.support_),
        "train": 100 * machine.score(X, y),
        "test": 100 * machine.score(X_test, y_test),
        "parameters": search.best_params_,
        "predict": _predict_seconds(machine, X_test),
    }


def _predict_seconds(machine: Any, X: Any) -> float:
    times = []
    for _ in range(5):
        began = time.process_time()
        machine.predict(X)
        times.append(time.process_time() - began)
    return float(np.median(times))
