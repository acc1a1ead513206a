"""Export: ONNX graphs against skl2onnx, C against m2cgen, memory of kernlet fit."""

from __future__ import annotations

import csv
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import click
import numpy as np
import onnxruntime
import skl2onnx
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from benchmarks.m2cgen_code import kernel_functions, m2cgen_c, votes_of_pairs
from benchmarks.tables import Table
from benchmarks.timing import median_seconds
from kernlet import CompactKernelClassifier, to_c, to_onnx
from kernlet.compact.plan import StoragePlan
from kernlet.datasets import load
from kernlet.export.rounding import clear_rows
from kernlet.export.toolchain import TARGETS
from kernlet.kernels.base import c_float
from kernlet.model.describe import operations
from kernlet.model.model import as_model
from papers.tasks import Task, usps

_OPTIONS = ["gcc", "-std=c99", "-O2"]

#: Predicts the rows of a file repeatedly; prints classes and CPU seconds per row.
_HARNESS = """
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#define FEATURES 256
#define ROWS {n_rows}
typedef {number} number;
{declaration}
static number rows[ROWS][FEATURES];
int main(int argc, char **argv)
{{
    const int repeats = atoi(argv[1]);
    FILE *file = fopen(argv[2], "r");
    float value;
    int i, j, r, sum = 0;
    clock_t start;
    (void)argc;
    for (i = 0; i < ROWS; ++i)
        for (j = 0; j < FEATURES; ++j) {{
            if (fscanf(file, "%f", &value) != 1) return 1;
            rows[i][j] = (number)value;
        }}
    for (i = 0; i < ROWS; ++i) printf("%d ", {call});
    start = clock();
    for (r = 0; r < repeats; ++r)
        for (i = 0; i < ROWS; ++i) sum += {call};
    printf("\\n%.9g %d\\n", (double)(clock() - start) / CLOCKS_PER_SEC / repeats / ROWS, sum);
    return 0;
}}
"""


def c_source(quick: bool) -> Iterator[Table]:
    table = Table(
        "USPS, ten classes, in C (gcc -O2): 100 centers beside the whole SVC by m2cgen",
        [
            *("machine", "tables", "object file", "test accuracy", "labels as in Python"),
            *("one prediction", "times faster", "times smaller"),
        ],
    )
    task = usps()
    svc = SVC(C=10.0, gamma=1 / 128).fit(task.X, task.y)
    if quick:
        svc = SVC(C=10.0, gamma=1 / 128).fit(task.X[:300], task.y[:300])
    machine = CompactKernelClassifier(100, random_state=0).fit(task.X, task.y)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "rows.txt").write_text(_rows(task), encoding="ascii")
        slow, large = _svc_line(table, svc, task, folder)
        for storage in ("float32", "float16", "int8"):
            _machine_line(table, machine, task, folder / storage, storage, slow, large)
    yield table


def flash(quick: bool) -> Iterator[Table]:
    """Linked sizes of a machine of 1,000 bytes, by storage and exponential."""
    table = Table(
        "CompactKernelClassifier(max_bytes=1000) in C (gcc -Os): bytes of code and tables, and of "
        "flash with the run-time library",
        ["data", "storage", "exp", "tables", *(t for t in TARGETS if t != "host"), "accuracy"],
    )
    for name in ["pima"] if quick else ["pima", "pendigits", "satimage"]:
        data = load(name)
        X, X_test, y, y_test = data.X, data.X_test, data.y, data.y_test
        if X_test is None:
            X, X_test, y, y_test = train_test_split(X, y, random_state=0)
        scaler = StandardScaler().fit(X)
        machine = CompactKernelClassifier(max_bytes=1000, random_state=0)
        model = make_pipeline(scaler, machine.fit(scaler.transform(X), y))
        for storage, exp in product(("float32", "auto"), ("libm", "polynomial")):
            with tempfile.TemporaryDirectory() as folder:
                source = to_c(model, folder, storage, X=X_test, y=y_test, exp=exp)
                sizes = source.size_report(emulate=False)[1:]
            cells = [
                f"{(size.code or 0) + (size.tables or 0):,} / {size.flash:,}" for size in sizes
            ]
            accuracy = f"{100 * (source.rounding.accuracy_after or 0):.2f} %"
            table.add(name, source.storage, exp, f"{source.table_bytes:,}", *cells, accuracy)
    yield table


