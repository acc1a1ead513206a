import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from numpy.testing import assert_array_equal

from kernlet.tables.encode import ColumnEncoding, as_numbers

TABLE = {
    "size": [1.0, None, 3.0, 4.0],
    "color": ["red", "blue", None, "red"],
    "on": [True, False, True, True],
}
ROWS = [[1, 0, 1, 0, 0, 1], [3, 1, 0, 0, 1, 0], [3, 0, 0, 1, 0, 1], [4, 0, 1, 0, 0, 1]]


@pytest.mark.parametrize(
    "make", [dict, pd.DataFrame, pl.DataFrame, pa.table], ids=["dict", "pandas", "polars", "arrow"]
)
def test_tables_of_all_libraries_become_the_same_rows(make):
    encoding = ColumnEncoding.learned(TABLE)
    assert encoding.feature_names == (
        *("size", "color=blue", "color=red", "color=(missing)"),
        *("on=False", "on=True"),
    )
    assert_array_equal(encoding.transform(make(TABLE)), ROWS)
    assert_array_equal(encoding.is_category, [False, True, True, True, True, True])


def test_a_new_category_and_an_unseen_gap_are_zero():
    encoding = ColumnEncoding.learned({"color": ["red", "blue"]})
    assert_array_equal(encoding.transform({"color": ["green", None]}), np.zeros((2, 2)))


def test_a_text_among_numbers_is_named_by_row_and_column():
    encoding = ColumnEncoding.learned({"size": [1.0, 2.0]})
    with pytest.raises(ValueError, match="Row 2, column 'size': 'large' is not a number"):
        encoding.transform({"size": ["1", "large"]})
    with pytest.raises(ValueError, match="Row 1, column 'size': inf is too large"):
        encoding.transform({"size": [np.inf]})


def test_what_makes_no_sense_is_refused():
    with pytest.raises(ValueError, match="Column 'x' is empty"):
        ColumnEncoding.learned({"x": [None, None]})
    with pytest.raises(ValueError, match="1000 different texts"):
        ColumnEncoding.learned({"id": [f"number {i}" for i in range(1000)]})
    encoding = ColumnEncoding.learned({f"c{i}": [1.0] for i in range(9)})
    with pytest.raises(ValueError, match=r"lacks 'c0', .* and 4 more columns"):
        encoding.transform({"other": [1.0]})
    with pytest.raises(TypeError, match="table with named columns"):
        encoding.transform(np.zeros((2, 9)))


def test_numbers_of_all_kinds():
    assert_array_equal(as_numbers(np.array([1, 2]), "x"), [1.0, 2.0])
    assert_array_equal(as_numbers(["1e3", " 2 ", None], "x"), [1000.0, 2.0, np.nan])


def test_whole_numbers_are_the_same_category_with_and_without_decimals():
    encoding = ColumnEncoding.learned({"code": ["10", "20", None]})
    frame = pd.DataFrame({"code": [10.0, np.nan, 20.0]})
    np.testing.assert_array_equal(encoding.transform(frame), [[1, 0, 0], [0, 0, 1], [0, 1, 0]])
