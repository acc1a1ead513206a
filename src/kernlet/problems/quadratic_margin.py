"""Margin machines with a closed form: models (6) and (7) of Gonzalez-Castano and Meyer (2000)."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from kernlet.kernels.gram import Gram
from kernlet.kernels.kernel import Floats


@dataclass(frozen=True, eq=False)
class QuadraticMargin:
    """An unconstrained machine that rewards rows beyond the margin as it fines those short of it.

    With rows x_i of sign d_i and weight v_i, candidates z_j and K_ij = k(x_i, z_j)::

        minimise over u, b  sum_i nu_i v_i (1 - d_i (K_i u + b)) + u'u + b^2

    Its answer is u = 1/2 K' (nu v d) and b = 1/2 sum_i nu_i v_i d_i. Model (6) has all v = 1;
    model (7) has row weights, see :func:`weigh_rows`.

    Parameters
    ----------
    gram : Gram
    signs : ndarray of shape (n_rows,)
    error_weights : ndarray of shape (n_rows,)
        nu.
    row_weights : ndarray of shape (n_rows,)
        v.
    """

    gram: Gram
    signs: Floats
    error_weights: Floats
    row_weights: Floats

    def solve(self) -> tuple[Floats, float]:
        """U and b."""
        pull = 0.5 * self.error_weights * self.row_weights * self.signs
        return self.gram.T.dot(pull), float(pull.sum())

    def objective(self, u: Floats, b: float) -> float:
        """Value of the objective."""
        values = self.gram.dot(u) + b
        rewards = self.error_weights * self.row_weights * (1.0 - self.signs * values)
        return float(rewards.sum() + u @ u + b**2)


def weigh_rows(problem: QuadraticMargin, *, n_passes: int = 300) -> QuadraticMargin:
    """Model (7): row weights that agree with the errors of the machine they lead to.

    The paper sets v to 1 for the rows that earlier machines leave short of the margin and to 0
    for the others. Done once, that turns the machine round: only the rows it had wrong are left.
    Here each machine's verdict is mixed with those before it by the share that is best for the
    dual problem (the Frank-Wolfe method), which leads to the machine with errors in place of
    rewards that the paper names as the aim: nu |E|_1 + u'u + b^2. Each pass is a closed form.

    Parameters
    ----------
    problem : QuadraticMargin
    n_passes : int, default=300

    Returns
    -------
    problem : QuadraticMargin
        With the row weights found.
    """
    features = problem.gram.block(slice(None), slice(None))
    cost, d = problem.error_weights, problem.signs

    def closed_form(v: Floats) -> tuple[Floats, float]:
        pull = 0.5 * cost * v * d
        return pull @ features, float(pull.sum())

    v = np.zeros(len(d))
    for _ in range(n_passes):
        u, b = closed_form(v)
        step = (d * (features @ u + b) < 1.0) - v
        du, db = closed_form(step)
        curvature = 2.0 * float(du @ du + db * db)
        if curvature <= 0:
            break
        gain = float(cost @ step) - 2.0 * float(u @ du + b * db)
        if gain <= 0:
            break
        v = v + min(1.0, gain / curvature) * step
    return replace(problem, row_weights=v)
