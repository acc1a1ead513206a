"""Losses, gradients and batches of RBF networks.

Gradients are compared with finite differences, values with their formulas by hand.
"""

from dataclasses import replace

import array_api_strict
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import sparse

import naive
from kernlet.compact import batches as batches_module
from kernlet.compact.batches import BatchLoader
from kernlet.compact.inputs import Inputs, mean_and_deviation
from kernlet.compact.network import (
    CrossEntropy,
    Huber,
    KernelNetwork,
    Pinball,
    SquaredError,
    SquaredHingeLoss,
)
from kernlet.devices import NUMPY, Device, to_numpy
from kernlet.kernels import gram as gram_module
from kernlet.model.scoring import weighted_quantile

# -- Losses ----------------------------------------------------------------------------------

LOSSES = [CrossEntropy(0.0), CrossEntropy(0.2), SquaredHingeLoss(), SquaredError(), Huber(0.7)]
LOSSES += [Pinball((0.3,))]  # one quantile for all outputs
every_loss = pytest.mark.parametrize("loss", LOSSES, ids=repr)


def make_outputs(loss, seed, n_outputs, n_rows=5):
    random = np.random.default_rng(seed)
    outputs = 2 * random.normal(size=(n_rows, n_outputs))
    if not hasattr(loss, "target_table"):
        return outputs, random.normal(size=(n_rows, n_outputs))
    table = loss.target_table(max(2, n_outputs))
    return outputs, table[random.integers(len(table), size=n_rows)]


@every_loss
@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 10_000), n_outputs=st.sampled_from([1, 3, 4]))
def test_gradient_of_a_loss_against_finite_differences(loss, seed, n_outputs):
    outputs, targets = make_outputs(loss, seed, n_outputs)
    _, grad = loss.value_and_grad(outputs, targets)
    expected = naive.derivative(lambda f: loss.value_and_grad(f, targets)[0].sum(), outputs)
    np.testing.assert_allclose(grad, expected, rtol=1e-4, atol=2e-5)


@every_loss
@pytest.mark.parametrize("n_outputs", [1, 3])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("size", [1e4, -1e4])
def test_extreme_outputs_stay_finite_and_in_their_precision(loss, n_outputs, dtype, size):
    outputs, targets = (a.astype(dtype) for a in make_outputs(loss, 0, n_outputs))
    outputs[:, 0] = size
    outputs[1:3] = size
    values, grad = loss.value_and_grad(outputs, targets)
    assert values.shape == (5,)
    assert (values.dtype, grad.dtype) == (dtype, dtype)
    assert np.isfinite(values).all()
    assert np.isfinite(grad).all()


@every_loss
@pytest.mark.parametrize("n_outputs", [1, 3])
def test_losses_of_strict_arrays_are_those_of_numpy(loss, n_outputs):
    parts = make_outputs(loss, 1, n_outputs)
    strict = loss.value_and_grad(*(array_api_strict.asarray(a) for a in parts))
    for theirs, ours in zip(strict, loss.value_and_grad(*parts), strict=True):
        np.testing.assert_allclose(np.from_dlpack(theirs), ours, rtol=1e-13, atol=1e-15)


