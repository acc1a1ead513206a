"""A small margin program inside HiGHS that grows, shrinks and restarts warm."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import highspy
import numpy as np
from numpy.linalg import LinAlgError
from scipy.linalg import lu_factor, lu_solve

from kernlet._typing import Floats, Indices
from kernlet.kernels.gram import as_indices
from kernlet.lp.problem import L1Margin, Status

_Status = highspy.HighsBasisStatus

#: How HiGHS is run in this package.
SIMPLEX_OPTIONS: dict[str, Any] = {
    "output_flag": False,
    "solver": "simplex",
    "simplex_strategy": 1,  # dual simplex
    "simplex_dual_edge_weight_strategy": 2,  # steepest edge
    "simplex_scale_strategy": 0,  # scaled here, once
    "presolve": "off",
    "small_matrix_value": 1e-12,  # kernel values below the default of 1e-9 count too
    "threads": 1,
    "parallel": "off",
    "primal_feasibility_tolerance": 1e-10,
    "dual_feasibility_tolerance": 1e-10,
}
#: After numerical trouble: from the slack basis, then with HiGHS's own scaling and tolerances.
SECOND_TRIES: tuple[dict[str, Any], ...] = (
    {},
    {
        "simplex_scale_strategy": 2,
        "primal_feasibility_tolerance": 1e-7,
        "dual_feasibility_tolerance": 1e-7,
    },
)
_ITERATIONS_A_LINE = 10  # of a program's rows and columns; a sound run needs one or two
_ZERO = 1e-9  # what the tolerances above cannot tell from zero


@dataclass(frozen=True, eq=False)
class Vertex:
    """An answer of the restricted program, over its own rows and centers.

    Parameters
    ----------
    duals : ndarray of shape (n_working_rows,)
        t; exactly zero where not positive.
    coef : ndarray of shape (n_working_centers,)
        beta; exactly zero where the center is not used.
    intercept : float
    margins : ndarray of shape (n_working_rows,)
        1 - d_i f(x_i).
    correlations : ndarray of shape (n_working_centers,)
        sum_i K_ij d_i t_i.
    status : {"optimal", "iteration limit", "failed"}
    """

    duals: Floats
    coef: Floats
    intercept: float
    margins: Floats
    correlations: Floats
    status: Status


class RestrictedLP:
    """The dual of an :class:`L1Margin` over a working set of rows and centers.

    Each row's t_i is a boxed column and each center a ranged row of the linear program; its
    row duals are beta and the intercept. Every variable and slack is boxed, so any basis is
    made dual feasible by flipping bounds: rows and centers come and go, costs change, and
    the dual simplex method goes on from the basis at hand.

    HiGHS sees K / s with s the largest kernel value in the first block, and t in such units
    that its bounds are not below 1 where any center could become active: its absolute
    tolerances then mean the same for every kernel and every C.

    Parameters
    ----------
    problem : L1Margin
    """

    def __init__(self, problem: L1Margin) -> None:
        self.problem = problem
        self.rows: Indices = as_indices([])
        self.centers: Indices = as_indices([])
        self.n_iter = 0
        self._tries_left = 8
        self._scale = 0.0  # s
        self._unit = 0.0  # of t
        self._column_status: Any = np.array([], dtype=object)
        self._row_status: Any = np.array([_Status.kBasic], dtype=object)
        self._highs = highspy.Highs()
        set_options(self._highs, SIMPLEX_OPTIONS)
        self._highs.addRow(0.0, 0.0, 0, np.array([], np.int32), np.array([]))  # sum d_i t_i = 0

    def add(self, rows: Indices, centers: Indices) -> None:
        """Let rows and centers in that are not there yet."""
        if len(rows):
            self._add_rows(rows)
        if len(centers):
            self._add_centers(centers)

    def _add_rows(self, rows: Indices) -> None:
        signs = self.problem.signs[rows]
        entries = np.empty((len(rows), 1 + len(self.centers)))
        entries[:, 0] = signs
        entries[:, 1:] = self._kernel(rows, self.centers) * signs[:, None]
        n = len(rows)
        upper = self.problem.error_weights[rows] / self._unit
        _check_taken(self._highs.addCols(n, np.full(n, -1.0), np.zeros(n), upper, *packed(entries)))
        self.rows = np.concatenate([self.rows, rows])
        self._column_status = np.append(self._column_status, np.full(n, _Status.kLower))

    def _add_centers(self, centers: Indices) -> None:
        entries = self._kernel(self.rows, centers).T * self.problem.signs[self.rows]
        limit = self.problem.coef_weights[centers] / (self._scale * self._unit)
        _check_taken(self._highs.addRows(len(centers), -limit, limit, *packed(entries)))
        self.centers = np.concatenate([self.centers, centers])
        self._row_status = np.append(self._row_status, np.full(len(centers), _Status.kBasic))

    def _kernel(self, rows: Indices, centers: Indices) -> Floats:
        if not self._scale:
            self._scale = self._largest_value(rows)
            self._unit = min(1.0 / self._scale, self.problem.error_weights.max())
        block = self.problem.gram.block(rows, centers)
        check_finite(block)
        return block / self._scale if self._scale != 1.0 else block

    def _largest_value(self, rows: Indices) -> float:
        columns = np.arange(min(self.problem.gram.shape[1], len(rows)))
        block = self.problem.gram.block(rows, columns)
        check_finite(block)
        return float(np.abs(block).max(initial=0.0)) or 1.0

    def keep(self, rows: Any, centers: Any) -> None:
        """Drop the rows and centers of the working set that the masks leave out.

        Those in the basis's active part stay in any case.
        """
        rows = rows | (self._column_status == _Status.kBasic)
        centers = centers | (self._row_status[1:] != _Status.kBasic)
        if not rows.all():
            gone = np.flatnonzero(~rows).astype(np.int32)
            self._highs.deleteCols(len(gone), gone)
            self.rows, self._column_status = self.rows[rows], self._column_status[rows]
        if not centers.all():
            gone = (1 + np.flatnonzero(~centers)).astype(np.int32)
            self._highs.deleteRows(len(gone), gone)
            self.centers = self.centers[centers]
            self._row_status = self._row_status[np.concatenate([[True], centers])]

    def reweight(self, problem: L1Margin) -> None:
        """Go on with other costs of errors and coefficients, from the same basis."""
        self.problem = problem
        n_rows, n_centers = len(self.rows), len(self.centers)
        upper = problem.error_weights[self.rows] / self._unit
        limit = problem.coef_weights[self.centers] / (self._scale * self._unit)
        every_row = np.arange(n_rows, dtype=np.int32)
        self._highs.changeColsBounds(n_rows, every_row, np.zeros(n_rows), upper)
        for number in range(n_centers):
            self._highs.changeRowBounds(number + 1, -limit[number], limit[number])

    def solve(self, max_iter: int | None = None) -> Vertex:
        """Run the dual simplex method from the basis at hand.

        Parameters
        ----------
        max_iter : int or None
            Simplex iterations allowed.
        """
        most = _ITERATIONS_A_LINE * (100 + len(self.rows) + len(self.centers))
        left = most if max_iter is None else min(most, max_iter)
        self._pass_basis()
        status = self._run({}, left)
        for options in SECOND_TRIES:
            is_sound = status == "optimal" or (status == "iteration limit" and left < most)
            if is_sound or not self._tries_left:
                break
            self._tries_left -= 1
            self._highs.clearSolver()
            status = self._run(options, left)
        if status == "iteration limit" and left == most:
            status = "failed"  # going round in circles, not working through a budget
        self._take_basis()
        return self._vertex(status)

    def _run(self, options: dict[str, Any], max_iter: int) -> Status:
        set_options(self._highs, SIMPLEX_OPTIONS | options | {"simplex_iteration_limit": max_iter})
        self._highs.run()
        self.n_iter += max(0, self._highs.getInfo().simplex_iteration_count)
        return _STATUS.get(self._highs.getModelStatus(), "failed")

    def polished(self, vertex: Vertex) -> Vertex:
        """The vertex computed anew from its basis, free of HiGHS's tolerances.

        The basic columns F and the active rows A (the balance among them) make a square
        system: its solution is t on F, that of its transpose the intercept and beta.
        """
        free = self._column_status == _Status.kBasic
        active = self._row_status != _Status.kBasic
        if vertex.status != "optimal" or not free.any() or free.sum() != active.sum():
            return vertex
        upper = self.problem.error_weights[self.rows]
        duals = np.where(self._column_status == _Status.kUpper, upper, 0.0)
        limits = np.append(0.0, self.problem.coef_weights[self.centers])
        limits[self._row_status == _Status.kLower] *= -1
        entries = self._entries(self.rows, self.centers[active[1:]])[:, 0 if active[0] else 1 :]
        try:
            factor = lu_factor(entries[free])
        except (LinAlgError, ValueError):
            return vertex
        duals[free] = lu_solve(factor, limits[active] - duals[~free] @ entries[~free], trans=1)
        coef = np.zeros(len(active))
        coef[active] = lu_solve(factor, np.ones(free.sum()))
        if not _is_close(duals, vertex.duals) or not _is_close(coef[1:], vertex.coef):
            return vertex
        return replace(
            vertex,
            duals=np.where(vertex.duals > 0, np.clip(duals, 0.0, upper), 0.0),
            coef=np.where(vertex.coef != 0, coef[1:], 0.0),
            intercept=float(coef[0]),
        )

    def _entries(self, rows: Indices, centers: Indices) -> Floats:
        """Signed kernel values in the user's scale, the sign itself in front."""
        signs = self.problem.signs[rows][:, None]
        return np.hstack([signs, self.problem.gram.block(rows, centers) * signs])

    def _pass_basis(self) -> None:
        basis = highspy.HighsBasis()
        basis.col_status = self._column_status.tolist()
        basis.row_status = self._row_status.tolist()
        basis.valid = True
        self._highs.setBasis(basis)

    def _take_basis(self) -> None:
        basis = self._highs.getBasis()
        if basis.valid:
            self._column_status = np.array(basis.col_status, dtype=object)
            self._row_status = np.array(basis.row_status, dtype=object)

    def _vertex(self, status: Status) -> Vertex:
        solution = self._highs.getSolution()
        duals = np.array(solution.col_value)
        duals[(duals <= _ZERO) & (self._column_status != _Status.kUpper)] = 0.0
        coef = -np.array(solution.row_dual)
        coef[1:][np.abs(coef[1:]) <= _ZERO] = 0.0
        return Vertex(
            duals=duals * self._unit,
            coef=coef[1:] / self._scale,
            intercept=float(coef[0]),
            margins=-np.array(solution.col_dual),
            correlations=np.array(solution.row_value)[1:] * (self._scale * self._unit),
            status=status,
        )


