"""Scores of held-out rows, by row means and by scikit-learn's scorers."""

import numpy as np
import pytest
from scipy.special import log_softmax
from sklearn import metrics
from sklearn.utils._param_validation import InvalidParameterError

from kernlet import CompactKernelClassifier, CompactKernelRegressor
from kernlet.compact.scoring import ClassValidation, NumberValidation
from kernlet.model.calibration import best_temperature

N_ROWS = 200
RANDOM = np.random.default_rng(0)
ROWS = RANDOM.permutation(N_ROWS)[:150]
BY_LABELS = ("accuracy", "balanced_accuracy", "f1_macro", "matthews_corrcoef")


def classes_of(n_classes, scoring=None):
    codes = RANDOM.integers(n_classes, size=N_ROWS)
    labels = np.array(["a", "b", "c"])[codes]
    n_outputs = n_classes if n_classes > 2 else 1
    signal = np.eye(n_classes)[codes] if n_outputs > 1 else 2.0 * codes[:, None] - 1
    outputs = (signal + RANDOM.normal(size=(N_ROWS, n_outputs)))[ROWS]
    sample_weight = RANDOM.uniform(0.5, 2, N_ROWS)
    weights = sample_weight * np.array([1.0, 5.0, 1.0])[codes]
    return ClassValidation(codes, weights, labels, sample_weight, scoring), outputs


@pytest.mark.parametrize("n_classes", [2, 3])
def test_by_default_log_loss_at_the_best_temperature_decides(n_classes):
    validation, outputs = classes_of(n_classes)
    codes, weights = validation.targets[ROWS], validation.weights[ROWS]
    logits = np.hstack([0 * outputs, outputs]) if n_classes == 2 else outputs
    temperature = best_temperature(outputs, codes, weights)
    logs = log_softmax(logits / temperature, axis=1)
    loss = -np.average(logs[np.arange(len(ROWS)), codes], weights=weights)
    accuracy = np.average(logits.argmax(axis=1) == codes, weights=weights)
    assert validation.quality(outputs, ROWS, with_score=False).value == pytest.approx(-loss)
    both = validation.quality(outputs, ROWS, with_score=True).value
    assert both == pytest.approx(accuracy - loss)
    assert validation.score(outputs, ROWS).value == pytest.approx(accuracy)
    # a machine whose outputs are all larger is as good
    scaled = validation.quality(3 * outputs, ROWS, with_score=False).value
    assert scaled == pytest.approx(-loss, rel=1e-3)


@pytest.mark.slow
@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize(
    "scoring",
    [
        "accuracy",
        "balanced_accuracy",
        "f1_macro",
        "neg_log_loss",
        "roc_auc_ovr",
        "matthews_corrcoef",
    ],
)
def test_scorers_see_predictions_and_sample_weights(n_classes, scoring):
    validation, outputs = classes_of(n_classes, scoring)
    y, weights = validation.labels[ROWS], validation.sample_weight[ROWS]
    logits = np.hstack([0 * outputs, outputs]) if n_classes == 2 else outputs
    predicted = np.unique(validation.labels)[logits.argmax(axis=1)]
    quality = validation.score(outputs, ROWS)
    expected = {
        "accuracy": lambda: metrics.accuracy_score(y, predicted, sample_weight=weights),
        "balanced_accuracy": lambda: metrics.balanced_accuracy_score(
            y, predicted, sample_weight=weights
        ),
        "f1_macro": lambda: metrics.f1_score(y, predicted, average="macro", sample_weight=weights),
        "matthews_corrcoef": lambda: metrics.matthews_corrcoef(y, predicted, sample_weight=weights),
    }
    if scoring in expected:
        assert quality.value == pytest.approx(expected[scoring]())
    assert np.isfinite(quality.value)
    assert 0 < quality.standard_error < 0.2
    assert validation.quality(outputs, ROWS, with_score=True).value == quality.value
    assert quality.error_of_difference(validation.score(outputs, ROWS)) == 0
    assert np.isnan(validation.score(outputs, ROWS, with_error=False).standard_error)


def test_an_own_scorer_is_called_without_weights():
    def errors(estimator, X, y):
        return -np.sum(estimator.predict(X) != y)

    validation, outputs = classes_of(3, errors)
    assert validation.score(outputs, ROWS).value == round(validation.score(outputs, ROWS).value) < 0
    assert validation.score_name == "errors"


def test_outputs_that_are_not_numbers_are_worst():
    validation, outputs = classes_of(3)
    outputs[3] = np.nan
    assert validation.quality(outputs, ROWS, with_score=True).value == -np.inf


