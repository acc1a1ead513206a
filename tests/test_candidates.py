"""Which points may become centers."""

import numpy as np
import pytest
from scipy import sparse

from kernlet import L1KernelClassifier
from kernlet.sampling import choose_candidates

X = np.random.RandomState(0).randn(40, 2)
y = X[:, 0] * X[:, 1] > 0


def choose(candidates, rows=X):
    return choose_candidates(candidates, rows, np.random.RandomState(0))


@pytest.mark.parametrize("everything", [None, 40, 1.0])
def test_all_rows(everything):
    chosen = choose(everything)
    assert chosen.points is None
    np.testing.assert_array_equal(chosen.rows, np.arange(40))


@pytest.mark.parametrize(("some", "count"), [(7, 7), (0.25, 10), (0.001, 1), (np.int64(3), 3)])
def test_a_number_or_a_fraction_of_rows(some, count):
    chosen = choose(some)
    assert len(set(chosen.rows)) == count
    np.testing.assert_array_equal(chosen.points, X[chosen.rows])


@pytest.mark.parametrize("points", [[[0.0, 1.0]], sparse.csr_array([[0.0, 1.0]])])
def test_given_points_are_no_rows(points):
    chosen = choose(points)
    assert chosen.rows is None
    np.testing.assert_array_equal(chosen.points, [[0.0, 1.0]])
    assert sparse.issparse(choose(points, sparse.csr_array(X)).points)


@pytest.mark.parametrize("out_of_range", [0, -1, 41, 0.0, -0.5, 1.5])
def test_out_of_range(out_of_range):
    with pytest.raises(ValueError, match=f"candidates={out_of_range} is out of range"):
        L1KernelClassifier(candidates=out_of_range).fit(X, y)


def test_points_of_the_wrong_width():
    with pytest.raises(ValueError, match="candidates has 3 columns, but X has 2 features"):
        L1KernelClassifier(candidates=np.ones((4, 3))).fit(X, y)


def test_points_that_are_no_numbers():
    with pytest.raises(ValueError, match="candidates contains NaN"):
        L1KernelClassifier(candidates=[[np.nan, 0.0]]).fit(X, y)


@pytest.mark.parametrize(
    ("wrong", "sentence"), [(True, "True or False"), ([1, 2, 3], r"give X\[rows\]")]
)
def test_neither_a_number_nor_points(wrong, sentence):
    with pytest.raises(ValueError, match=sentence):
        L1KernelClassifier(candidates=wrong).fit(X, y)


def test_centers_come_from_the_candidates():
    points = np.random.RandomState(1).randn(12, 2)
    given = L1KernelClassifier(candidates=points).fit(X, y)
    np.testing.assert_array_equal(given.expansion_.centers, points[given.center_indices_])
    drawn = L1KernelClassifier(candidates=12, random_state=3).fit(X, y)
    np.testing.assert_array_equal(drawn.expansion_.centers, X[drawn.center_indices_])
    assert given.duality_gap_.max() <= 1e-9
    assert drawn.duality_gap_.max() <= 1e-9
