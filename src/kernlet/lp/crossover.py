"""From a smoothed solution to an exact vertex with its certificate."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import highspy
import numpy as np
from numpy.linalg import LinAlgError
from scipy.linalg import lu_factor, lu_solve

from kernlet._typing import Floats, Indices
from kernlet.kernels.gram import KernelTiles, TileMaker, as_indices
from kernlet.lp.problem import MarginSolution, OneOutput, Status, TallMargin
from kernlet.lp.simplex import SECOND_TRIES, SIMPLEX_OPTIONS, check_finite, packed, set_options
from kernlet.lp.smoothed import SmoothedHinge, search

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


_PIECE = 1024  # rows compared at a time: a comparison copies them


def merge_equal(near: Near) -> tuple[Near, Indices]:
    """One row in place of those with equal kernel values and sign, with the sum of their weights.

    Their t enter the program as a sum only, whose limit is the sum of their limits: the program
    has the same optimum and far fewer columns where features take few values.

    Parameters
    ----------
    near : Near

    Returns
    -------
    merged : Near
        Each row has the number of the first of its equals.
    groups : ndarray of shape (n_near,)
        Which merged row each near row became.
    """
    groups = _groups(near)
    numbers, first = np.unique(groups, return_index=True)
    if len(numbers) == len(groups):
        return near, groups

    def total(values: Floats) -> Floats:
        return np.bincount(groups, values, minlength=len(numbers)).astype(np.float64)

    merged = replace(
        near,
        numbers=near.numbers[first],
        K=near.K[first],
        signs=near.signs[first],
        weights=total(near.weights),
        held=None if near.held is None else total(near.held),
    )
    return merged, groups


def share_out(duals: Floats, near: Near, merged: Near, groups: Indices) -> Floats:
    """The t of near rows from those of merged rows: one after the other is filled to its weight.

    Few rows are left between 0 and their weight, as at a vertex.
    """
    if len(merged.numbers) == len(groups):
        return duals[groups]
    order = np.argsort(groups, kind="stable")
    weights, group = near.weights[order], groups[order]
    ends = np.cumsum(weights)
    first = np.searchsorted(group, np.arange(len(duals)))
    before = ends - weights - (ends - weights)[first][group]
    filled = np.clip(duals[group] - before, 0.0, weights)
    is_full = duals >= merged.weights
    shared = np.empty(len(groups))
    shared[order] = np.where(is_full[group], weights, filled)
    return shared


def _groups(near: Near) -> Indices:
    n_near = len(near.numbers)
    if not near.K.shape[1] or len(np.unique(near.K[:, 0])) == n_near:
        return np.arange(n_near)
    lines = np.ascontiguousarray(near.K)
    keys = lines.view(np.dtype((np.void, lines.itemsize * lines.shape[1])))[:, 0]
    order = np.argsort(keys, kind="stable")
    is_new = np.zeros(n_near, dtype=bool)
    for start in range(1, n_near, _PIECE):
        piece = slice(start, start + _PIECE)
        here = order[piece]
        is_new[piece] = keys[here] != keys[order[start - 1 :][: len(here)]]
    equal = np.empty(n_near, dtype=np.intp)
    equal[order] = np.cumsum(is_new)
    return np.unique(2 * equal + (near.signs > 0), return_inverse=True)[1]


@dataclass(frozen=True, eq=False)
class Window:
    """Which rows count as near the margin.

    Parameters
    ----------
    reach : float
        |1 - d f| up to which a row is near; negative where an output is left out.
    width : float
        Of the smoothed hinge whose slope times nu is the t of far rows; 0 for a sharp one, with
        which rows on the margin keep the t they have.
    kept : float
        Share of the near rows that is taken, evenly spread: 1 unless too many are equal.
    most : float
        Near rows of a tile of kernel values, as a share of its rows.
    """

    reach: float
    width: float
    kept: float
    most: float = 1.0


class Gathered:
    """What a pass has gathered so far.

    Parameters
    ----------
    values : list of ndarray of shape (n_block_rows, n_outputs)
        Decision values, block by block.
    near : list of lists of (ndarray, ndarray)
        For each output, the numbers of near rows and their kernel values, block by block.
    far : ndarray of shape (n_outputs, 2, s + 1)
    """

    def __init__(self, values: Floats, near: list[list[tuple[Indices, Floats]]], far: Floats):
        self.values, self.near, self.far = [values], near, far
        self.n_rows = len(values)

    def __add__(self, other: Gathered) -> Gathered:
        for mine, theirs in zip(self.near, other.near, strict=True):
            mine += [(numbers + self.n_rows, K) for numbers, K in theirs]
        self.values += other.values
        self.far += other.far
        self.n_rows += other.n_rows
        return self

    def of_output(self, problem: TallMargin, number: int, duals: Floats) -> Near:
        """The near rows and the sum of the others, of one output with its t so far."""
        numbers = np.concatenate([numbers for numbers, _ in self.near[number]])
        return Near(
            numbers,
            np.concatenate([K for _, K in self.near[number]]),
            problem.signs[numbers, number].astype(np.float64),
            problem.error_weights[numbers, number],
            self.far[number],
            duals[numbers],
        )


def gather_block(
    tiles: KernelTiles,
    before: Floats,
    crossed: Any,
    duals: Floats,
    signs: Any,
    weights: Floats,
    coef: Floats,
    windows: list[Window],
) -> Gathered:
    """Decision values of a block of rows, those of them near the margin, the sum of the others.

    Parameters
    ----------
    tiles : KernelTiles
    before : ndarray of shape (n_block_rows, n_outputs)
        Earlier decision values: rows that changed sides since count as near.
    crossed : ndarray of bool of shape (n_block_rows, n_outputs)
        Rows that did so earlier, and count as near too.
    duals : ndarray of shape (n_block_rows, n_outputs)
        The t of rows so far.
    signs, weights : ndarray of shape (n_block_rows, n_outputs)
    coef : ndarray of shape (s + 1, n_outputs)
    windows : list of Window
        One for each output.
    """
    s, n_outputs = tiles.n_centers, len(windows)
    values = np.array(before, dtype=np.float64)
    far = np.zeros((n_outputs, 2, s + 1))
    near: list[list[tuple[Indices, Floats]]] = [[] for _ in windows]
    open_ = [number for number, window in enumerate(windows) if window.reach >= 0]
    for rows, K in tiles:
        values[rows, open_] = K @ coef[:-1, open_] + coef[-1, open_]
        for number in open_:
            d, nu, window = signs[rows, number], weights[rows, number], windows[number]
            r = 1.0 - d * values[rows, number]
            then = 1.0 - d * before[rows, number]
            inside = np.abs(r) <= window.reach
            crosses = crossed[rows, number] | changed_sides(then, r)
            numbers = np.flatnonzero((inside | crosses) & (nu > 0))
            numbers = _spread(numbers, window.kept, window.most * len(r))
            near[number].append((numbers + rows.start, K[numbers]))
            t = fixed_duals(nu, r, window.width, duals[rows, number])
            t[numbers] = 0.0
            for side, sign in enumerate((1, -1)):
                part = np.where(d == sign, t, 0.0)
                far[number, side, :-1] += part @ K
                far[number, side, -1] += part.sum()
    return Gathered(values, near, far)


def changed_sides(before: Floats, after: Floats) -> Any:
    """Which residuals went from one side of the margin to the other; ties have no side."""
    return ((before > TIE) & (after < -TIE)) | ((before < -TIE) & (after > TIE))


def fixed_duals(weights: Floats, residuals: Floats, width: float, duals: Floats) -> Floats:
    """The t that rows have outside the program: by the side they are on, as before for ties."""
    if width > 0:
        return weights * SmoothedHinge(width).slope(residuals)
    return np.where(np.abs(residuals) <= TIE, duals, weights * (residuals > 0))


def _spread(numbers: Indices, share: float, most: float) -> Indices:
    """Some of the numbers, evenly spread."""
    count = min(max(1, round(share * len(numbers))), math.ceil(most))
    if count >= len(numbers):
        return numbers
    return numbers[np.linspace(0, len(numbers) - 1, count).astype(np.intp)]


def gather(
    problem: TallMargin,
    before: Floats,
    crossed: Any,
    duals: Floats,
    coef: Floats,
    windows: list[Window],
) -> tuple[Floats, Gathered]:
    """A pass over all rows in float64; see :func:`gather_block`.

    Returns
    -------
    values : ndarray of shape (n_rows, n_outputs)
        Decision values.
    gathered : Gathered
    """
    total: Gathered = problem.rows.map_reduce(
        gather_block,
        operator.add,
        by_row=(before, crossed, duals, problem.signs, problem.error_weights),
        shared=(coef, windows),
        prepare=TileMaker(problem.kernel, problem.centers, np.float64),
    )
    values = np.concatenate(total.values)
    total.values = []
    return values, total


_NEAR_ROWS, _FEWEST_NEAR = 60, 4000  # a candidate; in all
_NEAR_SHARE = 200  # one row in so many: where passes are long, a larger program saves some
_NEAR_BYTES = 512 * 2**20
_SHARP = 1e-12  # width of a hinge that is smooth in name only
_MOST_ROUNDS = 40
_CROWDED = 20  # times the near rows expected, where more are found than memory should hold
_WHOLE, _MOST_TRUST = 1e4, 1e6  # of the radius: a program over all rows; after many rounds
_SMALLER = (1.0, 1e-3, 1e-6)  # shares of the radius, after failures
_PATIENCE = 4  # rounds without progress
_ROUNDING = 1e-8  # a gap this small is due to rounding

OnPass = Callable[[float, Floats], bool]


@dataclass
class _Output:
    """How far one output has come: the best machine and the best bound so far."""

    costs: OneOutput
    coef: Floats
    duals: Floats
    objective: float = np.inf
    bound: float = -np.inf
    n_iter: int = 0
    status: Status = "optimal"
    trust: float = 4.0
    near_rows: float = 1.0
    idle: int = 0

    @property
    def gap(self) -> float:
        return (self.objective - self.bound) / self.objective if self.objective > 0 else 0.0


class Finish:
    """Rounds of a linear program over near rows and a float64 pass over all rows.

    The program bounds the optimum from below, the pass evaluates its answer. Where that is
    no better than the machine before, a line search between the two is, and rows that
    changed sides enter the next program.

    Parameters
    ----------
    problem : TallMargin
    coef : ndarray of shape (s + 1, n_outputs)
        A machine near the optimum: beta and, last, the intercept.
    values : ndarray of shape (n_rows, n_outputs)
        Its decision values, nearly.
    width : float
        Of the smoothed hinge whose optimum it nearly is.
    on_pass : callable
        Told of every pass with the largest gap and the machine; true stops there.
    """

    def __init__(
        self, problem: TallMargin, coef: Floats, values: Floats, width: float, on_pass: OnPass
    ) -> None:
        self.problem, self.values, self.on_pass = problem, values, on_pass
        self.outputs = [
            _Output(problem.output(number), coef[:, number], np.zeros(0))
            for number in range(problem.shape[2])
        ]
        self._open = list(range(len(self.outputs)))
        self._width = width
        self._windows: list[Window] = []
        self._crossed = np.zeros(problem.signs.shape, dtype=bool)

    def run(self, tol: float, max_iter: int | None, *, stopped: bool) -> list[MarginSolution]:
        """Go through rounds until the gaps are small, and return the answers.

        Parameters
        ----------
        tol : float
            Relative duality gap.
        max_iter : int or None
            Simplex iterations allowed for each output.
        stopped : bool
            Whether to evaluate the machine as it is, and no more.
        """
        here = self._coef()
        self.values, gathered = self._look(here)
        for number in self._open:
            output = self.outputs[number]
            output.objective = self._objective(number, output.coef, self.values)
        stopped = self.on_pass(np.inf, here) or stopped
        for _ in range(_MOST_ROUNDS):
            there = self._coef()
            for number in self._open:
                there[:, number] = self._solve(number, gathered, max_iter, stopped)
            if stopped:
                self._set_status("stopped")
                break
            self._width = 0.0
            values, gathered = self._look(there)
            moved = [self._move(number, there[:, number], values) for number in self._open]
            self._close(tol)
            stopped = self.on_pass(max(o.gap for o in self.outputs), self._coef())
            if not self._open:
                break
            if not all(moved):
                self.values, gathered = self._look(self._coef())
                stopped = self.on_pass(max(o.gap for o in self.outputs), self._coef()) or stopped
        self._mark_stalled(tol)
        return [self._solution(number) for number in range(len(self.outputs))]

    def _mark_stalled(self, tol: float) -> None:
        """Say of outputs that their rounds ended before the gap was small."""
        for output in self.outputs:
            if output.status == "optimal" and output.gap > max(tol, _ROUNDING):
                output.status = "stalled"

    def _coef(self) -> Floats:
        return np.stack([output.coef for output in self.outputs], axis=1)

    def _set_status(self, status: Status) -> None:
        for number in self._open:
            self.outputs[number].status = status

    def _look(self, coef: Floats) -> tuple[Floats, Gathered]:
        self._windows = [self._window(number) for number in range(len(self.outputs))]
        duals = np.broadcast_to(0.0, self.values.shape)
        if self._width == 0:
            duals = np.stack([output.duals for output in self.outputs], axis=1)
        values, gathered = gather(
            self.problem, self.values, self._crossed, duals, coef, self._windows
        )
        check_finite(values)
        if self._width == 0:  # not in the first pass, whose values before are rounded
            signs = self.problem.signs
            self._crossed |= changed_sides(1.0 - signs * self.values, 1.0 - signs * values)
        return values, gathered

    def _window(self, number: int) -> Window:
        """The window that makes about as many rows near as a program takes."""
        if number not in self._open:
            return Window(-1.0, self._width, 1.0)
        n_rows, s, n_outputs = self.problem.shape
        wanted = max(_NEAR_ROWS * (s + 1), _FEWEST_NEAR, n_rows / _NEAR_SHARE)
        wanted *= self.outputs[number].near_rows
        wanted = int(min(wanted, _NEAR_BYTES // (8 * (s + 1) * n_outputs)))
        if wanted >= n_rows:
            return Window(np.inf, self._width, 1.0)
        residuals = np.abs(1.0 - self.problem.signs[:, number] * self.values[:, number])
        reach = 1.001 * float(np.partition(residuals, wanted)[wanted]) + 1e-6  # float32 values
        count = int(np.count_nonzero(residuals <= reach))
        kept = 1.0 if count < 2 * wanted else wanted / count
        return Window(reach, self._width, kept, min(1.0, _CROWDED * wanted / n_rows))

    def _solve(
        self, number: int, gathered: Gathered, max_iter: int | None, stopped: bool
    ) -> Floats:
        """Solve the program over the near rows; take its bound and return its machine."""
        output, t = self.outputs[number], self._fixed_duals(number)
        near = gathered.of_output(self.problem, number, t)
        if stopped:
            self._certify(output, near, t)
            return output.coef
        size = max(
            float(np.abs(output.coef).max()), 1.0 / (float(np.abs(near.K).max(initial=0.0)) or 1.0)
        )
        radius = output.trust * size
        if len(near.numbers) == self.problem.shape[0]:
            radius *= _WHOLE  # nothing is far: the program is the whole problem
        merged, groups = merge_equal(near)
        vertex = self._vertex(output, merged, radius, max_iter)
        output.status = vertex.status
        t[near.numbers] = share_out(vertex.duals, near, merged, groups)
        self._certify(output, near, t)
        return vertex.coef

    def _vertex(
        self, output: _Output, near: Near, radius: float, max_iter: int | None
    ) -> NearVertex:
        """Solve a program, with a smaller trust region after a failure: its costs are smaller."""
        for smaller in _SMALLER:
            reach = np.full(len(output.coef), radius * smaller)
            program = NearProgram(near, output.coef, output.costs.coef_weights, reach)
            left = None if max_iter is None else max(0, max_iter - output.n_iter)
            vertex = program.solve(left)
            output.n_iter += vertex.n_iter
            if vertex.status != "failed":
                break
        return vertex

    def _fixed_duals(self, number: int) -> Floats:
        """The t that the last pass gave far rows, and near rows before the program."""
        output = self.outputs[number]
        residuals = 1.0 - output.costs.signs * self.values[:, number]
        width, weights = self._windows[number].width, output.costs.error_weights
        return fixed_duals(weights, residuals, width, output.duals)

    def _certify(self, output: _Output, near: Near, t: Floats) -> None:
        """Take the bound that t gives, if it is the best so far."""
        costs = output.costs
        balanced = costs.balanced(t)
        correlations = np.zeros(len(costs.coef_weights))
        for side, sign in enumerate((1, -1)):
            is_mine = near.signs == sign
            sums = near.far[side, :-1] + t[near.numbers[is_mine]] @ near.K[is_mine]
            mine = costs.signs == sign
            before = float(t[mine].sum())
            share = float(balanced[mine].sum()) / before if before > 0 else 0.0
            correlations += sign * share * sums
        bound = costs.bound(balanced, correlations)
        if bound > output.bound:
            output.bound, output.duals = bound, balanced

    def _objective(self, number: int, coef: Floats, values: Floats) -> float:
        costs = self.outputs[number].costs
        return costs.objective(costs.slacks(values[:, number]), np.abs(coef[:-1]))

    def _move(self, number: int, coef: Floats, values: Floats) -> bool:
        """Go to a new machine, or part of the way; whether all of it."""
        output = self.outputs[number]
        objective = self._objective(number, coef, values)
        gap = output.gap
        if objective <= output.objective:
            output.coef, output.objective = coef, objective
            self.values[:, number] = values[:, number]
            self._judge(output, gap)
            return True
        step, moves = coef - output.coef, values[:, number] - self.values[:, number]
        reach = search(output.costs, output.coef, step, self.values[:, number], moves, _SHARP)
        between = output.coef + reach * step
        on_the_way = self.values[:, number] + reach * moves
        slacks = output.costs.slacks(on_the_way)
        objective = output.costs.objective(slacks, np.abs(between[:-1]))
        if objective < output.objective:
            output.coef, output.objective = between, objective
            self.values[:, number] = on_the_way
        output.near_rows *= 2.0
        self._judge(output, gap)
        return False

    def _judge(self, output: _Output, gap: float) -> None:
        """Count rounds without progress; then more rows are near, and trust is larger."""
        if output.gap > 0.9 * gap:
            output.idle += 1
            output.near_rows *= 2.0
        output.trust = min(_MOST_TRUST, 4.0 * output.trust)

    def _close(self, tol: float) -> None:
        """Leave outputs alone whose gap is small, or will not become smaller."""
        self._open = [
            number
            for number in self._open
            if self.outputs[number].gap > tol
            and self.outputs[number].idle < _PATIENCE
            and self.outputs[number].status != "iteration limit"
        ]

    def _solution(self, number: int) -> MarginSolution:
        output = self.outputs[number]
        centers = np.flatnonzero(output.coef[:-1])
        rows = np.flatnonzero(output.duals)
        return MarginSolution(
            centers=centers,
            coef=output.coef[centers],
            intercept=float(output.coef[-1]),
            rows=rows,
            duals=output.duals[rows],
            slacks=output.costs.slacks(self.values[:, number]),
            objective=output.objective,
            bound=output.bound,
            n_iter=output.n_iter,
            status=output.status,
        )
