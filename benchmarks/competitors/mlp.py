"""Multi-layer perceptrons within a number of bytes, with quantization-aware training.

Formats, rounding, optimiser, loss and input noise are those of the compact kernel machine.
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
from kernlet.compact.batches import BatchLoader, mean_and_deviation
from kernlet.compact.inputs import Inputs
from kernlet.compact.network import Arrays, CrossEntropy, quantize, straight_through_grad
from kernlet.compact.optimizer import Adam, AdamState
from kernlet.compact.train import NOISE_OFFSETS, default_batch_size
from kernlet.devices import NUMPY, Device, capture_cuda_graph, to_numpy
from kernlet.quantization import FORMATS, Format, PackedArray, best_step, encode

FORMAT_PAIRS = (("int8", "int8"), ("int4", "int4"), ("ternary", "int4"), ("int4", "int6"))
RATES = (3e-3, 1e-2, 3e-2)
NOISE_AND_DECAY = ((0.0, 0.0), (0.1, 1e-4), (0.4, 1e-3))
MIN_SETTINGS, MAX_SETTINGS = 48, 72
LOSS = CrossEntropy(smoothing=0.1)
_BOTTLENECKS = ((1 / 3, 1 / 2), (2 / 3, 3 / 4))  # largest shares of bytes, and of features
_MAX_WIDTH = 2**15
_STEP_RATE = 0.02  # learning rate of the logarithms of rounding steps


@dataclass(frozen=True)
class Setting:
    """Architecture, storage and training parameters.

    Parameters
    ----------
    hidden : tuple of int
        Widths of the one or two ReLU layers.
    rank : int
        Rank of a linear projection without biases before them; 0 for none.
    first, others : str
        Storage formats of the first table and of the others.
    rate : float
        Learning rate.
    noise : float
        Standard deviation of the input noise, relative to that of the inputs.
    decay : float
        Weight decay.
    """

    hidden: tuple[int, ...]
    rank: int
    first: str
    others: str
    rate: float = 3e-3
    noise: float = 0.0
    decay: float = 0.0

    def shapes(self, n_features: int, n_classes: int) -> list[tuple[int, int]]:
        """Shapes (inputs, outputs) of the tables; two classes have one output."""
        projection = (self.rank,) if self.rank else ()
        n_outputs = n_classes if n_classes > 2 else 1
        return list(pairwise((n_features, *projection, *self.hidden, n_outputs)))

    def formats(self) -> list[Format]:
        """Storage formats of the tables."""
        n_others = len(self.hidden) + bool(self.rank)
        return [FORMATS[self.first]] + n_others * [FORMATS[self.others]]

    def n_bytes(self, n_features: int, n_classes: int) -> int:
        """Bytes of tables with steps, float32 biases, and shift and scale of the inputs."""
        shapes = self.shapes(n_features, n_classes)
        tables = sum(
            format.n_bytes(n * m) for format, (n, m) in zip(self.formats(), shapes, strict=True)
        )
        return tables + 4 * (sum(self.hidden) + shapes[-1][1]) + 8


def all_settings(n_features: int, n_classes: int, max_bytes: int) -> list[Setting]:
    """48 to 72 settings, each as wide as fits the budget."""
    shapes = [
        shape
        for first, others in FORMAT_PAIRS
        for shape in _shapes(n_features, n_classes, max_bytes, first, others)
    ]
    if not shapes:
        raise ValueError(f"No network with 2 hidden units fits {max_bytes} bytes.")
    n_rates = -(-MIN_SETTINGS // (len(shapes) * len(NOISE_AND_DECAY)))
    rates = RATES if n_rates <= len(RATES) else np.geomspace(RATES[0], RATES[-1], n_rates)
    grid = [
        ((s + s // 4 + i + 2 * j) % 4, replace(shape, rate=float(rate), noise=noise, decay=decay))
        for s, shape in enumerate(shapes)
        for (i, rate), (j, (noise, decay)) in product(enumerate(rates), enumerate(NOISE_AND_DECAY))
    ]
    # If there are too many, the dropped ones are spread over shapes, rates and noises.
    grid = sorted(grid, key=lambda numbered: numbered[0])[:MAX_SETTINGS]
    return [setting for _, setting in grid]


def _shapes(
    n_features: int, n_classes: int, max_bytes: int, first: str, others: str
) -> Iterator[Setting]:
    """One hidden layer, projections of two ranks, two hidden layers: those that fit."""
    rank_bytes = FORMATS[first].n_bytes(1000 * n_features) / 1000
    ranks = {
        min(int(of_bytes * max_bytes / rank_bytes), int(of_features * n_features))
        for of_bytes, of_features in _BOTTLENECKS
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
    """A stored network: tables of weights (inputs, outputs), biases, input shift and scale.

    The biases of a projection are empty.
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
        """Class codes of rows."""
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
    """Inputs of each layer, and the outputs; layers with biases except the last have ReLU."""
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


