import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import sparse

import naive
from kernlet.compression.synthetic import ReducedSet, Reduction, synthesize
from kernlet.expansion import KernelExpansion
from kernlet.kernels.laplacian import Laplacian
from kernlet.kernels.linear import Linear
from kernlet.kernels.polynomial import Polynomial
from kernlet.kernels.rbf import RBF
from kernlet.kernels.sigmoid import Sigmoid
from kernlet.sampling import apportion

CURVED = [
    RBF(0.5),
    RBF(0.05),
    Laplacian(0.3),
    Polynomial(0.5, 2),
    Polynomial(0.5, 3, 1.0),
    Polynomial(0.5, 1, 0.3),
]
MERCER = [Linear(), *CURVED]
curved_kernels = pytest.mark.parametrize("kernel", CURVED, ids=repr)
mercer_kernels = pytest.mark.parametrize("kernel", MERCER, ids=repr)
outputs = pytest.mark.parametrize("n_outputs", [1, 3])
# k-means says so when duplicates leave it fewer clusters than it was asked for
duplicates = pytest.mark.filterwarnings("ignore:Number of distinct clusters")


def _machine(kernel, n_centers=20, n_features=3, n_outputs=1, seed=0, distinct=None):
    """A random expansion; with ``distinct``, its centers repeat that many points."""
    rng = np.random.default_rng(seed)
    centers = rng.normal(size=(n_centers, n_features))
    if distinct is not None:
        centers = centers[np.arange(n_centers) % distinct]
    coef, intercept = rng.normal(size=(n_outputs, n_centers)), rng.normal(size=n_outputs)
    return KernelExpansion(kernel, centers, coef, intercept)


def _hidden(kernel, noise, n_outputs=1, seed=0):
    """A machine of three well-parted points, each spread over eight centers."""
    rng = np.random.default_rng(seed)
    few = 1.5 * np.array([[1.0, 0.2, 0.0], [0.0, -1.0, 0.3], [-0.6, 0.4, 1.0]])
    signs = np.array([[1.0, -1.0, 1.0], [-1.0, 1.0, -1.0], [-1.0, -1.0, 1.0]])[:n_outputs]
    centers = np.repeat(few, 8, axis=0) + noise * rng.normal(size=(24, 3))
    coef = np.repeat(signs, 8, axis=1) * rng.uniform(0.5, 1.5, size=(n_outputs, 24))
    return few, KernelExpansion(kernel, centers, coef, rng.normal(size=n_outputs))


def _naive_residual(before, after):
    kernel, coef = before.kernel, np.asarray(before.coef)
    C = before.centers.toarray() if sparse.issparse(before.centers) else before.centers
    near = naive.squared_distance_in_feature_space(kernel, C, coef, after.centers, after.coef)
    return np.sqrt(max(0.0, near) / naive.squared_norm(kernel, C, coef))


# The search


@duplicates
@settings(max_examples=60, deadline=None)
@given(
    kernel=st.sampled_from(CURVED),
    n_centers=st.integers(2, 16),
    share=st.floats(0.05, 0.95),
    n_features=st.integers(1, 3),
    n_outputs=st.integers(1, 3),
    init=st.sampled_from(["kmeans", "members"]),
    box=st.sampled_from([None, 0.5, 1.25]),
    distinct=st.none() | st.integers(1, 4),
    seed=st.integers(0, 2**31),
)
def test_residuals_never_increase(
    kernel, n_centers, share, n_features, n_outputs, init, box, distinct, seed
):
    machine = _machine(kernel, n_centers, n_features, n_outputs, seed, distinct)
    n_points = min(n_centers - 1, 1 + int(share * n_centers))
    found = synthesize(machine, n_points, init=init, box=box, max_iter=25, random_state=seed)
    n_found = found.expansion.n_centers
    assert n_found == n_points or (distinct is not None and n_found < n_points)
    assert np.all(np.isfinite(found.residuals))
    if isinstance(kernel, Laplacian):  # steps of rounded cusps may rise, but the best is kept
        assert found.residual <= min(found.residuals) + 1e-9
    else:
        assert np.max(np.diff(found.residuals), initial=0.0) <= 1e-9
    assert found.residual == found.residuals[-1]
    if box is None:  # with no coefficients at all it would be 1
        assert found.residuals[0] <= 1 + 1e-9


