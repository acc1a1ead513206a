"""Linear systems whose matrix is positive semi-definite up to rounding."""

from __future__ import annotations

import numpy as np
from numpy.linalg import LinAlgError
from scipy.linalg import cho_factor, cho_solve

from kernlet.kernels.kernel import Floats


def solve_definite(matrix: Floats, right: Floats, ridge: float) -> Floats:
    """(matrix + ridge I)^-1 right, with a larger ridge where rounding asks for it.

    Parameters
    ----------
    matrix : ndarray of shape (n, n)
        Symmetric.
    right : ndarray of shape (n,) or (n, n_sides)
    ridge : float
        Positive.

    Returns
    -------
    solution : ndarray of the shape of ``right``

    Examples
    --------
    >>> import numpy as np
    >>> from kernlet.kernels.definite import solve_definite
    >>> solve_definite(np.array([[2.0, 0.0], [0.0, 4.0]]), np.array([2.0, 2.0]), 1e-12).round(6)
    array([1. , 0.5])
    """
    for _ in range(8):
        try:
            return cho_solve(cho_factor(matrix + ridge * np.eye(len(matrix))), right)
        except LinAlgError:
            ridge *= 100.0
    raise ValueError(
        "The kernel matrix of the centers is not positive semi-definite. Scale the features, or "
        "use another kernel, such as rbf."
    )
