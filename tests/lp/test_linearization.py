"""Algorithm 4.2 over both solvers: its fixed point, remark 4.4, and the naive twin."""

import numpy as np
import pytest

import naive
from kernlet.kernels.rbf import RBF
from kernlet.lp.generation import ColumnGeneration
from kernlet.lp.linearization import linearize
from kernlet.lp.problem import PoundLoss
from kernlet.lp.streaming import StreamingL1Solver
from support.margin_problems import make_problem, one_output, plain, together

POUND = PoundLoss(mu=10.0, alpha=5.0)


def run(problem, pound=POUND, max_lps=50):
    generation = ColumnGeneration(problem, np.random.RandomState(0))
    (path,) = linearize(generation, pound=pound, max_lps=max_lps)
    return path


def solve(problem, seed=0):
    (solution,) = ColumnGeneration(problem, np.random.RandomState(seed)).solve()
    return solution


@pytest.mark.parametrize("seed", range(5))
def test_objective_never_increases_and_ends_stationary(seed):
    path = run(make_problem(seed, m=150))
    assert path.is_stationary
    assert np.all(np.diff(path.objectives) <= 1e-6 * path.objectives[0])
    assert path.n_lps == len(path.objectives) > 1


@pytest.mark.parametrize("seed", range(5))
def test_last_program_has_a_tight_certificate(seed):
    assert run(make_problem(seed, m=150)).solution.gap <= 1e-9


@pytest.mark.parametrize("seed", range(3))
def test_agrees_with_the_naive_twin(seed):
    problem = make_problem(seed, m=50)
    path = run(problem)
    expected = naive.pound_machine(*plain(problem)[:2], 2.0, POUND.mu, POUND.alpha)
    assert path.objectives[-1] == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("seed", range(4))
def test_remark_4_4_the_reduced_kernel_gives_the_same_machine(seed):
    path = run(make_problem(seed, m=150))
    last, solution = path.problem, path.solution
    X = last.points
    reduced = one_output(
        X[solution.rows],
        last.kernel,
        X[solution.centers],
        last.signs[solution.rows],
        last.error_weights[solution.rows],
        last.coef_weights[solution.centers],
    )
    again = solve(reduced, seed=1)
    assert again.objective == pytest.approx(solution.objective, rel=1e-10)
    np.testing.assert_array_equal(again.centers, np.arange(len(solution.centers)))
    np.testing.assert_allclose(again.coef, solution.coef, rtol=1e-7)
    assert again.intercept == pytest.approx(solution.intercept, abs=1e-7)


def test_uses_fewer_centers_and_rows_than_the_1_norm_machine():
    problem = make_problem(m=300)
    first, path = solve(problem), run(problem)
    assert len(path.solution.centers) < len(first.centers)
    assert len(path.solution.rows) < len(first.rows)


def test_no_price_for_presence_leaves_the_1_norm_machine():
    problem = make_problem(m=100)
    path = run(problem, PoundLoss(mu=0.0, alpha=5.0))
    first = solve(problem)
    assert path.n_lps == 2
    np.testing.assert_array_equal(path.solution.centers, first.centers)


def test_max_lps_is_kept_to():
    path = run(make_problem(m=150), max_lps=2)
    assert path.n_lps == 2
    assert not path.is_stationary
    assert path.solution.gap <= 1e-9


# -- Over the streaming solver --


def test_falls_to_a_stationary_point_as_good_as_that_of_generation():
    problems = [make_problem(s, 5000, RBF(0.7), 0.2, 25, weighted=True) for s in (1, 1)]
    paths = linearize(StreamingL1Solver(together(*problems), seed=0), pound=POUND, max_lps=50)
    other = run(problems[0])
    for path in paths:
        assert path.is_stationary
        assert abs(path.solution.gap) < 1e-9
        assert np.all(np.diff(path.objectives) <= 1e-9 * path.objectives[0])
        assert path.objectives[0] == pytest.approx(other.objectives[0], rel=1e-6)
        assert path.objectives[-1] == pytest.approx(other.objectives[-1], rel=1e-2)


def test_the_number_of_programs_can_be_limited():
    solver = StreamingL1Solver(make_problem(1, 3000, RBF(0.7), 0.2, 25), seed=0)
    (path,) = linearize(solver, pound=POUND, max_lps=2)
    assert len(path.objectives) == 2
    assert not path.is_stationary
