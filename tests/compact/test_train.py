"""Adam, and a stage of training on a toy of three clouds of points."""

import warnings

import array_api_strict
import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from kernlet.compact.batches import BatchLoader
from kernlet.compact.network import (
    CrossEntropy,
    KernelNetwork,
    SquaredError,
)
from kernlet.compact.train import (
    RATES,
    TrainingConfig,
    default_batch_size,
    default_epochs,
    train_network,
)
from kernlet.devices import NUMPY, Device, find_device, to_numpy

# -- One stage --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("n_rows", "batch_size"),
    [(1, 16), (128, 16), (136, 17), (800, 100), (2048, 256), (49_999, 256), (50_000, 512)],
)
def test_batches_are_an_eighth_of_few_rows(n_rows, batch_size):
    assert default_batch_size(n_rows) == batch_size


@pytest.mark.parametrize(
    ("n_rows", "n_epochs"), [(1, 120), (18_000, 120), (60_000, 36), (1_000_000, 10)]
)
def test_epochs_become_fewer_with_more_rows(n_rows, n_epochs):
    assert default_epochs(n_rows) == n_epochs


def test_a_later_stage_has_a_share_of_the_rates_and_epochs():
    config = TrainingConfig(10, 32, noise=0.3, learning_rate=2.0).scaled(0.5, epochs=0.25)
    assert (config.n_epochs, config.batch_size, config.noise) == (3, 32, 0.3)
    assert (config.learning_rate, config.rates) == (1.0, RATES)


LOSS = CrossEntropy(0.1)
N_ROWS, N_CENTERS, N_FEATURES, RANK = 150, 6, 4, 2
SHORT = TrainingConfig(n_epochs=6, batch_size=32)
WILD = {**RATES, "centers": 1e30, "weights": 1e30}


def toy(device=NUMPY):
    random = np.random.default_rng(0)
    codes = random.integers(3, size=N_ROWS)
    X = random.normal(size=(N_ROWS, N_FEATURES)) + 2 * np.eye(3, N_FEATURES)[codes]
    return BatchLoader(X, codes, np.ones(N_ROWS), table=LOSS.target_table(3), device=device)


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
    return KernelNetwork(**{name: device.send(array) for name, array in arrays.items()})


def train(config=SHORT, device=NUMPY, random_state=0, form=None, **options):
    random = np.random.RandomState(random_state)
    begin = start(device, **(form or {}))
    return train_network(begin, LOSS, toy(device), config, random, **options)


class Visits:
    """A squared error that records the targets it is given: here the numbers of the rows."""

    def __init__(self):
        self.targets = []

    def value_and_grad(self, outputs, targets):
        self.targets.append(np.asarray(targets)[:, 0])
        return SquaredError().value_and_grad(outputs, targets)


@pytest.mark.parametrize("gathered", [1, 100, 2**16])
def test_every_row_is_visited_once_per_epoch_whatever_is_gathered_at_once(monkeypatch, gathered):
    monkeypatch.setattr("kernlet.compact.train.GATHERED_NUMBERS", gathered)
    X, numbers = np.ones((N_ROWS, N_FEATURES)), np.arange(N_ROWS)
    batches = BatchLoader(X, numbers[:, None] / N_ROWS, np.ones(N_ROWS))
    arrays = start().arrays()
    arrays = {**arrays, "weights": arrays["weights"][:1], "intercept": np.zeros(1, np.float32)}
    network, loss = KernelNetwork(**arrays), Visits()
    config = TrainingConfig(n_epochs=2, batch_size=32, learning_rate=0.0)
    train_network(network, loss, batches, config, np.random.RandomState(0))
    *visits, _ = loss.targets  # the last one checks the last step
    assert {len(batch) for batch in visits} == {30}
    for epoch in (visits[:5], visits[5:]):
        np.testing.assert_array_equal(np.sort(np.rint(N_ROWS * np.concatenate(epoch))), numbers)
    assert not np.array_equal(np.concatenate(visits[:5]), np.concatenate(visits[5:]))


def in_numpy(network):
    return {name: to_numpy(array) for name, array in network.arrays().items()}


def assert_finite(network):
    assert all(np.isfinite(array).all() for array in in_numpy(network).values())


