"""The interior point method against one plain call of an LP solver and the simplex method."""

from functools import partial

import numpy as np
import pytest

import naive
from kernlet import L1KernelClassifier
from kernlet.kernels.rbf import RBF
from kernlet.lp import generation as module
from kernlet.lp.generation import ColumnGeneration
from kernlet.lp.interior import solve_dense
from kernlet.lp.linearization import linearize
from kernlet.lp.problem import PoundLoss
from support.margin_problems import KERNELS, make_problem, plain


@pytest.fixture
def at_once(monkeypatch):
    """Take the interior point method before any simplex iteration."""
    monkeypatch.setattr(module, "_MIN_WORK", -1.0)
    monkeypatch.setattr(module, "_WORK_PER_OPERATION", -1.0)


def noise(n_rows=300, n_features=10, seed=0):
    random = np.random.RandomState(seed)
    return random.randn(n_rows, n_features), random.randint(2, size=n_rows)


@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
@pytest.mark.parametrize("n_candidates", [None, 15])
@pytest.mark.parametrize("weighted", [False, True])
def test_agrees_with_one_plain_call(at_once, kernel, n_candidates, weighted):
    problem = make_problem(kernel=kernel, n_candidates=n_candidates, weighted=weighted)
    (solution,) = ColumnGeneration(problem, np.random.RandomState(0)).solve()
    assert solution.status == "optimal"
    assert -1e-12 <= solution.gap <= 1e-9
    assert solution.objective == pytest.approx(naive.l1_margin_primal(*plain(problem))[0], rel=1e-8)


@pytest.mark.parametrize("log_C", [0, 1, 2])
def test_the_point_shows_the_partition_of_the_optimum(log_C):
    problem = make_problem(m=80, kernel=RBF(0.5), C=10.0**log_C)
    (solution,) = ColumnGeneration(problem, np.random.RandomState(0)).solve()
    point = solve_dense(*plain(problem))
    assert point is not None
    np.testing.assert_array_equal(np.flatnonzero(point.use > 1.0), solution.centers)
    assert np.count_nonzero(point.betweenness > 1.0) == len(solution.centers) + 1


def test_equal_rows_have_an_optimum_of_many_partitions(at_once):
    X, y = noise(100, 3)
    X, y = np.concatenate([X, X, X]), np.concatenate([y, y, 1 - y])
    machine = L1KernelClassifier(10.0, random_state=0).fit(X, y)
    assert machine.duality_gap_[0] <= 1e-9


def test_programs_of_other_costs_agree_with_the_simplex_method(at_once, monkeypatch):
    problem = make_problem(m=120, kernel=RBF(0.5), C=3.0)
    method = partial(linearize, pound=PoundLoss(10.0, 5.0), max_lps=30)
    (one,) = method(ColumnGeneration(problem, np.random.RandomState(0)))
    monkeypatch.setattr(module, "_DENSE_ENTRIES", 0)
    (two,) = method(ColumnGeneration(problem, np.random.RandomState(0)))
    np.testing.assert_allclose(one.objectives, two.objectives, rtol=1e-6)  # float32 slacks
    np.testing.assert_array_equal(one.solution.centers, two.solution.centers)
    assert one.solution.gap <= 1e-9


def test_a_report_can_stop_it(at_once):
    problem = make_problem(m=80)
    (solution,) = ColumnGeneration(problem, np.random.RandomState(0)).solve(report=lambda _: True)
    assert solution.status == "stopped"


@pytest.mark.slow
def test_noise_at_a_large_C_takes_few_steps():
    X, y = noise(700, 50)  # the simplex method alone needs 5,000 iterations
    machine = L1KernelClassifier(1e4, random_state=0).fit(X, y)
    assert machine.duality_gap_[0] <= 1e-9
    assert machine.n_iter_ < 3000
