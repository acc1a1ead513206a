"""HiGHS's dual simplex method on a linear program that grows, shrinks and restarts warm."""

from __future__ import annotations

import warnings
from typing import Any

import highspy
import numpy as np
from numpy.linalg import LinAlgError
from scipy.linalg import LinAlgWarning, lu_factor, lu_solve

from kernlet._typing import Floats, Indices
from kernlet.lp.problem import Status

_BASIS: Any = highspy.HighsBasisStatus
BASIC, LOWER, UPPER = _BASIS.kBasic, _BASIS.kLower, _BASIS.kUpper
_STATUS: dict[Any, Status] = {
    highspy.HighsModelStatus.kOptimal: "optimal",
    highspy.HighsModelStatus.kIterationLimit: "iteration limit",
}

_OPTIONS: dict[str, Any] = {
    "output_flag": False,
    "solver": "simplex",
    "simplex_strategy": 1,  # dual simplex
    "simplex_dual_edge_weight_strategy": 2,  # steepest edge
    "simplex_scale_strategy": 0,  # the programs are scaled once, by the largest kernel value
    "presolve": "off",  # it would discard the basis
    "small_matrix_value": 1e-12,  # kernel values below the default of 1e-9 count too
    "threads": 1,
    "parallel": "off",
    "primal_feasibility_tolerance": 1e-10,
    "dual_feasibility_tolerance": 1e-10,
}
# After numerical trouble: first from the slack basis, then with HiGHS's own scaling and its
# default tolerances. The certificate is computed apart, and holds for a looser answer too.
_RETRIES: tuple[dict[str, Any], ...] = (
    {},
    {
        "simplex_scale_strategy": 2,
        "primal_feasibility_tolerance": 1e-7,
        "dual_feasibility_tolerance": 1e-7,
    },
)
# Iterations per row and column of a program. A sound run needs one or two; a run that reaches
# this many is cycling.
_ITERATIONS_PER_LINE = 20


