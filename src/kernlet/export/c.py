"""Export to C99: a model's numbers in packed arrays, and the code that evaluates them."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from os import PathLike
from pathlib import Path
from typing import Any

import jinja2
import numpy as np

from kernlet import __version__
from kernlet._typing import Floats
from kernlet.affine import AffineMap, compose
from kernlet.atomic import atomic_writes
from kernlet.expansion import KernelExpansion
from kernlet.export.c_columns import RawColumn, raw_columns
from kernlet.export.c_names import (
    c_comment,
    c_file_names,
    c_string,
    distinct,
    is_standard_header,
    plain_name,
    wrapped,
)
from kernlet.export.code_size import CodeSize, size_report
from kernlet.export.rounding import (
    FLOAT32_TOLERANCE,
    Rounding,
    clear_rows,
    compare,
    dense_points,
    require_close,
    same_classes,
)
from kernlet.kernels.base import Kernel, as_float32, c_float
from kernlet.kernels.gram import dense_centers
from kernlet.kernels.laplacian import Laplacian
from kernlet.kernels.rbf import RBF
from kernlet.kernels.sigmoid import Sigmoid
from kernlet.model.model import Model, as_model
from kernlet.quantization import FORMATS, PackedArray, QuantizedExpansion, encode

#: Relative error of the exponential that needs no library.
EXP_ERROR = 3e-7
STORAGES = ("auto", "float32", "float16", "int8", "stored")
_C_TYPES = {"float32": "float", "float16": "uint16_t", "int8": "int8_t"}  # bytes otherwise
_MATH_CALL = re.compile(r"\b[a-z]\w*f\(")  # float functions of <math.h> end in f
# What the code of a kernel may use besides, which gets the prefix of all names.
_OWN_NAME = re.compile(r"\b(EXP|READ_FLOAT|hyperbolic_tangent|table_\w+)\b")
_LARGEST_SUM = 1e38  # a third of what float32 holds
_TEST_ROWS = 16
_LISTED_FEATURES = 1000
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
    name : str
        Of the files and the prefix of all names in them.
    storage : str
        The format of the tables, also where "auto" chose it.
    exp : str
    table_bytes : int
        Bytes of all tables.
    rounding : Rounding
        Accuracy, agreement and largest error of a score, before and after.
    tolerance : float
        How far a score of the test program may be from Python's: a few times the largest error
        of float arithmetic that was measured.
    """

    folder: Path
    name: str
    storage: str
    exp: str
    table_bytes: int
    rounding: Rounding
    tolerance: float

    @property
    def files(self) -> tuple[Path, ...]:
        """Header, source, test program and Makefile."""
        return tuple(self.folder / name for name in c_file_names(self.name))

    def size_report(self) -> list[CodeSize]:
        """Bytes of flash, RAM and stack, for each target whose compiler is installed."""
        return size_report(self.folder / f"{self.name}.c")


