"""Export to C."""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

import jinja2
import numpy as np

from kernlet import __version__
from kernlet._typing import Floats
from kernlet.atomic import atomic_write
from kernlet.export.c_tables import Rounding, StoredMachine, compare, require_float32, store
from kernlet.kernels.base import c_float
from kernlet.model.model import Model, as_model
from kernlet.quantization import PackedArray
from kernlet.tables.encode import NumberColumn

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
    """Compile a source file for every target whose compiler is installed.

    Parameters
    ----------
    source : str or path
        A C file, beside its header.

    Returns
    -------
    sizes : list of CodeSize
        Empty where there is no compiler at all.
    """
    return [
        _size(Path(source), target, compiler, size, options)
        for target, (compiler, size, options) in TARGETS.items()
        if shutil.which(compiler) and shutil.which(size)
    ]


def _size(
    source: Path, target: str, compiler: str, size: str, options: tuple[str, ...]
) -> CodeSize:
    with tempfile.TemporaryDirectory() as folder:
        made = Path(folder) / "model.o"
        arguments = ["-std=c99", "-Os", *options, "-fstack-usage", "-c", str(source.absolute())]
        run = subprocess.run(
            [compiler, *arguments, "-o", str(made)],
            cwd=folder,
            capture_output=True,
            text=True,
            check=False,
        )
        if run.returncode:
            errors = [line for line in run.stderr.splitlines() if "error" in line] or ["?"]
            return CodeSize(target, compiler, None, None, None, errors[0].split("error: ")[-1])
        text, data, bss = (int(word) for word in _said(size, str(made))[1].split()[:3])
        copied = _constants(size, made) if compiler == "avr-gcc" else 0
        stack = sum(
            int(line.split("\t")[1])
            for usage in Path(folder).glob("*.su")
            for line in usage.read_text("utf-8").splitlines()
        )
    return CodeSize(target, compiler, text + data, data + bss + copied, stack)


def _said(*command: str) -> list[str]:
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()


def _constants(size: str, made: Path) -> int:
    """Bytes of constants that are not in the flash of an AVR alone: texts, which it copies."""
    words = [line.split() for line in _said(size, "-A", str(made))]
    return sum(int(line[1]) for line in words if line and line[0].startswith(".rodata"))


def c_string(text: str) -> str:
    r"""A string constant, in UTF-8, of printable ASCII alone.

    Examples
    --------
    >>> from kernlet.export.c import c_string
    >>> print(c_string('a"b'))
    "a\042b"
    """
    return '"' + "".join(_c_character(byte) for byte in text.encode("utf-8", "replace")) + '"'


def _c_character(byte: int) -> str:
    if 32 <= byte < 127 and chr(byte) not in '"\\?':
        return chr(byte)
    return f"\\{byte:03o}"


def c_comment(text: Any, longest: int = 100) -> str:
    """A line of text that can stand in a comment and cannot end it.

    Examples
    --------
    >>> from kernlet.export.c import c_comment
    >>> c_comment("ends here */ int x;")
    'ends here * / int x;'
    """
    line = " ".join(str(text).encode("ascii", "backslashreplace").decode().split())
    line = line.replace("\\", "/").replace("*/", "* /").replace("/*", "/ *")
    line = re.sub(r"\?(?=\?)", "? ", line)  # no trigraphs
    line = line.replace("*/", "* /").replace("/*", "/ *")
    return line if len(line) <= longest else line[: longest - 3] + "..."


def c_identifier(text: str) -> str:
    """A name for C made of a text.

    Examples
    --------
    >>> from kernlet.export.c import c_identifier
    >>> c_identifier("my model-2"), c_identifier("7")
    ('my_model_2', 'model_7')
    """
    name = re.sub(r"[^0-9A-Za-z]+", "_", text).strip("_").lower()
    if not name:
        return "model"
    return f"model_{name}" if name[0].isdigit() else name


def rows_of(words: Iterable[str], width: int = 12) -> list[str]:
    """Constants, some a line."""
    words = list(words)
    return [", ".join(words[i : i + width]) for i in range(0, len(words), width)]


def table_words(table: PackedArray) -> list[str]:
    """The entries of a table: numbers, codes, or packed bytes."""
    if table.format.name == "float32":
        return [c_float(value) for value in (table.data * np.float32(table.step)).ravel()]
    if table.format.name == "float16":
        return [f"{bits}u" for bits in table.data.ravel().view(np.uint16).tolist()]
    if table.format.name == "int8":
        return [str(code) for code in table.codes().ravel().tolist()]
    return [f"{byte}u" for byte in table.data.tolist()]


