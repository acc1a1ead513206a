"""The portable model, and how fitted estimators become one."""

from __future__ import annotations

import math
from collections.abc import Callable
from copy import copy
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from itertools import combinations
from numbers import Integral, Real
from os import PathLike
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.linalg import block_diag
from sklearn.base import is_regressor
from sklearn.calibration import CalibratedClassifierCV
from sklearn.frozen import FrozenEstimator
from sklearn.metrics.pairwise import laplacian_kernel
from sklearn.model_selection._search import BaseSearchCV
from sklearn.multiclass import OneVsOneClassifier, OneVsRestClassifier
from sklearn.pipeline import Pipeline
from sklearn.svm import SVC, NuSVC
from sklearn.utils import check_array
from sklearn.utils.validation import check_is_fitted, validate_data

from kernlet._typing import Floats, Indices
from kernlet.affine import AffineMap, CurvedMap, compose, scaler_bytes
from kernlet.expansion import KernelExpansion, distinct_rows
from kernlet.kernels.bandwidth import KERNEL_NAMES
from kernlet.kernels.base import Kernel
from kernlet.kernels.gram import as_dense, row_slices
from kernlet.kernels.laplacian import Laplacian
from kernlet.model.calibration import link, with_probabilities_of
from kernlet.model.describe import describe
from kernlet.model.libsvm import LibsvmModel, read_libsvm
from kernlet.model.pipeline import fold_steps
from kernlet.sklearn_base import (
    ExpansionClassifier,
    ExpansionTransformer,
    finite_values,
    warn_user,
)
from kernlet.tables.encode import ColumnEncoding

# How this works
# --------------
# Every trained machine, whoever trained it, is f(x) = coef k(x, centers) + intercept behind some
# preprocessing, and a rule that turns the outputs f into an answer. `Model` holds exactly that:
#
#     x -> steps -> encoding -> scaler -> expansion -> rule
#
# `steps` are fitted transformers of a Pipeline, untouched; `as_model` folds them into `encoding`
# and `scaler`, because a file or a C function cannot run a transformer.
# `as_classifier` leaves them, because compression only needs the rows behind them.
#
# The outputs of the expansion follow one of three schemes:
#
#   "one output"    two classes; positive means classes[1].
#   "one vs rest"   one output per class; the largest wins.
#   "one vs one"    one output per pair of classes i < j, in the order (0, 1), (0, 2), ...,
#                   (1, 2), ...; positive means classes[i]. This is what LIBSVM trains.
#
# LIBSVM (Chang and Lin, 2011, section 7) predicts the class that wins most pairs, ties going to
# the lowest class; scikit-learn's SVC does the same unless break_ties=True. Its decision values
# with decision_function_shape="ovr" are the number of pairs won plus a fraction for the margins.
# `votes` and `break_ties` say which of these the original did, so that a Model predicts what the
# original predicts to the last bit, ties and zeros included.
#
# LIBSVM stores, per support vector of class i, its n_classes - 1 duals against the other classes.
# Here all pairs share one set of centers, and coef has one row per pair: n_classes / 2 times as
# many numbers, most of them 0, in exchange for one matrix product for all pairs.

#: What the outputs of an expansion mean (see above).
Scheme = Literal["one output", "one vs rest", "one vs one"]
Kind = Literal["classifier", "regressor", "transformer", "expansion"]

_LARGEST_SUM = 1e300  # three times this is finite
_MAX_LENGTH = 500  # characters of a parameter in the summary, entries of a list


# -- Decision rules ----------------------------------------------------------------------------


def decision_values(outputs: Floats, scheme: Scheme, n_classes: int, votes: bool) -> Floats:
    """What ``decision_function`` returns: with two classes one value per row."""
    if scheme == "one output":
        return outputs[:, 0]
    if scheme == "one vs rest" or not votes:
        return outputs
    values = vote_values(outputs, n_classes)
    return values[:, 1] if n_classes == 2 else values


