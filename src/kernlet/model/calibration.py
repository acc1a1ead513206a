"""Probabilities from decision values: one temperature, and for two classes an offset."""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import Any

import numpy as np
from scipy.optimize import minimize, minimize_scalar
from scipy.special import expit, log_expit, log_softmax

from kernlet._typing import Floats, Indices
from kernlet.model.model import Model
from kernlet.sklearn_base import check_weights, label_codes

# How this works
# --------------
# Probabilities are the softmax of (scores - offset) / temperature, for two classes the sigmoid of
# that. Temperature scaling (Guo et al., 2017) fits the temperature to labels by the cross-entropy:
# one number cannot overfit, and it changes no prediction. Platt (1999) also fits an offset for two
# classes; it is kept here only to reproduce machines that have one, because with it a row may be
# predicted as the class of the smaller probability.

# The search covers exp(-6) to exp(6) times the size of the scores, which is any useful temperature:
# at the lower end all probabilities are 0 or 1, at the upper end all are equal.
_LOG_RANGE = 6.0


def best_temperature(scores: Floats, codes: Indices, weights: Floats) -> float:
    """The temperature of least cross-entropy on rows with known classes; 1 without any rows.

    ``scores`` have one column per class, or one column for two classes.
    """
    if not len(scores) or not np.isfinite(scores).all():
        return 1.0
    n_rows, n_classes = len(scores), max(2, scores.shape[1])
    # One additional row of every class (Laplace smoothing) keeps the optimum finite where all
    # rows are classified correctly.
    targets = np.full((n_rows, n_classes), 1 / (n_classes * (n_rows + 1)))
    targets[np.arange(n_rows), codes] += n_rows / (n_rows + 1)
    return _temperature(scores, targets, weights)


def reproduce(scores: Floats, probabilities: Floats) -> tuple[float, float]:
    """The temperature and offset whose probabilities are closest to given ones.

    ``scores`` are decision values. The offset is 0 for more than two classes. What a sigmoid or
    one temperature made of these scores is recovered exactly.
    """
    if scores.ndim == 2:
        return _temperature(scores, probabilities, np.ones(len(scores))), 0.0
    size = _size(scores)
    values, targets = scores.astype(np.float64) / size, probabilities[:, 1]

    def cross_entropy(point: Floats) -> tuple[float, Floats]:
        logits = point[0] * values + point[1]
        loss = -np.mean(targets * log_expit(logits) + (1 - targets) * log_expit(-logits))
        errors = expit(logits) - targets
        return float(loss), np.array([np.mean(errors * values), np.mean(errors)])

    # A sigmoid that falls with the score contradicts the predictions: the slope stays positive.
    bounds = [(np.exp(-_LOG_RANGE), np.exp(_LOG_RANGE)), (None, None)]
    options = {"ftol": 1e-15, "gtol": 1e-10}
    start = np.array([1.0, 0.0])
    solution = minimize(
        cross_entropy, start, jac=True, method="L-BFGS-B", bounds=bounds, options=options
    )
    slope, shift = solution.x
    return float(size / slope), float(-shift * size / slope)


def _temperature(scores: Floats, targets: Floats, weights: Floats) -> float:
    """The temperature of least cross-entropy with given probabilities."""
    logits = scores.astype(np.float64)
    if logits.shape[1] == 1:
        logits = np.hstack([np.zeros_like(logits), logits])
    size = _size(scores)

    def cross_entropy(log_temperature: float) -> float:
        logs = log_softmax(logits / (size * np.exp(log_temperature)), axis=1)
        return -float(weights @ np.sum(targets * logs, axis=1))

    bounds = (-_LOG_RANGE, _LOG_RANGE)
    return float(size * np.exp(minimize_scalar(cross_entropy, bounds=bounds, method="bounded").x))


def _size(scores: Floats) -> float:
    """Root mean square of the scores, so that the search does not depend on their unit."""
    return float(np.sqrt(np.mean(np.square(scores, dtype=np.float64)))) or 1.0


def calibrated(model: Model, X: Any, y: Any, sample_weight: Any = None) -> Model:
    """A classifier with probabilities: one temperature, fitted to rows with known classes.

    Predictions do not change. On rows that the model was trained on, its decision values are
    larger than on others and so the probabilities too confident: give held-out rows.

    Parameters
    ----------
    model : Model
        A classifier.
    X : array-like or table
        Rows as the model takes them.
    y : array-like of shape (n_samples,)
        Their classes.
    sample_weight : array-like of shape (n_samples,), default=None
        Their weights.

    Returns
    -------
    model : Model

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.svm import SVC
    >>> from kernlet.model.calibration import calibrated
    >>> from kernlet.model.model import as_model
    >>> X, y = load_iris(return_X_y=True)
    >>> svm = as_model(SVC().fit(X[::2], y[::2]))
    >>> model = calibrated(svm, X[1::2], y[1::2])
    >>> model.probabilities(model.outputs(X[:1])).round(2)
    array([[0.99, 0.01, 0.  ]])
    """
    if model.kind != "classifier":
        raise ValueError("X and y make probabilities, which only a classifier has.")
    rows = model.rows(X)
    codes, weights = label_codes(model.classes, y), check_weights(sample_weight, rows)
    return calibrated_on(model, model.outputs(rows), codes, weights)


def calibrated_on(
    model: Model, outputs: Floats, codes: Indices, sample_weight: Any = None
) -> Model:
    """The same, from the outputs of a classifier and class numbers."""
    scores = model.class_scores(outputs)
    columns = scores[:, None] if scores.ndim == 1 else scores
    weights = np.ones(len(codes)) if sample_weight is None else np.asarray(sample_weight, float)
    return replace(model, temperature=best_temperature(columns, codes, weights), offset=0.0)


def with_probabilities_of(model: Model, estimator: Any) -> Model:
    """The Model of an SVC or a CalibratedClassifierCV with the probabilities that it has.

    Exactly where they are a sigmoid of the score of two classes; otherwise as closely as a sigmoid
    or, for several classes, one temperature reproduces them at the centers.
    """
    mapped = model.expansion.mapped
    outputs = mapped.decision_values(mapped.centers)
    scores = model.class_scores(outputs)
    if hasattr(estimator, "calibrators"):
        probabilities = _of_calibrators(estimator, model.scores(outputs))
    elif len(model.classes) == 2:
        # LIBSVM's sigmoid 1 / (1 + exp(A f + B)) is that of the first class, and its f is -scores.
        second = expit(estimator._probB[0] - estimator._probA[0] * scores)
        probabilities = np.stack([1 - second, second], axis=1)
    else:
        with warnings.catch_warnings():  # centers have no feature names
            warnings.simplefilter("ignore", UserWarning)
            probabilities = estimator.predict_proba(mapped.centers)
    temperature, offset = reproduce(scores, probabilities)
    return replace(model, temperature=temperature, offset=offset)


def _of_calibrators(calibrated: Any, scores: Floats) -> Floats:
    """Probabilities of one of the ``calibrated_classifiers_`` of a CalibratedClassifierCV."""
    columns = scores[:, None] if scores.ndim == 1 else scores
    if calibrated.method == "temperature":
        return calibrated.calibrators[0].predict(columns)
    of_column = zip(calibrated.calibrators, columns.T, strict=True)
    values = np.stack([calibrator.predict(column) for calibrator, column in of_column], axis=1)
    if values.shape[1] == 1:
        return np.hstack([1 - values, values])
    return values / np.maximum(values.sum(axis=1, keepdims=True), np.finfo(float).tiny)
