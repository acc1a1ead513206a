"""Columns of a symmetric matrix that a solver comes back to: the least recently used give way."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable

import numpy as np

from kernlet.kernels.columns import Indices, as_indices
from kernlet.kernels.kernel import Floats

_BATCH = 64  # columns completed at a time

Compute = Callable[[Indices], Floats]


class ColumnPool:
    """Columns in one buffer of limited size, computed when they are first asked for.

    The buffer is never copied: when the rows become fewer the columns move together in it,
    which makes room for more of them, and when rows come back they move apart.

    Parameters
    ----------
    n_rows : int
        Length of a column.
    max_bytes : int
        Of the buffer; room for two columns is taken in any case.
    """

    def __init__(self, n_rows: int, max_bytes: int) -> None:
        n_columns = min(max(2, max_bytes // (8 * max(1, n_rows))), max(2, n_rows))
        self._buffer = np.empty(n_columns * n_rows)
        self._slots: OrderedDict[int, int] = OrderedDict()  # least recently used first
        self._resize(n_rows)
        self.n_computed = 0

    def _resize(self, n_rows: int) -> None:
        self.n_rows = n_rows
        self.capacity = max(1, len(self._buffer) // max(1, n_rows))
        self._lines = self._buffer[: self.capacity * n_rows].reshape(self.capacity, n_rows)

    def __len__(self) -> int:
        return len(self._slots)

    def __contains__(self, number: int) -> bool:
        return number in self._slots

    @property
    def nbytes(self) -> int:
        """Of the columns held."""
        return 8 * len(self) * self.n_rows

    def get(self, number: int) -> Floats | None:
        """A column, or None where it is not here. A view that holds until the next put."""
        slot = self._slots.get(number)
        if slot is None:
            return None
        self._slots.move_to_end(number)
        return self._lines[slot]

    def put(self, numbers: Indices, columns: Floats) -> None:
        """Keep new columns, given as lines; the first of them is the last to give way again."""
        self.n_computed += len(numbers)
        for number, column in zip(numbers[::-1].tolist(), columns[::-1], strict=True):
            if len(self._slots) < self.capacity:
                slot = len(self._slots)
            else:
                _, slot = self._slots.popitem(last=False)
            self._lines[slot] = column
            self._slots[number] = slot

    def keep_rows(self, kept: Indices) -> None:
        """Leave rows out; columns of rows that go are dropped, and row numbers become new."""
        renamed = np.full(self.n_rows, -1)
        renamed[kept] = np.arange(len(kept))
        staying = [(number, slot) for number, slot in self._slots.items() if renamed[number] >= 0]
        order = [int(renamed[number]) for number, _ in staying]
        lines, n_rows = self._lines, len(kept)
        places = {}
        for place, (number, slot) in enumerate(sorted(staying, key=lambda pair: pair[1])):
            self._buffer[place * n_rows : (place + 1) * n_rows] = lines[slot][kept]
            places[int(renamed[number])] = place
        self._slots = OrderedDict((number, places[number]) for number in order)
        self._resize(n_rows)

    def add_rows(self, old_places: Indices, n_rows: int, compute: Compute) -> None:
        """Take rows in.

        Parameters
        ----------
        old_places : ndarray of shape (n_old_rows,)
            Where the present rows stand among the new ones.
        n_rows : int
            All rows then.
        compute : callable
            ``compute(columns)`` gives the values of the rows that are new, in ascending order,
            as lines, for columns numbered anew.
        """
        room = len(self._buffer) // n_rows
        while len(self._slots) > room:
            self._slots.popitem(last=False)
        is_new = np.ones(n_rows, dtype=bool)
        is_new[old_places] = False
        by_slot = sorted(self._slots.items(), key=lambda pair: pair[1])
        numbers = as_indices([old_places[number] for number, _ in by_slot])
        self._close_gaps(by_slot)
        for stop in range(len(by_slot), 0, -_BATCH):  # from the last: none is written over
            batch = slice(max(0, stop - _BATCH), stop)
            values = compute(numbers[batch])
            for place in range(stop - 1, batch.start - 1, -1):
                old = self._buffer[place * self.n_rows : (place + 1) * self.n_rows].copy()
                line = self._buffer[place * n_rows : (place + 1) * n_rows]
                line[old_places] = old
                line[is_new] = values[place - batch.start]
        places = {number: place for place, (number, _) in enumerate(by_slot)}
        self._slots = OrderedDict(
            (int(old_places[number]), places[number]) for number in self._slots
        )
        self._resize(n_rows)

    def _close_gaps(self, by_slot: list[tuple[int, int]]) -> None:
        """Move the columns together, in the order of their places."""
        for place, (_, slot) in enumerate(by_slot):
            if place < slot:
                self._lines[place] = self._lines[slot]
