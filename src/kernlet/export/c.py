"""Export to C99: a model's numbers in packed arrays, and the code that evaluates them."""

from __future__ import annotations

import math
import re
import shutil
import subprocess
import tempfile
from dataclasses import dataclass, replace
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import Any

import jinja2
import numpy as np

from kernlet import __version__
from kernlet._typing import Floats
from kernlet.affine import AffineMap, compose
from kernlet.atomic import atomic_write
from kernlet.expansion import KernelExpansion
from kernlet.export.rounding import (
    FLOAT32_TOLERANCE,
    Rounding,
    compare,
    dense_points,
    require_close,
    same_classes,
)
from kernlet.kernels.base import Kernel, c_float
from kernlet.model.model import Model, as_model
from kernlet.quantization import FORMATS, PackedArray, QuantizedExpansion, encode

#: Relative error of the exponential that needs no library.
EXP_ERROR = 3e-7
STORAGES = ("float32", "float16", "int8", "stored")
_C_TYPES = {"float32": "float", "float16": "uint16_t", "int8": "int8_t"}  # bytes otherwise
_MATH_CALL = re.compile(r"\b[a-z]\w*f\(")  # float functions of <math.h> end in f
_TEST_ROWS = 16
_LISTED_FEATURES = 1000
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
    name : str
        Of the files and the prefix of all names in them.
    storage : str
    table_bytes : int
        Bytes of all tables.
    rounding : Rounding
        Accuracy, agreement and largest error of a score, before and after.
    """

    folder: Path
    name: str
    storage: str
    table_bytes: int
    rounding: Rounding

    @property
    def files(self) -> tuple[Path, ...]:
        """Header, source, test program and Makefile."""
        names = (f"{self.name}.h", f"{self.name}.c", f"test_{self.name}.c", "Makefile")
        return tuple(self.folder / name for name in names)

    def size_report(self) -> list[CodeSize]:
        """Bytes of flash and RAM, for each compiler that is installed."""
        return size_report(self.folder / f"{self.name}.c")


def to_c(
    model: Any,
    folder: str | PathLike[str],
    storage: str = "float32",
    *,
    X: Any = None,
    y: Any = None,
    exp: str = "libm",
    name: str = "model",
) -> CSource:
    """Write a machine as C99 source.

    The code allocates no memory and computes in float. Its header documents the order of the
    features, the names of the classes, the size, and what the storage costs in accuracy.

    Parameters
    ----------
    model : fitted estimator, KernelExpansion or a loaded model
        See :func:`kernlet.save`.
    folder : str or path
        Created if it does not exist.
    storage : {"float32", "float16", "int8", "stored"}, default="float32"
        Format of the numbers. "stored" keeps the packed arrays of a compact machine.
    X : array-like of shape (n_samples, n_features), default=None
        Rows to compare on before and after, and for the test program; by default the centers of
        the machine, moved a little.
    y : array-like of shape (n_samples,), default=None
        Labels or targets of X, for the accuracy (or R2) before and after.
    exp : {"libm", "polynomial"}, default="libm"
        The exponential: expf, or a polynomial with a relative error below 3e-7 that needs no
        library.
    name : str, default="model"
        Name of the files and prefix of all names in them.

    Returns
    -------
    source : CSource

    Raises
    ------
    ValueError
        Where float32 cannot hold the machine, or is not accurate enough to compute with it.

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
    if exp not in ("libm", "polynomial"):
        raise ValueError(f"exp={exp!r} is not one of libm, polynomial.")
    if not re.fullmatch(r"[A-Za-z][A-Za-z0-9_]*", name):
        raise ValueError(f"name={name!r} is not a name in C: give letters, digits and underscores.")
    original = as_model(model)
    rounded, packed = pack(original, storage)
    rounding, rows = compare(original, rounded, X, y)
    require_float32(rounded, packed, rows)
    code = _Code(name, storage, exp, original, rounded, packed, rounding, rows[:_TEST_ROWS])
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    source = CSource(folder, name, storage, code.table_bytes, rounding)
    for path, text in zip(source.files, _render(code), strict=True):
        with atomic_write(path) as temporary:
            temporary.write_text(text, encoding="ascii")
    return source


