"""Squared-hinge problems for tests."""

import numpy as np

from kernlet.kernels.gram import ColumnCache, Gram
from kernlet.kernels.rbf import RBF
from kernlet.squared.problem import SquaredMargin


def overlapping(m=80, d=3, C=2.0, seed=0, gamma=0.3, n_directions=0, spread=True):
    """Two classes that overlap, with a cost per row and, if asked for, earlier features."""
    random = np.random.RandomState(seed)
    X = random.randn(m, d)
    signs = np.where(X[:, 0] + 0.7 * random.randn(m) > 0, 1.0, -1.0)
    signs[:2] = 1.0, -1.0
    costs = C * random.uniform(0.5, 2.0, m) if spread else np.full(m, C)
    gram = Gram(RBF(gamma), X, hold=True)
    K = gram.block(slice(None), slice(None))
    features = None
    if n_directions:
        coef = random.randn(m, n_directions)
        factor = np.linalg.cholesky(coef.T @ K @ coef)
        features = K @ np.linalg.solve(factor, coef.T).T
    return SquaredMargin(gram, signs, costs, features)


def clusters(m=1500, seed=0):
    """Two far clusters with a few rows between: most rows never matter."""
    random = np.random.RandomState(seed)
    signs = np.where(np.arange(m) % 2, 1.0, -1.0)
    X = np.c_[1.5 * signs, np.zeros(m)] + 0.6 * random.randn(m, 2)
    return SquaredMargin(Gram(RBF(0.2), X, hold=True), signs, np.full(m, 20.0))


def kernel_matrix_of(problem):
    everything = np.arange(problem.n_rows)
    return problem.gram.block(everything, everything)


def features_of(problem):
    """F, with no columns where there are no earlier features."""
    return np.zeros((problem.n_rows, 0)) if problem.features is None else problem.features


def dual_matrix(problem):
    """Q."""
    return problem.products(np.arange(problem.n_rows))


def columns_of(problem):
    return ColumnCache(problem.gram, 2**24)
