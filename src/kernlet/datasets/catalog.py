"""The data sets that `load` knows: one row a set."""

from __future__ import annotations

from dataclasses import dataclass
from difflib import get_close_matches

import numpy as np

from kernlet.datasets.dataset import Dataset, Labels


@dataclass(frozen=True)
class Entry:
    """What is known of a data set before it is read.

    Parameters
    ----------
    name : str
    n_rows : int
        Rows of the training part, or all rows where there is no official split.
    n_test : int
        Rows of the official test part; 0 where there is none.
    n_features : int
    dtype : str
        Of the features.
    class_counts : dict
        Rows of each label among the ``n_rows``.
    openml_id : int or None
        The set's ``data_id`` on OpenML.
    description : str
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
        """Whether the set can be downloaded; covertype has a fetcher of its own."""
        return self.openml_id is not None or self.name == "covertype"

    def mismatch(self, dataset: Dataset) -> str:
        """What differs between a set as read and this entry; empty if nothing does."""
        n_test = 0 if dataset.X_test is None else len(dataset.X_test)
        widths = {X.shape[1] for X in (dataset.X, dataset.X_test) if X is not None}
        differences = [
            f"{what} {found} in place of {expected}"
            for what, found, expected in (
                ("rows", len(dataset.X), self.n_rows),
                ("test rows", n_test, self.n_test),
                ("features", " and ".join(map(str, sorted(widths))), str(self.n_features)),
                ("class counts", count_classes(dataset.y), self.class_counts),
            )
            if found != expected
        ]
        return ", ".join(differences)


def count_classes(y: Labels) -> dict[int, int]:
    """Rows of each label.

    Examples
    --------
    >>> import numpy as np
    >>> from kernlet.datasets.catalog import count_classes
    >>> count_classes(np.array([4, 2, 4]))
    {2: 1, 4: 2}
    """
    labels, counts = np.unique(y, return_counts=True)
    return dict(zip(labels.tolist(), counts.tolist(), strict=True))


def _counts(numbers: str, first: int = 0) -> dict[int, int]:
    """Counts of the labels first, first + 1 and so on."""
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


def find(name: str) -> Entry:
    """The entry of a name.

    Examples
    --------
    >>> from kernlet.datasets.catalog import find
    >>> find("sonar").description
    'sonar echoes: 1 mine, 0 rock'
    """
    if name in CATALOG:
        return CATALOG[name]
    close = get_close_matches(str(name).lower(), CATALOG, n=1)
    hint = f", did you mean {close[0]!r}?" if close else "."
    raise ValueError(f"No data set is called {name!r}{hint} The names are {', '.join(CATALOG)}.")
