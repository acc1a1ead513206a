"""Taking over machines that other libraries trained: the one place where signs are translated."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import combinations
from os import PathLike
from typing import Any

import numpy as np
from scipy import sparse
from scipy.linalg import block_diag
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection._search import BaseSearchCV
from sklearn.multiclass import OneVsOneClassifier, OneVsRestClassifier
from sklearn.pipeline import Pipeline
from sklearn.svm import SVC, NuSVC
from sklearn.utils.validation import check_is_fitted

from kernlet.estimators.base import ExpansionClassifier
from kernlet.estimators.libsvm import LibsvmModel, read_libsvm
from kernlet.estimators.votes import Scheme, pair_coefficients
from kernlet.expansion import KernelExpansion, distinct_rows
from kernlet.kernels import KERNEL_NAMES, Kernel, make_kernel
from kernlet.kernels.kernel import Floats

__all__ = ["Adopted", "Scheme", "adopt"]


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
    kernlet.estimators.votes.decision_values : From outputs to decision values.
    kernlet.estimators.votes.predicted_codes : From outputs to classes.
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
    >>> from kernlet.estimators.adopt import adopt
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
