"""All that a proximal machine remembers of the rows it has learned: their sums."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from kernlet.estimators.base import TrainingData
from kernlet.kernels import Kernel
from kernlet.kernels.columns import Indices
from kernlet.kernels.features import RowFeatures
from kernlet.kernels.gram import in_few_digits
from kernlet.problems.labels import error_weights
from kernlet.problems.moments import Moments, collect, empty

_MOST_BYTES = 8 * 2**30


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
    """

    kernel: Kernel | None
    landmarks: Any
    classes: Any
    is_closed: bool
    moments: Moments

    def features(self, X: Any) -> RowFeatures:
        """Rows as they are summed."""
        return RowFeatures(X, self.kernel, self.landmarks)

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
        return replace(self, moments=moments)

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
        _check_size(len(self.moments.shift), len(classes) if self.moments.is_by_class else 1)
        return replace(self, classes=classes, moments=self.moments.placed(places, len(classes)))

    def _sums(self, data: TrainingData, class_weight: Any) -> Moments:
        by_class = is_by_class(class_weight)
        if by_class != self.moments.is_by_class:
            raise ValueError(
                f"class_weight={class_weight!r} needs other sums than those of the rows learned "
                "so far. Fit anew to change it."
            )
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


def nothing_learned(
    X: Any, kernel: Kernel | None, landmarks: Any, classes: Any, class_weight: Any
) -> LearnedRows:
    """Sums over no rows.

    Parameters
    ----------
    X : {ndarray, sparse matrix}
        Some rows, near which the others lie.
    kernel : Kernel or None
    landmarks : {ndarray, sparse matrix} or None
    classes : array-like or None
        All labels that may come; None for any.
    class_weight : dict, "balanced", "normalized" or None

    Returns
    -------
    learned : LearnedRows
    """
    features = RowFeatures(X, kernel, landmarks)
    labels = np.empty(0) if classes is None else np.unique(classes)
    by_class = is_by_class(class_weight)
    _check_size(features.n_features, max(2, len(labels)) if by_class else 1)
    moments = empty(
        features.n_features, len(labels), shift=in_few_digits(features.middle), by_class=by_class
    )
    return LearnedRows(kernel, landmarks, labels, classes is not None, moments)


def is_by_class(class_weight: Any) -> bool:
    """Whether each class needs products of its own: their weights come to be known at the end."""
    return isinstance(class_weight, str)


def _is_text(labels: Any) -> bool:
    return isinstance(labels[0], str) if len(labels) else False


def _check_size(n_features: int, n_groups: int) -> None:
    size = 8 * n_features**2 * n_groups
    if size > _MOST_BYTES:
        raise ValueError(
            f"Sums over {n_features} features for {n_groups} classes take {size / 2**30:.0f} GB. "
            "Use a kernel with a few hundred landmarks, fewer features (TruncatedSVD), or "
            "class_weight=None, which needs one sum for all classes."
        )
