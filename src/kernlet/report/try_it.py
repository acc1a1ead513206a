"""The box of a report in which a reader changes the numbers of a row and sees the prediction."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from kernlet._typing import Indices
from kernlet.export.javascript import javascript_module, js_value
from kernlet.model.model import Model
from kernlet.report.draw import pixel_side
from kernlet.tables.encode import MISSING, OTHER, CategoryColumn, ColumnEncoding

_MAX_MODULE = 1_000_000  # bytes; a page should load at once, and be mailed
_MAX_INPUTS = 24  # all columns are shown up to this number
_SHOWN_INPUTS = 20  # of more columns, the most varying ones
_MAX_NUMBERS = 6000  # of the rows in the page
_FEWEST_ROWS, _MOST_ROWS = 3, 30
_SLIDER_STEPS = 100
_MAX_OPTION = 60  # characters


@dataclass(frozen=True)
class TryIt:
    """What the page needs: the machine as a script, what it shows, or why it shows nothing."""

    module: str = ""
    data: str = ""
    problem: str = ""

    @property
    def nbytes(self) -> int:
        """Bytes of the machine in JavaScript."""
        return len(self.module.encode())


def try_it(model: Model, X: Any, y: Any) -> TryIt:
    """The machine in JavaScript, its inputs with the ranges that they have in X, and some rows."""
    try:
        module = javascript_module(model, encodes=False)
    except ValueError as error:
        return TryIt(problem=str(error))
    if len(module) > _MAX_MODULE:
        size = f"The machine takes {len(module):,} bytes of JavaScript, too many for a page"
        return TryIt(problem=f"{size}: kernlet export --to javascript writes it to a file.")
    side = pixel_side(model, X)
    inputs = list(_inputs(model, X))
    varying = [entry for entry in inputs if entry.pop("varies")]
    shown = varying if side is None else []
    if len(shown) > _MAX_INPUTS:
        sizes = [-entry["size"] for entry in shown]
        shown = [shown[i] for i in sorted(np.argsort(sizes, kind="stable")[:_SHOWN_INPUTS])]
    for entry in inputs:
        entry.pop("size")
    is_regressor = model.kind == "regressor"
    data = {
        "inputs": shown,
        "columns": len(inputs),
        "names": _names(model),
        "pairs": not is_regressor and model.scheme == "one vs one" and not model.votes,
        "side": side,
        "low": _short(np.min(X)),
        "high": _short(np.max(X)),
        "rows": [
            _row(X, y, int(i), is_regressor) for i in _chosen_rows(y, X.shape[1], is_regressor)
        ],
        "targets": [_short(np.min(y)), _short(np.max(y))] if is_regressor else None,
        "outputs": _outputs(model, y) if is_regressor and model.expansion.n_outputs > 1 else None,
    }
    return TryIt(module, js_value(data))


def _names(model: Model) -> list[str]:
    """The answers of a machine that are not numbers."""
    if model.kind == "novelty":
        return ["outlier", "inlier"]
    return [] if model.classes is None else [str(label) for label in model.classes.tolist()]


def _outputs(model: Model, y: Any) -> list[dict[str, Any]]:
    """Names of several outputs, and the range of the targets of each."""
    n_outputs = model.expansion.n_outputs
    names = model.output_labels or [f"output {k + 1}" for k in range(n_outputs)]
    targets = np.broadcast_to(np.reshape(y, (len(y), -1)), (len(y), n_outputs))
    ranges = zip(names, targets.min(axis=0), targets.max(axis=0), strict=True)
    return [{"name": name, "low": _short(low), "high": _short(high)} for name, low, high in ranges]


def _row(X: Any, y: Any, i: int, is_regressor: bool) -> dict[str, Any]:
    truth = ", ".join(f"{_short(v)}" for v in np.ravel(y[i])) if is_regressor else str(y[i])
    return {"name": f"row {i + 1} ({truth[:_MAX_OPTION]})", "values": list(map(_short, X[i]))}


def _chosen_rows(y: Any, n_features: int, is_regressor: bool) -> Indices:
    """The first rows of each class in turn; of a regressor, rows of all sizes of the target."""
    n_rows = min(len(y), max(_FEWEST_ROWS, min(_MOST_ROWS, _MAX_NUMBERS // n_features)))
    if is_regressor:
        order = np.argsort(np.reshape(y, (len(y), -1))[:, 0], kind="stable")
        return order[np.linspace(0, len(y) - 1, n_rows).round().astype(int)]
    # the place of each row among those of its class
    _, codes = np.unique(np.asarray(y).astype(str), return_inverse=True)
    order = np.argsort(codes, kind="stable")
    starts = np.flatnonzero(np.diff(codes[order], prepend=-1))
    place = np.empty(len(y), dtype=int)
    place[order] = np.arange(len(y)) - np.repeat(starts, np.diff(starts, append=len(y)))
    return np.lexsort((codes, place))[:n_rows]


def _short(number: Any) -> float | int:
    """Seven digits, which are those of float32; whole numbers without a point."""
    value = float(f"{number:.7g}")
    return int(value) if value.is_integer() and abs(value) < 1e15 else value


# -- Inputs ----------------------------------------------------------------------------------------


def _inputs(model: Model, X: Any) -> Iterator[dict[str, Any]]:
    """A number field for each number, and a list for each column of categories."""
    sizes = _sizes(model, X)
    low, high = X.min(axis=0), X.max(axis=0)
    names = model.feature_names or [f"x{i}" for i in range(X.shape[1])]
    start = 0
    for width, name, options in _columns(model.encoding, X.shape[1]):
        features = slice(start, start + width)
        label = str(names[start]) if name is None else name
        entry = {"label": label, "feature": start, "size": float(sizes[features].max(initial=0.0))}
        if options is None:
            step = _step(X[:, start])
            ends = {"low": _short(low[start]), "high": _short(high[start]), "step": step}
            yield entry | ends | {"varies": bool(high[start] > low[start])}
        else:
            yield entry | {"options": options, "varies": True}
        start += width


def _columns(
    encoding: ColumnEncoding | None, n_features: int
) -> Iterator[tuple[int, str | None, list[dict[str, Any]] | None]]:
    """Features, name and options of each column; single numbers have neither name nor options."""
    if encoding is None:
        yield from [(1, None, None)] * n_features
        return
    for column in encoding.columns:
        if getattr(column, "categories", ()):
            yield len(column.features), column.name, _options(column)
        else:
            yield from [(1, None, None)] * len(column.features)


def _options(column: Any) -> list[dict[str, Any]]:
    """Texts of a column and the features that they become; texts of equal features are one."""
    members: dict[Any, list[str]] = {}
    for text, entry in column.index.items():
        members.setdefault(entry, []).append(MISSING if text is None else text)
    if column.unknown is not None:
        members.setdefault(column.unknown, []).append(OTHER)
    is_one_hot, width = isinstance(column, CategoryColumn), len(column.features)
    return [
        {
            "text": ", ".join(texts)[:_MAX_OPTION],
            "values": [int(i == entry) for i in range(width)] if is_one_hot else [entry],
        }
        for entry, texts in members.items()
    ]


def _sizes(model: Model, X: Any) -> Any:
    """How much each feature varies, in the units of the machine."""
    sizes = X.std(axis=0, dtype=np.float64)
    scaler, map = model.scaler, model.expansion.input_map
    sizes = sizes if scaler is None else sizes * np.abs(scaler.scale)
    is_behind_matrix = scaler is not None and scaler.matrix is not None
    return sizes if map is None or is_behind_matrix else sizes * np.abs(map.scale)


def _step(column: Any) -> float | int:
    """The step of a slider: 1 for whole numbers, else a power of ten."""
    spread = float(np.ptp(column))
    if np.array_equal(column, np.rint(column)) and spread >= 2:
        return max(1, 10 ** math.floor(math.log10(spread / _SLIDER_STEPS)))
    return 10.0 ** math.floor(math.log10(spread / _SLIDER_STEPS)) if spread > 0 else 1
