"""Row sources: rows read block by block, subsets of them, and sums over all blocks.

How this works. A method that must not hold all rows asks a source for one thing only: the sum (or
another reduction) of a function over the blocks. Three rules make every source of the same rows
give the same answer, bit for bit:

1. Block bounds depend on the numbers of rows and features alone, never on how a file or a cluster
   divides the rows. A Parquet row group or a Dask chunk that ends elsewhere is cut again.
2. Values are combined in the order of the blocks, although a cluster may compute them in any
   order: floating-point addition is not associative.
3. BLAS runs on one thread, because a matrix product that is split among threads rounds
   differently from one that is not.

Rows that a method needs in another form (kernel values, say) are prepared once and cached as far
as memory allows; what does not fit is computed again in every pass.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial, reduce
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np
from scipy import sparse

from kernlet._typing import Indices
from kernlet.threads import single_thread

#: Size of a block in float64. A pass holds about three blocks: the rows, their prepared form and
#: a temporary, which fits any machine; larger blocks make matrix products no faster.
BLOCK_BYTES = 128 * 2**20
# With few features a block would have millions of rows, and each output holds a number per row;
# with many features a block of a handful of rows would make every product a slow one.
_MOST_ROWS, _FEWEST_ROWS = 2**18, 2**10

_USUAL_MEMORY = 8 * 2**30  # bytes, where the system does not report its memory (Windows)

#: Top-level packages of Dask collections, known without importing them.
DASK_PACKAGES = ("dask", "dask_expr")

Function = Callable[..., Any]
Combine = Callable[[Any, Any], Any]


def memory_bytes() -> int:
    """Memory of the computer."""
    if not hasattr(os, "sysconf"):
        return _USUAL_MEMORY
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


@contextmanager
def reader_errors(name: str, kind: str) -> Iterator[None]:
    """Whatever another library raises at a damaged file, as a ValueError of one sentence."""
    try:
        yield
    except (FileNotFoundError, PermissionError, IsADirectoryError):  # say it themselves
        raise
    except ImportError:  # a library that is not installed
        raise
    except MemoryError as error:
        raise ValueError(f"{name} needs more memory than there is.") from error
    except Exception as error:
        raise ValueError(f"{name} is corrupt, or not {kind}.") from error


def require_file(path: Path) -> None:
    """Refuse pipes and devices, which cannot be read twice."""
    if not (path.is_file() or path.is_dir()):
        path.stat()  # raises where there is nothing
        raise ValueError(f"{path} is a pipe or a device: write its content to a file first.")


def require_number_rows(X: Any) -> None:
    """Refuse an array that is not one of rows, or whose numbers a conversion would change."""
    if X.ndim != 2:
        raise ValueError(f"Rows are an array of two dimensions, not {X.ndim}.")
    if getattr(X.dtype, "kind", "f") in "cmM":
        raise ValueError(f"Rows hold real numbers, not {X.dtype}: convert them first.")


class BlockCache:
    """Prepared blocks that a method returns to, up to a memory limit."""

    def __init__(self, max_bytes: int) -> None:
        self.max_bytes = self.bytes_left = max_bytes
        self.name = uuid4().hex  # by which the workers of a cluster identify this cache
        self._blocks: dict[int, Any] = {}

    def get(self, number: int) -> Any:
        """The cached block of a number, or None."""
        return self._blocks.get(number)

    def offer(self, number: int, block: Any) -> None:
        """Cache a block if it fits; ``block.materialised()`` computes its values."""
        # First come, first served, and nothing is evicted: every pass visits all blocks in
        # order, and evicting the least recently used block would then never keep the next one.
        if block.nbytes <= self.bytes_left:
            self.bytes_left -= block.nbytes
            self._blocks[number] = block.materialised()


class RowSource(ABC):
    """Rows of numbers that are read block by block, from memory, a file or a cluster.

    Blocks have the same bounds for every source, and sums run through them in order: all sources
    of the same rows give the same answer, bit for bit, as does the streaming solver for rows in
    memory. A rule for gamma sums in another order in memory: give the number it chose.

    A block takes at most ``BLOCK_BYTES`` in float64, and has at most 262,144 rows. A subclass
    sets ``shape`` and ``dtype`` and defines :meth:`read`.
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
        """Rows per block, a power of two."""
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

    def split(self, column: str) -> tuple[RowSource, Any]:
        """The rows without a column, and that column."""
        raise TypeError(f"{type(self).__name__} has no columns by name: give y as an array.")

    def select(self, columns: Sequence[str]) -> RowSource:
        """The same rows with some of the columns, by name."""
        raise TypeError(f"{type(self).__name__} has no columns by name.")

    def subset(self, numbers: Indices) -> RowSource:
        """The rows with the given ascending numbers; they stay where they are."""
        return RowSubset(self, numbers)

    def take(self, numbers: Indices) -> Any:
        """Rows by their numbers, in the order given; only blocks with one of them are read."""
        ascending, position = np.unique(row_numbers(numbers, len(self)), return_inverse=True)
        pieces = [self.read(slice(0, 0))]
        for rows in self.slices():
            first, last = np.searchsorted(ascending, [rows.start, rows.stop])
            if first < last:
                pieces.append(self.read(rows)[ascending[first:last] - rows.start])
        return stack(pieces)[position]

    def release(self, cache: BlockCache) -> None:  # noqa: B027
        """Drop what the workers of a cluster hold for a cache that is no longer needed."""

    def map_reduce(
        self,
        function: Function,
        combine: Combine,
        *,
        by_row: Sequence[Any] = (),
        shared: Sequence[Any] = (),
        prepare: Function | None = None,
        cache: BlockCache | None = None,
    ) -> Any:
        """``combine`` the values of ``function`` on all blocks, in order; None without rows.

        ``function(block, *by_row, *shared)`` is called with the rows of ``by_row`` (arrays of
        n_rows rows) that belong to the block, and must be picklable, because it may run in a
        worker. ``combine(total, value)`` returns the new total and may change the old one; the
        first total is the first value. ``prepare`` computes the block that ``function`` takes
        from the rows, and ``cache`` keeps prepared blocks from one call to the next; the workers
        of a cluster keep them in its place until :meth:`release`.
        """
        values = self._block_values(function, by_row, shared, prepare, cache)
        with single_thread():  # also outside a fit, see rule 3 above
            first = next(values, None)
            return first if first is None else reduce(combine, values, first)

    def _block_values(
        self,
        function: Function,
        by_row: Sequence[Any],
        shared: Sequence[Any],
        prepare: Function | None,
        cache: BlockCache | None,
    ) -> Iterator[Any]:
        for number, rows in enumerate(self.slices()):
            # Contiguous, as on a cluster: BLAS may round strided operands differently.
            own = (np.ascontiguousarray(array[rows]) for array in by_row)
            # The block has no name here: it would stay in memory while the next one is made.
            read = partial(self.read, rows)
            yield function(prepared_block(number, read, prepare, cache), *own, *shared)


