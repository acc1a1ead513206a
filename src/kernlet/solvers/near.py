"""Rows near the margin, and the optimum of a program over them."""

from __future__ import annotations

from dataclasses import dataclass

from kernlet.kernels.columns import Indices
from kernlet.kernels.kernel import Floats
from kernlet.solvers.solution import Status

#: A residual this small is none: the row is on the margin.
TIE = 1e-9


@dataclass(frozen=True, eq=False)
class Near:
    """Rows near the margin, and what all others add up to.

    Parameters
    ----------
    numbers : ndarray of shape (n_near,)
        The rows near the margin.
    K : ndarray of shape (n_near, s)
        Their kernel values, float64.
    signs, weights : ndarray of shape (n_near,)
        d and nu.
    far : ndarray of shape (2, s + 1)
        Sums of t_i (K_i, 1) over the other rows, with their t held fixed: those of positive
        sign, and those of negative.
    held : ndarray of shape (n_near,) or None, default=None
        The t of near rows on the margin until they are let into the program; None for 0.
    """

    numbers: Indices
    K: Floats
    signs: Floats
    weights: Floats
    far: Floats
    held: Floats | None = None

    @property
    def correlations_of_far(self) -> Floats:
        """Sums of d_i t_i (K_i, 1) over the other rows."""
        return self.far[0] - self.far[1]


@dataclass(frozen=True, eq=False)
class NearVertex:
    """The optimum of the program.

    Parameters
    ----------
    coef : ndarray of shape (s + 1,)
        beta and, last, the intercept.
    duals : ndarray of shape (n_near,)
        t.
    n_iter : int
        Simplex iterations.
    status : {"optimal", "iteration limit", "failed"}
    """

    coef: Floats
    duals: Floats
    n_iter: int
    status: Status
