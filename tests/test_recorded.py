import array_api_strict
import numpy as np
import pytest

from kernlet.devices import NUMPY, Device, capture_cuda_graph, find_device


def double(x, y):
    return x + x, x * y


@pytest.mark.parametrize("device", [NUMPY, Device(array_api_strict)], ids=["numpy", "strict"])
def test_nothing_is_recorded_where_nothing_can_be(device):
    assert capture_cuda_graph(double, device) is double


def test_torch_on_the_processor_records_nothing():
    pytest.importorskip("torch")
    device = find_device("torch")
    function = capture_cuda_graph(double, device)
    assert function is double
    x, y = (device.send(np.full(3, value)) for value in (2.0, 5.0))
    for array, expected in zip(function(x, y), (4.0, 10.0), strict=True):
        np.testing.assert_array_equal(array.numpy(), np.full(3, expected))


def test_a_recording_gives_what_the_function_gives_for_all_shapes():
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
