"""What all estimators share: validation, warnings and base classes."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from inspect import signature
from numbers import Integral, Number, Real
from typing import Any, Protocol

import numpy as np
from sklearn.base import (
    BaseEstimator,
    ClassifierMixin,
    ClassNamePrefixFeaturesOutMixin,
    OutlierMixin,
    RegressorMixin,
    TransformerMixin,
    _fit_context,
)
from sklearn.exceptions import ConvergenceWarning
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
from kernlet.affine import unlike_columns
from kernlet.devices import is_foreign, is_sparse, require_finite, to_numpy
from kernlet.expansion import KernelExpansion, distinct_rows, finite_values
from kernlet.input_errors import check_number_types, explained, explained_weights, numeric_targets
from kernlet.kernels.bandwidth import KERNEL_NAMES, gamma_of_moments, make_kernel
from kernlet.kernels.base import Kernel
from kernlet.kernels.gram import Gram
from kernlet.kernels.laplacian import Laplacian
from kernlet.kernels.polynomial import Polynomial
from kernlet.kernels.rbf import RBF
from kernlet.notebook import facts_table, machine_facts
from kernlet.progress import CallbackSupportMixin
from kernlet.rows import as_rows
from kernlet.rows.source import DASK_PACKAGES, RowSource, add_sums
from kernlet.threads import single_thread
from kernlet.warn import warn_caller

# scikit-learn before 1.9 takes weights that are all zero without being asked to.
_TAKES_ZERO_WEIGHTS = "allow_all_zero_weights" in signature(_check_sample_weight).parameters
_ZERO_WEIGHTS = {"allow_all_zero_weights": True} if _TAKES_ZERO_WEIGHTS else {}

#: Sums of weights below this are too near to the least number of float64 to divide by.
_LEAST_TOTAL = 1e-290

#: Warn of a relative duality gap above this, whatever ``tol`` is: below it is round-off.
GAP_WORTH_WARNING = 1e-8

#: Warn of columns whose ranges and deviations differ by this factor. An SVC on raw columns loses
#: nothing on bupa (9), a point on pima (34), 15 on cleveland (52) and 32 on wine (550).
RATIO_WORTH_WARNING = 30.0

# Fitted attributes that bound how far a machine is from the optimum, and a detector's threshold.
_CERTIFICATES = (
    "gap_",
    "duality_gap_",
    "ball_gap_",
    "error_bound_",
    "margin_",
    "objective_",
    "residual_",
    "offset_",
)


#: Where the documentation is; also in pyproject.toml.
DOCUMENTATION = "https://kernlet.readthedocs.io/en/stable/"

# Columns of unlike ranges that this process has warned of: their names and the number of columns.
_UNLIKE_COLUMNS: set[tuple[str, str, int]] = set()


# -- Fits -------------------------------------------------------------------------------------


def fit_task(function: Callable[..., Any]) -> Callable[..., Any]:
    """Decorate what a fit runs, in any process: one thread for BLAS, no warnings of overflow.

    Numbers that overflow end in something that is not finite, which a fit refuses.
    """

    @functools.wraps(function)
    def run(*arguments: Any, **options: Any) -> Any:
        with single_thread(), np.errstate(all="ignore"):
            return function(*arguments, **options)

    return run


def fit_method(method: Callable[..., Any]) -> Callable[..., Any]:
    """Decorate ``fit`` and its kind: as ``checked_method`` and ``fit_task``."""
    return checked_method(fit_task(method))


def checked_method(
    method: Callable[..., Any], skip_nested_validation: bool = True
) -> Callable[..., Any]:
    """Decorate a method that fits: parameters are validated, and what it finds is finite.

    A failure changes nothing. With the classes of the new data and the machine of the old, an
    estimator would predict nonsense.
    """
    fit = _fit_context(prefer_skip_nested_validation=skip_nested_validation)(method)

    @functools.wraps(method)
    def checked(self: Any, *args: Any, **kwargs: Any) -> Any:
        parameters, name = self.get_params(deep=False), type(self).__name__
        check_number_types(parameters, self._parameter_constraints, name)
        before = vars(self).copy()
        try:
            result = fit(self, *args, **kwargs)
            check_finite_fit(self)
        except BaseException:
            vars(self).clear()
            vars(self).update(before)
            raise
        return result

    return checked


def check_finite_fit(estimator: Any) -> None:
    """Refuse a machine or a certificate that is not finite; every fit ends with this."""
    expansion = getattr(estimator, "expansion_", None)
    numbers = {name: getattr(expansion, name, None) for name in ("coef", "intercept")}
    numbers |= {name: getattr(estimator, name, None) for name in _CERTIFICATES}
    for name, value in numbers.items():
        if value is not None and not np.isfinite(value).all():
            raise not_finite(name)


def not_finite(what: str) -> ValueError:
    """What to raise where a number of a fit is not finite."""
    return ValueError(
        f"The fit ended with values of {what} that are not finite: values of X, C or the kernel's "
        "parameters are too large or too small for double precision. Scale the features, for "
        "example with StandardScaler."
    )


# -- Warnings --------------------------------------------------------------------------------


class Certified(Protocol):
    """A solution with a certificate."""

    @property
    def gap(self) -> float:
        """Relative duality gap."""
        ...

    @property
    def status(self) -> str:
        """How the solver ended; "stopped" where a callback asked for it."""
        ...


def is_unconverged(solution: Certified, tol: float) -> bool:
    """Whether a solver ended far from the optimum without being asked to stop."""
    if solution.status == "stopped":
        return False
    limit = tol if solution.status == "iteration limit" else max(tol, GAP_WORTH_WARNING)
    return not solution.gap <= limit  # true for a gap that is not a number


def warn_unconverged(
    solutions: Sequence[Certified], tol: float, what: str, reasons: Mapping[str, str]
) -> None:
    """Warn of the solutions whose gap exceeds ``tol``, with the reason and a remedy by status."""
    if not all(np.isfinite(solution.gap) for solution in solutions):
        raise not_finite("the duality gap")
    unconverged = [solution for solution in solutions if is_unconverged(solution, tol)]
    if unconverged:
        worst = max(unconverged, key=lambda solution: solution.gap)
        warn_user(
            f"{len(unconverged)} of {len(solutions)} {what} ended at a relative duality gap of "
            f"up to {worst.gap:.1e} (tol={tol:.1e}): {reasons[worst.status]}"
        )


def warn_user(message: str, category: type[Warning] = ConvergenceWarning) -> None:
    """Warn at the line of the user's code that called into the package."""
    warn_caller(message, category)


