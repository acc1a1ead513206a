"""Where arrays live: in numpy, or on a device that torch knows."""

from __future__ import annotations

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
