"""Compact kernel machines: accuracy by centers, sizes chosen, speed, growth, probabilities."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import numpy as np
from sklearn.metrics import log_loss

from benchmarks.isolated import measure
from benchmarks.tables import Table, spread
from kernlet import CompactKernelClassifier
from kernlet.datasets import Dataset, load

SEEDS = range(5)
CENTERS = [
    ("usps8", 20, 98.5),
    ("usps", 100, 95.0),
    ("mnist", 100, 97.9),
    ("letter", 400, 96.5),
]


def by_centers(quick: bool) -> Iterator[Table]:
    """Accuracy with a number of centers in float32."""
    table = Table(
        "Compact machines of float32 by centers: test accuracy in %, mean and deviation of 5 seeds",
        ["data", "centers", "accuracy", "wanted", "bytes", "CPU s"],
    )
    for name, n_centers, wanted in CENTERS[: 2 if quick else None]:
        runs = [measure(_load, _fit_centers, name, n_centers, seed) for seed in SEEDS]
        scores = [100 * run.answer["score"] for run in runs]
        seconds = np.median([run.seconds for run in runs])
        nbytes = f"{runs[0].answer['nbytes']:,}"
        table.add(name, n_centers, spread(scores), wanted, nbytes, f"{seconds:.1f}")
    yield table


def sizes(quick: bool) -> Iterator[Table]:
    """What "auto" chooses, and how it and the best size of its path do on the test rows."""
    table = Table(
        'n_centers="auto": validated path (seed 0), and test accuracy of the size chosen',
        ["data", "path: centers validated %", "chosen", "standard error", "test %", "CPU s"],
    )
    names = ("optdigits", "pendigits", "satimage", "usps", "letter")
    for name in names[: 2 if quick else None]:
        run = measure(_load, _fit_auto, name, 0, 0)
        path = ", ".join(f"{k} {100 * score:.2f}" for k, score, _ in run.answer["path"])
        error = max(run.answer["path"], key=lambda point: point[1])[2]
        table.add(
            name,
            path,
            run.answer["chosen"],
            f"{100 * error:.2f}",
            f"{100 * run.answer['score']:.2f}",
            f"{run.seconds:.0f}",
        )
    yield table


def speed(quick: bool) -> Iterator[Table]:
    """CPU seconds of whole fits, and epochs beside the matrix products they are made of."""
    table = Table(
        "CPU seconds of a fit (validation and last training included), and epochs against sgemm",
        ["data", "centers", "fit s", "wanted", "epoch GFLOP/s", "sgemm GFLOP/s", "share"],
    )
    for name, n_centers, wanted in [("usps", 100, 15), ("mnist", 200, 90)][: 1 if quick else 2]:
        fit = measure(_load, _fit_centers, name, n_centers, 0)
        epoch = measure(_load, _time_epoch, name, n_centers, 0)
        rate, best = epoch.answer["rate"], epoch.answer["gemm"]
        table.add(
            name,
            n_centers,
            f"{fit.seconds:.1f}",
            f"<= {wanted}",
            f"{rate:.0f}",
            f"{best:.0f}",
            f"{100 * rate / best:.0f} %",
        )
    yield table


def growth(quick: bool) -> Iterator[Table]:
    """Time and memory of ten epochs against the number of rows, covertype repeated with noise."""
    table = Table(
        "Growth: 54 features, 100 centers, 10 epochs, 7 classes",
        ["rows", "CPU s", "s a million rows", "memory of the data, MB", "memory grown, MB"],
    )
    for n_rows in (10**5, 5 * 10**5, 10**6, 2 * 10**6)[: 2 if quick else None]:
        run = measure(_many_rows, _fit_many, n_rows)
        table.add(
            f"{n_rows:,}",
            f"{run.seconds:.1f}",
            f"{1e6 * run.seconds / n_rows:.1f}",
            f"{n_rows * 54 * 4 / 2**20:.0f}",
            f"{run.growth:.0f}",
        )
    yield table


def calibration(quick: bool) -> Iterator[Table]:
    """Log-loss and calibration error on test rows, before and after the temperature."""
    table = Table(
        "Probabilities, 100 centers, seed 0: test log-loss and calibration error (15 bins)",
        ["data", "temperature", "log-loss at 1", "log-loss", "error at 1, %", "error, %"],
    )
    for name in ("usps", "satimage", "letter", "pendigits")[: 1 if quick else None]:
        data = _load(name, 100, 0)[0]
        machine = CompactKernelClassifier(100, random_state=0).fit(data.X, data.y)
        losses, errors = [], []
        temperature = machine.temperature_
        for value in (1.0, temperature):
            machine.temperature_ = value
            chances = machine.predict_proba(data.X_test)
            losses.append(log_loss(data.y_test, chances, labels=machine.classes_))
            errors.append(_calibration_error(chances, machine.classes_, data.y_test))
        facts = [f"{loss:.3f}" for loss in losses] + [f"{100 * e:.2f}" for e in errors]
        table.add(name, f"{temperature:.2f}", *facts)
    yield table


def _load(name: str, n_centers: int, seed: int) -> tuple[Dataset, int, int]:
    if name == "usps8":
        data = load("usps")
        data = Dataset("usps8", data.X, data.y == 8, data.X_test, data.y_test == 8)
    else:
        data = load(name)
    return data, n_centers, seed


def _fit_centers(prepared: Any) -> dict[str, Any]:
    data, n_centers, seed = prepared
    machine = CompactKernelClassifier(n_centers, random_state=seed).fit(data.X, data.y)
    return {"score": machine.score(data.X_test, data.y_test), "nbytes": machine.nbytes_}


def _fit_auto(prepared: Any) -> dict[str, Any]:
    data, _, seed = prepared
    machine = CompactKernelClassifier("auto", random_state=seed).fit(data.X, data.y)
    path = [(p.n_centers, p.score, p.standard_error) for p in machine.path_]
    score = machine.score(data.X_test, data.y_test)
    return {"path": path, "chosen": machine.n_centers_, "score": score}


def _time_epoch(prepared: Any) -> dict[str, Any]:
    """GFLOP a second of epochs, from fits of unlike length, and of products of matrices between."""
    data, n_centers, seed = prepared
    n_rows, n_features = data.X.shape
    short = max(2, 240_000 // n_rows)
    rates, products = [], []
    for _ in range(3):
        seconds = []
        for n_epochs in (short, 4 * short):
            machine = CompactKernelClassifier(
                n_centers, n_epochs=n_epochs, validation_fraction=None, random_state=seed
            )
            start = time.process_time()
            machine.fit(data.X, data.y)
            seconds.append(time.process_time() - start)
        work = 3 * short * 4.0 * n_rows * n_centers * n_features  # two products an epoch
        rates.append(work / (seconds[1] - seconds[0]) / 1e9)
        products.append(_sgemm_rate())
    return {"rate": float(np.median(rates)), "gemm": float(np.median(products))}


def _sgemm_rate() -> float:
    A = np.random.default_rng(0).random((2000, 2000), dtype=np.float32)
    A @ A
    start = time.process_time()
    for _ in range(5):
        A @ A
    return 5 * 2 * 2000.0**3 / (time.process_time() - start) / 1e9


def _many_rows(n_rows: int) -> tuple[Any, Any]:
    data = load("covertype")
    generator = np.random.default_rng(0)
    rows = generator.integers(len(data.X), size=n_rows)
    X = np.asarray(data.X, dtype=np.float32)[rows]
    X /= X.std(axis=0)
    X += 0.01 * generator.standard_normal(X.shape, dtype=np.float32)
    return X, data.y[rows]


def _fit_many(prepared: Any) -> dict[str, Any]:
    CompactKernelClassifier(100, n_epochs=10, random_state=0).fit(*prepared)
    return {}


def _calibration_error(chances: Any, classes: Any, labels: Any) -> float:
    """Mean distance between confidence and accuracy over 15 bins of confidence."""
    confidence = chances.max(axis=1)
    correct = classes[chances.argmax(axis=1)] == labels
    bins = np.minimum((confidence * 15).astype(int), 14)
    gaps = [abs(correct[bins == b].sum() - confidence[bins == b].sum()) for b in range(15)]
    return float(sum(gaps)) / len(labels)


BENCHMARKS = {
    "compact-centers": by_centers,
    "compact-auto": sizes,
    "compact-speed": speed,
    "compact-growth": growth,
    "compact-calibration": calibration,
}