def _render(code: _Code) -> list[str]:
    """Header, source, test program and Makefile."""
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("kernlet.export"),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,
    )
    environment.filters |= {"comment": c_comment, "c_string": c_string, "number": c_float}
    templates = ("model.h.jinja", "model.c.jinja", "test.c.jinja", "Makefile.jinja")
    return [environment.get_template(template).render(code=code) for template in templates]


# -- Packing ---------------------------------------------------------------------------------------
#
# The code evaluates, for a row x of features,
#
#     u = projection ((x - shift) * scale),
#     f_c(x) = sum_j coef[j, c] k(u, centers[j]) + intercept[c].
#
# Every packed array is a table of codes times a step. The step of the centers would cost one
# multiplication for every number of every center. It is therefore moved into what is computed
# once: u and the centers are both divided by it, the kernel is replaced by the one in these units,
# and the codes of the centers are used as they are. Kernels of x.z need only the centers divided.
#
# Rounding to float16 or int8 is finest near 0, so the centers are first shifted to the middle of
# their range where the kernel is translation invariant.


def pack(model: Model, storage: str) -> tuple[Model, dict[str, PackedArray]]:
    """The model after its numbers were rounded, and these numbers: centers, coef, projection."""
    expansion = model.expansion
    expansion.kernel.to_dict()  # refuses a kernel without a name
    if storage not in STORAGES:
        raise ValueError(f"storage={storage!r} is not one of {', '.join(STORAGES)}.")
    if not expansion.n_centers:
        raise ValueError("A machine without centers is a constant; there is nothing to export.")
    own = getattr(expansion, "storage", {})
    if storage == "stored" or set(own.values()) == {storage} != {"float32"}:
        map, kernel, packed = model.input_map, expansion.kernel, _stored(expansion)
    else:
        map, centers, kernel = _frame(model, storage)
        arrays = {"centers": centers, "coef": expansion.coef.T}
        if map is not None and map.matrix is not None:
            arrays["projection"] = map.matrix
        packed = {name: encode(array, FORMATS[storage]) for name, array in arrays.items()}
    map, kernel, packed = _in_steps_of_the_centers(map, kernel, packed)
    rounded = KernelExpansion(
        kernel,
        packed["centers"].decoded(),
        packed["coef"].decoded().T,
        np.asarray(expansion.intercept, dtype=np.float32),
        map,
    )
    return replace(model, expansion=rounded, scaler=None), packed


def _stored(expansion: KernelExpansion) -> dict[str, PackedArray]:
    """The packed arrays of a compact machine, the coefficients transposed for the code."""
    if not isinstance(expansion, QuantizedExpansion):
        raise ValueError(
            'storage="stored" is for machines that hold packed arrays, of CompactKernelClassifier '
            'and CompactKernelRegressor; give "float32", "float16" or "int8".'
        )
    coef = expansion.packed["coef"]
    step = coef.step if coef.format.has_step else None
    packed = expansion.packed | {"coef": encode(coef.decoded().T, coef.format, step)}
    return {name: array for name, array in packed.items() if array is not None}


def _frame(model: Model, storage: str) -> tuple[AffineMap | None, Floats, Kernel]:
    """Input map, centers and kernel about 0, where the kernel allows it."""
    map, kernel = model.input_map, model.expansion.kernel
    centers = dense_points(model.expansion.centers)
    if not kernel.is_translation_invariant or (map is not None and map.matrix is not None):
        return map, centers, kernel
    if storage == "float32":
        if map is not None and len(map.scale) == len(map.shift) == 1:
            # One scale and one shift for all features can be taken into the centers.
            scale = float(map.scale[0])
            return None, centers / scale + map.shift.astype(float), kernel.scaled(scale)[0]
        return map, centers, kernel
    middle = _middle(centers)
    around = AffineMap(middle, np.ones(1))
    return compose(map, around), centers - middle, kernel


def _middle(centers: Floats) -> Floats:
    """The middle of all numbers, or of each feature where that halves the largest."""
    low, high = centers.min(axis=0), centers.max(axis=0)
    if 2 * (high - low).max() < high.max() - low.min():
        return (low + high) / 2
    return np.array([(low.min() + high.max()) / 2])


