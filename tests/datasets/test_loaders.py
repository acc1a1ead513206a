import os
from http.client import IncompleteRead
from urllib.error import URLError

import numpy as np
import pytest
from sklearn.utils import Bunch

from kernlet.datasets import load, names, openml
from kernlet.datasets.catalog import CATALOG, count_classes


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

        monkeypatch.setattr(openml, "fetch_openml", fake)
        monkeypatch.setattr(openml, "fetch_covtype", fake)

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
    with pytest.raises(ValueError, match=r"sonar\.npz is damaged"):
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

    monkeypatch.setattr(openml, "fetch_openml", fake)
    load("sonar")
    load("sonar", data_home=tmp_path)
    assert asked == [None, tmp_path]


def test_copy_that_differs_is_given_with_a_warning(answer):
    answer(np.ones((6430, 36)), np.repeat(["1.", "7."], 3215).astype(object))
    with pytest.warns(UserWarning, match="'satimage' on OpenML .* rows 6430 in place of 4435") as w:
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
    assert f"set KERNLET_DATA to a folder that holds {name}.npz" in sentence
    assert "be online so that OpenML can be asked" in sentence
    assert caught.value.__cause__ is error


@pytest.mark.usefixtures("no_folder")
@pytest.mark.parametrize("name", ["bupa", "thyroid", "checkerboard_generated"])
def test_set_of_the_folder_alone(name):
    with pytest.raises(FileNotFoundError) as caught:
        load(name)
    sentence = str(caught.value)
    assert f"set KERNLET_DATA to a folder that holds {name}.npz" in sentence
    assert "online" in sentence


def test_missing_pandas_is_explained(answer):
    answer(error=ImportError("fetch_openml requires pandas"))
    with pytest.raises(ImportError, match=r"KERNLET_DATA .* or install pandas"):
        load("usps")


def test_unknown_name_asks_nobody(answer):
    answer(error=AssertionError("OpenML was asked"))
    with pytest.raises(ValueError, match="did you mean 'mnist'"):
        load("minst")
