from fractions import Fraction
from math import floor

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernlet.datasets import make_checkerboard

seeds = st.integers(0, 2**32 - 1)
sides = st.integers(2, 40)


def naive_class(x, y, n_squares):
    """Exact class of a point of exact numbers."""
    column = floor((Fraction(x) + 1) * n_squares / 2)
    row = floor((Fraction(y) + 1) * n_squares / 2)
    return (column + row) % 2


@settings(deadline=None, max_examples=40)
@given(seeds, sides, st.integers(2, 60))
def test_training_labels_follow_the_formula(seed, n_squares, n_samples):
    board = make_checkerboard(n_samples, n_squares=n_squares, random_state=seed)
    assert board.X.shape == (n_samples, 2)
    assert np.abs(board.X).max() <= 1
    expected = [naive_class(x, y, n_squares) for x, y in board.X.tolist()]
    assert board.y.tolist() == expected
    assert set(expected) == {0, 1}


@settings(deadline=None, max_examples=20)
@given(sides)
def test_grid_labels_are_exact_on_the_lines_too(n_squares):
    board = make_checkerboard(2, n_squares=n_squares, random_state=0)
    steps = [Fraction(g, 100) - 1 for g in range(1, 200)]
    squares = np.array([floor((step + 1) * n_squares / 2) for step in steps])
    expected = (squares[:, None] + squares[None, :]) % 2
    np.testing.assert_array_equal(board.y_test, expected.ravel())


def test_grid_is_the_inner_lattice():
    board = make_checkerboard(10, random_state=0)
    assert board.X_test.shape == (39601, 2)
    steps = np.arange(1, 200) / 100 - 1
    np.testing.assert_allclose(np.unique(board.X_test[:, 0]), steps, atol=1e-15)
    np.testing.assert_allclose(np.unique(board.X_test[:, 1]), steps, atol=1e-15)
    assert len(np.unique(board.X_test, axis=0)) == 39601


def test_line_belongs_to_the_right_and_above():
    board = make_checkerboard(10, random_state=0)
    labels = {tuple(point): label for point, label in zip(board.X_test, board.y_test, strict=True)}
    assert labels[-0.99, -0.99] == 0
    assert labels[-0.5, -0.99] == labels[-0.99, -0.5] == 1
    assert labels[-0.5, -0.5] == labels[0.0, 0.0] == 0


@settings(deadline=None, max_examples=40)
@given(seeds, st.integers(1, 300), st.floats(0, 1))
def test_noise_flips_exactly_its_share_of_training_labels(seed, n_samples, noise):
    clean = make_checkerboard(n_samples, random_state=seed)
    noisy = make_checkerboard(n_samples, noise=noise, random_state=seed)
    np.testing.assert_array_equal(noisy.X, clean.X)
    assert (noisy.y != clean.y).sum() == round(noise * n_samples)
    assert set(noisy.y) <= {0, 1}
    np.testing.assert_array_equal(noisy.y_test, clean.y_test)


def test_two_points_have_two_classes():
    assert all(set(make_checkerboard(2, random_state=seed).y) == {0, 1} for seed in range(50))
    assert make_checkerboard(1, random_state=0).X.shape == (1, 2)


def test_seed_decides_and_the_global_generator_does_not():
    np.random.seed(1)  # noqa: NPY002
    first = make_checkerboard(50, noise=0.2, random_state=3)
    state = np.random.get_state()[1].copy()  # noqa: NPY002
    np.random.rand(7)  # noqa: NPY002
    np.random.seed(1)  # noqa: NPY002
    second = make_checkerboard(50, noise=0.2, random_state=np.random.RandomState(3))
    np.testing.assert_array_equal(first.X, second.X)
    np.testing.assert_array_equal(first.y, second.y)
    np.testing.assert_array_equal(np.random.get_state()[1], state)  # noqa: NPY002
    assert not np.array_equal(first.X, make_checkerboard(50, random_state=4).X)


def test_defaults():
    board = make_checkerboard()
    assert board.name == "checkerboard"
    assert board.X.shape == (1000, 2)
    assert board.X.dtype == np.float64
    assert board.y.dtype == board.y_test.dtype == np.int64


@pytest.mark.parametrize(
    "wrong",
    [
        {"n_samples": 0},
        {"n_samples": 2.5},
        {"n_squares": 1},
        {"noise": -0.1},
        {"noise": 1.1},
        {"noise": float("nan")},
        {"random_state": "seed"},
    ],
)
def test_wrong_parameters_are_named(wrong):
    with pytest.raises(ValueError, match=f"The '{next(iter(wrong))}' parameter .* must be"):
        make_checkerboard(**wrong)