def _in_steps_of_the_centers(
    map: AffineMap | None, kernel: Kernel, packed: dict[str, PackedArray]
) -> tuple[AffineMap | None, Kernel, dict[str, PackedArray]]:
    """The same function with centers of step 1, and the input map rounded to float32."""
    packed, step = dict(packed), packed["centers"].step
    if step != 1.0:
        kernel, factor = kernel.scaled(step)
        packed["centers"] = replace(packed["centers"], step=1.0)
        packed["coef"] = _with_step(packed["coef"], packed["coef"].step * factor)
        if kernel.is_translation_invariant and "projection" in packed:
            projection = packed["projection"]
            packed["projection"] = _with_step(projection, projection.step / step)
        elif kernel.is_translation_invariant:
            map = compose(map, AffineMap(np.zeros(1), np.array([1 / step])))
    if map is not None:
        matrix = packed["projection"].decoded() if "projection" in packed else None
        map = AffineMap(map.shift.astype(np.float32), map.scale.astype(np.float32), matrix)
    return map, kernel, packed


def _with_step(array: PackedArray, step: float) -> PackedArray:
    """The same codes times another step; float32 stores no step, so its numbers change instead."""
    if array.format.has_step:
        return replace(array, step=step)
    return replace(array, data=array.data * np.float32(step), step=1.0)


