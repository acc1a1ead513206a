"""Packages for boards and languages: a registry of targets, and the function that writes one."""

from __future__ import annotations

import math
import re
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from kernlet import __version__
from kernlet._typing import Floats
from kernlet.atomic import atomic_writes
from kernlet.export.c import CSource, to_c
from kernlet.export.c_columns import RawColumn, raw_columns, raw_rows, struct_fields
from kernlet.export.c_interface import c_cell, environment
from kernlet.export.c_names import c_comment, file_identifier, plain_name
from kernlet.export.javascript import javascript
from kernlet.export.micropython import micropython
from kernlet.export.rounding import (
    clear_rows,
    feature_rows,
    has_cells,
    likely_rows,
    rows_as_float32,
)
from kernlet.export.rust import rust
from kernlet.integer.machine import bound_lines
from kernlet.model.describe import kind_in_words
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
_TABLES = b"kernlet-integer"  # which model files, whose names end as those of tables, do not have
_MARKED_BYTES = 4096  # of a text, from its beginning
ARITHMETICS = ("float", "integer")
_EXAMPLE_ROWS = 200
_LONGEST_NUMBER = 32  # characters that are sent to the example
_LONGEST_NAME = 40  # Arduino takes 63 characters, the example's _serial included
# Headers of Arduino cores, ESP-IDF and Zephyr, in lower case: some systems ignore case.
_HEADERS = """
arduino binary client eeprom hardwareserial ipaddress main print printable servo server spi stream
udp wire wstring sdkconfig nvs autoconf kernel device zephyr
"""


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
        The folder of the package.
    target : str
        The system that it is for.
    name : str
        The prefix of all names in the code, made from the name that was given.
    arithmetic : {"float", "integer"}
        Arithmetic of the code.
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
    target : {"arduino", "platformio", "zephyr", "esp-idf", "javascript", "micropython", "rust"}
        The system: a library for Arduino or PlatformIO, a Zephyr module, an ESP-IDF component; a
        JavaScript module with its TypeScript declarations; a MicroPython module with a file of
        tables; a Rust module that needs no standard library.
    X : array-like of shape (n_samples, n_features), default=None
        Rows to compare on, as in :func:`kernlet.to_c`; one of them is in the example.
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
    ['iris.h', 'iris.c', 'README.md', 'iris_serial.ino', 'keywords.txt', 'library.properties']
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
    name = _package_name(name)
    files, notes = entry.make(
        as_model(model), name=name, arithmetic=arithmetic, X=X, y=y, **options
    )
    paths = _write(folder, files)
    return Package(folder, target, name, arithmetic, paths, tuple(notes))


def _package_name(name: str) -> str:
    """An identifier, of a length that all systems take, whose header hides none of theirs."""
    name = file_identifier(plain_name(name)[:_LONGEST_NAME].strip("_"))
    return f"model_{name}" if name in _HEADERS.split() else name


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
        for parent in path.relative_to(folder).parents:
            if (folder / parent).is_file():
                raise ValueError(
                    f"{folder / parent} is a file where a folder is needed: give another folder."
                )
        if path.exists() and not _is_ours(path, isinstance(content, str)):
            raise ValueError(
                f"{path} is not from an earlier export, and would be replaced: give another folder."
            )
    for path in paths:
        path.parent.mkdir(parents=True, exist_ok=True)
    with atomic_writes(*paths) as temporaries:
        for temporary, content in zip(temporaries, files.values(), strict=True):
            data = content.encode() if isinstance(content, str) else content
            temporary.write_bytes(data)
    return paths


def _is_ours(path: Path, is_text: bool) -> bool:
    """Whether an export wrote a file: texts and tables say so at their beginning."""
    if not path.is_file():
        return False
    with path.open("rb") as file:
        start = file.read(_MARKED_BYTES)
    return _MARK.search(start) is not None if is_text else _TABLES in start


# -- Packages of C ---------------------------------------------------------------------------------
#
# The folder templates/packages/TARGET is the package: each template in it becomes the file of its
# path, where NAME stands for the name of the machine. Header and source are added in src.


