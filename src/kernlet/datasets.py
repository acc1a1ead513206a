"""Data sets by name, from a local folder or OpenML, and the checkerboard."""

from __future__ import annotations

import os
import warnings
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from difflib import get_close_matches
from http.client import HTTPException
from numbers import Integral, Real
from pathlib import Path
from string import ascii_lowercase, ascii_uppercase
from typing import Any
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import fetch_covtype, fetch_openml
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval, validate_params

__all__ = ["Dataset", "load", "make_checkerboard", "names"]

Labels = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Dataset:
    """Rows with their labels, and a test set if there is one.

    Parameters
    ----------
    name : str
        Name of the data set.
    X : ndarray of shape (n_rows, n_features)
        The official training set if there is an official split, else all rows. Values are
        raw: nothing is scaled. Integers may have a narrow dtype such as uint8, in which sums
        and differences overflow: convert before you compute with them.
    y : ndarray of shape (n_rows,)
        Integer labels.
    X_test : ndarray of shape (n_test_rows, n_features) or None, default=None
        The official test set, if there is one.
    y_test : ndarray of shape (n_test_rows,) or None, default=None
        Its labels.

    Examples
    --------
    >>> import numpy as np
    >>> from kernlet.datasets import Dataset
    >>> Dataset("pair", np.eye(2), np.array([0, 1]))
    Dataset('pair', 2 rows x 2 features, 2 classes, no test set)
    """

    name: str
    X: NDArray[Any]
    y: Labels
    X_test: NDArray[Any] | None = None
    y_test: Labels | None = None

    def __post_init__(self) -> None:
        if (self.X_test is None) != (self.y_test is None):
            raise ValueError("X_test and y_test belong together: give both or neither.")
        for X, y in ((self.X, self.y), (self.X_test, self.y_test)):
            if X is not None and y is not None and (X.ndim != 2 or y.shape != X.shape[:1]):
                raise ValueError(
                    f"Rows of shape {X.shape} do not match labels of shape {y.shape}; "
                    "give a 2-D array of rows and one label per row."
                )

    @property
    def n_classes(self) -> int:
        """Number of different labels in y."""
        return len(np.unique(self.y))

    def __repr__(self) -> str:
        n_rows, n_features = self.X.shape
        test = "no test set" if self.X_test is None else f"{len(self.X_test)} test rows"
        return (
            f"Dataset({self.name!r}, {n_rows} rows x {n_features} features, "
            f"{self.n_classes} classes, {test})"
        )


# Catalog ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Entry:
    """Facts about a data set that are known before it is read; n_test is 0 without official split.

    ``class_counts`` are those of the n_rows training rows, ``openml_id`` is OpenML's data_id.
    """

    name: str
    n_rows: int
    n_test: int
    n_features: int
    dtype: str
    class_counts: dict[int, int]
    openml_id: int | None
    description: str

    @property
    def is_online(self) -> bool:
        """Whether the set can be downloaded; covertype has its own fetcher."""
        return self.openml_id is not None or self.name == "covertype"

    def mismatch(self, dataset: Dataset) -> str:
        """Differences between a data set and this entry; empty if there are none."""
        n_test = 0 if dataset.X_test is None else len(dataset.X_test)
        widths = {X.shape[1] for X in (dataset.X, dataset.X_test) if X is not None}
        differences = [
            f"{quantity} {actual} instead of {expected}"
            for quantity, actual, expected in (
                ("rows", len(dataset.X), self.n_rows),
                ("test rows", n_test, self.n_test),
                ("features", " and ".join(map(str, sorted(widths))), str(self.n_features)),
                ("class counts", count_classes(dataset.y), self.class_counts),
            )
            if actual != expected
        ]
        return ", ".join(differences)


def count_classes(y: Labels) -> dict[int, int]:
    """Number of rows per label, as Python integers."""
    labels, counts = np.unique(y, return_counts=True)
    return dict(zip(labels.tolist(), counts.tolist(), strict=True))


def _counts(numbers: str, first: int = 0) -> dict[int, int]:
    """Counts of the labels first, first + 1, ..."""
    return dict(enumerate(map(int, numbers.split()), first))


