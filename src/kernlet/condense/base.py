"""What condensers share: records, elimination by proximal classifiers, validation and tags."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields, replace
from numbers import Integral, Real
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from sklearn.base import OneToOneFeatureMixin
from sklearn.utils import (
    InputTags,
    Tags,
    _safe_indexing,
    check_array,
    check_random_state,
    column_or_1d,
)
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.multiclass import check_classification_targets, type_of_target
from sklearn.utils.validation import check_is_fitted

from kernlet._typing import Floats, Indices
from kernlet.extras import require
from kernlet.kernels.bandwidth import make_kernel
from kernlet.kernels.base import Kernel
from kernlet.kernels.gram import RowFeatures, as_dense
from kernlet.kernels.linear import Linear
from kernlet.least_squares.normal_equations import (
    Moments,
    collect,
    normalization,
    one_against_rest,
    solve_normal_equations,
)
from kernlet.notebook import count_of_labels
from kernlet.progress import Progress
from kernlet.sampling import LANDMARK_CONSTRAINTS, choose_landmarks
from kernlet.sklearn_base import (
    KERNEL_CONSTRAINTS,
    KernletEstimator,
    check_classes,
    check_label_types,
    check_training_data,
    fit_method,
    is_source,
    warn_unlike_columns,
)


@dataclass(frozen=True, eq=False)
class Elimination:
    """One round of a condenser for one class.

    Parameters
    ----------
    label : object
        The class that was set against the rest.
    round : int
        Number of the round, from 1.
    n_rows : int
        Rows that the classifier was trained on.
    weights : ndarray
        w of the classifier, over the columns or, with a kernel, over the landmarks.
    gamma : float
        The decision value of a row is w.x - gamma.
    gap : float
        Bound on the relative distance of the objective from its optimum.
    inside : int
        Rows that met the criterion of the round.
    deleted : ndarray
        Rows deleted in this round, ascending.
    values : ndarray
        Decision values of these rows.
    """

    label: Any
    round: int
    n_rows: int
    weights: Floats
    gamma: float
    gap: float
    inside: int = 0

    deleted: Indices = field(default_factory=lambda: np.empty(0, dtype=np.intp))
    values: Floats = field(default_factory=lambda: np.empty(0))

    def __repr__(self) -> str:
        return (
            f"Elimination({self.label!r} round {self.round}: trained on {self.n_rows:,}, "
            f"{self.inside:,} met the criterion, {len(self.deleted):,} deleted)"
        )


@dataclass(frozen=True, eq=False)
class Condensation:
    """Which rows were kept, and why the others were not.

    Parameters
    ----------
    classes : ndarray of shape (n_classes,)
        Class labels.
    codes : ndarray of shape (n_rows,)
        The number of the class of each row, before condensing.
    kept : ndarray of shape (n_kept,)
        Rows kept, ascending.
    rounds : list of Elimination
        Rounds in the order in which they were done.

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
        """Rows deleted, ascending."""
        return np.setdiff1d(np.arange(len(self.codes)), self.kept)

    @property
    def fraction_kept(self) -> float:
        """Share of the rows."""
        return len(self.kept) / len(self.codes)

    @property
    def kept_per_class(self) -> dict[Any, int]:
        """Rows kept of each class."""
        return count_per_class(self.classes, self.codes[self.kept])

    @property
    def deleted_per_class(self) -> dict[Any, int]:
        """Rows deleted of each class."""
        return count_per_class(self.classes, self.codes[self.deleted])

    def __repr__(self) -> str:
        return (
            f"Condensation({len(self.kept):,} of {len(self.codes):,} rows kept, "
            f"{len(self.rounds)} rounds)"
        )


def count_per_class(classes: Any, codes: Indices, sizes: Indices | None = None) -> dict[Any, int]:
    """Rows of each class, by label; each code stands for ``sizes`` rows."""
    counts = np.bincount(codes, sizes, len(classes)).astype(int)
    return dict(zip(classes.tolist(), counts.tolist(), strict=True))


