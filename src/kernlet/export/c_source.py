"""A machine as C99: tables, a few short functions, a test program and a Makefile."""

from __future__ import annotations

import re
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

import jinja2
import numpy as np

from kernlet import __version__
from kernlet.export.c_facts import encoding_lines, facts, feature_names, meaning, n_scores
from kernlet.export.c_words import c_comment, c_float, c_string, rows_of, table_words
from kernlet.export.code_size import CodeSize, size_report
from kernlet.export.model_file import describe_kernel
from kernlet.export.rounding import Rounding, compare
from kernlet.export.shipped import ShippedModel, ship
from kernlet.export.single_precision import require_float32
from kernlet.export.stored import StoredMachine, store
from kernlet.files import written_whole
from kernlet.kernels.kernel import Floats
from kernlet.tables import Table

#: Relative error of the exponential that needs no library.
EXP_ERROR = 3e-7
_TYPES = {"float32": "float", "float16": "uint16_t", "int8": "int8_t"}
_TEST_ROWS = 16
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
    shipped = ship(model)
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
        with written_whole(path) as temporary:
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
    model: ShippedModel,
    machine: StoredMachine,
    storage: str,
    rounding: Rounding,
    exp: str,
    name: str,
) -> dict[str, Any]:
    """All that header and source say."""
    kernel = describe_kernel(machine.kernel)
    is_distance = machine.kernel.is_translation_invariant
    uses_exp = is_distance or kernel["name"] == "sigmoid" or model.temperature is not None
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
        "needs_libm": uses_exp and exp == "libm",
        "kernel": kernel["name"],
        "is_distance": is_distance,
        "gamma": kernel.get("gamma"),
        "coef0": kernel.get("coef0"),
        "degree": kernel.get("degree"),
        "coef_step": _step(machine.coef),
        "projection": machine.projection is not None,
        "projection_step": _step(machine.projection),
        **_arrays(machine),
    }


def _step(table: Table | None) -> float:
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


def _test_values(model: ShippedModel, machine: StoredMachine, rows: Floats) -> dict[str, Any]:
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
