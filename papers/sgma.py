"""Sparse greedy matrix approximation, a baseline of the tables.

How it works: a kernel matrix K is replaced by its projection on the span of a few of its rows, the
basis (A. J. Smola and B. Schoelkopf, Sparse greedy matrix approximation for machine learning, ICML
2000). In the feature space of the kernel the squared error of the projection, summed over all rows,
is the trace of what is left, K - V'V, where V is the part of the Cholesky factor that belongs to
the basis. Row j would lower that trace by |r_j|^2 / r_jj, r_j being its column of what is left. The
best of 59 random rows joins the basis: with probability 0.95 one of them is among the best
5 % of all. The algorithm stops when the trace is at most a given share of that of K. Labels play no
part, so that classes share one basis; their machines are least squares in its span.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg import cho_factor, cho_solve, solve_triangular

from kernlet._typing import Floats, Indices

N_TRIES = 59  # 1 - 0.95^59 = 0.95


@dataclass(frozen=True, eq=False)
class GreedyBasis:
    """Rows in the order they joined, V (n_points, n_rows), and the share of the trace left."""

    rows: Indices
    factor: Floats
    residuals: Floats

    def prefix(self, residual: float, max_points: int) -> GreedyBasis:
        """The basis of a search that stops at this share, or at this number of points."""
        size = int(np.argmax(np.append(self.residuals, 0.0) <= residual)) + 1
        size = min(size, max_points)
        return GreedyBasis(self.rows[:size], self.factor[:size], self.residuals[:size])


def greedy_basis(
    K: Floats,
    residual: float,
    max_points: int,
    random: np.random.RandomState,
    n_tries: int = N_TRIES,
) -> GreedyBasis:
    """The basis of a positive semidefinite K, up to a share ``residual`` of its trace.

    >>> X = np.arange(4.0)
    >>> basis = greedy_basis(np.outer(X, X), 1e-6, 4, np.random.RandomState(0))
    >>> len(basis.rows), bool(basis.residuals[-1] < 1e-6)
    (1, True)
    """
    diagonal = np.diag(K).astype(float)
    trace, negligible = diagonal.sum(), 1e-10 * diagonal.max()  # round-off of differences
    V = np.empty((max_points, len(K)))
    rows: list[int] = []
    residuals: list[float] = []
    while len(rows) < max_points and (not residuals or residuals[-1] > residual):
        left = np.flatnonzero(diagonal > negligible)
        if not len(left):
            break
        tried = random.permutation(left)[:n_tries]
        basis = V[: len(rows)]
        R = K[:, tried] - basis.T @ basis[:, tried]
        pivots = R[tried, np.arange(len(tried))]
        best = int(np.argmax((R**2).sum(axis=0) / pivots))
        V[len(rows)] = R[:, best] / np.sqrt(pivots[best])
        diagonal -= V[len(rows)] ** 2
        diagonal[tried[best]] = 0.0  # but for round-off
        rows.append(int(tried[best]))
        residuals.append(float(np.maximum(diagonal, 0.0).sum() / trace))
    return GreedyBasis(np.array(rows, dtype=np.intp), V[: len(rows)], np.array(residuals))


def least_squares(basis: GreedyBasis, signs: Floats, ridge: float) -> tuple[Floats, Floats]:
    """Coefficients (n_outputs, n_points) and intercepts of least squares in the span of a basis.

    Minimises sum_i (d_i - f(x_i))^2 + ridge |f|^2 for each output, with |f| its norm in the
    space of the kernel; ``signs`` d has the shape (n_outputs, n_rows).
    """
    V, means = basis.factor - basis.factor.mean(axis=1, keepdims=True), signs.mean(axis=1)
    normal = V @ V.T + ridge * np.eye(len(V))
    weights = cho_solve(cho_factor(normal), V @ (signs - means[:, None]).T)
    intercepts = means - basis.factor.mean(axis=1) @ weights
    # f(x) = weights'V(x) with V(x) = L^-1 k(basis, x), L the Cholesky factor of the basis.
    upper = basis.factor[:, basis.rows]
    coef: Any = solve_triangular(upper, weights)
    return coef.T, intercepts
