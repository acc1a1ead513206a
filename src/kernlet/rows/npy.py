"""NumPy's files: rows in .npy files, which stay on disk, and arrays of .npz files."""

from __future__ import annotations

import os
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from kernlet.npy import check_member, read_npy_header
from kernlet.rows.source import RowSource, memory_bytes, reader_errors, slice_bounds

_MAX_MEMORY_SHARE = 0.5  # of the computer's memory, for one array; float32 copies come on top


class FileRows(RowSource):
    """Rows in a file of raw numbers, one row after the other from byte ``offset`` on."""

    def __init__(
        self, path: str | Path, shape: tuple[int, int], dtype: DTypeLike, offset: int = 0
    ) -> None:
        self.path, self.shape, self.offset = Path(path), shape, offset
        self.stored: np.dtype[Any] = np.dtype(dtype)
        self.dtype = np.dtype(np.float32 if self.stored == np.float32 else np.float64)
        if shape[0] < 0 or shape[1] < 1 or offset < 0:
            raise ValueError(
                f"{path} cannot hold rows of shape {shape} from byte {offset} on: there is at "
                "least one feature, and nothing is negative."
            )
        needed = offset + shape[0] * shape[1] * self.stored.itemsize
        if os.path.getsize(path) < needed:
            raise ValueError(
                f"{path} has {os.path.getsize(path)} bytes; {shape[0]} rows of {shape[1]} "
                f"{self.stored} need {needed}. Give the shape and dtype it was written with."
            )

    def read(self, rows: slice) -> Any:
        """Consecutive rows."""
        start, stop = slice_bounds(rows, len(self))
        width = self.shape[1]
        # By seeking, not through a memory map: a map of the whole file counts against a limit on
        # address space, and its pages against memory.
        with open(self.path, "rb") as file:
            file.seek(self.offset + start * width * self.stored.itemsize)
            numbers = np.fromfile(file, self.stored, (stop - start) * width)
        if len(numbers) < (stop - start) * width:
            raise ValueError(f"{self.path} has become shorter since it was opened.")
        if self.stored.kind == "b":  # a damaged byte may be neither 0 nor 1
            numbers = numbers.view(np.uint8) != 0
        return numbers.reshape(-1, width).astype(self.dtype, copy=False)


def open_npy(path: str | Path) -> FileRows:
    """Rows of a ``.npy`` file, which stays on disk."""
    with open(path, "rb") as file:
        shape, is_fortran, dtype = read_npy_header(file, str(path))
        offset = file.tell()
    is_plain = len(shape) == 2 and min(shape) >= 0 and dtype.kind in "fiub"
    if not is_plain or (is_fortran and min(shape) > 1):
        raise ValueError(
            f"{path} holds {dtype} numbers of shape {shape}"
            f"{' in column order' if is_fortran else ''}; rows need numbers in two dimensions, "
            "row after row (save np.ascontiguousarray(X))."
        )
    return FileRows(path, (shape[0], shape[1]), dtype, offset)


def read_npz(path: Path, *keys: str) -> dict[str, Any]:
    """The arrays of an .npz file by name, those of the ``keys`` that it has.

    Sizes that the file claims are compared with each other and with the memory before any is taken.
    """
    with reader_errors("it", "an .npz file"):
        archive = zipfile.ZipFile(path)
    with archive:
        members = {info.filename: info for info in archive.infolist()}
        found = {key: members.get(f"{key}.npy") for key in keys}
        return {key: _member(archive, info, key) for key, info in found.items() if info is not None}


def _member(archive: zipfile.ZipFile, info: zipfile.ZipInfo, key: str) -> Any:
    with reader_errors("it", "an .npz file"):
        archive.open(info).close()
    n_bytes = check_member(archive, info, f"its array {key}")
    if n_bytes > _MAX_MEMORY_SHARE * memory_bytes():
        raise ValueError(
            f"its array {key} takes {n_bytes / 1e9:.1f} GB, too much for the memory: save X as "
            ".npy, or write a Parquet file."
        )
    with reader_errors("it", "an .npz file"), archive.open(info) as stream:
        return np.lib.format.read_array(stream, allow_pickle=False)
