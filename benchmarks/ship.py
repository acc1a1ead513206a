"""What ships: ONNX graphs and the memory of kernlet fit."""

from __future__ import annotations

import csv
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import onnxruntime
import skl2onnx
from sklearn.svm import SVC

from benchmarks import ship_c
from benchmarks.tables import Table
from kernlet import CompactKernelClassifier, to_onnx
from kernlet.datasets import load
from kernlet.export import ship
from kernlet.export.rounding import close_calls

#: name -> centers of the compact machine, and C and gamma times features of the SVC on features
#: over their common deviation: usual values, set beforehand and not tuned
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
    outputs = ship(machine).outputs(X_test.astype(np.float64))
    clear = np.setdiff1d(np.arange(len(X_test)), close_calls(ship(machine), outputs))
    same = labels[clear] == machine.predict(X_test.astype(np.float64))[clear]
    yield f"{100 * svc.score(X_test, data.y_test):.2f} %"
    yield f"{len(svc.support_):,}"
    yield f"{100 * machine.score(X_test, data.y_test):.2f} %"
    yield f"{machine.n_centers_}"
    yield f"{len(X_test):,}"
    yield f"{len(clear):,}"
    yield f"{100 * same.mean():.2f} %"
    for rows, repeats in ((X_test, 5), (X_test[:1], 200)):
        slow = _seconds(lambda rows=rows: theirs.run(None, {"X": rows}), repeats)
        fast = _seconds(lambda rows=rows: ours.run(None, {"X": rows}), repeats)
        yield f"{1e3 * slow:.3g} ms"
        yield f"{1e3 * fast:.3g} ms"
        yield f"{slow / fast:.0f}"


def _session(graph: Any) -> Any:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    return onnxruntime.InferenceSession(
        graph.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )


def _seconds(call: Callable[[], Any], repeats: int) -> float:
    """Median CPU time, after a call that warms up."""
    call()
    times = []
    for _ in range(repeats):
        start = time.process_time()
        call()
        times.append(time.process_time() - start)
    return median(times)


def fit_memory(quick: bool) -> Iterator[Table]:
    table = Table(
        "kernlet fit on a CSV file of covertype (54 columns, 7 classes)",
        ["rows", "MB of CSV", "options", "peak memory", "wall time", "test accuracy", "lines said"],
    )
    n_rows = 10_000 if quick else 100_000
    data = load("covertype")
    some = np.random.RandomState(0).permutation(len(data.X))[:n_rows]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "covertype.csv"
        with path.open("w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow([f"c{i}" for i in range(data.X.shape[1])] + ["cover"])
            writer.writerows(np.column_stack([data.X[some], data.y[some]]).tolist())
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


BENCHMARKS: dict[str, Callable[[bool], Iterator[Table]]] = {
    "ship-onnx": onnx_graphs,
    "ship-c": ship_c.c_source,
    "ship-fit": fit_memory,
}
