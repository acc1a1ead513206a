"""Gradients of weighted kernel sums by their points."""

from __future__ import annotations

from typing import Any

import numpy as np

from kernlet.kernels.kernel import Floats, Kernel, Slopes


def evaluate_slopes(kernel: Kernel, X: Floats, Z: Floats) -> Slopes:
    """Kernel values and slopes between two small dense sets of points."""
    x_norms, z_norms = (np.einsum("ij,ij->i", A, A) for A in (X, Z))
    return kernel.slopes(X @ Z.T, x_norms[:, None], z_norms[None, :])


def gradient(slopes: Slopes, weights: Floats, X: Floats, Z: Floats) -> Floats:
    """sum_j weights[i, j] dk(x_i, z_j)/dx_i, one row for each x_i.

    Parameters
    ----------
    slopes : Slopes
        Of (X, Z).
    weights : ndarray of shape (n_x, n_z)
    X, Z : ndarray of shapes (n_x, n_features) and (n_z, n_features)

    Returns
    -------
    gradient : ndarray of shape (n_x, n_features)

    Examples
    --------
    >>> import numpy as np
    >>> from kernlet.kernels import Linear
    >>> from kernlet.kernels.gradient import evaluate_slopes, gradient
    >>> X, Z = np.array([[1.0, 0.0]]), np.array([[2.0, 3.0]])
    >>> gradient(evaluate_slopes(Linear(), X, Z), np.array([[10.0]]), X, Z)
    array([[20., 30.]])
    """
    pulled: Any = (weights * slopes.by_product) @ Z
    by_norm = np.sum(weights * slopes.by_norm, axis=1, keepdims=True)
    return pulled + 2.0 * by_norm * X
