"""compress(): a fitted machine made small."""

from __future__ import annotations

from os import PathLike
from typing import Any

from sklearn.base import (
    clone,
)
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.utils._param_validation import (
    validate_parameter_constraints,
)

from kernlet.compression.estimator import (
    Compressed,
    CompressedClassifier,
    CompressedNoveltyDetector,
    CompressedRegressor,
)
from kernlet.input_errors import check_number_types
from kernlet.model.convert import unwrapped
from kernlet.model.model import Model
from kernlet.progress import Progress
from kernlet.threads import single_thread

# What the rows of a record are, in words.
_ROWS_GIVEN = "the rows given, which may include training rows"


@single_thread()
def compress(
    model: Any,
    n_centers: Any,
    X: Any = None,
    y: Any = None,
    *,
    sample_weight: Any = None,
    n_starts: int = 1,
    max_iter: int = 200,
    validation_fraction: float = 0.2,
    scoring: Any = None,
    verbose: int = 0,
    random_state: Any = None,
) -> Any:
    """Make a fitted kernel machine small: a classifier, a regressor or a novelty detector.

    Parameters
    ----------
    model : fitted estimator, Model or path
        An SVC or NuSVC (its kernel a name, scikit-learn's ``laplacian_kernel`` or a Kernel), a
        OneVsRestClassifier or OneVsOneClassifier of them, a CalibratedClassifierCV of one with
        ``ensemble=False``; an SVR, NuSVR, KernelRidge or GaussianProcessRegressor; a OneClassSVM;
        a Pipeline or search around one of these, a kernlet estimator, or the path of a LIBSVM model
        file. Arrays of an SVC become a Model by :func:`kernlet.model.arrays.from_svc_arrays`.
    n_centers : int, float or "auto"
        A number of centers, a fraction of the model's, or the smallest number whose loss in
        accuracy (R2 of a regressor) against the model, on held-out rows of X, is within one
        standard error of that loss. Rows that the model was not trained on make that choice
        honest. Without y, a regressor is compared with the model's own values, as a novelty
        detector is with its labels, and may lose 0.01.
    X : array-like of shape (n_samples, n_features), default=None
        Rows to choose the coefficients by, to calibrate probabilities and to report figures on,
        preferably not those that the model was trained on. Without them the coefficients are
        projected in feature space. For a Model, rows of features, behind its encoding.
    y : array-like of shape (n_samples,) or (n_samples, n_outputs), default=None
        Labels. With them one-vs-rest coefficients fitted to y are tried too, unless the model has
        a ``class_weight``, and the result has probabilities. Or targets of a regressor, to which
        ridge regressions are tried too; of quantiles the one target, which only D2 of the pinball
        loss is measured on. A novelty detector takes none.
    sample_weight : array-like of shape (n_samples,), default=None
        Weights that the model was trained with.
    n_starts : int, default=1
        Searches for centers, of which the best is kept.
    max_iter : int, default=200
        Steps of a search.
    validation_fraction : float, default=0.2
        Share of the rows of X on which choices are made, and probabilities calibrated.
    scoring : str, callable or None, default=None
        The score by which coefficients and numbers of centers are chosen: accuracy or R2, or a
        scorer of scikit-learn such as "balanced_accuracy". A callable ``(estimator, X, y)`` is
        given row numbers as X. None for a novelty detector.
    verbose : int, default=0
        Print progress: 1 for each task, 2 for the steps below them.
    random_state : int, RandomState instance or None, default=None
        Draws the validation part and the starts of the search.

    Returns
    -------
    small : CompressedClassifier, CompressedRegressor or CompressedNoveltyDetector
        Fitted; its ``compression_`` records what was done and what it cost. It does not contain
        the model: ``estimator`` is an unfitted clone, the path, or None for what cannot be cloned.

    Notes
    -----
    Probabilities are the softmax of the decision values over one temperature. It is fitted on a
    part of X for which the coefficients were not made: to y, or to the probabilities of the model
    where it has them. A model with probabilities keeps them without X too, less exactly.

    A compressed novelty detector flags as many rows of X as the model does.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from sklearn.svm import SVC
    >>> from kernlet import compress
    >>> X, y = load_digits(return_X_y=True)
    >>> small = compress(SVC().fit(X[:900], y[:900]), 50, X[:900], y[:900], random_state=0)
    >>> small.compression_.centers_before > 400, small.score(X[900:], y[900:]) > 0.9
    (True, True)
    """
    original = unwrapped(model)
    small: Compressed = _class_of(original, type(model).__name__)(
        None,
        n_centers,
        n_starts=n_starts,
        max_iter=max_iter,
        validation_fraction=validation_fraction,
        scoring=scoring,
        verbose=verbose,
        random_state=random_state,
    )
    constraints = dict(small._parameter_constraints)
    del constraints["estimator"]  # fitted already, and may be a file
    parameters = {name: getattr(small, name) for name in constraints}
    check_number_types(parameters, constraints, "compress")
    validate_parameter_constraints(constraints, parameters, caller_name="compress")
    with Progress.start(small) as progress:
        given = (X, y, sample_weight)
        compressed = small._compress(model, original, n_centers, given, _ROWS_GIVEN, progress)
    small.estimator = _unfitted(model)
    return small._set_model(*compressed)


def _unfitted(model: Any) -> Any:
    """A clone of an estimator, or None where it could only be cloned with all that it learned."""
    if isinstance(model, str | PathLike):
        return model
    if not hasattr(model, "get_params"):
        return None
    copy = clone(model)
    frozen = (part for part in copy.get_params().values() if isinstance(part, FrozenEstimator))
    return None if any(map(_is_fitted, (copy, *frozen))) else copy


def _is_fitted(model: Any) -> bool:
    """Whether a machine has centers."""
    try:
        unwrapped(model)
    except (NotFittedError, TypeError):
        return False
    return True


def _class_of(model: Model, name: str) -> Any:
    """The estimator that a machine becomes when it is compressed."""
    for kind in (CompressedClassifier, CompressedRegressor, CompressedNoveltyDetector):
        if model.kind == kind._kind:
            return kind
    raise TypeError(
        f"{name} is not a kernel classifier, regressor or novelty detector: compress takes what "
        "predicts."
    )
