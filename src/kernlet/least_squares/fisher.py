"""Kernel Fisher discriminants."""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from numpy.linalg import LinAlgError
from scipy.linalg import cho_factor, cho_solve, eigh
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval, StrOptions

from kernlet._typing import Floats, Indices
from kernlet.expansion import KernelExpansion
from kernlet.kernels.bandwidth import as_float
from kernlet.kernels.base import Kernel, require_mercer
from kernlet.kernels.gram import Gram, LandmarkBlocks
from kernlet.kernels.linalg import jittered_solve
from kernlet.progress import Progress
from kernlet.sampling import landmark_rows
from kernlet.sklearn_base import (
    KERNEL_CONSTRAINTS,
    ExpansionTransformer,
    TrainingData,
    fit_method,
    warn_user,
)

# How this works
# --------------
# With Phi the centred rows in feature space, weighted by square roots of their weights, and M the
# matrix whose columns are sqrt(n_c) times the class means, the total scatter is S_t = Phi' Phi and
# the between-class scatter S_b = M M'. Maximising v' S_b v / v' (S_w + alpha I) v is maximising
# the share
#
#     share = v' S_b v / v' (S_t + alpha I) v,
#
# whose maximisers lie in the span of (S_t + alpha I)^-1 M: a ridge regression on the classes (one
# factorisation), followed by an eigenproblem of n_classes unknowns,
#
#     M' (S_t + alpha I)^-1 M  a = share a,    v = (S_t + alpha I)^-1 M a.
#
# The regularised variance within classes along v is then share (1 - share) over the weight of all
# rows, by which features are scaled to variance 1.
#
# Centring subtracts numbers as large as the kernel values from each other: the scatter has errors E
# of 1e-16 times these, however small it is, and alpha must exceed them. To first order shares are
# then wrong by |E| times the squared norm of (S_t + alpha I)^-1 M, which is the certificate.

_ALL_ROWS, _N_LANDMARKS = 5000, 1000  # without landmarks, and how many for more rows
# A share of the variance this small has no direction: its features are set to zero.
_SMALLEST_SHARE = 1e-12
# Rounding errors behave like random walks: a few units per number.
_ROUND_OFF = 4 * np.finfo(float).eps
# Landmarks are an approximation, whose errors are larger than the second limit.
_ERROR_WORTH_WARNING = (1e-6, 1e-3)

#: Coefficients (n_directions, n_points), intercepts, between-class shares of the variance, and a
#: bound on the rounding errors of the shares.
Directions = tuple[Floats, Floats, Floats, float]


def exact_directions(
    K: Floats, members: Floats, weights: Floats, alpha: float, n_directions: int
) -> Directions:
    """Directions over all rows, in time n_rows^3; K is overwritten, ``members`` is 0 or 1."""
    roots, total = np.sqrt(weights), float(weights.sum())
    mean = roots / np.sqrt(total)
    means = K @ (weights / total)
    noise = _ROUND_OFF * np.sqrt(len(K)) * float(np.abs(K).max() * weights.max())
    # K is weighted and centred in place, P K P with P = I - mean mean': a second matrix of all
    # rows would double the memory.
    K *= roots
    K *= roots[:, None]
    side = K @ mean
    middle = mean @ side
    K -= np.outer(mean, side)
    K -= np.outer(side, mean)
    K += middle * np.outer(mean, mean)
    classes = roots[:, None] * (members / np.sqrt(weights @ members))
    classes -= np.outer(mean, mean @ classes)
    K[np.diag_indices_from(K)] += alpha
    try:
        factor = cho_factor(K, lower=True, overwrite_a=True)
    except LinAlgError as error:
        raise ValueError(
            f"alpha={alpha:g} is lost in the round-off of the kernel matrix. Raise alpha."
        ) from error
    solved = cho_solve(factor, classes)
    shares, vectors = _small_problem(classes.T @ (classes - alpha * solved), n_directions, total)
    bound = _share_error(noise, alpha, np.sqrt(alpha) * solved)
    coef = solved @ vectors
    coef -= np.outer(mean, mean @ coef)
    coef = (roots[:, None] * coef).T
    return coef, -coef @ means, shares, bound


def landmark_directions(
    blocks: LandmarkBlocks, members: Floats, weights: Floats, alpha: float, n_directions: int
) -> Directions:
    """Directions in the span of landmarks, in one pass over the rows."""
    total = float(weights.sum())
    squares: Any = 0.0
    sums: Any = 0.0
    for rows, block in blocks:
        features = block.astype(np.float64)
        sums = sums + features.T @ (members[rows] * weights[rows, None])
        features *= np.sqrt(weights[rows])[:, None]
        squares = squares + features.T @ features
    # The last feature of every block is 1: its sums are the weights of the classes.
    counts, mean = sums[-1], sums[:-1].sum(axis=1) / total
    scatter = squares[:-1, :-1] - total * np.outer(mean, mean)
    class_means = (sums[:-1] - np.outer(mean, counts)) / np.sqrt(counts)
    solved = jittered_solve(scatter, class_means, alpha)
    shares, vectors = _small_problem(class_means.T @ solved, n_directions, total)
    noise = _ROUND_OFF * np.sqrt(len(scatter)) * float(squares.diagonal().max())
    # A direction left out of the basis has at most its share of the rows' scatter, which is lost.
    lost = float(blocks.truncated * total / len(blocks.basis) / alpha)
    bound = min(1.0, _share_error(noise, alpha, solved) + lost)
    directions = solved @ vectors
    return (blocks.basis @ directions).T, -mean @ directions, shares, bound