def prepared_block(
    number: int, read: Callable[[], Any], prepare: Function | None, cache: BlockCache | None
) -> Any:
    """A block as functions take it, from the cache if it is there."""
    block = None if cache is None else cache.get(number)
    if block is None:
        block = read()
        if prepare is not None:
            block = prepare(block)
            if cache is not None:
                cache.offer(number, block)
    return block


def add_sums(total: list[Any], value: list[Any]) -> list[Any]:
    """A ``combine`` for functions that return a list of sums."""
    return [a + b for a, b in zip(total, value, strict=True)]


def slice_bounds(rows: slice, n_rows: int) -> tuple[int, int]:
    """First and last bound of a slice of consecutive rows."""
    start, stop, step = rows.indices(n_rows)
    if step != 1:
        raise ValueError(f"Rows are read consecutively, not in steps of {step}: use take.")
    return start, max(start, stop)


def row_numbers(numbers: Any, n_rows: int) -> Indices:
    """Row numbers, counted from 0; a mask of all rows becomes the numbers it selects."""
    numbers = np.asarray(numbers)
    if numbers.dtype == bool and numbers.shape == (n_rows,):
        return np.flatnonzero(numbers)
    if len(numbers) and (numbers.dtype.kind not in "iu" or numbers.min() < 0):
        raise IndexError("Rows are chosen by whole numbers from 0 on, or by a mask of all rows.")
    if len(numbers) and numbers.max() >= n_rows:
        raise IndexError(f"There is no row {numbers.max()}: the source has {n_rows} rows.")
    return numbers.astype(np.intp, copy=False)


def stack(blocks: list[Any]) -> Any:
    """Blocks of rows as one, dense or sparse."""
    if isinstance(blocks[0], np.ndarray):
        return np.concatenate(blocks)
    return sparse.vstack(blocks, format="csr")