def predicted_codes(outputs: Floats, scheme: Scheme, n_classes: int, break_ties: bool) -> Indices:
    """The number of the class that ``predict`` returns for each row.

    ``break_ties`` takes the class of the largest decision value instead of the one that wins
    most pairs.
    """
    # An output of exactly 0 (far from all centers, without an intercept) belongs to the second
    # class of its pair by LIBSVM's vote, and to the first one by the largest decision value.
    if scheme == "one output":
        second = outputs[:, 0] > 0 if break_ties else outputs[:, 0] >= 0
        return second.astype(np.intp)
    if scheme == "one vs rest":
        return outputs.argmax(axis=1)
    if break_ties:
        return vote_values(outputs, n_classes).argmax(axis=1)
    return pairs_won(outputs > 0, n_classes).argmax(axis=1)


def vote_values(outputs: Floats, n_classes: int) -> Floats:
    """One value per class from one output per pair, as scikit-learn's SVC computes it.

    value_c = won_c + s_c / (3 (abs(s_c) + 1)), where s_c sums the outputs of the pairs of c,
    each counted positive in favour of c.
    """
    sums = pair_sums(outputs, n_classes)
    # The fraction is below 1/3, so that it only orders classes that win equally many pairs.
    return pairs_won(~(outputs < 0), n_classes) + sums / (3 * (np.abs(sums) + 1))


def pair_sums(outputs: Floats, n_classes: int) -> Floats:
    """Sums of the outputs of the pairs of each class, counted positive in its favour."""
    sums = np.zeros((len(outputs), n_classes))
    with np.errstate(over="ignore"):
        for pair, (i, j) in enumerate(combinations(range(n_classes), 2)):
            sums[:, i] += outputs[:, pair]
            sums[:, j] -= outputs[:, pair]
    return np.clip(sums, -_LARGEST_SUM, _LARGEST_SUM)


def pairs_won(first_wins: NDArray[np.bool_], n_classes: int) -> Floats:
    """How many pairs each class wins, given whether the first class wins each pair."""
    pairs = np.array(list(combinations(range(n_classes), 2)))
    numbers = np.arange(n_classes)
    first, second = pairs[:, :1] == numbers, pairs[:, 1:] == numbers
    gain = first.astype(np.float32) - second  # small integers: exact, and fast in float32
    return (first_wins.astype(np.float32) @ gain + second.sum(axis=0)).astype(np.float64)


