"""All stages of training, for machines of every shape; fine-tuning and callbacks."""

from dataclasses import replace

import numpy as np
import pytest

from kernlet.compact.batches import BatchLoader, TrainingSet
from kernlet.compact.initialise import initialise, with_mask
from kernlet.compact.network import CrossEntropy, KernelNetwork, SquaredError
from kernlet.compact.plan import STORAGE, StoragePlan
from kernlet.compact.scoring import ClassValidation, NumberValidation
from kernlet.compact.train import TrainingConfig
from kernlet.compact.trainer import Candidate, EpochMonitor, Trainer
from support.callbacks import ProgressBar, ScoringMonitor, needs_callbacks
from support.compact_machines import machine

# -- Every shape -----------------------------------------------------------------------------

N_FEATURES, N_CLASSES, N_ROWS = 16, 4, 400
INT4 = STORAGE["int4"]
PROJECTED = {"rank": 3, "formats": ("int4", "int4", "int6")}
SHAPES = {
    "plain": {},
    "int4": {"formats": INT4},
    "widths": {"formats": INT4, "width": "per_center"},
    "widths in floats": {"width": "per_center"},
    "projected": PROJECTED,
    "ternary": {"rank": 3, "formats": ("int4", "int4", "ternary")},
    "rational": {"kernel": "rational_quadratic", "formats": INT4},
    "rational widths": {"kernel": "rational_quadratic", "width": "per_center", **PROJECTED},
    "asinh steps": {"formats": STORAGE["int8"], "n_steps": 4, "is_asinh": True},
    "feature scales": {"width": "per_feature", "formats": INT4},
    "steps": {"n_steps": 5, "formats": INT4},
    "scaled steps": {"n_steps": 5, "width": "per_feature"},
    "projected steps": {"n_steps": 3, **PROJECTED},
    "asinh": {"is_asinh": True, **PROJECTED},
    "blocks": {"block": 2, "formats": INT4},
    "projected blocks": {"block": 2, **PROJECTED},
    "one class": {"n_entries": 1, "formats": INT4},
    "two classes": {"n_entries": 2, "kernel": "rational_quadratic", **PROJECTED},
}
every_shape = pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES.keys())


@pytest.fixture(scope="module")
def clouds():
    random = np.random.default_rng(0)
    codes = random.integers(N_CLASSES, size=N_ROWS)
    # a pixel of each class, in another block of 2 x 2 pixels
    X = random.normal(size=(N_ROWS, N_FEATURES)) + 4 * np.eye(N_FEATURES)[[0, 2, 8, 10]][codes]
    return X, codes


@pytest.fixture(scope="module")
def clouds_trainer(clouds):
    return make_trainer(*clouds)


def make_trainer(X, codes, model=None, smoothing=0.1, n_epochs=6):
    loss, rows = CrossEntropy(smoothing), np.arange(len(X))
    table = loss.target_table(N_CLASSES)
    split = rows[rows % 4 > 0], rows[rows % 4 == 0]
    validation = ClassValidation(codes, np.ones(len(X)))
    initial = 10 * np.eye(N_CLASSES) - 5
    training = TrainingSet(X, np.ones(len(X)), codes, loss, validation, *split, table, initial)
    batches = BatchLoader(X, codes, np.ones(len(X)), table=table)
    return Trainer(training, batches, model, TrainingConfig(n_epochs, 32), seed=0)


def plan_of(shape, n_centers=8):
    return StoragePlan(N_FEATURES, N_CLASSES, n_centers, **shape)


@every_shape
def test_every_shape_learns_and_is_evaluated_as_stored(clouds, clouds_trainer, shape):
    trial = clouds_trainer.trial(Candidate(plan_of(shape), 0.1))
    X, codes = clouds
    expected = trial.expansion.decision_values(X[trial.rows])
    np.testing.assert_allclose(trial.outputs, expected, rtol=2e-3, atol=2e-3)
    assert np.mean(expected.argmax(axis=1) == codes[trial.rows]) > 0.7
    assert trial.losses[-1] < trial.losses[0]
    assert trial.expansion.nbytes == trial.candidate.plan.nbytes
    assert len(trial.losses) == (12 if trial.candidate.plan.levels else 6)


@every_shape
def test_every_shape_is_fine_tuned_on_all_rows(clouds_trainer, shape):
    trial = clouds_trainer.trial(Candidate(plan_of(shape), 0.1), epochs=0.2)
    tuned = clouds_trainer.finetune(trial)
    batches = clouds_trainer.batches_of(trial.candidate)
    before = clouds_trainer.total_loss(trial.network, batches)
    assert clouds_trainer.total_loss(tuned.network, batches) < before
    assert tuned.expansion is not trial.expansion
    assert tuned.expansion.nbytes == trial.expansion.nbytes


