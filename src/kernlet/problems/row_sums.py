"""Collecting sums over rows, block by block."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse
from scipy.linalg.blas import dsyrk

from kernlet.kernels.columns import Indices
from kernlet.kernels.features import RowFeatures
from kernlet.kernels.kernel import Floats
from kernlet.problems.moments import Moments, empty


def collect(
    features: RowFeatures,
    codes: Indices,
    n_classes: int,
    *,
    weights: Floats | None = None,
    shift: Floats | None = None,
    by_class: bool = True,
    rows: Indices | None = None,
) -> Moments:
    """Sums over rows, in one pass of blocks.

    Time is n_rows n_features^2, memory one block besides the sums, n_features^2 for each class
    or for all together.

    Parameters
    ----------
    features : RowFeatures
    codes : ndarray of shape (n_rows,)
        The class of each row, from 0.
    n_classes : int
    weights : ndarray of shape (n_rows,), default=None
        1 for all rows unless given.
    shift : ndarray of shape (n_features,), default=None
        ``features.middle`` unless given.
    by_class : bool, default=True
        Keep the products of each class apart.
    rows : ndarray of row numbers, default=None
        Only these.

    Returns
    -------
    moments : Moments
    """
    shift = features.middle if shift is None else shift
    sums = empty(features.n_features, n_classes, shift=shift, by_class=by_class)
    if rows is not None:
        rows = rows[np.argsort(codes[rows], kind="stable")]
        codes, weights = codes[rows], None if weights is None else weights[rows]
    with np.errstate(over="ignore", invalid="ignore"):
        for part, block in features.blocks(rows, dense=bool(shift.any())):
            w = None if weights is None else weights[part]
            _add(sums, _about(shift, block), codes[part], w)
    for group in sums.groups:
        _mirror(sums.seconds[group])
    _require_finite(sums)
    return sums


def _about(shift: Floats, block: Any) -> Any:
    """Rows of a block about a point, in float64."""
    block = block.astype(np.float64, copy=False)
    return block - shift if shift.any() else block


def _add(sums: Moments, block: Any, codes: Indices, weights: Floats | None) -> None:
    """Add a block to the sums; of the products, the upper triangles."""
    counts = np.bincount(codes, minlength=len(sums.counts))
    sums.counts[:] += counts
    if not sums.is_by_class:
        _add_firsts(sums.firsts, block, codes, weights)
        _add_products(sums.seconds[0], block, weights)
        return
    if (np.diff(codes) < 0).any():
        order = np.argsort(codes, kind="stable")
        block, weights = block[order], None if weights is None else weights[order]
    ends = np.cumsum(counts)
    for number in np.flatnonzero(counts):
        rows = slice(ends[number] - counts[number], ends[number])
        some = None if weights is None else weights[rows]
        own = np.zeros(counts[number], dtype=np.intp)
        _add_firsts(sums.firsts[number : number + 1], block[rows], own, some)
        _add_products(sums.seconds[number], block[rows], some)


def _add_firsts(total: Floats, block: Any, codes: Indices, weights: Floats | None) -> None:
    ones = np.ones(len(codes)) if weights is None else weights
    total[:, -1] += np.bincount(codes, ones, len(total))
    if len(total) == 1:
        total[0, :-1] += ones @ block
        return
    shape = (len(total), len(codes))
    added = sparse.csr_array((ones, (codes, np.arange(len(codes)))), shape) @ block
    total[:, :-1] += added.toarray() if sparse.issparse(added) else added


def _add_products(total: Floats, block: Any, weights: Floats | None) -> None:
    if weights is not None:
        root = np.sqrt(weights)[:, None]
        block = block.multiply(root).tocsr() if sparse.issparse(block) else block * root
    if sparse.issparse(block):
        products = sparse.triu(block.T @ block, format="coo")
        total[products.row, products.col] += products.data
    elif total.size:
        dsyrk(1.0, block.T, beta=1.0, c=total.T, lower=1, overwrite_c=1)


def _mirror(matrix: Floats) -> None:
    """Fill the lower triangle, which is zero, with the upper one."""
    middle = matrix.diagonal().copy()
    matrix += matrix.T.copy()
    np.fill_diagonal(matrix, middle)


def _require_finite(sums: Moments) -> None:
    products = (sums.seconds[group] for group in sums.groups)
    if not (np.isfinite(sums.firsts).all() and all(np.isfinite(each).all() for each in products)):
        raise ValueError(
            "The features are so large that sums of their squares overflow. Scale them, for "
            "example with StandardScaler."
        )
