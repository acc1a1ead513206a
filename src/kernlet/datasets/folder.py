"""Data sets from a local folder of .npz files."""

from __future__ import annotations

import os
import zlib
from pathlib import Path
from zipfile import BadZipFile

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
        dataset = Dataset(entry.name, _features(X), _labels(y), *_test_part(X, *test))
    except (TypeError, ValueError, OverflowError) as error:
        raise ValueError(f"{path} is not a table of rows with labels: {error}") from error
    difference = entry.mismatch(dataset)
    if difference:
        raise ValueError(f"{path} does not hold the set {entry.name!r}: {difference}.")
    return dataset


def _read_arrays(path: Path) -> list[Rows]:
    try:
        with np.load(path, allow_pickle=False) as arrays:
            keys = SPLIT_KEYS if "Xtr" in arrays else WHOLE_KEYS
            return [arrays[key] for key in keys]
    except KeyError as error:
        raise ValueError(
            f"{path} lacks an array: it needs {', '.join(SPLIT_KEYS)} or {', '.join(WHOLE_KEYS)}."
        ) from error
    except (BadZipFile, EOFError, TypeError, ValueError, zlib.error) as error:
        # A TypeError means that the file holds one bare array, which has no keys.
        raise ValueError(f"{path} is damaged or not an .npz file of plain arrays.") from error


def _test_part(X: Rows, *test: Rows) -> tuple[Rows, ...]:
    """The test rows in a dtype that holds the training rows too, and their labels."""
    if not test:
        return ()
    X_test, y_test = test
    return _features(X_test).astype(np.result_type(X, X_test), copy=False), _labels(y_test)


def _features(X: Rows) -> Rows:
    if X.dtype.kind not in "iuf":
        raise TypeError(f"features of type {X.dtype} are not real numbers")
    return X


def _labels(y: Rows) -> Rows:
    # In the narrow unsigned dtype of a file 2 * y - 1 would wrap around.
    return y.astype(np.int64, casting="same_kind")