@every_shape
def test_a_stored_machine_of_every_shape_can_be_continued(clouds, clouds_trainer, shape):
    """The initial network of a warm start has the outputs of the machine."""
    trial = clouds_trainer.trial(Candidate(plan_of(shape), 0.1), epochs=0.5)
    expansion, plan = trial.expansion, trial.candidate.plan
    X, codes = clouds
    trainer = make_trainer(X, codes, expansion)
    inputs = replace_inputs(clouds_trainer.batches_of(trial.candidate).inputs, expansion)
    batches = BatchLoader(
        X, codes, np.ones(len(X)), table=trainer.training.target_table, inputs=inputs
    )
    trainer = replace(trainer, batches=batches)
    random = np.random.RandomState(0)
    network = initialise(plan, trainer.training, batches, expansion, 0.1, random)
    outputs = network.map(batches.device.send).outputs(batches.rows(np.arange(len(X))))
    np.testing.assert_allclose(outputs, expansion.decision_values(X), rtol=2e-3, atol=2e-3)
    again = trainer.trial(Candidate(plan, 0.1), epochs=0.5)
    assert again.expansion.nbytes == expansion.nbytes
    assert np.mean(again.outputs.argmax(axis=1) == codes[again.rows]) > 0.7


def replace_inputs(inputs, expansion):
    """The inputs of a machine, whose scale holds the scales of its features."""
    changes = {"shift": expansion.shift, "scale": expansion.scale}
    if expansion.steps is not None:
        steps = inputs.steps._replace(thresholds=expansion.steps.thresholds)
        changes["steps"] = steps
    return replace(inputs, **changes)


@pytest.mark.parametrize("n_entries", [1, 2, 3])
def test_centers_keep_their_coefficients_in_all_stages(clouds_trainer, n_entries):
    plan = plan_of({"n_entries": n_entries, "formats": INT4}, 12)
    trial = clouds_trainer.finetune(clouds_trainer.trial(Candidate(plan, 0.1)))
    assert (trial.network.mask.sum(axis=0) == n_entries).all()
    assert not trial.network.weights[trial.network.mask == 0].any()
    stored = trial.expansion.packed["coef"]
    assert stored.n_entries == n_entries
    np.testing.assert_array_equal(stored.decoded(), trial.expansion.coef)
    used = (trial.expansion.coef != 0).any(axis=0)
    assert used.mean() > 0.7


def test_the_mask_keeps_what_is_farthest_from_the_median():
    weights = np.array([[5.0, 1.0], [2.0, 1.0], [2.0, 1.0], [1.0, -3.0]])
    network = KernelNetwork(np.zeros((2, 1)), weights, np.zeros(4), np.zeros(1))
    masked = with_mask(network, 1)
    np.testing.assert_array_equal(masked.weights, [[3, 0], [0, 0], [0, 0], [0, -4]])
    np.testing.assert_array_equal(masked.mask.sum(axis=0), [1, 1])
    two = with_mask(network, 2)
    np.testing.assert_array_equal(two.weights, [[3, 0], [0, 0], [0, 0], [-1, -4]])
    np.testing.assert_array_equal(two.mask.sum(axis=0), [2, 2])


def test_two_classes_have_one_output_and_no_mask(clouds):
    X, codes = clouds
    trainer = make_trainer(X, codes)
    table = CrossEntropy().target_table(2)
    two = replace(
        trainer.training, targets=codes % 2, target_table=table, initial_table=10 * table - 5
    )
    batches = BatchLoader(X, codes % 2, np.ones(len(X)), table=table)
    trainer = replace(trainer, training=two, batches=batches)
    plan = StoragePlan(N_FEATURES, 1, 8, formats=INT4, n_entries=2)
    trial = trainer.trial(Candidate(plan, 0.1), epochs=0.2)
    assert trial.network.mask is None
    assert trial.expansion.nbytes == plan.nbytes


def test_widths_of_centers_are_trained_on_the_grid_they_are_stored_on(clouds_trainer):
    for shape in ("widths", "widths in floats"):
        trial = clouds_trainer.trial(Candidate(plan_of(SHAPES[shape]), 0.1))
        eighths = 8 * trial.network.log_gamma
        np.testing.assert_allclose(eighths, np.round(eighths), atol=1e-4)
        assert len(np.unique(np.round(eighths))) > 1
        np.testing.assert_allclose(
            np.log(trial.expansion.gamma), trial.network.log_gamma, atol=1e-5
        )


