"""Quantiles: they do not cross, cover what they should, and lose little against peers."""

import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from sklearn.ensemble import GradientBoostingRegressor
from sklearn.exceptions import DataConversionWarning
from sklearn.linear_model import QuantileRegressor
from sklearn.metrics import d2_pinball_score, mean_pinball_loss
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from kernlet import CompactKernelRegressor
from kernlet.compact.scoring import QuantileValidation
from kernlet.model.scoring import weighted_quantile

LEVELS = (0.05, 0.5, 0.95)


def noisy_sine(n_rows, seed=0):
    """A sine whose noise grows from left to right, and its true quantiles."""
    random = np.random.default_rng(seed)
    X = random.uniform(0, 6, size=(n_rows, 1))
    deviation = 0.1 + 0.15 * X[:, 0]
    return X, np.sin(X[:, 0]) + deviation * random.normal(size=n_rows), deviation


def machine(n_centers=8, **parameters):
    parameters = {"loss": "pinball", "quantile": LEVELS, "random_state": 0, **parameters}
    return CompactKernelRegressor(n_centers, **parameters)


@pytest.fixture(scope="module")
def large():
    """A machine of a large set, and the set."""
    X, y, deviation = noisy_sine(6000)
    return machine().fit(X[:4000], y[:4000]), X, y, deviation


def test_coverage_is_near_the_nominal_one(large):
    fitted, X, y, _ = large
    predicted = fitted.predict(X[4000:])
    below = (y[4000:, None] <= predicted).mean(axis=0)
    # four standard errors of a share of 2,000 rows
    np.testing.assert_allclose(below, LEVELS, atol=4 * np.sqrt(0.25 / 2000))
    inside = np.mean((predicted[:, 0] <= y[4000:]) & (y[4000:] <= predicted[:, -1]))
    assert inside == pytest.approx(0.9, abs=0.03)


def test_quantiles_follow_noise_that_grows(large):
    fitted, X, _, deviation = large
    predicted = fitted.predict(X)
    np.testing.assert_allclose(predicted[:, 1], np.sin(X[:, 0]), atol=0.25)
    width = (predicted[:, 2] - predicted[:, 0]) / (2 * 1.645 * deviation)
    assert np.abs(np.log(width)).mean() < 0.12


def test_shapes_and_attributes(large):
    fitted, X, *_ = large
    assert fitted.quantiles_ == LEVELS
    assert fitted.expansion_.n_outputs == 3
    assert fitted.predict(X[:7]).shape == (7, 3)
    X, y, _ = noisy_sine(100)
    for quantile, shape in ((0.9, (7,)), ([0.9], (7, 1)), (np.array([0.1, 0.9]), (7, 2))):
        assert machine(quantile=quantile, n_epochs=2).fit(X, y).predict(X[:7]).shape == shape
    assert machine(loss="huber", n_epochs=2).fit(X, y).quantiles_ is None
    with pytest.warns(DataConversionWarning):
        assert machine(n_epochs=2).fit(X, y[:, None]).predict(X).shape == (100, 3)


def test_scores_are_those_of_scikit_learn(large):
    fitted, X, y, _ = large
    weights = np.random.default_rng(0).uniform(0.1, 1, len(y))
    for weight in (None, weights):
        columns = zip(LEVELS, fitted.predict(X).T, strict=True)
        scores = [
            d2_pinball_score(y, column, sample_weight=weight, alpha=level)
            for level, column in columns
        ]
        assert fitted.score(X, y, weight) == pytest.approx(np.mean(scores))
    assert fitted.validation_score_ == pytest.approx(fitted.score(X, y), abs=0.03)
    assert "D2" in machine("auto", max_centers=8, n_epochs=4).fit(X[:300], y[:300]).choice_


@pytest.mark.parametrize("is_weighted", [False, True])
def test_validation_is_d2_of_sorted_outputs(is_weighted):
    random = np.random.default_rng(0)
    y, outputs = random.normal(size=400), random.normal(size=(400, 3))
    weights = random.uniform(0.5, 2, 400) if is_weighted else np.ones(400)
    validation = QuantileValidation(
        np.repeat(y[:, None], 3, axis=1), weights, 7 + 2 * y, weights, None, 7.0, 2.0, LEVELS
    )
    rows = np.arange(0, 400, 2)
    columns = np.sort(outputs[rows], axis=1)
    expected = [
        d2_pinball_score(y[rows], column, sample_weight=weights[rows], alpha=level)
        for level, column in zip(LEVELS, columns.T, strict=True)
    ]
    score = validation.score(outputs[rows], rows)
    assert score.value == pytest.approx(np.mean(expected), abs=2e-3)
    np.testing.assert_allclose(
        validation.predictions(outputs[rows], rows).predict(np.arange(200)[:, None]),
        7 + 2 * columns,
    )


