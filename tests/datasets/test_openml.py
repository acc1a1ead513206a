import os

import numpy as np
import pytest
from sklearn.utils import Bunch

from kernlet.datasets import load, openml
from kernlet.datasets.catalog import CATALOG, Entry, find
from kernlet.datasets.openml import (
    BOARD_CODES,
    CAPITAL_CODES,
    HEART_CODES,
    LETTER_CODES,
    arrange,
    breastw,
    breastw_all,
    cleveland,
    coded,
    fetch,
    mushroom,
    numbers,
    tictactoe,
    usps,
)

NAN = float("nan")


def mixed(*rows):
    return np.array(rows, dtype=object)


def test_numbers_reads_labels_with_or_without_a_point():
    X, y = numbers(np.eye(3), mixed("1", "7", "2."))
    np.testing.assert_array_equal(X, np.eye(3))
    assert y.tolist() == [1, 7, 2]
    assert y.dtype == np.int64


def test_usps_digits_and_pixels():
    X, y = usps(np.array([[-1.0, 0.0], [1.0, -0.631]]), mixed("1", "10"))
    np.testing.assert_allclose(X, [[0, 0.5], [1, 0.1845]])
    assert y.tolist() == [0, 9]


def test_tictactoe_fields():
    X, y = tictactoe(mixed(["x", "o", "b"], ["b", "b", "x"]), mixed("positive", "negative"))
    np.testing.assert_array_equal(X, [[1, -1, 0], [0, 0, 1]])
    assert y.tolist() == [1, 0]


@pytest.mark.parametrize("missing", [NAN, None])
def test_mushroom_letters(missing):
    X, y = mushroom(mixed(["a", "z", missing], ["x", "s", "n"]), mixed("p", "e"))
    np.testing.assert_array_equal(X, [[0, 25, 26], [23, 18, 13]])
    assert y.tolist() == [1, 0]


def test_breastw_with_and_without_incomplete_rows():
    X, target = np.array([[5, 1.0], [3, NAN], [8, 4]]), mixed("benign", "benign", "malignant")
    rows, labels = breastw(X, target)
    np.testing.assert_array_equal(rows, [[5, 1], [8, 4]])
    assert labels.tolist() == [2, 4]
    rows, labels = breastw_all(X, target)
    np.testing.assert_array_equal(rows, [[5, 1], [3, -1], [8, 4]])
    assert labels.tolist() == [2, 2, 4]


def test_cleveland_categories_are_those_of_the_original_file():
    row = [63.0, "male", "typ_angina", 145.0, 233.0, "t", "left_vent_hyper"]
    row += [150.0, "no", 2.3, "down", 0.0, "fixed_defect"]
    incomplete = [*row[:-2], NAN, "normal"]
    no_thal = [*row[:-1], NAN]
    other = [55.0, "female", "asympt", 180.0, 327.0, "f", "st_t_wave_abnormality"]
    other += [117.0, "yes", 3.4, "flat", 0.0, "normal"]
    X, y = cleveland(mixed(row, incomplete, no_thal, other), mixed("<50", "<50", "<50", ">50_1"))
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
    _, y = openml.CONVERSIONS[name](np.eye(2), mixed(*target))
    assert y.tolist() == labels


def test_unknown_category_is_named():
    with pytest.raises(ValueError, match="OpenML gives 'q', 'w' where one of x, o, b"):
        coded(mixed("x", "w", "q"), BOARD_CODES)


SPLIT = Entry("split", 3, 2, 1, "uint8", {0: 1, 1: 2}, 1, "three rows and two")
COLUMN = np.arange(5.0)[:, None]


def test_arrange_splits_rows_in_the_official_order():
    dataset = arrange(SPLIT, COLUMN, np.array([1, 0, 1, 0, 0]))
    np.testing.assert_array_equal(dataset.X, COLUMN[:3])
    np.testing.assert_array_equal(dataset.X_test, COLUMN[3:])
    assert dataset.y.tolist() == [1, 0, 1]
    assert dataset.y_test.tolist() == [0, 0]
    assert dataset.X.dtype == np.uint8


@pytest.mark.parametrize("y", [[0, 0, 1, 1, 0], [1, 0, 1, 0]])
def test_arrange_keeps_rows_of_another_order_or_number_together(y):
    dataset = arrange(SPLIT, COLUMN[: len(y)], np.array(y))
    assert dataset.y.tolist() == y
    assert dataset.X_test is None


def test_arrange_leaves_a_set_without_split_whole():
    entry = Entry("whole", 5, 0, 1, "int8", {0: 3, 1: 2}, 1, "five rows")
    assert arrange(entry, COLUMN, np.array([0, 0, 1, 1, 0])).X_test is None


def test_fetch_asks_openml_by_number(monkeypatch, tmp_path):
    asked = {}

    def fake(**keywords):
        asked.update(keywords)
        return Bunch(data=np.ones((2, 60)), target=mixed("Rock", "Mine"))

    monkeypatch.setattr(openml, "fetch_openml", fake)
    dataset = fetch(find("sonar"), tmp_path)
    assert asked == {"data_id": 40, "data_home": tmp_path, "as_frame": False, "parser": "auto"}
    assert dataset.y.tolist() == [0, 1]


def test_covertype_has_a_fetcher_of_its_own(monkeypatch):
    bunch = Bunch(data=np.full((2, 54), 2596.0), target=np.array([5, 2], dtype=np.int32))
    monkeypatch.setattr(openml, "fetch_covtype", lambda data_home: bunch)
    dataset = fetch(find("covertype"))
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
    monkeypatch.setattr(openml, "fetch_openml", lambda **_: Bunch(data=data, target=target))
    dataset = fetch(find(name))
    assert_same(dataset.X, local.X)
    np.testing.assert_array_equal(dataset.y, local.y)
    assert CATALOG[name].mismatch(dataset) == ""
    if local.X_test is not None:
        assert_same(dataset.X_test, local.X_test)
        np.testing.assert_array_equal(dataset.y_test, local.y_test)
