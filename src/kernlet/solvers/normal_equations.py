"""Proximal machines by their normal equations."""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import numpy as np
from numpy.linalg import LinAlgError
from scipy.linalg import cho_factor, cho_solve, eigh
from sklearn.exceptions import ConvergenceWarning

from kernlet.kernels.kernel import Floats
from kernlet.problems.proximal import Proximal

_MAX_REFINEMENTS = 3
_GOOD_ENOUGH = 1e-14
_TOO_MUCH = 1e-6  # of a residual, to go without a warning


@dataclass(frozen=True, eq=False)
class ProximalSolution:
    """Weights and intercepts, with what is left of the equations.

    Parameters
    ----------
    weights : ndarray of shape (n_outputs, n_features)
    intercept : ndarray of shape (n_outputs,)
        For rows as they are, not shifted.
    residual : float
        What is left of the equations against their right side, for the worst output, scaled to a
        unit diagonal: the certificate. It bounds the errors of the equations, not those of the
        weights, which nearly dependent columns leave open where C is large.
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
    rounding, the answer is taken that is shortest in the scaled coordinates, about the point of
    the sums. A residual above 1e-6 is warned of.

    Parameters
    ----------
    problem : Proximal

    Returns
    -------
    solution : ProximalSolution
    """
    shift = problem.moments.shift
    answers = np.empty((len(problem.signs), len(shift) + 1))
    residuals = []
    for outputs, matrix, rights in problem.systems():
        solved, left = _solve(matrix, problem.border, rights)
        answers[outputs] = solved.T
        residuals.append(left)
    weights, residual = answers[:, :-1], float(np.max(residuals))
    if not residual <= _TOO_MUCH:
        warnings.warn(
            f"The normal equations are solved up to a residual of {residual:.1e} only: columns "
            "are nearly dependent or of very different sizes, or much larger rows were forgotten. "
            "Scale the columns, for example with StandardScaler, make C smaller, or fit anew.",
            ConvergenceWarning,
            stacklevel=2,
        )
    return ProximalSolution(weights, answers[:, -1] - weights @ shift, residual, len(residuals))


def _solve(matrix: Floats, border: Floats, rights: Floats) -> tuple[Floats, float]:
    """Answers of (matrix + border border') v = rights, and the largest relative residual."""
    squares = matrix.diagonal()
    if not (squares >= 0).all() or not np.isfinite(rights).all():
        raise ValueError(
            "The sums are not those of any rows: rows were forgotten that had not been learned."
        )
    scale = 1.0 / np.sqrt(np.where(squares > 0, squares, 1.0))
    system = _Bordered(matrix * scale * scale[:, None], border * scale)
    rights = np.vstack([rights * scale[:, None], np.zeros(rights.shape[1])])
    answer = system.solve(rights)
    left = rights - system.product(answer)
    for _ in range(_MAX_REFINEMENTS):
        if _largest_ratio(left, rights) <= _GOOD_ENOUGH:
            break
        answer += system.solve(left)
        left = rights - system.product(answer)
    return answer[:-1] * scale[:, None], _largest_ratio(left, rights)


def _largest_ratio(left: Floats, rights: Floats) -> float:
    """Norms of columns against each other."""
    some, all_ = np.linalg.norm(left, axis=0), np.linalg.norm(rights, axis=0)
    return float(np.max(some / np.where(all_ == 0, 1.0, all_), initial=0.0))


class _Bordered:
    """The matrix [[A, g], [g', -k^2]], with which (A + u u') v = r is solved for u = g / k.

    A has a unit diagonal, and k is such that g is no longer than 1: however long u, nothing in
    the matrix is large. By a Cholesky factor of A or, failing that, by eigenvalues of the whole.
    """

    def __init__(self, matrix: Floats, border: Floats) -> None:
        k = 1.0 / max(1.0, float(np.linalg.norm(border)))
        self.matrix, self.border, self.corner = matrix, k * border[:, None], k * k
        self.factor = None
        try:
            self.factor = cho_factor(matrix, lower=True, check_finite=False)
        except LinAlgError:
            self._decompose()
        else:
            across = self._inverse(self.border)
            across += self._inverse(self.border - matrix @ across)
            self.across, self.pivot = across, self.corner + float(np.vdot(self.border, across))

    def product(self, answer: Floats) -> Floats:
        """The matrix times columns."""
        top, last = answer[:-1], answer[-1:]
        return np.vstack(
            [self.matrix @ top + self.border * last, self.border.T @ top - self.corner * last]
        )

    def solve(self, rights: Floats) -> Floats:
        """The inverse of the matrix times columns."""
        if self.factor is None:
            return self.vectors @ (self.inverses[:, None] * (self.vectors.T @ rights))
        top = self._inverse(rights[:-1])
        last = (self.border.T @ top - rights[-1:]) / self.pivot
        return np.vstack([top - self.across * last, last])

    def _inverse(self, rights: Floats) -> Floats:
        return cho_solve(self.factor, rights, check_finite=False)

    def _decompose(self) -> None:
        corner = np.array([[-self.corner]])
        whole = np.block([[self.matrix, self.border], [self.border.T, corner]])
        values, self.vectors = eigh(whole)
        sizes = np.abs(values)
        used = sizes > len(whole) * np.finfo(float).eps * sizes.max()
        self.inverses = np.where(used, 1.0 / np.where(used, values, 1.0), 0.0)
