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
from kernlet.lp.problem import L1Margin, repeat_rows
from kernlet.rows.source import BlockCache

# How this works
# --------------
# With n_rows >> s candidates the machine of each output has only s + 1 unknowns z = (beta,
# intercept), and it minimises a sum over rows plus a 1-norm:
#
#     F(z) = sum_i nu_i max(0, a_i - d_i (K_i, 1) z) + sum_j c_j |beta_j|
#
# The hinge has no curvature, so Newton's method has nothing to use. SmoothedHinge replaces its
# corner by a parabola of width w; rows with |a_i - d_i f(x_i)| <= w/2, the band, then contribute
# nu_i / w (K_i, 1)'(K_i, 1) to the Hessian, and all others only to the gradient. As w shrinks, the
# minimum tends to that of F, and after a few steps w = 0.01 is near enough for the crossover.
#
# A step (NewtonDescent) minimises the quadratic model plus the exact 1-norm (proximal Newton), by
# the interior point method minimise_l1_quadratic: about 15 Cholesky factorisations of s + 1.
# - One pass per step. The pass that evaluates a step computes the gradient and the Hessian at its
#   end, for the width to be used there: a full step needs no second pass. The line search needs
#   none either: decision values are kept, and f is linear along a step.
# - Damping. With a narrow band the model knows few rows and its steps can be far too long. A share
#   of the Hessian of all rows, "the full Hessian" (that of a sample will do), is added: 1 % at
#   first, four times more after each shortened step, half after each full one. At 100 % the model
#   is an upper bound, and no step is too long.
# - Width. It shrinks by 0.3 where the step moves the rows of the band by less than half the width
#   (the band is known well), by 0.6 up to one width, and not at all beyond.
# - All outputs take their steps at the same time and share kernel values, which are float32 and
#   computed tile by tile; sums over tiles are float64.
#
# Sources: Y.-J. Lee and O. L. Mangasarian, "SSVM: a smooth support vector machine", Computational
# Optimization and Applications 20 (2001), and O. Chapelle, "Training a support vector machine in
# the primal", Neural Computation 19 (2007), for smoothing and Newton steps whose Hessian needs the
# band alone; J. D. Lee, Y. Sun and M. A. Saunders, "Proximal Newton-type methods for minimizing
# composite functions", SIAM J. Optimization 24 (2014); S. Mehrotra, "On the implementation of a
# primal-dual interior point method", SIAM J. Optimization 2 (1992), for predictor and corrector.

#: Width of the smoothed hinge at beta = 0, where all residuals of a classifier are 1: in the middle
#: of the band. Targets of a regressor have deviations of about 1.
FIRST_WIDTH = 4.0
_ENDLESS_WIDTH = 2.0**100  # all rows are in the band
_MAX_WIDTH = 8.0  # no residual near the optimum is beyond half of it
_FIRST_DAMPING, _LEAST_DAMPING = 0.01, 1e-3  # shares of the full Hessian
_SHRINK, _SHRINK_SLOWLY = 0.3, 0.6  # factors of the width after a short step, and a longer one
_MAX_STEPS = 80  # of the interior point method; about 15 are usual
_SHORT_STEP = 0.2  # below this share of a step, the corrector has misled it
_TO_BOUNDARY = 0.995  # how far towards the boundary of the positive numbers a step goes
_BAND_ROWS = 1024  # rows of a product for the Hessian, at least: shorter ones are slow


@dataclass(frozen=True)
class SmoothedHinge:
    """max(0, r) with a parabola of a given ``width`` w > 0 in place of the corner.

    0 for r <= -w/2, (r + w/2)^2 / (2 w) for |r| <= w/2, r beyond: convex, with a continuous
    slope, and above the hinge by w/8 at most.
    """

    width: float

    def value(self, r: Floats) -> Floats:
        """The loss at r."""
        inner = np.clip(r + 0.5 * self.width, 0.0, self.width)
        return inner * inner * (0.5 / self.width) + np.maximum(0.0, r - 0.5 * self.width)

    def slope(self, r: Floats) -> Floats:
        """Its derivative, between 0 and 1."""
        return np.clip(r * (1.0 / self.width) + 0.5, 0.0, 1.0)


