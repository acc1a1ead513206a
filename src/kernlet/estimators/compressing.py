"""Compressing a machine that is fitted already."""

from __future__ import annotations

from typing import Any

from sklearn.utils._param_validation import validate_parameter_constraints

from kernlet.estimators.adopt import adopt
from kernlet.estimators.compressed import CompressedClassifier


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
    random_state: Any = None,
) -> CompressedClassifier:
    """Make a fitted kernel machine small.

    Parameters
    ----------
    model : fitted classifier or path
        An SVC or NuSVC, a OneVsRestClassifier or OneVsOneClassifier of them, a Pipeline or
        search around one, a kernlet classifier, or the path of a LIBSVM model file.
    n_centers : int, float or "auto"
        A number of centers, a fraction of the model's, or the smallest number that stays within
        one standard error of the model's accuracy on part of X, y. Rows that the model was not
        trained on make that choice honest.
    X : array-like of shape (n_samples, n_features), default=None
        Rows to choose the coefficients by, and to report agreement on. Without them the
        coefficients are projected in feature space.
    y : array-like of shape (n_samples,), default=None
        Labels. With them one-vs-rest coefficients fitted to y are tried too, unless the model has
        a ``class_weight``.
    sample_weight : array-like of shape (n_samples,), default=None
        Weights that the model was trained with.
    n_starts, max_iter, validation_fraction, random_state : see CompressedClassifier

    Returns
    -------
    small : CompressedClassifier
        Fitted; its ``compression_`` tells what was done and what it cost.

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
    small = CompressedClassifier(
        model,
        n_centers,
        n_starts=n_starts,
        max_iter=max_iter,
        validation_fraction=validation_fraction,
        random_state=random_state,
    )
    constraints = dict(small._parameter_constraints)
    del constraints["estimator"]  # fitted already, and may be a file
    parameters = {name: getattr(small, name) for name in constraints}
    validate_parameter_constraints(constraints, parameters, caller_name="compress")
    small.estimator_ = model
    small._compress(adopt(model), n_centers, X, y, sample_weight)
    return small
