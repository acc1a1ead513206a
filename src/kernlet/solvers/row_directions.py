"""Orthonormal directions of a feature space, as sums over training rows."""

from __future__ import annotations

import numpy as np

from kernlet.kernels.kernel import Floats

_NOTHING = 1e-10  # a squared norm below this share of what was taken off is rounding


class RowDirections:
    """Directions u_q = sum_i coef_iq f(x_i), each orthogonal to those before and of norm 1.

    Attributes
    ----------
    coef : ndarray of shape (n_rows, n_directions)
    images : ndarray of shape (n_rows, n_directions)
        u_q . f(x_i) at all rows.
    """

    def __init__(self, n_rows: int) -> None:
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
        along = self.images.T @ coef
        coef, taken = coef - self.coef @ along, float(along @ along)
        for _ in range(3):
            squared_norm = float(coef @ image)
            if not squared_norm > _NOTHING * max(taken, 1e-290):
                return False
            coef, image = coef / np.sqrt(squared_norm), image / np.sqrt(squared_norm)
            along = self.images.T @ coef
            coef, image = coef - self.coef @ along, image - self.images @ along
            taken = 0.0
        self.coef = np.column_stack([self.coef, coef])
        self.images = np.column_stack([self.images, image])
        return True