@curved_kernels
@outputs
@pytest.mark.parametrize("box", [None, 1.25])
def test_residual_is_the_distance_by_a_double_sum(kernel, n_outputs, box):
    machine = _machine(kernel, 12, n_outputs=n_outputs)
    found = synthesize(machine, 3, box=box, max_iter=20, random_state=0)
    expected = _naive_residual(machine, found.expansion)
    assert found.residual == pytest.approx(expected, rel=1e-6, abs=1e-6)


@curved_kernels
def test_search_is_worth_it(kernel):
    machine = _machine(kernel, 20, n_outputs=2)
    found = synthesize(machine, 2, init="members", random_state=0)
    assert len(found.residuals) > 3
    assert found.residual < 0.9 * found.residuals[0] or found.residual < 1e-4


# two points may do best where they merge, with ever larger coefficients: not so for these kernels
@pytest.mark.parametrize("kernel", [RBF(0.5), Polynomial(0.5, 3, 1.0)], ids=repr)
def test_search_ends_where_the_gradient_vanishes(kernel):
    machine = _machine(kernel, 12, n_outputs=2)
    found = synthesize(machine, 2, random_state=0, max_iter=1000)
    Z, W = found.expansion.centers, found.expansion.coef

    def squared(A):
        return naive.squared_distance_in_feature_space(
            kernel, machine.centers, machine.coef, A, W
        ) / naive.squared_norm(kernel, machine.centers, machine.coef)

    np.testing.assert_allclose(naive.derivative(squared, Z), 0.0, atol=1e-3)


@curved_kernels
@outputs
def test_as_many_centers_as_there_are_give_the_machine_itself(kernel, n_outputs):
    machine = _machine(kernel, 6, n_outputs=n_outputs)
    for n_centers in (6, 7):
        found = synthesize(machine, n_centers)
        assert found.expansion is machine
        assert found.residuals == (0.0,)


@duplicates
@curved_kernels
@outputs
def test_as_many_centers_as_are_distinct_recover_the_machine(kernel, n_outputs):
    machine = _machine(kernel, 24, n_outputs=n_outputs, distinct=4)
    start = machine.centers[:4]
    found = synthesize(machine, 4, init=start)
    assert found.residual < 1e-6
    X = np.random.default_rng(1).normal(size=(30, 3))
    expected = machine.decision_values(X)
    scale = np.abs(expected).max()
    np.testing.assert_allclose(found.expansion.decision_values(X), expected, atol=1e-5 * scale)


@curved_kernels
@outputs
@pytest.mark.parametrize("noise", [0.0, 1e-3])
def test_few_points_hidden_in_many_are_found(kernel, n_outputs, noise):
    _, machine = _hidden(kernel, noise, n_outputs)
    found = synthesize(machine, 3, random_state=0)
    # at a cusp |f(x) - f(z)|^2 = 2 - 2 k(x, z) grows with the distance and not with its square
    assert found.residual < max(noise if kernel.smoothed(1.0) is kernel else noise**0.5, 1e-6)
    X = np.random.default_rng(1).normal(size=(30, 3))
    expected = machine.decision_values(X)
    scale = np.abs(expected).max()
    np.testing.assert_allclose(
        found.expansion.decision_values(X), expected, atol=max(noise, 1e-5) * scale
    )


def test_hidden_rbf_points_are_found_where_they_are():
    few, machine = _hidden(RBF(0.5), 0.0)
    found = synthesize(machine, 3, random_state=0).expansion
    nearest = np.linalg.norm(few[:, None] - found.centers[None], axis=2).argmin(axis=1)
    np.testing.assert_allclose(found.centers[nearest], few, atol=1e-4)
    together = machine.coef.reshape(3, 8).sum(axis=1)
    np.testing.assert_allclose(found.coef[0, nearest], together, rtol=1e-4)


