"""Kernel estimators warn of columns of unlike ranges, once, and only of these."""

import warnings

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.datasets import load_digits, load_iris
from sklearn.model_selection import GridSearchCV
from sklearn.preprocessing import StandardScaler

from kernlet import (
    MMDA,
    BoundaryCondenser,
    ChunkingSyntheticClassifier,
    CompactKernelClassifier,
    CompactNoveltyDetector,
    CoreVectorClassifier,
    CoreVectorNovelty,
    HullPerceptronClassifier,
    KernelFisherDiscriminant,
    L1KernelClassifier,
    MinimalKernelClassifier,
    ProximalClassifier,
    TypicalCondenser,
    sklearn_base,
)
from kernlet.rows import as_rows

IRIS, LABELS = load_iris(return_X_y=True)
UNLIKE = IRIS * [1.0, 1000.0, 1.0, 0.5]
ESTIMATORS = [
    L1KernelClassifier(candidates=20, random_state=0),
    MinimalKernelClassifier(candidates=20, random_state=0),
    HullPerceptronClassifier(),
    CoreVectorClassifier(random_state=0),
    CoreVectorNovelty(random_state=0),
    ProximalClassifier(landmarks=20, random_state=0),
    ChunkingSyntheticClassifier(4, n_runs=2, random_state=0),
    MMDA(n_landmarks=20, random_state=0),
    KernelFisherDiscriminant(),
    TypicalCondenser(kernel="rbf", landmarks=20, random_state=0),
    BoundaryCondenser(kernel="rbf", landmarks=20, random_state=0),
]
every_estimator = pytest.mark.parametrize("estimator", ESTIMATORS, ids=lambda e: type(e).__name__)


@pytest.fixture(autouse=True)
def forget_warnings():
    """Each test is as the first fit of a process."""
    sklearn_base._UNLIKE_COLUMNS.clear()


def fit(estimator, X, y=LABELS):
    """The warnings of a fit that are about columns."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        getattr(estimator, "fit_resample", estimator.fit)(X, y)
    return [str(w.message) for w in caught if "StandardScaler" in str(w.message)]


@every_estimator
def test_one_sentence_names_the_columns_and_the_ratio(estimator):
    (message,) = fit(estimator, UNLIKE)
    # deviations are .83, 434, 1.76 and .38
    assert message.startswith("Column 1 varies about 1,000 times as much as column 3, which")
    assert fit(estimator, IRIS) == []


def test_columns_are_named_as_in_the_frame():
    frame = pd.DataFrame(UNLIKE, columns=["age", "income", "tenure", "calls"])
    (message,) = fit(L1KernelClassifier(candidates=10, random_state=0), frame)
    assert "Column 'income' varies about 1,000 times as much as column 'calls'" in message


def test_the_warning_is_of_the_users_line():
    with pytest.warns(UserWarning, match="StandardScaler") as caught:
        ProximalClassifier(landmarks=10, random_state=0).fit(UNLIKE, LABELS)
    assert caught[0].filename == __file__


def test_other_kernels_compact_machines_and_row_sources_are_silent():
    assert fit(ProximalClassifier(kernel="linear"), UNLIKE) == []
    assert fit(ProximalClassifier(kernel="poly", landmarks=10), UNLIKE) == []
    assert fit(CompactKernelClassifier(6, n_epochs=1), UNLIKE) == []
    assert fit(CompactNoveltyDetector(6), UNLIKE) == []
    assert fit(ProximalClassifier(landmarks=10, random_state=0), as_rows(UNLIKE)) == []


def test_pixels_rare_events_and_scaled_columns_are_no_alarm():
    digits, numbers = load_digits(return_X_y=True)
    random = np.random.default_rng(0)
    rare = random.random((len(digits), 50)) < 0.003
    heavy = StandardScaler().fit_transform(random.standard_t(2, size=(len(digits), 5)))
    for X in (digits, rare, np.hstack([heavy, rare]), np.hstack([digits / 16, rare])):
        for rows in (X.astype(float), sparse.csr_array(X.astype(float))):
            assert fit(ProximalClassifier(landmarks=20, random_state=0), rows, numbers) == []


@pytest.mark.parametrize("as_given", [np.asarray, sparse.csr_array])
def test_outliers_do_not_hide_units(as_given):
    heavy = np.random.default_rng(0).standard_t(2, size=(200, 5))
    grams = as_given(np.hstack([heavy, 1000 * heavy]))
    assert fit(ProximalClassifier(landmarks=20, random_state=0), grams, heavy[:, 0] > 0)


def test_a_search_warns_once():
    machine = ProximalClassifier(landmarks=10, random_state=0)
    assert len(fit(GridSearchCV(machine, {"C": [0.1, 1, 10]}), UNLIKE)) == 1
    assert fit(machine, UNLIKE) == []
    assert len(fit(machine, UNLIKE[:, [1, 0, 2, 3]])) == 1  # other columns