FORMS = [{}, {"widths": N_CENTERS}, {"projected": True}, {"projected": True, "widths": N_CENTERS}]
every_network_form = pytest.mark.parametrize(
    "form", FORMS, ids=lambda form: " ".join(form) or "plain"
)


@every_network_form
def test_the_loss_falls_and_every_array_moves(form):
    trained = train(form=form)
    assert len(trained.losses) == 6
    assert trained.losses[-1] < 0.8 * trained.losses[0]
    assert trained.n_halvings == 0
    for name, array in in_numpy(trained.network).items():
        first = in_numpy(start(**form))[name]
        assert array.dtype == np.float32
        assert array.shape == first.shape
        assert not np.array_equal(array, first)


def test_targets_may_be_numbers():
    random = np.random.default_rng(2)
    X = random.normal(size=(N_ROWS, N_FEATURES))
    batches = BatchLoader(X, np.sin(X[:, :3]), np.ones(N_ROWS))
    trained = train_network(start(), SquaredError(), batches, SHORT, np.random.RandomState(0))
    assert trained.losses[-1] < trained.losses[0]


@every_network_form
def test_same_random_state_same_network_bit_for_bit(form):
    one, two = (train(random_state=3, form=form) for _ in range(2))
    assert one.losses == two.losses
    for name, array in in_numpy(one.network).items():
        np.testing.assert_array_equal(array, in_numpy(two.network)[name])


def test_another_random_state_is_another_network():
    one, two = (train(random_state=seed).network for seed in (3, 4))
    assert not np.array_equal(one.centers, two.centers)


def test_start_is_left_alone():
    begin = start()
    before = in_numpy(start())
    train_network(begin, LOSS, toy(), SHORT, np.random.RandomState(0))
    for name, array in in_numpy(begin).items():
        np.testing.assert_array_equal(array, before[name])


def test_the_loss_of_an_epoch_is_the_mean_of_its_batches(monkeypatch):
    """Without rates nothing moves, and batches of one size make the mean over all rows."""
    monkeypatch.setattr("kernlet.compact.train._STEPS_PER_CHECK", 2)
    still = TrainingConfig(1, batch_size=30, noise=0.0, rates=dict.fromkeys(RATES, 0.0))
    batches = toy()
    everything = np.arange(batches.n_rows)
    value, _ = start().value_and_grad(
        LOSS, *(read(everything) for read in (batches.rows, batches.targets, batches.weights))
    )
    assert train(still).losses[0] == pytest.approx(float(value), rel=1e-5)


def test_noise_changes_the_network_and_no_noise_does_not_fail():
    quiet = TrainingConfig(2, batch_size=32, noise=0.0)
    assert not np.array_equal(
        train(quiet).network.centers, train(TrainingConfig(2, batch_size=32)).network.centers
    )


@pytest.mark.parametrize("batch_size", [1, 7, 150, 1000])
def test_batches_of_any_size(batch_size):
    trained = train(TrainingConfig(2, batch_size))
    assert np.isfinite(trained.losses).all()
    assert_finite(trained.network)


# Rounding

LEVELS = {"centers": 7, "weights": 7, "projection": 1}
STEPS = {"centers": 0.4, "weights": 0.1, "projection": 0.5}


@pytest.mark.parametrize("names", [("weights",), ("centers", "weights"), tuple(LEVELS)])
def test_rounded_arrays_lie_on_the_grid_of_the_steps_returned(names):
    levels, steps = ({name: numbers[name] for name in names} for numbers in (LEVELS, STEPS))
    trained = train(SHORT, form={"projected": True}, levels=levels, steps=steps)
    assert trained.steps.keys() == set(names)
    for name in names:
        codes = in_numpy(trained.network)[name].astype(float) / trained.steps[name]
        np.testing.assert_allclose(codes, np.round(codes), atol=1e-4)
        assert np.abs(codes).max() <= LEVELS[name] + 1e-4
    assert trained.losses[-1] < trained.losses[0]


def test_rounding_steps_are_trained_too():
    trained = train(levels={"weights": 7}, steps={"weights": 0.1})
    assert trained.steps["weights"] != pytest.approx(0.1, rel=1e-3)


def test_without_rounding_there_are_no_steps():
    assert train().steps == {}


