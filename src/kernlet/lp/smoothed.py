"""Newton's method on the smoothed problem, in passes over all rows."""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.linalg import LinAlgError
from scipy.linalg import cho_factor, cho_solve

from kernlet._typing import Floats
from kernlet.kernels.gram import KernelTiles, TileMaker
from kernlet.lp.problem import OneOutput, TallMargin
from kernlet.rows.source import BlockCache


@dataclass(frozen=True)
class SmoothedHinge:
    """max(0, r), a parabola in place of the corner.

    0 for r <= -w/2, (r + w/2)^2 / (2 w) for |r| <= w/2, r beyond: convex, with a continuous
    slope, and above the hinge by w/8 at most.

    Parameters
    ----------
    width : float
        w > 0.

    Examples
    --------
    >>> import numpy as np
    >>> from kernlet.lp.smoothed import SmoothedHinge
    >>> SmoothedHinge(2.0).value(np.array([-1.0, 0.0, 1.0, 2.0]))
    array([0.  , 0.25, 1.  , 2.  ])
    """

    width: float

    def value(self, r: Floats) -> Floats:
        """The loss at r."""
        inner = np.clip(r + 0.5 * self.width, 0.0, self.width)
        return inner * inner * (0.5 / self.width) + np.maximum(0.0, r - 0.5 * self.width)

    def slope(self, r: Floats) -> Floats:
        """Its derivative, between 0 and 1."""
        return np.clip(r * (1.0 / self.width) + 0.5, 0.0, 1.0)


_MOST_STEPS = 80
_Move = tuple[Floats, Floats, Floats, Floats]
_SHORT = 0.2
_BACK = 0.995  # how far towards the boundary a step goes


def minimise_l1_quadratic(
    matrix: Floats, linear: Floats, weights: Floats, start: Floats, *, tol: float = 1e-10
) -> Floats:
    """Minimise z'Hz / 2 + q'z + sum_j c_j |z_j|.

    With z = z1 - z2 and u = -(Hz + q), |u_j| <= c_j, each step solves the conditions
    z1 (c - u) = z2 (c + u) = mu for a falling mu by one (predictor) and two (corrector)
    systems with H plus a diagonal. Components without weight are free: their u is 0.

    About 15 steps of n^3 / 3 multiplications each.

    Parameters
    ----------
    matrix : ndarray of shape (n, n)
        H, positive semi-definite up to rounding.
    linear : ndarray of shape (n,)
        q.
    weights : ndarray of shape (n,)
        c >= 0.
    start : ndarray of shape (n,)
        A point of about the size of the answer.
    tol : float
        Of the complementarity, relative to the objective.

    Returns
    -------
    z : ndarray of shape (n,)

    Examples
    --------
    >>> import numpy as np
    >>> from kernlet.lp.smoothed import minimise_l1_quadratic
    >>> q, c = np.array([-3.0, 0.5, 2.0]), np.array([1.0, 1.0, 0.0])
    >>> minimise_l1_quadratic(np.eye(3), q, c, np.zeros(3)).round(6) + 0.0
    array([ 2.,  0., -2.])
    """
    size = np.where(weights > 0, weights, 1.0)  # in units in which every c is 1 or 0
    H = matrix / np.outer(size, size)
    return _Path(H, linear / size, weights > 0, start * size).follow(tol) / size


