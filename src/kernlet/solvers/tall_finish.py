"""From a machine that is nearly right to the optimum, with its certificate."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from kernlet.kernels.kernel import Floats
from kernlet.problems.tall_margin import OneOutput, TallMargin
from kernlet.solvers.equal_rows import merge_equal, share_out
from kernlet.solvers.near import Near, NearVertex
from kernlet.solvers.near_rows import NearProgram
from kernlet.solvers.restricted_lp import check_finite
from kernlet.solvers.solution import MarginSolution, Status
from kernlet.solvers.tall_gather import Gathered, Window, changed_sides, fixed_duals, gather
from kernlet.solvers.tall_newton import search

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
