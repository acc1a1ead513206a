"""What a report draws."""

from __future__ import annotations

import io
import re
from typing import Any

import matplotlib
import numpy as np
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

from kernlet._typing import Floats
from kernlet.expansion import KernelExpansion
from kernlet.export.rounding import dense_points
from kernlet.model.model import Model
from kernlet.report.evaluate import Size, Sizes

_BLUE, _ORANGE, _INK = "#2b6cb0", "#dd6b20", "#1a202c"
_LIGHT_BLUE, _LIGHT_ORANGE = "#dbeafe", "#feebc8"


def draw_plane(machine: Any, X: Any, y: Any, *, n_grid: int = 400) -> Figure:
    """A two-class machine in the plane, with the points it depends on.

    Regions of the two classes, training rows as dots, rows with a positive dual as circles
    and centers as stars.

    Parameters
    ----------
    machine : fitted two-class L1KernelClassifier or MinimalKernelClassifier
    X : ndarray of shape (n_rows, 2)
    y : ndarray of shape (n_rows,)
        The training data.
    n_grid : int, default=400
        Decision values are drawn on a grid of n_grid x n_grid points.

    Returns
    -------
    figure : matplotlib Figure
    """
    figure = Figure(figsize=(6.4, 6.6), layout="constrained")
    axes = figure.add_subplot()
    margin = X[machine.margin_indices_]
    centers = machine.expansion_.centers
    low, high = X.min(axis=0), X.max(axis=0)
    low, high = low - 0.02 * (high - low), high + 0.02 * (high - low)
    across, up = (np.linspace(a, b, n_grid) for a, b in zip(low, high, strict=True))
    grid = np.stack(np.meshgrid(across, up), axis=-1)
    values = machine.decision_function(grid.reshape(-1, 2)).reshape(n_grid, n_grid)
    axes.contourf(across, up, values, [-np.inf, 0, np.inf], colors=[_LIGHT_BLUE, _LIGHT_ORANGE])
    axes.contour(across, up, values, [0], colors=_INK, linewidths=1.2)
    second = y == machine.classes_[1]
    for rows, color in ((~second, _BLUE), (second, _ORANGE)):
        axes.plot(*X[rows].T, ".", color=color, markersize=3, alpha=0.7)
    axes.plot(*margin.T, "o", color=_INK, markersize=10, fillstyle="none")
    axes.plot(*centers.T, "*", color=_INK, markersize=11, markeredgewidth=0)
    axes.set_title(
        f"{len(X):,} training rows; the machine rests on {len(margin)} of them (circles)\n"
        f"and is made of {len(centers)} (stars)",
        fontsize=11,
    )
    axes.set(xticks=[], yticks=[], aspect="equal")
    return figure


def draw_image_centers(
    expansion: KernelExpansion, labels: Any, shape: tuple[int, int], *, title: str = ""
) -> Figure:
    """The centers of a machine as pictures, one line of them for each class.

    Parameters
    ----------
    expansion : KernelExpansion
        With dense centers of ``shape[0] * shape[1]`` features.
    labels : ndarray of shape (n_centers,)
        The class of each center.
    shape : tuple of two ints
        Height and width of an image.
    title : str

    Returns
    -------
    figure : matplotlib Figure
    """
    classes = np.unique(labels)
    expansion = expansion.unfolded()
    weight = np.abs(expansion.coef).max(axis=0)
    lines = [_by_weight(expansion.centers[labels == c], weight[labels == c]) for c in classes]
    longest = max(len(line) for line in lines)
    height, width = shape
    mosaic = np.full((len(classes) * (height + 2), longest * (width + 2)), np.nan)
    for row, line in enumerate(lines):
        for column, image in enumerate(line):
            top, left = row * (height + 2), column * (width + 2)
            mosaic[top : top + height, left : left + width] = image.reshape(shape)
    aspect = mosaic.shape[0] / mosaic.shape[1]
    figure = Figure(figsize=(10, 9 * aspect + 0.5), layout="constrained")
    axes = figure.add_subplot()
    axes.imshow(mosaic, cmap="gray_r", interpolation="nearest")
    axes.set_yticks(
        [row * (height + 2) + height / 2 for row in range(len(classes))],
        [f"{label}  ({len(line)})" for label, line in zip(classes, lines, strict=True)],
    )
    axes.set_xticks([])
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    axes.set_title(title, fontsize=11)
    return figure


