"""Scores of predictions that are known, and their paired standard errors."""

import warnings

import numpy as np
import pytest
from sklearn.metrics import accuracy_score, make_scorer

from kernlet.model.scoring import ClassPredictions, RowScorer, row_mean

RANDOM = np.random.default_rng(0)


def test_standard_errors_of_means_and_of_their_difference():
    a, b = RANDOM.normal(size=(2, 400))
    weights = np.ones(400)
    one, two = row_mean(a, weights), row_mean(b, weights)
    assert one.value == pytest.approx(a.mean())
    assert one.standard_error == pytest.approx(a.std() / 20)
    assert one.error_of_difference(two) == pytest.approx((a - b).std() / 20)
    assert one.error_of_difference(one) == 0


def test_equal_accuracies_are_ties():
    weights = np.ones(49)
    means = {row_mean(RANDOM.permutation(49) < 30, weights).value for _ in range(50)}
    assert means == {30 / 49}


def predictions(codes):
    return ClassPredictions(np.array(["a", "b"]), 2.0 * codes - 1, codes, np.eye(2)[codes])


def test_resampled_errors_are_those_of_row_means():
    codes, one, two = RANDOM.integers(2, size=(3, 300))
    labels, rows = np.array(["a", "b"])[codes], np.arange(300)
    scorer = RowScorer("accuracy", labels, np.ones(300))
    first, second = (scorer.quality(predictions(machine), rows) for machine in (one, two))
    means = [row_mean(machine == codes, np.ones(300)) for machine in (one, two)]
    assert (first.value, second.value) == pytest.approx([mean.value for mean in means])
    assert first.standard_error == pytest.approx(means[0].standard_error, rel=0.3)
    expected = means[0].error_of_difference(means[1])
    assert first.error_of_difference(second) == pytest.approx(expected, rel=0.3)


@pytest.mark.parametrize("scoring", ["neg_log_loss", "balanced_accuracy", "roc_auc"])
def test_resamples_without_a_class_do_not_count_and_warn_of_nothing(scoring):
    codes = np.r_[np.zeros(30, dtype=int), 1]
    scorer = RowScorer(scoring, np.array(["a", "b"])[codes], np.ones(31))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        quality = scorer.quality(predictions(codes), np.arange(31))
    assert np.isfinite([quality.value, quality.standard_error]).all()


def test_names_of_scorers():
    def near(model, X, y):
        return 0.0

    named = [RowScorer(scoring, None, None).name for scoring in ("f1", near)]
    assert [*named, RowScorer(make_scorer(accuracy_score), None, None).name] == [
        "f1",
        "near",
        "score",
    ]