# -- Labels and costs ------------------------------------------------------------------------


def one_vs_rest_signs(y: Any, classes: Any) -> Floats:
    """Signs of the rows in each one-vs-rest problem."""
    positives = classes if len(classes) > 2 else classes[1:]
    return np.where(y == positives[:, None], 1.0, -1.0)


def label_codes(classes: Any, y: Any) -> Indices:
    """Class numbers of labels, all of which must be in ``classes``."""
    check_label_types(y)
    labels = column_or_1d(y)
    unknown = np.setdiff1d(labels, classes).tolist()
    if unknown:
        raise ValueError(
            f"y holds the label {unknown[0]!r}, which the model does not know; its classes are "
            f"{classes.tolist()}."
        )
    return np.searchsorted(classes, labels)


def check_label_types(y: Any) -> None:
    """Refuse labels of mixed types, which NumPy silently converts to strings, and NaN."""
    is_object = isinstance(y, np.ndarray) and y.dtype.kind == "O"
    is_list = isinstance(y, list | tuple)
    kinds = {_kind(label) for label in y} if is_object or is_list else set()
    if is_list and any(isinstance(label, str) and label.endswith("\0") for label in y):
        raise ValueError(
            "A label in y ends with a NUL character, which NumPy would drop: rename it, or give y "
            "as np.array(y, dtype=object)."
        )
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
    # Before scikit-learn casts them to integers, with a warning of NumPy.
    if kinds == {"number"} or getattr(getattr(y, "dtype", None), "kind", "") == "f":
        labels = np.asarray(y)
        if labels.dtype.kind == "f":
            assert_all_finite(labels, input_name="y")


