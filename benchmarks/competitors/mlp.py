"""Multi-layer perceptrons within a number of bytes, settings tuned by the frontier's protocol.

Networks are those of ``mlp_call``, with the same formats, input maps and training.
"""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import Any

import numpy as np
from sklearn.model_selection import train_test_split

from benchmarks.competitors.contract import N_SETTINGS, Shape, device
from benchmarks.competitors.mlp_network import trained
from benchmarks.competitors.mlp_plan import (
    Network,
    Plan,
    Setting,
    Task,
    asinh_bytes,
    examples_of,
    inputs_of,
)
from benchmarks.competitors.mlp_space import Space, first_settings, small_settings
from kernlet.devices import Device, find_device
from kernlet.threads import single_thread

TITLE = "MLP, tuned"
IS_KERNLET = False
IS_RANDOM = True
VERSION = 2
_FEW_ROWS = 1000  # with at most these, narrow networks are tried
_N_SHAPES = 6
#: Training parameters, of which every shape gets several.
TRAINING: tuple[dict[str, float], ...] = (
    {"smoothing": 0.03, "noise": 0.1, "rate": 1.0},
    {"smoothing": 0.0, "noise": 0.0, "rate": 1.0},
    {"smoothing": 0.1, "noise": 0.3, "rate": 1.0},
    {"smoothing": 0.03, "noise": 0.05, "rate": 0.5},
)


def all_settings(task: Task, n_rows: int, max_bytes: int) -> list[Setting]:
    """Every shape with all training parameters."""
    shapes = _shapes(task, n_rows, max_bytes)
    return [replace(shape, **parameters) for shape in shapes for parameters in TRAINING]


def _shapes(task: Task, n_rows: int, max_bytes: int) -> list[Setting]:
    """Networks that fill the budget, and with few rows narrower ones."""
    space = Space(task, max_bytes, n_rows, asinh_bytes=asinh_bytes(task.n_features))
    shapes = first_settings(space)
    if n_rows <= _FEW_ROWS:
        shapes = [*_spread(small_settings(space)[::2]), *shapes]
    return list(dict.fromkeys(shapes))


def _spread(shapes: list[Setting]) -> list[Setting]:
    """At most ``_N_SHAPES``, evenly spread over the list."""
    n = min(len(shapes), _N_SHAPES)
    return [shapes[i * len(shapes) // n] for i in range(n)]


def settings(shape: Shape, max_bytes: int) -> list[dict[str, Any]]:
    shapes = _shapes(Task(shape.n_features, shape.n_classes), shape.n_rows, max_bytes)
    n = len(shapes)
    if n > N_SETTINGS:
        shapes = _spread(shapes[: n // 2]) + _spread(shapes[n // 2 :])
    elif n > _N_SHAPES and shape.n_rows > _FEW_ROWS:
        shapes = _spread(shapes)
    n = len(shapes)
    # Shape after shape with other training parameters, and again with the next ones.
    grid = [
        replace(shapes[i % n], **TRAINING[(i + i // n) % len(TRAINING)])
        for i in range(min(N_SETTINGS, n * len(TRAINING)))
    ]
    return [as_dict(setting) for setting in dict.fromkeys(grid)]


def as_dict(setting: Setting) -> dict[str, Any]:
    """A setting as JSON values."""
    flat = asdict(setting) | asdict(setting)["plan"]
    del flat["plan"], flat["task"]
    return flat


def setting_of(values: dict[str, Any], task: Task) -> Setting:
    """The setting of JSON values."""
    training = {name: values[name] for name in ("noise", "smoothing", "rate")}
    plan = {name: value for name, value in values.items() if name not in training}
    plan |= {name: tuple(plan[name]) for name in ("hidden", "formats")}
    return Setting(Plan(task, **plan), **training)


def build(setting: dict[str, Any], X: Any, y: Any, seed: int) -> Network:
    task = Task(X.shape[1], int(y.max()) + 1)
    return fit(setting_of(setting, task), X, y, find_device(device()), seed)


@single_thread()
def fit(setting: Setting, X: Any, codes: Any, device: Device, seed: int) -> Network:
    """Train on all rows."""
    plan, rows = setting.plan, np.arange(len(X))
    inputs = inputs_of(plan, X, codes, rows)
    n_bytes = plan.nbytes
    plan = replace(plan, scaling_bytes=inputs.scaling_bytes)
    while plan.nbytes > n_bytes:  # constants of the asinh map that float16 cannot hold
        plan = replace(plan, hidden=tuple(width - 1 for width in plan.hidden))
    examples = examples_of(X, codes, plan.task, [inputs], device)
    stack = trained([replace(setting, plan=plan)], examples, [inputs], [rows], 1.0, seed)
    return stack.network(inputs)


def validated(setting: Setting, X: Any, codes: Any, device: Device, seed: int) -> float:
    """Accuracy on a fixed fifth of the rows of a network trained on the others."""
    rows = np.arange(X.shape[0])
    train, check = train_test_split(rows, test_size=0.2, stratify=codes, random_state=0)
    network = fit(setting, X[train], codes[train], device, seed)
    return float(np.mean(network.predict(X[check]) == codes[check]))
