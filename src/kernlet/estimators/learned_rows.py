"""All that a proximal machine remembers of the rows it has learned: their sums."""

from __future__ import annotations

import operator
from dataclasses import dataclass, replace
from numbers import Number
from typing import Any

import numpy as np
from scipy import sparse

from kernlet.estimators.base import TrainingData
from kernlet.kernels import Kernel
from kernlet.kernels.columns import Indices
from kernlet.kernels.features import RowFeatures
from kernlet.kernels.gram import in_few_digits
from kernlet.problems.labels import error_weights
from kernlet.problems.moments import Moments, empty
from kernlet.problems.row_sums import collect
from kernlet.rows import Rows

_MOST_BYTES = 8 * 2**30
_ADVICE = ", or class_weight=None, which needs one sum for all classes"


@dataclass(frozen=True, eq=False)
class LearnedRows:
    """Sums over rows, with the classes they are sorted by and the features they are sums of.

    Learning and forgetting make a new value; where they are refused, the old one is as it was.

    Parameters
    ----------
    kernel : Kernel or None
        None where the features are the columns themselves.
    landmarks : {ndarray, sparse matrix} or None
    classes : ndarray of shape (n_classes,)
        Labels met so far, or all that may come, ascending.
    is_closed : bool
        Whether no other labels may come.
    moments : Moments
    settled : dict
        The parameters, by name, that the sums depend on.
    """

    kernel: Kernel | None
    landmarks: Any
    classes: Any
    is_closed: bool
    moments: Moments
    settled: dict[str, Any]

    def features(self, X: Any) -> RowFeatures:
        """Rows as they are summed."""
        return RowFeatures(X, self.kernel, self.landmarks)

    def require_same(self, settled: dict[str, Any], classes: Any = None) -> None:
        """Refuse other parameters, and other classes, than those at first.

        Parameters
        ----------
        settled : dict
        classes : array-like or None, default=None
        """
        changed = [name for name in settled if not _is_same(settled[name], self.settled[name])]
        if changed:
            raise ValueError(
                f"The rows learned so far were summed with another {changed[0]}. Fit anew to "
                "change it."
            )
        if classes is not None and not np.array_equal(np.unique(classes), self.classes):
            raise ValueError(
                f"classes={np.unique(classes).tolist()} differs from the classes so far, "
                f"{self.classes.tolist()}. Give all classes at the first call, or none."
            )

    def learn(self, data: TrainingData, class_weight: Any) -> LearnedRows:
        """With these rows.

        Parameters
        ----------
        data : TrainingData
        class_weight : dict, "balanced", "normalized" or None

        Returns
        -------
        learned : LearnedRows
        """
        larger = self._with_classes(data.y)
        return replace(larger, moments=larger.moments + larger._sums(data, class_weight))

    def learn_rows(self, data: TrainingData, class_weight: Any) -> LearnedRows:
        """With the rows of a source, summed block by block where they are.

        Parameters
        ----------
        data : TrainingData
            Its X is a source of rows.
        class_weight : dict, "balanced", "normalized" or None

        Returns
        -------
        learned : LearnedRows
        """
        larger = self._with_classes(data.y)
        sums = data.X.map_reduce(
            _sums_of_block,
            operator.add,
            by_row=(data.y, data.sample_weight),
            shared=(larger, class_weight),
        )
        return replace(larger, moments=larger.moments + sums)

    def forget(self, data: TrainingData, class_weight: Any) -> LearnedRows:
        """Without these rows.

        Parameters
        ----------
        data : TrainingData
        class_weight : dict, "balanced", "normalized" or None

        Returns
        -------
        learned : LearnedRows
        """
        unknown = np.setdiff1d(data.y, self.classes)
        if len(unknown):
            raise ValueError(
                f"Rows of the classes {unknown.tolist()} are to be forgotten, which were never "
                "learned."
            )
        moments = self.moments - self._sums(data, class_weight)
        if not moments.counts.any():
            raise ValueError(
                "No row would be left to predict with. Keep some, or fit anew on others."
            )
        left = np.flatnonzero(moments.counts)
        if self.is_closed or len(left) == len(self.classes):
            return replace(self, moments=moments)
        if len(left) < 2:
            raise ValueError(
                f"Rows of one class only ({self.classes[left].tolist()[0]!r}) would be left. Keep "
                "two classes, or fit anew with classes= in the first call of partial_fit."
            )
        return replace(self, classes=self.classes[left], moments=moments.of_classes(left))

    def _with_classes(self, y: Any) -> LearnedRows:
        labels = np.unique(y)
        if len(self.classes) and _is_text(labels) != _is_text(self.classes):
            raise ValueError(
                f"The labels {labels.tolist()} are of another type than those before, "
                f"{self.classes.tolist()}. Give labels of one type."
            )
        unseen = np.setdiff1d(labels, self.classes)
        if not len(unseen):
            return self
        if self.is_closed:
            raise ValueError(
                f"The labels {unseen.tolist()} are not among the classes given at the first call, "
                f"{self.classes.tolist()}."
            )
        classes = np.union1d(self.classes, unseen) if len(self.classes) else unseen
        places = np.searchsorted(classes, self.classes)
        check_size(
            len(self.moments.shift), len(classes), by_class=self.moments.is_by_class, advice=_ADVICE
        )
        return replace(self, classes=classes, moments=self.moments.placed(places, len(classes)))

    def _sums(self, data: TrainingData, class_weight: Any) -> Moments:
        by_class = self.moments.is_by_class
        weights = data.sample_weight
        if not by_class:
            weights = error_weights(1.0, data.y, self.classes, class_weight, weights)
        return collect(
            self.features(data.X),
            self._codes(data.y),
            len(self.classes),
            weights=None if (weights == 1.0).all() else weights,
            shift=self.moments.shift,
            by_class=by_class,
        )

    def _codes(self, y: Any) -> Indices:
        return np.searchsorted(self.classes, y)