@pytest.mark.parametrize("n_outputs", [1, 2])
def test_regressors_are_scored_in_the_units_of_y(n_outputs):
    targets = RANDOM.normal(size=(N_ROWS, n_outputs))
    outputs = (targets + 0.1 * RANDOM.normal(size=targets.shape))[ROWS]
    labels = 7 + 50 * targets if n_outputs > 1 else 7 + 50 * targets[:, 0]
    weights = RANDOM.uniform(0.5, 2, N_ROWS)
    plain = NumberValidation(targets, weights)
    expected = metrics.r2_score(
        targets[ROWS], outputs, sample_weight=weights[ROWS], multioutput="variance_weighted"
    )
    assert plain.score(outputs, ROWS).value == pytest.approx(expected)
    assert plain.quality(outputs, ROWS, with_score=False).value == pytest.approx(expected - 1)
    scorer = "neg_mean_absolute_error"
    scored = NumberValidation(targets, weights, labels, weights, scorer, 7.0, 50.0)
    error = metrics.mean_absolute_error(targets[ROWS], outputs, sample_weight=weights[ROWS])
    assert scored.score(outputs, ROWS).value == pytest.approx(-50 * error)


@pytest.fixture(scope="module")
def rare():
    random = np.random.default_rng(0)
    y = np.r_[np.zeros(230), np.ones(20)].astype(int)
    return random.normal(size=(250, 3)) + 1.5 * y[:, None], y


@pytest.mark.slow
@pytest.mark.parametrize("parameters", [{"max_bytes": 100}, {}], ids=["bytes", "auto"])
@pytest.mark.parametrize("scoring", ["balanced_accuracy", "f1_macro", "roc_auc"])
def test_few_rows_are_chosen_by_any_scorer(rare, parameters, scoring):
    machine = CompactKernelClassifier(scoring=scoring, n_epochs=8, random_state=0, **parameters)
    machine.fit(*rare)
    assert f"best {scoring} of" in machine.choice_
    assert f"({scoring} {machine.validation_score_:.4f}" in machine.choice_
    full = [point.score for point in machine.path_ if point.is_full]
    assert round(machine.validation_score_, 6) in full
    if parameters:  # another shape must be better by a standard error
        plain = [
            p.score for p in machine.path_ if p.is_full and p.kernel == "rbf" and not p.n_steps
        ]
        assert round(machine.validation_score_, 6) >= max(plain[:3])


@pytest.mark.slow
@pytest.mark.parametrize("parameters", [{"max_bytes": 100}, {}], ids=["bytes", "auto"])
def test_many_rows_are_chosen_by_any_scorer(rare, parameters):
    X, y = (np.repeat(array, 9, axis=0) for array in rare)
    X = X + 0.3 * np.random.default_rng(1).normal(size=X.shape)
    machine = CompactKernelClassifier(scoring="f1_macro", n_epochs=2, random_state=0, **parameters)
    assert "best f1_macro of" in machine.fit(X, y).choice_
    assert metrics.f1_score(y, machine.predict(X), average="macro") > 0.6


def test_regressors_take_scorers():
    X = np.linspace(0, 6, 200)[:, None]
    machine = CompactKernelRegressor(
        max_bytes="100", scoring="neg_mean_absolute_error", n_epochs=10, random_state=0
    )
    machine.fit(X, 1000 * np.sin(X[:, 0]))
    assert -500 < machine.validation_score_ < -1
    assert "best neg_mean_absolute_error" in machine.choice_


def test_an_unknown_scorer_is_refused(rare):
    with pytest.raises(InvalidParameterError, match=r"'scoring' parameter.*'goodness'"):
        CompactKernelClassifier(scoring="goodness").fit(*rare)


def test_a_score_that_is_not_defined_chooses_nothing():
    # Classes of three rows have none held out, so that the AUC of the held-out rows is NaN.
    rows = np.random.default_rng(0).normal(size=(43, 2))
    labels = np.repeat([0, 1], [40, 3])
    machine = CompactKernelClassifier(2, scoring="roc_auc", n_epochs=2, random_state=0)
    with pytest.warns(UserWarning, match="roc_auc is not defined on the held-out rows.*log loss"):
        machine.fit(rows, labels)
    assert np.isnan(machine.validation_score_)


def test_a_scorer_of_classes_for_a_regression_is_refused():
    rows = np.random.default_rng(0).normal(size=(40, 2))
    with pytest.raises(ValueError, match="The score roc_auc of 8 rows cannot be computed"):
        CompactKernelRegressor(2, scoring="roc_auc", n_epochs=1).fit(rows, rows[:, 0])


def test_names_of_scorers_are_not_all_listed():
    with pytest.raises(InvalidParameterError, match="get_scorer_names") as refusal:
        CompactKernelClassifier(2, scoring="no_such").fit(np.eye(4), [0, 1, 0, 1])
    assert len(str(refusal.value)) < 300
