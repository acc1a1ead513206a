"""Kernel Fisher directions: between-class scatter against all scatter, in closed form.

With S_t the scatter of all rows in feature space, S_b that of the class means and
S_w = S_t - S_b, the directions are those of ::

    S_b v = lambda (S_w + alpha I) v,   v' (S_w + alpha I) v = sum of the weights

so that the regularised variance within classes is 1 along each. S_b has the factor M, one
column sqrt(n_c) (mean_c - mean) a class, and the same v come, but for scale, from the
eigenvectors q of M' (S_t + alpha I)^-1 M, a matrix as large as there are classes: v is
(S_t + alpha I)^-1 M q, a ridge regression on the classes. An eigenvalue is
share = lambda / (1 + lambda).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.linalg import LinAlgError
from scipy.linalg import cho_factor, cho_solve, eigh

from kernlet.kernels.definite import solve_definite
from kernlet.kernels.kernel import Floats
from kernlet.solvers.landmark_blocks import LandmarkBlocks

_NOTHING = 1e-12


@dataclass(frozen=True, eq=False)
class FisherDirections:
    """Directions over points, most separating first.

    Parameters
    ----------
    coef : ndarray of shape (n_directions, n_points)
    intercept : ndarray of shape (n_directions,)
        Takes the mean of the rows to 0.
    shares : ndarray of shape (n_directions,)
        Regularised between-class share of the variance along each, from 0 to 1.
    """

    coef: Floats
    intercept: Floats
    shares: Floats


def exact_directions(
    K: Floats, members: Floats, weights: Floats, alpha: float, n_directions: int
) -> FisherDirections:
    """Directions over all rows; time is the cube of their number.

    Parameters
    ----------
    K : ndarray of shape (n_rows, n_rows)
        Overwritten.
    members : ndarray of shape (n_rows, n_classes)
        1 in the column of a row's class, else 0.
    weights : ndarray of shape (n_rows,)
    alpha : float
    n_directions : int

    Returns
    -------
    directions : FisherDirections
    """
    roots, total = np.sqrt(weights), float(weights.sum())
    mean = roots / np.sqrt(total)
    means = K @ (weights / total)
    K *= roots
    K *= roots[:, None]
    side = K @ mean
    middle = mean @ side
    K -= np.outer(mean, side)
    K -= np.outer(side, mean)
    K += middle * np.outer(mean, mean)
    classes = _scaled_classes(members, weights)
    classes = roots[:, None] * classes
    classes -= np.outer(mean, mean @ classes)
    K[np.diag_indices_from(K)] += alpha
    try:
        factor = cho_factor(K, lower=True, overwrite_a=True)
    except LinAlgError as error:
        raise ValueError(
            f"alpha={alpha:g} is lost in the rounding of the kernel matrix. Raise alpha."
        ) from error
    solved = cho_solve(factor, classes)
    shares, vectors = _small_problem(classes.T @ (classes - alpha * solved), n_directions, total)
    coef = solved @ vectors
    coef -= np.outer(mean, mean @ coef)
    coef = (roots[:, None] * coef).T
    return FisherDirections(coef, -coef @ means, shares)


def landmark_directions(
    blocks: LandmarkBlocks, members: Floats, weights: Floats, alpha: float, n_directions: int
) -> FisherDirections:
    """Directions in the span of landmarks, in one pass over the rows.

    Parameters
    ----------
    blocks : LandmarkBlocks
    members : ndarray of shape (n_rows, n_classes)
    weights : ndarray of shape (n_rows,)
    alpha : float
    n_directions : int

    Returns
    -------
    directions : FisherDirections
    """
    total = float(weights.sum())
    squares: Floats | float = 0.0
    sums: Floats | float = 0.0
    for rows, block in blocks:
        held = block.astype(np.float64)
        sums = sums + held.T @ (members[rows] * weights[rows, None])
        held *= np.sqrt(weights[rows])[:, None]
        squares = squares + held.T @ held
    squares, sums = np.asarray(squares), np.asarray(sums)
    counts, mean = sums[-1], sums[:-1].sum(axis=1) / total
    scatter = squares[:-1, :-1] - total * np.outer(mean, mean)
    factor = (sums[:-1] - np.outer(mean, counts)) / np.sqrt(counts)
    solved = solve_definite(scatter, factor, alpha)
    shares, vectors = _small_problem(factor.T @ solved, n_directions, total)
    found = solved @ vectors
    return FisherDirections((blocks.basis @ found).T, -mean @ found, shares)


def _scaled_classes(members: Floats, weights: Floats) -> Floats:
    """Columns over rows whose sums in feature space are sqrt(n_c) mean_c."""
    return members / np.sqrt(weights @ members)


def _small_problem(matrix: Floats, n_directions: int, total: float) -> tuple[Floats, Floats]:
    """Shares, and what takes the solved classes to scaled directions."""
    shares, vectors = eigh(0.5 * (matrix + matrix.T))
    shares = np.clip(shares[::-1][:n_directions], 0.0, 1.0)
    vectors = vectors[:, ::-1][:, :n_directions]
    vectors = vectors * _orientation(vectors)
    scale = np.sqrt(total) / np.sqrt(np.maximum(shares * (1.0 - shares), _NOTHING))
    return shares, vectors * np.where(shares > _NOTHING, scale, 0.0)


def _orientation(vectors: Floats) -> Floats:
    """Signs that make the last of each column's nearly largest entries positive."""
    sizes = np.abs(vectors)
    is_large = sizes >= 0.9 * sizes.max(axis=0)
    last = len(vectors) - 1 - is_large[::-1].argmax(axis=0)
    return np.where(vectors[last, np.arange(vectors.shape[1])] < 0, -1.0, 1.0)