def _sums_of_block(
    X: Any, y: Any, sample_weight: Any, learned: LearnedRows, class_weight: Any
) -> Moments:
    """Sums over a block of rows, those of no weight left out."""
    rows = np.flatnonzero(sample_weight)
    if len(rows) < len(y):
        X, y, sample_weight = X[rows], y[rows], sample_weight[rows]
    return learned._sums(TrainingData(X, y, sample_weight, rows), class_weight)


def nothing_learned(
    data: TrainingData,
    kernel: Kernel | None,
    landmarks: Any,
    *,
    classes: Any = None,
    class_weight: Any = None,
    settled: dict[str, Any],
) -> LearnedRows:
    """Sums over no rows.

    Parameters
    ----------
    data : TrainingData
        Some rows, near which the others lie.
    kernel : Kernel or None
    landmarks : {ndarray, sparse matrix} or None
    classes : array-like or None, default=None
        All labels that may come; None for any.
    class_weight : dict, "balanced", "normalized" or None, default=None
    settled : dict
        The parameters that the sums depend on.

    Returns
    -------
    learned : LearnedRows
    """
    some = data.X.read(data.X.slices()[0]) if isinstance(data.X, Rows) else data.X
    features = RowFeatures(some, kernel, landmarks)
    labels = np.empty(0) if classes is None else np.unique(classes)
    by_class = is_by_class(class_weight)
    check_size(
        features.n_features,
        len(labels) or len(np.unique(data.y)),
        by_class=by_class,
        advice=_ADVICE,
    )
    shift = in_few_digits(features.middle)
    moments = empty(features.n_features, len(labels), shift=shift, by_class=by_class)
    return LearnedRows(kernel, landmarks, labels, classes is not None, moments, settled)


def is_by_class(class_weight: Any) -> bool:
    """Whether each class needs products of its own: their weights come to be known at the end."""
    return isinstance(class_weight, str)


def _is_text(labels: Any) -> bool:
    return isinstance(labels[0], str) if len(labels) else False


def _is_same(one: Any, other: Any) -> bool:
    """Whether parameters are equal; arrays number by number."""
    if one is other:
        return True
    if isinstance(one, str | Number | dict | None) or isinstance(other, str | Number | dict | None):
        return type(one) is type(other) and one == other
    if isinstance(one, Kernel):
        return bool(one == other)
    one, other = (A.toarray() if sparse.issparse(A) else np.asarray(A) for A in (one, other))
    return np.array_equal(one, other)


def check_size(n_features: int, n_classes: int, *, by_class: bool = True, advice: str = "") -> None:
    """Refuse sums that would not fit into memory.

    Parameters
    ----------
    n_features, n_classes : int
    by_class : bool, default=True
        Whether each class has sums of its own.
    advice : str, default=""
        What else can be done about it.
    """
    size = 8 * n_features**2 * (n_classes if by_class else 1)
    if size > _MOST_BYTES:
        each = f"each of {n_classes} classes" if by_class else "all classes together"
        raise ValueError(
            f"Sums over {n_features} features for {each} take {size / 2**30:.0f} GB. Use a kernel "
            f"with a few hundred landmarks, or fewer features (TruncatedSVD){advice}."
        )
