"""Newton over a kernel matrix and landmarks: the optimum, with a true certificate."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.linalg import LinAlgError
from scipy.linalg import cho_factor
from scipy.optimize import minimize

import naive
from kernlet.kernels.gram import Gram, LandmarkBlocks
from kernlet.kernels.linalg import orthonormal_map, orthonormalized
from kernlet.kernels.rbf import RBF
from kernlet.squared.newton import LandmarkNewton, minimize_matrix
from support.squared_problems import features_of, kernel_matrix_of, overlapping

quickly = settings(max_examples=40, deadline=None)
seeds = st.integers(0, 2**31)


@pytest.mark.parametrize("n_directions", [0, 1, 3])
@pytest.mark.parametrize("C", [0.01, 1.0, 1e4])
def test_it_is_the_optimum_and_says_so(n_directions, C):
    problem = overlapping(90, C=C, n_directions=n_directions)
    features = features_of(problem)
    K = kernel_matrix_of(problem)
    found = minimize_matrix(problem, K)
    assert found.gap <= 1e-8
    coef = found.spread(found.coef, 90)
    wanted = naive.margin_feature(K, problem.signs, problem.costs, features)
    assert found.objective == pytest.approx(wanted.sum() / 2, rel=1e-7)
    kernel = K + 1 - features @ features.T
    np.testing.assert_allclose(found.values, kernel @ coef, atol=1e-9 * max(1, C))


def test_a_start_by_half_of_the_rows_leads_to_the_same_optimum(monkeypatch):
    problem = overlapping(90, C=3.0, n_directions=2)
    K = kernel_matrix_of(problem)
    cold = minimize_matrix(problem, K)
    monkeypatch.setattr("kernlet.squared.newton._FEW_ROWS", 20)
    warm = minimize_matrix(problem, K)
    assert max(cold.gap, warm.gap) <= 1e-8
    assert warm.objective == pytest.approx(cold.objective, rel=1e-8)
    np.testing.assert_allclose(warm.values, cold.values, atol=1e-3)
    assert warm.n_iter < cold.n_iter


def test_matrix_sums_that_overflow_get_a_sentence():
    problem = overlapping(30, C=1e200)
    with np.errstate(all="ignore"), pytest.raises(ValueError, match="overflow"):
        minimize_matrix(problem, kernel_matrix_of(problem))


def setting(m=200, p=20, seed=0, C=2.0, n_outputs=2, max_bytes=2**24, dtype=np.float64):
    random = np.random.RandomState(seed)
    X = random.randn(m, 3)
    signs = np.array(
        [np.where(X[:, k] + 0.5 * random.randn(m) > 0, 1.0, -1.0) for k in range(n_outputs)]
    )
    costs = C * random.uniform(0.5, 2.0, m)
    blocks = LandmarkBlocks(Gram(RBF(0.5), X, X[:p], dtype=dtype), max_bytes)
    return blocks, signs, costs


def worst_gap(solutions):
    return max(solution.gap for solution in solutions)


def features(blocks):
    return np.vstack([block for _, block in blocks])


@pytest.mark.parametrize("n_directions", [0, 2])
def test_it_finds_what_plain_minimisation_finds(n_directions):
    blocks, signs, costs = setting()
    B = features(blocks)
    earlier = [
        np.linalg.qr(np.random.RandomState(k).randn(blocks.rank, n_directions))[0] for k in range(2)
    ]
    found = LandmarkNewton(blocks, signs, costs).solve(earlier, tol=1e-12)
    for k in range(2):
        free = np.linalg.qr(np.hstack([earlier[k], np.eye(blocks.rank)]))[0][:, n_directions:]
        N = np.vstack(
            [np.hstack([free, np.zeros((blocks.rank, 1))]), np.eye(free.shape[1] + 1)[-1]]
        )

        def value(x, k=k, N=N):
            w = N @ x
            errors = np.maximum(0, 1 - signs[k] * (B @ w))
            slope = N.T @ (w - B.T @ (costs * signs[k] * errors))
            return 0.5 * (w @ w + costs @ errors**2), slope

        plain = minimize(
            value, np.zeros(N.shape[1]), jac=True, method="BFGS", options={"gtol": 1e-9}
        )
        assert found[k].objective == pytest.approx(plain.fun, rel=1e-9)
        np.testing.assert_allclose(
            np.append(found[k].coef, found[k].intercept), N @ plain.x, atol=1e-5
        )
        np.testing.assert_allclose(earlier[k].T @ found[k].coef, 0.0, atol=1e-12)
    assert worst_gap(found) <= 1e-12


@settings(max_examples=20)
@given(st.integers(0, 1000), st.floats(0.01, 1e4), st.booleans())
def test_the_gap_is_primal_less_dual(seed, C, is_early):
    blocks, signs, costs = setting(60, 10, seed, C, n_outputs=1)
    found = LandmarkNewton(blocks, signs, costs).solve(
        [np.zeros((blocks.rank, 0))], tol=1e-9, max_iter=2 if is_early else 100
    )
    B = features(blocks)
    w = np.append(found[0].coef, found[0].intercept)
    errors = np.maximum(0, 1 - signs[0] * (B @ w))
    primal = 0.5 * (w @ w + costs @ errors**2)
    a = costs * errors
    v = B.T @ (a * signs[0])
    dual = a.sum() - 0.5 * v @ v - 0.5 * (a / costs) @ a
    assert found[0].objective == pytest.approx(primal, rel=1e-9)
    assert found[0].gap == pytest.approx((primal - dual) / primal, abs=1e-9)
    if not is_early:
        assert found[0].gap <= 1e-9


def test_blocks_that_are_not_held_give_the_same(monkeypatch):
    monkeypatch.setattr("kernlet.kernels.gram.BLOCK_BYTES", 4000)
    blocks, signs, costs = setting(max_bytes=0)
    assert not blocks.is_held
    assert sum(1 for _ in blocks) > 3
    held, *_ = setting()
    free = [np.zeros((blocks.rank, 0))] * 2
    a = LandmarkNewton(blocks, signs, costs).solve(free, tol=1e-10)
    b = LandmarkNewton(held, signs, costs).solve(free, tol=1e-10)
    for one, other in zip(a, b, strict=True):
        np.testing.assert_allclose(one.coef, other.coef, atol=1e-8)


def test_float32_blocks_come_near():
    blocks, signs, costs = setting()
    short, *_ = setting(dtype=np.float32)
    assert next(iter(short))[1].dtype == np.float32
    free = [[np.zeros((b.rank, 0))] * 2 for b in (blocks, short)]
    exact = LandmarkNewton(blocks, signs, costs).solve(free[0], tol=1e-10)
    near = LandmarkNewton(short, signs, costs).solve(free[1], tol=1e-6)
    for one, other in zip(near, exact, strict=True):
        assert one.objective == pytest.approx(other.objective, rel=1e-4)


def test_a_start_changes_the_passes_and_not_the_answer():
    blocks, signs, costs = setting(400, 30)
    free = [np.zeros((blocks.rank, 0))] * 2
    newton = LandmarkNewton(blocks, signs, costs)
    plain = newton.solve(free, tol=1e-10)
    start = np.array([np.append(s.coef, s.intercept) for s in plain])
    warm = LandmarkNewton(blocks, signs, costs).solve(free, tol=1e-10, start=start)
    assert warm[0].n_iter == 1
    for one, other in zip(warm, plain, strict=True):
        np.testing.assert_array_equal(one.coef, other.coef)


def test_huge_costs_are_solved_in_float64():
    blocks, signs, costs = setting(C=1e8)
    newton = LandmarkNewton(blocks, signs, costs)
    assert newton.dtype == np.float64
    assert worst_gap(newton.solve([np.zeros((blocks.rank, 0))] * 2, tol=1e-6)) <= 1e-6


def test_orthonormal_maps():
    X = np.random.RandomState(0).randn(40, 2)
    K = RBF(0.2)(np.vstack([X, X]), np.vstack([X, X]))
    T = orthonormal_map(K)
    assert T.shape[1] < 41
    rough = T[:, -4:] @ np.random.RandomState(1).randn(4, 3)
    exact = orthonormalized(rough / 2, K)
    np.testing.assert_allclose(exact.T @ K @ exact, np.eye(3), atol=1e-12)
    with pytest.raises(ValueError, match="overflows"):
        orthonormal_map(np.full((2, 2), np.inf))


def test_where_float32_has_no_digits_float64_goes_on(monkeypatch):
    def refusing(matrix, **options):
        if matrix.dtype == np.float32:
            raise LinAlgError
        return cho_factor(matrix, **options)

    monkeypatch.setattr("kernlet.squared.newton.cho_factor", refusing)
    blocks, signs, costs = setting()
    newton = LandmarkNewton(blocks, signs, costs)
    assert newton.dtype == np.float32
    assert worst_gap(newton.solve([np.zeros((blocks.rank, 0))] * 2, tol=1e-12)) <= 1e-12
    assert newton.dtype == np.float64


def test_sums_that_overflow_get_a_sentence():
    blocks, signs, costs = setting(C=1e60, dtype=np.float32)
    with np.errstate(all="ignore"), pytest.raises(ValueError, match="overflow"):
        LandmarkNewton(blocks, signs, costs).solve([np.zeros((blocks.rank, 0))] * 2)
