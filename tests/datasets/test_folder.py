import numpy as np
import pytest

from kernlet.datasets.catalog import Entry, find
from kernlet.datasets.folder import local_file, read_file

TINY = Entry("tiny", 3, 2, 2, "uint8", {0: 1, 1: 2}, None, "three rows")
WHOLE = Entry("whole", 3, 0, 2, "uint8", {0: 1, 1: 2}, None, "three rows")
X, Y = np.arange(6, dtype=np.uint8).reshape(3, 2), np.array([0, 1, 1], dtype=np.uint8)
SPLIT = {"Xtr": X, "ytr": Y, "Xte": X[:2], "yte": Y[:2]}


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
    np.savez_compressed(path, **SPLIT)
    dataset = read_file(path, TINY)
    np.testing.assert_array_equal(dataset.X, X)
    np.testing.assert_array_equal(dataset.y, Y)
    np.testing.assert_array_equal(dataset.X_test, X[:2])
    np.testing.assert_array_equal(dataset.y_test, Y[:2])


def test_reads_a_whole_set_and_leaves_other_arrays_alone(path):
    np.savez(path, X=X, y=Y, y_raw=Y)
    dataset = read_file(path, WHOLE)
    np.testing.assert_array_equal(dataset.X, X)
    assert dataset.X_test is None
    assert dataset.y_test is None


def test_features_keep_their_dtype_and_labels_do_not_wrap(path):
    np.savez(path, **SPLIT)
    dataset = read_file(path, TINY)
    assert dataset.X.dtype == np.uint8
    assert (2 * dataset.y - 1).min() == -1
    assert dataset.y_test.dtype == np.int64


def test_both_parts_have_one_dtype(path):
    np.savez(path, **(SPLIT | {"Xtr": X.astype(float)}))
    dataset = read_file(path, TINY)
    assert dataset.X.dtype == dataset.X_test.dtype == np.float64


@pytest.mark.parametrize("kept", [0, 1, 100, 400])
def test_truncated_file_is_named(path, kept):
    np.savez(path, **SPLIT)
    path.write_bytes(path.read_bytes()[:kept])
    with pytest.raises(ValueError, match=r"tiny\.npz is damaged or not an \.npz file"):
        read_file(path, TINY)


def test_changed_bytes_are_noticed(path):
    np.savez_compressed(path, X=np.random.RandomState(0).rand(1000, 2), y=np.zeros(1000, int))
    content = bytearray(path.read_bytes())
    content[2000:2100] = bytes(100)
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"tiny\.npz is damaged"):
        read_file(path, TINY)


def test_bare_array_is_refused(path):
    with path.open("wb") as stream:
        np.save(stream, X)
    with pytest.raises(ValueError, match=r"tiny\.npz is damaged or not an \.npz file"):
        read_file(path, TINY)


def test_pickled_objects_are_never_loaded(path):
    np.savez(path, X=np.array([{"a": 1}], dtype=object), y=np.array([0]))
    with pytest.raises(ValueError, match=r"tiny\.npz is damaged .* plain arrays"):
        read_file(path, TINY)


@pytest.mark.parametrize("keys", [["Xtr", "ytr"], ["Xtr", "ytr", "Xte"], ["Xte", "yte"]])
def test_missing_arrays_are_named(path, keys):
    np.savez(path, **{key: SPLIT[key] for key in keys})
    with pytest.raises(ValueError, match=r"tiny\.npz lacks .* Xtr, ytr, Xte, yte or X, y"):
        read_file(path, TINY)


@pytest.mark.parametrize(
    "change",
    [
        {"Xtr": X[:2]},
        {"Xtr": X[0]},
        {"ytr": Y.astype(float)},
        {"ytr": np.array(["a", "b", "c"])},
        {"Xtr": np.array([["a", "b"]] * 3)},
        {"Xte": np.array([["a", "b"]] * 2)},
    ],
)
def test_what_is_not_rows_with_labels_is_refused(path, change):
    np.savez(path, **(SPLIT | change))
    with pytest.raises(ValueError, match=r"tiny\.npz is not a table of rows with labels"):
        read_file(path, TINY)


@pytest.mark.parametrize(
    ("change", "difference"),
    [
        ({"Xtr": X[:2], "ytr": Y[:2]}, "rows 2 in place of 3"),
        ({"Xte": X, "yte": Y}, "test rows 3 in place of 2"),
        ({"Xte": X[:2, :1]}, "features 1 and 2 in place of 2"),
        ({"ytr": Y + 1}, "class counts {1: 1, 2: 2} in place of {0: 1, 1: 2}"),
    ],
)
def test_wrong_shape_is_refused(path, change, difference):
    np.savez(path, **(SPLIT | change))
    with pytest.raises(ValueError, match=r"tiny\.npz does not hold the set 'tiny'") as caught:
        read_file(path, TINY)
    assert difference in str(caught.value)


def test_file_of_another_set_is_refused(path):
    np.savez(path, X=X, y=Y)
    with pytest.raises(ValueError, match="does not hold the set 'sonar': rows 3 in place of 208"):
        read_file(path, find("sonar"))
