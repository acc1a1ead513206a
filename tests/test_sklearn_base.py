"""What every fit shares: convergence warnings and the thread limit."""

import re
import warnings
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest
from sklearn.base import BaseEstimator, clone
from sklearn.exceptions import ConvergenceWarning
from threadpoolctl import threadpool_info

import kernlet
from kernlet.kernels.linear import Linear
from kernlet.progress import CallbackSupportMixin
from kernlet.rows import as_rows
from kernlet.sklearn_base import fit_method, fit_task, is_unconverged, warn_unconverged
from kernlet.threads import single_thread


class Toy(BaseEstimator):
    """Notes the threads that a fit has."""

    _parameter_constraints: ClassVar = {}

    @fit_method
    def fit(self, X=None, y=None):
        self.threads_ = [pool["num_threads"] for pool in threadpool_info()]
        return self


@dataclass
class Certificate:
    gap: float
    status: str = "optimal"


def test_a_fit_runs_on_one_thread_and_leaves_the_limits_as_they_were():
    before = [pool["num_threads"] for pool in threadpool_info()]
    assert set(Toy().fit().threads_) <= {1}
    assert [pool["num_threads"] for pool in threadpool_info()] == before


def test_single_thread_decorates_functions_too():
    @single_thread()
    def threads():
        return {pool["num_threads"] for pool in threadpool_info()}

    assert threads() <= {1}
    assert threads() <= {1}  # more than once


@pytest.mark.parametrize(
    ("gap", "status", "tol", "answer"),
    [
        (1e-9, "optimal", 1e-12, False),  # round-off
        (1e-7, "optimal", 1e-12, True),
        (1e-9, "iteration limit", 1e-12, True),
        (1e-3, "stopped", 1e-6, False),
        (np.nan, "optimal", 1e-6, True),
        (np.inf, "optimal", 1e-6, True),
    ],
)
def test_what_counts_as_unconverged(gap, status, tol, answer):
    assert is_unconverged(Certificate(gap, status), tol) is answer


def test_the_warning_names_the_worst_gap_its_reason_and_the_line_of_the_caller():
    solutions = [Certificate(0.0), Certificate(1e-3), Certificate(1e-2, "iteration limit")]
    reasons = {"optimal": "Scale.", "iteration limit": "Raise max_iter."}
    with pytest.warns(ConvergenceWarning, match=r"^2 of 3 programs .* 1.0e-02 .*Raise") as caught:
        warn_unconverged(solutions, 1e-6, "programs", reasons)
    assert caught[0].filename == __file__


def test_warnings_of_fits_point_at_the_line_that_called_fit():
    X = np.random.RandomState(0).randn(60, 2)
    machine = kernlet.HullPerceptronClassifier(C=1e3, max_iter=2)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        machine.fit(X, np.arange(60) % 2)
    assert {warning.filename for warning in caught} == {__file__}


class Unbounded(CallbackSupportMixin, BaseEstimator):
    """Ends its fit with one number that is not finite."""

    _parameter_constraints: ClassVar = {}

    def __init__(self, name="gap_", value=np.nan):
        self.name, self.value = name, value

    @fit_method
    def fit(self, X=None, y=None):
        numbers = {"coef": np.ones((1, 2)), "intercept": np.zeros(1)}
        if self.name in numbers:
            numbers[self.name] = np.full_like(numbers[self.name], self.value)
        else:
            setattr(self, self.name, self.value)
        self.expansion_ = kernlet.KernelExpansion(Linear(), np.eye(2), **numbers)
        return self


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize(
    "name",
    [
        "coef",
        "intercept",
        "gap_",
        "duality_gap_",
        "ball_gap_",
        "error_bound_",
        "margin_",
        "objective_",
        "residual_",
    ],
)
def test_a_fit_that_is_not_finite_is_refused_and_changes_nothing(name, value):
    machine = Unbounded(name, value)
    with pytest.raises(ValueError, match=f"values of {name} that are not finite.*Scale the feat"):
        machine.fit()
    assert vars(machine) == {"name": name, "value": value}
    assert machine.set_params(value=1.0).fit() is machine


