"""Proximal machines: the least-squares problem and its normal equations."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.linalg import LinAlgError
from scipy.linalg import cho_factor, cho_solve, eigh
from sklearn.exceptions import ConvergenceWarning

from kernlet._typing import Floats, Indices
from kernlet.least_squares.moments import Moments


@dataclass(frozen=True, eq=False)
class Proximal:
    """Proximal machines, one for each output, as normal equations.

    With d_i the sign of row i in an output and n_i its weight there, an output minimises::

        1/2 (|w|^2 + b^2) + C/2 sum_i n_i (d_i - x_i.w - b)^2

    that is, (I / C + H' N H) [w; b] = H' N d with H = [X, e]. Both sides are sums over rows, by
    class: weights and signs are those of a class. In the coordinates of the sums, w and
    b + shift.w, b is u.v sqrt(C) with u = (-shift, 1) / sqrt(C), and the equations are
    (M + u u') v = r. Far from the origin u is so large that the sum would lose M: the two are
    given apart.

    Parameters
    ----------
    moments : Moments
    C : float
    signs : ndarray of shape (n_outputs, n_classes)
        +1 or -1.
    weights : ndarray of shape (n_outputs, n_classes) or None, default=None
        None for 1 throughout: then all outputs share one matrix.

    Examples
    --------
    >>> import numpy as np
    >>> from kernlet.kernels.landmarks import RowFeatures
    >>> from kernlet.least_squares.moments import collect
    >>> from kernlet.least_squares.solve import Proximal
    >>> from kernlet.least_squares.solve import solve_proximal
    >>> sums = collect(RowFeatures(np.array([[0.0], [2.0]])), np.array([0, 1]), 2)
    >>> solve_proximal(Proximal(sums, 1e9, np.array([[-1.0, 1.0]]))).weights.round(6)
    array([[1.]])
    """

    moments: Moments
    C: float
    signs: Floats
    weights: Floats | None = None

    def __post_init__(self) -> None:
        if self.weights is not None and not self.moments.is_by_class:
            raise ValueError(
                "Weights of classes need sums by class; these were collected for all classes "
                "together."
            )
        if not self.C > 0 or not np.isfinite(1 / float(self.C)):
            raise ValueError(f"C={self.C} is too small: 1 / C is no finite number.")

    @property
    def border(self) -> Floats:
        """The penalty on the intercept: u, of which u u' is a part of every matrix."""
        return np.append(-self.moments.shift, 1.0) / np.sqrt(self.C)

    def systems(self) -> Iterator[tuple[Indices, Floats, Floats]]:
        """Matrices M, each with the outputs that have it and their right sides as columns."""
        everyone = np.ones(self.signs.shape[1])
        if self.weights is None:
            rights = (self.signs @ self.moments.firsts).T
            yield np.arange(len(self.signs)), self._matrix(everyone), rights
            return
        for output, (signs, weights) in enumerate(zip(self.signs, self.weights, strict=True)):
            right = (weights * signs) @ self.moments.firsts
            yield np.array([output]), self._matrix(weights), right[:, None]

    def _matrix(self, weights: Floats) -> Floats:
        matrix = self.moments.second(weights)
        columns = np.arange(len(matrix) - 1)
        matrix[columns, columns] += 1.0 / self.C
        return matrix


def one_against_rest(n_classes: int, positives: Any = None) -> Floats:
    """Signs of the classes in each one-against-rest output.

    Parameters
    ----------
    n_classes : int
    positives : sequence of int, default=None
        The class of each output; one output for each class unless given.

    Returns
    -------
    signs : ndarray of shape (n_outputs, n_classes)

    Examples
    --------
    >>> from kernlet.least_squares.solve import one_against_rest
    >>> one_against_rest(2, [1])
    array([[-1.,  1.]])
    """
    positives = np.arange(n_classes) if positives is None else np.asarray(positives)
    return np.where(positives[:, None] == np.arange(n_classes), 1.0, -1.0)


def normalization(signs: Floats, totals: Floats, *, balanced: bool = True) -> Floats:
    """The paper's N: rows of a class and of the rest weigh as much in sum.

    Parameters
    ----------
    signs : ndarray of shape (n_outputs, n_classes)
    totals : ndarray of shape (n_classes,)
        Weight of all rows of a class.
    balanced : bool, default=True
        Half of the weight of all rows for either side, m / (2 p); otherwise 1 for either, by the
        paper's 1 / p.

    Returns
    -------
    weights : ndarray of shape (n_outputs, n_classes)
        0 for a side without rows.

    Examples
    --------
    >>> import numpy as np
    >>> from kernlet.least_squares.solve import normalization, one_against_rest
    >>> normalization(one_against_rest(2, [1]), np.array([30.0, 10.0]))
    array([[0.66666667, 2.        ]])
    """
    own = (signs > 0) @ totals
    rest = (signs < 0) @ totals
    share = totals.sum() / 2 if balanced else 1.0
    sides = [np.divide(share, p, out=np.zeros_like(p), where=p > 0) for p in (own, rest)]
    return np.where(signs > 0, sides[0][:, None], sides[1][:, None])


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
