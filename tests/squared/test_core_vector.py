"""The core vector machine as an estimator."""

import warnings
from fractions import Fraction

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_iris, make_moons
from sklearn.exceptions import ConvergenceWarning
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, LinearSVC

from kernlet import CoreVectorClassifier, HullPerceptronClassifier


def moons(m=150, seed=0):
    return make_moons(m, noise=0.3, random_state=seed)


def test_it_is_the_machine_of_squared_errors():
    """LIBLINEAR solves 1/2 |w|^2 + C sum slack^2 with the intercept in w: half the C."""
    X, y = load_breast_cancer(return_X_y=True)
    X = StandardScaler().fit_transform(X)
    ours = CoreVectorClassifier(1.0, kernel="linear", tol=1e-12).fit(X, y)
    peer = LinearSVC(C=0.5, loss="squared_hinge", dual=False, tol=1e-10, max_iter=10_000).fit(X, y)
    np.testing.assert_allclose(ours.decision_function(X), peer.decision_function(X), atol=1e-5)


def test_a_hard_margin_between_mirrored_points_is_the_same():
    """An SVC of hard margin, no intercept by symmetry, over products that hold the ridge."""
    X, y = moons(80)
    C = 2.0
    signs = np.where(y == 1, 1.0, -1.0)
    machine = CoreVectorClassifier(C, gamma=1.0, tol=1e-12).fit(X, y)
    K = machine.expansion_.kernel(X, X)
    Q = np.outer(signs, signs) * (K + 1) + np.eye(80) / C
    svc = SVC(kernel="precomputed", C=1e10, tol=1e-8)
    svc.fit(np.block([[Q, -Q], [-Q, Q]]), np.repeat([1, -1], 80))
    a = np.zeros(160)
    a[svc.support_] = np.abs(svc.dual_coef_[0])
    values = (K + 1) @ (signs * (a[:80] + a[80:]))
    np.testing.assert_allclose(machine.decision_function(X), values, atol=1e-4)


def test_it_agrees_with_the_hull_perceptron_of_half_the_c():
    X, y = load_iris(return_X_y=True)
    ours = CoreVectorClassifier(4.0, gamma=0.5, tol=1e-12).fit(X, y)
    hull = HullPerceptronClassifier(2.0, gamma=0.5, tol=1e-11).fit(X, y)
    np.testing.assert_allclose(ours.decision_function(X), hull.decision_function(X), atol=1e-6)


def test_certificates():
    X, y = moons(600)
    exact = CoreVectorClassifier(10.0, gamma=2.0, tol=1e-12).fit(X, y)
    near = CoreVectorClassifier(10.0, gamma=2.0, tol=1e-2).fit(X, y)
    paper = CoreVectorClassifier(10.0, gamma=2.0, eps=1e-3, sample_size=59, random_state=0).fit(
        X, y
    )
    assert exact.gap_ <= 1e-12
    assert exact.ball_gap_ <= 1e-8
    assert near.gap_ <= 1e-2
    assert exact.objective_[0] <= near.objective_[0] <= exact.objective_[0] * 1.0102
    assert paper.ball_gap_ > 1e-3, "a sample of 59 rows is no proof"
    assert paper.objective_[0] * (1 - paper.gap_) <= exact.objective_[0]
    assert len(paper.core_indices_) < len(exact.core_indices_)
    assert set(paper.center_indices_) <= set(paper.core_indices_)


def test_weight_two_is_the_row_twice():
    X, y = moons()
    weight = np.where(np.arange(150) < 40, 2.0, 1.0)
    heavy = CoreVectorClassifier(gamma=1.0, tol=1e-12).fit(X, y, weight)
    twice = CoreVectorClassifier(gamma=1.0, tol=1e-12)
    twice.fit(np.vstack([X, X[:40]]), np.r_[y, y[:40]])
    np.testing.assert_allclose(heavy.decision_function(X), twice.decision_function(X), atol=1e-7)


def test_a_class_of_weight_nothing_is_never_predicted():
    X, y = load_iris(return_X_y=True)
    machine = CoreVectorClassifier(class_weight={0: 1.0, 1: 1.0, 2: 0.0}).fit(X, y)
    assert set(machine.predict(X)) == {0, 1}


