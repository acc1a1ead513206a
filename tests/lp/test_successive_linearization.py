"""Algorithm 4.2: its fixed point, remark 4.4, and the naive twin."""

import numpy as np
import pytest

import naive
from kernlet.kernels.gram import Gram
from kernlet.lp.generation import Generation
from kernlet.lp.linearization import linearize_successively
from kernlet.lp.problem import L1Margin, PoundLoss
from support.margin_problems import full_kernel, make_problem

POUND = PoundLoss(mu=10.0, alpha=5.0)


def run(problem, pound=POUND, max_lps=50):
    generation = Generation(problem, np.random.RandomState(0))
    return linearize_successively(generation, pound, max_lps=max_lps)


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
    expected = naive.pound_machine(full_kernel(problem), problem.signs, 2.0, POUND.mu, POUND.alpha)
    assert path.objectives[-1] == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("seed", range(4))
def test_remark_4_4_the_reduced_kernel_gives_the_same_machine(seed):
    path = run(make_problem(seed, m=150))
    last, solution = path.problem, path.solution
    X = last.gram.x.X
    reduced = L1Margin(
        Gram(last.gram.kernel, X[solution.rows], X[solution.centers]),
        last.signs[solution.rows],
        last.error_weights[solution.rows],
        last.coef_weights[solution.centers],
    )
    again = Generation(reduced, np.random.RandomState(1)).solve()
    assert again.objective == pytest.approx(solution.objective, rel=1e-10)
    np.testing.assert_array_equal(again.centers, np.arange(len(solution.centers)))
    np.testing.assert_allclose(again.coef, solution.coef, rtol=1e-7)
    assert again.intercept == pytest.approx(solution.intercept, abs=1e-7)


def test_uses_fewer_centers_and_rows_than_the_1_norm_machine():
    problem = make_problem(m=300)
    first, path = Generation(problem, np.random.RandomState(0)).solve(), run(problem)
    assert len(path.solution.centers) < len(first.centers)
    assert len(path.solution.rows) < len(first.rows)


def test_no_price_for_presence_leaves_the_1_norm_machine():
    problem = make_problem(m=100)
    path = run(problem, PoundLoss(mu=0.0, alpha=5.0))
    first = Generation(problem, np.random.RandomState(0)).solve()
    assert path.n_lps == 2
    np.testing.assert_array_equal(path.solution.centers, first.centers)


def test_max_lps_is_kept_to():
    path = run(make_problem(m=150), max_lps=2)
    assert path.n_lps == 2
    assert not path.is_stationary
    assert path.solution.gap <= 1e-9
