"""Data sets by name: catalog, local folder, OpenML; and the checkerboard."""

import os
import re
from dataclasses import FrozenInstanceError
from fractions import Fraction
from http.client import IncompleteRead
from math import floor
from pathlib import Path
from urllib.error import URLError

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.utils import Bunch

from kernlet import datasets
from kernlet.datasets import (
    BOARD_CODES,
    CAPITAL_CODES,
    CATALOG,
    CONVERSIONS,
    HEART_CODES,
    LETTER_CODES,
    Dataset,
    Entry,
    coded,
    count_classes,
    download,
    find_entry,
    load,
    local_file,
    make_checkerboard,
    names,
    numeric,
    read_file,
    split_officially,
)

X, Y = np.eye(3), np.array([0, 1, 1])


def test_repr_tells_shapes_and_classes():
    assert repr(Dataset("a", X, Y)) == "Dataset('a', 3 rows x 3 features, 2 classes, no test set)"
    assert "3 rows x 3 features, 2 classes, 2 test rows" in repr(Dataset("a", X, Y, X[:2], Y[:2]))


def test_is_frozen_and_compared_by_identity():
    dataset = Dataset("a", X, Y)
    with pytest.raises(FrozenInstanceError):
        dataset.name = "b"
    same = dataset
    assert dataset == same
    assert dataset != Dataset("a", X, Y)


@pytest.mark.parametrize(("rows", "labels"), [(X, Y[:2]), (X[0], Y), (X, Y[:, None])])
def test_rows_and_labels_must_fit(rows, labels):
    with pytest.raises(ValueError, match="one label per row"):
        Dataset("a", rows, labels)
    with pytest.raises(ValueError, match="one label per row"):
        Dataset("a", X, Y, rows, labels)


@pytest.mark.parametrize("test", [{"X_test": X}, {"y_test": Y}])
def test_half_a_test_part_is_refused(test):
    with pytest.raises(ValueError, match="give both or neither"):
        Dataset("a", X, Y, **test)


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
        find_entry(wrong)


@pytest.mark.parametrize("wrong", ["zzzzzz", "", None, 3])
def test_unknown_name_lists_all(wrong):
    with pytest.raises(ValueError, match=r"No data set is called .*\. The names are usps"):
        find_entry(wrong)


def test_mismatch_names_each_difference():
    entry = find_entry("sonar")
    X, y = np.zeros((208, 60)), np.repeat([0, 1], [97, 111])
    assert entry.mismatch(Dataset("sonar", X, y)) == ""
    assert entry.mismatch(Dataset("sonar", X[:, 1:], y)) == "features 59 instead of 60"
    assert "class counts {0: 97, 2: 111}" in entry.mismatch(Dataset("sonar", X, 2 * y))
    difference = entry.mismatch(Dataset("sonar", X[1:], y[1:], X[:5, 1:], y[:5]))
    assert "rows 207 instead of 208, test rows 5 instead of 0" in difference
    assert "features 59 and 60 instead of 60" in difference


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


TINY = Entry("tiny", 3, 2, 2, "uint8", {0: 1, 1: 2}, None, "three rows")
WHOLE = Entry("whole", 3, 0, 2, "uint8", {0: 1, 1: 2}, None, "three rows")
NARROW_X, NARROW_Y = np.arange(6, dtype=np.uint8).reshape(3, 2), np.array([0, 1, 1], dtype=np.uint8)
SPLIT_ARRAYS = {"Xtr": NARROW_X, "ytr": NARROW_Y, "Xte": NARROW_X[:2], "yte": NARROW_Y[:2]}


@pytest.fixture
def path(tmp_path):
    return tmp_path / "tiny.npz"


def test_local_file_needs_the_variable_and_the_file(tmp_path, monkeypatch):
    monkeypatch.delenv("KERNLET_DATA", raising=False)
    assert local_file("sonar") is None
    monkeypatch.setenv("KERNLET_DATA", "")
    assert local_file("sonar") is None
    monkeypatch.setenv("KERNLET_DATA", str(tmp_path))
    assert local_file("sonar") is None
    (tmp_path / "sonar.npz").touch()
    assert local_file("sonar") == tmp_path / "sonar.npz"