def _kind(label: Any) -> str:
    if isinstance(label, str):
        return "string"
    return "number" if isinstance(label, Number | np.bool_) else type(label).__name__


def check_classes(classes: Any, sample_weight: Any = None) -> None:
    """Refuse fewer than two classes; rows of zero ``sample_weight`` have been left out."""
    if not len(classes):
        raise ValueError("There are no rows (0 samples): training needs at least two classes.")
    if len(classes) < 2:
        (label,) = np.asarray(classes).tolist()
        left_out = "" if sample_weight is None else ", rows of zero sample_weight left out"
        raise ValueError(
            f"The labels y hold one class only ({label!r}){left_out}; training needs at least two "
            "classes."
        )


def error_weights(
    C: float, y: Any, classes: Any, class_weight: Any, sample_weight: Floats
) -> Floats:
    """The cost of a unit of error in each row: C times its class weight times its own."""
    if class_weight is None:
        return _cost(C, sample_weight)
    by_class = _class_weights(class_weight, y, classes, sample_weight)
    if not np.isfinite(by_class).all() or by_class.min() < 0 or by_class.max() == 0:
        raise ValueError(
            f"class_weight gives the weights {by_class.tolist()}; they must be finite, none "
            "negative and one positive."
        )
    return _cost(C, by_class[np.searchsorted(classes, y)] * sample_weight)


def _class_weights(class_weight: Any, y: Any, classes: Any, sample_weight: Floats) -> Floats:
    """The weight of each class; scikit-learn balances weighted rows since 1.7 only."""
    if not isinstance(class_weight, str):
        return compute_class_weight(class_weight, classes=classes, y=y)
    totals = np.bincount(np.searchsorted(classes, y), sample_weight, len(classes))
    with np.errstate(divide="ignore"):
        return totals.sum() / (len(classes) * totals)


def _cost(C: float, weights: Floats) -> Floats:
    with np.errstate(over="ignore"):
        cost = C * weights
    if not np.isfinite(cost).all():
        raise ValueError("C times sample_weight overflows; give smaller numbers.")
    return cost


def check_cost_overflow(costs: Floats) -> None:
    """Refuse costs whose squares overflow, because duality gaps contain them."""
    with np.errstate(over="ignore"):
        total = costs.sum()
        if not np.isfinite(total * total):
            raise ValueError("Weights times C overflow; give numbers nearer to 1.")


# -- Training data ---------------------------------------------------------------------------


def is_source(X: Any) -> bool:
    """Whether X is read block by block: a row source, or a Dask collection."""
    return isinstance(X, RowSource) or type(X).__module__.partition(".")[0] in DASK_PACKAGES


@dataclass(frozen=True, eq=False)
class TrainingData:
    """Rows of positive weight, with their labels, weights and numbers in the user's data.

    ``y`` is None where rows have no labels.
    """

    X: Any
    y: Any
    sample_weight: Floats
    rows: Indices

    def subset(self, mask: Any) -> TrainingData:
        """The rows where ``mask`` is true."""
        if mask.all():
            return self
        kept = np.flatnonzero(mask)
        X = self.X.subset(kept) if isinstance(self.X, RowSource) else self.X[kept]
        y = None if self.y is None else self.y[kept]
        return TrainingData(X, y, self.sample_weight[kept], self.rows[kept])

    @property
    def for_callbacks(self) -> dict[str, Any]:
        """The data as scikit-learn's callbacks take them; no rows where they are not in memory."""
        if isinstance(self.X, RowSource):
            return {}
        return {"X": self.X, "y": self.y, "metadata": {"sample_weight": self.sample_weight}}


