"""Crossover from a smoothed solution to an exact vertex with its certificate."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from kernlet._typing import Floats, Indices
from kernlet.kernels.gram import KernelTiles, TileMaker, as_indices
from kernlet.lp.problem import L1Margin, Solution, Status, relative_gap, repeat_rows
from kernlet.lp.simplex import BASIC, LOWER, UPPER, HotSimplex, check_finite, solve_basis
from kernlet.lp.smoothed import SmoothedHinge, line_search

# How this works
# --------------
# The Newton steps leave a machine that is right to two or three digits. At the exact optimum each
# row is on one side of the margin, with t = nu (an error) or t = 0 (none), or on it with a t in
# between. Only the rows near the margin are in doubt. Crossover takes these, the margin rows,
# as columns of a linear program and adds up all others, whose side is taken as known:
#
# 1. A float64 pass (exact_pass_of_block) computes f(x_i) for all rows, collects the kernel values
#    of those with |a_i - d_i f(x_i)| within a band (MarginBand), and sums t_i (K_i, 1) over the
#    others, for each sign apart: two vectors of s + 1 numbers in place of millions of rows.
# 2. The dual of the program over the margin rows (MarginLP) has s + 1 equations. It is solved by
#    the dual simplex method from the machine at hand, again by generation: rows enter as the
#    vertex moves them across the margin. A trust region keeps the program feasible and bounded
#    whatever the band missed; it grows by 4 in each round.
# 3. The duals of the vertex, with those of the far rows, are made feasible and give a lower bound
#    on the optimum of the whole problem (_certify): correlations need no pass: their sums are
#    known.
# 4. A second pass evaluates the vertex on all rows: the objective. Where no far row changed sides
#    the two meet, and the gap is round-off. Otherwise the rows that did enter the next band. Where
#    the vertex is worse than the machine before, a line search between the two is taken instead.
#
# A round costs one pass over the rows, two where the vertex was not taken. The best machine and the
# best bound are kept apart: the gap never grows. A round that does not narrow it by a tenth doubles
# the band; after four of these the output is "stalled" (thousands of rows that are nearly equal,
# all on the margin), and its true gap is reported.
#
# Equal rows (one-hot columns have thousands) enter a program as the sum of their t only, whose
# limit is the sum of theirs: merge_equal_rows makes one column of them, and split_duals fills one
# row after the other up to its nu, so that few t lie strictly between 0 and nu, as at a vertex.
#
# Rows of two sides (regression) are two margin rows of the same kernel values: all numbers of rows
# in this file are those of constraints, and constraint i belongs to row i // n_sides. Decision
# values alone are kept per row.
#
# Sources: R. E. Bixby and M. J. Saltzman, "Recovering an optimal LP basis from an interior point
# solution", Operations Research Letters 15 (1994), and N. Megiddo, "On finding primal- and
# dual-optimal bases", ORSA Journal on Computing 3 (1991), for crossover; L. Bottou and C.-J. Lin,
# "Support vector machine solvers" (2007), for shrinking, the same bet on rows far from the margin;
# Fung, Mangasarian and Smola (JMLR 3, 2002) for the program.

#: Residuals below this count as zero: the row is on the margin.
ON_MARGIN = 1e-9
_CROSSING = 1e-11  # how far beyond the margin a row must be to enter a program
# Margin rows per output: a simplex run takes some 60 per unknown in seconds, and where passes are
# long (many rows), a larger program, one row in 200, saves rounds.
_ROWS_PER_CANDIDATE, _MIN_ROWS, _ROWS_PER_MARGIN_ROW = 60, 4000, 200
_MAX_BYTES = 512 * 2**20  # of their kernel values, all outputs together
_MAX_CROWDING = 20  # more margin rows than this many times the number expected are thinned out
_MAX_ROUNDS = 40
_MAX_IDLE_ROUNDS = 4  # without progress
_SHARP_WIDTH = 1e-12  # of a smoothed hinge that is smooth in name only
_ROUND_OFF_GAP = 1e-8  # a gap this small is round-off, not a missing round
# Radius of the trust region as a multiple of the largest coefficient: at first, at most, and as a
# factor where the program holds all rows, so that no region is needed.
_FIRST_TRUST, _MAX_TRUST, _ALL_ROWS_TRUST = 4.0, 1e6, 1e4
_SMALLER_TRUST = (1.0, 1e-3, 1e-6)  # factors after failures: smaller costs are easier numbers


@dataclass(frozen=True, eq=False)
class MarginRows:
    """Rows near the margin of one output, and what all others add up to.

    ``numbers`` are the rows, ``K`` (n, s) their float64 kernel values, ``signs`` and ``weights``
    their d and nu, ``targets`` their a; ``far`` (2, s + 1) sums t_i (K_i, 1) over the other rows
    with their t held fixed, those of positive sign and those of negative; ``held`` is the t of
    rows on the margin until they enter a program.
    """

    numbers: Indices
    K: Floats
    signs: Floats
    weights: Floats
    targets: Floats
    far: Floats
    held: Floats

    @property
    def far_correlations(self) -> Floats:
        """Sums of d_i t_i (K_i, 1) over the other rows."""
        return self.far[0] - self.far[1]

    def residuals(self, coef: Floats) -> Floats:
        """a_i - d_i f(x_i)."""
        return self.targets - self.signs * (self.K @ coef[:-1] + coef[-1])


class MarginLP:
    """Minimises the objective of one output with the errors of far rows taken as linear.

    Far rows have a fixed t: nu with an error, 0 without. What is left is a lower bound on
    the objective that is exact as long as no far row changes sides. In its dual, each of the
    s + 1 unknowns is a line and each margin row a column::

        maximise    sum_i r_i t_i + sum_j beta0_j v_j - sum_j Delta_j (a_j + b_j)
        subject to  sum_i d_i K_ij t_i - v_j - a_j + b_j = -far_j,   0 <= t <= nu,  |v| <= c

    with r_i = a_i - d_i f0(x_i) at the point beta0 (``coef``) from which the simplex method starts,
    and a, b >= 0 the price of a trust region of ``radius`` Delta: the program is feasible
    whatever the margin rows are. These enter as they change sides: most never do. After
    :meth:`solve`, ``coef`` (beta and, last, the intercept) and ``duals`` t are the optimum.
    """

    def __init__(self, rows: MarginRows, coef: Floats, coef_weights: Floats, radius: float) -> None:
        check_finite(rows.K)
        check_finite(rows.far)
        self.rows, self.start, self.coef = rows, coef, coef
        self.limits = np.append(coef_weights, 0.0)  # c, and none for the intercept
        self.scale = float(np.abs(rows.K).max(initial=0.0)) or 1.0
        self.unit = min(1.0 / self.scale, float(rows.weights.max(initial=0.0))) or 1.0  # of t
        # beta times this is HiGHS's dual of a line
        self._line_scale = np.append(np.full(len(coef_weights), self.scale), 1.0)
        self.residuals = rows.residuals(coef)
        self.at_limit = self.residuals > 0
        self.outside = np.where(self.at_limit, rows.weights, 0.0)  # t of rows that are not in
        self.outside = np.where(np.abs(self.residuals) <= ON_MARGIN, rows.held, self.outside)
        self.is_between = (self.outside > 0) & (self.outside < rows.weights)
        self.duals = self.outside
        self.working: Indices = as_indices([])
        self.simplex = HotSimplex()
        self._add_lines(radius)

    def _add_lines(self, radius: float) -> None:
        """One equation per unknown, with its v and its two trust-region columns."""
        n, right = len(self.limits), self._right_side()
        self.simplex.add_rows(right, right)
        limits = self.limits / (self._line_scale * self.unit)
        # a and b have no upper bound in the program; a boxed one keeps any basis dual feasible.
        box = 1e3 * (np.abs(right).max(initial=0.0) + limits.max() + len(self.residuals) + 1.0)
        at_sign = np.where(self.start >= 0, UPPER, LOWER)
        self.simplex.add_diagonal(-self.start * self._line_scale, -limits, limits, -1.0, at_sign)
        price = radius * self._line_scale
        for entry in (-1.0, 1.0):
            self.simplex.add_diagonal(price, np.zeros(n), np.full(n, box), entry)

    def _right_side(self) -> Floats:
        """Minus the sums over rows outside the program, margin rows and far ones."""
        rows = self.rows
        weights = rows.signs * self.outside
        weights[self.working] = 0.0
        outside = np.flatnonzero(weights)
        total = rows.far_correlations.copy()
        total[:-1] += weights[outside] @ rows.K[outside]
        total[-1] += weights.sum()
        return -total / (self._line_scale * self.unit)

    def _admit(self, entering: Indices) -> None:
        """Let margin rows in, at the limit at which they were counted."""
        rows, n = self.rows, len(entering)
        entries = np.empty((n, rows.K.shape[1] + 1))
        entries[:, :-1] = rows.K[entering] / self.scale
        entries[:, -1] = 1.0
        entries *= rows.signs[entering][:, None]
        weights = rows.weights[entering]
        status = np.where(self.outside[entering] > 0.5 * weights, UPPER, LOWER)
        self.simplex.add_columns(
            -self.residuals[entering], np.zeros(n), weights / self.unit, entries, status
        )
        self.working = np.concatenate([self.working, entering])
        right = self._right_side()
        self.simplex.set_row_bounds(np.arange(len(right)), right, right)

    def solve(self, max_iter: int | None = None) -> Status:
        """Solve over few margin rows at a time until no other is on the wrong side.

        Of the rows that change sides on the way from the best point so far to the vertex
        over few rows, those enter that do so first.
        """
        batch = 3 * len(self.limits) + 50
        order = np.argsort(np.abs(self.residuals), kind="stable")
        self._admit(order[:batch])
        best, residuals = self.start, self.residuals
        while True:
            used = self.simplex.n_iter
            status = self.simplex.run(None if max_iter is None else max(0, max_iter - used))
            self._take_vertex()
            there = self.rows.residuals(self.coef)
            crossing = np.where(self.outside > 0, -there, there)
            crossing[self.is_between] = np.abs(there[self.is_between])
            crossing[self.working] = 0.0
            wrong = np.flatnonzero(crossing > _CROSSING)
            if status != "optimal" or not len(wrong):
                self._polish()
                return status
            # Thousands of rows on the margin (equal targets) would take hundreds of small batches.
            batch = max(batch, len(self.working) // 8)
            if len(wrong) > batch:
                moves = np.maximum(np.abs(there - residuals)[wrong], 1e-300)
                is_ahead = (residuals[wrong] > 0) == self.at_limit[wrong]
                when = np.where(is_ahead, np.abs(residuals[wrong]), 0.0) / moves
                wrong = wrong[np.argpartition(when, batch)[:batch]]
            share = self._line_search(best, self.coef - best, residuals, there - residuals)
            best = best + share * (self.coef - best)
            residuals = residuals + share * (there - residuals)
            self._admit(wrong)

    def _line_search(self, coef: Floats, step: Floats, residuals: Floats, moves: Floats) -> float:
        """Where the objective over all margin rows, the far ones linear, is least on a step."""
        pull = float(self.rows.far_correlations @ step)
        weighted, c = self.rows.weights * moves, self.limits

        def slope(share: float) -> float:
            errors = float(weighted @ (residuals + share * moves > 0))
            return errors - pull + float((c * np.sign(coef + share * step)) @ step)

        if slope(1.0) <= 0:
            return 1.0
        low, high = 0.0, 1.0
        for _ in range(20):  # to 1e-6 of the step
            middle = 0.5 * (low + high)
            low, high = (middle, high) if slope(middle) <= 0 else (low, middle)
        return low

    def _take_vertex(self) -> None:
        solution, n = self.simplex.solution, len(self.limits)
        if len(solution.row_dual) != n:  # HiGHS has no answer: stay at the start
            self.coef, self.duals = self.start, self.outside
            return
        coef = self.start - np.array(solution.row_dual) / self._line_scale
        is_unused = self.simplex.column_status[:n] == BASIC  # |correlation| < c
        coef[:-1][is_unused[:-1]] = 0.0
        duals = self.outside.copy()
        working_duals = np.array(solution.col_value)[3 * n :] * self.unit
        duals[self.working] = np.clip(working_duals, 0.0, self.rows.weights[self.working])
        self.coef, self.duals = coef, duals

    def _polish(self) -> None:
        """Compute the vertex again from its basis, free of HiGHS's tolerances, if that agrees."""
        rows, n = self.rows, len(self.limits)
        of_v, of_trust, of_rows = np.split(self.simplex.column_status, [n, 3 * n])
        free = self.working[of_rows == BASIC]
        used = np.flatnonzero(of_v != BASIC)
        if not (of_trust != BASIC).all() or len(free) != len(used) or not len(free):
            return
        duals = self.duals.copy()
        duals[self.working[of_rows == LOWER]] = 0.0
        upper = self.working[of_rows == UPPER]
        duals[upper] = rows.weights[upper]
        duals[free] = 0.0
        signed = rows.signs * duals
        rest = rows.far_correlations + np.append(signed @ rows.K, signed.sum())
        limits = np.where(of_v == UPPER, self.limits, -self.limits)
        lines = np.hstack([rows.K[free], np.ones((len(free), 1))])[:, used]
        values = rows.signs[free] * rows.targets[free]  # f at the margin
        polished = solve_basis(lines, values, (limits - rest)[used])
        if polished is None:
            return
        coef = np.zeros(n)
        coef[used], duals[free] = polished[0], rows.signs[free] * polished[1]
        inside = np.clip(duals, 0.0, rows.weights)
        size = max(1e-300, float(np.abs(self.coef).max()))
        if (
            np.abs(coef - self.coef).max() > 1e-5 * size
            or np.abs(inside - duals).max() > 1e-5 * rows.weights.max()
        ):
            return
        self.coef, self.duals = coef, inside


