"""Load a data set by its name."""

from __future__ import annotations

import warnings
from http.client import HTTPException
from typing import Any

from kernlet.datasets.catalog import Entry, find
from kernlet.datasets.dataset import Dataset
from kernlet.datasets.folder import FOLDER_VARIABLE, local_file, read_file
from kernlet.datasets.openml import fetch


def load(name: str, *, data_home: Any = None) -> Dataset:
    """Load a data set from a local folder or, failing that, from OpenML.

    The folder is the one that the environment variable KERNLET_DATA names; a set is the
    file ``<name>.npz`` in it, with the arrays Xtr, ytr, Xte, yte or X, y. Its shape and its
    class counts must be those of the catalog.

    Parameters
    ----------
    name : str
        One of `names`.
    data_home : str, path-like or None, default=None
        Where scikit-learn keeps what it downloads; None for its usual folder.

    Returns
    -------
    dataset : Dataset

    Warns
    -----
    UserWarning
        Where the copy on OpenML is not the set of the catalog; see Notes.

    Raises
    ------
    ValueError
        Where no set has that name, or the file is damaged or holds something else.
    FileNotFoundError
        Where the set comes from the folder alone and is not there.
    ConnectionError
        Where the set is not in the folder and OpenML cannot be reached.
    ImportError
        Where OpenML is asked and pandas, by which scikit-learn reads it, is missing.

    Notes
    -----
    The sets bupa, checkerboard_generated and thyroid come from the folder alone; covertype
    comes from `sklearn.datasets.fetch_covtype`. The other copies on OpenML are brought to
    the labels, codes and order of columns of the local files, but were not compared with
    them row by row. Expected to differ, by what is known of the same ARFF files elsewhere:

    - letter: its rows come in another order, so that there is no official split.
    - satimage: it has 6430 rows, five fewer than the original, and no official split.
    - cleveland: heart-c repeats an incomplete row in place of a complete one, so that 296
      rows remain.

    The other official splits are taken from the order of the rows, and only where the
    class counts of the training part agree with the catalog. If they do not, all rows are
    in X and y, and a warning says so.

    Examples
    --------
    >>> from kernlet.datasets import load
    >>> load("usps")  # doctest: +SKIP
    Dataset('usps', 7291 rows x 256 features, 10 classes, 2007 test rows)
    """
    entry = find(name)
    path = local_file(entry.name)
    if path is not None:
        return read_file(path, entry)
    if not entry.is_online:
        raise FileNotFoundError(
            f"The set {name!r} is not on OpenML: set {FOLDER_VARIABLE} to a folder that holds "
            f"{name}.npz (being online helps with other sets only)."
        )
    dataset = _fetch(entry, data_home)
    _warn_if_different(entry, dataset)
    return dataset


def _fetch(entry: Entry, data_home: Any) -> Dataset:
    try:
        return fetch(entry, data_home)
    except (OSError, HTTPException) as error:
        raise ConnectionError(
            f"The set {entry.name!r} was not found: set {FOLDER_VARIABLE} to a folder that holds "
            f"{entry.name}.npz, or be online so that OpenML can be asked ({error})."
        ) from error
    except ImportError as error:
        raise ImportError(
            f"The set {entry.name!r} was not found: set {FOLDER_VARIABLE} to a folder that holds "
            f"{entry.name}.npz, or install pandas so that OpenML can be asked."
        ) from error


def _warn_if_different(entry: Entry, dataset: Dataset) -> None:
    difference = entry.mismatch(dataset)
    if difference:
        warnings.warn(
            f"The copy of {entry.name!r} on OpenML is not the set of the catalog: {difference}. "
            f"Set {FOLDER_VARIABLE} to a folder that holds {entry.name}.npz for the original.",
            UserWarning,
            stacklevel=3,
        )
