"""The minimal machine as an estimator, and block by block."""

import numpy as np
import pytest
from scipy.sparse import csr_array
from sklearn.datasets import make_moons
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils._param_validation import InvalidParameterError

import naive
from kernlet import L1KernelClassifier, MinimalKernelClassifier
from kernlet.datasets import load, make_checkerboard


@pytest.mark.parametrize("parameters", [{"mu": -1.0}, {"alpha": 0.0}, {"max_lps": 0}], ids=str)
def test_bad_parameters(parameters):
    X, y = make_moons(20, random_state=0)
    (name,) = parameters
    with pytest.raises(InvalidParameterError, match=f"The '{name}' parameter"):
        MinimalKernelClassifier(**parameters).fit(X, y)


def test_fewer_centers_at_the_accuracy_of_the_1_norm_machine():
    board = make_checkerboard(random_state=1)
    options = {"C": 300.0, "gamma": 4.0, "random_state": 0}
    first = L1KernelClassifier(**options).fit(board.X, board.y)
    minimal = MinimalKernelClassifier(**options).fit(board.X, board.y)
    assert minimal.n_centers_ < first.n_centers_
    accuracy = minimal.score(board.X_test, board.y_test)
    assert accuracy > first.score(board.X_test, board.y_test) - 0.01


def test_counts_its_linear_programs():
    X, y = make_moons(100, noise=0.2, random_state=0)
    machine = MinimalKernelClassifier(random_state=0).fit(X, y)
    assert machine.n_lps_.shape == (1,)
    assert 2 <= machine.n_lps_[0] <= 50
    assert machine.duality_gap_.max() <= 1e-9


def test_stopping_at_max_lps_warns():
    X, y = make_moons(100, noise=0.2, random_state=0)
    with pytest.warns(ConvergenceWarning, match="still improving after max_lps=2"):
        MinimalKernelClassifier(max_lps=2, random_state=0).fit(X, y)


def test_remark_4_4_with_the_costs_of_the_last_program():
    """Trained on its m1 rows and m2 centers alone, with all else equal, it is the same machine."""
    X, y = make_moons(150, noise=0.2, random_state=0)
    machine = MinimalKernelClassifier(mu=0.0, gamma=1.0, random_state=0).fit(X, y)
    rows = machine.margin_indices_
    again = MinimalKernelClassifier(
        mu=0.0, gamma=1.0, candidates=machine.expansion_.centers, random_state=0
    ).fit(X[rows], y[rows])
    np.testing.assert_allclose(again.decision_function(X), machine.decision_function(X), atol=1e-7)


def test_no_price_for_presence_is_the_1_norm_machine():
    X, y = make_moons(100, noise=0.2, random_state=0)
    minimal = MinimalKernelClassifier(mu=0.0, random_state=0).fit(X, y)
    first = L1KernelClassifier(random_state=0).fit(X, y)
    np.testing.assert_allclose(minimal.decision_function(X), first.decision_function(X), atol=1e-8)


def test_checkerboard_figure_of_the_paper(data_folder):
    """Figure 4: 30 rows and 27 centers for the paper, on its own board."""
    board = load("checkerboard_generated")
    scale = lambda X: X / 100.0 - 1.0  # noqa: E731
    machine = MinimalKernelClassifier(C=300.0, mu=100.0, gamma=3.0, random_state=0)
    machine.fit(scale(board.X), board.y)
    assert len(machine.margin_indices_) <= 30
    assert machine.n_centers_ <= 27
    assert machine.score(scale(board.X_test), board.y_test) >= 0.974


def test_usps_eight_against_the_rest(data_folder):
    digits = load("usps")
    X, X_test = 2.0 * digits.X - 1.0, 2.0 * digits.X_test - 1.0
    machine = MinimalKernelClassifier(C=0.9, gamma=1 / 128, random_state=0)
    machine.fit(X, digits.y == 8)
    assert machine.duality_gap_[0] <= 1e-9
    assert machine.n_centers_ < 60
    assert machine.score(X_test, digits.y_test == 8) > 0.97