def check_training_data(
    estimator: Any,
    X: Any,
    y: Any,
    sample_weight: Any = None,
    *,
    takes_sources: bool = False,
    is_regression: bool = False,
    order: str | None = None,
    reset: bool = True,
    allow_no_weight: bool = False,
) -> TrainingData:
    """Validate rows, targets and weights, and drop the rows of zero weight.

    ``reset`` learns the number and names of the features; otherwise they must agree. ``order``
    is the memory layout a dense X must have. Rows of zero weight alone are refused unless
    ``allow_no_weight``.
    """
    if is_source(X):
        if not takes_sources:
            require_memory(estimator, X)
        return _check_source(estimator, X, y, sample_weight, is_regression)
    if not is_regression:
        check_label_types(y)
    X, y = _validate(
        estimator,
        X,
        y,
        allow_missing=getattr(estimator, "missing", "error") != "error",
        accept_sparse="csr",
        dtype=[np.float64, np.float32],
        order=order,
        reset=reset,
        multi_output=is_regression,
        y_numeric=is_regression,
    )
    if is_regression:
        y = numeric_targets(y)
    else:
        check_classification_targets(y)
    weights = check_weights(sample_weight, X, allow_no_weight)
    return TrainingData(X, y, weights, np.arange(len(y))).subset(weights > 0)


def check_unlabelled_data(
    estimator: Any, X: Any, sample_weight: Any = None, *, order: str | None = None
) -> TrainingData:
    """Validate rows in memory and their weights, and drop the rows of zero weight."""
    require_memory(estimator, X)
    X = _validate(
        estimator, X, accept_sparse="csr", dtype=[np.float64, np.float32], order=order, reset=True
    )
    weights = check_weights(sample_weight, X)
    return TrainingData(X, None, weights, np.arange(X.shape[0])).subset(weights > 0)


def _validate(estimator: Any, X: Any, *y: Any, allow_missing: bool = False, **options: Any) -> Any:
    """Validate data; an error names the column and what to do."""
    if allow_missing:
        options["ensure_all_finite"] = "allow-nan"
    try:
        with np.errstate(invalid="ignore"):  # scikit-learn adds up all numbers, also inf and -inf
            validated = validate_data(estimator, X, *y, **options)
    except ValueError as error:
        raise explained(error, X, estimator) from None
    if allow_missing:
        refuse_sparse_missing(validated[0] if y else validated)
    return validated


def refuse_sparse_missing(X: Any) -> None:
    """Refuse NaN in a sparse matrix."""
    if is_sparse(X) and np.isnan(X.data).any():
        raise ValueError(
            "X is a sparse matrix that contains NaN; missing values are taken in dense arrays "
            "only: give X.toarray(), or fill them in."
        )


def check_weights(sample_weight: Any, X: Any, allow_no_weight: bool = False) -> Floats:
    """Weights of rows, not negative; ones for None."""
    try:
        weights = _check_sample_weight(
            sample_weight, X, dtype=np.float64, ensure_non_negative=True, **_ZERO_WEIGHTS
        )
    except (TypeError, ValueError) as error:
        raise explained_weights(error, sample_weight) from None
    assert_all_finite(weights, input_name="sample_weight")  # scikit-learn takes a single NaN
    if not (allow_no_weight or weights.any()):
        raise ValueError("Sample weights must contain at least one non-zero number.")
    with np.errstate(over="ignore"):
        total = weights.sum()
    # Shares and means of the weights are quotients by their sum.
    if total > 0 and not _LEAST_TOTAL <= total < np.inf:
        raise ValueError(
            f"The numbers in sample_weight add up to {total:.3g}, which is too "
            f"{'large' if total > 1 else 'small'} to divide by; multiply them by a common factor."
        )
    return weights


def _check_source(
    estimator: Any, X: Any, y: Any, sample_weight: Any, is_regression: bool
) -> TrainingData:
    """The same for rows that are read block by block, of one target."""
    rows, y = labelled_rows(X, y)
    if is_regression:
        y = numeric_targets(y.astype(np.float64) if y.dtype.kind == "O" else y)
    else:
        check_label_types(y)
        check_classification_targets(y)
    weights: Floats = np.broadcast_to(np.float64(1.0), y.shape)
    if sample_weight is not None:
        weights = check_weights(sample_weight, y[:, None])
    estimator.n_features_in_ = rows.shape[1]
    if hasattr(rows, "columns"):
        estimator.feature_names_in_ = np.array(rows.columns, dtype=object)
    return TrainingData(rows, y, weights, np.arange(len(y))).subset(weights > 0)