def test_reads_a_split_set(path):
    np.savez_compressed(path, **SPLIT_ARRAYS)
    dataset = read_file(path, TINY)
    np.testing.assert_array_equal(dataset.X, NARROW_X)
    np.testing.assert_array_equal(dataset.y, NARROW_Y)
    np.testing.assert_array_equal(dataset.X_test, NARROW_X[:2])
    np.testing.assert_array_equal(dataset.y_test, NARROW_Y[:2])


def test_reads_a_whole_set_and_leaves_other_arrays_alone(path):
    np.savez(path, X=NARROW_X, y=NARROW_Y, y_raw=NARROW_Y)
    dataset = read_file(path, WHOLE)
    np.testing.assert_array_equal(dataset.X, NARROW_X)
    assert dataset.X_test is None
    assert dataset.y_test is None


def test_features_keep_their_dtype_and_labels_do_not_wrap(path):
    np.savez(path, **SPLIT_ARRAYS)
    dataset = read_file(path, TINY)
    assert dataset.X.dtype == np.uint8
    assert (2 * dataset.y - 1).min() == -1
    assert dataset.y_test.dtype == np.int64


def test_both_parts_have_one_dtype(path):
    np.savez(path, **(SPLIT_ARRAYS | {"Xtr": NARROW_X.astype(float)}))
    dataset = read_file(path, TINY)
    assert dataset.X.dtype == dataset.X_test.dtype == np.float64


@pytest.mark.parametrize("kept", [0, 1, 100, 400])
def test_truncated_file_is_named(path, kept):
    np.savez(path, **SPLIT_ARRAYS)
    path.write_bytes(path.read_bytes()[:kept])
    with pytest.raises(ValueError, match=r"tiny\.npz is corrupt or not an \.npz file"):
        read_file(path, TINY)


def test_changed_bytes_are_noticed(path):
    np.savez_compressed(path, X=np.random.RandomState(0).rand(1000, 2), y=np.zeros(1000, int))
    content = bytearray(path.read_bytes())
    content[2000:2100] = bytes(100)
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"tiny\.npz is corrupt"):
        read_file(path, TINY)


def test_bare_array_is_refused(path):
    with path.open("wb") as stream:
        np.save(stream, NARROW_X)
    with pytest.raises(ValueError, match=r"tiny\.npz is corrupt or not an \.npz file"):
        read_file(path, TINY)


def test_pickled_objects_are_never_loaded(path):
    np.savez(path, X=np.array([{"a": 1}], dtype=object), y=np.array([0]))
    with pytest.raises(ValueError, match=r"tiny\.npz is corrupt .* plain arrays"):
        read_file(path, TINY)


@pytest.mark.parametrize("keys", [["Xtr", "ytr"], ["Xtr", "ytr", "Xte"], ["Xte", "yte"]])
def test_missing_arrays_are_named(path, keys):
    np.savez(path, **{key: SPLIT_ARRAYS[key] for key in keys})
    with pytest.raises(ValueError, match=r"tiny\.npz lacks .* Xtr, ytr, Xte, yte or X, y"):
        read_file(path, TINY)


@pytest.mark.parametrize(
    "change",
    [
        {"Xtr": NARROW_X[:2]},
        {"Xtr": NARROW_X[0]},
        {"ytr": NARROW_Y.astype(float)},
        {"ytr": np.array(["a", "b", "c"])},
        {"Xtr": np.array([["a", "b"]] * 3)},
        {"Xte": np.array([["a", "b"]] * 2)},
    ],
)
def test_what_is_not_rows_with_labels_is_refused(path, change):
    np.savez(path, **(SPLIT_ARRAYS | change))
    with pytest.raises(ValueError, match=r"tiny\.npz does not contain rows with labels"):
        read_file(path, TINY)


