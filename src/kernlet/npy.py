"""The arrays of .npy and .npz files, whose claims are checked before any memory is taken."""

from __future__ import annotations

import os
import warnings
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from math import prod
from pathlib import Path
from typing import IO, Any

import numpy as np

_HEADERS = {
    (1, 0): np.lib.format.read_array_header_1_0,
    (2, 0): np.lib.format.read_array_header_2_0,
}
_MAX_EXPANSION = 1100  # bytes per compressed byte: deflate, which NumPy uses, reaches 1,032


def read_npy_header(file: IO[bytes], name: str) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """Shape, whether columns come first, and type of the array that follows."""
    try:
        # the header is a Python expression: parsers raise anything at a damaged one, and warn
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            version = np.lib.format.read_magic(file)
            header = _HEADERS.get(version)
            shape, is_fortran, dtype = ((), False, None) if header is None else header(file)
    except Exception as error:
        raise ValueError(f"{name} is corrupt, or not an array of numpy.save.") from error
    if dtype is None:
        raise ValueError(
            f"{name} has format version {version[0]}.{version[1]}: write it again with np.save."
        )
    return tuple(map(int, shape)), bool(is_fortran), dtype


def check_member(archive: zipfile.ZipFile, info: zipfile.ZipInfo, name: str) -> int:
    """Bytes of an array in an archive; ValueError if the file does not hold all of them."""
    assert archive.filename is not None
    limit = min(info.compress_size, os.path.getsize(archive.filename))
    limit *= 1 if info.compress_type == zipfile.ZIP_STORED else _MAX_EXPANSION
    with archive.open(info) as stream:
        shape, _, dtype = read_npy_header(stream, name)
        held = min(info.file_size, limit) - stream.tell()
    if dtype.hasobject:
        raise ValueError(f"{name} holds Python objects: save numbers, or texts (str).")
    n_bytes = prod(shape) * dtype.itemsize
    is_whole = min(shape, default=0) >= 0 and n_bytes <= held
    if not is_whole or info.file_size > limit:
        raise ValueError(
            f"it is corrupt: {name} claims the shape {_shown(shape)}, which its bytes do not hold."
        )
    return n_bytes


def check_arrays(path: Path) -> None:
    """Check all arrays in a ZIP archive, an .npz file or another that holds .npy files."""
    with zipfile.ZipFile(path) as archive:
        for info in archive.infolist():
            if info.filename.endswith(".npy"):
                check_member(archive, info, f"its array {info.filename[:-4]}")


@contextmanager
def open_npz(path: Path) -> Iterator[Any]:
    """Open an .npz file as ``np.load`` does; ValueError if its arrays are not what they claim."""
    check_arrays(path)
    with np.load(path, allow_pickle=False) as arrays:
        yield arrays


def _shown(shape: tuple[int, ...]) -> str:
    sizes = [str(size) for size in shape[:4]]
    return f"({', '.join(text if len(text) < 20 else f'{text[:9]}...' for text in sizes)})"
