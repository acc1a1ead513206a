"""What all condensers share: rows in, fewer rows of the same kind out."""

from __future__ import annotations

from abc import ABC, abstractmethod
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, _fit_context
from sklearn.utils import _safe_indexing, check_random_state, column_or_1d
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.multiclass import check_classification_targets, type_of_target
from sklearn.utils.validation import check_consistent_length, validate_data

from kernlet.condense import Condensation
from kernlet.estimators.base import KERNEL_CONSTRAINTS, check_label_types
from kernlet.estimators.condensers.tags import condenser_tags
from kernlet.estimators.landmarks import LANDMARK_CONSTRAINTS, choose_landmarks
from kernlet.estimators.learned_rows import check_size
from kernlet.kernels import Linear, make_kernel
from kernlet.kernels.columns import Indices
from kernlet.kernels.features import RowFeatures
from kernlet.rows import is_source


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
