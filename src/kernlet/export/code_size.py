"""Flash, RAM and stack of exported C, for every target whose compiler is installed."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from os import PathLike
from pathlib import Path

from kernlet.export.toolchain import TARGETS, Target, ToolError

_NOT_CALLED = ("_encode", "_probabilities")  # by a program that only predicts
_EMPTY_MAIN = "int main(void) { return 0; }\n"
# The program is linked, never run: the compiler cannot see that predict would read address 0.
_PREDICTING_MAIN = '#include "{name}.h"\nint main(void) {{ {name}_predict(0, 0); return 0; }}\n'


@dataclass(frozen=True)
class CodeSize:
    """Sizes for one target, of a program that calls ``predict``.

    Parameters
    ----------
    target : str
    compiler : str
    own : int or None
        Bytes of the machine's own code and tables; None where it does not compile.
    flash : int or None
        Bytes that it adds to a program that does nothing: its own, and the functions of the
        run-time library that it calls (soft float, expf). None where it does not link, and for
        the host, whose libraries are shared.
    ram : int or None
        Bytes of variables, added likewise.
    stack : int or None
        Bytes that a prediction takes on the stack: the sum over its functions, at most; those of
        the run-time library are not counted.
    problem : str
        Why sizes are missing.
    """

    target: str
    compiler: str
    own: int | None = None
    flash: int | None = None
    ram: int | None = None
    stack: int | None = None
    problem: str = ""


def size_report(source: str | PathLike[str]) -> list[CodeSize]:
    """Compile and link a source file for every target whose compiler is installed.

    Parameters
    ----------
    source : str or path
        The source that :func:`kernlet.to_c` wrote, beside its header.

    Returns
    -------
    sizes : list of CodeSize
        Of the host, Cortex-M0, Cortex-M4F and ATmega328P, without those that lack a compiler.

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
    >>> all(size.own > source.table_bytes for size in sizes)
    True
    """
    return [
        _size(Path(source).absolute(), name)
        for name, target in TARGETS.items()
        if not target.missing
    ]


def _size(source: Path, name: str) -> CodeSize:
    target = TARGETS[name]
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        try:
            target.compile(folder, "-fstack-usage", "-c", str(source), "-o", "model.o")
            stack = _stack(folder)
            # what remains when everything that predict does not reach is left out
            keep = ("-nostdlib", "-r", "-Wl,--gc-sections", f"-Wl,-e,{source.stem}_predict")
            target.compile(folder, *keep, "model.o", "-o", "kept.o")
            own, ram = _flash_and_ram(folder, target, "kept.o")
        except ToolError as error:
            return CodeSize(name, target.compiler, problem=f"does not compile ({error})")
        if name == "host":
            return CodeSize(name, target.compiler, own, None, ram, stack)
        try:
            main = _PREDICTING_MAIN.format(name=source.stem)
            flash, ram = _linked(folder, target, main, f"-I{source.parent}", "model.o")
            empty_flash, empty_ram = _linked(folder, target, _EMPTY_MAIN)
        except ToolError as error:
            problem = f"does not link ({error})"
            return CodeSize(name, target.compiler, own, None, ram, stack, problem)
    return CodeSize(name, target.compiler, own, flash - empty_flash, ram - empty_ram, stack)


def _linked(folder: Path, target: Target, main: str, *arguments: str) -> tuple[int, int]:
    """Flash and RAM of a whole program."""
    (folder / "main.c").write_text(main, encoding="ascii")
    target.link(folder, "main.c", *arguments)
    return _flash_and_ram(folder, target, "program")


def _flash_and_ram(folder: Path, target: Target, file: str) -> tuple[int, int]:
    """Code, constants and initial values; variables with and without these."""
    line = target.tool(folder, "size", file)[1]
    text, data, bss = (int(number) for number in line.split()[:3])
    return text + data, data + bss


def _stack(folder: Path) -> int:
    """The stack of all functions that a prediction may call."""
    lines = (folder / "model.su").read_text("utf-8").splitlines()
    usage = [(line.split("\t")[0], int(line.split("\t")[1])) for line in lines]
    return sum(size for function, size in usage if not function.endswith(_NOT_CALLED))