@pytest.mark.parametrize(
    ("change", "difference"),
    [
        ({"Xtr": NARROW_X[:2], "ytr": NARROW_Y[:2]}, "rows 2 instead of 3"),
        ({"Xte": NARROW_X, "yte": NARROW_Y}, "test rows 3 instead of 2"),
        ({"Xte": NARROW_X[:2, :1]}, "features 1 and 2 instead of 2"),
        ({"ytr": NARROW_Y + 1}, "class counts {1: 1, 2: 2} instead of {0: 1, 1: 2}"),
    ],
)
def test_wrong_shape_is_refused(path, change, difference):
    np.savez(path, **(SPLIT_ARRAYS | change))
    with pytest.raises(ValueError, match=r"tiny\.npz is not the data set 'tiny'") as caught:
        read_file(path, TINY)
    assert difference in str(caught.value)


def test_file_of_another_set_is_refused(path):
    np.savez(path, X=NARROW_X, y=NARROW_Y)
    with pytest.raises(ValueError, match="is not the data set 'sonar': rows 3 instead of 208"):
        read_file(path, find_entry("sonar"))


@pytest.fixture
def folder():
    if not os.environ.get("KERNLET_DATA"):
        pytest.skip("KERNLET_DATA is not set: it names the folder of the data sets")


@pytest.fixture
def no_folder(monkeypatch):
    monkeypatch.delenv("KERNLET_DATA", raising=False)


@pytest.fixture
def answer(monkeypatch, no_folder):
    """Let OpenML answer with a bunch, or with an error."""

    def install(data=None, target=None, error=None):
        def fake(**_):
            if error is not None:
                raise error
            return Bunch(data=data, target=target)

        monkeypatch.setattr(datasets, "fetch_openml", fake)
        monkeypatch.setattr(datasets, "fetch_covtype", fake)

    return install


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("name", names())
def test_every_set_loads_from_the_folder(name):
    dataset, entry = load(name), CATALOG[name]
    assert dataset.name == name
    assert dataset.X.shape == (entry.n_rows, entry.n_features)
    assert dataset.X.dtype == entry.dtype
    assert count_classes(dataset.y) == entry.class_counts
    assert not np.isnan(dataset.X.sum())
    if entry.n_test:
        assert dataset.X_test.shape == (entry.n_test, entry.n_features)
        assert set(dataset.y_test) == set(entry.class_counts)
        assert dataset.X_test.dtype == entry.dtype
    else:
        assert dataset.X_test is None


@pytest.mark.usefixtures("folder")
def test_usps_pixels_are_in_the_unit_interval():
    dataset = load("usps")
    for X in (dataset.X, dataset.X_test):
        assert X.min() == 0
        assert X.max() == 1


@pytest.mark.usefixtures("folder")
def test_codes_of_the_categorical_sets():
    assert set(load("tictactoe").X.flat) == {-1, 0, 1}
    letters = load("mushroom").X
    assert np.flatnonzero((letters == 26).any(axis=0)).tolist() == [10]
    assert (letters == 26).sum() == 2480
    assert (load("breastw_699").X == -1).sum() == 16


def test_folder_comes_before_openml(tmp_path, monkeypatch, answer):
    answer(error=AssertionError("OpenML was asked"))
    X, y = np.random.RandomState(0).rand(208, 60), np.repeat([0, 1], [97, 111])
    np.savez(tmp_path / "sonar.npz", X=X, y=y)
    monkeypatch.setenv("KERNLET_DATA", str(tmp_path))
    np.testing.assert_array_equal(load("sonar").X, X)


def test_damaged_file_is_not_replaced_by_openml(tmp_path, monkeypatch, answer):
    answer(error=AssertionError("OpenML was asked"))
    (tmp_path / "sonar.npz").write_bytes(b"PK\x03\x04 and no more")
    monkeypatch.setenv("KERNLET_DATA", str(tmp_path))
    with pytest.raises(ValueError, match=r"sonar\.npz is corrupt"):
        load("sonar")


def test_set_missing_from_the_folder_comes_from_openml(tmp_path, monkeypatch, answer, recwarn):
    answer(np.ones((208, 60)), np.repeat(["Rock", "Mine"], [97, 111]).astype(object))
    monkeypatch.setenv("KERNLET_DATA", str(tmp_path))
    dataset = load("sonar")
    assert count_classes(dataset.y) == {0: 97, 1: 111}
    assert not recwarn