@curved_kernels
@pytest.mark.parametrize("init", ["kmeans", "members"])
def test_more_starts_are_never_worse(kernel, init):
    machine = _machine(kernel, 15, seed=3)
    residuals = [
        synthesize(machine, 3, init=init, n_starts=n, max_iter=30, random_state=0).residual
        for n in (1, 2, 4)
    ]
    assert residuals[0] >= residuals[1] >= residuals[2]


@curved_kernels
@pytest.mark.parametrize("box", [None, 1.25])
@pytest.mark.parametrize("init", ["kmeans", "members"])
def test_random_state_settles_everything(kernel, box, init):
    machine = _machine(kernel, 15, n_outputs=2)
    one, same = (
        synthesize(machine, 3, init=init, n_starts=2, box=box, max_iter=20, random_state=7)
        for _ in range(2)
    )
    np.testing.assert_array_equal(one.expansion.centers, same.expansion.centers)
    np.testing.assert_array_equal(one.expansion.coef, same.expansion.coef)
    assert one.residuals == same.residuals


def test_another_random_state_draws_other_members():
    machine = _machine(RBF(0.5), 30)
    first = [
        synthesize(machine, 3, init="members", max_iter=5, random_state=seed).residuals[0]
        for seed in range(3)
    ]
    assert len(set(first)) == 3


@mercer_kernels
@outputs
def test_kernel_intercept_and_outputs_are_kept(kernel, n_outputs):
    machine = _machine(kernel, 12, n_outputs=n_outputs)
    found = synthesize(machine, 4, max_iter=5, random_state=0).expansion
    assert found.kernel == kernel
    assert found.n_outputs == n_outputs
    assert found.n_features == 3
    np.testing.assert_array_equal(found.intercept, machine.intercept)


@curved_kernels
def test_the_machine_is_left_alone(kernel):
    machine = _machine(kernel, 12)
    centers, coef = machine.centers.copy(), machine.coef.copy()
    start = machine.centers[:3].copy()
    synthesize(machine, 3, init=start, max_iter=5)
    np.testing.assert_array_equal(machine.centers, centers)
    np.testing.assert_array_equal(machine.coef, coef)
    np.testing.assert_array_equal(start, centers[:3])


@curved_kernels
def test_outputs_that_are_multiples_share_the_centers_of_one(kernel):
    one = _machine(kernel, 12)
    factors = np.array([[1.0], [-2.0], [0.5]])
    several = KernelExpansion(kernel, one.centers, factors * one.coef, np.zeros(3))
    start = one.centers[:3]
    alone, shared = (synthesize(f, 3, init=start, max_iter=10) for f in (one, several))
    np.testing.assert_allclose(shared.residuals, alone.residuals, rtol=1e-4, atol=1e-6)
    W = shared.expansion.coef
    np.testing.assert_allclose(W, factors * W[0], rtol=1e-6, atol=1e-9 * np.abs(W).max())


def test_coefficients_are_the_best_for_their_centers():
    machine = _machine(RBF(0.5), 15, n_outputs=2)
    found = synthesize(machine, 4, random_state=0)
    rng = np.random.default_rng(0)
    for _ in range(10):
        other = found.expansion.coef + 1e-2 * rng.normal(size=(2, 4))
        moved = KernelExpansion(machine.kernel, found.expansion.centers, other, np.zeros(2))
        assert _naive_residual(machine, moved) >= found.residual - 1e-9


# Starts


@curved_kernels
def test_given_points_are_where_the_search_starts(kernel):
    machine = _machine(kernel, 12)
    start = np.random.default_rng(5).normal(size=(2, 3))
    found = synthesize(machine, 2, init=start.tolist(), max_iter=20)
    k = naive.twin(kernel)
    right = naive.gram(k, start, machine.centers) @ machine.coef.T
    W = np.linalg.solve(naive.gram(k, start, start), right).T
    first = KernelExpansion(kernel, start, W, np.zeros(1))
    assert found.residuals[0] == pytest.approx(_naive_residual(machine, first), rel=1e-4)


