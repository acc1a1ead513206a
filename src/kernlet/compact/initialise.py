"""Initial networks: from clusters of the rows, from given points, or from a given model."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.linalg import solve
from sklearn.base import is_classifier
from sklearn.frozen import FrozenEstimator
from sklearn.svm import SVR, NuSVR
from sklearn.utils import check_array
from sklearn.utils.extmath import randomized_svd
from sklearn.utils.validation import check_is_fitted

from kernlet import sampling
from kernlet._typing import Floats, Indices
from kernlet.compact.batches import BatchLoader, TrainingSet
from kernlet.compact.inputs import Inputs, without_missing
from kernlet.compact.network import KernelNetwork, Pinball, step_matrix
from kernlet.compact.plan import StoragePlan
from kernlet.devices import to_numpy
from kernlet.expansion import KernelExpansion
from kernlet.kernels.gram import Gram, as_dense, dense_centers, row_slices
from kernlet.kernels.rbf import RBF
from kernlet.model.model import as_classifier
from kernlet.model.scoring import weighted_quantile
from kernlet.quantization import QuantizedExpansion, as_numbers

# How this works
# --------------
# Training only finds a good local minimum from a good start. In scaled inputs, and behind the
# principal directions where there is a projection:
#   centers  k-means in each class, equally many per class, so that small classes are covered;
#   gamma    2 over the mean squared distance from a row to the nearest center of its class: then
#            a typical row has a kernel value of exp(-2) = 0.14 with its center, and kernels of
#            neighbouring centers overlap. In regression wider kernels are often better, so that
#            four values are compared by ridge regression on a held-out third of the sample;
#   weights  ridge regression of the initial targets on the kernel values: the optimum of a convex
#            problem, once the kernel values are fixed;
#   mask     where a center keeps the coefficients of m classes: those that are farthest from the
#            median over classes, which is subtracted (the same number for all classes changes no
#            decision);
#   intercept, jumps, log alpha, log feature scales 0; intercepts of quantiles are those of the
#            residuals of the ridge regression.
# A sample of the rows is enough for all of it. The recipe is the classical one for RBF networks
# (Moody and Darken, "Fast learning in networks of locally-tuned processing units", 1989).

_SAMPLE_ROWS = 10_000  # in a sample at most, unless the centers need more
_SAMPLE_ROWS_PER_CENTER = 20
_SAMPLE_NUMBERS = 2**26  # rows times features, unless there are fewer than two rows per center
_RANDOMIZED_SVD_FEATURES = 1000  # above which an eigendecomposition is slower than sampling
_RIDGE = 1e-3  # beside kernel values of at most 1, averaged over the rows
# Kernel values below this are set to 0: their squares are subnormal numbers, which are slow.
_KERNEL_UNDERFLOW = 1e-12
# Rows closer to their centers than this share of the variance are copies of them, and say nothing
# about the width.
_DEGENERATE_SPREAD = 1e-3
#: Factors of the default gamma that are compared in regression.
_REGRESSION_GAMMA_FACTORS = (1.0, 1 / 4, 1 / 16, 1 / 64)


@dataclass(frozen=True, eq=False)
class Sample:
    """Scaled rows with the targets, weights and groups (classes) that initialisation needs.

    Of several ``gamma_factors``, the one with the least held-out error of ridge regression is used.
    ``quantiles`` are those of the targets that the outputs shall be; none for their means.
    """

    rows: Floats
    targets: Floats
    weights: Floats
    groups: Indices
    gamma_factors: tuple[float, ...] = (1.0,)
    quantiles: tuple[float, ...] = ()

    def subset(self, rows: Any) -> Sample:
        """The sample of the given rows."""
        names = ("rows", "targets", "weights", "groups")
        return replace(self, **{name: getattr(self, name)[rows] for name in names})


def sample_rows(
    n_rows: int, n_features: int, n_centers: int, random: np.random.RandomState
) -> Indices:
    """Row numbers of a sample that is large enough for the centers, in bounded memory."""
    enough = max(_SAMPLE_ROWS, _SAMPLE_ROWS_PER_CENTER * n_centers)
    size = min(enough, max(2 * n_centers, _SAMPLE_NUMBERS // n_features))
    if n_rows <= size:
        return np.arange(n_rows)
    return np.sort(random.choice(n_rows, size, replace=False))


def principal_directions(sample: Sample, rank: int) -> Floats:
    """The directions of largest variance, as rows; the identity where all are kept.

    Time is n_rows n_features^2 + n_features^3, or n_rows n_features rank by a randomized SVD.
    """
    n_features = sample.rows.shape[1]
    if rank >= n_features:
        return np.eye(n_features)
    shares = sample.weights / sample.weights.sum()
    rows = sample.rows - (shares @ sample.rows).astype(sample.rows.dtype)
    if n_features > _RANDOMIZED_SVD_FEATURES and 4 * rank < n_features:
        rows *= np.sqrt(shares)[:, None].astype(rows.dtype)
        _, _, directions = randomized_svd(rows, rank, random_state=0)
    else:
        _, vectors = np.linalg.eigh((rows * shares[:, None]).T.astype(np.float64) @ rows)
        directions = vectors[:, ::-1][:, :rank].T
    # The sign of an eigenvector is arbitrary: the largest entry is made positive.
    signs = np.sign(directions[np.arange(rank), np.abs(directions).argmax(axis=1)])
    return np.ascontiguousarray(directions * signs[:, None])


def cluster_centers(
    sample: Sample, n_centers: int, random: np.random.RandomState
) -> tuple[Floats, Indices]:
    """k-means in every group, with the group of each center.

    With fewer centers than groups, all rows form one group, of number -1.
    """
    labels, codes = np.unique(sample.groups, return_inverse=True)
    if n_centers < len(labels):
        labels, codes = np.array([-1]), np.zeros_like(codes)
    centers, groups = [], []
    for label, share in enumerate(_equal_shares(np.bincount(codes), n_centers)):
        in_group = codes == label
        centers.append(kmeans(sample.rows[in_group], int(share), random, sample.weights[in_group]))
        groups.append(np.full(len(centers[-1]), labels[label]))
    return np.vstack(centers), np.concatenate(groups)


def _equal_shares(counts: Indices, n_centers: int) -> Indices:
    """Centers of each group: equally many, but at most its number of rows."""
    shares = np.zeros_like(counts)
    left = min(n_centers, int(counts.sum()))
    while left:
        open_groups = np.flatnonzero(shares < counts)
        each = max(1, left // len(open_groups))
        for group in open_groups[: left // each]:
            more = min(each, counts[group] - shares[group])
            shares[group] += more
            left -= more
    return shares


def kmeans(rows: Floats, n_centers: int, random: Any, weights: Floats | None = None) -> Floats:
    """Centers of clusters; the rows themselves where there are not more of them."""
    if n_centers >= len(rows):
        return rows
    return sampling.kmeans(rows, n_centers, random, max_iter=10, weights=weights).cluster_centers_


def initial_gamma(sample: Sample, centers: Floats, groups: Indices, noise: float = 0.0) -> float:
    """2 / (mean squared distance from a row to the nearest center of its group + noise)."""
    distances = np.empty(len(sample.rows))
    for group in np.unique(groups):
        in_group = sample.groups == group if group >= 0 else np.full(len(distances), True)
        distances[in_group] = _squared_distances(sample.rows[in_group], centers[groups == group])
    mean = float(np.average(distances, weights=sample.weights))
    n_rows, n_features = sample.rows.shape
    # A center takes one degree of freedom: a row alone in its cluster has distance 0.
    mean *= n_rows / max(1, n_rows - len(centers))
    mean += noise**2 * n_features
    variance = float(sample.rows.var(axis=0).sum())
    if mean > _DEGENERATE_SPREAD * variance:
        return 2.0 / mean
    return 2.0 / variance if variance else 1.0


def _squared_distances(X: Floats, Z: Floats) -> Floats:
    """Squared distances from the rows of X to the nearest rows of Z, by blocks of rows."""
    distances = np.empty(len(X))
    norms = (Z * Z).sum(axis=1)
    for rows in row_slices(len(X), 8 * len(Z)):
        without_x = norms - 2 * (X[rows] @ Z.T)
        distances[rows] = without_x.min(axis=1) + (X[rows] * X[rows]).sum(axis=1)
    return np.maximum(distances, 0)


def ridge_weights(
    sample: Sample, kernel_values: Callable[[Floats], Floats], n_centers: int
) -> Floats:
    """Ridge regression of the targets on the kernel values of rows, by blocks of them."""
    shares = sample.weights / sample.weights.sum()
    normal = np.diag(np.full(n_centers, _RIDGE))
    products = np.zeros((n_centers, sample.targets.shape[1]))
    for rows in row_slices(len(sample.rows), 8 * n_centers):
        K = kernel_values(sample.rows[rows])
        weighted = K * shares[rows, None].astype(K.dtype)
        normal += weighted.T @ K
        products += weighted.T @ sample.targets[rows]
    return solve(normal, products, assume_a="pos").T


def _gaussian(centers: Floats, gamma: float) -> Callable[[Floats], Floats]:
    """Kernel values of rows with the centers."""

    def values(rows: Floats) -> Floats:
        gram = Gram(RBF(gamma), rows, centers.astype(rows.dtype), dtype=np.float32)
        return _without_underflow(gram.block(slice(None), slice(None)))

    return values


def _without_underflow(K: Floats) -> Floats:
    K[K < _KERNEL_UNDERFLOW] = 0.0
    return K


def initial_network(
    sample: Sample,
    plan: StoragePlan,
    random: np.random.RandomState,
    noise: float = 0.0,
    points: Floats | None = None,
) -> KernelNetwork:
    """A network of k-means centers, or over points; ``noise`` is that of the inputs in training."""
    projection = None if plan.rank is None else principal_directions(sample, plan.rank)
    if projection is not None:
        sample = replace(sample, rows=sample.rows @ projection.T)
    if points is None:
        centers, groups = cluster_centers(sample, plan.n_centers, random)
    else:
        points = kmeans(points, plan.n_centers, random)
        centers = points if projection is None else points @ projection.T
        groups = np.full(len(centers), -1)
    gamma = _best_gamma(sample, centers, initial_gamma(sample, centers, groups, noise))
    kernel = _initial_kernel(plan, len(centers), gamma)
    values = _gaussian(centers, gamma)
    if plan.kernel != "rbf":
        unit = KernelNetwork(centers, np.zeros((1, len(centers))), np.zeros(1), **kernel)
        unit = unit.map(lambda array: array.astype(np.float32))

        def values(rows: Floats) -> Floats:
            return _without_underflow(unit.kernel_values(rows.astype(np.float32, copy=False)))

    weights = ridge_weights(sample, values, len(centers))
    intercept: Floats = np.zeros(len(weights))
    if sample.quantiles:
        intercept = _residual_quantiles(sample, values, weights[0])
    return KernelNetwork(centers, weights, intercept, projection=projection, **kernel)


def _residual_quantiles(
    sample: Sample, kernel_values: Callable[[Floats], Floats], weights: Floats
) -> Floats:
    """Quantiles of what the weights leave of the targets, which are the same for all quantiles."""
    residuals = sample.targets[:, 0].astype(np.float64)
    for rows in row_slices(len(sample.rows), 8 * len(weights)):
        residuals[rows] -= kernel_values(sample.rows[rows]) @ weights
    levels = sample.quantiles
    return np.array([weighted_quantile(residuals, level, sample.weights) for level in levels])


def _initial_kernel(plan: StoragePlan, n_centers: int, gamma: float) -> dict[str, Any]:
    """The parameters of the kernel of a plan."""
    kernel = {"log_gamma": np.full(n_centers if plan.has_widths else 1, np.log(gamma))}
    if plan.kernel == "rational_quadratic":
        kernel["log_alpha"] = np.zeros(1)
    return kernel


def with_mask(network: KernelNetwork, n_entries: int) -> KernelNetwork:
    """The network with the largest weights of each center, less their median over outputs."""
    weights = network.weights - np.median(network.weights, axis=0)
    kept = np.argsort(-np.abs(weights), axis=0, kind="stable")[:n_entries]
    mask = np.zeros_like(weights)
    np.put_along_axis(mask, kept, 1.0, axis=0)
    return replace(network, weights=mask * weights, mask=mask)


def _best_gamma(sample: Sample, centers: Floats, gamma: float) -> float:
    """The gamma whose ridge regression on two thirds of the rows has least error on the others."""
    gammas = [factor * gamma for factor in sample.gamma_factors]
    if len(gammas) == 1 or len(sample.rows) < 3:
        return gammas[0]
    thirds = np.arange(len(sample.rows)) % 3
    train, test = sample.subset(thirds > 0), sample.subset(thirds == 0)
    errors = []
    for tried in gammas:
        values = _gaussian(centers, tried)
        outputs = values(test.rows) @ ridge_weights(train, values, len(centers)).T
        squares = np.mean((outputs - test.targets) ** 2, axis=1)
        errors.append(np.average(squares, weights=test.weights))
    return gammas[int(np.argmin(errors))]


# -- What the user gives as init -------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class InitialPoints:
    """Points in the user's inputs, and the expansion over them where its outputs can be used."""

    points: Floats
    expansion: KernelExpansion | None = None