@dataclass(frozen=True, eq=False)
class RemainingRows:
    """The rows not deleted so far, with their moments, which are updated as rows leave."""

    features: RowFeatures
    codes: Indices  # the class of every row, also of those deleted
    moments: Moments
    rows: Indices  # ascending

    def without(self, rows: Indices) -> RemainingRows:
        """The remaining rows without some of them."""
        if not len(rows):
            return self
        left = np.setdiff1d(self.rows, rows, assume_unique=True)
        # Moments of whichever part is smaller: subtract the rows that leave, or sum up the rows
        # that are left, which also avoids the round-off of a subtraction.
        smaller = rows if len(rows) <= len(left) else left
        n_classes, shift = len(self.moments.counts), self.moments.shift
        moments = collect(self.features, self.codes, n_classes, shift=shift, rows=smaller)
        if smaller is not left:
            moments = self.moments - moments
        return replace(self, moments=moments, rows=left)

    def reduce(
        self, function: Callable[..., Any], combine: Callable[[Any, Any], Any] | None = None
    ) -> Any:
        """``function(blocks, codes, weights)`` of the rows; all are in memory: one part."""
        blocks = self.features.blocks(self.rows, dense=True)
        return function(blocks, self.codes[self.rows], np.ones(len(self.rows)))

    def against_rest(self, number: int) -> RemainingRows:
        """The same rows as two classes: the rest, and one class."""
        codes = (self.codes == number).astype(np.intp)
        return replace(self, codes=codes, moments=self.moments.against_rest(number))

    def deletable(self, rows: Indices, scores: Floats, min_per_class: int) -> NDArray[np.bool_]:
        """Which of ``rows`` may be deleted, highest scores first, if each class keeps a minimum."""
        is_deleted = np.ones(len(rows), dtype=bool)
        for number in np.unique(self.codes[rows]):
            own = np.flatnonzero(self.codes[rows] == number)
            n_deletable = max(0, int(self.moments.counts[number]) - min_per_class)
            is_deleted[own[np.argsort(-scores[own], kind="stable")[n_deletable:]]] = False
        return is_deleted


# imbalanced-learn recognises a sampler by these tags; scikit-learn's own tags do not have them.


@dataclass
class SamplerInputTags(InputTags):
    """Tags of the rows: also whether data frames are returned as data frames."""

    dataframe: bool = True


@dataclass
class SamplerTags:
    """Tags of the result: whether it is a subset of the rows."""

    sample_indices: bool = True


@dataclass
class CondenserTags(Tags):
    """scikit-learn's tags and a sampler's."""

    sampler_tags: SamplerTags = field(default_factory=SamplerTags)


def _extended(kind: Any, tags: Any, **values: Any) -> Any:
    """Tags of a subclass: the values of ``tags``, and more."""
    return kind(**{each.name: getattr(tags, each.name) for each in fields(tags)}, **values)


class DeletedImagesDisplay:
    """Images that a condenser deleted, one line per class.

    Use :meth:`from_estimator`. The first in a line are the clearest cases: the largest
    w.x - gamma of a :class:`~kernlet.TypicalCondenser`, the smallest ``|w.x - gamma|`` of a
    :class:`~kernlet.BoundaryCondenser`.

    Parameters
    ----------
    lines : list of ndarray
        The images of each class.
    labels : list of str
        Titles of the lines.

    Attributes
    ----------
    ax_, figure_, image_ : matplotlib axes, figure and image
        What :meth:`plot` has drawn.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from kernlet import TypicalCondenser
    >>> from kernlet.condense.base import DeletedImagesDisplay
    >>> X, y = load_digits(return_X_y=True)
    >>> condenser = TypicalCondenser().fit(X, y)
    >>> display = DeletedImagesDisplay.from_estimator(condenser, X, image_shape=(8, 8))
    >>> display.labels[0]
    '0 (64 deleted)'
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
        """Draw rows of X that a fitted condenser deleted, at most ``n_images`` per class.

        X has the rows that the condenser was fitted to, and ``image_shape`` is the height and width
        of their images. ``image`` is passed to matplotlib's ``imshow``.
        """
        check_is_fitted(condenser)
        record = condenser.condensation_
        if not hasattr(record, "rounds"):
            raise ValueError(f"{type(condenser).__name__} deletes no rows; it makes new ones.")
        X = check_array(X, accept_sparse="csr")
        if X.shape[0] != len(record.codes) or X.shape[1] != image_shape[0] * image_shape[1]:
            raise ValueError(
                f"X has shape {X.shape}; the condenser was fitted to {len(record.codes)} rows, and "
                f"images of {image_shape[0]} x {image_shape[1]} have "
                f"{image_shape[0] * image_shape[1]} numbers."
            )
        rows = np.concatenate([r.deleted for r in record.rounds])
        values = np.concatenate([r.values for r in record.rounds])
        rows = rows[np.argsort(condenser._clearest_first(values), kind="stable")]
        lines, labels = [], []
        for number, label in enumerate(record.classes.tolist()):
            own = rows[record.codes[rows] == number]
            lines.append(as_dense(X[own[:n_images]]).reshape(-1, *image_shape))
            labels.append(f"{label} ({len(own)} deleted)")
        return cls(lines=lines, labels=labels).plot(ax=ax, **image)

    def plot(self, *, ax: Any = None, **image: Any) -> DeletedImagesDisplay:
        """Draw; ``image`` is passed to matplotlib's ``imshow``."""
        plt = require("matplotlib.pyplot", f"{type(self).__name__}.plot", "plot")

        if ax is None:
            _, ax = plt.subplots(layout="constrained")
        self.image_ = draw_image_rows(ax, self.lines, self.labels, **image)
        self.ax_, self.figure_ = ax, ax.figure
        return self


