"""What problems over signed rows of a feature space share."""

from __future__ import annotations

import numpy as np

from kernlet.kernels.gram import Gram
from kernlet.kernels.kernel import Floats, require_mercer

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
