"""One spelling of a category in CSV, Parquet, pandas, polars and Arrow."""

import datetime
from decimal import Decimal

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from numpy.testing import assert_array_equal

import kernlet
from kernlet.cli import main
from kernlet.tables.encode import (
    CategoryColumn,
    ColumnEncoding,
    OrdinalColumn,
    category_text,
    distinct_texts,
    learned_categories,
)
from kernlet.tables.read import read_table
from kernlet.tables.spelling import find_categories, one_spelling

polars = pytest.importorskip("polars")
DAYS = [datetime.date(2024, 1, day) for day in (5, 31, 5, 12)]
MOMENTS = [datetime.datetime(2024, 1, day, 18, 30) for day in (5, 31, 5, 12)]
# the cells of CSV, and as Arrow has them
COLUMNS = {
    "true": (["true", "false", "true", "false"], pa.array([True, False, True, False])),
    "TRUE": (["TRUE", "FALSE", "", "FALSE"], pa.array([True, False, None, False])),
    "mixed case": (["True", "false", "TRUE", "False"], pa.array([True, False, True, False])),
    "whole": (["1", "10", "2", "10"], pa.array([1, 10, 2, 10])),
    "whole as decimals": (["1.0", "10.0", "", "2.0"], pa.array([1.0, 10.0, None, 2.0])),
    "padded": (["01", "02", "10", "01"], pa.array([1, 2, 10, 1], pa.int16())),
    "decimals": (["0.50", "1.25", "0.50", "1e2"], pa.array([0.5, 1.25, 0.5, 100.0])),
    "float32": (["0.1", "0.2", "", "0.3"], pa.array([0.1, 0.2, None, 0.3], pa.float32())),
    "exact": (
        ["1.50", "2.50", "1.50", ""],
        pa.array([Decimal("1.50"), Decimal("2.50"), Decimal("1.50"), None]),
    ),
    "long": (
        ["9007199254740992", "9007199254740993", "9007199254740992", "7"],
        pa.array([2**53, 2**53 + 1, 2**53, 7]),
    ),
    "text": (["red", "green", "", "red"], pa.array(["red", "green", None, "red"])),
    "dictionary": (
        ["red", "green", "", "red"],
        pa.array(["red", "green", None, "red"]).dictionary_encode(),
    ),
    "large": (["a", "b", "", "a"], pa.array(["a", "b", None, "a"], pa.large_string())),
    "date": ([str(day) for day in DAYS], pa.array(DAYS)),
    "midnight": ([str(day) for day in DAYS], pa.array(DAYS).cast(pa.timestamp("ns"))),
    "moment": ([str(moment) for moment in MOMENTS], pa.array(MOMENTS, pa.timestamp("us"))),
    "zone": (
        [moment.isoformat() + "Z" for moment in MOMENTS],
        pa.array(MOMENTS, pa.timestamp("us", "UTC")),
    ),
}
SOURCES = ["csv", "parquet", "pandas", "polars", "arrow"]


def table_of(source, name, folder):
    cells, typed = COLUMNS[name]
    table = pa.table({"c": typed, "x": [1.0, 2.0, 3.0, 4.0]})
    path = folder / f"t.{source}"
    if source == "csv":
        path.write_text("c,x\n" + "".join(f"{cell},{k}\n" for k, cell in enumerate(cells, 1)))
        return read_table(path, category=["c"]).batch(0)
    if source == "parquet":
        pq.write_table(table, path)
        return read_table(path, category=["c"]).batch(0)
    if source == "pandas":
        return table.to_pandas()
    return polars.from_arrow(table) if source == "polars" else table


def noted(notes):
    return lambda name, text: notes.append((name, text))


def as_category(table):
    """The encoding of a table whose first column is one of categories."""
    values = table["c"] if hasattr(table["c"], "dictionary_encode") else np.asarray(table["c"])
    texts, codes = distinct_texts(values)
    column = learned_categories("c", {texts[code] for code in codes}, len(codes))
    return ColumnEncoding((column,))