@pytest.mark.parametrize("shape", [(2, 3), (3, 2), (3,), (4, 3)])
def test_init_of_wrong_shape_is_refused(shape):
    with pytest.raises(ValueError, match=r"init has shape .*; 3 centers of 3 features are needed"):
        synthesize(_machine(RBF(0.5)), 3, init=np.zeros(shape))


def test_unknown_init_is_refused():
    with pytest.raises(ValueError, match='init=\'random\' is not "kmeans", "members" or points'):
        synthesize(_machine(RBF(0.5)), 3, init="random")


def test_kernel_without_a_feature_space_is_refused():
    with pytest.raises(ValueError, match="A reduced set needs a positive semi-definite kernel"):
        synthesize(_machine(Sigmoid(0.3, 0.1)), 3)


@settings(max_examples=200, deadline=None)
@given(
    weights=arrays(np.float64, st.integers(1, 12), elements=st.floats(0, 1e6)),
    total=st.integers(0, 500),
)
def test_apportion_adds_up_in_proportion(weights, total):
    weights[0] += 1.0
    shares = apportion(weights, total)
    exact = weights * total / weights.sum()
    assert shares.sum() == total
    assert np.all(shares >= 0)
    assert np.all(np.abs(shares - exact) < 1 + 1e-9)
    assert np.all(shares[weights == 0] == 0)


@duplicates
@pytest.mark.parametrize(
    "coef",
    [
        np.ones((1, 10)),
        -np.ones((1, 10)),
        np.r_[50.0, -np.ones(9)][None],
        np.r_[1.0, 1.0, np.zeros(8)][None],
        -np.ones((3, 10)),
        np.eye(3, 10),
    ],
    ids=["positive", "negative", "one heavy", "mostly zero", "outputs all negative", "sparse"],
)
def test_k_means_copes_with_uneven_coefficients(coef):
    centers = np.random.default_rng(0).normal(size=(10, 2))
    machine = KernelExpansion(RBF(1.0), centers, coef, np.zeros(len(coef)))
    found = synthesize(machine, 6, random_state=0)
    assert found.expansion.n_centers == 6
    assert found.residual <= found.residuals[0] <= 1.0


# The box


@curved_kernels
@outputs
@pytest.mark.parametrize("box", [0.5, 1.25])
def test_box_is_respected(kernel, n_outputs, box):
    machine = _machine(kernel, 15, n_outputs=n_outputs)
    start = machine.centers[[2, 5, 11]]
    found = synthesize(machine, 3, init=start + 1e-3, box=box)
    limit = box * np.abs(machine.coef[:, [2, 5, 11]])
    assert np.all(np.abs(found.expansion.coef) <= limit * (1 + 1e-12))
    assert found.residual == pytest.approx(_naive_residual(machine, found.expansion), abs=1e-6)


@curved_kernels
@pytest.mark.parametrize("seed", range(2))
def test_box_is_no_better_than_freedom(kernel, seed):
    machine = _machine(kernel, 15, seed=seed)
    free, boxed = (
        synthesize(machine, 3, box=box, n_starts=3, random_state=0) for box in (None, 1.25)
    )
    assert boxed.residual >= free.residual - 1e-6


def test_box_of_nothing_leaves_nothing():
    found = synthesize(_machine(RBF(0.5)), 3, box=0.0, random_state=0)
    np.testing.assert_array_equal(found.expansion.coef, 0.0)
    assert found.residual == 1.0


def test_a_box_that_never_binds_reaches_what_freedom_reaches():
    _, machine = _hidden(RBF(0.5), 1e-3)
    assert synthesize(machine, 3, box=1e3, random_state=0, max_iter=500).residual < 1e-3


# The linear kernel


@pytest.mark.parametrize("n_outputs", [1, 2, 4])
def test_linear_machine_needs_one_center_an_output(n_outputs):
    machine = _machine(Linear(), 30, 5, n_outputs)
    found = synthesize(machine, n_outputs)
    assert isinstance(found, Reduction)
    assert found.expansion.n_centers == n_outputs
    assert found.residual < 1e-7
    X = np.random.default_rng(1).normal(size=(20, 5))
    np.testing.assert_allclose(
        found.expansion.decision_values(X), machine.decision_values(X), rtol=1e-9, atol=1e-9
    )


