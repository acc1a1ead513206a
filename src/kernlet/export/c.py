"""Export to C99: a model's numbers in packed arrays, and the code that evaluates them."""

from __future__ import annotations

import math
import re
import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from kernlet._typing import Floats, Indices
from kernlet.atomic import atomic_writes
from kernlet.expansion import KernelExpansion
from kernlet.export.c_integer import integer_code
from kernlet.export.c_interface import Interface, c_cell, render
from kernlet.export.c_names import (
    c_file_names,
    is_standard_header,
)
from kernlet.export.c_tables import Tables, is_packed, pack
from kernlet.export.code_size import CodeSize, size_report
from kernlet.export.rounding import (
    FLOAT32_TOLERANCE,
    Rounding,
    clear_of_thresholds,
    clear_rows,
    compare,
    require_close,
    rows_as_float32,
    same_classes,
)
from kernlet.export.toolchain import TARGETS
from kernlet.kernels.base import c_float
from kernlet.kernels.diagonal import DiagonalRBF
from kernlet.kernels.laplacian import Laplacian
from kernlet.kernels.rational_quadratic import RationalQuadratic
from kernlet.kernels.rbf import RBF
from kernlet.kernels.sigmoid import Sigmoid
from kernlet.model.model import Model, as_model
from kernlet.quantization import encode

#: Relative error of the exponential that needs no library.
EXP_ERROR = 3e-7
_MATH_CALL = re.compile(r"\b[a-z]\w*f\(")  # float functions of <math.h> end in f
# What the code of a kernel may use besides, which gets the prefix of all names.
_OWN_NAME = re.compile(r"\b(EXP|hyperbolic_tangent|log_plus_one|\w+_at)\b")
_LARGEST_SUM = 1e38  # a third of what float32 holds
_TEST_ROWS = 16
# NumPy adds the same float32 numbers in another order than the code: their errors are of the same
# size, but not equal. With this factor the code stays below half of what its test accepts.
_ERROR_FACTOR = 4.0
_BASE_ERROR = 2e-7  # of gamma x.z + coef0, relative
# Rows that the float32 check evaluates in NumPy: enough to meet most centers, few enough that the
# rows times the numbers of all centers stay below half a second of work.
_CHECKED_ROWS = (16, 300)
_CHECKED_DIFFERENCES = 500_000_000


@dataclass(frozen=True)
class CSource:
    """The files that :func:`kernlet.to_c` wrote, and what the storage cost.

    Parameters
    ----------
    folder : Path
        Where the files are.
    name : str
        Name of the files and prefix of all names in them.
    storage : str
        The format of the tables, also where "auto" chose it.
    exp : str
        The exponential: "polynomial" or "libm".
    table_bytes : int
        Bytes of all tables.
    rounding : Rounding
        Accuracy, agreement and largest error of a score, before and after.
    tolerance : float
        How far a score of the test program may be from Python's: a few times the largest error
        of float arithmetic that was measured.
    arithmetic : {"float", "integer"}
        Arithmetic of the code.
    bounds : tuple
        With integer arithmetic: what can occur at most, and what its type holds.
    single_header : bool
        Whether the header holds the source.
    """

    folder: Path
    name: str
    storage: str
    exp: str
    table_bytes: int
    rounding: Rounding
    tolerance: float
    arithmetic: str = "float"
    bounds: tuple[Any, ...] = ()
    single_header: bool = False

    @property
    def files(self) -> tuple[Path, ...]:
        """Header, source (unless the header has it), test program, example and Makefile."""
        names = c_file_names(self.name, single_header=self.single_header)
        return tuple(self.folder / name for name in names)

    def size_report(
        self, *, emulate: bool = True, targets: Sequence[str] = tuple(TARGETS)
    ) -> list[CodeSize]:
        """Flash, RAM, stack and instructions, see :func:`kernlet.export.size_report`."""
        if not self.single_header:
            return size_report(self.folder / f"{self.name}.c", emulate=emulate, targets=targets)
        with tempfile.TemporaryDirectory() as folder:
            for name in (f"{self.name}.h", f"test_{self.name}.c"):
                shutil.copy(self.folder / name, folder)
            source = Path(folder) / f"{self.name}.c"
            lines = (f"#define {self.name.upper()}_IMPLEMENTATION", f'#include "{self.name}.h"', "")
            source.write_text("\n".join(lines), "ascii")
            return size_report(source, emulate=emulate, targets=targets)


