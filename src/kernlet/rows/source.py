"""Where rows come from, and sums over their blocks."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from functools import reduce
from typing import Any
from uuid import uuid4

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from threadpoolctl import threadpool_limits

BLOCK_BYTES = 128 * 2**20
_MOST_ROWS, _FEWEST_ROWS = 2**18, 2**10

Function = Callable[..., Any]
Combine = Callable[[Any, Any], Any]


class BlockStore:
    """Blocks made of rows that a method comes back to, kept under a memory limit.

    Parameters
    ----------
    max_bytes : int
    """

    def __init__(self, max_bytes: int) -> None:
        self.max_bytes = self.room = max_bytes
        self.name = uuid4().hex  # by which others know what they keep in its place
        self._blocks: dict[int, Any] = {}

    def get(self, number: int) -> Any:
        """The kept block of a number, or None."""
        return self._blocks.get(number)

    def offer(self, number: int, block: Any) -> None:
        """Keep a block where there is room; it is told, for it may want to hold its values."""
        if block.nbytes <= self.room:
            self.room -= block.nbytes
            self._blocks[number] = block.kept()


class Rows(ABC):
    """Rows of numbers, read block by block; they may lie in memory, in a file or on a cluster.

    Blocks have the same bounds whatever the source, and sums go through them in their order:
    all sources of the same rows give the same answer, bit for bit, as does the tall method for
    rows in memory. A rule for gamma adds up in another order there: give the number it chose.

    A block takes at most ``BLOCK_BYTES`` in float64, and 262,144 rows.
    """

    shape: tuple[int, int]
    dtype: np.dtype[Any]

    def __len__(self) -> int:
        return self.shape[0]

    @abstractmethod
    def read(self, rows: slice) -> Any:
        """Consecutive rows, as an array or a sparse matrix of float32 or float64."""

    @property
    def block_rows(self) -> int:
        """Rows of a block: a power of two."""
        fitting = BLOCK_BYTES // (8 * max(1, self.shape[1]))
        return int(np.clip(2 ** int(np.log2(max(1, fitting))), _FEWEST_ROWS, _MOST_ROWS))

    def slices(self) -> list[slice]:
        """The bounds of the blocks."""
        step, n_rows = self.block_rows, self.shape[0]
        return [slice(start, min(start + step, n_rows)) for start in range(0, n_rows, step)]

    def blocks(self) -> Iterator[tuple[slice, Any]]:
        """All blocks with their bounds, in order."""
        for rows in self.slices():
            yield rows, self.read(rows)

    def split(self, column: str) -> tuple[Rows, Any]:
        """The rows without a column, and that column."""
        raise TypeError(f"{type(self).__name__} has no columns by name: give y as an array.")

    def select(self, columns: Sequence[str]) -> Rows:
        """The same rows with some of the columns, by name."""
        raise TypeError(f"{type(self).__name__} has no columns by name.")

    def some(self, numbers: NDArray[np.intp]) -> Rows:
        """Some of the rows by their numbers, which ascend; they stay where they are."""
        return SomeRows(self, numbers)

    def take(self, numbers: NDArray[np.intp]) -> Any:
        """Rows by their numbers, in the order given.

        Only blocks that hold one of them are read.
        """
        numbers = row_numbers(numbers, len(self))
        order = np.argsort(numbers, kind="stable")
        ascending = numbers[order]
        parts = []
        for rows in self.slices():
            first, last = np.searchsorted(ascending, [rows.start, rows.stop])
            if first < last:
                parts.append(self.read(rows)[ascending[first:last] - rows.start])
        together = stack(parts) if parts else self.read(slice(0, 0))
        back = np.empty(len(order), dtype=np.intp)
        back[order] = np.arange(len(order))
        return together[back]

    def release(self, store: BlockStore) -> None:  # noqa: B027
        """Forget what is kept elsewhere for a store that is no longer needed."""

    def map_reduce(
        self,
        function: Function,
        combine: Combine,
        *,
        by_row: Sequence[Any] = (),
        shared: Sequence[Any] = (),
        prepare: Function | None = None,
        store: BlockStore | None = None,
    ) -> Any:
        """``combine`` the values of ``function`` on all blocks, in the order of the blocks.

        Parameters
        ----------
        function : callable
            ``function(block, *by_row, *shared)``; picklable, for it may run elsewhere.
        combine : callable
            ``combine(total, value)`` returns the new total and may change the old one. The
            first total is the first value.
        by_row : sequence of arrays of shape (n_rows, ...)
            Handed over in the parts that belong to the block.
        shared : sequence
            Handed over as they are.
        prepare : callable, optional
            Makes of rows what ``function`` takes as its block.
        store : BlockStore, optional
            Keeps prepared blocks from one call to the next; workers of a cluster keep them in its
            place until ``release``.

        Returns
        -------
        total : object
            None without rows.
        """
        values = self._values(function, by_row, shared, prepare, store)
        with threadpool_limits(1):  # equal rounding wherever the blocks are
            first = next(values, None)
            return first if first is None else reduce(combine, values, first)

    def _values(
        self,
        function: Function,
        by_row: Sequence[Any],
        shared: Sequence[Any],
        prepare: Function | None,
        store: BlockStore | None,
    ) -> Iterator[Any]:
        for number, rows in enumerate(self.slices()):
            block = store.get(number) if store else None
            if block is None:
                block = self.read(rows)
                if prepare is not None:
                    block = prepare(block)
                    if store is not None:
                        store.offer(number, block)
            parts = (np.ascontiguousarray(array[rows]) for array in by_row)  # as on a cluster
            yield function(block, *parts, *shared)


def added(total: list[Any], value: list[Any]) -> list[Any]:
    """Sums that a pass gathers, those of another block added: a ``combine``."""
    return [a + b for a, b in zip(total, value, strict=True)]


def consecutive(rows: slice, n_rows: int) -> tuple[int, int]:
    """The bounds of a slice of rows, which goes up by one."""
    start, stop, step = rows.indices(n_rows)
    if step != 1:
        raise ValueError(f"Rows are read one after the other, not in steps of {step}: use take.")
    return start, max(start, stop)


def row_numbers(numbers: Any, n_rows: int) -> NDArray[np.intp]:
    """Numbers of rows, from 0 on; a mask of all rows becomes the numbers it chooses."""
    numbers = np.asarray(numbers)
    if numbers.dtype == bool and numbers.shape == (n_rows,):
        return np.flatnonzero(numbers)
    if len(numbers) and (numbers.dtype.kind not in "iu" or numbers.min() < 0):
        raise IndexError("Rows are chosen by whole numbers from 0 on, or by a mask of all rows.")
    if len(numbers) and numbers.max() >= n_rows:
        raise IndexError(f"There is no row {numbers.max()}: the source has {n_rows} rows.")
    return numbers.astype(np.intp, copy=False)


def stack(parts: list[Any]) -> Any:
    """Blocks of rows as one, dense or sparse."""
    if isinstance(parts[0], np.ndarray):
        return np.concatenate(parts)
    from scipy import sparse

    return sparse.vstack(parts, format="csr")


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
    >>> from kernlet.rows.source import ArrayRows, SomeRows
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
    >>> from kernlet.rows.source import ArrayRows, RowReader
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


class ArrayRows(Rows):
    """Rows of an array or of a sparse matrix.

    Parameters
    ----------
    X : {array-like, sparse matrix} of shape (n_rows, n_features)
        Numbers other than float32 become float64, a block at a time.

    Examples
    --------
    >>> import numpy as np
    >>> from kernlet.rows.source import ArrayRows
    >>> rows = ArrayRows(np.arange(6.0).reshape(3, 2))
    >>> float(rows.map_reduce(np.sum, lambda total, value: total + value))
    15.0
    """

    def __init__(self, X: Any) -> None:
        if sparse.issparse(X):
            X = X.tocsr()
        elif not hasattr(X, "dtype"):
            X = np.asarray(X)
        if X.ndim != 2:
            raise ValueError(f"Rows are an array of two dimensions, not {X.ndim}.")
        self.X = X
        self.shape = (int(X.shape[0]), int(X.shape[1]))
        self.dtype = np.dtype(np.float32 if X.dtype == np.float32 else np.float64)

    def read(self, rows: slice) -> Any:
        """Consecutive rows; a view where nothing is to be converted."""
        start, stop = consecutive(rows, len(self))
        return self.X[start:stop].astype(self.dtype, copy=False)

    def take(self, numbers: Any) -> Any:
        """Rows by their numbers, in the order given."""
        return self.X[row_numbers(numbers, len(self))].astype(self.dtype, copy=False)
