"""The hull perceptron as an estimator."""

import numpy as np
import pytest
from sklearn.callback import ScoringMonitor
from sklearn.datasets import load_breast_cancer, load_iris, make_moons
from sklearn.exceptions import ConvergenceWarning
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC

from kernlet import HullPerceptronClassifier


def moons(m=150, seed=0):
    return make_moons(m, noise=0.3, random_state=seed)


def test_it_is_the_machine_of_squared_errors():
    """LIBLINEAR solves 1/2 |w|^2 + C sum slack^2 with the intercept in w."""
    X, y = load_breast_cancer(return_X_y=True)
    X = StandardScaler().fit_transform(X)
    ours = HullPerceptronClassifier(0.5, kernel="linear", tol=1e-10).fit(X, y)
    peer = LinearSVC(C=0.5, loss="squared_hinge", dual=False, tol=1e-10, max_iter=10_000).fit(X, y)
    np.testing.assert_allclose(ours.decision_function(X), peer.decision_function(X), atol=1e-5)


def test_decision_values_margin_and_gap_fit_together():
    X, y = moons()
    machine = HullPerceptronClassifier(2.0, gamma=1.0, tol=1e-11).fit(X, y)
    signs = np.where(y == 1, 1.0, -1.0)
    alpha = np.zeros(len(X))
    alpha[machine.support_indices_] = machine.alpha_[0]
    margins = signs * machine.decision_function(X)
    slack = np.maximum(0.0, 1.0 - margins)
    n2 = machine.margin_[0] ** 2  # at the optimum
    np.testing.assert_allclose(alpha, 2 * 2.0 * n2 * slack, atol=1e-8)
    norm = machine.expansion_.feature_norms()[0] ** 2 + machine.expansion_.intercept[0] ** 2
    assert norm + 2 * 2.0 * (slack**2).sum() == pytest.approx(1 / n2, rel=1e-8)
    assert machine.gap_ <= 1e-11
    assert machine.alpha_.sum() == pytest.approx(1.0)
    assert not hasattr(machine, "removal_path_")


@pytest.mark.parametrize("solver", ["mdm", "sk"])
def test_both_solvers_keep_the_promised_gap(solver):
    X, y = moons()
    exact = HullPerceptronClassifier(gamma=1.0, tol=1e-11).fit(X, y)
    machine = HullPerceptronClassifier(gamma=1.0, solver=solver, tol=1e-2).fit(X, y)
    assert 0 <= machine.gap_ <= 1e-2
    norm = exact.margin_[0]
    assert norm * (1 - 0.01) <= machine.margin_[0] <= norm * (1 + 1e-9)
    agree = machine.predict(X) == exact.predict(X)
    assert agree.mean() > 0.97


@pytest.mark.parametrize("kernel", ["rbf", "poly", "linear"])
def test_every_kernel(kernel):
    X, y = load_breast_cancer(return_X_y=True)
    X = StandardScaler().fit_transform(X)
    machine = HullPerceptronClassifier(kernel=kernel, coef0=1.0).fit(X, y)
    assert machine.score(X, y) > 0.95


def test_a_kernel_without_a_feature_space_is_refused():
    X, y = moons()
    with pytest.raises(ValueError, match="positive semi-definite kernel"):
        HullPerceptronClassifier(kernel="sigmoid").fit(X, y)


def test_weight_two_is_the_row_twice():
    X, y = moons()
    weight = np.where(np.arange(150) < 40, 2.0, 1.0)
    heavy = HullPerceptronClassifier(gamma=1.0, tol=1e-11).fit(X, y, weight)
    twice = HullPerceptronClassifier(gamma=1.0, tol=1e-11)
    twice.fit(np.vstack([X, X[:40]]), np.r_[y, y[:40]])
    np.testing.assert_allclose(heavy.decision_function(X), twice.decision_function(X), atol=1e-7)
    assert heavy.n_centers_ == twice.n_centers_ < len(twice.support_indices_)


def test_a_class_of_weight_nothing_is_never_predicted():
    X, y = load_iris(return_X_y=True)
    machine = HullPerceptronClassifier(class_weight={0: 1.0, 1: 1.0, 2: 0.0}).fit(X, y)
    assert set(machine.predict(X)) == {0, 1}
    assert machine.support_indices_.max() < 100


def test_more_classes_share_centers_and_equal_one_vs_rest():
    X, y = load_iris(return_X_y=True)
    machine = HullPerceptronClassifier(gamma=0.5, tol=1e-10).fit(X, y)
    for number in range(3):
        alone = HullPerceptronClassifier(gamma=0.5, tol=1e-10).fit(X, y == number)
        np.testing.assert_allclose(
            machine.decision_function(X)[:, number], alone.decision_function(X), atol=1e-7
        )
    assert machine.margin_.shape == (3,)
    assert np.isscalar(machine.gap_)
    np.testing.assert_allclose(machine.alpha_.sum(axis=1), 1.0)
    assert machine.n_centers_ == len(machine.center_indices_) <= len(machine.support_indices_)


def test_a_limit_of_steps_warns_with_the_gap_reached():
    X, y = moons()
    with pytest.warns(ConvergenceWarning, match=r"relative gap of up to .* Raise it"):
        machine = HullPerceptronClassifier(max_iter=5).fit(X, y)
    assert machine.gap_ > 1e-3
    assert machine.n_iter_ == 5


def test_no_digits_left_warns_with_a_sentence():
    X = np.repeat(moons()[0], 2, axis=0)
    y = np.tile([0, 1], 150)
    with pytest.warns(ConvergenceWarning, match="lower C"):
        HullPerceptronClassifier(C=1e16).fit(X, y)


def test_the_cache_may_be_small():
    X, y = moons()
    small = HullPerceptronClassifier(cache_size=0.005).fit(X, y)
    assert small.gap_ <= 1e-3


def test_the_machine_so_far_predicts_with_rows_far_from_the_origin():
    X, y = moons(900)
    monitor = ScoringMonitor(scoring="accuracy")
    machine = HullPerceptronClassifier(gamma=1.0, tol=1e-6).set_callbacks(monitor)
    machine.fit(X + 1e3, y)
    scores = [line["accuracy"] for line in monitor.get_logs().data]
    assert len(scores) > 2
    assert scores[-1] > 0.85


@pytest.mark.parametrize(
    ("parameters", "sentence"),
    [
        ({"C": 0.0}, "'C' parameter"),
        ({"solver": "wolfe"}, "'solver' parameter"),
        ({"removal": "drop"}, "'removal' parameter"),
        ({"removal_rounds": 0}, "'removal_rounds' parameter"),
        ({"removal_cv": 1}, "'removal_cv' parameter"),
        ({"removal_size": "mean"}, "'removal_size' parameter"),
        ({"tol": -1.0}, "'tol' parameter"),
        ({"max_iter": -2}, "'max_iter' parameter"),
        ({"C": 1e-320}, "nearer to 1"),
        ({"C": 1e308, "class_weight": {0: 1e10, 1: 1.0}}, "overflows"),
    ],
)
def test_bad_parameters_get_a_sentence(parameters, sentence):
    X, y = moons()
    with pytest.raises(ValueError, match=sentence):
        HullPerceptronClassifier(**parameters).fit(X, y)
