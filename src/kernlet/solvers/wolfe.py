"""Wolfe's active set: the nearest point of a hull to all digits, for small supports."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from kernlet.kernels.columns import Indices
from kernlet.kernels.kernel import Floats
from kernlet.problems.hull import Hull

LARGEST_FACE = 2500  # rows of a dense factor: 50 MB


@dataclass(frozen=True, eq=False)
class Face:
    """Weights and margins of all rows, major steps taken and columns computed."""

    alpha: Floats
    margins: Floats
    n_iter: int
    n_columns: int


def polish(
    hull: Hull, alpha: Floats, margins: Floats, *, tol: float, max_iter: int | None = None
) -> Face:
    """Go on from a point of the hull to the nearest one, face by face.

    On the rows in the support the nearest point of their affine hull is a linear system,
    Q a = 1 but for scale. Where a weight would become negative the way there ends at the
    border and that row leaves; then the row of least margin enters. Each step factors a
    matrix of the size of the support.

    Parameters
    ----------
    hull : Hull
    alpha, margins : ndarrays of shape (n_rows,)
        Where to start, and Q alpha there.
    tol : float
        Relative gap to reach.
    max_iter : int or None, default=None

    Returns
    -------
    face : Face
        The best point met.
    """
    products = _Products(hull)
    n_iter = 0
    limit = np.inf if max_iter is None else max_iter
    support = np.flatnonzero(alpha)
    while n_iter < limit and len(support) <= LARGEST_FACE:
        n_iter += 1
        weights = _nearest_in(products.of(support), alpha[support])
        trial = np.zeros_like(alpha)
        trial[support] = weights
        trial_margins = hull.margins(trial)
        n2 = hull.squared_norm(trial, trial_margins)
        before = hull.squared_norm(alpha, margins)
        no_gain = n2 >= before and trial_margins.min() / n2 <= margins.min() / before
        if no_gain and (n_iter > 1 or n2 > (1 + 1e-9) * before):  # rounding
            break
        alpha, margins = trial, trial_margins
        least = int(margins.argmin())
        if n2 - margins[least] <= tol * n2 or alpha[least] > 0:
            break
        support = np.union1d(np.flatnonzero(alpha), [least])
    return Face(alpha, margins, n_iter, products.n_computed)


class _Products:
    """Q over a support that changes by few rows at a time."""

    def __init__(self, hull: Hull) -> None:
        self.hull = hull
        self.rows: Indices = np.empty(0, dtype=np.intp)
        self.values: Floats = np.empty((0, 0))
        self.n_computed = 0

    def of(self, rows: Indices) -> Floats:
        """Q[rows][:, rows]."""
        old = np.isin(rows, self.rows)
        places = np.searchsorted(self.rows, rows[old])
        values = np.empty((len(rows), len(rows)))
        values[np.ix_(old, old)] = self.values[np.ix_(places, places)]
        if not old.all():
            new = self.hull.columns(rows[~old], rows)
            values[~old], values[:, ~old] = new, new.T
            self.n_computed += len(new)
        self.rows, self.values = rows, values
        return values


def _nearest_in(Q: Floats, weights: Floats) -> Floats:
    """The nearest point of the hull of some rows, rows leaving it on the way as they must.

    A row that was taken in with weight zero moves inwards first, so that every step gains.
    """
    weights = weights.copy()
    inside = np.ones(len(weights), dtype=bool)
    while True:
        wanted = np.zeros_like(weights)
        wanted[inside] = _affine(Q[np.ix_(inside, inside)])
        if not np.isfinite(wanted).all():  # no digits left
            return weights
        falling = inside & (wanted <= 0)
        if not falling.any():
            return wanted
        way = np.full(len(weights), np.inf)
        way[falling & (weights == 0)] = 0.0
        moving = falling & (weights > 0)
        way[moving] = weights[moving] / (weights[moving] - wanted[moving])
        length = min(1.0, float(way.min()))
        weights += length * (wanted - weights)
        leaving = falling & (way <= length)
        weights[leaving] = 0.0
        inside &= ~leaving


def _affine(Q: Floats) -> Floats:
    """Weights of sum 1 of the point of an affine hull nearest the origin."""
    ones = np.ones(len(Q))
    try:
        raw = cho_solve(cho_factor(Q, lower=True), ones)
    except LinAlgError:  # the ridge is lost in rounding
        return np.full(len(Q), np.nan)
    return np.asarray(raw / raw.sum())
