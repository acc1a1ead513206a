"""The tensors of a safetensors file, looked at before they are read."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from kernlet.export.fields import ModelFileError
from kernlet.kernels.kernel import Floats

DIGEST_KEY = "sha256"
_LARGEST_HEADER = 16 << 20  # bytes
_DTYPES = {"F64": np.float64, "F32": np.float32, "F16": np.float16, "I64": np.int64, "U8": np.uint8}


def digest(text: str, tensors: Mapping[str, Any]) -> str:
    """What tells an edited file from the one that was written: SHA-256 of metadata and tensors."""
    made = hashlib.sha256(text.encode())
    for name in sorted(tensors):
        tensor = np.ascontiguousarray(tensors[name])
        made.update(f"{name} {tensor.dtype.str} {tensor.shape}".encode())
        made.update(tensor.data if tensor.size else b"")
    return made.hexdigest()


@contextmanager
def open_tensors(path: Path, max_bytes: int) -> Iterator[Tensors]:
    """The tensors of a file whose sizes have been checked against each other.

    Parameters
    ----------
    path : Path
    max_bytes : int
        Larger files are refused.

    Yields
    ------
    tensors : Tensors
    """
    from safetensors import SafetensorError, safe_open

    size = path.stat().st_size
    if size > max_bytes:
        raise ModelFileError(
            f"takes {size} bytes; give load a larger max_bytes than {max_bytes} to read it."
        )
    with path.open("rb") as file:
        start = file.read(9)
    header = int.from_bytes(start[:8], "little")
    if len(start) < 9 or start[8:] != b"{" or header > min(size - 8, _LARGEST_HEADER):
        raise ModelFileError("is damaged, or no file that kernlet wrote.")
    try:
        with safe_open(path, framework="numpy") as opened:
            yield Tensors(opened, max_bytes)
    except SafetensorError as error:
        raise ModelFileError(f"is damaged: {str(error).splitlines()[0]}.") from None


class Tensors:
    """Tensors by name, each of a dtype and a number of dimensions that is asked for."""

    def __init__(self, opened: Any, max_bytes: int) -> None:
        self.opened, self.max_bytes = opened, max_bytes
        self.metadata: dict[str, str] = opened.metadata() or {}
        self.names = set(opened.keys())
        self.read: dict[str, Any] = {}

    def __contains__(self, name: str) -> bool:
        return name in self.names

    def _read(self, name: str, dtypes: tuple[Any, ...], n_dimensions: int | None) -> Any:
        if name not in self.names:
            raise ModelFileError(f"is damaged: it lacks the tensor {name!r}.")
        slice = self.opened.get_slice(name)
        dtype, shape = _DTYPES.get(slice.get_dtype()), slice.get_shape()
        if dtype not in dtypes or (n_dimensions is not None and len(shape) != n_dimensions):
            raise ModelFileError(
                f"is damaged: the tensor {name!r} is of type {slice.get_dtype()} and of "
                f"{len(shape)} dimensions."
            )
        self.read[name] = self.opened.get_tensor(name)
        return self.read[name]

    def floats(self, name: str, n_dimensions: int) -> Floats:
        """Finite numbers in float32 or float64."""
        values = self._read(name, (np.float32, np.float64), n_dimensions)
        if not np.isfinite(values).all():
            raise ModelFileError(
                f"is damaged: the tensor {name!r} holds numbers that are not finite."
            )
        return values

    def whole(self, name: str) -> Any:
        """A row of whole numbers."""
        return self._read(name, (np.int64,), 1)

    def codes(self, name: str, dtype: Any) -> Any:
        """The codes of a table."""
        return self._read(name, (np.dtype(dtype).type,), None)

    def require_as_written(self, text: str) -> None:
        """Refuse tensors that belong to nothing, and numbers that were changed since."""
        spare = sorted(self.names - set(self.read))
        if spare:
            raise ModelFileError(f"is damaged: nothing uses its tensor {spare[0][:40]!r}.")
        if self.metadata.get(DIGEST_KEY) != digest(text, self.read):
            raise ModelFileError("is damaged: it was changed after it was written.")
