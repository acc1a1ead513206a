"""Some of the rows of a source."""

from __future__ import annotations

from typing import Any

import numpy as np

from kernlet.rows.source import Rows, consecutive, row_numbers, stack


class SomeRows(Rows):
    """Rows of a source by their numbers, which ascend.

    A block is read from one block of the source after the other, so that few rows far apart
    never bring more than one of these into memory.

    Parameters
    ----------
    rows : Rows
    numbers : ndarray of int

    Examples
    --------
    >>> import numpy as np
    >>> from kernlet.rows import ArrayRows, SomeRows
    >>> rows = ArrayRows(np.arange(8.0).reshape(4, 2))
    >>> SomeRows(rows, np.array([1, 3])).read(slice(0, 2))
    array([[2., 3.],
           [6., 7.]])
    """

    def __init__(self, rows: Rows, numbers: Any) -> None:
        self.rows, self.numbers = rows, np.asarray(numbers)
        self.shape, self.dtype = (len(self.numbers), rows.shape[1]), rows.dtype
        if (np.diff(self.numbers) <= 0).any():
            raise ValueError("The numbers of rows must ascend: give np.unique(numbers).")

    def read(self, rows: slice) -> Any:
        """Consecutive rows of these."""
        numbers = self.numbers[slice(*consecutive(rows, len(self)))]
        if not len(numbers):
            return self.rows.read(slice(0, 0))
        ends = np.flatnonzero(np.diff(numbers // self.rows.block_rows)) + 1
        return stack([self._within(part) for part in np.split(numbers, ends)])

    def _within(self, numbers: Any) -> Any:
        """Rows of a single block of the source."""
        first = int(numbers[0])
        return self.rows.read(slice(first, int(numbers[-1]) + 1))[numbers - first]

    def take(self, numbers: Any) -> Any:
        """Rows by their numbers among these, in the order given."""
        return self.rows.take(self.numbers[row_numbers(numbers, len(self))])
