"""Reading .npy and .npz files whose headers are checked before any memory is taken for them."""

from __future__ import annotations

import math
import os
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import numpy as np

_HEADERS = {
    (1, 0): np.lib.format.read_array_header_1_0,
    (2, 0): np.lib.format.read_array_header_2_0,
}
# Deflate encodes at most 258 bytes in two bits, which bounds what a compressed array can hold.
_MAX_RATIO = {zipfile.ZIP_STORED: 1, zipfile.ZIP_DEFLATED: 1032}


def read_npy_header(file: IO[bytes], n_bytes: int) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """Shape, column order and dtype of an array file of ``n_bytes`` bytes, which hold them all."""
    try:
        shape, is_fortran, dtype = _HEADERS[np.lib.format.read_magic(file)](file)
    # The header is Python source: besides ValueError, numpy passes on what its parser raises.
    except Exception:
        raise ValueError(
            "the header of the array is corrupt, or of an unknown version: write it again with "
            "np.save."
        ) from None
    if dtype.hasobject:
        raise ValueError("it holds Python objects, not plain numbers or texts.")
    held = n_bytes - file.tell()
    if min(shape, default=0) < 0 or math.prod(shape) * dtype.itemsize > held:
        raise ValueError(
            f"it claims {dtype} values of shape {shape}, but has {held:,} bytes: it is corrupt."
        )
    return shape, is_fortran, dtype


@contextmanager
def open_npz(path: Path) -> Iterator[Any]:
    """Open an .npz file as ``np.load`` does; ValueError if its arrays are not what they claim."""
    check_archive(path)
    with np.load(path, allow_pickle=False) as arrays:
        yield arrays


def check_archive(path: Path) -> None:
    """Compare the sizes that a ZIP archive and the arrays in it claim with those that they have."""
    n_bytes = os.path.getsize(path)
    with zipfile.ZipFile(path) as archive:
        for member in archive.infolist():
            ratio = _MAX_RATIO.get(member.compress_type, 0)
            if not member.file_size <= ratio * min(member.compress_size, n_bytes):
                raise ValueError(f"the size of {member.filename!r} in it is corrupt.")
            if not member.filename.endswith(".npy"):
                continue
            try:
                with archive.open(member) as file:
                    read_npy_header(file, member.file_size)
            except ValueError as error:
                raise ValueError(f"{member.filename!r} in it: {error}") from None
