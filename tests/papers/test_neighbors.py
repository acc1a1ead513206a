import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.datasets import load_iris
from sklearn.neighbors import KNeighborsClassifier

import naive
from papers.neighbors import (
    KS,
    accuracies,
    all_rows,
    best_k,
    bootstrapped,
    choose_k,
    in_sequence,
    random_subset,
    validate,
    without_atypical,
)

X, Y = load_iris(return_X_y=True)
ODD = np.arange(len(Y)) % 2 == 1


def random_rows(m, seed):
    """Rows of two overlapping classes, both of them present."""
    random = np.random.RandomState(seed)
    labels = np.arange(m) % 2
    return random.normal(size=(m, 2)) + labels[:, None], labels


def test_accuracies_of_all_k_are_those_of_single_classifiers():
    found = accuracies(X[ODD], Y[ODD], X[~ODD], Y[~ODD])
    for k, accuracy in zip(KS, found, strict=True):
        machine = KNeighborsClassifier(k).fit(X[ODD], Y[ODD])
        assert accuracy == pytest.approx(100 * machine.score(X[~ODD], Y[~ODD]))


def test_k_is_chosen_where_the_rows_held_out_are_right():
    assert choose_k(lambda rows, labels, seed: (rows, labels), X, Y) in KS


def test_a_random_subset_has_the_share_asked_for():
    rows, labels = random_subset(0.2)(X, Y, 0)
    assert len(rows) == len(labels) == 30
    again, _ = random_subset(0.2)(X, Y, 0)
    np.testing.assert_array_equal(rows, again)


@settings(max_examples=20)
@given(st.integers(4, 40), st.integers(1, 8), st.integers(0, 1000))
def test_means_of_neighbors_are_those_of_a_plain_loop(m, n_neighbors, seed):
    rows, labels = random_rows(m, seed)
    means, same = bootstrapped(n_neighbors)(rows, labels, 0)
    np.testing.assert_array_equal(same, labels)
    expected = naive.bootstrapped_rows(rows, labels, n_neighbors)
    np.testing.assert_allclose(means, expected, atol=1e-12)


@settings(max_examples=20)
@given(st.integers(4, 40), st.floats(0, 0.9), st.integers(0, 1000))
def test_atypical_rows_are_those_of_a_plain_loop(m, share, seed):
    rows, labels = random_rows(m, seed)
    kept = naive.eliminate_atypical(rows, labels, round(share * m))
    left, of_left = without_atypical(share)(rows, labels, 0)
    np.testing.assert_array_equal(left, rows[kept])
    np.testing.assert_array_equal(of_left, labels[kept])


def test_rows_near_another_class_go_first():
    rows = np.array([[0.0], [1.0], [2.0], [2.9], [3.1], [4.0], [5.0], [6.0]])
    left, _ = without_atypical(0.25)(rows, np.repeat([0, 1], 4), 0)
    assert left.ravel().tolist() == [0.0, 1.0, 2.0, 4.0, 5.0, 6.0]


def test_condensers_in_sequence():
    both = in_sequence(random_subset(0.5), random_subset(0.5))
    rows, _ = both(X, Y, 3)
    half, labels = random_subset(0.5)(X, Y, 3)
    np.testing.assert_array_equal(rows, random_subset(0.5)(half, labels, 3)[0])


def test_accuracies_of_folds_decide_k_and_the_largest_of_equals_wins():
    assert choose_k(all_rows, X, Y) == best_k(validate(all_rows, X, Y))
    assert best_k(np.array([90.0, 95.0, 95.0, 94.0, 0, 0, 0, 0, 0, 0])) == 3
