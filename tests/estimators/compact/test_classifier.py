import pickle
import sys
import warnings
from dataclasses import replace

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import sparse
from scipy.special import log_softmax
from sklearn.base import clone
from sklearn.callback import ProgressBar, ScoringMonitor
from sklearn.datasets import load_digits, make_blobs, make_moons
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC
from sklearn.utils._param_validation import InvalidParameterError

from kernlet import CompactKernelClassifier, CompressedClassifier, MinimalKernelClassifier, compress
from kernlet.datasets import make_checkerboard
from kernlet.estimators.compact import base, workshop
from kernlet.estimators.compact.classifier import _temperature


@pytest.fixture(scope="module")
def digits():
    X, y = load_digits(return_X_y=True)
    return train_test_split(X, y, test_size=0.5, stratify=y, random_state=0)


@pytest.fixture(scope="module")
def moons():
    X, y = make_moons(600, noise=0.2, random_state=0)
    return X[:300], X[300:], y[:300], y[300:]


def machine(n_centers=10, **parameters):
    parameters = {"n_epochs": 20, "random_state": 0, **parameters}
    return CompactKernelClassifier(n_centers, **parameters)


@pytest.mark.parametrize("storage", ["float32", "float16", "int8", "int4"])
def test_few_centers_tell_digits_apart(digits, storage):
    X, X_test, y, y_test = digits
    small = machine(20, storage=storage).fit(X, y)
    assert small.score(X_test, y_test) > 0.95
    assert small.expansion_.storage == dict.fromkeys(("centers", "coef"), storage)
    assert small.n_centers_ == small.expansion_.n_centers == 20
    assert small.nbytes_ == small.expansion_.nbytes


@pytest.mark.parametrize("loss", ["cross_entropy", "squared_hinge"])
@pytest.mark.parametrize("width", ["shared", "per_center"])
@pytest.mark.parametrize("projection", [None, 12])
def test_losses_widths_and_projections(digits, loss, width, projection):
    X, X_test, y, y_test = digits
    small = machine(20, loss=loss, width=width, projection=projection).fit(X, y)
    assert small.score(X_test, y_test) > 0.93
    assert small.expansion_.rank == (projection or 64)
    assert len(small.expansion_.gamma) == (20 if width == "per_center" else 1)


@pytest.mark.parametrize("max_bytes", [1000, 2000, 4000])
def test_everything_fits_in_the_bytes(digits, max_bytes):
    X, X_test, y, y_test = digits
    small = machine(None, max_bytes=max_bytes, n_epochs=6).fit(X, y)
    assert 0.9 * max_bytes < small.nbytes_ <= max_bytes
    assert small.score(X_test, y_test) > 0.93
    assert f"of {max_bytes} bytes" in small.choice_
    assert small.path_
    assert all(point.nbytes <= max_bytes for point in small.path_)
    assert small.nbytes_ in {point.nbytes for point in small.path_}


@pytest.mark.parametrize("storage", ["float32", "int8"])
def test_bytes_with_storage_and_projection_given(digits, storage):
    X, _, y, _ = digits
    small = machine(
        None, max_bytes=5000, storage=storage, projection=8, validation_fraction=None, n_epochs=2
    ).fit(X, y)
    assert small.nbytes_ <= 5000
    assert small.expansion_.rank == 8
    assert len(small.path_) == 1
    assert np.isnan(small.validation_score_)


def test_a_number_of_centers_limits_what_fills_the_bytes(moons):
    X, _, y, _ = moons
    small = machine(5, max_bytes=2000, n_epochs=2).fit(X, y)
    assert small.n_centers_ == 5


