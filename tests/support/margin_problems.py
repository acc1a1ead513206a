"""Small margin problems to try solvers on."""

import numpy as np

from kernlet.kernels.gram import Gram
from kernlet.kernels.linear import Linear
from kernlet.kernels.polynomial import Polynomial
from kernlet.kernels.rbf import RBF
from kernlet.kernels.sigmoid import Sigmoid
from kernlet.lp.problem import L1Margin, TallMargin
from kernlet.rows.source import ArrayRows

KERNELS = [RBF(0.7), Polynomial(0.5, 2, 1.0), Linear(), Sigmoid(0.3, 0.1)]


def make_problem(seed=0, m=60, kernel=KERNELS[0], C=2.0, n_candidates=None, weighted=False):
    """A noisy two-class problem in the plane that no line separates."""
    random = np.random.RandomState(seed)
    X = random.randn(m, 2)
    signs = np.where(X[:, 0] * X[:, 1] + 0.3 * random.randn(m) > 0, 1.0, -1.0)
    Z = None if n_candidates is None else X[random.permutation(m)[:n_candidates]]
    gram = Gram(kernel, X, Z)
    nu, c = np.full(m, C), np.ones(gram.shape[1])
    if weighted:
        nu, c = nu * random.uniform(0.0, 2.0, m), random.uniform(0.2, 3.0, gram.shape[1])
    return L1Margin(gram, signs, nu, c)


def full_kernel(problem):
    return problem.gram.block(slice(None), slice(None))


def tall(*problems):
    """The same problems over the same rows and candidates, for the tall method."""
    gram = problems[0].gram
    return TallMargin(
        ArrayRows(gram.x.X),
        gram.kernel,
        gram.z.X,
        np.stack([p.signs for p in problems], axis=1).astype(np.int8),
        np.stack([p.error_weights for p in problems], axis=1),
        np.stack([p.coef_weights for p in problems], axis=1),
    )
