import sys
from dataclasses import replace

import numpy as np
import pytest
from sklearn.callback import ProgressBar, ScoringMonitor

from kernlet.compact import train as workshop
from support.compact_machines import machine


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
        if sys._getframe(1).f_code.co_name != "settle":
            return found
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