def test_cache_folder_is_passed_on(monkeypatch, no_folder, tmp_path):
    asked = []

    def fake(**keywords):
        asked.append(keywords["data_home"])
        return Bunch(
            data=np.ones((208, 60)),
            target=np.repeat(["Rock", "Mine"], [97, 111]).astype(object),
        )

    monkeypatch.setattr(datasets, "fetch_openml", fake)
    load("sonar")
    load("sonar", data_home=tmp_path)
    assert asked == [None, tmp_path]


def test_copy_that_differs_is_given_with_a_warning(answer):
    answer(np.ones((6430, 36)), np.repeat(["1.", "7."], 3215).astype(object))
    with pytest.warns(UserWarning, match="'satimage' on OpenML .* rows 6430 instead of 4435") as w:
        dataset = load("satimage")
    assert dataset.X.shape == (6430, 36)
    assert dataset.X_test is None
    assert w[0].filename == __file__


@pytest.mark.parametrize("name", ["usps", "covertype"])
@pytest.mark.parametrize("error", [URLError("no route"), TimeoutError("slow"), IncompleteRead(b"")])
def test_offline_error_says_both_ways(answer, name, error):
    answer(error=error)
    with pytest.raises(ConnectionError) as caught:
        load(name)
    sentence = str(caught.value)
    assert f"set KERNLET_DATA to a folder with {name}.npz" in sentence
    assert "be online to download it from OpenML" in sentence
    assert caught.value.__cause__ is error


@pytest.mark.usefixtures("no_folder")
@pytest.mark.parametrize("name", ["bupa", "thyroid", "checkerboard_generated"])
def test_set_of_the_folder_alone(name):
    with pytest.raises(FileNotFoundError) as caught:
        load(name)
    sentence = str(caught.value)
    assert f"set KERNLET_DATA to a folder with {name}.npz" in sentence
    assert "online" in sentence


def test_missing_pandas_is_explained(answer):
    answer(error=ImportError("fetch_openml requires pandas"))
    with pytest.raises(ImportError, match=r"KERNLET_DATA .* or install pandas"):
        load("usps")


def test_unknown_name_asks_nobody(answer):
    answer(error=AssertionError("OpenML was asked"))
    with pytest.raises(ValueError, match="did you mean 'mnist'"):
        load("minst")


NAN = float("nan")


def mixed(*rows):
    return np.array(rows, dtype=object)


def test_numbers_reads_labels_with_or_without_a_point():
    y = numeric(mixed("1", "7", "2."))
    assert y.tolist() == [1, 7, 2]
    assert y.dtype == np.int64


def test_usps_digits_and_pixels():
    X, y = CONVERSIONS["usps"](np.array([[-1.0, 0.0], [1.0, -0.631]]), mixed("1", "10"))
    np.testing.assert_allclose(X, [[0, 0.5], [1, 0.1845]])
    assert y.tolist() == [0, 9]


def test_tictactoe_fields():
    X, y = CONVERSIONS["tictactoe"](
        mixed(["x", "o", "b"], ["b", "b", "x"]), mixed("positive", "negative")
    )
    np.testing.assert_array_equal(X, [[1, -1, 0], [0, 0, 1]])
    assert y.tolist() == [1, 0]


@pytest.mark.parametrize("missing", [NAN, None])
def test_mushroom_letters(missing):
    X, y = CONVERSIONS["mushroom"](mixed(["a", "z", missing], ["x", "s", "n"]), mixed("p", "e"))
    np.testing.assert_array_equal(X, [[0, 25, 26], [23, 18, 13]])
    assert y.tolist() == [1, 0]


def test_breastw_with_and_without_incomplete_rows():
    X, target = np.array([[5, 1.0], [3, NAN], [8, 4]]), mixed("benign", "benign", "malignant")
    rows, labels = CONVERSIONS["breastw"](X, target)
    np.testing.assert_array_equal(rows, [[5, 1], [8, 4]])
    assert labels.tolist() == [2, 4]
    rows, labels = CONVERSIONS["breastw_699"](X, target)
    np.testing.assert_array_equal(rows, [[5, 1], [3, -1], [8, 4]])
    assert labels.tolist() == [2, 2, 4]


