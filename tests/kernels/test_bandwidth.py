import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn.svm import SVC

import naive
from kernlet.kernels import gram as gram_module
from kernlet.kernels.bandwidth import KERNEL_NAMES, make_kernel, resolve_gamma
from kernlet.kernels.laplacian import Laplacian
from kernlet.kernels.linear import Linear
from kernlet.kernels.polynomial import Polynomial
from kernlet.kernels.rbf import RBF
from kernlet.kernels.sigmoid import Sigmoid

CONTAINERS = [np.asarray, sparse.csr_matrix, sparse.csr_array, sparse.csc_array]
every_container = pytest.mark.parametrize("container", CONTAINERS)

RULES = {
    "scale": lambda X: 1 / (X.shape[1] * X.var()),
    "auto": lambda X: 1 / X.shape[1],
    "mean_distance": lambda X: 1 / naive.mean_squared_distance(X),
}
every_rule = pytest.mark.parametrize("rule", RULES)
rules_of_spread = pytest.mark.parametrize("rule", ["scale", "mean_distance"])


@pytest.fixture
def X():
    rng = np.random.default_rng(2)
    return rng.normal(loc=1.0, size=(9, 4)) * (rng.random((9, 4)) < 0.6)


@every_container
def test_numbers_are_returned_as_they_are(container, X):
    assert resolve_gamma(0.25, container(X)) == 0.25
    assert resolve_gamma(np.float32(0.25), container(X)) == 0.25


@every_container
@every_rule
def test_rule_is_its_definition(rule, container, X):
    assert resolve_gamma(rule, container(X)) == pytest.approx(RULES[rule](X), rel=1e-12)


@every_container
@every_rule
@pytest.mark.parametrize("dtype", [np.float32, np.int64])
def test_rule_is_computed_in_float64(rule, container, dtype, X):
    X = (10 * X).astype(dtype)
    expected = RULES[rule](X.astype(float))
    assert resolve_gamma(rule, container(X)) == pytest.approx(expected, rel=1e-12)


@rules_of_spread
def test_rule_is_right_far_from_the_origin(rule, X):
    far = X + 1e6
    assert resolve_gamma(rule, far) == pytest.approx(RULES[rule](X), rel=1e-8)


@rules_of_spread
def test_rule_is_the_same_whatever_the_block_size(rule, X, monkeypatch):

    whole = resolve_gamma(rule, X)
    monkeypatch.setattr(gram_module, "BLOCK_BYTES", 1)
    assert resolve_gamma(rule, X) == pytest.approx(whole, rel=1e-12)


@every_container
@every_rule
def test_weight_of_a_row_counts_it_that_many_times(rule, container, X):
    times = np.array([1, 2, 0, 1, 3, 1, 0, 2, 1])
    weighted = resolve_gamma(rule, container(X), times.astype(float))
    assert weighted == pytest.approx(RULES[rule](np.repeat(X, times, axis=0)), rel=1e-12)


@every_container
@every_rule
def test_only_proportions_of_weights_matter(rule, container, X):
    weights = np.arange(1.0, 10.0)
    once = resolve_gamma(rule, container(X), weights)
    assert resolve_gamma(rule, container(X), 7 * weights) == pytest.approx(once, rel=1e-12)


@every_container
@rules_of_spread
@pytest.mark.parametrize("shape", [(1, 1), (4, 2), (8, 1)])
@pytest.mark.parametrize("value", [0.0, 1.0])
def test_constant_rows_give_one(value, shape, rule, container):
    assert resolve_gamma(rule, container(np.full(shape, value))) == 1.0


@rules_of_spread
@pytest.mark.parametrize("container", [np.asarray, sparse.csr_array])
def test_constant_rows_give_one_whatever_the_rounding(rule, container):
    values = [0.1, 0.3, 1 / 3, 3.0, 1e4 + 0.1]
    constant = [np.full(shape, value) for value in values for shape in [(7, 5), (10, 1), (49, 3)]]
    assert [resolve_gamma(rule, container(X)) for X in constant] == [1.0] * len(constant)


@settings(max_examples=30, deadline=None)
@given(factor=st.floats(0.01, 100), seed=st.integers(0, 100))
@rules_of_spread
def test_scaling_the_data_scales_gamma_by_the_inverse_square(rule, factor, seed):
    X = np.random.default_rng(seed).normal(size=(6, 3))
    expected = resolve_gamma(rule, X) / factor**2
    assert resolve_gamma(rule, factor * X) == pytest.approx(expected, rel=1e-9)


def test_entries_stored_twice_are_added():
    X = sparse.csr_array(([1.0, 1.0, 5.0], [0, 0, 1], [0, 2, 3]), shape=(2, 2))
    expected = RULES["mean_distance"](X.toarray())
    assert resolve_gamma("mean_distance", X) == pytest.approx(expected)