# -- Equal rows ------------------------------------------------------------------------------

_COMPARED_ROWS = 1024  # at a time: a comparison copies them


def merge_equal_rows(rows: MarginRows) -> tuple[MarginRows, Indices]:
    """One row in place of those that are equal, with the sum of their weights.

    Equal rows have the same kernel values, sign and target.

    Also returns which merged row each row became. A merged row has the number of its first.
    """
    groups = _groups_of_equal_rows(rows)
    numbers, first = np.unique(groups, return_index=True)
    if len(numbers) == len(groups):
        return rows, np.arange(len(groups))

    def total(values: Floats) -> Floats:
        return np.bincount(groups, values, minlength=len(numbers)).astype(np.float64)

    merged = replace(
        rows,
        numbers=rows.numbers[first],
        K=rows.K[first],
        signs=rows.signs[first],
        targets=rows.targets[first],
        weights=total(rows.weights),
        held=total(rows.held),
    )
    return merged, groups


def split_duals(duals: Floats, rows: MarginRows, merged: MarginRows, groups: Indices) -> Floats:
    """The t of rows from those of merged rows: one after the other is filled to its weight."""
    if len(merged.numbers) == len(groups):
        return duals[groups]
    order = np.argsort(groups, kind="stable")
    weights, group = rows.weights[order], groups[order]
    ends = np.cumsum(weights)
    first = np.searchsorted(group, np.arange(len(duals)))
    before = ends - weights - (ends - weights)[first][group]
    filled = np.clip(duals[group] - before, 0.0, weights)
    is_full = duals >= merged.weights  # exactly full: the sums above are rounded
    split = np.empty(len(groups))
    split[order] = np.where(is_full[group], weights, filled)
    return split


