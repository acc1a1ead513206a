"""Flash, RAM, stack and instructions of exported C, on every target whose tools are installed."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path

import numpy as np

from kernlet.export.emulate import instructions, missing_emulator
from kernlet.export.toolchain import OPTIONS, TARGETS, Target, ToolError

# by predict
_NOT_CALLED = ("_encode", "_probabilities", "_from_floats", "_from_counts", "_from_text")
_EMPTY_MAIN = "int main(void) { return 0; }\n"
# The program is linked, never run: the compiler cannot see that predict would read address 0.
_PREDICTING_MAIN = '#include "{m}.h"\nint main(void) {{ {m}_predict(0, 0); return 0; }}\n'
_MEASURED = """
#include "{m}.h"
long inputs[({M}_FEATURES * {size} + 3) / 4];
int measured(void)
{{
#ifdef {M}_CLASSES
    return {m}_predict((void *)inputs, 0);
#else
    static long values[{M}_SCORES];
    {m}_predict((void *)inputs, (void *)values);
    return 0;
#endif
}}
"""
_MEASURED_ROWS = 4
_ROW_TYPES = {"float": "<f4", "int16_t": "<i2", "int8_t": "<i1"}
_NUMBER = re.compile(r"-?\d[\d.]*(?:e[+-]?\d+)?")


@dataclass(frozen=True)
class CodeSize:
    """What a machine takes on one target, in a program that calls ``predict``.

    Parameters
    ----------
    target : str
        The processor.
    compiler : str
        The compiler that was used.
    code : int or None
        Bytes of the machine's functions; None where it does not compile.
    tables : int or None
        Bytes of its constants.
    library : int or None
        Bytes of the run-time library (soft float, expf, divisions) that a program with it has and
        one that does nothing has not. None where it does not link, and for the host, whose
        libraries are shared.
    ram : int or None
        Bytes of variables. The row and the scores are the caller's, and not counted.
    stack : int or None
        Bytes that a prediction takes on the stack: where it is run, what it writes below its
        caller's part, run-time library included; otherwise the sum over the machine's functions.
    instructions : int or None
        Per prediction: the mean over rows of the test program, in an emulator.
    cycles : int or None
        Likewise. On the ATmega328P these are exact.
    cycles_are_estimates : bool
        Whether cycles are instructions times their durations in ARM's reference manuals.
    problem : str
        Why numbers are missing.
    """

    target: str
    compiler: str
    code: int | None = None
    tables: int | None = None
    library: int | None = None
    ram: int | None = None
    stack: int | None = None
    instructions: int | None = None
    cycles: int | None = None
    cycles_are_estimates: bool = False
    problem: str = ""

    @property
    def flash(self) -> int | None:
        """Bytes by which a program grows: code, tables and library."""
        if self.code is None or self.tables is None or self.library is None:
            return None
        return self.code + self.tables + self.library


def size_report(
    source: str | PathLike[str], *, emulate: bool = True, targets: Sequence[str] = tuple(TARGETS)
) -> list[CodeSize]:
    """Compile, link and run a source file for every target whose tools are installed.

    Parameters
    ----------
    source : str or path
        The source that :func:`kernlet.to_c` wrote, beside its header and its test program.
    emulate : bool, default=True
        Whether to run predictions of some rows of the test program, which counts instructions.
    targets : sequence of {"host", "Cortex-M0", "Cortex-M4F", "ATmega328P"}, default=all
        Processors to compile for.

    Returns
    -------
    sizes : list of CodeSize
        Of each target. Where a tool is missing, ``problem`` says what to install.

    Examples
    --------
    >>> import tempfile
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.svm import SVC
    >>> from kernlet import to_c
    >>> from kernlet.export import size_report
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     source = to_c(SVC().fit(*load_iris(return_X_y=True)), folder)
    ...     sizes = size_report(source.folder / "model.c")
    >>> all(size.tables > 1000 for size in sizes if size.tables is not None)
    True
    """
    path = Path(source).absolute()
    sizes = []
    for name in targets:
        target = TARGETS[name]
        size = CodeSize(name, target.compiler, problem=target.missing)
        size = size if target.missing else _compiled(path, size)
        is_run = emulate and size.flash is not None and name != "host"
        sizes.append(_executed(path, size) if is_run else size)
    return sizes


def size_lines(sizes: Sequence[CodeSize]) -> list[str]:
    """An aligned table of sizes, and what they lack.

    Parameters
    ----------
    sizes : sequence of CodeSize
        What ``CSource.size_report`` returns.

    Returns
    -------
    list of str
        Lines to print.

    Examples
    --------
    >>> from kernlet.export import CodeSize
    >>> from kernlet.export.code_size import size_lines
    >>> size_lines([])
    ['target  code  tables  library  flash  ram  stack  instructions  cycles']
    """
    names = ("code", "tables", "library", "flash", "ram", "stack", "instructions", "cycles")
    lines = [["target", *names]]
    for size in sizes:
        if size.code is not None:
            numbers = [getattr(size, name) for name in names]
            cells = ["-" if number is None else f"{number:,}" for number in numbers]
            if size.cycles_are_estimates:
                cells[-1] = f"~{cells[-1]}"
            lines.append([size.target, *cells])
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    texts = [
        "  ".join([line[0].ljust(widths[0]), *map(str.rjust, line[1:], widths[1:])])
        for line in lines
    ]
    if any(size.cycles_are_estimates for size in sizes):
        texts.append("bytes, and counts per prediction; ~ estimated from ARM's instruction timings")
    problems: dict[str, list[str]] = {}
    for size in sizes:
        if size.problem:
            problems.setdefault(size.problem, []).append(size.target)
    return texts + [f"{', '.join(targets)}: {text}" for text, targets in problems.items()]


def linked_size(
    sources: Mapping[str, str], main: str, target: str, *, options: tuple[str, ...] = OPTIONS
) -> tuple[int, int]:
    """Bytes of flash and RAM by which C files and a ``main`` exceed a program that does nothing."""
    if missing := TARGETS[target].missing:
        raise ToolError(missing)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for file, text in sources.items():
            (folder / file).write_text(text, encoding="utf-8")
        files = [file for file in sources if file.endswith(".c")]
        return _growth(folder, TARGETS[target], main, *files, options=options)


def _compiled(source: Path, size: CodeSize) -> CodeSize:
    """With the bytes of a source that is compiled and linked."""
    target = TARGETS[size.target]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        try:
            target.compile(folder, "-fstack-usage", "-c", str(source), "-o", "model.o")
            size = replace(size, stack=_stack(folder))
            # what remains when everything that predict does not reach is left out
            keep = ("-nostdlib", "-r", "-Wl,--gc-sections", f"-Wl,-e,{source.stem}_predict")
            target.compile(folder, *keep, "model.o", "-o", "kept.o")
            code, tables, ram = _sections(folder, target)
            size = replace(size, code=code, tables=tables, ram=ram)
        except ToolError as error:
            return replace(size, problem=f"does not compile ({error})")
        if size.target == "host":
            return size
        main = _PREDICTING_MAIN.format(m=source.stem)
        try:
            flash, ram = _growth(folder, target, main, f"-I{source.parent}", "model.o")
        except ToolError as error:
            return replace(size, problem=f"does not link ({error})")
    return replace(size, library=flash - code - tables, ram=ram)


def _executed(source: Path, size: CodeSize) -> CodeSize:
    """With the instructions of predictions; the problem, if they cannot be run."""
    if missing := missing_emulator(size.target):
        return replace(size, problem=missing)
    try:
        rows, n_bytes = _test_rows(source)
        header = source.with_suffix(".h")
        sources = {file.name: file.read_text("utf-8") for file in (source, header)}
        main = _MEASURED.format(m=source.stem, M=source.stem.upper(), size=n_bytes)
        run = instructions(sources, main, size.target, rows, function=f"{source.stem}_predict")
    except (OSError, ToolError) as error:
        return replace(size, problem=f"does not run ({error})")
    return replace(
        size,
        stack=run.stack,
        instructions=round(np.mean(run.instructions)),
        cycles=round(np.mean(run.cycles)),
        cycles_are_estimates=run.is_estimate,
    )


def _test_rows(source: Path) -> tuple[list[bytes], int]:
    """Some rows of the test program of a source, and the bytes of each number."""
    text = (source.parent / f"test_{source.stem}.c").read_text("utf-8")
    array = re.search(rf"(\w+) test_{source.stem}_rows\S* = {{(.*?)\n}};", text, re.DOTALL)
    if array is None:
        raise ToolError(f"test_{source.stem}.c has no rows")
    kind = np.dtype(_ROW_TYPES[array[1]])
    lines = [line for line in array[2].splitlines() if line.strip()]
    chosen = np.linspace(0, len(lines) - 1, min(_MEASURED_ROWS, len(lines))).astype(int)
    rows = [np.array(_NUMBER.findall(lines[number]), dtype=float) for number in chosen]
    return [row.astype(kind).tobytes() for row in rows], kind.itemsize


def _growth(
    folder: Path, target: Target, main: str, *arguments: str, options: tuple[str, ...] = OPTIONS
) -> tuple[int, int]:
    """Flash and RAM of a program, less those of an empty one."""
    sizes = []
    for text, others in ((main, arguments), (_EMPTY_MAIN, ())):
        (folder / "main.c").write_text(text, encoding="utf-8")
        target.link(folder, "main.c", *others, options=options)
        line = target.tool(folder, "size", "program")[1]
        text_bytes, data, bss = (int(number) for number in line.split()[:3])
        sizes.append((text_bytes + data, data + bss))
    (flash, ram), (empty_flash, empty_ram) = sizes
    return flash - empty_flash, ram - empty_ram


def _sections(folder: Path, target: Target) -> tuple[int, int, int]:
    """Bytes of functions, of constants and of variables."""
    code = tables = ram = 0
    for line in target.tool(folder, "size", "-A", "-d", "kept.o"):
        name, *numbers = line.split() or [""]
        n_bytes = int(numbers[0]) if name.startswith(".") else 0
        code += n_bytes * name.startswith(".text")
        tables += n_bytes * name.startswith((".rodata", ".progmem", ".data"))
        ram += n_bytes * name.startswith((".data", ".bss"))
    return code, tables, ram


def _stack(folder: Path) -> int:
    """The stack of all functions that a prediction may call."""
    lines = (folder / "model.su").read_text("utf-8").splitlines()
    usage = [(line.split("\t")[0], int(line.split("\t")[1])) for line in lines]
    return sum(size for function, size in usage if not function.endswith(_NOT_CALLED))