def to_c(
    model: Any,
    folder: str | PathLike[str],
    storage: str = "auto",
    *,
    X: Any = None,
    y: Any = None,
    exp: str = "polynomial",
    name: str = "model",
    arithmetic: str = "float",
    single_header: bool = False,
) -> CSource:
    """Write a machine as C99 source.

    The code allocates no memory. Its header has an example, names for features and classes, the
    size, and what the storage costs in accuracy. Of a machine that takes a table of columns, a
    second function turns the cells of a row into features. Beside it are an example, and a test
    program that compares the code with Python.

    Parameters
    ----------
    model : fitted estimator, KernelExpansion or a loaded model
        See :func:`kernlet.save`.
    folder : str or path
        Created if it does not exist.
    storage : {"auto", "float32", "float16", "int8", "stored"}, default="auto"
        Format of the numbers. "stored" keeps the packed arrays of a compact machine; "auto" is
        "stored" for machines that have them, and "float32" for others, or "int8" in integers.
    X : array-like of shape (n_samples, n_features), default=None
        Rows to compare on before and after, and for the test program; by default the centers of
        the machine, moved a little.
    y : array-like of shape (n_samples,), default=None
        Labels or targets of X, for the accuracy (or R2) before and after.
    exp : {"polynomial", "libm"}, default="polynomial"
        The exponential: a polynomial with a relative error below 3e-7 that needs no library, or
        expf. Linked, the polynomial is the smaller one on every target of
        :func:`kernlet.export.size_report`.
    name : str, default="model"
        Name of the files and prefix of all names in them.
    arithmetic : {"float", "integer"}, default="float"
        "integer" predicts without floating point, libraries and products of 64 bits, from inputs
        of 16 bits; tables are "stored", or "int8" where the machine has none. Its scores are
        bit by bit those of Python, and bounds prove that nothing overflows. X sets the ranges of
        the inputs: give rows that cover those of the device.
    single_header : bool, default=False
        Whether the header holds the source too, for one source file of a program that defines
        NAME_IMPLEMENTATION before it includes the header.

    Returns
    -------
    source : CSource

    Raises
    ------
    ValueError
        Where float32 cannot hold the machine or a row of X, or is not accurate enough to compute
        with it; where a class has a name, or the folder a Makefile, that cannot be kept.
    OSError
        Where the files cannot be written; then none of them is new.

    Examples
    --------
    >>> import tempfile
    >>> from sklearn.datasets import load_iris
    >>> from kernlet import CompactKernelClassifier, to_c
    >>> X, y = load_iris(return_X_y=True)
    >>> machine = CompactKernelClassifier(8, n_epochs=20, random_state=0).fit(X, y)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     source = to_c(machine, folder, storage="int8", X=X, y=y)
    >>> source.table_bytes, source.rounding.agreement
    (80, 1.0)
    """
    _check_options(name, exp, arithmetic)
    original = as_model(model)
    for label in [] if original.classes is None else original.classes.tolist():
        if "\0" in str(label):
            raise ValueError(
                f"The class {label!r:.100} contains a NUL character, which ends a string in C: "
                "rename the class."
            )
    options: dict[str, Any] = {"name": name, "single_header": single_header}
    if arithmetic == "integer":
        return _write(integer_code(original, storage, X, y, **options), Path(folder))
    return _write(_float_code(original, storage, X, y, exp=exp, **options), Path(folder))


def _check_options(name: str, exp: str, arithmetic: str) -> None:
    if exp not in ("polynomial", "libm"):
        raise ValueError(f"exp={exp!r} is not one of polynomial, libm.")
    if arithmetic not in ("float", "integer"):
        raise ValueError(f"arithmetic={arithmetic!r} is not one of float, integer.")
    if arithmetic == "integer" and exp != "polynomial":
        raise ValueError(f"exp={exp!r} is for float arithmetic; integers use a table of powers.")
    if not re.fullmatch(r"[A-Za-z][A-Za-z0-9_]*", name):
        raise ValueError(f"name={name!r} is not a name in C: give letters, digits and underscores.")
    if is_standard_header(name):
        raise ValueError(f"name={name!r} would hide <{name.lower()}.h>: give another name.")


