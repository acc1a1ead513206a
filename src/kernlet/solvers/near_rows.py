"""The linear program over the rows near the margin, all other rows summed up."""

from __future__ import annotations

from typing import Any

import highspy
import numpy as np
from numpy.linalg import LinAlgError
from scipy.linalg import lu_factor, lu_solve

from kernlet.kernels.columns import Indices, as_indices
from kernlet.kernels.kernel import Floats
from kernlet.solvers.near import TIE, Near, NearVertex
from kernlet.solvers.restricted_lp import (
    SECOND_TRIES,
    SIMPLEX_OPTIONS,
    check_finite,
    packed,
    set_options,
)
from kernlet.solvers.solution import Status

_Status: Any = highspy.HighsBasisStatus
_EXACT = 1e-11  # an error this small is none


class NearProgram:
    """Minimises the machine's objective with the errors of far rows taken as linear.

    Far rows have a fixed t: nu with an error, 0 without. What is left is a lower bound on
    the objective that is exact as long as no far row changes sides. In its dual, each of the
    s + 1 variables is a line and each near row a column::

        maximise    sum_i r_i t_i + sum_j beta0_j v_j - sum_j Delta_j (a_j + b_j)
        subject to  sum_i d_i K_ij t_i - v_j - a_j + b_j = -far_j,   0 <= t <= nu,  |v| <= c

    with r_i = 1 - d_i f0(x_i) at the point beta0 from which the simplex method starts, and
    a, b >= 0 the price of a trust region of radius Delta: the program is feasible whatever
    the near rows are. Near rows are let in as they change sides: most never are.

    Parameters
    ----------
    near : Near
    coef : ndarray of shape (s + 1,)
        beta0 and, last, the intercept.
    coef_weights : ndarray of shape (s,)
        c.
    radius : ndarray of shape (s + 1,)
        Delta.
    """

    def __init__(self, near: Near, coef: Floats, coef_weights: Floats, radius: Floats) -> None:
        check_finite(near.K)
        check_finite(near.far)
        self.near, self.start = near, coef
        s = len(coef_weights)
        self.scale = float(np.abs(near.K).max(initial=0.0)) or 1.0
        self.unit = min(1.0 / self.scale, float(near.weights.max(initial=0.0))) or 1.0
        self.limits = np.append(coef_weights, 0.0)
        self._lines = np.append(np.full(s, self.scale), 1.0)  # beta times this is HiGHS's dual
        self.residuals = 1.0 - near.signs * (near.K @ coef[:-1] + coef[-1])
        self.at_limit = self.residuals > 0
        self.outside = np.where(self.at_limit, near.weights, 0.0)  # t of rows not let in
        if near.held is not None:
            self.outside = np.where(np.abs(self.residuals) <= TIE, near.held, self.outside)
        self.is_tied = (self.outside > 0) & (self.outside < near.weights)
        self.working: Indices = as_indices([])
        self.n_iter = 0
        self._highs = highspy.Highs()
        set_options(self._highs, SIMPLEX_OPTIONS)
        self._make_lines(coef, radius)

    def _make_lines(self, coef: Floats, radius: Floats) -> None:
        """One equation a variable, with its v and its two trust-region columns."""
        n = len(coef)
        right = self._right_side()
        nothing = np.array([], np.int32)
        self._highs.addRows(n, right, right, 0, np.zeros(n, np.int32), nothing, np.array([]))
        limits = self.limits / (self._lines * self.unit)
        most = 1e3 * (np.abs(right).max(initial=0.0) + limits.max() + len(self.residuals) + 1.0)
        lines = np.arange(n, dtype=np.int32)
        cost, wide = coef * self._lines, radius * self._lines
        for costs, low, high, entry in (
            (-cost, -limits, limits, -1.0),
            (wide, np.zeros(n), np.full(n, most), -1.0),
            (wide, np.zeros(n), np.full(n, most), 1.0),
        ):
            self._highs.addCols(n, costs, low, high, n, lines, lines, np.full(n, entry))
        at_sign = np.where(coef >= 0, _Status.kUpper, _Status.kLower)
        self._columns = np.concatenate([at_sign, np.full(2 * n, _Status.kLower)])
        self._rows = np.full(n, _Status.kBasic)

    def _right_side(self) -> Floats:
        """What rows outside the program, near and far, add up to, with the other sign."""
        near = self.near
        weights = near.signs * self.outside
        weights[self.working] = 0.0
        outside = np.flatnonzero(weights)
        total = near.correlations_of_far.copy()
        total[:-1] += weights[outside] @ near.K[outside]
        total[-1] += weights.sum()
        return -total / (self._lines * self.unit)

    def _admit(self, rows: Indices) -> None:
        """Let near rows in, at the limit at which they were counted."""
        near = self.near
        entries = np.empty((len(rows), near.K.shape[1] + 1))
        entries[:, :-1] = near.K[rows] / self.scale
        entries[:, -1] = 1.0
        entries *= near.signs[rows][:, None]
        n = len(rows)
        self._highs.addCols(
            n,
            -self.residuals[rows],
            np.zeros(n),
            near.weights[rows] / self.unit,
            *packed(entries),
        )
        self.working = np.concatenate([self.working, rows])
        is_high = self.outside[rows] > 0.5 * near.weights[rows]
        status = np.where(is_high, _Status.kUpper, _Status.kLower)
        self._columns = np.concatenate([self._columns, status])
        for line, value in enumerate(self._right_side()):
            self._highs.changeRowBounds(line, value, value)

    def solve(self, max_iter: int | None = None) -> NearVertex:
        """Solve over few near rows at a time until no other near row is on the wrong side.

        Of the rows that change sides on the way from the best point so far to the vertex
        over few rows, those enter that do so first.
        """
        batch = 3 * len(self.limits) + 50
        order = np.argsort(np.abs(self.residuals), kind="stable")
        self._admit(order[:batch])
        best, residuals = self.start, self.residuals
        while True:
            status = self._run(max_iter)
            coef, duals = self._answer()
            there = self._residuals(coef)
            crossed = np.where(self.outside > 0, -there, there)
            crossed[self.is_tied] = np.abs(there[self.is_tied])
            crossed[self.working] = 0.0
            wrong = np.flatnonzero(crossed > _EXACT)
            if status != "optimal" or not len(wrong):
                coef, duals = self._polished(coef, duals)
                return NearVertex(coef, duals, self.n_iter, status)
            if len(wrong) > batch:
                moves = np.maximum(np.abs(there - residuals)[wrong], 1e-300)
                is_late = (residuals[wrong] > 0) == self.at_limit[wrong]
                when = np.where(is_late, np.abs(residuals[wrong]), 0.0) / moves
                wrong = wrong[np.argpartition(when, batch)[:batch]]
            reach = self._search(best, coef - best, residuals, there - residuals)
            best = best + reach * (coef - best)
            residuals = residuals + reach * (there - residuals)
            self._admit(wrong)

    def _residuals(self, coef: Floats) -> Floats:
        return 1.0 - self.near.signs * (self.near.K @ coef[:-1] + coef[-1])

    def _search(self, coef: Floats, step: Floats, residuals: Floats, moves: Floats) -> float:
        """Where the objective over all near rows, the far ones linear, is least along a step."""
        pull = float(self.near.correlations_of_far @ step)
        weighted, c = self.near.weights * moves, self.limits

        def slope(reach: float) -> float:
            errors = float(weighted @ (residuals + reach * moves > 0))
            return errors - pull + float((c * np.sign(coef + reach * step)) @ step)

        if slope(1.0) <= 0:
            return 1.0
        low, high = 0.0, 1.0
        for _ in range(20):
            middle = 0.5 * (low + high)
            low, high = (middle, high) if slope(middle) <= 0 else (low, middle)
        return low

    def _run(self, max_iter: int | None) -> Status:
        """The dual simplex method from the basis at hand, after trouble from none."""
        basis = highspy.HighsBasis()
        basis.col_status, basis.row_status = self._columns.tolist(), self._rows.tolist()
        basis.valid = True
        self._highs.setBasis(basis)
        status = self._try({}, max_iter)
        for options in SECOND_TRIES:
            if status != "failed":
                break
            self._highs.clearSolver()
            status = self._try(options, max_iter)
        basis = self._highs.getBasis()
        if basis.valid:
            self._columns, self._rows = np.array(basis.col_status), np.array(basis.row_status)
        return status

    def _try(self, options: dict[str, Any], max_iter: int | None) -> Status:
        most = 20 * (100 + len(self._columns) + len(self._rows))
        if max_iter is not None:
            most = min(most, max(0, max_iter - self.n_iter))
        limit = {"simplex_iteration_limit": most}
        set_options(self._highs, SIMPLEX_OPTIONS | options | limit)
        self._highs.run()
        self.n_iter += max(0, self._highs.getInfo().simplex_iteration_count)
        status = self._highs.getModelStatus()
        if status == highspy.HighsModelStatus.kOptimal:
            return "optimal"
        if status == highspy.HighsModelStatus.kIterationLimit and self.n_iter == max_iter:
            return "iteration limit"
        return "failed"

    def _answer(self) -> tuple[Floats, Floats]:
        solution = self._highs.getSolution()
        n = len(self.limits)
        if len(solution.row_dual) != n:  # no answer at all
            return self.start, self.outside
        coef = self.start - np.array(solution.row_dual) / self._lines
        unused = self._columns[:n] == _Status.kBasic  # |correlation| < c
        coef[:-1][unused[:-1]] = 0.0
        duals = self.outside.copy()
        inside = np.array(solution.col_value)[3 * n :] * self.unit
        duals[self.working] = np.clip(inside, 0.0, self.near.weights[self.working])
        return coef, duals

    def _polished(self, coef: Floats, duals: Floats) -> tuple[Floats, Floats]:
        """The answer computed anew from its basis, free of HiGHS's tolerances."""
        near, n = self.near, len(self.limits)
        status = self._columns[3 * n :]
        free = self.working[status == _Status.kBasic]
        used = np.flatnonzero(self._columns[:n] != _Status.kBasic)
        trusted = (self._columns[n : 3 * n] != _Status.kBasic).all()
        if not trusted or len(free) != len(used) or not len(free):
            return coef, duals
        clean = duals.copy()
        clean[self.working[status == _Status.kLower]] = 0.0
        upper = self.working[status == _Status.kUpper]
        clean[upper] = near.weights[upper]
        clean[free] = 0.0
        lines = np.hstack([near.K[free], np.ones((len(free), 1))])[:, used]
        signs = near.signs[free]
        limits = np.where(self._columns[:n] == _Status.kUpper, self.limits, -self.limits)
        held = near.signs * clean
        rest = near.correlations_of_far + np.append(held @ near.K, held.sum())
        try:
            factor = lu_factor(lines)
        except (LinAlgError, ValueError):
            return coef, duals
        clean[free] = signs * lu_solve(factor, (limits - rest)[used], trans=1)
        exact = np.zeros(n)
        exact[used] = lu_solve(factor, signs)
        size = max(1e-300, float(np.abs(coef).max()))
        inside = np.clip(clean, 0.0, near.weights)
        if (
            np.abs(exact - coef).max() > 1e-5 * size
            or np.abs(inside - clean).max() > 1e-5 * near.weights.max()
        ):
            return coef, duals
        return exact, inside
