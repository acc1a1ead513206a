"""The portable model, and how fitted estimators become one."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from itertools import combinations
from numbers import Integral, Real
from os import PathLike
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.linalg import block_diag
from scipy.special import expit, softmax
from sklearn.base import is_regressor
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection._search import BaseSearchCV
from sklearn.multiclass import OneVsOneClassifier, OneVsRestClassifier
from sklearn.pipeline import Pipeline
from sklearn.svm import SVC, NuSVC
from sklearn.utils.validation import check_is_fitted

from kernlet._typing import Floats, Indices
from kernlet.affine import AffineMap, AffineStep, fold_steps, scaler_bytes
from kernlet.expansion import KernelExpansion, distinct_rows
from kernlet.kernels.bandwidth import KERNEL_NAMES, make_kernel
from kernlet.kernels.base import Kernel
from kernlet.model.libsvm import LibsvmModel, read_libsvm
from kernlet.sklearn_base import ExpansionClassifier, ExpansionTransformer
from kernlet.tables.encode import ColumnEncoding

#: What the outputs of an expansion are. "one output": positive means the second of two
#: classes; "one vs rest": one output a class; "one vs one": one output for each pair of
#: classes i < j, in the order (0, 1), (0, 2), ..., (1, 2), ..., positive for class i.
Scheme = Literal["one output", "one vs rest", "one vs one"]


def decision_values(outputs: Floats, scheme: Scheme, n_classes: int, votes: bool) -> Floats:
    """What ``decision_function`` returns.

    Parameters
    ----------
    outputs : ndarray of shape (n_rows, n_outputs)
        Of the expansion.
    scheme : {"one output", "one vs rest", "one vs one"}
    n_classes : int
    votes : bool
        Turn the outputs of pairs into one value a class (see :func:`vote_values`).

    Returns
    -------
    values : ndarray of shape (n_rows,), (n_rows, n_classes) or (n_rows, n_outputs)
        With two classes, one value a row, positive for the second class.

    Examples
    --------
    >>> import numpy as np
    >>> from kernlet.model.model import decision_values
    >>> pairs = np.array([[1.0, 2.0, -1.0]])
    >>> decision_values(pairs, "one vs one", n_classes=3, votes=False)
    array([[ 1.,  2., -1.]])
    >>> decision_values(pairs, "one vs one", n_classes=3, votes=True).round(3)
    array([[ 2.25 , -0.222,  0.833]])
    """
    if scheme == "one output":
        return outputs[:, 0]
    if scheme == "one vs rest" or not votes:
        return outputs
    values = vote_values(outputs, n_classes)
    return values[:, 1] if n_classes == 2 else values


def predicted_codes(
    outputs: Floats, scheme: Scheme, n_classes: int, votes: bool, break_ties: bool
) -> Indices:
    """The number of the class that ``predict`` returns for each row.

    Parameters
    ----------
    outputs : ndarray of shape (n_rows, n_outputs)
        Of the expansion.
    scheme : {"one output", "one vs rest", "one vs one"}
    n_classes : int
    votes : bool
        Whether decision values are one a class. The classes do not depend on it.
    break_ties : bool
        False for LIBSVM's vote: the class that wins most pairs, the lowest one of several;
        an output of exactly 0 is won by the second class of its pair. True for the class of
        the largest decision value; an output of exactly 0 is then won by the first class.
        One vs rest takes the largest output either way.

    Returns
    -------
    codes : ndarray of shape (n_rows,)

    Examples
    --------
    >>> import numpy as np
    >>> from kernlet.model.model import predicted_codes
    >>> circle = np.array([[1.0, -3.0, 1.0]])  # 0 beats 1, 2 beats 0, 1 beats 2
    >>> predicted_codes(circle, "one vs one", n_classes=3, votes=True, break_ties=False)
    array([0])
    >>> predicted_codes(circle, "one vs one", n_classes=3, votes=True, break_ties=True)
    array([2])
    """
    if scheme == "one output":
        second = outputs[:, 0] > 0 if break_ties else outputs[:, 0] >= 0
        return second.astype(np.intp)
    if scheme == "one vs rest":
        return outputs.argmax(axis=1)
    if break_ties:
        return vote_values(outputs, n_classes).argmax(axis=1)
    return pairs_won(outputs > 0, n_classes).argmax(axis=1)


def vote_values(outputs: Floats, n_classes: int) -> Floats:
    """One value a class from one output a pair: the pairs won, and a fraction for the margins.

    value_c = won_c + s_c / (3 (abs(s_c) + 1)), where s_c sums the outputs of the pairs of c,
    each counted positive in favour of c. The fraction is below 1/3: it orders classes that
    have won equally many pairs and no others.

    Parameters
    ----------
    outputs : ndarray of shape (n_rows, n_pairs)
    n_classes : int

    Returns
    -------
    values : ndarray of shape (n_rows, n_classes)
    """
    sums = np.zeros((len(outputs), n_classes))
    for pair, (i, j) in enumerate(combinations(range(n_classes), 2)):
        sums[:, i] += outputs[:, pair]
        sums[:, j] -= outputs[:, pair]
    return pairs_won(~(outputs < 0), n_classes) + sums / (3 * (np.abs(sums) + 1))


def pairs_won(first_wins: NDArray[np.bool_], n_classes: int) -> Floats:
    """How many pairs each class wins.

    Parameters
    ----------
    first_wins : ndarray of shape (n_rows, n_pairs)
        Whether the first class of each pair wins it.
    n_classes : int

    Returns
    -------
    won : ndarray of shape (n_rows, n_classes)
    """
    pairs = np.array(list(combinations(range(n_classes), 2)))
    numbers = np.arange(n_classes)
    first, second = pairs[:, :1] == numbers, pairs[:, 1:] == numbers
    gain = first.astype(np.float32) - second  # whole numbers: exact
    return (first_wins.astype(np.float32) @ gain + second.sum(axis=0)).astype(np.float64)


def pair_coefficients(dual_coef: Floats, n_support: Any) -> Floats:
    """One row of coefficients for each pair of classes, from LIBSVM's table of duals.

    LIBSVM keeps, for a support vector of class i, its n_classes - 1 duals against the other
    classes in their order. The pair i < j uses the support vectors of i, with their dual
    against j (row j - 1), and those of j, with their dual against i (row i).

    Parameters
    ----------
    dual_coef : ndarray of shape (n_classes - 1, n_centers)
        The support vectors ordered by class.
    n_support : sequence of int
        Support vectors of each class.

    Returns
    -------
    coef : ndarray of shape (n_pairs, n_centers)

    Examples
    --------
    >>> import numpy as np
    >>> from kernlet.model.model import pair_coefficients
    >>> pair_coefficients(np.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]), [1, 1, 1])
    array([[1., 2., 0.],
           [4., 0., 3.],
           [0., 5., 6.]])
    """
    ends = np.cumsum(n_support)
    rows = [slice(end - count, end) for end, count in zip(ends, n_support, strict=True)]
    coef = np.zeros((len(rows) * (len(rows) - 1) // 2, dual_coef.shape[1]))
    for output, (i, j) in zip(coef, combinations(range(len(rows)), 2), strict=True):
        output[rows[i]] = dual_coef[j - 1, rows[i]]
        output[rows[j]] = dual_coef[i, rows[j]]
    return coef


@dataclass(frozen=True, eq=False)
class Adopted:
    """A trained classifier as an expansion, and how its outputs become classes.

    Parameters
    ----------
    expansion : KernelExpansion
        Over distinct centers, in the conventions that ``scheme`` names.
    classes : ndarray of shape (n_classes,)
        In ascending order.
    scheme : {"one output", "one vs rest", "one vs one"}
        What the outputs are: one for two classes, positive for ``classes[1]``; one a class;
        or one for each pair i < j, positive for ``classes[i]``.
    votes : bool
        Whether decision values are the votes of the pairs, turned into one value a class.
    break_ties : bool
        Whether the largest decision value predicts, in place of LIBSVM's vote.
    preprocessing : tuple of (str, transformer)
        Fitted steps in front of the expansion.
    feature_names : ndarray of shape (n_features,) or None
    n_features : int or None
        Width of the raw input, in front of the preprocessing; None where that is no table.

    See Also
    --------
    kernlet.model.model.decision_values : From outputs to decision values.
    kernlet.model.model.predicted_codes : From outputs to classes.
    """

    expansion: KernelExpansion
    classes: Any
    scheme: Scheme
    votes: bool
    break_ties: bool
    preprocessing: tuple[tuple[str, Any], ...]
    feature_names: Any
    n_features: int | None


def adopt(model: Any) -> Adopted:
    """Take over a trained kernel classifier.

    Parameters
    ----------
    model : fitted classifier, str, path or LibsvmModel
        An SVC or NuSVC; a OneVsRestClassifier or OneVsOneClassifier of them; a kernlet
        classifier; a Pipeline that ends in one of these, or a search that found one; or a
        LIBSVM model file. ``read_libsvm(path, n_features)`` reads a file whose support
        vectors are narrower than the data.

    Returns
    -------
    adopted : Adopted

    Raises
    ------
    TypeError
        For a model that has no support vectors.
    ValueError
        For a kernel that is a function or precomputed, and for a damaged file.
    NotFittedError

    Notes
    -----
    Decision values and classes are those of the model, with two exceptions. Where several
    classes win equally many pairs, a LIBSVM file gives the lowest label, as SVC does, and not
    the label that the file names first. Where the value of a pair is exactly 0, a
    OneVsOneClassifier gives the pair to its first class, as the decision values of SVC do.

    An expansion of pairs takes n_pairs times n_centers coefficients, n_classes / 2 times as
    many as LIBSVM keeps.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.svm import SVC
    >>> from kernlet.model.model import adopt
    >>> X, y = load_iris(return_X_y=True)
    >>> adopted = adopt(SVC(decision_function_shape="ovo").fit(X, y))
    >>> adopted.scheme, adopted.expansion.n_outputs
    ('one vs one', 3)
    """
    if isinstance(model, str | PathLike):
        return _adopt_libsvm(read_libsvm(model))
    return _adopt_fitted(model)


def _adopt_fitted(model: Any) -> Adopted:
    if isinstance(model, FrozenEstimator):
        return _adopt_fitted(model.estimator)
    for kinds, adopt_kind in _KINDS:
        if isinstance(model, kinds):
            return adopt_kind(model)
    if hasattr(model, "adopted_"):  # compressed before
        return model.adopted_
    if hasattr(model, "best_estimator_"):
        return _adopt_fitted(model.best_estimator_)
    raise TypeError(
        f"{type(model).__name__} is no kernel classifier with support vectors. Give a fitted SVC, "
        "NuSVC or kernlet classifier, a OneVsRestClassifier or OneVsOneClassifier of them, a "
        "Pipeline that ends in one, or the path of a LIBSVM model file."
    )


def _adopt_svc(model: Any) -> Adopted:
    check_is_fitted(model)
    n_classes = len(model.classes_)
    if len(model.n_support_) < n_classes:
        raise ValueError(
            f"This {type(model).__name__} has {n_classes} classes and support vectors of "
            f"{len(model.n_support_)}, as happens where all rows of a class have sample_weight 0. "
            "Fit it without these rows."
        )
    coef = pair_coefficients(_dense(model.dual_coef_), model.n_support_)
    has_votes = n_classes > 2 and model.decision_function_shape == "ovr"
    return Adopted(
        expansion=_merged(_kernel(model), model.support_vectors_, coef, model.intercept_),
        classes=model.classes_,
        scheme="one output" if n_classes == 2 else "one vs one",
        votes=has_votes,
        break_ties=has_votes and bool(model.break_ties),
        preprocessing=(),
        **_names(model),
    )


def _kernel(model: Any) -> Kernel:
    if callable(model.kernel) or model.kernel not in KERNEL_NAMES:
        kind = "a function" if callable(model.kernel) else repr(model.kernel)
        raise ValueError(
            f"The kernel of this {type(model).__name__} is {kind}, of which only the values are "
            f"known. Fit it with one of the kernels {', '.join(KERNEL_NAMES)}."
        )
    if model.kernel == "poly" and model.degree < 1:
        raise ValueError("A polynomial kernel of degree 0 is constant. Fit with a higher degree.")
    return make_kernel(
        model.kernel, None, gamma=model._gamma, degree=model.degree, coef0=model.coef0
    )


def _adopt_kernlet(model: Any) -> Adopted:
    check_is_fitted(model)
    return Adopted(
        expansion=model.expansion_,
        classes=model.classes_,
        scheme="one output" if model.expansion_.n_outputs == 1 else "one vs rest",
        votes=False,
        break_ties=True,
        preprocessing=(),
        **_names(model),
    )


def _adopt_one_vs_rest(model: Any) -> Adopted:
    check_is_fitted(model)
    if model.multilabel_:
        raise ValueError(
            "This OneVsRestClassifier gives a row several labels at once. Adopt the machines in "
            "its estimators_ one by one."
        )
    expansion = _joined(model)
    return Adopted(
        expansion=expansion,
        classes=model.classes_,
        scheme="one output" if expansion.n_outputs == 1 else "one vs rest",
        votes=False,
        break_ties=True,
        preprocessing=(),
        **_names(model),
    )


def _adopt_one_vs_one(model: Any) -> Adopted:
    check_is_fitted(model)
    joined = _joined(model)  # positive for the second class of each pair
    return Adopted(
        expansion=replace(joined, coef=-joined.coef, intercept=-joined.intercept),
        classes=model.classes_,
        scheme="one vs one",
        votes=True,
        break_ties=True,
        preprocessing=(),
        **_names(model),
    )


def _joined(model: Any) -> KernelExpansion:
    """The machines of two classes inside a model, as the outputs of one expansion."""
    inside = [_adopt_fitted(estimator) for estimator in model.estimators_]
    if any(machine.preprocessing for machine in inside):
        raise ValueError(
            f"Each machine in this {type(model).__name__} has its own Pipeline. Put the "
            f"{type(model).__name__} into one Pipeline instead."
        )
    machines = [machine.expansion.unfolded() for machine in inside]
    kernel, *others = dict.fromkeys(machine.kernel for machine in machines)
    if others:
        raise ValueError(
            f"The machines in this {type(model).__name__} have different kernels, {kernel} and "
            f'{others[0]} among them, as gamma="scale" gives each its own. Fit it with a number '
            "for gamma."
        )
    stack = sparse.vstack if sparse.issparse(machines[0].centers) else np.vstack
    centers = stack([machine.centers for machine in machines])
    coef = block_diag(*(machine.coef for machine in machines))
    return _merged(kernel, centers, coef, np.hstack([machine.intercept for machine in machines]))


def _adopt_pipeline(model: Any) -> Adopted:
    """The last step, behind the steps that change its input."""
    last = _adopt_fitted(model.steps[-1][1])
    steps = tuple((name, step) for name, step in model.steps[:-1] if hasattr(step, "transform"))
    if not steps:
        return last
    first = steps[0][1]
    whole = replace(last, preprocessing=steps + last.preprocessing)
    if hasattr(first, "n_features_in_"):
        return replace(whole, **_names(first))
    return replace(whole, feature_names=None, n_features=None)  # text, for example


def _adopt_search(model: Any) -> Adopted:
    check_is_fitted(model)
    if not hasattr(model, "best_estimator_"):
        raise ValueError(f"Fit the {type(model).__name__} with refit=True: it kept no classifier.")
    return _adopt_fitted(model.best_estimator_)


def _adopt_libsvm(model: LibsvmModel) -> Adopted:
    """Labels into ascending order, and the pairs with them."""
    order = np.argsort(model.labels)
    coef, intercept = _reordered(
        pair_coefficients(model.dual_coef, model.n_support), -model.rho, order
    )
    is_binary = len(order) == 2
    if is_binary:  # a pair is positive for its first class, one output for the second
        coef, intercept = -coef, -intercept
    return Adopted(
        expansion=_merged(model.kernel, model.centers, coef, intercept),
        classes=model.labels[order],
        scheme="one output" if is_binary else "one vs one",
        votes=not is_binary,
        break_ties=False,
        preprocessing=(),
        feature_names=None,
        n_features=int(model.centers.shape[1]),
    )


def _reordered(coef: Floats, intercept: Floats, order: Any) -> tuple[Floats, Floats]:
    """Outputs of the pairs of classes[order]; a pair whose classes change places changes sign."""
    number = {pair: p for p, pair in enumerate(combinations(range(len(order)), 2))}
    pairs = list(combinations(order.tolist(), 2))
    rows = [number[min(pair), max(pair)] for pair in pairs]
    signs = np.array([1.0 if i < j else -1.0 for i, j in pairs])
    return signs[:, None] * coef[rows], signs * intercept[rows]


def _merged(kernel: Kernel, centers: Any, coef: Floats, intercept: Floats) -> KernelExpansion:
    """The expansion in which equal centers are one."""
    centers = sparse.csr_array(centers) if sparse.issparse(centers) else centers
    group, first = distinct_rows(centers)
    sums = np.zeros((len(first), len(coef)))
    np.add.at(sums, group, coef.T)
    return KernelExpansion(
        kernel, centers[first], np.ascontiguousarray(sums.T), np.array(intercept)
    )


def _names(model: Any) -> dict[str, Any]:
    names = getattr(model, "feature_names_in_", None)
    return {"feature_names": names, "n_features": int(model.n_features_in_)}


def _dense(values: Any) -> Floats:
    return values.toarray() if sparse.issparse(values) else values


_KINDS: tuple[tuple[Any, Callable[[Any], Adopted]], ...] = (
    (LibsvmModel, _adopt_libsvm),
    ((SVC, NuSVC), _adopt_svc),
    (ExpansionClassifier, _adopt_kernlet),
    (OneVsRestClassifier, _adopt_one_vs_rest),
    (OneVsOneClassifier, _adopt_one_vs_one),
    (Pipeline, _adopt_pipeline),
    (BaseSearchCV, _adopt_search),
)


_ATTRIBUTES = ("n_iter_", "loo_error_bound_", "validation_score_", "choice_", "gap_", "ball_gap_")
_LONGEST = 500  # characters of a parameter, entries of a list


def summary_of(model: Any) -> dict[str, Any]:
    """What is worth knowing of a fitted estimator, as JSON values.

    Parameters
    ----------
    model : fitted estimator or path

    Returns
    -------
    summary : dict
        ``estimator``, ``parameters`` and, where the estimator has them, ``n_iter``,
        ``duality_gap`` (the largest), ``loo_error_bound``, ``validation_score``, ``choice``,
        ``path`` and ``compression``.

    Examples
    --------
    >>> from sklearn.svm import SVC
    >>> from kernlet.model.model import summary_of
    >>> summary_of(SVC(C=3.0))["parameters"]["C"]
    3.0
    """
    if isinstance(model, str | PathLike):
        return {"estimator": "LIBSVM model file"}
    summary: dict[str, Any] = {"estimator": type(model).__name__}
    if hasattr(model, "get_params"):
        summary["parameters"] = plain(model.get_params(deep=False))
    for name in _ATTRIBUTES:
        if hasattr(model, name):
            summary[name.strip("_")] = plain(getattr(model, name))
    if hasattr(model, "duality_gap_"):
        summary["duality_gap"] = plain(np.max(model.duality_gap_))
    compression = getattr(model, "compression_", None)
    if compression is not None:
        summary["compression"] = plain(asdict(compression))
    path = getattr(model, "path_", None) or getattr(compression, "path", ())
    if path:
        summary["path"] = [plain(asdict(point)) for point in path]
    return summary


def plain(value: Any) -> Any:
    """A value in terms of what JSON knows; anything else as a short text."""
    if value is None or isinstance(value, bool | str):
        return value if not isinstance(value, str) else value[:_LONGEST]
    if isinstance(value, np.bool_):
        return bool(value)
    if isinstance(value, Integral):
        return int(value) if abs(int(value)) < 2**63 else str(value)[:_LONGEST]
    if isinstance(value, Real):
        return float(value) if math.isfinite(value) else None
    if isinstance(value, dict):
        return {str(key)[:_LONGEST]: plain(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple) or (isinstance(value, np.ndarray) and value.ndim == 1):
        return [plain(entry) for entry in value][:_LONGEST]
    return " ".join(repr(value).split())[:_LONGEST]


Kind = Literal["classifier", "regressor", "transformer", "expansion"]


@dataclass(frozen=True, eq=False)
class Model:
    """An expansion, and what turns its outputs into answers.

    Parameters
    ----------
    expansion : KernelExpansion
    kind : {"classifier", "regressor", "transformer", "expansion"}
    classes : ndarray of shape (n_classes,) or None
        Of a classifier.
    scheme, votes, break_ties : see :class:`~kernlet.model.model.Adopted`
    temperature : float or None
        By which decision values are divided for probabilities, where there are any.
    scaler : AffineMap or None
        A shift and a scale for every feature, in front of the expansion.
    encoding : ColumnEncoding or None
        How a table becomes rows of features.
    feature_names : tuple of str or None
    is_flat : bool
        Whether a regressor gives one number a row.
    summary : dict
        Where the machine comes from, as plain JSON values.
    """

    expansion: KernelExpansion
    kind: Kind = "expansion"
    classes: Any = None
    scheme: Scheme = "one vs rest"
    votes: bool = False
    break_ties: bool = True
    temperature: float | None = None
    scaler: AffineMap | None = None
    encoding: ColumnEncoding | None = None
    feature_names: tuple[str, ...] | None = None
    is_flat: bool = True
    summary: dict[str, Any] = field(default_factory=dict)

    @property
    def n_features(self) -> int:
        """Numbers that a row has."""
        return self.expansion.n_features

    @property
    def nbytes(self) -> int:
        """Bytes of everything stored; a scaler counts in float32."""
        return self.expansion.nbytes + scaler_bytes(self.scaler)

    def outputs(self, X: Any) -> Floats:
        """Outputs of the expansion for rows of features."""
        return self.expansion.decision_values(X if self.scaler is None else self.scaler(X))

    def scores(self, outputs: Floats) -> Floats:
        """What ``decision_function``, ``predict`` of a regressor or ``transform`` gives."""
        if self.kind == "classifier":
            return decision_values(outputs, self.scheme, len(self.classes), self.votes)
        return outputs[:, 0] if self.kind == "regressor" and self.is_flat else outputs

    def codes(self, outputs: Floats) -> Indices:
        """The number of the class that is predicted for each row."""
        return predicted_codes(outputs, self.scheme, len(self.classes), self.votes, self.break_ties)

    def probabilities(self, outputs: Floats) -> Floats:
        """Probabilities of the classes."""
        assert self.temperature is not None
        values = self.scores(outputs) / self.temperature
        if values.ndim == 1:
            return np.stack([expit(-values), expit(values)], axis=1)
        return softmax(values, axis=1)

    @property
    def adopted(self) -> Adopted:
        """The classifier in the form in which it can be compressed."""
        steps: list[tuple[str, Any]] = []
        if self.encoding is not None:
            steps.append(("columns", self.encoding))
        if self.scaler is not None:
            steps.append(("scaler", AffineStep(self.scaler)))
        names = self.encoding.names if self.encoding else self.feature_names
        return Adopted(
            self.expansion,
            self.classes,
            self.scheme,
            self.votes,
            self.break_ties,
            tuple(steps),
            None if names is None else np.array(names, dtype=object),
            len(names) if self.encoding and names else self.n_features,
        )


def as_model(model: Any) -> Model:
    """Gather what a prediction needs.

    Parameters
    ----------
    model : fitted estimator, KernelExpansion, Model or the path of a LIBSVM model file
        A kernlet estimator, what :func:`kernlet.load` gave, an SVC or another classifier that
        :func:`kernlet.model.model.adopt` takes; or a Pipeline of scalers and one of these.

    Returns
    -------
    shipped : Model

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> from sklearn.svm import SVC
    >>> from kernlet.model.model import as_model
    >>> X, y = load_iris(return_X_y=True)
    >>> shipped = as_model(make_pipeline(StandardScaler(), SVC()).fit(X, y))
    >>> shipped.scheme, shipped.scaler.shift.round(1)
    ('one vs one', array([5.8, 3.1, 3.8, 1.2]))
    """
    if isinstance(model, Model):
        return model
    if isinstance(model, KernelExpansion):
        return Model(model)
    steps, last = _unwrapped(model)
    shipped = getattr(last, "model_", None)
    if shipped is not None:
        return _behind(shipped, steps)
    if hasattr(last, "expansion_") and is_regressor(last):
        return _shipped_plainly(last, "regressor", steps, last._is_flat)
    if isinstance(last, ExpansionTransformer):
        return _shipped_plainly(last, "transformer", steps)
    return _shipped_classifier(adopt(model), last)


def _unwrapped(model: Any) -> tuple[list[tuple[str, Any]], Any]:
    """Steps in front of a fitted estimator, and the estimator."""
    if isinstance(model, str | PathLike):
        return [], model
    if isinstance(model, FrozenEstimator):
        return _unwrapped(model.estimator)
    if isinstance(model, Pipeline):
        steps, last = _unwrapped(model.steps[-1][1])
        return [*model.steps[:-1], *steps], last
    if hasattr(model, "best_estimator_"):
        return _unwrapped(model.best_estimator_)
    return [], model


def _behind(shipped: Model, steps: list[tuple[str, Any]]) -> Model:
    """A loaded machine behind the steps of a pipeline."""
    if not steps:
        return shipped
    if shipped.encoding is not None:
        raise ValueError("A machine that takes a table of columns can have no step in front.")
    inside = [] if shipped.scaler is None else [("scaler", AffineStep(shipped.scaler))]
    names = _model_names(getattr(steps[0][1], "feature_names_in_", None))
    return replace(shipped, scaler=fold_steps([*steps, *inside]), feature_names=names)


def _shipped_plainly(
    model: Any,
    kind: Kind,
    steps: list[tuple[str, Any]],
    is_flat: bool = False,
) -> Model:
    """A model whose answers are the outputs of its expansion."""
    check_is_fitted(model)
    names = getattr(steps[0][1] if steps else model, "feature_names_in_", None)
    return Model(
        model.expansion_,
        kind,
        scaler=fold_steps(steps),
        feature_names=_model_names(names),
        is_flat=is_flat,
        summary=summary_of(model),
    )


def _shipped_classifier(adopted: Adopted, last: Any) -> Model:
    steps = list(adopted.preprocessing)
    encoding = None
    if steps and isinstance(steps[0][1], ColumnEncoding):
        encoding = steps.pop(0)[1]
    names = encoding.feature_names if encoding else _model_names(adopted.feature_names)
    return Model(
        adopted.expansion,
        "classifier",
        classes=np.asarray(adopted.classes),
        scheme=adopted.scheme,
        votes=adopted.votes,
        break_ties=adopted.break_ties,
        temperature=getattr(last, "temperature_", None),
        scaler=fold_steps(steps),
        encoding=encoding,
        feature_names=names,
        summary=summary_of(last),
    )


def _model_names(names: Any) -> tuple[str, ...] | None:
    return None if names is None else tuple(str(name) for name in names)
