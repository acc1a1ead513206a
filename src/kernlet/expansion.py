"""The one object that every trainer makes, every reducer shrinks and every exporter writes."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from kernlet._typing import Floats, Indices, Matrix
from kernlet.affine import AffineMap, CurvedMap
from kernlet.devices import device_of, is_foreign, is_sparse
from kernlet.kernels.base import Kernel, require_mercer
from kernlet.kernels.gram import Gram, as_indices, row_slices, shift_for
from kernlet.kernels.laplacian import Laplacian
from kernlet.kernels.rbf import RBF

# Multiplications of a sum from which BLAS would start threads, which makes it 1.5 to 6 times slower
# where other processes use the cores. Below, setting the limit (70 us) would double the time of
# predicting a single row.
_THREADED_PRODUCT = 2**18


@dataclass(frozen=True, eq=False)
class KernelExpansion:
    """Weighted sums of kernel values with a few centers: what every kernlet model evaluates.

    ``f_c(x) = sum_j coef[c, j] k(x, centers[j]) + intercept[c]``. A two-class machine has one
    output, positive for the second class; a machine for more classes has one output per class, all
    over one shared set of centers. With an input map, rows are mapped first and the centers are
    points of its output space.

    Parameters
    ----------
    kernel : Kernel
        The kernel k, an object of :mod:`kernlet.kernels`.
    centers : {ndarray, sparse matrix} of shape (n_centers, n_features)
        The centers, one per row.
    coef : ndarray of shape (n_outputs, n_centers)
        Coefficients of the centers in each output.
    intercept : ndarray of shape (n_outputs,)
        Constants of the outputs.
    input_map : AffineMap, default=None
        Applied to the rows before the kernel.
    skips_missing : bool, default=False
        Whether features that are NaN are left out of distances: the squared distance is the sum
        over the features present, times the number of features over that of the present ones. A
        row without any counts as one whose mapped features are all 0. For kernels of squared
        distances (rbf and rational_quadratic), without a matrix in the input map.

    Examples
    --------
    >>> import numpy as np
    >>> from kernlet import KernelExpansion
    >>> from kernlet.kernels.rbf import RBF
    >>> f = KernelExpansion(RBF(1.0), np.zeros((1, 2)), np.array([[2.0]]), np.array([-1.0]))
    >>> f.decision_values(np.array([[0.0, 0.0], [3.0, 0.0]])).round(3)
    array([[ 1.],
           [-1.]])
    """

    kernel: Kernel
    centers: Matrix
    coef: Floats
    intercept: Floats
    input_map: AffineMap | None = None
    skips_missing: bool = False

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
        matrix = None if self.input_map is None else self.input_map.matrix
        if matrix is not None and matrix.shape[0] != self.centers.shape[1]:
            raise ValueError(
                f"The input map gives {matrix.shape[0]} numbers per row, but the centers have "
                f"{self.centers.shape[1]}."
            )
        if self.input_map is not None and self.input_map.width not in (None, self.n_features):
            raise ValueError(
                f"The input map takes {self.input_map.width} features, but the centers have "
                f"{self.n_features}."
            )

        if self.skips_missing and (
            matrix is not None
            or self.missing != "distance"
            or self.kernel.name not in ("rbf", "rational_quadratic")
        ):
            raise ValueError(
                "Missing features can be left out of squared distances only: of the rbf and the "
                "rational quadratic kernel, without a projection, block means or fill values."
            )

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}({self.kernel!r}, {self.n_centers} centers of {self.n_features} "
            f"features, {self.n_outputs} outputs)"
        )

    @property
    def missing(self) -> str:
        """What NaN is: "error", "median" (a fill value replaces it) or "distance" (left out)."""
        if self.input_map is not None and self.input_map.fill is not None:
            return "median"
        return "distance" if self.skips_missing else "error"

    @property
    def n_centers(self) -> int:
        """Number of centers: kernel evaluations per prediction."""
        return int(self.centers.shape[0])

    @property
    def n_outputs(self) -> int:
        """Decision values per row."""
        return int(self.coef.shape[0])

    @property
    def n_features(self) -> int:
        """Features of the input."""
        if self.input_map is not None and self.input_map.matrix is not None:
            return int(self.input_map.matrix.shape[1])
        return int(self.centers.shape[1])

    @property
    def nbytes(self) -> int:
        """Bytes of centers, coefficients, intercepts and input map in their dtypes."""
        centers = self.centers
        has_zeros = is_sparse(centers)
        stored = (centers.data, centers.indices, centers.indptr) if has_zeros else (centers,)
        map_bytes = 0 if self.input_map is None else self.input_map.nbytes
        return sum(int(a.nbytes) for a in (*stored, self.coef, self.intercept)) + map_bytes

    def decision_values(self, X: Any) -> Floats:
        """Decision values of the rows of X.

        n_rows * n_centers kernel values are computed, in blocks of bounded memory; float32 rows
        are computed in float32. Rows in an array of another library (a torch tensor on a GPU, say)
        are computed there, in float32, where the kernel allows it.

        Parameters
        ----------
        X : {ndarray, sparse matrix, array} of shape (n_rows, n_features)

        Returns
        -------
        values : ndarray or array of shape (n_rows, n_outputs)
        """
        if is_foreign(X):
            return self._foreign_values(X)
        X = _as_points(X)
        if X.shape[1] != self.n_features:
            raise ValueError(
                f"X has {X.shape[1]} features, but the machine was made for {self.n_features}."
            )
        if not self.n_centers:
            return np.tile(self.intercept, (X.shape[0], 1))
        dtype = np.float32 if X.dtype == np.float32 else np.float64
        coef: Floats = self.coef.T.astype(dtype)
        # Sparse rows stay sparse, unless a map makes them dense: then the shift costs nothing.
        shift = None if is_sparse(X) and self.input_map is None else self._shift
        values = np.empty((X.shape[0], self.n_outputs))
        is_small = X.shape[0] * self.n_centers * self.n_features < _THREADED_PRODUCT
        with nullcontext() if is_small else _one_thread():
            for rows in row_slices(X.shape[0], 8 * max(self.n_centers, self.n_features)):
                points = X[rows] if self.input_map is None else self.input_map(X[rows])
                if self.skips_missing and not is_sparse(points) and np.isnan(points).any():
                    values[rows] = self._present_values(points) @ self.coef.T
                    continue
                gram = Gram(self.kernel, points, self.centers, dtype=dtype, hold=True, shift=shift)
                values[rows] = gram.dot(coef)
        values += self.intercept
        return values

    def _present_values(self, points: Floats) -> Floats:
        """Kernel values in float64, by the distances over the features that are present."""
        distances = present_distances(points.astype(np.float64), self.centers.astype(np.float64))
        # Kernels are functions of |x|^2 + |z|^2 - 2 x.z: here of the last term alone.
        distances *= -0.5
        zeros: Floats = np.zeros((1, 1))
        return self.kernel.of_products(distances, zeros, zeros)

    @cached_property
    def _shift(self) -> Floats | None:
        """About the centers, not the rows: one shift for all batches, so that answers agree."""
        return shift_for(self.kernel, self.centers, None)

    def _foreign_values(self, X: Any) -> Any:
        """Decision values in the library, and on the device, of the rows."""
        if X.ndim != 2 or X.shape[1] != self.n_features:
            raise ValueError(
                f"X has shape {tuple(X.shape)}, but the machine was made for rows of "
                f"{self.n_features} features."
            )
        if is_sparse(self.centers):
            raise TypeError(
                "A machine with sparse centers computes with numpy only: convert the rows first."
            )
        device = device_of(X)
        xp = device.namespace
        if self.skips_missing and bool(xp.any(xp.isnan(X))):
            raise TypeError(
                "Distances over the features present are computed with numpy only: convert rows "
                "with NaN first."
            )
        shift = np.zeros(1) if self._shift is None else self._shift
        centers, origin = device.send(self.centers - shift), device.send(shift)
        coef, intercept = device.send(self.coef.T), device.send(self.intercept)
        values = [device.send(np.zeros((0, self.n_outputs)))]
        # A GPU is busy only with large blocks: 16 times those of the CPU.
        for rows in row_slices(X.shape[0], 4 * max(self.n_centers, self.n_features) // 16):
            points = xp.astype(X[rows, :], xp.float32)
            points = points if self.input_map is None else self.input_map.on(device, points)
            K = self.kernel.on(device, points - origin, centers)
            values.append(K @ coef + intercept)
        return xp.concat(values, axis=0)

    @property
    def mapped(self) -> KernelExpansion:
        """The same machine for rows that have been through the input map already."""
        if self.input_map is None:
            return self
        flag = self.skips_missing
        return KernelExpansion(
            self.kernel, self.centers, self.coef, self.intercept, skips_missing=flag
        )

    def unfolded(self) -> KernelExpansion:
        """The same machine without an input map, its centers in the space of the rows.

        Returns
        -------
        expansion : KernelExpansion

        Raises
        ------
        ValueError
            For a projection, for a scale per feature, and for kernels other than laplacian and rbf
            with one width, whose map cannot be taken into the centers.
        """
        if self.input_map is None:
            return self
        shift, scale = self.input_map.shift.astype(float), self.input_map.scale.astype(float)
        is_curved = isinstance(self.input_map, CurvedMap)
        is_plain = self.input_map.matrix is None and len(scale) == 1 and not is_curved
        is_plain = is_plain and self.missing == "error"
        has_units = isinstance(self.kernel, RBF | Laplacian) and self.kernel.is_mercer
        if not is_plain or not has_units or is_sparse(self.centers):
            raise ValueError(
                f"{self!r} has an input map that cannot be taken into its centers, such as a "
                "projection, or takes missing values. Train a smaller one instead: "
                "CompactKernelClassifier(max_bytes=...)."
            )
        kernel, _ = self.kernel.scaled(float(scale[0]))
        centers = self.centers.astype(float) / scale + shift
        return KernelExpansion(kernel, centers, self.coef, self.intercept)

    def feature_norms(self) -> Floats:
        """Norm of each output in the kernel's feature space, without the intercept.

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


