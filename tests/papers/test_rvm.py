"""The fast relevance vector machine against re-estimation of all alphas."""

import warnings

import numpy as np
import pytest
from sklearn.datasets import load_iris, make_moons
from sklearn.exceptions import ConvergenceWarning

import naive
from kernlet.kernels.gram import kernel_matrix
from kernlet.kernels.rbf import RBF
from papers.rvm import Design, RelevanceVectorClassifier, find_relevance


def moons(n, noise=0.25, seed=0):
    X, y = make_moons(n, noise=noise, random_state=seed)
    return X, y, np.column_stack([np.ones(n), kernel_matrix(RBF(1.0), X, X)])


def dense_alpha(found, n_columns):
    alpha = np.full(n_columns, np.inf)
    alpha[found.columns] = found.alpha
    return alpha


@pytest.mark.parametrize("seed", range(3))
def test_the_slow_twin_does_not_improve_on_the_fast_one(seed):
    _, y, Phi = moons(60, seed=seed)
    found = find_relevance(Design(Phi[:, 1:]), y, 1e-6, 10_000)
    assert found.gain <= 1e-6
    alpha = dense_alpha(found, Phi.shape[1])
    assert naive.relevance_evidence(Phi, y, alpha) == pytest.approx(found.evidence, abs=1e-6)
    kept, weights, _ = naive.relevance_mode(Phi, y, alpha)
    np.testing.assert_allclose(weights, found.dense(Phi.shape[1])[kept], rtol=1e-4)
    again, _ = naive.relevance(Phi, y, alpha, n_rounds=50)
    assert naive.relevance_evidence(Phi, y, again) <= found.evidence + 0.01


def test_no_function_at_any_alpha_raises_the_likelihood():
    _, y, Phi = moons(40)
    found = find_relevance(Design(Phi[:, 1:]), y, 1e-6, 10_000)
    alpha = dense_alpha(found, Phi.shape[1])
    for column in range(Phi.shape[1]):
        for value in (1e-3, 1e-2, 0.1, 1.0, 10.0, np.inf):
            other = alpha.copy()
            other[column] = value
            assert naive.relevance_evidence(Phi, y, other) <= found.evidence + 0.05


@pytest.mark.parametrize("seed", range(3))
def test_the_slow_twin_from_all_functions_ends_near_it(seed):
    _, y, Phi = moons(60, seed=seed)
    found = find_relevance(Design(Phi[:, 1:]), y, 1e-6, 10_000)
    alpha, weights = naive.relevance(Phi, y, np.ones(Phi.shape[1]), n_rounds=500)
    slow = Phi @ weights
    fast = Phi @ found.dense(Phi.shape[1])
    # the likelihood has several maxima; the two ways may end in unlike ones
    assert found.evidence >= naive.relevance_evidence(Phi, y, alpha) - 1.0
    assert ((slow > 0) == (fast > 0)).mean() >= 0.95


def test_few_vectors_of_several_classes_are_shared():
    X, y = load_iris(return_X_y=True)
    machine = RelevanceVectorClassifier(gamma=0.5).fit(X, y)
    assert machine.gain_ <= machine.tol
    assert machine.score(X, y) >= 0.96
    assert machine.n_centers_ <= machine.n_relevant_.sum() <= 20
    few = RelevanceVectorClassifier(gamma=0.5, n_candidates=30, random_state=0).fit(X, y)
    assert few.n_centers_ <= 30
    assert few.score(X, y) >= 0.94


def test_a_search_that_is_cut_short_says_so():
    X, y, _ = moons(60)
    with pytest.warns(ConvergenceWarning, match="raise max_iter"):
        RelevanceVectorClassifier(gamma=1.0, max_iter=1).fit(X, y)


def test_equal_rows_and_separable_classes_are_no_trouble():
    X = np.repeat([[0.0], [1.0], [5.0], [6.0]], 5, axis=0)
    y = X[:, 0] > 3
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        machine = RelevanceVectorClassifier(gamma=0.5).fit(X, y)
    assert machine.score(X, y) == 1.0
