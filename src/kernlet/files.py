"""Files that are there whole or not at all."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def written_whole(path: Path) -> Iterator[Path]:
    """A temporary name to write to; it becomes ``path`` when all has gone well.

    The name is one that nobody can foresee, and the file behind it is new.

    Parameters
    ----------
    path : Path

    Yields
    ------
    temporary : Path
        Beside ``path``; removed if writing fails. A device or a pipe is written to itself.
    """
    if path.exists() and (path.parent == Path("/dev") or not path.is_file()):
        yield path
        return
    start = f".{path.name[:50]}."
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=start, suffix=".part")
    os.close(descriptor)
    temporary = Path(name)
    try:
        yield temporary
        temporary.chmod(0o666 & ~_umask())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def _umask() -> int:
    """Permissions that new files do not get; there is no way to ask without setting it."""
    mask = os.umask(0o077)
    os.umask(mask)
    return mask