# fmt: off
_ENTRIES = (
    Entry("usps", 7291, 2007, 256, "float32",
          _counts("1194 1005 731 658 652 556 664 645 542 644"), 41082,
          "digits from envelopes, 16 x 16 pixels in [0, 1]"),
    Entry("checkerboard_generated", 1000, 39601, 2, "float64", _counts("514 486"), None,
          "4 x 4 squares on [0, 200]^2, tested on the grid 1..199"),
    Entry("ionosphere", 351, 0, 34, "float64", _counts("126 225"), 59,
          "radar returns: 1 good, 0 bad"),
    Entry("cleveland", 297, 0, 13, "float64", _counts("160 137"), 49,
          "heart disease: 1 present, 0 absent; complete rows only"),
    Entry("pima", 768, 0, 8, "float64", _counts("500 268"), 37,
          "diabetes: 1 positive, 0 negative; zeros stand for missing values"),
    Entry("bupa", 345, 0, 6, "float64", _counts("145 200", 1), None,
          "liver disorders; the label is the field 'selector', 1 or 2"),
    Entry("tictactoe", 958, 0, 9, "int8", _counts("332 626"), 50,
          "final boards, x = 1, o = -1, blank = 0: 1 if x has won"),
    Entry("mushroom", 8124, 0, 22, "uint8", _counts("4208 3916"), 24,
          "letters a..z as 0..25, missing 26: 1 poisonous, 0 edible"),
    Entry("breastw", 683, 0, 9, "uint8", {2: 444, 4: 239}, 15,
          "breast tumors: 2 benign, 4 malignant; complete rows only"),
    Entry("breastw_699", 699, 0, 9, "int8", {2: 458, 4: 241}, 15,
          "breast tumors, all rows, missing values as -1"),
    Entry("sonar", 208, 0, 60, "float64", _counts("97 111"), 40,
          "sonar echoes: 1 mine, 0 rock"),
    Entry("thyroid", 3772, 3428, 21, "float64", _counts("93 191 3488", 1), None,
          "thyroid function: 3 normal, 1 and 2 not"),
    Entry("optdigits", 3823, 1797, 64, "uint8",
          _counts("376 389 380 389 387 376 377 387 380 382"), 28,
          "digits, 8 x 8 pixels in 0..16"),
    Entry("pendigits", 7494, 3498, 16, "uint8",
          _counts("780 779 780 719 780 720 720 778 719 719"), 32,
          "digits written with a pen, 8 points of the trace in 0..100"),
    Entry("satimage", 4435, 2000, 36, "uint8",
          {1: 1072, 2: 479, 3: 961, 4: 415, 5: 470, 7: 1038}, 182,
          "soil seen by Landsat, 3 x 3 pixels in 4 bands; there is no label 6"),
    Entry("letter", 16000, 4000, 16, "uint8",
          _counts("633 630 594 638 616 622 609 583 590 599 593 604 648 "
                  "617 614 635 615 597 587 645 645 628 613 628 641 576"), 6,
          "printed capital letters A..Z as 0..25, 16 measurements in 0..15"),
    Entry("mnist", 60000, 10000, 784, "uint8",
          _counts("5923 6742 5958 6131 5842 5421 5918 6265 5851 5949"), 554,
          "digits, 28 x 28 pixels in 0..255"),
    Entry("covertype", 581012, 0, 54, "int16",
          _counts("211840 283301 35754 2747 9493 17367 20510", 1), None,
          "forest cover types 1..7"),
)
# fmt: on

CATALOG = {entry.name: entry for entry in _ENTRIES}


def names() -> list[str]:
    """Names that `load` knows.

    Examples
    --------
    >>> from kernlet.datasets import names
    >>> names()[:3]
    ['usps', 'checkerboard_generated', 'ionosphere']
    """
    return list(CATALOG)


def find_entry(name: str) -> Entry:
    """The entry of a name, or an error with the closest name and all others."""
    if name in CATALOG:
        return CATALOG[name]
    close = get_close_matches(str(name).lower(), CATALOG, n=1)
    hint = f", did you mean {close[0]!r}?" if close else "."
    raise ValueError(f"No data set is called {name!r}{hint} The names are {', '.join(CATALOG)}.")


# Local folder -------------------------------------------------------------------------------------

FOLDER_VARIABLE = "KERNLET_DATA"

SPLIT_KEYS = ("Xtr", "ytr", "Xte", "yte")
WHOLE_KEYS = ("X", "y")


