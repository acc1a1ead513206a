"""Compilers of the targets whose code is measured: what they are called, and running them."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

# Each function and table gets a section, so that the linker can leave out what is not called.
OPTIONS = ("-std=c99", "-Os", "-ffunction-sections", "-fdata-sections")
# newlib's small variant, without an operating system below it
_NEWLIB = ("-mthumb", "--specs=nano.specs", "--specs=nosys.specs")
_ARM_PACKAGES = "gcc-arm-none-eabi libnewlib-arm-none-eabi"


class ToolError(Exception):
    """A compiler, linker or emulator is missing or refused its input."""


@dataclass(frozen=True)
class Target:
    """A processor: the prefix and options of its compiler, and Debian's packages of it."""

    prefix: str
    options: tuple[str, ...]
    packages: str

    @property
    def compiler(self) -> str:
        """The command that compiles."""
        return f"{self.prefix}gcc"

    @property
    def missing(self) -> str:
        """What to install, or nothing."""
        if shutil.which(self.compiler) and shutil.which(f"{self.prefix}size"):
            return ""
        return f"no {self.compiler}: apt install {self.packages}"

    def compile(self, folder: Path, *arguments: str, options: tuple[str, ...] = OPTIONS) -> None:
        """Compile or link in a folder."""
        run_tool(folder, self.compiler, *options, *self.options, *arguments)

    def tool(self, folder: Path, name: str, *arguments: str) -> list[str]:
        """Lines that one of the other tools prints."""
        return run_tool(folder, f"{self.prefix}{name}", *arguments).splitlines()

    def link(self, folder: Path, *arguments: str, options: tuple[str, ...] = OPTIONS) -> None:
        """Link ``program`` without what is not called."""
        arguments = ("-Wl,--gc-sections", *arguments, "-o", "program", "-lm")
        self.compile(folder, *arguments, options=options)


TARGETS = {
    "host": Target("", (), "gcc binutils"),
    "Cortex-M0": Target("arm-none-eabi-", ("-mcpu=cortex-m0", *_NEWLIB), _ARM_PACKAGES),
    "Cortex-M4F": Target(
        "arm-none-eabi-",
        ("-mcpu=cortex-m4", "-mfloat-abi=hard", "-mfpu=fpv4-sp-d16", *_NEWLIB),
        _ARM_PACKAGES,
    ),
    "ATmega328P": Target("avr-", ("-mmcu=atmega328p",), "gcc-avr avr-libc"),
}


def run_tool(folder: Path, *command: str, given: bytes | None = None) -> str:
    """Output of a tool; its first error as an exception."""
    try:
        run = subprocess.run(command, cwd=folder, capture_output=True, input=given, check=False)
    except FileNotFoundError:
        raise ToolError(f"there is no {command[0]}") from None
    if run.returncode:
        lines = run.stderr.decode("utf-8", "replace").strip().splitlines() or ["no message"]
        errors = [line for line in lines if "error" in line or "cannot" in line]
        raise ToolError((errors or lines)[0].split("error: ")[-1])
    return run.stdout.decode("utf-8", "replace")