@every_loss
def test_outputs_and_targets_are_left_alone(loss):
    outputs, targets = make_outputs(loss, 2, 3)
    before = outputs.copy(), targets.copy()
    loss.value_and_grad(outputs, targets)
    np.testing.assert_array_equal(outputs, before[0])
    np.testing.assert_array_equal(targets, before[1])


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 10_000), smoothing=st.floats(0, 0.9))
def test_one_output_is_two_with_the_first_at_zero(seed, smoothing):
    loss = CrossEntropy(smoothing)
    outputs, targets = make_outputs(loss, seed, 1)
    both = np.hstack([np.zeros_like(outputs), outputs]), np.hstack([1 - targets, targets])
    one, two = loss.value_and_grad(outputs, targets), loss.value_and_grad(*both)
    np.testing.assert_allclose(one[0], two[0], rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(one[1][:, 0], two[1][:, 1], rtol=1e-12, atol=1e-14)


def test_cross_entropy_by_hand():
    outputs, targets = make_outputs(CrossEntropy(0.2), 3, 4)
    p = np.exp(outputs) / np.exp(outputs).sum(axis=1, keepdims=True)
    values, _ = CrossEntropy(0.2).value_and_grad(outputs, targets)
    np.testing.assert_allclose(values, -np.sum(targets * np.log(p), axis=1))


def test_smoothed_targets_by_hand():
    np.testing.assert_allclose(
        CrossEntropy(0.3).target_table(3), [[0.8, 0.1, 0.1], [0.1, 0.8, 0.1], [0.1, 0.1, 0.8]]
    )
    np.testing.assert_allclose(CrossEntropy(0.2).target_table(2), [[0.1], [0.9]])


def test_targets_of_the_hinge_are_signs():
    np.testing.assert_array_equal(
        SquaredHingeLoss().target_table(3), [[1, -1, -1], [-1, 1, -1], [-1, -1, 1]]
    )
    np.testing.assert_array_equal(SquaredHingeLoss().target_table(2), [[-1], [1]])


def test_squared_hinge_by_hand():
    outputs, targets = np.array([[0.5, -2.0], [3.0, 0.0]]), np.array([[1.0, -1.0], [-1.0, 1.0]])
    values, grad = SquaredHingeLoss().value_and_grad(outputs, targets)
    np.testing.assert_allclose(values, [0.5**2 / 2, (4.0**2 + 1.0) / 2])
    np.testing.assert_allclose(grad, [[-0.5, 0.0], [4.0, -1.0]])


def test_squared_error_by_hand():
    values, grad = SquaredError().value_and_grad(np.array([[1.0, 4.0]]), np.array([[0.0, 2.0]]))
    np.testing.assert_allclose(values, [(1 + 4) / 2])
    np.testing.assert_allclose(grad, [[1.0, 2.0]])


def test_huber_is_the_squared_error_inside_and_a_line_beyond():
    outputs = np.array([[0.5], [2.0], [-10.0]])
    values, grad = Huber(2.0).value_and_grad(outputs, np.zeros((3, 1)))
    np.testing.assert_allclose(values, [0.5**2 / 2, 2.0**2 / 2, 2.0 * (10 - 1)])
    np.testing.assert_allclose(grad, [[0.5], [2.0], [-2.0]])


def test_pinball_weighs_errors_on_both_sides():
    outputs, targets = np.array([[1.0, 5.0], [4.0, 2.0]]), np.array([[3.0, 3.0], [3.0, 3.0]])
    values, grad = Pinball((0.1, 0.7)).value_and_grad(outputs, targets)
    np.testing.assert_allclose(values, [0.1 * 2 + 0.3 * 2, 0.9 * 1 + 0.7 * 1])
    np.testing.assert_allclose(grad, [[-0.1, 0.3], [0.9, -0.7]])


@pytest.mark.parametrize("level", [0.1, 0.5, 0.8])
def test_the_mean_pinball_loss_is_least_at_the_quantile(level):
    y = np.random.default_rng(0).exponential(size=(999, 1))
    candidates = np.sort(y[:, 0])
    losses = [Pinball((level,)).value_and_grad(v + 0 * y, y)[0].mean() for v in candidates]
    best = candidates[np.argmin(losses)]
    assert best == weighted_quantile(y[:, 0], level, np.ones(len(y)))
    assert best == pytest.approx(np.quantile(y, level), abs=0.02)


# -- The network -----------------------------------------------------------------------------

FORMS = {
    "plain": {},
    "widths": {"widths": "many"},
    "projected": {"projected": True},
    "projected widths": {"projected": True, "widths": "many"},
    "rational": {"kernel": "rational"},
    "rational projected widths": {"kernel": "rational", "projected": True, "widths": "many"},
    "feature scales": {"scaled": True},
    "steps": {"n_steps": 4},
    "projected steps": {"n_steps": 4, "projected": True},
    "rational scaled steps": {"kernel": "rational", "n_steps": 4, "scaled": True},
    "missing": {"missing": True},
    "missing widths": {"missing": True, "widths": "many"},
    "missing, rational scaled steps": {
        "missing": True,
        "kernel": "rational",
        "n_steps": 4,
        "scaled": True,
    },
}
every_form = pytest.mark.parametrize("form", FORMS.values(), ids=FORMS.keys())
N_ROWS, N_CENTERS, N_FEATURES = 9, 4, 5


def make_network(
    loss,
    seed,
    n_outputs=3,
    *,
    widths="one",
    projected=False,
    kernel="rbf",
    scaled=False,
    n_steps=0,
    missing=False,
):
    random = np.random.default_rng(seed)
    rank = 3 if projected else N_FEATURES
    arrays = {
        "centers": random.normal(size=(N_CENTERS, rank)),
        "weights": random.normal(size=(n_outputs, N_CENTERS)),
        "intercept": random.normal(size=n_outputs),
    }
    arrays["log_gamma"] = random.uniform(-2, 0, N_CENTERS if widths == "many" else 1)
    if kernel == "rational":
        arrays["log_alpha"] = random.normal(size=1)
    if projected:
        arrays["projection"] = random.normal(size=(rank, N_FEATURES)) / 2
    if scaled:
        arrays["log_feature_scales"] = random.normal(size=N_FEATURES) / 3
    X = random.normal(size=(N_ROWS, N_FEATURES))
    if n_steps:
        arrays["jumps"] = random.normal(size=n_steps)
        arrays["step_matrix"] = np.eye(N_FEATURES)[random.integers(N_FEATURES, size=n_steps)]
        X = np.hstack([X, random.integers(2, size=(N_ROWS, n_steps))])
    if missing:
        is_missing = random.random((N_ROWS, N_FEATURES)) < 0.4
        is_missing[2], is_missing[3] = True, False
        X[:, :N_FEATURES][is_missing] = np.nan
        if n_steps:  # NaN exceeds no threshold
            X[:, N_FEATURES:][is_missing @ arrays["step_matrix"].T > 0] = 0
    targets = random.normal(size=(N_ROWS, n_outputs))
    if hasattr(loss, "target_table"):
        table = loss.target_table(max(2, n_outputs))
        targets = table[random.integers(len(table), size=N_ROWS)]
    network = KernelNetwork(**arrays, skips_missing=missing)
    return network, X, targets, random.uniform(0.1, 2, N_ROWS)


@every_loss
@every_form
@settings(max_examples=4, deadline=None)
@given(seed=st.integers(0, 10_000), n_outputs=st.sampled_from([1, 3]))
def test_gradient_of_every_array_against_finite_differences(loss, form, seed, n_outputs):
    network, *data = make_network(loss, seed, n_outputs, **form)
    _, gradient = network.value_and_grad(loss, *data)
    assert gradient.keys() == network.arrays().keys()
    for name, array in network.arrays().items():
        direction = np.random.default_rng(seed).normal(size=array.shape)
        values = []
        for sign in (1, -1):
            moved = replace(network, **{name: array + sign * 1e-6 * direction})
            values.append(moved.value_and_grad(loss, *data)[0])
        difference = (values[0] - values[1]) / 2e-6
        assert gradient[name].shape == array.shape
        along = np.sum(gradient[name] * direction)
        assert difference == pytest.approx(along, rel=1e-4, abs=1e-5)


@every_form
def test_outputs_are_those_of_the_formula_number_by_number(form):
    network, X, *_ = make_network(SquaredError(), 0, **form)
    steps = {"step_matrix": network.step_matrix} if "n_steps" in form else {}
    skips = network.skips_missing
    expected = naive.network_outputs(X, **network.arrays(), **steps, skips_missing=skips)
    np.testing.assert_allclose(network.outputs(X), expected, rtol=1e-10)


@every_form
def test_a_stack_has_the_values_and_gradients_of_its_networks(form):
    """Networks (2 candidates, 3 folds) on rows (3 folds): as each alone."""
    loss = CrossEntropy()
    made = [[make_network(loss, 10 * i + j, **form) for j in range(3)] for i in range(2)]
    names = [*made[0][0][0].arrays(), *(["step_matrix"] if "n_steps" in form else [])]
    stack = KernelNetwork(
        **{name: np.array([[getattr(m[0], name) for m in row] for row in made]) for name in names},
        skips_missing=form.get("missing", False),
    )
    data = [np.stack([m[part] for m in made[0]]) for part in (1, 2, 3)]
    values, gradient = stack.value_and_grad(loss, *data)
    outputs = stack.outputs(data[0])
    for i, j in np.ndindex(2, 3):
        network, own = made[i][j][0], [array[j] for array in data]
        value, alone = network.value_and_grad(loss, *own)
        np.testing.assert_allclose(outputs[i, j], network.outputs(own[0]), rtol=1e-10)
        assert values[i, j] == pytest.approx(value)
        for name, array in alone.items():
            np.testing.assert_allclose(gradient[name][i, j], array, rtol=1e-9, atol=1e-13)


@pytest.mark.parametrize("form", ["plain", "rational"])
@pytest.mark.parametrize("far", [1e3, 1e6])
def test_rows_far_from_every_center_have_small_values_and_no_gradient(form, far):
    network, X, *rest = make_network(CrossEntropy(), 2, **FORMS[form])
    network = network.map(lambda a: a.astype(np.float32))
    data = [a.astype(np.float32) for a in (far * np.sign(X), *rest)]
    with np.errstate(all="raise", under="ignore"):
        values = network.kernel_values(data[0])
        _, gradient = network.value_and_grad(CrossEntropy(), *data)
    assert np.all((values >= 0) & (values <= 1e-3))
    assert np.abs(gradient["centers"]).max() < 1e-3
    assert all(np.isfinite(array).all() for array in gradient.values())


def test_a_large_alpha_is_the_gaussian():
    network, X, *_ = make_network(SquaredError(), 4, **FORMS["projected widths"])
    rational = replace(network, log_alpha=np.array([np.log(1e6)]))
    np.testing.assert_allclose(rational.outputs(X), network.outputs(X), atol=1e-5)


@every_loss
def test_value_is_the_weighted_mean_of_the_losses(loss):
    network, X, targets, weights = make_network(loss, 1)
    losses, _ = loss.value_and_grad(network.outputs(X), targets)
    value, _ = network.value_and_grad(loss, X, targets, weights)
    assert value == pytest.approx(np.mean(weights * losses))


@every_loss
@every_form
def test_a_weight_of_two_is_the_row_twice(loss, form):
    network, X, targets, _ = make_network(loss, 3, **form)
    weights = np.where(np.arange(N_ROWS) < 4, 2.0, 1.0)
    twice = np.r_[np.arange(N_ROWS), np.arange(4)]
    heavy = network.value_and_grad(loss, X, targets, weights)
    ones = np.full(N_ROWS + 4, (N_ROWS + 4) / N_ROWS)  # of the same weight in all
    doubled = network.value_and_grad(loss, X[twice], targets[twice], ones)
    assert heavy[0] == pytest.approx(doubled[0])
    for name, array in heavy[1].items():
        np.testing.assert_allclose(array, doubled[1][name], rtol=1e-9, atol=1e-13)


@settings(max_examples=10, deadline=None)
@given(seed=st.integers(0, 10_000))
def test_gradient_by_one_width_is_the_sum_of_those_by_equal_widths(seed):
    network, *data = make_network(SquaredError(), seed, projected=True)
    many = replace(network, log_gamma=np.tile(network.log_gamma, N_CENTERS))
    one, each = (m.value_and_grad(SquaredError(), *data)[1]["log_gamma"] for m in (network, many))
    np.testing.assert_allclose(one, [each.sum()], rtol=1e-10, atol=1e-13)


@every_loss
@every_form
def test_gradient_in_float32_stays_float32(loss, form):
    network, *data = make_network(loss, 4, **form)
    short = network.map(lambda a: a.astype(np.float32))
    data = [a.astype(np.float32) for a in data]
    value, gradient = short.value_and_grad(loss, *data)
    assert value.dtype == np.float32
    assert {a.dtype for a in gradient.values()} == {np.dtype(np.float32)}


@every_form
def test_gradient_changes_nothing_that_is_given(form):
    network, *data = make_network(SquaredError(), 5, **form)
    before = [a.copy() for a in [*network.arrays().values(), *data]]
    network.value_and_grad(SquaredError(), *data)
    for array, copy in zip([*network.arrays().values(), *data], before, strict=True):
        np.testing.assert_array_equal(array, copy)


@pytest.mark.slow
@every_loss
@every_form
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_strict_arrays_give_the_value_and_gradient_of_numpy(loss, form, dtype):
    network, *data = make_network(loss, 6, **form)
    network, data = network.map(lambda a: a.astype(dtype)), [a.astype(dtype) for a in data]
    value, gradient = network.value_and_grad(loss, *data)
    strict_value, strict_gradient = network.map(array_api_strict.asarray).value_and_grad(
        loss, *(array_api_strict.asarray(a) for a in data)
    )
    tolerance = {"rtol": 1e-5, "atol": 1e-6} if dtype is np.float32 else {"rtol": 1e-12}
    np.testing.assert_allclose(float(strict_value), value, **tolerance)
    for name, array in strict_gradient.items():
        assert isinstance(array, type(array_api_strict.ones(1)))
        np.testing.assert_allclose(np.from_dlpack(array), gradient[name], **tolerance)


@every_form
def test_torch_gives_the_value_and_gradient_of_numpy(form):
    torch = pytest.importorskip("torch")
    network, *data = make_network(CrossEntropy(), 7, **form)
    value, gradient = network.value_and_grad(CrossEntropy(), *data)
    torch_value, torch_gradient = network.map(torch.asarray).value_and_grad(
        CrossEntropy(), *(torch.asarray(a) for a in data)
    )
    np.testing.assert_allclose(float(torch_value), value, rtol=1e-12)
    for name, array in torch_gradient.items():
        np.testing.assert_allclose(array.numpy(), gradient[name], rtol=1e-10, atol=1e-14)


@every_form
def test_gradient_is_that_of_automatic_differentiation(form):
    torch = pytest.importorskip("torch")
    network, *data = make_network(CrossEntropy(), 8, **form)
    X, targets, weights = (torch.asarray(a) for a in data)
    leaves = network.map(lambda a: torch.asarray(a).requires_grad_())
    losses, _ = CrossEntropy().value_and_grad(leaves.outputs(X), targets)
    (losses * weights).mean().backward()
    _, gradient = network.value_and_grad(CrossEntropy(), *data)
    for name, array in gradient.items():
        expected = getattr(leaves, name).grad.numpy()
        np.testing.assert_allclose(array, expected, rtol=1e-8, atol=1e-12)


# -- Batches ---------------------------------------------------------------------------------

CONTAINERS = [np.asarray, sparse.csr_matrix, sparse.csr_array]
every_container = pytest.mark.parametrize("container", CONTAINERS)
every_device = pytest.mark.parametrize(
    "device", [NUMPY, Device(array_api_strict)], ids=["numpy", "strict"]
)
RNG = np.random.default_rng(7)
X = RNG.normal(loc=1.0, size=(12, 4)) * (RNG.random((12, 4)) < 0.6)
CODES = RNG.integers(3, size=12)
WEIGHTS = RNG.uniform(0.5, 2.0, 12)
TABLE = np.eye(3) - 0.1
BATCH = np.array([5, 0, 11, 5])


def make_batches(rows=X, **changes):
    return BatchLoader(
        rows, CODES, WEIGHTS, **{"table": TABLE, "inputs": Inputs(0.5, 2.0), **changes}
    )


@pytest.fixture(params=["cached", "not cached"])
def caching(request, monkeypatch):
    if request.param == "not cached":
        monkeypatch.setattr(batches_module, "CACHED_BYTES", 0)
    return request.param == "cached"


@every_container
@every_device
@pytest.mark.parametrize("dtype", ["f8", "f4"])
@pytest.mark.parametrize("batch", [BATCH, np.arange(12)], ids=["some", "all"])
def test_rows_are_shifted_scaled_and_float32(caching, container, device, dtype, batch):
    batches = make_batches(container(X.astype(dtype)), device=device)
    assert batches.is_cached == caching
    rows = batches.rows(batch)
    assert rows.dtype == device.namespace.float32
    np.testing.assert_allclose(to_numpy(rows), (X[batch] - 0.5) / 2, rtol=1e-5, atol=1e-6)


@every_container
def test_rows_cached_or_not_are_the_same(container, monkeypatch):
    cached = make_batches(container(X)).rows(BATCH)
    monkeypatch.setattr(batches_module, "CACHED_BYTES", 0)
    np.testing.assert_array_equal(make_batches(container(X)).rows(BATCH), cached)


@every_container
def test_sparse_rows_are_the_dense_ones(caching, container):
    np.testing.assert_array_equal(
        make_batches(container(X)).rows(BATCH), make_batches().rows(BATCH)
    )


@every_device
def test_rows_are_a_copy(caching, device):
    data = X.astype(np.float32)
    batches = make_batches(data, inputs=Inputs(), device=device)
    rows = batches.rows(BATCH)
    rows += 1
    np.testing.assert_array_equal(to_numpy(batches.rows(BATCH)), X.astype(np.float32)[BATCH])
    np.testing.assert_array_equal(data, X.astype(np.float32))


@every_device
def test_class_numbers_become_rows_of_the_table(caching, device):
    targets = make_batches(device=device).targets(BATCH)
    assert targets.dtype == device.namespace.float32
    np.testing.assert_array_equal(to_numpy(targets), TABLE[CODES[BATCH]].astype(np.float32))


@every_device
def test_without_a_table_the_targets_are_as_given(device):
    given_targets = RNG.normal(size=(12, 2))
    batches = BatchLoader(X, given_targets, WEIGHTS, device=device)
    targets = to_numpy(batches.targets(BATCH))
    np.testing.assert_array_equal(targets, given_targets[BATCH].astype(np.float32))


@every_device
def test_weights_and_counts(device):
    batches = make_batches(device=device)
    np.testing.assert_array_equal(to_numpy(batches.weights(BATCH)), WEIGHTS[BATCH].astype("f4"))
    assert (batches.n_rows, batches.n_features) == (12, 4)
    np.testing.assert_array_equal(batches.as_indices(np.arange(12)), np.arange(12))


def test_rows_on_torch_are_those_of_numpy(caching):
    pytest.importorskip("torch")
    from kernlet.devices import find_device

    theirs, ours = make_batches(device=find_device("torch")), make_batches()
    for name in ("rows", "targets", "weights"):
        np.testing.assert_array_equal(
            to_numpy(getattr(theirs, name)(BATCH)), getattr(ours, name)(BATCH)
        )


tables = arrays(
    np.float64,
    st.tuples(st.integers(1, 8), st.integers(1, 5)),
    elements=st.sampled_from([0.0, 0.0, -3.0, 1.5, 7.0]),
)


@every_container
@settings(max_examples=40, deadline=None)
@given(rows=tables, block_bytes=st.sampled_from([1, 2**20]))
def test_mean_and_deviation_are_those_of_numpy(container, rows, block_bytes):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(gram_module, "BLOCK_BYTES", block_bytes)
        mean, deviation = mean_and_deviation(container(rows))
    assert mean == pytest.approx(rows.mean(), abs=1e-12)
    assert deviation == pytest.approx(rows.std() or 1.0, abs=1e-12)


@every_container
@pytest.mark.parametrize("dtype", [np.float32, np.uint8, np.int64])
def test_mean_and_deviation_in_other_types(container, dtype):
    rows = np.random.default_rng(0).integers(0, 255, size=(40, 6)).astype(dtype)
    mean, deviation = mean_and_deviation(container(rows))
    assert mean == pytest.approx(rows.astype(float).mean())
    assert deviation == pytest.approx(rows.astype(float).std(), rel=1e-6)


@every_container
def test_constant_rows_have_a_deviation_of_one(container):
    assert mean_and_deviation(container(np.full((3, 2), 4.0))) == (4.0, 1.0)
    assert mean_and_deviation(container(np.full((7, 3), -3.0))) == pytest.approx((-3.0, 1.0))
    assert mean_and_deviation(sparse.csr_array((3, 2))) == (0.0, 1.0)


@pytest.mark.parametrize("offset", [1e3, -1e6])
def test_deviations_of_sparse_rows_far_from_zero_do_not_cancel(offset):
    rows = offset + np.random.default_rng(0).normal(size=(50, 4))
    assert mean_and_deviation(sparse.csr_array(rows))[1] == pytest.approx(rows.std(), rel=1e-8)