def minimise_l1_quadratic(
    matrix: Floats, linear: Floats, weights: Floats, start: Floats, *, tol: float = 1e-10
) -> Floats:
    """Minimise z'Hz / 2 + q'z + sum_j c_j |z_j| by an interior point method.

    With z = z1 - z2 and u = -(Hz + q), |u_j| <= c_j, each step solves the conditions
    z1 (c - u) = z2 (c + u) = mu for a falling mu by one (predictor) and two (corrector)
    systems with H plus a diagonal. Components without weight are free: their u is 0. ``start``
    has about the size of the answer; ``tol`` bounds the complementarity, relative to the
    objective.
    """
    size = np.where(weights > 0, weights, 1.0)  # in units in which every c is 1 or 0
    H = matrix / np.outer(size, size)
    return _CentralPath(H, linear / size, weights > 0, start * size).follow(tol) / size


_Move = tuple[Floats, Floats, Floats, Floats]  # steps of z, u, z1 and z2


class _CentralPath:
    """The central path of a problem whose weights are 1 or, for free components, 0."""

    def __init__(self, H: Floats, q: Floats, bound: Any, start: Floats) -> None:
        self.H, self.q, self.bound = H, q, bound
        # H is semi-definite only up to round-off; the ridge keeps Cholesky from failing.
        self.ridge = 1e-13 * max(1e-300, float(np.diag(H).mean()))
        spread = max(
            float(np.abs(start[bound]).mean()) if bound.any() else 0.0,
            float(np.abs(q).max(initial=0.0)) / max(1e-300, float(np.diag(H).max())),
            1e-12,
        )
        self.z = start.copy()
        self.above = np.maximum(start[bound], 0.0) + spread  # z1
        self.below = np.maximum(-start[bound], 0.0) + spread  # z2
        # 1 - u and 1 + u are kept apart from u: near 0 they would lose all their digits.
        self.right = np.ones(int(bound.sum()))  # 1 - u
        self.left = np.ones(int(bound.sum()))  # 1 + u

    def follow(self, tol: float) -> Floats:
        """Follow the path until the complementarity is small."""
        n_bound = max(1, len(self.above))
        for _ in range(_MAX_STEPS):
            product = self.H @ self.z
            residual = product + self.q
            residual[self.bound] += 0.5 * (self.left - self.right)
            gap = float(self.above @ self.right + self.below @ self.left)
            objective = abs(float(self.z @ (0.5 * product + self.q)))
            objective += float(np.abs(self.z[self.bound]).sum())
            largest = np.abs(residual).max(initial=0.0)
            is_stationary = largest <= 1e-9 * (1 + np.abs(self.q).max(initial=0.0))
            if is_stationary and gap <= tol * objective + 1e-300:
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
            """The step to given values of z1 (1 - u) and z2 (1 + u), refined once."""
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

        zeros = np.zeros(len(above))
        _, du, d_above, d_below = predictor = move(zeros, zeros)
        length = self._longest(predictor)
        after = float(
            (above + length * d_above) @ (right - length * du)
            + (below + length * d_below) @ (left + length * du)
        ) / (2 * max(1, len(above)))
        target = mu * min(1.0, after / mu) ** 3 if mu > 0 else 0.0
        corrected = move(target + d_above * du, target - d_below * du)
        length = self._longest(corrected)
        if length < _SHORT_STEP:  # the second order misleads: towards the middle first
            target = 0.5 * mu
            corrected = move(np.full(len(above), target), np.full(len(above), target))
            length = self._longest(corrected)
        dz, du, d_above, d_below = corrected
        length = min(1.0, _TO_BOUNDARY * length)
        self.z = self.z + length * dz
        self.above, self.below = above + length * d_above, below + length * d_below
        self.right, self.left = right - length * du, left + length * du

    def _longest(self, move: _Move) -> float:
        """The longest step that keeps everything positive; a little more than 1 counts as 1."""
        _, du, d_above, d_below = move
        longest = 1.0 / _TO_BOUNDARY
        for value, change in (
            (self.above, d_above),
            (self.below, d_below),
            (self.right, -du),
            (self.left, du),
        ):
            falling = change < 0
            if falling.any():
                longest = min(longest, float((-value[falling] / change[falling]).min()))
        return longest


