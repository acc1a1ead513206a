"""Scripts run by MicroPython: the one on PATH, or its WebAssembly build under node."""

import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

_PACKAGE = "@micropython/micropython-webassembly-pyscript"
_RUNNER = Path(__file__).with_name("micropython.mjs")


@cache
def micropython_command():
    """The command before a folder and the name of a script in it; None without MicroPython."""
    if shutil.which("micropython"):
        return ("sh", "-c", 'cd "$0" && exec micropython "$1"')
    if shutil.which("node") and shutil.which("npm"):
        root = subprocess.run(["npm", "root", "-g"], capture_output=True, text=True).stdout.strip()
        if (Path(root) / _PACKAGE).is_dir():
            return ("node", str(_RUNNER), str(Path(root) / _PACKAGE))
    return None


def run_micropython(folder, script):
    """What a script in a folder prints."""
    command = micropython_command()
    if command is None:
        pytest.skip(f"there is neither micropython nor, for node, {_PACKAGE}")
    ran = subprocess.run([*command, str(folder), script], capture_output=True, text=True)
    assert ran.returncode == 0, (ran.stdout + ran.stderr)[-2000:]
    return ran.stdout


def run_cpython(folder, script):
    """What a script in a folder prints when Python runs it without any package."""
    command = [sys.executable, "-S", "-E", script]
    ran = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr[-2000:]
    return ran.stdout
