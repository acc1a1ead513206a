"""Damaged and hostile tables: one sentence that names the file, before memory is taken."""

import gzip
import io
import os
import zipfile

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kernlet.rows import open_rows
from kernlet.tables.read import read_table
from kernlet.tables.sniff import TextFormat
from kernlet.tables.split import prepare


def npy_bytes(header, data=b""):
    header = header.encode().ljust(117) + b"\n"
    return b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header + data


def claiming(shape, dtype="<f8"):
    return npy_bytes(f"{{'descr': '{dtype}', 'fortran_order': False, 'shape': {shape}, }}")


def save_npz(path, compression=zipfile.ZIP_STORED, **members):
    with zipfile.ZipFile(path, "w", compression) as archive:
        for name, content in members.items():
            archive.writestr(f"{name}.npy", content)
    return path


def array_bytes(array):
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (claiming("(1000000000000, 4)"), r"claims the shape \(1000000000000, 4\)"),
        (claiming("(-3, 4)"), "claims the shape"),
        (claiming(f"(1{400 * '0'}, 4)"), "claims the shape"),
        (claiming("(2, 2)", "|O"), "holds Python objects"),
        (npy_bytes("((((((((((("), "its array X is corrupt"),
        (npy_bytes("{'descr': 3}"), "its array X is corrupt"),
        (b"\x93NUMPY\x09\x00", "version 9.0"),
        (b"", "its array X is corrupt"),
        (array_bytes(np.zeros((3, 0))), "no features"),
        (array_bytes(np.full((2, 2), 1e300)), "too large for float32"),
        (array_bytes(np.zeros((2, 2), complex)), "array of numbers"),
    ],
    ids=range(11),
)
def test_npz_files_with_a_bad_array(content, message, tmp_path):
    path = save_npz(tmp_path / "t.npz", X=content)
    with pytest.raises(ValueError, match=rf"t\.npz.*{message}") as caught:
        read_table(path)
    assert caught.value.__cause__ is not None


def test_npz_files_that_are_no_archives(tmp_path):
    path = save_npz(tmp_path / "t.npz", X=array_bytes(np.zeros((3, 2))))
    assert read_table(path).X.shape == (3, 2)
    content = bytearray(path.read_bytes())
    at = content.index(b"PK\x01\x02")
    content[at + 6] = 128  # the version of zip that is needed
    for damaged in (bytes(content), b"PK", content[:60]):
        path.write_bytes(damaged)
        with pytest.raises(ValueError, match=r"t\.npz: it is corrupt, or not an \.npz file"):
            read_table(path)


def test_packed_zeros_are_refused_by_their_size(tmp_path, monkeypatch):
    monkeypatch.setattr("kernlet.rows.npy.memory_bytes", lambda: 10**6)
    zeros = array_bytes(np.zeros((10**5, 8)))
    path = save_npz(tmp_path / "t.npz", zipfile.ZIP_DEFLATED, X=zeros)
    assert path.stat().st_size < 10**5
    with pytest.raises(ValueError, match=r"takes 0\.0 GB, too much for the memory"):
        read_table(path)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (claiming("(-3, 4)"), "shape"),
        (claiming("(1000000000000, 4)"), "bytes"),
        (claiming("(1000000000000000000, 0)"), "at least one feature"),
        (npy_bytes("((((((((((("), "corrupt, or not an array of numpy.save"),
        (b"", "corrupt"),
    ],
)
def test_npy_files(content, message, tmp_path):
    (tmp_path / "t.npy").write_bytes(content)
    with pytest.raises(ValueError, match=rf"t\.npy.*{message}"):
        open_rows(tmp_path / "t.npy")