def n_scores(model: Model) -> int:
    """Numbers that a prediction gives besides its class."""
    if model.kind != "classifier" or model.scheme != "one vs one" or not model.votes:
        return model.expansion.n_outputs
    return 1 if len(model.classes) == 2 else len(model.classes)


def feature_names(model: Model) -> list[str]:
    """Names of the features, numbers where they have none."""
    if model.feature_names is not None:
        return list(model.feature_names)
    return [f"feature {i}" for i in range(model.n_features)]


def facts(model: Model, machine: StoredMachine) -> Iterator[str]:
    """What the machine is."""
    yield f"Kernel: {model.expansion.kernel.describe()}."
    rank = machine.centers.shape[1]
    through = f", projected to {rank} numbers" if machine.projection is not None else ""
    yield f"{model.n_features} features{through}; {len(machine.intercept)} outputs."
    yield f"Tables: {machine.nbytes} bytes."
    if model.summary.get("estimator"):
        yield f"Trained as {model.summary['estimator']}."


def meaning(model: Model) -> str:
    """What the scores are."""
    if model.kind == "regressor":
        return "The numbers that are predicted."
    if model.kind == "transformer":
        return "The features of a row."
    if model.kind == "expansion":
        return "The outputs of the machine."
    if n_scores(model) == 1:
        return "There is one score, positive for class 1."
    if model.scheme == "one vs one" and not model.votes:
        return "There is a score for each pair i < j of classes, positive for i."
    return "There is a score for each class."


def encoding_lines(model: Model) -> Iterator[str]:
    """How the columns of a table become features."""
    for column in model.encoding.columns if model.encoding else ():
        if isinstance(column, NumberColumn):
            yield f"{column.name}: the number; {column.fill:g} where it is missing"
        else:
            yield (
                f"{column.name}: 1 for the feature of its category, 0 for the others; a category "
                "that is not there is 0 everywhere"
            )


#: Relative error of the exponential that needs no library.
EXP_ERROR = 3e-7
_TYPES = {"float32": "float", "float16": "uint16_t", "int8": "int8_t"}
_TEST_ROWS = 16
_MATH_CALL = re.compile(r"\b[a-z]\w*f\(")  # float functions of <math.h> end in f
_LISTED_FEATURES = 1000