def test_a_scorer_gets_all_quantiles():
    X, y, _ = noisy_sine(200)

    def width(estimator, X, y):
        predicted = estimator.predict(X)
        assert predicted.shape == (len(y), 3)
        return float(np.mean(predicted[:, 0] - predicted[:, 2]))

    fitted = machine(3, n_epochs=3, scoring=width).fit(X, y)
    assert fitted.validation_score_ < 0


@settings(max_examples=50, deadline=None)
@given(
    values=arrays(float, st.integers(1, 30), elements=st.floats(-5, 5)),
    level=st.floats(0.01, 0.99),
    seed=st.integers(0, 100),
)
def test_a_weighted_quantile_counts_copies_of_rows(values, level, seed):
    copies = np.random.default_rng(seed).integers(1, 4, len(values))
    repeated = np.sort(np.repeat(values, copies))
    share = np.arange(1, len(repeated) + 1) / len(repeated)
    clear = np.abs(share - level).min() > 1e-9
    if clear:  # where round-off does not decide
        expected = repeated[np.argmax(share >= level)]
        assert weighted_quantile(values, level, copies.astype(float)) == expected


# -- Not crossing ----------------------------------------------------------------------------------


@pytest.fixture(scope="module", params=["float32", "int8", "int4"])
def crossing(request):
    """A machine whose raw outputs cross on the rows it was trained on."""
    random = np.random.default_rng(0)
    X = random.normal(size=(150, 3))
    y = X[:, 0] * X[:, 1] + 0.1 * random.exponential(size=150)
    levels = (0.1, 0.4, 0.5, 0.6, 0.9)
    fitted = machine(20, quantile=levels, n_epochs=6, storage=request.param).fit(X, y)
    raw = fitted.expansion_.decision_values(X)
    assert (np.diff(raw, axis=1) < 0).any(axis=1).mean() > 0.05
    return fitted


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 2**31), size=st.sampled_from([0.1, 1.0, 10.0, 1e3, 1e8]))
def test_quantiles_do_not_cross(crossing, seed, size):
    X = size * np.random.default_rng(seed).normal(size=(50, 3))
    predicted = crossing.predict(X)
    assert not (np.diff(predicted, axis=1) < 0).any()
    raw = crossing.expansion_.decision_values(X)
    np.testing.assert_array_equal(predicted, np.sort(raw, axis=1))


@settings(max_examples=40, deadline=None)
@given(
    outputs=arrays(float, (6, 4), elements=st.floats(-9, 9)),
    y=arrays(float, 6, elements=st.floats(-9, 9)),
)
def test_sorting_never_increases_the_loss(outputs, y):
    levels = (0.1, 0.3, 0.6, 0.8)

    def loss(values):
        return sum(mean_pinball_loss(y, v, alpha=q) for q, v in zip(levels, values.T, strict=True))

    assert loss(np.sort(outputs, axis=1)) <= loss(outputs) + 1e-12


# -- Beside peers ----------------------------------------------------------------------------------


@pytest.mark.slow
def test_the_loss_is_less_than_that_of_linear_and_boosted_quantiles():
    random = np.random.default_rng(1)
    X = random.normal(size=(3000, 4))
    noise = np.exp(0.5 * X[:, 3]) * (random.exponential(size=3000) - 1)
    y = X[:, 0] * X[:, 1] + np.sin(2 * X[:, 2]) + 0.5 * noise
    X, X_test, y, y_test = X[:2000], X[2000:], y[:2000], y[2000:]
    ours = machine(40).fit(X, y).predict(X_test)

    def loss(predicted):
        pairs = zip(LEVELS, predicted, strict=True)
        return np.mean([mean_pinball_loss(y_test, p, alpha=q) for q, p in pairs])

    linear = [QuantileRegressor(quantile=q, alpha=0).fit(X, y).predict(X_test) for q in LEVELS]
    boosted = [
        GradientBoostingRegressor(loss="quantile", alpha=q, random_state=0)
        .fit(X, y)
        .predict(X_test)
        for q in LEVELS
    ]
    assert loss(ours.T) < 0.7 * loss(linear)
    assert loss(ours.T) < loss(boosted)


