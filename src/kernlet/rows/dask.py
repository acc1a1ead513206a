"""Rows of Dask collections; their blocks are computed, and kept, by the workers of a cluster."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from kernlet.rows.source import (
    BlockCache,
    Function,
    RowSource,
    prepared_block,
    require_number_rows,
    row_numbers,
    slice_bounds,
)
from kernlet.threads import single_thread

# The caches of this worker process, by the name of the client's cache that they stand for. There
# is at most one: a second name means that the client started another fit.
_worker_caches: dict[str, BlockCache] = {}

_LARGE_GRAPH = "distributed.admin.large-graph-warning-threshold"
_MIN_IN_FLIGHT = 16  # blocks; enough to keep a few threads busy while values are combined here


def worker_cache(name: str, max_bytes: int) -> BlockCache:
    """A worker's cache in place of one of the client; caches of other names are dropped."""
    # A lost worker takes its blocks with it: other workers compute them again.
    if name not in _worker_caches:
        _worker_caches.clear()
        _worker_caches[name] = BlockCache(max_bytes)
    return _worker_caches[name]


def drop_worker_cache(name: str) -> None:
    """Free the blocks that this worker holds for a cache of the client."""
    _worker_caches.pop(name, None)


def active_client() -> Any:
    """Dask's client, or None."""
    try:
        from distributed import default_client

        return default_client()
    except (ImportError, ValueError):  # ValueError: there is no client
        return None


