"""The 1-norm machine as an estimator."""

import numpy as np
import pytest
from scipy.sparse import csr_array
from sklearn.datasets import load_breast_cancer, make_moons
from sklearn.exceptions import ConvergenceWarning
from sklearn.preprocessing import StandardScaler

from kernlet import L1KernelClassifier
from kernlet.datasets import make_checkerboard


def two_moons():
    return make_moons(60, noise=0.25, random_state=0)


def overlapping_noise():
    random = np.random.RandomState(0)
    X = random.randn(50, 3)
    return X, X[:, 0] + random.randn(50) > 0


@pytest.mark.parametrize("make", [two_moons, overlapping_noise])
@pytest.mark.parametrize("C", [0.3, 3.0])
def test_leave_one_out_bound_against_true_leave_one_out(make, C):
    """Proposition 3.1: a row that is no center and has no dual can go without any change."""
    X, y = make()
    machine = L1KernelClassifier(C=C, gamma=0.5, random_state=0).fit(X, y)
    moving = np.union1d(machine.center_indices_, machine.margin_indices_)
    assert machine.loo_error_bound_ == len(moving) / len(X)
    errors = 0
    for i in range(len(X)):
        others = np.arange(len(X)) != i
        without = L1KernelClassifier(C=C, gamma=0.5, random_state=0).fit(X[others], y[others])
        errors += without.predict(X[[i]])[0] != y[i]
        if i not in moving:
            assert without.predict(X[[i]])[0] == y[i]
            assert without.objective_ == pytest.approx(machine.objective_, rel=1e-9)
    assert errors / len(X) <= machine.loo_error_bound_


def test_leave_one_out_bound_with_fixed_centers_counts_duals_only():
    X, y = two_moons()
    machine = L1KernelClassifier(candidates=X[:20] + 0.01, random_state=0).fit(X, y)
    assert machine.loo_error_bound_ == len(machine.margin_indices_) / len(X)


def test_leave_one_out_bound_counts_rows_of_hardly_any_weight():
    """Errors that cost next to nothing are errors all the same."""
    random = np.random.RandomState(0)
    side = np.repeat([-2.0, 2.0], 50)
    X, y = (side + 0.3 * random.randn(100))[:, None], side > 0
    y[:20] = True
    weight = np.where(np.arange(100) < 20, 1e-10, 1.0)
    machine = L1KernelClassifier(1.0, gamma=0.5, random_state=0).fit(X, y, weight)
    assert machine.loo_error_bound_ >= 0.2


def test_leave_one_out_bound_is_one_without_an_optimum():
    X, y = two_moons()
    with pytest.warns(ConvergenceWarning):
        machine = L1KernelClassifier(max_iter=0, random_state=0).fit(X, y)
    assert machine.loo_error_bound_ == 1.0


@pytest.mark.parametrize("far", [1e6, 1e9])
@pytest.mark.parametrize("place", [np.asarray, csr_array])
def test_a_row_far_away_leaves_the_certificate_true(far, place):
    """The certificate is that of the machine which predicts."""
    X, y = make_moons(100, noise=0.3, random_state=0)
    X, y = place(np.vstack([X, [[far, far]]])), np.append(y, 1)
    machine = L1KernelClassifier(gamma=1.0, random_state=0).fit(X, y)
    slacks = np.maximum(0.0, 1.0 - np.where(y == 1, 1, -1) * machine.decision_function(X))
    objective = 3.0 * slacks.sum() + np.abs(machine.expansion_.coef).sum()
    assert machine.objective_ == pytest.approx(objective, rel=1e-9)
    assert machine.duality_gap_[0] <= 1e-9


def test_weight_two_is_the_row_twice():
    X, y = two_moons()
    weight = np.ones(60)
    weight[:15] = 2.0
    heavy = L1KernelClassifier(random_state=0).fit(X, y, weight)
    twice = L1KernelClassifier(random_state=0).fit(np.vstack([X, X[:15]]), np.r_[y, y[:15]])
    np.testing.assert_allclose(heavy.decision_function(X), twice.decision_function(X), atol=1e-7)
    assert heavy.objective_ == pytest.approx(twice.objective_, rel=1e-9)


def test_does_not_depend_on_the_order_of_rows_or_the_seed():
    X, y = make_moons(150, noise=0.2, random_state=1)
    order = np.random.RandomState(0).permutation(150)
    one = L1KernelClassifier(random_state=0).fit(X, y)
    other = L1KernelClassifier(random_state=7).fit(X[order], y[order])
    assert set(one.center_indices_) == set(order[other.center_indices_])
    np.testing.assert_allclose(one.decision_function(X), other.decision_function(X), atol=1e-7)


def test_fitted_attributes_describe_one_machine():
    X, y = make_moons(100, noise=0.2, random_state=2)
    machine = L1KernelClassifier(random_state=0).fit(X, y)
    expansion = machine.expansion_
    assert machine.n_centers_ == len(machine.center_indices_) == expansion.n_centers
    assert machine.duals_.shape == (1, len(machine.margin_indices_))
    assert (machine.duals_ > 0).all()
    slacks = np.maximum(0.0, 1.0 - np.where(y == 1, 1, -1) * machine.decision_function(X))
    objective = 3.0 * slacks.sum() + np.abs(expansion.coef).sum()
    assert machine.objective_ == pytest.approx(objective, rel=1e-9)
    m1, m2 = len(machine.margin_indices_), machine.n_centers_
    assert m1 == m2 + 1 + np.sum(slacks > 1e-9)


def test_more_classes_share_centers_and_equal_one_vs_rest():
    X, y = three_classes()
    machine = L1KernelClassifier(gamma=0.5, random_state=0).fit(X, y)
    for number in range(3):
        alone = L1KernelClassifier(gamma=0.5, random_state=0).fit(X, y == number)
        np.testing.assert_allclose(
            machine.decision_function(X)[:, number], alone.decision_function(X), atol=1e-7
        )
        assert machine.objective_[number] == pytest.approx(alone.objective_[0], rel=1e-9)
    assert machine.duality_gap_.shape == (3,)
    assert machine.n_centers_ <= (machine.expansion_.coef != 0).sum()


def three_classes():
    random = np.random.RandomState(0)
    y = np.repeat(np.arange(3), 30)
    return random.randn(90, 2) + 2.0 * np.c_[np.cos(2 * y), np.sin(2 * y)], y


@pytest.mark.parametrize("kernel", ["rbf", "poly", "linear", "sigmoid"])
def test_every_kernel(kernel):
    X, y = load_breast_cancer(return_X_y=True)
    X = StandardScaler().fit_transform(X)
    machine = L1KernelClassifier(kernel=kernel, C=0.1, random_state=0).fit(X, y)
    assert machine.duality_gap_.max() <= 1e-8
    assert machine.score(X, y) > 0.9


def test_the_checkerboard_is_learned_from_few_points():
    board = make_checkerboard(random_state=0)
    machine = L1KernelClassifier(C=100.0, gamma=4.0, random_state=0).fit(board.X, board.y)
    assert machine.score(board.X_test, board.y_test) > 0.95
    assert machine.n_centers_ < 60