class _Path:
    """The central path of a problem whose weights are 1 or, for free components, 0."""

    def __init__(self, H: Floats, q: Floats, bound: Any, start: Floats) -> None:
        self.H, self.q, self.bound = H, q, bound
        self.ridge = 1e-13 * max(1e-300, float(np.diag(H).mean()))
        spread = max(
            float(np.abs(start[bound]).mean()) if bound.any() else 0.0,
            float(np.abs(q).max(initial=0.0)) / max(1e-300, float(np.diag(H).max())),
            1e-12,
        )
        self.z = start.copy()
        self.above = np.maximum(start[bound], 0.0) + spread  # z1
        self.below = np.maximum(-start[bound], 0.0) + spread  # z2
        self.right = np.ones(int(bound.sum()))  # 1 - u, kept apart: near 0 it has all its digits
        self.left = np.ones(int(bound.sum()))  # 1 + u

    def follow(self, tol: float) -> Floats:
        """Go along it until the complementarity is small."""
        n_bound = max(1, len(self.above))
        for _ in range(_MOST_STEPS):
            product = self.H @ self.z
            residual = product + self.q
            residual[self.bound] += 0.5 * (self.left - self.right)
            gap = float(self.above @ self.right + self.below @ self.left)
            worth = abs(float(self.z @ (0.5 * product + self.q)))
            worth += float(np.abs(self.z[self.bound]).sum())
            flat = np.abs(residual).max(initial=0.0) <= 1e-9 * (1 + np.abs(self.q).max(initial=0.0))
            if flat and gap <= tol * worth + 1e-300:
                break
            before = self.z
            try:
                self._step(residual, gap / (2 * n_bound))
            except (LinAlgError, ValueError):
                break
            if not np.isfinite(self.z).all():
                return before
        return self.z

    def _step(self, residual: Floats, mu: float) -> None:
        """A predictor step, and from what it would reach a corrected one."""
        b = self.bound
        above, below, right, left = self.above, self.below, self.right, self.left
        theta = above / right + below / left
        matrix = self.H.copy()
        n = len(matrix)
        matrix[np.flatnonzero(b), np.flatnonzero(b)] += 1.0 / theta
        matrix[np.arange(n), np.arange(n)] += self.ridge
        factor = cho_factor(matrix, check_finite=False)

        def move(to_above: Floats, to_below: Floats) -> _Move:
            """The step that makes z1 (1 - u) and z2 (1 + u) what they are to be."""
            rho = (to_above / right - above) - (to_below / left - below)
            side = -residual
            side[b] += rho / theta
            dz = cho_solve(factor, side, check_finite=False)
            error = side - self.H @ dz
            error[b] -= dz[b] / theta
            dz += cho_solve(factor, error, check_finite=False)
            du = (dz[b] - rho) / theta
            d_above = to_above / right - above + above / right * du
            d_below = to_below / left - below - below / left * du
            return dz, du, d_above, d_below

        nothing = np.zeros(len(above))
        dz, du, d_above, d_below = move(nothing, nothing)
        reach = self._reach_of((dz, du, d_above, d_below))
        after = float(
            (above + reach * d_above) @ (right - reach * du)
            + (below + reach * d_below) @ (left + reach * du)
        ) / (2 * max(1, len(above)))
        target = mu * min(1.0, after / mu) ** 3 if mu > 0 else 0.0
        best = move(target + d_above * du, target - d_below * du)
        reach = self._reach_of(best)
        if reach < _SHORT:  # the second order misleads: towards the middle first
            target = 0.5 * mu
            best = move(np.full(len(above), target), np.full(len(above), target))
            reach = self._reach_of(best)
        dz, du, d_above, d_below = best
        reach = min(1.0, _BACK * reach)
        self.z = self.z + reach * dz
        self.above, self.below = above + reach * d_above, below + reach * d_below
        self.right, self.left = right - reach * du, left + reach * du

    def _reach_of(self, move: _Move) -> float:
        _, du, d_above, d_below = move
        return _reach(
            (self.above, d_above), (self.below, d_below), (self.right, -du), (self.left, du)
        )


def _reach(*moves: tuple[Floats, Floats]) -> float:
    """The longest step, 1 at most, that keeps everything positive; a little more may be 1."""
    longest = 1.0 / _BACK
    for value, change in moves:
        falling = change < 0
        if falling.any():
            longest = min(longest, float((-value[falling] / change[falling]).min()))
    return min(longest, 1.0 / _BACK)


_BAND_ROWS = 1024  # rows of a product for the Hessian, at least


