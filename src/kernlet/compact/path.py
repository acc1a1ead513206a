"""What a search has tried: its points, their storage and their picture."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import astuple, dataclass
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from kernlet._typing import Floats
from kernlet.extras import require
from kernlet.model.scoring import scorer_name
from kernlet.quantization import FORMATS

#: Kernels and widths of compact machines, by number in a packed path.
KERNELS = ("rbf", "rational_quadratic")
WIDTHS = ("shared", "per_center", "per_feature", "diagonal")
#: What may become of missing values, likewise.
MISSING = ("error", "median", "distance")


@dataclass(frozen=True)
class PathPoint:
    """A machine that was tried while the size was chosen: an entry of ``path_``.

    Parameters
    ----------
    n_centers : int
        Number of centers.
    nbytes : int
        Bytes of everything stored.
    score : float
        Score on rows that were not trained on.
    standard_error : float
        Standard error of the score.
    rank : int or None
        Rank of the projection; None without one.
    storage : tuple of str
        Formats of centers, coefficients and projection.
    is_full : bool
        Whether the trial was one of the last and longest, among which the machine was chosen;
        short ones, on fewer rows or folds, only select these.
    noise : float
        Deviation of the noise on the inputs.
    smoothing : float or None
        Label smoothing; None where it was not chosen.
    kernel : str
        "rbf" or "rational_quadratic".
    width : str
        "shared", "per_center", "per_feature" or "diagonal".
    classes_per_center : int or None
        Coefficients stored per center; None for all.
    n_steps : int
        Steps of the step map.
    is_asinh : bool
        Whether inputs were replaced by their asinh.
    block : int
        Side of the blocks of pixels that were averaged.
    missing : str
        What becomes of missing values: "error", "median" or "distance".
    """

    n_centers: int
    nbytes: int
    score: float
    standard_error: float
    rank: int | None
    storage: tuple[str, ...]
    is_full: bool
    noise: float
    smoothing: float | None = None
    kernel: str = "rbf"
    width: str = "shared"
    classes_per_center: int | None = None
    n_steps: int = 0
    is_asinh: bool = False
    block: int = 1
    missing: str = "error"


# A path of a dozen points would take as many bytes in a pickle as the machine: it is kept as one
# array of float32, in which -1 stands for None.
_PATH_DIGITS = 6


def pack_path(path: Sequence[PathPoint]) -> Floats:
    """A path as an array with a row per point."""
    formats = list(FORMATS)
    rows = []
    for point in path:
        n_centers, nbytes, score, error, rank, storage, is_full, *options = astuple(point)
        noise, smoothing, kernel, width, n_entries, *rest, missing = options
        codes = [formats.index(name) for name in storage]
        codes += [-1] * (3 - len(codes)) + [KERNELS.index(kernel), WIDTHS.index(width)]
        optional = [-1 if each is None else each for each in (rank, smoothing, n_entries)]
        rows.append([n_centers, nbytes, score, error, noise, is_full, *optional, *codes, *rest])
        rows[-1].append(MISSING.index(missing))
    return np.array(rows, dtype=np.float32)


def unpack_path(packed: Floats) -> tuple[PathPoint, ...]:
    """The path of a packed array."""
    formats = list(FORMATS)
    path = []
    for row in packed.tolist():
        score, error, noise = (round(number, _PATH_DIGITS) for number in row[2:5])
        rank, smoothing, n_entries = (None if each == -1 else each for each in row[6:9])
        kernel, width, n_steps, is_asinh, block, *missing = (int(number) for number in row[12:])
        point = PathPoint(
            int(row[0]),
            int(row[1]),
            score,
            error,
            None if rank is None else int(rank),
            tuple(formats[int(code)] for code in row[9:12] if code >= 0),
            bool(row[5]),
            noise,
            None if smoothing is None else round(smoothing, _PATH_DIGITS),
            KERNELS[kernel],
            WIDTHS[width],
            None if n_entries is None else int(n_entries),
            n_steps,
            bool(is_asinh),
            block,
            MISSING[missing[0]] if missing else "error",  # machines of older pickles have none
        )
        path.append(point)
    return tuple(path)


class PathMixin:
    """What was tried by an estimator that keeps it as ``_path``."""

    _path: Floats

    @property
    def path_(self) -> tuple[PathPoint, ...]:
        """What was tried."""
        return unpack_path(self._path)

    def plot_path(self, *, ax: Any = None, by: str = "n_centers", **line: Any) -> Any:
        """Draw the validated scores of what was tried.

        Parameters
        ----------
        ax : matplotlib axes, default=None
            To draw into; new ones unless given.
        by : {"n_centers", "nbytes"}, default="n_centers"
            The horizontal axis.
        **line : dict
            Passed on to matplotlib's ``errorbar``.

        Returns
        -------
        display : CompactPathDisplay
        """
        return CompactPathDisplay.from_estimator(self, ax=ax, by=by, **line)


# -- The picture -----------------------------------------------------------------------------


class CompactPathDisplay:
    """Validated score against size, with standard errors and the size that was chosen.

    Use :meth:`from_estimator`, or ``plot_path`` of a fitted compact machine.

    Parameters
    ----------
    sizes, scores, standard_errors : ndarray of shape (n_sizes,)
        The sizes that were tried, their validated scores and the standard errors of these.
    chosen : float
        The size of the fitted machine.
    size_name, score_name : str
        Labels of the axes.

    Attributes
    ----------
    ax_ : matplotlib axes
        The axes that were drawn on.
    figure_ : matplotlib figure
        The figure of these axes.
    errorbar_ : matplotlib container
        The scores with their standard errors.
    line_ : matplotlib artist
        The line at the chosen size.

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from kernlet import CompactKernelClassifier
    >>> X, y = make_moons(400, noise=0.2, random_state=0)
    >>> machine = CompactKernelClassifier("auto", n_epochs=5, random_state=0).fit(X, y)
    >>> display = machine.plot_path()
    >>> display.ax_.get_xlabel()
    'Centers'
    """

    def __init__(
        self,
        *,
        sizes: Any,
        scores: Any,
        standard_errors: Any,
        chosen: float,
        size_name: str = "Centers",
        score_name: str = "Score",
    ) -> None:
        self.sizes, self.scores, self.standard_errors = sizes, scores, standard_errors
        self.chosen, self.size_name, self.score_name = chosen, size_name, score_name

    @classmethod
    def from_estimator(
        cls, estimator: Any, *, ax: Any = None, by: str = "n_centers", **line: Any
    ) -> CompactPathDisplay:
        """Draw the path of a fitted compact machine, by "n_centers" or "nbytes"."""
        check_is_fitted(estimator)
        if by not in ("n_centers", "nbytes"):
            raise ValueError(f'by={by!r} must be "n_centers" or "nbytes".')
        path = [point for point in estimator.path_ if point.is_full]
        path = sorted(path, key=lambda point: getattr(point, by))
        is_classifier = estimator.__sklearn_tags__().estimator_type == "classifier"
        score = "accuracy" if is_classifier else "R²"
        if estimator.scoring is not None:
            score = scorer_name(estimator.scoring)
        return cls(
            sizes=np.array([getattr(point, by) for point in path]),
            scores=np.array([point.score for point in path]),
            standard_errors=np.array([point.standard_error for point in path]),
            chosen=getattr(estimator, f"{by}_"),
            size_name="Centers" if by == "n_centers" else "Bytes",
            score_name=f"Validated {score}",
        ).plot(ax=ax, **line)

    def plot(self, *, ax: Any = None, **line: Any) -> CompactPathDisplay:
        """Draw into axes; ``line`` is passed on to matplotlib's ``errorbar``."""
        plt = require("matplotlib.pyplot", f"{type(self).__name__}.plot", "plot")

        if ax is None:
            _, ax = plt.subplots()
        options = {"marker": "o", "capsize": 3, **line}
        self.errorbar_ = ax.errorbar(self.sizes, self.scores, self.standard_errors, **options)
        self.line_ = ax.axvline(
            self.chosen, color="gray", linestyle=":", label=f"chosen: {self.chosen:,}"
        )
        ax.set_xscale("log", base=2)
        ax.set(xlabel=self.size_name, ylabel=self.score_name)
        ax.legend(loc="lower right")
        self.ax_, self.figure_ = ax, ax.figure
        return self
