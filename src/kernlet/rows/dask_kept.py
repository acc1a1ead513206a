"""Prepared blocks that the workers of a cluster keep from one pass to the next."""

from __future__ import annotations

from typing import Any

from kernlet.rows.source import BlockStore

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
