"""Prepared blocks that the workers of a cluster keep from one pass to the next."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from kernlet.rows.source import BlockStore, Function, Rows, consecutive, row_numbers

#: Of this process, by the name of the store in the client that they stand for.
_kept: dict[str, BlockStore] = {}


def kept_blocks(name: str, max_bytes: int) -> BlockStore:
    """The blocks that this worker keeps in place of a store of the client.

    A worker that is lost takes its blocks with it: they are made anew elsewhere.

    Parameters
    ----------
    name : str
        Of the store; blocks of another one are let go.
    max_bytes : int

    Returns
    -------
    store : BlockStore
    """
    if name not in _kept:
        _kept.clear()
        _kept[name] = BlockStore(max_bytes)
    return _kept[name]


def let_go(name: str) -> None:
    """Forget the blocks that stand for a store."""
    _kept.pop(name, None)


def active_client() -> Any:
    """Dask's client, or None."""
    try:
        from distributed import default_client

        return default_client()
    except (ImportError, ValueError):  # ValueError: there is no client
        return None


_WARN_OF_SIZE = "distributed.admin.large-graph-warning-threshold"
_WAVE = 16  # blocks under way, at least; their values wait here for their turn


class DaskRows(Rows):
    """Rows of a Dask array or dataframe.

    Work on blocks runs on the active client, or on Dask's threads without one, and its values
    are combined here in the order of the blocks: the answer is that of any other source of the
    same rows, bit for bit. All that a block needs travels with its task, so that a worker can be
    lost; kernel blocks that a method comes back to are kept by the workers, which share the memory
    for them. The rows are cut anew into blocks of the usual bounds; persist a collection
    that fits the workers' memory, or every pass computes it again.

    Parameters
    ----------
    collection : dask array or dask dataframe
    """

    def __init__(self, collection: Any) -> None:
        self._frame = collection if hasattr(collection, "to_dask_array") else None
        array = collection
        self._no_numbers: str | None = None
        if self._frame is not None:
            self.columns = [str(name) for name in collection.columns]
            self._no_numbers = _column_without_numbers(collection)
            array = _as_floats(collection).to_dask_array(lengths=True)
        elif np.isnan(np.array(array.shape, dtype=float)).any():
            array = array.compute_chunk_sizes()
        if hasattr(array._meta, "toarray"):
            raise TypeError(
                "The chunks of the Dask array are sparse matrices. Make them dense, one at a time, "
                "with X.map_blocks(lambda chunk: chunk.toarray())."
            )
        if array.ndim != 2:
            raise ValueError(f"Rows are an array of two dimensions, not {array.ndim}.")
        self.shape = (int(array.shape[0]), int(array.shape[1]))
        self.dtype = np.dtype(np.float32 if array.dtype == np.float32 else np.float64)
        self.array = array.rechunk((self.block_rows, max(1, self.shape[1])))

    def split(self, column: str) -> tuple[Rows, Any]:
        """The rows without a column, and that column."""
        if self._frame is None:
            raise TypeError("A Dask array has no columns by name: give y as an array.")
        if column not in self.columns:
            raise ValueError(f"The dataframe has no column {column!r}; it has {self.columns}.")
        labels = np.asarray(self._frame[column].compute())
        return DaskRows(self._frame.drop(columns=column)), labels

    def select(self, columns: Sequence[str]) -> Rows:
        """The same rows with some of the columns."""
        return (
            super().select(columns) if self._frame is None else DaskRows(self._frame[list(columns)])
        )

    def _require_numbers(self) -> None:
        if self._no_numbers is not None:
            raise ValueError(
                f"Column {self._no_numbers} of the dataframe holds other things than numbers. Drop "
                "it, or make numbers of it."
            )

    def read(self, rows: slice) -> Any:
        """Consecutive rows, brought here."""
        self._require_numbers()
        return np.asarray(self.array[slice(*consecutive(rows, len(self)))].compute()).astype(
            self.dtype, copy=False
        )

    def some(self, numbers: Any) -> Rows:
        """Some of the rows by their numbers, which ascend; they stay on the workers."""
        return DaskRows(self.array[row_numbers(numbers, len(self))])

    def take(self, numbers: Any) -> Any:
        """Rows by their numbers, in the order given, brought here."""
        self._require_numbers()
        ascending, back = np.unique(row_numbers(numbers, len(self)), return_inverse=True)
        chosen = np.asarray(self.array[ascending].compute())
        return chosen.astype(self.dtype, copy=False)[back]

    def _values(
        self,
        function: Function,
        by_row: Sequence[Any],
        shared: Sequence[Any],
        prepare: Function | None,
        store: BlockStore | None,
    ) -> Iterator[Any]:
        import dask

        self._require_numbers()
        blocks, slices = self.array.to_delayed().ravel(), self.slices()
        client = active_client()
        run = dask.delayed(_run, pure=False, traverse=False)
        task = dask.delayed(
            _Task(function, prepare, self.dtype, tuple(shared), _share_of(store, client)),
            traverse=False,
        )
        step = _under_way(client)
        for first in range(0, len(slices), step):
            wave = range(first, min(first + step, len(slices)))
            parts = [tuple(_to_send(a[slices[k]]) for a in by_row) for k in wave]
            tasks = [run(task, blocks[k], part, k) for k, part in zip(wave, parts, strict=True)]
            with dask.config.set({_WARN_OF_SIZE: "1 GiB"}):  # numbers of rows travel by intent
                yield from dask.compute(*tasks)

    def release(self, store: BlockStore) -> None:
        """Let the workers forget what they keep for a store."""
        let_go(store.name)
        client = active_client()
        if client is not None:
            client.run(let_go, store.name, on_error="ignore")