def _groups_of_equal_rows(rows: MarginRows) -> Indices:
    n_rows = len(rows.numbers)
    targets, sides = np.unique(rows.targets, return_inverse=True)
    sides = 2 * sides + (rows.signs > 0)
    if not rows.K.shape[1] or len(np.unique(rows.K[:, 0] + 1j * sides)) == n_rows:
        return np.arange(n_rows)
    # Sort rows by their bytes as one key, then compare neighbours.
    lines = np.ascontiguousarray(rows.K)
    keys = lines.view(np.dtype((np.void, lines.itemsize * lines.shape[1])))[:, 0]
    order = np.argsort(keys, kind="stable")
    is_new = np.zeros(n_rows, dtype=bool)
    for start in range(1, n_rows, _COMPARED_ROWS):
        block = slice(start, start + _COMPARED_ROWS)
        here = order[block]
        is_new[block] = keys[here] != keys[order[start - 1 :][: len(here)]]
    equal = np.empty(n_rows, dtype=np.intp)
    equal[order] = np.cumsum(is_new)
    return np.unique(2 * len(targets) * equal + sides, return_inverse=True)[1]


# -- One pass over all rows --------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class MarginBand:
    """Which rows of an output are margin rows.

    ``reach`` is the |a - d f| up to which they are, negative to skip the output. ``kept`` is the
    share of the margin rows that is taken, evenly spread: 1 unless too many are equal.
    ``max_share`` limits margin rows as a share of the rows of a tile.
    """

    reach: float
    kept: float = 1.0
    max_share: float = 1.0