ROWS = np.array([[0.0, 1.0], [2.0, 0.0], [1.0, 1.0], [3.0, 2.0]])
PARAMETERS = {"gamma": 0.5, "degree": 4, "coef0": 1.5}


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("linear", Linear()),
        ("rbf", RBF(gamma=0.5)),
        ("poly", Polynomial(gamma=0.5, degree=4, coef0=1.5)),
        ("sigmoid", Sigmoid(gamma=0.5, coef0=1.5)),
        ("laplacian", Laplacian(gamma=0.5)),
    ],
)
def test_name_makes_its_kernel(name, expected):
    assert name in KERNEL_NAMES
    assert make_kernel(name, ROWS, **PARAMETERS) == expected


@pytest.mark.parametrize("name", [name for name in KERNEL_NAMES if name != "laplacian"])
def test_every_name_means_what_it_means_in_sklearn(name):
    y = np.array([0, 1, 0, 1])
    parameters = {**PARAMETERS, "gamma": "scale"}
    machine = SVC(kernel=name, **parameters).fit(ROWS, y)
    K = make_kernel(name, ROWS, **parameters)(ROWS, machine.support_vectors_)
    ours = K @ machine.dual_coef_[0] + machine.intercept_
    np.testing.assert_allclose(ours, machine.decision_function(ROWS), rtol=1e-9)


def test_kernel_is_returned_as_it_is():
    kernel = RBF(gamma=2.0)
    assert make_kernel(kernel, ROWS, **PARAMETERS) is kernel


@pytest.mark.parametrize("rule", ["scale", "auto", "mean_distance"])
def test_rule_for_gamma_is_computed_from_the_weighted_rows(rule):
    weights = np.array([1.0, 2.0, 0.0, 4.0])
    kernel = make_kernel("rbf", ROWS, weights, gamma=rule, degree=3, coef0=0.0)
    assert kernel == RBF(resolve_gamma(rule, ROWS, weights))


@every_container
@every_rule
def test_rule_for_the_1_norm_is_a_root_of_that_of_squares(rule, container, X):
    kernel = make_kernel("laplacian", container(X), gamma=rule, degree=3, coef0=0.0)
    assert kernel.gamma == pytest.approx(np.sqrt(RULES[rule](X) / X.shape[1]), rel=1e-12)
    far = make_kernel("laplacian", container(X * 2.0**405), gamma=rule, degree=3, coef0=0.0)
    factor = 1.0 if rule == "auto" else 2.0**-405
    assert far.gamma == pytest.approx(kernel.gamma * factor, rel=1e-12)


def test_scale_of_the_1_norm_is_the_deviation(X):
    kernel = make_kernel("laplacian", X, gamma="scale", degree=3, coef0=0.0)
    assert kernel.gamma == pytest.approx(1 / (X.shape[1] * X.std()), rel=1e-12)
    assert Laplacian(1 / X.shape[1]) == make_kernel(
        "laplacian", X, gamma="auto", degree=3, coef0=0.0
    )  # the default of scikit-learn's laplacian_kernel


def test_unknown_name_is_refused():
    with pytest.raises((ValueError, KeyError)):
        make_kernel("rbff", ROWS, **PARAMETERS)


@every_container
@rules_of_spread
@pytest.mark.parametrize("exponent", [-140, -125, 125, 140])
def test_rule_is_right_where_squares_of_squares_would_overflow(rule, exponent, container, X):
    power = 2.0**exponent * 8.0**exponent
    expected = RULES[rule](X) / power / power
    if np.finfo(float).tiny <= expected < np.inf:
        assert resolve_gamma(rule, container(X * power)) == pytest.approx(expected, rel=1e-9)
    else:
        with pytest.raises(ValueError, match="out of the range of float64"):
            resolve_gamma(rule, container(X * power))


@rules_of_spread
@pytest.mark.parametrize(
    ("factor", "size"), [(1e155, "large"), (1e300, "large"), (1e-155, "small"), (1e-300, "small")]
)
def test_rule_out_of_range_gets_a_sentence(rule, factor, size, X):
    with pytest.raises(ValueError, match=f"so {size} that their squares.*StandardScaler"):
        resolve_gamma(rule, X * factor)
    assert resolve_gamma(rule, np.full((3, 2), factor)) == 1.0


@pytest.mark.parametrize(
    ("parameters", "sentence"),
    [
        ({"gamma": 10**400}, "gamma is too large"),
        ({"coef0": 10**400}, "coef0 is too large"),
        ({"coef0": -(10**400)}, "coef0 is too large"),
        ({"degree": 10**30}, "degree must be from 1 to 1000"),
    ],
)
def test_integers_beyond_float64_get_a_sentence(parameters, sentence, X):
    with pytest.raises(ValueError, match=sentence):
        make_kernel("poly", X, **{"gamma": 1.0, "degree": 3, "coef0": 0.0} | parameters)
    assert make_kernel("poly", X, gamma=10**30, degree=3, coef0=10**30).gamma == 1e30
