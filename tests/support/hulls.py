"""Hulls for tests."""

import numpy as np

from kernlet.kernels.gram import Gram
from kernlet.kernels.rbf import RBF
from kernlet.squared.problem import Hull


def overlapping(m=80, d=3, C=2.0, seed=0, gamma=0.3):
    """Two classes that overlap, every row with a C of its own."""
    random = np.random.RandomState(seed)
    X = random.randn(m, d)
    signs = np.where(X[:, 0] + 0.7 * random.randn(m) > 0, 1.0, -1.0)
    return Hull(Gram(RBF(gamma), X, hold=True), signs, C * random.uniform(0.5, 2.0, m))


def whole_matrix(hull):
    return hull.columns(np.arange(hull.n_rows))


def clusters(m=1500, seed=0):
    """Two far clusters with a few rows between: most rows never matter."""
    random = np.random.RandomState(seed)
    signs = np.where(np.arange(m) % 2, 1.0, -1.0)
    X = np.c_[1.5 * signs, np.zeros(m)] + 0.6 * random.randn(m, 2)
    return Hull(Gram(RBF(0.2), X, hold=True), signs, np.full(m, 10.0))