def test_cleveland_categories_are_those_of_the_original_file():
    row = [63.0, "male", "typ_angina", 145.0, 233.0, "t", "left_vent_hyper"]
    row += [150.0, "no", 2.3, "down", 0.0, "fixed_defect"]
    incomplete = [*row[:-2], NAN, "normal"]
    no_thal = [*row[:-1], NAN]
    other = [55.0, "female", "asympt", 180.0, 327.0, "f", "st_t_wave_abnormality"]
    other += [117.0, "yes", 3.4, "flat", 0.0, "normal"]
    X, y = CONVERSIONS["cleveland"](
        mixed(row, incomplete, no_thal, other), mixed("<50", "<50", "<50", ">50_1")
    )
    np.testing.assert_array_equal(
        X,
        [
            [63, 1, 1, 145, 233, 1, 2, 150, 0, 2.3, 3, 0, 6],
            [55, 0, 4, 180, 327, 0, 1, 117, 1, 3.4, 2, 0, 3],
        ],
    )
    assert y.tolist() == [0, 1]


@pytest.mark.parametrize(
    ("name", "target", "labels"),
    [
        ("ionosphere", ["g", "b"], [1, 0]),
        ("sonar", ["Rock", "Mine"], [0, 1]),
        ("pima", ["tested_positive", "tested_negative"], [1, 0]),
        ("letter", ["A", "Z"], [0, 25]),
    ],
)
def test_named_classes(name, target, labels):
    _, y = CONVERSIONS[name](np.eye(2), mixed(*target))
    assert y.tolist() == labels


def test_unknown_category_is_named():
    with pytest.raises(ValueError, match="OpenML gives 'q', 'w' where one of x, o, b"):
        coded(mixed("x", "w", "q"), BOARD_CODES)


SPLIT = Entry("split", 3, 2, 1, "uint8", {0: 1, 1: 2}, 1, "three rows and two")
COLUMN = np.arange(5.0)[:, None]


def test_split_officially_splits_rows_in_the_official_order():
    dataset = split_officially(SPLIT, COLUMN, np.array([1, 0, 1, 0, 0]))
    np.testing.assert_array_equal(dataset.X, COLUMN[:3])
    np.testing.assert_array_equal(dataset.X_test, COLUMN[3:])
    assert dataset.y.tolist() == [1, 0, 1]
    assert dataset.y_test.tolist() == [0, 0]
    assert dataset.X.dtype == np.uint8


@pytest.mark.parametrize("y", [[0, 0, 1, 1, 0], [1, 0, 1, 0]])
def test_split_officially_keeps_rows_of_another_order_or_number_together(y):
    dataset = split_officially(SPLIT, COLUMN[: len(y)], np.array(y))
    assert dataset.y.tolist() == y
    assert dataset.X_test is None


def test_split_officially_leaves_a_set_without_split_whole():
    entry = Entry("whole", 5, 0, 1, "int8", {0: 3, 1: 2}, 1, "five rows")
    assert split_officially(entry, COLUMN, np.array([0, 0, 1, 1, 0])).X_test is None


def test_fetch_asks_openml_by_number(monkeypatch, tmp_path):
    asked = {}

    def fake(**keywords):
        asked.update(keywords)
        return Bunch(data=np.ones((2, 60)), target=mixed("Rock", "Mine"))

    monkeypatch.setattr(datasets, "fetch_openml", fake)
    dataset = download(find_entry("sonar"), tmp_path)
    assert asked == {"data_id": 40, "data_home": tmp_path, "as_frame": False, "parser": "auto"}
    assert dataset.y.tolist() == [0, 1]


def test_covertype_has_a_fetcher_of_its_own(monkeypatch):
    bunch = Bunch(data=np.full((2, 54), 2596.0), target=np.array([5, 2], dtype=np.int32))
    monkeypatch.setattr(datasets, "fetch_covtype", lambda data_home: bunch)
    dataset = download(find_entry("covertype"))
    assert dataset.X.dtype == np.int16
    assert dataset.y.tolist() == [5, 2]
    assert dataset.y.dtype == np.int64