# -- The model ---------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Model:
    """An expansion, what happens to the input before it, and how its outputs become answers.

    Parameters
    ----------
    expansion : KernelExpansion
        Over distinct centers.
    kind : {"classifier", "regressor", "transformer", "expansion"}
    classes : ndarray of shape (n_classes,) or None
        Of a classifier, in ascending order.
    scheme : {"one output", "one vs rest", "one vs one"}
        What the outputs are: one for two classes, positive for ``classes[1]``; one per class;
        or one per pair i < j, positive for ``classes[i]``.
    votes : bool
        Whether decision values are the votes of the pairs, turned into one value per class.
    break_ties : bool
        Whether the largest decision value predicts, instead of LIBSVM's vote.
    temperature : float or None
        Probabilities, where there are any, are those of (class scores - offset) / temperature.
    offset : float
        Of two classes; see there.
    scaler : AffineMap or None
        A shift and a scale per feature before the expansion and, behind PCA and the like, a matrix.
    encoding : ColumnEncoding or None
        How a table becomes rows of features.
    steps : tuple of (str, transformer)
        Fitted steps of a Pipeline before all that; none in what :func:`as_model` returns.
    feature_names : tuple of str or None
        Names of the features, or of the input of the first step.
    is_flat : bool
        Whether a regressor predicts one number per row.
    summary : dict
        How the model was trained, as JSON values.
    """

    expansion: KernelExpansion
    kind: Kind = "expansion"
    classes: Any = None
    scheme: Scheme = "one vs rest"
    votes: bool = False
    break_ties: bool = True
    temperature: float | None = None
    offset: float = 0.0
    scaler: AffineMap | None = None
    encoding: ColumnEncoding | None = None
    steps: tuple[tuple[str, Any], ...] = ()
    feature_names: tuple[str, ...] | None = None
    is_flat: bool = True
    summary: dict[str, Any] = field(default_factory=dict)

    def __repr__(self) -> str:
        return f"Model({self.kind}, {self.expansion!r})"

    def describe(self, digits: int = 4) -> dict[str, str]:
        """What the machine is made of: kernel, widths, coefficients, input map and formats."""
        return describe(self.expansion, digits)

    @property
    def n_features(self) -> int:
        """Features of a row, after the steps and the encoding."""
        if self.scaler is not None and self.scaler.matrix is not None:
            return int(self.scaler.matrix.shape[1])
        return self.expansion.n_features

    @property
    def n_features_in(self) -> int | None:
        """Columns of the raw input; None where it is not a table, but text for example."""
        if self.steps:
            return getattr(self.steps[0][1], "n_features_in_", None)
        if self.encoding is None:
            return self.n_features
        names = self.feature_names_in
        return self.encoding.n_columns if names is None else len(names)

    @property
    def feature_names_in(self) -> tuple[str, ...] | None:
        """Names of these columns, where they are known."""
        if self.steps or self.encoding is None:
            return self.feature_names
        return self.encoding.names if self.encoding.has_names else None

    @property
    def nbytes(self) -> int:
        """Bytes of everything stored, steps that a file can hold included.

        A scaler counts in float32.
        """
        try:
            model = self.folded()
        except ValueError:
            model = self
        return model.expansion.nbytes + scaler_bytes(model.scaler)

    @property
    def input_map(self) -> AffineMap | None:
        """Scaler and map of the expansion as one."""
        try:
            return compose(self.scaler, self.expansion.input_map)
        except ValueError:
            if isinstance(self.expansion.input_map, CurvedMap):
                raise ValueError(
                    "The machine has an asinh or steps in its features, and cannot be composed "
                    "with the PCA or other matrix before it: leave that out, or export "
                    "pipeline[-1] alone."
                ) from None
            raise ValueError(
                "The steps before the machine give more features than they have columns, and its "
                "own shift cannot be composed with them: leave out the FeatureUnion, or export "
                "pipeline[-1] alone."
            ) from None

    def folded(self) -> Model:
        """The same model with its steps in encoding and scaler; ValueError where they cannot be."""
        if not self.steps:
            return self
        if self.encoding is not None:
            raise ValueError("A model that takes a table of columns can have no step before it.")
        encoding, scaler = fold_steps(self.steps)
        names = self.feature_names if encoding is None else encoding.feature_names
        scaler = compose(scaler, self.scaler)
        return replace(self, steps=(), encoding=encoding, scaler=scaler, feature_names=names)

    def rows(self, X: Any, estimator: Any = None) -> Any:
        """Rows of features from the user's X: through the steps and the encoding, validated."""
        if not self.steps and self.encoding is None:
            return self.features(X, estimator)
        for _, step in self.steps:
            X = step.transform(X)
        return self.features(X if self.encoding is None else self.encoded(X))

    def encoded(self, X: Any) -> Floats:
        """Rows of features from a table, with a warning of columns that have no known category."""
        assert self.encoding is not None
        note = lambda _, message: warn_user(message, UserWarning)  # noqa: E731
        return self.encoding.transform(X, np.float64, note)

    def features(self, X: Any, estimator: Any = None) -> Any:
        """Validated rows of features, as many (and of the names) as ``estimator`` was fitted to."""
        taken: dict[str, Any] = {"accept_sparse": "csr", "dtype": [np.float64, np.float32]}
        if estimator is not None:
            return validate_data(estimator, X, reset=False, **taken)
        X = check_array(X, **taken)
        if X.shape[1] != self.n_features:
            raise ValueError(f"X has {X.shape[1]} features, but the model takes {self.n_features}.")
        return X

    def scaled(self, X: Any) -> Any:
        """Rows of features as the expansion takes them."""
        return X if self.scaler is None else self.scaler(X)

    def outputs(self, X: Any) -> Floats:
        """Outputs of the expansion for rows of features; ValueError where one is not finite."""
        return finite_values(self._values, X)

    def _values(self, X: Any) -> Floats:
        values = self.expansion.decision_values
        if self.scaler is None or not sparse.issparse(X):
            return values(self.scaled(X))
        # The scaler makes sparse rows dense: block by block, because all of them may not fit.
        slices = row_slices(X.shape[0], 8 * X.shape[1])
        return np.concatenate([values(self.scaler(X[rows])) for rows in slices])

    def scores(self, outputs: Floats) -> Floats:
        """What ``decision_function``, ``predict`` of a regressor or ``transform`` returns."""
        if self.kind == "classifier":
            return decision_values(outputs, self.scheme, len(self.classes), self.votes)
        return outputs[:, 0] if self.kind == "regressor" and self.is_flat else outputs

    def codes(self, outputs: Floats) -> Indices:
        """The number of the class that is predicted for each row."""
        return predicted_codes(outputs, self.scheme, len(self.classes), self.break_ties)

    def class_scores(self, outputs: Floats) -> Floats:
        """What probabilities are made of: one score per class, of two classes one per row.

        Of one output per pair of classes, its sums: votes jump where an output changes its sign.
        """
        if self.scheme != "one vs one":
            return self.scores(outputs)
        sums = pair_sums(outputs, len(self.classes))
        return sums[:, 1] if len(self.classes) == 2 else sums

    def probabilities(self, outputs: Floats, *, log: bool = False) -> Floats:
        """Probabilities of the classes, or their logarithms."""
        assert self.temperature is not None
        return link(self.class_scores(outputs), self.temperature, self.offset, log=log)


