"""Enclosing balls for tests."""

import numpy as np

from kernlet.kernels.gram import ColumnCache, Gram
from kernlet.kernels.rbf import RBF
from kernlet.squared.problem import EnclosingBall


def overlapping(m=80, d=3, C=2.0, seed=0, gamma=0.3, n_directions=0, spread=True):
    """Two classes that overlap, every row with a C of its own, some directions taken off."""
    random = np.random.RandomState(seed)
    X = random.randn(m, d)
    signs = np.where(X[:, 0] + 0.7 * random.randn(m) > 0, 1.0, -1.0)
    signs[:2] = 1.0, -1.0
    costs = C * random.uniform(0.5, 2.0, m) if spread else np.full(m, C)
    gram = Gram(RBF(gamma), X, hold=True)
    K = gram.block(slice(None), slice(None))
    images = None
    if n_directions:
        coef = random.randn(m, n_directions)
        factor = np.linalg.cholesky(coef.T @ K @ coef)
        images = K @ np.linalg.solve(factor, coef.T).T
    return EnclosingBall(gram, signs, costs, images)


def matrix(ball):
    everything = np.arange(ball.n_rows)
    return ball.gram.block(everything, everything)


def columns(ball):
    return ColumnCache(ball.gram, 2**24)
