"""How each kind of fitted estimator becomes a Model."""

from __future__ import annotations

import math
from collections.abc import Callable
from copy import copy
from dataclasses import asdict, replace
from itertools import combinations
from numbers import Integral, Real
from os import PathLike
from typing import Any

import numpy as np
from scipy import sparse
from scipy.linalg import block_diag
from sklearn.base import is_outlier_detector, is_regressor
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import TransformedTargetRegressor
from sklearn.frozen import FrozenEstimator
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import Kernel as ProcessKernel
from sklearn.kernel_ridge import KernelRidge
from sklearn.model_selection._search import BaseSearchCV
from sklearn.multiclass import OneVsOneClassifier, OneVsRestClassifier
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.svm import SVC, SVR, NuSVC, NuSVR, OneClassSVM
from sklearn.utils import check_array
from sklearn.utils.validation import check_is_fitted

from kernlet._typing import Floats
from kernlet.affine import AffineMap
from kernlet.expansion import KernelExpansion, distinct_rows
from kernlet.kernels.bandwidth import KERNEL_NAMES
from kernlet.kernels.base import Kernel
from kernlet.kernels.gram import as_dense
from kernlet.model.calibration import with_probabilities_of
from kernlet.model.foreign_kernels import ForeignKernel, of_function, of_name, of_process
from kernlet.model.libsvm import LibsvmModel, read_libsvm
from kernlet.model.model import Kind, Model, as_classifier
from kernlet.quantization import QuantizedExpansion
from kernlet.sklearn_base import ExpansionClassifier, ExpansionDetector, ExpansionTransformer

# LIBSVM stores, per support vector of class i, its n_classes - 1 duals against the other classes.
# Here all pairs share one set of centers, and coef has one row per pair: n_classes / 2 times as
# many numbers, most of them 0, in exchange for one matrix product for all pairs.

_MAX_LENGTH = 500  # characters of a parameter in the summary, entries of a list


def unwrapped(model: Any) -> Model:
    """The Model of anything trained, with the steps of its Pipeline as they are."""
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
        quantiles = getattr(model, "quantiles_", None)
        return replace(_of_outputs(model, "regressor", model._is_flat), quantiles=quantiles)
    if hasattr(model, "expansion_") and is_outlier_detector(model):
        offset = float(np.ravel(model.offset_)[0])
        return _of_estimator(model, model.expansion_, "novelty", offset=offset)
    raise no_machine(model)