@dataclass
class SmoothedPass:
    """Sums over rows of a pass: value changes, gradients and Hessians of all outputs.

    ``value_changes`` are what the steps add to decision values, one (n_block_rows, n_outputs)
    per block; ``gradient`` has the shape (n_outputs, s + 1), ``hessian`` one dimension more.
    """

    value_changes: list[Floats]
    gradient: Floats
    hessian: Floats

    def __add__(self, other: SmoothedPass) -> SmoothedPass:
        self.value_changes += other.value_changes
        self.gradient += other.gradient
        self.hessian += other.hessian
        return self


def smoothed_pass_of_block(
    tiles: KernelTiles,
    values: Floats,
    signs: Any,
    weights: Floats,
    targets: Floats,
    steps: Floats,
    widths: Floats,
) -> SmoothedPass:
    """Gradient and Hessian of the smoothed errors at the end of ``steps``, over one block.

    ``values`` (n_block_rows, n_outputs) are those before the steps (s + 1, n_outputs); ``signs``,
    ``weights`` and ``targets`` have an axis of sides between these two. A width of 0 skips an
    output. Products within a tile have the precision of the tile; their sums are float64.
    """
    n_outputs, s = len(widths), tiles.n_centers
    outputs = np.flatnonzero(widths)
    changes = np.zeros((tiles.n_rows, n_outputs), np.float32)
    gradient = np.zeros((n_outputs, s + 1))
    bands = [_BandHessian(s) for _ in outputs]
    is_still = not steps.any()
    for rows, K in tiles:
        if not is_still:
            z = steps[:, outputs].astype(K.dtype)
            changes[rows, outputs] = K @ z[:-1] + z[-1]
        d, there = signs[rows][:, :, outputs], (values[rows] + changes[rows])[:, outputs]
        r = targets[rows][:, :, outputs] - d * there[:, None]
        nu = weights[rows][:, :, outputs]
        slopes = np.clip(r / widths[outputs] + 0.5, 0.0, 1.0)
        pulls = -(slopes * nu * d).sum(axis=1)
        curvatures = (((slopes > 0) & (slopes < 1)) * nu).sum(axis=1)
        gradient[outputs, :-1] += (K.T @ pulls.astype(K.dtype)).T
        gradient[outputs, -1] += pulls.sum(axis=0)
        for place, band in enumerate(bands):
            inside = np.flatnonzero(curvatures[:, place])
            band.add(K, inside, curvatures[inside, place] / widths[outputs[place]])
    hessian = np.zeros((n_outputs, s + 1, s + 1))
    for number, band in zip(outputs, bands, strict=True):
        hessian[number] = band.total()
    return SmoothedPass([changes], gradient, hessian)


class _BandHessian:
    """Sums w_i (K_i, 1)(K_i, 1)' over the rows of a band, many of them at a time."""

    def __init__(self, s: int) -> None:
        self.sum = np.zeros((s + 1, s + 1))
        self._pending: list[Floats] = []
        self._count = 0

    def add(self, K: Floats, inside: Any, weights: Floats) -> None:
        """Add the rows ``inside`` of a tile, with a column of ones."""
        scaled = np.empty((len(inside), K.shape[1] + 1))  # float32 products lose definiteness
        roots = np.sqrt(weights)
        np.multiply(K[inside], roots[:, None], out=scaled[:, :-1])
        scaled[:, -1] = roots
        self._pending.append(scaled)
        self._count += len(inside)
        if self._count >= _BAND_ROWS:
            self._flush()

    def total(self) -> Floats:
        self._flush()
        return self.sum

    def _flush(self) -> None:
        if self._count:
            scaled = np.concatenate(self._pending)
            self.sum += scaled.T @ scaled
        self._pending, self._count = [], 0