class DaskRows(RowSource):
    """Rows of a Dask array or dataframe.

    Blocks are computed by the active client, or by Dask's threads without one, and their values
    are combined here in the order of the blocks: the answer is that of any other source of the
    same rows, bit for bit. Everything a block needs travels with its task, so that a worker can be
    lost. Kernel blocks that a method returns to are cached by the workers, which share the memory
    for them. The rows are rechunked to the usual block bounds; persist a collection that fits the
    workers' memory, or every pass computes it again.
    """

    def __init__(self, collection: Any) -> None:
        self._frame = collection if hasattr(collection, "to_dask_array") else None
        array = collection
        # Refused when rows are read, not here: the column may be the labels, which split removes.
        self._non_numeric: str | None = None
        if self._frame is not None:
            self.columns = [str(name) for name in collection.columns]
            self._non_numeric = _non_numeric_column(collection)
            array = _as_floats(collection).to_dask_array(lengths=True)
        elif np.isnan(np.array(array.shape, dtype=float)).any():
            array = array.compute_chunk_sizes()
        if hasattr(array._meta, "toarray"):
            raise TypeError(
                "The chunks of the Dask array are sparse matrices. Make them dense, one at a time, "
                "with X.map_blocks(lambda chunk: chunk.toarray())."
            )
        require_number_rows(array)
        self.shape = (int(array.shape[0]), int(array.shape[1]))
        self.dtype = np.dtype(np.float32 if array.dtype == np.float32 else np.float64)
        self.array = array.rechunk((self.block_rows, max(1, self.shape[1])))

    def split(self, column: str) -> tuple[RowSource, Any]:
        """The rows without a column, and that column."""
        if self._frame is None:
            raise TypeError("A Dask array has no columns by name: give y as an array.")
        if column not in self.columns:
            raise ValueError(f"The dataframe has no column {column!r}; it has {self.columns}.")
        labels = np.asarray(self._frame[column].compute())
        return DaskRows(self._frame.drop(columns=column)), labels

    def select(self, columns: Sequence[str]) -> RowSource:
        """The same rows with some of the columns."""
        if self._frame is None:
            return super().select(columns)
        return DaskRows(self._frame[list(columns)])

    def read(self, rows: slice) -> Any:
        """Consecutive rows, brought into this process."""
        return self._computed(self.array[slice(*slice_bounds(rows, len(self)))])

    def subset(self, numbers: Any) -> RowSource:
        """The rows with the given ascending numbers; they stay on the workers."""
        return DaskRows(self.array[row_numbers(numbers, len(self))])

    def take(self, numbers: Any) -> Any:
        """Rows by their numbers, in the order given, brought into this process."""
        ascending, position = np.unique(row_numbers(numbers, len(self)), return_inverse=True)
        return self._computed(self.array[ascending])[position]

    def release(self, cache: BlockCache) -> None:
        """Drop what the workers hold for a cache."""
        drop_worker_cache(cache.name)
        client = active_client()
        if client is not None:
            client.run(drop_worker_cache, cache.name, on_error="ignore")

    def _computed(self, array: Any) -> Any:
        self._require_numbers()
        computed = np.asarray(array.compute()).astype(self.dtype, copy=False)
        return _of_shape(computed, array.shape)

    def _require_numbers(self) -> None:
        if self._non_numeric is not None:
            raise ValueError(
                f"Column {self._non_numeric} of the dataframe does not hold numbers. Drop it, or "
                "convert it to numbers."
            )

    def _block_values(
        self,
        function: Function,
        by_row: Sequence[Any],
        shared: Sequence[Any],
        prepare: Function | None,
        cache: BlockCache | None,
    ) -> Iterator[Any]:
        import dask

        self._require_numbers()
        blocks, slices = self.array.to_delayed().ravel(), self.slices()
        client = active_client()
        threads = {} if client is None else client.nthreads()  # by worker
        # The workers share the memory of the cache.
        share = None if cache is None else (cache.name, cache.max_bytes // max(1, len(threads)))
        task = _BlockTask(function, prepare, self.dtype, tuple(shared), share)
        # The task is one object of the graph, which travels once to each worker, not per block.
        task = dask.delayed(task, traverse=False)
        run = dask.delayed(_run, pure=False, traverse=False)
        # Values wait for their turn to be combined; more blocks in flight would take more memory.
        in_flight = max(_MIN_IN_FLIGHT, 2 * sum(threads.values()))
        for first in range(0, len(slices), in_flight):
            batch = range(first, min(first + in_flight, len(slices)))
            own = [tuple(_to_send(array[slices[k]]) for array in by_row) for k in batch]
            sizes = [(slices[k].stop - slices[k].start, self.shape[1]) for k in batch]
            chosen = zip(batch, own, sizes, strict=True)
            tasks = [run(task, blocks[k], arrays, k, size) for k, arrays, size in chosen]
            with dask.config.set({_LARGE_GRAPH: "1 GiB"}):  # arrays by row travel by intent
                yield from dask.compute(*tasks)


def _non_numeric_column(frame: Any) -> str | None:
    """The first column of strings, times or categories, with its type."""
    for name, kind in frame.dtypes.items():
        if getattr(kind, "kind", "O") not in "biuf":
            return f"{str(name)!r} ({kind})"
    return None


def _as_floats(frame: Any) -> Any:
    """Columns of pandas' nullable number types as floats, missing values as NaN."""
    nullable = [name for name, kind in frame.dtypes.items() if not isinstance(kind, np.dtype)]
    numbers = [name for name in nullable if getattr(frame.dtypes[name], "kind", "O") in "biuf"]
    return frame.astype(dict.fromkeys(numbers, "float64")) if numbers else frame


def _to_send(array: Any) -> Any:
    """An array to send with a task: one row of it where all are the same memory."""
    return np.ascontiguousarray(array[:1] if array.strides[0] == 0 else array)


@dataclass(frozen=True, eq=False)
class _BlockTask:
    """What is done with every block; it travels with the tasks."""

    function: Function
    prepare: Function | None
    dtype: Any
    shared: tuple[Any, ...]
    cache_share: tuple[str, int] | None


def _of_shape(rows: Any, shape: tuple[int, ...]) -> Any:
    """Rows that a chunk of a Dask collection computes, if it has as many as it claims."""
    if rows.shape != tuple(shape):
        raise ValueError(
            f"A chunk of the Dask collection has shape {rows.shape} instead of {tuple(shape)}: "
            "correct the chunks or the meta that map_blocks was given."
        )
    return rows


def _run(
    task: _BlockTask, block: Any, by_row: tuple[Any, ...], number: int, shape: tuple[int, int]
) -> Any:
    """The value of a block, on one BLAS thread as everywhere."""

    def read() -> Any:
        rows = np.asarray(block).astype(task.dtype, copy=False)
        return np.ascontiguousarray(_of_shape(rows, shape))

    with single_thread():
        cache = None if task.cache_share is None else worker_cache(*task.cache_share)
        prepared = prepared_block(number, read, task.prepare, cache)
        whole = (np.broadcast_to(array, (len(block), *array.shape[1:])) for array in by_row)
        return task.function(prepared, *map(np.ascontiguousarray, whole), *task.shared)
