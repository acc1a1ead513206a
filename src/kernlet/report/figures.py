"""Pictures of machines."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.figure import Figure

from kernlet.expansion import KernelExpansion
from kernlet.kernels.kernel import Floats

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
