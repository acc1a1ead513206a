"""Column and row generation for the 1-norm machine of one output."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from kernlet._typing import Floats, Indices
from kernlet.kernels.gram import ColumnCache, Gram, as_indices
from kernlet.lp.interior import InteriorPoint, solve_dense
from kernlet.lp.problem import L1Margin, PrimalDual, Solution, Status
from kernlet.lp.simplex import BASIC, LOWER, UPPER, HotSimplex, check_finite, solve_basis

# How this works
# --------------
# The program has a row per training row and a column per candidate, 60,000 of each for MNIST, but
# at its optimum only m1 rows have a positive dual and m2 candidates a coefficient, some hundreds. A
# program over those alone has the same optimum. Generation finds them:
#
# 1. Solve the program over a small working set of rows and centers (RestrictedLP). It is
#    solved in its dual form: t_i is a boxed column and each center a ranged row, so that a new row
#    or center is one line more and the last basis stays usable.
# 2. Price everything outside. The margin a_i - d_i f(x_i) of a row is the reduced cost of t_i: a
#    row short of the margin wants to enter. The excess |sum_i K_ij d_i t_i| - c_j of a candidate
#    is the violation of a missing constraint: so does the candidate.
# 3. Where nothing is violated, the optimum of the working set is that of the whole program.
#    Otherwise the most violated rows and centers enter, those long inactive leave (_Aging), and
#    the dual simplex method restarts from the basis at hand.
#
# Pricing, not the simplex method, touches all rows. It takes one column of K for each of the
# m1 + m2 points in use, computed once in float32 and cached (Pricer). float32 prices are
# wrong by about 1e-6, and the program knows the exact prices of its own rows and centers: the
# largest difference there, times four, bounds the error elsewhere. A violation above that bound is
# real. Only when none is left are those below it computed again in float64.
#
# Noisy rows, on which hundreds of centers are in use, are hard for the simplex method. Where it has
# worked for long and the kernel matrix is small enough, an interior point method finds the
# partition of rows and centers instead (interior.py), and the programs after that one (other
# costs) are solved in the same way over the centers still in use.
#
# A row of two sides (regression) is two columns of the program and one line of kernel values:
# constraint i belongs to row i // n_sides.
#
# The certificate does not depend on any of this. At the end the vertex is polished by an LU
# factorisation of its basis, everything is priced in float64, t is made feasible by shrinking, and
# objective and bound are compared (L1Margin.bound). If the gap exceeds ``tol`` after all,
# the violations found in float64 enter and the loop continues.
#
# Scaling: HiGHS has absolute tolerances of 1e-10. It sees K / s with s the largest kernel value,
# and t in units in which its bounds are at least 1 where a center could become active, so that
# these tolerances mean the same for every kernel and every C.
#
# Sources: G. M. Fung, O. L. Mangasarian and A. J. Smola, "Minimal kernel classifiers", JMLR 3
# (2002), for the program; M. E. Luebbecke and J. Desrosiers, "Selected topics in column
# generation", Operations Research 53 (2005), for generation, pricing and ageing; A. Demiriz,
# K. P. Bennett and J. Shawe-Taylor, "Linear programming boosting via column generation", Machine
# Learning 46 (2002), for the same on a margin program.

CACHE_BYTES = 2 * 2**30  # for kernel columns
_VIOLATION = 1e-9  # in float64; smaller ones are round-off
_ZERO = 1e-9  # what HiGHS's tolerances cannot distinguish from zero
_NONE = as_indices([])
# Of the restricted program, which lives through hundreds of runs: beyond these few its numbers are
# hopeless, and every run would take three times as long.
_MAX_RETRIES = 8
# When to give up the simplex method for the interior point method, in matrix entries times
# simplex iterations, of which a second does 1e8 to 1e9: not before _MIN_WORK, and not before as
# much as the other method will need. So the two together take at most twice the time of the
# better. The latter holds the kernel values in memory and takes 20 n_rows n_centers^2 operations.
_MIN_WORK, _WORK_PER_OPERATION = 3e8, 0.07
_DENSE_ENTRIES = 16_000_000  # 4,000 rows and candidates: 128 MB, and half a minute


class RestrictedLP:
    """The dual of one output of an :class:`L1Margin` over a working set of rows and centers.

    Each t_i is a boxed column and each center a ranged row; the row duals are beta and, first,
    the intercept. ``rows`` are numbers of constraints. After :meth:`solve`, ``duals`` t, ``coef``
    beta, ``intercept``, ``margins`` a_i - d_i f(x_i) and ``correlations`` sum_i K_ij d_i t_i are
    those of the working set, exactly zero where not in use.
    """

    def __init__(self, gram: Gram, costs: L1Margin) -> None:
        self.gram, self.costs = gram, costs
        self.rows = self.centers = _NONE
        self.status: Status = "failed"
        self.intercept = 0.0
        self.duals: Floats = np.zeros(0)
        self.coef: Floats = np.zeros(0)
        self.margins: Floats = np.zeros(0)
        self.correlations: Floats = np.zeros(0)
        self.simplex = HotSimplex(_MAX_RETRIES)
        self._scale = 0.0  # s, the largest kernel value seen at first
        self._unit = 0.0  # of t
        self.simplex.add_rows(np.zeros(1), np.zeros(1))  # sum d_i t_i = 0

    def add(self, rows: Indices, centers: Indices) -> None:
        """Let rows and centers in that are not in the working set."""
        if len(rows):
            self._add_rows(rows)
        if len(centers):
            self._add_centers(centers)

    def _add_rows(self, rows: Indices) -> None:
        n, signs = len(rows), self.costs.signs[rows]
        entries = np.empty((n, 1 + len(self.centers)))
        entries[:, 0] = signs
        entries[:, 1:] = self._kernel(rows, self.centers) * signs[:, None]
        upper = self.costs.error_weights[rows] / self._unit
        costs = -self.costs.targets[rows].astype(np.float64)
        _check(self.simplex.add_columns(costs, np.zeros(n), upper, entries))
        self.rows = np.concatenate([self.rows, rows])

    def _add_centers(self, centers: Indices) -> None:
        entries = self._kernel(self.rows, centers).T * self.costs.signs[self.rows]
        limit = self.costs.coef_weights[centers] / (self._scale * self._unit)
        _check(self.simplex.add_rows(-limit, limit, entries))
        self.centers = np.concatenate([self.centers, centers])

    def _kernel(self, rows: Indices, centers: Indices) -> Floats:
        if not self._scale:
            columns = np.arange(min(self.gram.shape[1], len(rows)))
            self._scale = float(np.abs(self._block(rows, columns)).max(initial=0.0)) or 1.0
            self._unit = min(1.0 / self._scale, self.costs.error_weights.max())
        block = self._block(rows, centers)
        return block / self._scale if self._scale != 1.0 else block

    def _block(self, rows: Indices, centers: Indices) -> Floats:
        block = self.gram.block(rows // self.costs.n_sides, centers)
        check_finite(block)
        return block

    def keep(self, rows: np.ndarray, centers: np.ndarray) -> None:
        """Drop what the masks leave out of the working set, except for the active part."""
        rows = rows | (self.simplex.column_status == BASIC)
        centers = centers | (self.simplex.row_status[1:] != BASIC)
        if not rows.all() or not centers.all():
            self.simplex.keep(rows, np.concatenate([[True], centers]))
            self.rows, self.centers = self.rows[rows], self.centers[centers]

    def reweight(self, costs: L1Margin) -> None:
        """Change nu and c, keeping the basis."""
        self.costs = costs
        upper = costs.error_weights[self.rows] / self._unit
        limit = costs.coef_weights[self.centers] / (self._scale * self._unit)
        self.simplex.set_column_bounds(np.zeros(len(upper)), upper)
        self.simplex.set_row_bounds(1 + np.arange(len(limit)), -limit, limit)

    def solve(self, max_iter: int | None = None) -> Status:
        """Run the simplex method from the basis at hand."""
        self.status = self.simplex.run(max_iter)
        solution = self.simplex.solution
        duals = np.array(solution.col_value)
        duals[(duals <= _ZERO) & (self.simplex.column_status != UPPER)] = 0.0
        coef = -np.array(solution.row_dual)
        coef[1:][np.abs(coef[1:]) <= _ZERO] = 0.0
        self.duals = duals * self._unit
        self.coef, self.intercept = coef[1:] / self._scale, float(coef[0])
        self.margins = -np.array(solution.col_dual)
        self.correlations = np.array(solution.row_value)[1:] * (self._scale * self._unit)
        return self.status

    def polished(self) -> tuple[Floats, Floats, float]:
        """Duals, coefficients and intercept computed again from the basis of the optimum."""
        answer = self.duals, self.coef, self.intercept
        vertex = self.vertex() if self.status == "optimal" else None
        if vertex is None:
            return answer
        duals, coef, intercept = vertex
        if not _is_close(duals, self.duals) or not _is_close(coef, self.coef):
            return answer
        upper = self.costs.error_weights[self.rows]
        return (
            np.where(self.duals > 0, np.clip(duals, 0.0, upper), 0.0),
            np.where(self.coef != 0, coef, 0.0),
            intercept,
        )

    def vertex(self) -> tuple[Floats, Floats, float] | None:
        """Duals, coefficients and intercept of the basis at hand; None where it is singular.

        The basic columns F and the active rows A (the balance among them) make a square
        system: its solution is t on F, that of its transpose the intercept and beta.
        """
        column_status, row_status = self.simplex.column_status, self.simplex.row_status
        free, active = column_status == BASIC, row_status != BASIC
        if not free.any() or free.sum() != active.sum():
            return None
        upper = self.costs.error_weights[self.rows]
        duals = np.where(column_status == UPPER, upper, 0.0)
        limits = np.append(0.0, self.costs.coef_weights[self.centers])
        limits[row_status == LOWER] *= -1
        signs = self.costs.signs[self.rows][:, None]
        kernel = self.gram.block(self.rows // self.costs.n_sides, self.centers[active[1:]])
        entries = np.hstack([signs, kernel * signs])[:, 0 if active[0] else 1 :]
        right = limits[active] - duals[~free] @ entries[~free]
        solved = solve_basis(entries[free], self.costs.targets[self.rows][free], right)
        if solved is None:
            return None
        coef = np.zeros(len(active))
        coef[active], duals[free] = solved
        return duals, coef[1:], float(coef[0])

    def start_from(self, rows: Indices, free: Any, centers: Indices, point: InteriorPoint) -> None:
        """Take the partition of an interior point as working set and basis.

        ``rows`` are those with a positive t, ``free`` tells which of them are below nu; ``centers``
        have a coefficient. The basis is square: one more of ``free`` than ``centers``.
        """
        self.add(rows, _NONE)
        self.add(_NONE, centers)
        self.simplex.column_status = np.where(free, BASIC, UPPER)
        is_positive = point.coef[centers] > 0
        self.simplex.row_status = np.append(LOWER, np.where(is_positive, UPPER, LOWER))
        self.duals, self.coef = point.duals[rows], point.coef[centers]
        self.intercept, self.status = point.intercept, "optimal"


def _check(is_accepted: bool) -> None:
    """Refuse entries beyond 1e15, which HiGHS does not take."""
    if not is_accepted:
        raise ValueError(
            "The kernel values differ by too many orders of magnitude for a linear program. "
            "Scale the features, or remove rows far from all others."
        )


def _is_close(polished: Floats, before: Floats) -> bool:
    """Whether a recomputed answer confirms the one it is to replace."""
    scale = np.abs(before).max(initial=1e-300)
    return bool(np.allclose(polished, before, rtol=1e-4, atol=1e-6 * scale))


class Pricer:
    """Evaluates f(x_i) for all rows and sum_i K_ij d_i t_i for all candidates.

    Fast prices use float32 kernel columns (float64 where :class:`Gram` finds that float32 will
    not do), at n_rows * (m1 + m2) multiplications and 4 n_rows bytes for each point that was ever
    in use, at most ``max_bytes``. Exact prices are float64 and cache nothing.
    """

    def __init__(self, gram: Gram, signs: Floats, max_bytes: int = CACHE_BYTES) -> None:
        self.gram, self.signs = gram, signs
        self._n_sides = len(signs) // gram.shape[0]
        Z = None if gram.is_square else gram.z.X
        fast = Gram(gram.kernel, gram.x.X, Z, dtype=np.float32, hold=True)
        self._columns = ColumnCache(fast, max_bytes if gram.is_square else max_bytes // 2)
        self._rows = None if gram.is_square else ColumnCache(fast.T, max_bytes // 2)

    def fast(self, pair: PrimalDual) -> tuple[Floats, Floats]:
        """Decision values of all rows and correlations of all candidates, nearly."""
        rows, signed_duals = self._signed_duals(pair)
        if self._rows is None:
            points = np.union1d(pair.centers, rows)
            weights = np.zeros((len(points), 2))
            weights[np.searchsorted(points, pair.centers), 0] = pair.coef
            weights[np.searchsorted(points, rows), 1] = signed_duals
            values, correlations = self._columns.combine(points, weights)
        else:
            (values,) = self._columns.combine(pair.centers, pair.coef[:, None])
            (correlations,) = self._rows.combine(rows, signed_duals[:, None])
        return values + pair.intercept, correlations

    def _signed_duals(self, pair: PrimalDual) -> tuple[Indices, Floats]:
        """The rows with a positive t, ascending, and the sums of d_i t_i over their sides."""
        signed_duals = self.signs[pair.rows] * pair.duals
        if self._n_sides == 1:
            return pair.rows, signed_duals
        rows, inverse = np.unique(pair.rows // self._n_sides, return_inverse=True)
        return rows, np.bincount(inverse, signed_duals, len(rows)).astype(np.float64)

    def exact(
        self, pair: PrimalDual, rows: Indices | None = None, candidates: Indices | None = None
    ) -> tuple[Floats, Floats]:
        """The same in float64 from fresh kernel values, of all rows and candidates or a few."""
        active, signed_duals = self._signed_duals(pair)
        values = self.gram.dot(pair.coef, pair.centers, rows) + pair.intercept
        return values, self.gram.T.dot(signed_duals, active, candidates)


class _Prices:
    """The prices of all rows and candidates for a primal-dual pair, and its certificate."""

    def __init__(
        self, costs: L1Margin, pair: PrimalDual, values: Floats, correlations: Floats
    ) -> None:
        check_finite(values)
        check_finite(correlations)
        self.costs, self.correlations = costs, correlations
        self.margins = costs.residuals(values)
        self.excesses = np.abs(correlations) - costs.coef_weights
        slacks = np.maximum(0.0, self.margins)
        penalty = costs.coef_weights[pair.centers] @ np.abs(pair.coef)
        self.solution = Solution(
            centers=pair.centers,
            coef=pair.coef,
            intercept=pair.intercept,
            rows=pair.rows,
            duals=pair.duals,
            slacks=slacks,
            objective=float(costs.error_weights @ slacks + penalty),
            bound=costs.bound(pair.duals, correlations, pair.rows),
            n_iter=0,
            status="optimal",
        )

    def violated(self, row_tolerance: float, center_tolerance: float) -> tuple[Indices, Indices]:
        """Rows short of the margin and centers over their limit, by more than a tolerance."""
        rows = (self.margins > row_tolerance) & (self.costs.error_weights > 0)
        return np.flatnonzero(rows), np.flatnonzero(self.excesses > center_tolerance)


class ColumnGeneration:
    """Solves an :class:`L1Margin` of one output to its optimum over small working sets.

    See the top of this file. Time is dominated by the simplex method on m1 + m2 rows and centers,
    not by n_rows; each round adds n_rows * (m1 + m2) for pricing. ``random_state`` draws the
    first working set; at most ``row_batch`` rows and ``center_batch`` centers enter per round.
    """

    def __init__(
        self,
        problem: L1Margin,
        random_state: np.random.RandomState,
        *,
        row_batch: int = 300,
        center_batch: int = 40,
        max_bytes: int = CACHE_BYTES,
    ) -> None:
        self.problem, self.costs = problem, _costs(problem)
        gram = Gram(problem.kernel, problem.X, problem.centers)
        self.pricer = Pricer(gram, self.costs.signs, max_bytes)
        self.lp = RestrictedLP(gram, self.costs)
        self.row_batch, self.center_batch = row_batch, center_batch
        n_candidates = problem.shape[1]
        self._row_ages, self._center_ages = _Aging(problem.n_constraints), _Aging(n_candidates)
        self._dense_centers: Indices | None = None  # None while the simplex method is in use
        rows = _draw_both_signs(self.costs.signs, row_batch, random_state)
        if gram.is_square:
            drawn = rows // problem.n_sides
            centers = drawn[np.sort(np.unique(drawn, return_index=True)[1])]
        else:
            centers = random_state.permutation(n_candidates)
        self.lp.add(rows, centers[:center_batch])

    def reweight(self, problem: L1Margin) -> None:
        """Take other costs for the same rows and candidates, keeping the working set."""
        self.problem, self.costs = problem, _costs(problem)
        self.lp.reweight(self.costs)

    def solve(
        self,
        *,
        tol: float = _VIOLATION,
        max_iter: int | None = None,
        start: Floats | None = None,
        certify: bool = True,
        report: Callable[[PrimalDual], bool] | None = None,
    ) -> list[Solution]:
        """The solution of the one output to a relative duality gap of ``tol``.

        After ``max_iter`` simplex iterations the answer so far is returned with its true gap.
        ``report`` gets the pair of each round and stops the generation by a true answer. Without
        ``certify`` the program is solved as far as float32 prices tell, whatever ``tol`` is, and
        the gap is an estimate. ``start`` is for the streaming solver: generation restarts from
        its basis.
        """
        tol = tol if certify else _VIOLATION
        begin, before = self.lp.simplex.n_iter, 0
        while True:
            if self._is_heavy(max_iter):
                before += self.lp.simplex.n_iter - begin
                solution, n_steps = self._solve_dense(tol, report)
                before, begin = before + n_steps, 0
                if solution is not None:
                    return [replace(solution, n_iter=before)]
            used = before + self.lp.simplex.n_iter - begin
            status = self.lp.solve(None if max_iter is None else max(0, max_iter - used))
            pair = self._pair(self.lp.duals, self.lp.coef, self.lp.intercept)
            prices = _Prices(self.costs, pair, *self.pricer.fast(pair))
            if report is not None and report(pair):
                status = "stopped"
            rows = centers = _NONE
            if status == "optimal" and not prices.solution.gap <= tol:
                rows, centers = self._violated(prices)
            if certify and not len(rows) and not len(centers):
                pair = self._pair(*self.lp.polished())
                prices = _Prices(self.costs, pair, *self.pricer.exact(pair))
                if status == "optimal" and not prices.solution.gap <= tol:
                    rows, centers = self._outside(*prices.violated(_VIOLATION, _VIOLATION))
            if not len(rows) and not len(centers):
                n_iter = before + self.lp.simplex.n_iter - begin
                return [replace(prices.solution, n_iter=n_iter, status=status)]
            self._exchange(prices, rows, centers)

    def _is_heavy(self, max_iter: int | None) -> bool:
        """Whether the interior point method is likely to be faster from here on."""
        if self._dense_centers is not None:
            return True
        n_lines, n_candidates = self.problem.n_constraints, self.problem.shape[1]
        if max_iter is not None or n_lines * n_candidates > _DENSE_ENTRIES:
            return False
        limit = max(_MIN_WORK, _WORK_PER_OPERATION * n_lines * float(n_candidates) ** 2)
        if self.lp.simplex.work <= limit:
            return False
        self._dense_centers = np.arange(n_candidates)
        return True

    def _solve_dense(
        self, tol: float, report: Callable[[PrimalDual], bool] | None
    ) -> tuple[Solution | None, int]:
        """The solution by the interior point method, and its steps.

        None where the vertex has no certificate: the simplex method continues from its basis.
        """
        assert self._dense_centers is not None
        centers, n_steps = self._dense_centers, 0
        while True:
            n_steps += self._find_vertex(centers)
            pair = self._pair(self.lp.duals, self.lp.coef, self.lp.intercept)
            prices = _Prices(self.costs, pair, *self.pricer.exact(pair))
            is_stopped = report is not None and report(pair)
            if is_stopped or prices.solution.gap <= tol:
                # The next program has other costs: few centers that are not in use now enter.
                self._dense_centers = pair.centers if len(pair.centers) else centers
                status: Status = "stopped" if is_stopped else "optimal"
                return replace(prices.solution, status=status), n_steps
            missing = np.setdiff1d(prices.violated(np.inf, _VIOLATION)[1], centers)
            if not len(missing):
                self._dense_centers = None
                self.lp.simplex.work = -np.inf  # no second attempt
                return None, n_steps
            centers = np.union1d(centers, missing)

    def _find_vertex(self, centers: Indices) -> int:
        """Make the vertex that an interior point shows the answer of the program; its steps."""
        rows = np.flatnonzero(self.costs.error_weights > 0)
        gram, costs = self.lp.gram, self.costs
        nu, targets = costs.error_weights[rows], costs.targets[rows]
        K = gram.block(rows // costs.n_sides, centers)
        check_finite(K)
        point = solve_dense(K, costs.signs[rows], nu, costs.coef_weights[centers], targets)
        self.lp = RestrictedLP(gram, costs)
        if point is None:
            self.lp.add(rows, centers)
            return 0
        if costs.n_sides > 1:
            point = _one_side(point, rows // costs.n_sides)
        used = np.flatnonzero(point.use > 1.0)
        by_betweenness = np.argsort(-point.betweenness, kind="stable")
        is_free = np.zeros(len(rows), dtype=bool)
        is_free[by_betweenness[: len(used) + 1]] = True
        kept = np.flatnonzero(is_free | (point.duals > 0.5 * nu))
        shape = costs.n_constraints, self.problem.shape[1]
        spread = _over_all(point, shape, rows, centers)
        self.lp.start_from(rows[kept], is_free[kept], centers[used], spread)
        vertex = self.lp.vertex()
        if vertex is not None:
            self.lp.duals, self.lp.coef, self.lp.intercept = vertex
        return point.n_iter

    def certified(self, solution: Solution, tol: float, max_iter: int | None) -> Solution:
        """The answer to the present costs in float64, ``solution`` being that in float32."""
        if solution.status == "optimal":
            (certified,) = self.solve(tol=tol, max_iter=max_iter)
            return replace(certified, n_iter=solution.n_iter + certified.n_iter)
        prices = _Prices(self.costs, solution, *self.pricer.exact(solution))
        return replace(prices.solution, n_iter=solution.n_iter, status=solution.status)

    def _pair(self, duals: Floats, coef: Floats, intercept: float) -> PrimalDual:
        """An answer of the restricted program over all rows and candidates, t balanced."""
        all_duals = np.zeros(self.problem.n_constraints)
        all_duals[self.lp.rows] = duals
        balanced = self.costs.balanced(all_duals)
        rows = np.flatnonzero(balanced)
        order = np.argsort(self.lp.centers)
        order = order[coef[order] != 0]
        return PrimalDual(self.lp.centers[order], coef[order], intercept, rows, balanced[rows])

    def _violated(self, prices: _Prices) -> tuple[Indices, Indices]:
        """Rows and centers outside the working set that the machine violates.

        Fast prices are trusted beyond their error, which is measured where the restricted
        program knows the exact ones. Only where nothing is violated beyond it are those within
        it computed in float64.
        """
        row_error = _error(prices.margins[self.lp.rows], self.lp.margins)
        center_error = _error(prices.correlations[self.lp.centers], self.lp.correlations)
        rows, centers = self._outside(*prices.violated(row_error, center_error))
        if len(rows) or len(centers):
            return rows, centers
        rows, centers = self._outside(*prices.violated(-row_error, -center_error))
        costs = self.costs
        values, correlations = self.pricer.exact(prices.solution, rows // costs.n_sides, centers)
        margins = costs.targets[rows] - costs.signs[rows] * values
        excesses = np.abs(correlations) - costs.coef_weights[centers]
        return rows[margins > _VIOLATION], centers[excesses > _VIOLATION]

    def _outside(self, rows: Indices, centers: Indices) -> tuple[Indices, Indices]:
        """Those that are not in the working set."""
        is_new_row = np.ones(self.problem.n_constraints, dtype=bool)
        is_new_center = np.ones(self.problem.shape[1], dtype=bool)
        is_new_row[self.lp.rows], is_new_center[self.lp.centers] = False, False
        return rows[is_new_row[rows]], centers[is_new_center[centers]]

    def _exchange(self, prices: _Prices, rows: Indices, centers: Indices) -> None:
        """Let the most violated in and those long inactive out."""
        self.lp.keep(
            self._row_ages.update(self.lp.rows, self.lp.duals > 0),
            self._center_ages.update(self.lp.centers, self.lp.coef != 0),
        )
        rows = _largest(rows, prices.margins, self.row_batch)
        centers = _largest(centers, prices.excesses, self.center_batch)
        self._row_ages.reset(rows)
        self._center_ages.reset(centers)
        self.lp.add(rows, centers)


def _costs(problem: L1Margin) -> L1Margin:
    """The one output of a problem; float64 signs multiply faster than int8."""
    costs = problem.outputs(0)
    return replace(costs, signs=costs.signs.astype(np.float64))


def _over_all(
    point: InteriorPoint, shape: tuple[int, int], rows: Indices, centers: Indices
) -> InteriorPoint:
    """A point over some rows and centers as one over all."""
    duals, coef = np.zeros(shape[0]), np.zeros(shape[1])
    duals[rows], coef[centers] = point.duals, point.coef
    return replace(point, duals=duals, coef=coef)


def _one_side(point: InteriorPoint, rows: Indices) -> InteriorPoint:
    """A point whose rows have a t on one side at most; ``rows`` are those of the constraints.

    A tube of no width leaves the sum of d t alone determined, and interior points lie in the
    middle: both sides positive, and both between their bounds.
    """
    first = np.flatnonzero(rows[:-1] == rows[1:])
    second = first + 1
    common = np.minimum(point.duals[first], point.duals[second])
    duals, betweenness = point.duals.copy(), point.betweenness.copy()
    duals[first] -= common
    duals[second] -= common
    is_second = duals[first] < duals[second]
    betweenness[np.where(is_second, first, second)] = 0.0
    return replace(point, duals=duals, betweenness=betweenness)


class _Aging:
    """How many rounds each member of a working set may stay inactive: one more at each return.

    The growing limit keeps deletion from cycling: what has returned often enough stays.
    """

    def __init__(self, n: int, rounds: int = 2) -> None:
        self._idle = np.zeros(n, dtype=np.int32)
        self._limit = np.full(n, rounds, dtype=np.int32)

    def update(self, members: Indices, active: np.ndarray) -> np.ndarray:
        """Count a round; true for the members that may stay."""
        self._idle[members] = np.where(active, 0, self._idle[members] + 1)
        return self._idle[members] < self._limit[members]

    def reset(self, members: Indices) -> None:
        """Let members in, for one round longer than last time."""
        self._idle[members] = 0
        self._limit[members] += 1


def _error(fast: Floats, exact: Floats) -> float:
    """A bound on the error of fast prices elsewhere: four times the largest seen here."""
    return float(4 * np.abs(fast - exact).max(initial=0.0) + _VIOLATION)


def _largest(members: Indices, values: Floats, count: int) -> Indices:
    """The ``count`` members of largest value."""
    if len(members) <= count:
        return members
    return members[np.argpartition(-values[members], count)[:count]]


def _draw_both_signs(signs: Floats, count: int, random_state: np.random.RandomState) -> Indices:
    """A random choice of rows in random order, half of each sign where there are enough."""
    order = random_state.permutation(len(signs))
    halves = [order[signs[order] == sign][: count // 2] for sign in (1, -1)]
    return random_state.permutation(np.concatenate(halves))
