"""Training of all numbers together, on a toy of three clouds of points."""

import warnings

import array_api_strict
import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from kernlet.compact.network import CrossEntropy, Examples, JointMargin, Machine, SquaredError
from kernlet.compact.train import RATES, Recipe, descend
from kernlet.devices import NUMPY, Device, find_device, to_numpy

LOSS = CrossEntropy(0.1)
N_ROWS, N_CENTERS, N_FEATURES, RANK = 150, 6, 4, 2
SHORT = Recipe(n_epochs=6, batch_size=32)
WILD = {**RATES, "centers": 1e30, "weights": 1e30}


def toy(device=NUMPY):
    random = np.random.default_rng(0)
    codes = random.integers(3, size=N_ROWS)
    X = random.normal(size=(N_ROWS, N_FEATURES)) + 2 * np.eye(3, N_FEATURES)[codes]
    return Examples(X, codes, np.ones(N_ROWS), table=LOSS.target_table(3), device=device)


def start(device=NUMPY, *, projected=False, widths=1):
    random = np.random.default_rng(1)
    rank = RANK if projected else N_FEATURES
    arrays = {
        "centers": random.normal(size=(N_CENTERS, rank)),
        "weights": 0.1 * random.normal(size=(3, N_CENTERS)),
        "intercept": np.zeros(3),
        "log_gamma": np.full(widths, -1.5),
    }
    if projected:
        arrays["projection"] = random.normal(size=(rank, N_FEATURES)) / 2
    return Machine(**{name: device.send(array) for name, array in arrays.items()})


def train(recipe=SHORT, device=NUMPY, random_state=0, form=None, **options):
    random = np.random.RandomState(random_state)
    begin = start(device, **(form or {}))
    return descend(JointMargin(LOSS), begin, toy(device), recipe, random, **options)


def in_numpy(machine):
    return {name: to_numpy(array) for name, array in machine.arrays().items()}


def assert_finite(machine):
    assert all(np.isfinite(array).all() for array in in_numpy(machine).values())


FORMS = [{}, {"widths": N_CENTERS}, {"projected": True}, {"projected": True, "widths": N_CENTERS}]
every_form = pytest.mark.parametrize("form", FORMS, ids=lambda form: " ".join(form) or "plain")


@every_form
def test_the_loss_falls_and_every_array_moves(form):
    found = train(form=form)
    assert len(found.losses) == 6
    assert found.losses[-1] < 0.8 * found.losses[0]
    assert found.n_halvings == 0
    for name, array in in_numpy(found.machine).items():
        first = in_numpy(start(**form))[name]
        assert array.dtype == np.float32
        assert array.shape == first.shape
        assert not np.array_equal(array, first)


def test_targets_may_be_numbers():
    random = np.random.default_rng(2)
    X = random.normal(size=(N_ROWS, N_FEATURES))
    examples = Examples(X, np.sin(X[:, :3]), np.ones(N_ROWS))
    found = descend(JointMargin(SquaredError()), start(), examples, SHORT, np.random.RandomState(0))
    assert found.losses[-1] < found.losses[0]


@every_form
def test_same_random_state_same_machine_bit_for_bit(form):
    one, two = (train(random_state=3, form=form) for _ in range(2))
    assert one.losses == two.losses
    for name, array in in_numpy(one.machine).items():
        np.testing.assert_array_equal(array, in_numpy(two.machine)[name])


def test_another_random_state_is_another_machine():
    one, two = (train(random_state=seed).machine for seed in (3, 4))
    assert not np.array_equal(one.centers, two.centers)


def test_start_is_left_alone():
    begin = start()
    before = in_numpy(start())
    descend(JointMargin(LOSS), begin, toy(), SHORT, np.random.RandomState(0))
    for name, array in in_numpy(begin).items():
        np.testing.assert_array_equal(array, before[name])


def test_the_loss_of_an_epoch_is_the_mean_of_its_batches(monkeypatch):
    """Without rates nothing moves, and batches of one size make the mean over all rows."""
    monkeypatch.setattr("kernlet.compact.train._CHECK_EVERY", 2)
    still = Recipe(1, batch_size=30, noise=0.0, rates=dict.fromkeys(RATES, 0.0))
    examples = toy()
    everything = np.arange(examples.n_rows)
    value, _ = JointMargin(LOSS).value_and_gradient(
        start(), *(part(everything) for part in (examples.rows, examples.targets, examples.weights))
    )
    assert train(still).losses[0] == pytest.approx(float(value), rel=1e-5)


def test_noise_changes_the_machine_and_no_noise_does_not_fail():
    quiet = Recipe(2, batch_size=32, noise=0.0)
    assert not np.array_equal(
        train(quiet).machine.centers, train(Recipe(2, batch_size=32)).machine.centers
    )


@pytest.mark.parametrize("batch_size", [1, 7, 150, 1000])
def test_batches_of_any_size(batch_size):
    found = train(Recipe(2, batch_size))
    assert np.isfinite(found.losses).all()
    assert_finite(found.machine)


# Rounding

LEVELS = {"centers": 7, "weights": 7, "projection": 1}
STEPS = {"centers": 0.4, "weights": 0.1, "projection": 0.5}


