import pickle

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.linear_model import LinearRegression
from sklearn.metrics import r2_score
from sklearn.svm import SVR, NuSVR

from kernlet import CompactKernelClassifier, CompactKernelRegressor
from support.callbacks import ScoringMonitor, needs_callbacks


@pytest.fixture(scope="module")
def sine():
    X = np.random.default_rng(0).uniform(0, 6, size=(300, 1))
    return X, np.sin(X[:, 0])


def machine(n_centers=10, **parameters):
    parameters = {"n_epochs": 60, "random_state": 0, **parameters}
    return CompactKernelRegressor(n_centers, **parameters)


@pytest.mark.parametrize(
    ("storage", "level"), [("float32", 0.97), ("float16", 0.97), ("int8", 0.97), ("int4", 0.8)]
)
def test_a_sine(sine, storage, level):
    X, y = sine
    small = machine(storage=storage).fit(X, y)
    assert small.score(X, y) > level
    assert small.n_centers_ == 10
    assert small.expansion_.storage["centers"] == storage
    assert small.path_[0].n_centers == 10
    assert small.path_[0].score == pytest.approx(small.validation_score_, abs=1e-6)


@pytest.mark.parametrize("parameters", [{"projection": 2}, {"width": "per_center"}])
def test_projections_and_widths(parameters):
    X = np.random.default_rng(0).normal(size=(400, 3))
    y = np.sin(X[:, 0]) + 0.5 * X[:, 1]
    assert machine(20, **parameters).fit(X, y).score(X, y) > 0.9


def test_shapes_follow_those_of_y(sine):
    X, y = sine
    for targets in (y, y[:, None], np.stack([y, -2 * y, y + 1], axis=1)):
        small = machine(n_epochs=3).fit(X, targets)
        assert small.predict(X[:7]).shape == (7, *targets.shape[1:])
        assert small.expansion_.n_outputs == targets.reshape(len(y), -1).shape[1]


def test_several_outputs(sine):
    X, y = sine
    targets = np.stack([y, np.cos(X[:, 0])], axis=1)
    small = machine(15).fit(X, targets)
    assert (r2_score(targets, small.predict(X), multioutput="raw_values") > 0.95).all()


def test_huber_is_not_led_astray_by_outliers(sine):
    X, y = sine
    wild = y.copy()
    wild[::15] += 30.0
    scores = {
        loss: machine(8, loss=loss, delta=0.1, n_epochs=100).fit(X, wild).score(X, y)
        for loss in ("squared_error", "huber")
    }
    assert scores["huber"] > scores["squared_error"]
    assert scores["huber"] > 0.8


def test_rows_of_weight_zero_are_not_there(sine):
    X, y = sine
    weights = np.r_[np.zeros(80), np.ones(220)]
    weighted, without = (
        machine(n_epochs=5).fit(X, y, weights),
        machine(n_epochs=5).fit(X[80:], y[80:]),
    )
    np.testing.assert_array_equal(weighted.predict(X), without.predict(X))
    with pytest.raises(ValueError, match="at least one non-zero"):
        machine().fit(X, y, np.zeros(300))


def test_heavier_rows_pull_more(sine):
    X, _ = sine
    y = np.arange(len(X)) % 2.0
    light, heavy = (
        machine(3, n_epochs=30).fit(X, y, np.where(y == 1, weight, 1.0)).predict(X).mean()
        for weight in (0.2, 5.0)
    )
    assert light < 0.3
    assert heavy > 0.7


@pytest.mark.parametrize("value", [0.0, 0.1, -1e6])
def test_constant_targets(sine, value):
    X, _ = sine
    small = machine(n_epochs=5).fit(X, np.full(len(X), value))
    np.testing.assert_allclose(small.predict(X), value, rtol=1e-3, atol=0.3)


def test_constant_targets_have_a_score_that_makes_sense(sine):
    X, _ = sine
    assert abs(machine(n_epochs=5).fit(X, np.full(len(X), 0.1)).validation_score_) < 10


units = pytest.mark.parametrize(
    ("scale", "offset"), [(1e6, 0.0), (1e-8, 0.0), (1.0, 1e3), (1e6, -1e8)]
)