def test_smoothing_of_a_candidate_replaces_that_of_the_loss(clouds):
    plan = plan_of({})
    own = make_trainer(*clouds, smoothing=0.3).trial(Candidate(plan, 0.1))
    given = make_trainer(*clouds, smoothing=0.0).trial(Candidate(plan, 0.1, smoothing=0.3))
    np.testing.assert_array_equal(own.outputs, given.outputs)
    none = make_trainer(*clouds, smoothing=0.0).trial(Candidate(plan, 0.1))
    assert np.abs(none.outputs).mean() > 1.1 * np.abs(own.outputs).mean()


def test_smoothing_does_not_change_the_targets_of_the_trainer(clouds_trainer):
    before = clouds_trainer.batches.targets(np.arange(5)).copy()
    smooth = clouds_trainer.batches_of(Candidate(plan_of({}), 0.1, smoothing=0.5))
    np.testing.assert_allclose(smooth.targets(np.arange(5)).max(axis=1), 0.625)
    np.testing.assert_array_equal(clouds_trainer.batches.targets(np.arange(5)), before)


def test_numbers_have_a_short_and_slow_second_stage(clouds):
    X, _ = clouds
    y = X[:, :1] / X[:, :1].std()
    rows = np.arange(len(X))
    validation = NumberValidation(y, np.ones(len(X)))
    training = TrainingSet(X, np.ones(len(X)), y, SquaredError(), validation, rows[::2], rows[1::2])
    batches = BatchLoader(X, y, np.ones(len(X)))
    trainer = Trainer(training, batches, None, TrainingConfig(6, 32), seed=0)
    config = trainer.config_of(0.1, 1.0)
    second = trainer.quantized_config(config)
    assert (second.n_epochs, second.learning_rate) == (3, pytest.approx(0.3))
    trial = trainer.trial(Candidate(StoragePlan(N_FEATURES, 1, 8, formats=INT4), 0.1))
    assert len(trial.losses) == 6 + 3


def test_noise_is_not_added_to_the_indicators_of_steps(clouds_trainer, monkeypatch):
    seen = []
    plain = KernelNetwork.value_and_grad

    def see(self, loss, X, *rest):
        seen.append(X.copy())
        return plain(self, loss, X, *rest)

    monkeypatch.setattr(KernelNetwork, "value_and_grad", see)
    clouds_trainer.trial(Candidate(plan_of({"n_steps": 3}), 1.0), epochs=0.2)
    assert {X.shape[1] for X in seen} == {N_FEATURES + 3}
    steps = np.concatenate([X[:, N_FEATURES:] for X in seen])
    assert set(np.unique(steps)) == {0.0, 1.0}
    order = [X[:, :N_FEATURES].std() for X in seen]
    assert np.mean(order) > 1.1 * clouds_trainer.training.X.std()


def test_a_monitor_sees_machines_of_the_shape_that_is_trained(clouds, clouds_trainer):
    shape = {"kernel": "rational_quadratic", "n_steps": 3, **PROJECTED}
    seen = []

    class Task:
        def step(self, name, attributes):
            seen.append(attributes()["expansion"])
            return False

    monitor = EpochMonitor(lambda expansion: {"expansion": expansion})
    monitor.watch(Task())
    clouds_trainer.trial(Candidate(plan_of(shape), 0.1), monitor=monitor)
    assert len(seen) == len(monitor.history) == 12
    assert seen[0].decision_values(clouds[0]).shape == (N_ROWS, N_CLASSES)
    assert all(0 < epoch["score"] <= 1 for epoch in monitor.history)


# -- Fine-tuning and callbacks ---------------------------------------------------------------


class Recorder:
    """A callback that counts epochs, and stops at a given epoch."""

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


@needs_callbacks
def test_callbacks_hear_of_every_epoch(moons):
    X, _, y, _ = moons
    listener = Recorder()
    small = machine(storage="int4", keep_history=True).set_callbacks(listener).fit(X, y)
    assert listener.epochs == len(small.history_) == small.n_iter_ == 20 + 20 + 5
    assert {"epoch", "training", "fine-tuning"} <= listener.names


@needs_callbacks
def test_callbacks_can_stop(moons):
    X, _, y, _ = moons
    stopper = Recorder(stop_at=3)
    small = machine(validation_fraction=None, keep_history=True).set_callbacks(stopper).fit(X, y)
    assert stopper.epochs == len(small.history_) == small.n_iter_ == 3
    assert set(small.predict(X)) <= {0, 1}


