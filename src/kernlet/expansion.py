"""The one object that every trainer makes, every reducer shrinks and every exporter writes."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy import sparse

from kernlet.kernels import Kernel
from kernlet.kernels.columns import Indices, as_indices
from kernlet.kernels.gram import Gram, row_slices, shift_for
from kernlet.kernels.kernel import Floats, require_mercer


@dataclass(frozen=True, eq=False)
class KernelExpansion:
    """f_c(x) = sum_j coef[c, j] k(x, centers[j]) + intercept[c].

    A two-class machine has one output, positive for the second class; a machine for more
    classes has one output a class, all over one shared set of centers.

    Parameters
    ----------
    kernel : Kernel
    centers : {ndarray, sparse matrix} of shape (n_centers, n_features)
    coef : ndarray of shape (n_outputs, n_centers)
    intercept : ndarray of shape (n_outputs,)

    Examples
    --------
    >>> import numpy as np
    >>> from kernlet import KernelExpansion
    >>> from kernlet.kernels import RBF
    >>> f = KernelExpansion(RBF(1.0), np.zeros((1, 2)), np.array([[2.0]]), np.array([-1.0]))
    >>> f.decision_values(np.array([[0.0, 0.0], [3.0, 0.0]])).round(3)
    array([[ 1.],
           [-1.]])
    """

    kernel: Kernel
    centers: Any
    coef: Floats
    intercept: Floats

    def __post_init__(self) -> None:
        object.__setattr__(self, "centers", _as_points(self.centers))
        object.__setattr__(self, "coef", np.atleast_2d(self.coef))
        object.__setattr__(self, "intercept", np.atleast_1d(self.intercept))
        shape = (len(self.intercept), self.centers.shape[0])
        if self.coef.shape != shape:
            raise ValueError(
                f"coef has shape {self.coef.shape}; {shape[0]} intercepts and "
                f"{shape[1]} centers need {shape}."
            )

    def __repr__(self) -> str:
        return (
            f"KernelExpansion({self.kernel!r}, {self.n_centers} centers of {self.n_features} "
            f"features, {self.n_outputs} outputs)"
        )

    @property
    def n_centers(self) -> int:
        """Points the machine depends on: the kernel evaluations one prediction costs."""
        return int(self.centers.shape[0])

    @property
    def n_outputs(self) -> int:
        """Decision values a prediction computes."""
        return int(self.coef.shape[0])

    @property
    def n_features(self) -> int:
        """Width of the input."""
        return int(self.centers.shape[1])

    @property
    def nbytes(self) -> int:
        """Bytes of the stored tables: centers, coefficients and intercepts as they are held."""
        return _nbytes(self.centers) + self.coef.nbytes + self.intercept.nbytes

    def decision_values(self, X: Any) -> Floats:
        """Decision values of the rows of X.

        The work is n_rows * n_centers kernel values, in blocks of bounded memory; float32
        rows are computed in float32.

        Parameters
        ----------
        X : {ndarray, sparse matrix} of shape (n_rows, n_features)

        Returns
        -------
        values : ndarray of shape (n_rows, n_outputs)
        """
        X = _as_points(X)
        if X.shape[1] != self.n_features:
            raise ValueError(
                f"X has {X.shape[1]} features, but the machine was made for {self.n_features}."
            )
        if not self.n_centers:
            return np.tile(self.intercept, (X.shape[0], 1))
        dtype = np.float32 if X.dtype == np.float32 else np.float64
        coef: Floats = self.coef.T.astype(dtype)
        shift = None if sparse.issparse(X) else self._shift
        values = np.empty((X.shape[0], self.n_outputs))
        for rows in row_slices(X.shape[0], 8 * max(self.n_centers, self.n_features)):
            gram = Gram(self.kernel, X[rows], self.centers, dtype=dtype, hold=True, shift=shift)
            values[rows] = gram.dot(coef)
        values += self.intercept
        return values

    @cached_property
    def _shift(self) -> Floats | None:
        return shift_for(self.kernel, self.centers, None)

    def feature_norms(self) -> Floats:
        """Norm of each output in the kernel's feature space, the intercept left out.

        sqrt(coef K(centers, centers) coef'); one over it is the distance from the surface
        f = 0 to f = 1 there.

        Returns
        -------
        norms : ndarray of shape (n_outputs,)

        Raises
        ------
        ValueError
            For a kernel that has no feature space (sigmoid).
        """
        require_mercer(self.kernel, "A norm in feature space")
        if not self.n_centers:
            return np.zeros(self.n_outputs)
        products = Gram(self.kernel, self.centers).dot(self.coef.T)
        return np.sqrt(np.maximum(0.0, np.einsum("cj,jc->c", self.coef, products)))


def distinct_rows(X: Any) -> tuple[Indices, Indices]:
    """Groups of equal rows.

    Parameters
    ----------
    X : {ndarray, sparse matrix} of shape (n_rows, n_features)

    Returns
    -------
    group : ndarray of shape (n_rows,)
        The group of each row, numbered in order of appearance.
    first : ndarray of shape (n_groups,)
        The first row of each group.

    Examples
    --------
    >>> import numpy as np
    >>> from kernlet.expansion import distinct_rows
    >>> distinct_rows(np.array([[1.0], [2.0], [1.0]]))
    (array([0, 1, 0]), array([0, 1]))
    """
    numbers: dict[bytes, int] = {}
    group = [numbers.setdefault(_row_bytes(X, i), len(numbers)) for i in range(X.shape[0])]
    _, first = np.unique(group, return_index=True)
    return as_indices(group), as_indices(first)


def _as_points(X: Any) -> Any:
    """Rows by the number: an array of two dimensions, or a sparse matrix by rows."""
    if sparse.issparse(X):
        return X.tocsr()
    points = np.asarray(X)
    if points.ndim != 2:
        raise ValueError(f"Points must be rows of an array of two dimensions, not {points.ndim}.")
    return points if points.dtype.kind == "f" else points.astype(np.float64)


def _row_bytes(X: Any, i: int) -> bytes:
    row = X[[i]]
    if sparse.issparse(row):
        row.sum_duplicates()
        row.eliminate_zeros()
        return bytes(row.indices.tobytes() + row.data.tobytes())
    return bytes((row + 0.0).tobytes())


def _nbytes(X: Any) -> int:
    if sparse.issparse(X):
        return int(X.data.nbytes + X.indices.nbytes + X.indptr.nbytes)
    return int(X.nbytes)