def test_a_file_of_rows_that_became_shorter(tmp_path):
    np.save(tmp_path / "t.npy", np.ones((9, 3)))
    rows = open_rows(tmp_path / "t.npy")
    os.truncate(tmp_path / "t.npy", 200)
    with pytest.raises(ValueError, match="has become shorter"):
        rows.read(slice(0, 9))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1 99999999999:1\n2 1:1\n", "line 1, '1 99999999999:1', has the index 99999999999"),
        (f"1 1{30 * '0'}1:1\n2 1:1\n", "has the index"),
        ("1 200000000:1\n2 1:1\n", "too many for the command line"),
        ("1 2:1 1:1\n2 1:1\n", "do not ascend"),
        ("1 1:1\n2 1:x\n3 1:1", "line 2, '2 1:x', is not a label and pairs"),
        ("1 1:1e300\n2 1:1", "too large for float32"),
    ],
)
def test_libsvm_rows(text, message, tmp_path):
    (tmp_path / "t.svm").write_text(text)
    with pytest.raises(ValueError, match=rf"t\.svm.*{message}"):
        read_table(tmp_path / "t.svm")


def test_two_columns_of_one_name(tmp_path):
    table = pa.Table.from_arrays([pa.array([1.0, 2.0])] * 2, names=["a", "a"])
    pq.write_table(table, tmp_path / "t.parquet")
    for read in (read_table, open_rows):
        with pytest.raises(ValueError, match="two columns 'a'"):
            read(tmp_path / "t.parquet")


@pytest.mark.parametrize(
    "cells",
    [
        pa.array([[i % 3] for i in range(60)]),
        pa.array([{"a": i % 3} for i in range(60)]),
        pa.array([[("k", i % 3)] for i in range(60)], pa.map_(pa.string(), pa.int64())),
        pa.array(["ab"[i % 2] for i in range(60)], pa.string_view()),
        pa.array([[b"\xff", b"b"][i % 2] for i in range(60)]),
        pa.array([i % 3 for i in range(60)], pa.decimal128(5, 2)),
        pa.array([i % 3 for i in range(60)], pa.duration("s")),
        pa.array([i % 3 * 10**9 for i in range(60)], pa.timestamp("ns", "Europe/Berlin")),
    ],
    ids=lambda cells: str(cells.type),
)
def test_types_of_columns_in_batches_and_in_memory(cells, tmp_path):
    table = pa.table({"c": cells, "x": np.arange(60.0) % 7, "y": ["a", "b"] * 30})
    try:
        pq.write_table(table, tmp_path / "t.parquet", row_group_size=25)
    except pa.ArrowNotImplementedError as error:  # string_view in older versions
        pytest.skip(str(error))
    rows = []
    for max_bytes in (np.inf, 0):
        read = read_table(tmp_path / "t.parquet", label="y", max_bytes=max_bytes)
        settings = {"regression": False, "drop": (), "scale": "none", "test": 0.2, "seed": 0}
        X = prepare(read, "y", **settings).X
        rows.append(X if max_bytes else X.read(slice(0, len(X))))
    np.testing.assert_array_equal(*rows)


def test_columns_of_nulls(tmp_path):
    table = pa.table({"c": pa.nulls(9), "y": ["a"] * 9})
    pq.write_table(table, tmp_path / "t.parquet", row_group_size=4)
    for max_bytes in (np.inf, 0):
        read = read_table(tmp_path / "t.parquet", max_bytes=max_bytes)
        assert read.batch(0)["c"].null_count


def test_long_integers_in_one_row_group_only(tmp_path):
    labels = [1, 2, 1, 2, 2**53, 2**53 + 1]
    pq.write_table(pa.table({"y": labels}), tmp_path / "t.parquet", row_group_size=2)
    for max_bytes in (np.inf, 0):
        read = read_table(tmp_path / "t.parquet", label="y", max_bytes=max_bytes)
        _, classes, codes = read.split_target("y")
        assert classes[codes].tolist() == [str(label) for label in labels]


def test_a_row_group_without_its_rows(tmp_path, monkeypatch):
    pq.write_table(pa.table({"a": np.arange(10.0)}), tmp_path / "t.parquet")
    monkeypatch.setattr(
        "kernlet.rows.parquet.read_schema", lambda file: (pq.read_schema(file), [12])
    )
    rows = open_rows(tmp_path / "t.parquet")
    with pytest.raises(ValueError, match="a row group has 10 of 12 rows"):
        rows.read(slice(0, 12))
    monkeypatch.setattr("kernlet.rows.parquet.memory_bytes", lambda: 50)
    with pytest.raises(ValueError, match="do not fit "):
        rows.read(slice(0, 12))


