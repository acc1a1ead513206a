"""Column and row generation against one plain call of an LP solver, and its own certificate."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import naive
from kernlet.kernels import gram as gram_module
from kernlet.kernels.gram import Gram
from kernlet.kernels.linear import Linear
from kernlet.kernels.polynomial import Polynomial
from kernlet.kernels.rbf import RBF
from kernlet.lp import generation as highs_generation
from kernlet.lp.generation import Generation, Machine, Pricer
from kernlet.lp.problem import L1Margin
from support.margin_problems import KERNELS, full_kernel, make_problem


def solve(problem, seed=0, **options):
    batches = {k: options.pop(k) for k in ("row_batch", "center_batch") if k in options}
    return Generation(problem, np.random.RandomState(seed), **batches).solve(**options)


def dense(problem, solution):
    beta, t = np.zeros(problem.gram.shape[1]), np.zeros(problem.gram.shape[0])
    beta[solution.centers], t[solution.rows] = solution.coef, solution.duals
    return beta, t


@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
@pytest.mark.parametrize("n_candidates", [None, 15])
@pytest.mark.parametrize("weighted", [False, True])
def test_agrees_with_one_plain_call_in_both_forms(kernel, n_candidates, weighted):
    problem = make_problem(kernel=kernel, n_candidates=n_candidates, weighted=weighted)
    values = (full_kernel(problem), problem.signs, problem.error_weights, problem.coef_weights)
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
    K, d, nu, c = (
        full_kernel(problem),
        problem.signs,
        problem.error_weights,
        problem.coef_weights,
    )
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
    X = problem.gram.x.X
    order = np.random.RandomState(1).permutation(len(X))
    shuffled = L1Margin(
        Gram(problem.gram.kernel, X[order]),
        problem.signs[order],
        problem.error_weights[order],
        problem.coef_weights[order],
    )
    one, other = solve(problem), solve(shuffled, seed=5)
    assert one.objective == pytest.approx(other.objective, rel=1e-10)
    beta, _ = dense(problem, one)
    again, _ = dense(shuffled, other)
    np.testing.assert_allclose(beta[order], again, atol=1e-8)


def test_candidates_in_place_of_rows_give_the_same_machine_when_they_are_the_rows():
    problem = make_problem(m=80)
    X = problem.gram.x.X
    copy = L1Margin(
        Gram(problem.gram.kernel, X, X.copy()),
        problem.signs,
        problem.error_weights,
        problem.coef_weights,
    )
    assert not copy.gram.is_square
    np.testing.assert_array_equal(solve(problem).centers, solve(copy).centers)


@pytest.mark.parametrize(("kernel", "offset"), [(RBF(0.7), 0.0), (Linear(), 1e3)])
def test_the_kernel_matrix_is_never_asked_for_as_a_whole(monkeypatch, kernel, offset):
    m = 1500
    small = make_problem(m=m, C=1.0)
    X = small.gram.x.X + offset
    problem = L1Margin(Gram(kernel, X), small.signs, small.error_weights, small.coef_weights)
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
    starved = Generation(problem, np.random.RandomState(0), max_bytes=50_000).solve()
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

    def report(progress):
        seen.append(progress)
        return len(seen) == 2

    solution = solve(problem, row_batch=20, report=report)
    assert solution.status == "stopped"
    assert [progress.round for progress in seen] == [1, 2]
    assert solution.gap > 1e-9


def test_float64_prices_take_over_where_float32_fails():
    random = np.random.RandomState(0)
    X = 1e30 * random.randn(40, 2)
    gram = Gram(RBF(1e-60), X)
    pricer = Pricer(gram)
    machine = Machine(
        np.array([0, 3]), np.array([1.0, -2.0]), 0.5, np.array([1, 2]), np.array([0.1, -0.1])
    )
    for fast, exact in zip(pricer.fast(machine), pricer.exact(machine), strict=True):
        np.testing.assert_allclose(fast, exact, atol=1e-12)


@pytest.mark.parametrize("kernel_scale", [1e-12, 1e-4, 1e4])
@pytest.mark.parametrize("C", [1e-6, 1.0, 1e4])
def test_tiny_and_large_kernels_and_costs(kernel_scale, C):
    problem = make_problem(m=40, kernel=Polynomial(kernel_scale, 1), C=C)
    values = (full_kernel(problem), problem.signs, problem.error_weights, problem.coef_weights)
    expected, *_ = naive.l1_margin_primal(*values)
    assert solve(problem).objective == pytest.approx(expected, rel=1e-6)


def test_duplicated_rows_count_twice():
    problem = make_problem(m=50)
    X, d = problem.gram.x.X, problem.signs
    twice = L1Margin(
        Gram(problem.gram.kernel, np.vstack([X, X])), np.tile(d, 2), np.full(100, 2.0), np.ones(100)
    )
    heavy = L1Margin(problem.gram, d, np.full(50, 4.0), np.ones(50))
    assert solve(twice).objective == pytest.approx(solve(heavy).objective, rel=1e-10)


def test_patience_grows_at_each_return():
    patience = highs_generation._Patience(3, rounds=1)
    everyone, idle = np.arange(3), np.zeros(3, bool)
    assert not patience.has_patience(everyone, idle).any()
    patience.welcome(everyone[:1])
    assert patience.has_patience(everyone, idle).tolist() == [True, False, False]
