"""The tall method against column and row generation, a plain LP call, and its certificate."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import naive
from kernlet.kernels.rbf import RBF
from kernlet.lp.generation import Generation
from kernlet.lp.problem import TallMargin
from kernlet.lp.streaming import TallLP
from kernlet.rows import source
from kernlet.rows.source import ArrayRows
from support.margin_problems import KERNELS, full_kernel, make_problem, tall


def solve(*problems, **options):
    return TallLP(tall(*problems), seed=0).solve(**options)


def check_certificate(problem, solution):
    """Objective and bound again, from the answer and the whole kernel matrix."""
    K, (m, s) = full_kernel(problem), problem.gram.shape
    beta, t = np.zeros(s), np.zeros(m)
    beta[solution.centers], t[solution.rows] = solution.coef, solution.duals
    slacks = problem.slacks(K @ beta + solution.intercept)
    assert solution.objective == pytest.approx(problem.objective(slacks, np.abs(beta)), rel=1e-10)
    np.testing.assert_allclose(solution.slacks, slacks, atol=1e-8 * (1 + np.abs(K).max()))
    assert np.all(t >= 0)
    assert np.all(t <= problem.error_weights)
    assert abs(problem.signs @ t) <= 1e-10 * max(1e-300, t.sum())
    bound = problem.bound(problem.balanced(t), K.T @ (problem.signs * t))
    assert solution.bound == pytest.approx(bound, rel=1e-9)
    assert -1e-12 <= solution.gap <= 1e-9


@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
@pytest.mark.parametrize("weighted", [False, True])
def test_agrees_with_one_plain_call(kernel, weighted):
    problem = make_problem(kernel=kernel, n_candidates=15, weighted=weighted)
    (solution,) = solve(problem)
    values = (full_kernel(problem), problem.signs, problem.error_weights, problem.coef_weights)
    assert solution.objective == pytest.approx(naive.l1_margin_primal(*values)[0], rel=1e-8)
    check_certificate(problem, solution)


@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
@pytest.mark.parametrize("C", [1e-3, 0.1, 2.0, 50.0])
@pytest.mark.parametrize("weighted", [False, True])
def test_agrees_with_generation_where_most_rows_are_far(kernel, C, weighted):
    problem = make_problem(2, 9000, kernel, C, 30, weighted=weighted)
    (solution,) = solve(problem)
    other = Generation(problem, np.random.RandomState(0)).solve()
    assert solution.objective == pytest.approx(other.objective, rel=1e-9)
    check_certificate(problem, solution)


@settings(max_examples=30, deadline=None)
@given(
    seed=st.integers(0, 10_000),
    m=st.integers(2, 200),
    s=st.integers(1, 30),
    kernel=st.sampled_from(KERNELS),
    log_C=st.floats(-3, 2),
)
def test_every_answer_carries_a_tight_certificate(seed, m, s, kernel, log_C):
    problem = make_problem(seed, m, kernel, 10.0**log_C, min(s, m))
    (solution,) = solve(problem)
    assert -1e-12 <= solution.gap <= 1e-9


def test_outputs_in_lock_step_are_those_one_by_one():
    problems = [make_problem(3, 5000, RBF(0.7), C, 25, weighted=True) for C in (0.05, 1.0)]
    problems.append(make_problem(3, 5000, RBF(0.7), 0.3, 25))
    together = solve(*problems)
    for problem, solution in zip(problems, together, strict=True):
        check_certificate(problem, solution)
        (alone,) = solve(problem)
        assert solution.objective == pytest.approx(alone.objective, rel=1e-10)
        np.testing.assert_array_equal(solution.centers, alone.centers)


def test_answer_does_not_depend_on_the_blocks_or_the_store(monkeypatch):
    problem = make_problem(4, 6000, RBF(0.7), 0.5, 25)
    (one,) = solve(problem)
    monkeypatch.setattr(source, "_MOST_ROWS", 1024)
    (two,) = TallLP(tall(problem), seed=5, max_bytes=0).solve()
    assert one.objective == pytest.approx(two.objective, rel=1e-12)
    np.testing.assert_array_equal(one.centers, two.centers)
    np.testing.assert_allclose(one.coef, two.coef, rtol=1e-6)


def test_kept_blocks_change_no_bit():
    problem = make_problem(4, 6000, RBF(0.7), 0.5, 25)
    one, two = (TallLP(tall(problem), 0, max_bytes=n).solve()[0] for n in (0, 2**30))
    np.testing.assert_array_equal(one.coef, two.coef)
    assert (one.objective, one.bound) == (two.objective, two.bound)


@pytest.mark.parametrize("passes", [0.0, 3.0, 6.0])
def test_stops_on_a_wish_with_an_honest_gap(passes):
    problem = make_problem(5, 9000, RBF(0.7), 1.0, 25)
    (solution,) = solve(problem, report=lambda progress: progress.passes > passes)
    best = Generation(problem, np.random.RandomState(0)).solve()
    assert solution.status == "stopped"
    assert solution.bound <= best.objective * (1 + 1e-12)
    assert solution.objective >= best.objective * (1 - 1e-12)


def test_reports_passes_gap_and_speed():
    told = []
    lp = TallLP(tall(make_problem(5, 9000, RBF(0.7), 1.0, 25)), seed=0)
    lp.solve(report=lambda progress: told.append(progress) or False)
    passes = [progress.passes for progress in told]
    assert passes == sorted(passes)
    assert lp.passes == passes[-1] < 40
    assert all(progress.rows_per_second > 0 for progress in told)
    assert told[0].gap == np.inf
    assert told[-1].gap <= 1e-9


def test_simplex_iterations_can_be_limited():
    problem = make_problem(5, 9000, RBF(0.7), 1.0, 25)
    (solution,) = solve(problem, max_iter=3)
    assert solution.status == "iteration limit"
    assert solution.n_iter <= 3
    assert solution.gap >= -1e-12


def test_starts_from_a_machine_nearby():
    problem = make_problem(5, 9000, RBF(0.7), 1.0, 25)
    lp = TallLP(tall(problem), seed=0)
    (solution,) = lp.solve()
    start = np.zeros((26, 1))
    start[solution.centers, 0], start[-1] = solution.coef, solution.intercept
    (again,) = TallLP(tall(problem), seed=0).solve(start=start)
    assert again.objective == pytest.approx(solution.objective, rel=1e-12)


@pytest.mark.parametrize("scale", [0.0, 0.01, 100.0])
def test_a_poor_start_costs_passes_only(scale):
    problem = make_problem(5, 9000, RBF(0.7), 1.0, 25)
    (best,) = solve(problem)
    start = scale * np.random.RandomState(0).randn(26, 1)
    lp = TallLP(tall(problem), seed=0)
    (solution,) = lp.solve(start=start)
    assert solution.objective == pytest.approx(best.objective, rel=1e-9)
    assert lp.passes < 40
    check_certificate(problem, solution)


@pytest.mark.parametrize("share", [0.3, 0.49])
def test_half_of_the_rows_on_the_margin(share):
    """Labels that nothing explains: the machine is a constant, and one class lies on the margin."""
    random = np.random.RandomState(0)
    X = random.randn(30_000, 60)
    signs = np.where(random.rand(30_000) < share, 1, -1)[:, None]
    weights = np.full((30_000, 1), 0.001)
    problem = TallMargin(ArrayRows(X), RBF(1 / 60), X[:60], signs, weights, np.ones((60, 1)))
    (solution,) = TallLP(problem, seed=0).solve()
    assert solution.objective == pytest.approx(0.002 * np.sum(signs > 0), rel=1e-6)
    assert abs(solution.gap) < 1e-9


def test_rows_all_alike_and_one_center():
    X = np.zeros((5000, 2))
    signs = np.where(np.arange(5000) % 3 == 0, 1, -1)[:, None]
    weights, ones = np.full((5000, 1), 0.1), np.ones((1, 1))
    problem = TallMargin(ArrayRows(X), RBF(1.0), X[:1], signs, weights, ones)
    (solution,) = TallLP(problem, seed=0).solve()
    assert solution.objective == pytest.approx(2 * 0.1 * np.sum(signs > 0))
    assert abs(solution.gap) < 1e-9
