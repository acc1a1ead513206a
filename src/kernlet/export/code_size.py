"""Flash, RAM and stack of exported C, for every target whose compiler is installed."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from os import PathLike
from pathlib import Path

# newlib's small variant, without an operating system below it
_NEWLIB = ("--specs=nano.specs", "--specs=nosys.specs")

#: target -> prefix of its compiler and tools, and options of the compiler
TARGETS: dict[str, tuple[str, tuple[str, ...]]] = {
    "host": ("", ()),
    "Cortex-M0": ("arm-none-eabi-", ("-mcpu=cortex-m0", "-mthumb", *_NEWLIB)),
    "Cortex-M4F": (
        "arm-none-eabi-",
        ("-mcpu=cortex-m4", "-mthumb", "-mfloat-abi=hard", "-mfpu=fpv4-sp-d16", *_NEWLIB),
    ),
    "ATmega328P": ("avr-", ("-mmcu=atmega328p",)),
}
# Each function and table gets a section, so that the linker can leave out what is not called.
_OPTIONS = ("-std=c99", "-Os", "-ffunction-sections", "-fdata-sections")
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


class _ToolError(Exception):
    """A compiler or linker refused its input."""


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
        _size(Path(source).absolute(), target)
        for target, (prefix, _) in TARGETS.items()
        if shutil.which(f"{prefix}gcc") and shutil.which(f"{prefix}size")
    ]


def _size(source: Path, target: str) -> CodeSize:
    prefix, options = TARGETS[target]
    compiler = (f"{prefix}gcc", *_OPTIONS, *options)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        try:
            _run(folder, *compiler, "-fstack-usage", "-c", str(source), "-o", "model.o")
            stack = _stack(folder)
            # what remains when everything that predict does not reach is left out
            keep = ("-nostdlib", "-r", "-Wl,--gc-sections", f"-Wl,-e,{source.stem}_predict")
            _run(folder, *compiler, *keep, "model.o", "-o", "kept.o")
            own, ram = _flash_and_ram(folder, prefix, "kept.o")
        except _ToolError as error:
            return CodeSize(target, compiler[0], problem=f"does not compile ({error})")
        if target == "host":
            return CodeSize(target, compiler[0], own, None, ram, stack)
        try:
            main = _PREDICTING_MAIN.format(name=source.stem)
            flash, ram = _linked(folder, prefix, compiler, main, f"-I{source.parent}", "model.o")
            empty_flash, empty_ram = _linked(folder, prefix, compiler, _EMPTY_MAIN)
        except _ToolError as error:
            problem = f"does not link ({error})"
            return CodeSize(target, compiler[0], own, None, ram, stack, problem)
    return CodeSize(target, compiler[0], own, flash - empty_flash, ram - empty_ram, stack)


def _linked(
    folder: Path, prefix: str, compiler: tuple[str, ...], main: str, *arguments: str
) -> tuple[int, int]:
    """Flash and RAM of a whole program."""
    (folder / "main.c").write_text(main, encoding="ascii")
    command = (*compiler, "-Wl,--gc-sections", "main.c", *arguments, "-o", "program", "-lm")
    _run(folder, *command)
    return _flash_and_ram(folder, prefix, "program")


def _flash_and_ram(folder: Path, prefix: str, file: str) -> tuple[int, int]:
    """Code, constants and initial values; variables with and without these."""
    line = _run(folder, f"{prefix}size", file).splitlines()[1]
    text, data, bss = (int(number) for number in line.split()[:3])
    return text + data, data + bss


def _stack(folder: Path) -> int:
    """The stack of all functions that a prediction may call."""
    lines = (folder / "model.su").read_text("utf-8").splitlines()
    usage = [(line.split("\t")[0], int(line.split("\t")[1])) for line in lines]
    return sum(size for function, size in usage if not function.endswith(_NOT_CALLED))


def _run(folder: Path, *command: str) -> str:
    """Output of a tool; its first error as an exception."""
    run = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if run.returncode:
        lines = run.stderr.strip().splitlines() or ["no message"]
        errors = [line for line in lines if "error" in line or "cannot" in line]
        raise _ToolError((errors or lines)[0].split("error: ")[-1])
    return run.stdout
