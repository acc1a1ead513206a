"""Atomic file writes and resumable checkpoints."""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from numbers import Integral, Real
from pathlib import Path
from typing import Any, TypeVar
from zipfile import BadZipFile
from zlib import error as ZlibError  # noqa: N812

import numpy as np
from scipy import sparse

_CHECKPOINT_FORMAT = 1

#: Errors that reading a corrupt file may raise.
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

Content = TypeVar("Content")


@contextmanager
def atomic_write(path: Path) -> Iterator[Path]:
    """Yield a temporary file beside ``path`` that replaces it when the block succeeds."""
    # A device or a pipe cannot be replaced: it is written to directly.
    if path.exists() and (path.parent == Path("/dev") or not path.is_file()):
        yield path
        return
    # mkstemp creates a new file under an unpredictable name, so that a symbolic link planted at
    # a guessed name is never followed and two writers never share a file.
    prefix = f".{path.name[:50]}."
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=prefix, suffix=".part")
    os.close(descriptor)
    temporary = Path(name)
    try:
        yield temporary
        # mkstemp's files are private, a new file is not. The umask can only be read by setting it.
        mask = os.umask(0o077)
        os.umask(mask)
        temporary.chmod(0o666 & ~mask)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


class Checkpoint:
    """One .npz file from which one fit resumes: these parameters on these data.

    The file holds arrays and a JSON header with a fingerprint of parameters and data; the
    checkpoint of another fit is refused.
    """

    def __init__(self, path: Path, fingerprint: str) -> None:
        self.path = path
        self.fingerprint = fingerprint
        # Now, so that a folder that cannot be made fails before hours of work and not after.
        path.parent.mkdir(parents=True, exist_ok=True)

    @classmethod
    def of_fit(cls, path: Path, parameters: dict[str, Any], *arrays: Any) -> Checkpoint:
        """The checkpoint of a fit with these parameters (``random_state`` among them) and data."""
        if not isinstance(parameters["random_state"], Integral):
            raise ValueError(
                "A checkpoint needs a whole number as random_state; otherwise a later fit would "
                "draw other samples."
            )
        return cls(path, fingerprint(parameters, *arrays))

    def save(self, header: dict[str, Any], **arrays: Any) -> None:
        """Replace the file atomically; the header holds JSON values."""
        header = {"format": _CHECKPOINT_FORMAT, "fingerprint": self.fingerprint, **header}
        content = np.frombuffer(json.dumps(header).encode(), dtype=np.uint8)
        with atomic_write(self.path) as temporary, open(temporary, "wb") as file:
            np.savez(file, header=content, **arrays)

    def load(self, decode: Callable[[dict[str, Any], Any], Content]) -> Content | None:
        """What ``decode(header, arrays)`` returns; None where there is no file."""
        if not self.path.exists():
            return None
        try:
            with np.load(self.path, allow_pickle=False) as arrays:
                header = json.loads(arrays["header"].tobytes())
                content = decode(header, arrays)
                written_by = (header["format"], header["fingerprint"])
        except PermissionError:
            raise
        except DAMAGE as error:
            raise ValueError(
                f"The checkpoint {self.path} is corrupt ({error}). Delete it to start from scratch."
            ) from error
        if written_by != (_CHECKPOINT_FORMAT, self.fingerprint):
            raise ValueError(
                f"The checkpoint {self.path} belongs to another fit: parameters or data differ. "
                "Give another folder, or delete it to start from scratch."
            )
        return content


def fingerprint(parameters: dict[str, Any], *arrays: Any) -> str:
    """SHA-256 of parameters and arrays, dense or sparse."""
    canonical = sorted((name, _canonical(value)) for name, value in parameters.items())
    digest = hashlib.sha256(repr(canonical).encode())
    for array in arrays:
        digest.update(str(array.shape).encode())
        is_sparse = sparse.issparse(array)
        for buffer in (array.data, array.indices, array.indptr) if is_sparse else (array,):
            digest.update(str(buffer.dtype).encode())
            # The bytes of an object array are addresses.
            is_object = buffer.dtype == object
            digest.update(repr(buffer.tolist()).encode() if is_object else buffer.tobytes())
    return digest.hexdigest()


def _canonical(value: Any) -> str:
    """The same text for equal values: 10 and 10.0, a list and an array."""
    if isinstance(value, dict):
        return repr(sorted((repr(key), _canonical(entry)) for key, entry in value.items()))
    if isinstance(value, list | tuple | np.ndarray):
        return repr([_canonical(entry) for entry in value])
    if isinstance(value, Real):
        return repr(float(value))
    return repr(value)