@pytest.mark.parametrize("name", COLUMNS)
@pytest.mark.parametrize("trained", SOURCES)
def test_a_machine_of_one_source_takes_the_rows_of_any_other(name, trained, tmp_path):
    encoding = as_category(table_of(trained, name, tmp_path))
    expected = encoding.transform(table_of(trained, name, tmp_path))
    assert (expected.sum(axis=1) == 1).all()
    notes = []
    for source in SOURCES:
        rows = encoding.transform(table_of(source, name, tmp_path), note=noted(notes))
        assert_array_equal(rows, expected, err_msg=source)
    assert not notes


@pytest.mark.parametrize("name", [name for name in COLUMNS if name not in ("padded", "float32")])
def test_all_sources_learn_the_same_categories(name, tmp_path):
    learned = {as_category(table_of(source, name, tmp_path)).columns for source in SOURCES}
    assert len(learned) == 1


@pytest.mark.parametrize(
    ("categories", "cells", "expected"),
    [
        (("false", "true"), [True, False, "TRUE", 1, 0.0], [1, 0, 1, 1, 0]),
        (("False", "True"), ["true", "false", " True"], [1, 0, 1]),
        (("01", "1"), ["01", "1", 1, 1.0, "001"], [0, 1, 1, 1, None]),  # differ as texts only
        (("01", "02"), ["1", 2, 2.0, "01"], [0, 1, 1, 0]),
        (("01", "A1"), ["1", 1, "01"], [None, None, 0]),
        (("1.0", "1.1"), ["1", 1, "1.10", 1.1], [0, 0, 1, 1]),
        (("1.1", "1.10"), ["1.1", "1.10", 1.1, "1.100"], [0, 1, 0, None]),
        (("1", "true"), ["True", True, 1.0], [1, 1, 0]),
        (("0.10000000149011612", "0.5"), [np.float32(0.1), "0.1", 0.1, "0.2"], [0, 0, 0, None]),
        (("2024-01-05 00:00:00", "x"), ["2024-01-05"], [None]),
        (("2024-01-05 00:00:00",), ["2024-01-05", np.datetime64("2024-01-05", "ns")], [0, 0]),
        (("b'ab'", "c"), [b"ab", "ab"], [0, 0]),
        (("NA", "x"), [None, "NA", "nan"], [0, 0, None]),
        (("", "NA"), [None], [None]),
        (("1e999999999", "2"), ["1E+999999999", 2, "1e99999999999999999999"], [0, 1, None]),
    ],
    ids=str,
)
def test_cells_of_categories(categories, cells, expected):
    index = {text: number for number, text in enumerate(categories)}
    found = find_categories([category_text(cell) for cell in cells], index)
    assert [entry if known else None for entry, known in found] == expected


def test_words_for_missing_cells():
    column = CategoryColumn("c", ("a",), True)
    assert_array_equal(column.encoded(["NA", None, " ", "b"]), [[0, 1], [0, 1], [0, 1], [0, 0]])


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        ({"true", "TRUE", "False"}, {"True", "False"}),
        ({"1.0", "2.00"}, {"1", "2"}),
        ({"1.1", "1.10", "2.0"}, {"1.1", "1.10", "2.0"}),  # versions
        ({"2024-01-05", "2024-01-05 00:00"}, {"2024-01-05", "2024-01-05 00:00"}),
        ({"01", "1"}, {"01", "1"}),
        ({"01", "2.0"}, {"01", "2"}),
        ({"a", "1.0"}, {"a", "1.0"}),
        ({"true", "yes"}, {"true", "yes"}),
        ({"1e400", "-0.0"}, {"1e400", "0"}),
        (set(), set()),
    ],
    ids=lambda texts: " ".join(sorted(texts)),
)
def test_learned_categories_have_one_spelling(texts, expected):
    assert one_spelling(texts) == expected


