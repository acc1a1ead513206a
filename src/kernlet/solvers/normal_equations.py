"""Proximal machines by their normal equations."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.linalg import LinAlgError
from scipy.linalg import cho_factor, cho_solve, eigh

from kernlet.kernels.kernel import Floats
from kernlet.problems.proximal import Proximal

_MAX_REFINEMENTS = 3
_GOOD_ENOUGH = 1e-14


@dataclass(frozen=True, eq=False)
class ProximalSolution:
    """Weights and intercepts, with what is left of the equations.

    Parameters
    ----------
    weights : ndarray of shape (n_outputs, n_features)
    intercept : ndarray of shape (n_outputs,)
        For rows as they are, not shifted.
    residual : float
        |M v - r| / |r| of the worst output, the equations scaled to a unit diagonal: the
        certificate.
    n_factorizations : int
    """

    weights: Floats
    intercept: Floats
    residual: float
    n_factorizations: int


def solve_proximal(problem: Proximal) -> ProximalSolution:
    """Solve all outputs of a :class:`Proximal`.

    Outputs of one matrix share its Cholesky factor, n_features^3 / 3 operations. The equations
    are scaled to a unit diagonal and their answer is refined; where they are singular up to
    rounding, the shortest answer is taken.

    Parameters
    ----------
    problem : Proximal

    Returns
    -------
    solution : ProximalSolution
    """
    shift = problem.moments.shift
    answers = np.empty((len(problem.signs), len(shift) + 1))
    residual, count = 0.0, 0
    for outputs, matrix, rights in problem.systems():
        solved, left = _solve(matrix, rights)
        answers[outputs] = solved.T
        residual, count = max(residual, left), count + 1
    weights = answers[:, :-1]
    return ProximalSolution(weights, answers[:, -1] - weights @ shift, residual, count)


def _solve(matrix: Floats, rights: Floats) -> tuple[Floats, float]:
    """The answers, and the largest relative residual."""
    scale = 1.0 / np.sqrt(matrix.diagonal())
    matrix = matrix * scale * scale[:, None]
    rights = rights * scale[:, None]
    inverse = _Inverse(matrix)
    answer = inverse(rights)
    left = rights - matrix @ answer
    for _ in range(_MAX_REFINEMENTS):
        if _largest_ratio(left, rights) <= _GOOD_ENOUGH:
            break
        answer += inverse(left)
        left = rights - matrix @ answer
    return answer * scale[:, None], _largest_ratio(left, rights)


def _largest_ratio(left: Floats, rights: Floats) -> float:
    """Norms of columns against each other."""
    some, all_ = np.linalg.norm(left, axis=0), np.linalg.norm(rights, axis=0)
    ratios = np.divide(some, all_, out=np.zeros_like(some), where=all_ > 0)
    return float(ratios.max(initial=0.0))


class _Inverse:
    """The inverse of a matrix with a unit diagonal, by Cholesky or, failing that, eigenvalues."""

    def __init__(self, matrix: Floats) -> None:
        try:
            self.factor = cho_factor(matrix, lower=True, check_finite=False)
        except LinAlgError:
            self.factor = None
            values, self.vectors = eigh(matrix)
            least = len(matrix) * np.finfo(float).eps * values[-1]
            self.inverses = np.where(values > least, 1.0 / np.maximum(values, least), 0.0)

    def __call__(self, rights: Floats) -> Floats:
        if self.factor is not None:
            return cho_solve(self.factor, rights, check_finite=False)
        return self.vectors @ (self.inverses[:, None] * (self.vectors.T @ rights))
