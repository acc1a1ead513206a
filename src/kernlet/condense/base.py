"""What condensers share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field, fields
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, _fit_context
from sklearn.utils import (
    InputTags,
    Tags,
    _safe_indexing,
    check_array,
    check_random_state,
    column_or_1d,
)
from sklearn.utils._optional_dependencies import check_matplotlib_support
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.multiclass import check_classification_targets, type_of_target
from sklearn.utils.validation import check_consistent_length, check_is_fitted, validate_data

from kernlet._typing import Floats, Indices
from kernlet.kernels.bandwidth import make_kernel
from kernlet.kernels.landmarks import RowFeatures
from kernlet.kernels.linear import Linear
from kernlet.least_squares.moments import Moments, collect
from kernlet.least_squares.proximal import check_size
from kernlet.least_squares.solve import Proximal, normalization, one_against_rest, solve_proximal
from kernlet.rows import is_source
from kernlet.sampling import LANDMARK_CONSTRAINTS, choose_landmarks
from kernlet.sklearn_base import KERNEL_CONSTRAINTS, check_label_types


@dataclass(frozen=True, eq=False)
class Elimination:
    """One round for one class.

    Parameters
    ----------
    label : object
        The class that was set against the rest.
    round : int
        From 1.
    n_rows : int
        Rows that the machine was trained on.
    weights : ndarray of shape (n_features,)
        w of the machine: over the columns or, with a kernel, over the landmarks.
    gamma : float
        The machine says w.x - gamma.
    residual : float
        Of its normal equations: the certificate.
    inside : int
        Rows that the rule of the round named.
    deleted : ndarray of shape (n_deleted,)
        Rows that left in this round, ascending.
    values : ndarray of shape (n_deleted,)
        w.x - gamma of these.
    """

    label: Any
    round: int
    n_rows: int
    weights: Floats
    gamma: float
    residual: float
    inside: int
    deleted: Indices
    values: Floats

    def __repr__(self) -> str:
        return (
            f"Elimination({self.label!r} round {self.round}: trained on {self.n_rows:,}, "
            f"{self.inside:,} named, {len(self.deleted):,} deleted)"
        )


@dataclass(frozen=True, eq=False)
class Condensation:
    """Which rows were kept, and why the others were not.

    Parameters
    ----------
    classes : ndarray of shape (n_classes,)
    codes : ndarray of shape (n_rows,)
        The class of each row before.
    kept : ndarray of shape (n_kept,)
        Rows kept, ascending.
    rounds : list of Elimination
        In the order in which they were done.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from kernlet import TypicalCondenser
    >>> condenser = TypicalCondenser()
    >>> rows, labels = condenser.fit_resample(*load_iris(return_X_y=True))
    >>> condenser.condensation_.kept_per_class
    {0: 34, 1: 50, 2: 44}
    """

    classes: Any
    codes: Indices
    kept: Indices
    rounds: list[Elimination]

    @property
    def deleted(self) -> Indices:
        """Rows that left, ascending."""
        return np.setdiff1d(np.arange(len(self.codes)), self.kept)

    @property
    def fraction_kept(self) -> float:
        """Share of the rows."""
        return len(self.kept) / len(self.codes)

    @property
    def kept_per_class(self) -> dict[Any, int]:
        """Rows left of each class."""
        return self._count(self.kept)

    @property
    def deleted_per_class(self) -> dict[Any, int]:
        """Rows that left of each class."""
        return self._count(self.deleted)

    def _count(self, rows: Indices) -> dict[Any, int]:
        counts = np.bincount(self.codes[rows], minlength=len(self.classes))
        return dict(zip(self.classes.tolist(), counts.tolist(), strict=True))

    def __repr__(self) -> str:
        return (
            f"Condensation({len(self.kept):,} of {len(self.codes):,} rows kept, "
            f"{len(self.rounds)} rounds)"
        )


@dataclass(frozen=True, eq=False)
class OneClass:
    """The proximal machine of one class against the rest.

    Parameters
    ----------
    weights : ndarray of shape (n_features,)
    gamma : float
        It says w.x - gamma.
    residual : float
    n_rows : int
        Rows it was trained on.
    """

    weights: Floats
    gamma: float
    residual: float
    n_rows: int

    def values(self, features: RowFeatures, rows: Indices) -> Floats:
        """w.x - gamma for some rows."""
        return features.dot(self.weights, rows) - self.gamma

    def record(
        self, label: Any, count: int, inside: int, deleted: Indices, values: Floats
    ) -> Elimination:
        """What came of a round with this machine."""
        return Elimination(
            label,
            count,
            self.n_rows,
            self.weights,
            self.gamma,
            self.residual,
            inside,
            deleted,
            values,
        )


def train_one_class(sums: Moments, number: int, C: float, *, balanced: bool = True) -> OneClass:
    """Train on the rows of the sums.

    Parameters
    ----------
    sums : Moments
    number : int
        The class.
    C : float
    balanced : bool, default=True
        See :func:`~kernlet.least_squares.solve.normalization`.

    Returns
    -------
    machine : OneClass
    """
    signs = one_against_rest(len(sums.counts), [number])
    weights = normalization(signs, sums.totals, balanced=balanced)
    solution = solve_proximal(Proximal(sums, C, signs, weights))
    return OneClass(
        solution.weights[0],
        -float(solution.intercept[0]),
        solution.residual,
        int(sums.counts.sum()),
    )


class Pool:
    """Rows still there, with their sums kept up as rows leave.

    Parameters
    ----------
    features : RowFeatures
    codes : ndarray of shape (n_rows,)
    sums : Moments
        Of the rows.
    rows : ndarray of row numbers, ascending
    """

    def __init__(self, features: RowFeatures, codes: Indices, sums: Moments, rows: Indices) -> None:
        self.features, self.codes, self.sums, self.rows = features, codes, sums, rows

    @classmethod
    def of_all(cls, features: RowFeatures, codes: Indices, n_classes: int) -> Pool:
        """All rows."""
        return cls(features, codes, collect(features, codes, n_classes), np.arange(len(codes)))

    def without(self, rows: Indices) -> Pool:
        """Some rows fewer; sums over whichever part is smaller."""
        if not len(rows):
            return self
        left = np.setdiff1d(self.rows, rows, assume_unique=True)
        fewer = rows if len(rows) <= len(left) else left
        part = collect(
            self.features, self.codes, len(self.sums.counts), shift=self.sums.shift, rows=fewer
        )
        return Pool(self.features, self.codes, part if fewer is left else self.sums - part, left)

    def against_rest(self, number: int) -> Pool:
        """The same rows as two classes: the rest, and a class."""
        codes = (self.codes == number).astype(np.intp)
        return Pool(self.features, codes, self.sums.against_rest(number), self.rows)

    def own(self, number: int) -> Indices:
        """Rows of a class."""
        return self.rows[self.codes[self.rows] == number]


def spare(
    rows: Indices, urgency: Floats, present: Indices, codes: Indices, floor: int
) -> NDArray[np.bool_]:
    """Which rows may leave without bringing a class below its floor.

    Parameters
    ----------
    rows : ndarray of row numbers
        To leave.
    urgency : ndarray of shape (n_rows,)
        How much each of them ought to; the others of its class stay first.
    present : ndarray of row numbers
        Still there, these among them.
    codes : ndarray of row codes
    floor : int
        Rows that every class keeps, if it has them.

    Returns
    -------
    may_leave : ndarray of bool

    Examples
    --------
    >>> import numpy as np
    >>> from kernlet.condense.base import spare
    >>> rows, codes = np.arange(3), np.zeros(3, dtype=int)
    >>> spare(rows, np.array([5.0, 1.0, 3.0]), rows, codes, 1)
    array([ True, False,  True])
    """
    counts = np.bincount(codes[present])
    may_leave = np.ones(len(rows), dtype=bool)
    for number in np.unique(codes[rows]):
        own = np.flatnonzero(codes[rows] == number)
        room = max(0, int(counts[number]) - floor)
        may_leave[own[np.argsort(-urgency[own], kind="stable")[room:]]] = False
    return may_leave


@dataclass
class SamplerInputTags(InputTags):
    """Of the rows: also whether frames come back as frames."""

    dataframe: bool = True


@dataclass
class SamplerTags:
    """Of the answer: whether it is some of the rows."""

    sample_indices: bool = True


@dataclass
class CondenserTags(Tags):
    """scikit-learn's tags and a sampler's."""

    sampler_tags: SamplerTags = field(default_factory=SamplerTags)


def condenser_tags(tags: Any, *, sample_indices: bool) -> CondenserTags:
    """Tags of a condenser from those of an estimator."""
    values = {each.name: getattr(tags, each.name) for each in fields(tags)}
    inputs = values["input_tags"]
    inputs = {each.name: getattr(inputs, each.name) for each in fields(inputs)}
    values |= {
        "estimator_type": "sampler",
        "input_tags": SamplerInputTags(**(inputs | {"sparse": True})),
    }
    values["target_tags"].required = True
    return CondenserTags(**values, sampler_tags=SamplerTags(sample_indices))


class DeletedImagesDisplay:
    """Images that a condenser left out, one line for each class.

    Use :meth:`from_estimator`. The first in a line are the clearest cases: the largest
    w.x - gamma of a :class:`~kernlet.TypicalCondenser`, the smallest |w.x - gamma| of a
    :class:`~kernlet.BoundaryCondenser`.

    Parameters
    ----------
    lines : list of ndarray of shape (n_images, height, width)
        Images of each class.
    labels : list of str
        What is written beside each line.

    Attributes
    ----------
    ax_ : matplotlib axes
    figure_ : matplotlib figure
    image_ : matplotlib artist

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from kernlet import TypicalCondenser
    >>> from kernlet.condense.base import DeletedImagesDisplay
    >>> X, y = load_digits(return_X_y=True)
    >>> condenser = TypicalCondenser().fit(X, y)
    >>> display = DeletedImagesDisplay.from_estimator(condenser, X, image_shape=(8, 8))
    >>> display.labels[0]
    '0 (64 left out)'
    """

    def __init__(self, *, lines: list[Floats], labels: list[str]) -> None:
        self.lines, self.labels = lines, labels

    @classmethod
    def from_estimator(
        cls,
        condenser: Any,
        X: Any,
        *,
        image_shape: tuple[int, int],
        n_images: int = 16,
        ax: Any = None,
        **image: Any,
    ) -> DeletedImagesDisplay:
        """Draw rows that a fitted condenser left out.

        Parameters
        ----------
        condenser : TypicalCondenser or BoundaryCondenser
        X : {array-like, sparse matrix} of shape (n_rows, n_features)
            The rows that it was fitted to.
        image_shape : tuple of two ints
            Height and width.
        n_images : int, default=16
            For each class, at most.
        ax : matplotlib axes, default=None
        **image : dict
            Passed on to matplotlib's ``imshow``.

        Returns
        -------
        display : DeletedImagesDisplay
        """
        check_is_fitted(condenser)
        record = condenser.condensation_
        if not hasattr(record, "rounds"):
            raise ValueError(f"{type(condenser).__name__} leaves no rows out; it makes new ones.")
        X = check_array(X, accept_sparse="csr")
        if X.shape[0] != len(record.codes) or X.shape[1] != image_shape[0] * image_shape[1]:
            raise ValueError(
                f"X has shape {X.shape}; the condenser was fitted to {len(record.codes)} rows, and "
                f"images of {image_shape[0]} x {image_shape[1]} have "
                f"{image_shape[0] * image_shape[1]} numbers."
            )
        rows = np.concatenate([r.deleted for r in record.rounds])
        values = np.concatenate([r.values for r in record.rounds])
        order = np.argsort(-values if (values > 1).all() else np.abs(values), kind="stable")
        rows = rows[order]
        lines, labels = [], []
        for number, label in enumerate(record.classes.tolist()):
            own = rows[record.codes[rows] == number]
            lines.append(_dense(X[own[:n_images]]).reshape(-1, *image_shape))
            labels.append(f"{label} ({len(own)} left out)")
        return cls(lines=lines, labels=labels).plot(ax=ax, **image)

    def plot(self, *, ax: Any = None, **image: Any) -> DeletedImagesDisplay:
        """Draw.

        Parameters
        ----------
        ax : matplotlib axes, default=None
        **image : dict
            Passed on to matplotlib's ``imshow``.

        Returns
        -------
        display : DeletedImagesDisplay
        """
        check_matplotlib_support(f"{type(self).__name__}.plot")
        import matplotlib.pyplot as plt

        if ax is None:
            _, ax = plt.subplots(layout="constrained")
        height, width = self.lines[0].shape[1:]
        longest = max(1, max(len(line) for line in self.lines))
        mosaic = np.full((len(self.lines) * (height + 2), longest * (width + 2)), np.nan)
        for number, line in enumerate(self.lines):
            for place, picture in enumerate(line):
                top, left = number * (height + 2), place * (width + 2)
                mosaic[top : top + height, left : left + width] = picture
        self.image_ = ax.imshow(mosaic, **{"cmap": "gray_r", "interpolation": "nearest", **image})
        middles = [number * (height + 2) + height / 2 for number in range(len(self.lines))]
        ax.set_yticks(middles, self.labels)
        ax.set_xticks([])
        ax.tick_params(length=0)
        ax.spines[:].set_visible(False)
        self.ax_, self.figure_ = ax, ax.figure
        return self


def _dense(X: Any) -> Floats:
    return X.toarray() if sparse.issparse(X) else X


class Condenser(OneToOneFeatureMixin, BaseEstimator, ABC):
    """Makes fewer rows of a training set, each class on its own terms."""

    _gives_indices: ClassVar[bool] = True
    classes_: Any
    condensation_: Any

    @property
    def sampling_strategy_(self) -> dict[Any, int]:
        """Rows left of each class, by imbalanced-learn's name."""
        return self.condensation_.kept_per_class

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any) -> Any:
        """Find the rows to keep; ``fit_resample`` also returns them.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)

        Returns
        -------
        self : object
        """
        self._condense(X, y)
        return self

    @_fit_context(prefer_skip_nested_validation=True)
    def fit_resample(self, X: Any, y: Any) -> tuple[Any, Any]:
        """The condensed rows and their labels, of the kind that went in.

        Parameters
        ----------
        X : {array-like, frame, sparse matrix} of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
            Labels: numbers, strings or booleans; a column of a frame, or one column of
            numbers for each class, in which one is 1, are taken too.

        Returns
        -------
        X_condensed, y_condensed
        """
        codes = self._condense(X, y)
        return self._resampled(X, y, codes)

    def _condense(self, X: Any, y: Any) -> Indices:
        """Set ``classes_`` and ``condensation_``; the class of each row is returned."""
        if is_source(X):
            rows, labels = self._source(X, y)
        else:
            labels = _one_column(y)
            rows = validate_data(self, X, accept_sparse="csr", dtype=[np.float64, np.float32])
            check_consistent_length(rows, labels)
        self.classes_, codes = np.unique(labels, return_inverse=True)
        _require_two(self.classes_)
        self.condensation_ = self._condensation(rows, codes)
        return codes

    def _source(self, X: Any, y: Any) -> tuple[Any, Any]:
        """Rows that are read block by block, and their labels."""
        raise TypeError(
            f"{type(self).__name__} needs its rows in memory, as an array or a sparse matrix; "
            f"X is a {type(X).__name__}. Give it a part, such as rows.take(numbers), or use "
            "CentroidCondenser."
        )

    @abstractmethod
    def _condensation(self, X: Any, codes: Indices) -> Any:
        """The record of what stays and what goes."""

    @abstractmethod
    def _resampled(self, X: Any, y: Any, codes: Indices) -> tuple[Any, Any]:
        """Rows and labels that stay."""

    def __sklearn_tags__(self) -> Any:
        return condenser_tags(super().__sklearn_tags__(), sample_indices=self._gives_indices)


