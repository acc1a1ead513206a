"""Choosing gamma from data."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import sparse


def resolve_gamma(gamma: str | float, X: Any) -> float:
    """Turn the ``gamma`` parameter into a number.

    Parameters
    ----------
    gamma : float or {"scale", "auto", "mean_distance"}
        A number is returned as it is. ``"scale"`` is 1 / (n_features * X.var()) and
        ``"auto"`` 1 / n_features, as in scikit-learn. ``"mean_distance"`` is one over the
        mean squared distance between two rows.
    X : {ndarray, sparse matrix} of shape (n_rows, n_features)

    Returns
    -------
    gamma : float
        1.0 where all rows are equal and a rule would divide by zero.

    Examples
    --------
    >>> import numpy as np
    >>> from kernlet.kernels import resolve_gamma
    >>> resolve_gamma("mean_distance", np.array([[0.0], [2.0]]))
    0.5
    """
    if not isinstance(gamma, str):
        return float(gamma)
    inverse = _INVERSES[gamma](X)
    return 1.0 / inverse if inverse > 0 else 1.0


def _features(X: Any) -> float:
    return float(X.shape[1])


def _scale(X: Any) -> float:
    """n_features times the variance of all entries."""
    if sparse.issparse(X):
        variance = _mean_square(X) - float(X.mean(dtype=np.float64)) ** 2
    else:
        variance = float(X.var(dtype=np.float64))
    return float(X.shape[1] * variance)


def _mean_distance(X: Any) -> float:
    """Mean squared distance over pairs of rows: 2 m / (m - 1) times the total variance."""
    m = X.shape[0]
    if m < 2:
        return 0.0
    if sparse.issparse(X):
        means = np.asarray(X.mean(axis=0, dtype=np.float64)).ravel()
        total = X.shape[1] * _mean_square(X) - float(means @ means)
    else:
        total = float(X.var(axis=0, dtype=np.float64).sum())
    return 2.0 * m / (m - 1) * total


def _mean_square(X: Any) -> float:
    """Mean of the squared entries of a sparse matrix."""
    return float(np.square(X.data, dtype=np.float64).sum()) / (X.shape[0] * X.shape[1])


_INVERSES: dict[str, Callable[[Any], float]] = {
    "auto": _features,
    "scale": _scale,
    "mean_distance": _mean_distance,
}
