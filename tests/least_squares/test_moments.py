"""Sums over rows that add and subtract."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from kernlet.kernels.gram import RowFeatures
from kernlet.kernels.rbf import RBF
from kernlet.least_squares.normal_equations import Moments, collect


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