def test_the_path_tells_what_was_tried(digits):
    X, X_test, y, y_test = digits
    small = machine("auto", n_epochs=8).fit(X, y)
    sizes = [point.n_centers for point in small.path_]
    assert sizes[:3] == [10, 20, 40]
    assert small.n_centers_ in sizes
    assert small.choice_.startswith(f"{small.n_centers_} centers: the smallest of {sizes}")
    for point in small.path_:
        assert 0 <= point.score <= 1
        assert 0 < point.standard_error < 0.05
        assert (point.rank, point.n_epochs) == (None, 8)
        assert point.storage == ("float32", "float32")
    assert small.score(X_test, y_test) > 0.95
    chosen = next(point for point in small.path_ if point.n_centers == small.n_centers_)
    assert small.validation_score_ == chosen.score
    assert small.nbytes_ == chosen.nbytes


def test_one_size_is_a_path_of_one(moons):
    X, _, y, _ = moons
    small = machine().fit(X, y)
    assert [point.n_centers for point in small.path_] == [10]
    assert "as the parameters say" in small.choice_


@pytest.mark.parametrize("labels", [["no", "yes"], [False, True], [-1, 1], [3.0, 7.0]])
def test_two_classes_of_any_kind(moons, labels):
    X, X_test, y, y_test = moons
    labels = np.array(labels)
    small = machine().fit(X, labels[y])
    assert small.classes_.tolist() == labels.tolist()
    assert small.score(X_test, labels[y_test]) > 0.93
    assert small.predict(X_test).dtype == labels.dtype
    assert small.expansion_.n_outputs == 1
    np.testing.assert_array_equal(
        small.predict(X_test) == labels[1], small.decision_function(X_test) > 0
    )


def test_many_classes():
    X, y = make_blobs(1500, n_features=8, centers=150, cluster_std=0.5, random_state=0)
    small = machine(150, n_epochs=15).fit(X, y)
    assert small.score(X, y) > 0.98
    assert small.predict_proba(X).shape == (1500, 150)


def test_fewer_centers_than_classes():
    X, y = make_blobs(400, n_features=4, centers=12, random_state=0)
    small = machine(5, n_epochs=60).fit(X, y)
    assert small.n_centers_ == 5
    assert small.score(X, y) > 0.6


def test_rows_of_weight_zero_are_not_there(moons):
    X, X_test, y, _ = moons
    weight = np.r_[np.zeros(80), np.ones(220)]
    weighted, without = machine().fit(X, y, weight), machine().fit(X[80:], y[80:])
    np.testing.assert_array_equal(
        weighted.decision_function(X_test), without.decision_function(X_test)
    )


def test_weights_count_in_proportion_only(moons):
    X, X_test, y, _ = moons
    weights = np.random.default_rng(0).uniform(0.5, 2, len(y))
    one, eight = machine().fit(X, y, weights), machine().fit(X, y, 8 * weights)
    np.testing.assert_allclose(
        one.decision_function(X_test), eight.decision_function(X_test), rtol=1e-3, atol=1e-3
    )


def test_a_heavier_class_is_predicted_more_often():
    X, y = make_blobs(400, centers=[[0, 0], [1, 1]], random_state=0)
    shares = [
        np.mean(machine(6).fit(X, y, np.where(y == 1, weight, 1.0)).predict(X) == 1)
        for weight in (0.1, 1.0, 10.0)
    ]
    assert shares[0] < shares[1] - 0.1
    assert shares[2] > shares[1] + 0.1


def test_class_weight_is_a_sample_weight(moons):
    X, X_test, y, _ = moons
    by_class = machine(class_weight={0: 3.0, 1: 1.0}).fit(X, y)
    by_row = machine().fit(X, y, np.array([3.0, 1.0])[y])
    np.testing.assert_array_equal(
        by_class.decision_function(X_test), by_row.decision_function(X_test)
    )


def test_balanced_weights_find_the_rare_class():
    X, y = make_blobs([400, 40], centers=[[0, 0], [1.5, 1.5]], random_state=0)
    plain, balanced = machine(6).fit(X, y), machine(6, class_weight="balanced").fit(X, y)
    rare = y == 1
    assert np.mean(balanced.predict(X[rare]) == 1) > np.mean(plain.predict(X[rare]) == 1) + 0.1


