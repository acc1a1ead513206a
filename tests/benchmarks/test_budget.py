"""Machines on a budget: their limits, and what they are without one."""

from itertools import islice

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import naive
from benchmarks import budget
from benchmarks.budget import METHODS, Training, random_passes

GAMMA = 0.5


def task(seed=0, n_rows=60, noise=0.1):
    """Two classes that are not linearly separable, a few signs wrong; no kernel value ties."""
    random = np.random.RandomState(seed)
    X = random.standard_normal((n_rows, 3))
    signs = np.where(X[:, 0] * X[:, 1] + 0.3 * X[:, 2] > 0, 1.0, -1.0)
    return Training(X, np.where(random.uniform(size=n_rows) < noise, -signs, signs), GAMMA)


def orders(n_rows, n_passes, seed=0):
    return list(islice(random_passes(n_rows, seed), n_passes))


def last(machines):
    return list(machines)[-1]


# Forgetron


@given(st.floats(1e-6, 1), st.floats(-20, 20), st.floats(1e-3, 10))
def test_shrinking_is_the_largest_factor_allowed(weight, margin, allowed):
    factor = budget.shrinking(weight, margin, allowed)
    assert 0 < factor <= 1
    assert budget.deviation(factor * weight, factor * margin) <= allowed * (1 + 1e-9) + 1e-12
    if factor < 1:
        larger = np.linspace(factor, 1, 100)[1:]
        assert all(budget.deviation(x * weight, x * margin) > allowed - 1e-9 for x in larger)


@pytest.mark.parametrize("n_stored", [3, 10, 25])
@pytest.mark.parametrize("seed", range(3))
def test_forgetron_is_its_twin(n_stored, seed):
    data = task(seed)
    passes = orders(60, 4, seed)
    rows, coef = last(budget.forgetron(data.K, data.signs, n_stored, passes))
    stored, total, n_mistakes = naive.forgetron(
        data.K, data.signs, np.concatenate(passes), n_stored
    )
    assert total <= 15 / 32 * n_mistakes + 1e-9
    assert len(rows) <= n_stored
    ours, theirs = np.zeros(60), np.zeros(60)
    np.add.at(ours, rows, coef)
    for i, weight in stored:
        theirs[i] += weight * data.signs[i]
    np.testing.assert_allclose(ours, theirs, atol=1e-9)


@given(st.integers(0, 1000), st.integers(1, 12))
def test_weights_of_a_forgetron_stay_within_one(seed, n_stored):
    data = task(seed, noise=0.4)
    for rows, coef in budget.forgetron(data.K, data.signs, n_stored, orders(60, 3)):
        assert len(rows) == len(coef) <= n_stored
        assert np.all(np.abs(coef) <= 1)
        assert np.all(np.sign(coef) == data.signs[rows])


def test_a_forgetron_with_room_is_a_perceptron():
    data, passes = task(), orders(60, 6)
    rows, coef = last(budget.forgetron(data.K, data.signs, 400, passes))
    counts = naive.kernel_perceptron(data.K, data.signs, np.concatenate(passes))
    np.testing.assert_array_equal(np.bincount(rows, minlength=60), counts)
    assert set(np.abs(coef)) == {1.0}


# Projectron


@pytest.mark.parametrize("margin_updates", [False, True])
@pytest.mark.parametrize("threshold", [0.1, 0.4])
@pytest.mark.parametrize("n_stored", [5, 60])
def test_projectron_is_its_twin(n_stored, threshold, margin_updates):
    for seed in range(3):
        data, passes = task(seed), orders(60, 4, seed)
        found = last(
            budget.projectron(
                data.K,
                data.signs,
                n_stored,
                passes,
                threshold=threshold,
                margin_updates=margin_updates,
            )
        )
        support, coef = naive.projectron(
            data.K, data.signs, np.concatenate(passes), n_stored, threshold, margin_updates
        )
        assert found.rows.tolist() == support
        assert len(support) <= n_stored
        np.testing.assert_allclose(found.last, coef, rtol=1e-6, atol=1e-8)


def test_a_projectron_of_threshold_zero_is_a_perceptron():
    data, passes = task(), orders(60, 6)
    found = last(
        budget.projectron(data.K, data.signs, 60, passes, threshold=0.0, margin_updates=False)
    )
    counts = naive.kernel_perceptron(data.K, data.signs, np.concatenate(passes))
    values = data.K @ (counts * data.signs)
    np.testing.assert_allclose(data.K[:, found.rows] @ found.last, values, atol=1e-6)


def test_the_mean_of_a_projectron_is_that_of_all_its_hypotheses():
    data, order = task(), orders(60, 1)[0]
    options = {"threshold": 0.2}
    mean = np.zeros(60)
    for n in range(1, 61):
        found = last(budget.projectron(data.K, data.signs, 15, [order[:n]], **options))
        mean += data.K[:, found.rows] @ found.last / 60
    np.testing.assert_allclose(data.K[:, found.rows] @ found.mean, mean, atol=1e-8)


@given(st.integers(0, 1000), st.integers(1, 20), st.floats(0.01, 0.9))
def test_the_span_of_a_projectron_only_grows(seed, n_stored, threshold):
    data = task(seed, noise=0.4)
    before = []
    for found in budget.projectron(
        data.K, data.signs, n_stored, orders(60, 3), threshold=threshold
    ):
        assert len(set(found.rows.tolist())) == len(found.rows) <= n_stored
        assert found.rows.tolist()[: len(before)] == before
        before = found.rows.tolist()


