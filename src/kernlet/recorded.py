"""Functions of arrays that a GPU repeats without being told every operation again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from kernlet.devices import Device

Function = Callable[..., Sequence[Any]]


def recorded(function: Function, device: Device) -> Function:
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
