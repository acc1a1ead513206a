"""Fits of every public estimator, as functions that other processes can import."""

from __future__ import annotations

import inspect
import warnings
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.svm import SVC, SVR

import kernlet

_QUICK = {"n_epochs": 3, "n_runs": 2, "n_points": 3, "random_state": 0}
_QUICK_OF: dict[str, dict[str, Any]] = {
    "CompressedClassifier": {"estimator": SVC(), "n_centers": 4, "max_iter": 20},
    "CompressedRegressor": {"estimator": SVR(), "n_centers": 4, "max_iter": 20},
    "CompactKernelClassifier": {"max_bytes": 300},
    "CompactKernelRegressor": {"n_centers": "auto"},
    "CompactNoveltyDetector": {"max_bytes": 200},
}

NAMES = sorted(
    name
    for name in kernlet.__all__
    if inspect.isclass(getattr(kernlet, name)) and issubclass(getattr(kernlet, name), BaseEstimator)
)


def problem(n_rows: int = 60) -> tuple[np.ndarray, np.ndarray]:
    """Rows of three classes."""
    rows = np.random.default_rng(0).normal(size=(n_rows, 3))
    labels = np.arange(n_rows) % 3
    return rows + labels[:, None], labels


def fitted(name: str, **parameters: Any) -> Any:
    """An estimator of a name, fitted to the problem."""
    cls = getattr(kernlet, name)
    given = {**_QUICK, **_QUICK_OF.get(name, {}), **parameters}
    allowed = inspect.signature(cls).parameters
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return cls(**{key: value for key, value in given.items() if key in allowed}).fit(*problem())


def outputs(estimator: Any) -> np.ndarray:
    """What a fitted estimator says of the rows of the problem, in one array."""
    X, y = problem()
    if hasattr(estimator, "fit_resample"):
        return np.asarray(estimator.fit_resample(X, y)[0])
    name = "transform" if hasattr(estimator, "transform") else "predict"
    name = "decision_function" if hasattr(estimator, "decision_function") else name
    return np.asarray(getattr(estimator, name)(X))


def fit_and_predict(name: str, **parameters: Any) -> tuple[Any, np.ndarray]:
    """A fitted estimator with its outputs."""
    estimator = fitted(name, **parameters)
    return estimator, outputs(estimator)


def accepts(name: str, parameter: str) -> bool:
    """Whether an estimator has a parameter."""
    return parameter in inspect.signature(getattr(kernlet, name)).parameters