def no_machine(model: Any) -> TypeError:
    """The error of what has no support vectors."""
    return TypeError(
        f"{type(model).__name__} is not a kernel machine with centers. Give a fitted SVC, NuSVC, "
        "SVR, NuSVR, OneClassSVM, KernelRidge, GaussianProcessRegressor or kernlet estimator, a "
        "OneVsRestClassifier or OneVsOneClassifier, a Pipeline that ends in one, or the path of a "
        "LIBSVM model file."
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


def _of_svr(model: Any) -> Model:
    check_is_fitted(model)
    return _of_estimator(model, _one_output(model), "regressor")


def _of_one_class(model: Any) -> Model:
    check_is_fitted(model)
    return _of_estimator(model, _one_output(model), "novelty", offset=float(model.offset_[0]))


def _of_detector(model: Any) -> Model:
    check_is_fitted(model)
    return _of_estimator(model, model.expansion_, "novelty", offset=float(model.offset_))


def _one_output(model: Any) -> KernelExpansion:
    """The expansion of a machine of LIBSVM without classes."""
    kernel, vectors = _kernel_and_vectors(model)
    return _merge_centers(kernel, vectors, as_dense(model.dual_coef_), model.intercept_)


def _of_kernel_ridge(model: Any) -> Model:
    check_is_fitted(model)
    function, n_features = model.kernel, int(model.X_fit_.shape[1])
    if callable(function):
        # called with single rows and kernel_params, unless it is one of a Gaussian process
        kernel = None if model.kernel_params else of_function(function, n_features)
    else:
        parameters = {name: getattr(model, name) for name in ("gamma", "degree", "coef0")}
        kernel = of_name(function, n_features, parameters)
    if kernel is None:
        raise _values_only(model, "rbf, laplacian, poly, linear, sigmoid")
    return _kernel_regressor(model, kernel, model.X_fit_, model.dual_coef_)


def _of_gaussian_process(model: Any) -> Model:
    """The mean that a GaussianProcessRegressor predicts."""
    check_is_fitted(model, "alpha_")
    kernel = of_process(model.kernel_, int(np.shape(model.X_train_)[1]))
    flat = np.ravel(model.alpha_) if model.alpha_.shape[1:] == (1,) else model.alpha_
    mean, deviation = np.ravel(model._y_train_mean), np.ravel(model._y_train_std)
    adopted = _kernel_regressor(model, kernel, model.X_train_, flat * deviation)
    expansion = adopted.expansion
    return replace(adopted, expansion=replace(expansion, intercept=expansion.intercept + mean))


def _kernel_regressor(model: Any, kernel: ForeignKernel, centers: Any, coef: Floats) -> Model:
    """A regressor sum_j coef_j k(x, z_j), for coef of shape (n,) or (n, n_outputs)."""
    if kernel.kernel is None:
        raise ValueError(
            f"The kernel of this {type(model).__name__} is constant: it predicts the same for "
            "every row, and has nothing to keep."
        )
    scaler = kernel.scaler
    columns = coef.reshape(len(coef), -1).T
    points = centers if scaler is None else scaler(centers)
    intercept = kernel.constant * columns.sum(axis=1)
    expansion = _merge_centers(kernel.kernel, points, kernel.factor * columns, intercept)
    return _of_estimator(model, expansion, "regressor", is_flat=coef.ndim == 1, scaler=scaler)


def _of_transformed_target(model: Any) -> Model:
    """A regressor whose target was scaled and shifted."""
    check_is_fitted(model)
    adopted, step = _of_fitted(model.regressor_), model.transformer_
    is_identity = isinstance(step, FunctionTransformer) and step.func is step.inverse_func is None
    if adopted.kind != "regressor":
        raise no_machine(model.regressor_)
    if not is_identity:
        expansion = adopted.expansion
        if isinstance(expansion, QuantizedExpansion):
            raise ValueError(
                "The machine in this TransformedTargetRegressor is packed, and its target is "
                "scaled: train it without the TransformedTargetRegressor, as it scales a target "
                "itself; scale several of different units before the fit, and undo it after "
                "predict."
            )
        try:
            map = AffineMap.from_scaler(step, "transformer")
        except ValueError:
            raise ValueError(
                f"The transformer {type(step).__name__} of this TransformedTargetRegressor is not "
                "a scale and a shift: give a StandardScaler, MinMaxScaler, MaxAbsScaler or "
                "RobustScaler."
            ) from None
        coef = expansion.coef / map.scale[:, None]
        intercept = expansion.intercept / map.scale + map.shift
        adopted = replace(adopted, expansion=replace(expansion, coef=coef, intercept=intercept))
    return replace(adopted, is_flat=model._training_dim == 1, summary=summary_of(model))


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
        raise no_machine(model)
    if adopted.scheme != "one output":
        return replace(adopted, break_ties=True)
    expansion = copy(adopted.expansion)
    object.__setattr__(expansion, "intercept", expansion.intercept - adopted.offset)
    return replace(adopted, expansion=expansion, offset=0.0, break_ties=True)


def _kernel_and_vectors(model: Any) -> tuple[Kernel, Any]:
    """Kernel and support vectors of an SVC."""
    if callable(model.kernel):
        # An SVC of a function is trained on kernel values, and keeps all rows as they were given.
        vectors = check_array(model._BaseLibSVM__Xfit, accept_sparse="csr")[model.support_]
        found = of_function(model.kernel, vectors.shape[1])
        if found is None or isinstance(model.kernel, ProcessKernel):
            raise _values_only(model, "rbf, poly, linear, sigmoid")
        assert found.kernel is not None
        return found.kernel, vectors
    if model.kernel not in KERNEL_NAMES:
        raise _values_only(model, "rbf, poly, linear, sigmoid")
    if model.kernel == "poly" and model.degree < 1:
        raise ValueError("A polynomial kernel of degree 0 is constant. Fit with a higher degree.")
    parameters = {"gamma": float(model._gamma), "degree": model.degree, "coef0": float(model.coef0)}
    return Kernel.from_dict({"name": model.kernel, **parameters}), model.support_vectors_


def _values_only(model: Any, names: str) -> ValueError:
    kind = "a function" if callable(model.kernel) else repr(model.kernel)
    return ValueError(
        f"The kernel of this {type(model).__name__} is {kind}, of which only the values are "
        f"known. Fit it with one of the kernels {names}, with scikit-learn's "
        "laplacian_kernel, or with a kernel of kernlet.kernels such as Laplacian(0.1)."
    )


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
    summary = {"estimator": "LIBSVM model file"}
    if model.labels is None:
        expansion = _merge_centers(model.kernel, model.centers, model.dual_coef, -model.rho)
        if model.svm_type == "one_class":
            return Model(expansion, "novelty", offset=float(model.rho[0]), summary=summary)
        return Model(expansion, "regressor", summary=summary)
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
        summary=summary,
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
    ((SVR, NuSVR), _of_svr),
    (OneClassSVM, _of_one_class),
    (KernelRidge, _of_kernel_ridge),
    (GaussianProcessRegressor, _of_gaussian_process),
    (TransformedTargetRegressor, _of_transformed_target),
    (CalibratedClassifierCV, _of_calibrated),
    (ExpansionClassifier, _of_kernlet_classifier),
    (ExpansionDetector, _of_detector),
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
