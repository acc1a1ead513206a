import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kernlet.tables.read import read_table


def test_names_of_columns_may_have_line_ends(tmp_path):
    lines = ['"first\nname",y'] + [f"{i},{i % 2}" for i in range(40)]
    (tmp_path / "t.csv").write_text("\n".join(lines))
    assert read_table(tmp_path / "t.csv").names == ("first\nname", "y")


@pytest.mark.parametrize(
    ("labels", "wanted"),
    [
        (["01", "1"], ["01", "1"]),
        (["1.1", "1.10", "2.0"], ["1.1", "1.10", "2.0"]),
        (["1.50", "1.25"], [1.5, 1.25]),
        (["1", "1.0", "2.5"], [1.0, 1.0, 2.5]),
        (["9007199254740992", "9007199254740993"], ["9007199254740992", "9007199254740993"]),
        (["1", "2.0"], [1, 2]),
        (["0", "10"], [0, 10]),
    ],
)
def test_labels_that_differ_stay_apart(labels, wanted, tmp_path):
    (tmp_path / "t.csv").write_text("a,y\n" + "".join(f"1,{label}\n" for label in labels))
    _, classes, codes = read_table(tmp_path / "t.csv", label="y").split_target("y")
    assert classes[codes].tolist() == wanted
    if labels[0].isdecimal() and len(labels[0]) > 2:
        pq.write_table(pa.table({"y": [int(v) for v in labels]}), tmp_path / "t.parquet")
        _, classes, codes = read_table(tmp_path / "t.parquet", label="y").split_target("y")
        assert classes[codes].tolist() == wanted


@pytest.mark.parametrize(
    ("separator", "cells", "wanted"),
    [
        (";", ["1,5", "-2,25", ""], [1.5, -2.25, np.nan]),
        (";", ["1", "2", "3", "0,5"], [1, 2, 3, 0.5]),  # R and spreadsheets write 1, not 1,0
        (";", [",5", "1,5e-3", "2e1"], [0.5, 1.5e-3, 20]),
        (";", ["1.234,5", "2.345.678", "9,25", "7"], [1234.5, 2345678, 9.25, 7]),
        (";", ["1,234", "2,345"], [1.234, 2.345]),
        (";", ["1,234,567", "2,345"], [1234567, 2345]),
        (",", ["1,5", "2"], [1.5, 2]),
        (",", ["1,234", "99", "-2,345.5"], [1234, 99, -2345.5]),
        (";", ["x,1", "3,4", "1.5"], ["x,1", "3,4", "1.5"]),
        (",", ["1,2", "1,2,3"], ["1,2", "1,2,3"]),
    ],
)
def test_numbers_with_commas(separator, cells, wanted, tmp_path, capsys):
    lines = [f'"{cell}"{separator}{number}' for number, cell in enumerate(cells)]
    (tmp_path / "t.csv").write_text("\n".join([f"a{separator}y", *lines]))
    column = read_table(tmp_path / "t.csv").batch(0)["a"].to_numpy()
    np.testing.assert_array_equal(column, wanted)
    assert ("commas" in capsys.readouterr().err) == (column.dtype == float)


def test_errors_name_the_file_once(tmp_path):
    (tmp_path / "bad.parquet").write_bytes(b"PAR1 and no more")
    with pytest.raises(ValueError, match=r"^bad\.parquet is corrupt, or not a Parquet file\.$"):
        read_table(tmp_path / "bad.parquet")