class RowSubset(RowSource):
    """The rows of a source with the given ascending numbers."""

    def __init__(self, rows: RowSource, numbers: Any) -> None:
        self.rows, self.numbers = rows, np.asarray(numbers)
        self.shape, self.dtype = (len(self.numbers), rows.shape[1]), rows.dtype
        if (np.diff(self.numbers) <= 0).any():
            raise ValueError("The numbers of rows must ascend: give np.unique(numbers).")

    def read(self, rows: slice) -> Any:
        """Consecutive rows of these."""
        numbers = self.numbers[slice(*slice_bounds(rows, len(self)))]
        if not len(numbers):
            return self.rows.read(slice(0, 0))
        # One block of the source at a time: rows that lie far apart must not bring everything
        # between them into memory.
        ends = np.flatnonzero(np.diff(numbers // self.rows.block_rows)) + 1
        groups = np.split(numbers, ends)
        return stack([self.rows.read(slice(g[0], g[-1] + 1))[g - g[0]] for g in groups])

    def take(self, numbers: Any) -> Any:
        """Rows by their numbers among these, in the order given."""
        return self.rows.take(self.numbers[row_numbers(numbers, len(self))])


class RowReader:
    """Random access to a source: ``reader[slice]`` or ``reader[numbers]``, as dense arrays.

    The last block is cached: numbers that stay within a block for a while cost one reading of
    it, numbers from everywhere one reading of every block.
    """

    def __init__(self, rows: RowSource) -> None:
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
        blocks = np.unique(numbers // step).tolist()
        if len(blocks) == 1:
            return self._block(blocks[0])[numbers % step]
        chosen = np.empty((len(numbers), self.shape[1]), self.dtype)
        for block in blocks:
            own = np.flatnonzero(numbers // step == block)
            chosen[own] = self._block(block)[numbers[own] % step]
        return chosen

    def shuffled(self, numbers: Any, random: np.random.RandomState) -> Any:
        """A random order of row numbers that visits one block after the other."""
        # A uniform shuffle would read a block for almost every row; shuffling the blocks and the
        # rows within each reads every block once.
        blocks = numbers // self.rows.block_rows
        block_order = random.permutation(-(-len(self) // self.rows.block_rows))
        return np.lexsort((random.random_sample(len(numbers)), block_order[blocks]))

    def _block(self, number: int) -> Any:
        if self._last[0] != number:
            block = self.rows.read(self.rows.slices()[number])
            self._last = (number, block.toarray() if sparse.issparse(block) else block)
        return self._last[1]


class ArrayRows(RowSource):
    """Rows of an array or a sparse matrix; numbers other than float32 become float64.

    Examples
    --------
    >>> import numpy as np
    >>> from kernlet.rows import ArrayRows
    >>> rows = ArrayRows(np.arange(6.0).reshape(3, 2))
    >>> float(rows.map_reduce(np.sum, lambda total, value: total + value))
    15.0
    """

    def __init__(self, X: Any) -> None:
        if sparse.issparse(X):
            X = X.tocsr()
        elif not hasattr(X, "dtype"):
            X = np.asarray(X)
        require_number_rows(X)
        self.X = X
        self.shape = (int(X.shape[0]), int(X.shape[1]))
        self.dtype = np.dtype(np.float32 if X.dtype == np.float32 else np.float64)

    def read(self, rows: slice) -> Any:
        """Consecutive rows; a view where no conversion is needed."""
        start, stop = slice_bounds(rows, len(self))
        return self.X[start:stop].astype(self.dtype, copy=False)

    def take(self, numbers: Any) -> Any:
        """Rows by their numbers, in the order given."""
        return self.X[row_numbers(numbers, len(self))].astype(self.dtype, copy=False)


class PiecewiseRows(RowSource):
    """Rows in consecutive pieces of any size, each loaded as a whole, such as row groups of files.

    A subclass sets ``starts``, the first row of each piece and the number of rows, too.
    """

    starts: Indices
    _last: tuple[int, Any] = (-1, None)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_last": (-1, None)}

    @abstractmethod
    def load_piece(self, number: int) -> Any:
        """The rows of a piece as an array."""

    def read(self, rows: slice) -> Any:
        """Consecutive rows."""
        start, stop = slice_bounds(rows, len(self))
        first = int(np.searchsorted(self.starts, start, side="right")) - 1
        pieces = [np.empty((0, self.shape[1]), self.dtype)]
        for number in range(first, int(np.searchsorted(self.starts[:-1], stop))):
            if self._last[0] != number:  # the last piece is cached: blocks end within pieces
                self._last = (-1, None)  # free it before the next one is allocated
                self._last = (number, self.load_piece(number))
            origin = int(self.starts[number])
            pieces.append(self._last[1][max(0, start - origin) : stop - origin])
        return np.concatenate(pieces)
