"""The minimal machine as an estimator."""

import numpy as np
import pytest
from sklearn.datasets import make_moons
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils._param_validation import InvalidParameterError

from kernlet import L1KernelClassifier, MinimalKernelClassifier
from kernlet.datasets import load, make_checkerboard


@pytest.mark.parametrize("parameters", [{"mu": -1.0}, {"alpha": 0.0}, {"max_lps": 0}], ids=str)
def test_bad_parameters(parameters):
    X, y = make_moons(20, random_state=0)
    (name,) = parameters
    with pytest.raises(InvalidParameterError, match=f"The '{name}' parameter"):
        MinimalKernelClassifier(**parameters).fit(X, y)


def test_fewer_centers_at_the_accuracy_of_the_1_norm_machine():
    board = make_checkerboard(random_state=1)
    options = {"C": 300.0, "gamma": 4.0, "random_state": 0}
    first = L1KernelClassifier(**options).fit(board.X, board.y)
    minimal = MinimalKernelClassifier(**options).fit(board.X, board.y)
    assert minimal.n_centers_ < first.n_centers_
    accuracy = minimal.score(board.X_test, board.y_test)
    assert accuracy > first.score(board.X_test, board.y_test) - 0.01


def test_counts_its_linear_programs():
    X, y = make_moons(100, noise=0.2, random_state=0)
    machine = MinimalKernelClassifier(random_state=0).fit(X, y)
    assert machine.n_lps_.shape == (1,)
    assert 2 <= machine.n_lps_[0] <= 50
    assert machine.duality_gap_.max() <= 1e-9


def test_stopping_at_max_lps_warns():
    X, y = make_moons(100, noise=0.2, random_state=0)
    with pytest.warns(ConvergenceWarning, match="still improving after max_lps=2"):
        MinimalKernelClassifier(max_lps=2, random_state=0).fit(X, y)


def test_remark_4_4_with_the_costs_of_the_last_program():
    """Trained on its m1 rows and m2 centers alone, with all else equal, it is the same machine."""
    X, y = make_moons(150, noise=0.2, random_state=0)
    machine = MinimalKernelClassifier(mu=0.0, gamma=1.0, random_state=0).fit(X, y)
    rows = machine.margin_indices_
    again = MinimalKernelClassifier(
        mu=0.0, gamma=1.0, candidates=machine.expansion_.centers, random_state=0
    ).fit(X[rows], y[rows])
    np.testing.assert_allclose(again.decision_function(X), machine.decision_function(X), atol=1e-7)


def test_no_price_for_presence_is_the_1_norm_machine():
    X, y = make_moons(100, noise=0.2, random_state=0)
    minimal = MinimalKernelClassifier(mu=0.0, random_state=0).fit(X, y)
    first = L1KernelClassifier(random_state=0).fit(X, y)
    np.testing.assert_allclose(minimal.decision_function(X), first.decision_function(X), atol=1e-8)


def test_checkerboard_figure_of_the_paper(data_folder):
    """Figure 4: 30 rows and 27 centers for the paper, on its own board."""
    board = load("checkerboard_generated")
    scale = lambda X: X / 100.0 - 1.0  # noqa: E731
    machine = MinimalKernelClassifier(C=300.0, mu=100.0, gamma=3.0, random_state=0)
    machine.fit(scale(board.X), board.y)
    assert len(machine.margin_indices_) <= 30
    assert machine.n_centers_ <= 27
    assert machine.score(scale(board.X_test), board.y_test) >= 0.974


def test_usps_eight_against_the_rest(data_folder):
    digits = load("usps")
    X, X_test = 2.0 * digits.X - 1.0, 2.0 * digits.X_test - 1.0
    machine = MinimalKernelClassifier(C=0.9, gamma=1 / 128, random_state=0)
    machine.fit(X, digits.y == 8)
    assert machine.duality_gap_[0] <= 1e-9
    assert machine.n_centers_ < 60
    assert machine.score(X_test, digits.y_test == 8) > 0.97
