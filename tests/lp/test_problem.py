"""The margin problem with its outputs and bound, and the pound loss."""

from dataclasses import FrozenInstanceError, replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.optimize import linprog

import naive
from kernlet.kernels.linear import Linear
from kernlet.kernels.rbf import RBF
from kernlet.lp.problem import L1Margin, PoundLoss, relative_gap
from support.margin_problems import gram, one_output

GAMMA = 0.5


def _problem(seed, n_rows=8, n_candidates=5):
    rng = np.random.default_rng(seed)
    X, Z = rng.normal(size=(n_rows, 2)), rng.normal(size=(n_candidates, 2))
    costs = (
        rng.choice([-1.0, 1.0], size=n_rows),
        rng.uniform(0.0, 3.0, size=n_rows),
        rng.uniform(0.1, 2.0, size=n_candidates),
    )
    problem = one_output(X, RBF(GAMMA), Z, *costs).outputs(0)
    return problem, naive.gram(lambda x, z: naive.rbf(x, z, GAMMA), X, Z), rng


def _naive_objective(problem, K, beta, intercept):
    total = 0.0
    for row, sign, nu in zip(K, problem.signs, problem.error_weights, strict=True):
        total += nu * max(0.0, 1 - sign * (row @ beta + intercept))
    return total + sum(c * abs(b) for c, b in zip(problem.coef_weights, beta, strict=True))


def _objective(problem, beta, intercept):
    values = gram(problem).dot(beta) + intercept
    return problem.objective(problem.slacks(values), np.abs(beta))


def _bound(problem, t):
    return problem.bound(t, gram(problem).T.dot(problem.signs * t))


seeds = st.integers(0, 10_000)
scales = st.floats(0.01, 100)
quickly = settings(max_examples=60, deadline=None)


@quickly
@given(seed=seeds, scale=scales)
def test_objective_is_errors_plus_coefficients(seed, scale):
    problem, K, rng = _problem(seed)
    beta, intercept = scale * rng.normal(size=5), scale * rng.normal()
    expected = _naive_objective(problem, K, beta, intercept)
    assert _objective(problem, beta, intercept) == pytest.approx(expected, rel=1e-10)


@quickly
@given(seed=seeds, scale=scales)
def test_slacks_are_the_smallest_feasible_errors(seed, scale):
    problem, _, rng = _problem(seed)
    values = scale * rng.normal(size=8)
    y = problem.slacks(values)
    room = problem.signs * values + y - 1
    tolerance = 1e-12 * (1 + scale)
    assert y.min() >= 0
    assert room.min() >= -tolerance
    np.testing.assert_allclose(np.minimum(y, room), 0, atol=tolerance)  # one of the two is tight


@quickly
@given(seed=seeds, scale=scales)
def test_balanced_duals_are_feasible_and_never_larger(seed, scale):
    problem, _, rng = _problem(seed)
    duals = scale * rng.normal(size=8)
    before = duals.copy()
    t = problem.balanced(duals)
    assert t.min() >= 0
    assert np.all(t <= problem.error_weights)
    assert np.all(t <= np.maximum(duals, 0))
    assert problem.signs @ t == pytest.approx(0, abs=1e-12)
    np.testing.assert_array_equal(duals, before)


@quickly
@given(seed=seeds)
def test_balancing_takes_from_the_heavier_side_only(seed):
    problem, _, rng = _problem(seed)
    duals = rng.uniform(0, 1, size=8) * problem.error_weights
    t = problem.balanced(duals)
    totals = [duals[problem.signs == sign].sum() for sign in (1, -1)]
    assert t.sum() == pytest.approx(2 * min(totals))


@quickly
@given(seed=seeds)
def test_balancing_twice_is_balancing_once(seed):
    problem, _, rng = _problem(seed)
    t = problem.balanced(rng.uniform(0, 3, size=8))
    np.testing.assert_allclose(problem.balanced(t), t, rtol=1e-12)


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_one_class_alone_balances_to_zero(sign):
    problem, _, _ = _problem(0)
    alone = replace(problem, signs=np.full(8, sign))
    np.testing.assert_array_equal(alone.balanced(np.ones(8)), 0)


@settings(max_examples=150, deadline=None)
@given(seed=seeds, primal=scales, dual=scales)
def test_weak_duality(seed, primal, dual):
    problem, _, rng = _problem(seed)
    beta, intercept = primal * rng.normal(size=5), primal * rng.normal()
    t = problem.balanced(dual * rng.normal(size=8))
    objective = _objective(problem, beta, intercept)
    assert 0 <= _bound(problem, t) <= objective * (1 + 1e-12)


@quickly
@given(seed=seeds, dual=scales)
def test_bound_is_the_value_of_a_feasible_dual(seed, dual):
    problem, K, rng = _problem(seed)
    t = problem.balanced(dual * rng.normal(size=8))
    shrink = _bound(problem, t) / t.sum() if t.any() else 1.0
    assert shrink <= 1 + 1e-12
    correlations = K.T @ (problem.signs * t * shrink)
    assert np.all(np.abs(correlations) <= problem.coef_weights * (1 + 1e-9))