@pytest.mark.parametrize("names", [("weights",), ("centers", "weights"), tuple(LEVELS)])
def test_rounded_arrays_lie_on_the_grid_of_the_steps_returned(names):
    recipe = Recipe(6, 32, levels={name: LEVELS[name] for name in names})
    found = train(recipe, form={"projected": True}, steps={name: STEPS[name] for name in names})
    assert found.steps.keys() == set(names)
    for name in names:
        codes = in_numpy(found.machine)[name].astype(float) / found.steps[name]
        np.testing.assert_allclose(codes, np.round(codes), atol=1e-4)
        assert np.abs(codes).max() <= LEVELS[name] + 1e-4
    assert found.losses[-1] < found.losses[0]


def test_rounding_steps_are_trained_too():
    recipe = Recipe(6, 32, levels={"weights": 7})
    assert train(recipe, steps={"weights": 0.1}).steps["weights"] != pytest.approx(0.1, rel=1e-3)


def test_without_rounding_there_are_no_steps():
    assert train().steps == {}


# The guard


def test_divergence_is_noticed_undone_and_said():
    with pytest.warns(ConvergenceWarning, match="learning rates are now 1/2 of what they were"):
        found = train(Recipe(3, 32, rates=WILD))
    assert found.n_halvings >= 1
    assert_finite(found.machine)


def test_hopeless_rates_end_the_training():
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        found = train(Recipe(40, 32, rates=WILD))
    messages = [str(w.message) for w in said if w.category is ConvergenceWarning]
    assert len(messages) == found.n_halvings == 11
    assert "1/2048 " in messages[-1]
    assert len(found.losses) < 40
    assert_finite(found.machine)


def test_training_goes_on_after_a_halving(monkeypatch):
    """A batch of rows that are not numbers costs one window of steps, and no more."""
    seen = []
    plain = JointMargin.value_and_gradient

    def once_nan(self, machine, X, targets, weights):
        seen.append(len(X))
        value, gradient = plain(self, machine, X, targets, weights)
        return (value * np.nan if len(seen) == 7 else value), gradient

    monkeypatch.setattr(JointMargin, "value_and_gradient", once_nan)
    with pytest.warns(ConvergenceWarning, match="1/2 of what they were"):
        found = train()
    assert found.n_halvings == 1
    assert found.losses[-1] < found.losses[0]
    assert len(found.losses) == 6
    assert np.isfinite(found.losses[0])


def test_good_rates_are_not_warned_about():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        train()


@pytest.mark.parametrize("rates", [{"log_gamma": 1e3}, {"weights": 1e38}], ids=str)
def test_a_step_too_long_at_the_end_of_a_window_is_undone_too(rates):
    """With one batch an epoch, the first step is taken after the only look at the loss."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        found = train(Recipe(3, N_ROWS, rates={**RATES, **rates}))
    assert np.isfinite(found.losses[-1])


# Being told of epochs


def test_on_epoch_hears_of_every_epoch_and_may_stop():
    heard = []

    def stop_at_third(epoch, loss, machine):
        heard.append((epoch, loss, machine))
        return epoch == 2

    found = train(on_epoch=stop_at_third)
    assert [epoch for epoch, *_ in heard] == [0, 1, 2]
    assert tuple(loss for _, loss, _ in heard) == found.losses
    np.testing.assert_array_equal(heard[-1][2].centers, found.machine.centers)
    assert not np.array_equal(heard[0][2].centers, found.machine.centers)


def test_on_epoch_sees_the_machine_as_it_is_stored():
    seen = []
    recipe = Recipe(2, 32, levels={"weights": 1})
    train(recipe, steps={"weights": 0.1}, on_epoch=lambda *told: seen.append(told[2].weights))
    assert all(len(np.unique(weights)) <= 3 for weights in seen)


# Other libraries

ROUNDED = Recipe(6, 32, levels={"centers": 31, "weights": 31})


def assert_alike(device):
    form = {"projected": True, "widths": N_CENTERS}
    ours, theirs = (
        train(ROUNDED, place, form=form, steps={"centers": 0.1, "weights": 0.03})
        for place in (NUMPY, device)
    )
    np.testing.assert_allclose(theirs.losses, ours.losses, rtol=1e-2)
    assert type(theirs.machine.centers) is type(device.send(np.ones(1)))
    examples = toy()
    X = examples.rows(np.arange(examples.n_rows))
    outputs = [JointMargin(LOSS).outputs(Machine(**in_numpy(f.machine)), X) for f in (ours, theirs)]
    np.testing.assert_allclose(*outputs, atol=0.2)


def test_strict_arrays_give_about_the_machine_of_numpy():
    assert_alike(Device(array_api_strict))


def test_torch_gives_about_the_machine_of_numpy():
    pytest.importorskip("torch")
    assert_alike(find_device("torch"))


@pytest.mark.parametrize("name", ["strict", "torch"])
def test_divergence_is_undone_in_other_libraries(name):
    if name == "torch":
        pytest.importorskip("torch")
    device = Device(array_api_strict) if name == "strict" else find_device("torch")
    with pytest.warns(ConvergenceWarning, match="learning rates are now 1/2"):
        found = train(Recipe(2, 32, rates=WILD), device)
    assert_finite(found.machine)
