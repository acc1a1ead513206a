import sys

import array_api_strict
import numpy as np
import pytest
from scipy import sparse

from kernlet.devices import (
    NUMPY,
    Device,
    capture_cuda_graph,
    device_of,
    find_device,
    is_foreign,
    to_numpy,
)

STRICT = Device(array_api_strict)


@pytest.mark.parametrize("name", [None, "cpu"])
def test_the_cpu_is_numpy(name):
    assert find_device(name) is NUMPY
    assert NUMPY.is_numpy
    assert not STRICT.is_numpy


@pytest.mark.parametrize("name", ["cuda", "torch", "mps"])
def test_without_torch_the_error_says_what_to_install(name, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(ImportError, match=rf"device='{name}' needs torch.*kernlet\[torch\]"):
        find_device(name)


@pytest.mark.parametrize("device", [NUMPY, STRICT], ids=["numpy", "strict"])
def test_floats_are_sent_in_float32_and_come_back(device):
    values = np.random.default_rng(0).normal(size=(3, 2))
    sent = device.send(values)
    assert sent.dtype == device.namespace.float32
    back = to_numpy(sent)
    assert isinstance(back, np.ndarray)
    np.testing.assert_array_equal(back, values.astype(np.float32))


@pytest.mark.parametrize("device", [NUMPY, STRICT], ids=["numpy", "strict"])
def test_whole_numbers_stay_whole(device):
    sent = device.send(np.array([3, 1]), floats=False)
    assert sent.dtype == device.namespace.int64
    assert to_numpy(sent).tolist() == [3, 1]


def test_arrays_know_their_device():
    assert device_of(np.ones(2)).is_numpy
    assert device_of(array_api_strict.ones(2)).namespace is array_api_strict


def test_foreign_arrays_are_those_of_other_libraries():
    assert is_foreign(array_api_strict.ones(2))
    for ours in (np.ones(2), np.float64(1.0), [1.0], sparse.csr_array(np.eye(2)), None, "rows"):
        assert not is_foreign(ours)


def test_torch_on_the_cpu():
    torch = pytest.importorskip("torch")
    device = find_device("torch")
    sent = device.send(np.array([[0.5, 2.0]]))
    assert isinstance(sent, torch.Tensor)
    assert sent.dtype == torch.float32
    assert is_foreign(sent)
    np.testing.assert_array_equal(to_numpy(sent.requires_grad_()), [[0.5, 2.0]])


@pytest.mark.parametrize("name", ["cuda:99", "nowhere"])
def test_devices_that_torch_does_not_see_are_refused(name):
    pytest.importorskip("torch")
    with pytest.raises(ValueError, match=f"torch cannot use the device '{name}' here"):
        find_device(name)


def double(x, y):
    return x + x, x * y


@pytest.mark.parametrize("device", [NUMPY, Device(array_api_strict)], ids=["numpy", "strict"])
def test_nothing_is_captured_where_nothing_can_be(device):
    assert capture_cuda_graph(double, device) is double


def test_torch_on_the_cpu_captures_nothing():
    pytest.importorskip("torch")
    device = find_device("torch")
    function = capture_cuda_graph(double, device)
    assert function is double
    x, y = (device.send(np.full(3, value)) for value in (2.0, 5.0))
    for array, expected in zip(function(x, y), (4.0, 10.0), strict=True):
        np.testing.assert_array_equal(array.numpy(), np.full(3, expected))


def test_a_graph_gives_what_the_function_gives_for_all_shapes():
    torch = pytest.importorskip("torch")
    if not torch.cuda.is_available():
        pytest.skip("no CUDA device")
    device = find_device("cuda")
    function = capture_cuda_graph(double, device)
    assert function is not double
    for value, n in ((2.0, 3), (7.0, 3), (1.0, 5), (4.0, 3)):
        x, y = (device.send(np.full(n, number)) for number in (value, 5.0))
        for array, expected in zip(function(x, y), (2 * value, 5 * value), strict=True):
            np.testing.assert_array_equal(array.cpu().numpy(), np.full(n, expected))