def test_a_small_file_of_very_many_rows(tmp_path, monkeypatch):
    pq.write_table(pa.table({"a": pa.nulls(10**6)}), tmp_path / "t.parquet", row_group_size=10**6)
    assert (tmp_path / "t.parquet").stat().st_size < 10**5
    monkeypatch.setattr("kernlet.rows.parquet.memory_bytes", lambda: 10**6)
    for max_bytes in (np.inf, 0):
        with pytest.raises(ValueError, match="rows of 1 columns in one piece, which do not fit"):
            read_table(tmp_path / "t.parquet", max_bytes=max_bytes).batch(0)
    rows = open_rows(tmp_path / "t.parquet")
    with pytest.raises(ValueError, match="which do not fit"):
        rows.read(slice(0, 5))


def test_missing_booleans_of_parquet_are_nan(tmp_path):
    pq.write_table(pa.table({"a": [True, None, False]}), tmp_path / "t.parquet")
    rows = open_rows(tmp_path / "t.parquet").read(slice(0, 3))
    np.testing.assert_array_equal(rows, [[1.0], [np.nan], [0.0]])


def test_pipes_are_refused_and_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "t.csv")
    for read in (read_table, open_rows):
        with pytest.raises(ValueError, match="is a pipe or a device"):
            read(tmp_path / "t.csv")
        with pytest.raises(FileNotFoundError):
            read(tmp_path / "none.csv")


def test_folders_without_parquet_files(tmp_path):
    for read in (read_table, open_rows):
        with pytest.raises(ValueError, match=r"holds no file that ends in \.parquet"):
            read(tmp_path)


def test_long_cells_and_many_columns(tmp_path, capsys):
    path = tmp_path / "t.csv"
    path.write_text(f"a,b\n1,{'x' * 200_000}\n2,y\n")
    assert read_table(path).n_rows == 2
    path.write_text(f"a b\n1 {'x' * 200_000}\n2 y\n")
    assert read_table(path).n_rows == 2
    path.write_text(f"a,b\n1,{'x' * 5_000_000}\n2,y\n")
    assert read_table(path).n_rows == 2
    path.write_text(f"a,b\n1,2\n3,{'1' * 100_000}x\n")  # not in quadratic time
    assert read_table(path).n_rows == 2
    names = [f"{'column ' * 40}{number}" for number in range(5_000)]  # over 1 MiB
    path.write_text(",".join(names) + "\n" + ",".join(["1"] * 5_000) + "\n")
    assert read_table(path).names == tuple(names)
    path.write_text("x" * (1 << 25))
    with pytest.raises(ValueError, match="its first line has more than"):
        read_table(path)


def test_texts_packed_beyond_memory_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("kernlet.tables.text.memory_bytes", lambda: 1000)
    (tmp_path / "t.csv").write_text("a,b\n" + "1,2\n" * 1000)
    with pytest.raises(ValueError, match="more than half of the memory"):
        read_table(tmp_path / "t.csv")


@pytest.mark.parametrize("encoding", ["hex", "no-such", "a\0b", "ascii", "utf-16", "idna"])
def test_encodings_that_do_not_fit(encoding, tmp_path):
    (tmp_path / "t.csv").write_bytes("a,b\n1,é\n2,ü\n".encode())
    with pytest.raises(ValueError, match=r"t\.csv: .*(--encoding|encoding)"):
        read_table(tmp_path / "t.csv", text_format=TextFormat(encoding=encoding))


# -- Targets -----------------------------------------------------------------------------------


def labels_of(path, **options):
    _, classes, codes = read_table(path, **options).split_target("y")
    return classes, codes


