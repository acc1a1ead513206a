"""The rows that a machine keeps from blocks of data seen before."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from kernlet.estimators.base import TrainingData
from kernlet.kernels.columns import Indices
from kernlet.kernels.kernel import Floats


@dataclass(frozen=True, eq=False)
class RetainedRows:
    """Rows that stand for all blocks seen so far, and how many they stand for.

    Parameters
    ----------
    X : {ndarray, sparse matrix} of shape (n_rows, n_features)
        Centers of the machine and rows with a positive dual.
    y, sample_weight : ndarray of shape (n_rows,)
    blocks : ndarray of shape (n_rows,)
        The block that each row came with, counted from 0.
    n_blocks : int
        Blocks seen.
    n_seen : int
        Rows seen, those of no weight left out.
    n_forgotten : int
        Rows that were dropped because of their age.
    """

    X: Any
    y: Any
    sample_weight: Floats
    blocks: Indices
    n_blocks: int
    n_seen: int
    n_forgotten: int

    def __repr__(self) -> str:
        return (
            f"RetainedRows({len(self.y)} of {self.n_seen} rows of {self.n_blocks} blocks, "
            f"{self.n_forgotten} forgotten)"
        )

    @property
    def by_block(self) -> Indices:
        """How many rows of each block are left."""
        return np.bincount(self.blocks, minlength=self.n_blocks)


def merge(old: RetainedRows | None, new: TrainingData, max_age: int | None) -> RetainedRows:
    """The rows kept so far, less those too old, with a new block.

    Parameters
    ----------
    old : RetainedRows or None
    new : TrainingData
    max_age : int or None
        Blocks that a row may be behind the newest.

    Returns
    -------
    rows : RetainedRows
    """
    n_new = len(new.y)
    if old is None:
        numbers = np.zeros(n_new, dtype=np.intp)
        return RetainedRows(new.X, new.y, new.sample_weight, numbers, 1, n_new, 0)
    oldest = 0 if max_age is None else old.n_blocks - max_age
    stays = np.flatnonzero(old.blocks >= oldest)
    parts = [old.X[stays], new.X]
    is_sparse = any(map(sparse.issparse, parts))
    return RetainedRows(
        sparse.vstack(parts, format="csr") if is_sparse else np.concatenate(parts),
        np.concatenate([old.y[stays], new.y]),
        np.concatenate([old.sample_weight[stays], new.sample_weight]),
        np.concatenate([old.blocks[stays], np.full(n_new, old.n_blocks)]),
        old.n_blocks + 1,
        old.n_seen + n_new,
        old.n_forgotten + len(old.y) - len(stays),
    )


def keep(rows: RetainedRows, numbers: Indices) -> RetainedRows:
    """Some of the rows, standing for all of them."""
    return RetainedRows(
        rows.X[numbers],
        rows.y[numbers],
        rows.sample_weight[numbers],
        rows.blocks[numbers],
        rows.n_blocks,
        rows.n_seen,
        rows.n_forgotten,
    )
