from dataclasses import replace

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from numpy.testing import assert_array_equal

import kernlet
from kernlet import CompactKernelClassifier
from kernlet.model.model import as_model
from kernlet.tables.dates import DateColumn, learned_dates
from kernlet.tables.encode import ColumnEncoding, NumberColumn


@pytest.mark.parametrize(
    ("texts", "order"),
    [
        (["2024-01-31 18:30:00", "2023-02-01T05:00"], "year-month-day"),
        (["2024/01/31 18:30:00.25Z", "2023/02/01 05:00+02:00"], "year-month-day"),
        (["31.1.2024 18:30", "1.2.2023 5:00"], "day-month-year"),
        (["31/01/24 18:30", "01/02/23 05:00"], "day-month-year"),
        (["1/31/2024 6:30 PM", "2/1/2023 5:00 am"], "month-day-year"),
        (["1/31/2024 18:30:00.5", "2/1/2023 5:00:00.25"], "month-day-year"),
        (["1706725800", "1675227600"], "seconds or milliseconds since 1970"),
        (["1706725800000", "1675227600000"], "seconds or milliseconds since 1970"),
    ],
)
def test_dates_are_read_as_they_are_written(texts, order):
    column = learned_dates("t", [*texts, None])
    assert column.order == order
    assert column.features == ("t_year", "t_month", "t_hour")  # both are Wednesdays
    parts = [[2024, 1, 18], [2023, 2, 5], [2023.5, 1.5, 11.5]]
    assert_array_equal(column.encoded([*texts, None]), parts)


def test_dates_of_all_libraries():
    texts = ["2024-01-31 18:00:00", None, "2024-02-03 05:00:00"]
    column = learned_dates("t", texts)
    series = pd.to_datetime(pd.Series(texts))
    wanted = column.encoded(texts)
    for values in (series.to_numpy(), pa.array(series), pl.Series(series).to_numpy()):
        assert_array_equal(column.encoded(values), wanted)
    assert column.features == ("t_month", "t_weekday", "t_hour")
    assert_array_equal(learned_dates("t", ["20240131", "20240203"]).encoded(["20240203"]), [[2, 5]])


def test_cells_that_are_not_dates():
    with pytest.raises(ValueError, match=r"'t' does not hold dates of one kind.*'soon'"):
        learned_dates("t", ["2024-01-31", "soon"])
    with pytest.raises(ValueError, match="one cell is '2024-02-31'"):
        learned_dates("t", ["2024-01-31", "2024-02-31"])
    with pytest.raises(ValueError, match="'t' is empty"):
        learned_dates("t", [None, None])
    with pytest.raises(ValueError, match="the same date in every row"):
        learned_dates("t", ["2024-01-31", "2024-01-31"])


@pytest.mark.parametrize("texts", [["2019", "2020"], ["45000.25", "45100"], ["202401", "202402"]])
def test_years_and_days_of_spreadsheets_are_not_seconds(texts):
    with pytest.raises(ValueError, match="does not hold dates of one kind"):
        learned_dates("t", texts)


@pytest.mark.parametrize(
    ("texts", "example"),
    [
        (["2024-01-31", "2023-02-01"], ""),
        (["1/2/2024 10:00:00.5", "1/3/2023"], "1/2/2024 10:00:00.5 is 2024-01-02"),
        ([None, "1.2.2024", "2.2.2024"], "1.2.2024 is 2024-02-01"),
        (["23-11-05", "23-11-06"], "23-11-05 is 2005-11-23"),
    ],
)
def test_an_example_says_how_dates_are_read(texts, example):
    assert learned_dates("t", texts).example(texts) == example


def test_a_column_of_dates_is_saved(tmp_path):
    column = DateColumn("t", "day-month-year", ("month", "hour"), (1.5, 12.0))
    assert "t_hour is 0 to 23, 12 where the date is missing" in column.rule
    encoding = ColumnEncoding((column, NumberColumn("x", 0.5)))
    X = np.random.RandomState(0).rand(60, 3)
    model = as_model(CompactKernelClassifier(3, random_state=0).fit(X, X[:, 0] > 0.5))
    path = tmp_path / "m.kernlet"
    kernlet.save(kernlet.load(save_with(model, encoding, path)), tmp_path / "again.kernlet")
    loaded = kernlet.load(tmp_path / "again.kernlet")
    assert loaded.model_.encoding == encoding
    assert loaded.predict({"t": ["1.2.2024 05:00", None], "x": [1.0, None]}).shape == (2,)
    with pytest.raises(ValueError, match="has no parts"):
        save_with(model, ColumnEncoding((DateColumn("t", "day-month-year", (), ()),)), path)


def save_with(model, encoding, path):
    kernlet.save(replace(model, encoding=encoding, feature_names=encoding.feature_names), path)
    return path