def agrees_in_other_units(sine, storage, scale, offset):
    X, y = sine
    here, there = machine(storage=storage).fit(X, y), machine(storage=storage)
    there.fit(X, scale * y + offset)
    np.testing.assert_allclose((there.predict(X) - offset) / scale, here.predict(X), atol=0.02)


@pytest.mark.parametrize("storage", ["float32", "int8"])
@units
def test_units_of_the_targets_do_not_matter(sine, storage, scale, offset):
    agrees_in_other_units(sine, storage, scale, offset)


@pytest.mark.parametrize("scale", [1e6, 1e-8])
def test_units_of_the_targets_do_not_matter_in_float16(sine, scale):
    agrees_in_other_units(sine, "float16", scale, 0.0)


def test_far_and_wide_inputs(sine):
    X, y = sine
    for moved in (1e6 * X, X + 1e6, X + 1e8):
        assert machine().fit(moved, y).score(moved, y) > 0.97


@pytest.mark.parametrize(
    "make",
    [
        lambda X, y: SVR(C=10).fit(X, y),
        lambda X, y: NuSVR().fit(sparse.csr_array(X), y),
        lambda X, y: X[:12],
        lambda X, y: machine(12).fit(X, y),
        lambda X, y: machine(12, storage="int4").fit(X, y),
    ],
    ids=["svr", "nusvr", "points", "compact", "packed"],
)
def test_starting_from_what_is_there(sine, make):
    X, y = sine
    assert machine("auto", init=make(X, y)).fit(X, y).score(X, y) > 0.8


def test_a_start_from_a_machine_is_that_machine(sine):
    X, y = sine
    before = machine().fit(X, 50 * y + 7)
    after = machine("auto", init=before, learning_rate=1e-9, n_epochs=1).fit(X, 50 * y + 7)
    np.testing.assert_allclose(after.predict(X), before.predict(X), atol=0.05)


def test_starts_that_do_not_fit_are_refused(sine):
    X, y = sine
    wide = np.hstack([X, X])
    for init, kind, message in (
        (LinearRegression().fit(X, y), TypeError, "not a kernel regressor"),
        (SVR().fit(wide, y), ValueError, "points of 2 features, but X has 1"),
        (machine(n_epochs=1).fit(wide, y), ValueError, "init has 2 features, but X has 1"),
    ):
        with pytest.raises(kind, match=message):
            machine("auto", init=init).fit(X, y)


def test_warm_start_goes_on(sine):
    X, y = sine
    small = machine(3, n_epochs=5, warm_start=True, keep_history=True).fit(X, y)
    first = small.history_[0]["loss"]
    small.fit(X, y)
    assert small.n_centers_ == 3
    assert small.history_[0]["loss"] < first
    with pytest.raises(ValueError, match="other features or outputs"):
        small.fit(X, np.stack([y, y], axis=1))


@pytest.mark.parametrize("max_bytes", [60, 100])
def test_everything_fits_in_the_bytes(sine, max_bytes):
    X, y = sine
    small = machine("auto", max_bytes=max_bytes, n_epochs=40).fit(X, y)
    assert small.nbytes_ <= max_bytes
    assert f"of {max_bytes} bytes" in small.choice_
    assert small.score(X, y) > 0.9


def test_auto_takes_the_smallest_good_size(sine):
    X, y = sine
    noisy = y + 0.3 * np.random.default_rng(1).normal(size=len(y))
    small = machine("auto", n_epochs=40).fit(X, noisy)
    assert small.n_centers_ in {point.n_centers for point in small.path_}
    assert small.n_centers_ <= 64
    assert small.score(X, y) > 0.85


def test_same_answer_with_the_same_seed_whatever_n_jobs(sine):
    X, y = sine
    one = machine("auto", n_epochs=5).fit(X, y)
    two = machine("auto", n_epochs=5, n_jobs=2).fit(X, y)
    np.testing.assert_array_equal(one.predict(X), two.predict(X))
    assert one.path_ == two.path_


@pytest.mark.parametrize("n_centers", [20, 50])
def test_the_last_training_ruins_nothing(n_centers):
    X = np.random.default_rng(0).normal(size=(200, 10))
    y = X @ np.arange(10.0)
    small = machine(n_centers, n_epochs=60).fit(X, y)
    assert small.score(X, y) > min(small.validation_score_, 0.9) - 0.1