#: A compact machine has no points in the inputs: its centers are scaled and projected.
InitialModel = InitialPoints | QuantizedExpansion


def initialise(
    plan: StoragePlan,
    training: TrainingSet,
    batches: BatchLoader,
    model: InitialModel | None,
    noise: float,
    random: np.random.RandomState,
) -> KernelNetwork:
    """The initial network of a plan, as numpy arrays: of the user's model if that has its size."""
    # Drawn even where it is not used, so that training sees the same random numbers.
    sample = _draw_sample(training, batches, plan.n_centers, random)
    network = None if model is None else _given_network(plan, batches, model)
    if network is None:
        points = None
        if isinstance(model, InitialPoints):
            points = batches.inputs(model.points)[:, : batches.n_features]
        network = initial_network(sample, plan, random, noise, points)
    network = in_shape(network, plan, batches.inputs, batches.n_features)
    return replace(network, skips_missing=batches.has_missing)


def in_shape(
    network: KernelNetwork, plan: StoragePlan, inputs: Inputs, n_features: int
) -> KernelNetwork:
    """The network with what the shape of a plan has in addition."""
    if plan.has_widths and len(network.log_gamma) == 1:
        network = replace(network, log_gamma=np.repeat(network.log_gamma, len(network.centers)))
    if plan.width == "per_feature" and network.log_feature_scales is None:
        network = replace(network, log_feature_scales=np.zeros(n_features))
    if inputs.steps is not None and network.jumps is None:
        matrix = step_matrix(inputs.steps.features, n_features)
        network = replace(network, jumps=np.zeros(len(matrix)), step_matrix=matrix)
    if not plan.keeps_all and network.mask is None:
        assert plan.n_entries is not None
        network = with_mask(network, plan.n_entries)
    return network