@pytest.mark.parametrize("container", [sparse.csr_matrix, sparse.csr_array, sparse.csc_array])
@pytest.mark.parametrize("projection", [None, 8])
def test_sparse_rows_give_about_the_same_machine(digits, container, projection):
    X, X_test, y, _ = digits
    dense = machine(15, n_epochs=5, projection=projection).fit(X, y)
    thin = machine(15, n_epochs=5, projection=projection).fit(container(X), y)
    assert np.mean(thin.predict(container(X_test)) == dense.predict(X_test)) > 0.99
    np.testing.assert_allclose(
        dense.decision_function(container(X_test)), dense.decision_function(X_test), atol=1e-4
    )


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
def test_frames_give_feature_names_and_are_checked_against_them(moons, frame):
    X, _, y, _ = moons
    table = frame({"east": X[:, 0], "north": X[:, 1]})
    small = machine(n_epochs=3).fit(table, y)
    assert small.feature_names_in_.tolist() == ["east", "north"]
    np.testing.assert_array_equal(small.predict(table), machine(n_epochs=3).fit(X, y).predict(X))
    with pytest.raises(ValueError, match="feature names"):
        small.predict(table[["north", "east"]])


@pytest.mark.parametrize("n_classes", [2, 10])
@pytest.mark.parametrize("loss", ["cross_entropy", "squared_hinge"])
def test_probabilities(digits, n_classes, loss):
    X, X_test, y, _ = digits
    small = machine(15, n_epochs=8, loss=loss).fit(X[y < n_classes], y[y < n_classes])
    probabilities = small.predict_proba(X_test)
    assert probabilities.shape == (len(X_test), n_classes)
    assert (probabilities >= 0).all()
    np.testing.assert_allclose(probabilities.sum(axis=1), 1.0, rtol=1e-6)
    np.testing.assert_array_equal(
        small.classes_[probabilities.argmax(axis=1)], small.predict(X_test)
    )
    logs = small.predict_log_proba(X_test)
    assert np.isfinite(logs).all()
    np.testing.assert_allclose(np.exp(logs), probabilities, atol=1e-9)


@pytest.mark.parametrize("loss", ["cross_entropy", "squared_hinge"])
def test_the_temperature_makes_new_rows_likelier(digits, loss):
    X, X_test, y, y_test = digits
    small = machine(15, loss=loss, n_epochs=10).fit(X, y)

    def surprise(temperature):
        logs = log_softmax(small.decision_function(X_test) / temperature, axis=1)
        return -np.mean(logs[np.arange(len(y_test)), y_test])

    assert small.temperature_ != 1.0
    assert surprise(small.temperature_) < surprise(1.0)


def test_rows_all_told_apart_do_not_make_the_temperature_extreme():
    """One row more of any class keeps probabilities away from certainty."""
    codes = np.arange(60) % 3
    outputs = 4.0 * np.eye(3)[codes]
    weights = np.ones(60)
    temperature = _temperature(outputs, codes, weights)
    right = 1 / 61 / 3 + 60 / 61
    assert np.exp(log_softmax(outputs / temperature, axis=1)).max() == pytest.approx(
        right, abs=1e-4
    )
    assert _temperature(outputs[:6], codes[:6], weights[:6]) > temperature
    assert _temperature(outputs[:0], codes[:0], weights[:0]) == 1.0


def test_without_a_validation_part_there_is_no_temperature(moons):
    X, X_test, y, y_test = moons
    small = machine(validation_fraction=None).fit(X, y)
    assert small.temperature_ == 1.0
    assert np.isnan(small.validation_score_)
    assert small.n_iter_ == len(small.history_) == 20
    assert small.score(X_test, y_test) > 0.93


