"""Kernel Fisher discriminants against scatters built row by row."""

import warnings

import numpy as np
import pytest
from sklearn.datasets import load_digits, load_iris
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.exceptions import ConvergenceWarning
from sklearn.neighbors import KNeighborsClassifier

import naive
from kernlet import KernelFisherDiscriminant
from kernlet.least_squares import fisher


@pytest.mark.parametrize("n_landmarks", [None, 4])
@pytest.mark.parametrize("alpha", [0.1, 10.0])
def test_linear_directions_are_those_of_plain_scatters(n_landmarks, alpha):
    """Four landmarks span the four features of iris."""
    X, y = load_iris(return_X_y=True)
    fisher = KernelFisherDiscriminant(
        kernel="linear", alpha=alpha, n_landmarks=n_landmarks, random_state=0
    ).fit(X, y)
    values, wanted = naive.fisher(X, y, alpha, 2)
    found = fisher.transform(X)
    signs = np.sign((found * wanted).sum(axis=0))
    np.testing.assert_allclose(found, wanted * signs, atol=1e-6)
    np.testing.assert_allclose(fisher.shares_, values / (1 + values), atol=1e-8)
    np.testing.assert_allclose(found.mean(axis=0), 0.0, atol=1e-9)


def test_without_regularisation_it_is_linear_discriminant_analysis():
    X, y = load_iris(return_X_y=True)
    ours = KernelFisherDiscriminant(kernel="linear", alpha=1e-8).fit(X, y).transform(X)
    peer = LinearDiscriminantAnalysis(solver="eigen").fit(X, y).transform(X)
    for k in range(2):
        assert abs(np.corrcoef(ours[:, k], peer[:, k])[0, 1]) == pytest.approx(1.0, abs=1e-6)


def test_rbf_directions_are_those_of_plain_scatters_in_an_explicit_space():
    X, y = load_iris(return_X_y=True)
    fisher = KernelFisherDiscriminant(gamma=0.5, alpha=0.3).fit(X, y)
    K = fisher.expansion_.kernel(X, X)
    values, vectors = np.linalg.eigh(K)
    kept = values > 1e-10
    Phi = vectors[:, kept] * np.sqrt(values[kept])
    _, wanted = naive.fisher(Phi, y, 0.3, 2)
    found = fisher.transform(X)
    signs = np.sign((found * wanted).sum(axis=0))
    np.testing.assert_allclose(found, wanted * signs, atol=1e-6)


def test_many_landmarks_come_near_the_exact_directions():
    X, y = load_digits(return_X_y=True)
    X, y = X[:400], y[:400]
    exact = KernelFisherDiscriminant(gamma="mean_distance").fit(X, y).transform(X)
    near = KernelFisherDiscriminant(gamma="mean_distance", n_landmarks=399, random_state=0)
    found = near.fit(X, y).transform(X)
    for k in range(9):
        assert abs(np.corrcoef(exact[:, k], found[:, k])[0, 1]) > 0.99


def test_features_serve_neighbours():
    X, y = load_digits(return_X_y=True)
    fisher = KernelFisherDiscriminant(alpha=0.1, gamma="mean_distance", n_landmarks=300)
    A = fisher.set_params(random_state=0).fit_transform(X[:1000], y[:1000])
    assert (
        KNeighborsClassifier(1).fit(A, y[:1000]).score(fisher.transform(X[1000:]), y[1000:]) > 0.94
    )
    assert fisher.n_centers_ == 300
    assert A.shape == (1000, 9)


@pytest.mark.parametrize("n_landmarks", [None, 30])
def test_weight_two_is_the_row_twice(n_landmarks):
    X, y = load_iris(return_X_y=True)
    weight = np.where(np.arange(150) % 3 == 0, 2.0, 1.0)
    make = KernelFisherDiscriminant(gamma=0.3, n_landmarks=None)
    heavy = make.fit(X, y, weight).transform(X)
    rows = np.repeat(np.arange(150), weight.astype(int))
    twice = make.fit(X[rows], y[rows]).transform(X)
    np.testing.assert_allclose(heavy, twice, atol=1e-8)