@dataclass(frozen=True)
class CSource:
    """What :func:`kernlet.to_c` wrote, and what the storage cost.

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

    The code allocates nothing and computes in float. Its header says the order of the features,
    the names of the classes, the size, and what the storage costs in accuracy.

    Parameters
    ----------
    model : fitted estimator, KernelExpansion or what kernlet.load gave
        See :func:`kernlet.save`.
    folder : str or path
        Made if need be.
    storage : {"float32", "float16", "int8", "stored"}, default="float32"
        How tables are held. "stored" takes the packed tables of a compact machine as they are.
    X : array-like of shape (n_samples, n_features), default=None
        Rows to compare on before and after, and to put into the test program; the centers of the
        machine, moved a little, unless given.
    y : array-like of shape (n_samples,), default=None
        Labels of X, or numbers: with them the accuracy (or R2) before and after is told.
    exp : {"libm", "polynomial"}, default="libm"
        Where the exponential comes from: expf, or a polynomial with a relative error below
        3e-7 that needs no library.
    name : str, default="model"
        Of the files and the prefix of all names.

    Returns
    -------
    source : CSource

    Raises
    ------
    ValueError
        Where float32 cannot hold the machine, or computes something else with it.

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
        raise ValueError(f"exp={exp!r} is none of libm, polynomial.")
    if not re.fullmatch(r"[A-Za-z][A-Za-z0-9_]*", name):
        raise ValueError(f"name={name!r} is no name in C: give letters, digits and underscores.")
    shipped = as_model(model)
    machine = store(shipped, storage)
    rounding, rows = compare(shipped, machine.expansion, X, y)
    values = _values(shipped, machine, storage, rounding, exp, name)
    require_float32(shipped, machine, rows)
    values |= _test_values(shipped, machine, rows)
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    source = CSource(folder, name, storage, machine.nbytes, rounding)
    templates = ("model.h.jinja", "model.c.jinja", "test.c.jinja", "Makefile.jinja")
    environment = _environment()
    texts = [environment.get_template(template).render(values) for template in templates]
    for path, text in zip(source.files, texts, strict=True):
        with atomic_write(path) as temporary:
            temporary.write_text(text, encoding="ascii")
    return source


def _environment() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("kernlet.export"),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,
    )
    environment.filters |= {"comment": c_comment, "c_string": c_string, "number": c_float}
    return environment


def _values(
    model: Model,
    machine: StoredMachine,
    storage: str,
    rounding: Rounding,
    exp: str,
    name: str,
) -> dict[str, Any]:
    """All that header and source say."""
    kernel_code = machine.kernel.c_code("((a + b) + (c + d))")
    uses_tanh = "hyperbolic_tangent(" in kernel_code
    uses_exp = "EXP(" in kernel_code or uses_tanh or model.temperature is not None
    uses_libm = (uses_exp and exp == "libm") or bool(
        _MATH_CALL.search(kernel_code + machine.kernel.c_term)
    )
    names = feature_names(model)
    class_names = [] if model.classes is None else [str(label) for label in model.classes.tolist()]
    return {
        "name": name,
        "title": f"{machine.centers.shape[0]} centers, by kernlet {__version__}.",
        "facts": facts(model, machine),
        "storage": storage,
        "record": rounding,
        "quantization": rounding.lines(),
        "encoding": list(encoding_lines(model)),
        "features": names[:_LISTED_FEATURES],
        "n_more_features": max(0, len(names) - _LISTED_FEATURES),
        "class_names": class_names,
        "has_scaler": model.scaler is not None,
        "n_features": model.n_features,
        "n_scores": n_scores(model),
        "n_outputs": len(machine.intercept),
        "n_centers": machine.centers.shape[0],
        "rank": machine.centers.shape[1],
        "table_bytes": machine.nbytes,
        "meaning": meaning(model),
        "temperature": model.temperature,
        "scheme": model.scheme,
        "votes": model.votes,
        "break_ties": model.break_ties,
        "exp": exp,
        "exp_error": EXP_ERROR,
        "uses_exp": uses_exp,
        "uses_libm": uses_libm,
        "uses_tanh": uses_tanh,
        "kernel": machine.kernel,
        "kernel_code": kernel_code,
        "coef_step": _step(machine.coef),
        "projection": machine.projection is not None,
        "projection_step": _step(machine.projection),
        **_arrays(machine),
    }


def _step(table: PackedArray | None) -> float:
    """What multiplies the entries of a table; numbers of float32 are written with it."""
    return 1.0 if table is None or not table.format.has_step else table.step


def _arrays(machine: StoredMachine) -> dict[str, Any]:
    """Constant arrays, and how the code gets at their entries."""
    arrays = [
        _array(key, _TYPES.get(table.format.name, "uint8_t"), table_words(table))
        for key, table in machine.tables.items()
    ]
    arrays.append(_array("intercept", "float", map(c_float, machine.intercept)))
    where: dict[str, Any] = {}
    gamma = getattr(machine.kernel, "gamma", 0.0)
    parts = {"shift": machine.shift, "scale": machine.scale, "gamma": np.atleast_1d(gamma)}
    for key, part in parts.items():
        if part is not None and len(part) > 1:
            arrays.append(_array(key, "float", map(c_float, part)))
            where[f"{key}_at"] = f"READ_FLOAT({key} + {'j' if key == 'gamma' else 'i'})"
        else:
            where[f"{key}_at"] = "" if part is None else c_float(part[0])
    return {
        **where,
        "arrays": arrays,
        "tables": [{"name": k, "format": t.format.name} for k, t in machine.tables.items()],
        "has_float16": any(t.format.name == "float16" for t in machine.tables.values()),
        "has_front": machine.shift is not None,
    }


def _array(name: str, kind: str, words: Any) -> dict[str, Any]:
    words = list(words)
    return {"name": name, "type": kind, "length": len(words), "lines": rows_of(words)}


def _test_values(model: Model, machine: StoredMachine, rows: Floats) -> dict[str, Any]:
    some = np.asarray(rows[:_TEST_ROWS], dtype=np.float32)
    outputs = machine.expansion.decision_values(some.astype(np.float64))
    scores = model.scores(outputs).reshape(len(some), -1)
    values = {
        "n_rows": len(some),
        "rows": [", ".join(map(c_float, row)) for row in some],
        "expected": [", ".join(map(c_float, row)) for row in scores],
        "tolerance": 1e-3 * max(1.0, float(np.abs(scores).max())),
    }
    if model.classes is not None:
        values["classes"] = ", ".join(map(str, model.codes(outputs).tolist()))
    return values
