"""Column and row generation against one plain call of an LP solver, and its own certificate."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import naive
from kernlet.kernels import gram as gram_module
from kernlet.kernels.base import Kernel
from kernlet.kernels.gram import Gram
from kernlet.kernels.linear import Linear
from kernlet.kernels.polynomial import Polynomial
from kernlet.kernels.rbf import RBF
from kernlet.lp.generation import ColumnGeneration, Pricer, RestrictedLP, _Aging
from kernlet.lp.problem import PrimalDual
from support.margin_problems import KERNELS, gram, make_problem, one_output, plain


def solve(problem, seed=0, **options):
    batches = {k: options.pop(k) for k in ("row_batch", "center_batch") if k in options}
    generation = ColumnGeneration(problem, np.random.RandomState(seed), **batches)
    (solution,) = generation.solve(**options)
    return solution


def dense(problem, solution):
    beta, t = np.zeros(problem.shape[1]), np.zeros(problem.shape[0])
    beta[solution.centers], t[solution.rows] = solution.coef, solution.duals
    return beta, t


@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
@pytest.mark.parametrize("n_candidates", [None, 15])
@pytest.mark.parametrize("weighted", [False, True])
def test_agrees_with_one_plain_call_in_both_forms(kernel, n_candidates, weighted):
    problem = make_problem(kernel=kernel, n_candidates=n_candidates, weighted=weighted)
    values = plain(problem)
    solution = solve(problem, row_batch=10, center_batch=3)
    assert solution.objective == pytest.approx(naive.l1_margin_primal(*values)[0], rel=1e-8)
    assert solution.bound == pytest.approx(naive.l1_margin_dual(*values)[0], rel=1e-8)


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 10_000),
    m=st.integers(2, 60),
    kernel=st.sampled_from(KERNELS),
    log_C=st.floats(-3, 3),
    row_batch=st.integers(2, 40),
    center_batch=st.integers(1, 10),
)
def test_every_answer_carries_a_tight_certificate(seed, m, kernel, log_C, row_batch, center_batch):
    problem = make_problem(seed, m, kernel, 10.0**log_C)
    solution = solve(problem, row_batch=row_batch, center_batch=center_batch)
    assert solution.status == "optimal"
    assert -1e-12 <= solution.gap <= 1e-9


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 10_000), kernel=st.sampled_from(KERNELS), C=st.floats(0.05, 50))
def test_kkt_and_complementary_slackness(seed, kernel, C):
    problem = make_problem(seed, kernel=kernel, C=C)
    solution = solve(problem)
    beta, t = dense(problem, solution)
    K, d, nu, c = plain(problem)
    margin = 1.0 - d * (K @ beta + solution.intercept)
    correlation = K.T @ (d * t)
    scale = 1e-8 * max(1.0, np.abs(K).max() * C)
    assert np.all(t >= 0)
    assert np.all(t <= nu)
    assert d @ t == pytest.approx(0.0, abs=scale)
    assert np.all(np.abs(correlation) <= c + scale)
    np.testing.assert_allclose(solution.slacks, np.maximum(0.0, margin), atol=1e-9)
    # a positive dual lies on the margin or beyond, a positive error has its dual at nu
    np.testing.assert_array_less(-1e-7, margin[t > 0])
    np.testing.assert_allclose(t[margin > 1e-7], nu[margin > 1e-7], atol=scale)
    # a center in use has its constraint active, with the sign of its coefficient
    used = beta != 0
    np.testing.assert_allclose(correlation[used], np.sign(beta[used]) * c[used], atol=scale)


@pytest.mark.parametrize("seed", range(8))
def test_rows_and_centers_balance_at_a_nondegenerate_vertex(seed):
    solution = solve(make_problem(seed, m=120, C=1.3))
    errors = np.sum(solution.slacks > 1e-9)
    assert len(solution.rows) == len(solution.centers) + 1 + errors


def test_does_not_depend_on_the_order_of_the_rows():
    problem = make_problem(m=90)
    X = problem.points
    order = np.random.RandomState(1).permutation(len(X))
    _, *costs = plain(problem)
    shuffled = one_output(X[order], problem.kernel, None, *(values[order] for values in costs))
    one, other = solve(problem), solve(shuffled, seed=5)
    assert one.objective == pytest.approx(other.objective, rel=1e-10)
    beta, _ = dense(problem, one)
    again, _ = dense(shuffled, other)
    np.testing.assert_allclose(beta[order], again, atol=1e-8)


def test_candidates_in_place_of_rows_give_the_same_machine_when_they_are_the_rows():
    problem = make_problem(m=80)
    copy = replace(problem, centers=problem.points.copy())
    assert not gram(copy).is_square
    np.testing.assert_array_equal(solve(problem).centers, solve(copy).centers)


@pytest.mark.parametrize(("kernel", "offset"), [(RBF(0.7), 0.0), (Linear(), 1e3)])
def test_the_kernel_matrix_is_never_asked_for_as_a_whole(monkeypatch, kernel, offset):
    m = 1500
    small = make_problem(m=m, C=1.0)
    problem = replace(small, X=small.points + offset, kernel=kernel)
    largest = 0

    def watched(self, *arguments):
        nonlocal largest
        block = original(self, *arguments)
        largest = max(largest, block.size)
        return block

    original = type(kernel).of_products
    monkeypatch.setattr(type(kernel), "of_products", watched)
    monkeypatch.setattr(gram_module, "BLOCK_BYTES", 2**20)
    solve(problem)
    assert 0 < largest < m * m / 3


def test_a_small_memory_limit_changes_time_and_nothing_else():
    problem = make_problem(m=300)
    (starved,) = ColumnGeneration(problem, np.random.RandomState(0), max_bytes=50_000).solve()
    assert starved.gap <= 1e-9
    np.testing.assert_array_equal(starved.centers, solve(problem).centers)


def test_an_iteration_limit_ends_early_with_its_true_gap():
    problem = make_problem(m=200)
    solution = solve(problem, max_iter=5)
    assert solution.status == "iteration limit"
    best = solve(problem).objective
    assert solution.bound <= best <= solution.objective
    assert solution.gap > 1e-3


def test_a_loose_tolerance_stops_sooner_and_keeps_its_promise():
    problem = make_problem(m=400, C=5.0)
    loose, tight = solve(problem, tol=0.1, row_batch=30), solve(problem, row_batch=30)
    assert loose.gap <= 0.1
    assert loose.n_iter < tight.n_iter


def test_a_report_can_stop_the_generation():
    problem = make_problem(m=300)
    seen = []

    def report(state):
        seen.append(state)
        return len(seen) == 2

    solution = solve(problem, row_batch=20, report=report)
    assert solution.status == "stopped"
    assert len(seen) == 2
    assert solution.gap > 1e-9


def test_float64_prices_take_over_where_float32_fails():
    random = np.random.RandomState(0)
    X = 1e30 * random.randn(40, 2)
    pricer = Pricer(Gram(RBF(1e-60), X), np.where(np.arange(40) == 2, -1.0, 1.0))
    pair = PrimalDual(
        np.array([0, 3]), np.array([1.0, -2.0]), 0.5, np.array([1, 2]), np.array([0.1, 0.1])
    )
    for fast, exact in zip(pricer.fast(pair), pricer.exact(pair), strict=True):
        np.testing.assert_allclose(fast, exact, atol=1e-12)


@pytest.mark.parametrize("kernel_scale", [1e-12, 1e-4, 1e4])
@pytest.mark.parametrize("C", [1e-6, 1.0, 1e4])
def test_tiny_and_large_kernels_and_costs(kernel_scale, C):
    problem = make_problem(m=40, kernel=Polynomial(kernel_scale, 1), C=C)
    values = plain(problem)
    expected, *_ = naive.l1_margin_primal(*values)
    assert solve(problem).objective == pytest.approx(expected, rel=1e-6)


def test_duplicated_rows_count_twice():
    problem = make_problem(m=50)
    X, d = problem.points, problem.outputs(0).signs
    costs = np.tile(d, 2), np.full(100, 2.0), np.ones(100)
    twice = one_output(np.vstack([X, X]), problem.kernel, None, *costs)
    heavy = one_output(X, problem.kernel, None, d, np.full(50, 4.0), np.ones(50))
    assert solve(twice).objective == pytest.approx(solve(heavy).objective, rel=1e-10)


def test_members_may_stay_longer_at_each_return():
    ages = _Aging(3, rounds=1)
    everyone, idle = np.arange(3), np.zeros(3, bool)
    assert not ages.update(everyone, idle).any()
    ages.reset(everyone[:1])
    assert ages.update(everyone, idle).tolist() == [True, False, False]


# -- The restricted program: what enters, leaves and stays, and the polished vertex --


def full_program(problem):
    lp = RestrictedLP(gram(problem), problem.outputs(0))
    rows, centers = (np.arange(n) for n in problem.shape)
    lp.add(rows, centers)
    return lp


def solved(problem):
    lp = full_program(problem)
    assert lp.solve() == "optimal"
    return lp


def test_growing_in_steps_gives_the_whole_program():
    problem = make_problem()
    at_once = solved(problem)
    lp = RestrictedLP(gram(problem), problem.outputs(0))
    for start in range(0, 60, 20):
        step = np.arange(start, start + 20)
        lp.add(step, step)
        assert lp.solve() == "optimal"
    assert lp.duals.sum() == pytest.approx(at_once.duals.sum(), rel=1e-10)


def test_dropping_what_is_inactive_changes_nothing():
    lp = full_program(make_problem())
    lp.solve()
    duals, coef = lp.duals, lp.coef
    lp.keep(duals > 0, coef != 0)
    lp.solve()
    assert len(lp.centers) < 60
    np.testing.assert_allclose(lp.duals, duals[duals > 0], atol=1e-9)
    np.testing.assert_allclose(lp.coef, coef[coef != 0], atol=1e-9)


def test_new_costs_from_the_old_basis_equal_a_fresh_start():
    problem, other = make_problem(), make_problem(weighted=True)
    lp = full_program(problem)
    lp.solve()
    lp.reweight(other.outputs(0))
    lp.solve()
    assert lp.duals.sum() == pytest.approx(solved(other).duals.sum())


def test_margins_and_correlations_are_those_of_the_kernel():
    problem = make_problem()
    lp = solved(problem)
    K, d, *_ = plain(problem)
    np.testing.assert_allclose(lp.margins, 1 - d * (K @ lp.coef + lp.intercept), atol=1e-8)
    np.testing.assert_allclose(lp.correlations, K.T @ (d * lp.duals), atol=1e-8)


@pytest.mark.parametrize("seed", range(5))
def test_polishing_brings_the_residual_of_the_basis_down_to_rounding(seed):
    problem = make_problem(seed, C=50.0)
    duals, coef, intercept = solved(problem).polished()
    K, d, nu, _ = plain(problem)
    used = coef != 0
    correlation = K.T @ (d * duals)
    np.testing.assert_allclose(correlation[used], np.sign(coef[used]), atol=1e-11)
    free = (duals > 0) & (duals < nu)
    values = K @ coef + intercept
    np.testing.assert_allclose(d[free] * values[free], 1.0, atol=1e-11)


class NaNKernel(Kernel):
    def of_products(self, products, x_norms, z_norms):
        return np.full_like(products, np.nan)


def test_a_kernel_that_is_not_a_number_is_refused():
    good = make_problem()
    lp = RestrictedLP(Gram(NaNKernel(), good.points), good.outputs(0))
    with pytest.raises(ValueError, match="kernel returned NaN or infinite values"):
        lp.add(np.arange(5), np.arange(5))
