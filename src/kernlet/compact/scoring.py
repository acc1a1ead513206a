"""How outputs for held-out rows are scored: by default, or by any scorer of scikit-learn."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from inspect import signature
from typing import Any, ClassVar

import numpy as np
from scipy.special import log_softmax
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.metrics import get_scorer

from kernlet._typing import Floats, Indices
from kernlet.model.calibration import best_temperature

# How this works
# --------------
# Machines are compared by their outputs for rows that they were not trained on. The accuracy of a
# few hundred rows is coarse (one row of pima is 0.2 points) and says nothing of how near the others
# were; the log loss uses every row, and needs half as many folds for the same choice. Outputs of
# machines trained with smoothed labels and noise are too small, and those of overfitted ones too
# large; dividing them by the one temperature that is best for all held-out rows leaves what
# predict_proba will have. With a few hundred rows the log loss alone decides. With thousands, where
# one held-out part is enough, accuracy minus log loss does.
#
# Standard errors: a weighted mean of row values v_i with shares p_i has the standard error
# |p * (v - mean)|, and the difference of two such means |p * (v - mean) - p * (w - mean)|. A score
# that is not a mean of rows (F1, AUC) is computed for resampled rows (bootstrap), the same for all
# machines; its deviations over sqrt(n_resamples - 1) have the same two properties. A `Quality`
# is therefore a value and a vector of deviations.

_N_RESAMPLES = 50


@dataclass(frozen=True, eq=False)
class Quality:
    """A score; differences of ``deviations`` have the standard errors of differences as norms."""

    value: float
    deviations: Floats

    @property
    def standard_error(self) -> float:
        """Of the value; NaN where it was not computed."""
        return float(np.linalg.norm(self.deviations)) if len(self.deviations) else float("nan")

    def error_of_difference(self, other: Quality) -> float:
        """The paired standard error of the difference of two scores of the same rows."""
        if len(self.deviations) != len(other.deviations):  # one of them could not be scored
            return 0.0
        return float(np.linalg.norm(self.deviations - other.deviations))


def row_mean(values: Any, weights: Floats) -> Quality:
    """The weighted mean of the values of rows."""
    shares = weights / weights.sum()
    mean = float(shares @ values)
    return Quality(mean, shares * (values - mean))


@dataclass(frozen=True, eq=False)
class Validation(ABC):
    """Scores of outputs for some of the rows.

    ``targets`` and ``weights`` are those of training, which may have class weights in them;
    ``labels`` and ``sample_weight`` are what a scorer gets, where ``scoring`` asks for one.
    """

    targets: Any
    weights: Floats
    labels: Any = None
    sample_weight: Floats | None = None
    scoring: Any = None
    usual_score: ClassVar[str]
    usual_loss: ClassVar[str]

    @cached_property
    def scorer(self) -> Callable[..., float] | None:
        """The scorer that ``scoring`` names or is."""
        return None if self.scoring is None else get_scorer(self.scoring)

    @property
    def score_name(self) -> str:
        """The name of the score that users see."""
        if self.scoring is None:
            return self.usual_score
        return self.scoring if isinstance(self.scoring, str) else "score"

    def criterion(self, *, with_score: bool) -> str:
        """What machines are chosen by, in words."""
        if self.scoring is not None or not self.usual_loss:
            return f"best {self.score_name}"
        if with_score:
            return f"best {self.usual_score} minus {self.usual_loss}"
        return f"least {self.usual_loss}"

    @abstractmethod
    def row_scores(self, outputs: Floats, rows: Indices) -> Floats:
        """Values of rows whose mean is the usual score: accuracy or R2."""

    @abstractmethod
    def row_losses(self, outputs: Floats, rows: Indices) -> Floats:
        """Log losses of rows at the best temperature, or squared errors."""

    @abstractmethod
    def as_estimator(self, outputs: Floats, rows: Indices) -> Any:
        """A fitted estimator whose predictions for row numbers are the given outputs."""

    def score(self, outputs: Floats, rows: Indices, *, with_error: bool = True) -> Quality:
        """The score that users see; without a ``scorer``, accuracy or R2."""
        if not len(rows):
            return Quality(float("nan"), np.empty(0))
        if self.scorer is None:
            return row_mean(self.row_scores(outputs, rows), self.weights[rows])
        estimator = self.as_estimator(outputs, rows)
        value = self._by_scorer(estimator, rows, np.arange(len(rows)))
        if not with_error:
            return Quality(value, np.empty(0))
        random = np.random.RandomState(0)
        values = np.full(_N_RESAMPLES, value)
        for number in range(_N_RESAMPLES):
            drawn = random.randint(len(rows), size=len(rows))
            try:
                resampled = self._by_scorer(estimator, rows, drawn)
            except ValueError:  # a resample may lack a class that the scorer needs
                continue
            values[number] = resampled if np.isfinite(resampled) else value
        return Quality(value, (values - values.mean()) / np.sqrt(_N_RESAMPLES - 1))

    def quality(
        self, outputs: Floats, rows: Indices, *, with_score: bool, with_error: bool = True
    ) -> Quality:
        """What machines are chosen by: minus the loss, plus the score if asked for."""
        if not np.isfinite(outputs).all():
            return Quality(-np.inf, np.empty(0))
        if self.scorer is not None:
            return self.score(outputs, rows, with_error=with_error)
        values = -self.row_losses(outputs, rows)
        if with_score:
            values = values + self.row_scores(outputs, rows)
        return row_mean(values, self.weights[rows])

    def _by_scorer(self, estimator: Any, rows: Indices, drawn: Indices) -> float:
        assert self.scorer is not None
        assert self.sample_weight is not None
        weights = self.sample_weight[rows[drawn]]
        keywords = {}
        if _takes_weights(self.scorer) and np.any(weights != weights[0]):
            keywords["sample_weight"] = weights
        return float(self.scorer(estimator, drawn[:, None], self.labels[rows[drawn]], **keywords))


def _takes_weights(scorer: Any) -> bool:
    """Whether the metric of a scorer of scikit-learn has weights; own callables are not asked."""
    metric = getattr(scorer, "_score_func", None)
    return metric is not None and "sample_weight" in signature(metric).parameters


# -- Classes ---------------------------------------------------------------------------------


class ClassValidation(Validation):
    """Scores of a classifier; ``targets`` are class numbers."""

    usual_score: ClassVar[str] = "accuracy"
    usual_loss: ClassVar[str] = "log loss"

    def row_scores(self, outputs: Floats, rows: Indices) -> Floats:
        """Whether rows are classified correctly."""
        return np.asarray(class_numbers(outputs) == self.targets[rows], dtype=float)

    def row_losses(self, outputs: Floats, rows: Indices) -> Floats:
        """Log losses of rows at the temperature that is best for all of them."""
        codes = self.targets[rows]
        temperature = best_temperature(outputs, codes, self.weights[rows])
        logs = log_softmax(_logits(outputs) / temperature, axis=1)
        return -logs[np.arange(len(codes)), codes]

    def as_estimator(self, outputs: Floats, rows: Indices) -> Any:
        """A classifier whose probabilities are those at the best temperature."""
        temperature = best_temperature(outputs, self.targets[rows], self.weights[rows])
        return OutOfFoldClassifier(np.unique(self.labels), outputs, temperature)


class OutOfFoldClassifier(ClassifierMixin, BaseEstimator):
    """A fitted classifier that looks outputs up by row number, for scorers."""

    def __init__(self, classes: Any, outputs: Floats, temperature: float) -> None:
        self.classes, self.outputs, self.temperature = classes, outputs, temperature
        self.classes_ = classes

    def decision_function(self, X: Any) -> Floats:
        """Outputs of rows."""
        values = self.outputs[X[:, 0]]
        return values[:, 0] if values.shape[1] == 1 else values

    def predict(self, X: Any) -> Any:
        """Labels of rows."""
        return self.classes_[class_numbers(self.outputs[X[:, 0]])]

    def predict_proba(self, X: Any) -> Floats:
        """Probabilities of classes."""
        logits = _logits(self.outputs[X[:, 0]])
        return np.exp(log_softmax(logits / self.temperature, axis=1))


def class_numbers(outputs: Floats) -> Indices:
    """The class of each row: with one output, whether it is positive."""
    if outputs.shape[1] == 1:
        return (outputs[:, 0] > 0).astype(np.intp)
    return outputs.argmax(axis=1)


def _logits(outputs: Floats) -> Floats:
    """One column per class in float64: of two classes, the first has 0."""
    if outputs.shape[1] == 1:
        outputs = np.hstack([np.zeros_like(outputs), outputs])
    return outputs.astype(np.float64)


# -- Numbers ---------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class NumberValidation(Validation):
    """Scores of a regressor; ``targets`` are (labels - mean) / scale."""

    mean: Any = 0.0
    scale: float = 1.0
    usual_score: ClassVar[str] = "R2"
    usual_loss: ClassVar[str] = ""

    def row_scores(self, outputs: Floats, rows: Indices) -> Floats:
        """Values whose mean is R2 over all outputs."""
        return 1 - self.row_losses(outputs, rows)

    def row_losses(self, outputs: Floats, rows: Indices) -> Floats:
        """Squared errors over the variance of the targets."""
        targets, weights = self.targets[rows], self.weights[rows]
        mean = weights / weights.sum() @ targets
        variances = np.mean((targets - mean) ** 2, axis=1)
        variance = float(weights / weights.sum() @ variances) or 1.0
        return np.mean((outputs - targets) ** 2, axis=1) / variance

    def as_estimator(self, outputs: Floats, rows: Indices) -> Any:
        """A regressor that predicts in the units of the labels."""
        values = outputs.astype(np.float64) * self.scale + self.mean
        return OutOfFoldRegressor(values[:, 0] if self.labels.ndim == 1 else values)


class OutOfFoldRegressor(RegressorMixin, BaseEstimator):
    """A fitted regressor that looks outputs up by row number, for scorers."""

    def __init__(self, outputs: Floats) -> None:
        self.outputs = outputs
        self.is_fitted_ = True

    def predict(self, X: Any) -> Any:
        """Outputs of rows."""
        return self.outputs[X[:, 0]]