def _by_weight(centers: Floats, weight: Floats) -> Floats:
    """Heaviest first."""
    return centers[np.argsort(-weight)]


BLUE, ORANGE, INK, GRAY = "#2b6cb0", "#dd6b20", "#1a202c", "#718096"
_MOST_POINTS = 1500
_LONGEST_NAME = 24  # characters
_LIKE_RANGE = 4.0


def as_svg(figure: Figure, title: str) -> str:
    """A figure as an <svg> element that scales with the page."""
    buffer = io.StringIO()
    settings = {"svg.fonttype": "none", "svg.hashsalt": title, "font.family": "sans-serif"}
    with matplotlib.rc_context(settings):
        figure.savefig(buffer, format="svg", transparent=True, metadata={"Date": None})
    text = buffer.getvalue()
    text = text[text.index("<svg") :]
    head, _, rest = text.partition(">")
    head = re.sub(r' (?:width|height)="[^"]*"', "", head)
    return f'{head} role="img" aria-label="{title}">{rest}'


def as_drawn(text: Any) -> str:
    """A short text that matplotlib takes for what it is, and not for mathematics."""
    shown = str(text)
    if len(shown) > _LONGEST_NAME:
        shown = shown[: _LONGEST_NAME - 1] + "\u2026"
    return " " + shown.replace("\\", "/").replace("$", r"\$")


def draw_sizes(sizes: Sizes) -> Figure:
    """Accuracy against centers and against bytes."""
    figure = Figure(figsize=(9.2, 3.4), layout="constrained")
    left, right = figure.subplots(1, 2, sharey=True)
    for axes, name, label in ((left, "n_centers", "centers"), (right, "nbytes", "bytes of tables")):
        _draw_path(axes, sizes, name)
        axes.set(xscale="log", xlabel=label)
        axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axes.xaxis.set_major_formatter(FuncFormatter(lambda x, _: _short(x)))
        axes.xaxis.set_minor_locator(NullLocator())
        axes.grid(alpha=0.25)
        axes.spines[["top", "right"]].set_visible(False)
    left.set_ylabel("accuracy, %")
    left.legend(frameon=False, fontsize=9, loc="lower right")
    return figure


def _short(number: float) -> str:
    """A round number in few characters."""
    for unit, size in (("M", 1e6), ("k", 1e3)):
        if number >= size:
            return f"{number / size:g}{unit}"
    return f"{number:g}"


def _draw_path(axes: Any, sizes: Sizes, name: str) -> None:
    def place(size: Size) -> tuple[float, float]:
        return float(getattr(size, name)), 100 * size.accuracy

    across, up = zip(*(place(size) for size in sizes.machines), strict=True)
    error = 100 * sizes.standard_error
    axes.errorbar(across, up, error, color=BLUE, marker="o", ms=4, capsize=2, label="compact")
    axes.plot(*place(sizes.svc), "s", color=INK, ms=7, label="SVC, tuned")
    axes.plot(*place(sizes.chosen), "*", color=ORANGE, ms=15, label="this machine", zorder=5)


def input_centers(model: Model) -> Floats | None:
    """Centers among the rows, before scaling; None behind a projection."""
    front = model.input_map
    centers = dense_points(model.expansion.centers)
    if front is None:
        return centers
    if front.matrix is not None:
        return None
    return centers / front.scale.astype(float) + front.shift.astype(float)


def image_side(model: Model, X: Any) -> int | None:
    """The side of a square image, where the features look like the pixels of one."""
    side = round(model.n_features**0.5)
    if side < 6 or side * side != model.n_features or input_centers(model) is None:
        return None
    if model.encoding is not None and model.encoding.is_category.any():
        return None
    ranges = np.ptp(X, axis=0)
    ranges = ranges[ranges > 0]
    alike = len(ranges) > 0 and ranges.max() <= _LIKE_RANGE * np.quantile(ranges, 0.25)
    return side if alike else None