def _given_network(
    plan: StoragePlan, batches: BatchLoader, model: InitialModel
) -> KernelNetwork | None:
    """The network of the user's model, where it has the shape of the plan."""
    if isinstance(model, QuantizedExpansion):
        return KernelNetwork.from_expansion(model)
    inputs = batches.inputs
    is_plain = plan.kernel == "rbf" and plan.rank is None and inputs.kind[:3] == (False, 0, 1)
    # Behind a scale per column, the kernel of the user's expansion has another shape.
    is_plain = is_plain and np.ndim(as_numbers(inputs.scale)) == 0
    if model.expansion is None or not is_plain or plan.n_centers != len(model.points):
        return None
    shift, scale = as_numbers(inputs.shift), as_numbers(inputs.scale)
    return KernelNetwork.from_expansion(model.expansion, shift, scale)


def _draw_sample(
    training: TrainingSet, batches: BatchLoader, n_centers: int, random: np.random.RandomState
) -> Sample:
    numbers = sample_rows(len(training.train), batches.n_features, n_centers, random)
    rows = training.train[numbers]
    X = to_numpy(batches.rows(batches.as_indices(rows)))[:, : batches.n_features]
    X = without_missing(X) if batches.has_missing else X
    targets = training.targets[rows]
    weights = training.weights[rows]
    if training.initial_table is None:
        groups = np.zeros(len(rows), dtype=np.intp)
        loss = training.loss
        quantiles = loss.quantiles if isinstance(loss, Pinball) else ()
        return Sample(X, targets, weights, groups, _REGRESSION_GAMMA_FACTORS, quantiles)
    return Sample(X, training.initial_table[targets], weights, targets)