#: A machine of 16 features and 26 classes, and what changes it.
_PLAN = StoragePlan(16, 26, 60, None, ("int4", "int4", "int6"), intercept_bytes=2)
_SHAPES: dict[str, dict[str, Any]] = {
    "rbf": {},
    "projection to 12, 6 bits": {"rank": 12},
    "a width per center": {"width": "per_center"},
    "rational quadratic": {"kernel": "rational_quadratic"},
    "2 classes per center": {"n_entries": 2},
    "6 steps": {"n_steps": 6},
    "asinh": {"is_asinh": True},
    "means of 2 x 2 pixels": {"n_features": 64, "block": 2},
    "all but means": {
        "rank": 12,
        "width": "per_center",
        "kernel": "rational_quadratic",
        "n_entries": 2,
        "n_steps": 6,
        "is_asinh": True,
    },
}
_SHAPE_MAIN = """
#include "model.c"
#include <stdio.h>
#include <time.h>
static float rows[64][MODEL_FEATURES], values[MODEL_SCORES];
int main(void)
{
    unsigned i, j, r, seed = 1;
    float sum = 0.0f;
    clock_t start;
    for (i = 0; i < 64; ++i)
        for (j = 0; j < MODEL_FEATURES; ++j)
            rows[i][j] = (float)((seed = seed * 1664525u + 1013904223u) >> 16) / 16384.0f - 2.0f;
    start = clock();
    for (r = 0; r < 300; ++r)
        for (i = 0; i < 64; ++i) {
            model_predict(rows[i], values);
            sum += values[0];
        }
    printf("%.9g %g\\n", (double)(clock() - start) / CLOCKS_PER_SEC / 300 / 64, (double)sum);
    return 0;
}
"""


def shapes(quick: bool) -> Iterator[Table]:
    """Operations, bytes and time of each shape of a compact machine, with random tables."""
    table = Table(
        "Shapes of compact machines in C, 16 features, 26 classes, 60 centers: operations and time "
        "of a prediction (gcc -O2), bytes of code without tables on this computer (gcc -Os), and "
        "of flash with tables and run-time library elsewhere",
        [
            *("shape", "bytes", "tables", "products", "exp", "log", "compare", "time", "code"),
            *(target for target in TARGETS if target != "host"),
        ],
    )
    for name, changes in list(_SHAPES.items())[: 2 if quick else None]:
        plan = replace(_PLAN, **changes)
        expansion = plan.pack(*_random_parameters(plan))
        with tempfile.TemporaryDirectory() as folder:
            source = to_c(expansion, folder, "stored")
            sizes = {size.target: size for size in source.size_report(emulate=False)}
            seconds = _shape_seconds(Path(folder))
        code = sizes.pop("host").code or 0
        table.add(
            name,
            *(f"{n:,}" for n in (expansion.nbytes, source.table_bytes, *operations(expansion))),
            f"{1e6 * seconds:.1f} µs",
            f"{code:,}",
            *("-" if size.flash is None else f"{size.flash:,}" for size in sizes.values()),
        )
    yield table


def _shape_seconds(folder: Path) -> float:
    """CPU seconds of a prediction, the median of five runs."""
    (folder / "main.c").write_text(_SHAPE_MAIN, encoding="ascii")
    subprocess.run([*_OPTIONS, "main.c", "-o", "run", "-lm"], cwd=folder, check=True)
    runs = [
        subprocess.run(["./run"], cwd=folder, capture_output=True, text=True, check=True).stdout
        for _ in range(5)
    ]
    return float(np.median([float(line.split()[0]) for line in runs]))


def _random_parameters(plan: StoragePlan) -> tuple[Any, ...]:
    """Arguments of ``plan.pack``: sizes and speed do not depend on the numbers."""
    random = np.random.default_rng(0)
    rank = plan.n_inputs if plan.rank is None else plan.rank
    arrays = {
        "centers": random.normal(size=(plan.n_centers, rank)),
        "weights": random.normal(size=(plan.n_outputs, plan.n_centers)),
        "intercept": random.normal(size=plan.n_outputs),
        "log_gamma": np.full(plan.n_centers if plan.has_widths else 1, -2.0),
        "log_alpha": np.array([0.3]),
        "jumps": random.normal(size=plan.n_steps),
        "projection": random.normal(size=(rank, plan.n_inputs)) / rank,
    }
    places = None
    if plan.n_steps:
        thresholds = random.normal(size=plan.n_steps).astype(np.float16)
        places = (random.integers(plan.n_inputs, size=plan.n_steps), thresholds)
    return arrays, {}, 0.5, 2.0, places


