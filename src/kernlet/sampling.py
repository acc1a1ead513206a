"""Drawing rows and points: held-out rows, stratified samples, candidates, landmarks, clusters."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import pairwise_distances_argmin
from sklearn.utils import check_array

from kernlet._typing import Floats, Indices
from kernlet.expansion import distinct_rows
from kernlet.kernels.gram import as_dense
from kernlet.rows.source import RowSource

#: Constraints on the parameter ``landmarks``.
LANDMARK_CONSTRAINTS: list[Any] = [None, Integral, Real, "array-like", "sparse matrix"]


def derive_seed(*numbers: int) -> int:
    """A seed for one task, which does not depend on the order in which tasks are done."""
    # Tasks that drew from one RandomState would depend on n_jobs. SeedSequence hashes the numbers
    # that identify a task, so that neighbouring tasks have unrelated streams.
    return int(np.random.SeedSequence(numbers).generate_state(1)[0])


def apportion(weights: Any, total: int) -> Any:
    """Whole numbers in proportion to ``weights`` that add up to ``total`` (largest remainders)."""
    exact = weights * (total / weights.sum())
    shares = np.floor(exact).astype(int)
    shares[np.argsort(shares - exact, kind="stable")[: total - shares.sum()]] += 1
    return shares


def hold_out(y: Any, fraction: float, random: np.random.RandomState) -> tuple[Indices, Indices]:
    """Row numbers to train on and to validate on, ascending, stratified by class.

    A class of at least four rows has one held out, and every class keeps one to train on.
    """
    order = random.permutation(len(y))
    groups = [order[y[order] == label] for label in np.unique(y)]
    counts = [max(int(fraction * len(group)), int(len(group) >= 4)) for group in groups]
    drawn = [group[:count] for group, count in zip(groups, counts, strict=True)]
    held_out = np.sort(np.concatenate(drawn))
    return np.setdiff1d(np.arange(len(y)), held_out), held_out


def stratified_sample(y: Any, rows: Indices, size: int, random: np.random.RandomState) -> Indices:
    """About ``size`` of the given rows, ascending: classes in proportion, at least one row each."""
    order = random.permutation(rows)
    groups = [order[y[order] == label] for label in np.unique(y[rows])]
    shares = apportion(np.array([len(group) for group in groups]), size)
    drawn = [g[: max(1, share)] for g, share in zip(groups, shares, strict=True)]
    return np.sort(np.concatenate(drawn))


def subsample(y: Any, rows: Indices, max_rows: int, seed: int) -> Indices:
    """The rows themselves, or a stratified sample if there are more than ``max_rows``."""
    if len(rows) <= max_rows:
        return rows
    return stratified_sample(y, rows, max_rows, np.random.RandomState(seed))


_KMEANS_WEIGHTS = (1e-30, 1e30)  # whose sums neither vanish nor overflow in float32


def kmeans(
    X: Any,
    n_clusters: int,
    random_state: Any,
    *,
    n_init: int = 1,
    max_iter: int = 300,
    weights: Floats | None = None,
) -> Any:
    """A fitted ``KMeans``, without its warning that X has fewer distinct rows than clusters."""
    from sklearn.cluster import KMeans  # late: it takes a while to import, and few methods need it

    if weights is not None and not _KMEANS_WEIGHTS[0] < weights.max() < _KMEANS_WEIGHTS[1]:
        weights = weights / weights.max()  # scikit-learn casts them to the precision of X
    model = KMeans(n_clusters, n_init=n_init, max_iter=max_iter, random_state=random_state)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return model.fit(X, sample_weight=weights)


@dataclass(frozen=True, eq=False)
class Candidates:
    """The points that may become centers.

    ``points`` is None where they are all training rows; ``rows`` has the training row that each
    candidate is, or is None for points that are not rows.
    """

    points: Any
    rows: Indices | None


def choose_candidates(
    candidates: Any, X: Any, random_state: np.random.RandomState, name: str = "candidates"
) -> Candidates:
    """Turn the ``candidates`` parameter of an estimator into points.

    None takes all rows of X; a number or a fraction draws rows at random; an array or a sparse
    matrix has the points themselves. ``name`` is the name of the parameter in messages.
    """
    n_rows, n_features = X.shape
    is_source = isinstance(X, RowSource)
    if candidates is None:
        if is_source:
            raise ValueError(
                f"{name}=None takes every row, and rows that are read block by block are too many "
                f"for that. Give a number, such as {name}=300."
            )
        return Candidates(None, np.arange(n_rows))
    if isinstance(candidates, Real):
        count = _count_candidates(candidates, n_rows, name)
        if count == n_rows and not is_source:
            return Candidates(None, np.arange(n_rows))
        rows = np.sort(random_state.permutation(n_rows)[:count])
        return Candidates(X.take(rows) if is_source else X[rows], rows)
    if getattr(candidates, "ndim", np.ndim(candidates)) == 1:
        raise ValueError(
            f"{name} must be points, each a row of n_features numbers; for chosen rows give "
            "X[rows]."
        )
    points = check_array(candidates, accept_sparse="csr", dtype=X.dtype, input_name=name)
    if points.shape[1] != n_features:
        raise ValueError(
            f"{name} has {points.shape[1]} columns, but X has {n_features} features. "
            "Give points of the same width as the rows of X."
        )
    return Candidates(sparse.csr_array(points) if sparse.issparse(X) else as_dense(points), None)


# Rows that k-means sees, at least this many and this many per candidate: more change little.
_CLUSTERED_ROWS, _ROWS_PER_CLUSTER, _CLUSTER_STEPS = 5000, 10, 10


def spread_candidates(X: Any, count: int, random_state: np.random.RandomState) -> Candidates:
    """At most ``count`` rows that cover the data: those nearest to the means of k-means."""
    n_rows, size = X.shape[0], max(_CLUSTERED_ROWS, _ROWS_PER_CLUSTER * count)
    rows = np.sort(random_state.permutation(n_rows)[:size])
    sample = X.take(rows) if isinstance(X, RowSource) else X[rows]
    count = min(count, len(rows))
    means = kmeans(sample, count, random_state, max_iter=_CLUSTER_STEPS).cluster_centers_
    chosen = np.unique(pairwise_distances_argmin(means, sample))
    return Candidates(sample[chosen], rows[chosen])


def _count_candidates(candidates: Any, n_rows: int, name: str) -> int:
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


def choose_landmarks(landmarks: Any, X: Any, random_state: np.random.RandomState) -> Any:
    """Turn the ``landmarks`` parameter into distinct points, as ``candidates`` are.

    A number larger than that of the rows takes all rows.
    """
    is_number = isinstance(landmarks, int | np.integer) and not isinstance(landmarks, bool)
    if is_number and landmarks > X.shape[0]:
        landmarks = X.shape[0]
    points = choose_candidates(landmarks, X, random_state, "landmarks").points
    points = X if points is None else points
    # Equal landmarks would make the kernel matrix among them singular.
    return points[distinct_rows(points)[1]]


def landmark_rows(order: Indices, n_landmarks: int, X: Any) -> Indices:
    """The first rows of an order, ascending; of equal rows, the first."""
    rows = np.sort(order[:n_landmarks])
    return rows[distinct_rows(X[rows])[1]]