@pytest.mark.parametrize("max_bytes", [np.inf, 0])
def test_large_labels_stay_apart(max_bytes, tmp_path):
    y = np.array([1e19, 2e19, 5.0, 1e19])
    pq.write_table(pa.table({"y": y, "x": y}), tmp_path / "t.parquet", row_group_size=2)
    np.savez(tmp_path / "t.npz", X=np.zeros((4, 1)), y=y)
    (tmp_path / "t.csv").write_text("y,x\n" + "".join(f"{label},1\n" for label in y))
    for name in ("t.parquet", "t.npz", "t.csv"):
        classes, codes = labels_of(tmp_path / name, label="y", max_bytes=max_bytes)
        np.testing.assert_array_equal(classes[codes].astype(float), y)


@pytest.mark.parametrize("suffix", ["csv", "parquet", "npz"])
def test_targets_of_a_regression_are_floats(suffix, tmp_path):
    a = np.random.default_rng(0).normal(size=40)
    for y in ((a + 3) * 1e19, np.arange(40), np.arange(40) * 2**50):
        path = tmp_path / f"t.{suffix}"
        if suffix == "csv":
            path.write_text("a,y\n" + "".join(f"{u},{v}\n" for u, v in zip(a, y, strict=True)))
        elif suffix == "parquet":
            pq.write_table(pa.table({"a": a, "y": y}), path)
        else:
            np.savez(path, X=a[:, None], y=y)
        settings = {"regression": True, "drop": (), "scale": "none", "test": 0.0, "seed": 0}
        prepared = prepare(read_table(path), "y", **settings)
        assert prepared.y.dtype == np.float64
        np.testing.assert_array_equal(prepared.y, y.astype(float))


@pytest.mark.parametrize("y", [np.zeros(2, complex), np.zeros(2, "M8[s]"), np.zeros(2, "i4,f8")])
def test_labels_of_npz_files_are_numbers_or_texts(y, tmp_path):
    np.savez(tmp_path / "t.npz", X=np.zeros((2, 1)), y=y)
    with pytest.raises(ValueError, match="y must hold numbers or texts"):
        read_table(tmp_path / "t.npz")
    np.savez(tmp_path / "t.npz", X=np.zeros((2, 1)), y=np.array([b"a", b"\xc3\xbc"]))
    assert read_table(tmp_path / "t.npz").y.tolist() == ["a", "ü"]


# -- Words for missing cells, and commas ---------------------------------------------------------


def test_words_that_count_as_missing_are_noted(tmp_path, capsys):
    path = tmp_path / "t.csv"
    path.write_text("a,y\n1,NA\n NA ,p\n?,q\n4,None\n5,\n")
    table = read_table(path, label="y")
    assert table.batch(0)["a"].null_count == 2
    note = "counted as missing: 'NA' in column 'a' (1 cell), '?' in column 'a' (1 cell), 'NA'"
    assert note in capsys.readouterr().err
    with pytest.raises(ValueError, match=r"--category y to keep words as classes \(NA in 1 "):
        table.split_target("y")
    table = read_table(path, label="y", category=["y"])
    _, classes, codes = table.split_target("y", skip_unlabelled=True)
    assert classes.tolist() == ["NA", "None", "p", "q"]
    assert codes.tolist() == [0, 2, 3, 1, -1]
    table = read_table(path, label="y", category=["y"], label_words=["NA", "p"])
    assert table.split_target("y", skip_unlabelled=True)[1].tolist() == ["NA", "p", "q"]


@pytest.mark.parametrize(("separator", "meant"), [(",", "1234"), (";", "1.234")])
def test_the_note_on_commas_shows_an_example(separator, meant, tmp_path, capsys):
    (tmp_path / "t.csv").write_text(f'a{separator}b\n"7"{separator}1\n"1,234"{separator}2\n')
    assert read_table(tmp_path / "t.csv").batch(0)["a"].to_pylist() == [7, float(meant)]
    assert f"('1,234' is read as {meant}), in 'a'" in capsys.readouterr().err


def test_packed_text_that_is_cut(tmp_path):
    content = gzip.compress(b"a,b\n" + b"1,2\n" * 1000)
    for damaged in (content[:-10], content[:20] + b"\xff" * 9 + content[29:]):
        (tmp_path / "t.csv.gz").write_bytes(damaged)
        with pytest.raises(ValueError, match=r"t\.csv\.gz cannot be read"):
            read_table(tmp_path / "t.csv.gz")