def test_feasible_duals_are_not_shrunk():
    problem, _, rng = _problem(1)
    t = 1e-3 * problem.balanced(rng.uniform(0, 1, size=8))
    assert t.any()
    assert _bound(problem, t) == t.sum()


def _solve(problem, K):
    """Optimum and duals of the linear program as the docstring writes it, beta = p - q."""
    m, n = K.shape
    DK = problem.signs[:, None] * K
    solution = linprog(
        np.concatenate([problem.coef_weights, problem.coef_weights, [0.0], problem.error_weights]),
        A_ub=-np.hstack([DK, -DK, problem.signs[:, None], np.eye(m)]),
        b_ub=-np.ones(m),
        bounds=[(0, None)] * (2 * n) + [(None, None)] + [(0, None)] * m,
    )
    return solution.x[:n] - solution.x[n : 2 * n], solution.x[2 * n], -solution.ineqlin.marginals


@pytest.mark.parametrize("seed", range(5))
def test_objective_and_bound_meet_at_the_optimum(seed):
    problem, K, _ = _problem(seed, n_rows=20, n_candidates=10)
    beta, intercept, t = _solve(problem, K)
    bound = _bound(problem, problem.balanced(t))
    assert bound > 0
    assert _objective(problem, beta, intercept) == pytest.approx(bound, rel=1e-8)


def test_no_candidates_leave_the_duals_as_they_are():
    problem, _, rng = _problem(2)
    t = problem.balanced(rng.uniform(0, 3, size=8))
    empty = replace(problem, coef_weights=np.empty(0))
    assert empty.bound(t, np.empty(0)) == t.sum()


def test_problem_is_frozen():
    with pytest.raises(FrozenInstanceError):
        _problem(0)[0].signs = None


# -- Several outputs --

random = np.random.RandomState(0)
X = random.randn(50, 2)
OUTPUTS = L1Margin(
    X,
    RBF(1.0),
    X[:5],
    np.where(random.randn(50, 3) > 0, 1, -1).astype(np.int8),
    random.uniform(0, 2, (50, 3)),
    random.uniform(0.5, 2, (5, 3)),
)


def test_views_of_outputs():
    slacks, absolute = random.rand(50, 3), random.rand(5, 3)
    subset = OUTPUTS.outputs(np.array([2, 0]))
    for number in (0, 2):
        alone = OUTPUTS.outputs(number)
        expected = OUTPUTS.error_weights[:, number] @ slacks[:, number]
        expected += OUTPUTS.coef_weights[:, number] @ absolute[:, number]
        assert alone.objective(slacks[:, number], absolute[:, number]) == pytest.approx(expected)
        same = subset.outputs([2, 0].index(number))
        assert same.objective(slacks[:, number], absolute[:, number]) == pytest.approx(expected)


def test_candidates_of_a_sample_are_those_of_all_rows():
    everything = replace(OUTPUTS, centers=None, coef_weights=np.ones((50, 3)))
    sample = everything.sample(X[:4], np.arange(4))
    assert sample.shape == (4, 50)
    np.testing.assert_array_equal(sample.points, X)


def test_errors_of_a_sample_weigh_as_much_as_those_of_all_rows():
    numbers = np.array([3, 14, 15])
    sample = OUTPUTS.sample(X[numbers], numbers)
    assert (*sample.shape, sample.n_outputs) == (3, 5, 3)
    np.testing.assert_allclose(sample.error_weights.sum(axis=0), OUTPUTS.error_weights.sum(axis=0))


def test_costs_are_linearised_for_all_outputs_at_once():
    pound, slacks, absolute = PoundLoss(10.0, 5.0), random.rand(50, 3), random.rand(5, 3)
    linear = pound.linearized(OUTPUTS, slacks, absolute)
    np.testing.assert_allclose(linear.error_weights, OUTPUTS.error_weights * pound.slope(slacks))
    np.testing.assert_allclose(linear.coef_weights, OUTPUTS.coef_weights * pound.slope(absolute))


# -- The pound loss --

N_ROWS, N_CANDIDATES = 6, 4

losses = st.builds(PoundLoss, mu=st.floats(0, 20), alpha=st.floats(0.01, 20))
sizes = st.floats(0, 10, allow_subnormal=False)
swiftly = settings(max_examples=80, deadline=None)


def _nonnegative(n):
    return arrays(np.float64, n, elements=sizes)


def _small(seed=0):
    rng = np.random.default_rng(seed)
    points = rng.normal(size=(N_ROWS, 2)), rng.normal(size=(N_CANDIDATES, 2))
    costs = (
        rng.choice([-1.0, 1.0], size=N_ROWS),
        rng.uniform(0.0, 3.0, size=N_ROWS),
        rng.uniform(0.1, 2.0, size=N_CANDIDATES),
    )
    return one_output(points[0], Linear(), points[1], *costs).outputs(0)


