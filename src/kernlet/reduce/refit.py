"""The best coefficients for centers that stay where they are."""

from __future__ import annotations

from typing import Any

import numpy as np

from kernlet.expansion import KernelExpansion
from kernlet.kernels import Kernel, kernel_matrix
from kernlet.kernels.definite import solve_definite
from kernlet.kernels.gram import Gram, row_slices
from kernlet.kernels.kernel import Floats, require_mercer
from kernlet.problems.squared_hinge import SquaredHinge
from kernlet.solvers.newton import solve_squared_hinge


def project(expansion: KernelExpansion, centers: Any) -> KernelExpansion:
    """The machine over given centers that is nearest in feature space.

    Parameters
    ----------
    expansion : KernelExpansion
    centers : ndarray of shape (n_centers, n_features)

    Returns
    -------
    expansion : KernelExpansion

    Examples
    --------
    >>> import numpy as np
    >>> from kernlet import KernelExpansion
    >>> from kernlet.kernels import RBF
    >>> from kernlet.reduce import project
    >>> f = KernelExpansion(RBF(1.0), np.array([[0.0], [1.0]]), np.array([[1.0, 2.0]]), np.zeros(1))
    >>> project(f, f.centers).coef.round(6)
    array([[1., 2.]])
    """
    expansion = expansion.unfolded()
    require_mercer(expansion.kernel, "A projection in feature space")
    targets = Gram(expansion.kernel, centers, expansion.centers).dot(expansion.coef.T)
    penalty = kernel_matrix(expansion.kernel, centers, centers)
    coef = solve_definite(penalty, targets, _ridge(penalty)).T
    return KernelExpansion(expansion.kernel, centers, coef, expansion.intercept)


def match(
    kernel: Kernel, centers: Any, X: Any, values: Floats, *, ridge: float = 1e-6
) -> KernelExpansion:
    """The machine over given centers whose decision values on X are nearest to given ones.

    Least squares with a small penalty on the norm in feature space. Time is
    n_rows * n_centers^2, memory one block of rows.

    Parameters
    ----------
    kernel : Kernel
    centers : ndarray of shape (n_centers, n_features)
    X : {ndarray, sparse matrix} of shape (n_rows, n_features)
    values : ndarray of shape (n_rows, n_outputs)
    ridge : float, default=1e-6
        Penalty for each row.

    Returns
    -------
    expansion : KernelExpansion
    """
    require_mercer(kernel, "Matching decision values")
    gram = Gram(kernel, X, centers)
    n = centers.shape[0]
    normal, right = np.zeros((n + 1, n + 1)), np.zeros((n + 1, values.shape[1]))
    for rows in row_slices(len(gram.x), 8 * max(n + 1, X.shape[1])):
        block = gram.block(rows, slice(None))
        features = np.hstack([block, np.ones((len(block), 1))])
        normal += features.T @ features
        right += features.T @ values[rows]
    normal[:n, :n] += ridge * len(gram.x) * kernel_matrix(kernel, centers, centers)
    solved = solve_definite(normal, right, 1e-12 * np.trace(normal) / n).T
    return KernelExpansion(kernel, centers, solved[:, :n], solved[:, n])


def refit(
    kernel: Kernel, centers: Any, X: Any, signs: Floats, *, C: float = 10.0, weights: Any = None
) -> KernelExpansion:
    """The squared-hinge machine over given centers, one output for each line of signs.

    Time is n_rows * n_centers^2 a Newton step; the kernel block of n_rows x n_centers is held.

    Parameters
    ----------
    kernel : Kernel
    centers : ndarray of shape (n_centers, n_features)
    X : {ndarray, sparse matrix} of shape (n_rows, n_features)
    signs : ndarray of shape (n_outputs, n_rows)
    C : float, default=10.0
        Weight of the errors: the machine has least 1/2 |f|^2 + 1/2 C sum slack^2.
    weights : ndarray of shape (n_rows,) or None
        Multiplies C row by row.

    Returns
    -------
    expansion : KernelExpansion
    """
    require_mercer(kernel, "A machine with a norm in feature space")
    signs = np.atleast_2d(signs)
    if signs.shape[1] != X.shape[0]:
        raise ValueError(
            f"There are {X.shape[0]} rows and signs of {signs.shape[1]}; give a line of signs for "
            "each output."
        )
    features = kernel_matrix(kernel, X, centers)
    penalty = kernel_matrix(kernel, centers, centers)
    penalty[np.diag_indices(len(penalty))] += _ridge(penalty)
    costs = np.full(len(features), C) if weights is None else C * np.asarray(weights)
    solutions = [
        solve_squared_hinge(SquaredHinge(features, penalty, row, costs), tol=1e-6) for row in signs
    ]
    coef = np.array([s.weights for s in solutions])
    intercept = np.array([s.intercept for s in solutions])
    return KernelExpansion(kernel, centers, coef, intercept)


def _ridge(penalty: Floats) -> float:
    """Rounding of a kernel matrix, more or less."""
    return float(max(1e-10 * np.trace(penalty) / len(penalty), np.finfo(float).tiny))
