"""The 1-norm margin machine: linear program (10) of Fung, Mangasarian and Smola (2002)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kernlet.kernels.gram import Gram
from kernlet.kernels.kernel import Floats


class MarginCosts:
    """What errors and coefficients of a 1-norm machine cost, with signs of its rows.

    ``signs`` d, ``error_weights`` nu and ``coef_weights`` c as in :class:`L1Margin`.
    """

    signs: Floats
    error_weights: Floats
    coef_weights: Floats

    def slacks(self, values: Floats) -> Floats:
        """Errors y_i = max(0, 1 - d_i f(x_i)) for decision values f(x_i) of all rows."""
        return np.maximum(0.0, 1.0 - self.signs * values)

    def objective(self, slacks: Floats, absolute_coef: Floats) -> float:
        """Value of the objective for the y of all rows and the |beta| of all candidates."""
        return float(self.error_weights @ slacks + self.coef_weights @ absolute_coef)

    def balanced(self, duals: Floats) -> Floats:
        """The t nearest to ``duals`` from below with 0 <= t <= nu and sum_i d_i t_i = 0."""
        t = np.clip(duals, 0.0, self.error_weights)
        positive = self.signs > 0
        above, below = t[positive].sum(), t[~positive].sum()
        if above > below:
            t[positive] *= below / above
        elif below > above:
            t[~positive] *= above / below
        return t

    def bound(self, duals: Floats, correlations: Floats) -> float:
        """Lower bound on the optimum from balanced t and the sums K' D t.

        Shrinking t until every |sum_i K_ij d_i t_i| <= c_j makes it feasible for the dual,
        whose value is then a bound whatever the rounding of the solver.
        """
        excess = float(np.max(np.abs(correlations) / self.coef_weights, initial=1.0))
        return float(duals.sum() / excess)


@dataclass(frozen=True, eq=False)
class L1Margin(MarginCosts):
    """A two-class machine with a 1-norm penalty, as plain values.

    With rows x_i of sign d_i, candidate centers z_j and K_ij = k(x_i, z_j)::

        minimise    sum_i nu_i y_i + sum_j c_j |beta_j|
        subject to  d_i (sum_j K_ij beta_j + intercept) + y_i >= 1,   y >= 0

    and its dual::

        maximise    sum_i t_i
        subject to  |sum_i K_ij d_i t_i| <= c_j,   sum_i d_i t_i = 0,   0 <= t <= nu

    Parameters
    ----------
    gram : Gram
        K, of n_rows x n_candidates.
    signs : ndarray of shape (n_rows,)
        d, of +1 and -1.
    error_weights : ndarray of shape (n_rows,)
        nu >= 0.
    coef_weights : ndarray of shape (n_candidates,)
        c > 0.
    """

    gram: Gram
    signs: Floats
    error_weights: Floats
    coef_weights: Floats