@swiftly
@given(loss=losses, x=sizes)
def test_value_is_its_formula(loss, x):
    expected = x + loss.mu * (1 - np.exp(-loss.alpha * x))
    assert loss.value(np.array(x)) == pytest.approx(expected, rel=1e-9, abs=1e-12)


@swiftly
@given(loss=losses)
def test_no_error_costs_nothing(loss):
    assert loss.value(np.zeros(1)) == 0


@swiftly
@given(loss=losses, x=st.floats(0.01, 10))
def test_slope_is_the_derivative(loss, x):
    h = 1e-5
    difference = (loss.value(np.array(x + h)) - loss.value(np.array(x - h))) / (2 * h)
    # the central difference errs by h^2 / 6 times the third derivative, and by rounding
    tolerance = h**2 * loss.mu * loss.alpha**3 + 1e-8
    assert loss.slope(np.array(x)) == pytest.approx(difference, rel=1e-8, abs=tolerance)


@swiftly
@given(loss=losses, x=sizes, z=sizes, share=st.floats(0, 1))
def test_loss_is_concave(loss, x, z, share):
    between = loss.value(np.array(share * x + (1 - share) * z))
    chord = share * loss.value(np.array(x)) + (1 - share) * loss.value(np.array(z))
    assert between >= chord - 1e-12 * (1 + abs(chord))


@swiftly
@given(loss=losses, x=sizes, z=sizes)
def test_larger_errors_cost_no_less_and_at_least_their_size(loss, x, z):
    small, large = loss.value(np.sort(np.array([x, z])))
    assert small <= large * (1 + 1e-12)
    assert min(x, z) <= small <= min(x, z) + loss.mu


def test_steep_loss_is_the_size_plus_a_price():
    x = np.array([0.0, 0.1, 2.0])
    np.testing.assert_allclose(PoundLoss(mu=3.0, alpha=1e4).value(x), x + 3.0 * (x > 0))


def test_tiny_errors_keep_their_digits():
    loss = PoundLoss(mu=2.0, alpha=5.0)
    x = np.array([1e-18])
    np.testing.assert_allclose(loss.value(x), loss.slope(np.zeros(1)) * x, rtol=1e-12)


@swiftly
@given(y=_nonnegative(N_ROWS), b=_nonnegative(N_CANDIDATES))
def test_price_zero_is_the_1_norm_machine(y, b):
    problem, loss = _small(), PoundLoss(mu=0.0, alpha=5.0)
    assert loss.objective(problem, y, b) == pytest.approx(problem.objective(y, b))
    same = loss.linearized(problem, y, b)
    np.testing.assert_array_equal(same.error_weights, problem.error_weights)
    np.testing.assert_array_equal(same.coef_weights, problem.coef_weights)


@swiftly
@given(
    loss=losses,
    at=st.tuples(_nonnegative(N_ROWS), _nonnegative(N_CANDIDATES)),
    to=st.tuples(_nonnegative(N_ROWS), _nonnegative(N_CANDIDATES)),
)
def test_linear_program_is_tangent_from_above(loss, at, to):
    problem = _small()
    linear = loss.linearized(problem, *at)
    value_at, value_to = (loss.objective(problem, *point) for point in (at, to))
    tangent = value_at + linear.objective(*to) - linear.objective(*at)
    assert value_to <= tangent + 1e-10 * (1 + abs(tangent) + linear.objective(*at))


@swiftly
@given(loss=losses, y=_nonnegative(N_ROWS), b=_nonnegative(N_CANDIDATES))
def test_descent_of_the_linear_program_is_descent_of_the_objective(loss, y, b):
    problem = _small()
    linear = loss.linearized(problem, y, b)
    assert linear.objective(y / 2, b / 2) <= linear.objective(y, b)
    assert loss.objective(problem, y / 2, b / 2) <= loss.objective(problem, y, b) * (1 + 1e-12)


def test_linearized_problem_changes_only_costs():
    problem = _small()
    weights = problem.error_weights.copy(), problem.coef_weights.copy()
    linear = PoundLoss(2.0, 5.0).linearized(problem, np.zeros(N_ROWS), np.ones(N_CANDIDATES))
    assert linear.X is problem.X
    assert linear.centers is problem.centers
    assert linear.signs is problem.signs
    np.testing.assert_allclose(linear.error_weights, weights[0] * (1 + 2.0 * 5.0))
    np.testing.assert_array_equal(problem.error_weights, weights[0])
    np.testing.assert_array_equal(problem.coef_weights, weights[1])
    assert np.all(linear.coef_weights > 0)


@pytest.mark.parametrize(
    ("objective", "bound", "gap"),
    [
        (2.0, 1.0, 0.5),
        (2.0, 3.0, 0.5),
        (0.0, 0.0, 0.0),
        (np.nan, 1.0, np.nan),
        (np.inf, 1.0, np.nan),
    ],
)
def test_a_gap_is_not_zero_where_the_objective_is_no_number(objective, bound, gap):
    np.testing.assert_equal(relative_gap(objective, bound), gap)
