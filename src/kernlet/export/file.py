"""The model file: safetensors with checked metadata.

A file holds named tensors and two texts: the metadata of the model as JSON, and a SHA-256 digest
of everything. Reading trusts nothing: sizes are compared with the file's length before memory is
allocated, every JSON value passes the schema below, tensors are read by name with an expected dtype
and number of dimensions, and no code in the file can run. A :class:`ModelFileError` of one sentence
says what is wrong.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
from collections.abc import Mapping, Sequence
from itertools import pairwise
from os import PathLike
from typing import Any

import numpy as np

from kernlet import __version__
from kernlet.export.machine_file import (
    Tensors,
    describe_expansion,
    describe_map,
    read_expansion,
)
from kernlet.export.schema import (
    CLASS_TYPES,
    MODEL,
    TEXT,
    ModelFileError,
    corrupt,
    integer,
    list_of,
    record,
)
from kernlet.model.model import Model, as_model
from kernlet.tables.dates import DateColumn
from kernlet.tables.encode import (
    CategoryColumn,
    ColumnEncoding,
    NumberColumn,
    OrdinalColumn,
)

FORMAT_VERSION = 2
METADATA_KEY, DIGEST_KEY = "kernlet", "sha256"
_LARGEST_METADATA = 8 << 20  # bytes
_LARGEST_HEADER = 16 << 20  # bytes: the metadata, and the names and sizes of the tensors


# -- Writing ---------------------------------------------------------------------------------------


def save(model: Any, path: str | PathLike[str], X: Any = None, y: Any = None) -> None:
    """Write a fitted machine to one file, from which no code can run.

    The file is in the safetensors format. It holds the packed arrays as they are stored, classes,
    feature names, scaler, probabilities' temperature and a summary of the training; the training
    data are not in it. The write is atomic.

    Parameters
    ----------
    model : fitted estimator, KernelExpansion or the path of a LIBSVM model file
        A kernlet estimator, an SVC, NuSVC, SVR, NuSVR, OneClassSVM, KernelRidge or
        GaussianProcessRegressor (its mean), a OneVsRestClassifier or OneVsOneClassifier, or a
        Pipeline that ends in one of these. Its imputers, one-hot and ordinal encoders,
        scalers, selectors and linear maps such as PCA are saved too, also from a
        ColumnTransformer.
    path : str or path
        File to write; an existing one is replaced.
    X, y : array-like, default=None
        Rows as the machine takes them, preferably not those of the training, and their classes.
        A classifier gets probabilities from them, which the loaded machine and its C and ONNX
        have too. Without them it keeps those that it has.

    Raises
    ------
    ValueError
        For a kernel, classes or a step of a pipeline that a file cannot describe, and for a machine
        that holds NaN or infinity. The file is read again before it takes its name, so that
        :func:`kernlet.load` takes everything that is saved; no file is left otherwise.

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
    ...     loaded = kernlet.load(Path(folder) / "iris.kernlet")
    >>> bool((loaded.predict(X) == model.predict(X)).all())
    True
    """
    from pathlib import Path

    from safetensors.numpy import save as serialize

    from kernlet.atomic import atomic_write
    from kernlet.model.calibration import calibrated

    if (X is None) != (y is None):
        raise ValueError("Give both X and y to calibrate probabilities on, or neither.")
    portable = as_model(model) if X is None else calibrated(as_model(model), X, y)
    tensors, text = _written(portable)
    content = serialize(tensors, {METADATA_KEY: text, DIGEST_KEY: digest(text, tensors)})
    with atomic_write(Path(path)) as temporary:
        temporary.write_bytes(_sorted_header(content))
        if temporary.is_file():  # what a device was given cannot be read again
            _require_readable(temporary, text)


def _written(model: Model) -> tuple[dict[str, Any], str]:
    """The tensors of a file and its metadata; ValueError where it cannot hold the model."""
    tensors, metadata = _describe(model)
    try:
        text = json.dumps(metadata, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise ValueError(
            f"This machine cannot be saved: its summary or another of its fields is not JSON "
            f"({str(error).splitlines()[0]})."
        ) from None
    if len(text) > _LARGEST_METADATA:
        raise ValueError(
            f"The names and the summary of this machine take {len(text)} bytes, more than the "
            f"{_LARGEST_METADATA} that a file may have."
        )
    tensors = {name: np.ascontiguousarray(tensor) for name, tensor in tensors.items()}
    for name, tensor in tensors.items():
        if not np.isfinite(tensor).all():
            raise ValueError(
                f"This machine cannot be saved: its {name} hold NaN or infinity, as after a "
                "training that failed; scale the features and train again."
            )
    return tensors, text


def _require_readable(path: PathLike[str], text: str) -> None:
    """Refuse a file that load would refuse, or read as another model than the one written."""
    try:
        again = _written(_read(path, max_bytes=sys.maxsize))[1]
    except ModelFileError as error:
        raise ValueError(
            f"This machine cannot be saved, because load would refuse the file, which {error}"
        ) from None
    if again != text:
        old, new = json.loads(text), json.loads(again)
        field = next((name for name in old if old[name] != new[name]), "summary")
        raise ValueError(f"This machine cannot be saved: its {field} would be read otherwise.")


def _sorted_header(content: bytes) -> bytes:
    """The same safetensors file with sorted names: equal models make equal files.

    A file is the length of its JSON header in 8 bytes, the header, padded to a multiple of 8, and
    the tensors. The library orders the metadata by a hash that differs between processes.
    """
    length = int.from_bytes(content[:8], "little")
    header = json.loads(content[8 : 8 + length])
    text = json.dumps(header, sort_keys=True, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text + content[8 + length :]


def digest(text: str, tensors: Mapping[str, Any]) -> str:
    """SHA-256 of metadata and tensors: tells an edited file from the one that was written."""
    sha = hashlib.sha256(text.encode())
    for name in sorted(tensors):
        tensor = tensors[name]
        sha.update(f"{name} {tensor.dtype.str} {tensor.shape}".encode())
        sha.update(tensor.data if tensor.size else b"")
    return sha.hexdigest()


def _describe(model: Model) -> tuple[dict[str, Any], dict[str, Any]]:
    """The tensors of a model, and the rest of it as JSON values."""
    tensors: dict[str, Any] = {}
    metadata = {
        "format_version": FORMAT_VERSION,
        "library_version": __version__,
        "kind": model.kind,
        "machine": describe_expansion(model.expansion, tensors),
        "classes": None if model.classes is None else _describe_classes(model.classes),
        "scheme": model.scheme,
        "votes": bool(model.votes),
        "break_ties": bool(model.break_ties),
        "temperature": _float(model.temperature),
        "offset": _float(model.offset),
        "is_flat": bool(model.is_flat),
        "quantiles": None if model.quantiles is None else [float(q) for q in model.quantiles],
        "output_names": None if model.output_names is None else list(model.output_names),
        "feature_names": None if model.feature_names is None else list(model.feature_names),
        "encoding": None if model.encoding is None else _describe_encoding(model.encoding),
        "positions": None if model.encoding is None else _describe_positions(model.encoding),
        "scaler": describe_map("scaler", model.scaler, tensors),
        "summary": model.summary,
    }
    return tensors, metadata


def _describe_classes(classes: Any) -> dict[str, Any]:
    values, kind = classes.tolist(), classes.dtype.kind
    if kind in "biuf" and classes.dtype.name in CLASS_TYPES and np.isfinite(classes).all():
        return {"type": classes.dtype.name, "values": values}
    wrong = [name for name in values if not isinstance(name, str)]
    if wrong:
        raise ValueError(
            f"A class {str(wrong[0])[:40]!r} of type {type(wrong[0]).__name__} in an array of "
            f"{classes.dtype} cannot be saved: train with texts, such as y.astype(str), or with "
            "finite numbers in int64 or float64."
        )
    if _are_too_long(values):
        raise ValueError("The names of the classes are too long to be saved.")
    return {"type": "object" if kind == "O" else "str", "values": values}


def _describe_encoding(encoding: ColumnEncoding) -> list[dict[str, Any]]:
    return [_describe_column(column) for column in encoding.columns]


def _describe_column(column: Any) -> dict[str, Any]:
    if isinstance(column, NumberColumn):
        if column.passes_missing:
            return {"number": column.name, "fill": None, "passes_missing": True}
        return {"number": column.name, "fill": _float(column.fill)}
    if isinstance(column, DateColumn):
        parts, fills = list(column.parts), [float(fill) for fill in column.fills]
        return {"date": column.name, "order": column.order, "parts": parts, "fills": fills}
    if isinstance(column, OrdinalColumn):
        return {
            "ordinal": column.name,
            "categories": list(column.categories),
            "values": [float(value) for value in column.values],
            "missing": _float(column.missing),
            "unknown": _float(column.unknown),
        }
    return {
        "category": column.name,
        "values": list(column.categories),
        "has_missing": column.has_missing,
        "codes": list(column.codes) or None,
        "unknown": column.unknown,
        "refuses_unknown": column.unknown is None,
    }


def _describe_positions(encoding: ColumnEncoding) -> dict[str, Any] | None:
    if not encoding.positions:
        return None
    return {
        "columns": list(encoding.positions),
        "n_columns": encoding.n_columns,
        "has_names": encoding.has_names,
    }


def _float(value: Any) -> float | None:
    """A number as JSON has it, where there is one."""
    return None if value is None else float(value)


def _are_too_long(names: Sequence[str]) -> bool:
    """Whether a NumPy array of the names, each as wide as the longest, takes more than a file."""
    return len(names) * max(map(len, names), default=0) > _LARGEST_METADATA


# -- Reading ---------------------------------------------------------------------------------------


def load(path: str | PathLike[str], *, max_bytes: int = 1 << 30) -> Any:
    """Read a machine that :func:`kernlet.save` wrote.

    Nothing in the file is run. A file that is corrupt, edited or something else is refused before
    memory is allocated for what it claims to hold.

    Parameters
    ----------
    path : str or path
        File to read.
    max_bytes : int, default=1 GiB
        Larger files are refused, and packed arrays that are larger when they are unpacked.

    Returns
    -------
    machine : estimator or KernelExpansion
        A fitted predictor of its kind: :class:`~kernlet.export.LoadedClassifier`,
        :class:`~kernlet.export.LoadedRegressor`, :class:`~kernlet.export.LoadedNoveltyDetector` or
        :class:`~kernlet.export.LoadedTransformer`. A bare expansion is returned as one.

    Raises
    ------
    ModelFileError
        A ValueError that says in one sentence what is wrong with the file.
    OSError
        Where it cannot be read at all.

    See Also
    --------
    kernlet.save : Writes it.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from sklearn.datasets import load_diabetes
    >>> import kernlet
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = kernlet.CompactKernelRegressor(5, n_epochs=10, random_state=0).fit(X, y)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     kernlet.save(model, Path(folder) / "diabetes.kernlet")
    ...     loaded = kernlet.load(Path(folder) / "diabetes.kernlet")
    >>> loaded.n_centers_, bool((loaded.predict(X) == model.predict(X)).all())
    (5, True)
    """
    from kernlet.export.predictors import PREDICTORS

    model = read_model(path, max_bytes)
    predictor = PREDICTORS.get(model.kind)
    return model.expansion if predictor is None else predictor(model)


def read_model(
    path: str | PathLike[str], max_bytes: int = 1 << 30, *, is_dense: bool = False
) -> Model:
    """The model in a file, which NumPy alone can evaluate; see :func:`load`.

    ``is_dense`` makes sparse centers dense, for which SciPy is not needed.
    """
    try:
        return _read(path, max_bytes, is_dense)
    except ModelFileError as error:
        raise ModelFileError(f"{path} {error}") from None


def _read(path: str | PathLike[str], max_bytes: int, is_dense: bool = False) -> Model:
    """The model in a file; the errors are sentences that lack their subject, the file."""
    from safetensors import SafetensorError, safe_open

    try:
        _require_size(path, max_bytes)
        with safe_open(path, framework="numpy") as opened:
            tensors = Tensors(opened, max_bytes, is_dense)
            model = _model(_metadata(tensors.metadata.get(METADATA_KEY)), tensors)
            _require_as_written(tensors)
            return model
    except ModelFileError:
        raise
    except SafetensorError as error:
        raise corrupt(str(error).splitlines()[0]) from None
    except (ValueError, TypeError, OverflowError, MemoryError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise ModelFileError(f"holds no valid model: {reason}") from None


def _require_as_written(tensors: Tensors) -> None:
    """Refuse tensors that nothing uses, and numbers that were changed since."""
    unused = sorted(tensors.names - set(tensors.used))
    if unused:
        raise corrupt(f"nothing uses its tensor {unused[0][:40]!r}")
    if tensors.metadata.get(DIGEST_KEY) != digest(tensors.metadata[METADATA_KEY], tensors.used):
        raise corrupt("it was changed after it was written")


def _require_size(path: str | PathLike[str], max_bytes: int) -> None:
    """Refuse a file that is too large, or smaller than its header says."""
    size = os.stat(path).st_size
    if size > max_bytes:
        raise ModelFileError(
            f"takes {size} bytes; give load a larger max_bytes than {max_bytes} to read it."
        )
    with open(path, "rb") as file:
        start = file.read(9)
    # safetensors: eight bytes with the length of the header, which is JSON, then the data.
    header_bytes = int.from_bytes(start[:8], "little")
    if len(start) < 9 or start[8:] != b"{" or header_bytes > min(size - 8, _LARGEST_HEADER):
        raise ModelFileError("is corrupt, or not a file that kernlet wrote.")


def _metadata(text: str | None) -> Any:
    if text is None:
        raise ModelFileError(
            "is a safetensors file, but not a model file of kernlet (tables for MicroPython are "
            "read by the module beside them)."
        )
    if len(text) > _LARGEST_METADATA:
        raise corrupt("its metadata are too long")
    try:
        values = json.loads(text, parse_constant=_refuse_constant)
    except (ValueError, RecursionError):
        raise corrupt("its metadata are not JSON") from None
    version = record(format_version=integer(1))(values, "")["format_version"]
    if version > FORMAT_VERSION:
        library = TEXT(values.get("library_version"), "library_version")
        raise ModelFileError(
            f"was written by a newer kernlet ({library[:40]}, format "
            f"{version}); this one reads formats up to {FORMAT_VERSION}."
        )
    return MODEL(values, "")


def _refuse_constant(name: str) -> Any:
    raise ValueError(name)  # NaN and Infinity, which Python reads and JSON does not have


def _model(fields: dict[str, Any], tensors: Tensors) -> Model:
    fields["expansion"] = expansion = read_expansion(fields.pop("machine"), tensors)
    fields["scaler"] = tensors.affine_map("scaler") if fields["scaler"] else None
    fields["offset"] = fields["offset"] or 0.0
    fields["encoding"] = encoding = _encoding(fields["encoding"], fields.pop("positions"))
    if encoding is not None:
        fields["feature_names"] = encoding.feature_names
    if fields["kind"] == "classifier":
        fields["classes"] = _classes(fields["classes"], fields["scheme"], expansion.n_outputs)
    else:
        fields["classes"] = None
    model = Model(**fields)
    if not expansion.n_outputs or not expansion.centers.shape[1]:
        raise ModelFileError("has a machine without outputs, or without features.")
    passes = [getattr(c, "passes_missing", False) for c in getattr(encoding, "columns", ())]
    if any(passes) and model.missing == "error":
        raise ModelFileError("passes missing cells on to a machine that takes none.")
    n_features, names = model.n_features, model.feature_names
    if names is not None and len(names) != n_features:
        raise ModelFileError(f"has {len(names)} feature names for {n_features} features.")
    if model.scaler is not None and model.scaler.width not in (None, n_features):
        raise ModelFileError(f"has a scaler for {model.scaler.width} of {n_features} features.")
    matrix = None if model.scaler is None else model.scaler.matrix
    if matrix is not None and len(matrix) != model.expansion.n_features:
        raise ModelFileError("has a scaler that gives another number of features than it takes.")
    if model.kind == "regressor" and model.is_flat and model.expansion.n_outputs != 1:
        raise ModelFileError("has several outputs where one is expected.")
    _require_outputs(model)
    return model


def _require_outputs(model: Model) -> None:
    """Refuse quantiles and names that do not fit the outputs of a regressor."""
    for what, values in (("quantiles", model.quantiles), ("output names", model.output_names)):
        if values is None:
            continue
        if model.kind != "regressor" or len(values) != model.expansion.n_outputs:
            raise ModelFileError(
                f"has {len(values)} {what} for the {model.expansion.n_outputs} outputs of a "
                f"{model.kind}."
            )
    levels = model.quantiles or ()
    if any(low >= high for low, high in pairwise(levels)):
        raise ModelFileError("has quantiles that are not in ascending order.")


def _classes(fields: dict[str, Any] | None, scheme: str, n_outputs: int) -> Any:
    if fields is None:
        raise corrupt("classes must be an object")
    kind, values = fields["type"], fields["values"]
    k = len(values)
    expected = {"one output": 1, "one vs rest": k, "one vs one": k * (k - 1) // 2}[scheme]
    if n_outputs != expected or (scheme == "one output" and k != 2):
        raise ModelFileError(f"has {n_outputs} outputs for {k} classes ({scheme}).")
    if kind in ("str", "object"):
        texts = list_of(TEXT)(values, "classes.values")
        if _are_too_long(texts):
            raise ModelFileError("has class names that are too long.")
        classes: Any = np.array(texts, dtype=object if kind == "object" else str)
        if classes.tolist() != list(texts):
            raise ModelFileError("has a class name that ends with NUL, which NumPy would drop.")
    else:
        if not all(type(value) in (int, float, bool) for value in values):
            raise ModelFileError("has classes that are not numbers.")
        try:
            with np.errstate(invalid="ignore", over="ignore"):
                classes = np.array(values, dtype=kind)
        except OverflowError:
            classes = None
        if classes is None or classes.tolist() != values or not np.isfinite(classes).all():
            raise ModelFileError(f"has classes that are not of type {kind}.")
    if len(classes) < 2 or not (classes[:-1] < classes[1:]).all():
        raise ModelFileError("has fewer than two classes, or classes out of order or repeated.")
    return classes


def _encoding(
    columns: tuple[Any, ...] | None, positions: dict[str, Any] | None
) -> ColumnEncoding | None:
    if columns is None:
        return None
    # The name of a category column is part of the names of all its features, so that a small file
    # could claim many long names.
    sizes = [len(c.categories) + 2 if isinstance(c, CategoryColumn) else 1 for c in columns]
    lengths = (len(column.name) * size for column, size in zip(columns, sizes, strict=True))
    if sum(lengths) > _LARGEST_METADATA:
        raise ModelFileError("has column names that are too long.")
    kinds = {(column.name, isinstance(column, CategoryColumn)) for column in columns}
    if len(kinds) < len(columns) or not columns:
        raise ModelFileError("has a repeated column, or none.")
    if positions is None:
        return ColumnEncoding(columns)
    places, n_columns, has_names = positions.values()
    if len(places) != len(columns) or max(places) >= n_columns:
        raise ModelFileError("has columns without a position, or out of range.")
    return ColumnEncoding(columns, places, n_columns, has_names)
