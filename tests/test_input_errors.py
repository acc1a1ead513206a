"""Text, missing values and several targets: where they are, and what to do."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from scipy import sparse
from sklearn.compose import make_column_transformer
from sklearn.impute import SimpleImputer
from sklearn.multiclass import OneVsRestClassifier
from sklearn.multioutput import MultiOutputClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

from kernlet import CompactKernelRegressor, L1KernelClassifier, ProximalClassifier, TypicalCondenser

X = np.random.RandomState(0).randn(30, 2)
y = (X[:, 0] > 0).astype(int)
TABLE = {"size": X[:, 0], "city": ["Paris", "Rome"] * 15}
HOLES = np.where(np.arange(60).reshape(30, 2) == 7, np.nan, X)

frames = pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame, pa.table])


@frames
@pytest.mark.parametrize("estimator", [ProximalClassifier(), TypicalCondenser()])
def test_text_is_named_with_its_column_and_an_encoder(estimator, frame):
    with pytest.raises(ValueError, match=r"^Column 'city' of X .*\('Paris'\).*OneHotEncoder"):
        estimator.fit(frame(TABLE), y)


@pytest.mark.parametrize("dtype", [object, str])
def test_columns_of_arrays_have_numbers(dtype):
    with pytest.raises(ValueError, match=r"^Column 1 of X holds text \('Paris'\)"):
        ProximalClassifier().fit(pd.DataFrame(TABLE).to_numpy().astype(dtype), y)


@pytest.mark.parametrize("rows", [X, sparse.csr_array(X)])
def test_text_in_the_targets_of_a_regression_is_not_blamed_on_x(rows):
    with pytest.raises(ValueError, match=r"^y holds text \('Paris'\)"):
        CompactKernelRegressor(2).fit(rows, TABLE["city"])


@frames
def test_missing_values_are_named_with_their_column_and_an_imputer(frame):
    rows = frame({"size": HOLES[:, 0], "age": HOLES[:, 1]})
    sentence = r"X contains NaN, first in row 3 of column 'age'.*pipeline\(SimpleImputer\(\), P"
    with pytest.raises(ValueError, match=sentence):
        ProximalClassifier().fit(rows, y)
    machine = ProximalClassifier().fit(frame({"size": X[:, 0], "age": X[:, 1]}), y)
    with pytest.raises(ValueError, match=sentence):
        machine.predict(rows)


@pytest.mark.parametrize("rows", [HOLES, HOLES.tolist(), sparse.csc_array(HOLES)])
def test_missing_values_of_arrays(rows):
    with pytest.raises(ValueError, match="first in row 3 of column 1, and L1KernelClassifier"):
        L1KernelClassifier().fit(rows, y)


def test_several_targets_are_sent_to_meta_estimators():
    targets = np.stack([y, X[:, 1] > 0], axis=1)
    with pytest.raises(ValueError, match=r"shape \(30, 2\).*MultiOutput.*OneVsRest"):
        ProximalClassifier().fit(X, targets)
    for wrapper in (MultiOutputClassifier, OneVsRestClassifier):
        assert wrapper(ProximalClassifier()).fit(X, targets).predict(X).shape == (30, 2)


def test_the_remedies_work():
    encoder = make_column_transformer((OneHotEncoder(), ["city"]), remainder="passthrough")
    table = pd.DataFrame(TABLE)
    assert make_pipeline(encoder, ProximalClassifier()).fit(table, y).score(table, y) > 0.8
    assert make_pipeline(SimpleImputer(), ProximalClassifier()).fit(HOLES, y).score(X, y) > 0.8