# The guard


def test_divergence_is_noticed_undone_and_warned_of():
    with pytest.warns(ConvergenceWarning, match="learning rates are now 1/2 of what they were"):
        trained = train(TrainingConfig(3, 32, rates=WILD))
    assert trained.n_halvings >= 1
    assert_finite(trained.network)


def test_hopeless_rates_end_the_training():
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        trained = train(TrainingConfig(40, 32, rates=WILD))
    messages = [str(w.message) for w in caught if w.category is ConvergenceWarning]
    assert len(messages) == trained.n_halvings == 11
    assert "1/2048 " in messages[-1]
    assert len(trained.losses) < 40
    assert_finite(trained.network)


def test_training_goes_on_after_a_halving(monkeypatch):
    """A batch of rows that are not numbers costs one window of steps, and no more."""
    seen = []
    plain = KernelNetwork.value_and_grad

    def once_nan(self, loss, X, targets, weights):
        seen.append(len(X))
        value, gradient = plain(self, loss, X, targets, weights)
        return (value * np.nan if len(seen) == 7 else value), gradient

    monkeypatch.setattr(KernelNetwork, "value_and_grad", once_nan)
    with pytest.warns(ConvergenceWarning, match="1/2 of what they were"):
        trained = train()
    assert trained.n_halvings == 1
    assert trained.losses[-1] < trained.losses[0]
    assert len(trained.losses) == 6
    assert np.isfinite(trained.losses[0])


def test_good_rates_are_not_warned_about():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        train()


@pytest.mark.parametrize("rates", [{"log_gamma": 1e3}, {"weights": 1e38}], ids=str)
def test_a_step_too_long_at_the_end_of_a_window_is_undone_too(rates):
    """With one batch an epoch, the first step is taken after the only look at the loss."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        trained = train(TrainingConfig(3, N_ROWS, rates={**RATES, **rates}))
    assert np.isfinite(trained.losses[-1])


# Epochs


def test_on_epoch_hears_of_every_epoch_and_may_stop():
    heard = []

    def stop_at_third(loss, network):
        heard.append((loss, network))
        return len(heard) == 3

    trained = train(on_epoch=stop_at_third)
    assert len(heard) == 3
    assert tuple(loss for loss, _ in heard) == trained.losses
    np.testing.assert_array_equal(heard[-1][1].centers, trained.network.centers)
    assert not np.array_equal(heard[0][1].centers, trained.network.centers)


def test_on_epoch_sees_the_network_as_it_is_stored():
    seen = []

    def see(_, network):
        seen.append(network.weights)

    train(TrainingConfig(2, 32), levels={"weights": 1}, steps={"weights": 0.1}, on_epoch=see)
    assert all(len(np.unique(weights)) <= 3 for weights in seen)


# Other libraries

ROUNDED = {"levels": {"centers": 31, "weights": 31}, "steps": {"centers": 0.1, "weights": 0.03}}


def assert_alike(device):
    form = {"projected": True, "widths": N_CENTERS}
    ours, theirs = (train(device=place, form=form, **ROUNDED) for place in (NUMPY, device))
    np.testing.assert_allclose(theirs.losses, ours.losses, rtol=1e-2)
    assert type(theirs.network.centers) is type(device.send(np.ones(1)))
    batches = toy()
    X = batches.rows(np.arange(batches.n_rows))
    outputs = [f.network.map(to_numpy).outputs(X) for f in (ours, theirs)]
    np.testing.assert_allclose(*outputs, atol=0.2)


def test_strict_arrays_give_about_the_network_of_numpy():
    assert_alike(Device(array_api_strict))


def test_torch_gives_about_the_network_of_numpy():
    pytest.importorskip("torch")
    assert_alike(find_device("torch"))


@pytest.mark.parametrize("name", ["strict", "torch"])
def test_divergence_is_undone_in_other_libraries(name):
    if name == "torch":
        pytest.importorskip("torch")
    device = Device(array_api_strict) if name == "strict" else find_device("torch")
    with pytest.warns(ConvergenceWarning, match="learning rates are now 1/2"):
        trained = train(TrainingConfig(2, 32, rates=WILD), device)
    assert_finite(trained.network)
