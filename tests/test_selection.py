import numpy as np
from sklearn.datasets import make_moons
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from kernlet import L1KernelClassifier
from kernlet.selection import count_centers, fewest_centers, one_standard_error


def results(scores, centers):
    return {
        "mean_test_score": np.array(scores),
        "std_test_score": np.full(len(scores), 0.02),
        "mean_test_centers": np.array(centers, dtype=float),
        **{f"split{fold}_test_score": np.array(scores) for fold in range(4)},
    }


def test_the_smallest_machine_within_one_standard_error_is_chosen():
    assert fewest_centers(results([0.90, 0.99, 0.985], [5, 50, 20])) == 2


def test_a_small_machine_beyond_one_standard_error_is_not():
    assert fewest_centers(results([0.90, 0.99, 0.979], [5, 50, 20])) == 1


def test_centers_are_counted_through_a_pipeline():
    X, y = make_moons(60, noise=0.2, random_state=0)
    machine = L1KernelClassifier(random_state=0).fit(X, y)
    piped = make_pipeline(StandardScaler(), L1KernelClassifier(random_state=0)).fit(X, y)
    assert count_centers(machine, X, y) == machine.n_centers_
    assert count_centers(piped, X, y) == piped[-1].n_centers_


def test_one_standard_error_prefers_the_smallest_size_and_the_first_of_equals():
    assert one_standard_error([0.9, 0.95, 0.94, 0.94], 0.02, [1, 9, 4, 4]) == 2
    assert one_standard_error([0.9, np.nan, 0.94], 0.05, [3, 1, 2]) == 2
