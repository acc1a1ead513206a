"""A margin machine over fixed centers with squared errors."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kernlet.kernels.kernel import Floats

#: What a solver says where its sums are no numbers.
OVERFLOW = "Kernel values times weights times C overflow. Scale the features, or lower C."


@dataclass(frozen=True, eq=False)
class SquaredHinge:
    """The 2-norm machine over given features, as plain values.

    With rows phi_i (kernel values at the centers), signs d_i and weights c_i::

        minimise over w, b  1/2 w' P w + 1/2 sum_i c_i max(0, 1 - d_i (phi_i w + b))^2

    P = K(centers, centers) makes the first term the norm in feature space.

    Parameters
    ----------
    features : ndarray of shape (n_rows, n_centers)
    penalty : ndarray of shape (n_centers, n_centers)
        P, positive definite.
    signs : ndarray of shape (n_rows,)
    error_weights : ndarray of shape (n_rows,)
        c.
    """

    features: Floats
    penalty: Floats
    signs: Floats
    error_weights: Floats

    def errors(self, point: Floats) -> Floats:
        """max(0, 1 - d_i f_i) for all rows, at a point (w, b)."""
        return np.maximum(0.0, 1.0 - self.signs * (self.features @ point[:-1] + point[-1]))

    def objective(self, point: Floats) -> float:
        """Value of the objective."""
        weights = point[:-1]
        penalty = weights @ self.penalty @ weights
        return float(penalty + self.error_weights @ self.errors(point) ** 2) / 2.0

    def gradient(self, point: Floats) -> Floats:
        """Its gradient by (w, b)."""
        pull = self.error_weights * self.signs * self.errors(point)
        return np.append(self.penalty @ point[:-1] - pull @ self.features, -pull.sum())