@pytest.mark.parametrize(
    "parameters",
    [{"n_centers": 10}, {"n_centers": "auto"}, {"n_centers": None, "max_bytes": 300}],
    ids=["one size", "auto", "bytes"],
)
def test_same_answer_with_the_same_seed_whatever_n_jobs(moons, parameters):
    X, X_test, y, _ = moons
    parameters = {**parameters, "n_epochs": 4}
    one = machine(**parameters).fit(X, y)
    values = one.decision_function(X_test)
    for n_jobs in (1, 2):
        other = machine(**parameters, n_jobs=n_jobs).fit(X, y)
        np.testing.assert_array_equal(other.decision_function(X_test), values)
        assert other.path_ == one.path_
    another = machine(**{**parameters, "random_state": 1}).fit(X, y)
    assert not np.array_equal(another.decision_function(X_test), values)


def test_pickles_and_clones(digits):
    X, X_test, y, _ = digits
    small = machine(15, storage="int4", n_epochs=3).fit(X, y)
    again = pickle.loads(pickle.dumps(small))
    np.testing.assert_array_equal(again.decision_function(X_test), small.decision_function(X_test))
    np.testing.assert_array_equal(
        clone(small).fit(X, y).decision_function(X_test), small.decision_function(X_test)
    )
    assert len(pickle.dumps(small.expansion_)) < small.nbytes_ + 2000


def test_searches_and_pipes(moons):
    X, X_test, y, y_test = moons
    units = np.array([1.0, 1000.0])
    piped = make_pipeline(StandardScaler(), machine(n_epochs=10))
    search = GridSearchCV(piped, {"compactkernelclassifier__n_centers": [1, 8]}, cv=2)
    search.fit(X * units, y)
    assert search.best_params_["compactkernelclassifier__n_centers"] == 8
    assert search.score(X_test * units, y_test) > 0.93


class Recorder:
    """A callback that counts epochs, and stops where it is told to."""

    def __init__(self, stop_at=None):
        self.epochs, self.stop_at, self.names = 0, stop_at, set()

    def setup(self, estimator, context):
        pass

    def on_fit_task_begin(self, estimator, context):
        pass

    def on_fit_task_end(self, estimator, context):
        self.names.add(context.task_name)
        if context.task_name == "epoch":
            self.epochs += 1
            return self.epochs == self.stop_at
        return False

    def teardown(self, estimator, context):
        pass


def test_callbacks_hear_of_every_epoch(moons):
    X, _, y, _ = moons
    listener = Recorder()
    small = machine(storage="int4").set_callbacks(listener).fit(X, y)
    assert listener.epochs == len(small.history_) == small.n_iter_ == 20 + 10 + 5
    assert {"epoch", "training", "settling"} <= listener.names


def test_callbacks_can_stop(moons):
    X, _, y, _ = moons
    stopper = Recorder(stop_at=3)
    small = machine(validation_fraction=None).set_callbacks(stopper).fit(X, y)
    assert stopper.epochs == len(small.history_) == small.n_iter_ == 3
    assert set(small.predict(X)) <= {0, 1}


@pytest.mark.parametrize("storage", ["float32", "int4"])
def test_no_last_training_where_a_callback_asked_to_stop(moons, storage):
    """Rounded tables still have their training, which goes on until it is stopped too."""
    X, X_test, y, y_test = moons
    stopper = Recorder(stop_at=3)
    small = machine(storage=storage).set_callbacks(stopper).fit(X, y)
    n_epochs = 3 if storage == "float32" else 3 + 10
    assert stopper.epochs == len(small.history_) == small.n_iter_ == n_epochs
    assert "training" in stopper.names
    assert "settling" not in stopper.names
    assert np.isfinite([epoch["score"] for epoch in small.history_]).all()
    assert small.score(X_test, y_test) == pytest.approx(small.validation_score_, abs=0.1)


