import warnings

import numpy as np
import pytest
from sklearn.datasets import make_moons

from kernlet.compact import base
from kernlet.datasets import make_checkerboard
from support.compact_machines import machine


def test_no_more_centers_than_rows():
    X, y = make_moons(40, noise=0.1, random_state=0)
    small = machine(1000).fit(X, y)
    assert small.n_centers_ <= 40
    assert small.score(X, y) > 0.9


@pytest.mark.parametrize("n_rows", [2, 3, 4, 5])
def test_a_handful_of_rows(n_rows):
    X, y = np.arange(2.0 * n_rows).reshape(-1, 2), np.arange(n_rows) % 2
    small = machine(n_epochs=5).fit(X, y)
    assert set(small.predict(X)) <= {0, 1}
    assert np.isfinite(small.predict_proba(X)).all()


def test_equal_rows(moons):
    X, _, y, _ = moons
    small = machine(20).fit(np.repeat(X[:10], 20, axis=0), np.repeat(y[:10], 20))
    assert small.score(X[:10], y[:10]) > 0.85
    constant = machine(4, n_epochs=5).fit(np.ones((20, 3)), np.array([0] * 14 + [1] * 6))
    assert constant.predict(np.ones((3, 3))).tolist() == [0, 0, 0]


def test_constant_features_and_one_feature(moons):
    X, X_test, y, y_test = moons
    wide, wide_test = (np.hstack([part, np.zeros((len(part), 2))]) for part in (X, X_test))
    assert machine().fit(wide, y).score(wide_test, y_test) > 0.93
    assert machine().fit(X[:, 1:], y).score(X_test[:, 1:], y_test) > 0.75


@pytest.mark.parametrize("scale", [1e-6, 1e6])
@pytest.mark.parametrize("offset", [0.0, 1e6, 1e8])
@pytest.mark.parametrize("projection", [None, 2])
def test_scale_and_offset_change_little(moons, scale, offset, projection):
    X, X_test, y, y_test = moons

    def moved(rows):
        return scale * (rows + offset)

    small = machine(projection=projection).fit(moved(X), y)
    assert small.score(moved(X_test), y_test) > 0.93


def test_not_a_number_and_one_class_are_refused(moons):
    X, _, y, _ = moons
    for bad in (np.nan, np.inf):
        with pytest.raises(ValueError, match=r"NaN|infinity"):
            machine().fit(np.vstack([X[1:], [[bad, 0.0]]]), y)
    with pytest.raises(ValueError, match="one class only"):
        machine().fit(X, np.ones(len(X)))


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"projection": 3}, "projection=3 is more than the 2 features"),
        ({"max_bytes": 20}, "max_bytes=20 is too little for 2 features"),
        ({"n_centers": "auto", "validation_fraction": None}, 'n_centers="auto" is chosen on a val'),
        ({"max_bytes": 900, "validation_fraction": None}, "is chosen on a validation part"),
        ({"n_centers": 0}, "n_centers"),
        ({"storage": "int5"}, "storage"),
        ({"loss": "hinge"}, "loss"),
        ({"smoothing": 1.0}, "smoothing"),
        ({"noise": -1.0}, "noise"),
        ({"learning_rate": 0.0}, "learning_rate"),
        ({"width": "some"}, "width"),
    ],
)
def test_parameters_that_make_no_sense(moons, parameters, message):
    X, _, y, _ = moons
    with pytest.raises(ValueError, match=message):
        machine(**{"n_centers": None, **parameters}).fit(X, y)


def test_a_data_set_that_does_not_compress_is_warned_about(monkeypatch):
    board = make_checkerboard(random_state=0)
    monkeypatch.setattr(base, "_LARGEST_AUTO", 16)
    with pytest.warns(UserWarning, match="does not compress.*at 16 centers"):
        small = machine("auto", n_epochs=30).fit(board.X, board.y)
    assert small.n_centers_ == 16


def test_wild_rates_end_in_a_warning_and_not_in_numbers_that_are_none(moons):
    X, _, y, _ = moons
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        small = machine(learning_rate=100.0).fit(X, y)
    assert np.isfinite(small.decision_function(X)).all()


@pytest.mark.parametrize("scale", [1e-50, 1e-200, 1e200])
def test_numbers_beyond_float32_are_refused(moons, scale):
    X, _, y, _ = moons
    with pytest.raises(ValueError, match="beyond what float32 can hold"):
        machine().fit(scale * X, y)


def test_both_ways_to_choose_a_size_are_one_too_many(moons):
    X, _, y, _ = moons
    with pytest.raises(ValueError, match="both choose a size"):
        machine("auto", max_bytes=500).fit(X, y)


def test_budgets_larger_than_the_data_say_so(moons):
    X, _, y, _ = moons
    small = machine(max_bytes=100_000, n_epochs=2).fit(X, y)
    assert small.n_centers_ <= 120
    assert "bytes are left over" in small.choice_ or small.n_centers_ < 120
