"""The proximal problem, against dense least squares and a numerical minimiser."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

import naive
from kernlet.kernels.gram import RowFeatures
from kernlet.least_squares.normal_equations import (
    NormalEquations,
    collect,
    normalization,
    one_against_rest,
)


def rows(m=60, n=4, classes=3, seed=0, far=0.0):
    random = np.random.RandomState(seed)
    codes = np.arange(m) % classes
    return random.normal(far, 1.0, (m, n)) + 0.7 * codes[:, None], codes


def solve(X, codes, C, balanced=None, n_classes=3):
    signs = one_against_rest(n_classes)
    sums = collect(RowFeatures(X), codes, n_classes, by_class=balanced is not None)
    weights = None if balanced is None else normalization(signs, sums.totals, balanced=balanced)
    return NormalEquations(sums, C, signs, weights).solve()


@pytest.mark.parametrize("balanced", [None, True, False])
@pytest.mark.parametrize("C", [1e-3, 1.0, 1e4])
@pytest.mark.parametrize("far", [0.0, 100.0])
def test_it_is_the_least_squares_machine(balanced, C, far):
    X, codes = rows(far=far)
    solution = solve(X, codes, C, balanced)
    assert solution.residual < 1e-10
    assert solution.n_factorizations == (1 if balanced is None else 3)
    for number in range(3):
        signs = np.where(codes == number, 1.0, -1.0)
        weights = np.ones(60) if balanced is None else naive.class_normalization(signs, balanced)
        w, b = naive.proximal(X, signs, weights, C)
        found = X @ solution.coef[number] + solution.intercept[number]
        np.testing.assert_allclose(found, X @ w + b, atol=1e-8)
        np.testing.assert_allclose(solution.coef[number], w, atol=1e-8)


def test_a_numerical_minimiser_finds_the_same():
    X, codes = rows(30, 2)
    solution = solve(X, codes, 2.0, True)
    signs = np.where(codes == 1, 1.0, -1.0)
    weights = naive.class_normalization(signs, True)

    def gradient(v):
        errors = signs - X @ v[:-1] - v[-1]
        return v - 2.0 * np.append((weights * errors) @ X, weights @ errors)

    found = minimize(
        naive.proximal_objective,
        np.zeros(3),
        (X, signs, weights, 2.0),
        jac=lambda v, *_: gradient(v),
        method="BFGS",
        options={"gtol": 1e-11},
    )
    ours = np.append(solution.coef[1], solution.intercept[1])
    np.testing.assert_allclose(ours, found.x, atol=1e-8)
    assert np.abs(gradient(ours)).max() < 1e-11


@settings(max_examples=40)
@given(
    st.integers(2, 30),
    st.integers(1, 6),
    st.floats(-3, 3),
    st.floats(-4, 4),
    st.integers(0, 10_000),
)
def test_the_equations_hold_whatever_the_scale(m, n, power, log_C, seed):
    X, codes = rows(m, n, 2, seed)
    X = X * 10.0 ** np.linspace(-power, power, n)
    solution = solve(X, codes, 10.0**log_C, True, 2)
    assert solution.residual < 1e-9
    mirrored = solution.coef[0] + solution.coef[1]
    assert np.abs(mirrored).max() <= 1e-7 * max(1.0, np.abs(solution.coef).max())


def test_constant_equal_and_repeated_columns():
    X, codes = rows(40, 2)
    X = np.hstack([X, X, np.ones((40, 1)), np.zeros((40, 1))])
    solution = solve(X, codes, 1e8, True)
    assert solution.residual < 1e-8
    np.testing.assert_allclose(solution.coef[:, 0], solution.coef[:, 2], rtol=1e-4)
    np.testing.assert_array_equal(solution.coef[:, -1], 0.0)


def test_singular_equations_have_an_answer():
    X, codes = rows(40, 2)
    X = np.hstack([X, X])
    solution = solve(X, codes, 1e300)
    w, b = naive.proximal(X[:, :2], np.where(codes == 0, 1.0, -1.0), np.ones(40), 1e12)
    found = X @ solution.coef[0] + solution.intercept[0]
    np.testing.assert_allclose(found, X[:, :2] @ w + b, atol=1e-6)
    assert solution.residual < 1e-8


def test_a_class_without_rows_says_no():
    X, codes = rows(classes=2)
    solution = solve(X, codes, 1e3, True, 3)
    assert (X @ solution.coef[2] + solution.intercept[2] < -0.9).all()


def test_weights_need_sums_by_class():
    X, codes = rows()
    sums = collect(RowFeatures(X), codes, 3, by_class=False)
    with pytest.raises(ValueError, match="by class"):
        NormalEquations(sums, 1.0, one_against_rest(3), np.ones((3, 3)))


@pytest.mark.parametrize("C", [0.0, 1e-310, np.nan])
def test_too_small_a_C_is_refused(C):
    X, codes = rows()
    with pytest.raises(ValueError, match="too small"):
        NormalEquations(collect(RowFeatures(X), codes, 3), C, one_against_rest(3))


def test_normalization_gives_either_side_the_same_sum():
    totals = np.array([5.0, 20.0, 75.0])
    signs = one_against_rest(3)
    for balanced, each in ((True, 50.0), (False, 1.0)):
        weights = normalization(signs, totals, balanced=balanced) * totals
        np.testing.assert_allclose((weights * (signs > 0)).sum(axis=1), each)
        np.testing.assert_allclose((weights * (signs < 0)).sum(axis=1), each)
