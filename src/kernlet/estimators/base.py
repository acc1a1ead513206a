"""What estimators share: checks on training data; classifiers end in an expansion."""

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
from kernlet.problems.labels import error_weights
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


class KernelTrainer:
    """Checks on training data, and the kernel that the parameters name."""

    classes_: Any

    #: Whether a fit may read its rows block by block.
    _takes_sources = False

    def _validate_training_data(self, X: Any, y: Any, sample_weight: Any) -> TrainingData:
        """Check rows, labels and weights, set ``classes_``, and leave rows of no weight out."""
        if is_source(X):
            return self._validate_training_rows(X, y, sample_weight)
        data = training_data(self, X, y, sample_weight, order="C")
        self.classes_ = np.unique(data.y)
        check_classes(self.classes_)
        return data

    def _validate_training_rows(self, X: Any, y: Any, sample_weight: Any) -> TrainingData:
        """The same for a source of rows."""
        if not self._takes_sources:
            require_memory(self, X)
        data = source_data(self, X, y, sample_weight)
        self.classes_ = np.unique(data.y)
        check_classes(self.classes_)
        return data

    def _make_kernel(self, data: TrainingData) -> Kernel:
        """The kernel that the parameters ``kernel``, ``gamma``, ``degree`` and ``coef0`` name."""
        names = ("kernel", "gamma", "degree", "coef0")
        kernel, gamma, degree, coef0 = (getattr(self, name) for name in names)
        if isinstance(data.X, Rows):
            gamma = gamma_of_rows(gamma, data.X, data.sample_weight)
        return make_kernel(
            kernel, data.X, data.sample_weight, gamma=gamma, degree=degree, coef0=coef0
        )

    def _rows_that_cost(self, data: TrainingData) -> tuple[TrainingData, Floats]:
        """The rows with an error of any weight, and these weights: C, by class and by row."""
        C, class_weight = (getattr(self, name) for name in ("C", "class_weight"))
        costs = error_weights(C, data.y, self.classes_, class_weight, data.sample_weight)
        kept = np.flatnonzero(costs)
        if len(kept) == len(costs):
            return data, costs
        X = data.X.some(kept) if isinstance(data.X, Rows) else data.X[kept]
        some = TrainingData(X, data.y[kept], data.sample_weight[kept], data.rows[kept])
        return some, costs[kept]


class ExpansionClassifier(CallbackSupportMixin, ClassifierMixin, KernelTrainer, BaseEstimator):
    """A classifier whose whole memory is a :class:`~kernlet.KernelExpansion`."""

    expansion_: KernelExpansion

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
        values = expansion_values(self, X)
        return values[:, 0] if values.shape[1] == 1 else values

    def predict(self, X: Any) -> Any:
        """Class labels of the rows of X.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Or as for ``decision_function``.

        Returns
        -------
        labels : ndarray of shape (n_samples,)
        """
        values = self.decision_function(X)
        codes = values > 0 if values.ndim == 1 else values.argmax(axis=1)
        return self.classes_[to_numpy(codes).astype(np.intp)]

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "expansion_")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


def training_data(
    estimator: Any,
    X: Any,
    y: Any,
    sample_weight: Any = None,
    *,
    order: str | None = None,
    reset: bool = True,
) -> TrainingData:
    """Checked rows, labels and weights, without the rows of no weight.

    Parameters
    ----------
    estimator : estimator
        Learns the number and the names of the features, or is asked for them.
    X, y, sample_weight : array-like
    order : {"C", None}, default=None
        How numbers of a dense X must lie in memory; None for as they are.
    reset : bool, default=True
        Whether to learn the features anew.

    Returns
    -------
    data : TrainingData
    """
    check_label_types(y)
    X, y = validate_data(
        estimator,
        X,
        y,
        accept_sparse="csr",
        dtype=[np.float64, np.float32],
        order=order,
        reset=reset,
    )
    check_classification_targets(y)
    weights = _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
    rows = np.flatnonzero(weights)
    if len(rows) < len(weights):
        X, y, weights = X[rows], y[rows], weights[rows]
    return TrainingData(X, y, weights, rows)


def source_data(estimator: Any, X: Any, y: Any, sample_weight: Any = None) -> TrainingData:
    """Rows of a source with their labels and weights, without the rows of no weight.

    Parameters
    ----------
    estimator : estimator
        Learns the number and the names of the features.
    X : Rows or dask collection
    y : str or array-like of shape (n_rows,)
    sample_weight : array-like of shape (n_rows,), default=None

    Returns
    -------
    data : TrainingData
    """
    rows, y = labelled_rows(X, y)
    check_label_types(y)
    check_classification_targets(y)
    weights = np.broadcast_to(np.float64(1.0), y.shape)
    if sample_weight is not None:
        weights = _check_sample_weight(
            sample_weight, y[:, None], dtype=np.float64, ensure_non_negative=True
        )
    estimator.n_features_in_ = rows.shape[1]
    if hasattr(rows, "columns"):
        estimator.feature_names_in_ = np.array(rows.columns, dtype=object)
    numbers = np.flatnonzero(weights)
    if len(numbers) < len(weights):
        rows, y, weights = rows.some(numbers), y[numbers], weights[numbers]
    return TrainingData(rows, y, weights, numbers)


def require_memory(estimator: Any, X: Any) -> None:
    """Refuse rows that are read block by block."""
    if is_source(X):
        raise TypeError(
            f"{type(estimator).__name__} needs its rows in memory, as an array or a sparse matrix; "
            f"X is a {type(X).__name__}. Give it a part, such as rows.take(numbers)."
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


def expansion_values(estimator: Any, X: Any) -> Any:
    """Values of a fitted estimator's expansion; block by block for a source of rows."""
    if is_source(X):
        return values_of_rows(estimator, X)
    rows = rows_to_predict(estimator, X)
    return estimator.expansion_.decision_values(rows)


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


def check_label_types(y: Any) -> None:
    """Refuse labels of mixed kinds, which numpy would turn into strings without a word."""
    is_object = isinstance(y, np.ndarray) and y.dtype.kind == "O"
    kinds = {_kind(label) for label in y} if is_object or isinstance(y, list | tuple) else set()
    if "NoneType" in kinds:
        row = next(row for row, label in enumerate(y) if label is None)
        raise ValueError(
            f"Row {row} of y, counted from 0, has no label (None). Leave out rows without one."
        )
    if len(kinds) > 1:
        raise ValueError(
            f"The labels y mix types ({', '.join(sorted(kinds))}), which have no common order. "
            "Convert them to one type, for example with [str(label) for label in y]."
        )


def _kind(label: Any) -> str:
    if isinstance(label, str):
        return "string"
    return "number" if isinstance(label, Number | np.bool_) else type(label).__name__


def check_classes(classes: Any) -> None:
    """Refuse fewer than two classes."""
    if not len(classes):
        raise ValueError("There are no rows (0 samples): training needs at least two classes.")
    if len(classes) < 2:
        (label,) = np.asarray(classes).tolist()
        raise ValueError(
            f"The labels y hold one class only ({label!r}), rows of zero sample_weight left out; "
            "training needs at least two classes."
        )
