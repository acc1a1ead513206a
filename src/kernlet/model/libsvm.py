"""Reading the model files that LIBSVM's svm-train writes."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from kernlet._typing import Floats
from kernlet.kernels.base import Kernel

_LARGEST = 2**31 - 1  # LIBSVM's counts, labels and feature numbers are C ints


@dataclass(frozen=True, eq=False)
class LibsvmModel:
    """What a LIBSVM file says, in LIBSVM's own conventions.

    Parameters
    ----------
    kernel : Kernel
    centers : {ndarray, csr array} of shape (n_centers, n_features)
        The support vectors ordered by class, in whichever form takes fewer bytes.
    dual_coef : ndarray of shape (n_classes - 1, n_centers)
    rho : ndarray of shape (n_pairs,)
        The output of a pair of labels is sum coef k(x, center) - rho, positive for the label
        that comes first in ``labels``.
    labels : ndarray of shape (n_classes,)
        In the order of the file.
    n_support : ndarray of shape (n_classes,)
    """

    kernel: Kernel
    centers: Any
    dual_coef: Floats
    rho: Floats
    labels: Any
    n_support: Any


def read_libsvm(path: str | PathLike[str], n_features: int | None = None) -> LibsvmModel:
    """Read a classifier that LIBSVM saved.

    Memory grows with the file, whatever numbers its header claims.

    Parameters
    ----------
    path : str or path
    n_features : int or None, default=None
        Width of the input; None for the largest feature number in the file. LIBSVM leaves
        zeros out, so that the last features of the data may occur in no support vector.

    Returns
    -------
    model : LibsvmModel

    Raises
    ------
    ValueError
        For a damaged file, naming the line, and for a model that is no classifier or has a
        precomputed kernel.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> from kernlet.model.libsvm import read_libsvm
    >>> text = '''svm_type c_svc
    ... kernel_type linear
    ... nr_class 2
    ... total_sv 2
    ... rho 0
    ... label 1 -1
    ... nr_sv 1 1
    ... SV
    ... 0.5 1:1
    ... -0.5 1:-1
    ... '''
    >>> with TemporaryDirectory() as folder:
    ...     path = Path(folder) / "line.model"
    ...     _ = path.write_text(text)
    ...     read_libsvm(path).centers
    array([[ 1.],
           [-1.]])
    """
    with Path(path).open(encoding="ascii", errors="replace") as file:
        lines = _Lines(file)
        try:
            header = _read_header(lines)
            rows = _read_rows(lines, header, n_features)
        except ValueError as error:
            raise ValueError(f"{path}, line {max(1, lines.number)}: {error}") from None
    return _model(header, rows, n_features)


class _Lines:
    """Lines as lists of words, with the number of the one read last."""

    def __init__(self, file: Iterable[str]) -> None:
        self._file = file
        self.number = 0

    def __iter__(self) -> Iterator[list[str]]:
        for line in self._file:
            self.number += 1
            if not line.endswith("\n"):
                raise ValueError(
                    "the line has no end, so that the file seems cut short. Copy it again, or "
                    "end its last line if it is whole."
                )
            if words := line.split():
                yield words


@dataclass(frozen=True, eq=False)
class _Rows:
    """The support vectors as they are read."""

    coef: list[list[float]]
    values: list[float]
    columns: list[int]
    starts: list[int]


def _number(word: str) -> float:
    try:
        number = float(word)
    except ValueError:
        number = math.nan
    if not math.isfinite(number) or "_" in word:
        raise ValueError(f"{word[:40]!r} is no finite number.")
    return number


def _whole(word: str, smallest: int = -_LARGEST - 1) -> int:
    digits = word.removeprefix("-")
    if not digits.isdecimal() or len(digits) > 10 or not smallest <= int(word) <= _LARGEST:
        raise ValueError(f"{word[:40]!r} is no whole number from {smallest} to {_LARGEST}.")
    return int(word)


def _single(words: list[str]) -> str:
    if len(words) != 1:
        raise ValueError(f"one value is expected, not {len(words)}.")
    return words[0]


def _choice(words: list[str], choices: dict[str, str], what: str) -> str:
    word = _single(words)
    if word not in choices:
        raise ValueError(f"{what} {word[:40]!r} is none of {', '.join(choices)}.")
    return choices[word]


def _svm_type(words: list[str]) -> str:
    if words in (["one_class"], ["epsilon_svr"], ["nu_svr"]):
        raise ValueError(
            f"svm_type {words[0]} is no classifier. Give a model of type c_svc or nu_svc "
            "(svm-train -s 0 or -s 1)."
        )
    return _choice(words, {"c_svc": "c_svc", "nu_svc": "nu_svc"}, "svm_type")


def _kernel_type(words: list[str]) -> str:
    if words == ["precomputed"]:
        raise ValueError(
            "a precomputed kernel has no points to keep. Train with one of LIBSVM's own kernels "
            "(svm-train -t 0 to -t 3)."
        )
    names = {"linear": "linear", "polynomial": "poly", "rbf": "rbf", "sigmoid": "sigmoid"}
    return _choice(words, names, "kernel_type")


def _gamma(words: list[str]) -> float:
    gamma = _number(_single(words))
    if gamma < 0:
        raise ValueError(f"gamma {gamma} is negative.")
    return gamma


_FIELDS: dict[str, Callable[[list[str]], Any]] = {
    "svm_type": _svm_type,
    "kernel_type": _kernel_type,
    "degree": lambda words: _whole(_single(words), 1),
    "gamma": _gamma,
    "coef0": lambda words: _number(_single(words)),
    "nr_class": lambda words: _whole(_single(words), 2),
    "total_sv": lambda words: _whole(_single(words), 1),
    "rho": lambda words: [_number(word) for word in words],
    "label": lambda words: [_whole(word) for word in words],
    "nr_sv": lambda words: [_whole(word, 0) for word in words],
    "probA": len,  # of the probability estimates, which adoption does not use
    "probB": len,
    "prob_density_marks": len,
}
_ALWAYS = ("svm_type", "kernel_type", "nr_class", "total_sv", "rho", "label", "nr_sv")
_OF_KERNEL = {
    "linear": (),
    "poly": ("degree", "gamma", "coef0"),
    "rbf": ("gamma",),
    "sigmoid": ("gamma", "coef0"),
}


def _read_header(lines: _Lines) -> dict[str, Any]:
    """The fields above the line SV, which agree with each other."""
    header: dict[str, Any] = {}
    for field, *words in lines:
        if field == "SV" and not words:
            _check_header(header)
            return header
        if field not in _FIELDS:
            raise ValueError(f"{field[:40]!r} is no field of a LIBSVM model file.")
        if field in header:
            raise ValueError(f"{field} is given twice.")
        header[field] = _FIELDS[field](words)
    raise ValueError("the file ends before its support vectors: it is damaged or no LIBSVM model.")


def _check_header(header: dict[str, Any]) -> None:
    needed = (*_ALWAYS, *_OF_KERNEL.get(header.get("kernel_type", ""), ()))
    if missing := [field for field in needed if field not in header]:
        raise ValueError(f"the header ends without {', '.join(missing)}.")
    n_classes = header["nr_class"]
    for field, count in (("label", n_classes), ("nr_sv", n_classes), ("rho", _pairs(n_classes))):
        if len(header[field]) != count:
            raise ValueError(
                f"nr_class {n_classes} needs {count} values of {field}, not {len(header[field])}."
            )
    if len(set(header["label"])) < n_classes:
        raise ValueError("a label is given twice.")
    if sum(header["nr_sv"]) != header["total_sv"]:
        raise ValueError(f"nr_sv adds up to {sum(header['nr_sv'])}, not to {header['total_sv']}.")


def _pairs(n_classes: int) -> int:
    return n_classes * (n_classes - 1) // 2


def _read_rows(lines: _Lines, header: dict[str, Any], n_features: int | None) -> _Rows:
    """The lines below SV: n_classes - 1 coefficients, then feature:value."""
    rows = _Rows([], [], [], [0])
    n_coef, total = header["nr_class"] - 1, header["total_sv"]
    for words in lines:
        if len(rows.coef) == total:
            raise ValueError(f"there are more support vectors than total_sv {total}.")
        if len(words) < n_coef:
            raise ValueError(f"a support vector needs {n_coef} coefficients, not {len(words)}.")
        rows.coef.append([_number(word) for word in words[:n_coef]])
        _read_entries(words[n_coef:], rows, n_features or _LARGEST)
    if len(rows.coef) < total:
        raise ValueError(f"the file ends after {len(rows.coef)} of {total} support vectors.")
    if not rows.columns and not n_features:
        raise ValueError("no support vector has a nonzero feature. Give n_features.")
    return rows


def _read_entries(words: list[str], rows: _Rows, n_features: int) -> None:
    last = 0
    for word in words:
        feature, colon, value = word.partition(":")
        if not colon:
            raise ValueError(f"{word[:40]!r} is no feature:value.")
        number = _whole(feature, 1)
        if number > n_features:
            raise ValueError(f"feature {number} does not fit into n_features={n_features}.")
        if number <= last:
            raise ValueError(f"feature {number} comes after feature {last}, out of order.")
        rows.columns.append(number - 1)
        rows.values.append(_number(value))
        last = number
    rows.starts.append(len(rows.columns))


def _model(header: dict[str, Any], rows: _Rows, n_features: int | None) -> LibsvmModel:
    return LibsvmModel(
        kernel=Kernel.from_dict({**header, "name": header["kernel_type"]}),
        centers=_centers(rows, n_features or max(rows.columns) + 1),
        dual_coef=np.array(rows.coef).T,
        rho=np.array(header["rho"]),
        labels=np.array(header["label"]),
        n_support=np.array(header["nr_sv"]),
    )


def _centers(rows: _Rows, n_features: int) -> Any:
    """The support vectors, dense where that takes fewer bytes."""
    shape = (len(rows.coef), n_features)
    centers = sparse.csr_array((rows.values, rows.columns, rows.starts), shape=shape, dtype=float)
    stored = centers.data.nbytes + centers.indices.nbytes + centers.indptr.nbytes
    return centers.toarray() if 8 * shape[0] * shape[1] <= stored else centers
