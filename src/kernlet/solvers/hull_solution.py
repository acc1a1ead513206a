"""A point of a hull, and how near it is to the nearest one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from kernlet.kernels.columns import Indices
from kernlet.kernels.kernel import Floats

HullStatus = Literal["optimal", "iteration limit", "stopped", "rounding"]


@dataclass(frozen=True, eq=False)
class HullSolution:
    """A point W = sum_i alpha_i X_i of a :class:`~kernlet.problems.hull.Hull`.

    Parameters
    ----------
    rows : ndarray of shape (n_support,)
        Rows with a positive alpha, ascending: the support vectors.
    alpha : ndarray of shape (n_support,)
        Their weights, positive, of sum 1.
    margins : ndarray of shape (n_rows,)
        W . X_i for all rows, computed from scratch at the end.
    squared_norm : float
        |W|^2.
    n_iter : int
        Steps.
    n_columns : int
        Columns of Q computed; a column computed twice counts twice.
    status : {"optimal", "iteration limit", "stopped", "rounding"}
        How the steps ended: ``"stopped"`` on a caller's wish, ``"rounding"`` where no step
        takes anything off the norm any more. The gap holds in every case.
    """

    rows: Indices
    alpha: Floats
    margins: Floats
    squared_norm: float
    n_iter: int
    n_columns: int
    status: HullStatus

    @property
    def norm(self) -> float:
        """|W|, an upper bound on the norm of the nearest point."""
        return float(np.sqrt(self.squared_norm))

    @property
    def margin(self) -> float:
        """min_i W . X_i / |W|, a lower bound on the norm of the nearest point."""
        return float(self.margins.min()) / self.norm

    @property
    def gap(self) -> float:
        """(norm - margin) / norm: the certificate."""
        return relative_gap(self.squared_norm, float(self.margins.min()))

    def dense(self) -> Floats:
        """Alpha of all rows."""
        alpha = np.zeros(len(self.margins))
        alpha[self.rows] = self.alpha
        return alpha


@dataclass(frozen=True)
class HullProgress:
    """Where the steps stand, on the rows in play and without a recount.

    Parameters
    ----------
    n_iter : int
    gap : float
    rows : ndarray of shape (n_support,)
    alpha : ndarray of shape (n_support,)
    squared_norm : float
    n_in_play : int
        Rows not left out.
    nbytes : int
        Memory of the columns held.
    """

    n_iter: int
    gap: float
    rows: Indices
    alpha: Floats
    squared_norm: float
    n_in_play: int
    nbytes: int


def relative_gap(squared_norm: float, least_margin: float) -> float:
    """1 - min margin / |W|^2, not below 0."""
    return max(0.0, 1.0 - least_margin / squared_norm)
