"""Rules of selection of Fung et al. 2002, on scores made by hand and on rows sorted by class."""

import numpy as np
from sklearn.datasets import make_moons

from papers import fung2002
from papers.tasks import Task

SETTINGS = [{"C": 1.0, "gamma": 1.0, "mu": 10}, {"C": 3.0, "gamma": 0.1, "mu": 10}]


def scores(*by_split, settings=SETTINGS):
    """``cv_results_`` of settings whose scores on the inner folds are the columns."""
    splits = {f"split{i}_test_score": np.array(row) for i, row in enumerate(by_split)}
    return {"params": settings, **splits, "split0_test_rows": np.zeros(len(settings))}


def test_the_smoothest_of_settings_that_differ_by_chance():
    assert fung2002._smoothest(scores([0.9, 0.8], [0.7, 0.8], [0.9, 0.85]))["gamma"] == 0.1


def test_a_small_difference_on_every_fold_is_no_chance():
    """Folds are unlike, but the first setting wins on each of them."""
    assert fung2002._smoothest(scores([0.9, 0.89], [0.7, 0.69], [0.8, 0.785]))["gamma"] == 1.0


def test_of_one_gamma_the_smallest_C_and_the_largest_mu():
    settings = [{"C": C, "gamma": 1.0, "mu": mu} for C in (3.0, 1.0) for mu in (10, 100)]
    equal = scores([0.9] * 4, [0.8] * 4, settings=settings)
    assert fung2002._smoothest(equal) == {"C": 1.0, "gamma": 1.0, "mu": 100}


def test_only_allowed_settings_are_compared():
    allowed = np.array([True, False])
    assert fung2002._smoothest(scores([0.7, 0.9], [0.8, 0.9]), allowed)["gamma"] == 1.0


def test_sizes_within_the_limits_or_else_the_smallest():
    sizes = {
        "mean_test_rows": np.array([20.0, 30.0]),  # of two thirds of the rows: 30 and 45
        "mean_test_centers": np.array([5.0, 4.0]),
    }
    np.testing.assert_array_equal(fung2002._is_within(sizes, [31, 6]), [True, False])
    np.testing.assert_array_equal(fung2002._is_within(sizes, [45, 5]), [True, True])
    np.testing.assert_array_equal(fung2002._is_within(sizes, [10, 1]), [False, True])


def test_the_rows_of_the_svm_are_drawn_at_random(monkeypatch):
    X, y = make_moons(300, noise=0.1, random_state=0)
    order = np.argsort(y, kind="stable")
    monkeypatch.setattr(fung2002, "fold_task", lambda name, fold: Task(X[order], y[order], X, y))
    grid = {"C": [10], "width": [2.0]}
    answer = fung2002.fit_fold_svm("moons", 0, 60, grid, n_repeats=1)
    assert answer["test"] > 90
    assert answer["support"] <= 60