# -- Blocks one after the other: what is kept, what is forgotten, and how good it is --


def blockwise(**parameters):
    return MinimalKernelClassifier(10.0, gamma=0.5, random_state=0, **parameters)


def make_blocks(n_blocks=4, seed=0):
    random = np.random.RandomState(seed)
    X = random.randn(100 * n_blocks, 2)
    y = np.where(X[:, 0] * X[:, 1] > 0, "same", "other")
    return np.split(X, n_blocks), np.split(y, n_blocks)


def test_only_centers_and_rows_with_a_dual_are_kept():
    machine = blockwise(retain="last")
    seen = 0
    for X, y in zip(*make_blocks(), strict=True):
        machine.partial_fit(X, y)
        seen += len(X)
        needed = np.union1d(machine.center_indices_, machine.margin_indices_)
        assert len(machine.retained_.y) == len(needed) < 0.5 * seen
        assert machine.retained_.n_seen == seen
    assert machine.retained_.n_blocks == 4
    assert machine.retained_.by_block.sum() == len(machine.retained_.y)
    assert "of 400 rows of 4 blocks" in repr(machine.retained_)


def test_rows_of_the_1_norm_machine_are_kept_too():
    (X, *_), (y, *_) = make_blocks()
    machine = blockwise().partial_fit(X, y)
    norm = L1KernelClassifier(10.0, gamma=0.5, random_state=0).fit(X, y)
    rests_on = np.concatenate(
        [m for one in (machine, norm) for m in (one.center_indices_, one.margin_indices_)]
    )
    np.testing.assert_array_equal(machine.retained_.X, X[np.unique(rests_on)])


def test_keeping_more_forgets_less():
    test, labels = (np.concatenate(part) for part in make_blocks(20, seed=1))
    scores = {}
    for retain in ("both", "last"):
        machine = blockwise(retain=retain)
        for X, y in zip(*make_blocks(12, seed=3), strict=True):
            machine.partial_fit(X, y)
        scores[retain] = machine.score(test, labels)
    assert scores["both"] > scores["last"]


def test_the_machine_of_blocks_learns_from_all_of_them():
    blocks = make_blocks()
    test, labels = (np.concatenate(part) for part in make_blocks(20, seed=1))
    machine = blockwise()
    for X, y in zip(*blocks, strict=True):
        machine.partial_fit(X, y)
    first = blockwise().fit(blocks[0][0], blocks[1][0])
    assert machine.score(test, labels) > max(0.93, first.score(test, labels))


def test_old_rows_are_forgotten():
    machine = blockwise(max_age=1)
    for X, y in zip(*make_blocks(), strict=True):
        machine.partial_fit(X, y)
        assert machine.retained_.blocks.min() >= machine.retained_.n_blocks - 2
    assert machine.retained_.n_forgotten > 0


@pytest.mark.parametrize("wrap", [np.asarray, csr_array], ids=["dense", "sparse"])
def test_a_class_may_come_late(wrap):
    (X, _), (y, _) = make_blocks(2)
    machine = blockwise()
    machine.partial_fit(wrap(X[y == "same"]), y[y == "same"], classes=["same", "other"])
    assert set(machine.predict(wrap(X))) == {"same"}
    machine.partial_fit(wrap(X), y)
    assert machine.score(wrap(X), y) > 0.95


def test_fit_starts_from_scratch():
    (X, Z), (y, labels) = make_blocks(2)
    machine = blockwise().partial_fit(X, y).fit(X, y)
    assert not hasattr(machine, "retained_")
    assert machine.partial_fit(Z, labels).retained_.n_seen == 100


def test_given_points_stay_candidates():
    board = make_checkerboard(random_state=0)
    machine = blockwise(candidates=board.X[:40], retain="last")
    machine.partial_fit(board.X[:500], board.y[:500])
    machine.partial_fit(board.X[500:], board.y[500:])
    assert len(machine.retained_.y) == len(machine.margin_indices_)


