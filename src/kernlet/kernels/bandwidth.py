"""Choosing gamma from data."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.utils.extmath import row_norms

from kernlet._typing import Floats
from kernlet.kernels.gram import merged_entries, row_slices


def resolve_gamma(gamma: str | float, X: Any, sample_weight: Any = None) -> float:
    """Turn the ``gamma`` parameter into a number.

    Parameters
    ----------
    gamma : float or {"scale", "auto", "mean_distance"}
        A number is returned as it is. ``"scale"`` is 1 / (n_features * X.var()) and
        ``"auto"`` 1 / n_features, as in scikit-learn. ``"mean_distance"`` is one over the
        mean squared distance between two rows drawn at random.
    X : {ndarray, sparse matrix} of shape (n_rows, n_features)
    sample_weight : ndarray of shape (n_rows,) or None
        A row of weight 2 counts as two rows.

    Returns
    -------
    gamma : float
        1.0 where all rows are equal and a rule would divide by zero.

    Examples
    --------
    >>> import numpy as np
    >>> from kernlet.kernels.bandwidth import resolve_gamma
    >>> resolve_gamma("mean_distance", np.array([[0.0], [2.0]]))
    0.5
    """
    if not isinstance(gamma, str):
        return float(gamma)
    if gamma not in _INVERSES:
        raise ValueError(f"gamma={gamma!r} is none of {', '.join(_INVERSES)}, nor a number.")
    weights = np.ones(X.shape[0]) if sample_weight is None else sample_weight
    if gamma == "auto":
        return 1.0 / X.shape[1]
    return gamma_of_moments(gamma, *_moments(merged_entries(X), weights / weights.sum()))


def gamma_of_moments(gamma: str, means: Floats, spread: float) -> float:
    """What a rule for ``gamma`` gives.

    Parameters
    ----------
    gamma : {"scale", "auto", "mean_distance"}
    means : ndarray of shape (n_features,)
        The mean row.
    spread : float
        The mean squared distance of the rows from it.

    Returns
    -------
    gamma : float
        1.0 where all rows are equal and a rule would divide by zero.
    """
    inverse = _INVERSES[gamma](means, spread)
    return 1.0 / inverse if inverse > 0 else 1.0


def _features(means: Floats, spread: float) -> float:
    return float(len(means))


def _scale(means: Floats, spread: float) -> float:
    """n_features times the variance of all entries."""
    between = float(np.square(means - means.mean()).sum())
    return spread + between * (between > _ROUNDING * float(means @ means))


def _mean_distance(means: Floats, spread: float) -> float:
    """E |x - x'|^2 = 2 E |x - E x|^2."""
    return 2.0 * spread


_ROUNDING = 1e-26  # a variance this small against the squared mean is none


def _moments(X: Any, shares: Floats) -> tuple[Floats, float]:
    """The mean row, and the mean squared distance of the rows from it."""
    means = np.asarray(shares @ X)
    square = float(means @ means)
    if sparse.issparse(X):
        spread = float(shares @ row_norms(X.astype(np.float64), squared=True)) - square
        return means, spread * (spread > np.sqrt(_ROUNDING) * square)
    spread = 0.0
    for rows in row_slices(X.shape[0], 8 * X.shape[1]):
        spread += float(shares[rows] @ row_norms(X[rows] - means, squared=True))
    return means, spread * (spread > _ROUNDING * square)


_INVERSES: dict[str, Callable[[Floats, float], float]] = {
    "auto": _features,
    "scale": _scale,
    "mean_distance": _mean_distance,
}