def _rows(task: Task) -> str:
    return "\n".join(" ".join(c_float(v)[:-1] for v in row) for row in task.X_test)


def _svc_line(table: Table, svc: Any, task: Task, folder: Path) -> tuple[float, int]:
    click.echo(f"exporting {len(svc.support_)} support vectors by m2cgen", err=True)
    (folder / "svc.c").write_text(kernel_functions(m2cgen_c(svc)), encoding="ascii")
    click.echo("compiling them", err=True)
    subprocess.run([*_OPTIONS, "-c", "svc.c", "-o", "svc.o"], cwd=folder, check=True)
    codes, seconds = _timed(
        folder, "svc.o", "double", votes_of_pairs(10), "predict(rows[i])", task, 2
    )
    size = _size(folder / "svc.o")
    same = np.mean(codes == svc.predict(_float32(task)))
    accuracy = np.mean(codes == task.y_test)
    table.add(
        f"SVC, {len(svc.support_):,} vectors, m2cgen",
        "-",
        f"{size:,}",
        f"{100 * accuracy:.2f} %",
        f"{100 * same:.2f} %",
        f"{1e6 * seconds:,.0f} µs",
        "1",
        "1",
    )
    return seconds, size


def _machine_line(
    table: Table, machine: Any, task: Task, folder: Path, storage: str, slow: float, large: int
) -> None:
    source = to_c(machine, folder, storage, X=task.X_test, y=task.y_test)
    subprocess.run([*_OPTIONS, "-c", "model.c", "-o", "model.o"], cwd=folder, check=True)
    (folder / "rows.txt").write_text(_rows(task), encoding="ascii")
    call, declaration = "model_predict(rows[i], NULL)", '#include "model.h"'
    codes, seconds = _timed(folder, "model.o", "float", declaration, call, task, 20)
    same = np.mean(codes == machine.predict(_float32(task)))
    size = _size(folder / "model.o")
    table.add(
        f"compact, 100 centers, {storage}",
        f"{source.table_bytes:,}",
        f"{size:,}",
        f"{100 * np.mean(codes == task.y_test):.2f} %",
        f"{100 * same:.2f} %",
        f"{1e6 * seconds:,.1f} µs",
        f"{slow / seconds:.0f}",
        f"{large / size:.0f}",
    )


def _float32(task: Task) -> Any:
    """Test rows rounded to float32, as C reads them."""
    return np.float32(task.X_test).astype(np.float64)


def _timed(
    folder: Path, made: str, number: str, declaration: str, call: str, task: Task, repeats: int
) -> tuple[Any, float]:
    """Classes of all test rows, and CPU seconds per prediction (median of five runs)."""
    harness = _HARNESS.format(
        n_rows=len(task.X_test), number=number, declaration=declaration, call=call
    )
    (folder / "harness.c").write_text(harness, encoding="ascii")
    command = [*_OPTIONS, "harness.c", made, "-o", "run", "-lm"]
    subprocess.run(command, cwd=folder, check=True)
    seconds = []
    for _ in range(5):
        output = subprocess.run(
            ["./run", str(repeats), "rows.txt"],
            cwd=folder,
            capture_output=True,
            text=True,
            check=True,
        ).stdout.splitlines()
        seconds.append(float(output[1].split()[0]))
    return np.array(output[0].split(), dtype=int), float(np.median(seconds))


def _size(made: Path) -> int:
    output = subprocess.run(["size", str(made)], capture_output=True, text=True, check=True)
    text, data, _ = (int(word) for word in output.stdout.splitlines()[1].split()[:3])
    return text + data


#: By data set: centers of the compact machine, and C and gamma * n_features of the SVC on features
#: divided by their common deviation: usual values, set beforehand and not tuned.
TASKS = {
    "usps": (100, 10.0, 2.0),
    "pendigits": (100, 10.0, 2.0),
    "letter": (400, 100.0, 4.0),
}