@pytest.mark.parametrize("kernel", ["rbf", "poly", "linear"])
@pytest.mark.parametrize("sample_size", [None, 59])
def test_every_kernel(kernel, sample_size):
    X, y = load_breast_cancer(return_X_y=True)
    X = StandardScaler().fit_transform(X)
    machine = CoreVectorClassifier(
        kernel=kernel, coef0=1.0, sample_size=sample_size, random_state=0
    ).fit(X, y)
    assert machine.gap_ <= 1e-3
    assert machine.score(X, y) > 0.95


def test_same_seed_same_machine():
    X, y = moons(500)
    one, two = (
        CoreVectorClassifier(eps=1e-2, sample_size=20, random_state=3).fit(X, y) for _ in range(2)
    )
    np.testing.assert_array_equal(one.expansion_.coef, two.expansion_.coef)


def test_limits_warn_with_what_was_reached():
    X, y = moons(400)
    with pytest.warns(ConvergenceWarning, match=r"relative duality gap of up to .* Raise it"):
        machine = CoreVectorClassifier(max_iter=2).fit(X, y)
    assert machine.gap_ > 1e-3
    with pytest.warns(ConvergenceWarning, match="cache_size"):
        CoreVectorClassifier(cache_size=0.02).fit(X, y)


@pytest.mark.parametrize(
    ("parameters", "sentence"),
    [
        ({"C": 0.0}, "'C' parameter"),
        ({"eps": -1.0}, "'eps' parameter"),
        ({"sample_size": 0}, "'sample_size' parameter"),
        ({"n_tries": 0}, "'n_tries' parameter"),
        ({"C": 1e-320}, "nearer to 1"),
        ({"kernel": "sigmoid"}, "positive semi-definite kernel"),
    ],
)
def test_bad_parameters_get_a_sentence(parameters, sentence):
    X, y = moons()
    with pytest.raises(ValueError, match=sentence):
        CoreVectorClassifier(**parameters).fit(X, y)


def test_weights_that_overflow_get_a_sentence():
    X, y = moons()
    with pytest.raises(ValueError, match="nearer to 1"):
        CoreVectorClassifier().fit(X, y, np.full(150, 1e300))


def exact_objective(machine, X, y, C):
    """P of a machine with a linear kernel, in rational numbers."""
    rows, centers = (
        [list(map(Fraction, row)) for row in A.tolist()] for A in (X, machine.expansion_.centers)
    )
    coef = list(map(Fraction, machine.expansion_.coef[0].tolist()))
    b = Fraction(float(machine.expansion_.intercept[0]))
    w = [sum(c * z[k] for c, z in zip(coef, centers, strict=True)) for k in range(X.shape[1])]
    total = sum(v * v for v in w) + b * b
    for row, label in zip(rows, y, strict=True):
        value = sum(v * x for v, x in zip(w, row, strict=True)) + b
        total += Fraction(C) * max(Fraction(0), 1 - value * (1 if label else -1)) ** 2
    return total / 2


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("size", [1e2, 1e4, 1e6, 1e7, 1e8])
@pytest.mark.parametrize("options", [{}, {"sample_size": 5}], ids=str)
def test_the_gap_covers_what_round_off_does_to_the_objective(size, options):
    for seed in range(5):
        random = np.random.RandomState(seed)
        X, y = size * random.randn(10, 2), np.arange(10) % 2
        machine = CoreVectorClassifier(100.0, kernel="linear", random_state=0, **options).fit(X, y)
        exact = float(exact_objective(machine, X, y, 100.0))
        claimed, share = machine.objective_[0], 1 - machine.gap_ - 1e-8
        assert exact * share <= claimed
        assert claimed * share <= exact


def test_a_gap_above_tol_warns():
    X = 1e6 * np.random.RandomState(0).randn(30, 2)
    machine = CoreVectorClassifier(1e4, kernel="linear", tol=1e-6, random_state=0)
    with pytest.warns(ConvergenceWarning, match="exhaust double precision"):
        machine.fit(X, np.arange(30) % 2)
    assert machine.gap_ > 1e-6


def test_two_rows_whose_kernel_values_are_huge():
    """The objective is 0 up to round-off, and was divided by."""
    X = np.array([[31.0, -12.0], [-17.5, 44.0]])
    options = {"kernel": "poly", "gamma": 4.3e4, "random_state": 0}
    machine = CoreVectorClassifier(1e4, **options)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        machine.fit(X, [0, 1])
    assert machine.gap_ <= 1e-3 or caught
    assert np.isfinite(machine.decision_function(X)).all()
