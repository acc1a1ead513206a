"""Removal of support vectors, against the rule applied by hand."""

import numpy as np
import pytest
from sklearn.datasets import load_iris, make_moons

from kernlet import HullPerceptronClassifier
from kernlet.squared.hull import stops


def moons(m=200):
    return make_moons(m, noise=0.3, random_state=0)


def exact(**parameters):
    return HullPerceptronClassifier(2.0, gamma=1.0, tol=1e-10, **parameters)


def alpha_of(machine, m):
    alpha = np.zeros(m)
    alpha[machine.support_indices_] = machine.alpha_[0]
    return alpha


def by_hand(X, y, n_rounds, size):
    """The rows left after each removal, by plain trainings."""
    rows = np.arange(len(X))
    kept = []
    for k in range(n_rounds):
        alpha = alpha_of(exact().fit(X[rows], y[rows]), len(rows))
        rows = rows[alpha >= (0.5 + 0.025 * k) / (len(X) if size == "initial" else len(rows))]
        kept.append(rows)
    return kept


@pytest.mark.parametrize("size", ["initial", "current"])
def test_the_rounds_are_those_of_plain_trainings(size):
    X, y = moons()
    machine = exact(removal="iterative", removal_rounds=4, removal_size=size).fit(X, y)
    path = machine.removal_path_
    kept = by_hand(X, y, len(path) - 1, size)
    assert [record.n_rows for record in path] == [200, *map(len, kept)]
    last = kept[-1]
    plain = exact().fit(X[last], y[last])
    np.testing.assert_allclose(machine.decision_function(X), plain.decision_function(X), atol=1e-6)
    np.testing.assert_array_equal(machine.support_indices_, last[plain.support_indices_])
    removed = np.setdiff1d(np.arange(200), last)
    assert path[-1].validation_accuracy == pytest.approx(plain.score(X[removed], y[removed]))
    assert path[-1].train_accuracy == pytest.approx(plain.score(X[last], y[last]))
    assert path[-1].n_support == len(plain.support_indices_)


def test_the_records_say_what_happened():
    X, y = moons()
    path = exact(removal="iterative", removal_rounds=3).fit(X, y).removal_path_
    first = path[0]
    assert (first.round, first.threshold, first.n_rows) == (0, 0.0, 200)
    assert np.isnan(first.validation_accuracy)
    assert [r.round for r in path] == list(range(len(path)))
    for k, record in enumerate(path[1:]):
        assert record.factor == pytest.approx(0.5 + 0.025 * k)
        assert record.threshold == pytest.approx(record.factor / 200)
        assert record.n_support <= record.n_rows < 200
        assert record.gap <= 1e-10


def test_the_current_size_removes_more():
    X, y = moons()
    counts = [
        exact(removal="iterative", removal_size=size).fit(X, y).n_centers_
        for size in ("initial", "current")
    ]
    assert counts[1] <= counts[0] < exact().fit(X, y).n_centers_


def test_the_stop_rule_is_the_papers():
    """Of its table for heart disease: 0.988 to 0.980 is within 0.010, not within 0.007."""
    assert not stops([0.988], [0.010])
    assert not stops([0.991, 0.988, 0.980], [0.011, 0.010, 0.014])
    assert stops([0.991, 0.988, 0.980], [0.011, 0.007, 0.014])
    assert stops([0.9, 0.95], [0.01, 0.01])


def test_a_single_training_stops_by_the_binomial_deviation():
    X, y = moons()
    path = exact(removal="iterative", removal_rounds=30, removal_step=0.1).fit(X, y).removal_path_
    accuracy = [r.validation_accuracy for r in path[1:]]
    deviation = [r.deviation for r in path[1:]]
    assert not any(stops(accuracy[:k], deviation[:k]) for k in range(len(accuracy)))
    for record in path[1:]:
        n = 200 - record.n_rows
        share = (record.validation_accuracy * n + 1) / (n + 2)
        assert record.deviation == pytest.approx(np.sqrt(share * (1 - share) / n))


def test_folds_say_when_to_stop():
    X, y = moons()
    machine = exact(removal="iterative", removal_rounds=6, removal_cv=3, random_state=0).fit(X, y)
    again = exact(removal="iterative", removal_rounds=6, removal_cv=3, random_state=0).fit(X, y)
    assert 2 <= len(machine.removal_path_) <= 7
    assert machine.removal_path_[1:] == again.removal_path_[1:]
    plain = exact(removal="iterative", removal_rounds=len(machine.removal_path_) - 1).fit(X, y)
    if len(plain.removal_path_) == len(machine.removal_path_):
        np.testing.assert_array_equal(plain.center_indices_, machine.center_indices_)


def test_a_removal_that_would_leave_one_class_is_not_made():
    X, y = moons()
    machine = exact(removal="iterative", removal_start=50.0).fit(X, y)
    assert len(machine.removal_path_) == 1
    np.testing.assert_allclose(machine.alpha_, exact().fit(X, y).alpha_, atol=1e-8)


def test_weight_two_is_the_row_twice_in_removal_too():
    X, y = moons()
    weight = np.where(np.arange(200) < 50, 2.0, 1.0)
    machine = exact(removal="iterative", removal_rounds=3)
    heavy = machine.fit(X, y, weight).decision_function(X)
    twice = machine.fit(np.vstack([X, X[:50]]), np.r_[y, y[:50]]).decision_function(X)
    np.testing.assert_allclose(heavy, twice, atol=1e-6)


def test_every_class_has_its_own_path():
    X, y = load_iris(return_X_y=True)
    machine = exact(removal="iterative", removal_rounds=2).fit(X, y)
    assert {record.output for record in machine.removal_path_} == {0, 1, 2}
    assert machine.score(X, y) > 0.9


def test_a_callback_that_stops_a_training_stops_the_removal():
    class Stopper:
        def setup(self, estimator, context): ...
        def on_fit_task_begin(self, estimator, context): ...
        def teardown(self, estimator, context): ...
        def on_fit_task_end(self, estimator, context):
            return context.task_name == "round"

    X, y = moons()
    for parameters in ({}, {"removal_cv": 2}):
        machine = exact(removal="iterative", **parameters).set_callbacks(Stopper()).fit(X, y)
        assert len(machine.removal_path_) == 1
        assert machine.gap_ > 1e-10


def test_sk_steps_of_the_paper():
    X, y = moons()
    machine = HullPerceptronClassifier(
        10.0, gamma=1.0, solver="sk", tol=0.05, removal="iterative", removal_rounds=2
    ).fit(X, y)
    assert max(record.gap for record in machine.removal_path_) <= 0.05
    assert machine.n_centers_ < machine.removal_path_[0].n_support
