"""Every source of the same rows gives the same blocks, samples and sums."""

import pickle

import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
from scipy import sparse

from kernlet.rows import as_rows, open_rows, source
from kernlet.rows.npy import FileRows, open_npy
from kernlet.rows.source import ArrayRows, RowReader, RowSubset
from kernlet.sklearn_base import is_source

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

X = np.random.RandomState(0).randn(500, 3).astype(np.float32)
NAMES = ["a", "b", "c"]


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    monkeypatch.setattr(source, "_MOST_ROWS", 64)
    monkeypatch.setattr(source, "_FEWEST_ROWS", 64)


def npy(folder):
    np.save(folder / "rows.npy", X)
    return open_rows(folder / "rows.npy")


def raw(folder):
    (folder / "rows.bin").write_bytes(b"head" + X.tobytes())
    return FileRows(folder / "rows.bin", X.shape, np.float32, offset=4)


def parquet(folder):
    frame = pd.DataFrame(X, columns=NAMES)
    for number, start in enumerate(range(0, 500, 200)):
        part = frame[start : start + 200]
        table = pa.Table.from_pandas(part, preserve_index=False)
        pq.write_table(table, folder / f"part{number}.parquet", row_group_size=70)
    return open_rows(folder)


def dask_array(folder):
    return as_rows(da.from_array(X, chunks=(130, 2)))


def dask_frame(folder):
    return as_rows(dd.from_pandas(pd.DataFrame(X, columns=NAMES), npartitions=3))


SOURCES = [npy, raw, parquet, dask_array, dask_frame]


@pytest.fixture(params=SOURCES, ids=lambda make: make.__name__)
def rows(request, tmp_path):
    return request.param(tmp_path)


def total(block, weights, power):
    return [weights @ block.astype(np.float32) ** power]


def joined(a, b):
    return a + b


def test_the_same_as_in_memory_bit_for_bit(rows):
    memory, weights = ArrayRows(X), np.linspace(0, 1, 500, dtype=np.float32)
    assert rows.shape == (500, 3)
    assert rows.dtype == np.float32
    assert rows.slices() == memory.slices()
    for (bounds, block), (_, other) in zip(rows.blocks(), memory.blocks(), strict=True):
        np.testing.assert_array_equal(block, other, err_msg=str(bounds))
    sums = [
        source.map_reduce(total, joined, by_row=(weights,), shared=(2,))
        for source in (rows, memory)
    ]
    np.testing.assert_array_equal(*sums)


def test_rows_by_number(rows):
    numbers = np.array([499, 0, 130, 130, 7])
    np.testing.assert_array_equal(rows.take(numbers), X[numbers])
    np.testing.assert_array_equal(rows.read(slice(60, 210)), X[60:210])


def test_can_be_sent_to_another_process(rows):
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(rows)).read(slice(3, 9)), X[3:9])


@pytest.mark.parametrize("make", [parquet, dask_frame], ids=lambda make: make.__name__)
def test_a_column_can_be_split_off(make, tmp_path):
    others, column = make(tmp_path).split("b")
    np.testing.assert_array_equal(column, X[:, 1])
    np.testing.assert_array_equal(others.read(slice(0, 500)), X[:, [0, 2]])


def test_sources_are_told_from_arrays(tmp_path):
    assert is_source(npy(tmp_path))
    assert is_source(da.zeros((3, 2)))
    assert not is_source(X)
    assert not is_source(pd.DataFrame(X))


def test_bad_files_get_a_sentence(tmp_path):
    np.save(tmp_path / "flat.npy", np.zeros(5))
    with pytest.raises(ValueError, match="two dimensions"):
        open_npy(tmp_path / "flat.npy")
    np.save(tmp_path / "columns.npy", np.asfortranarray(np.zeros((5, 3))))
    with pytest.raises(ValueError, match="in column order"):
        open_npy(tmp_path / "columns.npy")
    (tmp_path / "short.bin").write_bytes(b"1234")
    with pytest.raises(ValueError, match="has 4 bytes; 3 rows of 2 float64 need 48"):
        FileRows(tmp_path / "short.bin", (3, 2), np.float64)
    with pytest.raises(ValueError, match=r"no file that ends in \.parquet"):
        open_rows(tmp_path)
    parquet(tmp_path)
    with pytest.raises(ValueError, match="no column 'z'"):
        open_rows(tmp_path, columns=["z"])
    with pytest.raises(TypeError, match="give y as an array"):
        npy(tmp_path).split("b")