def _write(code: Interface, folder: Path) -> CSource:
    """Render all files of a machine and write all or none."""
    source = CSource(
        folder,
        code.name,
        code.storage,
        code.exp,
        code.table_bytes,
        code.rounding,
        code.tolerance,
        code.arithmetic,
        tuple(code.bounds),
        code.single_header,
    )
    header, body, *others = (render(template, code) for template in code.templates)
    texts = [_joined(code, header, body)] if code.single_header else [header, body]
    texts += [*others, render("Makefile.jinja", code)]
    folder.mkdir(parents=True, exist_ok=True)
    _keep_other_makefile(source.files[-1], texts[-1])
    with atomic_writes(*source.files) as temporaries:
        for temporary, text in zip(temporaries, texts, strict=True):
            temporary.write_text(text, encoding="utf-8")
    return source


def _joined(code: Interface, header: str, body: str) -> str:
    """A header that holds the source for the file that defines NAME_IMPLEMENTATION."""
    macro = f"{code.macro}_IMPLEMENTATION"
    body = body.replace(f'#include "{code.name}.h"\n', "", 1)
    once = f"#ifndef KERNLET_{macro}\n#define KERNLET_{macro}"
    return f"{header}\n#ifdef {macro}\n{once}\n\n{body}\n#endif\n#endif\n"


def _keep_other_makefile(path: Path, text: str) -> None:
    """Refuse to replace a Makefile that :func:`to_c` did not write, unlike that of an export."""
    if path.is_file():
        first = path.read_text("utf-8", "replace").partition("\n")[0]
        if first != text.partition("\n")[0]:
            raise ValueError(
                f"{path} was not written by kernlet and would be replaced: give another folder."
            )


# -- Float arithmetic ------------------------------------------------------------------------------


def _float_code(original: Model, storage: str, X: Any, y: Any, **options: Any) -> _FloatCode:
    """The machine in float arithmetic, compared with the original."""
    if storage == "auto":
        storage = "stored" if is_packed(original.expansion) else "float32"
    rounded, tables = pack(original, storage)
    rounding, rows = compare(original, rounded, X, y)
    sample, tolerance = require_float32(rounded, tables, rows)
    return _FloatCode(
        storage=storage,
        model=original,
        rounded=rounded,
        tables=tables,
        rounding=rounding,
        sample=sample,
        tolerance=tolerance,
        X=X,
        **options,
    )