@pytest.mark.parametrize("n_centers", [1, 2, 3])
def test_linear_machine_of_fewer_centers_is_the_best_of_low_rank(n_centers):
    machine = _machine(Linear(), 30, 6, 4)
    found = synthesize(machine, n_centers)
    values = np.linalg.svd(machine.coef @ machine.centers, compute_uv=False)
    expected = np.linalg.norm(values[n_centers:]) / np.linalg.norm(values)
    assert found.expansion.n_centers == n_centers
    assert found.residual == pytest.approx(expected, rel=1e-9)
    assert found.residual == pytest.approx(_naive_residual(machine, found.expansion), rel=1e-9)


def test_linear_search_agrees_with_the_closed_form():
    machine = _machine(Linear(), 30, 6, 4)
    same = KernelExpansion(Polynomial(1.0, 1), machine.centers, machine.coef, machine.intercept)
    searched = synthesize(same, 2, n_starts=3, random_state=0, max_iter=1000)
    assert searched.residual == pytest.approx(synthesize(machine, 2).residual, rel=1e-3)


def test_linear_machine_takes_no_more_centers_than_it_needs():
    machine = _machine(Linear(), 30, 6, 2)
    assert synthesize(machine, 10).expansion.n_centers == 2


# Kinds of centers


@mercer_kernels
def test_sparse_centers_give_what_dense_ones_give(kernel):
    machine = _machine(kernel, 12, n_outputs=2)
    centers = machine.centers * (np.random.default_rng(2).random((12, 3)) < 0.6)
    dense, thin = (
        synthesize(
            KernelExpansion(kernel, C, machine.coef, machine.intercept),
            3,
            max_iter=10,
            random_state=0,
        )
        for C in (centers, sparse.csr_array(centers))
    )
    np.testing.assert_array_equal(thin.expansion.centers, dense.expansion.centers)
    assert thin.residuals == dense.residuals


@curved_kernels
def test_float32_machines_are_reduced_in_float64(kernel):
    machine = _machine(kernel, 12, n_outputs=2)
    narrow = KernelExpansion(
        kernel,
        machine.centers.astype(np.float32),
        machine.coef.astype(np.float32),
        machine.intercept.astype(np.float32),
    )
    wide = KernelExpansion(
        kernel, *(a.astype(np.float64) for a in (narrow.centers, narrow.coef, narrow.intercept))
    )
    one, other = (synthesize(f, 3, max_iter=20, random_state=0) for f in (narrow, wide))
    assert one.expansion.centers.dtype == np.float64
    assert one.residual == pytest.approx(other.residual, rel=1e-4, abs=1e-5)


def test_rbf_far_from_the_origin_is_reduced_as_well():
    machine = _machine(RBF(0.5), 20, n_outputs=2)
    far = KernelExpansion(machine.kernel, machine.centers + 2.0**20, machine.coef, np.zeros(2))
    start = machine.centers[:4]
    near, moved = (
        synthesize(f, 4, init=init, max_iter=15)
        for f, init in ((machine, start), (far, start + 2.0**20))
    )
    np.testing.assert_allclose(moved.residuals[:5], near.residuals[:5], rtol=1e-6)
    assert moved.residual == pytest.approx(near.residual, rel=1e-3)
    np.testing.assert_allclose(moved.expansion.centers - 2.0**20, near.expansion.centers, atol=1e-2)


@pytest.mark.parametrize("kernel", [RBF(0.5), Linear()])
def test_a_machine_that_is_nothing_stays_nothing(kernel):
    X = np.random.default_rng(0).normal(size=(20, 2))
    nothing = KernelExpansion(kernel, X, np.zeros((1, 20)), np.array([0.7]))
    found = synthesize(nothing, 5, random_state=0)
    assert found.residual == 0.0
    np.testing.assert_array_equal(found.expansion.decision_values(X), np.full((20, 1), 0.7))


@pytest.mark.parametrize("wrong", [{"n_centers": 0}, {"n_starts": 0}, {"max_iter": 0}], ids=str)
def test_numbers_below_one_are_refused(wrong):
    machine = _machine(RBF(0.5), 9, 2, 1, 0)
    with pytest.raises(ValueError, match="must be at least 1"):
        synthesize(machine, **{"n_centers": 3, **wrong})


