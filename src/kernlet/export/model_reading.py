"""Reading a machine from a file that may be damaged, foreign or hostile."""

from __future__ import annotations

import json
import math
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from kernlet.affine import AffineMap
from kernlet.expansion import KernelExpansion
from kernlet.export.encoding import CategoryColumn, ColumnEncoding, NumberColumn
from kernlet.export.fields import Fields, ModelFileError
from kernlet.export.model_file import (
    FORMAT_VERSION,
    LARGEST_METADATA,
    METADATA_KEY,
    are_too_long,
)
from kernlet.export.predictors import ShippedClassifier, ShippedRegressor, ShippedTransformer
from kernlet.export.shipped import ShippedModel
from kernlet.export.tensors import Tensors, open_tensors
from kernlet.kernels import RBF, Kernel, Linear, Polynomial, Sigmoid
from kernlet.kernels.widths import CenterWidths
from kernlet.quantized import QuantizedExpansion
from kernlet.tables import FORMATS, Table

_CLASS_TYPES = (
    *(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)),
    *("float32", "float64", "bool", "str", "object"),
)
_PREDICTORS = {
    "classifier": ShippedClassifier,
    "regressor": ShippedRegressor,
    "transformer": ShippedTransformer,
}
_SCHEMES = ("one output", "one vs rest", "one vs one")


def load(path: str | PathLike[str], *, max_bytes: int = 1 << 30) -> Any:
    """Read a machine that :func:`kernlet.save` wrote.

    Nothing in the file is run. A file that is damaged, edited or something else is refused before
    memory is taken for what it claims to hold.

    Parameters
    ----------
    path : str or path
    max_bytes : int, default=1 GiB
        Larger files are refused, and tables that are larger when they are unpacked.

    Returns
    -------
    machine : ShippedClassifier, ShippedRegressor or KernelExpansion
        A fitted predictor; a bare expansion comes back as one.

    Raises
    ------
    ModelFileError
        A ValueError that says in one sentence what is wrong with the file.
    OSError
        Where it cannot be read at all.
    """
    path = Path(path)
    try:
        with open_tensors(path, max_bytes) as tensors:
            model = _model(_metadata(tensors), tensors)
            tensors.require_as_written(tensors.metadata[METADATA_KEY])
    except ModelFileError as error:
        raise ModelFileError(f"{path} {error}") from None
    except (ValueError, TypeError, OverflowError, MemoryError) as error:
        said = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise ModelFileError(f"{path} holds no machine: {said}") from None
    found = _PREDICTORS.get(model.kind)
    return model.expansion if found is None else found(model)


def _metadata(tensors: Tensors) -> Fields:
    text = tensors.metadata.get(METADATA_KEY)
    if text is None:
        raise ModelFileError("is a safetensors file, but none that kernlet wrote.")
    if len(text) > LARGEST_METADATA:
        raise ModelFileError("is damaged: its metadata are too long.")
    try:
        values = json.loads(text, parse_constant=_refuse_constant)
    except (ValueError, RecursionError):
        raise ModelFileError("is damaged: its metadata are no JSON.") from None
    fields = Fields(values, "metadata")
    version = fields.whole("format_version", 1)
    if version > FORMAT_VERSION:
        raise ModelFileError(
            f"was written by a newer kernlet ({fields.text('library_version')[:40]}, format "
            f"{version}); this one reads formats up to {FORMAT_VERSION}."
        )
    return fields


def _refuse_constant(name: str) -> Any:
    raise ValueError(name)


