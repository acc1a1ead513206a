"""Orthonormal directions of a feature space, as sums over training rows."""

from __future__ import annotations

import numpy as np

from kernlet.kernels.kernel import Floats
from kernlet.solvers.row_products import RowProducts

_NOTHING = 1e-20  # a squared norm below this share of that of the summands is rounding
_FEW_DIGITS = 1e-4  # below this share the coefficients are shortened first
_TINY = 1e-290


class RowDirections:
    """Directions u_q = sum_i coef_iq f(x_i), each orthogonal to those before and of norm 1.

    Coefficients of a vector are not unique where rows depend on each other, and those that
    solvers find may be large and add up to little: digits are lost in every sum. Such ones are
    replaced by the shortest that make the same vector, and its values computed anew.

    Parameters
    ----------
    n_rows : int
    products : RowProducts

    Attributes
    ----------
    coef : ndarray of shape (n_rows, n_directions)
    images : ndarray of shape (n_rows, n_directions)
        u_q . f(x_i) at all rows.
    """

    def __init__(self, n_rows: int, products: RowProducts) -> None:
        self.products = products
        self.coef: Floats = np.zeros((n_rows, 0))
        self.images: Floats = np.zeros((n_rows, 0))

    def append(self, coef: Floats, image: Floats) -> bool:
        """Add the direction of a vector, after what it has in the others is taken off.

        Parameters
        ----------
        coef : ndarray of shape (n_rows,)
            Of the vector, the directions not yet taken off.
        image : ndarray of shape (n_rows,)
            Its values at the rows, the directions taken off already.

        Returns
        -------
        is_new : bool
            False, and nothing is added, where nothing is left of the vector.
        """
        size = self._size(coef)
        coef = coef - self.coef @ (self.images.T @ coef)
        size = max(size, self._size(coef))
        if not size > _TINY:
            return False
        is_long = not float(coef @ image) > _FEW_DIGITS * size
        for _ in range(3):
            if is_long:
                coef = self.products.shortest(coef)
                image = self.products.image(coef)
            squared_norm = float(coef @ image)
            if not squared_norm > max(_NOTHING * size, _TINY):
                return False
            coef, image = coef / np.sqrt(squared_norm), image / np.sqrt(squared_norm)
            along = self.images.T @ coef
            coef, image = coef - self.coef @ along, image - self.images @ along
            size = 0.0
        self.coef = np.column_stack([self.coef, coef])
        self.images = np.column_stack([self.images, image])
        return True

    def _size(self, coef: Floats) -> float:
        """The square of what the summands' norms add up to."""
        return float(np.abs(coef) @ self.products.lengths) ** 2