class EliminationCondenser(Condenser):
    """Leaves rows out by means of proximal machines, one class against the rest."""

    condensation_: Condensation
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "C": [Interval(Real, 0, None, closed="neither")],
        **KERNEL_CONSTRAINTS,
        "landmarks": LANDMARK_CONSTRAINTS,
        "form": [StrOptions({"repaired", "literal"})],
        "class_weight": [StrOptions({"balanced", "normalized"})],
        "min_per_class": [Interval(Integral, 1, None, closed="left")],
        "random_state": ["random_state"],
    }

    @property
    def sample_indices_(self) -> Indices:
        """Rows kept, ascending."""
        return self.condensation_.kept

    def _resampled(self, X: Any, y: Any, codes: Indices) -> tuple[Any, Any]:
        kept = self.sample_indices_
        return tuple(_safe_indexing(rows_by_number(A), kept) for A in (X, y))

    def _features(self, X: Any) -> RowFeatures:
        """Columns, or kernel values with landmarks."""
        names = ("kernel", "gamma", "degree", "coef0", "landmarks", "random_state")
        kernel, gamma, degree, coef0, landmarks, seed = (getattr(self, name) for name in names)
        made = make_kernel(kernel, X, gamma=gamma, degree=degree, coef0=coef0)
        features = RowFeatures(X)
        if not isinstance(made, Linear):
            points = choose_landmarks(landmarks, X, check_random_state(seed))
            features = RowFeatures(X, made, points)
        check_size(features.n_features, len(self.classes_), advice=", or CentroidCondenser")
        return features


def _one_column(y: Any) -> Any:
    """One label a row."""
    check_label_types(y)
    if type_of_target(y) == "multilabel-indicator":
        table = y.toarray() if sparse.issparse(y) else np.asarray(y)
        if not (table.sum(axis=1) == 1).all():
            raise ValueError("Multilabel and multioutput targets are not supported.")
        return table.argmax(axis=1)
    check_classification_targets(y)
    return column_or_1d(y)


def _require_two(classes: Any) -> None:
    if len(classes) < 2:
        raise ValueError(
            f"The labels y hold one class only ({classes.tolist()[0]!r}); condensing needs at "
            "least two."
        )


def rows_by_number(X: Any) -> Any:
    """The same, or a sparse matrix that can be indexed by rows."""
    return X.tocsr() if hasattr(X, "tocsr") else X