def draw_images(model: Model, side: int) -> Figure:
    """The centers as pictures, one line or more a class, heaviest first."""
    centers = input_centers(model)
    assert centers is not None
    coef = model.expansion.coef
    owner = coef.argmax(axis=0) if len(coef) > 1 else (coef[0] > 0).astype(int)
    weight = np.abs(coef).max(axis=0)
    is_named = model.scheme != "one vs one"
    groups = [np.flatnonzero(owner == c) for c in range(len(model.classes))]
    if not is_named:
        groups = [np.arange(len(centers))]
    per_line = max(12, min(20, max(len(group) for group in groups)))
    lines: list[tuple[str, Any]] = []
    for number, group in enumerate(groups):
        group = group[np.argsort(-weight[group])]
        name = str(model.classes[number]) if is_named else ""
        lines += [
            (name if not start else "", group[start : start + per_line])
            for start in range(0, len(group), per_line)
        ]
    mosaic = np.full((len(lines) * (side + 2), per_line * (side + 2)), np.nan)
    for row, (_, group) in enumerate(lines):
        for column, center in enumerate(group):
            top, left = row * (side + 2), column * (side + 2)
            mosaic[top : top + side, left : left + side] = centers[center].reshape(side, side)
    figure = Figure(figsize=(9.2, 8.8 * len(lines) / per_line + 0.1), layout="constrained")
    axes = figure.add_subplot()
    axes.imshow(mosaic, cmap="gray_r", interpolation="nearest")
    ticks = [row * (side + 2) + side / 2 for row in range(len(lines))]
    axes.set_yticks(ticks, [as_drawn(name) for name, _ in lines])
    axes.set_xticks([])
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    return figure


def draw_boundary(model: Model, X: Any, y: Any, n_grid: int = 300) -> Figure:
    """Regions of the classes in the plane of two features, with rows and centers."""
    figure = Figure(figsize=(6.4, 5.4), layout="constrained")
    axes = figure.add_subplot()
    low, high = X.min(axis=0), X.max(axis=0)
    low, high = low - 0.03 * (high - low), high + 0.03 * (high - low)
    across, up = (np.linspace(a, b, n_grid) for a, b in zip(low, high, strict=True))
    grid = np.stack(np.meshgrid(across, up), axis=-1).reshape(-1, 2)
    codes = model.codes(model.outputs(grid)).reshape(n_grid, n_grid)
    colors: Any = matplotlib.color_sequences["tab10"]
    n_classes = len(model.classes)
    map = ListedColormap([colors[c % 10] for c in range(n_classes)])
    extent = (low[0], high[0], low[1], high[1])
    axes.imshow(
        codes,
        cmap=map,
        origin="lower",
        extent=extent,
        aspect="auto",
        alpha=0.25,
        vmin=-0.5,
        vmax=n_classes - 0.5,
    )
    some = np.random.RandomState(0).permutation(len(X))[:_MOST_POINTS]
    for c, label in enumerate(model.classes):
        rows = some[y[some] == label]
        axes.plot(*X[rows].T, ".", color=colors[c % 10], ms=4, label=as_drawn(label))
    centers = input_centers(model)
    if centers is not None:
        axes.plot(*centers.T, "*", color=INK, ms=9, mew=0, label="centers")
    names = model.feature_names or ("feature 0", "feature 1")
    axes.set(xlabel=as_drawn(names[0]), ylabel=as_drawn(names[1]), xlim=extent[:2], ylim=extent[2:])
    axes.legend(frameon=True, fontsize=8, loc="best")
    return figure


def draw_predictions(y: Any, values: Any) -> Figure:
    """Predicted numbers against true ones."""
    figure = Figure(figsize=(5.6, 5.0), layout="constrained")
    axes = figure.add_subplot()
    some = np.random.RandomState(0).permutation(len(y))[:_MOST_POINTS]
    axes.plot(y[some], values[some], ".", color=BLUE, ms=4, alpha=0.6)
    low, high = float(np.min(y)), float(np.max(y))
    axes.plot([low, high], [low, high], color=GRAY, lw=1)
    axes.set(xlabel="true", ylabel="predicted")
    axes.grid(alpha=0.25)
    axes.spines[["top", "right"]].set_visible(False)
    return figure
