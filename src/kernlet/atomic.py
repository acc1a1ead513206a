"""Atomic file writes, and what resumable checkpoints share."""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from numbers import Real
from pathlib import Path
from typing import Any
from zipfile import BadZipFile
from zlib import error as ZlibError  # noqa: N812

import numpy as np
from scipy import sparse


@contextmanager
def atomic_write(path: Path) -> Iterator[Path]:
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


#: What reading a damaged file may raise.
DAMAGE = (
    AttributeError,
    BadZipFile,
    EOFError,
    KeyError,
    OSError,
    OverflowError,
    RuntimeError,  # also NotImplementedError and RecursionError
    TypeError,
    ValueError,
    ZlibError,
)


def fingerprint(parameters: dict[str, Any], *arrays: Any) -> str:
    """A hash of parameters and arrays, dense or sparse."""
    plain = sorted((name, _plain(value)) for name, value in parameters.items())
    digest = hashlib.sha256(repr(plain).encode())
    for array in arrays:
        digest.update(str(array.shape).encode())
        parts = (array.data, array.indices, array.indptr) if sparse.issparse(array) else (array,)
        for part in parts:
            digest.update(str(part.dtype).encode())
            digest.update(_bytes(part))
    return digest.hexdigest()


def _plain(value: Any) -> str:
    """The same text for equal values: 10 and 10.0, a list and an array."""
    if isinstance(value, dict):
        return repr(sorted((repr(key), _plain(entry)) for key, entry in value.items()))
    if isinstance(value, list | tuple | np.ndarray):
        return repr([_plain(entry) for entry in value])
    if isinstance(value, Real):
        return repr(float(value))
    return repr(value)


def _bytes(array: Any) -> bytes:
    if array.dtype == object:
        return repr(array.tolist()).encode()
    return bytes(np.ascontiguousarray(array).tobytes())
