"""Pricing: what every row and every candidate says of a machine found on few of them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kernlet.kernels.columns import ColumnStore, Indices
from kernlet.kernels.gram import Gram
from kernlet.kernels.kernel import Floats

STORE_BYTES = 2 * 2**30


@dataclass(frozen=True, eq=False)
class Machine:
    """The nonzero part of a primal-dual pair: centers with coefficients, rows with duals.

    Parameters
    ----------
    centers, coef : ndarray of shape (m2,)
    intercept : float
    rows, signed_duals : ndarray of shape (m1,)
        ``signed_duals`` is d_i t_i.
    """

    centers: Indices
    coef: Floats
    intercept: float
    rows: Indices
    signed_duals: Floats


class Pricer:
    """Evaluates f(x_i) for all rows and sum_i K_ij d_i t_i for all candidates.

    The fast prices use float32 kernel columns, computed once for each point that ever takes
    part in a machine and kept in a :class:`ColumnStore`; the exact ones are float64 and keep
    nothing. Where float32 does not do, :class:`Gram` makes the fast prices float64 too.

    Time for a fast pricing is n_rows * (m1 + m2) once the columns are there; memory is
    4 n_rows bytes for each point that ever took part, at most ``max_bytes``.

    Parameters
    ----------
    gram : Gram
        The kernel in float64, rows x candidates.
    max_bytes : int
        Memory for kernel columns.
    """

    def __init__(self, gram: Gram, max_bytes: int = STORE_BYTES) -> None:
        self.gram = gram
        Z = None if gram.is_square else gram.z.X
        fast = Gram(gram.kernel, gram.x.X, Z, dtype=np.float32, hold=True)
        self._columns = ColumnStore(fast, max_bytes if gram.is_square else max_bytes // 2)
        self._rows = None if gram.is_square else ColumnStore(fast.T, max_bytes // 2)

    def fast(self, machine: Machine) -> tuple[Floats, Floats]:
        """Decision values of all rows and correlations of all candidates, nearly."""
        if self._rows is None:
            points = np.union1d(machine.centers, machine.rows)
            weights = np.zeros((len(points), 2))
            weights[np.searchsorted(points, machine.centers), 0] = machine.coef
            weights[np.searchsorted(points, machine.rows), 1] = machine.signed_duals
            values, correlations = self._columns.combine(points, weights)
        else:
            (values,) = self._columns.combine(machine.centers, machine.coef[:, None])
            (correlations,) = self._rows.combine(machine.rows, machine.signed_duals[:, None])
        return values + machine.intercept, correlations

    def exact(self, machine: Machine) -> tuple[Floats, Floats]:
        """The same in float64, every kernel value computed anew: what certificates rest on."""
        values = self.gram.dot(machine.coef, machine.centers) + machine.intercept
        return values, self.gram.T.dot(machine.signed_duals, machine.rows)

    def exact_values(self, machine: Machine, rows: Indices) -> Floats:
        """Decision values of a few rows in float64."""
        return self.gram.dot(machine.coef, machine.centers, rows) + machine.intercept

    def exact_correlations(self, machine: Machine, candidates: Indices) -> Floats:
        """Correlations of a few candidates in float64."""
        return self.gram.T.dot(machine.signed_duals, machine.rows, candidates)