def test_a_last_training_that_makes_the_loss_larger_is_thrown_away(moons, monkeypatch):
    X, _, y, _ = moons
    plain = workshop.descend

    def ruinous(*arguments, **options):
        found = plain(*arguments, **options)
        return replace(found, machine=replace(found.machine, weights=-found.machine.weights))

    monkeypatch.setattr(workshop, "descend", ruinous)
    small = machine().fit(X, y)
    assert small.n_iter_ == 25
    assert small.score(X, y) > 0.93


@pytest.mark.filterwarnings("error::pytest.PytestUnhandledThreadExceptionWarning")
@pytest.mark.parametrize("n_centers", [5, "auto"])
def test_scoring_monitor_and_progress_bar(moons, n_centers):
    X, _, y, _ = moons
    monitor = ScoringMonitor(scoring="accuracy")
    small = machine(n_centers, n_epochs=4)
    small.set_callbacks(monitor, ProgressBar()).fit(X, y)
    assert monitor.get_logs()


def test_the_history_has_a_falling_loss_and_scores(digits):
    X, _, y, _ = digits
    history = machine(15).fit(X, y).history_
    assert all(set(epoch) == {"loss", "score"} for epoch in history)
    assert history[19]["loss"] < history[0]["loss"]
    assert history[19]["score"] >= history[0]["score"]
    assert np.isfinite([epoch["score"] for epoch in history[:20]]).all()
    assert len(history[20:]) == 5
    assert np.isnan([epoch["score"] for epoch in history[20:]]).all()


@pytest.mark.parametrize("storage", ["float32", "int4"])
def test_early_stopping_ends_the_first_training_earlier(digits, storage):
    X, X_test, y, y_test = digits
    parameters = {"n_epochs": 40, "storage": storage, "n_iter_no_change": 3}
    full = machine(15, **parameters).fit(X, y)
    short = machine(15, **parameters, early_stopping=True).fit(X, y)
    rest = 10 + (20 if storage == "int4" else 0)
    assert rest < short.n_iter_ < full.n_iter_ == 40 + rest
    first = short.history_[: short.n_iter_ - rest]
    best = max(range(len(first)), key=lambda epoch: first[epoch]["score"])
    assert len(first) == best + 4
    assert short.score(X_test, y_test) > 0.94


def test_warm_start_goes_on(digits):
    X, _, y, _ = digits
    small = machine(15, n_epochs=5, warm_start=True).fit(X, y)
    first, gamma = small.history_, small.expansion_.gamma
    small.fit(X, y)
    assert small.n_centers_ == 15
    assert small.history_[0]["loss"] < first[0]["loss"]
    assert not np.array_equal(small.expansion_.gamma, gamma)
    small.set_params(n_centers=None, storage="int8").fit(X, y)
    assert small.expansion_.storage == {"centers": "int8", "coef": "int8"}
    assert small.n_centers_ == 15


def test_warm_start_keeps_what_was_chosen(digits):
    X, _, y, _ = digits
    small = machine(None, max_bytes=1000, n_epochs=2, warm_start=True).fit(X, y)
    before = small.nbytes_, small.expansion_.storage
    small.fit(X, y)
    assert (small.nbytes_, small.expansion_.storage) == before


def test_warm_start_refuses_other_classes_sizes_and_features(moons):
    X, _, y, _ = moons
    small = machine(n_epochs=2, warm_start=True).fit(X, y)
    with pytest.raises(ValueError, match="other classes or features"):
        clone_with_memory(small).fit(X, y + 1)
    with pytest.raises(ValueError, match="other classes or features"):
        clone_with_memory(small).fit(X[:, :1], y)
    with pytest.raises(ValueError, match="n_centers=7, but the machine to start from has 10"):
        clone_with_memory(small).set_params(n_centers=7).fit(X, y)


def clone_with_memory(estimator):
    return pickle.loads(pickle.dumps(estimator))


