"""What all classifiers share: they end in an expansion and predict with it."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Integral, Number, Real
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.callback import CallbackSupportMixin
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from kernlet.devices import is_foreign, require_finite, to_numpy
from kernlet.estimators.sources import gamma_of_rows, labelled_rows, values_of_rows
from kernlet.expansion import KernelExpansion
from kernlet.kernels import KERNEL_NAMES, Kernel, make_kernel
from kernlet.kernels.columns import Indices
from kernlet.kernels.kernel import Floats
from kernlet.rows import Rows, is_source

#: Constraints on the parameters that name a kernel.
KERNEL_CONSTRAINTS: dict[str, list[Any]] = {
    "kernel": [StrOptions(set(KERNEL_NAMES)), Kernel],
    "gamma": [
        StrOptions({"scale", "auto", "mean_distance"}),
        Interval(Real, 0, None, closed="neither"),
    ],
    "degree": [Interval(Integral, 1, None, closed="left")],
    "coef0": [Interval(Real, None, None, closed="neither")],
}


class ExpansionClassifier(CallbackSupportMixin, ClassifierMixin, BaseEstimator):
    """A classifier whose whole memory is a :class:`~kernlet.KernelExpansion`."""

    expansion_: KernelExpansion
    classes_: Any

    @property
    def n_centers_(self) -> int:
        """Distinct centers: the kernel evaluations that one prediction costs."""
        return self.expansion_.n_centers

    def decision_function(self, X: Any) -> Floats:
        """Decision values of the rows of X.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            A torch tensor is computed on its device, by rbf machines; a source of rows
            (:mod:`kernlet.rows`) or a Dask collection block by block.

        Returns
        -------
        values : ndarray of shape (n_samples,) or (n_samples, n_classes)
            With two classes, one value a row, positive for ``classes_[1]``.
        """
        if is_source(X):
            values = values_of_rows(self, X)
        else:
            X = rows_to_predict(self, X)
            values = self.expansion_.decision_values(X)
        return values[:, 0] if values.shape[1] == 1 else values

    def predict(self, X: Any) -> Any:
        """Class labels of the rows of X.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)

        Returns
        -------
        labels : ndarray of shape (n_samples,)
        """
        values = self.decision_function(X)
        codes = values > 0 if values.ndim == 1 else values.argmax(axis=1)
        return self.classes_[to_numpy(codes).astype(np.intp)]

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def _validate_training_data(self, X: Any, y: Any, sample_weight: Any) -> TrainingData:
        """Check rows, labels and weights, set ``classes_``, and leave rows of no weight out."""
        if is_source(X):
            return self._validate_training_rows(X, y, sample_weight)
        _check_label_types(y)
        X, y = validate_data(
            self, X, y, accept_sparse="csr", dtype=[np.float64, np.float32], order="C"
        )
        check_classification_targets(y)
        weights = _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
        rows = np.flatnonzero(weights)
        if len(rows) < len(weights):
            X, y, weights = X[rows], y[rows], weights[rows]
        self.classes_ = np.unique(y)
        _check_classes(self.classes_)
        return TrainingData(X, y, weights, rows)

    #: Whether a fit may read its rows block by block.
    _takes_sources = False

    def _validate_training_rows(self, X: Any, y: Any, sample_weight: Any) -> TrainingData:
        """The same for a source of rows; rows of no weight stay, and cost nothing."""
        if not self._takes_sources:
            raise TypeError(
                f"{type(self).__name__} needs its rows in memory, as an array or a sparse matrix; "
                f"X is a {type(X).__name__}. Give it a part, such as rows.take(numbers)."
            )
        rows, y = labelled_rows(X, y)
        _check_label_types(y)
        check_classification_targets(y)
        weights = np.broadcast_to(np.float64(1.0), y.shape)
        if sample_weight is not None:
            weights = _check_sample_weight(
                sample_weight, y[:, None], dtype=np.float64, ensure_non_negative=True
            )
        self.n_features_in_ = rows.shape[1]
        if hasattr(rows, "columns"):
            self.feature_names_in_ = np.array(rows.columns, dtype=object)
        self.classes_ = np.unique(y if sample_weight is None else y[weights > 0])
        _check_classes(self.classes_)
        return TrainingData(rows, y, weights, np.arange(len(y)))

    def _make_kernel(self, data: TrainingData) -> Kernel:
        """The kernel that the parameters ``kernel``, ``gamma``, ``degree`` and ``coef0`` name."""
        names = ("kernel", "gamma", "degree", "coef0")
        kernel, gamma, degree, coef0 = (getattr(self, name) for name in names)
        if isinstance(data.X, Rows):
            gamma = gamma_of_rows(gamma, data.X, data.sample_weight)
        return make_kernel(
            kernel, data.X, data.sample_weight, gamma=gamma, degree=degree, coef0=coef0
        )


def rows_to_predict(estimator: Any, X: Any) -> Any:
    """Rows that a fitted estimator can take; arrays of other libraries stay where they are."""
    check_is_fitted(estimator)
    if is_foreign(X):
        require_finite(X)
        return X
    return validate_data(
        estimator, X, accept_sparse="csr", dtype=[np.float64, np.float32], reset=False
    )


@dataclass(frozen=True, eq=False)
class TrainingData:
    """Rows of positive weight, with their labels, weights and numbers in the user's data."""

    X: Any
    y: Any
    sample_weight: Floats
    rows: Indices

    @property
    def for_callbacks(self) -> dict[str, Any]:
        """The data as scikit-learn's callbacks take them; no rows where they are not in memory."""
        if isinstance(self.X, Rows):
            return {}
        return {"X": self.X, "y": self.y, "metadata": {"sample_weight": self.sample_weight}}


def _check_label_types(y: Any) -> None:
    """Refuse labels of mixed kinds, which numpy would turn into strings without a word."""
    is_object = isinstance(y, np.ndarray) and y.dtype.kind == "O"
    kinds = {_kind(label) for label in y} if is_object or isinstance(y, list | tuple) else set()
    if len(kinds) > 1:
        raise ValueError(
            f"The labels y mix types ({', '.join(sorted(kinds))}), which have no common order. "
            "Convert them to one type, for example with [str(label) for label in y]."
        )


def _kind(label: Any) -> str:
    if isinstance(label, str):
        return "string"
    return "number" if isinstance(label, Number | np.bool_) else type(label).__name__


def _check_classes(classes: Any) -> None:
    if len(classes) < 2:
        raise ValueError(
            f"The labels y hold one class only ({classes[0]!r}), rows of zero sample_weight left "
            "out; a classifier needs at least two classes."
        )
