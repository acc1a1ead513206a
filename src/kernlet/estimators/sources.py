"""Sources of rows, as estimators use them."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np
from sklearn.utils import assert_all_finite, column_or_1d
from sklearn.utils.validation import check_consistent_length, check_is_fitted

from kernlet.kernels.bandwidth import gamma_of_moments
from kernlet.kernels.kernel import Floats
from kernlet.rows import Rows, added, as_rows


def labelled_rows(X: Any, y: Any) -> tuple[Rows, Any]:
    """Rows and their labels, which may be a column of the rows.

    Parameters
    ----------
    X : Rows or dask collection
    y : str or array-like of shape (n_rows,)
        A dask collection of labels is computed.

    Returns
    -------
    rows : Rows
    labels : ndarray of shape (n_rows,)
    """
    rows = as_rows(X)
    if isinstance(y, str):
        rows, y = rows.split(y)
    labels = column_or_1d(np.asarray(y.compute() if hasattr(y, "compute") else y))
    if labels.dtype.kind == "f":
        assert_all_finite(labels, input_name="y")
    if len(rows) != len(labels):
        check_consistent_length(np.empty(len(rows), dtype=bool), labels)
    return rows, labels


def values_of_rows(estimator: Any, X: Any, function: Any = None) -> Any:
    """Outputs of a fitted estimator for a source of rows, block by block.

    Parameters
    ----------
    estimator : estimator
    X : Rows or dask collection
    function : callable, default=None
        Takes rows and gives an array with as many; picklable, for it may run elsewhere. The
        values of the estimator's expansion unless given.

    Returns
    -------
    values : ndarray of shape (n_rows, ...)
    """
    check_is_fitted(estimator)
    rows = _with_features(estimator, as_rows(X))
    function = estimator.expansion_.decision_values if function is None else function
    parts = rows.map_reduce(_values, operator.iadd, shared=(function,))
    return function(rows.read(slice(0, 0))) if parts is None else np.concatenate(parts)


def _with_features(estimator: Any, rows: Rows) -> Rows:
    """The rows with the columns of training, where they have these among others."""
    names = getattr(estimator, "feature_names_in_", None)
    columns = getattr(rows, "columns", None)
    if names is not None and columns is not None and set(names) < set(columns):
        return rows.select(list(names))
    if rows.shape[1] != estimator.n_features_in_:
        raise ValueError(
            f"X has {rows.shape[1]} features, but {type(estimator).__name__} is expecting "
            f"{estimator.n_features_in_} features as input."
        )
    if names is not None and columns is not None and list(names) != list(columns):
        raise ValueError(
            f"The columns of X are {list(columns)[:5]}, but {type(estimator).__name__} was fitted "
            f"to {list(names)[:5]}, in this order: open the rows with columns=[...]."
        )
    return rows


def _values(X: Any, function: Any) -> list[Any]:
    assert_all_finite(X, input_name="X")
    return [function(X)]


def gamma_of_rows(gamma: str | float, rows: Rows, weights: Floats) -> float:
    """Turn the ``gamma`` parameter into a number, in one pass that checks the rows too.

    Parameters
    ----------
    gamma : float or {"scale", "auto", "mean_distance"}
    rows : Rows
    weights : ndarray of shape (n_rows,)

    Returns
    -------
    gamma : float
    """
    origin = rows.read(slice(0, 1))
    origin = np.zeros(rows.shape[1]) if not isinstance(origin, np.ndarray) else origin[0]
    total, sums, squares = rows.map_reduce(_sums, added, by_row=(weights,), shared=(origin,))
    if not isinstance(gamma, str):
        return float(gamma)
    means = sums / total
    return gamma_of_moments(gamma, means + origin, max(0.0, squares / total - means @ means))


def _sums(X: Any, weights: Floats, origin: Floats) -> list[Any]:
    """Sums of weights, and of rows and their squared norms about a point."""
    assert_all_finite(X, input_name="X")
    about = (X.toarray() if hasattr(X, "toarray") else X) - origin.astype(np.float64)
    return [weights.sum(), weights @ about, weights @ np.einsum("ij,ij->i", about, about)]
