"""The table of what each estimator can do, in docs/index.md, is what the code does."""

from pathlib import Path

import numpy as np
import pytest
from sklearn.base import is_classifier, is_outlier_detector, is_regressor
from sklearn.svm import SVC, SVR
from sklearn.utils import get_tags

import kernlet
from kernlet.rows import ArrayRows

PAGE = Path(__file__).parents[1] / "docs" / "index.md"
HEADER = (
    "| | gives | probabilities | sparse X | weights | `partial_fit` | row sources | C, ONNX | GPU |"
)
X = np.random.RandomState(0).randn(40, 2)
y = (X[:, 0] > 0).astype(int)


def make(name):
    """A quick one of its kind."""
    estimator = getattr(kernlet, name)
    original = {"CompressedClassifier": SVC(), "CompressedRegressor": SVR()}.get(name)
    estimator = estimator() if original is None else estimator(original, 5)
    small = {"candidates": 10, "n_centers": 5, "n_epochs": 2, "n_runs": 1, "random_state": 0}
    return estimator.set_params(**{k: small[k] for k in small if k in estimator.get_params()})


ESTIMATORS = {n: make(n) for n in kernlet.__all__ if hasattr(getattr(kernlet, n), "fit")}


def gives(estimator):
    if hasattr(estimator, "fit_resample"):
        return "rows"
    if is_classifier(estimator):
        return "classes"
    if is_outlier_detector(estimator):
        return "outliers"
    return "numbers" if is_regressor(estimator) else "features"


def fits(estimator, rows, **weights):
    try:
        estimator.fit(rows, y, **weights)
    except TypeError:
        return False
    return True


def exports(estimator, folder):
    try:
        kernlet.to_c(estimator.fit(X, y), folder)
    except TypeError:
        return False
    return kernlet.to_onnx(estimator, check=False) is not None


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", ESTIMATORS)
def test_the_table_says_what_an_estimator_can_do(name, tmp_path):
    estimator = ESTIMATORS[name]
    abilities = [
        hasattr(type(estimator), "predict_proba"),
        get_tags(estimator).input_tags.sparse,
        fits(estimator, X, sample_weight=np.ones(len(X))),
        hasattr(estimator, "partial_fit"),
        fits(estimator, ArrayRows(X)),
        exports(estimator, tmp_path),
        "device" in estimator.get_params(),
    ]
    marks = ["yes" if ability else "-" for ability in abilities]
    row = f"| {' | '.join([f'`{name}`', gives(estimator), *marks])} |"
    lines = PAGE.read_text("utf-8").splitlines()
    assert HEADER in lines
    assert row in lines