@dataclass(frozen=True, eq=False)
class _Contents:
    """What the templates of packages made of C ask for."""

    name: str
    model: Model
    source: CSource
    header: str
    rows: Floats  # to choose the one of the example from
    cells: Sequence[Sequence[str]]  # of these rows, where they are rows of a table

    version = __version__

    @property
    def macro(self) -> str:
        """Prefix of all macros."""
        return self.name.upper()

    @property
    def module(self) -> str:
        """The name of a Zephyr module: lower case with dashes, unlike those that Zephyr has."""
        return f"kernlet-{self.name.replace('_', '-')}"

    @property
    def is_integer(self) -> bool:
        """Whether the code computes in integers."""
        return self.source.arithmetic == "integer"

    @property
    def has_classes(self) -> bool:
        """Whether it predicts a class, or 1 or -1 as novelty detectors do."""
        return self.model.classes is not None

    @property
    def is_novelty(self) -> bool:
        """Whether it predicts 1 or -1."""
        return self.model.kind == "novelty"

    @property
    def sentence(self) -> str:
        """What the package is, for its manifest."""
        return (
            f"A kernel machine of {self.model.expansion.n_centers} centers for "
            f"{self.model.n_features} features ({kind_in_words(self.model)}), written by kernlet "
            f"{__version__}."
        )

    @property
    def functions(self) -> list[str]:
        """Functions of the header."""
        return list(dict.fromkeys(re.findall(rf"\b({self.name}_\w+)\(", self.header)))

    @property
    def constants(self) -> list[str]:
        """Constants of the header, macros or enumerators."""
        return list(dict.fromkeys(re.findall(rf"\b{self.macro}_\w+", self.header)))

    @property
    def row(self) -> list[str]:
        """The row of the example as constants."""
        return [c_cell(value) for value in self.features[0]]

    @property
    def row_cells(self) -> list[tuple[str, str]]:
        """Fields and constants of the same row of the table, where it is one."""
        if not self.cells:
            return []
        return [(f.field, c) for f, c in zip(self.fields, self.cells[self._number], strict=True)]

    @property
    def features(self) -> Floats:
        """The row of the example in float32."""
        return rows_as_float32(self.rows)[[self._number]]

    @cached_property
    def _number(self) -> int:
        """The first row whose class no rounding changes, if possible without a missing feature."""
        clear = np.arange(len(self.rows))
        if self.has_classes:
            outputs = self._outputs(rows_as_float32(self.rows))
            clear = clear_rows(self.model, outputs, 2 * self.tolerance)
        complete = clear[~np.isnan(self.rows[clear]).any(axis=1)]
        return int(next(iter((*complete[:1], *clear[:1], 0))))

    def _outputs(self, rows: Floats) -> Floats:
        return self.model.outputs(rows.astype(np.float64))

    @property
    def code(self) -> int:
        """The number of its class in Python; of a novelty detector 1 or -1."""
        number = self.model.codes(self._outputs(self.features))[0]
        return int(self.model.classes[number] if self.is_novelty else number)

    @property
    def value(self) -> float:
        """The first of its scores or values in Python."""
        return float(np.ravel(self.model.scores(self._outputs(self.features)))[0])

    @property
    def tolerance(self) -> float:
        """How far a value of the code may be from that of Python."""
        return 2 * self.source.rounding.largest_score_error + self.source.tolerance

    @property
    def about_row(self) -> str:
        """What Python makes of the row, as a comment."""
        if self.is_novelty:
            return f"An {'inlier' if self.code > 0 else 'outlier'}, by Python."
        if not self.has_classes:
            return f"A row for which Python computes {self.value:.6g}."
        return c_comment(f"A row of the class {self.model.classes[self.code]}, by Python.", 200)

    @property
    def fields(self) -> list[RawColumn]:
        """Fields of a row of the table, where the machine takes one."""
        if self.model.encoding is None:
            return []
        return struct_fields(raw_columns(self.model.encoding, self.name))

    @property
    def longest_line(self) -> int:
        """Characters of the longest line of cells, with some room for numbers."""
        longest = [
            max([_LONGEST_NUMBER, *(len(text.encode()) + 1 for text in field.categories)])
            for field in self.fields
        ]
        return sum(longest) + 1

    @property
    def about_serial(self) -> str:
        """What to send to the example, and what comes back."""
        answer = "the class and its scores" if self.has_classes else "what is predicted"
        answer = "1 or, for an outlier, -1, and the score" if self.is_novelty else answer
        row = f"lines of {self.model.n_features} numbers, with spaces or commas between them"
        if self.fields:
            row = (
                f"lines of {len(self.fields)} cells with commas between them, in the order of "
                f"struct {self.name}_raw and empty where a cell is missing"
            )
        return f"Send {row}, as in the Serial Monitor at 9600 baud. The answer is {answer}."

    @property
    def digits(self) -> int:
        """Decimals to print of a value: seven digits of the largest one, what a float has."""
        largest = self.source.rounding.largest_score
        return 4 if not largest > 0 else min(9, max(0, 6 - math.floor(math.log10(largest))))

    def render(self, template: str) -> str:
        """A template, which sees this as ``package``, and the prefixes as ``m`` and ``M``."""
        found = environment().get_template(template)
        return found.render(package=self, m=self.name, M=self.macro)


def _c_package(
    target: str, model: Model, *, name: str, X: Any, y: Any, **options: Any
) -> tuple[Files, list[str]]:
    """Header and source in the folder src, and the rendered templates of a target."""
    with tempfile.TemporaryDirectory() as scratch:
        source = to_c(model, scratch, name=name, X=X, y=y, **options)
        # test program, example and Makefile are for a computer
        texts = {path.name: path.read_text("utf-8") for path in source.files[:2]}
    rows = (likely_rows(model) if X is None else feature_rows(model, X))[:_EXAMPLE_ROWS]
    cells: list[tuple[str, ...]] = []
    if model.encoding is not None and (X is None or has_cells(model, X)):
        cells, rows = raw_rows(model.encoding, name, X, rows_as_float32(rows))
    contents = _Contents(name, model, source, texts[f"{name}.h"], rows, cells)
    files: Files = {f"src/{path}": text for path, text in texts.items()}
    folder = f"packages/{target}/"
    for template in environment().list_templates(filter_func=lambda t: t.startswith(folder)):
        path = template.removeprefix(folder).removesuffix(".jinja").replace("NAME", name)
        files[path] = contents.render(template)
    notes = [
        f"{source.table_bytes:,} bytes of tables, held as {source.storage}",
        f"before and after, on {source.rounding.n_rows:,} {source.rounding.rows}:",
        *(f"  {line}" for line in source.rounding.lines()),
        *bound_lines(source.bounds),
    ]
    return files, notes


def _of_c(target: str, writes: str) -> Target:
    return Target(writes, partial(_c_package, target), has_storage=True)


#: name -> what the target writes and how
TARGETS: dict[str, Target] = {
    "arduino": _of_c("arduino", "an Arduino library"),
    "platformio": _of_c("platformio", "a PlatformIO library"),
    "zephyr": _of_c("zephyr", "a Zephyr module"),
    "esp-idf": _of_c("esp-idf", "an ESP-IDF component"),
    "javascript": Target("a JavaScript module", javascript, ("float",)),
    "micropython": Target("a MicroPython module", micropython, ("integer",)),
    "rust": Target("a Rust module", rust, ("integer",)),
}
