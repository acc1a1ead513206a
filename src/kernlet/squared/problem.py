"""The squared-hinge problem as a nearest point of hulls and as an enclosing ball."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from kernlet._typing import Floats, Indices
from kernlet.kernels.base import require_mercer
from kernlet.kernels.gram import Gram, Selection, as_indices

_DIAGONAL_ROWS = 64


def require_signed_rows(what: str, gram: Gram, signs: Floats, costs: Floats) -> None:
    """Refuse what is no square matrix of a feature space with a sign and a cost for every row.

    Parameters
    ----------
    what : str
        The problem, as the subject of a sentence.
    gram : Gram
    signs, costs : ndarray of shape (n_rows,)
    """
    require_mercer(gram.kernel, f"{what} in feature space")
    if not gram.is_square:
        raise ValueError(f"{what} needs K(X, X); the matrix given has other columns than rows.")
    n_rows = len(gram.x)
    if len(signs) != n_rows or len(costs) != n_rows:
        raise ValueError(
            f"There are {n_rows} rows, {len(signs)} signs and {len(costs)} costs; give one of "
            "each for every row."
        )
    with np.errstate(divide="ignore", over="ignore"):
        ridge = 1.0 / costs
    if not (np.isfinite(ridge).all() and (ridge > 0).all()):
        raise ValueError(
            "A cost C is not positive, or 1 / C is not finite; give numbers nearer to 1, and "
            "leave rows of no weight out."
        )


def kernel_diagonal(gram: Gram) -> Floats:
    """k(x, x) of all rows, by small blocks."""
    n_rows = len(gram.x)
    values = np.empty(n_rows)
    for start in range(0, n_rows, _DIAGONAL_ROWS):
        rows = slice(start, min(start + _DIAGONAL_ROWS, n_rows))
        values[rows] = np.diagonal(gram.block(rows, rows))
    return values


@dataclass(frozen=True, eq=False)
class Hull:
    """Signed points of a feature space in which they are separable, as inner products.

    Row i is the point X_i = d_i (f(x_i), 1, ..., 1 / sqrt(2 C_i), ...), the last number in a
    coordinate of its own::

        Q_ij = X_i . X_j = d_i d_j (1 + k(x_i, x_j)) + delta_ij / (2 C_i)

    A point of the hull is W = sum_i alpha_i X_i with alpha >= 0 and sum alpha = 1; the one
    nearest the origin, over its squared norm, minimises 1/2 |w|^2 + sum_i C_i slack_i^2 with
    the intercept among the coordinates of w. delta goes by row number: equal rows are two.

    Parameters
    ----------
    gram : Gram
        K(X, X), square, of a positive semi-definite kernel.
    signs : ndarray of shape (n_rows,)
        d: +1 or -1.
    costs : ndarray of shape (n_rows,)
        C, positive.

    Examples
    --------
    >>> import numpy as np
    >>> from kernlet.kernels.gram import Gram
    >>> from kernlet.kernels.linear import Linear
    >>> from kernlet.squared.problem import Hull
    >>> X = np.array([[2.0], [-1.0]])
    >>> hull = Hull(Gram(Linear(), X), np.array([1.0, -1.0]), np.full(2, 0.5))
    >>> hull.columns(np.arange(2))
    array([[6., 1.],
           [1., 3.]])
    """

    gram: Gram
    signs: Floats
    costs: Floats

    def __post_init__(self) -> None:
        require_signed_rows("A hull", self.gram, self.signs, self.costs)
        self.gram.x.norms  # noqa: B018  computed here, once for all columns

    @property
    def n_rows(self) -> int:
        """Points of the hull."""
        return len(self.gram.x)

    @cached_property
    def ridge(self) -> Floats:
        """1 / (2 C_i), what a row adds to its own product."""
        return 0.5 / self.costs

    @cached_property
    def diagonal(self) -> Floats:
        """Q_ii for all rows."""
        return kernel_diagonal(self.gram) + 1.0 + self.ridge

    def columns(self, numbers: Indices, rows: Selection = slice(None)) -> Floats:
        """Columns of Q, as lines of shape (n_columns, n_rows).

        Parameters
        ----------
        numbers : ndarray of shape (n_columns,)
        rows : slice or ndarray, default=all

        Returns
        -------
        values : ndarray
        """
        values = self.gram.block(numbers, rows)
        values += 1.0
        values *= self.signs[rows]
        values *= self.signs[numbers, None]
        lines, places = _same_rows(numbers, rows)
        values[lines, places] += self.ridge[numbers[lines]]
        return values

    def margins(self, alpha: Floats) -> Floats:
        """Q alpha for all rows, from scratch, by blocks.

        Parameters
        ----------
        alpha : ndarray of shape (n_rows,)

        Returns
        -------
        margins : ndarray of shape (n_rows,)
        """
        support = np.flatnonzero(alpha)
        coef = alpha[support] * self.signs[support]
        values = self.gram.dot(coef, support) + coef.sum()
        return self.signs * values + self.ridge * alpha

    def squared_norm(self, alpha: Floats, margins: Floats) -> float:
        """|W|^2, given the margins Q alpha; at least what the ridge alone makes of it.

        Parameters
        ----------
        alpha, margins : ndarrays of shape (n_rows,)

        Returns
        -------
        squared_norm : float
        """
        return max(float(alpha @ margins), float(self.ridge @ alpha**2))

    def subset(self, rows: Indices) -> Hull:
        """The hull of some of the rows; their points are copied."""
        points = self.gram.x
        gram = Gram(
            self.gram.kernel, points.X[rows], dtype=points.dtype, hold=True, shift=points.shift
        )
        return Hull(gram, self.signs[rows], self.costs[rows])


def _same_rows(numbers: Indices, rows: Any) -> tuple[Indices, Indices]:
    """Where a line and a place of a block are the same row of the hull."""
    if isinstance(rows, slice):
        if rows == slice(None):
            return np.arange(len(numbers)), numbers
        raise TypeError("Rows of a block of Q are all rows, or an array of row numbers.")
    lines, places = np.nonzero(numbers[:, None] == rows[None, :])
    return as_indices(lines), as_indices(places)


@dataclass(frozen=True, eq=False)
class EnclosingBall:
    """The machine of squared errors, as a ball in feature space.

    With f the kernel's feature map, signs d_i, weights c_i and unit vectors u_q::

        minimise over w, b  1/2 (|w|^2 + b^2) + 1/2 sum_i c_i max(0, 1 - d_i (w.f(x_i) + b))^2
        subject to  w . u_q = 0 for all q

    Its dual is min 1/2 a'Qa - sum a over a >= 0, with the kernel less the directions::

        Q_ij = d_i d_j (k(x_i, x_j) + 1 - F_i . F_j) + delta_ij / c_i,   F_iq = u_q . f(x_i)

    a / sum a are the weights of the center of the smallest ball around the points
    d_i (f(x_i), 1, e_i / sqrt(c_i)), the center orthogonal to the u_q. The squared distance of
    point i from the center is n2 - 2 g_i + kappa with n2 = |center|^2 and g = Q a / sum a, where
    kappa is the squared norm of a point *before* the directions are taken off: the ball of the
    kernel Q alone is another one. Where norms differ (a polynomial kernel, several weights),
    kappa is the largest, and every other point has the rest in a coordinate of its own in
    which the center is 0. The intercept is not among what is orthogonal.

    Parameters
    ----------
    gram : Gram
        K(X, X), square, of a positive semi-definite kernel.
    signs : ndarray of shape (n_rows,)
        d: +1 or -1.
    costs : ndarray of shape (n_rows,)
        c, positive.
    images : ndarray of shape (n_rows, n_directions) or None, default=None
        F: the directions' values at the rows.

    Examples
    --------
    >>> import numpy as np
    >>> from kernlet.kernels.rbf import RBF
    >>> from kernlet.kernels.gram import Gram
    >>> from kernlet.squared.problem import EnclosingBall
    >>> X = np.array([[0.0], [1.0]])
    >>> ball = EnclosingBall(Gram(RBF(1.0), X), np.array([1.0, -1.0]), np.ones(2))
    >>> ball.products(np.arange(2), np.arange(2)).round(3)
    array([[ 3.   , -1.368],
           [-1.368,  3.   ]])
    """

    gram: Gram
    signs: Floats
    costs: Floats
    images: Floats | None = None

    def __post_init__(self) -> None:
        require_signed_rows("A ball", self.gram, self.signs, self.costs)

    @property
    def n_rows(self) -> int:
        """Points to enclose."""
        return len(self.gram.x)

    @cached_property
    def ridge(self) -> Floats:
        """1 / c_i, what a row adds to its own product."""
        return 1.0 / self.costs

    @cached_property
    def kappa(self) -> float:
        """The largest squared norm of a point, directions not taken off."""
        return float((kernel_diagonal(self.gram) + self.ridge).max(initial=0.0)) + 1.0

    def products(self, rows: Indices, columns: Indices) -> Floats:
        """Q[rows][:, columns].

        Parameters
        ----------
        rows, columns : ndarrays of row numbers

        Returns
        -------
        values : ndarray of shape (len(rows), len(columns))
        """
        values = self.gram.block(rows, columns).astype(np.float64, copy=False)
        values += 1.0
        if self.images is not None:
            values -= self.images[rows] @ self.images[columns].T
        values *= self.signs[columns]
        values *= self.signs[rows, None]
        lines, places = np.nonzero(rows[:, None] == columns[None, :])
        values[lines, places] += self.ridge[rows[lines]]
        return values

    def coordinates(self, rows: Indices, coef: Floats) -> Floats:
        """What sum_j coef_j f(x_j) has in the directions."""
        if self.images is None:
            return np.zeros(0)
        return np.asarray(self.images[rows].T @ coef)

    def objective(self, squared_norm: float, values: Floats) -> float:
        """The primal value of a machine, given |w|^2 + b^2 and its values at all rows."""
        slacks = np.maximum(0.0, 1.0 - self.signs * values)
        return 0.5 * (squared_norm + float(self.costs @ slacks**2))

    def eps(self, squared_norm: float, least_margin: float) -> float:
        """How far outside a ball the furthest row lies: its distance is (1 + eps) radii.

        Parameters
        ----------
        squared_norm : float
            n2, of the center.
        least_margin : float
            The least g_i.

        Returns
        -------
        eps : float
            Not below 0.
        """
        furthest = squared_norm - 2.0 * least_margin + self.kappa
        return max(0.0, float(np.sqrt(furthest / (self.kappa - squared_norm))) - 1.0)


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