def gradients_of(arrays: Arrays, rows: Any, targets: Any) -> Arrays:
    """Gradients of the mean loss with respect to weights and biases."""
    values = forward(arrays, rows)
    grad_outputs = LOSS.value_and_grad(values[-1], targets)[1] / rows.shape[0]
    gradients = {}
    for i in reversed(range(len(values) - 1)):
        gradients[f"W{i}"] = values[i].T @ grad_outputs
        if f"b{i}" in arrays:
            gradients[f"b{i}"] = grad_outputs.sum(0)
        if i:
            grad_outputs = grad_outputs @ arrays[f"W{i}"].T
            if f"b{i - 1}" in arrays:
                grad_outputs *= values[i] > 0
    return gradients


def fit(setting: Setting, X: Any, codes: Any, n_classes: int, device: Device, seed: int) -> Network:
    """Train in full precision, then half as long with rounded weights."""
    random = np.random.RandomState(seed)
    shift, scale = (np.float32(number) for number in mean_and_deviation(X))
    examples = _examples(X, codes, float(shift), float(scale), n_classes, device)
    n_epochs = int(np.clip(2_160_000 / examples.n_rows, 10, 120))
    shapes, formats = setting.shapes(X.shape[1], n_classes), setting.formats()
    start = {name: device.send(a) for name, a in _initial(setting, shapes, random).items()}
    arrays = _train(start, {}, setting, examples, n_epochs, 1.0, random)
    levels = {f"W{i}": format.n_levels for i, format in enumerate(formats)}
    for name, n_levels in levels.items():
        step = best_step(to_numpy(arrays[name]), n_levels)
        arrays[f"{name}_log_step"] = device.send(np.log([step]))
    arrays = _train(arrays, levels, setting, examples, n_epochs // 2, 0.3, random)
    trained = {name: to_numpy(array) for name, array in arrays.items()}
    return Network(
        tuple(
            encode(trained[f"W{i}"], format, float(np.exp(trained[f"W{i}_log_step"][0])))
            for i, format in enumerate(formats)
        ),
        tuple(trained.get(f"b{i}", np.zeros(0, np.float32)) for i in range(len(formats))),
        shift,
        scale,
    )


def validated(
    setting: Setting, X: Any, codes: Any, n_classes: int, device: Device, seed: int
) -> float:
    """Accuracy on a fixed fifth of the rows of a network trained on the others."""
    rows = np.arange(X.shape[0])
    train, check = train_test_split(rows, test_size=0.2, stratify=codes, random_state=0)
    network = fit(setting, X[train], codes[train], n_classes, device, seed)
    return float(np.mean(network.predict(X[check]) == codes[check]))


def _examples(
    X: Any, codes: Any, shift: float, scale: float, n_classes: int = 2, device: Device = NUMPY
) -> BatchLoader:
    return BatchLoader(
        X,
        np.asarray(codes, dtype=np.int64),
        np.ones(X.shape[0]),
        table=LOSS.target_table(n_classes),
        inputs=Inputs(shift, scale),
        device=device,
    )


def _initial(
    setting: Setting, shapes: list[tuple[int, int]], random: np.random.RandomState
) -> dict[str, Any]:
    """He initialisation (2015) of the weights, and zero biases."""
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
    examples: BatchLoader,
    n_epochs: int,
    speed: float,
    random: np.random.RandomState,
) -> Arrays:
    """Adam from the given arrays; those with levels are rounded (straight-through gradients)."""
    n_rows, n_features, device = examples.n_rows, examples.n_features, examples.device
    batch_size = default_batch_size(n_rows)
    n_batches = -(-n_rows // batch_size)
    bounds = np.linspace(0, n_rows, n_batches + 1).astype(int).tolist()
    rates = {n: _STEP_RATE if n.endswith("step") else speed * setting.rate for n in arrays}
    adam = Adam(arrays, rates, n_epochs * n_batches)
    noise = _noise(setting.noise, (n_rows if n_batches == 1 else batch_size) * n_features, random)
    noise = device.send(noise)
    tables = [name for name in arrays if name[0] == "W" and name[1:].isdigit()]

    def step(vector: Any, mean: Any, square: Any, batch: Any, piece: Any, size: Any) -> AdamState:
        rows = examples.rows(batch)
        if setting.noise:
            rows += piece.reshape(rows.shape)
        arrays = adam.arrays(vector)
        stored = dict(arrays)
        for name, n_levels in levels.items():
            stored[name] = quantize(arrays[name], arrays[f"{name}_log_step"], n_levels)
        gradients = gradients_of(stored, rows, examples.targets(batch))
        for name, n_levels in levels.items():
            gradients[name], gradients[f"{name}_log_step"] = straight_through_grad(
                gradients[name], arrays[name], arrays[f"{name}_log_step"], n_levels
            )
        if setting.decay:
            for name in tables:
                gradients[name] = gradients[name] + setting.decay * arrays[name]
        return adam.update(AdamState(vector, mean, square), gradients, size)

    take = capture_cuda_graph(step, device) if examples.is_cached else step
    state, n_steps = adam.start, 0
    for _ in range(n_epochs):
        order = examples.as_indices(random.permutation(n_rows))
        for start, stop in pairwise(bounds):
            first = random.randint(NOISE_OFFSETS)
            piece = noise[first : first + (stop - start) * n_features * bool(setting.noise)]
            size = device.send(np.array(adam.step_size(n_steps)))
            state = AdamState(*take(*state, order[start:stop], piece, size))
            n_steps += 1
    return adam.arrays(device.namespace.asarray(state.vector, copy=True))


def _noise(deviation: float, n_numbers: int, random: np.random.RandomState) -> Any:
    """One long vector of noise; each batch takes a random slice of it."""
    if not deviation:
        return np.zeros(0, np.float32)
    generator = np.random.default_rng(random.randint(2**31 - 1))
    noise = generator.standard_normal(n_numbers + NOISE_OFFSETS, dtype=np.float32)
    return noise * np.float32(deviation)


TITLE = "MLP"
IS_KERNLET = False
IS_RANDOM = True
VERSION = 1


def settings(shape: Shape, max_bytes: int) -> list[dict[str, Any]]:
    try:
        candidates = all_settings(shape.n_features, shape.n_classes, max_bytes)
    except ValueError:  # nothing fits
        return []
    return spread_out([asdict(setting) for setting in candidates])


def build(setting: dict[str, Any], X: Any, y: Any, seed: int) -> Perceptron:
    setting = {**setting, "hidden": tuple(setting["hidden"])}
    n_classes = int(y.max()) + 1
    network = fit(Setting(**setting), X, y, n_classes, NUMPY, seed)
    return Perceptron(network)


@dataclass(frozen=True, eq=False)
class Perceptron:
    """A stored network as a competitor."""

    network: Network
    n_centers: None = None

    @property
    def nbytes(self) -> int:
        """Bytes of everything stored."""
        return self.network.nbytes

    def predict(self, X: Any) -> Any:
        """Class codes of rows."""
        return self.network.predict(X)
