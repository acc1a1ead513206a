"""Bytes of flash and RAM that generated code takes, by the compilers that are installed."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from os import PathLike
from pathlib import Path

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