# From a local file back to the form of OpenML: the conversion must return the file.


def inverse(codes):
    return {code: name for name, code in codes.items()}


def names_of(values, codes):
    found = [inverse(codes).get(value, NAN) for value in values.flat]
    return np.array(found, dtype=object).reshape(values.shape)


def openml_heart(X):
    columns = [
        names_of(X[:, j], HEART_CODES[j]) if j in HEART_CODES else X[:, j] for j in range(13)
    ]
    return np.column_stack([column.astype(object) for column in columns])


def strings(y):
    return y.astype(str).astype(object)


TO_OPENML = {
    "usps": lambda X, y: (2 * X.astype(float) - 1, strings(y + 1)),
    "ionosphere": lambda X, y: (X, names_of(y, {"b": 0, "g": 1})),
    "cleveland": lambda X, y: (openml_heart(X), names_of(y, {"<50": 0, ">50_1": 1})),
    "pima": lambda X, y: (X, names_of(y, {"tested_negative": 0, "tested_positive": 1})),
    "tictactoe": lambda X, y: (
        names_of(X, BOARD_CODES),
        names_of(y, {"negative": 0, "positive": 1}),
    ),
    "mushroom": lambda X, y: (names_of(X, LETTER_CODES), names_of(y, {"e": 0, "p": 1})),
    "breastw": lambda X, y: (X.astype(float), names_of(y, {"benign": 2, "malignant": 4})),
    "breastw_699": lambda X, y: (
        np.where(X < 0, NAN, X),
        names_of(y, {"benign": 2, "malignant": 4}),
    ),
    "sonar": lambda X, y: (X, names_of(y, {"Rock": 0, "Mine": 1})),
    "letter": lambda X, y: (X.astype(int), names_of(y, CAPITAL_CODES)),
    "optdigits": lambda X, y: (X.astype(int), strings(y)),
    "pendigits": lambda X, y: (X.astype(int), strings(y)),
    "satimage": lambda X, y: (X.astype(float), strings(y) + "."),
    "mnist": lambda X, y: (X, strings(y)),
}


def assert_same(X, expected):
    assert X.dtype == expected.dtype
    assert np.array_equal(X, expected) or np.abs(X - expected).max() < 1e-7


def test_every_openml_set_is_converted_back():
    assert set(TO_OPENML) == {name for name, entry in CATALOG.items() if entry.openml_id}


@pytest.mark.parametrize("name", TO_OPENML)
def test_conversion_returns_the_local_file(name, monkeypatch):
    folder = os.environ.get("KERNLET_DATA")
    if not folder:
        pytest.skip("KERNLET_DATA is not set: it names the folder of the data sets")
    local = load(name)
    parts = [(local.X, local.y)]
    if local.X_test is not None:
        parts.append((local.X_test, local.y_test))
    X, y = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
    data, target = TO_OPENML[name](X, y)
    monkeypatch.setattr(datasets, "fetch_openml", lambda **_: Bunch(data=data, target=target))
    dataset = download(find_entry(name))
    assert_same(dataset.X, local.X)
    np.testing.assert_array_equal(dataset.y, local.y)
    assert CATALOG[name].mismatch(dataset) == ""
    if local.X_test is not None:
        assert_same(dataset.X_test, local.X_test)
        np.testing.assert_array_equal(dataset.y_test, local.y_test)


seeds = st.integers(0, 2**32 - 1)
sides = st.integers(2, 40)


def naive_class(x, y, n_squares):
    """Exact class of a point of exact numbers."""
    column = floor((Fraction(x) + 1) * n_squares / 2)
    row = floor((Fraction(y) + 1) * n_squares / 2)
    return (column + row) % 2


