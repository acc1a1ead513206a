"""Newton's method for a machine of squared errors over all rows: the exact answer."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kernlet.kernels.columns import Indices
from kernlet.kernels.definite import solve_definite
from kernlet.kernels.kernel import Floats
from kernlet.problems.squared_hinge import OVERFLOW

_NO_DIGITS = (
    "Kernel values times C leave no digits, or the kernel is not positive semi-definite. Scale the "
    "features, or lower C."
)


@dataclass(frozen=True, eq=False)
class DeflatedSolution:
    """A machine w = sum_i coef_i f(x_i), less its part in the directions taken off.

    Parameters
    ----------
    coef : ndarray of shape (n_rows,)
        Their sum is the intercept.
    values : ndarray of shape (n_rows,)
        w.f(x_i) + intercept.
    objective : float
    gap : float
        Relative duality gap: the certificate.
    n_iter : int
        Linear systems solved.
    """

    coef: Floats
    values: Floats
    objective: float
    gap: float
    n_iter: int


def solve_deflated(
    K: Floats,
    signs: Floats,
    costs: Floats,
    images: Floats,
    *,
    tol: float = 1e-8,
    max_iter: int = 1000,
) -> DeflatedSolution:
    """Solve an :class:`~kernlet.problems.enclosing_ball.EnclosingBall` given its whole matrix.

    On the rows A with an error now the answer is (K_AA + 1 - F_A F_A' + 1/c) beta_A = d_A, and
    beta is 0 elsewhere. A step goes there, or half, a quarter, ... of the way. With
    e = beta - c slack d the duality gap is 1/2 e' (K + 1 - F F') e.

    Time is the cube of the rows with an error, for each of five to twenty steps.

    Parameters
    ----------
    K : ndarray of shape (n_rows, n_rows)
    signs, costs : ndarrays of shape (n_rows,)
    images : ndarray of shape (n_rows, n_directions)
        F.
    tol : float, default=1e-8
        Relative duality gap to reach.
    max_iter : int, default=1000

    Returns
    -------
    solution : DeflatedSolution
    """
    problem = _Deflated(K, signs, costs, images)
    coef: Floats = np.zeros(len(signs))
    values: Floats = np.zeros(len(signs))
    objective, gap = problem.judge(coef, values)
    n_iter = 0
    while gap > tol and n_iter < max_iter:
        n_iter += 1
        target = problem.answer(np.flatnonzero(signs * values < 1.0))
        following = problem.on_the_way(coef, values, target, problem.image(target), objective)
        if following is None:  # rounding
            break
        coef, values = following
        objective, gap = problem.judge(coef, values)
    return DeflatedSolution(coef, values, objective, gap, n_iter)


@dataclass(frozen=True, eq=False)
class _Deflated:
    K: Floats
    signs: Floats
    costs: Floats
    images: Floats

    def image(self, coef: Floats) -> Floats:
        """(K + 1 - F F') coef."""
        some = np.flatnonzero(coef)
        part = coef[some]
        taken = self.images @ (self.images[some].T @ part)
        # lines of a symmetric matrix: contiguous, where columns are not
        return part @ self.K[some] + part.sum() - taken

    def answer(self, some: Indices) -> Floats:
        """The coefficients of the rows with an error, if they are these."""
        F = self.images[some]
        matrix = self.K[np.ix_(some, some)] + 1.0 - F @ F.T
        matrix[np.diag_indices_from(matrix)] += 1.0 / self.costs[some]
        coef = np.zeros(len(self.K))
        try:
            coef[some] = solve_definite(matrix, self.signs[some], 1e-300)
        except ValueError as error:
            raise ValueError(_NO_DIGITS) from error
        return coef

    def objective(self, coef: Floats, values: Floats) -> float:
        slacks = np.maximum(0.0, 1.0 - self.signs * values)
        return 0.5 * float(coef @ values + self.costs @ slacks**2)

    def judge(self, coef: Floats, values: Floats) -> tuple[float, float]:
        """Objective and relative duality gap."""
        slacks = np.maximum(0.0, 1.0 - self.signs * values)
        left = coef - self.costs * slacks * self.signs
        objective = self.objective(coef, values)
        gap = 0.5 * float(left @ self.image(left)) / max(objective, 1e-300)
        if not np.isfinite([objective, gap]).all():
            raise ValueError(OVERFLOW)
        return objective, max(0.0, gap)

    def on_the_way(
        self, coef: Floats, values: Floats, target: Floats, image: Floats, objective: float
    ) -> tuple[Floats, Floats] | None:
        """The first of 1, 1/2, 1/4, ... of the way that is lower."""
        length = 1.0
        for _ in range(40):
            point = coef + length * (target - coef)
            there = values + length * (image - values)
            if self.objective(point, there) < objective:
                return point, there
            length /= 2.0
        return None