def test_a_dask_array_of_unknown_length():
    unknown = da.from_array(X, chunks=(100, 3))
    unknown = unknown[unknown[:, 0] > 0]
    np.testing.assert_array_equal(as_rows(unknown).read(slice(0, 500)), X[X[:, 0] > 0])


def test_files_come_in_the_order_of_their_numbers(tmp_path):
    frame = pd.DataFrame({"number": np.arange(24.0)})
    dd.from_pandas(frame, npartitions=12).to_parquet(tmp_path, write_index=False)
    np.testing.assert_array_equal(open_rows(tmp_path).read(slice(0, 24))[:, 0], np.arange(24))


def test_the_widest_numbers_of_all_files_count(tmp_path):
    for name, kind in [("part0", np.float32), ("part1", np.float64)]:
        table = pa.table({"a": np.array([2**24 + 1], dtype=kind)})
        pq.write_table(table, tmp_path / f"{name}.parquet")
    assert open_rows(tmp_path).read(slice(1, 2)).tolist() == [[2**24 + 1]]


def test_a_file_without_a_column_is_named(tmp_path):
    parquet(tmp_path)
    pq.write_table(pa.table({"a": [1.0]}), tmp_path / "part9.parquet")
    with pytest.raises(ValueError, match=r"part9.parquet has no column 'b'"):
        open_rows(tmp_path)


def test_text_among_the_features_is_named(tmp_path):
    pq.write_table(pa.table({"a": [1.0], "b": ["yes"]}), tmp_path / "rows.parquet")
    with pytest.raises(ValueError, match=r"Column 'b'.*string.*columns="):
        open_rows(tmp_path).read(slice(0, 1))


@pytest.mark.parametrize("make", [parquet, dask_frame], ids=lambda make: make.__name__)
def test_an_unknown_label_column_is_named(make, tmp_path):
    with pytest.raises(ValueError, match="no column 'nope'; it has"):
        make(tmp_path).split("nope")


def test_rows_out_of_range_get_a_sentence(rows):
    for wrong in ([500], [-1]):
        with pytest.raises(IndexError, match=r"500 rows|from 0 on"):
            rows.take(np.array(wrong))
        with pytest.raises(IndexError, match=r"500 rows|from 0 on"):
            RowReader(rows)[np.array(wrong)]
    with pytest.raises(ValueError, match="steps of 2"):
        rows.read(slice(0, 6, 2))


def test_a_mask_chooses_rows(rows):
    mask = X[:, 0] > 1
    np.testing.assert_array_equal(rows.take(mask), X[mask])
    np.testing.assert_array_equal(RowReader(rows)[mask], X[mask])


def test_few_rows_far_apart_are_read_block_by_block(monkeypatch):
    rows, most = ArrayRows(X), []
    read = rows.read
    monkeypatch.setattr(
        rows, "read", lambda part: most.append(part.stop - part.start) or read(part)
    )
    numbers = np.arange(3, 500, 20)
    np.testing.assert_array_equal(RowSubset(rows, numbers).read(slice(0, 30)), X[numbers])
    assert max(most) <= rows.block_rows


def test_arrays_of_other_kinds():
    np.testing.assert_array_equal(ArrayRows([[1, 2], [3, 4]]).read(slice(1, 2)), [[3, 4]])
    coo = sparse.coo_array(X)
    np.testing.assert_array_equal(ArrayRows(coo).take([1, 0]).toarray(), X[[1, 0]])
    with pytest.raises(ValueError, match="two dimensions, not 1"):
        ArrayRows([1.0, 2.0])
    chunks = da.from_array(X, chunks=(100, 3)).map_blocks(sparse.csr_array)
    with pytest.raises(TypeError, match="sparse matrices"):
        as_rows(chunks)