# -- Anything trained becomes a Model ----------------------------------------------------------


def as_model(model: Any) -> Model:
    """Gather what a prediction needs, in a form that can be saved and exported.

    Parameters
    ----------
    model : fitted estimator, KernelExpansion, Model, or the path of a LIBSVM model file
        A kernlet estimator, what :func:`kernlet.load` returned; an SVC or NuSVC; a
        OneVsRestClassifier or OneVsOneClassifier of them; a search around one of these, or a
        Pipeline of imputers, encoders, scalers, selectors and linear maps such as PCA, also in a
        ColumnTransformer, in front of one. ``read_libsvm(path, n_features)`` reads a file whose
        support vectors have fewer features than the data.

    Returns
    -------
    model : Model

    Raises
    ------
    TypeError
        For an estimator that has no support vectors.
    ValueError
        For a kernel that is a function or precomputed, a corrupt file, and a step of a Pipeline
        that a model cannot hold.
    NotFittedError

    Notes
    -----
    Decision values and classes are those of the original, with two exceptions. Where several
    classes win equally many pairs, a LIBSVM file gives the lowest label, as SVC does, and not
    the label that the file names first. Where the value of a pair is exactly 0, a
    OneVsOneClassifier gives the pair to its first class, as the decision values of SVC do.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> from sklearn.svm import SVC
    >>> from kernlet.model.model import as_model
    >>> X, y = load_iris(return_X_y=True)
    >>> model = as_model(make_pipeline(StandardScaler(), SVC()).fit(X, y))
    >>> model.scheme, model.scaler.shift.round(1)
    ('one vs one', array([5.8, 3.1, 3.8, 1.2]))
    """
    return _unwrap(model).folded()


def as_classifier(model: Any) -> Model:
    """The Model of a trained classifier, with the steps of its Pipeline as they are."""
    unwrapped = _unwrap(model)
    if unwrapped.kind != "classifier":
        raise _no_machine(model)
    return unwrapped


def _unwrap(model: Any) -> Model:
    if isinstance(model, str | PathLike):
        return _of_libsvm(read_libsvm(model))
    return _of_fitted(model)


def _of_fitted(model: Any) -> Model:
    for kinds, convert in _CONVERTERS:
        if isinstance(model, kinds):
            return convert(model)
    if hasattr(model, "model_"):  # loaded from a file, or compressed
        return model.model_
    if hasattr(model, "best_estimator_"):
        return _of_fitted(model.best_estimator_)
    if hasattr(model, "expansion_") and is_regressor(model):
        return _of_outputs(model, "regressor", is_flat=model._is_flat)
    raise _no_machine(model)


