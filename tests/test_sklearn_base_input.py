"""Bad input gets a sentence that says what is wrong and what to do."""

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.utils._param_validation import InvalidParameterError

from kernlet import L1KernelClassifier, MinimalKernelClassifier
from kernlet.kernels.base import Kernel

X = np.random.RandomState(0).randn(30, 2)
y = (X[:, 0] > 0).astype(int)

pytestmark = pytest.mark.parametrize("Classifier", [L1KernelClassifier, MinimalKernelClassifier])


def replaced(array, value):
    bad = array.astype(float).copy()
    bad.flat[3] = value
    return bad


@pytest.mark.parametrize(
    ("X", "y", "sentence"),
    [
        (X, np.zeros(30), "one class only .* needs at least two classes"),
        (replaced(X, np.nan), y, "contains NaN"),
        (replaced(X, np.inf), y, "contains infinity"),
        (X, replaced(y, np.nan), "contains NaN"),
        (X, np.array(["a", 1] * 15, dtype=object), "mix types .*Convert them to one type"),
        (X, ["a", 1] * 15, "mix types .*number, string.*Convert them to one type"),
        (X, X[:, 0], "Unknown label type"),
        (X[:0], y[:0], "minimum of 1 is required"),
        (X[:, :0], y, "0 feature"),
        (X, y[:-1], "inconsistent numbers of samples"),
    ],
)
def test_data(Classifier, X, y, sentence):
    with pytest.raises(ValueError, match=sentence), np.errstate(all="ignore"):
        Classifier(gamma=1.0).fit(X, y)


def test_huge_values(Classifier, recwarn):
    with pytest.raises(ValueError, match=r"kernel returned NaN or infinite.*Scale the features"):
        Classifier(kernel="poly", gamma=1.0).fit(1e200 * X, y)
    assert not recwarn.list


def test_values_of_very_different_size_end_with_a_warning_and_soon(Classifier):
    """On such data HiGHS goes round in circles; it must be stopped."""
    rows = np.random.RandomState(0).randn(1000, 2)
    labels = rows[:, 0] * rows[:, 1] > 0
    rows[-3:] *= 1e4
    with pytest.warns(ConvergenceWarning, match="Scale the features"):
        machine = Classifier(kernel="poly", gamma=1.0, coef0=1.0, random_state=0).fit(rows, labels)
    assert machine.loo_error_bound_ == 1.0


@pytest.mark.parametrize("labels", [[1, 2.0] * 15, ["a", np.str_("b")] * 15])
def test_labels_of_one_kind_are_welcome_however_they_are_stored(Classifier, labels):
    assert Classifier().fit(X, labels).classes_.tolist() == labels[:2]


@pytest.mark.parametrize(
    ("weights", "sentence"),
    [
        (np.zeros(30), "at least one non-zero"),
        (y, "rows of zero sample_weight left out; training needs at least two"),
        (-np.ones(30), "Negative values"),
        (np.full(30, np.nan), "NaN"),
        (np.nan, "NaN"),
    ],
)
def test_weights(Classifier, weights, sentence):
    with pytest.raises(ValueError, match=sentence):
        Classifier().fit(X, y, weights)


@pytest.mark.parametrize(
    "parameters",
    [
        {"C": 0},
        {"C": -1.0},
        {"C": "1"},
        {"gamma": 0.0},
        {"gamma": "width"},
        {"kernel": "gauss"},
        {"degree": 0},
        {"tol": -1.0},
        {"max_iter": -2},
        {"cache_size": 0},
        {"class_weight": "equal"},
    ],
    ids=str,
)
def test_parameters(Classifier, parameters):
    (name,) = parameters
    with pytest.raises(InvalidParameterError, match=f"The '{name}' parameter"):
        Classifier(**parameters).fit(X, y)


class NaNKernel(Kernel):
    def of_products(self, products, x_norms, z_norms):
        return np.full_like(products, np.nan)


class SometimesNaNKernel(Kernel):
    """NaN only for rows that the first working set need not hold."""

    def of_products(self, products, x_norms, z_norms):
        return np.where(x_norms + z_norms > 1e4, np.nan, products)


def test_a_kernel_that_returns_nan(Classifier):
    with pytest.raises(ValueError, match="kernel returned NaN or infinite values"):
        Classifier(kernel=NaNKernel()).fit(X, y)


def test_a_kernel_that_returns_nan_for_one_row_only(Classifier):
    rows = np.random.RandomState(0).randn(2000, 2)
    rows[-1] = 1e3
    with pytest.raises(ValueError, match="kernel returned NaN or infinite values"):
        Classifier(kernel=SometimesNaNKernel(), random_state=0).fit(rows, rows[:, 0] > 0)


def test_an_iteration_limit_warns_with_the_gap_reached(Classifier):
    rows = np.random.RandomState(0).randn(200, 2)
    labels = rows[:, 0] * rows[:, 1] > 0
    with pytest.warns(ConvergenceWarning, match=r"duality gap of up to \d.*max_iter. Raise it"):
        machine = Classifier(max_iter=3, random_state=0).fit(rows, labels)
    assert machine.duality_gap_[0] > 1e-6
    assert machine.predict(rows).dtype == bool


def test_values_too_large_for_a_certificate_warn(Classifier):
    rows = 1e5 * np.random.RandomState(0).randn(60, 2) + 1e6
    with pytest.warns(ConvergenceWarning, match="Scale the features"):
        Classifier(kernel="poly", gamma=1.0, C=100.0).fit(rows, np.arange(60) % 2)


def test_costs_that_overflow(Classifier):
    with pytest.raises(ValueError, match="C times sample_weight overflows"):
        Classifier(C=1e300).fit(X, y, np.full(30, 1e300))


def test_predicting_before_fitting_or_on_other_widths(Classifier):
    with pytest.raises(NotFittedError):
        Classifier().predict(X)
    with pytest.raises(ValueError, match="3 features"):
        Classifier().fit(X, y).predict(np.ones((2, 3)))
