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
from kernlet.kernels.polynomial import Polynomial

_LARGEST_INT = 2**31 - 1  # LIBSVM's counts, labels and feature numbers are C ints
_DEGREES = tuple(map(int, Polynomial.limits["degree"]))
_LARGEST_MACHINE = 2**26  # coefficients, one per pair of classes and support vector: 512 MiB

# The format. A header of one field per line ("gamma 0.5", "nr_sv 12 9"), the line "SV", then one
# line per support vector, ordered by class: n_classes - 1 coefficients and feature:value pairs in
# ascending order, zeros left out. Regression and one-class machines have nr_class 2, one rho and
# neither label nor nr_sv. LIBSVM's own reader trusts the file. This one must not, since
# files come from other people: every number is checked, nothing is allocated because a header
# claims a size, and each error names its line.


@dataclass(frozen=True, eq=False)
class LibsvmModel:
    """What a LIBSVM file contains, in LIBSVM's conventions.

    The output of a pair of labels is sum dual_coef k(x, center) - rho, positive for the label
    that comes first in ``labels``, which are in the order of the file. Machines of other types
    than c_svc and nu_svc have one output, and no labels and n_support.
    """

    svm_type: str
    kernel: Kernel
    centers: Any
    dual_coef: Floats
    rho: Floats
    labels: Any
    n_support: Any


def read_libsvm(path: str | PathLike[str], n_features: int | None = None) -> LibsvmModel:
    """Read a machine that LIBSVM saved: a classifier, a regressor or a one-class machine.

    ``n_features`` is by default the largest feature number in the file. LIBSVM leaves zeros
    out, so that the last features of the data may be missing from all support vectors.
    """
    with Path(path).open(encoding="ascii", errors="replace") as file:
        lines = _Lines(file)
        try:
            return _read_vectors(lines, _read_header(lines), n_features)
        except ValueError as error:
            raise ValueError(f"{path}, line {max(1, lines.number)}: {error}") from None


class _Lines:
    """Lines split at white space, with the number of the last one read."""

    def __init__(self, file: Iterable[str]) -> None:
        self._file = file
        self.number = 0

    def __iter__(self) -> Iterator[list[str]]:
        for line in self._file:
            self.number += 1
            if not line.endswith("\n"):
                raise ValueError(
                    "the line does not end with a newline: the file looks truncated. Copy it "
                    "again, or add a newline if it is complete."
                )
            if words := line.split():
                yield words


def _number(word: str) -> float:
    try:
        number = float(word)
    except ValueError:
        number = math.nan
    if not math.isfinite(number) or "_" in word:
        raise ValueError(f"{word[:40]!r} is not a finite number.")
    return number


def _whole(word: str, smallest: int = -_LARGEST_INT - 1, largest: int = _LARGEST_INT) -> int:
    digits = word.removeprefix("-")
    if not digits.isdecimal() or len(digits) > 10 or not smallest <= int(word) <= largest:
        raise ValueError(f"{word[:40]!r} is not an integer from {smallest} to {largest}.")
    return int(word)


def _single(words: list[str]) -> str:
    if len(words) != 1:
        raise ValueError(f"one value is expected, not {len(words)}.")
    return words[0]


def _choice(words: list[str], what: str, choices: dict[str, str], refused: str, why: str) -> str:
    """One of the names, translated; ``refused`` names get a separate reason."""
    word = _single(words)
    if word in refused.split():
        raise ValueError(f"{what} {word} {why}")
    if word not in choices:
        raise ValueError(f"{what} {word[:40]!r} is not one of {', '.join(choices)}.")
    return choices[word]


def _svm_type(words: list[str]) -> str:
    names = ("c_svc", "nu_svc", "one_class", "epsilon_svr", "nu_svr")
    return _choice(words, "svm_type", dict(zip(names, names, strict=True)), "", "")


def _kernel_type(words: list[str]) -> str:
    why = "has no points to keep. Train with one of LIBSVM's own kernels (svm-train -t 0 to -t 3)."
    choices = {"linear": "linear", "polynomial": "poly", "rbf": "rbf", "sigmoid": "sigmoid"}
    return _choice(words, "kernel_type", choices, "precomputed", why)


def _gamma(words: list[str]) -> float:
    gamma = _number(_single(words))
    if gamma < 0:
        raise ValueError(f"gamma {gamma} is negative.")
    return gamma


_FIELDS: dict[str, Callable[[list[str]], Any]] = {
    "svm_type": _svm_type,
    "kernel_type": _kernel_type,
    "degree": lambda words: _whole(_single(words), *_DEGREES),
    "gamma": _gamma,
    "coef0": lambda words: _number(_single(words)),
    "nr_class": lambda words: _whole(_single(words), 2),
    "total_sv": lambda words: _whole(_single(words), 1),
    "rho": lambda words: [_number(word) for word in words],
    "label": lambda words: [_whole(word) for word in words],
    "nr_sv": lambda words: [_whole(word, 0) for word in words],
    "probA": len,  # for probability estimates, or the noise of a regressor: not used
    "probB": len,
    "prob_density_marks": len,
}
_REQUIRED_FIELDS = ("svm_type", "kernel_type", "nr_class", "total_sv", "rho")
_CLASS_FIELDS = ("label", "nr_sv")
_KERNEL_FIELDS = {
    "linear": (),
    "poly": ("degree", "gamma", "coef0"),
    "rbf": ("gamma",),
    "sigmoid": ("gamma", "coef0"),
}