@pytest.mark.parametrize("storage", ["float32", "int4"])
@needs_callbacks
def test_no_last_training_where_a_callback_asked_to_stop(moons, storage):
    """Rounded tables still have their training, which goes on until it is stopped too."""
    X, X_test, y, y_test = moons
    stopper = Recorder(stop_at=3)
    small = machine(storage=storage, keep_history=True).set_callbacks(stopper).fit(X, y)
    n_epochs = 3 if storage == "float32" else 3 + 20
    assert stopper.epochs == len(small.history_) == small.n_iter_ == n_epochs
    assert "training" in stopper.names
    assert "fine-tuning" not in stopper.names
    assert np.isfinite([epoch["score"] for epoch in small.history_]).all()
    assert small.score(X_test, y_test) == pytest.approx(small.validation_score_, abs=0.1)


@pytest.fixture(scope="module")
def trainer(moons):
    X, _, y, _ = moons
    loss, rows = CrossEntropy(), np.arange(len(y))
    table = loss.target_table(2)
    split = rows[rows % 5 > 0], rows[rows % 5 == 0]
    validation = ClassValidation(y, np.ones(len(y)))
    training = TrainingSet(X, np.ones(len(y)), y, loss, validation, *split, table, 10 * table - 5)
    batches = BatchLoader(X, y, np.ones(len(y)), table=table)
    return Trainer(training, batches, None, TrainingConfig(20, 32), seed=0)


@pytest.mark.parametrize("storage", ["float32", "int4"])
def test_fine_tuning_lowers_the_loss_on_all_rows(trainer, storage):
    plan = StoragePlan(2, 1, 8, formats=STORAGE[storage])
    trial = trainer.trial(Candidate(plan, 0.1), epochs=0.05)
    tuned = trainer.finetune(trial)
    batches = trainer.batches
    before = trainer.total_loss(trial.network, batches)
    assert trainer.total_loss(tuned.network, batches) < before
    assert len(tuned.losses) == len(trial.losses) + 5
    assert (tuned.outputs is trial.outputs, tuned.candidate) == (True, trial.candidate)


def test_fine_tuning_that_makes_the_loss_larger_is_discarded(trainer):
    trial = trainer.trial(Candidate(StoragePlan(2, 1, 8), 0.1))
    wild = replace(trial, candidate=replace(trial.candidate, noise=30.0))
    tuned = trainer.finetune(wild)
    assert tuned.expansion is trial.expansion
    assert tuned.network is trial.network
    assert len(tuned.losses) == len(trial.losses) + 5


@pytest.mark.filterwarnings("error::pytest.PytestUnhandledThreadExceptionWarning")
@pytest.mark.parametrize("n_centers", [5, "auto"])
@needs_callbacks
def test_scoring_monitor_and_progress_bar(moons, n_centers):
    X, _, y, _ = moons
    monitor = ScoringMonitor(scoring="accuracy")
    small = machine(n_centers, n_epochs=4)
    small.set_callbacks(monitor, ProgressBar()).fit(X, y)
    assert monitor.get_logs()


def test_the_history_has_a_falling_loss_and_scores(digits):
    X, _, y, _ = digits
    history = machine(15, keep_history=True).fit(X, y).history_
    assert all(set(epoch) == {"loss", "score"} for epoch in history)
    assert history[19]["loss"] < history[0]["loss"]
    assert history[19]["score"] >= history[0]["score"]
    assert np.isfinite([epoch["score"] for epoch in history[:20]]).all()
    assert len(history[20:]) == 5
    assert np.isnan([epoch["score"] for epoch in history[20:]]).all()


@pytest.mark.parametrize("storage", ["float32", "int4"])
def test_early_stopping_ends_the_first_training_earlier(digits, storage):
    X, X_test, y, y_test = digits
    parameters = {
        "n_epochs": 40,
        "storage": storage,
        "n_iter_no_change": 3,
        "keep_history": True,
    }
    full = machine(15, **parameters).fit(X, y)
    short = machine(15, **parameters, early_stopping=True).fit(X, y)
    rest = 10 + (40 if storage == "int4" else 0)
    assert rest < short.n_iter_ < full.n_iter_ == 40 + rest
    first = short.history_[: short.n_iter_ - rest]
    best = max(range(len(first)), key=lambda epoch: first[epoch]["score"])
    assert len(first) == best + 4
    assert short.score(X_test, y_test) > 0.94