def test_without_a_validation_part(sine):
    X, y = sine
    small = machine(validation_fraction=None).fit(X, y)
    assert small.score(X, y) > 0.97
    assert np.isnan(small.validation_score_)
    with pytest.raises(ValueError, match="held-out rows"):
        machine("auto", validation_fraction=None).fit(X, y)


@pytest.mark.parametrize("n_rows", [1, 2, 7])
def test_a_handful_of_rows(n_rows):
    X = np.arange(float(n_rows))[:, None]
    small = machine(n_epochs=5).fit(X, X[:, 0])
    assert small.n_centers_ <= n_rows
    assert np.isfinite(small.predict(X)).all()


def test_pickles_clones_and_sparse_rows(sine):
    X, y = sine
    small = machine(n_epochs=5, storage="int4").fit(X, y)
    again = pickle.loads(pickle.dumps(small))
    np.testing.assert_array_equal(again.predict(X), small.predict(X))
    np.testing.assert_array_equal(clone(small).fit(X, y).predict(X), small.predict(X))
    thin = clone(small).fit(sparse.csr_array(X), y)
    np.testing.assert_allclose(thin.predict(sparse.csr_array(X)), small.predict(X), atol=1e-2)


@needs_callbacks
def test_scoring_monitor_hears_of_scores_in_the_units_of_y(sine):
    X, y = sine
    monitor = ScoringMonitor(scoring="neg_mean_squared_error")
    machine(n_epochs=20).set_callbacks(monitor).fit(X, 1000 * y)
    assert monitor.get_logs()


def test_targets_that_are_no_numbers_are_refused(sine):
    X, y = sine
    for bad in (np.nan, np.inf, 1e300):
        with pytest.raises(ValueError, match=r"NaN|infinity|too large"):
            machine().fit(X, np.where(y > 0.5, bad, -y * 1e300 if bad == 1e300 else y))


def test_torch_trains_about_the_same_machine(sine):
    pytest.importorskip("torch")
    X, y = sine
    ours, theirs = machine().fit(X, y), machine(device="torch").fit(X, y)
    np.testing.assert_allclose(theirs.predict(X), ours.predict(X), atol=0.1)


def test_an_offset_of_the_targets_does_not_cost_digits():
    X = np.linspace(0, 6, 400)[:, None]
    y = 1e8 + np.sin(X[:, 0])
    assert machine(10, n_epochs=30).fit(X, y).score(X, y) > 0.99


def test_starts_of_another_kind_are_refused(sine):
    X, y = sine
    two = machine(5, n_epochs=2).fit(X, np.stack([y, y], axis=1))
    with pytest.raises(ValueError, match="predicts 2 numbers per row, but y holds 1"):
        machine(init=two).fit(X, y)
    with pytest.raises(TypeError, match="not a kernel regressor"):
        machine(init=CompactKernelClassifier(5, n_epochs=2).fit(X, y > 0)).fit(X, y)


def test_the_default_is_chosen_by_folds(sine):
    X, y = sine
    small = CompactKernelRegressor(n_epochs=30, random_state=0).fit(X, y)
    assert "the smallest within one standard error of the best R2 of" in small.choice_
    assert small.score(X, y) > 0.9
    assert machine("auto", max_centers=3, n_epochs=3).fit(X, y).n_centers_ <= 3


@pytest.mark.parametrize("n_rows", [1, 2, 3, 7])
def test_a_size_is_chosen_for_a_handful_of_rows(n_rows):
    X = np.arange(float(n_rows))[:, None]
    assert np.isfinite(machine("auto", n_epochs=3).fit(X, X[:, 0]).predict(X)).all()


def test_many_rows_are_chosen_on_a_held_out_part():
    X = np.random.default_rng(0).uniform(0, 6, size=(2100, 1))
    small = machine("auto", max_bytes=80, n_epochs=2).fit(X, np.sin(X[:, 0]))
    assert "the best R2 of" in small.choice_
    assert "on 420 held-out rows" in small.choice_