def test_bad_input_gets_a_sentence():
    (X, _), (y, _) = make_blocks(2)
    with pytest.raises(ValueError, match="one class only"):
        blockwise().partial_fit(X, np.full(100, "same"))
    machine = blockwise().partial_fit(X, y)
    with pytest.raises(ValueError, match="differ from those of the first call"):
        machine.partial_fit(X, y, classes=["same", "third"])
    with pytest.raises(ValueError, match="label 'third', which the model does not know"):
        machine.partial_fit(X, np.full(100, "third"))
    with pytest.raises(ValueError, match="3 features, but MinimalKernelClassifier is expecting 2"):
        machine.partial_fit(np.ones((4, 3)), y[:4])


@pytest.mark.parametrize("first", [csr_array, np.asarray])
def test_dense_and_sparse_blocks_mix(first):
    second = np.asarray if first is csr_array else csr_array
    (X, Z), (y, z) = make_blocks(2)
    mixed = blockwise().partial_fit(first(X), y).partial_fit(second(Z), z)
    plain = blockwise().partial_fit(X, y).partial_fit(Z, z)
    np.testing.assert_allclose(mixed.decision_function(X), plain.decision_function(X), atol=1e-6)


def test_a_small_block_has_fewer_candidates():
    (X, Z), (y, z) = make_blocks(2)
    machine = blockwise(candidates=100, retain="last", max_age=1).partial_fit(X, y)
    machine.partial_fit(Z[:10], z[:10])
    assert machine.retained_.n_seen == 110


def test_a_block_of_no_weight_changes_nothing():
    (X, Z), (y, z) = make_blocks(2)
    machine = blockwise().partial_fit(X, y)
    before = machine.decision_function(X)
    machine.partial_fit(Z, z, sample_weight=np.zeros(len(z)))
    assert machine.retained_.n_blocks == 2
    assert np.mean((machine.decision_function(X) > 0) == (before > 0)) > 0.9


def test_a_first_call_that_fails_leaves_nothing_behind():
    (X, _), _ = make_blocks(2)
    machine = blockwise()
    with pytest.raises(ValueError, match="does not know"):
        machine.partial_fit(X, np.arange(100) % 2, classes=[5, 6])
    assert not hasattr(machine, "classes_")
    assert not hasattr(machine, "n_features_in_")


def test_parameters_that_blocks_cannot_follow(tmp_path):
    (X, Z), (y, z) = make_blocks(2)
    machine = blockwise().partial_fit(X, y)
    with pytest.raises(ValueError, match="stay those of the first call"):
        machine.set_params(gamma=0.1).partial_fit(Z, z)
    with pytest.raises(ValueError, match="keeps no checkpoint"):
        blockwise(checkpoint=tmp_path).partial_fit(X, y)
    with pytest.raises(ValueError, match="mix types"):
        blockwise().partial_fit(X[:4], [1, "a", 1, "a"])


def test_no_row_left_is_told():
    (X, _), _ = make_blocks(2)
    with pytest.warns(UserWarning, match="No row is kept"):
        blockwise().partial_fit(X, np.full(100, "same"), classes=["other", "same"])


# -- The discontinuous objective (18), and Proposition 4.1 --


def step_value(machine, X, signs, C, mu):
    values = machine.decision_function(X)
    slacks = np.maximum(0.0, 1.0 - signs * values)
    coef = np.abs(machine.expansion_.coef)
    counts = C * np.count_nonzero(slacks > 1e-6) + np.count_nonzero(coef)
    return C * slacks.sum() + coef.sum() + mu * counts


@pytest.mark.parametrize("solver", ["generation", "streaming"])
def test_pound_objective_is_that_of_the_machine(solver):
    X, y = make_moons(150, noise=0.3, random_state=0)
    machine = MinimalKernelClassifier(
        2.0, mu=3.0, candidates=X[:40], gamma=1.0, solver=solver, random_state=0
    ).fit(X, y)
    expected = step_value(machine, X, np.where(y == 1, 1.0, -1.0), 2.0, 3.0)
    assert machine.pound_objective_ == pytest.approx([expected], rel=1e-8)


