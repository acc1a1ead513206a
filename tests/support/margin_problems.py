"""Small margin problems to try solvers on."""

from dataclasses import replace

import numpy as np

from kernlet.kernels.gram import Gram
from kernlet.kernels.laplacian import Laplacian
from kernlet.kernels.linear import Linear
from kernlet.kernels.polynomial import Polynomial
from kernlet.kernels.rbf import RBF
from kernlet.kernels.sigmoid import Sigmoid
from kernlet.lp.problem import L1Margin

KERNELS = [RBF(0.7), Polynomial(0.5, 2, 1.0), Linear(), Sigmoid(0.3, 0.1), Laplacian(0.5)]


def make_problem(seed=0, m=60, kernel=KERNELS[0], C=2.0, n_candidates=None, weighted=False):
    """A noisy two-class problem in the plane that no line separates."""
    random = np.random.RandomState(seed)
    X = random.randn(m, 2)
    signs = np.where(X[:, 0] * X[:, 1] + 0.3 * random.randn(m) > 0, 1.0, -1.0)
    Z = None if n_candidates is None else X[random.permutation(m)[:n_candidates]]
    nu, c = np.full(m, C), np.ones(m if Z is None else n_candidates)
    if weighted:
        nu, c = nu * random.uniform(0.0, 2.0, m), random.uniform(0.2, 3.0, len(c))
    return one_output(X, kernel, Z, signs, nu, c)


def one_output(X, kernel, Z, signs, error_weights, coef_weights):
    """A problem of one output from arrays of one dimension."""
    columns = (np.asarray(a)[:, None] for a in (signs, error_weights, coef_weights))
    return L1Margin(X, kernel, Z, *columns)


def gram(problem):
    return Gram(problem.kernel, problem.X, problem.centers)


def full_kernel(problem):
    return gram(problem).block(slice(None), slice(None))


def plain(problem):
    """K, d, nu and c of the one output of a problem."""
    costs = problem.outputs(0)
    return full_kernel(problem), costs.signs, costs.error_weights, costs.coef_weights


def together(*problems):
    """Problems of one output over the same rows and candidates as one."""
    return replace(
        problems[0],
        centers=problems[0].points,
        signs=np.hstack([p.signs for p in problems]).astype(np.int8),
        error_weights=np.hstack([p.error_weights for p in problems]),
        coef_weights=np.hstack([p.coef_weights for p in problems]),
        targets=np.hstack([p.targets for p in problems]),
    )
