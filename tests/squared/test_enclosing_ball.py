"""Enclosing balls against their formulas."""

import numpy as np
import pytest

import naive
from kernlet.kernels.gram import Gram
from kernlet.kernels.linear import Linear
from kernlet.kernels.rbf import RBF
from kernlet.kernels.sigmoid import Sigmoid
from kernlet.squared.problem import EnclosingBall
from support.balls import matrix, overlapping


@pytest.mark.parametrize("n_directions", [0, 2])
def test_products_are_the_formula(n_directions):
    ball = overlapping(12, n_directions=n_directions)
    everything = np.arange(12)
    Q = ball.products(everything, everything)
    K = naive.gram(naive.twin(ball.gram.kernel), ball.gram.x.X, ball.gram.x.X)
    for i in range(12):
        for j in range(12):
            taken = 0.0 if ball.images is None else ball.images[i] @ ball.images[j]
            value = ball.signs[i] * ball.signs[j] * (K[i, j] + 1 - taken)
            assert Q[i, j] == pytest.approx(value + (i == j) / ball.costs[i], abs=1e-12)
    some, others = np.array([3, 5]), np.array([5, 1, 3])
    np.testing.assert_allclose(ball.products(some, others), Q[np.ix_(some, others)], atol=1e-12)


def test_distances_are_those_of_the_points_before_directions_are_taken_off():
    """In explicit coordinates: (d phi, d, e / sqrt(c)), center orthogonal to u."""
    random = np.random.RandomState(0)
    Phi = random.randn(10, 4)
    signs = np.where(random.rand(10) > 0.5, 1.0, -1.0)
    u = random.randn(4, 1)
    u /= np.linalg.norm(u)
    costs = np.full(10, 3.0)
    Phi /= np.linalg.norm(Phi, axis=1)[:, None]
    ball = EnclosingBall(Gram(Linear(), Phi), signs, costs, Phi @ u)
    points = np.hstack([signs[:, None] * Phi, signs[:, None], np.eye(10) / np.sqrt(3.0)])
    alpha = random.dirichlet(np.ones(10))
    center = alpha @ points
    center[:4] -= u[:, 0] * (u[:, 0] @ center[:4])
    Q = ball.products(np.arange(10), np.arange(10))
    g, n2 = Q @ alpha, alpha @ Q @ alpha
    distances = ((points - center) ** 2).sum(axis=1)
    np.testing.assert_allclose(distances, n2 - 2 * g + ball.kappa, atol=1e-12)
    assert ball.kappa == pytest.approx(1 + 1 + 1 / 3)
    radius = np.sqrt(ball.kappa - n2)
    assert ball.eps(n2, g.min()) == pytest.approx(np.sqrt(distances.max()) / radius - 1)


def test_the_objective_is_the_sum_as_written():
    ball = overlapping(15)
    values = np.linspace(-2, 2, 15)
    slacks = [max(0.0, 1 - s * v) for s, v in zip(ball.signs, values, strict=True)]
    wanted = 0.5 * 7.0 + 0.5 * sum(c * x * x for c, x in zip(ball.costs, slacks, strict=True))
    assert ball.objective(7.0, values) == pytest.approx(wanted)


def test_bad_input_gets_a_sentence():
    X = np.zeros((3, 2))
    ones = np.ones(3)
    with pytest.raises(ValueError, match="positive semi-definite"):
        EnclosingBall(Gram(Sigmoid(1.0, 0.0), X), ones, ones)
    with pytest.raises(ValueError, match="other columns"):
        EnclosingBall(Gram(RBF(1.0), X, X[:1]), ones, ones)
    with pytest.raises(ValueError, match="one of each"):
        EnclosingBall(Gram(RBF(1.0), X), ones[:2], ones)
    with pytest.raises(ValueError, match="nearer to 1"):
        EnclosingBall(Gram(RBF(1.0), X), ones, np.array([1.0, 0.0, 1.0]))


def test_the_matrix_helper_is_the_kernel():
    assert matrix(overlapping(5)).shape == (5, 5)
