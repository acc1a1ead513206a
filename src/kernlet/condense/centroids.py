"""A few means in place of the rows of each class."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any, ClassVar

import narwhals as nw
import numpy as np
from scipy import sparse
from sklearn.cluster import KMeans
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import pairwise_distances_argmin_min
from sklearn.utils import _safe_indexing, assert_all_finite, check_random_state
from sklearn.utils._param_validation import Interval

from kernlet._typing import Floats, Indices
from kernlet.condense.base import Condenser, rows_by_number
from kernlet.rows import is_source
from kernlet.rows.source import RowSource, add_sums
from kernlet.sklearn_base import check_training_data

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
    >>> from kernlet.condense.centroids import find_centroids
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


#: A class that takes no more than this is clustered in memory.
HELD_BYTES = 2**30
_MOST_PASSES = 30
_STILL = 1e-4  # relative decrease of the squared distances that is none


def find_centroids_of_rows(
    rows: RowSource,
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
    ``find_centroids``. Of a larger one a sample of that size is; its means
    are where Lloyd's steps over all rows of the class start, a pass each, at most 30.

    Parameters
    ----------
    rows : RowSource
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


def _lloyd(rows: RowSource, is_mine: Any, start: Cluster) -> Cluster:
    """Means of all rows marked, from means of some of them."""
    means, _, _ = start
    scale = power_of_two(means)
    means, best = means / scale, np.inf
    for n_passes in range(1, _MOST_PASSES + 1):
        sums, counts, inertia = rows.map_reduce(
            _assigned, add_sums, by_row=(is_mine,), shared=(means, scale)
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


class CentroidCondenser(Condenser):
    """Puts a few means, found by k-means, in place of the rows of each class.

    Parameters
    ----------
    keep : float, default=0.1
        Means for each row of a class, in (0, 1].
    min_per_class : int, default=1
        Means that each class has at least, if it has as many distinct rows.
    n_init : int, default=3
        Starts of k-means for each class; the best counts.
    random_state : int, RandomState instance or None, default=None
        Draws the starts.

    Attributes
    ----------
    condensation_ : Centroids
        The means, with how many rows each stands for. They are new rows: there is no
        ``sample_indices_``.
    sampling_strategy_ : dict
        Means of each class.
    classes_ : ndarray of shape (n_classes,)
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Where X has names for all its columns, and all are strings.

    See Also
    --------
    TypicalCondenser : Keeps some of the rows as they are.

    Notes
    -----
    Means come class after class. Floating-point columns of a frame keep their type, all other
    columns become float64; the index of a pandas frame is new. Scale the columns first if
    distances are to treat them alike.

    Time is n_rows n_features times the means of a class for each iteration of k-means; memory
    the means and a copy of the largest class.

    X may be a source of rows (:mod:`kernlet.rows`) or a Dask collection, and y the name of a column
    of it. A class of up to 1 GiB is brought into memory, with the same means as if X were; of a
    larger one a sample of that size is, from whose means Lloyd's steps over all its rows start.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from sklearn.neighbors import KNeighborsClassifier
    >>> from kernlet import CentroidCondenser
    >>> X, y = load_digits(return_X_y=True)
    >>> rows, labels = CentroidCondenser(random_state=0).fit_resample(X[:1000], y[:1000])
    >>> rows.shape
    (100, 64)
    >>> KNeighborsClassifier(1).fit(rows, labels).score(X[1000:], y[1000:]) > 0.93
    True
    """

    _gives_indices: ClassVar[bool] = False
    condensation_: Centroids
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "keep": [Interval(Real, 0, 1, closed="right")],
        "min_per_class": [Interval(Integral, 1, None, closed="left")],
        "n_init": [Interval(Integral, 1, None, closed="left")],
        "random_state": ["random_state"],
    }

    def __init__(
        self,
        keep: float = 0.1,
        *,
        min_per_class: int = 1,
        n_init: int = 3,
        random_state: Any = None,
    ) -> None:
        self.keep = keep
        self.min_per_class = min_per_class
        self.n_init = n_init
        self.random_state = random_state

    @property
    def sample_indices_(self) -> Indices:
        """There is none."""
        raise AttributeError(
            "CentroidCondenser makes new rows, which have no numbers among the old ones; "
            "condensation_.sizes says how many rows each stands for."
        )

    def _source(self, X: Any, y: Any) -> tuple[Any, Any]:
        data = check_training_data(self, X, y, takes_sources=True)
        data.X.map_reduce(_check_finite, _nothing)
        return data.X, data.y

    def _condensation(self, X: Any, codes: Indices) -> Centroids:
        find = find_centroids_of_rows if isinstance(X, RowSource) else find_centroids
        return find(
            X,
            codes,
            self.classes_,
            keep=self.keep,
            min_per_class=self.min_per_class,
            n_init=self.n_init,
            random_state=check_random_state(self.random_state),
        )

    def _resampled(self, X: Any, y: Any, codes: Indices) -> tuple[Any, Any]:
        if is_source(X):
            return self.condensation_.rows, self.classes_[self.condensation_.codes]
        first = np.unique(codes, return_index=True)[1]  # a row of each class, for its label
        labels = _safe_indexing(rows_by_number(y), first[self.condensation_.codes])
        if hasattr(labels, "reset_index"):
            labels = labels.reset_index(drop=True)
        return _like(X, self.condensation_.rows), labels


def _check_finite(X: Any) -> None:
    assert_all_finite(X, input_name="X")


def _nothing(total: None, value: None) -> None:
    """Nothing is summed up."""


def _like(X: Any, rows: Floats) -> Any:
    """Rows in the kind of container that X is."""
    if isinstance(X, list):
        return rows.tolist()
    if sparse.issparse(X):
        return X.tocsr()[:0].__class__(rows)
    if hasattr(X, "iloc"):
        return _pandas_like(X, rows)
    frame = nw.from_native(X, eager_only=True, pass_through=True)
    return _frame_like(frame, rows) if isinstance(frame, nw.DataFrame) else rows


def _pandas_like(X: Any, rows: Floats) -> Any:
    """A pandas frame; its columns may have any names, and be sparse."""
    frame = type(X)(rows)
    for number, dtype in enumerate(X.dtypes):
        if dtype.kind == "f":
            frame[number] = frame[number].astype(dtype)
    frame.columns = X.columns
    return frame


def _frame_like(frame: nw.DataFrame[Any], rows: Floats) -> Any:
    made = nw.from_numpy(rows, list(frame.columns), backend=frame.implementation)
    floats = [nw.col(name).cast(dtype) for name, dtype in frame.schema.items() if dtype.is_float()]
    return made.with_columns(*floats).to_native()