def labelled_rows(X: Any, y: Any) -> tuple[RowSource, Any]:
    """Rows and their labels, which may be a column of the rows."""
    rows = as_rows(X)
    if isinstance(y, str):
        rows, y = rows.split(y)
    labels = column_or_1d(np.asarray(y.compute() if hasattr(y, "compute") else y))
    if labels.dtype.kind == "f":
        assert_all_finite(labels, input_name="y")
    if len(rows) != len(labels):
        check_consistent_length(np.empty(len(rows), dtype=bool), labels)
    return rows, labels


def require_memory(estimator: Any, X: Any) -> None:
    """Refuse rows that are read block by block."""
    if is_source(X):
        raise TypeError(
            f"{type(estimator).__name__} needs its rows in memory, as an array or a sparse matrix; "
            f"X is a {type(X).__name__}. Give it a part, such as rows.take(numbers)."
        )


#: Constraints on the parameters that name a kernel.
KERNEL_CONSTRAINTS: dict[str, list[Any]] = {
    "kernel": [StrOptions(set(KERNEL_NAMES)), Kernel],
    "gamma": [
        StrOptions({"scale", "auto", "mean_distance"}),
        Interval(Real, 0, None, closed="neither"),
    ],
    "degree": [Interval(Integral, 1, Polynomial.limits["degree"][1], closed="both")],
    "coef0": [Interval(Real, None, None, closed="neither")],
}


class KernelTrainer:
    """Checks on training data, and the kernel that the parameters name."""

    classes_: Any

    #: Whether a fit may read its rows block by block.
    _takes_sources = False

    def _check_training_data(self, X: Any, y: Any, sample_weight: Any) -> TrainingData:
        """Validate rows, labels and weights, set ``classes_``, drop rows of zero weight."""
        data = check_training_data(
            self, X, y, sample_weight, takes_sources=self._takes_sources, order="C"
        )
        self.classes_ = np.unique(data.y)
        check_classes(self.classes_, sample_weight)
        return data

    def _make_kernel(self, data: TrainingData) -> Kernel:
        """The kernel that the parameters ``kernel``, ``gamma``, ``degree`` and ``coef0`` name."""
        names = ("kernel", "gamma", "degree", "coef0")
        kernel, gamma, degree, coef0 = (getattr(self, name) for name in names)
        if isinstance(data.X, RowSource):
            l1 = kernel == Laplacian.name
            gamma = gamma_of_rows(gamma, data.X, data.sample_weight, l1=l1)
        made = make_kernel(
            kernel, data.X, data.sample_weight, gamma=gamma, degree=degree, coef0=coef0
        )
        warn_unlike_columns(self, made, data.X, data.sample_weight)
        return made

    def _drop_zero_cost(self, data: TrainingData) -> tuple[TrainingData, Floats]:
        """The rows whose errors cost something, and the cost: C times class and row weights."""
        C, class_weight = (getattr(self, name) for name in ("C", "class_weight"))
        costs = error_weights(C, data.y, self.classes_, class_weight, data.sample_weight)
        return data.subset(costs > 0), costs[costs > 0]


def warn_unlike_columns(estimator: Any, kernel: Kernel, X: Any, weights: Any = None) -> None:
    """Warn of columns whose ranges differ so much that a kernel of distances sees few of them.

    Rows of a source are not read once more for it.
    """
    if not isinstance(kernel, RBF | Laplacian) or isinstance(X, RowSource):
        return
    unlike = unlike_columns(X, weights, RATIO_WORTH_WARNING)
    if unlike is not None:
        names = getattr(estimator, "feature_names_in_", range(X.shape[1]))
        largest, low = (repr(names[column]) for column in unlike[:2])
        key = (largest, low, X.shape[1])
        if key in _UNLIKE_COLUMNS:  # searches make Python forget which warnings it has shown
            return
        _UNLIKE_COLUMNS.add(key)
        warn_user(
            f"Column {largest} varies about {float(f'{unlike[2]:.1g}'):,.0f} times as much as "
            f"column {low}, which the {kernel.name} kernel then hardly sees: standardise the "
            "columns, for example with StandardScaler.",
            UserWarning,
        )


