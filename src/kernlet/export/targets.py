"""Packages for boards and languages: a registry of targets, and the function that writes one."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

from kernlet import __version__
from kernlet.atomic import atomic_writes
from kernlet.export.c import CSource, to_c
from kernlet.export.c_interface import environment
from kernlet.export.c_names import file_identifier
from kernlet.export.javascript import javascript
from kernlet.export.rounding import feature_rows, likely_rows
from kernlet.kernels.base import as_float32, c_float
from kernlet.model.model import Model, as_model

# A target is one entry of TARGETS: what it writes, in which arithmetic, and the function that makes
# its files. That function writes nothing itself. It takes a Model and the keyword arguments
#
#     name         an identifier: letters, digits and underscores, not a keyword
#     arithmetic   "float" or "integer", one of those of its entry
#     X, y         rows and labels to check on, or None
#
# and returns the files, path in the package -> text or bytes, and lines for the user (sizes, what
# was checked). All texts say "by kernlet" and the version in their first lines: that is how a later
# export tells its own files, which it replaces, from those of others, which it does not.

Files = dict[str, str | bytes]
_MARK = re.compile(rb"\bby kernlet \d")
_MARKED_BYTES = 4096  # of a text, from its beginning
ARITHMETICS = ("float", "integer")


@dataclass(frozen=True)
class Target:
    """A target: what it writes, the function that makes its files, and its arithmetics."""

    writes: str
    make: Callable[..., tuple[Files, list[str]]]
    arithmetics: tuple[str, ...] = ARITHMETICS  # the first one is the default
    has_storage: bool = False  # whether `make` takes the storage of to_c


@dataclass(frozen=True)
class Package:
    """The files that :func:`kernlet.to_package` wrote.

    Parameters
    ----------
    folder : Path
    target : str
    name : str
        The prefix of all names in the code, made from the name that was given.
    arithmetic : {"float", "integer"}
    files : tuple of Path
        What was written.
    notes : tuple of str
        Sizes, and what was checked.
    """

    folder: Path
    target: str
    name: str
    arithmetic: str
    files: tuple[Path, ...]
    notes: tuple[str, ...]


def to_package(
    model: Any,
    folder: str | PathLike[str],
    target: str,
    *,
    X: Any = None,
    y: Any = None,
    name: str = "model",
    arithmetic: str = "auto",
    storage: str = "auto",
) -> Package:
    """Write a machine as a package that a development system takes as it is.

    Parameters
    ----------
    model : fitted estimator, KernelExpansion or a loaded model
        See :func:`kernlet.save`.
    folder : str or path
        The folder of the package, created if it does not exist. Files of an older export are
        replaced; a file that kernlet did not write is never replaced.
    target : {"arduino", "javascript", ...}
        The system: an Arduino library; a JavaScript module with its TypeScript declarations.
    X : array-like of shape (n_samples, n_features), default=None
        Rows to compare on, as in :func:`kernlet.to_c`; the first one is in the example.
    y : array-like of shape (n_samples,), default=None
        Labels or targets of X, for the accuracy (or R2) before and after.
    name : str, default="model"
        Name of the package, from which the prefix of all names in the code is made.
    arithmetic : {"auto", "float", "integer"}, default="auto"
        "float", or "integer" for code without any floating point. "auto" is "float" for targets
        that have it.
    storage : {"auto", "float32", "float16", "int8", "stored"}, default="auto"
        Format of the tables of targets that are made of C; see :func:`kernlet.to_c`.

    Returns
    -------
    package : Package

    Raises
    ------
    ValueError
        Where the target has another name, the folder is a file or has a file of this name that
        kernlet did not write, or the machine cannot be exported.
    OSError
        Where the files cannot be written; then none of them is new.

    Examples
    --------
    >>> import tempfile
    >>> from sklearn.datasets import load_iris
    >>> from kernlet import CompactKernelClassifier, to_package
    >>> X, y = load_iris(return_X_y=True)
    >>> machine = CompactKernelClassifier(8, n_epochs=20, random_state=0).fit(X, y)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     package = to_package(machine, folder, "arduino", X=X, y=y, name="iris")
    >>> [path.name for path in package.files]
    ['iris.h', 'iris.c', 'library.properties', 'keywords.txt', 'iris_serial.ino']
    """
    if target not in TARGETS:
        raise ValueError(f"target={target!r} is not one of {', '.join(sorted(TARGETS))}.")
    entry = TARGETS[target]
    arithmetic = _arithmetic(arithmetic, target)
    folder = Path(folder)
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"{folder} is a file: give a folder.")
    options = {"storage": storage} if entry.has_storage else {}
    if storage != "auto" and not options:
        raise ValueError(f"storage={storage!r} is for targets made of C, which {target} is not.")
    name = file_identifier(name)
    files, notes = entry.make(
        as_model(model), name=name, arithmetic=arithmetic, X=X, y=y, **options
    )
    paths = _write(folder, files)
    return Package(folder, target, name, arithmetic, paths, tuple(notes))


def _arithmetic(arithmetic: str, target: str) -> str:
    """The arithmetic of a target, which "auto" leaves to it."""
    taken = TARGETS[target].arithmetics
    if arithmetic == "auto":
        return taken[0]
    if arithmetic not in ARITHMETICS:
        raise ValueError(f"arithmetic={arithmetic!r} is not one of auto, {', '.join(ARITHMETICS)}.")
    if arithmetic not in taken:
        raise ValueError(
            f"The target {target} computes in {' and '.join(taken)} arithmetic only, not in "
            f"{arithmetic}."
        )
    return arithmetic


def _write(folder: Path, files: Files) -> tuple[Path, ...]:
    """Write all files or none; files of others are kept."""
    paths = tuple(folder / path for path in files)
    for path, content in zip(paths, files.values(), strict=True):
        if path.exists() and not _is_ours(path, isinstance(content, str)):
            raise ValueError(
                f"{path} was not written by kernlet and would be replaced: give another folder."
            )
    for path in paths:
        path.parent.mkdir(parents=True, exist_ok=True)
    with atomic_writes(*paths) as temporaries:
        for temporary, content in zip(temporaries, files.values(), strict=True):
            data = content.encode() if isinstance(content, str) else content
            temporary.write_bytes(data)
    return paths


def _is_ours(path: Path, is_text: bool) -> bool:
    """Whether kernlet wrote a file; tables without text name kernlet in their header."""
    if not path.is_file():
        return False
    with path.open("rb") as file:
        start = file.read(_MARKED_BYTES)
    return _MARK.search(start) is not None if is_text else b"kernlet" in start


# -- Packages of C ---------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class _Contents:
    """What the templates of packages made of C ask for."""

    name: str
    model: Model
    source: CSource
    header: str
    is_integer: bool
    row: list[str]  # features of the example
    answer: str  # what Python predicts for it

    version = __version__

    @property
    def macro(self) -> str:
        """Prefix of all macros."""
        return self.name.upper()

    @property
    def is_classifier(self) -> bool:
        """Whether it predicts a class."""
        return self.model.classes is not None

    @property
    def functions(self) -> list[str]:
        """Functions of the header."""
        return list(dict.fromkeys(re.findall(rf"\b({self.name}_\w+)\(", self.header)))

    @property
    def constants(self) -> list[str]:
        """Constants of the header, macros or enumerators."""
        return list(dict.fromkeys(re.findall(rf"\b{self.macro}_\w+", self.header)))

    def short_name(self, longest: int) -> str:
        """The name in a manifest that has a limit."""
        return self.name[:longest].rstrip("_")

    @property
    def sentence(self) -> str:
        """What the package is, for its manifest."""
        what = f"{len(self.model.classes)} classes" if self.is_classifier else self.model.kind
        return (
            f"A kernel machine of {self.model.expansion.n_centers} centers for "
            f"{self.model.n_features} features ({what}), written by kernlet {__version__}."
        )

    def render(self, template: str) -> str:
        """A template of the folder packages."""
        return (
            environment()
            .get_template(f"packages/{template}")
            .render(package=self, m=self.name, M=self.macro)
        )


def _c_package(
    layout: dict[str, str], code: str, model: Model, *, name: str, X: Any, y: Any, **options: Any
) -> tuple[Files, list[str]]:
    """Header and source in the folder ``code`` and the rendered templates of a layout."""
    with tempfile.TemporaryDirectory() as scratch:
        source = _source(model, scratch, name=name, X=X, y=y, **options)
        # the test program and its Makefile are for a computer
        texts = [path.read_text("utf-8") for path in source.files[:2]]
    rows = as_float32((likely_rows(model) if X is None else feature_rows(model, X))[:1])
    outputs = model.outputs(rows.astype(float))
    answer = f"{model.scores(outputs).ravel()[0]:.4g}"
    if model.kind == "classifier":
        answer = str(model.classes[model.codes(outputs)[0]])
    is_integer = options["arithmetic"] == "integer"
    row = [c_float(value) for value in rows[0]]
    contents = _Contents(name, model, source, texts[0], is_integer, row, answer)
    files: Files = {
        f"{code}/{path.name}": text for path, text in zip(source.files, texts, strict=False)
    }
    for path, template in layout.items():
        files[path.format(name=name)] = contents.render(template)
    notes = [
        f"{source.table_bytes:,} bytes of tables, held as {source.storage}",
        f"before and after, on {source.rounding.n_rows:,} {source.rounding.rows}:",
        *(f"  {line}" for line in source.rounding.lines()),
    ]
    return files, notes


def _source(model: Model, folder: str, *, arithmetic: str, storage: str, **options: Any) -> CSource:
    if arithmetic == "integer":
        raise ValueError("arithmetic='integer' is not there yet.")
    return to_c(model, folder, storage, **options)


_ARDUINO = {
    "library.properties": "library.properties.jinja",
    "keywords.txt": "keywords.txt.jinja",
    "examples/{name}_serial/{name}_serial.ino": "arduino.ino.jinja",
}


def arduino(model: Model, **options: Any) -> tuple[Files, list[str]]:
    """A library for the Arduino IDE and arduino-cli."""
    return _c_package(_ARDUINO, "src", model, **options)


#: name -> what the target writes and how
TARGETS: dict[str, Target] = {
    "arduino": Target("an Arduino library", arduino, has_storage=True),
    "javascript": Target("a JavaScript module", javascript, ("float",)),
}
