"""The proximal machine: regression on the signs, from sums over rows alone."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from kernlet.kernels.columns import Indices
from kernlet.kernels.kernel import Floats
from kernlet.problems.moments import Moments


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
    >>> from kernlet.kernels.features import RowFeatures
    >>> from kernlet.problems.row_sums import collect
    >>> from kernlet.problems.proximal import Proximal
    >>> from kernlet.solvers.normal_equations import solve_proximal
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
    >>> from kernlet.problems.proximal import one_against_rest
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
    >>> from kernlet.problems.proximal import normalization, one_against_rest
    >>> normalization(one_against_rest(2, [1]), np.array([30.0, 10.0]))
    array([[0.66666667, 2.        ]])
    """
    own = (signs > 0) @ totals
    rest = (signs < 0) @ totals
    share = totals.sum() / 2 if balanced else 1.0
    sides = [np.divide(share, p, out=np.zeros_like(p), where=p > 0) for p in (own, rest)]
    return np.where(signs > 0, sides[0][:, None], sides[1][:, None])