# BSGD


@given(st.floats(1e-3, 1), st.floats(1, 50), st.floats(0, 8))
def test_no_other_merge_costs_less(a, ratio, exponent):
    b = a * ratio
    h, merged, cost = (x[0] for x in budget.best_merge(a, np.array([b]), np.array([exponent])))

    def weight(h):
        return a * np.exp(-exponent * h**2) + b * np.exp(-exponent * (1 - h) ** 2)

    others = weight(np.linspace(0, 1, 5001))
    assert merged >= others.max() * (1 - 1e-9)
    assert merged == pytest.approx(weight(h))
    # The paper's search, on the half where the maximum is single.
    assert merged == pytest.approx(weight(naive.golden_section(weight, 0.5, 1)), rel=1e-7)
    # The cost is the squared distance in feature space: a, b and the negative of the merged.
    distances = exponent * np.array([[0, 1, h**2], [1, 0, (1 - h) ** 2], [h**2, (1 - h) ** 2, 0]])
    coef = np.array([a, b, -merged])
    assert cost == pytest.approx(coef @ np.exp(-distances) @ coef, abs=1e-9 * (a + b) ** 2)


def test_the_cheapest_partner_is_merged():
    for seed in range(20):
        random = np.random.RandomState(seed)
        centers, weights = random.standard_normal((7, 2)), random.standard_normal(7)
        costs = {}
        small = int(np.argmin(np.abs(weights)))
        K = naive.gram(lambda x, z: naive.rbf(x, z, GAMMA), centers, centers)
        for j in range(7):
            if j != small and weights[j] * weights[small] > 0:
                a, b, k = weights[small], weights[j], K[small, j]
                h = np.linspace(0, 1, 2001)
                c = a * k ** (h**2) + b * k ** ((1 - h) ** 2)
                costs[j] = a * a + b * b + 2 * a * b * k - (c * c).max()
        after, left = centers.copy(), weights.copy()
        assert budget.merge_smallest(after, left, GAMMA) == 6
        # What the machine lost, as a squared distance in feature space.
        both = np.vstack([centers, after[:6]])
        coef = np.concatenate([weights, -left[:6]])
        K = naive.gram(lambda x, z: naive.rbf(x, z, GAMMA), both, both)
        assert coef @ K @ coef == pytest.approx(min(costs.values()), abs=1e-5)


def test_a_center_without_another_of_its_sign_is_dropped():
    centers, weights = np.arange(6.0).reshape(3, 2), np.array([1.0, -0.5, 2.0])
    assert budget.merge_smallest(centers, weights, GAMMA) == 2
    assert weights[:2].tolist() == [1.0, 2.0]
    assert centers[:2].tolist() == [[0.0, 1.0], [4.0, 5.0]]


def test_bsgd_with_room_is_pegasos():
    data, passes = task(), orders(60, 5)
    found = last(budget.bsgd(data.X, data.signs, 300, passes, gamma=GAMMA, regularization=0.01))
    coef, intercept = naive.pegasos(data.K, data.signs, np.concatenate(passes), 0.01)
    from_centers = naive.gram(lambda x, z: naive.rbf(x, z, GAMMA), data.X, found.centers)
    np.testing.assert_allclose(from_centers @ found.coef, data.K @ coef, atol=1e-8)
    assert found.intercept == pytest.approx(intercept)


@given(st.integers(0, 1000), st.integers(1, 12))
def test_bsgd_keeps_its_budget(seed, n_stored):
    data = task(seed, noise=0.4)
    for found in budget.bsgd(
        data.X, data.signs, n_stored, orders(60, 3), gamma=GAMMA, regularization=0.01
    ):
        assert len(found.centers) == len(found.coef) <= n_stored
        assert np.isfinite(found.coef).all()


# Comparison


@pytest.mark.slow
@pytest.mark.parametrize("title", METHODS)
def test_a_chosen_machine_keeps_the_budget_and_learns(title):
    data, unseen = task(n_rows=120, noise=0.0), task(seed=1, n_rows=400, noise=0.0)
    machine = budget.train(title, data, 40, budget.choose(title, data, 40))
    assert machine.n_centers <= 40
    assert unseen.accuracy(machine) > 0.8
    again = budget.train(title, data, 40, budget.choose(title, data, 40))
    assert np.array_equal(machine.coef, again.coef)


@pytest.mark.parametrize("has_intercept", [False, True])
def test_the_intercept_of_a_perceptron_is_a_constant_kernel(has_intercept):
    data = task()
    rows, coef = last(budget.forgetron(data.kernel(has_intercept), data.signs, 9, orders(60, 2)))
    values = data.expansion(rows, coef, has_intercept).decision_values(data.X)[:, 0]
    np.testing.assert_allclose(values, data.kernel(has_intercept)[:, rows] @ coef, atol=1e-12)


@pytest.mark.parametrize("title", METHODS)
def test_the_best_hypothesis_has_fewest_errors_of_all_passes(title):
    data, method = task(noise=0.3), METHODS[title]
    choice = budget.Choice(method.settings[-1], 8, "best")
    kept = list(budget.machines(method, data, 7, choice, ("last", "best"), seed=0))
    accuracies = [data.accuracy(last) for last, _ in kept]
    assert [data.accuracy(best) for _, best in kept] == np.maximum.accumulate(accuracies).tolist()
    assert np.array_equal(budget.train(title, data, 7, choice).coef, kept[-1][1].coef)
