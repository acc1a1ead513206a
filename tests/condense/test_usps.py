"""Real digits: what condensing must not lose."""

import numpy as np
import pytest
from sklearn.neighbors import KNeighborsClassifier

from kernlet import BoundaryCondenser, CentroidCondenser, TypicalCondenser
from kernlet.datasets import load


@pytest.fixture
def digits(data_folder):
    return load("usps")


def accuracy(rows, labels, k, digits):
    found = KNeighborsClassifier(k).fit(rows, labels).predict(digits.X_test)
    return 100 * np.mean(found == digits.y_test)


def test_the_papers_accuracy_with_all_rows(digits):
    assert accuracy(digits.X, digits.y, 5, digits) == pytest.approx(94.469, abs=1e-3)


def test_a_third_of_the_rows_is_not_missed(digits):
    rows, labels = TypicalCondenser().fit_resample(digits.X, digits.y)
    assert len(rows) <= 0.67 * len(digits.X)
    assert accuracy(rows, labels, 3, digits) >= 94.3  # k = 3 by cross-validation, see benchmarks


def test_means_of_an_eighth(digits):
    scores = []
    for seed in range(2):
        condenser = CentroidCondenser(0.12, n_init=1, random_state=seed)
        scores.append(accuracy(*condenser.fit_resample(digits.X, digits.y), 1, digits))
    assert np.mean(scores) > 93.0


def test_the_counts_of_the_algorithms_as_written(digits):
    """Pixels 0 to 255, weights 1 / p, C = 1, M = 20, T = 300: counts of an independent program."""
    options = {"form": "literal", "class_weight": "normalized"}
    X = 255.0 * digits.X.astype(float)
    rows, labels = TypicalCondenser(**options).fit_resample(X, digits.y)
    assert len(X) - len(rows) == 2403
    fewer, _ = BoundaryCondenser(300, **options).fit_resample(rows, labels)
    assert len(X) - len(fewer) == 5018


def test_a_lower_level_removes_as_many_rows_as_the_paper(digits):
    """Its first line, T = 50 and nu = 1: 3,103 rows eliminated, 94.12 %."""
    X, X_test = (255.0 * A.astype(float) for A in (digits.X, digits.X_test))
    condenser = TypicalCondenser(level=0.935, class_weight="normalized")
    rows, labels = condenser.fit_resample(X, digits.y)
    assert len(X) - len(rows) == 3103
    found = KNeighborsClassifier(3).fit(rows, labels).predict(X_test)
    assert 100 * np.mean(found == digits.y_test) == pytest.approx(94.32, abs=0.01)
