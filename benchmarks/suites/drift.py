"""Streams that drift: accuracy before each block is learned, beside peers with partial_fit."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any

import click
import numpy as np
from matplotlib.figure import Figure
from sklearn.kernel_approximation import Nystroem, RBFSampler
from sklearn.linear_model import SGDClassifier
from sklearn.naive_bayes import GaussianNB
from sklearn.neural_network import MLPClassifier
from sklearn.preprocessing import StandardScaler

from benchmarks.frontier.measure import ROOT
from benchmarks.tables import Table, record_lines
from kernlet import CompactKernelClassifier, ProximalClassifier
from kernlet.atomic import atomic_write
from kernlet.datasets import load
from kernlet.report.draw import picture_style

RESULTS = ROOT / "docs" / "results" / "drift.json"
BLOCK_ROWS = 500
N_CENTERS = 50  # or features, hidden units and landmarks
_PASSES = 10  # over each block, for machines that learn by gradients
SEEDS = (1, 2, 3)
Rows = tuple[Any, Any]

# -- Streams ---------------------------------------------------------------------------------


def _all_rows(name: str, seed: int) -> Rows:
    """Training and test rows of a set, in random order."""
    data = load(name)
    X, y = np.vstack([data.X, data.X_test]), np.concatenate([data.y, data.y_test])
    order = np.random.RandomState(seed).permutation(len(y))
    return X[order].astype(np.float64), y[order]


def letter(seed: int) -> Rows:
    """Half of the rows, without drift."""
    X, y = _all_rows("letter", seed)
    return X[:10_000], y[:10_000]


def permuted_letter(seed: int) -> Rows:
    """The labels are permuted after a third and again after two thirds of the rows."""
    X, y = letter(seed)
    labels, random = np.unique(y), np.random.RandomState(1000 + seed)
    codes, third = np.searchsorted(labels, y), len(y) // 3
    for first in (third, 2 * third):
        codes[first:] = random.permutation(len(labels))[codes[first:]]
    return X, labels[codes]


def turning_pendigits(seed: int) -> Rows:
    """The pen's eight points turn by 180 degrees about the middle, row by row."""
    X, y = _all_rows("pendigits", seed)
    points, angles = X.reshape(-1, 8, 2) - 50, np.linspace(0, np.pi, len(y))[:, None]
    a, b = points[..., 0], points[..., 1]
    turned = np.cos(angles) * a - np.sin(angles) * b, np.sin(angles) * a + np.cos(angles) * b
    return np.stack(turned, axis=-1).reshape(X.shape), y


def turning_board(seed: int) -> Rows:
    """A 4 x 4 checkerboard of 10,000 rows that turns by 45 degrees."""
    X = np.random.RandomState(seed).uniform(-2, 2, (10_000, 2))
    angles = np.linspace(0, np.pi / 4, len(X))
    x = np.cos(angles) * X[:, 0] - np.sin(angles) * X[:, 1]
    y = np.sin(angles) * X[:, 0] + np.cos(angles) * X[:, 1]
    return X, ((np.floor(x) + np.floor(y)) % 2).astype(int)


def covertype(seed: int, first: int = 0) -> Rows:
    """15,000 rows in the original order; the seed is that of the machines alone."""
    data = load("covertype")
    rows = slice(first, first + 15_000)
    return np.asarray(data.X[rows], dtype=np.float64), np.asarray(data.y[rows])


def later_covertype(seed: int) -> Rows:
    """The same from row 200,000."""
    return covertype(seed, 200_000)


def tilted_optdigits(seed: int) -> Rows:
    """Images are turned by 90 degrees in the second half."""
    X, y = _all_rows("optdigits", seed)
    images, half = X.reshape(-1, 8, 8), len(y) // 2
    turned = np.rot90(images[half:], axes=(1, 2))
    return np.concatenate([images[:half], turned]).reshape(X.shape), y


def fading_satimage(seed: int) -> Rows:
    """The gain of a sensor falls to a half, and its offset rises by 40 of 255 levels."""
    X, y = _all_rows("satimage", seed)
    share = np.linspace(0, 1, len(y))[:, None]
    return X * (1 - share / 2) + 40 * share, y


STREAMS: dict[str, Callable[[int], Rows]] = {
    "letter, no drift": letter,
    "letter, labels permuted twice": permuted_letter,
    "pendigits, turning": turning_pendigits,
    "checkerboard, turning": turning_board,
    "covertype, rows from 0": covertype,
    "covertype, rows from 200,000": later_covertype,
    "optdigits, turned once": tilted_optdigits,
    "satimage, fading": fading_satimage,
}

# -- Machines --------------------------------------------------------------------------------


class Ours:
    """A compact machine, which scales its columns itself."""

    def __init__(self, seed: int, **parameters: Any) -> None:
        self.machine = CompactKernelClassifier(N_CENTERS, random_state=seed, **parameters)

    def learn(self, X: Any, y: Any, classes: Any) -> None:
        """Learn a block."""
        self.machine.partial_fit(X, y, classes)

    def predict(self, X: Any) -> Any:
        """Labels of rows."""
        return self.machine.predict(X)

    @property
    def nbytes(self) -> int:
        """Everything that a prediction needs."""
        return self.machine.nbytes_


