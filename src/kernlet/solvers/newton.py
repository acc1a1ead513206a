"""Newton's method for squared-hinge machines."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kernlet.kernels.definite import solve_definite
from kernlet.kernels.kernel import Floats
from kernlet.problems.squared_hinge import SquaredHinge


@dataclass(frozen=True, eq=False)
class NewtonSolution:
    """Weights and intercept, with the gradient that is left.

    Parameters
    ----------
    weights : ndarray of shape (n_centers,)
    intercept : float
    objective : float
    gradient_norm : float
        Largest entry of the gradient against that at zero.
    decrement : float
        What the next Newton step promises to take off the objective, against the objective:
        the certificate.
    n_iter : int
    """

    weights: Floats
    intercept: float
    objective: float
    gradient_norm: float
    decrement: float
    n_iter: int


def solve_squared_hinge(
    problem: SquaredHinge, *, tol: float = 1e-8, max_iter: int = 100
) -> NewtonSolution:
    """Minimise a :class:`SquaredHinge` by Newton steps with a line search.

    The objective is piecewise quadratic: a step solves it exactly for the rows with an error
    now. Each step costs n_rows * n_centers^2.

    Parameters
    ----------
    problem : SquaredHinge
    tol : float
        Newton decrement against the objective, and gradient against that at zero, to reach.
    max_iter : int

    Returns
    -------
    solution : NewtonSolution
    """
    point: Floats = np.zeros(problem.features.shape[1] + 1)
    scale = max(np.abs(problem.gradient(point)).max(), np.finfo(float).tiny)
    for n_iter in range(max_iter + 1):
        slope = problem.gradient(point)
        step = _newton_step(problem, point, slope)
        objective = problem.objective(point)
        decrement = float(-slope @ step) / (2.0 * objective) if objective > 0 else 0.0
        norm = float(np.abs(slope).max() / scale)
        if max(decrement, norm) <= tol or n_iter == max_iter:
            break
        following = _line_search(problem, point, step, slope)
        if following is point:  # rounding: no step lowers the objective any more
            break
        point = following
    return NewtonSolution(point[:-1], float(point[-1]), objective, norm, decrement, n_iter)


def _newton_step(problem: SquaredHinge, point: Floats, slope: Floats) -> Floats:
    active = problem.errors(point) > 0
    rows = problem.features[active]
    weighted = rows * problem.error_weights[active, None]
    n = len(point)
    hessian = np.zeros((n, n))
    hessian[:-1, :-1] = problem.penalty + weighted.T @ rows
    hessian[:-1, -1] = hessian[-1, :-1] = weighted.sum(axis=0)
    hessian[-1, -1] = problem.error_weights[active].sum()
    return -solve_definite(hessian, slope, max(1e-15 * np.trace(hessian) / n, 1e-300))


def _line_search(problem: SquaredHinge, point: Floats, step: Floats, slope: Floats) -> Floats:
    """The first of 1, 1/2, 1/4, ... that lowers the objective enough."""
    start = problem.objective(point)
    promised = float(slope @ step)
    length = 1.0
    for _ in range(40):
        trial = point + length * step
        if problem.objective(trial) <= start + 1e-4 * length * promised:
            return trial
        length /= 2.0
    return point
