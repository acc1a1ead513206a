"""Which points may become centers."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.utils import check_array

from kernlet.kernels.columns import Indices
from kernlet.rows import Rows


@dataclass(frozen=True, eq=False)
class Candidates:
    """The points that may become centers of a machine.

    Parameters
    ----------
    points : {ndarray, sparse matrix} of shape (n_candidates, n_features) or None
        None means all training rows.
    rows : ndarray of shape (n_candidates,) or None
        The training row that each candidate is; None for points that are no rows.
    """

    points: Any
    rows: Indices | None


def choose_candidates(
    candidates: Any, X: Any, random_state: np.random.RandomState, name: str = "candidates"
) -> Candidates:
    """Turn the ``candidates`` parameter into points.

    Parameters
    ----------
    candidates : None, int, float or {array-like, sparse matrix}
        All rows, a number or a fraction of rows drawn at random, or given points.
    X : {ndarray, sparse matrix, Rows} of shape (n_rows, n_features)
    random_state : RandomState
    name : str, default="candidates"
        What the parameter is called.

    Returns
    -------
    candidates : Candidates
    """
    n_rows, n_features = X.shape
    if isinstance(X, Rows) and candidates is None:
        raise ValueError(
            f"{name}=None takes every row, and rows that are read block by block are too many for "
            f"that. Give a number, such as {name}=300."
        )
    if candidates is None:
        return Candidates(None, np.arange(n_rows))
    if isinstance(candidates, bool):
        raise ValueError(f"{name} is True or False; give a number, a fraction or points.")
    if isinstance(candidates, Real):
        count = _count(candidates, n_rows, name)
        if count == n_rows and not isinstance(X, Rows):
            return Candidates(None, np.arange(n_rows))
        rows = np.sort(random_state.permutation(n_rows)[:count])
        return Candidates(X.take(rows) if isinstance(X, Rows) else X[rows], rows)
    if getattr(candidates, "ndim", np.ndim(candidates)) == 1:
        raise ValueError(
            f"{name} must be points, one a line of n_features numbers; for chosen rows give "
            "X[rows]."
        )
    points = check_array(candidates, accept_sparse="csr", dtype=X.dtype, input_name=name)
    if points.shape[1] != n_features:
        raise ValueError(
            f"{name} has {points.shape[1]} columns, but X has {n_features} features. "
            "Give points of the same width as the rows of X."
        )
    return Candidates(sparse.csr_array(points) if sparse.issparse(X) else _dense(points), None)


def _count(candidates: Any, n_rows: int, name: str) -> int:
    if isinstance(candidates, Integral):
        if not 1 <= int(candidates) <= n_rows:
            raise ValueError(
                f"{name}={candidates} is out of range: X has {n_rows} rows. Give a number "
                f"from 1 to {n_rows}, a fraction in (0, 1], an array of points, or None for "
                "all rows."
            )
        return int(candidates)
    if not 0 < candidates <= 1:
        raise ValueError(
            f"{name}={candidates} is out of range: a fraction of the rows lies in (0, 1]."
        )
    return max(1, round(float(candidates) * n_rows))


def _dense(points: Any) -> Any:
    return points.toarray() if sparse.issparse(points) else points