class PassResult:
    """Sums of a pass over blocks: decision values, margin rows and sums over the others.

    ``values`` are (n_block_rows, n_outputs) per block; ``margin`` holds, for each output, the
    numbers and kernel values of margin rows per block; ``far`` is (n_outputs, 2, s + 1).
    """

    def __init__(
        self,
        values: Floats,
        margin: list[list[tuple[Indices, Floats]]],
        far: Floats,
        n_constraints: int,
    ):
        self.values, self.margin, self.far = [values], margin, far
        self.n_constraints = n_constraints

    def __add__(self, other: PassResult) -> PassResult:
        for mine, theirs in zip(self.margin, other.margin, strict=True):
            mine += [(numbers + self.n_constraints, K) for numbers, K in theirs]
        self.values += other.values
        self.far += other.far
        self.n_constraints += other.n_constraints
        return self

    def margin_rows(self, problem: L1Margin, number: int, duals: Floats) -> MarginRows:
        """The margin rows of one output with its t so far."""
        numbers = np.concatenate([numbers for numbers, _ in self.margin[number]])
        return MarginRows(
            numbers,
            np.concatenate([K for _, K in self.margin[number]]),
            problem.signs[numbers, number].astype(np.float64),
            problem.error_weights[numbers, number],
            problem.targets[numbers, number].astype(np.float64),
            self.far[number],
            duals[numbers],
        )