def draw_image_rows(
    axes: Any, rows: Sequence[Any], labels: Sequence[str], n_columns: int = 1, **image: Any
) -> Any:
    """Draw rows of images (n_images, height, width), each row with its label, as one mosaic."""
    height, width = rows[0].shape[1:]
    n_columns = max(n_columns, *(len(images) for images in rows))
    # Images are two pixels apart; NaN is drawn as background.
    mosaic = np.full((len(rows) * (height + 2), n_columns * (width + 2)), np.nan)
    for row, images in enumerate(rows):
        for column, pixels in enumerate(images):
            top, left = row * (height + 2), column * (width + 2)
            mosaic[top : top + height, left : left + width] = pixels
    artist = axes.imshow(mosaic, **{"cmap": "gray_r", "interpolation": "nearest", **image})
    axes.set_yticks([row * (height + 2) + height / 2 for row in range(len(rows))], labels)
    axes.set_xticks([])
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    return artist


class Condenser(OneToOneFeatureMixin, KernletEstimator, ABC):
    """Reduces the rows of a training set class by class."""

    _gives_indices: ClassVar[bool] = True
    _takes_sources: ClassVar[bool] = False
    classes_: Any
    condensation_: Any

    def _facts(self) -> list[tuple[str, str]]:
        if not hasattr(self, "condensation_"):
            return []
        kept, deleted = self.condensation_.kept_per_class, self.condensation_.deleted_per_class
        n_kept = sum(kept.values())
        counts = [f"{label}: {n:,}" for label, n in kept.items()]
        return [
            ("rows", f"{n_kept + sum(deleted.values()):,} before, {n_kept:,} after"),
            ("classes", count_of_labels(counts)),
            ("features", f"{self.n_features_in_:,}"),
        ]

    @property
    def sampling_strategy_(self) -> dict[Any, int]:
        """Rows kept of each class, under imbalanced-learn's name."""
        return self.condensation_.kept_per_class

    @fit_method
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

    @fit_method
    def fit_resample(self, X: Any, y: Any) -> tuple[Any, Any]:
        """The condensed rows and their labels, of the same types as X and y.

        Parameters
        ----------
        X : {array-like, frame, sparse matrix} of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
            Labels: numbers, strings or booleans; a column of a frame, or indicator columns of
            which one per row is 1, are accepted too.

        Returns
        -------
        X_condensed, y_condensed
        """
        codes = self._condense(X, y)
        return self._resampled(X, y, codes)

    def _condense(self, X: Any, y: Any) -> Indices:
        """Set ``classes_`` and ``condensation_``, and return the class of each row."""
        if is_source(X) and not self._takes_sources:
            raise TypeError(
                f"{type(self).__name__} needs its rows in memory, as an array or a sparse matrix; "
                f"X is a {type(X).__name__}. Give it a part, such as rows.take(numbers), or use "
                "CentroidCondenser."
            )
        labels = y if is_source(X) else _as_labels(y)
        data = check_training_data(self, X, labels, takes_sources=True)
        self.classes_, codes = np.unique(data.y, return_inverse=True)
        check_classes(self.classes_)
        with Progress.start(self, data, n_tasks=len(self.classes_)) as progress:
            self.condensation_ = self._condensation(data.X, codes, progress.step)
        return codes

    @abstractmethod
    def _condensation(self, X: Any, codes: Indices, report: Callable[[str], Any]) -> Any:
        """The record of what is kept and what is deleted; ``report`` each class done."""

    @abstractmethod
    def _resampled(self, X: Any, y: Any, codes: Indices) -> tuple[Any, Any]:
        """Rows and labels that are kept."""

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.estimator_type, tags.target_tags.required = "sampler", True
        tags.input_tags = _extended(SamplerInputTags, tags.input_tags)
        tags.input_tags.sparse = True
        return _extended(CondenserTags, tags, sampler_tags=SamplerTags(self._gives_indices))