REDUCED_KERNELS = [
    Linear(),
    RBF(0.4),
    RBF(0.05),
    Laplacian(0.4),
    Polynomial(0.5, 1, 0.3),
    Polynomial(0.5, 2),
    Polynomial(0.5, 3, 1.0),
]
reduced_kernels = pytest.mark.parametrize("kernel", REDUCED_KERNELS, ids=repr)
quickly = settings(max_examples=10, deadline=None)
seeds = st.integers(0, 2**31)


def _case(kernel, n_outputs, seed=0, n_points=2, n_centers=9, n_features=3):
    """A problem, and points and coefficients to try on it."""
    rng = np.random.default_rng(seed)
    centers = rng.normal(size=(n_centers, n_features))
    problem = ReducedSet(kernel, centers, rng.normal(size=(n_outputs, n_centers)))
    return problem, rng.normal(size=(n_points, n_features)), rng.normal(size=(n_outputs, n_points))


def _naive_squared(problem, Z, W):
    near = naive.squared_distance_in_feature_space(
        problem.kernel, problem.centers, problem.coef, Z, W
    )
    return near / naive.squared_norm(problem.kernel, problem.centers, problem.coef)


@reduced_kernels
@outputs
def test_total_is_the_norm_by_a_double_sum(kernel, n_outputs):
    problem, _, _ = _case(kernel, n_outputs)
    expected = naive.squared_norm(kernel, problem.centers, problem.coef)
    assert problem.total == pytest.approx(expected, rel=1e-10)


@reduced_kernels
@outputs
@quickly
@given(seed=seeds)
def test_residual_of_given_points_is_a_double_sum(kernel, n_outputs, seed):
    problem, Z, W = _case(kernel, n_outputs, seed)
    squared = _naive_squared(problem, Z, W)
    assert problem.residual(Z, W) ** 2 == pytest.approx(squared, rel=1e-9, abs=1e-12)
    assert problem.joint(Z, W)[0] == pytest.approx(squared, rel=1e-9, abs=1e-12)


@reduced_kernels
@outputs
def test_residual_of_nothing_is_one_and_of_the_machine_itself_zero(kernel, n_outputs):
    problem, Z, W = _case(kernel, n_outputs)
    assert problem.residual(Z, 0 * W) == 1.0
    assert problem.residual(problem.centers, problem.coef) < 1e-7


@reduced_kernels
@outputs
def test_best_coefficients_are_the_least_squares(kernel, n_outputs):
    problem, Z, _ = _case(kernel, n_outputs)
    k = naive.twin(kernel)
    right = naive.gram(k, Z, problem.centers) @ problem.coef.T
    expected = np.linalg.lstsq(naive.gram(k, Z, Z), right, rcond=None)[0].T
    found = problem.best_coef(Z)
    assert found.shape == (n_outputs, len(Z))
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6 * np.abs(expected).max())


@reduced_kernels
@outputs
@quickly
@given(seed=seeds)
def test_no_other_coefficients_do_better(kernel, n_outputs, seed):
    problem, Z, W = _case(kernel, n_outputs, seed)
    best = problem.best_coef(Z)
    at_best = problem.residual(Z, best) ** 2
    for length in (1e-3, 1.0):
        assert at_best <= problem.residual(Z, best + length * W) ** 2 + 1e-9


@reduced_kernels
@outputs
def test_outputs_are_projected_each_for_itself(kernel, n_outputs):
    problem, Z, _ = _case(kernel, n_outputs)
    alone = [ReducedSet(kernel, problem.centers, row[None]).best_coef(Z) for row in problem.coef]
    np.testing.assert_allclose(problem.best_coef(Z), np.vstack(alone), rtol=1e-10)