def local_file(name: str) -> Path | None:
    """The file of a data set in the folder KERNLET_DATA, if it exists."""
    folder = os.environ.get(FOLDER_VARIABLE)
    if not folder:
        return None
    path = Path(folder).expanduser() / f"{name}.npz"
    return path if path.is_file() else None


def read_file(path: Path, entry: Entry) -> Dataset:
    """Read an .npz file without unpickling, and compare it with the catalog entry."""
    try:
        with np.load(path, allow_pickle=False) as file:
            arrays = [file[key] for key in (SPLIT_KEYS if "Xtr" in file else WHOLE_KEYS)]
    except KeyError as error:
        raise ValueError(
            f"{path} lacks an array: it needs {', '.join(SPLIT_KEYS)} or {', '.join(WHOLE_KEYS)}."
        ) from error
    except (BadZipFile, EOFError, TypeError, ValueError, zlib.error) as error:
        # A TypeError means that the file is a single array, which has no keys.
        raise ValueError(f"{path} is corrupt or not an .npz file of plain arrays.") from error
    try:
        for X in arrays[::2]:
            if X.dtype.kind not in "iuf":
                raise TypeError(f"features of type {X.dtype} are not real numbers")
        # One dtype that can represent training and test rows. The narrow unsigned dtype of a
        # label would make 2 * y - 1 overflow.
        dtype = np.result_type(*arrays[::2])
        arrays[::2] = [X.astype(dtype, copy=False) for X in arrays[::2]]
        arrays[1::2] = [y.astype(np.int64, casting="same_kind") for y in arrays[1::2]]
        dataset = Dataset(entry.name, *arrays)
    except (TypeError, ValueError, OverflowError) as error:
        raise ValueError(f"{path} does not contain rows with labels: {error}") from error
    if difference := entry.mismatch(dataset):
        raise ValueError(f"{path} is not the data set {entry.name!r}: {difference}.")
    return dataset


# OpenML: conversions are functions of arrays, so that tests need no network -----------------------

Codes = dict[str, int]
Conversion = Callable[[NDArray[Any], NDArray[Any]], tuple[NDArray[Any], Labels]]

BOARD_CODES: Codes = {"x": 1, "o": -1, "b": 0}
LETTER_CODES: Codes = {letter: code for code, letter in enumerate(ascii_lowercase)}
CAPITAL_CODES: Codes = {letter: code for code, letter in enumerate(ascii_uppercase)}
MISSING_LETTER = 26

HEART_CODES: dict[int, Codes] = {
    1: {"female": 0, "male": 1},
    2: {"typ_angina": 1, "atyp_angina": 2, "non_anginal": 3, "asympt": 4},
    5: {"f": 0, "t": 1},
    6: {"normal": 0, "st_t_wave_abnormality": 1, "left_vent_hyper": 2},
    8: {"no": 0, "yes": 1},
    10: {"up": 1, "flat": 2, "down": 3},
    12: {"normal": 3, "fixed_defect": 6, "reversable_defect": 7},
}
HEART_LABELS: Codes = {"<50": 0, ">50_1": 1, ">50_2": 1, ">50_3": 1, ">50_4": 1}


def download(entry: Entry, data_home: Any = None) -> Dataset:
    """Download a data set, or read it from scikit-learn's cache in ``data_home``."""
    if entry.openml_id is None:
        bunch = fetch_covtype(data_home=data_home)
    else:
        bunch = fetch_openml(
            data_id=entry.openml_id, data_home=data_home, as_frame=False, parser="auto"
        )
    convert = CONVERSIONS.get(entry.name, lambda X, y: (X, numeric(y)))
    return split_officially(entry, *convert(np.asarray(bunch.data), np.asarray(bunch.target)))


def split_officially(entry: Entry, X: NDArray[Any], y: Labels) -> Dataset:
    """Split off the official test set, if the rows are in the official order.

    They are if the first rows have the class counts of the catalog. If not, all rows stay
    together: a split of another order would not be the official one.
    """
    X, n = X.astype(entry.dtype), entry.n_rows
    complete = len(X) == n + entry.n_test
    if entry.n_test and complete and count_classes(y[:n]) == entry.class_counts:
        return Dataset(entry.name, X[:n], y[:n], X[n:], y[n:])
    return Dataset(entry.name, X, y)


