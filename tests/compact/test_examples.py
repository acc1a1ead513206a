import array_api_strict
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import sparse

from kernlet.compact import network as examples_module
from kernlet.compact.network import Examples, mean_and_deviation
from kernlet.devices import NUMPY, Device, to_numpy
from kernlet.kernels import gram as gram_module

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


def make(rows=X, **changes):
    return Examples(rows, CODES, WEIGHTS, **{"table": TABLE, "shift": 0.5, "scale": 2.0, **changes})


@pytest.fixture(params=["held", "not held"])
def holding(request, monkeypatch):
    if request.param == "not held":
        monkeypatch.setattr(examples_module, "HELD_BYTES", 0)
    return request.param == "held"


@every_container
@every_device
@pytest.mark.parametrize("dtype", ["f8", "f4"])
@pytest.mark.parametrize("batch", [BATCH, np.arange(12)], ids=["some", "all"])
def test_rows_are_shifted_scaled_and_float32(holding, container, device, dtype, batch):
    examples = make(container(X.astype(dtype)), device=device)
    assert (examples._held is not None) == holding
    rows = examples.rows(batch)
    assert rows.dtype == device.namespace.float32
    np.testing.assert_allclose(to_numpy(rows), (X[batch] - 0.5) / 2, rtol=1e-5, atol=1e-6)


@every_container
def test_rows_held_or_not_are_the_same(container, monkeypatch):
    held = make(container(X)).rows(BATCH)
    monkeypatch.setattr(examples_module, "HELD_BYTES", 0)
    np.testing.assert_array_equal(make(container(X)).rows(BATCH), held)


@every_container
def test_sparse_rows_are_the_dense_ones(holding, container):
    np.testing.assert_array_equal(make(container(X)).rows(BATCH), make().rows(BATCH))


@every_device
def test_rows_are_a_copy(holding, device):
    data = X.astype(np.float32)
    examples = make(data, shift=0.0, scale=1.0, device=device)
    rows = examples.rows(BATCH)
    rows += 1
    np.testing.assert_array_equal(to_numpy(examples.rows(BATCH)), X.astype(np.float32)[BATCH])
    np.testing.assert_array_equal(data, X.astype(np.float32))


@every_device
def test_class_numbers_become_rows_of_the_table(holding, device):
    targets = make(device=device).targets(BATCH)
    assert targets.dtype == device.namespace.float32
    np.testing.assert_array_equal(to_numpy(targets), TABLE[CODES[BATCH]].astype(np.float32))


@every_device
def test_without_a_table_the_targets_are_as_given(device):
    given_targets = RNG.normal(size=(12, 2))
    examples = Examples(X, given_targets, WEIGHTS, device=device)
    targets = to_numpy(examples.targets(BATCH))
    np.testing.assert_array_equal(targets, given_targets[BATCH].astype(np.float32))


@every_device
def test_weights_and_counts(device):
    examples = make(device=device)
    np.testing.assert_array_equal(to_numpy(examples.weights(BATCH)), WEIGHTS[BATCH].astype("f4"))
    assert (examples.n_rows, examples.n_features) == (12, 4)
    np.testing.assert_array_equal(examples.as_indices(np.arange(12)), np.arange(12))


def test_rows_on_torch_are_those_of_numpy(holding):
    pytest.importorskip("torch")
    from kernlet.devices import find_device

    theirs, ours = make(device=find_device("torch")), make()
    for part in ("rows", "targets", "weights"):
        np.testing.assert_array_equal(
            to_numpy(getattr(theirs, part)(BATCH)), getattr(ours, part)(BATCH)
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


def test_constant_rows_have_a_deviation_of_one():
    assert mean_and_deviation(np.full((3, 2), 4.0)) == (4.0, 1.0)
    assert mean_and_deviation(sparse.csr_array((3, 2))) == (0.0, 1.0)