@reduced_kernels
@outputs
@quickly
@given(seed=seeds)
def test_projected_gradient_is_the_derivative(kernel, n_outputs, seed):
    problem, Z, _ = _case(kernel, n_outputs, seed)
    # apart and away from the origin, where W and with it the ridge's part stay small
    Z = 0.2 * np.clip(Z, -2, 2) + np.array([[1.5, 0, 0], [0, 1.5, 0]])
    _, slope = problem.projected(Z)
    expected = naive.derivative(lambda A: problem.projected(A)[0], Z)
    scale = 1.0 + np.abs(expected).max()
    np.testing.assert_allclose(slope, expected, rtol=1e-5, atol=1e-6 * scale)


@reduced_kernels
@outputs
@quickly
@given(seed=seeds)
def test_joint_gradients_are_the_derivatives(kernel, n_outputs, seed):
    problem, Z, W = _case(kernel, n_outputs, seed)
    _, by_points, by_coef = problem.joint(Z, W)
    expected = naive.derivative(lambda A: problem.joint(A, W)[0], Z)
    scale = 1.0 + np.abs(expected).max()
    np.testing.assert_allclose(by_points, expected, rtol=1e-5, atol=1e-6 * scale)
    expected = naive.derivative(lambda A: problem.joint(Z, A)[0], W)
    np.testing.assert_allclose(by_coef, expected, rtol=1e-5, atol=1e-6 * scale)


@reduced_kernels
@outputs
def test_projected_is_joint_at_the_best_coefficients(kernel, n_outputs):
    problem, Z, _ = _case(kernel, n_outputs)
    value, slope = problem.projected(Z)
    joint, by_points, by_coef = problem.joint(Z, problem.best_coef(Z))
    assert value == pytest.approx(joint, abs=1e-6)
    np.testing.assert_allclose(slope, by_points, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(by_coef, 0.0, atol=1e-6)


@reduced_kernels
def test_values_are_relative(kernel):
    problem, Z, W = _case(kernel, 2)
    larger = ReducedSet(kernel, problem.centers, 100 * problem.coef)
    assert larger.residual(Z, 100 * W) == pytest.approx(problem.residual(Z, W), rel=1e-9)
    np.testing.assert_allclose(larger.projected(Z)[1], problem.projected(Z)[1], rtol=1e-8)


@pytest.mark.parametrize("kernel", [RBF(0.4), Polynomial(0.5, 3, 1.0)], ids=repr)
def test_points_that_coincide_share_their_weight(kernel):
    problem, Z, _ = _case(kernel, 2)
    once, twice = problem.best_coef(Z), problem.best_coef(np.vstack([Z, Z]))
    np.testing.assert_allclose(twice[:, :2] + twice[:, 2:], once, rtol=1e-5)
    assert np.all(np.isfinite(problem.projected(np.vstack([Z, Z]))[1]))


@pytest.mark.parametrize("kernel", [Sigmoid(0.3, 0.1), Polynomial(0.5, 2, -1.0)], ids=repr)
def test_a_kernel_without_a_feature_space_is_refused(kernel):
    with pytest.raises(ValueError, match="A reduced set needs a positive semi-definite kernel"):
        ReducedSet(kernel, np.zeros((2, 1)), np.ones((1, 2)))


def test_machines_whose_norm_overflows_get_a_sentence():
    machine = KernelExpansion(RBF(1.0), np.eye(3), np.full((1, 3), 1e300), np.zeros(1))
    with pytest.raises(ValueError, match="its norm overflows"):
        synthesize(machine, 2)


def test_rounded_cusps_lead_past_the_first_cusp(monkeypatch):
    """Plain gradients stop where a feature of a point meets that of a center."""
    machine = _machine(Laplacian(0.3), n_centers=150, n_features=5)
    rounded = synthesize(machine, 10, random_state=0)
    assert rounded.residual == min(rounded.residuals) < rounded.residuals[0]
    monkeypatch.setattr(Laplacian, "smoothed", lambda self, width: self)
    plain = synthesize(machine, 10, random_state=0)
    assert rounded.residual < 0.97 * plain.residual


def test_a_search_with_rounded_cusps_never_loses_its_start():
    machine = _machine(Laplacian(0.3), n_centers=4, n_features=2)
    start = machine.centers[:3]
    found = synthesize(machine, 3, init=start)
    assert found.residual <= found.residuals[0] + 1e-9