def _model(fields: Fields, tensors: Tensors) -> ShippedModel:
    kind = fields.choice("kind", (*_PREDICTORS, "expansion"))
    expansion = _expansion(fields.inside("machine"), tensors)
    scaler = None
    if fields.flag("scaler"):
        scaler = AffineMap(tensors.floats("scaler.shift", 1), tensors.floats("scaler.scale", 1))
    encoding = _encoding(fields)
    names = encoding.feature_names if encoding else _feature_names(fields)
    scheme = fields.choice("scheme", _SCHEMES)
    classes = None
    if kind == "classifier":
        classes = _classes(fields.inside("classes"), scheme, expansion.n_outputs)
    model = ShippedModel(
        expansion,
        kind,  # type: ignore[arg-type]
        classes=classes,
        scheme=scheme,  # type: ignore[arg-type]
        votes=fields.flag("votes"),
        break_ties=fields.flag("break_ties"),
        temperature=_temperature(fields),
        scaler=scaler,
        encoding=encoding,
        feature_names=names,
        is_flat=fields.flag("is_flat"),
        summary=fields.inside("summary").values,
    )
    _check(model)
    return model


def _check(model: ShippedModel) -> None:
    """Whether the parts fit together."""
    n_features, names = model.n_features, model.feature_names
    if names is not None and len(names) != n_features:
        raise ModelFileError(f"has {len(names)} feature names for {n_features} features.")
    if model.scaler is not None and model.scaler.width not in (None, n_features):
        raise ModelFileError(f"has a scaler for {model.scaler.width} of {n_features} features.")
    if model.kind == "regressor" and model.is_flat and model.expansion.n_outputs != 1:
        raise ModelFileError("has several outputs where one is expected.")


def _expansion(fields: Fields, tensors: Tensors) -> KernelExpansion:
    if "tables" in fields.values:
        return _quantized(fields, tensors)
    kernel = _kernel(fields.inside("kernel"), tensors)
    front = _front(tensors) if fields.flag("front") else None
    centers = _centers(fields, tensors)
    if isinstance(kernel, CenterWidths) and len(kernel.gamma) != centers.shape[0]:
        raise ModelFileError("has another number of widths than of centers.")
    coef, intercept = tensors.floats("coef", 2), tensors.floats("intercept", 1)
    return KernelExpansion(kernel, centers, coef, intercept, front)


def _centers(fields: Fields, tensors: Tensors) -> Any:
    if "n_features" not in fields.values:
        return tensors.floats("centers", 2)
    n_features = fields.whole("n_features", 1, 2**31 - 1)
    data = tensors.floats("centers.data", 1)
    indices, indptr = tensors.whole("centers.indices"), tensors.whole("centers.indptr")
    if not len(indptr) or indptr[0] != 0 or indptr[-1] != len(data) or (np.diff(indptr) < 0).any():
        raise ModelFileError("is damaged: its sparse centers have no order.")
    if len(indices) != len(data) or (indices < 0).any() or (indices >= n_features).any():
        raise ModelFileError("is damaged: its sparse centers point nowhere.")
    return sparse.csr_array((data, indices, indptr), shape=(len(indptr) - 1, n_features))


def _quantized(fields: Fields, tensors: Tensors) -> QuantizedExpansion:
    tables = fields.inside("tables")
    projection = _table(tables, "projection", tensors) if "projection" in tables.values else None
    expansion = QuantizedExpansion(
        tensors.floats("gamma", 1),
        _table(tables, "centers", tensors),
        _table(tables, "coef", tensors),
        tensors.floats("intercept", 1),
        fields.number("shift"),
        fields.number("scale", above=1e-30),
        projection,
    )
    if not all(np.isfinite(part).all() for part in (expansion.centers, expansion.coef)):
        raise ModelFileError("is damaged: its tables hold numbers that are not finite.")
    return expansion


def _table(tables: Fields, name: str, tensors: Tensors) -> Table:
    words = tables.inside(name)
    format = FORMATS[words.choice("format", tuple(FORMATS))]
    shape = words.shape("shape", 2)
    if 4 * math.prod(shape) > tensors.max_bytes:
        raise ModelFileError(
            f"has a table {name!r} of {4 * math.prod(shape)} bytes when it is unpacked; give load "
            f"a larger max_bytes than {tensors.max_bytes} to read it."
        )
    step = words.number("step", above=0)
    packed = format.n_levels is not None
    data = tensors.codes(name, np.uint8 if packed else np.dtype(format.name))
    count = format.n_bytes(math.prod(shape)) - (4 if format.has_step else 0)
    if data.nbytes != count or (data.shape != shape and not packed):
        raise ModelFileError(f"is damaged: the table {name!r} is of another size than it says.")
    return Table(format, shape, data, step)


