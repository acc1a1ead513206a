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
        (["9007199254740992", "9007199254740993"], ["9007199254740992", "9007199254740993"]),
        (["1", "2.0"], [1, 2]),
        (["0", "10"], [0, 10]),
    ],
)
def test_labels_that_differ_stay_apart(labels, wanted, tmp_path):
    (tmp_path / "t.csv").write_text("a,y\n" + "".join(f"1,{label}\n" for label in labels))
    _, classes, codes = read_table(tmp_path / "t.csv", label="y").split_target("y")
    assert classes[codes].tolist() == wanted
    if wanted[0] == labels[0] and len(labels[0]) > 2:
        pq.write_table(pa.table({"y": [int(v) for v in labels]}), tmp_path / "t.parquet")
        _, classes, codes = read_table(tmp_path / "t.parquet", label="y").split_target("y")
        assert classes[codes].tolist() == wanted


def test_decimal_commas_are_numbers_where_semicolons_part_columns(tmp_path):
    (tmp_path / "t.csv").write_text("a;b;y\n1,5;x,1;2\n-2,25;3,4;3\n;1.5;2\n")
    columns = read_table(tmp_path / "t.csv").batch(0)
    np.testing.assert_array_equal(columns["a"], [1.5, -2.25, np.nan])
    assert columns["b"].to_pylist() == ["x,1", "3,4", "1.5"]