def _no_machine(model: Any) -> TypeError:
    return TypeError(
        f"{type(model).__name__} is not a kernel classifier with support vectors. Give a fitted "
        "SVC, NuSVC or kernlet classifier, a OneVsRestClassifier or OneVsOneClassifier of them, a "
        "Pipeline that ends in one, or the path of a LIBSVM model file."
    )


def _of_estimator(model: Any, expansion: KernelExpansion, kind: Kind, **rule: Any) -> Model:
    names, summary = _names(model), summary_of(model)
    return Model(expansion, kind, feature_names=names, summary=summary, **rule)


def _of_outputs(model: Any, kind: Kind, is_flat: bool = False) -> Model:
    """A kernlet estimator whose answers are the outputs of its expansion."""
    check_is_fitted(model)
    return _of_estimator(model, model.expansion_, kind, is_flat=is_flat)


def _classifier(model: Any, expansion: KernelExpansion, **rule: Any) -> Model:
    """A classifier by its expansion; without a rule one output, or one per class."""
    rule = {"scheme": "one output" if expansion.n_outputs == 1 else "one vs rest", **rule}
    return _of_estimator(model, expansion, "classifier", classes=np.asarray(model.classes_), **rule)


def _of_kernlet_classifier(model: Any) -> Model:
    check_is_fitted(model)
    return _classifier(model, model.expansion_, temperature=getattr(model, "temperature_", None))


def _of_svc(model: Any) -> Model:
    check_is_fitted(model)
    n_classes = len(model.classes_)
    if len(model.n_support_) < n_classes:
        raise ValueError(
            f"This {type(model).__name__} has {n_classes} classes and support vectors of "
            f"{len(model.n_support_)}, as happens where all rows of a class have sample_weight 0. "
            "Fit it without these rows."
        )
    has_votes = n_classes > 2 and model.decision_function_shape == "ovr"
    expansion = svc_expansion(
        *_kernel_and_vectors(model),
        as_dense(model.dual_coef_),
        model.intercept_,
        model.n_support_,
    )
    adopted = _classifier(
        model,
        expansion,
        scheme="one output" if n_classes == 2 else "one vs one",
        votes=has_votes,
        break_ties=has_votes and bool(model.break_ties),
    )
    return with_probabilities_of(adopted, model) if len(model._probA) else adopted


def svc_expansion(
    kernel: Kernel, vectors: Any, dual_coef: Floats, intercept: Floats, n_support: Any
) -> KernelExpansion:
    """The expansion of scikit-learn's arrays; of two classes it is positive for classes_[1]."""
    return _merge_centers(kernel, vectors, pair_coefficients(dual_coef, n_support), intercept)


def _of_calibrated(model: Any) -> Model:
    """A CalibratedClassifierCV of one classifier, which predicts the largest probability."""
    check_is_fitted(model)
    if len(model.calibrated_classifiers_) > 1:
        raise ValueError(
            f"This CalibratedClassifierCV averages {len(model.calibrated_classifiers_)} "
            "classifiers. Fit it with ensemble=False, which keeps one."
        )
    (calibrated,) = model.calibrated_classifiers_
    adopted = with_probabilities_of(_of_fitted(calibrated.estimator), calibrated)
    if adopted.kind != "classifier" or adopted.temperature is None:
        raise _no_machine(model)
    if adopted.scheme != "one output":
        return replace(adopted, break_ties=True)
    expansion = copy(adopted.expansion)
    object.__setattr__(expansion, "intercept", expansion.intercept - adopted.offset)
    return replace(adopted, expansion=expansion, offset=0.0, break_ties=True)