def to_c(
    model: Any,
    folder: str | PathLike[str],
    storage: str = "auto",
    *,
    X: Any = None,
    y: Any = None,
    exp: str = "polynomial",
    name: str = "model",
) -> CSource:
    """Write a machine as C99 source.

    The code allocates no memory and computes in float. Its header has an example, names for
    features and classes, the size, and what the storage costs in accuracy. Of a machine that
    takes a table of columns, a second function turns the cells of a row into features.

    Parameters
    ----------
    model : fitted estimator, KernelExpansion or a loaded model
        See :func:`kernlet.save`.
    folder : str or path
        Created if it does not exist.
    storage : {"auto", "float32", "float16", "int8", "stored"}, default="auto"
        Format of the numbers. "stored" keeps the packed arrays of a compact machine; "auto" is
        "stored" for machines that have them, and "float32" for others.
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
    if exp not in ("polynomial", "libm"):
        raise ValueError(f"exp={exp!r} is not one of polynomial, libm.")
    if not re.fullmatch(r"[A-Za-z][A-Za-z0-9_]*", name):
        raise ValueError(f"name={name!r} is not a name in C: give letters, digits and underscores.")
    if is_standard_header(name):
        raise ValueError(f"name={name!r} would hide <{name.lower()}.h>: give another name.")
    original = as_model(model)
    for label in [] if original.classes is None else original.classes.tolist():
        if "\0" in str(label):
            raise ValueError(
                f"The class {label!r:.100} contains a NUL character, which ends a string in C: "
                "rename the class."
            )
    if storage == "auto":
        storage = "stored" if _is_packed(original.expansion) else "float32"
    rounded, packed = pack(original, storage)
    rounding, rows = compare(original, rounded, X, y)
    sample, tolerance = require_float32(rounded, packed, rows)
    code = _Code(name, storage, exp, original, rounded, packed, rounding, sample, tolerance)
    texts = _render(code)
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    source = CSource(folder, name, storage, exp, code.table_bytes, rounding, tolerance)
    _keep_other_makefile(source.files[-1], texts[-1])
    with atomic_writes(*source.files) as temporaries:
        for temporary, text in zip(temporaries, texts, strict=True):
            temporary.write_text(text, encoding="utf-8")
    return source


def _keep_other_makefile(path: Path, text: str) -> None:
    """Refuse to replace a Makefile that :func:`to_c` did not write, unlike that of an export."""
    if path.is_file():
        first = path.read_text("utf-8", "replace").partition("\n")[0]
        if first != text.partition("\n")[0]:
            raise ValueError(
                f"{path} was not written by kernlet and would be replaced: give another folder."
            )


def _render(code: _Code) -> list[str]:
    """Header, source, test program and Makefile."""
    names = ("model.h.jinja", "model.c.jinja", "test.c.jinja", "Makefile.jinja")
    templates = map(_environment().get_template, names)
    return [template.render(code=code, m=code.name, M=code.macro) for template in templates]


@cache
def _environment() -> jinja2.Environment:
    """The templates, compiled once."""
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("kernlet.export"),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,
        auto_reload=False,
    )
    environment.filters |= {"comment": c_comment, "c_string": c_string, "number": c_float}
    environment.filters |= {"wrapped": wrapped}
    return environment


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
    if storage not in STORAGES[1:]:
        raise ValueError(f"storage={storage!r} is not one of {', '.join(STORAGES)}.")
    if not expansion.n_centers:
        raise ValueError("A machine without centers is a constant; there is nothing to export.")
    own = getattr(expansion, "storage", {})
    if storage == "stored" or set(own.values()) == {storage} != {"float32"}:
        map, kernel, packed = model.input_map, expansion.kernel, _stored(expansion)
        if map is not None and model.scaler is not None and model.scaler.matrix is not None:
            # one matrix for that of the scaler and that of the machine, which is packed
            packed["projection"] = encode(map.matrix, FORMATS["float32"])
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


def _is_packed(expansion: KernelExpansion) -> bool:
    """Whether a machine has packed arrays, and not only float32 numbers."""
    return set(getattr(expansion, "storage", {}).values()) - {"float32"} != set()


def _stored(expansion: KernelExpansion) -> dict[str, PackedArray]:
    """The packed arrays of a compact machine, the coefficients transposed for the code."""
    if not isinstance(expansion, QuantizedExpansion):
        raise ValueError(
            'storage="stored" is for machines that hold packed arrays, of CompactKernelClassifier '
            'and CompactKernelRegressor; give "float32", "float16" or "int8".'
        )
    coef = expansion.packed["coef"]
    step = coef.step if coef.format.has_step else None
    packed = {name: expansion.packed[name] for name in ("centers", "coef", "projection")}
    packed["coef"] = encode(coef.decoded().T, coef.format, step)
    return {name: array for name, array in packed.items() if array is not None}


def _frame(model: Model, storage: str) -> tuple[AffineMap | None, Floats, Kernel]:
    """Input map, centers and kernel about 0, where the kernel allows it."""
    map, kernel = model.input_map, model.expansion.kernel
    centers = dense_points(dense_centers(model.expansion.centers))
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


def require_float32(
    rounded: Model, packed: dict[str, PackedArray], rows: Floats
) -> tuple[Floats, float]:
    """Refuse a model that needs more than float32, by trying some hundreds of rows.

    Returns these rows, in float32, and how far scores of the code may be from exact ones.
    """
    fewest, most = _CHECKED_ROWS
    work = math.prod(packed["centers"].shape)
    n_rows = min(most, max(fewest, _CHECKED_DIFFERENCES // max(1, work)))
    sample = as_float32(rows[:: -(-len(rows) // n_rows)], "A feature of")
    exact = rounded.outputs(sample.astype(np.float64))
    outputs, sizes = float32_outputs(rounded.expansion, packed, sample)
    same = rounded.kind != "classifier" or same_classes(
        rounded, exact, rounded.codes(outputs), rounded.codes(exact)
    )
    error = require_close("code", outputs.astype(np.float64), exact, same, FLOAT32_TOLERANCE)
    # relative to each term, the exponential of the code is less exact than that of NumPy, and a
    # power has the error of its base times its degree
    relative = max(EXP_ERROR, _BASE_ERROR * getattr(rounded.expansion.kernel, "degree", 0))
    tolerance = _ERROR_FACTOR * error + relative * float(sizes.max())
    if rounded.votes:  # n + s / (3 (abs(s) + 1)), where s adds the outputs of n_classes - 1 pairs
        n_classes = len(rounded.classes)
        tolerance = n_classes * max(tolerance / 3, EXP_ERROR)
    return sample, tolerance


def float32_outputs(
    expansion: KernelExpansion, packed: dict[str, PackedArray], rows: Floats
) -> tuple[Floats, Floats]:
    """Outputs of the expansion in float32, operation by operation as the code computes them.

    Also the sizes of their terms, sum_j abs(coef_j k(x, z_j)) + abs(intercept).
    """
    map = expansion.input_map
    with np.errstate(all="ignore"):
        if map is not None:
            rows = (rows - map.shift) * map.scale
            if "projection" in packed:
                step = np.float32(packed["projection"].step)
                rows = (step * rows) @ replace(packed["projection"], step=1.0).decoded().T
        values = np.stack([_kernel_values(expansion.kernel, u, expansion.centers) for u in rows])
        sizes = np.abs(values) @ np.abs(expansion.coef.T) + np.abs(expansion.intercept)
        # the step is multiplied at the end
        outputs = values @ replace(packed["coef"], step=1.0).decoded()
        return np.float32(packed["coef"].step) * outputs + expansion.intercept, sizes


def _kernel_values(kernel: Kernel, u: Floats, centers: Floats) -> Floats:
    """k(u, z) for every center z, in float32, by differences where the code takes them."""
    if kernel.is_translation_invariant:  # k(u, z) = k(0, z - u): the formula sees |z - u|^2 alone
        u, centers = np.zeros_like(u), centers - u
    x_norms, z_norms = (np.square(A).sum(axis=1)[None] for A in (u[None], centers))
    if type(kernel).of_products is Kernel.of_products:
        return kernel.evaluate(u[None], centers, x_norms, z_norms)[0]
    return kernel.of_products((centers @ u)[None], x_norms, z_norms)[0]


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
    sample: Floats
    tolerance: float

    exp_error, version = EXP_ERROR, __version__

    @property
    def macro(self) -> str:
        """Prefix of all macros."""
        return self.name.upper()

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
    def features(self) -> list[tuple[str, str]]:
        """Macros and names of the first features, where they have names."""
        return self._macros("FEATURE", (self.model.feature_names or ())[:_LISTED_FEATURES])

    @property
    def classes(self) -> list[tuple[str, str]]:
        """Macros and names of the classes."""
        return self._macros("CLASS", self.class_names)

    def _macros(self, kind: str, names: Sequence[str]) -> list[tuple[str, str]]:
        parts = distinct([plain_name(name) or "UNNAMED" for name in names])
        macros = [f"{self.macro}_{kind}_{part.upper()}" for part in parts]
        return list(zip(macros, names, strict=True))

    @cached_property
    def columns(self) -> list[RawColumn]:
        """The columns of a row of the original table, where the model takes one."""
        return [] if self.model.encoding is None else raw_columns(self.model.encoding, self.name)

    @property
    def encoding_lines(self) -> list[str]:
        """Statements that encode a row of the table."""
        return [line for column in self.columns for line in column.statements]

    def encoding_uses(self, word: str) -> bool:
        """Whether one of them has a word."""
        return any(word in line for line in self.encoding_lines)

    @property
    def fields(self) -> list[RawColumn]:
        """Columns with fields of different names."""
        fields: dict[str, RawColumn] = {}
        for column in self.columns:
            fields.setdefault(column.field, column)
        return list(fields.values())

    @property
    def class_names(self) -> list[str]:
        """Names of the classes; none unless it is a classifier."""
        return [] if self.model.classes is None else [str(c) for c in self.model.classes.tolist()]

    @property
    def n_scores(self) -> int:
        """Numbers that a prediction returns besides its class."""
        return self.model.scores(np.zeros((1, self.expansion.n_outputs))).size

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

    @cached_property
    def kernel_code(self) -> str:
        """Statements that return the kernel's value."""
        return self._prefixed(self.kernel.c_code("sum"))

    @property
    def kernel_term(self) -> str:
        """What one feature adds to the sum of a translation-invariant kernel."""
        return self._prefixed(self.kernel.c_term)

    def _prefixed(self, code: str) -> str:
        """Code of a kernel with the prefix before the names of tables, functions and macros."""
        prefixes = {True: f"{self.macro}_", False: f"{self.name}_"}
        return _OWN_NAME.sub(lambda match: prefixes[match[0].isupper()] + match[0], code)

    @property
    def maps_features(self) -> bool:
        """Whether features change before the kernel."""
        return self.expansion.input_map is not None or self.uses_tanh

    @property
    def largest_feature(self) -> float:
        """What mapped features are limited to, where sums of larger ones may be inf - inf.

        For bounded kernels: distances behind a projection, and inner products. Without a
        projection, a distance is infinite at worst, and its kernel value 0.
        """
        if not self.is_bounded or not ("projection" in self.packed or self.uses_tanh):
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
        return type(self.kernel) in (RBF, Laplacian, Sigmoid)

    @property
    def about_numbers(self) -> str:
        """What NaN, infinities and large features give."""
        text = "A feature that is NaN makes every score NaN"
        if self.model.classes is not None:
            outputs = np.full((1, self.expansion.n_outputs), np.nan)
            text += f" and the class {self.model.codes(outputs)[0]}"
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
            (_C_TYPES.get(packed.format.name, "uint8_t"), self._table(name), c_entries(packed))
            for name, packed in self.packed.items()
        ]
        map = self.expansion.input_map
        floats = {} if map is None else {"shift": map.shift, "scale": map.scale}
        floats |= {n: v for n, v in self.kernel.to_dict().items() if isinstance(v, np.ndarray)}
        several = {name: values for name, values in floats.items() if np.size(values) > 1}
        several = {"intercept": self.expansion.intercept} | several
        return arrays + [
            ("float", self._table(name), [c_float(value) for value in values])
            for name, values in several.items()
        ]

    def map_entry(self, name: str) -> str:
        """Shift or scale of feature i, as an expression."""
        values = getattr(self.expansion.input_map, name)
        if len(values) == 1:
            return c_float(values[0])
        return f"{self.macro}_READ_FLOAT({self._table(name)} + i)"

    def _table(self, name: str) -> str:
        """The name of a table."""
        return f"{self.name}_table_{name}"

    @cached_property
    def test(self) -> dict[str, Any]:
        """Rows of the test program, and what Python computes for them."""
        outputs = self.rounded.outputs(self.sample.astype(np.float64))
        chosen = np.arange(len(outputs))
        if self.model.kind == "classifier":  # rows whose class float arithmetic cannot change
            clear = clear_rows(self.model, outputs, 2 * self.tolerance)
            chosen = clear if len(clear) else chosen
        spaced = np.linspace(0, len(chosen) - 1, min(_TEST_ROWS, len(chosen)))
        chosen = chosen[spaced.astype(np.intp)]
        outputs = outputs[chosen]
        scores = self.model.scores(outputs).reshape(len(chosen), -1)
        codes = [] if self.model.classes is None else self.model.codes(outputs).tolist()
        return {
            "rows": [", ".join(map(c_float, row)) for row in self.sample[chosen]],
            "scores": [", ".join(map(c_float, row)) for row in scores],
            "classes": ", ".join(map(str, codes)),
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