def gamma_of_rows(
    gamma: str | float, rows: RowSource, weights: Floats, *, l1: bool = False
) -> float:
    """Turn the ``gamma`` parameter into a number, in one pass that checks the rows too."""
    origin = rows.read(slice(0, 1))
    origin = np.zeros(rows.shape[1]) if not isinstance(origin, np.ndarray) else origin[0]
    total, sums, squares = rows.map_reduce(_sums, add_sums, by_row=(weights,), shared=(origin,))
    if not isinstance(gamma, str):
        return float(gamma)
    with np.errstate(over="ignore", invalid="ignore"):  # refused below where not finite
        means = sums / total
        spread = np.maximum(0.0, squares / total - means @ means)
        if squares == 0 and means.any():  # squares that underflow: the least number is refused
            spread = np.nextafter(0.0, 1.0)
        return gamma_of_moments(gamma, means + origin, float(spread), l1=l1)


def _sums(X: Any, weights: Floats, origin: Floats) -> list[Any]:
    """Sums of weights, and of rows and their squared norms about a point."""
    assert_all_finite(X, input_name="X")
    about = (X.toarray() if hasattr(X, "toarray") else X) - origin.astype(np.float64)
    return [weights.sum(), weights @ about, weights @ np.einsum("ij,ij->i", about, about)]


# -- Prediction ------------------------------------------------------------------------------


def rows_to_predict(estimator: Any, X: Any) -> Any:
    """Rows that a fitted estimator can take; arrays of other libraries stay where they are."""
    check_is_fitted(estimator)
    missing = _treatment(estimator)
    if is_foreign(X):
        require_finite(X, allow_missing=missing == "median")
        return X
    return _validate(
        estimator,
        X,
        allow_missing=missing != "error",
        accept_sparse="csr",
        dtype=[np.float64, np.float32],
        reset=False,
    )


def _treatment(estimator: Any) -> str:
    """What a missing value is to a fitted estimator, or to the model that it was loaded from."""
    return str(getattr(estimator, "model_", estimator.expansion_).missing)


def expansion_values(estimator: Any, X: Any) -> Any:
    """Values of a fitted estimator's expansion; block by block for a source of rows."""
    if is_source(X):
        return finite_values(functools.partial(values_of_rows, estimator), X)
    rows = rows_to_predict(estimator, X)
    return finite_values(estimator.expansion_.decision_values, rows)


def values_of_rows(estimator: Any, X: Any, function: Any = None) -> Any:
    """Outputs of a fitted estimator for a source of rows, block by block."""
    check_is_fitted(estimator)
    rows = _with_features(estimator, as_rows(X))
    function = estimator.expansion_.decision_values if function is None else function
    takes_missing = _treatment(estimator) != "error"
    parts = rows.map_reduce(_values, operator.iadd, shared=(function, takes_missing))
    return function(rows.read(slice(0, 0))) if parts is None else np.concatenate(parts)


def _with_features(estimator: Any, rows: RowSource) -> RowSource:
    """The rows with the columns seen in training, in that order."""
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


def _values(X: Any, function: Any, takes_missing: bool) -> list[Any]:
    assert_all_finite(X, allow_nan=takes_missing, input_name="X")
    return [function(X)]


# -- Base classes ----------------------------------------------------------------------------


def documentation_page(name: str) -> str:
    """Address of the page of a public name."""
    return f"{DOCUMENTATION}reference/api/kernlet.{name}.html"


class KernletEstimator(BaseEstimator):
    """An estimator whose display in a notebook links to its page and summarises what was fitted."""

    _doc_link_module = "kernlet"
    _doc_link_template = documentation_page("{estimator_name}")

    def _facts(self) -> list[tuple[str, str]]:
        """Names and values of the table below scikit-learn's diagram; none before a fit."""
        return machine_facts(self) if hasattr(self, "expansion_") else []

    def _repr_html_inner(self) -> str:
        return super()._repr_html_inner() + facts_table(self._facts())

    def _repr_mimebundle_(self, **options: Any) -> dict[str, str]:
        bundle = super()._repr_mimebundle_(**options)
        if "text/html" in bundle:
            bundle["text/html"] += facts_table(self._facts())
        return bundle


