"""Means of each class."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn.datasets import load_digits

from kernlet import CentroidCondenser
from kernlet.condense import centroids


def rows(m=80, classes=3, seed=0):
    random = np.random.RandomState(seed)
    codes = np.sort(random.randint(classes, size=m))
    codes[:classes] = np.arange(classes)
    return random.normal(size=(m, 2)) + codes[:, None], codes


def found(X, codes, **options):
    return CentroidCondenser(random_state=0, **options).fit(X, codes).condensation_


@settings(max_examples=30)
@given(st.integers(3, 60), st.floats(0.01, 1.0), st.integers(1, 5), st.integers(0, 1000))
def test_what_always_holds(m, keep, floor, seed):
    X, codes = rows(m, seed=seed)
    answer = found(X, codes, keep=keep, min_per_class=floor)
    before = np.bincount(codes)
    after = np.array(list(answer.kept_per_class.values()))
    wanted = np.minimum(before, np.maximum(floor, [max(1, round(keep * n)) for n in before]))
    np.testing.assert_array_equal(after, wanted)
    assert answer.sizes.sum() == m
    for number in range(3):
        own = answer.codes == number
        mean = np.average(answer.rows[own], axis=0, weights=answer.sizes[own])
        np.testing.assert_allclose(mean, X[codes == number].mean(axis=0), atol=1e-8)


def test_inertia_is_the_sum_of_squared_distances():
    X, codes = rows()
    answer = found(X, codes, keep=0.2)
    for number in range(3):
        means = answer.rows[answer.codes == number]
        distances = ((X[codes == number][:, None] - means) ** 2).sum(axis=2).min(axis=1)
        assert answer.inertia[number] == pytest.approx(distances.sum())
    assert answer.fraction_kept == pytest.approx(0.2, abs=0.02)
    assert sum(answer.deleted_per_class.values()) == len(X) - len(answer.rows)
    assert "for 80 rows" in repr(answer)


def test_equal_rows_are_one_mean():
    X, codes = np.zeros((20, 2)), np.repeat([0, 1], 10)
    answer = found(X, codes, keep=0.5)
    assert answer.kept_per_class == {0: 1, 1: 1}
    assert answer.sizes.tolist() == [10, 10]


def test_sparse_rows_have_the_same_means():
    X, codes = rows()
    X = np.where(X > 0, X, 0.0)
    dense = found(X, codes, keep=1.0)
    np.testing.assert_array_equal(found(sparse.csr_array(X), codes, keep=1.0).rows, dense.rows)
    few = found(sparse.csr_array(X), codes, keep=0.1)
    assert few.rows.shape == (few.sizes.size, 2)


@pytest.mark.parametrize("scale", [2.0**600, 2.0**-560, 2.0**100, 3.0, 1.0])
@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_array])
def test_the_scale_does_not_matter(scale, kind):
    X, codes = rows()
    plain, large = (found(kind(c * X), codes, keep=0.2) for c in (1.0, scale))
    np.testing.assert_array_equal(large.sizes, plain.sizes)
    np.testing.assert_allclose(large.rows / scale, plain.rows, rtol=1e-12)


def test_float32_at_its_ends():
    X, codes = rows()
    plain = found(X.astype(np.float32), codes, keep=0.2)
    for scale in (1.99 * 2.0**127 / np.abs(X).max(), 2.0**-100):
        answer = found((scale * X).astype(np.float32), codes, keep=0.2)
        assert np.isfinite(answer.rows).all()
        np.testing.assert_array_equal(answer.sizes, plain.sizes)
        np.testing.assert_allclose(answer.rows / scale, plain.rows, rtol=1e-5)


def test_large_classes_get_one_start_by_default(monkeypatch):
    X, y = load_digits(return_X_y=True)
    three, one = (CentroidCondenser(n_init=n, random_state=0).fit_resample(X, y)[0] for n in (3, 1))
    np.testing.assert_array_equal(CentroidCondenser(random_state=0).fit_resample(X, y)[0], three)
    monkeypatch.setattr(centroids, "_MANY_DISTANCES", 1e4)
    np.testing.assert_array_equal(CentroidCondenser(random_state=0).fit_resample(X, y)[0], one)