def initial_classifier(init: Any, n_features: int, classes: Any) -> InitialModel:
    """Points or a fitted kernel classifier to start from."""
    if not hasattr(init, "fit"):
        return _initial_points(init, n_features)
    model = as_classifier(init)
    if model.steps or model.scaler is not None or model.encoding is not None:
        raise ValueError(
            "init is a Pipeline with steps before the classifier, whose centers are in the space "
            "behind them. Put these steps before this estimator too, and give the last one as init."
        )
    if not np.array_equal(model.classes, classes):
        raise ValueError(
            f"init was trained for the classes {list(model.classes)}, but y holds {list(classes)}."
        )
    has_our_outputs = model.scheme in ("one output", "one vs rest")
    return _initial_expansion(model.expansion, n_features, has_our_outputs)


def initial_regressor(
    init: Any, n_features: int, n_outputs: int, source: str = "y holds"
) -> InitialModel:
    """Points or a fitted CompactKernelRegressor, SVR or NuSVR to start from.

    ``source`` says in an error what asks for these outputs.
    """
    if not hasattr(init, "fit"):
        return _initial_points(init, n_features)
    init = init.estimator if isinstance(init, FrozenEstimator) else init
    check_is_fitted(init)
    if isinstance(init, SVR | NuSVR):
        return _initial_points(as_dense(init.support_vectors_), n_features)
    if is_classifier(init) or not isinstance(getattr(init, "expansion_", None), KernelExpansion):
        raise TypeError(
            f"init={type(init).__name__} is not a kernel regressor. Give a fitted "
            'CompactKernelRegressor, SVR or NuSVR, an array of points, or "kmeans".'
        )
    expansion = init.expansion_
    if expansion.n_outputs != n_outputs:
        raise ValueError(
            f"init predicts {expansion.n_outputs} numbers per row, but {source} {n_outputs}."
        )
    return _initial_expansion(expansion, n_features, has_our_outputs=True)


def _initial_expansion(
    expansion: KernelExpansion, n_features: int, has_our_outputs: bool
) -> InitialModel:
    if expansion.n_features != n_features:
        raise ValueError(f"init has {expansion.n_features} features, but X has {n_features}.")
    if not expansion.n_centers:
        raise ValueError("init has no centers to start from.")
    if isinstance(expansion, QuantizedExpansion):
        return expansion
    # Widths of single centers belong to compact machines: their RBF is not a Mercer kernel.
    is_rbf = isinstance(expansion.kernel, RBF) and expansion.kernel.is_mercer
    is_rbf = is_rbf and expansion.input_map is None
    usable = expansion if has_our_outputs and is_rbf else None
    return InitialPoints(dense_centers(expansion.centers), usable)


def _initial_points(init: Any, n_features: int) -> InitialPoints:
    points = check_array(init, dtype=np.float64, input_name="init")
    if points.shape[1] != n_features:
        raise ValueError(
            f"init holds points of {points.shape[1]} features, but X has {n_features}."
        )
    return InitialPoints(points)
