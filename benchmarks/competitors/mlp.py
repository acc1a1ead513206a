"""Multi-layer perceptrons of a number of bytes, tuned: the main competitor of compact machines.

Tables, rounding, optimiser, loss and input noise are those of the kernel machine.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from itertools import pairwise, product
from typing import Any

import numpy as np
from sklearn.model_selection import train_test_split

from benchmarks.competitors.contract import Shape, spread_out
from kernlet.compact.network import (
    CrossEntropy,
    Examples,
    mean_and_deviation,
    rounded,
    through_rounding,
)
from kernlet.compact.train import SPARE_NOISE, Adam, Arrays, Schedule, State, usual_batch
from kernlet.devices import NUMPY, Device, capture_cuda_graph, to_numpy
from kernlet.quantization import FORMATS, Format, PackedArray, best_step, encode

FORMAT_PAIRS = (("int8", "int8"), ("int4", "int4"), ("ternary", "int4"), ("int4", "int6"))
RATES = (3e-3, 1e-2, 3e-2)
NOISE_AND_DECAY = ((0.0, 0.0), (0.1, 1e-4), (0.4, 1e-3))
MIN_SETTINGS, MAX_SETTINGS = 48, 72
LOSS = CrossEntropy(smoothing=0.1)
_BOTTLENECKS = ((1 / 3, 1 / 2), (2 / 3, 3 / 4))  # most of the bytes, and of the features
_MAX_WIDTH = 2**15
_STEP_RATE = 0.02  # of the logarithms of rounding steps, as in joint_descent


@dataclass(frozen=True)
class Setting:
    """A shape, its storage, and how to train it.

    Parameters
    ----------
    hidden : tuple of int
        Widths of the one or two layers of rectifiers.
    rank : int
        Of a linear map, without biases, in front of them; 0 for none.
    first, others : str
        Formats of the first table and of the others.
    rate : float
        Learning rate.
    noise : float
        Deviation of the noise on the inputs, in theirs.
    decay : float
        Of the weights: half of it times their squared norm is added to the loss.
    """

    hidden: tuple[int, ...]
    rank: int
    first: str
    others: str
    rate: float = 3e-3
    noise: float = 0.0
    decay: float = 0.0

    def shapes(self, n_features: int, n_classes: int) -> list[tuple[int, int]]:
        """Of the tables, each of inputs times outputs; two classes take one output."""
        front = (self.rank,) if self.rank else ()
        n_outputs = n_classes if n_classes > 2 else 1
        return list(pairwise((n_features, *front, *self.hidden, n_outputs)))

    def formats(self) -> list[Format]:
        """Of the tables."""
        n_others = len(self.hidden) + bool(self.rank)
        return [FORMATS[self.first]] + n_others * [FORMATS[self.others]]

    def n_bytes(self, n_features: int, n_classes: int) -> int:
        """Of tables with their steps, float32 biases, and the shift and scale of the inputs."""
        shapes = self.shapes(n_features, n_classes)
        tables = sum(
            format.n_bytes(n * m) for format, (n, m) in zip(self.formats(), shapes, strict=True)
        )
        return tables + 4 * (sum(self.hidden) + shapes[-1][1]) + 8


def all_settings(n_features: int, n_classes: int, max_bytes: int) -> list[Setting]:
    """From 48 to 72 settings, each as wide as the bytes allow."""
    shapes = [
        shape
        for first, others in FORMAT_PAIRS
        for shape in _shapes(n_features, n_classes, max_bytes, first, others)
    ]
    if not shapes:
        raise ValueError(f"No network of 2 hidden units fits {max_bytes} bytes.")
    n_rates = -(-MIN_SETTINGS // (len(shapes) * len(NOISE_AND_DECAY)))
    rates = RATES if n_rates <= len(RATES) else np.geomspace(RATES[0], RATES[-1], n_rates)
    grid = [
        ((s + s // 4 + i + 2 * j) % 4, replace(shape, rate=float(rate), noise=noise, decay=decay))
        for s, shape in enumerate(shapes)
        for (i, rate), (j, (noise, decay)) in product(enumerate(rates), enumerate(NOISE_AND_DECAY))
    ]
    # where there are too many, those left out are spread over shapes, rates and noises
    grid = sorted(grid, key=lambda numbered: numbered[0])[:MAX_SETTINGS]
    return [setting for _, setting in grid]


def _shapes(
    n_features: int, n_classes: int, max_bytes: int, first: str, others: str
) -> Iterator[Setting]:
    """One hidden layer, bottlenecks of two ranks, two hidden layers: those that fit."""
    a_rank = FORMATS[first].n_bytes(1000 * n_features) / 1000
    ranks = {
        min(int(share * max_bytes / a_rank), int(part * n_features)) for share, part in _BOTTLENECKS
    }
    for rank, n_hidden in [(0, 1), *((rank, 1) for rank in sorted(ranks) if rank > 1), (0, 2)]:

        def of_width(width: int, rank: int = rank, n_hidden: int = n_hidden) -> Setting:
            return Setting(n_hidden * (width,), rank, first, others)

        def n_bytes(width: int, of_width: Any = of_width) -> int:
            return int(of_width(width).n_bytes(n_features, n_classes))

        width = bisect_right(range(_MAX_WIDTH), max_bytes, key=n_bytes) - 1
        if width >= 2:
            yield of_width(width)


@dataclass(frozen=True, eq=False)
class Network:
    """A network as it is stored.

    Parameters
    ----------
    tables : tuple of PackedArray
        Weights of each layer, of shape (n_inputs, n_outputs).
    biases : tuple of ndarray
        Of each layer, in float32; empty for a linear map in front.
    shift, scale : float
        Of the inputs, in float32.
    """

    tables: tuple[PackedArray, ...]
    biases: tuple[Any, ...]
    shift: np.float32
    scale: np.float32

    @property
    def nbytes(self) -> int:
        """Bytes of everything stored."""
        arrays = [*self.tables, *self.biases, self.shift, self.scale]
        return sum(array.nbytes for array in arrays)

    def predict(self, X: Any, chunk: int = 8192) -> Any:
        """Class numbers of rows."""
        numbers = np.zeros(X.shape[0])
        examples = _examples(X, numbers, float(self.shift), float(self.scale))
        arrays = {f"W{i}": table.decoded() for i, table in enumerate(self.tables)}
        arrays |= {f"b{i}": bias for i, bias in enumerate(self.biases) if len(bias)}
        codes = [np.zeros(0, np.int64)]
        for start in range(0, X.shape[0], chunk):
            rows = examples.rows(np.arange(start, min(start + chunk, examples.n_rows)))
            outputs = forward(arrays, rows)[-1]
            codes.append(outputs[:, 0] > 0 if outputs.shape[1] == 1 else outputs.argmax(axis=1))
        return np.concatenate(codes)


def forward(arrays: Arrays, rows: Any) -> list[Any]:
    """What each layer takes, and the outputs; layers with biases but the last have rectifiers."""
    n_layers = sum(name[0] == "W" and name[1:].isdigit() for name in arrays)
    values = [rows]
    for i in range(n_layers):
        outputs = values[-1] @ arrays[f"W{i}"]
        if f"b{i}" in arrays:
            outputs += arrays[f"b{i}"]
            if i < n_layers - 1:
                outputs *= outputs > 0
        values.append(outputs)
    return values


def slopes_of(arrays: Arrays, rows: Any, targets: Any) -> Arrays:
    """Derivatives of the mean loss by weights and biases."""
    values = forward(arrays, rows)
    pull = LOSS.value_and_pull(values[-1], targets)[1] / rows.shape[0]
    slopes = {}
    for i in reversed(range(len(values) - 1)):
        slopes[f"W{i}"] = values[i].T @ pull
        if f"b{i}" in arrays:
            slopes[f"b{i}"] = pull.sum(0)
        if i:
            pull = pull @ arrays[f"W{i}"].T
            if f"b{i - 1}" in arrays:
                pull *= values[i] > 0
    return slopes


def fit(setting: Setting, X: Any, codes: Any, n_classes: int, device: Device, seed: int) -> Network:
    """Train in full precision, then half as long with rounded tables."""
    random = np.random.RandomState(seed)
    shift, scale = (np.float32(number) for number in mean_and_deviation(X))
    examples = _examples(X, codes, float(shift), float(scale), n_classes, device)
    n_epochs = int(np.clip(2_160_000 / examples.n_rows, 10, 120))
    shapes, formats = setting.shapes(X.shape[1], n_classes), setting.formats()
    start = {name: device.send(a) for name, a in _start(setting, shapes, random).items()}
    arrays = _train(start, {}, setting, examples, n_epochs, 1.0, random)
    levels = {f"W{i}": format.n_levels for i, format in enumerate(formats)}
    for name, n_levels in levels.items():
        step = best_step(to_numpy(arrays[name]), n_levels)
        arrays[f"{name}_log_step"] = device.send(np.log([step]))
    arrays = _train(arrays, levels, setting, examples, n_epochs // 2, 0.3, random)
    found = {name: to_numpy(array) for name, array in arrays.items()}
    return Network(
        tuple(
            encode(found[f"W{i}"], format, float(np.exp(found[f"W{i}_log_step"][0])))
            for i, format in enumerate(formats)
        ),
        tuple(found.get(f"b{i}", np.zeros(0, np.float32)) for i in range(len(formats))),
        shift,
        scale,
    )


def validated(
    setting: Setting, X: Any, codes: Any, n_classes: int, device: Device, seed: int
) -> float:
    """The accuracy on a fifth of the rows, always the same, of a network trained on the others."""
    rows = np.arange(X.shape[0])
    train, check = train_test_split(rows, test_size=0.2, stratify=codes, random_state=0)
    network = fit(setting, X[train], codes[train], n_classes, device, seed)
    return float(np.mean(network.predict(X[check]) == codes[check]))


def _examples(
    X: Any, codes: Any, shift: float, scale: float, n_classes: int = 2, device: Device = NUMPY
) -> Examples:
    return Examples(
        X,
        np.asarray(codes, dtype=np.int64),
        np.ones(X.shape[0]),
        table=LOSS.target_table(n_classes),
        shift=shift,
        scale=scale,
        device=device,
    )


def _start(
    setting: Setting, shapes: list[tuple[int, int]], random: np.random.RandomState
) -> dict[str, Any]:
    """Weights that keep the variance (He et al., 2015), and biases of 0."""
    arrays = {}
    for i, (n_inputs, n_outputs) in enumerate(shapes):
        linear = i == len(shapes) - 1 or (i == 0 and setting.rank > 0)
        deviation = np.sqrt((1 if linear else 2) / n_inputs)
        arrays[f"W{i}"] = deviation * random.standard_normal((n_inputs, n_outputs))
        if i or not setting.rank:
            arrays[f"b{i}"] = np.zeros(n_outputs)
    return arrays


def _train(
    arrays: Arrays,
    levels: dict[str, Any],
    setting: Setting,
    examples: Examples,
    n_epochs: int,
    speed: float,
    random: np.random.RandomState,
) -> Arrays:
    """Adam from where the arrays are; those that have levels are rounded. Nothing waits for it."""
    n_rows, n_features, device = examples.n_rows, examples.n_features, examples.device
    batch_size = usual_batch(n_rows)
    n_batches = -(-n_rows // batch_size)
    bounds = np.linspace(0, n_rows, n_batches + 1).astype(int).tolist()
    rates = {n: _STEP_RATE if n.endswith("step") else speed * setting.rate for n in arrays}
    adam = Adam(arrays, rates, Schedule(n_epochs * n_batches))
    noise = _noise(setting.noise, (n_rows if n_batches == 1 else batch_size) * n_features, random)
    noise = device.send(noise)
    tables = [name for name in arrays if name[0] == "W" and name[1:].isdigit()]

    def step(vector: Any, mean: Any, square: Any, batch: Any, piece: Any, size: Any) -> State:
        rows = examples.rows(batch)
        if setting.noise:
            rows += piece.reshape(rows.shape)
        arrays = adam.arrays(vector)
        stored = dict(arrays)
        for name, n_levels in levels.items():
            stored[name] = rounded(arrays[name], arrays[f"{name}_log_step"], n_levels)
        slopes = slopes_of(stored, rows, examples.targets(batch))
        for name, n_levels in levels.items():
            slopes[name], slopes[f"{name}_log_step"] = through_rounding(
                slopes[name], arrays[name], arrays[f"{name}_log_step"], n_levels
            )
        if setting.decay:
            for name in tables:
                slopes[name] = slopes[name] + setting.decay * arrays[name]
        return adam.moved(State(vector, mean, square), slopes, size)

    take = capture_cuda_graph(step, device) if examples.is_held else step
    state, n_steps = adam.start, 0
    for _ in range(n_epochs):
        order = examples.as_indices(random.permutation(n_rows))
        for start, stop in pairwise(bounds):
            first = random.randint(SPARE_NOISE)
            piece = noise[first : first + (stop - start) * n_features * bool(setting.noise)]
            size = device.send(np.array(adam.size(n_steps)))
            state = State(*take(*state, order[start:stop], piece, size))
            n_steps += 1
    return adam.arrays(device.namespace.asarray(state.vector, copy=True))


def _noise(deviation: float, n_numbers: int, random: np.random.RandomState) -> Any:
    """One long list of noise, of which each batch takes a piece at random."""
    if not deviation:
        return np.zeros(0, np.float32)
    generator = np.random.default_rng(random.randint(2**31 - 1))
    noise = generator.standard_normal(n_numbers + SPARE_NOISE, dtype=np.float32)
    return noise * np.float32(deviation)


TITLE = "MLP"
IS_KERNLET = False
IS_RANDOM = True
VERSION = 1


def settings(shape: Shape, max_bytes: int) -> list[dict[str, Any]]:
    try:
        found = all_settings(shape.n_features, shape.n_classes, max_bytes)
    except ValueError:  # nothing fits
        return []
    return spread_out([asdict(setting) for setting in found])


def build(setting: dict[str, Any], X: Any, y: Any, seed: int) -> Perceptron:
    setting = {**setting, "hidden": tuple(setting["hidden"])}
    n_classes = int(y.max()) + 1
    network = fit(Setting(**setting), X, y, n_classes, NUMPY, seed)
    return Perceptron(network)


@dataclass(frozen=True, eq=False)
class Perceptron:
    """A network in tables."""

    network: Network
    n_centers: None = None

    @property
    def nbytes(self) -> int:
        """Bytes of everything stored."""
        return self.network.nbytes

    def predict(self, X: Any) -> Any:
        """Class numbers of rows."""
        return self.network.predict(X)
