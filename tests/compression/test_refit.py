import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from scipy.optimize import minimize
from sklearn.datasets import load_digits, make_moons
from sklearn.exceptions import ConvergenceWarning

import naive
from kernlet import HullPerceptronClassifier, KernelExpansion, MinimalKernelClassifier
from kernlet.affine import AffineMap
from kernlet.compression.refit import largest_coefficients, match, project, refine, refit, remove
from kernlet.kernels import gram
from kernlet.kernels.laplacian import Laplacian
from kernlet.kernels.linear import Linear
from kernlet.kernels.polynomial import Polynomial
from kernlet.kernels.rbf import RBF
from kernlet.kernels.sigmoid import Sigmoid

CURVED = [RBF(0.5), Laplacian(0.5), Polynomial(0.5, 3, 1.0), Polynomial(0.5, 2)]
curved_kernels = pytest.mark.parametrize("kernel", CURVED, ids=repr)
outputs = pytest.mark.parametrize("n_outputs", [1, 3])
quickly = settings(max_examples=10, deadline=None)
seeds = st.integers(0, 2**31)


def _machine(kernel, n_outputs=1, n_centers=12, seed=0):
    rng = np.random.default_rng(seed)
    return KernelExpansion(
        kernel,
        rng.normal(size=(n_centers, 3)),
        rng.normal(size=(n_outputs, n_centers)),
        rng.normal(size=n_outputs),
    )


def _points(n, seed=1):
    return np.random.default_rng(seed).normal(size=(n, 3))