def test_equal_rows_give_zeros():
    out = KernelFisherDiscriminant().fit_transform(np.ones((6, 2)), [0, 1, 2, 0, 1, 2])
    np.testing.assert_allclose(out, 0.0, atol=1e-6)


@pytest.mark.parametrize(
    ("parameters", "sentence"),
    [
        ({"n_components": 3}, "at most 2 Fisher directions. Use MMDA"),
        ({"alpha": 0.0}, "'alpha' parameter"),
        ({"kernel": "sigmoid"}, "positive semi-definite kernel"),
        ({"cache_size": 0.01, "n_landmarks": None}, "Give n_landmarks a number"),
    ],
)
def test_bad_parameters_get_a_sentence(parameters, sentence):
    X, y = load_iris(return_X_y=True)
    with pytest.raises(ValueError, match=sentence):
        KernelFisherDiscriminant(**parameters).fit(X, y)


@pytest.mark.parametrize("n_landmarks", [None, 20])
def test_a_kernel_that_overflows_gets_a_sentence(n_landmarks):
    X, y = load_iris(return_X_y=True)
    with np.errstate(over="ignore"), pytest.raises(ValueError, match="overflows"):
        KernelFisherDiscriminant(kernel="linear", n_landmarks=n_landmarks).fit(X * 1e200, y)


def test_equal_landmarks_are_one():
    X, y = np.repeat(np.arange(6.0), 20)[:, None], np.tile([0, 1], 60)
    machine = KernelFisherDiscriminant(n_landmarks=100, random_state=0).fit(X, y)
    assert machine.n_centers_ == 6


def test_many_rows_get_landmarks_by_default(monkeypatch):
    X, y = load_iris(return_X_y=True)
    assert KernelFisherDiscriminant().fit(X, y).n_centers_ > 140
    monkeypatch.setattr(fisher, "_ALL_ROWS", 100)
    monkeypatch.setattr(fisher, "_N_LANDMARKS", 20)
    assert KernelFisherDiscriminant(random_state=0).fit(X, y).n_centers_ == 20


@pytest.mark.parametrize("n_landmarks", [None, 20])
def test_the_certificate_sees_ill_conditioning(n_landmarks):
    random = np.random.default_rng(0)
    X, y = random.normal(size=(60, 2)), random.integers(0, 3, 60)
    machine = KernelFisherDiscriminant(
        kernel="poly", gamma=1.0, coef0=1.0, n_landmarks=n_landmarks, random_state=0
    ).fit(X, y)
    assert machine.error_bound_ < 1e-6
    with pytest.warns(ConvergenceWarning, match="Round-off may change the shares"):
        machine.fit(X + 30, y)
    assert machine.error_bound_ > 1e-6


def test_errors_of_shares_are_within_the_bound():
    random = np.random.default_rng(1)
    X, y = random.normal(size=(50, 3)), random.integers(0, 3, 50)
    exact = KernelFisherDiscriminant(kernel="linear", alpha=0.1).fit(X, y).shares_
    for offset in (1e2, 1e3, 1e4):  # does not matter to a linear kernel, but for round-off
        machine = KernelFisherDiscriminant(kernel="linear", alpha=0.1)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            machine.fit(X + offset, y)
        assert np.abs(machine.shares_ - exact).max() <= machine.error_bound_


def test_numbers_beyond_float64_get_a_sentence():
    X, y = np.random.default_rng(0).normal(size=(20, 2)), np.arange(20) % 2
    assert KernelFisherDiscriminant(alpha=10**30).fit(X, y).shares_[0] < 1e-12
    with pytest.raises(ValueError, match="alpha is too large"):
        KernelFisherDiscriminant(alpha=10**400).fit(X, y)