@settings(deadline=None, max_examples=40)
@given(seeds, sides, st.integers(2, 60))
def test_training_labels_follow_the_formula(seed, n_squares, n_samples):
    board = make_checkerboard(n_samples, n_squares=n_squares, random_state=seed)
    assert board.X.shape == (n_samples, 2)
    assert np.abs(board.X).max() <= 1
    expected = [naive_class(x, y, n_squares) for x, y in board.X.tolist()]
    assert board.y.tolist() == expected
    assert set(expected) == {0, 1}


@settings(deadline=None, max_examples=20)
@given(sides)
def test_grid_labels_are_exact_on_the_lines_too(n_squares):
    board = make_checkerboard(2, n_squares=n_squares, random_state=0)
    steps = [Fraction(g, 100) - 1 for g in range(1, 200)]
    squares = np.array([floor((step + 1) * n_squares / 2) for step in steps])
    expected = (squares[:, None] + squares[None, :]) % 2
    np.testing.assert_array_equal(board.y_test, expected.ravel())


def test_grid_is_the_inner_lattice():
    board = make_checkerboard(10, random_state=0)
    assert board.X_test.shape == (39601, 2)
    steps = np.arange(1, 200) / 100 - 1
    np.testing.assert_allclose(np.unique(board.X_test[:, 0]), steps, atol=1e-15)
    np.testing.assert_allclose(np.unique(board.X_test[:, 1]), steps, atol=1e-15)
    assert len(np.unique(board.X_test, axis=0)) == 39601


def test_line_belongs_to_the_right_and_above():
    board = make_checkerboard(10, random_state=0)
    labels = {tuple(point): label for point, label in zip(board.X_test, board.y_test, strict=True)}
    assert labels[-0.99, -0.99] == 0
    assert labels[-0.5, -0.99] == labels[-0.99, -0.5] == 1
    assert labels[-0.5, -0.5] == labels[0.0, 0.0] == 0


@settings(deadline=None, max_examples=40)
@given(seeds, st.integers(1, 300), st.floats(0, 1))
def test_noise_flips_exactly_its_share_of_training_labels(seed, n_samples, noise):
    clean = make_checkerboard(n_samples, random_state=seed)
    noisy = make_checkerboard(n_samples, noise=noise, random_state=seed)
    np.testing.assert_array_equal(noisy.X, clean.X)
    assert (noisy.y != clean.y).sum() == round(noise * n_samples)
    assert set(noisy.y) <= {0, 1}
    np.testing.assert_array_equal(noisy.y_test, clean.y_test)


def test_two_points_have_two_classes():
    assert all(set(make_checkerboard(2, random_state=seed).y) == {0, 1} for seed in range(50))
    assert make_checkerboard(1, random_state=0).X.shape == (1, 2)


def test_seed_decides_and_the_global_generator_does_not():
    np.random.seed(1)  # noqa: NPY002
    first = make_checkerboard(50, noise=0.2, random_state=3)
    state = np.random.get_state()[1].copy()  # noqa: NPY002
    np.random.rand(7)  # noqa: NPY002
    np.random.seed(1)  # noqa: NPY002
    second = make_checkerboard(50, noise=0.2, random_state=np.random.RandomState(3))
    np.testing.assert_array_equal(first.X, second.X)
    np.testing.assert_array_equal(first.y, second.y)
    np.testing.assert_array_equal(np.random.get_state()[1], state)  # noqa: NPY002
    assert not np.array_equal(first.X, make_checkerboard(50, random_state=4).X)


def test_checkerboard_defaults():
    board = make_checkerboard()
    assert board.name == "checkerboard"
    assert board.X.shape == (1000, 2)
    assert board.X.dtype == np.float64
    assert board.y.dtype == board.y_test.dtype == np.int64


@pytest.mark.parametrize(
    "wrong",
    [
        {"n_samples": 0},
        {"n_samples": 2.5},
        {"n_squares": 1},
        {"noise": -0.1},
        {"noise": 1.1},
        {"noise": float("nan")},
        {"random_state": "seed"},
    ],
)
def test_wrong_checkerboard_parameters_are_named(wrong):
    with pytest.raises(ValueError, match=f"The '{next(iter(wrong))}' parameter .* must be"):
        make_checkerboard(**wrong)
