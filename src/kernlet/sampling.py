"""Drawing rows: held-out parts, stratified samples, candidates and landmarks."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_array

from kernlet._typing import Indices
from kernlet.expansion import distinct_rows
from kernlet.rows.source import RowSource


def apportion(weights: Any, total: int) -> Any:
    """Whole numbers in proportion to ``weights`` that add up to ``total``."""
    exact = weights * (total / weights.sum())
    shares = np.floor(exact).astype(int)
    shares[np.argsort(shares - exact, kind="stable")[: total - shares.sum()]] += 1
    return shares


def hold_out(y: Any, fraction: float, random: np.random.RandomState) -> tuple[Indices, Indices]:
    """Rows to train on and rows to choose on, the classes in proportion.

    A class of at least four rows has one held out; every class keeps one to train on.

    Parameters
    ----------
    y : ndarray of shape (n_rows,)
    fraction : float
        To hold out.
    random : RandomState

    Returns
    -------
    kept, held_out : ndarray
        Row numbers, ascending.

    Examples
    --------
    >>> import numpy as np
    >>> from kernlet.sampling import hold_out
    >>> y = np.repeat([0, 1], [8, 2])
    >>> kept, held_out = hold_out(y, 0.25, np.random.RandomState(0))
    >>> y[held_out]
    array([0, 0])
    """
    order = random.permutation(len(y))
    groups = [order[y[order] == label] for label in np.unique(y)]
    counts = [max(int(fraction * len(group)), int(len(group) >= 4)) for group in groups]
    chosen = [group[:count] for group, count in zip(groups, counts, strict=True)]
    held_out = np.sort(np.concatenate(chosen))
    return np.setdiff1d(np.arange(len(y)), held_out), held_out


def stratified_sample(y: Any, rows: Indices, size: int, random: np.random.RandomState) -> Indices:
    """Some of the rows, the classes in proportion and none missing.

    Parameters
    ----------
    y : ndarray of shape (n_rows,)
        Labels of all rows.
    rows : ndarray
        The rows to draw from.
    size : int
    random : RandomState

    Returns
    -------
    sample : ndarray
        Ascending; larger than ``size`` only where small classes need a row each.
    """
    order = random.permutation(rows)
    groups = [order[y[order] == label] for label in np.unique(y[rows])]
    shares = apportion(np.array([len(group) for group in groups]), size)
    chosen = [g[: max(1, share)] for g, share in zip(groups, shares, strict=True)]
    return np.sort(np.concatenate(chosen))


def subsample(y: Any, rows: Indices, most: int, seed: int) -> Indices:
    """The rows themselves, or a stratified sample where they are too many."""
    if len(rows) <= most:
        return rows
    return stratified_sample(y, rows, most, np.random.RandomState(seed))


def derive_seed(*parts: int) -> int:
    """A seed for one part of the work, whatever the order in which the parts are done."""
    return int(np.random.SeedSequence(parts).generate_state(1)[0])


def kmeans(
    X: Any,
    n_clusters: int,
    random_state: Any,
    *,
    n_init: int = 1,
    max_iter: int = 300,
    weights: Any = None,
) -> Any:
    """A fitted ``KMeans``, without the warning where rows are fewer than clusters or equal."""
    from sklearn.cluster import KMeans

    model = KMeans(n_clusters, n_init=n_init, max_iter=max_iter, random_state=random_state)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return model.fit(X, sample_weight=weights)


@dataclass(frozen=True, eq=False)
class Candidates:
    """The points that may become centers of a machine.

    Parameters
    ----------
    points : {ndarray, sparse matrix} of shape (n_candidates, n_features) or None
        None means all training rows.
    rows : ndarray of shape (n_candidates,) or None
        The training row that each candidate is; None for points that are no rows.
    """

    points: Any
    rows: Indices | None


def choose_candidates(
    candidates: Any, X: Any, random_state: np.random.RandomState, name: str = "candidates"
) -> Candidates:
    """Turn the ``candidates`` parameter into points.

    Parameters
    ----------
    candidates : None, int, float or {array-like, sparse matrix}
        All rows, a number or a fraction of rows drawn at random, or given points.
    X : {ndarray, sparse matrix, RowSource} of shape (n_rows, n_features)
    random_state : RandomState
    name : str, default="candidates"
        What the parameter is called.

    Returns
    -------
    candidates : Candidates
    """
    n_rows, n_features = X.shape
    if isinstance(X, RowSource) and candidates is None:
        raise ValueError(
            f"{name}=None takes every row, and rows that are read block by block are too many for "
            f"that. Give a number, such as {name}=300."
        )
    if candidates is None:
        return Candidates(None, np.arange(n_rows))
    if isinstance(candidates, bool):
        raise ValueError(f"{name} is True or False; give a number, a fraction or points.")
    if isinstance(candidates, Real):
        count = _count(candidates, n_rows, name)
        if count == n_rows and not isinstance(X, RowSource):
            return Candidates(None, np.arange(n_rows))
        rows = np.sort(random_state.permutation(n_rows)[:count])
        return Candidates(X.take(rows) if isinstance(X, RowSource) else X[rows], rows)
    if getattr(candidates, "ndim", np.ndim(candidates)) == 1:
        raise ValueError(
            f"{name} must be points, one a line of n_features numbers; for chosen rows give "
            "X[rows]."
        )
    points = check_array(candidates, accept_sparse="csr", dtype=X.dtype, input_name=name)
    if points.shape[1] != n_features:
        raise ValueError(
            f"{name} has {points.shape[1]} columns, but X has {n_features} features. "
            "Give points of the same width as the rows of X."
        )
    return Candidates(sparse.csr_array(points) if sparse.issparse(X) else _dense(points), None)


def _count(candidates: Any, n_rows: int, name: str) -> int:
    if isinstance(candidates, Integral):
        if not 1 <= int(candidates) <= n_rows:
            raise ValueError(
                f"{name}={candidates} is out of range: X has {n_rows} rows. Give a number "
                f"from 1 to {n_rows}, a fraction in (0, 1], an array of points, or None for "
                "all rows."
            )
        return int(candidates)
    if not 0 < candidates <= 1:
        raise ValueError(
            f"{name}={candidates} is out of range: a fraction of the rows lies in (0, 1]."
        )
    return max(1, round(float(candidates) * n_rows))


def _dense(points: Any) -> Any:
    return points.toarray() if sparse.issparse(points) else points


#: Constraints on the parameter ``landmarks``.
LANDMARK_CONSTRAINTS: list[Any] = [None, Integral, Real, "array-like", "sparse matrix"]


def choose_landmarks(landmarks: Any, X: Any, random_state: np.random.RandomState) -> Any:
    """Turn the ``landmarks`` parameter into distinct points.

    Parameters
    ----------
    landmarks : int, float, {array-like, sparse matrix} or None
        A number of rows drawn at random (all, where there are no more), a fraction of them,
        given points, or None for all rows.
    X : {ndarray, sparse matrix, RowSource} of shape (n_rows, n_features)
    random_state : RandomState

    Returns
    -------
    points : {ndarray, sparse matrix} of shape (n_landmarks, n_features)

    Examples
    --------
    >>> import numpy as np
    >>> from kernlet.sampling import choose_landmarks
    >>> choose_landmarks(500, np.array([[1.0], [2.0], [1.0]]), np.random.RandomState(0)).ravel()
    array([1., 2.])
    """
    is_number = isinstance(landmarks, int | np.integer) and not isinstance(landmarks, bool)
    if is_number and landmarks > X.shape[0]:
        landmarks = X.shape[0]
    chosen = choose_candidates(landmarks, X, random_state, "landmarks").points
    points = X if chosen is None else chosen
    return points[distinct_rows(points)[1]]


def landmark_rows(order: Indices, n_landmarks: int, X: Any) -> Indices:
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
    >>> from kernlet.sampling import landmark_rows
    >>> landmark_rows(np.array([2, 0, 1]), 2, np.array([[1.0], [2.0], [1.0]]))
    array([0])
    """
    rows = np.sort(order[:n_landmarks])
    return rows[distinct_rows(X[rows])[1]]
