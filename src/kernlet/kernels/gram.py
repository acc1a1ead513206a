"""Kernel blocks: the only place where kernel values are computed.

A block never holds more than ``BLOCK_BYTES``. Translation-invariant kernels are evaluated
about the median of the points: |x|^2 + |z|^2 - 2 x.z cancels when the points lie far from the
origin, the more so in float32. Sparse points are not shifted, because that would fill them in;
they are multiplied in float64 instead.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import DTypeLike, NDArray

from kernlet._typing import Floats, Indices, Matrix
from kernlet.devices import is_sparse
from kernlet.kernels.base import Kernel

#: Kernel values computed at once: large enough for a fast matrix product, small beside the data.
BLOCK_BYTES = 16 * 2**20
# Columns that a cache computes at once; a larger block than above, because columns of a matrix
# with many rows are long and each should still share one matrix product with some others.
_CACHE_BATCH_BYTES = 64 * 2**20
# Kernel values of a tile: about what a processor's second-level cache holds, so that a tile is
# still there when it is multiplied for the second time.
_TILE_BYTES = 2 * 2**20
# No shift where |median|^2 <= 10 times the spread of the points: cancellation then costs one digit.
_NEAR = 10.0
# Features count 16 times their size in a block, which is then a megabyte and stays in a processor's
# cache between the product that makes it and the product that uses it.
_CACHED_NUMBER_BYTES = 8 * 16
# Numbers of a dense array that sparse centers may become: a small one (8 MiB) in any case, a large
# one (512 MiB) if one number in 65,536 is stored, as short texts have ten words of 100,000, and a
# larger one if one in a thousand is.
_SMALL_DENSE, _LARGE_DENSE = 2**20, 2**26
_WIDE_ROWS = 2**22  # features; SciPy's product of sparse matrices then allocates 16 MiB or more
_SPARSE_ENTRY_BYTES = 16  # a value and its column number
# Eigenvalues below this share of the largest are round-off in that precision.
_LEAST_EIGENVALUE = {np.dtype(np.float64): 1e-10, np.dtype(np.float32): 1e-7}
# Eigenvalues below this share of the largest are only round-off in float64.
_LEAST_KNOWN_EIGENVALUE = 1e-14
_CACHE_BYTES = 2**20  # kernel values computed before they are multiplied by the basis

#: What picks rows or columns of a matrix.
Selection = slice | NDArray[np.integer[Any]]


class Points:
    """Rows as a kernel block needs them: shifted, in one dtype, with their squared norms.

    Sparse rows are float64 and never shifted. ``hold`` converts all rows once (a copy of the data)
    instead of at each use.
    """

    def __init__(
        self, X: Matrix, shift: Floats | None, dtype: DTypeLike = np.float64, *, hold: bool = False
    ) -> None:
        self.X = canonical_csr(X)
        self.shift = shift
        self.dtype: np.dtype[Any] = np.dtype(np.float64 if is_sparse(X) else dtype)
        if hold and not is_sparse(X):
            with np.errstate(over="ignore"):  # to float32; Gram sees it by the norms
                self.X, self.shift = self._convert(slice(None)), None

    def __len__(self) -> int:
        return int(self.X.shape[0])

    @cached_property
    def norms(self) -> Floats:
        """Squared norms of all rows."""
        slices = row_slices(len(self), 8 * self.X.shape[1])
        norms = [squared_norms(self._convert(rows)) for rows in slices]
        return np.concatenate([np.empty(0, self.dtype), *norms])

    def take(self, rows: Selection) -> tuple[Any, Floats]:
        """The chosen rows and their squared norms."""
        chosen = self._convert(rows)
        if "norms" in self.__dict__:
            return chosen, self.norms[rows]
        return chosen, squared_norms(chosen)

    def _convert(self, rows: Selection) -> Any:
        chosen = self.X[rows]
        if self.shift is not None:
            # In float32 exact for rows near the shift only, which shift_for rounds to float32:
            # values in float64 need all digits of the others, too.
            is_single = chosen.dtype == self.dtype == np.float32
            chosen = chosen - (self.shift.astype(np.float32) if is_single else self.shift)
        return chosen.astype(self.dtype, copy=False)


class Gram:
    """The matrix K(X, Z), evaluated block by block and never as a whole; Z=None means Z = X.

    Values are float64 in spite of ``dtype=float32`` where the points are sparse or the kernel
    would lose too many digits. ``hold`` keeps a shifted copy of X and Z: worth its memory where the
    same rows are visited many times. ``shift`` is what :func:`shift_for` returns, where that is
    known already.
    """

    def __init__(
        self,
        kernel: Kernel,
        X: Matrix,
        Z: Matrix = None,
        *,
        dtype: DTypeLike = np.float64,
        hold: bool = False,
        shift: Floats | Literal["auto"] | None = "auto",
    ) -> None:
        if Z is not None and X.shape[1] != Z.shape[1]:
            raise ValueError(
                f"The rows have {X.shape[1]} features and the centers {Z.shape[1]}; "
                "give points of one width."
            )
        self.kernel = kernel
        if isinstance(shift, str):
            shift = shift_for(kernel, X, Z)
        if is_sparse(X) or is_sparse(Z):
            dtype = np.float64
        self.x = Points(X, shift, dtype, hold=hold)
        self.z = self.x if Z is None else Points(Z, shift, dtype, hold=hold)
        if self.x.dtype == np.float64:
            return
        with np.errstate(over="ignore", invalid="ignore"):  # what overflows needs float64
            largest_norm = max(float(points.norms.max(initial=0.0)) for points in (self.x, self.z))
        if not kernel.fits_float32(largest_norm):
            self.x = Points(X, shift, hold=hold)
            self.z = self.x if Z is None else Points(Z, shift, hold=hold)

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of rows and columns."""
        return len(self.x), len(self.z)

    @property
    def is_square(self) -> bool:
        """Whether Z is X itself, so that the matrix is symmetric."""
        return self.z is self.x

    @property
    def T(self) -> Gram:  # noqa: N802
        """The matrix K(Z, X)."""
        transposed = object.__new__(Gram)
        transposed.kernel, transposed.x, transposed.z = self.kernel, self.z, self.x
        return transposed

    def block(self, rows: Selection, columns: Selection) -> Floats:
        """K(X[rows], Z[columns]) at once; the caller keeps it small."""
        # What overflows is refused, in one sentence, by those who need finite values.
        with np.errstate(over="ignore", invalid="ignore"):
            X, x_norms = self.x.take(rows)
            Z, z_norms = self.z.take(columns)
            return self.kernel.evaluate(X, Z, x_norms[:, None], z_norms[None, :])

    def dot(
        self, W: Floats, columns: Selection = slice(None), rows: NDArray[np.intp] | None = None
    ) -> Floats:
        """K(X[rows], Z[columns]) W in float64, by blocks of rows (all, or the given ones)."""
        Z, z_norms = self.z.take(columns)
        chosen = np.arange(len(self.x)) if rows is None else rows
        product = np.zeros((len(chosen), *W.shape[1:]))
        for block in row_slices(len(chosen), 8 * max(1, len(z_norms), self.x.X.shape[1])):
            X, x_norms = self.x.take(block if rows is None else chosen[block])
            product[block] = self.kernel.evaluate(X, Z, x_norms[:, None], z_norms[None, :]) @ W
        return product


