"""A kernel block of many rows and few centers, looked at tile by tile."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from kernlet.kernels.gram import Gram, shift_for
from kernlet.kernels.kernel import Floats, Kernel

_TILE_BYTES = 2 * 2**20  # about what a processor's cache holds


class KernelTiles:
    """K(X, Z) for a block of rows, a few hundred or thousand rows at a time.

    Parameters
    ----------
    gram : Gram
        Of the block.
    """

    def __init__(self, gram: Gram) -> None:
        self.gram: Gram | None = gram
        self.n_rows, self.n_centers = gram.shape
        self.nbytes = self.n_rows * self.n_centers * gram.x.dtype.itemsize
        self._values: Floats | None = None
        row_bytes = max(1, self.n_centers * gram.x.dtype.itemsize)
        self._step = max(64, 2 ** int(np.log2(max(1, _TILE_BYTES // row_bytes))))

    def kept(self) -> KernelTiles:
        """The same tiles, computed now and held; the rows are let go."""
        assert self.gram is not None
        values = np.empty((self.n_rows, self.n_centers), self.gram.x.dtype)
        for rows, tile in self:
            values[rows] = tile
        self._values, self.gram = values, None
        return self

    def __iter__(self) -> Iterator[tuple[slice, Floats]]:
        for start in range(0, self.n_rows, self._step):
            rows = slice(start, min(start + self._step, self.n_rows))
            if self._values is not None:
                yield rows, self._values[rows]
            else:
                assert self.gram is not None
                yield rows, self.gram.block(rows, slice(None))


@dataclass(frozen=True, eq=False)
class TileMaker:
    """Makes the kernel tiles of any block of rows; picklable.

    Parameters
    ----------
    kernel : Kernel
    centers : {ndarray, sparse matrix} of shape (n_centers, n_features)
    dtype : dtype
        float64 is used in its place where :class:`Gram` says so.
    """

    kernel: Kernel
    centers: Any
    dtype: DTypeLike

    def __call__(self, X: Any) -> KernelTiles:
        """The tiles of a block."""
        shift = shift_for(self.kernel, X, self.centers)  # by the centers: the same for all blocks
        return KernelTiles(
            Gram(self.kernel, X, self.centers, dtype=self.dtype, hold=True, shift=shift)
        )
