"""The expansion in a model file: its numbers as tensors, the rest of it as JSON values."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from kernlet._typing import Floats
from kernlet.affine import AffineMap, CurvedMap, StepMap
from kernlet.devices import is_sparse
from kernlet.expansion import KernelExpansion
from kernlet.export.schema import ModelFileError, corrupt
from kernlet.kernels.base import Kernel
from kernlet.quantization import (
    FORMATS,
    PackedArray,
    PackedSteps,
    QuantizedExpansion,
    SparsePackedArray,
    index_bits,
)

#: The types of tensors.
DTYPES = {
    "F64": np.float64,
    "F32": np.float32,
    "F16": np.float16,
    "I64": np.int64,
    "U8": np.uint8,
    "U16": np.uint16,
}

_LARGEST_LOG_GAMMA = 87.0  # whose exponential float32 holds


# -- Writing ---------------------------------------------------------------------------------------


def describe_expansion(expansion: Any, tensors: dict[str, Any]) -> dict[str, Any]:
    """The JSON values of an expansion; its arrays are added to the tensors."""
    tensors["intercept"] = expansion.intercept
    if isinstance(expansion, QuantizedExpansion):
        return _describe_packed(expansion, tensors)
    tensors["coef"] = _floats(expansion.coef)
    kernel = expansion.kernel.to_dict()
    for name in [name for name, value in kernel.items() if isinstance(value, np.ndarray)]:
        tensors[f"kernel.{name}"] = kernel.pop(name)
    front = describe_map("front", expansion.input_map, tensors)
    machine = {"kernel": kernel, "front": front}
    if expansion.skips_missing:
        machine["skips_missing"] = True
    if isinstance(expansion.input_map, CurvedMap):
        machine["curve"] = _describe_curve(expansion.input_map, tensors)
    centers = expansion.centers
    if not is_sparse(centers):
        tensors["centers"] = _floats(centers)
        return machine
    tensors["centers.data"] = _floats(centers.data)
    tensors["centers.indices"] = centers.indices.astype(np.int64)
    tensors["centers.indptr"] = centers.indptr.astype(np.int64)
    return machine | {"n_features": int(centers.shape[1])}


def _describe_packed(expansion: QuantizedExpansion, tensors: dict[str, Any]) -> dict[str, Any]:
    if "log_gamma" not in expansion.packed:
        tensors["gamma"] = expansion.gamma
    packed: dict[str, Any] = {
        n: array for n, array in expansion.packed.items() if array is not None
    }
    machine: dict[str, Any] = {
        "alpha": expansion.alpha,
        "is_asinh": bool(expansion.is_asinh),
        "block": int(expansion.block),
        "n_outputs": None,
    }
    if expansion.skips_missing:
        machine["skips_missing"] = True
    if expansion.fill is not None:
        packed["fill"] = expansion.fill
    for name, value in (("shift", expansion.shift), ("scale", expansion.scale)):
        (packed if isinstance(value, PackedArray) else machine)[name] = value
    if isinstance(packed["coef"], SparsePackedArray):
        tensors["coef.outputs"] = packed["coef"].data
        machine["n_outputs"] = packed["coef"].n_outputs
        packed["coef"] = packed["coef"].values
    if expansion.steps is not None:
        packed["jumps"] = expansion.steps.jumps
        tensors["steps.features"] = expansion.steps.features
        tensors["steps.thresholds"] = expansion.steps.thresholds
    for name, array in packed.items():
        tensors[name] = array.data
    return machine | {"tables": {name: _describe_table(array) for name, array in packed.items()}}


def _describe_table(array: PackedArray) -> dict[str, Any]:
    shape, step = list(array.shape), float(array.step)
    return {"format": array.format.name, "shape": shape, "step": step}


def describe_map(name: str, map: AffineMap | None, tensors: dict[str, Any]) -> bool:
    """Whether there is a map; its arrays are tensors under this name."""
    if map is None:
        return False
    tensors[f"{name}.shift"], tensors[f"{name}.scale"] = map.shift, map.scale
    if map.matrix is not None:
        tensors[f"{name}.matrix"] = map.matrix
    if map.fill is not None:
        tensors[f"{name}.fill"] = map.fill
    return True


def _describe_curve(map: CurvedMap, tensors: dict[str, Any]) -> dict[str, bool]:
    if map.steps is not None:
        tensors["steps.features"] = np.asarray(map.steps.features, dtype=np.int64)
        tensors["steps.thresholds"] = np.asarray(map.steps.thresholds)
        tensors["steps.jumps"] = np.asarray(map.steps.jumps)
    return {"is_asinh": bool(map.is_asinh), "has_steps": map.steps is not None}


def _floats(values: Any) -> Any:
    """Numbers in float32 or float64."""
    return values if values.dtype in (np.float32, np.float64) else values.astype(np.float64)


# -- Reading ---------------------------------------------------------------------------------------


class Tensors:
    """Tensors by name, each read with the dtype and number of dimensions that are expected."""

    def __init__(self, opened: Any, max_bytes: int, is_dense: bool = False) -> None:
        self.opened, self.max_bytes, self.is_dense = opened, max_bytes, is_dense
        self.metadata: dict[str, str] = opened.metadata() or {}
        self.names = set(opened.keys())
        self.used: dict[str, Any] = {}

    def read(self, name: str, *dtypes: Any, n_dimensions: int | None = None) -> Any:
        """A tensor of one of the dtypes."""
        if name not in self.names:
            raise corrupt(f"the tensor {name!r} is missing")
        header = self.opened.get_slice(name)  # the shape is known before the data are read
        dtype, shape = DTYPES.get(header.get_dtype()), header.get_shape()
        if dtype not in dtypes or (n_dimensions is not None and len(shape) != n_dimensions):
            raise corrupt(
                f"the tensor {name!r} has type {header.get_dtype()} and {len(shape)} dimensions"
            )
        self.used[name] = self.opened.get_tensor(name)
        return self.used[name]

    def floats(self, name: str, n_dimensions: int) -> Floats:
        """Finite numbers in floating point."""
        types = (np.float16, np.float32, np.float64)
        values = self.read(name, *types, n_dimensions=n_dimensions)
        if not np.isfinite(values).all():
            raise corrupt(f"the tensor {name!r} holds NaN or infinity")
        return values

    def affine_map(self, name: str) -> AffineMap:
        """Shift, scale and possibly a matrix."""
        matrix = self.floats(f"{name}.matrix", 2) if f"{name}.matrix" in self.names else None
        fill = self.floats(f"{name}.fill", 1) if f"{name}.fill" in self.names else None
        shift, scale = (self.floats(f"{name}.{part}", 1) for part in ("shift", "scale"))
        return AffineMap(shift, scale, matrix, fill=fill)

    def require_room(self, n_bytes: int, what: str) -> None:
        """Refuse what a small file would make large in memory."""
        if n_bytes > self.max_bytes:
            raise ModelFileError(
                f"has {what} of {n_bytes} bytes when it is unpacked; give load a larger max_bytes "
                f"than {self.max_bytes} to read it."
            )


def read_expansion(fields: dict[str, Any], tensors: Tensors) -> KernelExpansion:
    """The expansion that :func:`describe_expansion` described, everything checked."""
    expansion = (_quantized if "tables" in fields else _plain)(fields, tensors)
    arrays = [value for value in expansion.kernel.to_dict().values() if np.ndim(value)]
    if any(np.shape(value) != expansion.centers.shape[: np.ndim(value)] for value in arrays):
        raise ModelFileError("has another number of kernel widths than of centers.")
    return expansion


def _plain(fields: dict[str, Any], tensors: Tensors) -> KernelExpansion:
    centers = _centers(fields["n_features"], tensors)
    kernel = _kernel(fields["kernel"], tensors)
    input_map = tensors.affine_map("front") if fields["front"] else None
    if fields["curve"] is not None:
        input_map = _curved(input_map, fields["curve"], centers.shape[1], tensors)
    coef, intercept = tensors.floats("coef", 2), tensors.floats("intercept", 1)
    skips = bool(fields["skips_missing"])
    return KernelExpansion(kernel, centers, coef, intercept, input_map, skips)


def _curved(map: AffineMap | None, curve: dict[str, Any], rank: int, tensors: Tensors) -> CurvedMap:
    if map is None:
        raise corrupt("it has a curve and no map")
    steps = None
    if curve["has_steps"]:
        features = tensors.read("steps.features", np.int64, n_dimensions=1)
        thresholds, jumps = (tensors.floats(f"steps.{n}", 1) for n in ("thresholds", "jumps"))
        width = rank if map.matrix is None else map.matrix.shape[1]
        _require_steps(features, len(thresholds), len(jumps), width)
        steps = StepMap(features.astype(np.intp), thresholds, jumps)
    shape = (map.matrix, curve["is_asinh"], steps)
    return CurvedMap(map.shift, map.scale, *shape, fill=map.fill)


def _kernel(values: dict[str, Any], tensors: Tensors) -> Kernel:
    """The kernel, its parameters per center from tensors."""
    if values.get("name") == "rbf of several widths":  # written by kernlet before 0.1
        values = {"name": "rbf", "gamma": tensors.floats("gamma", 1)}
    arrays = [name for name in sorted(tensors.names) if name.startswith("kernel.")]
    parameters = {
        name.removeprefix("kernel."): tensors.floats(name, 2 if name == "kernel.weights" else 1)
        for name in arrays
    }
    try:
        return Kernel.from_dict(values | parameters)
    except ValueError as error:
        raise corrupt(str(error).rstrip(".")) from None


def _centers(n_features: int | None, tensors: Tensors) -> Any:
    if n_features is None:
        return tensors.floats("centers", 2)
    data = tensors.floats("centers.data", 1)
    names = ("centers.indices", "centers.indptr")
    indices, indptr = (tensors.read(name, np.int64, n_dimensions=1) for name in names)
    if not len(indptr) or indptr[0] != 0 or indptr[-1] != len(data) or (np.diff(indptr) < 0).any():
        raise corrupt("the row pointers of its sparse centers are not in order")
    if len(indices) != len(data) or (indices < 0).any() or (indices >= n_features).any():
        raise corrupt("its sparse centers have column numbers that are out of range")
    n_centers = len(indptr) - 1
    if tensors.is_dense:
        tensors.require_room(8 * n_centers * n_features, "sparse centers")
        dense = np.zeros((n_centers, n_features), data.dtype)
        np.add.at(dense, (np.repeat(np.arange(n_centers), np.diff(indptr)), indices), data)
        return dense
    from scipy import sparse

    return sparse.csr_array((data, indices, indptr), shape=(n_centers, n_features))


def _quantized(fields: dict[str, Any], tensors: Tensors) -> QuantizedExpansion:
    tables = {name: table for name, table in fields["tables"].items() if table is not None}
    packed: dict[str, Any] = {name: _packed(name, table, tensors) for name, table in tables.items()}
    if not all(np.isfinite(array.decoded()).all() for array in packed.values()):
        raise corrupt("its packed arrays hold NaN or infinity")
    if "scale" in packed and not (packed["scale"].decoded() > 0).all():
        raise corrupt("its scales are not positive")
    if fields["n_outputs"] is not None:
        packed["coef"] = _sparse_coef(packed["coef"], fields["n_outputs"], tensors)
    gamma = packed.pop("log_gamma", None)
    if gamma is not None and (np.abs(gamma.decoded()) > _LARGEST_LOG_GAMMA).any():
        raise corrupt("the logarithms of its widths are too large")
    if gamma is None:
        gamma = tensors.floats("gamma", 1)
    block, n_inputs = fields["block"] or 1, packed.get("projection", packed["centers"]).shape[1]
    if block > 1:
        tensors.require_room(8 * (n_inputs * block) ** 2, "means of blocks")
    jumps, steps = packed.pop("jumps", None), None
    if jumps is not None:
        steps = _steps(jumps, n_inputs, tensors)
    return QuantizedExpansion(
        gamma,
        intercept=tensors.floats("intercept", 1),
        alpha=fields["alpha"],
        steps=steps,
        is_asinh=bool(fields["is_asinh"]),
        block=block,
        skips_missing=bool(fields["skips_missing"]),
        **{name: fields[name] for name in ("shift", "scale") if name in fields},
        **packed,
    )


def _packed(name: str, table: dict[str, Any], tensors: Tensors) -> PackedArray:
    format_name, shape, step = table.values()
    format = FORMATS[format_name]
    tensors.require_room(4 * math.prod(shape), f"a packed array {name!r}")
    is_packed = format.n_levels is not None
    data = tensors.read(name, np.uint8 if is_packed else np.dtype(format.name).type)
    n_bytes = format.n_bytes(math.prod(shape))
    if PackedArray(format, shape, data).nbytes != n_bytes or not (is_packed or data.shape == shape):
        raise corrupt(f"the packed array {name!r} has another size than its metadata say")
    return PackedArray(format, shape, data, step)


def _sparse_coef(values: PackedArray, n_outputs: int, tensors: Tensors) -> SparsePackedArray:
    data = tensors.read("coef.outputs", np.uint8, n_dimensions=1)
    count = math.prod(values.shape)
    tensors.require_room(4 * n_outputs * values.shape[0], "coefficients")
    if len(data) != -(-count * index_bits(n_outputs) // 8):
        raise corrupt("the outputs of its coefficients have another size than its metadata say")
    coef = SparsePackedArray(values, data, n_outputs)
    outputs = np.sort(coef.outputs(), axis=1)
    if (outputs >= n_outputs).any() or (np.diff(outputs, axis=1) == 0).any():
        raise corrupt("its coefficients belong to an output that it does not have, or twice to one")
    return coef


def _steps(jumps: PackedArray, n_features: int, tensors: Tensors) -> PackedSteps:
    features = tensors.read("steps.features", np.uint8, np.uint16, n_dimensions=1)
    thresholds = tensors.floats("steps.thresholds", 1)
    _require_steps(features, len(thresholds), jumps.shape[0], n_features)
    return PackedSteps(features, thresholds, jumps)


def _require_steps(features: Any, n_thresholds: int, n_jumps: int, n_features: int) -> None:
    if not len(features) == n_thresholds == n_jumps or not len(features):
        raise corrupt("its steps lack a feature, a threshold or a jump")
    if (features < 0).any() or (features >= n_features).any():
        raise corrupt("its steps belong to a feature that it does not have")
