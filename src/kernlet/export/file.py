"""The model file: safetensors with checked metadata."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from kernlet import __version__
from kernlet._typing import Floats
from kernlet.affine import AffineMap
from kernlet.atomic import atomic_write
from kernlet.expansion import KernelExpansion
from kernlet.export.predictors import ShippedClassifier, ShippedRegressor, ShippedTransformer
from kernlet.kernels.base import Kernel
from kernlet.model.model import Model, as_model
from kernlet.quantization import FORMATS, PackedArray, QuantizedExpansion
from kernlet.tables.encode import CategoryColumn, ColumnEncoding, NumberColumn


class ModelFileError(ValueError):
    """A file that is damaged, foreign or too new."""


class Fields:
    """The fields of a JSON object, each taken out with a check.

    Parameters
    ----------
    values : object
        What was parsed.
    where : str
        For error messages.

    Examples
    --------
    >>> from kernlet.export.file import Fields
    >>> Fields({"gamma": 0.5}, "kernel").number("gamma")
    0.5
    >>> Fields({"gamma": "wide"}, "kernel").number("gamma")
    Traceback (most recent call last):
        ...
    kernlet.export.file.ModelFileError: is damaged: 'gamma' of its kernel is no finite number.
    """

    def __init__(self, values: Any, where: str) -> None:
        if not isinstance(values, dict):
            raise ModelFileError(f"is damaged: its {where} has no fields.")
        self.values, self.where = values, where

    def _wrong(self, name: str, what: str) -> ModelFileError:
        return ModelFileError(f"is damaged: {name!r} of its {self.where} is {what}.")

    def number(self, name: str, above: float | None = None) -> float:
        """A finite number."""
        value = self.values.get(name)
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise self._wrong(name, "no finite number")
        number = float(value) if abs(value) < 1e300 else math.inf
        if not math.isfinite(number) or (above is not None and not number > above):
            raise self._wrong(name, "no number that makes sense")
        return number

    def whole(self, name: str, smallest: int, largest: int = 2**53) -> int:
        """A whole number between two others."""
        value = self.values.get(name)
        if type(value) is not int or not smallest <= value <= largest:
            raise self._wrong(name, f"no whole number from {smallest} to {largest}")
        return value

    def flag(self, name: str) -> bool:
        """True or false."""
        value = self.values.get(name)
        if not isinstance(value, bool):
            raise self._wrong(name, "neither true nor false")
        return value

    def text(self, name: str) -> str:
        """A text."""
        value = self.values.get(name)
        if not isinstance(value, str):
            raise self._wrong(name, "no text")
        return value

    def choice(self, name: str, choices: tuple[str, ...]) -> str:
        """One of some texts."""
        value = self.text(name)
        if value not in choices:
            raise self._wrong(name, f"none of {', '.join(choices)}")
        return value

    def entries(self, name: str) -> list[Any]:
        """A list."""
        value = self.values.get(name)
        if not isinstance(value, list):
            raise self._wrong(name, "no list")
        return value

    def texts(self, name: str) -> tuple[str, ...]:
        """A list of texts."""
        entries = self.entries(name)
        if not all(isinstance(entry, str) for entry in entries):
            raise self._wrong(name, "no list of texts")
        return tuple(entries)

    def shape(self, name: str, n_dimensions: int) -> tuple[int, ...]:
        """Sizes of an array."""
        entries = self.entries(name)
        good = all(type(entry) is int and 0 <= entry < 2**31 for entry in entries)
        if not good or len(entries) != n_dimensions:
            raise self._wrong(name, "no shape")
        return tuple(entries)

    def inside(self, name: str) -> Fields:
        """The fields of an object inside."""
        return Fields(self.values.get(name), name)


DIGEST_KEY = "sha256"
_LARGEST_HEADER = 16 << 20  # bytes
_DTYPES = {"F64": np.float64, "F32": np.float32, "F16": np.float16, "I64": np.int64, "U8": np.uint8}


def digest(text: str, tensors: Mapping[str, Any]) -> str:
    """What tells an edited file from the one that was written: SHA-256 of metadata and tensors."""
    made = hashlib.sha256(text.encode())
    for name in sorted(tensors):
        tensor = np.ascontiguousarray(tensors[name])
        made.update(f"{name} {tensor.dtype.str} {tensor.shape}".encode())
        made.update(tensor.data if tensor.size else b"")
    return made.hexdigest()


@contextmanager
def open_tensors(path: Path, max_bytes: int) -> Iterator[Tensors]:
    """The tensors of a file whose sizes have been checked against each other.

    Parameters
    ----------
    path : Path
    max_bytes : int
        Larger files are refused.

    Yields
    ------
    tensors : Tensors
    """
    from safetensors import SafetensorError, safe_open

    size = path.stat().st_size
    if size > max_bytes:
        raise ModelFileError(
            f"takes {size} bytes; give load a larger max_bytes than {max_bytes} to read it."
        )
    with path.open("rb") as file:
        start = file.read(9)
    header = int.from_bytes(start[:8], "little")
    if len(start) < 9 or start[8:] != b"{" or header > min(size - 8, _LARGEST_HEADER):
        raise ModelFileError("is damaged, or no file that kernlet wrote.")
    try:
        with safe_open(path, framework="numpy") as opened:
            yield Tensors(opened, max_bytes)
    except SafetensorError as error:
        raise ModelFileError(f"is damaged: {str(error).splitlines()[0]}.") from None


class Tensors:
    """Tensors by name, each of a dtype and a number of dimensions that is asked for."""

    def __init__(self, opened: Any, max_bytes: int) -> None:
        self.opened, self.max_bytes = opened, max_bytes
        self.metadata: dict[str, str] = opened.metadata() or {}
        self.names = set(opened.keys())
        self.read: dict[str, Any] = {}

    def __contains__(self, name: str) -> bool:
        return name in self.names

    def _read(self, name: str, dtypes: tuple[Any, ...], n_dimensions: int | None) -> Any:
        if name not in self.names:
            raise ModelFileError(f"is damaged: it lacks the tensor {name!r}.")
        slice = self.opened.get_slice(name)
        dtype, shape = _DTYPES.get(slice.get_dtype()), slice.get_shape()
        if dtype not in dtypes or (n_dimensions is not None and len(shape) != n_dimensions):
            raise ModelFileError(
                f"is damaged: the tensor {name!r} is of type {slice.get_dtype()} and of "
                f"{len(shape)} dimensions."
            )
        self.read[name] = self.opened.get_tensor(name)
        return self.read[name]

    def floats(self, name: str, n_dimensions: int) -> Floats:
        """Finite numbers in float32 or float64."""
        values = self._read(name, (np.float32, np.float64), n_dimensions)
        if not np.isfinite(values).all():
            raise ModelFileError(
                f"is damaged: the tensor {name!r} holds numbers that are not finite."
            )
        return values

    def whole(self, name: str) -> Any:
        """A row of whole numbers."""
        return self._read(name, (np.int64,), 1)

    def codes(self, name: str, dtype: Any) -> Any:
        """The codes of a table."""
        return self._read(name, (np.dtype(dtype).type,), None)

    def require_as_written(self, text: str) -> None:
        """Refuse tensors that belong to nothing, and numbers that were changed since."""
        spare = sorted(self.names - set(self.read))
        if spare:
            raise ModelFileError(f"is damaged: nothing uses its tensor {spare[0][:40]!r}.")
        if self.metadata.get(DIGEST_KEY) != digest(text, self.read):
            raise ModelFileError("is damaged: it was changed after it was written.")


FORMAT_VERSION = 1
LARGEST_METADATA = 8 << 20  # bytes
METADATA_KEY = "kernlet"

TensorDict = dict[str, Any]


def save(model: Any, path: str | PathLike[str]) -> None:
    """Write a fitted machine to one file, from which no code can run.

    The file is in the safetensors format. It holds the tables as they are stored, classes, feature
    names, scaler, probabilities' temperature and a summary of the training; the training data
    are not in it. It is there whole or not at all.

    Parameters
    ----------
    model : fitted estimator, KernelExpansion or the path of a LIBSVM model file
        A kernlet estimator, an SVC or NuSVC, a OneVsRestClassifier or OneVsOneClassifier of
        them, or a Pipeline of StandardScaler, MinMaxScaler, MaxAbsScaler or RobustScaler and one
        of these, whose scaler is folded in.
    path : str or path

    Raises
    ------
    ValueError
        For a kernel or a step of a pipeline that a file cannot describe.

    See Also
    --------
    kernlet.load : Reads it.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.svm import SVC
    >>> import kernlet
    >>> X, y = load_iris(return_X_y=True)
    >>> model = SVC().fit(X, y)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     kernlet.save(model, Path(folder) / "iris.kernlet")
    ...     again = kernlet.load(Path(folder) / "iris.kernlet")
    >>> bool((again.predict(X) == model.predict(X)).all())
    True
    """
    from safetensors.numpy import save as packed

    tensors, metadata = described(as_model(model))
    text = json.dumps(metadata, allow_nan=False)
    if len(text) > LARGEST_METADATA:
        raise ValueError(
            f"The names and the summary of this machine take {len(text)} bytes, more than the "
            f"{LARGEST_METADATA} that a file may have."
        )
    tensors = {name: np.ascontiguousarray(tensor) for name, tensor in tensors.items()}
    content = packed(tensors, {METADATA_KEY: text, DIGEST_KEY: digest(text, tensors)})
    with atomic_write(Path(path)) as temporary:
        temporary.write_bytes(content)


def described(model: Model) -> tuple[TensorDict, dict[str, Any]]:
    """The tensors of a machine, and the rest of it as JSON values."""
    tensors: TensorDict = {}
    metadata = {
        "format_version": FORMAT_VERSION,
        "library_version": __version__,
        "kind": model.kind,
        "machine": _describe_expansion(model.expansion, tensors),
        "classes": None if model.classes is None else _describe_classes(model.classes),
        "scheme": model.scheme,
        "votes": model.votes,
        "break_ties": model.break_ties,
        "temperature": model.temperature,
        "is_flat": model.is_flat,
        "feature_names": None if model.feature_names is None else list(model.feature_names),
        "encoding": None if model.encoding is None else _describe_encoding(model.encoding),
        "scaler": model.scaler is not None,
        "summary": model.summary,
    }
    if model.scaler is not None:
        tensors["scaler.shift"] = model.scaler.shift
        tensors["scaler.scale"] = model.scaler.scale
    return tensors, metadata


def _describe_expansion(expansion: Any, tensors: TensorDict) -> dict[str, Any]:
    tensors["intercept"] = expansion.intercept
    if isinstance(expansion, QuantizedExpansion):
        return _describe_tables(expansion, tensors)
    tensors["coef"] = _floats(expansion.coef)
    kernel = expansion.kernel.to_dict()
    arrays = {name: value for name, value in kernel.items() if isinstance(value, np.ndarray)}
    tensors.update(arrays)  # one number per center
    words = {
        "kernel": {name: value for name, value in kernel.items() if name not in arrays},
        "front": _describe_front(expansion.input_map, tensors),
    }
    if not sparse.issparse(expansion.centers):
        tensors["centers"] = _floats(expansion.centers)
        return words
    centers = expansion.centers
    tensors["centers.data"] = _floats(centers.data)
    tensors["centers.indices"] = centers.indices.astype(np.int64)
    tensors["centers.indptr"] = centers.indptr.astype(np.int64)
    return words | {"n_features": int(centers.shape[1])}


def _describe_tables(expansion: QuantizedExpansion, tensors: TensorDict) -> dict[str, Any]:
    tensors["gamma"] = expansion.gamma
    words: dict[str, Any] = {}
    for name, table in expansion.packed.items():
        if table is not None:
            tensors[name] = table.data
            words[name] = {
                "format": table.format.name,
                "shape": list(table.shape),
                "step": float(table.step),
            }
    assert expansion.input_map is not None
    shift = float(expansion.input_map.shift[0])
    return {"tables": words, "shift": shift, "scale": expansion.input_scale}


def _describe_front(front: AffineMap | None, tensors: TensorDict) -> bool:
    if front is None:
        return False
    tensors["front.shift"], tensors["front.scale"] = front.shift, front.scale
    if front.matrix is not None:
        tensors["front.matrix"] = front.matrix
    return True


def _describe_classes(classes: Any) -> dict[str, Any]:
    if classes.dtype.kind in "biuf":
        return {"type": classes.dtype.name, "values": classes.tolist()}
    if not all(isinstance(name, str) for name in classes.tolist()):
        raise ValueError("Classes of mixed types cannot be saved; use texts or numbers.")
    if are_too_long(classes.tolist()):
        raise ValueError("The names of the classes are too long to be saved.")
    kind = "object" if classes.dtype.kind == "O" else "str"
    return {"type": kind, "values": classes.tolist()}


def are_too_long(names: Sequence[str]) -> bool:
    """Whether an array of names, each as wide as the longest, takes more than a file may."""
    return len(names) * max(map(len, names), default=0) > LARGEST_METADATA


def _describe_encoding(encoding: Any) -> list[dict[str, Any]]:
    return [
        {"number": column.name, "fill": column.fill}
        if isinstance(column, NumberColumn)
        else {
            "category": column.name,
            "values": list(column.categories),
            "has_missing": column.has_missing,
        }
        for column in encoding.columns
    ]


def _floats(values: Any) -> Any:
    """In float32 or float64, whichever they are."""
    return values if values.dtype in (np.float32, np.float64) else values.astype(np.float64)


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


def _model(fields: Fields, tensors: Tensors) -> Model:
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
    model = Model(
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


def _check(model: Model) -> None:
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
    if any(
        len(np.atleast_1d(value)) not in (1, centers.shape[0])
        for name, value in kernel.to_dict().items()
        if name != "name"
    ):
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


def _table(tables: Fields, name: str, tensors: Tensors) -> PackedArray:
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
    return PackedArray(format, shape, data, step)


def _kernel(fields: Fields, tensors: Tensors) -> Kernel:
    values = dict(fields.values)
    if values.get("name") == "rbf of several widths":  # as files were written before
        values["name"] = "rbf"
    for name in ("gamma",):
        if name not in values and name in tensors:
            values[name] = tensors.floats(name, 1)
    return Kernel.from_dict(values)


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
