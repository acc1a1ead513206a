"""The reduced-set problem: few points in place of many, in the kernel's feature space."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from kernlet.kernels.definite import solve_definite
from kernlet.kernels.gradient import evaluate_slopes, gradient
from kernlet.kernels.gram import Gram
from kernlet.kernels.kernel import Floats, Kernel, require_mercer

_RIDGE = 1e-8  # of the mean k(c, c): points may come close to each other


class ReducedSet:
    """Problem (2) of Gonzalez-Castano and Meyer (2000), for several outputs at once.

    With the map f to feature space, centers C of coefficients U (one row an output)::

        minimise over Z, W  |U f(C) - W f(Z)|^2
                            = U K(C,C) U' - 2 U K(C,Z) W' + W K(Z,Z) W'   (traces)

    For fixed Z the best W is a linear system, so that only Z is searched (variable
    projection); the gradient by Z is that at the best W. Values are relative to U K(C,C) U'.

    Parameters
    ----------
    kernel : Kernel
        Positive semi-definite, with slopes.
    centers : ndarray of shape (n_centers, n_features)
    coef : ndarray of shape (n_outputs, n_centers)
    """

    def __init__(self, kernel: Kernel, centers: Floats, coef: Floats) -> None:
        require_mercer(kernel, "A reduced set")
        self.kernel, self.centers, self.coef = kernel, centers, coef

    @cached_property
    def total(self) -> float:
        """|U f(C)|^2."""
        products = Gram(self.kernel, self.centers).dot(self.coef.T)
        return float(np.einsum("cj,jc->", self.coef, products))

    @cached_property
    def _ridge(self) -> float:
        some = self.centers[:: max(1, len(self.centers) // 100)]
        diagonal = np.diag(evaluate_slopes(self.kernel, some, some).values)
        return _RIDGE * max(float(diagonal.mean()), np.finfo(float).tiny)

    def best_coef(self, Z: Floats) -> Floats:
        """The W of least residual for given points."""
        zc = evaluate_slopes(self.kernel, Z, self.centers).values
        return self._solve(evaluate_slopes(self.kernel, Z, Z).values, zc @ self.coef.T).T

    def residual(self, Z: Floats, W: Floats) -> float:
        """|U f(C) - W f(Z)| / |U f(C)|."""
        zc = evaluate_slopes(self.kernel, Z, self.centers).values
        zz = evaluate_slopes(self.kernel, Z, Z).values
        return float(np.sqrt(max(0.0, self._relative(zc @ self.coef.T, zz, W))))

    def projected(self, Z: Floats) -> tuple[float, Floats]:
        """Squared relative residual at the best W, and its gradient by Z."""
        zc = evaluate_slopes(self.kernel, Z, self.centers)
        zz = evaluate_slopes(self.kernel, Z, Z)
        R = zc.values @ self.coef.T
        W = self._solve(zz.values, R).T
        slope = gradient(zc, -2.0 * W.T @ self.coef, Z, self.centers)
        slope += gradient(zz, 2.0 * W.T @ W, Z, Z)
        return 1.0 - float(np.sum(W * R.T)) / self.total, slope / self.total

    def joint(self, Z: Floats, W: Floats) -> tuple[float, Floats, Floats]:
        """Squared relative residual, and its gradients by Z and by W."""
        zc = evaluate_slopes(self.kernel, Z, self.centers)
        zz = evaluate_slopes(self.kernel, Z, Z)
        R = zc.values @ self.coef.T
        slope = gradient(zc, -2.0 * W.T @ self.coef, Z, self.centers)
        slope += gradient(zz, 2.0 * W.T @ W, Z, Z)
        by_coef = 2.0 * (W @ zz.values - R.T)
        return self._relative(R, zz.values, W), slope / self.total, by_coef / self.total

    def _relative(self, R: Floats, zz: Floats, W: Floats) -> float:
        return 1.0 + float(np.sum(W * (W @ zz - 2.0 * R.T))) / self.total

    def _solve(self, zz: Floats, R: Floats) -> Floats:
        return solve_definite(zz, R, self._ridge)
