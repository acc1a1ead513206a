"""Rows of a source by slices and numbers, as of an array."""

from __future__ import annotations

from typing import Any

import numpy as np

from kernlet.rows.source import Rows, row_numbers


class RowReader:
    """Reads rows of a source as ``reader[slice]`` or ``reader[numbers]``.

    The last block is kept: numbers that stay within a block for a while cost one reading of
    it, numbers all over the rows a reading of every block.

    Parameters
    ----------
    rows : Rows

    Examples
    --------
    >>> import numpy as np
    >>> from kernlet.rows import ArrayRows, RowReader
    >>> reader = RowReader(ArrayRows(np.arange(6.0).reshape(3, 2)))
    >>> reader[np.array([2, 0])]
    array([[4., 5.],
           [0., 1.]])
    """

    def __init__(self, rows: Rows) -> None:
        self.rows, self.shape, self.dtype = rows, rows.shape, rows.dtype
        self._last: tuple[int, Any] = (-1, None)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_last": (-1, None)}

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, numbers: Any) -> Any:
        step = self.rows.block_rows
        if isinstance(numbers, slice):
            start, stop, stride = numbers.indices(len(self))
            if stride == 1 and start < stop and start // step == (stop - 1) // step:
                return self._block(start // step)[start % step :][: stop - start]
            numbers = np.arange(start, stop, stride)
        numbers = row_numbers(numbers, len(self))
        blocks = np.unique(numbers // step)
        if len(blocks) > 1:
            return self._gather(numbers, blocks, step)
        return self._block(int(blocks[0]))[numbers % step] if len(blocks) else self._nothing()

    def shuffled(self, numbers: Any, random: np.random.RandomState) -> Any:
        """The places of row numbers in a random order that goes block by block."""
        blocks = numbers // self.rows.block_rows
        turns = random.permutation(-(-len(self) // self.rows.block_rows))
        return np.lexsort((random.random_sample(len(numbers)), turns[blocks]))

    def _gather(self, numbers: Any, blocks: Any, step: int) -> Any:
        chosen = np.empty((len(numbers), self.shape[1]), self.dtype)
        for block in blocks.tolist():
            mine = np.flatnonzero(numbers // step == block)
            chosen[mine] = self._block(block)[numbers[mine] % step]
        return chosen

    def _block(self, number: int) -> Any:
        if self._last[0] != number:
            block = self.rows.read(self.rows.slices()[number])
            self._last = (number, block.toarray() if hasattr(block, "toarray") else block)
        return self._last[1]

    def _nothing(self) -> Any:
        return np.empty((0, self.shape[1]), self.dtype)
