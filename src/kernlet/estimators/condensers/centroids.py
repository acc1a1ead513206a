"""Training sets of means."""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any, ClassVar

import narwhals as nw
import numpy as np
from scipy import sparse
from sklearn.utils import _safe_indexing, assert_all_finite, check_random_state
from sklearn.utils._param_validation import Interval

from kernlet.condense import Centroids, find_centroids
from kernlet.condense.centroid_rows import find_centroids_of_rows
from kernlet.estimators.base import source_data
from kernlet.estimators.condensers.base import Condenser, rows_by_number
from kernlet.kernels.columns import Indices
from kernlet.kernels.kernel import Floats
from kernlet.rows import Rows, is_source


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
        data = source_data(self, X, y)
        data.X.map_reduce(_check_finite, _nothing)
        return data.X, data.y

    def _condensation(self, X: Any, codes: Indices) -> Centroids:
        find = find_centroids_of_rows if isinstance(X, Rows) else find_centroids
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