@pytest.mark.parametrize(
    "column",
    [CategoryColumn("c", ("red", "blue"), True), OrdinalColumn("c", ("red",), (1.0,), 0, 2)],
)
def test_a_column_without_a_known_value_is_noted(column):
    notes = []
    column.encoded(["red", "green"], noted(notes))
    column.encoded([None, None], noted(notes))
    column.encoded([], noted(notes))
    assert not notes
    column.encoded(np.array([3.0, 4.0, np.nan]), noted(notes))
    [(name, text)] = notes
    assert name == "c"
    assert text.startswith("No value of column 'c' occurred in the training: it has '3', '4', and")
    assert "'red'" in text


def test_nullable_integers_are_numbers():
    frame = pd.DataFrame(
        {"n": pd.array([1, None, 3], "Int64"), "d": [Decimal(1), None, Decimal(2)]}
    )
    assert [column.fill for column in ColumnEncoding.learned(frame).columns] == [2.0, 1.5]


def flags(n_rows=120):
    rng = np.random.default_rng(0)
    flag = rng.random(n_rows) < 0.5
    frame = pd.DataFrame({"flag": flag, "z": rng.normal(size=n_rows)})
    return frame.assign(y=np.where(flag, "p", "q"))


def write(frame, path):
    if path.suffix == ".csv":  # as polars writes it
        path.write_text(polars.from_pandas(frame).write_csv())
    else:
        frame.to_parquet(path)
    return str(path)


@pytest.mark.parametrize("trained", ["csv", "parquet"])
def test_booleans_of_the_command_line(trained, tmp_path):
    frame, model = flags(), tmp_path / "m.kernlet"
    command = ["fit", write(frame, tmp_path / f"t.{trained}"), "--target", "y", "--centers", "4"]
    assert CliRunner().invoke(main, [*command, "--no-svc", "-o", str(model)]).exit_code == 0
    loaded = kernlet.load(model)
    X = frame[["flag", "z"]]
    tables = [X, X.astype({"flag": str}), polars.from_pandas(X), pa.Table.from_pandas(X)]
    for table in tables:
        assert (loaded.predict(table) == frame["y"]).mean() == 1
    for kind in ("csv", "parquet"):
        path = write(frame, tmp_path / f"new.{kind}")
        result = CliRunner().invoke(main, ["predict", str(model), path])
        assert "accuracy 100.00 %" in result.output
        assert "note: No value" not in result.output
    with pytest.warns(
        UserWarning, match=r"No value of column 'flag'.*'no', 'yes'.*'False', 'True'"
    ):
        loaded.predict(X.assign(flag=np.where(X["flag"], "yes", "no")))
    path = write(frame.assign(flag=np.where(X["flag"], "yes", "no")), tmp_path / "n.csv")
    output = CliRunner().invoke(main, ["predict", str(model), path]).output
    assert output.count("note: No value of column 'flag'") == 1


@pytest.mark.parametrize("trained", ["csv", "parquet"])
def test_labels_of_the_command_line_are_booleans(trained, tmp_path):
    frame = flags().assign(y=lambda table: table["flag"], flag=lambda table: table["y"])
    model = str(tmp_path / "m.kernlet")
    command = ["fit", write(frame, tmp_path / f"t.{trained}"), "--target", "y", "--centers", "4"]
    assert CliRunner().invoke(main, [*command, "--no-svc", "-o", model]).exit_code == 0
    for kind in ("csv", "parquet"):
        path = write(frame, tmp_path / f"new.{kind}")
        assert "accuracy 100.00 %" in CliRunner().invoke(main, ["predict", model, path]).output
        page = ["--no-sizes", "-o", str(tmp_path / "p.html")]
        result = CliRunner().invoke(main, ["report", model, path, *page])
        assert result.exit_code == 0
        assert "accuracy 100.00 %" in result.output
