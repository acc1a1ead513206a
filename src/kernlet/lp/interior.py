"""An interior point method for the 1-norm machine of one output with its kernel in memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.linalg import LinAlgError
from scipy.linalg import cho_factor, cho_solve

from kernlet._typing import Floats

# How this works
# --------------
# The dual simplex method walks from vertex to vertex, and each step factorises or updates a basis
# of as many lines as there are centers. With a few dozen centers nothing is faster. On noisy rows
# the optimum has hundreds: 1,000 rows need 5,000 steps and ten seconds. An interior point
# method needs about 20 steps there, whatever the data, each one Cholesky factorisation of a
# dense matrix, which BLAS does at full speed: half a second.
#
# With E = (D K, d) (problem.py) the dual of one output is, c = 1 by scaling the columns of K,
#
#     maximise a't   subject to  E't = (s, 0),   0 <= t <= nu,   -1 <= s <= 1
#
# and z = (beta, intercept) are the multipliers of its equations. Each of the four bounds has a
# multiplier: their products with the distances from the bounds are driven to zero together,
# along the central path where all are equal (Mehrotra's predictor and corrector). A step solves
#
#     (E' Theta^-1 E + Phi) dz = right side,    Theta, Phi diagonal.
#
# - Distances from bounds are separate variables. Computed as nu - t they would lose their
#   digits near the bound, where they matter.
# - The end is a partition, not a point: rows at 0, at nu or between, centers in use or not. From
#   it the vertex is computed by an LU factorisation (RestrictedLP.vertex) and certified in
#   float64 like any other answer. So the steps may end with t infeasible by 1e-2, which happens
#   where K is nearly singular, as long as the partition is right. Where it is not, the simplex
#   method continues from it.
#
# Sources: S. Mehrotra, "On the implementation of a primal-dual interior point method", SIAM J.
# Optimization 2 (1992); S. J. Wright, "Primal-dual interior-point methods" (1997), also for why
# the ill-conditioned system of the last steps still gives good directions.

_MAX_STEPS = 60  # about 20 are usual
_COMPLEMENTARITY = 1e-11  # of all bounds together, relative to the objective: the end
_RESIDUAL = 1e-8  # of the margins a - d f, at the end
_TO_BOUNDARY = 0.9995  # how far towards a bound a step goes
_SHORT_STEP = 0.1  # below this share of a step, the corrector has misled it
_IDLE_STEP, _MAX_IDLE_STEPS = 1e-3, 3  # in a row: round-off prevents any progress


@dataclass(frozen=True, eq=False)
class InteriorPoint:
    """An answer near the optimum, and the partition of rows and centers that it shows.

    ``betweenness`` of a row is above 1 where t lies strictly between its bounds, ``use`` of a
    center is above 1 where beta is not zero; both are ratios of a variable to the multiplier
    that is complementary to it.
    """

    duals: Floats
    coef: Floats
    intercept: float
    betweenness: Floats
    use: Floats
    n_iter: int


def solve_dense(
    K: Floats,
    signs: Floats,
    error_weights: Floats,
    coef_weights: Floats,
    targets: Floats | float = 1.0,
) -> InteriorPoint | None:
    """Solve one output over kernel values K (n_rows, n_centers); None where arithmetic fails.

    The lines of K belong to constraints: rows of two sides are in it twice.

    ``error_weights`` are positive. Time is about 20 n_rows n_centers^2 operations, memory two
    copies of K and two matrices of n_centers^2.
    """
    largest = float(np.abs(K).max(initial=0.0)) or 1.0
    unit = min(1.0 / largest, float(error_weights.max()))  # of t, as in RestrictedLP
    # beta in units in which every c is 1, t in units in which a kernel value of 1 is large.
    size = coef_weights / unit
    E = np.empty((K.shape[0], K.shape[1] + 1))
    np.multiply(K, (1.0 / size)[None, :], out=E[:, :-1])
    E[:, -1] = 1.0
    E *= signs[:, None]
    path = _CentralPath(E, error_weights / unit, targets)
    if not path.follow():
        return None
    z = path.z
    low, high = path.t / path.above_zero, path.below_nu / path.at_nu
    near = np.minimum(path.below, path.above)
    with np.errstate(over="ignore"):
        use = np.abs(z[:-1]) / near
    return InteriorPoint(
        duals=path.t * unit,
        coef=z[:-1] / size,
        intercept=float(z[-1]),
        betweenness=np.minimum(low, high),
        use=use,
        n_iter=path.n_iter,
    )


_Move = tuple[Floats, ...]  # steps of z, t, s and the four multipliers


class _CentralPath:
    """The central path: t and s with their distances from bounds, z, and four multipliers."""

    def __init__(self, E: Floats, nu: Floats, targets: Floats | float) -> None:
        n_rows, n_centers = E.shape[0], E.shape[1] - 1
        self.E, self.nu, self.targets = E, nu, targets
        self.t = np.minimum(0.5 * nu, 0.5)
        self.below_nu = nu - self.t
        self.s = np.zeros(n_centers)
        self.below, self.above = np.ones(n_centers), np.ones(n_centers)  # s + 1 and 1 - s
        self.z = np.zeros(n_centers + 1)
        # Multipliers of t, with products of about 1 at the start however large nu is.
        self.above_zero, self.at_nu = np.ones(n_rows), 1.0 / np.maximum(1.0, self.below_nu)
        self.at_minus, self.at_plus = np.ones(n_centers), np.ones(n_centers)  # and of s
        self.n_iter = 0

    def follow(self) -> bool:
        """Follow the path to its end, or as far as round-off allows; false for no answer."""
        n_idle = 0
        while self.n_iter < _MAX_STEPS and n_idle < _MAX_IDLE_STEPS:
            margins = self.targets - self.E @ self.z
            residual = margins + self.above_zero - self.at_nu
            gap = float(
                self.t @ self.above_zero
                + self.below_nu @ self.at_nu
                + self.below @ self.at_minus
                + self.above @ self.at_plus
            )
            objective = float(self.nu @ np.maximum(margins, 0.0) + np.abs(self.z[:-1]).sum())
            if gap <= _COMPLEMENTARITY * objective and np.abs(residual).max() <= _RESIDUAL:
                break
            before = {name: value for name, value in vars(self).items() if name != "n_iter"}
            try:
                lengths = self._step(residual, gap / (2 * (len(self.t) + len(self.s))))
            except LinAlgError:
                return self.n_iter > 0
            if not (np.isfinite(self.z).all() and np.isfinite(self.t).all()):
                vars(self).update(before)
                return self.n_iter > 0
            self.n_iter += 1
            n_idle = n_idle + 1 if max(lengths) < _IDLE_STEP else 0
        return True

    def _step(self, residual: Floats, mu: float) -> tuple[float, float]:
        """A predictor step, and from what it would reach a corrected one; the lengths taken."""
        weights = 1.0 / (self.above_zero / self.t + self.at_nu / self.below_nu)
        slack = 1.0 / (self.at_minus / self.below + self.at_plus / self.above)
        scaled = self.E * np.sqrt(weights)[:, None]
        matrix = scaled.T @ scaled
        diagonal = np.arange(len(matrix))
        matrix[diagonal[:-1], diagonal[:-1]] += slack
        matrix[diagonal, diagonal] *= 1.0 + 1e-14  # K may be singular up to round-off
        factor = cho_factor(matrix, lower=True, overwrite_a=True, check_finite=False)
        to_feasible = np.append(self.s, 0.0) - self.t @ self.E

        def move(low: Any, high: Any, minus: Any, plus: Any) -> _Move:
            """The step to given products of the four distances and their multipliers."""
            low, high = low / self.t - self.above_zero, high / self.below_nu - self.at_nu
            minus, plus = minus / self.below - self.at_minus, plus / self.above - self.at_plus
            of_t = weights * (residual + low - high)
            of_s = slack * (self.z[:-1] + self.at_minus - self.at_plus + minus - plus)
            right = of_t @ self.E - to_feasible
            right[:-1] -= of_s
            dz = cho_solve(factor, right, check_finite=False)
            error = right - (weights * (self.E @ dz)) @ self.E  # refined once
            error[:-1] -= slack * dz[:-1]
            dz += cho_solve(factor, error, check_finite=False)
            dt = of_t - weights * (self.E @ dz)
            ds = of_s + slack * dz[:-1]
            return (
                dz,
                dt,
                ds,
                low - self.above_zero / self.t * dt,
                high + self.at_nu / self.below_nu * dt,
                minus - self.at_minus / self.below * ds,
                plus + self.at_plus / self.above * ds,
            )

        predictor = move(0.0, 0.0, 0.0, 0.0)
        after = self._gap_after(predictor) / (2 * (len(self.t) + len(self.s)))
        target = mu * (after / mu) ** 3
        _, dt, ds, low, high, minus, plus = predictor
        corrected = move(
            target - dt * low, target + dt * high, target - ds * minus, target + ds * plus
        )
        lengths = self._longest(corrected)
        if min(lengths) < _SHORT_STEP:  # the second order misleads: towards the middle first
            corrected = move(0.5 * mu, 0.5 * mu, 0.5 * mu, 0.5 * mu)
            lengths = self._longest(corrected)
        self._take(corrected, *lengths)
        return lengths

    def _take(self, move: _Move, of_t: float, of_z: float) -> None:
        dz, dt, ds, low, high, minus, plus = move
        self.t, self.below_nu = self.t + of_t * dt, self.below_nu - of_t * dt
        self.s, self.z = self.s + of_t * ds, self.z + of_z * dz
        self.below, self.above = self.below + of_t * ds, self.above - of_t * ds
        self.above_zero, self.at_nu = self.above_zero + of_z * low, self.at_nu + of_z * high
        self.at_minus, self.at_plus = self.at_minus + of_z * minus, self.at_plus + of_z * plus

    def _gap_after(self, move: _Move) -> float:
        """The sum of all products after a step of greatest lengths."""
        _, dt, ds, low, high, minus, plus = move
        of_t, of_z = self._longest(move)
        return float(
            (self.t + of_t * dt) @ (self.above_zero + of_z * low)
            + (self.below_nu - of_t * dt) @ (self.at_nu + of_z * high)
            + (self.below + of_t * ds) @ (self.at_minus + of_z * minus)
            + (self.above - of_t * ds) @ (self.at_plus + of_z * plus)
        )

    def _longest(self, move: _Move) -> tuple[float, float]:
        """The longest steps of t and s, and of z and the multipliers, that stay positive."""
        _, dt, ds, low, high, minus, plus = move
        of_t = min(
            _room(self.t, dt),
            _room(self.below_nu, -dt),
            _room(self.below, ds),
            _room(self.above, -ds),
        )
        of_z = min(
            _room(self.above_zero, low),
            _room(self.at_nu, high),
            _room(self.at_minus, minus),
            _room(self.at_plus, plus),
        )
        return min(1.0, _TO_BOUNDARY * of_t), min(1.0, _TO_BOUNDARY * of_z)


def _room(values: Floats, changes: Floats) -> float:
    """The share of the changes that leaves all values at zero or above."""
    falling = changes < 0
    return float((-values[falling] / changes[falling]).min(initial=np.inf))
