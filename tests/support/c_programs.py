"""Exported C, compiled with sanitizers and run on rows."""

import shutil
import subprocess

import numpy as np
import pytest

needs_gcc = pytest.mark.skipif(not shutil.which("gcc"), reason="there is no gcc to compile with")
STRICT = ["-std=c99", "-Wall", "-Wextra", "-Werror", "-O1", "-g0"]
SANITIZERS = [
    "-fsanitize=address,undefined,float-cast-overflow,float-divide-by-zero",
    "-fno-sanitize-recover=all",
]
#: Everything that users have switched on; -Wmissing-prototypes is for C alone.
ALL_WARNINGS = [
    "-Wall",
    "-Wextra",
    "-Wpedantic",
    "-Wconversion",
    "-Wsign-conversion",
    "-Wshadow",
    "-Wdouble-promotion",
    "-Wfloat-equal",
    "-Wmissing-prototypes",
    "-Werror",
]


def compiled(source, *, sanitize=True):
    """The test program of an export."""
    options = STRICT + (SANITIZERS if sanitize else [])
    model, test = f"{source.name}.c", f"test_{source.name}.c"
    commands = [
        ["gcc", *options, *ALL_WARNINGS, "-c", model, "-o", "model.o"],
        ["gcc", *options, *ALL_WARNINGS, test, "model.o", "-o", "run", "-lm"],
    ]
    for command in commands:
        made = subprocess.run(command, cwd=source.folder, capture_output=True, text=True)
        assert made.returncode == 0, made.stderr[:2000]
    return source.folder / "run"


def run(program, X, n_scores):
    """Class numbers and scores of rows."""
    lines = "\n".join(" ".join(f"{v:.9g}" for v in row) for row in np.float32(X))
    ran = subprocess.run([program, "-"], input=lines, capture_output=True, text=True, check=True)
    table = np.array([line.split() for line in ran.stdout.splitlines()], dtype=float)
    assert table.shape == (len(X), table.shape[1])
    return (table[:, 0].astype(int), table[:, 1:]) if n_scores else table
