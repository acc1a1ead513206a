"""Compact kernel machines: accuracy by centers and bytes, speed, growth, probabilities, devices."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np
from sklearn.metrics import log_loss
from sklearn.preprocessing import StandardScaler

from benchmarks.competitors import mlp
from benchmarks.competitors.mlp_plan import Task
from benchmarks.tables import Table
from benchmarks.timing import measure
from kernlet import CompactKernelClassifier
from kernlet.compact.batches import BatchLoader
from kernlet.compact.folds import StackedBatches
from kernlet.compact.network import CrossEntropy, KernelNetwork
from kernlet.compact.train import TrainingConfig, default_batch_size, train_network
from kernlet.datasets import Dataset, load
from kernlet.devices import NUMPY, find_device
from papers.cache import ResultCache, key_of, timed
from papers.tables import mean_and_deviation

SEEDS = range(5)
CENTERS = [
    ("usps8", 20),
    ("usps", 100),
    ("mnist", 100),
    ("letter", 400),
]


def by_centers(quick: bool) -> Iterator[Table]:
    """Accuracy with a number of centers in float32."""
    table = Table(
        "Compact machines of float32 by centers: test accuracy in %, mean and deviation of 5 seeds",
        ["data", "centers", "accuracy", "bytes", "CPU s"],
    )
    for name, n_centers in CENTERS[: 2 if quick else None]:
        runs = [measure(_load, _fit_centers, name, n_centers, seed) for seed in SEEDS]
        scores = [100 * run.answer["score"] for run in runs]
        seconds = np.median([run.seconds for run in runs])
        nbytes = f"{runs[0].answer['nbytes']:,}"
        table.add(name, n_centers, mean_and_deviation(scores), nbytes, f"{seconds:.1f}")
    yield table


def sizes(quick: bool) -> Iterator[Table]:
    """What "auto" selects, and the test accuracy of that size."""
    table = Table(
        'n_centers="auto": validated accuracy by centers and, where there is one, rank of the '
        "projection (r), its standard error, and test accuracy of the machine chosen; seed 0",
        ["data", "path: centers validated %", "chosen", "standard error", "test %", "CPU s"],
    )
    names = ("optdigits", "pendigits", "satimage", "usps", "letter")
    for name in names[: 2 if quick else None]:
        run = measure(_load, _fit_auto, name, 0, 0)
        path = ", ".join(f"{size} {100 * score:.2f}" for size, score, _ in run.answer["path"])
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


#: Data, centers, rank of the projection, and numbers of networks trained at once.
EPOCHS: list[tuple[str, int, int | None, tuple[int, ...]]] = [
    ("usps", 100, None, (1, 3)),
    ("letter", 170, 16, (1, 6)),
    ("letter", 367, 16, (1, 3)),
    ("satimage", 76, 16, (1, 12)),
    ("mnist", 140, 12, (1, 3)),
    ("checkerboard_generated", 24, None, (1, 32)),
]


def speed(quick: bool) -> Iterator[Table]:
    """CPU seconds of whole fits, and matrix products of epochs against one large product."""
    table = Table(
        "CPU seconds of a fit (validation and last training included)",
        ["data", "centers", "fit s"],
    )
    for name, n_centers in [("usps", 100), ("mnist", 200)][: 1 if quick else 2]:
        fit = measure(_load, _fit_centers, name, n_centers, 0)
        table.add(name, n_centers, f"{fit.seconds:.1f}")
    yield table
    table = Table(
        "Epochs: GFLOP/s of all matrix products, over those of one large product (sgemm); medians "
        "of 5 in turn. Rounded: centers and coefficients in 4 bits, the projection in 8",
        [
            "data",
            "centers",
            "rank",
            "rounded",
            "networks at once",
            "CPU ms per epoch and network",
            "share of sgemm",
        ],
    )
    for name, n_centers, rank, stacks in EPOCHS[: 2 if quick else None]:
        for n_networks in stacks:
            for is_rounded in (False, True):
                case = (name, n_centers, rank, n_networks, is_rounded)
                epoch = measure(_epoch_case, _time_epoch, *case)
                table.add(
                    name,
                    n_centers,
                    rank or "",
                    "yes" if is_rounded else "no",
                    n_networks,
                    f"{1000 * epoch.answer['seconds']:.1f}",
                    f"{100 * epoch.answer['share']:.0f} %",
                )
    yield table


def growth(quick: bool) -> Iterator[Table]:
    """Time and memory of ten epochs against the number of rows, covertype repeated with noise."""
    table = Table(
        "Growth: 54 features, 100 centers, 10 epochs, 7 classes",
        ["rows", "CPU s", "s per million rows", "memory of the data, MB", "memory grown, MB"],
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
    """Log-loss and calibration error on test rows, before and after temperature scaling."""
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
    path = [(_size(p.n_centers, p.rank), p.score, p.standard_error) for p in machine.path_]
    input_map, score = machine.expansion_.input_map, machine.score(data.X_test, data.y_test)
    matrix = None if input_map is None else input_map.matrix
    rank = None if matrix is None else len(matrix)
    return {"path": path, "chosen": _size(machine.n_centers_, rank), "score": score}


def _size(n_centers: int, rank: int | None) -> str:
    """Centers and rank, as the tables write them."""
    return f"{n_centers}" if rank is None else f"{n_centers} r{rank}"


@dataclass(frozen=True)
class EpochCase:
    """Networks with random parameters, to be trained at once, and the rows to train them on."""

    network: KernelNetwork
    batches: StackedBatches
    batch_size: int
    levels: dict[str, int]
    flops: float

    def train(self, n_epochs: int) -> None:
        """Train for some epochs at a small rate, so that nothing diverges."""
        config = TrainingConfig(n_epochs, self.batch_size, noise=0.1, learning_rate=0.01)
        steps = {name: np.full(self.network.centers.shape[:2], 0.05) for name in self.levels}
        random, batches = np.random.RandomState(0), cast(BatchLoader, self.batches)
        options = {"levels": self.levels, "steps": steps}
        train_network(self.network, CrossEntropy(), batches, config, random, **options)


def _epoch_case(
    name: str, n_centers: int, rank: int | None, n_networks: int, is_rounded: bool
) -> EpochCase:
    data, random = load(name), np.random.RandomState(0)
    X = StandardScaler().fit_transform(np.asarray(data.X, dtype=np.float32))
    codes = np.unique(data.y, return_inverse=True)[1]
    (n_rows, n_features), n_classes = X.shape, data.n_classes
    n_outputs = n_classes if n_classes > 2 else 1
    loader = BatchLoader(
        X, codes, np.ones(n_rows), table=CrossEntropy().target_table(n_classes), device=NUMPY
    )
    width = rank or n_features
    shapes = {"centers": (n_centers, width), "weights": (n_outputs, n_centers)}
    shapes |= {} if rank is None else {"projection": (rank, n_features)}
    arrays = {
        name: random.standard_normal((n_networks, 1, *shape)) / np.sqrt(shape[-1])
        for name, shape in shapes.items()
    }
    arrays["intercept"] = np.zeros((n_networks, 1, n_outputs))
    arrays["log_gamma"] = np.full((n_networks, 1, 1), -np.log(width))
    products = (2 if rank is None else 3) * width + 3 * n_outputs  # of rows and centers
    flops = 2.0 * n_rows * (n_centers * products + 2 * n_features * (rank or 0))
    levels = {"centers": 7, "weights": 7, "projection": 127}
    return EpochCase(
        KernelNetwork(**arrays).map(NUMPY.send),
        StackedBatches([loader], [np.arange(n_rows)]),
        default_batch_size(n_rows),
        {name: levels[name] for name in shapes} if is_rounded else {},
        flops * n_networks,
    )


def _time_epoch(case: EpochCase) -> dict[str, Any]:
    """CPU seconds of an epoch of a network, and the share of sgemm's speed.

    An epoch is the difference between long and short training, with sgemm in between.
    """
    short = min(max(1, int(1e9 // case.flops)), 100)  # few rows: steps take longer than products
    seconds, products = [], []
    for _ in range(5):
        times = [timed(case.train, n_epochs)[1] for n_epochs in (short, 4 * short)]
        seconds.append((times[1] - times[0]) / (3 * short))
        products.append(_sgemm_rate())
    epoch, rate = float(np.median(seconds)), 1e9 * float(np.median(products))
    n_networks = case.network.centers.shape[0]
    return {"seconds": epoch / n_networks, "share": case.flops / epoch / rate}


def _sgemm_rate() -> float:
    A = np.random.default_rng(0).random((2000, 2000), dtype=np.float32)
    A @ A
    _, seconds = timed(lambda: [A @ A for _ in range(5)])
    return 5 * 2 * 2000.0**3 / seconds / 1e9


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


DEVICE = os.environ.get("KERNLET_BENCH_DEVICE", "cpu")


def device(quick: bool) -> Iterator[Table]:
    """Training and prediction on the device in KERNLET_BENCH_DEVICE."""
    data = load("mnist")
    _fit_on_device(data, 200, n_epochs=1)  # start-up
    table = Table(
        f"mnist, 200 centers, on {device_name()}; start-up excluded, wall-clock seconds",
        ["epochs", "fit s", "test %", "rows per second in training"],
    )
    for n_epochs in (12, 24, 36):
        start = time.perf_counter()
        machine = _fit_on_device(data, 200, n_epochs=n_epochs)
        seconds = time.perf_counter() - start
        score = 100 * machine.score(data.X_test, data.y_test)
        table.add(
            n_epochs, f"{seconds:.2f}", f"{score:.2f}", f"{n_epochs * len(data.X) / seconds:,.0f}"
        )
    yield table
    yield _predict_table()


def _fit_on_device(data: Dataset, n_centers: int, n_epochs: int) -> CompactKernelClassifier:
    machine = CompactKernelClassifier(
        n_centers, n_epochs=n_epochs, validation_fraction=None, device=DEVICE, random_state=0
    )
    return machine.fit(data.X, data.y)


def _predict_table() -> Table:
    """Rows per second if the rows are on the device already."""
    table = Table(
        f"Decision values of 100 features, 200 centers, 10 outputs, on {device_name()}",
        ["rows", "s", "rows per second"],
    )
    generator = np.random.default_rng(0)
    X = generator.standard_normal((20_000, 100), dtype=np.float32)
    machine = CompactKernelClassifier(200, n_epochs=1, random_state=0)
    machine.fit(X, np.arange(len(X)) % 10)
    place = find_device(DEVICE)
    for n_rows in (10**5, 2 * 10**6):
        rows = place.send(np.tile(X, (n_rows // len(X), 1)))
        machine.expansion_.decision_values(rows)
        _wait(place)
        start = time.perf_counter()
        for _ in range(10):
            machine.expansion_.decision_values(rows)
        _wait(place)
        seconds = (time.perf_counter() - start) / 10
        table.add(f"{n_rows:,}", f"{seconds:.4f}", f"{n_rows / seconds:.2e}")
    return table


def _wait(place: Any) -> None:
    """Wait until all work on a GPU is done."""
    if place.place is not None and place.place.type == "cuda":
        import torch

        torch.cuda.synchronize()


def device_name() -> str:
    """The name of the device."""
    if not DEVICE.startswith("cuda"):
        return f"{DEVICE}, one core"
    import torch

    return f"{torch.cuda.get_device_name()}, torch {torch.__version__}"


CACHE = Path("docs/results/compact-bytes.json")
#: Data and bytes.
PAIRS: list[tuple[str, int]] = [
    ("mnist", 63_400),
    ("mnist", 16_000),
    ("mnist", 4_000),
    ("letter", 63_400),
    ("letter", 16_000),
    ("letter", 4_000),
    ("usps", 63_400),
    ("usps", 16_000),
    ("usps", 4_000),
    ("satimage", 16_000),
    ("satimage", 4_000),
    ("optdigits", 16_000),
    ("optdigits", 4_000),
    ("pendigits", 4_000),
]


def by_bytes(quick: bool) -> Iterator[Table]:
    """Accuracy at equal bytes, the perceptron tuned for each budget."""
    cells = ResultCache(CACHE)
    pairs = PAIRS[-3:] if quick else PAIRS
    cells.fill("compact", _compact, [(name, n, seed) for name, n in pairs for seed in SEEDS])
    _tune(cells, pairs)
    cells.fill(
        "perceptron",
        _perceptron,
        [
            (name, n, seed, cells.get("tuned", name, n)["setting"])
            for name, n in pairs
            for seed in SEEDS
        ],
        n_keys=3,
    )
    yield _bytes_table(cells, pairs)
    yield _choices_table(cells, pairs)


def _compact(name: str, max_bytes: int, seed: int) -> dict[str, Any]:
    data = load(name)
    machine = CompactKernelClassifier(max_bytes=max_bytes, random_state=seed, device=DEVICE)
    _, seconds = timed(machine.fit, data.X, data.y)
    expansion = machine.expansion_
    return {
        "score": float(machine.score(data.X_test, data.y_test)),
        "validated": machine.validation_score_,
        "nbytes": machine.nbytes_,
        "centers": machine.n_centers_,
        "rank": None if expansion.packed["projection"] is None else expansion.rank,
        "storage": list(expansion.storage.values()),
        "seconds": seconds,
        "device": device_name(),
    }


def _tune(cells: ResultCache, pairs: list[tuple[str, int]]) -> None:
    """Select a setting for every budget on held-out training rows."""
    for name, max_bytes in pairs:
        if key_of("tuned", (name, max_bytes)) in cells.results:
            continue
        data = load(name)
        task = Task(data.X.shape[1], data.n_classes)
        grid = mlp.all_settings(task, len(data.X), max_bytes)
        numbers = range(len(grid))
        cells.fill("setting", _setting, [(name, max_bytes, number) for number in numbers])
        scores = [cells.get("setting", name, max_bytes, number) for number in numbers]
        best = int(np.argmax(scores))
        cells.put(
            {
                "setting": mlp.as_dict(grid[best]),
                "n_settings": len(grid),
                "validated": scores[best],
            },
            "tuned",
            name,
            max_bytes,
        )


def _setting(name: str, max_bytes: int, number: int) -> float:
    data = load(name)
    classes, codes = np.unique(data.y, return_inverse=True)
    task = Task(data.X.shape[1], len(classes))
    setting = mlp.all_settings(task, len(data.X), max_bytes)[number]
    return mlp.validated(setting, data.X, codes, find_device(DEVICE), seed=0)


def _perceptron(name: str, max_bytes: int, seed: int, setting: dict[str, Any]) -> dict[str, Any]:
    data = load(name)
    classes, codes = np.unique(data.y, return_inverse=True)
    task = Task(data.X.shape[1], len(classes))
    network = mlp.fit(mlp.setting_of(setting, task), data.X, codes, find_device(DEVICE), seed)
    if network.nbytes > max_bytes:
        raise ValueError(f"{network.nbytes} bytes are more than {max_bytes}.")
    score = np.mean(classes[network.predict(data.X_test)] == data.y_test)
    return {"score": float(score), "nbytes": network.nbytes}


def _bytes_table(cells: ResultCache, pairs: list[tuple[str, int]]) -> Table:
    table = Table(
        "Test accuracy in % at equal bytes, mean and deviation of 5 seeds; "
        "ahead or behind by more than one standard error of the test part",
        ["data", "bytes", "compact", "perceptron", "settings", "difference", "verdict"],
    )
    for name, max_bytes in pairs:
        ours, theirs = (
            [100 * cells.get(kind, name, max_bytes, seed)["score"] for seed in SEEDS]
            for kind in ("compact", "perceptron")
        )
        n_test = len(load(name).y_test)
        chance = np.mean(ours) / 100
        error = 100 * np.sqrt(chance * (1 - chance) / n_test)
        difference = float(np.mean(ours) - np.mean(theirs))
        verdict = "tied" if abs(difference) <= error else "ahead" if difference > 0 else "behind"
        table.add(
            name,
            f"{max_bytes:,}",
            mean_and_deviation(ours),
            mean_and_deviation(theirs),
            cells.get("tuned", name, max_bytes)["n_settings"],
            f"{difference:+.2f} (se {error:.2f})",
            verdict,
        )
    return table


def _choices_table(cells: ResultCache, pairs: list[tuple[str, int]]) -> Table:
    table = Table(
        "What was chosen by validation, seed by seed: centers, rank of the projection, storage",
        ["data", "bytes", "chosen", "bytes used", "perceptron chosen"],
    )
    for name, max_bytes in pairs:
        found = [cells.get("compact", name, max_bytes, seed) for seed in SEEDS]
        chosen = "; ".join(
            f"{f['centers']} r{f['rank'] or '-'} {'/'.join(f['storage'])}" for f in found
        )
        setting = cells.get("tuned", name, max_bytes)["setting"]
        table.add(
            name,
            f"{max_bytes:,}",
            chosen,
            f"{max(f['nbytes'] for f in found):,}",
            f"{setting['hidden']} rank {setting['rank']} {setting['first']}/{setting['others']}",
        )
    return table


BENCHMARKS = {
    "compact-centers": by_centers,
    "compact-auto": sizes,
    "compact-speed": speed,
    "compact-growth": growth,
    "compact-calibration": calibration,
    "compact-device": device,
    "compact-bytes": by_bytes,
}
