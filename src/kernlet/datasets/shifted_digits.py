"""Zeros and ones of USPS at every place of a larger frame: a set too large for a kernel matrix."""

from __future__ import annotations

from collections.abc import Iterator
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import DTypeLike
from sklearn.utils._param_validation import Interval, validate_params

from kernlet.datasets.dataset import Dataset, Labels, Rows
from kernlet.datasets.loaders import load

_SIDE = 16


class ShiftedImages:
    """Square images at every shift within a larger frame, made when they are asked for.

    Row i * n_shifts + s is image i at shift s, the shifts line by line; pixels outside the image
    are 0. Indexing makes the rows asked for, ``blocks`` all of them part by part, and
    ``np.asarray`` the whole array.

    Parameters
    ----------
    images : ndarray of shape (n_images, side, side)
    frame : int
        Side of the frame.

    Examples
    --------
    >>> import numpy as np
    >>> from kernlet.datasets.shifted_digits import ShiftedImages
    >>> rows = ShiftedImages(np.ones((1, 1, 1)), 2)
    >>> rows.shape
    (4, 4)
    >>> rows[1:3]
    array([[0., 1., 0., 0.],
           [0., 0., 1., 0.]])
    """

    def __init__(self, images: Rows, frame: int) -> None:
        self.images, self.frame = images, frame
        self.n_places = frame - images.shape[1] + 1

    @property
    def shape(self) -> tuple[int, int]:
        """Rows, and pixels of the frame."""
        return len(self.images) * self.n_places**2, self.frame**2

    ndim = 2

    @property
    def dtype(self) -> Any:
        """Of the pixels."""
        return self.images.dtype

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, rows: Any) -> Rows:
        numbers = np.arange(len(self))[rows]
        several = np.atleast_1d(numbers)
        made = np.zeros((len(several), self.frame, self.frame), self.dtype)
        image, shift = np.divmod(several, self.n_places**2)
        side = self.images.shape[1]
        for place in np.unique(shift):
            chosen = np.flatnonzero(shift == place)
            down, right = divmod(int(place), self.n_places)
            made[chosen, down : down + side, right : right + side] = self.images[image[chosen]]
        flat = made.reshape(len(several), -1)
        return flat if np.ndim(numbers) else flat[0]

    def blocks(self, n_rows: int = 10_000) -> Iterator[Rows]:
        """All rows, so many at a time."""
        for start in range(0, len(self), n_rows):
            yield self[start : start + n_rows]

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> Rows:
        if copy is False:
            raise ValueError("Shifted images are made when they are asked for: a copy is needed.")
        whole = np.empty(self.shape, self.dtype if dtype is None else dtype)
        start = 0
        for block in self.blocks():
            whole[start : start + len(block)] = block
            start += len(block)
        return whole


@validate_params(
    {
        "frame": [Interval(Integral, _SIDE, None, closed="left")],
        "digits": ["array-like"],
        "usps": [Dataset, None],
    },
    prefer_skip_nested_validation=True,
)
def make_shifted_digits(
    frame: int = 26, *, digits: Any = (0, 1), usps: Dataset | None = None
) -> Dataset:
    """Zeros and ones of USPS at all shifts within a larger frame: the extended USPS of [1]_.

    Every image of 16 x 16 pixels is put at every place of an empty frame: 11 x 11 places in one
    of 26 x 26, which makes 266,079 training rows and 75,383 test rows of 676 pixels.

    Parameters
    ----------
    frame : int, default=26
        Side of the frame in pixels, 16 at least.
    digits : sequence of int, default=(0, 1)
        The classes.
    usps : Dataset or None, default=None
        Images of 16 x 16 pixels to shift; None for ``load("usps")``.

    Returns
    -------
    digits : Dataset
        ``X`` and ``X_test`` are :class:`ShiftedImages`, which make the rows that are asked
        for: scikit-learn and numpy take them as arrays, then with 720 MB for the training rows in
        float32. Labels are the digits.

    Notes
    -----
    The paper's numbers of rows and pixels are exactly these; that its authors shifted the
    images rather than resampled them is inferred from the numbers.

    References
    ----------
    .. [1] I. W. Tsang, A. Kocsor and J. T. Kwok, "Efficient kernel feature extraction for
       massive data sets", KDD 2006.

    Examples
    --------
    >>> from kernlet.datasets import make_shifted_digits
    >>> make_shifted_digits()  # doctest: +SKIP
    Dataset('shifted_digits', 266079 rows x 676 features, 2 classes, 75383 test rows)
    """
    usps = load("usps") if usps is None else usps
    if usps.X.shape[1] != _SIDE**2 or usps.X_test is None or usps.y_test is None:
        raise ValueError("usps must hold images of 16 x 16 pixels with a test part.")
    digits = np.asarray(digits).ravel().tolist()
    if not digits:
        raise ValueError("digits is empty; give digits that usps has.")
    missing = sorted(set(digits) - set(usps.y.tolist()))
    if missing:
        raise ValueError(f"No image shows the digits {missing}; give digits that usps has.")
    train = _shifted(usps.X, usps.y, digits, frame)
    test = _shifted(usps.X_test, usps.y_test, digits, frame)
    return Dataset("shifted_digits", *train, *test)


def _shifted(X: Rows, y: Labels, digits: Any, frame: int) -> tuple[Any, Labels]:
    kept = np.isin(y, digits)
    images = np.asarray(X[kept], dtype=np.float32).reshape(-1, _SIDE, _SIDE)
    rows = ShiftedImages(images, frame)
    return rows, np.repeat(y[kept], rows.n_places**2)
