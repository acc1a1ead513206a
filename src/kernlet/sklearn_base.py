"""From class labels to signs, and from weights to the cost of an error."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Integral, Number, Real
from typing import Any, Protocol

import numpy as np
from sklearn.base import (
    BaseEstimator,
    ClassifierMixin,
    ClassNamePrefixFeaturesOutMixin,
    TransformerMixin,
)
from sklearn.callback import CallbackSupportMixin
from sklearn.utils import assert_all_finite
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.class_weight import compute_class_weight
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import (
    _check_sample_weight,
    check_consistent_length,
    check_is_fitted,
    column_or_1d,
    validate_data,
)

from kernlet._typing import Floats, Indices
from kernlet.devices import is_foreign, require_finite, to_numpy
from kernlet.expansion import KernelExpansion, distinct_rows
from kernlet.kernels.bandwidth import gamma_of_moments
from kernlet.kernels.base import Kernel
from kernlet.kernels.gram import Gram
from kernlet.kernels.named import KERNEL_NAMES, make_kernel
from kernlet.rows.opening import as_rows, is_source
from kernlet.rows.source import Rows, added


def one_vs_rest_signs(y: Any, classes: Any) -> Floats:
    """Signs of the rows in each one-vs-rest problem.

    Parameters
    ----------
    y : ndarray of shape (n_rows,)
        Labels.
    classes : ndarray of shape (n_classes,)
        The distinct labels, two at least.

    Returns
    -------
    signs : ndarray of shape (n_outputs, n_rows)
        +1 or -1. Two classes make one output, positive for the second.

    Examples
    --------
    >>> import numpy as np
    >>> from kernlet.sklearn_base import one_vs_rest_signs
    >>> one_vs_rest_signs(np.array([0, 1, 1]), np.array([0, 1]))
    array([[-1.,  1.,  1.]])
    """
    positives = classes if len(classes) > 2 else classes[1:]
    return np.where(y == positives[:, None], 1.0, -1.0)


def error_weights(
    C: float, y: Any, classes: Any, class_weight: Any, sample_weight: Floats
) -> Floats:
    """The cost of a unit of error in each row: C times its class weight times its own.

    Parameters
    ----------
    C : float
    y : ndarray of shape (n_rows,)
        Labels.
    classes : ndarray of shape (n_classes,)
        The distinct labels, ascending.
    class_weight : dict of label to weight, "balanced" or None
    sample_weight : ndarray of shape (n_rows,)

    Returns
    -------
    weights : ndarray of shape (n_rows,)

    Examples
    --------
    >>> import numpy as np
    >>> from kernlet.sklearn_base import error_weights
    >>> y = np.array(["a", "b", "b", "b"])
    >>> error_weights(3.0, y, np.unique(y), "balanced", np.ones(4))
    array([6., 2., 2., 2.])
    """
    if class_weight is None:
        return _cost(C, sample_weight)
    with np.errstate(divide="ignore"):
        by_class = compute_class_weight(
            class_weight, classes=classes, y=y, sample_weight=sample_weight
        )
    if not np.isfinite(by_class).all() or by_class.min() < 0 or by_class.max() == 0:
        raise ValueError(
            f"class_weight gives the weights {by_class.tolist()}; they must be finite, none "
            "negative and one positive."
        )
    return _cost(C, by_class[np.searchsorted(classes, y)] * sample_weight)


def require_squares(costs: Floats) -> None:
    """Refuse costs whose squares overflow: gaps of squared errors are made of them.

    Parameters
    ----------
    costs : ndarray of shape (n_rows,)
    """
    with np.errstate(over="ignore"):
        total = costs.sum()
        if not np.isfinite(total * total):
            raise ValueError("Weights times C overflow; give numbers nearer to 1.")


def _cost(C: float, weights: Floats) -> Floats:
    with np.errstate(over="ignore"):
        cost = C * weights
    if not np.isfinite(cost).all():
        raise ValueError("C times sample_weight overflows; give smaller numbers.")
    return cost


def label_codes(classes: Any, y: Any) -> Indices:
    """Class numbers of labels, all of which must be known."""
    labels = column_or_1d(y)
    strange = np.setdiff1d(labels, classes).tolist()
    if strange:
        raise ValueError(
            f"y holds the label {strange[0]!r}, which the model does not know; its classes are "
            f"{classes.tolist()}."
        )
    return np.searchsorted(classes, labels)


def labelled_rows(X: Any, y: Any) -> tuple[Rows, Any]:
    """Rows and their labels, which may be a column of the rows.

    Parameters
    ----------
    X : Rows or dask collection
    y : str or array-like of shape (n_rows,)
        A dask collection of labels is computed.

    Returns
    -------
    rows : Rows
    labels : ndarray of shape (n_rows,)
    """
    rows = as_rows(X)
    if isinstance(y, str):
        rows, y = rows.split(y)
    labels = column_or_1d(np.asarray(y.compute() if hasattr(y, "compute") else y))
    if labels.dtype.kind == "f":
        assert_all_finite(labels, input_name="y")
    if len(rows) != len(labels):
        check_consistent_length(np.empty(len(rows), dtype=bool), labels)
    return rows, labels


def values_of_rows(estimator: Any, X: Any, function: Any = None) -> Any:
    """Outputs of a fitted estimator for a source of rows, block by block.

    Parameters
    ----------
    estimator : estimator
    X : Rows or dask collection
    function : callable, default=None
        Takes rows and gives an array with as many; picklable, for it may run elsewhere. The
        values of the estimator's expansion unless given.

    Returns
    -------
    values : ndarray of shape (n_rows, ...)
    """
    check_is_fitted(estimator)
    rows = _with_features(estimator, as_rows(X))
    function = estimator.expansion_.decision_values if function is None else function
    parts = rows.map_reduce(_values, operator.iadd, shared=(function,))
    return function(rows.read(slice(0, 0))) if parts is None else np.concatenate(parts)


def _with_features(estimator: Any, rows: Rows) -> Rows:
    """The rows with the columns of training, where they have these among others."""
    names = getattr(estimator, "feature_names_in_", None)
    columns = getattr(rows, "columns", None)
    if names is not None and columns is not None and set(names) < set(columns):
        return rows.select(list(names))
    if rows.shape[1] != estimator.n_features_in_:
        raise ValueError(
            f"X has {rows.shape[1]} features, but {type(estimator).__name__} is expecting "
            f"{estimator.n_features_in_} features as input."
        )
    if names is not None and columns is not None and list(names) != list(columns):
        raise ValueError(
            f"The columns of X are {list(columns)[:5]}, but {type(estimator).__name__} was fitted "
            f"to {list(names)[:5]}, in this order: open the rows with columns=[...]."
        )
    return rows


def _values(X: Any, function: Any) -> list[Any]:
    assert_all_finite(X, input_name="X")
    return [function(X)]


def gamma_of_rows(gamma: str | float, rows: Rows, weights: Floats) -> float:
    """Turn the ``gamma`` parameter into a number, in one pass that checks the rows too.

    Parameters
    ----------
    gamma : float or {"scale", "auto", "mean_distance"}
    rows : Rows
    weights : ndarray of shape (n_rows,)

    Returns
    -------
    gamma : float
    """
    origin = rows.read(slice(0, 1))
    origin = np.zeros(rows.shape[1]) if not isinstance(origin, np.ndarray) else origin[0]
    total, sums, squares = rows.map_reduce(_sums, added, by_row=(weights,), shared=(origin,))
    if not isinstance(gamma, str):
        return float(gamma)
    means = sums / total
    return gamma_of_moments(gamma, means + origin, max(0.0, squares / total - means @ means))


def _sums(X: Any, weights: Floats, origin: Floats) -> list[Any]:
    """Sums of weights, and of rows and their squared norms about a point."""
    assert_all_finite(X, input_name="X")
    about = (X.toarray() if hasattr(X, "toarray") else X) - origin.astype(np.float64)
    return [weights.sum(), weights @ about, weights @ np.einsum("ij,ij->i", about, about)]


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


class ExpansionTransformer(
    ClassNamePrefixFeaturesOutMixin,
    TransformerMixin,
    CallbackSupportMixin,
    KernelTrainer,
    BaseEstimator,
):
    """A transformer whose features are sums of kernel values over one set of points."""

    expansion_: KernelExpansion

    @property
    def components_(self) -> Floats:
        """Coefficients of the features, of shape (n_features_out, n_points)."""
        return self.expansion_.coef

    @property
    def n_centers_(self) -> int:
        """Points: the kernel evaluations that a row costs, whatever the number of features."""
        return self.expansion_.n_centers

    @property
    def _n_features_out(self) -> int:
        return self.expansion_.n_outputs

    def transform(self, X: Any) -> Floats:
        """Features of the rows of X: one block of kernel values times a matrix.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            A source of rows (:mod:`kernlet.rows`) or a Dask collection goes block by block.

        Returns
        -------
        features : ndarray of shape (n_samples, n_features_out)
            float32 for float32 rows.
        """
        if is_source(X):
            X = as_rows(X)
            features = values_of_rows(self, X)
        else:
            X = rows_to_predict(self, X)
            features = self.expansion_.decision_values(X)
        return features.astype(np.float32) if X.dtype == np.float32 else features

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.target_tags.required = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


class Output(Protocol):
    """The machine of one output over some of the candidates."""

    @property
    def centers(self) -> Indices:
        """The candidates, ascending."""
        ...

    @property
    def coef(self) -> Floats:
        """Their coefficients."""
        ...

    @property
    def intercept(self) -> float:
        """What is added."""
        ...


def join_centers(gram: Gram, solutions: Sequence[Output]) -> tuple[KernelExpansion, Indices]:
    """One expansion for all outputs over the centers that any of them uses.

    Parameters
    ----------
    gram : Gram
    solutions : sequence of MarginSolution or another machine of one output

    Returns
    -------
    expansion : KernelExpansion
        Equal candidates are one center.
    centers : ndarray of shape (n_centers,)
        The candidate that each center is.
    """
    used = np.unique(np.concatenate([s.centers for s in solutions]))
    group, first = distinct_rows(gram.z.X[used])
    coef = np.zeros((len(solutions), len(first)))
    for output, solution in zip(coef, solutions, strict=True):
        np.add.at(output, group[np.searchsorted(used, solution.centers)], solution.coef)
    intercept = np.array([s.intercept for s in solutions])
    centers = used[first]
    return KernelExpansion(gram.kernel, gram.z.X[centers], coef, intercept), centers
