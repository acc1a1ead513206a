"""Where arrays live: in numpy, or on a device that torch knows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import array_api_compat
import array_api_compat.numpy
import numpy as np
from array_api_compat import array_namespace


@dataclass(frozen=True)
class Device:
    """An array library and a place in it.

    Parameters
    ----------
    namespace : module
        It follows the array API standard.
    place : object
        What the library calls the device; None for its usual one.
    """

    namespace: Any
    place: Any = None

    @property
    def is_numpy(self) -> bool:
        """Whether arrays are numpy's."""
        return bool(array_api_compat.is_numpy_namespace(self.namespace))

    def send(self, values: Any, *, floats: bool = True) -> Any:
        """Numbers of numpy as an array there; floats in float32, unless told that they are not."""
        if floats:
            values = np.asarray(values, dtype=np.float32)
        return self.namespace.asarray(values, device=self.place)


NUMPY = Device(array_api_compat.numpy)


def find_device(name: str | None) -> Device:
    """The device of a name.

    Parameters
    ----------
    name : str or None
        None and "cpu" compute with numpy. Anything else goes to torch: "cuda", "cuda:1", "mps", and
        "torch" for torch on the CPU.

    Returns
    -------
    device : Device

    Raises
    ------
    ImportError
        Where torch is needed and not installed.
    ValueError
        Where torch does not see that device.

    Examples
    --------
    >>> from kernlet.devices import find_device
    >>> find_device("cpu").is_numpy
    True
    """
    if name is None or name == "cpu":
        return NUMPY
    try:
        import array_api_compat.torch as namespace
        import torch
    except ImportError as error:
        raise ImportError(
            f"device={name!r} needs torch, which is not installed: pip install 'kernlet[torch]'. "
            'Or leave device at "cpu", which computes with numpy.'
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
    """Where an array lives."""
    return Device(array_namespace(array), array_api_compat.device(array))


def to_numpy(array: Any) -> Any:
    """An array of any library as numpy's, in memory of the CPU."""
    if isinstance(array, np.ndarray):
        return array
    if array_api_compat.is_torch_array(array):
        return array.detach().cpu().numpy()
    return np.from_dlpack(array)


def is_foreign(array: Any) -> bool:
    """Whether an array belongs to another library than numpy and follows the standard."""
    if array_api_compat.is_numpy_array(array):
        return False
    return bool(array_api_compat.is_array_api_obj(array))


def require_finite(array: Any) -> None:
    """Refuse NaN and infinity in an array of any library."""
    xp = array_namespace(array)
    if not bool(xp.all(xp.isfinite(array))):
        raise ValueError("Input X contains NaN or infinity; impute or remove these values first.")


Function = Callable[..., Sequence[Any]]


def capture_cuda_graph(function: Function, device: Device) -> Function:
    """A function of arrays, recorded at its first call where the device can do that.

    On a CUDA device a call of many small operations takes as long as launching them; a recording
    is launched at once. Elsewhere this is the function itself.

    Parameters
    ----------
    function : callable
        Of arrays on the device, to a sequence of arrays. It must do the same operations whatever
        the numbers are, never wait for an answer, and touch no other arrays that change. It may
        write over what it is given.
    device : Device

    Returns
    -------
    function : callable
        What it returns may be overwritten by the next call.
    """
    is_cuda = getattr(device.place, "type", None) == "cuda"
    return _Recorder(function) if is_cuda else function


class _Recorder:
    """One recording for each set of shapes."""

    def __init__(self, function: Function) -> None:
        self.function = function
        self.recordings: dict[tuple[Any, ...], _Recording] = {}

    def __call__(self, *arrays: Any) -> Sequence[Any]:
        shapes = tuple(tuple(array.shape) for array in arrays)
        if shapes not in self.recordings:
            self.recordings[shapes] = _Recording(self.function, arrays)
        return self.recordings[shapes](*arrays)


class _Recording:
    """A CUDA graph with memory of its own for what goes in and out."""

    def __init__(self, function: Function, arrays: Sequence[Any]) -> None:
        import torch

        self.inputs = [array.clone() for array in arrays]
        aside = torch.cuda.Stream()
        aside.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(aside):  # libraries set themselves up outside the recording
            for _ in range(3):
                function(*(array.clone() for array in arrays))
        torch.cuda.current_stream().wait_stream(aside)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.outputs = function(*self.inputs)

    def __call__(self, *arrays: Any) -> Sequence[Any]:
        for mine, given in zip(self.inputs, arrays, strict=True):
            mine.copy_(given)
        self.graph.replay()
        return self.outputs
