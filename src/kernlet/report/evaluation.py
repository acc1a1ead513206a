"""How well a machine does on rows with known answers, in numbers."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from statistics import median
from typing import Any

import numpy as np
from sklearn.metrics import confusion_matrix, precision_recall_fscore_support, r2_score

from kernlet.export import ShippedModel


@dataclass(frozen=True)
class ClassScores:
    """One line of the table of classes."""

    name: str
    n_rows: int
    precision: float
    recall: float
    f1: float


@dataclass(frozen=True)
class Latency:
    """CPU seconds a row: alone, and in a batch of many."""

    single: float
    batched: float
    n_batch: int


@dataclass(frozen=True, eq=False)
class Evaluation:
    """What was measured on some rows.

    Parameters
    ----------
    n_rows : int
    score : float
        Accuracy, or R2 of a regressor.
    standard_error : float or None
        Of the accuracy.
    majority : float or None
        Share of the most frequent class.
    labels : tuple of str
        Classes, with those that only the rows have.
    confusion : ndarray of shape (n_labels, n_labels) or None
        True class by predicted class.
    classes : tuple of ClassScores
    rmse : float or None
        Of a regressor.
    predictions : ndarray
    latency : Latency
    """

    n_rows: int
    score: float
    standard_error: float | None
    majority: float | None
    labels: tuple[str, ...]
    confusion: Any
    classes: tuple[ClassScores, ...]
    rmse: float | None
    predictions: Any
    latency: Latency


def evaluate(model: ShippedModel, X: Any, y: Any) -> Evaluation:
    """Measure a machine.

    Parameters
    ----------
    model : ShippedModel
        A classifier or a regressor.
    X : ndarray of shape (n_rows, n_features)
        Before scaling.
    y : ndarray of shape (n_rows,)

    Returns
    -------
    evaluation : Evaluation
    """
    outputs = model.outputs(X)
    latency = _latency(model, X)
    if model.kind == "regressor":
        values = model.scores(outputs)
        rmse = float(np.sqrt(np.mean((values - y) ** 2)))
        score = float(r2_score(y, values))
        return Evaluation(len(y), score, None, None, (), None, (), rmse, values, latency)
    predicted = model.classes[model.codes(outputs)]
    names = np.unique(np.concatenate([model.classes.astype(str), np.asarray(y).astype(str)]))
    if np.asarray(y).dtype.kind in "iuf" and model.classes.dtype.kind in "iuf":
        names = np.unique(np.concatenate([model.classes, y])).astype(str)
    truth, guess = np.asarray(y).astype(str), predicted.astype(str)
    precision, recall, f1, counts = precision_recall_fscore_support(
        truth, guess, labels=names, zero_division=0.0
    )
    accuracy = float(np.mean(truth == guess))
    return Evaluation(
        n_rows=len(y),
        score=accuracy,
        standard_error=float(np.sqrt(accuracy * (1 - accuracy) / len(y))),
        majority=float(counts.max() / len(y)),
        labels=tuple(names.tolist()),
        confusion=confusion_matrix(truth, guess, labels=names),
        classes=tuple(
            ClassScores(str(name), int(n), float(p), float(r), float(f))
            for name, n, p, r, f in zip(names, counts, precision, recall, f1, strict=True)
        ),
        rmse=None,
        predictions=predicted,
        latency=latency,
    )


def _latency(model: ShippedModel, X: Any) -> Latency:
    batch = X[:1000]
    one = X[:1]
    single = _seconds(lambda: model.outputs(one), 50)
    return Latency(single, _seconds(lambda: model.outputs(batch), 7) / len(batch), len(batch))


def _seconds(call: Callable[[], Any], repeats: int) -> float:
    """Median CPU time of a call."""
    times = []
    for _ in range(repeats):
        start = time.process_time()
        call()
        times.append(time.process_time() - start)
    return median(times)