def test_warm_start_with_more_centers_asked_for_than_rows():
    X, y = make_moons(40, noise=0.1, random_state=0)
    small = machine(500, n_epochs=2, warm_start=True).fit(X, y)
    n_centers = small.n_centers_
    assert small.fit(X, y).n_centers_ == n_centers


@pytest.mark.parametrize("n_classes", [2, 10])
@pytest.mark.parametrize(
    "make",
    [
        lambda X, y: X[:25],
        lambda X, y: X[:25].tolist(),
        lambda X, y: MinimalKernelClassifier(random_state=0).fit(X, y),
        lambda X, y: SVC(C=10).fit(X, y),
        lambda X, y: SVC(kernel="linear").fit(X, y),
        lambda X, y: machine(12, n_epochs=20).fit(X, y),
        lambda X, y: machine(12, n_epochs=3, storage="int4", projection=8).fit(X, y),
        lambda X, y: compress(SVC().fit(X, y), 12, X, y, random_state=0),
    ],
    ids=["points", "list", "minimal", "svc", "linear", "compact", "packed", "compressed"],
)
def test_starting_from_what_is_there(digits, make, n_classes):
    X, X_test, y, y_test = (part[:300] for part in digits)
    X, y = X[y < n_classes], y[y < n_classes]
    small = machine(12, init=make(X, y)).fit(X, y)
    assert small.score(X_test[y_test < n_classes], y_test[y_test < n_classes]) > 0.85


def test_support_vectors_of_many_classes_are_a_good_start(digits):
    X, X_test, y, y_test = (part[:300] for part in digits)
    svm = SVC(C=10).fit(X, y)
    small = machine(None, init=svm).fit(X, y)
    assert small.n_centers_ == len(svm.support_)
    assert small.score(X_test, y_test) > 0.85


def test_a_start_from_a_machine_is_that_machine(digits):
    X, X_test, y, _ = digits
    before = machine(15, n_epochs=5).fit(X, y)
    after = machine(None, init=before, learning_rate=1e-9, n_epochs=1).fit(X, y)
    np.testing.assert_allclose(
        after.decision_function(X_test), before.decision_function(X_test), atol=1e-3
    )


def test_fewer_centers_than_there_are_to_start_from(moons):
    X, X_test, y, y_test = moons
    for init in (X[:50], SVC().fit(X, y)):
        small = machine(8, init=init).fit(X, y)
        assert small.n_centers_ == 8
        assert small.score(X_test, y_test) > 0.9
    assert machine(80, init=X[:9], n_epochs=1).fit(X, y).n_centers_ == 9


@pytest.mark.parametrize("make", [lambda X, y: X[:50], lambda X, y: SVC().fit(X, y)])
def test_a_start_keeps_to_the_bytes(moons, make):
    X, _, y, _ = moons
    small = machine(None, init=make(X, y), max_bytes=100, n_epochs=2).fit(X, y)
    assert small.nbytes_ <= 100


def test_a_start_from_a_compact_machine_keeps_to_the_bytes_or_is_refused(moons):
    X, _, y, _ = moons
    large = machine(50, n_epochs=2).fit(X, y)
    with pytest.raises(ValueError, match="max_bytes"):
        machine(None, init=large, max_bytes=100, n_epochs=2).fit(X, y)


def test_starts_that_do_not_fit_are_refused(moons):
    X, _, y, _ = moons
    piped = make_pipeline(StandardScaler(), SVC()).fit(X, y)
    for init, kind, message in (
        (piped, ValueError, "Pipeline with steps in front"),
        (SVC().fit(X, y + 5), ValueError, "trained for the classes"),
        (SVC().fit(X[:, :1], y), ValueError, "init has 1 features, but X has 2"),
        (X[:5, :1], ValueError, "points of 1 features, but X has 2"),
        (np.full((3, 2), np.nan), ValueError, "NaN"),
        (LogisticRegression().fit(X, y), TypeError, "no kernel classifier"),
        (SVC(), NotFittedError, "not fitted"),
        ("somewhere", InvalidParameterError, "init"),
    ):
        with pytest.raises(kind, match=message):
            machine(None, init=init).fit(X, y)


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


