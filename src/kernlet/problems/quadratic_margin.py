"""Margin machines with a closed form: models (6) and (7) of Gonzalez-Castano and Meyer (2000)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kernlet.kernels.gram import Gram
from kernlet.kernels.kernel import Floats


@dataclass(frozen=True, eq=False)
class QuadraticMargin:
    """An unconstrained machine that rewards rows beyond the margin as it fines those short of it.

    With rows x_i of sign d_i and weight v_i, candidates z_j and K_ij = k(x_i, z_j)::

        minimise over u, b  sum_i nu_i v_i (1 - d_i (K_i u + b)) + u'u + b^2

    Its answer is u = 1/2 K' (nu v d) and b = 1/2 sum_i nu_i v_i d_i. Model (6) has all v = 1;
    model (7) has v = 1 for rows that an earlier machine leaves short of the margin and a small
    v for the others, which brings it near to the machine with errors in place of rewards.

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


def short_of_margin(signs: Floats, values: Floats, *, rest: float = 0.01) -> Floats:
    """The row weights v of model (7): 1 where d_i f_i < 1, ``rest`` elsewhere."""
    return np.where(signs * values < 1.0, 1.0, rest)