def kernel_matrix(kernel: Kernel, X: Matrix, Z: Matrix, *, dtype: DTypeLike = np.float64) -> Floats:
    """K(X, Z) as one array, filled block by block."""
    X, Z = (A.tocsr() if is_sparse(A) else np.asarray(A, dtype=float) for A in (X, Z))
    blocks = Gram(kernel, X, Z, dtype=dtype)
    values = np.empty(blocks.shape, dtype)
    for rows in row_slices(len(blocks.x), 8 * max(1, len(blocks.z))):
        values[rows] = blocks.block(rows, slice(None))
    return values


def row_slices(n_rows: int, row_bytes: int) -> Iterator[slice]:
    """Consecutive slices of at most ``BLOCK_BYTES`` and at least one row."""
    return slices_of(n_rows, max(1, BLOCK_BYTES // max(1, row_bytes)))


def slices_of(n_rows: int, step: int) -> Iterator[slice]:
    """Consecutive slices of ``step`` rows, the last one shorter."""
    return (slice(start, min(start + step, n_rows)) for start in range(0, n_rows, step))


def shift_for(kernel: Kernel, X: Matrix, Z: Matrix) -> Floats | None:
    """The point about which to evaluate the kernel, rounded to float32; None where it helps not."""
    points = X if Z is None or not Z.shape[0] else Z
    if not kernel.is_translation_invariant or not points.shape[0]:
        return None
    if is_sparse(X) or is_sparse(Z):
        return None
    sample = points[:: max(1, len(points) // 100)].astype(np.float64)
    median = _median(sample)  # not the mean, which one outlier can move anywhere
    with np.errstate(over="ignore", invalid="ignore"):
        spread = _median(squared_norms(sample - median))
        if median @ median <= _NEAR * spread:
            return None
    return round_to_float32(median)


def _median(values: Floats) -> Any:
    """The median of each column; np.median would import numpy.ma, which takes 10 ms."""
    ordered, middle = np.sort(values, axis=0), len(values) // 2
    return ordered[middle] if len(values) % 2 else (ordered[middle - 1] + ordered[middle]) / 2


def round_to_float32(point: Floats) -> Floats:
    """The point rounded to float32 (0 where that overflows), as float64.

    Differences of float32 numbers of about the same size are then exact (Sterbenz).
    """
    with np.errstate(over="ignore"):
        rounded = point.astype(np.float32).astype(np.float64)
    return np.where(np.isfinite(rounded), rounded, 0.0)


def squared_norms(X: Matrix) -> Floats:
    """Squared norms of rows, dense or sparse."""
    if not is_sparse(X):
        return np.einsum("ij,ij->i", X, X)
    X = X.tocsr()
    rows = np.repeat(np.arange(X.shape[0]), np.diff(X.indptr))
    squares: Any = np.square(X.data[: len(rows)])
    return np.bincount(rows, squares, X.shape[0]).astype(np.float64, copy=False)


def inner_products(X: Matrix, Z: Matrix) -> Floats:
    """X Z' as a dense array, whichever of the two is sparse."""
    if isinstance(X, np.ndarray) and not isinstance(Z, np.ndarray):
        return np.asarray((Z @ X.T).T)  # an ndarray would take the sparse Z for a scalar
    if X.shape[1] > _WIDE_ROWS:
        X, Z = used_columns(X, Z)
    products = X @ Z.T
    return products if isinstance(products, np.ndarray) else products.toarray()


def sums_over_features(X: Floats, Z: Floats, kind: str) -> Floats:
    """Sums of absolute ("cityblock") or squared ("sqeuclidean") differences, in float64.

    By SciPy where it has been imported, as in every fit; otherwise feature by feature, which takes
    longer and gives the same bits, because SciPy adds the features in the same order.
    """
    if "scipy" in sys.modules:
        from scipy.spatial.distance import cdist

        return cdist(X, Z, kind)
    X, Z = (np.asarray(A, dtype=np.float64) for A in (X, Z))
    sums = np.zeros((X.shape[0], Z.shape[0]))
    with np.errstate(over="ignore", invalid="ignore"):
        for x, z in zip(X.T, Z.T, strict=True):
            differences = x[:, None] - z
            sums += np.abs(differences) if kind == "cityblock" else np.square(differences)
    return sums


def used_columns(X: Matrix, Z: Matrix) -> tuple[Matrix, Matrix]:
    """Two sparse matrices without columns of zeros, where they have more columns than numbers."""
    if not (is_sparse(X) and is_sparse(Z)) or X.shape[1] <= X.nnz + Z.nnz:
        return X, Z
    columns, places = np.unique(
        np.concatenate([X.indices[: X.nnz], Z.indices[: Z.nnz]]), return_inverse=True
    )
    from scipy import sparse

    return tuple(
        sparse.csr_array((A.data, own, A.indptr), shape=(A.shape[0], len(columns)))
        for A, own in ((X, places[: X.nnz]), (Z, places[X.nnz :]))
    )


def as_dense(X: Matrix) -> Any:
    """X as an array, where it is a sparse matrix."""
    return X.toarray() if is_sparse(X) else X


def dense_centers(X: Matrix) -> Any:
    """Centers as an array; sparse ones that are nearly all zeros are refused."""
    # Memory must grow with what is stored and not with the largest feature number, which in a
    # model file of 100 bytes may be 2^31.
    if is_sparse(X) and X.shape[0] * X.shape[1] > max(
        _SMALL_DENSE, min(_LARGE_DENSE, 2**16 * X.nnz), 1000 * X.nnz
    ):
        raise ValueError(
            f"{X.shape[0]} sparse points of {X.shape[1]} features with {X.nnz} nonzero numbers are "
            "too wide for a dense array: leave out features, or reduce them with TruncatedSVD."
        )
    return as_dense(X)


def canonical_csr(X: Matrix) -> Matrix:
    """X; duplicate entries of a sparse matrix are summed (in a copy), as scipy's norms require."""
    if not is_sparse(X) or X.has_canonical_format:
        return X
    X = X.copy()
    X.sum_duplicates()
    return X


class ColumnCache:
    """Cache of kernel columns: weighted sums of the columns of K(X, Z), each computed once.

    A solver works with few columns of a large kernel matrix, over and over. The columns it
    asks for are computed in batches and kept in the precision of ``gram`` until ``max_bytes``
    are full; then columns outside the present request are evicted, and what still does not fit
    is recomputed at each call.

    Memory: n_x times the number of distinct columns, at most ``max_bytes`` plus one batch.
    """

    def __init__(self, gram: Gram, max_bytes: int) -> None:
        self.gram = gram.T  # columns are computed as rows of the transpose: contiguous
        self.max_bytes = max_bytes
        self.nbytes = 0
        self._is_kept = np.zeros(len(gram.z), dtype=bool)
        self._chunks: list[tuple[Indices, Floats]] = []
        self._column_bytes = max(1, len(gram.x) * gram.x.dtype.itemsize)
        self._batch = max(1, _CACHE_BATCH_BYTES // self._column_bytes)

    def combine(self, columns: Indices, weights: Floats) -> Floats:
        """(K(X, Z[columns]) weights)' in float64, of shape (n_sums, n_x); columns are distinct."""
        spread = np.zeros((len(self._is_kept), weights.shape[1]))
        spread[columns] = weights
        total = np.zeros((weights.shape[1], self.gram.shape[1]))
        for kept, block in self._chunks:
            _accumulate(total, spread[kept], block)
        missing = columns[~self._is_kept[columns]]
        for batch in slices_of(len(missing), self._batch):
            numbers = missing[batch]
            block = self.gram.block(numbers, slice(None))
            _accumulate(total, spread[numbers], block)
            self._keep(numbers, block, columns)
        return total

    def _keep(self, numbers: Indices, block: Floats, requested: Indices) -> None:
        """Cache as much of a block as there is room for."""
        if self.nbytes + block.nbytes > self.max_bytes:
            self._evict_all_but(requested)
        room = (self.max_bytes - self.nbytes) // self._column_bytes
        if room < len(numbers):
            numbers, block = numbers[:room], block[:room].copy()  # a view would keep all of it
        if len(numbers):
            self._chunks.append((numbers, block))
            self._is_kept[numbers] = True
            self.nbytes += block.nbytes

    def _evict_all_but(self, requested: Indices) -> None:
        stays = np.zeros_like(self._is_kept)
        stays[requested] = True
        chunks = [(kept[stays[kept]], block[stays[kept]]) for kept, block in self._chunks]
        self._chunks = [chunk for chunk in chunks if len(chunk[0])]
        self._is_kept &= stays
        self.nbytes = sum(block.nbytes for _, block in self._chunks)


def _accumulate(total: Floats, weights: Floats, block: Floats) -> None:
    """Add weights' block to the float64 total; the product is in the block's precision."""
    # A solver's step changes few weights at a time: a chunk without any needs no product.
    if weights.any():
        total += weights.T.astype(block.dtype) @ block


def as_indices(values: Any) -> Indices:
    """Row or column numbers as an index array."""
    return np.asarray(values, dtype=np.intp)


class KernelTiles:
    """K(X, Z) for a block of rows, a few hundred or thousand rows at a time.

    The rows' counterpart of :class:`ColumnCache`: a pass over the data uses every column of each
    row, so that whole row blocks are kept or recomputed.
    """

    def __init__(self, gram: Gram) -> None:
        self.gram: Any = gram  # None once the values are in memory
        self.n_rows, self.n_centers = gram.shape
        self.nbytes = self.n_rows * self.n_centers * gram.x.dtype.itemsize
        self._values: Any = None
        row_bytes = max(1, self.n_centers * gram.x.dtype.itemsize)
        # At least 64 rows: below that the matrix product spends its time on the centers alone.
        self._step = max(64, 2 ** int(np.log2(max(1, _TILE_BYTES // row_bytes))))

    def materialised(self) -> KernelTiles:
        """The same tiles with their values in memory; the rows are released."""
        values = np.empty((self.n_rows, self.n_centers), self.gram.x.dtype)
        for rows, tile in self:
            values[rows] = tile
        self._values, self.gram = values, None
        return self

    def __iter__(self) -> Iterator[tuple[slice, Floats]]:
        for rows in slices_of(self.n_rows, self._step):
            is_held = self._values is not None
            yield rows, self._values[rows] if is_held else self.gram.block(rows, slice(None))


@dataclass(frozen=True, eq=False)
class TileMaker:
    """Makes the kernel tiles of any block of rows; picklable, for worker processes."""

    kernel: Kernel
    centers: Matrix
    dtype: DTypeLike

    def __call__(self, X: Matrix) -> KernelTiles:
        """The tiles of a block."""
        # The shift depends on the centers alone: it is the same for all blocks.
        return KernelTiles(Gram(self.kernel, X, self.centers, dtype=self.dtype, hold=True))


class RowFeatures:
    """Rows themselves (no kernel), or their kernel values with landmarks; never all at once."""

    def __init__(self, X: Any, kernel: Kernel | None = None, landmarks: Any = None) -> None:
        self.X = canonical_csr(X)
        self._gram = None if kernel is None else Gram(kernel, self.X, landmarks)

    def __len__(self) -> int:
        return int(self.X.shape[0])

    @property
    def n_features(self) -> int:
        """Features per row."""
        return int(self.X.shape[1]) if self._gram is None else self._gram.shape[1]

    @property
    def is_sparse(self) -> bool:
        """Whether blocks are sparse matrices."""
        return self._gram is None and bool(is_sparse(self.X))

    @cached_property
    def middle(self) -> Floats:
        """A point near the rows, about which moments do not cancel: the mean of the first rows.

        Zero for sparse rows, which a shift would fill in, and for kernel values.
        """
        if self._gram is not None or self.is_sparse:
            return np.zeros(self.n_features)
        with np.errstate(over="ignore", invalid="ignore"):
            mean = self.X[:1000].mean(axis=0, dtype=np.float64)
        return np.where(np.isfinite(mean), mean, 0.0)

    def blocks(
        self, rows: NDArray[np.intp] | None = None, *, dense: bool = False
    ) -> Iterator[tuple[slice, Any]]:
        """Pairs (positions, block) over the given rows, or over all."""
        if rows is not None and len(rows) == len(self) and (np.diff(rows) == 1).all():
            rows = None  # all of them in order: slices need no copy
        if self.is_sparse and not dense:
            row_bytes = _SPARSE_ENTRY_BYTES * max(1, self.X.nnz // max(1, len(self)))
        else:
            row_bytes = _CACHED_NUMBER_BYTES * max(1, self.n_features, self.X.shape[1])
        for positions in row_slices(len(self) if rows is None else len(rows), row_bytes):
            chosen: Any = positions if rows is None else rows[positions]
            if self._gram is not None:
                yield positions, self._gram.block(chosen, slice(None))
            else:
                yield positions, as_dense(self.X[chosen]) if dense else self.X[chosen]

    def dot(self, W: Floats, rows: NDArray[np.intp] | None = None) -> Floats:
        """Features times W, for the given rows."""
        values = np.empty((len(self) if rows is None else len(rows), *W.shape[1:]))
        for positions, block in self.blocks(rows):
            values[positions] = block @ W
        return values


class LandmarkBlocks:
    """Nystroem features: blocks of K(X, Z) T with a column of ones, where T' K(Z, Z) T = I.

    A row's kernel values with the landmarks Z times T are its coordinates in the landmarks'
    span, where inner products are those of feature space; the last coordinate, 1, is for the
    intercept. Memory is one block, or all of them where ``max_bytes`` allows. Computing all takes
    n_rows * n_landmarks kernel values and n_rows * n_landmarks^2 operations.
    """

    def __init__(self, gram: Gram, max_bytes: int, basis: Floats | None = None) -> None:
        from kernlet.kernels.linalg import orthonormal_maps  # late: SciPy, which Gram does not need

        self.gram = gram
        landmarks = Gram(gram.kernel, gram.z.X, shift=gram.z.shift)
        self.products = landmarks.block(slice(None), slice(None))
        self.left_out: Floats = np.zeros((len(gram.z), 0))  # T of smaller eigenvalues
        if basis is None:
            basis, self.left_out = orthonormal_maps(
                self.products, _LEAST_EIGENVALUE[gram.x.dtype], _LEAST_KNOWN_EIGENVALUE
            )
        self.basis = basis
        nbytes = gram.shape[0] * (self.rank + 1) * gram.x.dtype.itemsize
        self.is_held = nbytes <= max_bytes
        self._held = list(self._compute()) if self.is_held else None

    @property
    def rank(self) -> int:
        """Dimension of the landmarks' span."""
        return int(self.basis.shape[1])

    @property
    def truncated(self) -> float:
        """The largest eigenvalue of K(Z, Z) that the basis may have left out as round-off."""
        return self._eigenvalue(_LEAST_EIGENVALUE[self.gram.x.dtype], self.rank)

    @property
    def unknown(self) -> float:
        """The largest eigenvalue of K(Z, Z) that is not in ``left_out`` either."""
        return self._eigenvalue(_LEAST_KNOWN_EIGENVALUE, self.rank + self.left_out.shape[1])

    @property
    def noise(self) -> float:
        """The expected squared error of a row in the basis, for a row of norm 1, by round-off."""
        # k(x, z) is rounded by eps |f(x)| |f(z)| at most, and T multiplies it.
        squares = np.diagonal(self.products) @ np.square(self.basis)
        return float(np.finfo(self.gram.x.dtype).eps ** 2 * squares.sum())

    def _eigenvalue(self, share: float, n_known: int) -> float:
        """A share of the largest eigenvalue; 0 where all are known."""
        if n_known == len(self.basis):
            return 0.0
        # The columns of T are eigenvectors over roots of their eigenvalues.
        return share / float(np.square(self.basis).sum(axis=0).min(initial=np.inf))

    @property
    def n_rows(self) -> int:
        """Rows in all blocks together."""
        return self.gram.shape[0]

    def __iter__(self) -> Iterator[tuple[slice, Floats]]:
        return self._compute() if self._held is None else iter(self._held)

    def _compute(self) -> Iterator[tuple[slice, Floats]]:
        basis = self.basis.astype(self.gram.x.dtype)
        step = max(64, _CACHE_BYTES // (8 * max(1, len(basis))))
        for rows in row_slices(self.n_rows, 8 * max(len(basis), self.gram.x.X.shape[1])):
            block = np.ones((rows.stop - rows.start, self.rank + 1), basis.dtype)
            for inside in slices_of(len(block), step):
                tile = slice(rows.start + inside.start, rows.start + inside.stop)
                block[inside, :-1] = self.gram.block(tile, slice(None)) @ basis
            yield rows, block
