"""Near rows that are equal, taken as one."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from kernlet.kernels.columns import Indices
from kernlet.kernels.kernel import Floats
from kernlet.solvers.near import Near

_PIECE = 1024  # rows compared at a time: a comparison copies them


def merge_equal(near: Near) -> tuple[Near, Indices]:
    """One row in place of those with equal kernel values and sign, with the sum of their weights.

    Their t enter the program as a sum only, whose limit is the sum of their limits: the program
    has the same optimum and far fewer columns where features take few values.

    Parameters
    ----------
    near : Near

    Returns
    -------
    merged : Near
        Each row has the number of the first of its equals.
    groups : ndarray of shape (n_near,)
        Which merged row each near row became.
    """
    groups = _groups(near)
    numbers, first = np.unique(groups, return_index=True)
    if len(numbers) == len(groups):
        return near, groups

    def total(values: Floats) -> Floats:
        return np.bincount(groups, values, minlength=len(numbers)).astype(np.float64)

    merged = replace(
        near,
        numbers=near.numbers[first],
        K=near.K[first],
        signs=near.signs[first],
        weights=total(near.weights),
        held=None if near.held is None else total(near.held),
    )
    return merged, groups


def share_out(duals: Floats, near: Near, merged: Near, groups: Indices) -> Floats:
    """The t of near rows from those of merged rows: one after the other is filled to its weight.

    Few rows are left between 0 and their weight, as at a vertex.
    """
    if len(merged.numbers) == len(groups):
        return duals[groups]
    order = np.argsort(groups, kind="stable")
    weights, group = near.weights[order], groups[order]
    ends = np.cumsum(weights)
    first = np.searchsorted(group, np.arange(len(duals)))
    before = ends - weights - (ends - weights)[first][group]
    filled = np.clip(duals[group] - before, 0.0, weights)
    is_full = duals >= merged.weights
    shared = np.empty(len(groups))
    shared[order] = np.where(is_full[group], weights, filled)
    return shared


def _groups(near: Near) -> Indices:
    n_near = len(near.numbers)
    if not near.K.shape[1] or len(np.unique(near.K[:, 0])) == n_near:
        return np.arange(n_near)
    lines = np.ascontiguousarray(near.K)
    keys = lines.view(np.dtype((np.void, lines.itemsize * lines.shape[1])))[:, 0]
    order = np.argsort(keys, kind="stable")
    is_new = np.zeros(n_near, dtype=bool)
    for start in range(1, n_near, _PIECE):
        piece = slice(start, start + _PIECE)
        here = order[piece]
        is_new[piece] = keys[here] != keys[order[start - 1 :][: len(here)]]
    equal = np.empty(n_near, dtype=np.intp)
    equal[order] = np.cumsum(is_new)
    return np.unique(2 * equal + (near.signs > 0), return_inverse=True)[1]