class Static(Ours):
    """The same, fitted to the first two blocks and never again."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.rows: list[Rows] = []

    def learn(self, X: Any, y: Any, classes: Any) -> None:
        """Learn a block."""
        if len(self.rows) < 2:
            self.rows.append((X, y))
            self.machine.fit(*(np.concatenate(part) for part in zip(*self.rows, strict=True)))


class Peer:
    """A classifier of scikit-learn, behind features, on columns scaled by the first block."""

    def __init__(self, classifier: Any, features: Any = None, passes: int = 1) -> None:
        self.classifier, self.features, self.passes = classifier, features, passes
        self.scaler: StandardScaler | None = None

    def learn(self, X: Any, y: Any, classes: Any) -> None:
        """Learn a block."""
        if self.scaler is None:
            self.scaler = StandardScaler().fit(X)
            if self.features is not None:
                self.features.set_params(gamma=1 / X.shape[1]).fit(self.scaler.transform(X))
            self.random = np.random.RandomState(0)
        X = self._mapped(X)
        for _ in range(self.passes):
            order = self.random.permutation(len(y))
            self.classifier.partial_fit(X[order], y[order], classes=classes)

    def predict(self, X: Any) -> Any:
        """Labels of rows."""
        return self.classifier.predict(self._mapped(X))

    def _mapped(self, X: Any) -> Any:
        assert self.scaler is not None
        X = self.scaler.transform(X)
        return X if self.features is None else self.features.transform(X)

    @property
    def nbytes(self) -> int:
        """Everything that a prediction needs, in float32."""
        names = ("components_", "normalization_", "random_weights_", "random_offset_")
        names += ("coef_", "intercept_", "coefs_", "intercepts_", "theta_", "var_", "class_prior_")
        owners = [self.scaler, self.features, self.classifier]
        tables = [getattr(self.scaler, name) for name in ("mean_", "scale_")]
        if isinstance(self.classifier, ProximalClassifier):
            expansion = self.classifier.expansion_
            tables += [expansion.centers, expansion.coef, expansion.intercept]
        else:
            tables += [getattr(each, n) for each in owners for n in names if hasattr(each, n)]
        flat = [
            part for table in tables for part in (table if isinstance(table, list) else [table])
        ]
        return sum(4 * np.size(part) for part in flat)


class Window(Peer):
    """A proximal machine of the last four blocks, which has landmarks in the first of them."""

    def __init__(self, classifier: Any) -> None:
        super().__init__(classifier)
        self.rows: list[Rows] = []

    def learn(self, X: Any, y: Any, classes: Any) -> None:
        """Learn a block."""
        if self.scaler is None:
            self.scaler = StandardScaler().fit(X)
        self.rows = [*self.rows[-3:], (self._mapped(X), y)]
        self.classifier.fit_blocks(self.rows, classes=classes)


def _sgd(seed: int) -> SGDClassifier:
    return SGDClassifier(
        loss="log_loss", learning_rate="constant", eta0=1.0, alpha=1e-5, random_state=seed
    )


def _mlp(seed: int) -> MLPClassifier:
    return MLPClassifier((N_CENTERS,), learning_rate_init=0.03, random_state=seed)


def _proximal(seed: int) -> ProximalClassifier:
    return ProximalClassifier(100.0, landmarks=N_CENTERS, random_state=seed)


MACHINES: dict[str, Callable[[int], Any]] = {
    "CompactKernelClassifier": Ours,
    "the same, int8": lambda seed: Ours(seed, storage="int8"),
    "the same, memory_size=250": lambda seed: Ours(seed, memory_size=250),
    "the same, memory_size=4000": lambda seed: Ours(seed, memory_size=4000),
    "the same, fitted once to two blocks": Static,
    "MLPClassifier": lambda seed: Peer(_mlp(seed), None, _PASSES),
    "Nystroem, SGDClassifier": lambda seed: Peer(
        _sgd(seed), Nystroem(n_components=N_CENTERS, random_state=seed), _PASSES
    ),
    "RBFSampler, SGDClassifier": lambda seed: Peer(
        _sgd(seed), RBFSampler(n_components=N_CENTERS, random_state=seed), _PASSES
    ),
    "GaussianNB": lambda seed: Peer(GaussianNB()),
    "ProximalClassifier": lambda seed: Peer(_proximal(seed)),
    "ProximalClassifier, four blocks": lambda seed: Window(_proximal(seed)),
}

# -- Runs ------------------------------------------------------------------------------------


def run(machine: Any, X: Any, y: Any) -> tuple[list[float], float]:
    """Accuracy on each block before it is learned, but the first; CPU seconds of learning."""
    classes, accuracies, seconds = np.unique(y), [], 0.0
    bounds = [*range(0, len(y), BLOCK_ROWS), len(y)]
    for start, stop in pairwise(bounds):
        block = X[start:stop], y[start:stop]
        if start:
            accuracies.append(float(np.mean(machine.predict(block[0]) == block[1])))
        began = time.process_time()
        machine.learn(*block, classes)
        seconds += time.process_time() - began
    return accuracies, seconds / (len(bounds) - 1)


def measured(stream: str, name: str, seeds: tuple[int, ...]) -> dict[str, Any]:
    """All seeds of a machine on a stream."""
    runs, machine = [], None
    for seed in seeds:
        machine = MACHINES[name](seed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            runs.append(run(machine, *STREAMS[stream](seed)))
    curves = [accuracies for accuracies, _ in runs]
    assert machine is not None
    return {
        "stream": stream,
        "machine": name,
        "accuracies": [round(100 * float(np.mean(curve)), 3) for curve in curves],
        "curve": [round(100 * float(each), 2) for each in np.mean(curves, axis=0)],
        "nbytes": int(machine.nbytes),
        "seconds": round(float(np.median([seconds for _, seconds in runs])), 5),
    }


def drift(quick: bool) -> Iterator[Table]:
    """Prequential accuracy of all machines on all streams; a whole run writes the JSON file."""
    streams = ["pendigits, turning"] if quick else list(STREAMS)
    records = []
    for stream in streams:
        for name in MACHINES:
            records.append(measured(stream, name, SEEDS[:1] if quick else SEEDS))
            click.echo(f"{stream}: {name} {np.mean(records[-1]['accuracies']):.2f}", err=True)
    document = {
        "command": "make bench ARGS=drift",
        "block_rows": BLOCK_ROWS,
        "seeds": list(SEEDS),
        "records": records,
    }
    if not quick:
        with atomic_write(RESULTS) as part:
            part.write_text(record_lines(document), encoding="utf-8")
    yield accuracy_table(document)
    yield cost_table(document)


def accuracy_table(document: dict[str, Any]) -> Table:
    """Mean accuracy over the blocks and the seeds."""
    records = document["records"]
    streams = list(dict.fromkeys(record["stream"] for record in records))
    table = Table(
        f"Accuracy in % on each block of {document['block_rows']} rows before it is learned: mean "
        "over blocks and seeds ± deviation over seeds",
        ["machine", *streams],
    )
    best = {
        stream: max(np.mean(r["accuracies"]) for r in records if r["stream"] == stream)
        for stream in streams
    }
    for name in dict.fromkeys(record["machine"] for record in records):
        cells = []
        for record in (r for r in records if r["machine"] == name):
            values = record["accuracies"]
            deviation = f" ± {np.std(values, ddof=1):.1f}" if len(values) > 1 else ""
            cell = f"{np.mean(values):.1f}{deviation}"
            cells.append(f"**{cell}**" if np.mean(values) == best[record["stream"]] else cell)
        table.add(name, *cells)
    return table


def cost_table(document: dict[str, Any]) -> Table:
    """Bytes and time of a block, of the streams of most and of fewest classes and columns."""
    table = Table(
        "What a prediction needs, and CPU time per block",
        ["machine", "stream", "bytes", "ms per block"],
    )
    for record in document["records"]:
        if record["stream"] in ("pendigits, turning", "letter, no drift"):
            milliseconds = f"{1000 * record['seconds']:.1f}"
            table.add(record["machine"], record["stream"], f"{record['nbytes']:,}", milliseconds)
    return table


#: Machines of the picture and their colours.
_SHOWN = {
    "CompactKernelClassifier": "C1",
    "the same, memory_size=250": "C4",
    "the same, fitted once to two blocks": "C6",
    "MLPClassifier": "C0",
    "Nystroem, SGDClassifier": "C2",
    "ProximalClassifier, four blocks": "C3",
}
_SMOOTHED_BLOCKS = 3


@picture_style()
def draw_drift(document: dict[str, Any]) -> Figure:
    """Accuracy over the blocks of each stream, as a moving mean of three blocks."""
    figure = Figure(figsize=(10, 5), layout="constrained")
    panels = figure.subplots(2, 4)
    streams = dict.fromkeys(record["stream"] for record in document["records"])
    for axes, stream in zip(panels.flat, streams, strict=False):
        for record in document["records"]:
            color = _SHOWN.get(record["machine"])
            if record["stream"] == stream and color is not None:
                window = np.full(_SMOOTHED_BLOCKS, 1 / _SMOOTHED_BLOCKS)
                curve = np.convolve(record["curve"], window, mode="valid")
                rows = document["block_rows"] * np.arange(2, 2 + len(curve)) / 1000
                axes.plot(rows, curve, color=color, linewidth=1.3, label=record["machine"])
        axes.set_title(stream, fontsize=10)
        axes.grid()
    figure.supxlabel("thousands of rows")
    figure.supylabel("accuracy before learning, %")
    handles, labels = panels[0, 0].get_legend_handles_labels()
    labels = [label.replace("the same", "compact") for label in labels]
    figure.legend(handles, labels, loc="outside upper center", ncols=3)
    return figure


BENCHMARKS = {"drift": drift}