@dataclass
class Curvature:
    """Sums over rows: K's values along directions, and slopes and curvature there.

    Parameters
    ----------
    moves : list of ndarray of shape (n_block_rows, n_outputs)
        What the directions add to the decision values, block by block.
    gradient : ndarray of shape (n_outputs, s + 1)
    hessian : ndarray of shape (n_outputs, s + 1, s + 1)
    """

    moves: list[Floats]
    gradient: Floats
    hessian: Floats

    def __add__(self, other: Curvature) -> Curvature:
        self.moves += other.moves
        self.gradient += other.gradient
        self.hessian += other.hessian
        return self


def curvature_of_block(
    tiles: KernelTiles,
    values: Floats,
    signs: Any,
    weights: Floats,
    directions: Floats,
    widths: Floats,
) -> Curvature:
    """Derivatives and curvature of the smoothed errors a step away, over one block.

    Products within a tile have the precision of the tile; their sums are float64.

    Parameters
    ----------
    tiles : KernelTiles
    values, signs, weights : ndarray of shape (n_block_rows, n_outputs)
        Decision values before the step, d and nu.
    directions : ndarray of shape (s + 1, n_outputs)
        The steps in beta and, last, the intercept.
    widths : ndarray of shape (n_outputs,)
        Of the smoothed hinge; 0 leaves an output out.
    """
    n_outputs, s = len(widths), tiles.n_centers
    chosen = np.flatnonzero(widths)
    moves = np.zeros((tiles.n_rows, n_outputs), np.float32)
    gradient = np.zeros((n_outputs, s + 1))
    bands = [_Band(s) for _ in chosen]
    is_still = not directions.any()
    for rows, K in tiles:
        if not is_still:
            steps = directions[:, chosen].astype(K.dtype)
            moves[rows, chosen] = K @ steps[:-1] + steps[-1]
        r = 1.0 - signs[rows][:, chosen] * (values[rows] + moves[rows])[:, chosen]
        nu = weights[rows][:, chosen]
        slopes = np.clip(r / widths[chosen] + 0.5, 0.0, 1.0)
        pulls = -slopes * nu * signs[rows][:, chosen]
        gradient[chosen, :-1] += (K.T @ pulls.astype(K.dtype)).T
        gradient[chosen, -1] += pulls.sum(axis=0)
        for place, band in enumerate(bands):
            inside = np.flatnonzero((slopes[:, place] > 0) & (slopes[:, place] < 1))
            band.add(K, inside, nu[inside, place] / widths[chosen[place]])
    hessian = np.zeros((n_outputs, s + 1, s + 1))
    for number, band in zip(chosen, bands, strict=True):
        hessian[number] = band.total()
    return Curvature([moves], gradient, hessian)


class _Band:
    """Sums w_i (K_i, 1)(K_i, 1)' over rows, many of them at a time."""

    def __init__(self, s: int) -> None:
        self.sum = np.zeros((s + 1, s + 1))
        self._parts: list[Floats] = []
        self._count = 0

    def add(self, K: Floats, inside: Any, weights: Floats) -> None:
        """Count in the weighted products of some rows of a tile, with a column of ones."""
        part = np.empty((len(inside), K.shape[1] + 1))  # float32 products lose definiteness
        roots = np.sqrt(weights)
        np.multiply(K[inside], roots[:, None], out=part[:, :-1])
        part[:, -1] = roots
        self._parts.append(part)
        self._count += len(inside)
        if self._count >= _BAND_ROWS:
            self._flush()

    def total(self) -> Floats:
        self._flush()
        return self.sum

    def _flush(self) -> None:
        if self._count:
            part = np.concatenate(self._parts)
            self.sum += part.T @ part
        self._parts, self._count = [], 0


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
    store : BlockCache
        Keeps kernel blocks in float32.
    coef : ndarray of shape (s + 1, n_outputs)
        The start: beta and, last, the intercept.
    on_pass : callable
        Told of every pass, with the machine so far.
    """

    def __init__(
        self,
        problem: TallMargin,
        store: BlockCache,
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
            cache=self._store,
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
