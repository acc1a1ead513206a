"""Files that are there whole or not at all."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def written_whole(path: Path) -> Iterator[Path]:
    """A temporary name to write to; it becomes ``path`` when all has gone well.

    Parameters
    ----------
    path : Path

    Yields
    ------
    temporary : Path
        Beside ``path``; removed if writing fails.
    """
    temporary = path.with_name(f".{path.name}.part")
    try:
        yield temporary
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