def _rows(n_rows=60, n_outputs=1, seed=2):
    """Rows and signs, one line an output, that no plane separates."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_rows, 3))
    noise = 0.3 * rng.normal(size=(n_outputs, n_rows))
    return X, np.where(X[:, 0] * X[:, 1] + noise > 0, 1.0, -1.0)


def _values_twin(kernel, centers, X, values, ridge):
    """Ridge regression by a plain least-squares solve: rows, then the roots of the penalty."""
    k, n = naive.twin(kernel), len(centers)
    features = np.hstack([naive.gram(k, X, centers), np.ones((len(X), 1))])
    root = np.linalg.cholesky(naive.gram(k, centers, centers)).T
    penalty = np.hstack([np.sqrt(ridge * len(X)) * root, np.zeros((n, 1))])
    right = np.vstack([values, np.zeros((n, values.shape[1]))])
    return np.linalg.lstsq(np.vstack([features, penalty]), right, rcond=None)[0].T


# project


@curved_kernels
@outputs
def test_projection_is_the_dense_least_squares(kernel, n_outputs):
    machine, Z, k = _machine(kernel, n_outputs), _points(4), naive.twin(kernel)
    right = naive.gram(k, Z, machine.centers) @ machine.coef.T
    expected = np.linalg.solve(naive.gram(k, Z, Z), right).T
    found = project(machine, Z)
    np.testing.assert_allclose(found.coef, expected, rtol=1e-6)
    np.testing.assert_array_equal(found.centers, Z)
    np.testing.assert_array_equal(found.intercept, machine.intercept)


@curved_kernels
@outputs
def test_projection_is_idempotent(kernel, n_outputs):
    once = project(_machine(kernel, n_outputs), _points(4))
    np.testing.assert_allclose(project(once, once.centers).coef, once.coef, rtol=1e-6)


@curved_kernels
@outputs
@quickly
@given(seed=seeds, length=st.sampled_from([1e-3, 1e-1, 1.0]))
def test_no_perturbation_of_a_projection_is_nearer(kernel, n_outputs, seed, length):
    machine, Z = _machine(kernel, n_outputs), _points(4)
    W = project(machine, Z).coef
    away = length * np.random.default_rng(seed).normal(size=W.shape)
    best, other = (
        naive.squared_distance_in_feature_space(kernel, machine.centers, machine.coef, Z, V)
        for V in (W, W + away)
    )
    assert other >= best * (1 - 1e-9)
    # the error is orthogonal to the span of the centers
    assert other - best == pytest.approx(naive.squared_norm(kernel, Z, away), rel=1e-3)


def test_projection_on_more_centers_is_nearer():
    machine, Z = _machine(RBF(0.5)), _points(9)
    distances = [
        naive.squared_distance_in_feature_space(
            machine.kernel, machine.centers, machine.coef, Z[:n], project(machine, Z[:n]).coef
        )
        for n in range(1, 10)
    ]
    assert np.all(np.diff(distances) <= 1e-9)


@pytest.mark.parametrize("kernel", [*CURVED, Linear()], ids=repr)
def test_projection_on_its_own_centers_is_the_machine(kernel):
    machine = _machine(kernel, 2)
    again = project(machine, machine.centers)
    X = _points(20)
    expected = machine.decision_values(X)
    np.testing.assert_allclose(again.decision_values(X), expected, rtol=1e-5, atol=1e-6)


def test_projection_on_centers_that_coincide():
    machine, Z = _machine(RBF(0.5), 2), _points(4)
    X = _points(20, seed=3)
    once, twice = (project(machine, A).decision_values(X) for A in (Z, np.vstack([Z, Z])))
    np.testing.assert_allclose(twice, once, atol=1e-6)


@curved_kernels
def test_projection_of_and_on_sparse_points(kernel):
    machine, Z = _machine(kernel, 2), _points(4)
    thin = KernelExpansion(
        kernel, sparse.csr_array(machine.centers), machine.coef, machine.intercept
    )
    expected = project(machine, Z).coef
    np.testing.assert_allclose(project(thin, Z).coef, expected, rtol=1e-7)
    np.testing.assert_allclose(project(thin, sparse.csr_array(Z)).coef, expected, rtol=1e-7)


def test_projection_refuses_a_kernel_without_a_feature_space():
    message = "A projection in feature space needs a positive semi-definite kernel"
    with pytest.raises(ValueError, match=message):
        project(_machine(Sigmoid(0.3, 0.1)), _points(2))


# match


@curved_kernels
@outputs
@pytest.mark.parametrize("ridge", [1e-6, 1e-2])
def test_match_is_ridge_regression(kernel, n_outputs, ridge):
    X, Z = _points(40), _points(5, seed=4)
    values = np.random.default_rng(3).normal(size=(40, n_outputs))
    found = match(kernel, Z, X, values, ridge=ridge)
    expected = _values_twin(kernel, Z, X, values, ridge)
    solved = np.hstack([found.coef, found.intercept[:, None]])
    np.testing.assert_allclose(solved, expected, rtol=1e-5, atol=1e-6 * np.abs(expected).max())
    assert found.kernel == kernel


@curved_kernels
@outputs
def test_match_reproduces_values_of_a_machine_over_its_centers(kernel, n_outputs):
    machine, X = _machine(kernel, n_outputs, n_centers=5), _points(60)
    values = machine.decision_values(X)
    found = match(kernel, machine.centers, X, values, ridge=1e-12)
    scale = np.abs(values).max()
    np.testing.assert_allclose(found.decision_values(X), values, atol=1e-5 * scale)
    np.testing.assert_allclose(found.coef, machine.coef, atol=1e-3)
    np.testing.assert_allclose(found.intercept, machine.intercept, atol=1e-3)


def test_match_finds_a_constant_in_the_intercept():
    found = match(RBF(0.5), _points(5, seed=4), _points(40), np.full((40, 1), 3.0))
    assert found.intercept == pytest.approx(3.0)
    np.testing.assert_allclose(found.coef, 0.0, atol=1e-6)


def test_match_block_by_block_is_match_at_once(monkeypatch):
    X, Z = _points(50), _points(5, seed=4)
    values = np.random.default_rng(3).normal(size=(50, 2))
    once = match(RBF(0.5), Z, X, values)
    monkeypatch.setattr(gram, "BLOCK_BYTES", 7 * 8 * 6)
    blocks = match(RBF(0.5), Z, X, values)
    np.testing.assert_allclose(blocks.coef, once.coef, rtol=1e-7)
    np.testing.assert_allclose(blocks.intercept, once.intercept, rtol=1e-7)


def test_match_of_sparse_rows():
    X, Z = _points(50), _points(5, seed=4)
    values = np.random.default_rng(3).normal(size=(50, 2))
    dense, thin = (match(RBF(0.5), Z, A, values).coef for A in (X, sparse.csr_array(X)))
    np.testing.assert_allclose(thin, dense, rtol=1e-7)


# refit


@curved_kernels
@outputs
@pytest.mark.parametrize("C", [0.1, 10.0])
def test_refit_is_the_minimum_a_general_search_finds(kernel, n_outputs, C):
    X, signs = _rows(n_outputs=n_outputs)
    Z, k = _points(5, seed=4), naive.twin(kernel)
    K, P = naive.gram(k, X, Z), naive.gram(k, Z, Z)
    found = refit(kernel, Z, X, signs, C=C)
    for row, w, b in zip(signs, found.coef, found.intercept, strict=True):
        errors = np.maximum(0.0, 1.0 - row * (K @ w + b))
        objective = naive.squared_hinge(K, P, row, np.full(len(X), C), w, b)
        # the certificate: the penalty's pull is that of the errors, which balance each other
        scale = C * max(np.abs(row @ K).max(), abs(row.sum()))
        np.testing.assert_allclose(P @ w, C * (row * errors) @ K, atol=1e-5 * scale)
        assert C * (row @ errors) == pytest.approx(0.0, abs=1e-5 * scale)

        def value_and_slope(point, row=row):
            short = np.maximum(0.0, 1.0 - row * (K @ point[:-1] + point[-1]))
            pull = C * row * short
            value = (point[:-1] @ P @ point[:-1] + C * short @ short) / 2
            return value, np.append(P @ point[:-1] - pull @ K, -pull.sum())

        options = {"maxiter": 20000, "maxfun": 50000, "ftol": 1e-15, "gtol": 1e-8}
        search = minimize(
            value_and_slope, np.zeros(6), jac=True, method="L-BFGS-B", options=options
        )
        assert objective <= search.fun * (1 + 1e-6)
        assert objective == pytest.approx(search.fun, rel=1e-4)


@curved_kernels
@quickly
@given(seed=seeds)
def test_no_other_coefficients_refit_better(kernel, seed):
    X, signs = _rows(30, seed=seed)
    Z, k = _points(4, seed=4), naive.twin(kernel)
    K, P, costs = naive.gram(k, X, Z), naive.gram(k, Z, Z), np.full(30, 10.0)
    found = refit(kernel, Z, X, signs)
    w, b = found.coef[0], found.intercept[0]
    objective = naive.squared_hinge(K, P, signs[0], costs, w, b)
    rng = np.random.default_rng(seed)
    for length in (1e-3, 1e-1):
        other = naive.squared_hinge(
            K, P, signs[0], costs, w + length * rng.normal(size=4), b + length * rng.normal()
        )
        assert objective <= other * (1 + 1e-6)


@curved_kernels
def test_weights_are_repeated_rows(kernel):
    X, signs = _rows()
    times = np.arange(60) % 3
    Z = _points(5, seed=4)
    weighted = refit(kernel, Z, X, signs, weights=times)
    repeated = refit(kernel, Z, np.repeat(X, times, axis=0), np.repeat(signs, times, axis=1))
    np.testing.assert_allclose(weighted.coef, repeated.coef, rtol=1e-3, atol=1e-4)
    np.testing.assert_allclose(weighted.intercept, repeated.intercept, rtol=1e-3, atol=1e-4)


def test_weights_multiply_the_cost():
    X, signs = _rows()
    Z = _points(5, seed=4)
    one = refit(RBF(0.5), Z, X, signs, C=5.0, weights=np.full(60, 0.4))
    other = refit(RBF(0.5), Z, X, signs, C=2.0)
    np.testing.assert_allclose(one.coef, other.coef, rtol=1e-6)


def test_outputs_are_refit_each_for_itself():
    X, signs = _rows(n_outputs=3)
    Z = _points(5, seed=4)
    together = refit(RBF(0.5), Z, X, signs)
    for number, row in enumerate(signs):
        alone = refit(RBF(0.5), Z, X, row[None])
        np.testing.assert_array_equal(together.coef[number], alone.coef[0])
        assert together.intercept[number] == alone.intercept[0]


def test_refit_of_sparse_rows_and_centers():
    X, signs = _rows()
    Z = _points(5, seed=4)
    dense = refit(RBF(0.5), Z, X, signs)
    thin = refit(RBF(0.5), sparse.csr_array(Z), sparse.csr_array(X), signs)
    np.testing.assert_allclose(thin.coef, dense.coef, rtol=1e-4, atol=1e-5)


@curved_kernels
def test_refit_learns(kernel):
    X, _ = _rows(200)
    signs = np.where(X[:, 0] * X[:, 1] > 0, 1.0, -1.0)
    found = refit(kernel, _points(20, seed=4), X, signs[None])
    assert np.mean(np.sign(found.decision_values(X)[:, 0]) == signs) > 0.9


@pytest.mark.parametrize("kernel", [Sigmoid(1.0, -1.0), Polynomial(1.0, 2, -1.0)], ids=repr)
def test_kernels_without_a_feature_space_are_refused(kernel):
    X = np.random.default_rng(0).normal(size=(12, 2))
    with pytest.raises(ValueError, match="positive semi-definite"):
        refit(kernel, X[:4], X, np.ones((1, 12)))
    with pytest.raises(ValueError, match="positive semi-definite"):
        match(kernel, X[:4], X, np.ones((12, 1)))


@pytest.fixture
def machine():
    X, y = make_moons(200, noise=0.2, random_state=0)
    fitted = HullPerceptronClassifier(10.0, gamma=1.0, tol=1e-6).fit(X, y)
    return X, np.where(y == 1, 1.0, -1.0)[None, :], fitted.expansion_


def test_the_largest_of_any_output_stay_in_place():
    coef = np.array([[1.0, -5.0, 0.0, 2.0], [0.0, 0.0, 3.0, -2.0]])
    f = KernelExpansion(RBF(1.0), np.arange(4.0)[:, None], coef, np.zeros(2))
    assert largest_coefficients(f, 2).tolist() == [1, 2]
    assert largest_coefficients(f, 3).tolist() == [1, 2, 3]


def test_one_round_is_dropping_and_refitting(machine):
    X, signs, f = machine
    kept = f.centers[largest_coefficients(f, 12)]
    ours = remove(f, 12, X, signs)
    np.testing.assert_allclose(ours.coef, refit(f.kernel, kept, X, signs).coef)
    np.testing.assert_allclose(remove(f, 12).coef, project(f, kept).coef)


def test_keeping_all_centers_changes_nothing(machine):
    _, _, f = machine
    probe = f.centers + 0.1
    same = remove(f, f.n_centers).decision_values(probe)
    np.testing.assert_allclose(same, f.decision_values(probe), atol=1e-5)


@pytest.mark.parametrize("n_rounds", [1, 3, 50])
def test_rounds_end_at_the_wanted_number(machine, n_rounds):
    X, signs, f = machine
    small = remove(f, 10, X, signs, n_rounds=n_rounds, weights=np.ones(200))
    assert small.n_centers == 10
    right = np.sign(small.decision_values(X)[:, 0]) == signs[0]
    assert right.mean() > 0.9


def test_bad_input_gets_a_sentence(machine):
    X, _, f = machine
    with pytest.raises(ValueError, match="out of range"):
        remove(f, 0)
    with pytest.raises(ValueError, match="out of range"):
        remove(f, f.n_centers + 1)
    with pytest.raises(ValueError, match="n_rounds"):
        remove(f, 3, n_rounds=0)
    with pytest.raises(ValueError, match="or neither"):
        remove(f, 3, X)
    with pytest.raises(ValueError, match="weights belong to rows"):
        remove(f, 3, weights=np.ones(3))
    with pytest.raises(ValueError, match="a row of signs per output"):
        remove(f, 3, X, np.ones((1, 5)))


def test_a_map_in_front_is_taken_into_the_centers(machine):
    X, _, f = machine
    front = KernelExpansion(
        f.kernel, f.centers, f.coef, f.intercept, AffineMap(np.full(1, 2.0), np.ones(1))
    )
    small = remove(front, 3)
    np.testing.assert_allclose(
        small.decision_values(X + 2.0), remove(f, 3).decision_values(X), atol=1e-8
    )


@pytest.fixture(scope="module")
def digits():
    X, y = load_digits(return_X_y=True)
    return X[:900], y[:900], X[900:], y[900:]


@pytest.fixture(scope="module")
def minimal(digits):
    X, y, *_ = digits
    machine = MinimalKernelClassifier(C=1.0, gamma=0.0003, random_state=0)
    return machine.fit(X, y).expansion_


def accuracy(expansion, X, y):
    return np.mean(expansion.decision_values(X).argmax(axis=1) == y)


@pytest.mark.parametrize("loss", ["cross_entropy", "squared_hinge"])
def test_the_same_number_of_centers_becomes_more_accurate(digits, minimal, loss):
    X, y, X_test, y_test = digits
    rates = None if loss == "cross_entropy" else {"centers": 0.02, "weights": 0.05}
    fine = refine(minimal, X, y, loss=loss, rates=rates, random_state=0)
    assert fine.expansion.n_centers == minimal.n_centers
    assert fine.losses[-1] < fine.losses[0]
    assert accuracy(fine.expansion, X_test, y_test) > accuracy(minimal, X_test, y_test)


def test_rates_of_nothing_leave_the_machine_as_it_was(digits, minimal):
    """Shift and scale are undone."""
    X, y, *_ = digits
    still = dict.fromkeys(("centers", "weights", "intercept", "log_gamma"), 0.0)
    same = refine(minimal, X, y, rates=still, n_epochs=1, random_state=0).expansion
    np.testing.assert_allclose(same.decision_values(X), minimal.decision_values(X), atol=1e-3)


def test_two_classes_sparse_rows_and_weights(digits):
    X, y, X_test, y_test = digits
    start = MinimalKernelClassifier(gamma=0.0003, random_state=0).fit(X, y == 8).expansion_
    rows, codes = sparse.csr_array(X), (y == 8).astype(int)
    fine = refine(start, rows, codes, sample_weight=np.where(y == 8, 5.0, 1.0), random_state=0)
    predicted = fine.expansion.decision_values(X_test)[:, 0] > 0
    assert np.mean(predicted == (y_test == 8)) > 0.93


def test_same_random_state_same_machine(digits, minimal):
    X, y, *_ = digits
    one, two = (refine(minimal, X, y, n_epochs=2, random_state=5).expansion for _ in range(2))
    np.testing.assert_array_equal(one.centers, two.centers)


def test_divergence_is_noticed_undone_and_said(digits, minimal):
    X, y, *_ = digits
    wild = {"weights": 1e30, "centers": 1e30}
    with pytest.warns(ConvergenceWarning, match="learning rates are now 1/2"):
        found = refine(minimal, X, y, rates=wild, n_epochs=2, random_state=0)
    assert np.isfinite(found.expansion.decision_values(X)).all()


def test_what_cannot_be_refined_is_refused():
    X, codes = np.ones((4, 2)), np.array([0, 1, 2, 0])
    with pytest.raises(ValueError, match="Only rbf machines"):
        refine(KernelExpansion(Linear(), X, np.ones((3, 4)), np.zeros(3)), X, codes)
    with pytest.raises(ValueError, match="one output per class"):
        refine(KernelExpansion(RBF(1.0), X, np.ones((1, 4)), np.zeros(1)), X, codes)
    with pytest.raises(ValueError, match="no centers"):
        refine(KernelExpansion(RBF(1.0), X[:0], np.ones((3, 0)), np.zeros(3)), X, codes)