def _kernel_and_vectors(model: Any) -> tuple[Kernel, Any]:
    """Kernel and support vectors of an SVC."""
    function: Any = model.kernel
    gamma = None
    if isinstance(function, partial) and not function.args and {*function.keywords} <= {"gamma"}:
        function, gamma = function.func, function.keywords.get("gamma")
    if isinstance(function, Kernel) or function is laplacian_kernel:
        # An SVC of a function is trained on kernel values, and keeps all rows as they were given.
        vectors = check_array(model._BaseLibSVM__Xfit, accept_sparse="csr")[model.support_]
        if isinstance(function, Kernel):
            return function, vectors
        return Laplacian(1.0 / vectors.shape[1] if gamma is None else float(gamma)), vectors
    if callable(function) or function not in KERNEL_NAMES:
        kind = "a function" if callable(function) else repr(function)
        raise ValueError(
            f"The kernel of this {type(model).__name__} is {kind}, of which only the values are "
            "known. Fit it with one of the kernels rbf, poly, linear, sigmoid, with scikit-learn's "
            "laplacian_kernel, or with a kernel of kernlet.kernels such as Laplacian(0.1)."
        )
    if model.kernel == "poly" and model.degree < 1:
        raise ValueError("A polynomial kernel of degree 0 is constant. Fit with a higher degree.")
    parameters = {"gamma": float(model._gamma), "degree": model.degree, "coef0": float(model.coef0)}
    return Kernel.from_dict({"name": model.kernel, **parameters}), model.support_vectors_