def test_pound_objective_of_weights_and_classes():
    X, y = make_moons(60, noise=0.3, random_state=0)
    y[X[:, 0] > 1.5] = 2
    twice = MinimalKernelClassifier(random_state=0).fit(X, y, np.full(60, 2.0))
    repeated = MinimalKernelClassifier(candidates=X, gamma=twice.expansion_.kernel.gamma)
    repeated.fit(np.vstack([X, X]), np.concatenate([y, y]))
    assert twice.pound_objective_.shape == (3,)
    np.testing.assert_allclose(twice.pound_objective_, repeated.pound_objective_, rtol=1e-6)
    none = MinimalKernelClassifier(mu=0.0, random_state=0).fit(X, y)
    np.testing.assert_allclose(none.pound_objective_, none.objective_, rtol=1e-8)


def degenerate_problem(seed):
    """Rows with their mirror images, so that (1, 1) and (2, 0) with (0, 2) do equally well."""
    random = np.random.RandomState(seed)
    X, signs = random.randint(-2, 3, (3, 2)).astype(float), np.array([1.0, -1.0, 1.0])
    return np.vstack([X, X[:, ::-1]]), np.tile(signs, 2), np.array([[2.0, 0], [0, 2.0], [1.0, 1.0]])


@pytest.mark.slow
@pytest.mark.parametrize(("seed", "C"), [(0, 1.0), (4, 0.4), (7, 1.0)])
def test_proposition_4_1_small_mu_picks_the_sparsest_solution_of_the_linear_program(seed, C):
    X, signs, Z = degenerate_problem(seed)
    f, g = np.array(list(naive.pound_supports(X @ Z.T, signs, C))).T
    optimal = f <= f.min() + 1e-9
    for points in (Z[:2], Z[2:]):  # two solutions, one of which has a center more
        costs = np.full(len(X), C), np.ones(len(points))
        assert naive.l1_margin_primal(X @ points.T, signs, *costs)[0] == pytest.approx(f.min())
    for mu in (1e-2, 1e-4):
        best = f + mu * g <= (f + mu * g).min() + 1e-9
        assert optimal[best].all()  # a solution of (10) ...
        np.testing.assert_allclose(g[best], g[optimal].min())  # ... of the smallest count
        machine = MinimalKernelClassifier(C, mu=mu, kernel="linear", candidates=Z, random_state=0)
        machine.fit(X, signs)
        # The algorithm ends at a solution of (10) too, but at any that is stationary.
        presence = step_value(machine, X, signs, C, 1.0) - step_value(machine, X, signs, C, 0.0)
        assert machine.pound_objective_[0] - mu * presence == pytest.approx(f.min(), abs=1e-7)
        assert machine.pound_objective_[0] >= (f + mu * g).min() - 1e-7


def test_a_stationary_point_need_not_be_the_sparsest_solution():
    """The example of the documentation: one center (1, 1), or (2, 0) and (0, 2) at half of it."""
    X, y = np.array([[2.0, 0.0], [0.0, 2.0], [-2.0, 0.0], [0.0, -2.0]]), [1, 1, 0, 0]
    options = {"kernel": "linear", "mu": 0.01, "random_state": 0}
    one = MinimalKernelClassifier(candidates=[[1.0, 1.0]], **options).fit(X, y)
    two = MinimalKernelClassifier(candidates=X[:2], **options).fit(X, y)
    both = MinimalKernelClassifier(candidates=[*X[:2], [1.0, 1.0]], **options).fit(X, y)
    np.testing.assert_allclose(one.decision_function(X), two.decision_function(X), atol=1e-9)
    assert one.pound_objective_[0] == pytest.approx(0.5 + 0.01)
    assert two.pound_objective_[0] == pytest.approx(0.5 + 0.02)
    assert 0.51 - 1e-9 <= both.pound_objective_[0] <= 0.52 + 1e-9