class _HasExpansion:
    """What estimators with a :class:`~kernlet.KernelExpansion` share."""

    expansion_: KernelExpansion

    @property
    def n_centers_(self) -> int:
        """Distinct centers: kernel evaluations per prediction."""
        return self.expansion_.n_centers

    @property
    def nbytes_(self) -> int:
        """Bytes of everything that a prediction needs."""
        return self.expansion_.nbytes

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "expansion_")


class ExpansionClassifier(
    CallbackSupportMixin, ClassifierMixin, _HasExpansion, KernelTrainer, KernletEstimator
):
    """A classifier that predicts with a :class:`~kernlet.KernelExpansion`."""

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
            With two classes, one value per row, positive for ``classes_[1]``.
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

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


class ExpansionDetector(
    CallbackSupportMixin, OutlierMixin, _HasExpansion, KernelTrainer, KernletEstimator
):
    """A detector of outliers that scores rows with a :class:`~kernlet.KernelExpansion`.

    A fit sets ``expansion_``, whose intercept is ``-offset_``, and ``offset_``: rows that score
    below it are outliers. Use ``check_unlabelled_data`` for its rows.
    """

    offset_: float

    def decision_function(self, X: Any) -> Floats:
        """Scores of the rows of X less ``offset_``: negative for outliers.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            A torch tensor is computed on its device, by rbf machines; a source of rows
            (:mod:`kernlet.rows`) or a Dask collection block by block.

        Returns
        -------
        values : ndarray of shape (n_samples,)
        """
        return expansion_values(self, X)[:, 0]

    def score_samples(self, X: Any) -> Floats:
        """Scores of the rows of X: the lower, the more abnormal.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Or as for ``decision_function``.

        Returns
        -------
        scores : ndarray of shape (n_samples,)
        """
        return self.decision_function(X) + self.offset_

    def predict(self, X: Any) -> Indices:
        """1 for the rows of X that are like the training rows, -1 for outliers.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Or as for ``decision_function``.

        Returns
        -------
        labels : ndarray of shape (n_samples,)
        """
        return np.where(to_numpy(self.decision_function(X) >= 0), 1, -1)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


class ExpansionRegressor(
    CallbackSupportMixin, RegressorMixin, _HasExpansion, KernelTrainer, KernletEstimator
):
    """A regressor that predicts with a :class:`~kernlet.KernelExpansion`."""

    _is_flat: bool  # whether the targets had one dimension

    def predict(self, X: Any) -> Floats:
        """Predict the targets of the rows of X.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            A source of rows (:mod:`kernlet.rows`) or a Dask collection is read block by block.

        Returns
        -------
        values : ndarray of shape (n_samples,) or (n_samples, n_outputs)
        """
        values = expansion_values(self, X)
        return values[:, 0] if self._is_flat else values

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.target_tags.multi_output = True
        return tags


class ExpansionTransformer(
    ClassNamePrefixFeaturesOutMixin,
    TransformerMixin,
    CallbackSupportMixin,
    KernelTrainer,
    KernletEstimator,
):
    """A transformer whose features are sums of kernel values over one set of points."""

    expansion_: KernelExpansion

    @property
    def components_(self) -> Floats:
        """Coefficients of the features, of shape (n_features_out, n_points)."""
        return self.expansion_.coef

    @property
    def n_centers_(self) -> int:
        """Distinct points: kernel evaluations per row, for all features together."""
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
            features = finite_values(functools.partial(values_of_rows, self), X)
        else:
            X = rows_to_predict(self, X)
            features = finite_values(self.expansion_.decision_values, X)
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
    """One expansion for all outputs over the centers that any of them uses."""
    used = np.unique(np.concatenate([s.centers for s in solutions]))
    group, first = distinct_rows(gram.z.X[used])
    coef = np.zeros((len(solutions), len(first)))
    for output, solution in zip(coef, solutions, strict=True):
        np.add.at(output, group[np.searchsorted(used, solution.centers)], solution.coef)
    intercept = np.array([s.intercept for s in solutions])
    centers = used[first]
    return KernelExpansion(gram.kernel, gram.z.X[centers], coef, intercept), centers
