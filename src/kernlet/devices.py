"""Array namespaces: NumPy, or torch on one of its devices; and CUDA graphs."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from kernlet.extras import missing

# array_api_compat is imported where an array of another library is met: prediction with NumPy
# needs neither its milliseconds nor its presence.


@dataclass(frozen=True)
class Device:
    """A namespace of the array API standard, and the library's device (None for its default)."""

    namespace: Any
    place: Any = None

    @property
    def is_numpy(self) -> bool:
        """Whether arrays are NumPy's."""
        import array_api_compat

        return bool(array_api_compat.is_numpy_namespace(self.namespace))

    def send(self, values: Any, *, floats: bool = True) -> Any:
        """A NumPy array on this device; floats in float32, other dtypes with ``floats=False``."""
        if floats:
            values = np.asarray(values, dtype=np.float32)
        return self.namespace.asarray(values, device=self.place)


# NumPy 2 follows the standard by itself. The wrappers of array_api_compat take microseconds per
# call, and their clip fifty: longer than the arithmetic of a small network.
NUMPY = Device(np)


def array_namespace(array: Any) -> Any:
    """The namespace of an array: NumPy itself for its own."""
    if isinstance(array, np.ndarray):
        return np
    import array_api_compat

    return array_api_compat.array_namespace(array)


def find_device(name: str | None) -> Device:
    """The device of a name.

    None and "cpu" compute with NumPy. Anything else goes to torch: "cuda", "cuda:1", "mps", and
    "torch" for torch on the CPU.
    """
    if name is None or name == "cpu":
        return NUMPY
    try:
        import array_api_compat.torch as namespace
        import torch
    except ImportError as error:
        sentence = missing(f"device={name!r}", "torch", "torch")
        raise ImportError(
            f'{sentence} Or leave device at "cpu", which computes with numpy.'
        ) from error
    try:
        place = torch.device("cpu" if name == "torch" else name)
        torch.empty(1, device=place)
    except (RuntimeError, AssertionError) as error:
        raise ValueError(
            f"torch cannot use the device {name!r} here: {str(error).splitlines()[0]} "
            'Leave device at "cpu", or check the driver and the build of torch.'
        ) from error
    return Device(namespace, place)


def device_of(array: Any) -> Device:
    """The device of an array."""
    import array_api_compat

    return Device(array_namespace(array), array_api_compat.device(array))


def to_numpy(array: Any) -> Any:
    """An array of any library as a NumPy array."""
    if isinstance(array, np.ndarray):
        return array
    import array_api_compat

    if array_api_compat.is_torch_array(array):
        return array.detach().cpu().numpy()
    return np.from_dlpack(array)


def is_foreign(array: Any) -> bool:
    """Whether an array follows the array API standard and is not NumPy's."""
    if isinstance(array, np.ndarray | np.generic) or is_sparse(array):
        return False
    import array_api_compat

    return bool(array_api_compat.is_array_api_obj(array))


def is_sparse(array: Any) -> bool:
    """Whether an array is a scipy.sparse matrix, without importing SciPy."""
    sparse = sys.modules.get("scipy.sparse")  # where nobody has imported it, there is no such array
    return sparse is not None and bool(sparse.issparse(array))


def require_finite(array: Any, *, allow_missing: bool = False) -> None:
    """Refuse infinity and, unless it is allowed, NaN in an array of any library."""
    xp = array_namespace(array)
    is_valid = xp.isfinite(array)
    if not bool(xp.all(is_valid | xp.isnan(array) if allow_missing else is_valid)):
        raise ValueError("Input X contains NaN or infinity; impute or remove these values first.")


Function = Callable[..., Sequence[Any]]


def capture_cuda_graph(function: Function, device: Device) -> Function:
    """The function captured as a CUDA graph at its first call, on a CUDA device; else itself.

    It maps arrays on the device to a sequence of arrays, does the same operations whatever the
    numbers are, never synchronises, and depends on no other arrays that change. It may overwrite
    its arguments; the next call may overwrite its results.
    """
    # Training a small network is hundreds of small operations per step, each of which takes a GPU
    # less time than the CPU needs to launch it. A graph launches all of them at once.
    is_cuda = getattr(device.place, "type", None) == "cuda"
    return _GraphCache(function) if is_cuda else function


class _GraphCache:
    """One graph per combination of shapes."""

    def __init__(self, function: Function) -> None:
        self.function = function
        self.graphs: dict[tuple[Any, ...], _Graph] = {}

    def __call__(self, *arrays: Any) -> Sequence[Any]:
        shapes = tuple(tuple(array.shape) for array in arrays)
        if shapes not in self.graphs:
            self.graphs[shapes] = _Graph(self.function, arrays)
        return self.graphs[shapes](*arrays)


class _Graph:
    """A CUDA graph with static buffers for inputs and outputs."""

    def __init__(self, function: Function, arrays: Sequence[Any]) -> None:
        import torch

        self.inputs = [array.clone() for array in arrays]
        # torch asks for some calls on a side stream first: cuBLAS and the allocator initialise
        # themselves lazily, which a graph cannot capture.
        warmup = torch.cuda.Stream()
        warmup.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(warmup):
            for _ in range(3):
                function(*(array.clone() for array in arrays))
        torch.cuda.current_stream().wait_stream(warmup)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.outputs = function(*self.inputs)

    def __call__(self, *arrays: Any) -> Sequence[Any]:
        for buffer, array in zip(self.inputs, arrays, strict=True):
            buffer.copy_(array)
        self.graph.replay()
        return self.outputs
