"""Writing a machine: a .safetensors file whose metadata says what the tensors are."""

from __future__ import annotations

import json
from collections.abc import Sequence
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from kernlet import __version__
from kernlet.affine import AffineMap
from kernlet.export.encoding import NumberColumn
from kernlet.export.shipped import ShippedModel, ship
from kernlet.export.tensors import DIGEST_KEY, digest
from kernlet.files import written_whole
from kernlet.kernels import RBF, Kernel, Linear, Polynomial, Sigmoid
from kernlet.kernels.widths import CenterWidths
from kernlet.quantized import QuantizedExpansion

FORMAT_VERSION = 1
LARGEST_METADATA = 8 << 20  # bytes
METADATA_KEY = "kernlet"

Tensors = dict[str, Any]


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

    tensors, metadata = described(ship(model))
    text = json.dumps(metadata, allow_nan=False)
    if len(text) > LARGEST_METADATA:
        raise ValueError(
            f"The names and the summary of this machine take {len(text)} bytes, more than the "
            f"{LARGEST_METADATA} that a file may have."
        )
    tensors = {name: np.ascontiguousarray(tensor) for name, tensor in tensors.items()}
    content = packed(tensors, {METADATA_KEY: text, DIGEST_KEY: digest(text, tensors)})
    with written_whole(Path(path)) as temporary:
        temporary.write_bytes(content)


def described(model: ShippedModel) -> tuple[Tensors, dict[str, Any]]:
    """The tensors of a machine, and the rest of it as JSON values."""
    tensors: Tensors = {}
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


def _describe_expansion(expansion: Any, tensors: Tensors) -> dict[str, Any]:
    tensors["intercept"] = expansion.intercept
    if isinstance(expansion, QuantizedExpansion):
        return _describe_tables(expansion, tensors)
    tensors["coef"] = _floats(expansion.coef)
    words = {"kernel": describe_kernel(expansion.kernel), "front": _front(expansion.front, tensors)}
    if isinstance(expansion.kernel, CenterWidths):
        tensors["gamma"] = expansion.kernel.gamma
    if not sparse.issparse(expansion.centers):
        tensors["centers"] = _floats(expansion.centers)
        return words
    centers = expansion.centers
    tensors["centers.data"] = _floats(centers.data)
    tensors["centers.indices"] = centers.indices.astype(np.int64)
    tensors["centers.indptr"] = centers.indptr.astype(np.int64)
    return words | {"n_features": int(centers.shape[1])}


def _describe_tables(expansion: QuantizedExpansion, tensors: Tensors) -> dict[str, Any]:
    tensors["gamma"] = expansion.gamma
    words: dict[str, Any] = {}
    for name, table in expansion.tables.items():
        if table is not None:
            tensors[name] = table.data
            words[name] = {
                "format": table.format.name,
                "shape": list(table.shape),
                "step": float(table.step),
            }
    assert expansion.front is not None
    shift = float(expansion.front.shift[0])
    return {"tables": words, "shift": shift, "scale": expansion.input_scale}


def describe_kernel(kernel: Kernel) -> dict[str, Any]:
    """A kernel in words.

    Examples
    --------
    >>> from kernlet.export.model_file import describe_kernel
    >>> from kernlet.kernels import RBF
    >>> describe_kernel(RBF(0.5))
    {'name': 'rbf', 'gamma': 0.5}
    """
    if type(kernel) is RBF:
        return {"name": "rbf", "gamma": float(kernel.gamma)}
    if type(kernel) is CenterWidths:
        return {"name": "rbf of several widths"}
    if type(kernel) is Linear:
        return {"name": "linear"}
    if type(kernel) is Sigmoid:
        return {"name": "sigmoid", "gamma": float(kernel.gamma), "coef0": float(kernel.coef0)}
    if type(kernel) is Polynomial:
        return {
            "name": "poly",
            "gamma": float(kernel.gamma),
            "degree": int(kernel.degree),
            "coef0": float(kernel.coef0),
        }
    raise ValueError(
        f"{kernel!r} is code, and a file holds none: machines of rbf, poly, linear and sigmoid "
        "kernels can be saved and exported."
    )


def _front(front: AffineMap | None, tensors: Tensors) -> bool:
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