def test_a_newer_npy_format_gets_a_sentence(tmp_path):
    with open(tmp_path / "new.npy", "wb") as file:
        np.lib.format.write_array(file, X, version=(3, 0))
    with pytest.raises(ValueError, match=r"version 3\.0"):
        open_npy(tmp_path / "new.npy")


def test_what_is_no_number_is_no_feature(tmp_path):
    times = pd.DataFrame({"a": np.arange(4.0), "when": pd.date_range("2026-01-01", periods=4)})
    texts = pd.DataFrame({"a": np.arange(4.0), "when": ["1.5", "2", "3", "4"]})
    for frame in (times, texts):
        frame.to_parquet(tmp_path / "rows.parquet")
        with pytest.raises(ValueError, match=r"'when' .* does not hold numbers"):
            open_rows(tmp_path / "rows.parquet").read(slice(0, 4))
        with pytest.raises(ValueError, match=r"'when' .* does not hold numbers"):
            as_rows(dd.from_pandas(frame, npartitions=2)).read(slice(0, 4))
    labels = open_rows(tmp_path / "rows.parquet", columns=["a"])
    with pytest.raises(ValueError, match="no column besides 'a'"):
        labels.split("a")


def test_numbers_that_pandas_lacks_are_nan():
    frame = pd.DataFrame({"a": pd.array([1, None, 3], dtype="Int64"), "b": [1.0, 2.0, 3.0]})
    found = as_rows(dd.from_pandas(frame, npartitions=1)).read(slice(0, 3))
    np.testing.assert_array_equal(found, [[1, 1], [np.nan, 2], [3, 3]])


@pytest.mark.parametrize("as_category", [False, True])
def test_equal_texts_of_labels_are_one_object(tmp_path, as_category):
    frame = pd.DataFrame({"a": np.arange(6.0), "label": ["no", "yes", "no"] * 2})
    if as_category:
        frame["label"] = frame.label.astype("category")
    frame.to_parquet(tmp_path / "rows.parquet", row_group_size=6)
    _, labels = open_rows(tmp_path / "rows.parquet").split("label")
    assert labels.tolist() == ["no", "yes", "no"] * 2
    assert len({id(label) for label in labels}) == 2


def test_a_row_without_a_label_is_named(tmp_path):
    frame = pd.DataFrame({"a": np.arange(6.0), "label": ["no", "yes", "no", None, "yes", "no"]})
    frame.to_parquet(tmp_path / "rows.parquet", row_group_size=2)
    with pytest.raises(ValueError, match="Row 3, counted from 0, has no label in column 'label'"):
        open_rows(tmp_path / "rows.parquet").split("label")


@pytest.mark.parametrize("make", [parquet, dask_frame], ids=lambda make: make.__name__)
def test_columns_can_be_chosen_by_name(make, tmp_path):
    rows = as_rows(make(tmp_path))
    wanted = rows.columns[2:0:-1]
    np.testing.assert_array_equal(
        rows.select(wanted).read(slice(3, 9)), rows.read(slice(3, 9))[:, 2:0:-1]
    )


@pytest.mark.parametrize("dtype", ["c16", "M8[s]", "m8[s]"])
def test_numbers_that_a_conversion_would_change_are_refused(dtype):
    array = np.zeros((3, 2), dtype)
    for X in (array, da.from_array(array)):
        with pytest.raises(ValueError, match="Rows hold real numbers"):
            as_rows(X)


@pytest.mark.parametrize("part", [np.s_[:, :1], np.s_[:2]])
def test_dask_chunks_of_another_shape_than_they_claim(part):
    array = da.zeros((6, 2), chunks=(6, 2)).map_blocks(lambda x: x[part], dtype=float)
    rows = as_rows(array)
    with pytest.raises(ValueError, match="A chunk of the Dask collection has shape"):
        rows.read(slice(0, 6))
    with pytest.raises(ValueError, match="A chunk of the Dask collection has shape"):
        rows.map_reduce(np.sum, lambda total, value: total + value)
