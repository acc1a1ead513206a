import numpy as np
import pytest
from scipy import sparse
from sklearn.datasets import load_digits
from sklearn.exceptions import ConvergenceWarning

from kernlet import KernelExpansion, MinimalKernelClassifier
from kernlet.compression.refit import refine
from kernlet.kernels.linear import Linear
from kernlet.kernels.rbf import RBF


@pytest.fixture(scope="module")
def digits():
    X, y = load_digits(return_X_y=True)
    return X[:900], y[:900], X[900:], y[900:]


@pytest.fixture(scope="module")
def minimal(digits):
    X, y, *_ = digits
    machine = MinimalKernelClassifier(C=1.0, gamma=0.0003, random_state=0)
    return machine.fit(X, y).expansion_


def accuracy(expansion, X, y):
    return np.mean(expansion.decision_values(X).argmax(axis=1) == y)


@pytest.mark.parametrize("loss", ["cross_entropy", "squared_hinge"])
def test_the_same_number_of_centers_becomes_more_accurate(digits, minimal, loss):
    X, y, X_test, y_test = digits
    rates = None if loss == "cross_entropy" else {"centers": 0.02, "weights": 0.05}
    fine = refine(minimal, X, y, loss=loss, rates=rates, random_state=0)
    assert fine.expansion.n_centers == minimal.n_centers
    assert fine.losses[-1] < fine.losses[0]
    assert accuracy(fine.expansion, X_test, y_test) > accuracy(minimal, X_test, y_test)


def test_rates_of_nothing_leave_the_machine_as_it_was(digits, minimal):
    """Shift and scale are undone."""
    X, y, *_ = digits
    still = dict.fromkeys(("centers", "weights", "intercept", "log_gamma"), 0.0)
    same = refine(minimal, X, y, rates=still, n_epochs=1, random_state=0).expansion
    np.testing.assert_allclose(same.decision_values(X), minimal.decision_values(X), atol=1e-3)


def test_two_classes_sparse_rows_and_weights(digits):
    X, y, X_test, y_test = digits
    start = MinimalKernelClassifier(gamma=0.0003, random_state=0).fit(X, y == 8).expansion_
    rows, codes = sparse.csr_array(X), (y == 8).astype(int)
    fine = refine(start, rows, codes, sample_weight=np.where(y == 8, 5.0, 1.0), random_state=0)
    predicted = fine.expansion.decision_values(X_test)[:, 0] > 0
    assert np.mean(predicted == (y_test == 8)) > 0.93


def test_same_random_state_same_machine(digits, minimal):
    X, y, *_ = digits
    one, two = (refine(minimal, X, y, n_epochs=2, random_state=5).expansion for _ in range(2))
    np.testing.assert_array_equal(one.centers, two.centers)


def test_divergence_is_noticed_undone_and_said(digits, minimal):
    X, y, *_ = digits
    wild = {"weights": 1e30, "centers": 1e30}
    with pytest.warns(ConvergenceWarning, match="learning rates are now 1/2"):
        found = refine(minimal, X, y, rates=wild, n_epochs=2, random_state=0)
    assert np.isfinite(found.expansion.decision_values(X)).all()


def test_what_cannot_be_refined_is_refused():
    X, codes = np.ones((4, 2)), np.array([0, 1, 2, 0])
    with pytest.raises(ValueError, match="Only rbf machines"):
        refine(KernelExpansion(Linear(), X, np.ones((3, 4)), np.zeros(3)), X, codes)
    with pytest.raises(ValueError, match="one output per class"):
        refine(KernelExpansion(RBF(1.0), X, np.ones((1, 4)), np.zeros(1)), X, codes)
    with pytest.raises(ValueError, match="no centers"):
        refine(KernelExpansion(RBF(1.0), X[:0], np.ones((3, 0)), np.zeros(3)), X, codes)