def pair_coefficients(dual_coef: Floats, n_support: Any) -> Floats:
    """One row of coefficients per pair of classes, from LIBSVM's table of duals.

    The pair i < j uses the support vectors of i with their dual against j (row j - 1), and
    those of j with their dual against i (row i): each class leaves itself out of the order.
    """
    ends = np.cumsum(n_support)
    members = [slice(end - count, end) for end, count in zip(ends, n_support, strict=True)]
    coef = np.zeros((len(members) * (len(members) - 1) // 2, dual_coef.shape[1]))
    for output, (i, j) in zip(coef, combinations(range(len(members)), 2), strict=True):
        output[members[i]] = dual_coef[j - 1, members[i]]
        output[members[j]] = dual_coef[i, members[j]]
    return coef


def _of_one_vs_rest(model: Any) -> Model:
    check_is_fitted(model)
    if model.multilabel_:
        raise ValueError(
            "This OneVsRestClassifier gives a row several labels at once. Use the machines in its "
            "estimators_ one by one."
        )
    return _classifier(model, _join_binary(model))


def _of_one_vs_one(model: Any) -> Model:
    check_is_fitted(model)
    expansion = _join_binary(model)  # positive for the second class of each pair: turn the sign
    expansion = replace(expansion, coef=-expansion.coef, intercept=-expansion.intercept)
    return _classifier(model, expansion, scheme="one vs one", votes=True)


def _join_binary(model: Any) -> KernelExpansion:
    """The binary machines inside a multiclass model, as the outputs of one expansion."""
    binary = [as_classifier(estimator) for estimator in model.estimators_]
    if any(each.steps or each.scaler or each.encoding for each in binary):
        raise ValueError(
            f"Each machine in this {type(model).__name__} has its own Pipeline. Put the "
            f"{type(model).__name__} into one Pipeline instead."
        )
    expansions = [each.expansion.unfolded() for each in binary]
    kernel, *others = dict.fromkeys(expansion.kernel for expansion in expansions)
    if others:
        raise ValueError(
            f"The machines in this {type(model).__name__} have different kernels, {kernel} and "
            f'{others[0]} among them, as gamma="scale" gives each its own. Fit it with a number '
            "for gamma."
        )
    stack = sparse.vstack if sparse.issparse(expansions[0].centers) else np.vstack
    centers = stack([expansion.centers for expansion in expansions])
    coef = block_diag(*(expansion.coef for expansion in expansions))
    intercept = np.hstack([expansion.intercept for expansion in expansions])
    return _merge_centers(kernel, centers, coef, intercept)


def _of_pipeline(model: Any) -> Model:
    """The last step behind the steps that change its input; samplers do nothing in predict."""
    last = _of_fitted(model.steps[-1][1])
    steps = tuple((name, step) for name, step in model.steps[:-1] if hasattr(step, "transform"))
    if not steps:
        return last
    return replace(last, steps=steps + last.steps, feature_names=_names(steps[0][1]))


def _of_search(model: Any) -> Model:
    check_is_fitted(model)
    if not hasattr(model, "best_estimator_"):
        raise ValueError(f"Fit the {type(model).__name__} with refit=True: it kept no classifier.")
    return _of_fitted(model.best_estimator_)


def _of_libsvm(model: LibsvmModel) -> Model:
    """Labels in ascending order, and the pairs with them."""
    order = np.argsort(model.labels)
    coef, intercept = _reorder_pairs(
        pair_coefficients(model.dual_coef, model.n_support), -model.rho, order
    )
    is_binary = len(order) == 2
    if is_binary:  # a pair is positive for its first class, one output for the second
        coef, intercept = -coef, -intercept
    return Model(
        _merge_centers(model.kernel, model.centers, coef, intercept),
        "classifier",
        classes=model.labels[order],
        scheme="one output" if is_binary else "one vs one",
        votes=not is_binary,
        break_ties=False,
        summary={"estimator": "LIBSVM model file"},
    )


def _reorder_pairs(coef: Floats, intercept: Floats, order: Any) -> tuple[Floats, Floats]:
    """Outputs of the pairs of classes[order]; a pair whose classes swap changes its sign."""
    number = {pair: p for p, pair in enumerate(combinations(range(len(order)), 2))}
    pairs = list(combinations(order.tolist(), 2))
    rows = [number[min(pair), max(pair)] for pair in pairs]
    signs = np.array([1.0 if i < j else -1.0 for i, j in pairs])
    return signs[:, None] * coef[rows], signs * intercept[rows]


def _merge_centers(
    kernel: Kernel, centers: Any, coef: Floats, intercept: Floats
) -> KernelExpansion:
    """The expansion in which equal centers are one: each costs one kernel evaluation."""
    centers = sparse.csr_array(centers) if sparse.issparse(centers) else centers
    group, first = distinct_rows(centers)
    sums = np.zeros((len(first), len(coef)))
    with np.errstate(over="ignore"):
        np.add.at(sums, group, coef.T)
    if not np.isfinite(sums).all():
        raise ValueError("The coefficients of equal support vectors overflow when they are added.")
    return KernelExpansion(
        kernel, centers[first], np.ascontiguousarray(sums.T), np.array(intercept)
    )


def _names(model: Any) -> tuple[str, ...] | None:
    names = getattr(model, "feature_names_in_", None)
    return None if names is None else tuple(str(name) for name in names)


_CONVERTERS: tuple[tuple[Any, Callable[[Any], Model]], ...] = (
    (Model, lambda model: model),
    (KernelExpansion, Model),
    (FrozenEstimator, lambda model: _of_fitted(model.estimator)),
    (LibsvmModel, _of_libsvm),
    ((SVC, NuSVC), _of_svc),
    (CalibratedClassifierCV, _of_calibrated),
    (ExpansionClassifier, _of_kernlet_classifier),
    (ExpansionTransformer, lambda model: _of_outputs(model, "transformer")),
    (OneVsRestClassifier, _of_one_vs_rest),
    (OneVsOneClassifier, _of_one_vs_one),
    (Pipeline, _of_pipeline),
    (BaseSearchCV, _of_search),
)


# -- The training summary ----------------------------------------------------------------------

_ATTRIBUTES = ("n_iter_", "loo_error_bound_", "validation_score_", "choice_", "gap_", "ball_gap_")


def summary_of(model: Any) -> dict[str, Any]:
    """Estimator, parameters, certificate, path and compression of a fitted estimator, as JSON."""
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
    """A value as JSON can hold it; anything else as a short text."""
    if value is None or isinstance(value, bool | np.bool_):
        return None if value is None else bool(value)
    if isinstance(value, str):
        return value[:_MAX_LENGTH]
    if isinstance(value, Integral):  # readers in other languages have 64 bits
        return int(value) if abs(int(value)) < 2**63 else str(value)[:_MAX_LENGTH]
    if isinstance(value, Real):  # JSON has neither NaN nor infinity
        return float(value) if math.isfinite(value) else None
    if isinstance(value, dict):
        return {str(key)[:_MAX_LENGTH]: plain(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple) or (isinstance(value, np.ndarray) and value.ndim == 1):
        return [plain(entry) for entry in value][:_MAX_LENGTH]
    return " ".join(repr(value).split())[:_MAX_LENGTH]