def present_distances(U: Floats, Z: Floats) -> Floats:
    """Squared distances over the features of each row that are not NaN, rescaled to all.

    D_ij = d / |m_i| sum_c m_ic (u_ic - z_jc)^2, with m_ic = 1 where u_ic is present. A row without
    any present feature counts as one of zeros.
    """
    present = ~np.isnan(U)
    present |= ~present.any(axis=1, keepdims=True)
    U = np.where(present & ~np.isnan(U), U, 0.0)
    M = present.astype(U.dtype)
    distances = (U * U).sum(axis=1)[:, None] - 2 * (U @ Z.T) + M @ (Z * Z).T
    distances *= (U.shape[1] / M.sum(axis=1))[:, None]
    return np.maximum(distances, 0.0, out=distances)


def finite_values(function: Callable[[Any], Any], X: Any) -> Any:
    """Outputs of a function of rows; ValueError where one of a row overflows."""
    with np.errstate(over="ignore", invalid="ignore"):
        values = function(X)
    if isinstance(values, np.ndarray) and not np.isfinite(values).all():
        row = int(np.isfinite(values).all(axis=1).argmin())
        raise ValueError(
            f"Row {row} of X, counted from 0, overflows in the machine, so that it has no "
            "decision values: scale the features, for example with a StandardScaler in front."
        )
    return values