class NewtonDescent:
    """Proximal Newton steps on all outputs of an :class:`L1Margin` at the same time.

    ``coef`` (s + 1, n_outputs) is the start, beta and, last, the intercept; ``on_pass`` hears of
    every pass with the coefficients so far. Memory is 12 n_rows n_outputs bytes, 8 n_outputs
    (s + 1)^2 per block under way, and the ``cache``, which keeps kernel blocks in float32.
    """

    def __init__(
        self,
        problem: L1Margin,
        cache: BlockCache,
        coef: Floats,
        on_pass: Callable[[Floats], None],
    ) -> None:
        self.problem, self.coef, self.on_pass = problem, coef.copy(), on_pass
        n_outputs = problem.n_outputs
        self.values = np.zeros((len(problem.rows), n_outputs), np.float32)
        self.widths = np.full(n_outputs, FIRST_WIDTH)
        self._damping = np.full(n_outputs, _FIRST_DAMPING)
        self._is_short = np.zeros(n_outputs, dtype=bool)  # the last step, within the band
        self._is_open = np.ones(n_outputs, dtype=bool)
        self._costs = [problem.outputs(number) for number in range(n_outputs)]
        self._make_tiles = TileMaker(problem.kernel, problem.points, np.float32)
        self._cache = cache

    def full_hessian(self) -> Floats:
        """Sums of nu_i (K_i, 1)(K_i, 1)' over all rows: the Hessian with every row in the band."""
        widths = np.full(self.problem.n_outputs, _ENDLESS_WIDTH)
        return _ENDLESS_WIDTH * self._pass(np.zeros_like(self.coef), widths).hessian

    def descend(self, first: Floats, last: float, full_hessian: Floats, max_steps: int) -> None:
        """Take steps while the hinge becomes sharper, from the widths ``first`` to ``last``."""
        self.widths = first.copy()
        here = self._pass(self.coef, self.widths)  # from beta = 0 to the start: its values
        self.values += np.concatenate(here.value_changes)
        wide = self.widths_with_band(self.widths)
        if (wide > self.widths).any():  # a start so poor that few rows are in the band
            self.widths = wide
            here = self._pass(np.zeros_like(self.coef), wide)
        self._is_open = np.array([self._has_band(k) for k in range(len(first))])
        for _ in range(max_steps):
            if not self._is_open.any():
                break
            here = self._take_steps(here, full_hessian, last)

    def _take_steps(self, here: SmoothedPass, full_hessian: Floats, last: float) -> SmoothedPass:
        """One step of every open output; gradient and Hessian where it ends."""
        outputs = np.flatnonzero(self._is_open).tolist()
        steps, ahead = np.zeros_like(self.coef), np.zeros(len(self.widths))
        for k in outputs:
            steps[:, k], ahead[k] = self._step(k, here, full_hessian[k], last)
        there = self._pass(steps, ahead)
        changes = np.concatenate(there.value_changes)
        shortened = [
            k for k in outputs if not self._move(k, steps[:, k], changes[:, k], ahead[k], last)
        ]
        if shortened:  # the pass looked beyond the place where they are now
            widths = np.zeros(len(self.widths))
            widths[shortened] = self.widths[shortened]
            again = self._pass(np.zeros_like(self.coef), widths)
            there.gradient[shortened] = again.gradient[shortened]
            there.hessian[shortened] = again.hessian[shortened]
        return there

    def _pass(self, steps: Floats, widths: Floats) -> SmoothedPass:
        problem = self.problem
        of_constraints = problem.signs, problem.error_weights, problem.targets
        total: SmoothedPass = problem.rows.map_reduce(
            smoothed_pass_of_block,
            operator.add,
            by_row=(self.values, *map(problem.by_row, of_constraints)),
            shared=(steps, widths),
            prepare=self._make_tiles,
            cache=self._cache,
        )
        self.on_pass(self.coef)
        return total

    def _step(
        self, k: int, here: SmoothedPass, full_hessian: Floats, last: float
    ) -> tuple[Floats, float]:
        """The step to the minimum of the model, and the width to use at its end."""
        coef, width, H = self.coef[:, k], self.widths[k], here.hessian[k]
        weights = np.append(self.problem.coef_weights[:, k], 0.0)
        share = H[-1, -1] / full_hessian[-1, -1]  # of the rows in the band, over the width
        ridge = 1e-11 * np.diag(H).mean() * np.eye(len(H))
        model = H + self._damping[k] * share * full_hessian + ridge
        end = minimise_l1_quadratic(model, here.gradient[k] - model @ coef, weights, coef)
        step = end - coef
        # Root mean square of the value changes of the rows in the band.
        length = np.sqrt(max(0.0, step @ H @ step) / H[-1, -1])
        self._is_short[k] = length < 0.5 * width
        shrink = _SHRINK if self._is_short[k] else _SHRINK_SLOWLY if length < width else 1.0
        return step, max(last, shrink * width)

    def _move(self, k: int, step: Floats, changes: Floats, ahead: float, last: float) -> bool:
        """Take a step as far as the objective falls; whether all of it."""
        share = line_search(
            self._costs[k], self.coef[:, k], step, self.values[:, k], changes, self.widths[k]
        )
        self.coef[:, k] += share * step
        self.values[:, k] += np.float32(share) * changes
        if share < 1.0:
            self._damping[k] = max(_FIRST_DAMPING, 4.0 * self._damping[k])
            return False
        self._damping[k] = max(_LEAST_DAMPING, 0.5 * self._damping[k])
        is_last = self.widths[k] <= last and self._is_short[k]
        self.widths[k] = ahead
        self._is_open[k] = not is_last and self._has_band(k)
        return True

    def _has_band(self, number: int) -> bool:
        """Whether enough rows fall in the smoothing band to estimate the Hessian."""
        residuals = self._residuals(number)
        inside = np.count_nonzero(residuals < 0.5 * self.widths[number])
        return bool(inside > min(2 * len(self.coef), len(residuals) // 2))

    def widths_with_band(self, least: float | Floats) -> Floats:
        """The smallest width of each output, from ``least``, with 4 rows per unknown inside."""
        place = min(4 * len(self.coef), self.problem.n_constraints - 1)
        widths = [
            2.01 * np.partition(self._residuals(k), place)[place]
            for k in range(self.problem.n_outputs)
        ]
        return np.clip(np.array(widths, dtype=float), least, _MAX_WIDTH)

    def _residuals(self, number: int) -> Floats:
        return np.abs(self._costs[number].residuals(self.values[:, number]))


def line_search(
    costs: L1Margin, coef: Floats, step: Floats, values: Floats, changes: Floats, width: float
) -> float:
    """The share of a step that minimises the smoothed objective, 1 where that is good enough.

    Bisection on the slope along the step, which needs the ``values`` of all rows and their
    ``changes`` by the step, but no kernel values.
    """
    hinge = SmoothedHinge(width)
    moves = -(costs.signs * repeat_rows(changes, costs.n_sides)).astype(np.float64)
    residuals = costs.residuals(values.astype(np.float64))

    def value(share: float) -> float:
        errors = costs.error_weights @ hinge.value(residuals + share * moves)
        return float(errors + costs.coef_weights @ np.abs(coef[:-1] + share * step[:-1]))

    def slope(share: float) -> float:
        errors = (costs.error_weights * hinge.slope(residuals + share * moves)) @ moves
        there = coef[:-1] + share * step[:-1]
        return float(errors + (costs.coef_weights * np.sign(there)) @ step[:-1])

    at_start = slope(0.0)
    if at_start >= 0:
        return 0.0
    # Accept the whole step if it still descends at its end, or gains a fifth of what the slope at
    # its start promises (Armijo).
    if slope(1.0) <= 0 or value(1.0) <= value(0.0) + 0.2 * at_start:
        return 1.0
    low, high = 0.0, 1.0
    while high - low > 0.05 * high and high > 1e-9:
        middle = 0.5 * (low + high)
        low, high = (middle, high) if slope(middle) <= 0 else (low, middle)
    return low