# -- What is refused, and how it fits in -----------------------------------------------------------


@pytest.mark.parametrize(
    "quantile",
    [(0.5, 0.1), (0.1, 0.1), (), (0.0, 0.5), (0.5, 1.0), (0.1, np.nan), [[0.1], [0.9]], [0.1, "a"]],
)
def test_quantiles_that_are_refused(quantile):
    X, y, _ = noisy_sine(50)
    with pytest.raises(ValueError, match="between 0 and 1 in ascending order"):
        machine(quantile=quantile).fit(X, y)


@pytest.mark.parametrize("quantile", [0.0, 1.0, "high"])
def test_a_quantile_that_is_refused(quantile):
    X, y, _ = noisy_sine(50)
    with pytest.raises(ValueError, match="'quantile' parameter"):
        machine(quantile=quantile).fit(X, y)


def test_several_targets_are_refused():
    X, y, _ = noisy_sine(50)
    with pytest.raises(ValueError, match="of one target, but y has 2 columns; fit a machine for"):
        machine().fit(X, np.stack([y, y], axis=1))


def test_scorers_of_one_prediction_are_refused_for_several_quantiles():
    X, y, _ = noisy_sine(50)
    with pytest.raises(ValueError, match="compares one prediction per row with y, and there are 3"):
        machine(scoring="r2").fit(X, y)
    machine(quantile=0.5, scoring="neg_mean_absolute_error", n_epochs=2).fit(X, y)


def test_rows_of_weight_zero_are_not_there():
    X, y, _ = noisy_sine(200)
    weights = np.r_[np.zeros(50), np.ones(150)]
    weighted = machine(n_epochs=5).fit(X, y, weights)
    without = machine(n_epochs=5).fit(X[50:], y[50:])
    np.testing.assert_array_equal(weighted.predict(X), without.predict(X))


def test_heavier_rows_pull_quantiles():
    X, _, _ = noisy_sine(400)
    y = np.arange(400) % 2.0
    light, heavy = (
        machine(2, quantile=0.5, n_epochs=30).fit(X, y, np.where(y == 1, w, 1.0)).predict(X).mean()
        for w in (0.3, 3.0)
    )
    assert light < 0.2
    assert heavy > 0.8


def test_units_do_not_matter():
    X, y, _ = noisy_sine(300)
    here, there = machine(n_epochs=20).fit(X, y), machine(n_epochs=20).fit(X, 1e6 * y - 1e7)
    np.testing.assert_allclose((there.predict(X) + 1e7) / 1e6, here.predict(X), atol=0.02)


@pytest.mark.parametrize("value", [0.0, 0.1, -1e6])
def test_constant_targets(value):
    X, _, _ = noisy_sine(60)
    fitted = machine(n_epochs=3).fit(X, np.full(60, value))
    np.testing.assert_allclose(fitted.predict(X), value, rtol=1e-5, atol=1e-5)


def test_pickles_searches_pipelines_and_warm_starts():
    X, y, _ = noisy_sine(300)
    fitted = machine(4, n_epochs=10).fit(X, y)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(fitted)).predict(X), fitted.predict(X))
    pipeline = make_pipeline(StandardScaler(), machine(4, n_epochs=10))
    assert cross_val_score(pipeline, X, y, cv=3).mean() > 0.2
    warm = machine(4, n_epochs=10, warm_start=True).fit(X, y)
    assert warm.fit(X, y).score(X, y) > 0.2
    again = machine("auto", n_epochs=5, init=fitted).fit(X, y)
    assert again.score(X, y) > 0.2
    with pytest.raises(ValueError, match="predicts 3 numbers per row, but quantile asks for 1"):
        machine("auto", quantile=0.5, init=fitted).fit(X, y)


def test_a_budget_is_kept():
    X, y, _ = noisy_sine(300)
    fitted = machine("auto", max_bytes=120, n_epochs=5).fit(X, y)
    assert fitted.nbytes_ <= 120
    assert fitted.predict(X).shape == (300, 3)
