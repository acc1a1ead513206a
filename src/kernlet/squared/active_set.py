"""A small quadratic program over nonnegative weights that rows are added to."""

from __future__ import annotations

import numpy as np
from scipy.linalg import LinAlgError, cholesky, solve_triangular

from kernlet._typing import Floats, Indices

_ROUNDING = 1e-12  # a margin this near to 1 is 1


class GrowingProgram:
    """min 1/2 a'Qa - sum a over a >= 0, solved exactly and again after every new row.

    An active set: the rows inside have Q a = 1, those outside a = 0 and margins of at least 1. The
    Cholesky factor of the rows inside is kept; a row that comes appends a line to it, one that
    goes has only the lines below it computed anew. Each answer starts from the last one. Memory is
    16 bytes times the square of the number of rows.

    Attributes
    ----------
    weights : ndarray of shape (n_rows,)
        a, of the last call of :meth:`solve`.
    n_steps : int
        Linear systems solved.

    Examples
    --------
    >>> import numpy as np
    >>> from kernlet.squared.active_set import GrowingProgram
    >>> program = GrowingProgram()
    >>> program.add(np.array([[2.0]]))
    >>> program.add(np.array([[0.0, 4.0]]))
    >>> program.solve()
    True
    >>> program.weights
    array([0.5 , 0.25])
    """

    def __init__(self) -> None:
        self._products: Floats = np.empty((64, 64))
        self._inside: Indices = np.empty(0, dtype=np.intp)  # in the order of the factor
        self._factor: Floats = np.empty((0, 0))
        self.weights: Floats = np.empty(0)
        self.n_steps = 0

    def __len__(self) -> int:
        return len(self.weights)

    @property
    def products(self) -> Floats:
        """Q."""
        return self._products[: len(self), : len(self)]

    @property
    def support(self) -> Indices:
        """Rows of positive weight, ascending."""
        return np.flatnonzero(self.weights)

    def add(self, products: Floats) -> None:
        """Take rows in, with weight zero.

        Parameters
        ----------
        products : ndarray of shape (n_new, n_old + n_new)
            The new rows of Q, over all rows.
        """
        old, new = len(self), products.shape[1]
        if new > len(self._products):
            larger = np.empty((2 * new, 2 * new))
            larger[:old, :old] = self.products
            self._products = larger
        self._products[old:new, :new] = products
        self._products[:old, old:new] = products[:, :old].T
        self.weights = np.append(self.weights, np.zeros(new - old))

    def solve(self) -> bool:
        """Find the best weights of all rows.

        Returns
        -------
        is_exact : bool
            False where rounding leaves no factor: the weights are the best found.
        """
        refused = np.zeros(len(self), dtype=bool)
        for _ in range(100 + 10 * len(self)):
            margins = self.products[:, self._inside] @ self.weights[self._inside]
            noise = _ROUNDING + 1e-15 * float(self.weights.sum()) * self.products[0, 0]
            wanted = (margins < 1.0 - noise) & (self.weights == 0) & ~refused
            wanted[self._inside] = False
            entering = np.flatnonzero(wanted)
            if not len(entering):
                return not refused.any()
            if not self._enter(entering):
                refused[entering[1:] if len(entering) > 1 else entering] = True
                continue
            try:
                self._settle()
            except LinAlgError:
                return False
            if not self.weights[entering].any():  # rounding
                refused[entering] = True
        return False

    def _enter(self, rows: Indices) -> bool:
        """Append lines to the factor."""
        inside, n = self._inside, len(self._inside)
        cross = np.empty((0, len(rows)))
        if n:
            cross = solve_triangular(
                self._factor, self._products[np.ix_(inside, rows)], lower=True, check_finite=False
            )
        try:
            corner = cholesky(
                self._products[np.ix_(rows, rows)] - cross.T @ cross, lower=True, check_finite=False
            )
        except LinAlgError:
            return False
        factor = np.zeros((n + len(rows), n + len(rows)))
        factor[:n, :n], factor[n:, :n], factor[n:, n:] = self._factor, cross.T, corner
        self._factor, self._inside = factor, np.append(inside, rows)
        return True

    def _settle(self) -> None:
        """Move to the answer of the rows inside; those whose weight ends on the way leave.

        Rows that come in have margins below 1, so that one of them at least gains weight: every
        round gains.
        """
        while True:
            self.n_steps += 1
            inside = self._inside
            target = self._solution()
            weights = self.weights[inside]
            falling = target <= 0
            if not falling.any():
                self.weights[inside] = target
                return
            way = np.full(len(inside), np.inf)
            way[falling] = weights[falling] / (weights[falling] - target[falling])
            way[falling & (weights == 0)] = 0.0
            length = float(way.min())
            weights += length * (target - weights)
            leaving = way <= length
            weights[leaving] = 0.0
            self.weights[inside] = weights
            self._leave(np.flatnonzero(leaving))

    def _solution(self) -> Floats:
        ones = np.ones(len(self._inside))
        half = solve_triangular(self._factor, ones, lower=True, check_finite=False)
        return np.asarray(
            solve_triangular(self._factor, half, lower=True, trans=1, check_finite=False)
        )

    def _leave(self, places: Indices) -> None:
        """Take lines out of the factor; those below the first are computed anew."""
        first = int(places[0])
        kept = np.setdiff1d(np.arange(len(self._inside)), places)
        below = kept[first:]
        left = self._factor[below, :first]
        rows = self._inside[below]
        corner = cholesky(
            self._products[np.ix_(rows, rows)] - left @ left.T, lower=True, check_finite=False
        )
        factor = np.zeros((len(kept), len(kept)))
        factor[:first, :first] = self._factor[:first, :first]
        factor[first:, :first], factor[first:, first:] = left, corner
        self._factor, self._inside = factor, self._inside[kept]