def require_float32(rounded: Model, packed: dict[str, PackedArray], rows: Floats) -> None:
    """Refuse a model that needs more than float32, by trying some hundreds of rows."""
    fewest, most = _CHECKED_ROWS
    work = math.prod(packed["centers"].shape)
    n_rows = min(most, max(fewest, _CHECKED_DIFFERENCES // max(1, work)))
    with np.errstate(over="ignore"):
        sample = rows[:: -(-len(rows) // n_rows)].astype(np.float32)
    exact = rounded.outputs(sample.astype(np.float64))
    outputs = float32_outputs(rounded.expansion, packed, sample).astype(np.float64)
    same = rounded.kind != "classifier" or same_classes(
        rounded, exact, rounded.codes(outputs), rounded.codes(exact)
    )
    require_close("code", outputs, exact, same, FLOAT32_TOLERANCE)


def float32_outputs(
    expansion: KernelExpansion, packed: dict[str, PackedArray], rows: Floats
) -> Floats:
    """Outputs of the expansion in float32, operation by operation as the code computes them."""
    map = expansion.input_map
    with np.errstate(all="ignore"):
        if map is not None:
            rows = (rows - map.shift) * map.scale
            if "projection" in packed:
                rows = _product(rows, packed["projection"], transpose=True)
        values = np.stack([_kernel_values(expansion.kernel, u, expansion.centers) for u in rows])
        return _product(values, packed["coef"]) + expansion.intercept


def _kernel_values(kernel: Kernel, u: Floats, centers: Floats) -> Floats:
    """k(u, z) for every center z, in float32, by differences where the code takes them."""
    if kernel.is_translation_invariant:  # k(u, z) = k(0, z - u): the formula sees |z - u|^2 alone
        u, centers = np.zeros_like(u), centers - u
    x_norms, z_norms = (np.square(A).sum(axis=1)[None] for A in (u[None], centers))
    if type(kernel).of_products is Kernel.of_products:
        return kernel.evaluate(u[None], centers, x_norms, z_norms)[0]
    return kernel.of_products((centers @ u)[None], x_norms, z_norms)[0]


def _product(values: Floats, array: PackedArray, transpose: bool = False) -> Floats:
    """Values times a packed array, the step multiplied at the end."""
    codes = replace(array, step=1.0).decoded()
    return np.float32(array.step) * (values @ (codes.T if transpose else codes))


# -- What the templates ask for --------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class _Code:
    """A model to be written, and what the templates ask of it."""

    name: str
    storage: str
    exp: str
    model: Model
    rounded: Model
    packed: dict[str, PackedArray]
    rounding: Rounding
    rows: Floats

    exp_error, version = EXP_ERROR, __version__

    @property
    def expansion(self) -> KernelExpansion:
        """What the code evaluates."""
        return self.rounded.expansion

    @property
    def kernel(self) -> Kernel:
        """Its kernel, in steps of the centers."""
        return self.expansion.kernel

    @property
    def table_bytes(self) -> int:
        """Bytes of all tables: codes, widths, input map and intercepts."""
        map = self.expansion.input_map
        numbers = [self.expansion.intercept, getattr(self.kernel, "gamma", ())]
        numbers += [] if map is None else [map.shift, map.scale]
        packed = sum(int(array.data.nbytes) for array in self.packed.values())
        return packed + 4 * sum(np.size(values) for values in numbers)

    @property
    def features(self) -> list[str]:
        """Names of the first features, numbers where they have none."""
        names = self.model.feature_names
        if names is None:
            names = tuple(f"feature {i}" for i in range(self.model.n_features))
        return list(names[:_LISTED_FEATURES])

    @property
    def class_names(self) -> list[str]:
        """Names of the classes; none unless it is a classifier."""
        return [] if self.model.classes is None else [str(c) for c in self.model.classes.tolist()]

    @property
    def n_scores(self) -> int:
        """Numbers that a prediction returns besides its class."""
        return self.model.scores(np.zeros((1, self.expansion.n_outputs))).size

    @cached_property
    def kernel_code(self) -> str:
        """Statements that return the kernel's value."""
        return self.kernel.c_code("((a + b) + (c + d))")

    @property
    def uses_tanh(self) -> bool:
        """Whether the kernel needs the template's hyperbolic tangent."""
        return "hyperbolic_tangent(" in self.kernel_code

    @property
    def uses_exp(self) -> bool:
        """Whether kernel or probabilities need an exponential."""
        is_called = "EXP(" in self.kernel_code or self.uses_tanh
        return is_called or self.model.temperature is not None

    @property
    def uses_libm(self) -> bool:
        """Whether the code needs <math.h>."""
        calls_math = _MATH_CALL.search(self.kernel_code + self.kernel.c_term) is not None
        return calls_math or (self.uses_exp and self.exp == "libm")

    @property
    def arrays(self) -> list[tuple[str, str, list[str]]]:
        """Types, names and entries of constant arrays; a single shift or width is none of them."""
        arrays = [
            (_C_TYPES.get(packed.format.name, "uint8_t"), name, c_entries(packed))
            for name, packed in self.packed.items()
        ]
        map = self.expansion.input_map
        floats = {} if map is None else {"shift": map.shift, "scale": map.scale}
        floats |= {n: v for n, v in self.kernel.to_dict().items() if isinstance(v, np.ndarray)}
        several = {name: values for name, values in floats.items() if np.size(values) > 1}
        several = {"intercept": self.expansion.intercept} | several
        return arrays + [("float", n, [c_float(v) for v in vs]) for n, vs in several.items()]

    def map_entry(self, name: str) -> str:
        """Shift or scale of feature i, as an expression."""
        values = getattr(self.expansion.input_map, name)
        return c_float(values[0]) if len(values) == 1 else f"READ_FLOAT({name} + i)"

    @cached_property
    def test(self) -> dict[str, Any]:
        """Rows of the test program, and what Python computes for them."""
        rows = np.asarray(self.rows, dtype=np.float32)
        outputs = self.rounded.outputs(rows.astype(np.float64))
        scores = self.model.scores(outputs).reshape(len(rows), -1)
        codes = [] if self.model.classes is None else self.model.codes(outputs).tolist()
        return {
            "rows": [", ".join(map(c_float, row)) for row in rows],
            "scores": [", ".join(map(c_float, row)) for row in scores],
            "classes": ", ".join(map(str, codes)),
            "tolerance": 1e-3 * max(1.0, float(np.abs(scores).max())),
        }


def c_entries(array: PackedArray) -> list[str]:
    """The entries of a packed array as C constants: numbers, codes, or packed bytes."""
    if array.format.name == "float32":
        return [c_float(value) for value in array.data.ravel()]
    if array.format.name == "float16":
        return [f"{bits}u" for bits in array.data.ravel().view(np.uint16).tolist()]
    if array.format.name == "int8":
        return [str(code) for code in array.codes().ravel().tolist()]
    return [f"{byte}u" for byte in array.data.tolist()]


def c_string(text: str) -> str:
    """A string constant, in UTF-8, of printable ASCII alone."""
    characters = [
        chr(byte) if 32 <= byte < 127 and chr(byte) not in '"\\?' else f"\\{byte:03o}"
        for byte in text.encode("utf-8", "replace")
    ]
    return '"' + "".join(characters) + '"'


def c_comment(text: Any, longest: int = 100) -> str:
    """A line of text that can stand in a comment and cannot end it."""
    line = " ".join(str(text).encode("ascii", "backslashreplace").decode().split())
    line = line.replace("\\", "/").replace("*/", "* /").replace("/*", "/ *")
    line = re.sub(r"\?(?=\?)", "? ", line)  # no trigraphs
    line = line.replace("*/", "* /").replace("/*", "/ *")
    return line if len(line) <= longest else line[: longest - 3] + "..."


def c_identifier(text: str) -> str:
    """A C identifier made from a text."""
    name = re.sub(r"[^0-9A-Za-z]+", "_", text).strip("_").lower()
    if not name:
        return "model"
    return f"model_{name}" if name[0].isdigit() else name


# -- Sizes -----------------------------------------------------------------------------------------

#: target -> compiler, its size tool and its options
TARGETS: dict[str, tuple[str, str, tuple[str, ...]]] = {
    "host": ("gcc", "size", ()),
    "Cortex-M0": ("arm-none-eabi-gcc", "arm-none-eabi-size", ("-mcpu=cortex-m0", "-mthumb")),
    "Cortex-M4F": (
        "arm-none-eabi-gcc",
        "arm-none-eabi-size",
        ("-mcpu=cortex-m4", "-mthumb", "-mfloat-abi=hard", "-mfpu=fpv4-sp-d16"),
    ),
    "ATmega328P": ("avr-gcc", "avr-size", ("-mmcu=atmega328p",)),
}


@dataclass(frozen=True)
class CodeSize:
    """Sizes for one target.

    Parameters
    ----------
    target : str
    compiler : str
    flash : int or None
        Bytes of code and constants in the object file; None where it does not compile.
    ram : int or None
        Bytes of variables in it, and on AVR of the constants that are copied there at the start.
    stack : int or None
        Bytes that a prediction takes on the stack: the sum over its functions, at most.
    problem : str
        Why there are no sizes.
    """

    target: str
    compiler: str
    flash: int | None
    ram: int | None
    stack: int | None
    problem: str = ""


def size_report(source: str | PathLike[str]) -> list[CodeSize]:
    """Compile a source file, beside its header, for every target whose compiler is installed."""
    return [
        _size(Path(source), target, compiler, size, options)
        for target, (compiler, size, options) in TARGETS.items()
        if shutil.which(compiler) and shutil.which(size)
    ]


def _size(
    source: Path, target: str, compiler: str, size: str, options: tuple[str, ...]
) -> CodeSize:
    with tempfile.TemporaryDirectory() as folder:
        object_file = Path(folder) / "model.o"
        arguments = ["-std=c99", "-Os", *options, "-fstack-usage", "-c", str(source.absolute())]
        run = subprocess.run(
            [compiler, *arguments, "-o", str(object_file)],
            cwd=folder,
            capture_output=True,
            text=True,
            check=False,
        )
        if run.returncode:
            errors = [line for line in run.stderr.splitlines() if "error" in line] or ["?"]
            return CodeSize(target, compiler, None, None, None, errors[0].split("error: ")[-1])
        text, data, bss = (int(number) for number in _output(size, str(object_file))[1].split()[:3])
        copied = 0
        if compiler == "avr-gcc":  # copies constants outside PROGMEM (texts) to RAM at the start
            sections = [line.split() for line in _output(size, "-A", str(object_file))]
            copied = sum(int(s[1]) for s in sections if s and s[0].startswith(".rodata"))
        stack = sum(
            int(line.split("\t")[1])
            for usage in Path(folder).glob("*.su")
            for line in usage.read_text("utf-8").splitlines()
        )
    return CodeSize(target, compiler, text + data, data + bss + copied, stack)


def _output(*command: str) -> list[str]:
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