def _share_error(noise: float, alpha: float, solved: Floats) -> float:
    """Bound on the error of the shares for a scatter with errors of norm ``noise``."""
    with np.errstate(over="ignore", invalid="ignore"):
        error = noise * float(np.linalg.norm(solved)) ** 2
    return min(error, 1.0) if 2 * noise < alpha else 1.0  # a share is at most 1


def _small_problem(matrix: Floats, n_directions: int, total: float) -> tuple[Floats, Floats]:
    """Shares, and the vectors a scaled to a regularised variance of 1 within classes."""
    shares, vectors = eigh(0.5 * (matrix + matrix.T))
    shares = np.clip(shares[::-1][:n_directions], 0.0, 1.0)
    vectors = vectors[:, ::-1][:, :n_directions]
    # Eigenvectors have no sign. The largest entry is made positive; of entries that are equal but
    # for round-off the last one, or the sign would depend on the machine.
    sizes = np.abs(vectors)
    is_large = sizes >= 0.9 * sizes.max(axis=0)
    last = len(vectors) - 1 - is_large[::-1].argmax(axis=0)
    is_negative = vectors[last, np.arange(vectors.shape[1])] < 0
    vectors = vectors * np.where(is_negative, -1.0, 1.0)
    scale = np.sqrt(total) / np.sqrt(np.maximum(shares * (1.0 - shares), _SMALLEST_SHARE))
    return shares, vectors * np.where(shares > _SMALLEST_SHARE, scale, 0.0)


