"""Exported C, compiled with sanitizers and run on rows."""

import math
import shutil
import subprocess

import numpy as np
import pytest

from kernlet.export.c_columns import raw_columns, struct_fields
from kernlet.export.c_names import c_string
from kernlet.kernels.base import c_float

needs_gcc = pytest.mark.skipif(not shutil.which("gcc"), reason="there is no gcc to compile with")
STRICT = ["-std=c99", "-Wall", "-Wextra", "-Werror", "-O1", "-g0"]
SANITIZERS = [
    "-fsanitize=address,undefined,float-cast-overflow,float-divide-by-zero",
    "-fno-sanitize-recover=all",
]
#: Before a command: AddressSanitizer reserves terabytes of addresses, more than the soft limit of
#: memory that fuzz.campaign sets.
UNLIMITED = ("sh", "-c", 'ulimit -S -v unlimited; exec "$0" "$@"')
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


def c_cell(raw, value):
    """A cell of a table as an expression of C; a text is looked up."""
    if not raw.categories:
        return "NAN" if value is None or math.isnan(value) else c_float(value)
    text = "NULL" if value is None else c_string(str(value))
    return f"model_{raw.field}_from_text({text})"


def c_features(folder, model, table):
    """The features of the rows of a table by the code, and what it returned for each row."""
    raws = raw_columns(model.encoding, "model")
    names = {raw.field: c.name for raw, c in zip(raws, model.encoding.columns, strict=True)}
    fields = struct_fields(raws)
    cells = [[c_cell(raw, cell) for cell in table[names[raw.field]]] for raw in fields]
    rows = ",\n".join(f"{{ {', '.join(row)} }}" for row in zip(*cells, strict=True))
    main = f"""
    #include "model.h"
    #include <math.h>
    #include <stdio.h>
    int main(void) {{
        const struct model_raw rows[] = {{ {rows} }};
        float x[MODEL_FEATURES];
        unsigned i, j;
        for (i = 0; i < sizeof rows / sizeof rows[0]; ++i) {{
            printf("%d", model_encode(rows + i, x));
            for (j = 0; j < MODEL_FEATURES; ++j) printf(" %.9g", (double)x[j]);
            printf("\\n");
        }}
        return 0;
    }}
    """
    (folder / "main.c").write_text(main, "utf-8")
    command = [*UNLIMITED, "gcc", *STRICT, *SANITIZERS, "main.c", "model.c", "-o", "main", "-lm"]
    subprocess.run(command, cwd=folder, check=True)
    command = [*UNLIMITED, str(folder / "main")]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    numbers = np.array([line.split() for line in said.splitlines()], dtype=np.float32)
    return numbers[:, 1:], numbers[:, 0]
