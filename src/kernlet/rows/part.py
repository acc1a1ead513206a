"""Some of the rows of a source."""

from __future__ import annotations

from typing import Any

import numpy as np

from kernlet.rows.source import Rows


class SomeRows(Rows):
    """Rows of a source by their numbers, which ascend.

    A block is read as the stretch of the source from its first row to its last.

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
        numbers = self.numbers[rows]
        if not len(numbers):
            return self.rows.read(slice(0, 0))
        first = int(numbers[0])
        return self.rows.read(slice(first, int(numbers[-1]) + 1))[numbers - first]

    def take(self, numbers: Any) -> Any:
        """Rows by their numbers among these, in the order given."""
        return self.rows.take(self.numbers[numbers])