class KernelFisherDiscriminant(ExpansionTransformer):
    """Kernel Fisher discriminant analysis: directions in which the classes lie furthest apart.

    With S_b the scatter of the class means and S_w that within classes, in the kernel's feature
    space [1]_, the directions successively maximise::

        v' S_b v / v' (S_w + alpha I) v

    This is a ridge regression on the classes, followed by an eigenproblem of size n_classes.
    Features have mean 0 and regularised variance 1 within classes, as in linear discriminant
    analysis.

    Parameters
    ----------
    n_components : int or None, default=None
        Number of features; at most, and by default, n_classes - 1.
    alpha : float, default=1.0
        Added to the eigenvalues of the scatter, which is a sum over rows. Try powers of ten from
        0.001 to 10.
    n_landmarks : "auto", int or None, default="auto"
        None holds the kernel matrix of all rows and takes time n_rows^3, for up to about 10,000
        rows. A number restricts the directions to the span of that many random rows: time is
        linear in the number of rows, and memory is one block. ``"auto"`` is None for up to
        5,000 rows and 1,000 for more.
    kernel : {"rbf", "laplacian", "poly", "linear"} or Kernel, default="rbf"
        Kernel function: a name, or an object of a class derived from
        :class:`kernlet.kernels.Kernel`. It must be positive semi-definite, which the sigmoid is
        not.
    gamma : {"scale", "auto", "mean_distance"} or float, default="scale"
        Width of all kernels but "linear". ``"scale"`` is 1 / (n_features X.var()) and ``"auto"``
        1 / n_features, as in scikit-learn; ``"mean_distance"`` is one over the mean squared
        distance between two rows. For "laplacian", a rule is the square root of its value divided
        by n_features.
    degree : int, default=3
        Degree of the "poly" kernel.
    coef0 : float, default=0.0
        Constant of the "poly" kernel.
    cache_size : float, default=2000
        Memory in MB that the kernel matrix of all rows may take.
    verbose : int, default=0
        Print progress: 1 for each task of the fit, 2 for the steps below them.
    random_state : int, RandomState instance or None, default=None
        Draws the landmarks.

    Attributes
    ----------
    expansion_ : KernelExpansion
        One output per feature; the intercepts make their means 0.
    components_ : ndarray of shape (n_components, n_points)
        Coefficients of the points ``expansion_.centers``.
    n_centers_ : int
        Number of centers: kernel evaluations per prediction.
    point_indices_ : ndarray of shape (n_points,)
        Training rows that are the points.
    shares_ : ndarray of shape (n_components,)
        Between-class share of the regularised variance along each feature, from 0 to 1.
    error_bound_ : float
        The certificate: a bound on what round-off changes in ``shares_``. It grows with the size
        of the kernel values over alpha. With landmarks it contains the directions that are left
        out because round-off hides them. Above 1e-6, or 1e-3 with landmarks, there is a warning.
    classes_ : ndarray of shape (n_classes,)
        Class labels, sorted.
    n_features_in_ : int
        Number of features seen by ``fit``.
    feature_names_in_ : ndarray of shape (n_features,)
        Names of the features, if all columns of X have names that are strings.

    See Also
    --------
    MMDA : More features than classes, by margins.

    References
    ----------
    .. [1] S. Mika, G. Rätsch, J. Weston, B. Schölkopf and K.-R. Müller, "Fisher discriminant
       analysis with kernels", Neural Networks for Signal Processing IX, 41-48, 1999.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from kernlet import KernelFisherDiscriminant
    >>> X, y = load_iris(return_X_y=True)
    >>> fisher = KernelFisherDiscriminant(alpha=0.1).fit(X, y)
    >>> fisher.transform(X).shape
    (150, 2)
    >>> fisher.get_feature_names_out()
    array(['kernelfisherdiscriminant0', 'kernelfisherdiscriminant1'], dtype=object)
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "n_components": [Interval(Integral, 1, None, closed="left"), None],
        "alpha": [Interval(Real, 0, None, closed="neither")],
        "n_landmarks": [Interval(Integral, 1, None, closed="left"), StrOptions({"auto"}), None],
        **KERNEL_CONSTRAINTS,
        "cache_size": [Interval(Real, 0, None, closed="neither")],
        "verbose": ["verbose"],
        "random_state": ["random_state"],
    }

    def __init__(
        self,
        n_components: int | None = None,
        *,
        alpha: float = 1.0,
        n_landmarks: str | int | None = "auto",
        kernel: str | Kernel = "rbf",
        gamma: str | float = "scale",
        degree: int = 3,
        coef0: float = 0.0,
        cache_size: float = 2000,
        verbose: int = 0,
        random_state: Any = None,
    ) -> None:
        self.n_components = n_components
        self.alpha = alpha
        self.n_landmarks = n_landmarks
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.cache_size = cache_size
        self.verbose = verbose
        self.random_state = random_state

    @fit_method
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> KernelFisherDiscriminant:
        """Find the directions.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
            Labels: numbers, strings or booleans.
        sample_weight : array-like of shape (n_samples,), default=None
            A weight of 2 counts a row twice.

        Returns
        -------
        self : object
        """
        data = self._check_training_data(X, y, sample_weight)
        kernel = self._make_kernel(data)
        require_mercer(kernel, "A scatter in feature space")
        n_most = len(self.classes_) - 1
        n_components = n_most if self.n_components is None else int(self.n_components)
        if n_components > n_most:
            raise ValueError(
                f"n_components={n_components} is out of range: {n_most + 1} classes have at most "
                f"{n_most} Fisher directions. Use MMDA for more features."
            )
        members = (data.y[:, None] == self.classes_).astype(np.float64)
        with (
            Progress.start(self, data, n_tasks=1) as progress,
            progress.task("eigenvalue problem", n_tasks=0),
        ):
            rows, solution = self._solve(kernel, data, members, n_components)
            coef, intercept, self.shares_, self.error_bound_ = solution
            self.expansion_ = KernelExpansion(kernel, data.X[rows], coef, intercept)
            self.point_indices_ = data.rows[rows]
        if not self.error_bound_ <= _ERROR_WORTH_WARNING[len(rows) < len(data.y)]:
            warn_user(
                f"Round-off may change the shares of the variance by {self.error_bound_:.1e}: "
                f"alpha={self.alpha:g} is small beside the kernel values. Centre and scale the "
                "columns, for example with StandardScaler, or raise alpha."
            )
        return self

    def _solve(
        self, kernel: Kernel, data: TrainingData, members: Floats, n_components: int
    ) -> tuple[Indices, Directions]:
        """The points, by row number, and the directions over them."""
        n_rows, weights, alpha = len(data.y), data.sample_weight, as_float("alpha", self.alpha)
        n_landmarks: Any = self.n_landmarks
        if n_landmarks == "auto":
            n_landmarks = None if n_rows <= _ALL_ROWS else _N_LANDMARKS
        if n_landmarks is not None and n_landmarks < n_rows:
            order = check_random_state(self.random_state).permutation(n_rows)
            rows = landmark_rows(order, n_landmarks, data.X)
            blocks = LandmarkBlocks(Gram(kernel, data.X, data.X[rows]), 0)
            return rows, landmark_directions(blocks, members, weights, alpha, n_components)
        n_bytes = 8 * n_rows**2
        if n_bytes > self.cache_size * 2**20:
            raise ValueError(
                f"The kernel matrix of {n_rows} rows takes {n_bytes / 2**20:.1f} MB, and "
                "cache_size allows less. Give n_landmarks a number, such as 1000, or raise "
                "cache_size."
            )
        K = kernel(data.X, data.X)
        if not np.isfinite(K).all():
            raise ValueError("The kernel overflows at the rows. Scale the features.")
        return np.arange(n_rows), exact_directions(K, members, weights, alpha, n_components)
