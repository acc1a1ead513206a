"""Rows in a file of raw numbers."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from kernlet.rows.source import RowSource, slice_bounds


class FileRows(RowSource):
    """Rows in a file of raw numbers, one row after the other from byte ``offset`` on."""

    def __init__(
        self, path: str | Path, shape: tuple[int, int], dtype: DTypeLike, offset: int = 0
    ) -> None:
        self.path, self.shape, self.offset = Path(path), shape, offset
        self.stored: np.dtype[Any] = np.dtype(dtype)
        self.dtype = np.dtype(np.float32 if self.stored == np.float32 else np.float64)
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
        return numbers.reshape(-1, width).astype(self.dtype, copy=False)


def open_npy(path: str | Path) -> FileRows:
    """Rows of a ``.npy`` file, which stays on disk."""
    with open(path, "rb") as file:
        version = np.lib.format.read_magic(file)
        header = {
            (1, 0): np.lib.format.read_array_header_1_0,
            (2, 0): np.lib.format.read_array_header_2_0,
        }.get(version)
        if header is None:
            raise ValueError(
                f"{path} has format version {version[0]}.{version[1]}: write it again with np.save."
            )
        shape, is_fortran, dtype = header(file)
        offset = file.tell()
    if len(shape) != 2 or (is_fortran and min(shape) > 1) or dtype.kind not in "fiub":
        raise ValueError(
            f"{path} holds {dtype} numbers of shape {shape}"
            f"{' in column order' if is_fortran else ''}; rows need numbers in two dimensions, "
            "row after row (save np.ascontiguousarray(X))."
        )
    return FileRows(path, (int(shape[0]), int(shape[1])), dtype, offset)