def exact_pass_of_block(
    tiles: KernelTiles,
    before: Floats,
    crossed: Any,
    duals: Floats,
    signs: Any,
    weights: Floats,
    targets: Floats,
    coef: Floats,
    bands: list[MarginBand],
    width: float,
) -> PassResult:
    """Decision values of ``coef`` in float64, margin rows, and sums over the others.

    Rows that changed sides since the decision values ``before``, or earlier (``crossed``), are
    margin rows too. Arrays of constraints have an axis of sides after that of rows.
    """
    s, n_outputs, n_sides = tiles.n_centers, len(bands), signs.shape[1]
    values = np.array(before, dtype=np.float64)
    far = np.zeros((n_outputs, 2, s + 1))
    margin: list[list[tuple[Indices, Floats]]] = [[] for _ in bands]
    outputs = [number for number, band in enumerate(bands) if band.reach >= 0]
    for rows, K in tiles:
        values[rows, outputs] = K @ coef[:-1, outputs] + coef[-1, outputs]
        for number in outputs:
            d, nu, a, t, is_crossing = (
                array[rows, :, number].ravel()
                for array in (signs, weights, targets, duals, crossed)
            )
            band = bands[number]
            r = a - d * repeat_rows(values[rows, number], n_sides)
            r_before = a - d * repeat_rows(before[rows, number], n_sides)
            is_crossing = is_crossing | changed_sides(r_before, r)
            numbers = np.flatnonzero(((np.abs(r) <= band.reach) | is_crossing) & (nu > 0))
            numbers = _evenly_spread(numbers, band.kept, band.max_share * len(r))
            margin[number].append((numbers + n_sides * rows.start, K[numbers // n_sides]))
            t = far_duals(nu, r, width, t)
            t[numbers] = 0.0
            for side, sign in enumerate((1, -1)):
                t_of_sign = np.where(d == sign, t, 0.0).reshape(-1, n_sides).sum(axis=1)
                far[number, side, :-1] += t_of_sign @ K
                far[number, side, -1] += t_of_sign.sum()
    return PassResult(values, margin, far, signs.shape[0] * n_sides)


def changed_sides(before: Floats, after: Floats) -> Any:
    """Which residuals went from one side of the margin to the other; on it, a row has no side."""
    return ((before > ON_MARGIN) & (after < -ON_MARGIN)) | (
        (before < -ON_MARGIN) & (after > ON_MARGIN)
    )


def far_duals(weights: Floats, residuals: Floats, width: float, duals: Floats) -> Floats:
    """The t of rows outside the program: nu times the slope of the hinge smoothed by ``width``.

    A sharp one, of width 0, has none on the margin: rows there keep the t they have.
    """
    if width > 0:
        return weights * SmoothedHinge(width).slope(residuals)
    return np.where(np.abs(residuals) <= ON_MARGIN, duals, weights * (residuals > 0))


def _evenly_spread(numbers: Indices, share: float, at_most: float) -> Indices:
    """A share of the numbers, evenly spread."""
    count = min(max(1, round(share * len(numbers))), math.ceil(at_most))
    if count >= len(numbers):
        return numbers
    return numbers[np.linspace(0, len(numbers) - 1, count).astype(np.intp)]


# -- Rounds ----------------------------------------------------------------------------------


@dataclass
class _OutputState:
    """How far one output has come: the best machine and the best bound so far."""

    costs: L1Margin
    coef: Floats
    duals: Floats
    objective: float = np.inf
    bound: float = -np.inf
    n_iter: int = 0
    status: Status = "optimal"
    trust: float = _FIRST_TRUST
    crowd: float = 1.0  # factor of the number of margin rows
    idle_rounds: int = 0

    @property
    def gap(self) -> float:
        return relative_gap(self.objective, self.bound)

    def is_open(self, tol: float) -> bool:
        """Whether the gap is too large, and another round may narrow it."""
        is_hopeful = self.idle_rounds < _MAX_IDLE_ROUNDS and self.status != "iteration limit"
        return is_hopeful and not self.gap <= tol

    def objective_at(self, coef: Floats, values: Floats) -> float:
        """The objective of a machine with its decision values."""
        return self.costs.objective(self.costs.slacks(values), np.abs(coef[:-1]))


class Crossover:
    """Rounds of a program over margin rows and a float64 pass over all rows.

    ``coef`` (s + 1, n_outputs) is nearly the optimum for a smoothed hinge of ``width``, and
    ``values`` (n_rows, n_outputs) are nearly its decision values. ``on_pass`` hears of every pass
    with the largest gap and the machine, and stops by a true answer.
    """

    def __init__(
        self,
        problem: L1Margin,
        coef: Floats,
        values: Floats,
        width: float,
        on_pass: Callable[[float, Floats], bool],
    ) -> None:
        self.problem, self.values, self.on_pass = problem, values, on_pass
        self.outputs = [
            _OutputState(problem.outputs(number), coef[:, number], np.zeros(0))
            for number in range(problem.n_outputs)
        ]
        self._open = list(range(len(self.outputs)))
        self._width = width
        self._crossed = np.zeros(problem.signs.shape, dtype=bool)

    def run(self, tol: float, max_iter: int | None, *, stopped: bool) -> list[Solution]:
        """Rounds until all gaps are below ``tol``; if ``stopped``, a certificate and no more."""
        self._close_constant()
        here = self._coef()
        self.values, result = self._exact_pass(here)
        for number, output in enumerate(self.outputs):
            output.objective = output.objective_at(output.coef, self.values[:, number])
        stopped = self.on_pass(np.inf, here) or stopped
        for _ in range(_MAX_ROUNDS):
            there = self._coef()
            for number in self._open:
                there[:, number] = self._solve(number, result, max_iter, stopped)
            if stopped:
                for number in self._open:
                    self.outputs[number].status = "stopped"
                break
            self._width = 0.0
            values, result = self._exact_pass(there)
            moved = [self._move(number, there[:, number], values) for number in self._open]
            self._open = [number for number in self._open if self.outputs[number].is_open(tol)]
            stopped = self.on_pass(max(o.gap for o in self.outputs), self._coef())
            if not self._open:
                break
            if not all(moved):
                self.values, result = self._exact_pass(self._coef())
                stopped = self.on_pass(max(o.gap for o in self.outputs), self._coef()) or stopped
        for output in self.outputs:
            if output.status == "optimal" and not output.gap <= max(tol, _ROUND_OFF_GAP):
                output.status = "stalled"
        return [self._solution(number) for number in range(len(self.outputs))]

    def _close_constant(self) -> None:
        """Take the machine 0 where it has no errors: its objective of 0 is the least."""
        for number, output in enumerate(self.outputs):
            zeros = np.zeros(self.problem.shape[0])
            if not output.costs.error_weights @ output.costs.slacks(zeros) > 0:
                output.coef, output.bound = np.zeros_like(output.coef), 0.0
                output.objective, output.duals = 0.0, np.zeros(self.problem.n_constraints)
                self.values[:, number] = 0.0
                self._open.remove(number)

    def _coef(self) -> Floats:
        return np.stack([output.coef for output in self.outputs], axis=1)

    def _exact_pass(self, coef: Floats) -> tuple[Floats, PassResult]:
        """A pass over all rows in float64: the decision values of ``coef``, and the other sums."""
        problem = self.problem
        duals = np.broadcast_to(0.0, problem.signs.shape)
        if self._width == 0:
            duals = np.stack([output.duals for output in self.outputs], axis=1)
        bands = [self._band(number) for number in range(len(self.outputs))]
        costs = problem.signs, problem.error_weights, problem.targets
        of_constraints = self._crossed, duals, *costs
        result: PassResult = problem.rows.map_reduce(
            exact_pass_of_block,
            operator.add,
            by_row=(self.values, *map(problem.by_row, of_constraints)),
            shared=(coef, bands, self._width),
            prepare=TileMaker(problem.kernel, problem.points, np.float64),
        )
        values, result.values = np.concatenate(result.values), []
        check_finite(values)
        if self._width == 0:  # not in the first pass, whose values before are rounded
            before, after = problem.residuals(self.values), problem.residuals(values)
            self._crossed |= changed_sides(before, after)
        return values, result

    def _band(self, number: int) -> MarginBand:
        """The band that holds about as many margin rows as a program takes."""
        if number not in self._open:
            return MarginBand(-1.0)
        n_rows, s = self.problem.shape
        expected = max(_ROWS_PER_CANDIDATE * (s + 1), _MIN_ROWS, n_rows / _ROWS_PER_MARGIN_ROW)
        expected *= self.outputs[number].crowd
        room = _MAX_BYTES // (8 * (s + 1) * self.problem.n_outputs)
        expected = int(min(expected, room))
        n_constraints = self.problem.n_constraints
        if expected >= n_constraints:
            return MarginBand(np.inf)
        residuals = np.abs(self.outputs[number].costs.residuals(self.values[:, number]))
        # A little wider than the quantile: values before are float32.
        reach = 1.001 * float(np.partition(residuals, expected)[expected]) + 1e-6
        count = int(np.count_nonzero(residuals <= reach))
        kept = 1.0 if count < 2 * expected else expected / count
        return MarginBand(reach, kept, min(1.0, _MAX_CROWDING * expected / n_constraints))

    def _solve(
        self, number: int, result: PassResult, max_iter: int | None, stopped: bool
    ) -> Floats:
        """Solve the program over the margin rows; take its bound and return its machine."""
        output = self.outputs[number]
        # What the last pass gave far rows, and margin rows before the program.
        residuals = output.costs.residuals(self.values[:, number])
        t = far_duals(output.costs.error_weights, residuals, self._width, output.duals)
        rows = result.margin_rows(self.problem, number, t)
        if stopped:
            self._certify(output, rows, t)
            return output.coef
        largest = float(np.abs(rows.K).max(initial=0.0)) or 1.0
        radius = output.trust * max(float(np.abs(output.coef).max()), 1.0 / largest)
        if len(rows.numbers) == self.problem.n_constraints:
            radius *= _ALL_ROWS_TRUST
        merged, groups = merge_equal_rows(rows)
        program = self._solve_program(output, merged, radius, max_iter)
        t[rows.numbers] = split_duals(program.duals, rows, merged, groups)
        self._certify(output, rows, t)
        return program.coef

    def _solve_program(
        self, output: _OutputState, rows: MarginRows, radius: float, max_iter: int | None
    ) -> MarginLP:
        """Solve a program, with a smaller trust region after a failure: its costs are smaller."""
        for factor in _SMALLER_TRUST:
            program = MarginLP(rows, output.coef, output.costs.coef_weights, radius * factor)
            left = None if max_iter is None else max(0, max_iter - output.n_iter)
            output.status = program.solve(left)
            output.n_iter += program.simplex.n_iter
            if output.status != "failed":
                break
        return program

    def _certify(self, output: _OutputState, rows: MarginRows, t: Floats) -> None:
        """Take the bound that t gives, if it is the best so far.

        Balancing scales the t of one sign by one factor, and so the sums of that sign.
        """
        costs = output.costs
        balanced = costs.balanced(t)
        correlations = np.zeros(len(costs.coef_weights))
        for side, sign in enumerate((1, -1)):
            has_sign = rows.signs == sign
            sums = rows.far[side, :-1] + t[rows.numbers[has_sign]] @ rows.K[has_sign]
            of_sign = costs.signs == sign
            before = float(t[of_sign].sum())
            share = float(balanced[of_sign].sum()) / before if before > 0 else 0.0
            correlations += sign * share * sums
        bound = costs.bound(balanced, correlations)
        if bound > output.bound:
            output.bound, output.duals = bound, balanced

    def _move(self, number: int, coef: Floats, values: Floats) -> bool:
        """Go to a new machine, or part of the way; whether all of it."""
        output, values = self.outputs[number], values[:, number]
        objective, gap = output.objective_at(coef, values), output.gap
        is_better = objective <= output.objective
        if is_better:
            output.coef, output.objective = coef, objective
            self.values[:, number] = values
        else:
            self._move_between(output, number, coef, values)
            output.crowd *= 2.0
        if not output.gap <= 0.9 * gap:  # no progress
            output.idle_rounds += 1
            output.crowd *= 2.0
        output.trust = min(_MAX_TRUST, 4.0 * output.trust)
        return is_better

    def _move_between(
        self, output: _OutputState, number: int, coef: Floats, values: Floats
    ) -> None:
        """Go to the best machine between the present one and a worse one, if it is better."""
        here = self.values[:, number]
        step, changes = coef - output.coef, values - here
        share = line_search(output.costs, output.coef, step, here, changes, _SHARP_WIDTH)
        coef, between = output.coef + share * step, here + share * changes
        objective = output.objective_at(coef, between)
        if objective < output.objective:
            output.coef, output.objective = coef, objective
            self.values[:, number] = between

    def _solution(self, number: int) -> Solution:
        output = self.outputs[number]
        centers = np.flatnonzero(output.coef[:-1])
        rows = np.flatnonzero(output.duals)
        return Solution(
            centers=centers,
            coef=output.coef[centers],
            intercept=float(output.coef[-1]),
            rows=rows,
            duals=output.duals[rows],
            slacks=output.costs.slacks(self.values[:, number]),
            objective=output.objective,
            bound=max(0.0, output.bound),  # what t = 0 gives, where no program was solved
            n_iter=output.n_iter,
            status=output.status,
        )