def coded(values: NDArray[Any], codes: Codes, missing: float = np.nan) -> NDArray[np.float64]:
    """Categories as numbers; values that are not strings are missing."""
    strings = [value for value in values.flat if isinstance(value, str)]
    unknown = sorted(set(strings) - set(codes))
    if unknown:
        raise ValueError(
            f"OpenML gives {', '.join(map(repr, unknown))} where one of {', '.join(codes)} "
            "was expected; its copy has changed."
        )
    numbers = [codes[value] if isinstance(value, str) else missing for value in values.flat]
    return np.array(numbers, dtype=float).reshape(values.shape)


def numeric(target: NDArray[Any]) -> Labels:
    """Labels such as '3' or '3.' as integers."""
    return target.astype(float).astype(np.int64)


def named(target: NDArray[Any], **codes: int) -> Labels:
    """Labels from the names of classes."""
    return coded(target, codes).astype(np.int64)


def _cleveland(X: NDArray[Any], target: NDArray[Any]) -> tuple[NDArray[Any], Labels]:
    """Rows without missing values, categories with the codes of the original file."""
    columns = [
        coded(X[:, j], HEART_CODES[j]) if j in HEART_CODES else X[:, j].astype(float)
        for j in range(X.shape[1])
    ]
    return _complete(np.column_stack(columns), named(target, **HEART_LABELS))


def _complete(X: NDArray[Any], y: Labels) -> tuple[NDArray[Any], Labels]:
    keep = ~np.isnan(X).any(axis=1)
    return X[keep], y[keep]


# Rows and labels as in the local files. Data sets that are not listed are numeric.
CONVERSIONS: dict[str, Conversion] = {
    # pixels from [-1, 1] to [0, 1], labels 1..10 to the digits 0..9
    "usps": lambda X, y: ((X + 1.0) / 2.0, numeric(y) - 1),
    "ionosphere": lambda X, y: (X, named(y, b=0, g=1)),
    "cleveland": _cleveland,
    "pima": lambda X, y: (X, named(y, tested_negative=0, tested_positive=1)),
    "tictactoe": lambda X, y: (coded(X, BOARD_CODES), named(y, negative=0, positive=1)),
    "mushroom": lambda X, y: (coded(X, LETTER_CODES, MISSING_LETTER), named(y, e=0, p=1)),
    "breastw": lambda X, y: _complete(X.astype(float), named(y, benign=2, malignant=4)),
    # all rows, missing values as -1
    "breastw_699": lambda X, y: (
        np.nan_to_num(X.astype(float), nan=-1.0),
        named(y, benign=2, malignant=4),
    ),
    "sonar": lambda X, y: (X, named(y, Rock=0, Mine=1)),
    "letter": lambda X, y: (X, named(y, **CAPITAL_CODES)),
}


# Loading ------------------------------------------------------------------------------------------