class HotSimplex:
    """A linear program inside HiGHS, with its basis kept outside and handed back at each run.

    HiGHS drops its basis when columns are deleted and extends it by its own rules when they are
    added. Here the caller states at which bound each new column starts, and every run restarts
    from exactly that basis: with all variables boxed, any basis is made dual feasible by flipping
    bounds. ``max_retries`` limits the retries of all runs together.
    """

    def __init__(self, max_retries: float = np.inf) -> None:
        self.column_status: Any = np.array([], dtype=object)
        self.row_status: Any = np.array([], dtype=object)
        self.n_iter = 0
        self.work = 0.0  # matrix entries times iterations
        self._retries_left = max_retries
        self._highs = highspy.Highs()
        self._set_options(_OPTIONS)

    def add_rows(self, lower: Floats, upper: Floats, entries: Floats | None = None) -> bool:
        """Add ranged rows, basic, with dense entries; whether HiGHS accepts these numbers."""
        n = len(lower)
        entries = np.zeros((n, 0)) if entries is None else entries
        status = self._highs.addRows(n, lower, upper, *_packed(entries))
        self.row_status = np.append(self.row_status, np.full(n, BASIC))
        return bool(status != highspy.HighsStatus.kError)

    def add_columns(
        self, costs: Floats, lower: Floats, upper: Floats, entries: Floats, bounds: Any = LOWER
    ) -> bool:
        """Add boxed columns that start at ``bounds``; whether HiGHS accepts these numbers."""
        n = len(costs)
        status = self._highs.addCols(n, costs, lower, upper, *_packed(entries))
        self.column_status = np.append(self.column_status, np.full(n, bounds))
        return bool(status != highspy.HighsStatus.kError)

    def add_diagonal(
        self, costs: Floats, lower: Floats, upper: Floats, entry: float, bounds: Any = LOWER
    ) -> None:
        """Add one column per row, with a single entry there."""
        n = len(costs)
        lines = np.arange(n, dtype=np.int32)
        self._highs.addCols(n, costs, lower, upper, n, lines, lines, np.full(n, entry))
        self.column_status = np.append(self.column_status, np.full(n, bounds))

    def keep(self, columns: Any, rows: Any) -> None:
        """Delete the columns and rows that the masks leave out."""
        if not columns.all():
            gone = np.flatnonzero(~columns).astype(np.int32)
            self._highs.deleteCols(len(gone), gone)
            self.column_status = self.column_status[columns]
        if not rows.all():
            gone = np.flatnonzero(~rows).astype(np.int32)
            self._highs.deleteRows(len(gone), gone)
            self.row_status = self.row_status[rows]

    def set_column_bounds(self, lower: Floats, upper: Floats) -> None:
        """Change the bounds of all columns."""
        n = len(lower)
        self._highs.changeColsBounds(n, np.arange(n, dtype=np.int32), lower, upper)

    def set_row_bounds(self, rows: Indices, lower: Floats, upper: Floats) -> None:
        """Change the bounds of some rows."""
        for number, row in enumerate(rows.tolist()):
            self._highs.changeRowBounds(row, lower[number], upper[number])

    def run(self, max_iter: int | None = None) -> Status:
        """Solve from the basis at hand, in at most ``max_iter`` iterations, retrying on failure."""
        basis = highspy.HighsBasis()
        basis.col_status = self.column_status.tolist()
        basis.row_status = self.row_status.tolist()
        basis.valid = True
        self._highs.setBasis(basis)
        end = None if max_iter is None else self.n_iter + max_iter
        status = self._attempt({}, end)
        for options in _RETRIES:
            if status != "failed" or not self._retries_left:
                break
            self._retries_left -= 1
            self._highs.clearSolver()
            status = self._attempt(options, end)
        basis = self._highs.getBasis()
        if basis.valid:
            self.column_status = np.array(basis.col_status, dtype=object)
            self.row_status = np.array(basis.row_status, dtype=object)
        return status

    def _attempt(self, options: dict[str, Any], end: int | None) -> Status:
        limit = _ITERATIONS_PER_LINE * (100 + len(self.column_status) + len(self.row_status))
        if end is not None:
            limit = min(limit, max(0, end - self.n_iter))
        self._set_options(_OPTIONS | options | {"simplex_iteration_limit": limit})
        self._highs.run()
        n_iter = max(0, self._highs.getInfo().simplex_iteration_count)
        self.n_iter += n_iter
        self.work += float(n_iter) * len(self.column_status) * len(self.row_status)
        status = _STATUS.get(self._highs.getModelStatus(), "failed")
        if status == "iteration limit" and (end is None or self.n_iter < end):
            return "failed"  # cycling: our own limit was reached, not the caller's
        return status

    @property
    def solution(self) -> Any:
        """HiGHS's arrays ``col_value``, ``col_dual``, ``row_value`` and ``row_dual``."""
        return self._highs.getSolution()

    def _set_options(self, options: dict[str, Any]) -> None:
        for name, value in options.items():
            self._highs.setOptionValue(name, value)


def _packed(entries: Floats) -> tuple[int, Any, Any, Any]:
    """Dense vectors in the compressed form that HiGHS takes."""
    n, length = entries.shape
    starts = np.arange(n, dtype=np.int32) * np.int32(length)
    indices = np.tile(np.arange(length, dtype=np.int32), n)
    return entries.size, starts, indices, entries.ravel()


def solve_basis(matrix: Floats, right: Floats, transposed: Floats) -> tuple[Floats, Floats] | None:
    """The x and y of B x = right, B' y = transposed, for polishing; None where B is singular.

    At a vertex the basic variables solve a square system. Solving it again by LU in the user's
    scale frees them of HiGHS's tolerances: what was exact to 1e-10 is then exact to round-off.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LinAlgWarning)  # a singular matrix is expected here
        try:
            factor = lu_factor(matrix)
        except (LinAlgError, ValueError):
            return None
    x, y = lu_solve(factor, right), lu_solve(factor, transposed, trans=1)
    return (x, y) if np.isfinite(x).all() and np.isfinite(y).all() else None


def check_finite(values: Floats) -> None:
    """Refuse kernel values that are not finite."""
    if not np.isfinite(values).all():
        raise ValueError(
            "The kernel returned NaN or infinite values on the training rows. Scale the "
            "features (for example with StandardScaler), or lower gamma, degree or coef0."
        )
