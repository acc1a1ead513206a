"""The picture of the sizes that a compact machine has tried."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils._optional_dependencies import check_matplotlib_support
from sklearn.utils.validation import check_is_fitted


class CompactPathDisplay:
    """Validated score against size, with standard errors and the size that was chosen.

    Use :meth:`from_estimator`, or ``plot_path`` of a fitted compact machine.

    Parameters
    ----------
    sizes, scores, standard_errors : ndarray of shape (n_sizes,)
    chosen : float
        The size of the fitted machine.
    size_name, score_name : str
        Labels of the axes.

    Attributes
    ----------
    ax_ : matplotlib axes
    figure_ : matplotlib figure
    errorbar_ : matplotlib container
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
        return cls(
            sizes=np.array([getattr(point, by) for point in path]),
            scores=np.array([point.score for point in path]),
            standard_errors=np.array([point.standard_error for point in path]),
            chosen=getattr(estimator, f"{by}_"),
            size_name="Centers" if by == "n_centers" else "Bytes",
            score_name="Validated accuracy" if is_classifier else "Validated R²",
        ).plot(ax=ax, **line)

    def plot(self, *, ax: Any = None, **line: Any) -> CompactPathDisplay:
        """Draw into axes; ``line`` is passed on to matplotlib's ``errorbar``."""
        check_matplotlib_support(f"{type(self).__name__}.plot")
        import matplotlib.pyplot as plt

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