def _column_without_numbers(frame: Any) -> str | None:
    """The first column of texts, times or categories, with its type."""
    for name, kind in frame.dtypes.items():
        if getattr(kind, "kind", "O") not in "biuf":
            return f"{str(name)!r} ({kind})"
    return None


def _as_floats(frame: Any) -> Any:
    """Columns of pandas' own number types, which may lack values, as floats with NaN."""
    own = [n for n, kind in frame.dtypes.items() if not isinstance(kind, np.dtype)]
    numbers = [name for name in own if getattr(frame.dtypes[name], "kind", "O") in "biuf"]
    return frame.astype(dict.fromkeys(numbers, "float64")) if numbers else frame


def _under_way(client: Any) -> int:
    """Blocks handed out together: two for each thread of a cluster, and no fewer than 16."""
    return max(_WAVE, 0 if client is None else 2 * sum(client.nthreads().values()))


def _share_of(store: BlockStore | None, client: Any) -> tuple[str, int] | None:
    """The name of a store and the bytes that each worker may keep of its blocks."""
    if store is None:
        return None
    return store.name, store.max_bytes // max(1, 0 if client is None else len(client.nthreads()))


def _to_send(part: Any) -> Any:
    """What travels of the numbers of a block: one row, where an array repeats it."""
    return np.ascontiguousarray(part[:1] if part.strides[0] == 0 else part)


class _Task:
    """What is done with every block; it travels with the tasks."""

    def __init__(
        self,
        function: Function,
        prepare: Function | None,
        dtype: Any,
        shared: tuple[Any, ...],
        keeping: tuple[str, int] | None,
    ) -> None:
        self.function, self.prepare, self.dtype, self.shared = function, prepare, dtype, shared
        self.keeping = keeping

    def prepared(self, block: Any, number: int) -> Any:
        """A block as the function takes it; made once, where this process may keep it."""
        kept = None if self.keeping is None else kept_blocks(*self.keeping)
        found = None if kept is None else kept.get(number)
        if found is not None:
            return found
        rows = np.ascontiguousarray(np.asarray(block).astype(self.dtype, copy=False))
        if self.prepare is None:
            return rows
        made = self.prepare(rows)
        if kept is not None:
            kept.offer(number, made)
        return made


def _run(task: _Task, block: Any, by_row: tuple[Any, ...], number: int) -> Any:
    """The value of a block, in whatever process; one BLAS thread, for equal rounding."""
    with threadpool_limits(1):
        prepared = task.prepared(block, number)
        whole = (np.broadcast_to(part, (len(block), *part.shape[1:])) for part in by_row)
        return task.function(prepared, *map(np.ascontiguousarray, whole), *task.shared)