_STATUS: dict[Any, Status] = {
    highspy.HighsModelStatus.kOptimal: "optimal",
    highspy.HighsModelStatus.kIterationLimit: "iteration limit",
}


def _check_taken(status: highspy.HighsStatus) -> None:
    """HiGHS refuses entries beyond 1e15."""
    if status == highspy.HighsStatus.kError:
        raise ValueError(
            "The kernel values differ by too many orders of magnitude for a linear program. "
            "Scale the features, or remove rows far from all others."
        )


def set_options(highs: highspy.Highs, options: dict[str, Any]) -> None:
    """Set several options of HiGHS."""
    for name, value in options.items():
        highs.setOptionValue(name, value)


def _is_close(fresh: Floats, stale: Floats) -> bool:
    """Whether a recomputed answer confirms the one it is to replace."""
    return bool(np.allclose(fresh, stale, rtol=1e-4, atol=1e-6 * np.abs(stale).max(initial=1e-300)))


def check_finite(values: Floats) -> None:
    """Refuse a kernel that is not a number, in a sentence."""
    if not np.isfinite(values).all():
        raise ValueError(
            "The kernel returned NaN or infinite values on the training rows. Scale the "
            "features (for example with StandardScaler), or lower gamma, degree or coef0."
        )


def packed(entries: Floats) -> tuple[int, Any, Any, Any]:
    """Dense vectors in the compressed form that HiGHS takes."""
    n, length = entries.shape
    starts = np.arange(n, dtype=np.int32) * np.int32(length)
    indices = np.tile(np.arange(length, dtype=np.int32), n)
    return entries.size, starts, indices, entries.ravel()