def require_float32(rounded: Model, tables: Tables, rows: Floats) -> tuple[Floats, float]:
    """Refuse a model that needs more than float32, by trying some hundreds of rows.

    Returns these rows, in float32, and how far scores of the code may be from exact ones.
    """
    fewest, most = _CHECKED_ROWS
    work = math.prod(tables.packed["centers"].shape)
    n_rows = min(most, max(fewest, _CHECKED_DIFFERENCES // max(1, work)))
    sample = rows_as_float32(rows[:: -(-len(rows) // n_rows)])
    sample = sample[clear_of_thresholds(rounded, sample)]
    exact = rounded.outputs(sample.astype(np.float64))
    outputs, sizes = tables.outputs(sample)
    same = rounded.classes is None or same_classes(
        rounded, exact, rounded.codes(outputs), rounded.codes(exact)
    )
    error = require_close("code", outputs.astype(np.float64), exact, same, FLOAT32_TOLERANCE)
    return sample, _rounded_up(float(_score_tolerance(rounded, error, sizes.max())))


def _rounded_up(tolerance: float) -> float:
    """A number of two digits, so that the header states what the test program accepts."""
    if tolerance == 0.0:  # of a constant machine
        return 0.0
    step = 10.0 ** (math.floor(math.log10(tolerance)) - 1)
    return float(f"{math.ceil(tolerance / step) * step:.1e}")


def _score_tolerance(rounded: Model, error: Any, size: Any) -> Any:
    """How far scores of the code may be off, from errors and sizes of outputs in float32."""
    tolerance = _ERROR_FACTOR * error + _relative_error(rounded.expansion) * size
    if rounded.votes:  # n + s / (3 (abs(s) + 1)), where s adds the outputs of n_classes - 1 pairs
        return len(rounded.classes) * np.maximum(tolerance / 3, EXP_ERROR)
    return tolerance


def _relative_error(expansion: KernelExpansion) -> float:
    """Of each term: the exponential of the code is less exact than that of NumPy."""
    kernel = expansion.kernel
    if isinstance(kernel, RationalQuadratic):  # a logarithm besides
        return 2 * EXP_ERROR
    # a power has the error of its base times its degree
    return max(EXP_ERROR, _BASE_ERROR * getattr(kernel, "degree", 0))


# -- What the templates ask for --------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class _FloatCode(Interface):
    """A model to be written in float, and what the templates ask of it."""

    arithmetic, input_type, score_type = "float", "float", "float"
    input_name = "features"
    templates = ("model.h.jinja", "model.c.jinja", "test.c.jinja", "example.c.jinja")
    exp_error = EXP_ERROR

    @property
    def has_one_score(self) -> bool:
        """Whether probabilities are a sigmoid, of two classes, and not a softmax."""
        return len(self.class_names) == 2 and self.n_scores == 1

    @property
    def uses_largest(self) -> bool:
        """Whether the class or its probabilities need the largest of several numbers."""
        has_softmax = bool(self.model.temperature) and not self.has_one_score
        is_counted = self.model.scheme == "one vs one" and not self.model.break_ties
        return has_softmax or is_counted or self.model.scheme == "one vs rest"

    @property
    def in_order(self) -> set[str]:
        """Ternary tables, read in order: one code by its number takes two run-time divisions."""
        names = ("projection", "centers", "coef", "log_weights")
        return {n for n in names if n in self.packed and self.packed[n].format.name == "ternary"}

    @property
    def arrays(self) -> list[tuple[str, str, list[str]]]:
        """Constant arrays, a projection that is read in order by features."""
        packed = self.packed
        if "projection" in self.in_order:
            projection = packed["projection"]
            codes = encode(projection.codes().T.astype(float), projection.format, 1.0)
            packed = packed | {"projection": codes}
        return self.constant_arrays(packed)

    @cached_property
    def kernel_code(self) -> str:
        """Statements that return the kernel's value."""
        return self._prefixed(self.kernel.c_code("sum"))

    @property
    def kernel_term(self) -> str:
        """What one feature adds to the sum of a translation-invariant kernel."""
        return self._prefixed(self.kernel.c_term)

    @property
    def feature_weights(self) -> tuple[float, float]:
        """What squares of differences are multiplied by, for the ternary codes -1 and 1."""
        step = np.float32(self.packed["log_weights"].step)
        return float(np.exp(-step)), float(np.exp(step))

    def _prefixed(self, code: str) -> str:
        """Code of a kernel with the prefix before the names of tables, functions and macros."""
        prefixes = {True: f"{self.macro}_", False: f"{self.name}_"}
        return _OWN_NAME.sub(lambda match: prefixes[match[0].isupper()] + match[0], code)

    @property
    def maps_features(self) -> bool:
        """Whether features change before the kernel."""
        return self.tables.map is not None or self.uses_tanh

    @property
    def largest_feature(self) -> float:
        """What mapped features are limited to, where sums of larger ones may be inf - inf.

        For bounded kernels: distances behind a projection, and inner products. Without a
        projection, a distance is infinite at worst, and its kernel value 0.
        """
        adds = "projection" in self.packed or self.tables.block > 1
        if not self.is_bounded or not (adds or self.uses_tanh):
            return 0.0
        largest = 1.0
        for name in ("projection", "centers") if self.uses_tanh else ("projection",):
            if name in self.packed:
                numbers = np.abs(self.packed[name].decoded().astype(float))
                largest *= max(1.0, float(numbers.max())) * numbers.shape[1]
        # a power of 2 is a short constant
        return 2.0 ** math.floor(math.log2(_LARGEST_SUM / largest))

    @property
    def largest_bits(self) -> int:
        """The same as the bits of a float, which compare as integers do."""
        return int(np.float32(self.largest_feature).view(np.uint32))

    @property
    def is_bounded(self) -> bool:
        """Whether the kernel is bounded, so that scores are finite for features of any size."""
        return type(self.kernel) in (RBF, DiagonalRBF, RationalQuadratic, Laplacian, Sigmoid)

    @property
    def about_numbers(self) -> str:
        """What NaN, infinities and large features give."""
        if self.missing == "median":
            return "A feature that is NaN is missing: the median of the training replaces it."
        if self.missing == "distance":
            return (
                "A feature that is NaN is missing, and is left out of distances, which are "
                "rescaled. Compilers that assume that there is no NaN (-ffast-math) break this."
            )
        text = "A feature that is NaN makes every score NaN"
        if self.model.classes is not None:
            outputs = np.full((1, self.expansion.n_outputs), np.nan)
            text += f" and the class {self.returned(self.model.codes(outputs))[0]}"
        if self.is_bounded:
            return f"{text}; all other features, infinite ones too, give finite scores."
        return f"{text}. Scores that do not fit in a float are infinite or NaN."

    @property
    def uses_tanh(self) -> bool:
        """Whether the kernel needs the template's hyperbolic tangent."""
        return "hyperbolic_tangent(" in self.kernel_code

    @property
    def uses_exp(self) -> bool:
        """Whether kernel or probabilities need an exponential."""
        is_called = "EXP(" in self.kernel_code or self.uses_tanh or "log_gamma" in self.packed
        return is_called or self.model.temperature is not None

    @property
    def uses_log(self) -> bool:
        """Whether the kernel or the map needs a logarithm."""
        return "log_plus_one(" in self.kernel_code or self.tables.is_asinh

    @property
    def uses_libm(self) -> bool:
        """Whether the code needs <math.h>."""
        calls_math = _MATH_CALL.search(self.kernel_code + self.kernel.c_term) is not None
        return calls_math or (self.uses_exp and self.exp == "libm")

    def mapped(self, value: str) -> str:
        """A feature i, or the mean of a block i, shifted and scaled, as an expression."""
        map, tables = self.tables.map, self.tables
        if map is None:
            return value
        shift, scale = c_float(map.shift[0]), c_float(map.scale[0])
        if "shift" in self.packed:
            shift = f"{self.times('shift')}{self.name}_shift_at(i)"
        if "scale" in self.packed:
            scale = f"{self.name}_scale_at(i)"
        if tables.divides:
            # by the reciprocal, as in Python: the last bit decides at the threshold of a step
            scale = f"({c_float(tables.factor)} / {scale})"
        return f"({value} - {shift}) * {scale}"

    @property
    def has_one_scale(self) -> bool:
        """Whether all features have the same shift and the same scale."""
        return not {"shift", "scale"} & set(self.packed)

    @property
    def has_empty_output(self) -> bool:
        """Whether no center has a coefficient of some output, which NaN would not reach."""
        outputs = self.tables.outputs_of_centers()
        return outputs is not None and len(np.unique(outputs)) < self.expansion.n_outputs

    @property
    def n_inputs(self) -> int:
        """Features that are left after means of blocks were taken."""
        return self.model.n_features // self.tables.block**2

    @property
    def side(self) -> int:
        """Pixels in a line of a square image."""
        return math.isqrt(self.model.n_features)

    def times(self, name: str) -> str:
        """The step of a table as a factor in front of its codes, where it is not 1."""
        step = self.packed[name].step
        return "" if step == 1.0 else f"{c_float(step)} * "

    def plus(self, value: float) -> str:
        """A constant as the last term of a sum, where it is not 0."""
        return "" if value == 0.0 else f" + {c_float(value)}"

    @cached_property
    def test(self) -> dict[str, Any]:
        """Rows of the test program, and what Python computes for them."""
        outputs = self._exact(self.sample)
        chosen = np.arange(len(outputs))
        if self.model.classes is not None:  # rows whose class float arithmetic cannot change
            clear = clear_rows(self.model, outputs, 2 * self.tolerance)
            chosen = clear if len(clear) else chosen
        spaced = np.linspace(0, len(chosen) - 1, min(_TEST_ROWS, len(chosen)))
        rows = self.sample[chosen[spaced.astype(np.intp)]]
        return {"rows": [", ".join(map(c_cell, row)) for row in rows], **self.expected(rows)}

    def expected(self, rows: Floats) -> dict[str, Any]:
        """Scores and classes of rows of features, as constants."""
        outputs = self._exact(rows)
        scores = self.model.scores(outputs).reshape(len(rows), -1)
        codes = [] if self.model.classes is None else self.returned(self.model.codes(outputs))
        return {
            "scores": [", ".join(map(c_float, row)) for row in scores],
            "classes": ", ".join(map(str, codes)),
        }

    def clear(self, rows: Floats) -> Indices:
        """Rows that float arithmetic computes within the tolerance and cannot misclassify."""
        exact = self._exact(rows)
        outputs, sizes = self.tables.outputs(rows)
        errors = np.abs(outputs - exact).max(axis=1)
        tolerances = _score_tolerance(self.rounded, errors, sizes.max(axis=1))
        clear = np.intersect1d(
            np.flatnonzero(tolerances <= self.tolerance), clear_of_thresholds(self.rounded, rows)
        )
        if self.model.classes is not None:
            clear = np.intersect1d(clear, clear_rows(self.model, exact, 2 * self.tolerance))
        return clear

    def _exact(self, rows: Floats) -> Floats:
        """The outputs in Python."""
        return self.rounded.outputs(rows.astype(np.float64))
