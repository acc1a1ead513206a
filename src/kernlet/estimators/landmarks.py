"""Points with which kernel values are taken in place of columns."""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any

import numpy as np

from kernlet.estimators.candidates import choose_candidates
from kernlet.expansion import distinct_rows
from kernlet.kernels.columns import Indices

#: Constraints on the parameter ``landmarks``.
LANDMARK_CONSTRAINTS: list[Any] = [None, Integral, Real, "array-like", "sparse matrix"]


def choose_landmarks(landmarks: Any, X: Any, random_state: np.random.RandomState) -> Any:
    """Turn the ``landmarks`` parameter into distinct points.

    Parameters
    ----------
    landmarks : int, float, {array-like, sparse matrix} or None
        A number of rows drawn at random (all, where there are no more), a fraction of them,
        given points, or None for all rows.
    X : {ndarray, sparse matrix, Rows} of shape (n_rows, n_features)
    random_state : RandomState

    Returns
    -------
    points : {ndarray, sparse matrix} of shape (n_landmarks, n_features)

    Examples
    --------
    >>> import numpy as np
    >>> from kernlet.estimators.landmarks import choose_landmarks
    >>> choose_landmarks(500, np.array([[1.0], [2.0], [1.0]]), np.random.RandomState(0)).ravel()
    array([1., 2.])
    """
    is_number = isinstance(landmarks, int | np.integer) and not isinstance(landmarks, bool)
    if is_number and landmarks > X.shape[0]:
        landmarks = X.shape[0]
    chosen = choose_candidates(landmarks, X, random_state, "landmarks").points
    points = X if chosen is None else chosen
    return points[distinct_rows(points)[1]]


def first_landmarks(order: Indices, n_landmarks: int, X: Any) -> Indices:
    """The first rows of an order, ascending; of equal rows, one.

    Parameters
    ----------
    order : ndarray of row numbers
    n_landmarks : int
    X : {ndarray, sparse matrix} of shape (n_rows, n_features)

    Returns
    -------
    rows : ndarray of at most n_landmarks row numbers

    Examples
    --------
    >>> import numpy as np
    >>> from kernlet.estimators.landmarks import first_landmarks
    >>> first_landmarks(np.array([2, 0, 1]), 2, np.array([[1.0], [2.0], [1.0]]))
    array([0])
    """
    rows = np.sort(order[:n_landmarks])
    return rows[distinct_rows(X[rows])[1]]
