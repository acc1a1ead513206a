"""The classifier problems of a stage that have no constraints: closed forms and the smooth SVM."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy.special import expit

from kernlet._typing import Floats
from kernlet.kernels.gram import Gram
from kernlet.kernels.linalg import jittered_solve
from kernlet.squared.newton import halve_until

# How this works
# --------------
# Gonzalez-Castano and Meyer (2000) name three ways around the constraints of the linear program.
#
# Model (6): rewarding rows beyond the margin exactly as rows short of it are fined leaves an
# unconstrained quadratic,
#
#     min over u, b of  sum_i nu_i v_i (1 - d_i (K_i u + b)) + u'u + b^2,
#     u = 1/2 K' (nu v d),  b = 1/2 sum_i nu_i v_i d_i,
#
# with all v = 1. (The paper prints a plus function and omits the sign before u'u; with the plus
# function there would be neither a reward nor a closed form.) It is poor: rows far on the right
# side dominate.
#
# Model (7) weighs rows. The paper sets v to 1 for rows that earlier machines leave short of the
# margin and to 0 for the others (`weigh_rows_once`). Done once, that can turn the machine round:
# only the rows it had wrong are left. Repeating it with a step chosen for the dual problem is the
# Frank-Wolfe method, which converges to the machine the paper names as the aim,
# nu |E|_1 + u'u + b^2 (`weigh_rows`). Each pass is a closed form.
#
# The smooth SVM (Lee and Mangasarian, 2001), which the paper cites as a replacement of the linear
# program, squares the errors and replaces max(r, 0) by p(r) = log(1 + exp(alpha r)) / alpha:
#
#     min over u, b of  1/2 sum_i nu_i p(1 - d_i (K_i u + b))^2 + 1/2 (u'u + b^2).
#
# It is twice differentiable, so that Newton steps with Armijo's rule converge quadratically. The
# Hessian is at least the identity: the objective is at most |gradient|^2 / 2 above its minimum.

_N_PASSES = 300  # of Frank-Wolfe: its error falls as 1 / passes, and a pass is two products
_ALPHA = 5.0  # Lee and Mangasarian's: p exceeds the plus function by log(2) / alpha at most
_SUFFICIENT_DECREASE = 1e-4  # of what the gradient promises: Armijo's rule
_MAX_STEPS = 100  # ten are typical


@dataclass(frozen=True, eq=False)
class QuadraticMargin:
    """sum_i nu_i v_i (1 - d_i (K_i u + b)) + u'u + b^2, with error weights nu, row weights v."""

    gram: Gram
    signs: Floats
    error_weights: Floats
    row_weights: Floats

    def solve(self) -> tuple[Floats, float]:
        """The minimiser u, b."""
        duals = 0.5 * self.error_weights * self.row_weights * self.signs
        return self.gram.T.dot(duals), float(duals.sum())


def weigh_rows(problem: QuadraticMargin, *, n_passes: int = _N_PASSES) -> QuadraticMargin:
    """Model (7): row weights that agree with the errors of the machine they lead to."""
    features = problem.gram.block(slice(None), slice(None))
    cost, d = problem.error_weights, problem.signs

    def closed_form(v: Floats) -> tuple[Floats, float]:
        duals = 0.5 * cost * v * d
        return duals @ features, float(duals.sum())

    v = np.zeros(len(d))
    for _ in range(n_passes):
        u, b = closed_form(v)
        step = (d * (features @ u + b) < 1.0) - v
        # The dual, cost'v - u'u - b^2, is quadratic along the step: its maximum is known.
        du, db = closed_form(step)
        curvature = 2.0 * float(du @ du + db * db)
        slope = float(cost @ step) - 2.0 * float(u @ du + b * db)
        if curvature <= 0 or slope <= 0:
            break
        v = v + min(1.0, slope / curvature) * step
    return replace(problem, row_weights=v)


def weigh_rows_once(problem: QuadraticMargin) -> QuadraticMargin:
    """Model (7) as the paper has it: weight 1 for the rows that model (6) leaves short, else 0."""
    u, b = problem.solve()
    is_short = problem.signs * (problem.gram.dot(u) + b) < 1.0
    return replace(problem, row_weights=is_short.astype(np.float64))


@dataclass(frozen=True, eq=False)
class SmoothMargin:
    """1/2 sum_i nu_i p(1 - d_i (K_i u + b))^2 + 1/2 (u'u + b^2), with point = (u, b)."""

    features: Floats  # K, and a last column of ones
    signs: Floats
    error_weights: Floats
    alpha: float = _ALPHA

    def value(self, point: Floats) -> float:
        """The objective."""
        p = self._smooth_plus(self.errors(point))
        return 0.5 * float(self.error_weights @ (p * p) + point @ point)

    def errors(self, point: Floats) -> Floats:
        """1 - d_i (K_i u + b), positive where a row is short of the margin."""
        return 1.0 - self.signs * (self.features @ point)

    def derivatives(self, point: Floats) -> tuple[Floats, Floats]:
        """Gradient and Hessian."""
        r = self.errors(point)
        p, slope = self._smooth_plus(r), expit(self.alpha * r)
        gradient = point - (self.signs * self.error_weights * p * slope) @ self.features
        curvature = slope**2 + p * self.alpha * slope * (1.0 - slope)
        rows = self.features * np.sqrt(self.error_weights * curvature)[:, None]
        hessian = rows.T @ rows  # of one array: numpy computes one triangle
        hessian[np.diag_indices_from(hessian)] += 1.0
        return gradient, hessian

    def solve(self, *, tol: float) -> tuple[Floats, float]:
        """The minimiser (u, b), and a bound on the relative excess of its objective."""
        point = np.zeros(self.features.shape[1])
        value = self.value(point)
        for n_steps in range(_MAX_STEPS + 1):
            gradient, hessian = self.derivatives(point)
            gap = min(1.0, 0.5 * float(gradient @ gradient) / value)  # the minimum is not below 0
            if gap <= tol or n_steps == _MAX_STEPS:
                break
            # With large kernel values times C, the identity in the Hessian is below round-off: a
            # ridge of that size keeps it positive definite, and the step one of descent.
            round_off = np.finfo(float).eps * float(hessian.diagonal().max())
            step = -jittered_solve(hessian, gradient, round_off)
            slope = float(gradient @ step)

            def is_lower(t: float) -> bool:
                limit = value + _SUFFICIENT_DECREASE * t * slope  # noqa: B023
                return self.value(point + t * step) <= limit  # noqa: B023

            length = halve_until(is_lower)
            if not length:  # round-off
                break
            point = point + length * step
            value = self.value(point)
        return point, gap

    def _smooth_plus(self, r: Floats) -> Floats:
        return np.logaddexp(0.0, self.alpha * r) / self.alpha
