"""How outputs for held-out rows are scored: by default, or by any scorer of scikit-learn."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from kernlet._typing import Floats, Indices
from kernlet.model.calibration import best_temperature
from kernlet.model.model import link
from kernlet.model.scoring import (
    ClassPredictions,
    NumberPredictions,
    Quality,
    RowScorer,
    quantile_losses,
    row_mean,
)

# How this works
# --------------
# Machines are compared by their outputs for rows that they were not trained on. The accuracy of a
# few hundred rows is coarse (one row of pima is 0.2 points) and says nothing of how near the others
# were; the log loss uses every row, and needs half as many folds for the same choice. Outputs of
# machines trained with smoothed labels and noise are too small, and those of overfitted ones too
# large; dividing them by the one temperature that is best for all held-out rows leaves what
# predict_proba will have. With a few hundred rows the log loss alone decides. With thousands, where
# one held-out part is enough, accuracy minus log loss does.


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
    def scorer(self) -> RowScorer | None:
        """The scorer that ``scoring`` names or is."""
        if self.scoring is None:
            return None
        assert self.sample_weight is not None
        return RowScorer(self.scoring, self.labels, self.sample_weight)

    @property
    def score_name(self) -> str:
        """The name of the score that users see."""
        return self.usual_score if self.scorer is None else self.scorer.name

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
    def predictions(self, outputs: Floats, rows: Indices) -> Any:
        """What the scorer is given as a fitted estimator."""

    def score(self, outputs: Floats, rows: Indices, *, with_error: bool = True) -> Quality:
        """The score that users see; without a ``scorer``, accuracy or R2."""
        if not len(rows):
            return Quality(float("nan"), np.empty(0))
        if self.scorer is None:
            return row_mean(self.row_scores(outputs, rows), self.weights[rows])
        predictions = self.predictions(outputs, rows)
        return self.scorer.quality(predictions, rows, with_error=with_error)

    def quality(
        self, outputs: Floats, rows: Indices, *, with_score: bool, with_error: bool = True
    ) -> Quality:
        """What machines are chosen by: minus the loss, plus the score if asked for."""
        if not np.isfinite(outputs).all():
            return Quality(-np.inf, np.empty(0))
        if self.scorer is not None:
            quality = self.score(outputs, rows, with_error=with_error)
            if np.isfinite(quality.value):
                return quality
            # A score that these rows do not define, such as the AUC of one class, chooses nothing.
        values = -self.row_losses(outputs, rows)
        if with_score:
            values = values + self.row_scores(outputs, rows)
        return row_mean(values, self.weights[rows])


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
        logs = link(_class_scores(outputs), self._temperature(outputs, rows), 0.0, log=True)
        return -logs[np.arange(len(codes)), codes]

    def predictions(self, outputs: Floats, rows: Indices) -> Any:
        """Those of a classifier whose probabilities are at the best temperature."""
        scores = _class_scores(outputs)
        probabilities = link(scores, self._temperature(outputs, rows), 0.0)
        return ClassPredictions(
            np.unique(self.labels), scores, class_numbers(outputs), probabilities
        )

    def _temperature(self, outputs: Floats, rows: Indices) -> float:
        return best_temperature(outputs, self.targets[rows], self.weights[rows])


def class_numbers(outputs: Floats) -> Indices:
    """The class of each row: with one output, whether it is positive."""
    if outputs.shape[1] == 1:
        return (outputs[:, 0] > 0).astype(np.intp)
    return outputs.argmax(axis=1)


def _class_scores(outputs: Floats) -> Floats:
    """Decision values in float64, one per row of two classes."""
    return (outputs[:, 0] if outputs.shape[1] == 1 else outputs).astype(np.float64)


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

    def predictions(self, outputs: Floats, rows: Indices) -> Any:
        """Those of a regressor, in the units of the labels."""
        values = outputs.astype(np.float64) * self.scale + self.mean
        return NumberPredictions(values[:, 0] if self.labels.ndim == 1 else values)


@dataclass(frozen=True, eq=False)
class QuantileValidation(NumberValidation):
    """Scores of several quantiles, with a column of equal targets for each.

    The score is D2: the share of the pinball loss of the best constants that the machine saves,
    averaged over the quantiles. Outputs of a row count in ascending order, as they are predicted.
    """

    quantiles: tuple[float, ...] = ()
    usual_score: ClassVar[str] = "D2"

    def row_losses(self, outputs: Floats, rows: Indices) -> Floats:
        """Pinball losses over those of the quantiles of all rows, averaged over the quantiles."""
        targets, weights = self.targets[rows, 0], self.weights[rows]
        return quantile_losses(targets, outputs, self.quantiles, weights)

    def predictions(self, outputs: Floats, rows: Indices) -> Any:
        """Those of a regressor: a column per quantile, of one quantile a number per row."""
        values = np.sort(outputs, axis=1).astype(np.float64) * self.scale + self.mean
        return NumberPredictions(values[:, 0] if len(self.quantiles) == 1 else values)