def load(name: str, *, data_home: Any = None) -> Dataset:
    """Load a data set from a local folder or, failing that, from OpenML.

    The environment variable KERNLET_DATA names the folder. A data set is the file
    ``<name>.npz`` in it, with the arrays Xtr, ytr, Xte, yte or X, y; its shape and its
    class counts must be those of the catalog.

    Parameters
    ----------
    name : str
        One of :func:`names`.
    data_home : str, path-like or None, default=None
        Folder of scikit-learn's downloads; None for its default.

    Returns
    -------
    dataset : Dataset

    Warns
    -----
    UserWarning
        If the copy on OpenML differs from the catalog; see Notes.

    Raises
    ------
    ValueError
        If no data set has that name, or the file is corrupt or contains something else.
    FileNotFoundError
        If the data set is not on OpenML and not in the folder.
    ConnectionError
        If the data set is not in the folder and OpenML cannot be reached.
    ImportError
        If pandas is missing, with which scikit-learn reads OpenML's files.

    Notes
    -----
    bupa, checkerboard_generated and thyroid are not on OpenML; covertype comes from
    `sklearn.datasets.fetch_covtype`. The other copies on OpenML are converted to the labels,
    codes and column order of the local files, but were not compared with them row by row.
    Known differences:

    - letter: the rows are in another order, so that there is no official split.
    - satimage: it has 6430 rows, five fewer than the original, and no official split.
    - cleveland: heart-c repeats an incomplete row in place of a complete one, so that 296
      rows remain.

    The other official splits follow from the order of the rows, and only if the class counts
    of the training set agree with the catalog. Otherwise X and y are all rows, with a
    warning.

    Examples
    --------
    >>> from kernlet.datasets import load
    >>> load("usps")  # doctest: +SKIP
    Dataset('usps', 7291 rows x 256 features, 10 classes, 2007 test rows)
    """
    entry = find_entry(name)
    path = local_file(name)
    if path is not None:
        return read_file(path, entry)
    advice = f"set {FOLDER_VARIABLE} to a folder with {name}.npz"
    if not entry.is_online:
        raise FileNotFoundError(
            f"The data set {name!r} is not on OpenML: {advice} (being online helps with other data "
            "sets only)."
        )
    try:
        dataset = download(entry, data_home)
    except (OSError, HTTPException) as error:
        raise ConnectionError(
            f"The data set {name!r} was not found: {advice}, or be online to download it "
            f"from OpenML ({error})."
        ) from error
    except ImportError as error:
        raise ImportError(
            f"The data set {name!r} was not found: {advice}, or install pandas to download "
            "it from OpenML."
        ) from error
    if difference := entry.mismatch(dataset):
        warnings.warn(
            f"The copy of {name!r} on OpenML differs from the catalog: {difference}. "
            f"For the original, {advice}.",
            UserWarning,
            stacklevel=2,
        )
    return dataset


# Checkerboard -------------------------------------------------------------------------------------

GRID_STEPS = 200


@validate_params(
    {
        "n_samples": [Interval(Integral, 1, None, closed="left")],
        "n_squares": [Interval(Integral, 2, None, closed="left")],
        "noise": [Interval(Real, 0, 1, closed="both")],
        "random_state": ["random_state"],
    },
    prefer_skip_nested_validation=True,
)
def make_checkerboard(
    n_samples: int = 1000,
    *,
    n_squares: int = 4,
    noise: float = 0.0,
    random_state: Any = None,
) -> Dataset:
    """Points on a checkerboard, and a grid to test on.

    Training points are uniform on [-1, 1]^2. The board has ``n_squares`` columns and rows of
    squares; a point has class (column + row) mod 2, and a point on a line between squares
    belongs to the square on its right or above it. The test set is the grid of 199 x 199
    points g / 100 - 1, g = 1, ..., 199, with their true classes.

    Parameters
    ----------
    n_samples : int, default=1000
        Training points. With at least two points both classes occur (before noise): a
        sample with one class is drawn again.
    n_squares : int, default=4
        Squares along each side.
    noise : float, default=0.0
        Fraction of training labels to flip: exactly ``round(noise * n_samples)`` labels.
        Test labels are never flipped.
    random_state : int, RandomState instance or None, default=None
        Draws the points and the labels to flip.

    Returns
    -------
    board : Dataset
        Labels are 0 and 1; the test set has 39,601 rows.

    Examples
    --------
    >>> from kernlet.datasets import make_checkerboard
    >>> board = make_checkerboard(random_state=0)
    >>> board
    Dataset('checkerboard', 1000 rows x 2 features, 2 classes, 39601 test rows)
    >>> noisy = make_checkerboard(noise=0.1, random_state=0)
    >>> int((noisy.y != board.y).sum())
    100
    """
    random = check_random_state(random_state)
    while True:
        X = random.uniform(-1.0, 1.0, (n_samples, 2))
        y = _classes(np.floor((X + 1.0) * n_squares / 2.0))
        if n_samples == 1 or y.min() < y.max():
            break
    flipped = random.choice(n_samples, round(noise * n_samples), replace=False)
    y[flipped] = 1 - y[flipped]
    steps = np.arange(1, GRID_STEPS)
    lattice = np.stack(np.meshgrid(steps, steps, indexing="ij"), axis=-1).reshape(-1, 2)
    # In integers, so that points on a line between squares have no round-off.
    y_test = _classes(lattice * n_squares // GRID_STEPS)
    return Dataset("checkerboard", X, y, lattice * 2 / GRID_STEPS - 1.0, y_test)


def _classes(squares: NDArray[Any]) -> Labels:
    """(column + row) mod 2 of each square."""
    return squares.sum(axis=1).astype(np.int64) % 2
