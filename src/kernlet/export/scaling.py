"""Scalers of scikit-learn as one affine map."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from sklearn.preprocessing import (
    FunctionTransformer,
    MaxAbsScaler,
    MinMaxScaler,
    RobustScaler,
    StandardScaler,
)

from kernlet.affine import AffineMap
from kernlet.kernels.kernel import Floats


def fold_steps(steps: Iterable[tuple[str, Any]]) -> AffineMap | None:
    """One map in place of fitted transformers.

    Parameters
    ----------
    steps : iterable of (str, transformer)
        StandardScaler, MinMaxScaler, MaxAbsScaler, RobustScaler, an empty FunctionTransformer or
        an :class:`~kernlet.export.scaling.AffineStep`, in the order in which they are applied.

    Returns
    -------
    scaler : AffineMap or None
        Without a matrix; None where there is nothing to do.

    Raises
    ------
    ValueError
        For a step that is no shift and scale of each feature.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.preprocessing import StandardScaler
    >>> from kernlet.export.scaling import fold_steps
    >>> X = np.array([[1.0, 10.0], [3.0, 30.0]])
    >>> fold_steps([("scale", StandardScaler().fit(X))])(X)
    array([[-1., -1.],
           [ 1.,  1.]])
    """
    whole: AffineMap | None = None
    for name, step in steps:
        part = _as_map(name, step)
        if part is not None:
            whole = part if whole is None else compose(whole, part)
    return whole


def compose(first: AffineMap, second: AffineMap) -> AffineMap:
    """The map that does one and then the other, where the first has no matrix.

    ((x - s1) a1 - s2) a2 = (x - (s1 + s2 / a1)) a1 a2.
    """
    shift = first.shift + second.shift.astype(float) / first.scale
    return AffineMap(shift, first.scale * second.scale.astype(float), second.matrix)


class AffineStep:
    """An affine map as a transformer.

    Parameters
    ----------
    map : AffineMap
    """

    def __init__(self, map: AffineMap) -> None:
        self.map = map

    def transform(self, X: Any) -> Floats:
        """Map the rows of X."""
        return self.map(np.asarray(X) if not hasattr(X, "dtype") else X)


def _as_map(name: str, step: Any) -> AffineMap | None:
    if step is None or step == "passthrough":
        return None
    if isinstance(step, AffineStep):
        return step.map
    if isinstance(step, FunctionTransformer) and step.func is None:
        return None
    for kind, parts in _SCALERS:
        if isinstance(step, kind):
            if getattr(step, "clip", False):
                raise ValueError(
                    f"The step {name!r} is a {type(step).__name__}(clip=True), and cut-off values "
                    "are no affine map: fit it with clip=False."
                )
            return parts(step)
    raise ValueError(
        f"The step {name!r} ({type(step).__name__}) cannot travel with the machine: only shifts "
        "and scales can, as of StandardScaler, MinMaxScaler, MaxAbsScaler and RobustScaler. "
        "Apply it to the data beforehand and give the machine behind it."
    )


def _standard(step: Any) -> AffineMap:
    mean = step.mean_ if step.with_mean else 0.0
    return _scaler(mean, 1 / step.scale_ if step.with_std else 1.0)


def _minmax(step: Any) -> AffineMap:
    return _scaler(-step.min_ / step.scale_, step.scale_)


def _robust(step: Any) -> AffineMap:
    center = step.center_ if step.with_centering else 0.0
    return _scaler(center, 1 / step.scale_ if step.with_scaling else 1.0)


def _maxabs(step: Any) -> AffineMap:
    return _scaler(0.0, 1 / step.scale_)


def _scaler(shift: Any, scale: Any) -> AffineMap:
    return AffineMap(*(np.atleast_1d(np.asarray(v, dtype=float)) for v in (shift, scale)))


_SCALERS: tuple[tuple[Any, Any], ...] = (
    (StandardScaler, _standard),
    (MinMaxScaler, _minmax),
    (RobustScaler, _robust),
    (MaxAbsScaler, _maxabs),
)


def scaler_bytes(scaler: AffineMap | None) -> int:
    """Bytes of a shift and a scale in float32."""
    return 0 if scaler is None else 4 * (len(scaler.shift) + len(scaler.scale))
