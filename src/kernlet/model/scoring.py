"""Scores of predictions for held-out rows, by scorers of scikit-learn, and their errors."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from inspect import signature
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.metrics import d2_pinball_score, get_scorer, get_scorer_names
from sklearn.utils._param_validation import StrOptions
from sklearn.utils.validation import check_is_fitted

from kernlet._typing import Floats, Indices

# How this works
# --------------
# Standard errors: a weighted mean of row values v_i with shares p_i has the standard error
# |p * (v - mean)|, and the difference of two such means |p * (v - mean) - p * (w - mean)|. A score
# that is not a mean of rows (F1, AUC) is computed for resampled rows (bootstrap), the same for all
# machines; its deviations over sqrt(n_resamples - 1) have the same two properties. A `Quality`
# is therefore a value and a vector of deviations.


class _ScorerNames(StrOptions):
    """The names of scikit-learn's scorers, sixty of which are too many for an error message."""

    def __str__(self) -> str:
        return "a str of sklearn.metrics.get_scorer_names()"


#: Constraints on the parameter ``scoring``.
SCORING_CONSTRAINTS: list[Any] = [_ScorerNames(set(get_scorer_names())), callable, None]

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
    total = weights.sum()
    mean = float(weights @ values / total)  # exact for equal weights: equal accuracies are ties
    return Quality(mean, weights / total * (values - mean))


@dataclass(frozen=True, eq=False)
class RowScorer:
    """A scorer, by name or as a callable, for rows with known labels and weights."""

    scoring: Any
    labels: Any
    weights: Floats

    @property
    def name(self) -> str:
        """The name of the score that users see."""
        return scorer_name(self.scoring)

    @cached_property
    def _scorer(self) -> Callable[..., float]:
        return get_scorer(self.scoring)

    def quality(self, predictions: Any, rows: Indices, *, with_error: bool = True) -> Quality:
        """The score of predictions for some rows, numbered from 0."""
        try:
            value = self._value(predictions, rows, np.arange(len(rows)))
        except (AttributeError, TypeError, ValueError) as error:
            raise ValueError(
                f"The score {self.name} of {len(rows)} rows cannot be computed: {error}"
            ) from error
        if not with_error:
            return Quality(value, np.empty(0))
        random = np.random.RandomState(0)
        values = np.full(_N_RESAMPLES, value)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # users cannot do anything about them
            for number in range(_N_RESAMPLES):
                drawn = random.randint(len(rows), size=len(rows))
                try:
                    resampled = self._value(predictions, rows, drawn)
                except ValueError:  # a resample may lack a class that the scorer needs
                    continue
                values[number] = resampled if np.isfinite(resampled) else value
        return Quality(value, (values - values.mean()) / np.sqrt(_N_RESAMPLES - 1))

    def _value(self, predictions: Any, rows: Indices, drawn: Indices) -> float:
        weights, keywords = self.weights[rows[drawn]], {}
        if _takes_weights(self._scorer) and np.any(weights != weights[0]):
            keywords["sample_weight"] = weights
        labels = self.labels[rows[drawn]]
        return float(self._scorer(predictions, drawn[:, None], labels, **keywords))


def quantile_score(
    y: Any, values: Any, quantiles: Sequence[float], sample_weight: Any = None
) -> float:
    """D2 of the pinball loss, averaged over the quantiles."""
    columns = np.asarray(values).reshape(len(values), -1).T
    scores = [
        d2_pinball_score(np.ravel(y), column, sample_weight=sample_weight, alpha=level)
        for level, column in zip(quantiles, columns, strict=True)
    ]
    return float(np.mean(scores))


class QuantileScoreMixin:
    """The ``score`` of a regressor that may predict quantiles; before RegressorMixin."""

    quantiles_: Any

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """R2 of the predictions; of quantiles, D2 of the pinball loss, averaged over them.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : array-like of shape (n_samples,) or (n_samples, n_outputs)
        sample_weight : array-like of shape (n_samples,), default=None

        Returns
        -------
        score : float
            1 for perfect predictions, 0 for those of the best constant. See
            :func:`sklearn.metrics.d2_pinball_score`.
        """
        check_is_fitted(self)
        if self.quantiles_ is None:
            return float(super().score(X, y, sample_weight))  # type: ignore[misc]
        predictions = self.predict(X)  # type: ignore[attr-defined]
        return quantile_score(y, predictions, self.quantiles_, sample_weight)


def quantile_losses(
    targets: Floats, outputs: Floats, quantiles: Sequence[float], weights: Floats
) -> Floats:
    """Pinball losses of rows over those of the best constants, averaged over the quantiles.

    Outputs of a row count in ascending order, as they are predicted.
    """
    losses = np.zeros(len(targets))
    for level, values in zip(quantiles, np.sort(outputs, axis=1).T, strict=True):
        constant = weighted_quantile(targets, level, weights)
        least = float(np.average(pinball(targets, constant, level), weights=weights))
        losses += pinball(targets, values, level) / (least or 1.0)
    return losses / len(quantiles)


def pinball(targets: Floats, values: Any, level: float) -> Floats:
    """The pinball loss of each row."""
    errors = targets - values
    return np.maximum(level * errors, (level - 1) * errors)


def weighted_quantile(values: Floats, level: float, weights: Floats) -> float:
    """The least value that at least this share of the weight does not exceed."""
    order = np.argsort(values, kind="stable")
    sums = np.cumsum(weights[order])
    place = np.searchsorted(sums, level * sums[-1])
    return float(values[order[min(int(place), len(values) - 1)]])


def check_quantile_scoring(scoring: Any, n_quantiles: int) -> None:
    """Refuse a scorer of scikit-learn for several quantiles, which it cannot compare with y."""
    if isinstance(scoring, str) and n_quantiles > 1:
        raise ValueError(
            f"scoring={scoring!r} compares one prediction per row with y, and there are "
            f"{n_quantiles} quantiles: leave it out, and the pinball loss chooses."
        )


def scorer_name(scoring: Any) -> str:
    """The name of a scorer, or of the function that it is."""
    return scoring if isinstance(scoring, str) else getattr(scoring, "__name__", "score")


def _takes_weights(scorer: Any) -> bool:
    """Whether the metric of a scorer of scikit-learn has weights; own callables are not asked."""
    metric = getattr(scorer, "_score_func", None)
    return metric is not None and "sample_weight" in signature(metric).parameters


class ClassPredictions(ClassifierMixin, BaseEstimator):
    """What a classifier predicts, looked up by row number; to scorers a fitted classifier."""

    def __init__(self, classes: Any, values: Floats, codes: Indices, probabilities: Floats) -> None:
        self.classes, self.values, self.codes = classes, values, codes
        self.probabilities = probabilities
        self.classes_ = classes

    def decision_function(self, X: Any) -> Floats:
        """Decision values of rows."""
        return self.values[X[:, 0]]

    def predict(self, X: Any) -> Any:
        """Labels of rows."""
        return self.classes_[self.codes[X[:, 0]]]

    def predict_proba(self, X: Any) -> Floats:
        """Probabilities of the classes."""
        return self.probabilities[X[:, 0]]


class NumberPredictions(RegressorMixin, BaseEstimator):
    """What a regressor predicts, looked up by row number; to scorers a fitted regressor."""

    def __init__(self, values: Floats) -> None:
        self.values = values
        self.is_fitted_ = True

    def predict(self, X: Any) -> Any:
        """Predicted numbers of rows."""
        return self.values[X[:, 0]]