class EliminationCondenser(Condenser):
    """Deletes rows by means of proximal classifiers, one class against the rest."""

    condensation_: Condensation
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "C": [Interval(Real, 0, None, closed="neither")],
        **KERNEL_CONSTRAINTS,
        "landmarks": LANDMARK_CONSTRAINTS,
        "form": [StrOptions({"repaired", "literal"})],
        "class_weight": [StrOptions({"balanced", "normalized"})],
        "min_per_class": [Interval(Integral, 1, None, closed="left")],
        "verbose": ["verbose"],
        "random_state": ["random_state"],
    }

    def __init__(
        self,
        C: float = 1.0,
        *,
        kernel: str | Kernel = "linear",
        gamma: str | float = "scale",
        degree: int = 3,
        coef0: float = 0.0,
        landmarks: Any = 500,
        form: Literal["repaired", "literal"] = "repaired",
        class_weight: Literal["balanced", "normalized"] = "balanced",
        min_per_class: int = 1,
        verbose: int = 0,
        random_state: Any = None,
    ) -> None:
        self.C = C
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.landmarks = landmarks
        self.form = form
        self.class_weight = class_weight
        self.min_per_class = min_per_class
        self.verbose = verbose
        self.random_state = random_state

    @property
    def sample_indices_(self) -> Indices:
        """Rows kept, ascending."""
        return self.condensation_.kept

    def _condensation(self, X: Any, codes: Indices, report: Callable[[str], Any]) -> Condensation:
        features = self._features(X)
        moments = collect(features, codes, len(self.classes_))
        remaining = RemainingRows(features, codes, moments, np.arange(len(codes)))
        rounds: list[Elimination] = []
        for number, label in enumerate(self.classes_.tolist()):
            rounds += self._eliminate(remaining, number, label)
            remaining = remaining.without(rounds[-1].deleted)
            report(f"class {label}")
        return Condensation(self.classes_, codes, remaining.rows, rounds)

    @abstractmethod
    def _eliminate(self, remaining: RemainingRows, number: int, label: Any) -> list[Elimination]:
        """The rounds of one class, of which the last deletes rows."""

    @abstractmethod
    def _clearest_first(self, values: Floats) -> Floats:
        """Sort keys for decision values of deleted rows: the smallest are the clearest cases."""

    def _train(self, rows: RemainingRows, number: int, label: Any, count: int) -> Elimination:
        """A round that deletes nothing yet: one class against the rest of the rows."""
        moments = rows.moments
        signs = one_against_rest(len(moments.counts), [number])
        balanced = self.class_weight == "balanced"
        weights = normalization(signs, moments.totals, balanced=balanced)
        solution = solve_normal_equations(moments, self.C, signs, weights, rows.reduce)
        w, gamma = solution.coef[0], -float(solution.intercept[0])
        return Elimination(label, count, int(moments.counts.sum()), w, gamma, solution.gap)

    def _resampled(self, X: Any, y: Any, codes: Indices) -> tuple[Any, Any]:
        kept = self.sample_indices_
        return tuple(_safe_indexing(row_indexable(A), kept) for A in (X, y))

    def _features(self, X: Any) -> RowFeatures:
        """Columns, or kernel values with landmarks."""
        kernel = make_kernel(self.kernel, X, gamma=self.gamma, degree=self.degree, coef0=self.coef0)
        if isinstance(kernel, Linear):
            return RowFeatures(X)
        warn_unlike_columns(self, kernel, X)
        points = choose_landmarks(self.landmarks, X, check_random_state(self.random_state))
        return RowFeatures(X, kernel, points)


def _as_labels(y: Any) -> Any:
    """One label per row, also of indicator columns."""
    check_label_types(y)
    if type_of_target(y) == "multilabel-indicator":
        indicators = np.asarray(as_dense(y))
        if not (indicators.sum(axis=1) == 1).all():
            raise ValueError("Multilabel and multioutput targets are not supported.")
        return indicators.argmax(axis=1)
    check_classification_targets(y)
    return column_or_1d(y)


def row_indexable(X: Any) -> Any:
    """X itself, or a sparse matrix that can be indexed by rows."""
    return X.tocsr() if hasattr(X, "tocsr") else X
