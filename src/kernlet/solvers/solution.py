"""What a solver of margin problems returns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from kernlet.kernels.columns import Indices
from kernlet.kernels.kernel import Floats

Status = Literal["optimal", "iteration limit", "stopped", "failed", "stalled"]


@dataclass(frozen=True, eq=False)
class MarginSolution:
    """A primal-dual pair of an :class:`~kernlet.problems.L1Margin`, with its certificate.

    Parameters
    ----------
    centers : ndarray of shape (m2,)
        Candidates with a nonzero coefficient, ascending.
    coef : ndarray of shape (m2,)
        Their coefficients beta.
    intercept : float
    rows : ndarray of shape (m1,)
        Rows with a positive dual, ascending.
    duals : ndarray of shape (m1,)
        Their duals t.
    slacks : ndarray of shape (n_rows,)
        The errors y of all rows.
    objective : float
        Value of the primal problem, every row counted.
    bound : float
        A lower bound on the optimum, every candidate checked; see :attr:`gap`.
    n_iter : int
        Simplex iterations.
    status : {"optimal", "iteration limit", "stopped", "failed"}
        How the simplex method ended: ``"stopped"`` on a caller's wish, ``"failed"`` on
        numerical trouble. The gap holds in every case.
    """

    centers: Indices
    coef: Floats
    intercept: float
    rows: Indices
    duals: Floats
    slacks: Floats
    objective: float
    bound: float
    n_iter: int
    status: Status

    @property
    def gap(self) -> float:
        """Relative duality gap (objective - bound) / objective: the certificate."""
        if self.objective <= 0:
            return 0.0
        return (self.objective - self.bound) / self.objective
