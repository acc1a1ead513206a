import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from sklearn.base import clone
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    MaxAbsScaler,
    MinMaxScaler,
    Normalizer,
    RobustScaler,
    StandardScaler,
)

from kernlet.affine import fold_steps
from support.shipped_machines import IRIS

SCALERS = [
    StandardScaler(),
    StandardScaler(with_mean=False),
    StandardScaler(with_std=False),
    MinMaxScaler(),
    MinMaxScaler((-3, 5)),
    MaxAbsScaler(),
    RobustScaler(),
    RobustScaler(with_centering=False),
    RobustScaler(with_scaling=False),
    FunctionTransformer(),
]


@given(st.lists(st.sampled_from(range(len(SCALERS))), min_size=1, max_size=4))
def test_a_chain_of_scalers_is_one_map(numbers):
    chain = make_pipeline(*(clone(SCALERS[i]) for i in numbers))
    wanted = chain.fit_transform(IRIS)
    folded = fold_steps(chain.steps)
    found = IRIS if folded is None else folded(IRIS)
    assert_allclose(found, wanted, atol=1e-10)


def test_constant_features_stay_finite():
    X = np.hstack([IRIS, np.full((150, 1), 7.0)])
    for scaler in SCALERS[:-1]:
        assert_allclose(fold_steps([("s", scaler.fit(X))])(X), scaler.transform(X), atol=1e-10)


def test_other_steps_are_named():
    with pytest.raises(ValueError, match=r"'norm' \(Normalizer\) cannot be exported"):
        fold_steps([("norm", Normalizer())])
    assert fold_steps([("none", "passthrough"), ("nothing", None)]) is None
