import numpy as np
import pytest
from sklearn.svm import SVC

from kernlet.kernels.bandwidth import KERNEL_NAMES, make_kernel, resolve_gamma
from kernlet.kernels.linear import Linear
from kernlet.kernels.polynomial import Polynomial
from kernlet.kernels.rbf import RBF
from kernlet.kernels.sigmoid import Sigmoid

X = np.array([[0.0, 1.0], [2.0, 0.0], [1.0, 1.0], [3.0, 2.0]])
PARAMETERS = {"gamma": 0.5, "degree": 4, "coef0": 1.5}


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("linear", Linear()),
        ("rbf", RBF(gamma=0.5)),
        ("poly", Polynomial(gamma=0.5, degree=4, coef0=1.5)),
        ("sigmoid", Sigmoid(gamma=0.5, coef0=1.5)),
    ],
)
def test_name_makes_its_kernel(name, expected):
    assert name in KERNEL_NAMES
    assert make_kernel(name, X, **PARAMETERS) == expected


@pytest.mark.parametrize("name", KERNEL_NAMES)
def test_every_name_means_what_it_means_in_sklearn(name):
    y = np.array([0, 1, 0, 1])
    parameters = {**PARAMETERS, "gamma": "scale"}
    machine = SVC(kernel=name, **parameters).fit(X, y)
    K = make_kernel(name, X, **parameters)(X, machine.support_vectors_)
    ours = K @ machine.dual_coef_[0] + machine.intercept_
    np.testing.assert_allclose(ours, machine.decision_function(X), rtol=1e-9)


def test_kernel_is_returned_as_it_is():
    kernel = RBF(gamma=2.0)
    assert make_kernel(kernel, X, **PARAMETERS) is kernel


@pytest.mark.parametrize("rule", ["scale", "auto", "mean_distance"])
def test_rule_for_gamma_is_computed_from_the_weighted_rows(rule):
    weights = np.array([1.0, 2.0, 0.0, 4.0])
    kernel = make_kernel("rbf", X, weights, gamma=rule, degree=3, coef0=0.0)
    assert kernel == RBF(resolve_gamma(rule, X, weights))


def test_unknown_name_is_refused():
    with pytest.raises((ValueError, KeyError)):
        make_kernel("rbff", X, **PARAMETERS)
