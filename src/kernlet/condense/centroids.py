"""A few means in place of the rows of each class."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.cluster import KMeans
from sklearn.exceptions import ConvergenceWarning

from kernlet.kernels.columns import Indices
from kernlet.kernels.kernel import Floats

#: Means, their sizes, and the sum of squared distances.
Cluster = tuple[Floats, Indices, float]

_EXTREME = 40  # powers of two within which float32 and float64 square without loss


@dataclass(frozen=True, eq=False)
class Centroids:
    """Means of clusters of each class.

    Parameters
    ----------
    classes : ndarray of shape (n_classes,)
    rows : ndarray of shape (n_centroids, n_features)
        The means, class after class.
    codes : ndarray of shape (n_centroids,)
        The class of each.
    sizes : ndarray of shape (n_centroids,)
        Rows that it stands for.
    inertia : ndarray of shape (n_classes,)
        Sum of squared distances of the rows from their mean, by class; infinite where it is
        beyond all numbers.
    """

    classes: Any
    rows: Floats
    codes: Indices
    sizes: Indices
    inertia: Floats

    @property
    def fraction_kept(self) -> float:
        """Means for each row before."""
        return len(self.codes) / int(self.sizes.sum())

    @property
    def kept_per_class(self) -> dict[Any, int]:
        """Means of each class."""
        return self._count(None)

    @property
    def deleted_per_class(self) -> dict[Any, int]:
        """By how many each class became fewer."""
        before, after = self._count(self.sizes), self.kept_per_class
        return {label: before[label] - after[label] for label in before}

    def _count(self, weights: Indices | None) -> dict[Any, int]:
        counts = np.bincount(self.codes, weights, len(self.classes)).astype(int)
        return dict(zip(self.classes.tolist(), counts.tolist(), strict=True))

    def __repr__(self) -> str:
        return f"Centroids({len(self.codes):,} for {int(self.sizes.sum()):,} rows)"


def find_centroids(
    X: Any,
    codes: Indices,
    classes: Any,
    *,
    keep: float = 0.1,
    min_per_class: int = 1,
    n_init: int = 3,
    random_state: np.random.RandomState,
) -> Centroids:
    """k-means within each class.

    Time is n_rows n_features times the means of a class, for each iteration of k-means.

    Parameters
    ----------
    X : {ndarray, sparse matrix} of shape (n_rows, n_features)
    codes : ndarray of shape (n_rows,)
        The class of each row.
    classes : ndarray of shape (n_classes,)
    keep : float, default=0.1
        Means for each row of a class.
    min_per_class : int, default=1
        At least; no more than the class has distinct rows.
    n_init : int, default=3
        Starts of k-means, of which the best counts.
    random_state : RandomState

    Returns
    -------
    centroids : Centroids

    Examples
    --------
    >>> import numpy as np
    >>> from kernlet.condense import find_centroids
    >>> X, codes = np.array([[0.0], [2.0], [8.0], [9.0]]), np.array([0, 0, 1, 1])
    >>> random = np.random.RandomState(0)
    >>> find_centroids(X, codes, np.array([0, 1]), random_state=random).rows.ravel()
    array([1. , 8.5])
    """
    found = []
    for number in range(len(classes)):
        part = X[codes == number]
        count = min(part.shape[0], max(min_per_class, 1, round(keep * part.shape[0])))
        found.append(cluster(part, count, n_init, random_state.randint(2**31 - 1)))
    return joined_clusters(classes, found)


def joined_clusters(classes: Any, found: list[Cluster]) -> Centroids:
    """The clusters of all classes."""
    return Centroids(
        classes,
        np.vstack([means for means, _, _ in found]),
        np.repeat(np.arange(len(classes)), [len(means) for means, _, _ in found]),
        np.concatenate([sizes for _, sizes, _ in found]),
        np.array([inertia for _, _, inertia in found]),
    )


def cluster(X: Any, count: int, n_init: int, seed: int) -> Cluster:
    """Means of one class by k-means, as many as asked for or as there are distinct rows."""
    if count == X.shape[0]:
        return _dense(X), np.ones(count, dtype=np.intp), 0.0
    scale = power_of_two(X)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # fewer distinct rows than clusters
        means = KMeans(count, n_init=n_init, random_state=seed).fit(X / scale)
    sizes = np.bincount(means.labels_, minlength=count)
    used = sizes > 0
    with np.errstate(over="ignore"):
        inertia = float(scale * (scale * means.inertia_))
    return scale * means.cluster_centers_[used], sizes[used], inertia


def power_of_two(X: Any) -> Any:
    """About the largest number in X, by which to divide it: squares do not overflow or vanish."""
    largest = float(abs(X).max())
    exponent = max(int(np.frexp(largest)[1]) - 1, -1000) if largest > 0 else 0
    if -_EXTREME < exponent < _EXTREME:
        return X.dtype.type(1.0)
    return X.dtype.type(2.0**exponent)


def _dense(X: Any) -> Floats:
    return X.toarray() if sparse.issparse(X) else X
