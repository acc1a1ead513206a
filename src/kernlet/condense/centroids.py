"""CentroidCondenser: a few means in place of the rows of each class."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from scipy import sparse
from sklearn.metrics import pairwise_distances_argmin_min
from sklearn.utils import _safe_indexing, assert_all_finite, check_random_state
from sklearn.utils._param_validation import Interval, StrOptions

from kernlet._typing import Floats, Indices
from kernlet.condense.base import Condenser, count_per_class, row_indexable
from kernlet.kernels.gram import as_dense
from kernlet.rows.source import RowSource, add_sums
from kernlet.sampling import kmeans
from kernlet.sklearn_base import is_source

#: Means, their sizes, and the sum of squared distances.
Clusters = tuple[Floats, Indices, float]

# Numbers between 2^-40 and 2^40 have squares, and sums of many squares, within float32.
_SAFE_EXPONENT = 40
#: A class of a row source that takes at most this is clustered in memory.
MAX_CLASS_BYTES = 2**30
_MAX_PASSES = 30
_MANY_DISTANCES = 1e9  # rows * means * features of a class for which one start must do
_CONVERGED = 1e-4  # relative decrease of the squared distances at which Lloyd's steps end


@dataclass(frozen=True, eq=False)
class Centroids:
    """Means of clusters of each class.

    Parameters
    ----------
    classes : ndarray of shape (n_classes,)
        Class labels.
    rows : ndarray of shape (n_means, n_features)
        The means, class by class.
    codes : ndarray of shape (n_means,)
        The number of the class of each mean.
    sizes : ndarray of shape (n_means,)
        Rows that each mean stands for.
    inertia : ndarray of shape (n_classes,)
        Sum of squared distances of the rows of each class from their means; infinite where it
        overflows.
    """

    classes: Any
    rows: Floats
    codes: Indices
    sizes: Indices
    inertia: Floats

    @property
    def fraction_kept(self) -> float:
        """Means per row."""
        return len(self.codes) / int(self.sizes.sum())

    @property
    def kept_per_class(self) -> dict[Any, int]:
        """Means of each class."""
        return count_per_class(self.classes, self.codes)

    @property
    def deleted_per_class(self) -> dict[Any, int]:
        """Rows minus means of each class."""
        before = count_per_class(self.classes, self.codes, self.sizes)
        return {label: before[label] - n for label, n in self.kept_per_class.items()}

    def __repr__(self) -> str:
        return f"Centroids({len(self.codes):,} for {int(self.sizes.sum()):,} rows)"


def _cluster(X: Any, n_means: int, n_init: int, seed: int) -> Clusters:
    """Means of one class by k-means, at most as many as there are distinct rows."""
    if n_means == X.shape[0]:
        assert_all_finite(X, input_name="X")  # which k-means does otherwise
        return as_dense(X), np.ones(n_means, dtype=np.intp), 0.0
    scale = _safe_scale(X)
    model = kmeans(X / scale, n_means, seed, n_init=n_init)
    sizes = np.bincount(model.labels_, minlength=n_means)
    used = sizes > 0
    with np.errstate(over="ignore"):
        inertia = float(scale * (scale * model.inertia_))
    return scale * model.cluster_centers_[used], sizes[used], inertia


def _safe_scale(X: Any) -> Any:
    """1, or a power of two near the largest number in X if squares would over- or underflow."""
    # A power of two, because dividing by it is exact: the clusters are those of X itself.
    largest = float(abs(X).max())
    exponent = max(int(np.frexp(largest)[1]) - 1, -1000) if largest > 0 else 0
    if -_SAFE_EXPONENT < exponent < _SAFE_EXPONENT:
        return X.dtype.type(1.0)
    return X.dtype.type(2.0**exponent)


def _cluster_source(
    source: RowSource, rows: Indices, n_means: int, n_init: int, seed: int
) -> Clusters:
    """The same for rows of a source: of a large class a sample, then Lloyd's steps over all."""
    most = max(1, MAX_CLASS_BYTES // (source.dtype.itemsize * max(1, source.shape[1])))
    if len(rows) <= most:
        return _cluster(source.take(rows), n_means, n_init, seed)
    sample = np.sort(np.random.RandomState(seed).choice(rows, most, replace=False))
    start, _, _ = _cluster(source.take(sample), min(n_means, most), n_init, seed)
    is_member = np.zeros(len(source), dtype=bool)
    is_member[rows] = True
    return _lloyd(source, is_member, start)


def _lloyd(source: RowSource, is_member: Any, means: Floats) -> Clusters:
    """Lloyd's algorithm over the rows marked, one pass per step, from given means."""
    scale = _safe_scale(means)
    means, best = means / scale, np.inf
    for n_passes in range(1, _MAX_PASSES + 1):
        sums, counts, inertia = source.map_reduce(
            _assign_block, add_sums, by_row=(is_member,), shared=(means, scale)
        )
        used = counts > 0
        if inertia >= (1 - _CONVERGED) * best or n_passes == _MAX_PASSES:
            break
        means, best = sums[used] / counts[used, None], inertia
    with np.errstate(over="ignore"):
        kept = scale * means[used].astype(source.dtype)
        return kept, counts[used], float(scale * (scale * inertia))


def _assign_block(X: Any, is_member: Any, means: Floats, scale: Any) -> list[Any]:
    """Sums and numbers of the rows nearest to each mean, and their squared distances."""
    X = X[is_member]
    sums, counts = np.zeros(means.shape), np.zeros(len(means), dtype=np.intp)
    if not X.shape[0]:
        return [sums, counts, 0.0]
    X = as_dense(X) / scale
    nearest, distances = pairwise_distances_argmin_min(X, means)
    np.add.at(sums, nearest, X)
    return [sums, counts + np.bincount(nearest, minlength=len(means)), float(distances @ distances)]


class CentroidCondenser(Condenser):
    """Replaces the rows of each class by a few means, found by k-means.

    Parameters
    ----------
    keep : float, default=0.1
        Means per row of a class, in (0, 1].
    min_per_class : int, default=1
        Means that each class has at least, if it has that many distinct rows.
    n_init : "auto" or int, default="auto"
        Starts of k-means per class, of which the best is kept. ``"auto"`` is 3, and 1 for a
        class whose rows times means times features exceed 1e9: there a start takes ten seconds.
    verbose : int, default=0
        Print progress: 1 for each task of the fit, 2 for the steps below them.
    random_state : int, RandomState instance or None, default=None
        Draws the starts.

    Attributes
    ----------
    condensation_ : Centroids
        The means, with the number of rows each stands for. They are new rows: there is no
        ``sample_indices_``.
    sampling_strategy_ : dict
        Means of each class.
    classes_ : ndarray of shape (n_classes,)
        Class labels, sorted.
    n_features_in_ : int
        Number of features seen by ``fit``.
    feature_names_in_ : ndarray of shape (n_features,)
        Names of the features, if all columns of X have names that are strings.

    See Also
    --------
    TypicalCondenser : Keeps a subset of the rows.

    Notes
    -----
    Means are sorted by class. Floating-point columns of a frame keep their type, all other
    columns become float64; the index of a pandas frame is new. Standardise columns of different
    units first.

    Time is n_rows n_features times the means of a class per iteration of k-means; memory the means
    and a copy of the largest class.

    X may be a row source (:mod:`kernlet.rows`) or a Dask collection, and y the name of a column of
    it. A class of up to 1 GiB is brought into memory, with the same means as for X in memory; of a
    larger one a sample of that size, whose means are the start of Lloyd's steps over all its rows.

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
    _takes_sources: ClassVar[bool] = True
    condensation_: Centroids
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "keep": [Interval(Real, 0, 1, closed="right")],
        "min_per_class": [Interval(Integral, 1, None, closed="left")],
        "n_init": [Interval(Integral, 1, None, closed="left"), StrOptions({"auto"})],
        "verbose": ["verbose"],
        "random_state": ["random_state"],
    }

    def __init__(
        self,
        keep: float = 0.1,
        *,
        min_per_class: int = 1,
        n_init: str | int = "auto",
        verbose: int = 0,
        random_state: Any = None,
    ) -> None:
        self.keep = keep
        self.min_per_class = min_per_class
        self.n_init = n_init
        self.verbose = verbose
        self.random_state = random_state

    @property
    def sample_indices_(self) -> Indices:
        """Not defined: the rows are new."""
        raise AttributeError(
            "CentroidCondenser makes new rows, which have no numbers among the old ones; "
            "condensation_.sizes has the number of rows that each stands for."
        )

    def _condensation(self, X: Any, codes: Indices, report: Callable[[str], Any]) -> Centroids:
        random_state = check_random_state(self.random_state)
        clusters = []
        for number, label in enumerate(self.classes_.tolist()):
            rows = np.flatnonzero(codes == number)
            n_means = min(len(rows), max(self.min_per_class, round(self.keep * len(rows))))
            seed, n_init = random_state.randint(2**31 - 1), self.n_init
            if isinstance(n_init, str):
                n_init = 3 if len(rows) * n_means * X.shape[1] <= _MANY_DISTANCES else 1
            if isinstance(X, RowSource):
                clusters.append(_cluster_source(X, rows, n_means, n_init, seed))
            else:
                clusters.append(_cluster(X[rows], n_means, n_init, seed))
            report(f"class {label}")
        means, sizes, inertia = zip(*clusters, strict=True)
        means_codes = np.repeat(np.arange(len(clusters)), [len(each) for each in means])
        return Centroids(
            self.classes_,
            np.vstack(means),
            means_codes,
            np.concatenate(sizes),
            np.array(inertia),
        )

    def _resampled(self, X: Any, y: Any, codes: Indices) -> tuple[Any, Any]:
        if is_source(X):
            return self.condensation_.rows, self.classes_[self.condensation_.codes]
        # The label of each mean is that of a row of its class, in the type that y has.
        first = np.unique(codes, return_index=True)[1]
        labels = _safe_indexing(row_indexable(y), first[self.condensation_.codes])
        if hasattr(labels, "reset_index"):
            labels = labels.reset_index(drop=True)
        return _like(X, self.condensation_.rows), labels


def _like(X: Any, rows: Floats) -> Any:
    """Rows in the type of container that X is."""
    if isinstance(X, list):
        return rows.tolist()
    if sparse.issparse(X):
        return X.tocsr()[:0].__class__(rows)
    if hasattr(X, "iloc"):
        return _pandas_like(X, rows)
    return _frame_like(X, rows) if hasattr(X, "schema") else rows


def _pandas_like(X: Any, rows: Floats) -> Any:
    """A pandas frame, whose columns may be sparse and have names that are not strings."""
    frame = type(X)(rows)
    for number, dtype in enumerate(X.dtypes):
        if dtype.kind == "f":
            frame[number] = frame[number].astype(dtype)
    frame.columns = X.columns
    return frame


def _frame_like(X: Any, rows: Floats) -> Any:
    """A polars frame or a pyarrow table, in which columns of floats keep their precision."""
    names = getattr(X, "column_names", None) or X.columns
    columns = {}
    for name, column in zip(names, rows.T, strict=True):
        dtype = np.asarray(X[:0][name]).dtype
        columns[name] = column.astype(dtype) if dtype.kind == "f" else column
    return getattr(X, "from_pydict", type(X))(columns)
