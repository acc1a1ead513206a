import numpy as np
import pytest
from sklearn.datasets import load_iris
from sklearn.neighbors import KNeighborsClassifier

from papers.neighbors import KS, accuracies, choose_k, random_subset

X, Y = load_iris(return_X_y=True)
ODD = np.arange(len(Y)) % 2 == 1


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
