"""Figures of the report and of the demonstration, and the style of all pictures."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from kernlet._typing import Floats
from kernlet.affine import ColumnRanges, are_unlike
from kernlet.atomic import atomic_write
from kernlet.condense.base import draw_image_rows
from kernlet.expansion import KernelExpansion
from kernlet.export.rounding import before, dense_points
from kernlet.extras import missing
from kernlet.model.model import Model
from kernlet.report.evaluate import Size, Sizes

try:
    import matplotlib
    import matplotlib.style
    from matplotlib.colors import ListedColormap
    from matplotlib.figure import Figure
    from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator
except ModuleNotFoundError:
    raise missing("kernlet.report", "matplotlib", "cli") from None

_STYLE = Path(__file__).with_name("kernlet.mplstyle")
_FIRST, _SECOND, _GREY = "C0", "C1", "C6"  # of the style's colours
_CENTERS: dict[str, Any] = {  # white with a dark edge is legible on light and on dark pages
    "marker": "*",
    "linestyle": "none",
    "markerfacecolor": "white",
    "markeredgecolor": "#333333",
    "markeredgewidth": 0.8,
}
_MAX_POINTS = 1500  # of a scatter plot: more make the page heavy and hide each other
_MAX_NAME_LENGTH = 24  # characters
_MIN_IMAGE_SIDE = 6  # pixels; 16 or 25 features are more often a table than an image
_IMAGES_PER_LINE = 12, 20  # at least, at most


@contextmanager
def picture_style() -> Iterator[None]:
    """A context, or a decorator, with the style of all pictures; it restores rcParams.

    Pictures are drawn and saved inside: matplotlib makes ticks only when it saves.
    """
    with matplotlib.style.context(_STYLE):
        yield


def save_picture(figure: Figure, path: Path, dpi: float = 120) -> None:
    """Write a figure atomically in the style of all pictures; the same figure, the same bytes."""
    with picture_style(), atomic_write(path) as temporary:
        ending = path.suffix[1:]
        date: dict[str, Any] = {"Software" if ending == "png" else "Date": None}
        figure.savefig(temporary, format=ending, dpi=dpi, metadata=date)


@picture_style()
def draw_plane(machine: Any, X: Any, y: Any, *, n_grid: int = 400) -> Figure:
    """A two-class machine in the plane: regions, training rows, margin rows and centers.

    Margin rows, those with a positive dual, are circles, and centers are stars. Decision values
    are drawn on a grid of n_grid x n_grid points.
    """
    figure, axes = _figure(6.4, 6.6)
    colors = [_FIRST, _SECOND]
    margin = X[machine.margin_indices_]
    centers = machine.expansion_.centers
    horizontal, vertical, grid = _grid(X, 0.02, n_grid)
    values = machine.decision_function(grid).reshape(n_grid, n_grid)
    axes.contourf(horizontal, vertical, values, [-np.inf, 0, np.inf], colors=colors, alpha=0.22)
    axes.contour(horizontal, vertical, values, [0], colors=_GREY, linewidths=1.4)
    second = y == machine.classes_[1]
    for rows, color in zip((~second, second), colors, strict=True):
        axes.plot(*X[rows].T, ".", color=color, markersize=3.5)
    axes.plot(*margin.T, "o", color=_GREY, markersize=11, fillstyle="none")
    axes.plot(*centers.T, markersize=12, **_CENTERS)
    axes.set_title(
        f"{len(X):,} training rows; training depends on {len(margin)} of them (circles),\n"
        f"predictions on {len(centers)} (stars)"
    )
    axes.set(xticks=[], yticks=[], aspect="equal")
    return figure


def _figure(width: float, height: float, n_axes: int = 1) -> tuple[Figure, Any]:
    """A figure in inches and its axes; without pyplot, which would keep every figure open."""
    figure = Figure(figsize=(width, height), layout="constrained")
    return figure, figure.subplots(1, n_axes, sharey=True)


def _grid(X: Any, margin: float, n_grid: int) -> tuple[Floats, Floats, Floats]:
    """Coordinates along both axes, a share of the range beyond the rows, and all grid points."""
    low, high = X.min(axis=0), X.max(axis=0)
    low, high = low - margin * (high - low), high + margin * (high - low)
    horizontal, vertical = (np.linspace(a, b, n_grid) for a, b in zip(low, high, strict=True))
    return horizontal, vertical, np.stack(np.meshgrid(horizontal, vertical), -1).reshape(-1, 2)


@picture_style()
def draw_image_centers(
    expansion: KernelExpansion, labels: Any, shape: tuple[int, int], *, title: str = ""
) -> Figure:
    """Centers as images, one line per class, those of the largest coefficients first."""
    expansion = expansion.unfolded()
    order = np.argsort(-np.abs(expansion.coef).max(axis=0), kind="stable")
    images = expansion.centers[order].reshape(-1, *shape)
    classes = np.unique(labels)
    lines = [images[labels[order] == label] for label in classes]
    n_columns = max(len(line) for line in lines)
    aspect = len(lines) * (shape[0] + 2) / (n_columns * (shape[1] + 2))
    figure, axes = _figure(10, 9 * aspect + 0.5)
    names = [f"{label}  ({len(line)})" for label, line in zip(classes, lines, strict=True)]
    draw_image_rows(axes, lines, names)
    axes.set_title(title)
    return figure


def as_svg(figure: Figure, title: str) -> str:
    """A figure as an <svg> element that scales with the page."""
    buffer = io.StringIO()
    # text stays text, and ids follow from the title: the same figure gives the same bytes
    settings = {"svg.fonttype": "none", "svg.hashsalt": title}
    with picture_style(), matplotlib.rc_context(settings):
        figure.savefig(buffer, format="svg", metadata={"Date": None})
    text = buffer.getvalue()
    text = text[text.index("<svg") :]
    head, _, rest = text.partition(">")
    head = re.sub(r' (?:width|height)="[^"]*"', "", head)
    return f'{head} role="img" aria-label="{title}">{rest}'


def as_drawn(text: Any) -> str:
    """A short text that matplotlib does not take for mathematics."""
    shown = str(text)
    if len(shown) > _MAX_NAME_LENGTH:
        shown = shown[: _MAX_NAME_LENGTH - 1] + "\u2026"
    # matplotlib leaves labels that start with an underscore out of legends: hence the space
    return " " + shown.replace("\\", "/").replace("$", r"\$")


@picture_style()
def draw_sizes(sizes: Sizes) -> Figure:
    """Accuracy against centers and against bytes."""
    figure, (left, right) = _figure(9.2, 3.6, 2)
    for axes, name, label in ((left, "n_centers", "centers"), (right, "nbytes", "bytes of tables")):
        _draw_path(axes, sizes, name)
        axes.set(xscale="log", xlabel=label)
        axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axes.xaxis.set_major_formatter(FuncFormatter(lambda x, _: _short_number(x)))
        axes.xaxis.set_minor_locator(NullLocator())
        axes.grid()
    left.set_ylabel("accuracy, %")
    # above the axes: inside, it would hide points
    figure.legend(*left.get_legend_handles_labels(), loc="outside upper left", ncols=3)
    return figure


def _short_number(number: float) -> str:
    for unit, size in (("M", 1e6), ("k", 1e3)):
        if number >= size:
            return f"{number / size:g}{unit}"
    return f"{number:g}"


def _draw_path(axes: Any, sizes: Sizes, name: str) -> None:
    def point(size: Size) -> tuple[float, float]:
        return float(getattr(size, name)), 100 * size.accuracy

    horizontal, vertical = zip(*(point(size) for size in sizes.machines), strict=True)
    error = 100 * sizes.standard_error
    axes.errorbar(
        horizontal, vertical, error, color=_FIRST, marker="o", ms=4, capsize=2, label="compact"
    )
    axes.plot(*point(sizes.svc), "s", color=_GREY, ms=7, label="SVC, tuned")
    axes.plot(*point(sizes.chosen), "*", color=_SECOND, ms=15, label="this machine", zorder=5)


def input_centers(model: Model) -> Floats | None:
    """Centers in the space of the rows; None behind a map that has no inverse."""
    points = dense_points(model.expansion.centers)
    for map in (model.expansion.input_map, model.scaler):
        if map is None:
            continue
        if map.matrix is not None or getattr(map, "steps", None) is not None:
            return None
        points = before(map, points)
    return points


def image_side(model: Model, X: Any) -> int | None:
    """The side of a square image, if centers can be drawn as such."""
    return pixel_side(model, X) if input_centers(model) is not None else None


def pixel_side(model: Model, X: Any) -> int | None:
    """The side of a square image, if the features look like the pixels of one."""
    side = round(model.n_features**0.5)
    if side < _MIN_IMAGE_SIDE or side * side != model.n_features:
        return None
    if model.encoding is not None and model.encoding.is_category.any():
        return None
    ranges = ColumnRanges.of(X).sizes
    ranges = ranges[ranges > 0]
    return side if len(ranges) and not are_unlike(ranges) else None


@picture_style()
def draw_images(model: Model, side: int) -> Figure:
    """The centers as images, lines by class, those of the largest coefficients first."""
    centers = input_centers(model)
    assert centers is not None
    images, coef = centers.reshape(-1, side, side), model.expansion.coef
    order = np.argsort(-np.abs(coef).max(axis=0), kind="stable")
    # a center belongs to the class of its largest coefficient; with two classes the sign tells
    owner = coef.argmax(axis=0) if len(coef) > 1 else (coef[0] > 0).astype(int)
    names = [str(label) for label in model.classes]
    if model.scheme == "one vs one":  # a center belongs to pairs of classes
        owner, names = np.zeros(len(images), dtype=int), [""]
    groups = [order[owner[order] == number] for number in range(len(names))]
    per_line = int(np.clip(max(len(group) for group in groups), *_IMAGES_PER_LINE))
    lines, labels = [], []
    for name, group in zip(names, groups, strict=True):
        for start in range(0, len(group), per_line):
            lines.append(images[group[start : start + per_line]])
            labels.append(as_drawn("" if start else name))
    figure, axes = _figure(9.2, 8.8 * len(lines) / per_line + 0.1)
    draw_image_rows(axes, lines, labels, per_line)
    return figure


@picture_style()
def draw_boundary(model: Model, X: Any, y: Any, n_grid: int = 300) -> Figure:
    """Regions of the classes in the plane of two features, with rows and centers."""
    figure, axes = _figure(6.4, 5.4)
    horizontal, vertical, grid = _grid(X, 0.03, n_grid)
    codes = model.codes(model.outputs(grid)).reshape(n_grid, n_grid)
    sequence: Any = matplotlib.rcParams["axes.prop_cycle"].by_key()["color"]
    if len(model.classes) > len(sequence):
        sequence = matplotlib.color_sequences["tab20"]
    colors = [sequence[c % len(sequence)] for c in range(len(model.classes))]
    extent = (horizontal[0], horizontal[-1], vertical[0], vertical[-1])
    axes.imshow(
        codes,
        cmap=ListedColormap(colors),
        origin="lower",
        extent=extent,
        aspect="auto",
        alpha=0.25,
        vmin=-0.5,
        vmax=len(colors) - 0.5,
    )
    shown = _sample(len(X))
    for label, color in zip(model.classes, colors, strict=True):
        rows = shown[y[shown] == label]
        axes.plot(*X[rows].T, ".", color=color, ms=4, label=as_drawn(label))
    centers = input_centers(model)
    if centers is not None:
        axes.plot(*centers.T, ms=10, label="centers", **_CENTERS)
    names = model.feature_names or ("feature 0", "feature 1")
    axes.set(xlabel=as_drawn(names[0]), ylabel=as_drawn(names[1]), xlim=extent[:2], ylim=extent[2:])
    figure.legend(*axes.get_legend_handles_labels(), loc="outside upper left", ncols=4)
    return figure


@picture_style()
def draw_intervals(y: Any, values: Any) -> Figure:
    """True numbers by the order of the middle quantile, and the band between the outermost ones."""
    figure, axes = _figure(7.2, 4.4)
    middle = values[:, values.shape[1] // 2]
    shown = _sample(len(y))
    order = shown[np.argsort(middle[shown], kind="stable")]
    places = np.arange(len(order))
    low, high = values[order, 0], values[order, -1]
    axes.fill_between(
        places, low, high, step="mid", color=_FIRST, alpha=0.25, lw=0, label="interval"
    )
    axes.plot(places, y[order], ".", color=_GREY, ms=3, label="true")
    if values.shape[1] % 2:
        axes.plot(places, middle[order], color=_FIRST, lw=1.5, label="middle quantile")
    axes.set(xlabel="rows, by their prediction", ylabel="target")
    axes.grid()
    axes.legend()
    return figure


@picture_style()
def draw_predictions(y: Any, values: Any, name: str = "") -> Figure:
    """Predicted numbers against true ones."""
    figure, axes = _figure(5.6, 5.0)
    shown = _sample(len(y))
    axes.plot(y[shown], values[shown], ".", color=_FIRST, ms=4, alpha=0.6)
    low, high = float(np.min(y)), float(np.max(y))
    axes.plot([low, high], [low, high], color=_GREY, lw=1)
    axes.set(xlabel="true", ylabel="predicted", title=as_drawn(name) if name else "")
    axes.grid()
    return figure


@picture_style()
def draw_scores(values: Floats, y: Any = None) -> Figure:
    """How many rows have each score; those below 0 are flagged, and truth has two colors."""
    figure, axes = _figure(9.2, 3.2)
    # a few extreme scores would leave one bar for all others
    low, high = np.quantile(values, [0.001, 0.999])
    shown = np.clip(values, low, high)
    edges = np.linspace(low, high if high > low else low + 1.0, 61)
    if y is None:
        axes.hist(shown, edges, color=_FIRST)
    else:
        parts = [shown[np.asarray(y) > 0], shown[np.asarray(y) < 0]]
        names = ["inliers", "outliers"]
        axes.hist(parts, edges, stacked=True, color=[_FIRST, _SECOND], label=names)
        figure.legend(loc="outside upper left", ncols=2)
    axes.axvline(0.0, color=_GREY, lw=1)
    axes.set(xlabel="score; rows below 0 are flagged", ylabel="rows")
    return figure


def _sample(n_rows: int) -> Any:
    return np.random.RandomState(0).permutation(n_rows)[:_MAX_POINTS]