def test_a_certificate_of_an_array_is_checked_as_a_whole():
    with pytest.raises(ValueError, match="objective_"):
        Unbounded("objective_", np.array([1.0, np.nan])).fit()
    assert Unbounded("gap_", None).fit().gap_ is None


def test_a_gap_that_is_not_finite_is_refused_before_it_is_warned_of():
    with pytest.raises(ValueError, match="the duality gap that are not finite"):
        warn_unconverged([Certificate(0.0), Certificate(np.nan)], 1e-6, "programs", {})


def test_tasks_of_a_fit_do_not_warn_of_overflow(recwarn):
    @fit_task
    def overflow():
        return np.square(np.array([1e200])), {pool["num_threads"] for pool in threadpool_info()}

    (value,), threads = overflow()
    assert value == np.inf
    assert threads <= {1}
    assert not recwarn.list


ESTIMATORS = [
    kernlet.L1KernelClassifier(random_state=0),
    kernlet.L1KernelClassifier(solver="streaming", random_state=0),
    kernlet.MinimalKernelClassifier(random_state=0),
    kernlet.ChunkingSyntheticClassifier(3, n_runs=1, random_state=0),
    kernlet.ChunkingSyntheticClassifier(3, n_runs=1, solver="quadratic", random_state=0),
    kernlet.HullPerceptronClassifier(),
    kernlet.HullPerceptronClassifier(solver="sk", max_iter=100),
    kernlet.HullPerceptronClassifier(removal=kernlet.Removal(rounds=2)),
    kernlet.CoreVectorClassifier(random_state=0),
    kernlet.CoreVectorClassifier(eps=1e-3, sample_size=59, random_state=0),
    kernlet.MMDA(random_state=0),
    kernlet.MMDA(2, solver="core", random_state=0),
    kernlet.MMDA(2, solver="exact", random_state=0),
    kernlet.ProximalClassifier(random_state=0),
    kernlet.KernelFisherDiscriminant(random_state=0),
]


@pytest.mark.parametrize(
    "kernel",
    [
        {"kernel": "rbf"},
        {"kernel": "rbf", "gamma": 1.0},
        {"kernel": "linear"},
        {"kernel": "poly"},
        {"kernel": "poly", "degree": 20, "gamma": 1.0, "coef0": 1.0},
    ],
    ids=str,
)
@pytest.mark.parametrize("estimator", ESTIMATORS, ids=str)
def test_huge_and_tiny_values_are_fitted_or_refused_in_a_sentence(estimator, kernel):
    """Nothing in between: no numpy warning, and nothing that is not finite."""
    X = np.random.RandomState(0).randn(40, 2)
    y = X[:, 0] + 0.3 * X[:, 1] > 0
    for scale in (1e300, 1e160, 1e154, 1e100, 1e8, 1e-100, 1e-155, 1e-300):
        machine = clone(estimator).set_params(**kernel)
        with warnings.catch_warnings():
            warnings.simplefilter("error", RuntimeWarning)
            warnings.simplefilter("ignore", ConvergenceWarning)
            try:
                machine.fit(scale * X, y)
            except ValueError as error:
                assert re.search(r"[Ss]caled? (the features|them|features)|Raise alpha", str(error))  # noqa: PT017
                continue
        assert np.isfinite(machine.expansion_.coef).all()


@pytest.mark.parametrize("name", ["L1KernelClassifier", "ProximalClassifier", "MMDA"])
def test_rows_that_overflow_have_no_prediction(name):
    """The decision values would be NaN, and the class the first one."""
    X = np.random.RandomState(0).randn(30, 2)
    machine = getattr(kernlet, name)(kernel="poly").fit(X, X[:, 0] > 0)
    X[1] *= 1e160
    methods = ("transform",) if name == "MMDA" else ("predict", "decision_function")
    for method in methods:
        for rows in (X, as_rows(X)):
            with pytest.raises(ValueError, match=r"Row 1 of X.* overflows in the machine"):
                getattr(machine, method)(rows)