def test_a_device_without_torch_says_what_to_install(moons, monkeypatch):
    X, _, y, _ = moons
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(ImportError, match=r"needs torch, which is not installed.*kernlet\[torch\]"):
        machine(device="cuda").fit(X, y)


@pytest.mark.parametrize(
    "parameters",
    [{}, {"storage": "int4", "projection": 12, "width": "per_center"}],
    ids=["plain", "packed"],
)
def test_torch_trains_about_the_same_machine(digits, parameters):
    pytest.importorskip("torch")
    X, X_test, y, _ = digits
    ours = machine(15, n_epochs=3, **parameters).fit(X, y)
    theirs = machine(15, n_epochs=3, device="torch", **parameters).fit(X, y)
    assert np.mean(ours.predict(X_test) == theirs.predict(X_test)) > 0.98
    assert isinstance(theirs.expansion_.centers, np.ndarray)
    assert pickle.loads(pickle.dumps(theirs)).predict(X_test).shape == (len(X_test),)


def test_torch_chooses_and_goes_on(moons):
    pytest.importorskip("torch")
    X, X_test, y, y_test = moons
    small = machine(None, max_bytes=200, device="torch", warm_start=True).fit(X, y)
    small.set_params(early_stopping=True).fit(X, y)
    assert small.nbytes_ <= 200
    assert small.score(X_test, y_test) > 0.9


@pytest.mark.parametrize("projection", [None, 8])
@pytest.mark.parametrize("width", ["shared", "per_center"])
def test_tensors_have_the_values_of_arrays(digits, projection, width):
    torch = pytest.importorskip("torch")
    X, X_test, y, _ = digits
    small = machine(15, n_epochs=2, projection=projection, width=width).fit(X, y)
    values = small.decision_function(torch.asarray(X_test, dtype=torch.float32))
    assert isinstance(values, torch.Tensor)
    np.testing.assert_allclose(values.numpy(), small.decision_function(X_test), atol=1e-3)
    np.testing.assert_array_equal(
        small.predict(torch.asarray(X_test, dtype=torch.float32)), small.predict(X_test)
    )


def test_heavy_rows_are_not_outvoted_by_batches_of_light_ones():
    random = np.random.RandomState(0)
    X = np.repeat(2 * random.randn(4, 2), 500, axis=0)
    y = np.tile(np.arange(500) == 0, 4).astype(int)
    weights = np.where(y == 1, 5000.0, 1.0)
    small = machine(8, n_epochs=40).fit(X, y, weights)
    assert small.score(X, y, weights) > 0.9


@pytest.mark.parametrize("with_rows", [True, False])
def test_a_compact_machine_can_be_compressed(digits, with_rows):
    X, X_test, y, y_test = digits
    large = machine(60).fit(X, y)
    rows = (X, y) if with_rows else ()
    small = compress(large, 40, *rows, random_state=0)
    assert small.n_centers_ == 40
    assert small.score(X_test, y_test) > 0.9


def test_a_compact_machine_inside_a_compressor(moons):
    X, X_test, y, y_test = moons
    small = CompressedClassifier(machine(30), 12, random_state=0).fit(X, y)
    assert small.score(X_test, y_test) > 0.9


def test_a_machine_behind_a_projection_is_not_compressed(digits):
    X, _, y, _ = digits
    with pytest.raises(ValueError, match="cannot be taken into its centers"):
        compress(machine(20, projection=8).fit(X, y), 10)


def test_a_frozen_machine_can_be_started_from_inside_a_search(moons):
    X, _, y, _ = moons
    start = FrozenEstimator(SVC().fit(X, y))
    search = GridSearchCV(machine(8, init=start), {"noise": [0.05, 0.1]}, cv=2).fit(X, y)
    assert search.best_score_ > 0.85


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
