"""A few means in place of the rows of each class, where the rows are read block by block."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.metrics import pairwise_distances_argmin_min

from kernlet.condense.centroids import Centroids, Cluster, cluster, joined_clusters, power_of_two
from kernlet.kernels.columns import Indices
from kernlet.kernels.kernel import Floats
from kernlet.rows import Rows, added

#: A class that takes no more than this is clustered in memory.
HELD_BYTES = 2**30
_MOST_PASSES = 30
_STILL = 1e-4  # relative decrease of the squared distances that is none


def find_centroids_of_rows(
    rows: Rows,
    codes: Indices,
    classes: Any,
    *,
    keep: float = 0.1,
    min_per_class: int = 1,
    n_init: int = 3,
    random_state: np.random.RandomState,
) -> Centroids:
    """k-means within each class, of rows that are read block by block.

    A class of up to 1 GiB is brought into memory, and has the means of
    :func:`~kernlet.condense.find_centroids`. Of a larger one a sample of that size is; its means
    are where Lloyd's steps over all rows of the class start, a pass each, at most 30.

    Parameters
    ----------
    rows : Rows
    codes : ndarray of shape (n_rows,)
        The class of each row.
    classes, keep, min_per_class, n_init, random_state : see find_centroids

    Returns
    -------
    centroids : Centroids
    """
    found = []
    for code in range(len(classes)):
        numbers = np.flatnonzero(codes == code)
        count = min(len(numbers), max(min_per_class, 1, round(keep * len(numbers))))
        seed = random_state.randint(2**31 - 1)
        most = max(1, HELD_BYTES // (rows.dtype.itemsize * max(1, rows.shape[1])))
        if len(numbers) <= most:
            found.append(cluster(rows.take(numbers), count, n_init, seed))
            continue
        some = np.sort(np.random.RandomState(seed).choice(numbers, most, replace=False))
        start = cluster(rows.take(some), min(count, most), n_init, seed)
        found.append(_lloyd(rows, codes == code, start))
    return joined_clusters(classes, found)


def _lloyd(rows: Rows, is_mine: Any, start: Cluster) -> Cluster:
    """Means of all rows marked, from means of some of them."""
    means, _, _ = start
    scale = power_of_two(means)
    means, best = means / scale, np.inf
    for n_passes in range(1, _MOST_PASSES + 1):
        sums, counts, inertia = rows.map_reduce(
            _assigned, added, by_row=(is_mine,), shared=(means, scale)
        )
        used = counts > 0
        if inertia >= (1 - _STILL) * best or n_passes == _MOST_PASSES:
            break
        means, best = sums[used] / counts[used, None], inertia
    with np.errstate(over="ignore"):
        kept = scale * means[used].astype(rows.dtype)
        return kept, counts[used], float(scale * (scale * inertia))


def _assigned(X: Any, is_mine: Any, means: Floats, scale: Any) -> list[Any]:
    """Sums and numbers of the rows nearest to each mean, and their squared distances."""
    X = X[is_mine]
    sums, counts = np.zeros(means.shape), np.zeros(len(means), dtype=np.intp)
    if not X.shape[0]:
        return [sums, counts, 0.0]
    X = (X.toarray() if hasattr(X, "toarray") else X) / scale
    nearest, distances = pairwise_distances_argmin_min(X, means)
    np.add.at(sums, nearest, X)
    return [sums, counts + np.bincount(nearest, minlength=len(means)), float(distances @ distances)]
