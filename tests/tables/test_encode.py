import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from numpy.testing import assert_array_equal
from scipy import sparse

from kernlet.tables.encode import (
    CategoryColumn,
    ColumnEncoding,
    NumberColumn,
    OrdinalColumn,
    as_numbers,
    distinct_texts,
)

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


def test_categories_that_share_features():
    column = CategoryColumn("city", ("Bern", "Oslo", "Rome"), True, (1, 0, -1, 1), 1)
    assert column.features == ("city=Oslo", "city=(other)")
    rows = column.encoded(["Bern", "Oslo", "Rome", None, "Nowhere"])
    assert_array_equal(rows, [[0, 1], [1, 0], [0, 0], [0, 1], [0, 1]])
    assert column.rule == (
        "city: city=Oslo is 1 for Oslo; city=(other) is 1 for Bern, a missing cell; 0 elsewhere. "
        "Other cells are 1 in city=(other)."
    )
    filled = CategoryColumn("city", ("Bern", "Oslo"), True, (0, 1, 1))  # missing cells are Oslo
    assert filled.features == ("city=Bern", "city=Oslo")
    assert_array_equal(filled.encoded([None, "Rome"]), [[0, 1], [0, 0]])
    flag = CategoryColumn("age", (), True)
    assert flag.features == ("age=(missing)",)
    assert_array_equal(flag.encoded(np.array([1.5, np.nan])), [[0], [1]])


def test_cells_that_are_refused():
    category = CategoryColumn("city", ("Bern",), False, (), None)
    ordinal = OrdinalColumn("size", ("S", "M"), (0.0, 1.0))
    for column in (category, ordinal):
        with pytest.raises(ValueError, match=r"Row 2, column .*: 'XL' is an unknown category"):
            column.encoded([column.categories[0], "XL"])
        with pytest.raises(ValueError, match=r"Row 1, column .*: the cell is missing"):
            column.encoded([None])
    with pytest.raises(ValueError, match=r"Row 3, column 'age': the number is missing"):
        NumberColumn("age", None).encoded([1, 2, None])


def test_categories_as_numbers():
    column = OrdinalColumn("size", ("S", "M"), (0.0, 1.5), missing=-1.0, unknown=-2.0)
    assert_array_equal(column.encoded(["M", "S", None, "XL"]), [[1.5], [0.0], [-1.0], [-2.0]])
    assert column.rule == "size: S is 0, M is 1.5, a missing cell is -1, any other text is -2."


def test_missing_numbers_may_stay_missing():
    encoding = ColumnEncoding((NumberColumn("x", 7.0), CategoryColumn("c", ("a",), True)))
    passing = encoding.passing_missing()
    table = {"x": [1.0, None], "c": ["a", None]}
    assert_array_equal(passing.transform(table), [[1.0, 1.0, 0.0], [np.nan, 0.0, 1.0]])
    assert passing.columns[0].rule == "x: the number, NaN where it is missing."
    assert passing.columns[1] is encoding.columns[1]


def test_missing_cells_of_pandas():
    column = NumberColumn("x", 7.0)
    assert_array_equal(column.encoded(pd.array([1, None], dtype="Int64")), [[1.0], [7.0]])
    category = CategoryColumn("x", ("a",), True)
    assert_array_equal(category.encoded([pd.NA, "a", pd.NaT]), [[0, 1], [1, 0], [0, 1]])


@pytest.mark.parametrize(
    ("cells", "expected"),
    [
        (np.array([2.0, np.nan, -1.5, np.nan, 2.0]), ["2", None, "-1.5", None, "2"]),
        (np.array([True, False, True]), ["True", "False", "True"]),
        (np.array([7, 3, 7], dtype=np.uint8), ["7", "3", "7"]),
        (["b", 1.0, None, True, "b", "1"], ["b", "1", None, "True", "b", "1"]),
        (np.array(["b", "a", "b"]), ["b", "a", "b"]),
    ],
    ids=str,
)
def test_distinct_texts(cells, expected):
    texts, codes = distinct_texts(cells)
    assert [texts[code] for code in codes] == expected
    assert len(set(texts)) == len(texts)


@pytest.mark.parametrize("make", [np.array, sparse.csr_matrix, np.ndarray.tolist])
def test_columns_of_arrays_by_position(make):
    columns = (NumberColumn("x2", None), CategoryColumn("x0", ("1", "2"), False))
    encoding = ColumnEncoding(columns, (2, 0), 3, has_names=False)
    rows = encoding.transform(make(np.array([[1.0, 0.0, 5.0], [2.0, 0.0, 6.0]])), np.float64)
    assert_array_equal(rows, [[5, 1, 0], [6, 0, 1]])
    with pytest.raises(ValueError, match="X has 2 columns, but the model takes 3"):
        encoding.transform(np.zeros((1, 2)))
    with pytest.raises(ValueError, match="2-d array"):
        encoding.transform(np.zeros(3))