def _kernel(fields: Fields, tensors: Tensors) -> Kernel:
    names = ("rbf", "rbf of several widths", "linear", "sigmoid", "poly")
    name = fields.choice("name", names)
    if name == "linear":
        return Linear()
    if name == "rbf of several widths":
        widths = tensors.floats("gamma", 1)
        if (widths < 0).any():
            raise ModelFileError("has a negative width.")
        return CenterWidths(widths)
    gamma = fields.number("gamma")
    if name == "rbf":
        if gamma < 0:
            raise ModelFileError("has a negative width.")
        return RBF(gamma)
    coef0 = fields.number("coef0")
    if name == "sigmoid":
        return Sigmoid(gamma, coef0)
    return Polynomial(gamma, fields.whole("degree", 1, 1000), coef0)


def _front(tensors: Tensors) -> AffineMap:
    matrix = tensors.floats("front.matrix", 2) if "front.matrix" in tensors else None
    return AffineMap(tensors.floats("front.shift", 1), tensors.floats("front.scale", 1), matrix)


def _temperature(fields: Fields) -> float | None:
    if fields.values.get("temperature") is None:
        return None
    return fields.number("temperature", above=0)


def _feature_names(fields: Fields) -> tuple[str, ...] | None:
    return None if fields.values.get("feature_names") is None else fields.texts("feature_names")


def _classes(words: Fields, scheme: str, n_outputs: int) -> Any:
    kind = words.choice("type", _CLASS_TYPES)
    values = words.entries("values")
    _require_outputs(len(values), scheme, n_outputs)
    if kind in ("str", "object"):
        texts = words.texts("values")
        if are_too_long(texts):
            raise ModelFileError("has class names that are too long.")
        classes: Any = np.array(texts, dtype=object if kind == "object" else str)
    else:
        if not all(type(value) in (int, float, bool) for value in values):
            raise ModelFileError("has classes that are no numbers.")
        with np.errstate(invalid="ignore"):
            classes = np.array(values).astype(kind)
        if classes.tolist() != values or not np.isfinite(classes).all():
            raise ModelFileError(f"has classes that are no {kind}.")
    if len(classes) < 2 or not np.array_equal(np.unique(classes), classes):
        raise ModelFileError("has classes that are fewer than two, out of order or twice there.")
    return classes


def _require_outputs(k: int, scheme: str, n_outputs: int) -> None:
    wanted = {"one output": 1, "one vs rest": k, "one vs one": k * (k - 1) // 2}[scheme]
    if n_outputs != wanted or (scheme == "one output" and k != 2):
        raise ModelFileError(f"has {n_outputs} outputs for {k} classes ({scheme}).")


def _encoding(fields: Fields) -> ColumnEncoding | None:
    if fields.values.get("encoding") is None:
        return None
    columns = tuple(_column(Fields(entry, "encoding")) for entry in fields.entries("encoding"))
    encoding = ColumnEncoding(columns)
    if len(set(encoding.names)) < len(columns) or not columns:
        raise ModelFileError("has a column twice, or none.")
    if sum(len(column.name) * _width(column) for column in columns) > LARGEST_METADATA:
        raise ModelFileError("has names of columns that are too long.")
    return encoding


def _width(column: NumberColumn | CategoryColumn) -> int:
    """Features that have the name of a column in theirs."""
    return len(column.categories) + 1 if isinstance(column, CategoryColumn) else 1


def _column(words: Fields) -> NumberColumn | CategoryColumn:
    if "number" in words.values:
        return NumberColumn(words.text("number"), words.number("fill"))
    return CategoryColumn(words.text("category"), words.texts("values"), words.flag("has_missing"))