def _one_thread() -> AbstractContextManager[None]:
    """One thread for BLAS, or as many as it has where threadpoolctl is not installed."""
    try:
        from kernlet.threads import single_thread
    except ModuleNotFoundError:  # beside kernlet.runtime alone
        return nullcontext()
    return single_thread()


def distinct_rows(X: Matrix) -> tuple[Indices, Indices]:
    """The group of equal rows of each row, in order of appearance, and each group's first row."""
    numbers: dict[bytes, int] = {}
    group = [numbers.setdefault(_row_bytes(X, i), len(numbers)) for i in range(X.shape[0])]
    _, first = np.unique(group, return_index=True)
    return as_indices(group), as_indices(first)


def _as_points(X: Matrix) -> Any:
    """A two-dimensional float array, or a sparse matrix that can be sliced by rows."""
    if is_sparse(X):
        return X.tocsr()
    points = np.asarray(X)
    if points.ndim != 2:
        raise ValueError(f"Points must be rows of a 2-d array, not of {points.ndim} dimensions.")
    return points if points.dtype.kind == "f" else points.astype(np.float64)


def _row_bytes(X: Matrix, i: int) -> bytes:
    """Bytes that are equal for equal rows."""
    row = X[[i]]
    if is_sparse(row):
        row.sum_duplicates()
        row.eliminate_zeros()
        return bytes(row.indices.tobytes() + row.data.tobytes())
    return bytes((row + 0.0).tobytes())  # adding 0 makes -0 and 0 the same bytes
