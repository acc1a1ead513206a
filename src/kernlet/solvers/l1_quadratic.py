"""A small quadratic with a 1-norm, by an interior point method."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.linalg import LinAlgError
from scipy.linalg import cho_factor, cho_solve

from kernlet.kernels.kernel import Floats

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
    >>> from kernlet.solvers.l1_quadratic import minimise_l1_quadratic
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