def _read_header(lines: _Lines) -> dict[str, Any]:
    """The fields above the line SV, checked against each other."""
    header: dict[str, Any] = {}
    for field, *words in lines:
        if field == "SV" and not words:
            _check_header(header)
            return header
        if field not in _FIELDS:
            raise ValueError(f"{field[:40]!r} is not a field of a LIBSVM model file.")
        if field in header:
            raise ValueError(f"{field} is given twice.")
        header[field] = _FIELDS[field](words)
    raise ValueError(
        "the file ends before its support vectors: it is corrupt or not a LIBSVM model."
    )


def _check_header(header: dict[str, Any]) -> None:
    kind = header.get("svm_type", "c_svc")
    needed = (*_REQUIRED_FIELDS, *_KERNEL_FIELDS.get(header.get("kernel_type", ""), ()))
    if kind in ("c_svc", "nu_svc"):
        needed += _CLASS_FIELDS
    elif extra := [field for field in _CLASS_FIELDS if field in header]:
        raise ValueError(f"svm_type {kind} has no classes, but the file has {extra[0]}.")
    if missing := [field for field in needed if field not in header]:
        raise ValueError(f"the header ends without {', '.join(missing)}.")
    n_classes = header["nr_class"]
    n_pairs = n_classes * (n_classes - 1) // 2
    if "label" not in header:
        if n_classes != 2 or len(header["rho"]) != 1:
            raise ValueError(f"svm_type {kind} needs nr_class 2 and one value of rho.")
        return
    for field, count in (("label", n_classes), ("nr_sv", n_classes), ("rho", n_pairs)):
        if len(header[field]) != count:
            raise ValueError(
                f"nr_class {n_classes} needs {count} values of {field}, not {len(header[field])}."
            )
    if len(set(header["label"])) < n_classes:
        raise ValueError("a label is given twice.")
    if sum(header["nr_sv"]) != header["total_sv"]:
        raise ValueError(f"nr_sv adds up to {sum(header['nr_sv'])}, not to {header['total_sv']}.")


def _read_vectors(lines: _Lines, header: dict[str, Any], n_features: int | None) -> LibsvmModel:
    """The lines below SV, and the model they complete."""
    n_coef, total = header["nr_class"] - 1, header["total_sv"]
    coef: list[list[float]] = []
    values: list[float] = []
    columns: list[int] = []
    starts = [0]
    for words in lines:
        if len(coef) == total:
            raise ValueError(f"there are more support vectors than total_sv {total}.")
        if len(words) < n_coef:
            raise ValueError(f"a support vector needs {n_coef} coefficients, not {len(words)}.")
        coef.append([_number(word) for word in words[:n_coef]])
        for feature, value in _entries(words[n_coef:], n_features or _LARGEST_INT):
            columns.append(feature - 1)
            values.append(value)
        starts.append(len(columns))
    if len(coef) < total:
        raise ValueError(f"the file ends after {len(coef)} of {total} support vectors.")
    if total * len(header["rho"]) > _LARGEST_MACHINE:
        raise ValueError(
            f"{n_coef + 1} classes and {total} support vectors make more than {_LARGEST_MACHINE} "
            "coefficients: train with fewer classes or rows."
        )
    if not columns and not n_features:
        raise ValueError("no support vector has a nonzero feature. Give n_features.")
    shape = (total, n_features or max(columns) + 1)
    labels, n_support = header.get("label"), header.get("nr_sv")
    return LibsvmModel(
        svm_type=header["svm_type"],
        kernel=Kernel.from_dict({**header, "name": header["kernel_type"]}),
        centers=_smaller(sparse.csr_array((values, columns, starts), shape=shape, dtype=float)),
        dual_coef=np.array(coef).T,
        rho=np.array(header["rho"]),
        labels=None if labels is None else np.array(labels),
        n_support=None if n_support is None else np.array(n_support),
    )


def _entries(words: list[str], n_features: int) -> Iterator[tuple[int, float]]:
    last = 0
    for word in words:
        feature, colon, value = word.partition(":")
        if not colon:
            raise ValueError(f"{word[:40]!r} is not feature:value.")
        number = _whole(feature, 1)
        if number > n_features:
            raise ValueError(f"feature {number} does not fit into n_features={n_features}.")
        if number <= last:
            raise ValueError(f"feature {number} comes after feature {last}, out of order.")
        yield number, _number(value)
        last = number


def _smaller(centers: Any) -> Any:
    """A sparse matrix, dense where that takes fewer bytes."""
    stored = centers.data.nbytes + centers.indices.nbytes + centers.indptr.nbytes
    return centers.toarray() if 8 * centers.shape[0] * centers.shape[1] <= stored else centers
