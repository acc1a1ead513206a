"""Data sets from a local folder of .npz files."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any
from zipfile import BadZipFile
from zlib import error as ZlibError

import numpy as np

from kernlet.datasets.catalog import Entry
from kernlet.datasets.dataset import Dataset, Rows

FOLDER_VARIABLE = "KERNLET_DATA"

SPLIT_KEYS = ("Xtr", "ytr", "Xte", "yte")
WHOLE_KEYS = ("X", "y")


def local_file(name: str) -> Path | None:
    """The file of a set in the folder that KERNLET_DATA names, if there is one."""
    folder = os.environ.get(FOLDER_VARIABLE)
    if not folder:
        return None
    path = Path(folder).expanduser() / f"{name}.npz"
    return path if path.is_file() else None


def read_file(path: Path, entry: Entry) -> Dataset:
    """Read a set from its file and compare it with its catalog entry.

    Parameters
    ----------
    path : Path
        An .npz file with the arrays Xtr, ytr, Xte, yte or X, y. Nothing in it is ever
        unpickled.
    entry : Entry

    Returns
    -------
    dataset : Dataset
    """
    X, y, *test = _read_arrays(path)
    try:
        dataset = Dataset(entry.name, X, _labels(y), *_test_part(*test))
    except (TypeError, ValueError, OverflowError) as error:
        raise ValueError(f"{path} is not a table of rows with labels: {error}") from error
    difference = entry.mismatch(dataset)
    if difference:
        raise ValueError(f"{path} does not hold the set {entry.name!r}: {difference}.")
    return dataset


def _read_arrays(path: Path) -> list[Rows]:
    try:
        with open(path, "rb") as stream, np.lib.npyio.NpzFile(stream) as arrays:
            keys = SPLIT_KEYS if "Xtr" in arrays else WHOLE_KEYS
            return [arrays[key] for key in keys]
    except KeyError as error:
        raise ValueError(
            f"{path} lacks an array: it needs {', '.join(SPLIT_KEYS)} or {', '.join(WHOLE_KEYS)}."
        ) from error
    except (BadZipFile, EOFError, ValueError, ZlibError) as error:
        raise ValueError(f"{path} is damaged or no .npz file: {error}") from error


def _test_part(X: Any = None, y: Any = None) -> tuple[Any, Any]:
    return X, None if y is None else _labels(y)


def _labels(y: Rows) -> Rows:
    # In the narrow unsigned dtype of a file 2 * y - 1 would wrap around.
    return y.astype(np.int64, casting="same_kind")