def onnx_graphs(quick: bool) -> Iterator[Table]:
    table = Table(
        "ONNX in onnxruntime, one thread: kernlet's graph beside skl2onnx's SVC",
        [
            *("data", "SVC", "its vectors", "compact", "centers", "rows", "clear", "labels equal"),
            *("SVC, all rows", "compact", "ratio", "SVC, one row", "compact", "ratio"),
        ],
    )
    for name in ["usps"] if quick else TASKS:
        table.add(name, *_onnx_line(name))
    yield table


def _onnx_line(name: str) -> Iterator[str]:
    n_centers, C, gamma = TASKS[name]
    data = load(name)
    deviation = float(np.std(data.X))
    X, X_test = (np.asarray(A, dtype=np.float32) / deviation for A in (data.X, data.X_test))
    svc = SVC(C=C, gamma=gamma / X.shape[1]).fit(X, data.y)
    machine = CompactKernelClassifier(n_centers, random_state=0).fit(X, data.y)
    theirs = _session(skl2onnx.to_onnx(svc, X[:1], options={"zipmap": False}))
    ours = _session(to_onnx(machine, X=X_test))
    labels = ours.run(["label"], {"X": X_test})[0]
    outputs = as_model(machine).outputs(X_test.astype(np.float64))
    clear = clear_rows(as_model(machine), outputs)
    same = labels[clear] == machine.predict(X_test.astype(np.float64))[clear]
    yield f"{100 * svc.score(X_test, data.y_test):.2f} %"
    yield f"{len(svc.support_):,}"
    yield f"{100 * machine.score(X_test, data.y_test):.2f} %"
    yield f"{machine.n_centers_}"
    yield f"{len(X_test):,}"
    yield f"{len(clear):,}"
    yield f"{100 * same.mean():.2f} %"
    for rows, repeats in ((X_test, 5), (X_test[:1], 200)):
        slow = _warm_seconds(repeats, theirs.run, None, {"X": rows})
        fast = _warm_seconds(repeats, ours.run, None, {"X": rows})
        yield f"{1e3 * slow:.3g} ms"
        yield f"{1e3 * fast:.3g} ms"
        yield f"{slow / fast:.0f}"


def _session(graph: Any) -> Any:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    return onnxruntime.InferenceSession(
        graph.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )


def _warm_seconds(repeats: int, function: Callable[..., Any], *arguments: Any) -> float:
    """Median CPU time, after one call to warm up."""
    function(*arguments)
    return median_seconds(repeats, function, *arguments)


def fit_memory(quick: bool) -> Iterator[Table]:
    table = Table(
        "kernlet fit on a CSV file of covertype (54 columns, 7 classes)",
        ["rows", "MB of CSV", "options", "peak memory", "wall time", "test accuracy", "lines said"],
    )
    n_rows = 10_000 if quick else 100_000
    data = load("covertype")
    rows = np.random.RandomState(0).permutation(len(data.X))[:n_rows]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "covertype.csv"
        with path.open("w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow([f"c{i}" for i in range(data.X.shape[1])] + ["cover"])
            writer.writerows(np.column_stack([data.X[rows], data.y[rows]]).tolist())
        for options in (["--centers", "100"], ["--bytes", "4k"]):
            table.add(f"{n_rows:,}", f"{path.stat().st_size / 1e6:.0f}", *_fit_line(path, options))
    yield table


def _fit_line(path: Path, options: list[str]) -> Iterator[str]:
    command = [sys.executable, "-c", "from kernlet.cli import main; main()", "fit", str(path)]
    start = time.monotonic()
    ran = subprocess.run(
        [*command, "--target", "cover", *options, "-o", str(path.with_suffix(".kernlet"))],
        capture_output=True,
        text=True,
        check=True,
    )
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
    accuracy = next(line for line in ran.stdout.splitlines() if "test accuracy" in line)
    yield " ".join(options)
    yield f"{peak:,.0f} MB"
    yield f"{time.monotonic() - start:.0f} s"
    yield accuracy.split("accuracy ")[1].split(" on")[0]
    yield str(len(ran.stderr.splitlines()))


BENCHMARKS = {
    "ship-onnx": onnx_graphs,
    "ship-c": c_source,
    "ship-flash": flash,
    "ship-shapes": shapes,
    "ship-fit": fit_memory,
}
