import os
import re
from pathlib import Path

import numpy as np
import pytest

from kernlet.datasets import Dataset, names
from kernlet.datasets.catalog import CATALOG, count_classes, find


def test_names_are_the_catalog():
    assert len(names()) == len(set(names())) == 18
    assert all(entry.name == name for name, entry in CATALOG.items())


@pytest.mark.parametrize("entry", CATALOG.values(), ids=names())
def test_entries_are_consistent(entry):
    assert sum(entry.class_counts.values()) == entry.n_rows
    assert list(entry.class_counts) == sorted(entry.class_counts)
    assert np.dtype(entry.dtype).kind in "iuf"
    assert entry.description
    assert not entry.description.endswith(".")


def test_sets_that_come_from_the_folder_alone():
    offline = {name for name, entry in CATALOG.items() if not entry.is_online}
    assert offline == {"checkerboard_generated", "bupa", "thyroid"}


@pytest.mark.parametrize(
    ("wrong", "close"), [("USPS", "usps"), ("optdigit", "optdigits"), ("breast_w", "breastw")]
)
def test_unknown_name_points_to_the_closest(wrong, close):
    with pytest.raises(ValueError, match=f"did you mean '{close}'.*The names are usps, .*mnist"):
        find(wrong)


@pytest.mark.parametrize("wrong", ["zzzzzz", "", None, 3])
def test_unknown_name_lists_all(wrong):
    with pytest.raises(ValueError, match=r"No data set is called .*\. The names are usps"):
        find(wrong)


def test_mismatch_names_each_difference():
    entry = find("sonar")
    X, y = np.zeros((208, 60)), np.repeat([0, 1], [97, 111])
    assert entry.mismatch(Dataset("sonar", X, y)) == ""
    assert entry.mismatch(Dataset("sonar", X[:, 1:], y)) == "features 59 in place of 60"
    assert "class counts {0: 97, 2: 111}" in entry.mismatch(Dataset("sonar", X, 2 * y))
    difference = entry.mismatch(Dataset("sonar", X[1:], y[1:], X[:5, 1:], y[:5]))
    assert "rows 207 in place of 208, test rows 5 in place of 0" in difference
    assert "features 59 and 60 in place of 60" in difference


def test_count_classes_gives_plain_numbers():
    counts = count_classes(np.array([7, 1, 7], dtype=np.uint8))
    assert counts == {1: 1, 7: 2}
    assert all(type(number) is int for number in [*counts, *counts.values()])


def _readme_rows():
    """Rows of the table in the folder's README: name, shape and classes."""
    folder = os.environ.get("KERNLET_DATA")
    if not folder or not (Path(folder) / "README.md").is_file():
        pytest.skip("KERNLET_DATA does not name a folder with the README of the data sets")
    lines = (Path(folder) / "README.md").read_text(encoding="utf-8").splitlines()
    table = [line for line in lines if re.match(r"\| \w+ \| \d", line)]
    return [[cell.strip() for cell in row.split("|")[1:4]] for row in table]


def test_catalog_has_the_shapes_of_the_readme():
    rows = {name: shape for name, shape, _ in _readme_rows()}
    assert set(rows) == set(CATALOG)
    for name, shape in rows.items():
        n_rows, n_test, n_features = re.match(r"(\d+)(?: / (\d+))? x (\d+)", shape).groups("0")
        entry = CATALOG[name]
        found = (entry.n_rows, entry.n_test, entry.n_features)
        assert found == (int(n_rows), int(n_test), int(n_features)), name


def test_catalog_has_the_class_counts_of_the_readme():
    for name, _, classes in _readme_rows():
        counts = list(CATALOG[name].class_counts.values())
        assert len(counts) == int(classes.split()[0]), name
        # The README prints counts in several manners, training part first, or not at all.
        printed = classes.split(";")[0]
        if len(re.findall(r"\d{2,}", printed)) >= len(counts):
            assert set(map(str, counts)) <= set(re.findall(r"\d+", printed)), name
