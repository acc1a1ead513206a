"""Newton's method on the smoothed 1-norm machine, one pass over the rows a step."""

from __future__ import annotations

import operator
from collections.abc import Callable

import numpy as np

from kernlet.kernels.kernel import Floats
from kernlet.kernels.tiles import TileMaker
from kernlet.problems.smoothed_hinge import SmoothedHinge
from kernlet.problems.tall_margin import OneOutput, TallMargin
from kernlet.rows import BlockStore
from kernlet.solvers.l1_quadratic import minimise_l1_quadratic
from kernlet.solvers.tall_curvature import Curvature, curvature_of_block

_WIDE = 4.0  # at beta = 0 all residuals are 1: in the middle of the band
_CARE, _LEAST_CARE = 0.01, 1e-3
_SHRINK, _SHRINK_LESS = 0.3, 0.6
_WIDEST = 8.0  # no residual near the optimum is beyond it


class NewtonDescent:
    """Proximal Newton steps on all outputs of a :class:`TallMargin`, in lock-step.

    A step minimises the quadratic model of the smoothed errors plus the 1-norm itself. The
    pass that tries it also gathers slopes and curvature where it leads: a full step that is
    accepted costs one pass. The line search works on decision values, which are kept.

    Memory is 12 n_rows n_outputs bytes, 8 n_outputs (s + 1)^2 a block under way, and the store.

    Parameters
    ----------
    problem : TallMargin
    store : BlockStore
        Keeps kernel blocks in float32.
    coef : ndarray of shape (s + 1, n_outputs)
        The start: beta and, last, the intercept.
    on_pass : callable
        Told of every pass, with the machine so far.
    """

    def __init__(
        self,
        problem: TallMargin,
        store: BlockStore,
        coef: Floats,
        on_pass: Callable[[Floats], None],
    ) -> None:
        self.problem = problem
        self.coef = coef.copy()
        self._n = len(coef)
        self.on_pass = on_pass
        n_rows, _, n_outputs = problem.shape
        self._make = TileMaker(problem.kernel, problem.centers, np.float32)
        self._store = store
        self.values = np.zeros((n_rows, n_outputs), np.float32)
        self._costs = [problem.output(number) for number in range(n_outputs)]

    def metric(self) -> Floats:
        """Sums of nu_i (K_i, 1)(K_i, 1)' over all rows: the curvature where every row is near."""
        width = np.full(self.problem.shape[2], _WIDE)
        return _WIDE * self._pass(np.zeros_like(self.coef), width).hessian

    def descend(self, first: Floats, last: float, metric: Floats, *, most: int) -> None:
        """Go down while the hinge becomes sharper, from one width to another.

        A step that had to be shortened makes the next one more careful: a share of the
        curvature of all rows is added, at most all of it, with which no step is too long.

        Parameters
        ----------
        first : ndarray of shape (n_outputs,)
        last : float
            Widths of the smoothed hinge.
        metric : ndarray of shape (n_outputs, s + 1, s + 1)
            See :meth:`metric`; that of a sample will do.
        most : int
            Steps, at most.
        """
        self.widths, self.care = first.copy(), np.full(len(first), _CARE)
        self._is_free = np.zeros(len(first), dtype=bool)
        here = self._pass(self.coef, self.widths)  # from beta = 0 to the start: its values
        self.values += np.concatenate(here.moves)
        wide = self.widths_with_band(self.widths)
        if (wide > self.widths).any():  # a start so poor that few rows are in the band
            self.widths = wide
            here = self._pass(np.zeros_like(self.coef), wide)
        self._going = np.array([self._has_band(k) for k in range(len(first))])
        for _ in range(most):
            if not self._going.any():
                break
            steps, ahead = np.zeros_like(self.coef), np.zeros(len(first))
            for k in np.flatnonzero(self._going).tolist():
                steps[:, k], ahead[k] = self._step(k, here, metric[k], last)
            there = self._pass(steps, ahead)
            moves = np.concatenate(there.moves)
            short = [
                k
                for k in np.flatnonzero(self._going).tolist()
                if not self._move(k, steps[:, k], moves[:, k], ahead[k], last)
            ]
            if short:
                again = np.zeros(len(first))
                again[short] = self.widths[short]
                fresh = self._pass(np.zeros_like(self.coef), again)
                there.gradient[short] = fresh.gradient[short]
                there.hessian[short] = fresh.hessian[short]
            here = there

    def _pass(self, steps: Floats, widths: Floats) -> Curvature:
        problem = self.problem
        total: Curvature = problem.rows.map_reduce(
            curvature_of_block,
            operator.add,
            by_row=(self.values, problem.signs, problem.error_weights),
            shared=(steps, widths),
            prepare=self._make,
            store=self._store,
        )
        self.on_pass(self.coef)
        return total

    def _step(self, k: int, here: Curvature, metric: Floats, last: float) -> tuple[Floats, float]:
        """The step to the minimum of the model, and the width to look with where it leads."""
        coef, width, H = self.coef[:, k], self.widths[k], here.hessian[k]
        weights = np.append(self.problem.coef_weights[:, k], 0.0)
        share = H[-1, -1] / metric[-1, -1]  # of the rows in the band, over the width
        model = H + self.care[k] * share * metric + 1e-11 * np.diag(H).mean() * np.eye(len(H))
        there = minimise_l1_quadratic(model, here.gradient[k] - model @ coef, weights, coef)
        step = there - coef
        length = np.sqrt(max(0.0, step @ H @ step) / H[-1, -1])  # of the moves in the band
        self._is_free[k] = length < 0.5 * width
        shrink = _SHRINK if self._is_free[k] else _SHRINK_LESS if length < width else 1.0
        return step, max(last, shrink * width)

    def _move(self, k: int, step: Floats, moves: Floats, ahead: float, last: float) -> bool:
        """Take a step as far as it leads down; whether all of it."""
        reach = self._search(k, step, moves, self.widths[k])
        self.coef[:, k] += reach * step
        self.values[:, k] += np.float32(reach) * moves
        if reach < 1.0:
            self.care[k] = max(_CARE, 4.0 * self.care[k])
            return False
        self.care[k] = max(_LEAST_CARE, 0.5 * self.care[k])
        is_last = self.widths[k] <= last and self._is_free[k]
        self.widths[k] = ahead
        self._going[k] = not is_last and self._has_band(k)
        return True

    def _has_band(self, number: int) -> bool:
        """Whether enough rows are within the smoothed corner to tell a curvature."""
        residuals = self._residuals(number)
        inside = np.count_nonzero(residuals < 0.5 * self.widths[number])
        return bool(inside > min(2 * self._n, len(residuals) // 2))

    def widths_with_band(self, least: float | Floats) -> Floats:
        """For each output the least width, from ``least`` on, that tells a curvature."""
        n_rows, _, n_outputs = self.problem.shape
        place = min(4 * self._n, n_rows - 1)
        widths = [2.01 * np.partition(self._residuals(k), place)[place] for k in range(n_outputs)]
        return np.clip(np.array(widths, dtype=float), least, _WIDEST)

    def _residuals(self, number: int) -> Floats:
        return np.abs(1.0 - self.problem.signs[:, number] * self.values[:, number])

    def _search(self, number: int, step: Floats, moves: Floats, width: float) -> float:
        """How far to go: all the way unless the objective rises before."""
        return search(
            self._costs[number], self.coef[:, number], step, self.values[:, number], moves, width
        )


def search(
    costs: OneOutput, coef: Floats, step: Floats, values: Floats, moves: Floats, width: float
) -> float:
    """The share of a step that minimises the smoothed objective, 1 where that is good enough.

    Bisection on its slope along the step, from decision values alone.
    """
    hinge = SmoothedHinge(width)
    signed = -(costs.signs * moves).astype(np.float64)
    margins = 1.0 - costs.signs * values.astype(np.float64)

    def value(reach: float) -> float:
        errors = costs.error_weights @ hinge.value(margins + reach * signed)
        return float(errors + costs.coef_weights @ np.abs(coef[:-1] + reach * step[:-1]))

    def slope(reach: float) -> float:
        errors = (costs.error_weights * hinge.slope(margins + reach * signed)) @ signed
        there = coef[:-1] + reach * step[:-1]
        return float(errors + (costs.coef_weights * np.sign(there)) @ step[:-1])

    at_start = slope(0.0)
    if at_start >= 0:
        return 0.0
    if slope(1.0) <= 0 or value(1.0) <= value(0.0) + 0.2 * at_start:
        return 1.0
    low, high = 0.0, 1.0
    while high - low > 0.05 * high and high > 1e-9:
        middle = 0.5 * (low + high)
        low, high = (middle, high) if slope(middle) <= 0 else (low, middle)
    return low
