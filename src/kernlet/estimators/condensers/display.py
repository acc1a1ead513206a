"""A picture of rows that were left out, where rows are images."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse
from sklearn.utils import check_array
from sklearn.utils._optional_dependencies import check_matplotlib_support
from sklearn.utils.validation import check_is_fitted

from kernlet.kernels.kernel import Floats


class DeletedImagesDisplay:
    """Images that a condenser left out, one line for each class.

    Use :meth:`from_estimator`. The first in a line are the clearest cases: the largest
    w.x - gamma of a :class:`~kernlet.TypicalCondenser`, the smallest |w.x - gamma| of a
    :class:`~kernlet.BoundaryCondenser`.

    Parameters
    ----------
    lines : list of ndarray of shape (n_images, height, width)
        Images of each class.
    labels : list of str
        What is written beside each line.

    Attributes
    ----------
    ax_ : matplotlib axes
    figure_ : matplotlib figure
    image_ : matplotlib artist

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from kernlet import TypicalCondenser
    >>> from kernlet.estimators.condensers.display import DeletedImagesDisplay
    >>> X, y = load_digits(return_X_y=True)
    >>> condenser = TypicalCondenser().fit(X, y)
    >>> display = DeletedImagesDisplay.from_estimator(condenser, X, image_shape=(8, 8))
    >>> display.labels[0]
    '0 (64 left out)'
    """

    def __init__(self, *, lines: list[Floats], labels: list[str]) -> None:
        self.lines, self.labels = lines, labels

    @classmethod
    def from_estimator(
        cls,
        condenser: Any,
        X: Any,
        *,
        image_shape: tuple[int, int],
        n_images: int = 16,
        ax: Any = None,
        **image: Any,
    ) -> DeletedImagesDisplay:
        """Draw rows that a fitted condenser left out.

        Parameters
        ----------
        condenser : TypicalCondenser or BoundaryCondenser
        X : {array-like, sparse matrix} of shape (n_rows, n_features)
            The rows that it was fitted to.
        image_shape : tuple of two ints
            Height and width.
        n_images : int, default=16
            For each class, at most.
        ax : matplotlib axes, default=None
        **image : dict
            Passed on to matplotlib's ``imshow``.

        Returns
        -------
        display : DeletedImagesDisplay
        """
        check_is_fitted(condenser)
        record = condenser.condensation_
        if not hasattr(record, "rounds"):
            raise ValueError(f"{type(condenser).__name__} leaves no rows out; it makes new ones.")
        X = check_array(X, accept_sparse="csr")
        if X.shape[0] != len(record.codes) or X.shape[1] != image_shape[0] * image_shape[1]:
            raise ValueError(
                f"X has shape {X.shape}; the condenser was fitted to {len(record.codes)} rows, and "
                f"images of {image_shape[0]} x {image_shape[1]} have "
                f"{image_shape[0] * image_shape[1]} numbers."
            )
        rows = np.concatenate([r.deleted for r in record.rounds])
        values = np.concatenate([r.values for r in record.rounds])
        order = np.argsort(-values if (values > 1).all() else np.abs(values), kind="stable")
        rows = rows[order]
        lines, labels = [], []
        for number, label in enumerate(record.classes.tolist()):
            own = rows[record.codes[rows] == number]
            lines.append(_dense(X[own[:n_images]]).reshape(-1, *image_shape))
            labels.append(f"{label} ({len(own)} left out)")
        return cls(lines=lines, labels=labels).plot(ax=ax, **image)

    def plot(self, *, ax: Any = None, **image: Any) -> DeletedImagesDisplay:
        """Draw.

        Parameters
        ----------
        ax : matplotlib axes, default=None
        **image : dict
            Passed on to matplotlib's ``imshow``.

        Returns
        -------
        display : DeletedImagesDisplay
        """
        check_matplotlib_support(f"{type(self).__name__}.plot")
        import matplotlib.pyplot as plt

        if ax is None:
            _, ax = plt.subplots(layout="constrained")
        height, width = self.lines[0].shape[1:]
        longest = max(1, max(len(line) for line in self.lines))
        mosaic = np.full((len(self.lines) * (height + 2), longest * (width + 2)), np.nan)
        for number, line in enumerate(self.lines):
            for place, picture in enumerate(line):
                top, left = number * (height + 2), place * (width + 2)
                mosaic[top : top + height, left : left + width] = picture
        self.image_ = ax.imshow(mosaic, **{"cmap": "gray_r", "interpolation": "nearest", **image})
        middles = [number * (height + 2) + height / 2 for number in range(len(self.lines))]
        ax.set_yticks(middles, self.labels)
        ax.set_xticks([])
        ax.tick_params(length=0)
        ax.spines[:].set_visible(False)
        self.ax_, self.figure_ = ax, ax.figure
        return self


def _dense(X: Any) -> Floats:
    return X.toarray() if sparse.issparse(X) else X
