"""Core sets: exact on request, honest otherwise."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import naive
from kernlet.kernels.gram import ColumnCache
from kernlet.squared.core_set import REASONS, CoreRule, find_core_set
from kernlet.squared.mdm import find_nearest_point
from kernlet.squared.problem import Solution
from support.squared_problems import columns_of, features_of, kernel_matrix_of, overlapping


def bound(solution):
    """The dual value D, a lower bound on the optimum."""
    return solution.objective * (1.0 - solution.gap)


def solve(ball, seed=0, known=None, **rule):
    random_state = np.random.RandomState(seed)
    return find_core_set(
        ball, columns_of(ball), CoreRule(**rule), random_state=random_state, known=known
    )


@pytest.mark.parametrize("n_directions", [0, 1, 3])
def test_full_scans_reach_the_optimum_of_the_twins(n_directions):
    ball = overlapping(60, n_directions=n_directions)
    solution = solve(ball, tol=1e-12, sample_size=None)
    features = features_of(ball)
    K = kernel_matrix_of(ball)
    for alpha in (
        naive.gauss_seidel(K, ball.signs, ball.costs, features)[0],
        naive.margin_feature(K, ball.signs, ball.costs, features),
    ):
        dense = np.zeros(60)
        dense[solution.rows] = solution.coef * ball.signs[solution.rows]
        np.testing.assert_allclose(dense, alpha, atol=1e-6)
    assert solution.gap <= 1e-12
    assert solution.ball_gap <= 1e-9
    assert solution.status == "optimal"


def test_rows_that_are_known_join_before_others():
    ball = overlapping(400, n_directions=1)
    known = np.arange(0, 400, 2)
    apart, shared = (solve(ball, seed=2, known=some, eps=1e-3) for some in (None, known))
    share = [np.mean(solution.rows % 2 == 0) for solution in (apart, shared)]
    assert 0.4 < share[0] < 0.6 < share[1]
    assert bound(shared) == pytest.approx(bound(apart), rel=0.01)
    assert shared.ball_gap < 2 * apart.ball_gap
    assert shared.status == apart.status


@pytest.mark.parametrize("sample_size", [None, 5])
@pytest.mark.parametrize("eps", [None, 1e-3])
def test_where_no_row_has_digits_it_says_rounding(sample_size, eps):
    ball = replace(overlapping(60), features=np.full((60, 1), 1e3))  # no longer semi-definite
    solution = solve(ball, sample_size=sample_size, eps=eps)
    assert solution.status == "rounding"
    assert solution.ball_gap == np.inf
    assert solution.gap == 1.0


def test_it_is_the_nearest_point_of_the_hull():
    ball = overlapping(100)
    nearest = find_nearest_point(ball, tol=1e-12)
    solution = solve(ball, tol=1e-12, sample_size=None)
    assert bound(solution) == pytest.approx(0.5 / nearest.squared_norm, rel=1e-10)
    np.testing.assert_array_equal(solution.rows, nearest.rows)


@settings(max_examples=25)
@given(
    st.integers(5, 60),
    st.integers(0, 1000),
    st.floats(0.01, 100.0),
    st.sampled_from([None, 3, 59]),
    st.integers(0, 2),
)
def test_the_gap_is_kept_and_is_primal_less_dual(m, seed, C, sample_size, n_directions):
    ball = overlapping(m, C=C, seed=seed, n_directions=n_directions)
    solution = solve(ball, tol=1e-2, sample_size=sample_size, seed=seed)
    assert 0 <= solution.gap <= 1e-2
    K, features = kernel_matrix_of(ball), features_of(ball)
    kernel = K + 1 - features @ features.T
    dense = np.zeros(m)
    dense[solution.rows] = solution.coef
    np.testing.assert_allclose(solution.values, kernel @ dense, atol=1e-9)
    norm = dense @ kernel @ dense
    assert solution.objective == pytest.approx(ball.objective(norm, kernel @ dense), rel=1e-9)
    a = dense * ball.signs
    assert bound(solution) == pytest.approx(a.sum() - 0.5 * (norm + a @ (a / ball.costs)), rel=1e-9)
    best = naive.margin_feature(K, ball.signs, ball.costs, features)
    optimum = best.sum() / 2
    assert bound(solution) <= optimum * (1 + 1e-9)
    assert solution.objective >= optimum * (1 - 1e-9)


def test_a_single_sample_may_stop_early_and_the_full_scan_says_so():
    """1 % of the rows lie far outside, where 59 random rows seldom look."""
    ball = overlapping(3000, d=2, C=1.0, gamma=2.0, spread=False)
    early = solve(ball, eps=1e-3, sample_size=59)
    assert early.status == "optimal"
    assert early.ball_gap > 1e-3
    honest = solve(ball, eps=1e-3, sample_size=None)
    assert honest.ball_gap <= 1e-3
    assert len(honest.core) > len(early.core)
    tries = solve(ball, eps=1e-3, sample_size=59, n_tries=10)
    assert tries.ball_gap < early.ball_gap


def test_small_eps_with_full_scans_converges_to_the_optimum():
    ball = overlapping(200)
    exact = solve(ball, tol=1e-13, sample_size=None)
    gaps = [solve(ball, eps=eps, sample_size=None) for eps in (1e-2, 1e-4, 1e-6)]
    objectives = [s.objective / exact.objective for s in gaps]
    assert objectives == sorted(objectives, reverse=True)
    assert objectives[-1] == pytest.approx(1.0, abs=1e-5)
    assert [s.ball_gap <= eps for s, eps in zip(gaps, (1e-2, 1e-4, 1e-6), strict=True)] == [
        True
    ] * 3


def test_limits_end_the_growth_with_a_true_certificate():
    ball = overlapping(300)
    few = solve(ball, sample_size=None, max_iter=2)
    assert few.status == "iteration limit"
    assert few.gap > 1e-3
    small = solve(ball, sample_size=None, max_bytes=48 * 20**2)
    assert small.status == "memory limit"
    assert len(small.core) <= 20
    store = columns_of(ball)
    scans, combine = [], store.combine
    store.combine = lambda *sums: scans.append(1) or combine(*sums)
    rule, random_state = CoreRule(sample_size=59, max_iter=3), np.random.RandomState(0)
    sampled = find_core_set(ball, store, rule, random_state=random_state)
    assert sampled.status == "iteration limit"
    assert len(scans) == 1


def test_columns_are_shared_and_may_be_few():
    ball = overlapping(200)
    store = ColumnCache(ball.gram, 2**24)
    first = find_core_set(ball, store, random_state=np.random.RandomState(0))
    held = store.nbytes
    again = find_core_set(ball, store, random_state=np.random.RandomState(0))
    assert store.nbytes == held
    tiny = find_core_set(ball, ColumnCache(ball.gram, 5000), random_state=np.random.RandomState(0))
    np.testing.assert_array_equal(first.coef, again.coef)
    np.testing.assert_allclose(first.coef, tiny.coef, atol=1e-9)


def test_no_row_joins_twice_where_nothing_is_near_enough():
    ball = overlapping(40)
    for rule in ({"eps": 0.0}, {"tol": 0.0}):
        solution = solve(ball, sample_size=59, n_tries=3, **rule)
        assert len(np.unique(solution.core)) == len(solution.core) <= 40
        assert solution.gap <= 1e-9


@pytest.mark.parametrize(
    ("eps", "status", "gap", "true_eps", "is_missed"),
    [
        (None, "optimal", 1e-4, 0.5, False),
        (1e-3, "optimal", 0.5, 0.5, False),
        (None, "stopped", 0.5, 0.5, False),
        (None, "memory limit", 0.5, 0.0, True),
        (None, "memory limit", 1e-4, 0.5, False),
        (1e-3, "memory limit", 0.5, 1e-4, False),
        (1e-3, "iteration limit", 0.0, 2e-3, True),
        (0.0, "rounding", 0.5, 1e-9, False),
        (0.0, "rounding", 0.0, np.inf, True),
        (None, "rounding", np.nan, 0.0, True),
    ],
)
def test_a_rule_is_missed_by_its_own_measure(eps, status, gap, true_eps, is_missed):
    solution = Solution(np.arange(1), np.ones(1), 0.0, gap, 1, status, ball_gap=true_eps)
    assert CoreRule(eps=eps).is_missed(solution) is is_missed
    assert not is_missed or status in REASONS
