"""Moments that add and subtract, and the normal equations against slow, direct solutions."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from scipy.optimize import minimize
from sklearn.exceptions import ConvergenceWarning

import naive
from kernlet.kernels.gram import RowFeatures
from kernlet.kernels.rbf import RBF
from kernlet.least_squares.normal_equations import (
    Moments,
    _largest_ratio,
    collect,
    normalization,
    one_against_rest,
    solve_normal_equations,
)


def rows(m=40, n=3, classes=3, seed=0, far=0.0):
    random = np.random.RandomState(seed)
    return random.normal(far, 1.0, (m, n)), random.randint(classes, size=m)


def assert_same(a, b, tol=1e-12):
    np.testing.assert_array_equal(a.counts, b.counts)
    np.testing.assert_allclose(a.sums, b.sums, atol=tol)
    np.testing.assert_allclose(a.products, b.products, atol=tol)


@pytest.mark.parametrize("by_class", [True, False])
@pytest.mark.parametrize("weighted", [True, False])
def test_sums_are_those_of_plain_loops(by_class, weighted):
    X, codes = rows()
    weights = np.random.RandomState(1).uniform(size=len(X)) if weighted else None
    sums = collect(RowFeatures(X), codes, 3, weights=weights, by_class=by_class)
    ones = np.ones(len(X)) if weights is None else weights
    seconds = np.zeros((3, 3, 3))
    firsts = np.zeros((3, 4))
    for x, code, w in zip(X - sums.shift, codes, ones, strict=True):
        seconds[code] += w * np.outer(x, x)
        firsts[code] += w * np.append(x, 1.0)
    np.testing.assert_allclose(sums.sums, firsts, atol=1e-12)
    expected = seconds if by_class else seconds.sum(axis=0)[None]
    np.testing.assert_allclose(sums.products, expected, atol=1e-12)
    np.testing.assert_allclose(sums.totals, np.bincount(codes, ones, 3))


@pytest.mark.parametrize("by_class", [True, False])
def test_sparse_and_float32_rows_have_the_same_sums(by_class):
    X, codes = rows()
    X = np.where(np.abs(X) > 0.7, X, 0.0).astype(np.float32)
    weights = np.linspace(0.5, 2.0, len(X))
    options = {"weights": weights, "by_class": by_class, "shift": np.zeros(3)}
    dense = collect(RowFeatures(X.astype(float)), codes, 3, **options)
    assert_same(collect(RowFeatures(X), codes, 3, **options), dense)
    assert_same(collect(RowFeatures(sparse.csr_array(X)), codes, 3, **options), dense)


@pytest.mark.parametrize("by_class", [True, False])
def test_sparse_rows_about_a_point(by_class):
    X, codes = rows(far=5.0)
    options = {"by_class": by_class, "shift": np.array([5.0, 4.0, 6.0])}
    dense = collect(RowFeatures(X), codes, 3, **options)
    assert_same(collect(RowFeatures(sparse.csr_array(X)), codes, 3, **options), dense)


def test_blocks_do_not_show(monkeypatch):
    X, codes = rows(100)
    whole = collect(RowFeatures(X), codes, 3)
    kernel = collect(RowFeatures(X, RBF(1.0), X[:7]), codes, 3)
    monkeypatch.setattr("kernlet.kernels.gram.BLOCK_BYTES", 200)
    assert_same(collect(RowFeatures(X), codes, 3), whole)
    assert_same(collect(RowFeatures(X, RBF(1.0), X[:7]), codes, 3), kernel)


@settings(max_examples=30)
@given(st.permutations(range(6)), st.integers(0, 5), st.booleans())
def test_order_of_blocks_and_forgetting(order, n_forgotten, by_class):
    X, codes = rows(60)
    parts = np.array_split(np.arange(60), 6)
    shift = X[:5].mean(axis=0)

    def sums_of(chosen):
        return collect(RowFeatures(X), codes, 3, shift=shift, by_class=by_class, rows=chosen)

    total = Moments.empty(3, 3, shift=shift, by_class=by_class)
    for number in order:
        total = total + sums_of(parts[number])
    assert_same(total, sums_of(np.arange(60)))
    for number in order[:n_forgotten]:
        total = total - sums_of(parts[number])
    left = np.concatenate([parts[number] for number in order[n_forgotten:]])
    assert_same(total, sums_of(left))


def test_a_class_wholly_forgotten_leaves_nothing_behind():
    X, codes = rows(30)
    whole = collect(RowFeatures(X), codes, 3)
    gone = collect(RowFeatures(X), codes, 3, shift=whole.shift, rows=np.flatnonzero(codes == 1))
    left = whole - gone
    assert not left.products[1].any()
    assert not left.sums[1].any()


@pytest.mark.parametrize("by_class", [True, False])
def test_rounding_left_of_a_column_is_cleared(by_class):
    random = np.random.RandomState(0)
    X, codes = random.uniform(size=(1000, 2)), np.arange(1000) % 2
    X[:, 1] *= 1e9
    X[:4, 1] = 0.0
    options = {"shift": np.zeros(2), "by_class": by_class}
    left = collect(RowFeatures(X), codes, 2, **options)
    for start in range(4, 1000, 83):
        part = np.arange(start, min(start + 83, 1000))
        left = left - collect(RowFeatures(X), codes, 2, rows=part, **options)
    assert (left.products[:, 1, 1] >= 0).all()
    few = collect(RowFeatures(X), codes, 2, rows=np.arange(4), **options)
    np.testing.assert_allclose(left.products[:, 0, 0], few.products[:, 0, 0], rtol=1e-9)


def test_classes_without_rows_can_be_left_out():
    X, codes = rows(30)
    for by_class in (True, False):
        sums = collect(RowFeatures(X), 2 * codes, 5, by_class=by_class)
        few = sums.select_classes(np.array([0, 2, 4]))
        assert_same(few, collect(RowFeatures(X), codes, 3, by_class=by_class))


def test_more_classes_and_one_against_rest():
    X, codes = rows(30, classes=2)
    sums = collect(RowFeatures(X), codes, 2)
    larger = sums.expand_classes(np.array([0, 2]), 3)
    np.testing.assert_array_equal(larger.counts, [sums.counts[0], 0, sums.counts[1]])
    np.testing.assert_array_equal(larger.products[2], sums.products[1])
    two = larger.against_rest(2)
    assert_same(two, sums)


def test_what_cannot_be_added_is_refused():
    X, codes = rows()
    sums = collect(RowFeatures(X), codes, 3)
    with pytest.raises(ValueError, match="More rows"):
        Moments.empty(3, 3, shift=sums.shift) - sums
    heavy = collect(RowFeatures(X), codes, 3, weights=np.full(len(X), 2.0))
    with pytest.raises(ValueError, match="more weight"):
        sums - heavy
    light = collect(RowFeatures(X), codes, 3, weights=np.full(len(X), 0.5))
    with pytest.raises(ValueError, match="other weights"):
        sums - light  # all rows, but half of the weight
    few = collect(RowFeatures(X), codes, 3, shift=sums.shift, rows=np.arange(5))
    heavy = replace(few, sums=sums.sums)
    with pytest.raises(ValueError, match="other weights"):
        sums - heavy  # some rows, but all of the weight
    far = collect(RowFeatures(9 * X[:5]), codes[:5], 3, shift=sums.shift)
    with pytest.raises(ValueError, match="not learned"):
        sums - far
    with pytest.raises(ValueError, match="different points"):
        sums + Moments.empty(3, 3)
    with pytest.raises(ValueError, match="other classes or features"):
        sums + Moments.empty(4, 3)
    with pytest.raises(ValueError, match="not known apart"):
        collect(RowFeatures(X), codes, 3, by_class=False).against_rest(1)


def test_squares_that_overflow_get_a_sentence():
    X, codes = rows()
    with pytest.raises(ValueError, match="StandardScaler"):
        collect(RowFeatures(1e200 * X), codes, 3)


def balanced_rows(m=60, n=4, classes=3, seed=0, far=0.0):
    random = np.random.RandomState(seed)
    codes = np.arange(m) % classes
    return random.normal(far, 1.0, (m, n)) + 0.7 * codes[:, None], codes


def solve(X, codes, C, balanced=None, n_classes=3):
    signs = one_against_rest(n_classes)
    sums = collect(RowFeatures(X), codes, n_classes, by_class=balanced is not None)
    weights = None if balanced is None else normalization(signs, sums.totals, balanced=balanced)
    return solve_normal_equations(sums, C, signs, weights)


@pytest.mark.parametrize("balanced", [None, True, False])
@pytest.mark.parametrize("C", [1e-3, 1.0, 1e4])
@pytest.mark.parametrize("far", [0.0, 100.0])
def test_it_is_the_least_squares_machine(balanced, C, far):
    X, codes = balanced_rows(far=far)
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
    X, codes = balanced_rows(30, 2)
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
    X, codes = balanced_rows(m, n, 2, seed)
    X = X * 10.0 ** np.linspace(-power, power, n)
    solution = solve(X, codes, 10.0**log_C, True, 2)
    assert solution.residual < 1e-9
    mirrored = solution.coef[0] + solution.coef[1]
    assert np.abs(mirrored).max() <= 1e-7 * max(1.0, np.abs(solution.coef).max())


def test_constant_equal_and_repeated_columns():
    X, codes = balanced_rows(40, 2)
    X = np.hstack([X, X, np.ones((40, 1)), np.zeros((40, 1))])
    solution = solve(X, codes, 1e8, True)
    assert solution.residual < 1e-8
    np.testing.assert_allclose(solution.coef[:, 0], solution.coef[:, 2], rtol=1e-4)
    np.testing.assert_array_equal(solution.coef[:, -1], 0.0)


def test_singular_equations_have_an_answer():
    X, codes = balanced_rows(40, 2)
    X = np.hstack([X, X])
    solution = solve(X, codes, 1e300)
    w, b = naive.proximal(X[:, :2], np.where(codes == 0, 1.0, -1.0), np.ones(40), 1e12)
    found = X @ solution.coef[0] + solution.intercept[0]
    np.testing.assert_allclose(found, X[:, :2] @ w + b, atol=1e-6)
    assert solution.residual < 1e-8


def test_a_class_without_rows_says_no():
    X, codes = balanced_rows(classes=2)
    solution = solve(X, codes, 1e3, True, 3)
    assert (X @ solution.coef[2] + solution.intercept[2] < -0.9).all()


def test_weights_need_sums_by_class():
    X, codes = balanced_rows()
    sums = collect(RowFeatures(X), codes, 3, by_class=False)
    with pytest.raises(ValueError, match="by class"):
        solve_normal_equations(sums, 1.0, one_against_rest(3), np.ones((3, 3)))


@pytest.mark.parametrize("C", [0.0, 1e-310, np.nan])
def test_too_small_a_C_is_refused(C):
    X, codes = balanced_rows()
    with pytest.raises(ValueError, match="too small"):
        solve_normal_equations(collect(RowFeatures(X), codes, 3), C, one_against_rest(3))


def test_normalization_gives_either_side_the_same_sum():
    totals = np.array([5.0, 20.0, 75.0])
    signs = one_against_rest(3)
    for balanced, each in ((True, 50.0), (False, 1.0)):
        weights = normalization(signs, totals, balanced=balanced) * totals
        np.testing.assert_allclose((weights * (signs > 0)).sum(axis=1), each)
        np.testing.assert_allclose((weights * (signs < 0)).sum(axis=1), each)


def test_the_residual_is_that_of_the_equations():
    random = np.random.RandomState(0)
    X, codes = random.normal(50.0, 1.0, (80, 5)), random.randint(3, size=80)
    solution = solve_normal_equations(collect(RowFeatures(X), codes, 3), 1.0, one_against_rest(3))
    H = np.hstack([X, np.ones((80, 1))])
    answers = np.hstack([solution.coef, solution.intercept[:, None]])
    signs = np.where(codes == np.arange(3)[:, None], 1.0, -1.0)
    left = (np.eye(6) + H.T @ H) @ answers.T - H.T @ signs.T
    assert np.abs(left).max() < 1e-9 * np.abs(H.T @ H).max()
    assert solution.residual < 1e-13


def test_no_columns_worth_a_weight():
    X, codes = np.zeros((4, 2)), np.array([0, 0, 0, 1])
    solution = solve_normal_equations(collect(RowFeatures(X), codes, 2), 1e6, one_against_rest(2))
    np.testing.assert_array_equal(solution.coef, 0.0)
    np.testing.assert_allclose(solution.intercept, [0.5, -0.5], atol=1e-5)
    assert solution.residual < 1e-14


@pytest.mark.parametrize("C", [1e-6, 1.0, 1e6])
@pytest.mark.parametrize("far", [0.0, 1e5, 1e9])
def test_rows_far_from_the_origin_keep_their_digits(C, far):
    random = np.random.RandomState(0)
    X, codes = random.normal(size=(20, 3)), np.arange(20) % 2
    X = X + codes[:, None] + far * np.array([1.0, -2.0, 0.5])
    signs = one_against_rest(2, [1])
    solution = solve_normal_equations(collect(RowFeatures(X), codes, 2), C, signs)
    assert solution.residual < 1e-12
    values = X @ solution.coef[0] + solution.intercept[0]
    expected = naive.proximal_values_exact(X, 2.0 * codes - 1, np.ones(20), C)
    np.testing.assert_allclose(values, expected, atol=1e-9 + 1e-15 * far)


def test_the_penalty_on_the_intercept_counts_where_columns_are_dependent():
    X = np.random.RandomState(0).normal(size=(30, 1)).round(3)
    codes = (X[:, 0] > 0.2).astype(int)
    X = np.hstack([X + 2.0**20, X + 2.0**21, X])
    solution = solve_normal_equations(
        collect(RowFeatures(X), codes, 2), 1e12, one_against_rest(2, [1])
    )
    assert solution.residual < 1e-10
    assert abs(solution.intercept[0]) < 1e-3  # w can bear it in its place
    values = X @ solution.coef[0] + solution.intercept[0]
    expected = naive.proximal_values_exact(X, 2.0 * codes - 1, np.ones(30), 1e12)
    np.testing.assert_allclose(values, expected, atol=1e-7)


def test_sums_of_no_rows_are_refused():
    X, codes = np.random.RandomState(0).normal(size=(10, 2)), np.arange(10) % 2
    for wrong in (-1e6, np.nan):
        sums = collect(RowFeatures(X), codes, 2)
        sums.products[0, 1, 1] = wrong
        with pytest.raises(ValueError, match="not those of any rows"):
            solve_normal_equations(sums, 1.0, one_against_rest(2))


def test_what_is_not_solved_is_warned_of():
    X, codes = np.random.RandomState(0).normal(size=(10, 2)), np.arange(10) % 2
    sums = collect(RowFeatures(X), codes, 2)
    sums.products[:] = [[1.0, 1.0], [1.0, 1.0]]
    with pytest.warns(ConvergenceWarning, match="residual"):
        solution = solve_normal_equations(sums, 1e300, one_against_rest(2))
    assert solution.residual > 1e-6


def test_no_number_is_no_residual():
    assert np.isnan(_largest_ratio(np.full((2, 1), np.nan), np.ones((2, 1))))
    assert np.isnan(_largest_ratio(np.ones((2, 1)), np.full((2, 1), np.nan)))
    assert _largest_ratio(np.zeros((2, 1)), np.zeros((2, 1))) == 0.0
