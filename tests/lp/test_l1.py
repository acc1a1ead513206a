"""The 1-norm machine as an estimator, by either solver."""

import dask.array as da
import numpy as np
import pytest
from scipy.sparse import csr_array
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, make_moons
from sklearn.exceptions import ConvergenceWarning
from sklearn.preprocessing import StandardScaler

import naive
from kernlet import L1KernelClassifier, MinimalKernelClassifier
from kernlet.datasets import make_checkerboard
from kernlet.kernels.gram import Gram
from kernlet.kernels.rbf import RBF
from kernlet.lp import crossover
from kernlet.lp.l1 import loo_error_bound
from kernlet.lp.machine import CHECKPOINT_NAME, join_duals
from kernlet.lp.problem import Solution
from kernlet.rows.npy import open_npy
from kernlet.sampling import spread_candidates
from kernlet.sklearn_base import join_centers
from support.callbacks import needs_callbacks
from support.many_rows import Interrupt, assert_same, make_data, make_machine


def two_moons():
    return make_moons(60, noise=0.25, random_state=0)


def overlapping_noise():
    random = np.random.RandomState(0)
    X = random.randn(50, 3)
    return X, X[:, 0] + random.randn(50) > 0


@pytest.mark.parametrize("make", [two_moons, overlapping_noise])
@pytest.mark.parametrize("C", [0.3, 3.0])
def test_leave_one_out_bound_against_true_leave_one_out(make, C):
    """Proposition 3.1: a row that is no center and has no dual can go without any change."""
    X, y = make()
    machine = L1KernelClassifier(C=C, gamma=0.5, random_state=0).fit(X, y)
    moving = np.union1d(machine.center_indices_, machine.margin_indices_)
    assert machine.loo_error_bound_ == len(moving) / len(X)
    errors = 0
    for i in range(len(X)):
        others = np.arange(len(X)) != i
        without = L1KernelClassifier(C=C, gamma=0.5, random_state=0).fit(X[others], y[others])
        errors += without.predict(X[[i]])[0] != y[i]
        if i not in moving:
            assert without.predict(X[[i]])[0] == y[i]
            assert without.objective_ == pytest.approx(machine.objective_, rel=1e-9)
    assert errors / len(X) <= machine.loo_error_bound_


def test_leave_one_out_bound_with_fixed_centers_counts_duals_only():
    X, y = two_moons()
    machine = L1KernelClassifier(candidates=X[:20] + 0.01, random_state=0).fit(X, y)
    assert machine.loo_error_bound_ == len(machine.margin_indices_) / len(X)


def test_leave_one_out_bound_counts_rows_of_hardly_any_weight():
    """Errors that cost next to nothing are errors all the same."""
    random = np.random.RandomState(0)
    side = np.repeat([-2.0, 2.0], 50)
    X, y = (side + 0.3 * random.randn(100))[:, None], side > 0
    y[:20] = True
    weight = np.where(np.arange(100) < 20, 1e-10, 1.0)
    machine = L1KernelClassifier(1.0, gamma=0.5, random_state=0).fit(X, y, weight)
    assert machine.loo_error_bound_ >= 0.2


def test_leave_one_out_bound_is_one_without_an_optimum():
    X, y = two_moons()
    with pytest.warns(ConvergenceWarning):
        machine = L1KernelClassifier(max_iter=0, random_state=0).fit(X, y)
    assert machine.loo_error_bound_ == 1.0


@pytest.mark.parametrize("far", [1e6, 1e9])
@pytest.mark.parametrize("place", [np.asarray, csr_array])
def test_a_row_far_away_leaves_the_certificate_true(far, place):
    """The certificate is that of the machine which predicts."""
    X, y = make_moons(100, noise=0.3, random_state=0)
    X, y = place(np.vstack([X, [[far, far]]])), np.append(y, 1)
    machine = L1KernelClassifier(gamma=1.0, random_state=0).fit(X, y)
    slacks = np.maximum(0.0, 1.0 - np.where(y == 1, 1, -1) * machine.decision_function(X))
    objective = 3.0 * slacks.sum() + np.abs(machine.expansion_.coef).sum()
    assert machine.objective_ == pytest.approx(objective, rel=1e-9)
    assert machine.duality_gap_[0] <= 1e-9


def test_weight_two_is_the_row_twice():
    X, y = two_moons()
    weight = np.ones(60)
    weight[:15] = 2.0
    heavy = L1KernelClassifier(random_state=0).fit(X, y, weight)
    twice = L1KernelClassifier(random_state=0).fit(np.vstack([X, X[:15]]), np.r_[y, y[:15]])
    np.testing.assert_allclose(heavy.decision_function(X), twice.decision_function(X), atol=1e-7)
    assert heavy.objective_ == pytest.approx(twice.objective_, rel=1e-9)


def test_does_not_depend_on_the_order_of_rows_or_the_seed():
    X, y = make_moons(150, noise=0.2, random_state=1)
    order = np.random.RandomState(0).permutation(150)
    one = L1KernelClassifier(random_state=0).fit(X, y)
    other = L1KernelClassifier(random_state=7).fit(X[order], y[order])
    assert set(one.center_indices_) == set(order[other.center_indices_])
    np.testing.assert_allclose(one.decision_function(X), other.decision_function(X), atol=1e-7)


def test_fitted_attributes_describe_one_machine():
    X, y = make_moons(100, noise=0.2, random_state=2)
    machine = L1KernelClassifier(random_state=0).fit(X, y)
    expansion = machine.expansion_
    assert machine.n_centers_ == len(machine.center_indices_) == expansion.n_centers
    assert machine.duals_.shape == (1, len(machine.margin_indices_))
    assert (machine.duals_ > 0).all()
    slacks = np.maximum(0.0, 1.0 - np.where(y == 1, 1, -1) * machine.decision_function(X))
    objective = 3.0 * slacks.sum() + np.abs(expansion.coef).sum()
    assert machine.objective_ == pytest.approx(objective, rel=1e-9)
    m1, m2 = len(machine.margin_indices_), machine.n_centers_
    assert m1 == m2 + 1 + np.sum(slacks > 1e-9)


def test_more_classes_share_centers_and_equal_one_vs_rest():
    X, y = three_classes()
    machine = L1KernelClassifier(gamma=0.5, random_state=0).fit(X, y)
    for number in range(3):
        alone = L1KernelClassifier(gamma=0.5, random_state=0).fit(X, y == number)
        np.testing.assert_allclose(
            machine.decision_function(X)[:, number], alone.decision_function(X), atol=1e-7
        )
        assert machine.objective_[number] == pytest.approx(alone.objective_[0], rel=1e-9)
    assert machine.duality_gap_.shape == (3,)
    assert machine.n_centers_ <= (machine.expansion_.coef != 0).sum()


def three_classes():
    random = np.random.RandomState(0)
    y = np.repeat(np.arange(3), 30)
    return random.randn(90, 2) + 2.0 * np.c_[np.cos(2 * y), np.sin(2 * y)], y


@pytest.mark.parametrize("kernel", ["rbf", "poly", "linear", "sigmoid"])
def test_every_kernel(kernel):
    X, y = load_breast_cancer(return_X_y=True)
    X = StandardScaler().fit_transform(X)
    machine = L1KernelClassifier(kernel=kernel, C=0.1, random_state=0).fit(X, y)
    assert machine.duality_gap_.max() <= 1e-8
    assert machine.score(X, y) > 0.9


def test_the_checkerboard_is_learned_from_few_points():
    board = make_checkerboard(random_state=0)
    machine = L1KernelClassifier(C=100.0, gamma=4.0, random_state=0).fit(board.X, board.y)
    assert machine.score(board.X_test, board.y_test) > 0.95
    assert machine.n_centers_ < 60


# -- Many rows: streaming, checkpoints, candidates that samples choose --


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("weighted", [False, True])
def test_both_solvers_end_at_the_same_optimum(n_classes, weighted):
    X, y = make_data(n_classes=n_classes)
    weight = np.random.RandomState(1).randint(0, 3, len(y)) if weighted else None
    parameters = {"class_weight": "balanced"} if weighted else {}
    one, two = (
        make_machine(solver=solver, **parameters).fit(X, y, weight)
        for solver in ("streaming", "generation")
    )
    np.testing.assert_allclose(one.objective_, two.objective_, rtol=1e-9)
    assert np.abs(one.duality_gap_).max() < 1e-9
    np.testing.assert_array_equal(one.center_indices_, two.center_indices_)
    np.testing.assert_array_equal(one.margin_indices_, two.margin_indices_)
    assert one.loo_error_bound_ == pytest.approx(two.loo_error_bound_, abs=1e-3)
    assert one.n_passes_ > 0 == two.n_passes_


@pytest.mark.parametrize(("n_rows", "C"), [(8000, 1.0), (8000, 20.0), (60_000, 1.0)])
def test_few_distinct_rows(n_rows, C):
    X, y = make_data(n_rows)
    X = np.ascontiguousarray((X > 0).astype(np.float64))
    lines, counts = np.unique(np.column_stack([X, y]), axis=0, return_counts=True)
    parameters = {"candidates": np.unique(X, axis=0)}
    streaming = make_machine(**parameters).set_params(C=C).fit(X, y)
    few = clone(streaming).set_params(solver="generation").fit(lines[:, :-1], lines[:, -1], counts)
    assert streaming.n_passes_ > 0
    assert streaming.duality_gap_[0] < 1e-9
    assert streaming.objective_[0] == pytest.approx(few.objective_[0], rel=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("Classifier", [L1KernelClassifier, MinimalKernelClassifier])
def test_rows_that_are_nearly_equal_are_solved_by_streaming(Classifier):
    X, y = make_data()
    X = (X > 0) + 1e-8 * np.random.RandomState(0).randn(*X.shape)
    machine = make_machine(Classifier).set_params(C=1.0)
    streaming = clone(machine).set_params(solver="streaming").fit(X, y)
    assert streaming.duality_gap_[0] < 1e-9
    auto = clone(machine).fit(X, y)
    assert auto.n_passes_ > 0
    assert auto.duality_gap_[0] < 1e-9
    assert auto.objective_[0] == streaming.objective_[0]


def test_kernel_values_beyond_all_digits_are_told_of():
    X, y = make_data(6000)
    machine = make_machine(kernel="poly", gamma=1.0).set_params(C=1.0)
    with pytest.warns(ConvergenceWarning, match="duality gap"):
        auto = clone(machine).fit(1e3 * X, y)
    with pytest.warns(ConvergenceWarning, match="duality gap"):
        streaming = clone(machine).set_params(solver="streaming").fit(1e3 * X, y)
    assert auto.duality_gap_[0] <= streaming.duality_gap_[0]


def test_of_equal_rows_few_have_a_dual():
    X, y = make_data(6000)
    X = (X > 0).astype(float)
    streaming, other = (
        make_machine(solver=solver).fit(X, y) for solver in ("streaming", "generation")
    )
    assert len(streaming.margin_indices_) < 1.2 * len(other.margin_indices_)
    assert streaming.loo_error_bound_ < 1.2 * other.loo_error_bound_


def test_tall_is_another_name_of_streaming():
    X, y = make_data(1000)
    assert_same(*(make_machine(solver=name).fit(X, y) for name in ("tall", "streaming")))


@pytest.mark.parametrize(("solver", "task"), [("streaming", "pass"), ("generation", "output 0")])
def test_progress_is_printed(capsys, solver, task):
    make_machine(solver=solver, verbose=1).fit(*make_data(1000))
    assert f"[L1KernelClassifier] {task}" in capsys.readouterr().out


@pytest.mark.slow
def test_streaming_is_chosen_where_rows_far_outnumber_candidates():
    X, y = make_data()
    assert make_machine().fit(X, y).n_passes_ > 0
    assert make_machine().fit(X[:4000], y[:4000]).n_passes_ == 0
    assert make_machine(candidates=500).fit(X, y).n_passes_ == 0


@pytest.mark.slow
@pytest.mark.parametrize("n_classes", [2, 3])
def test_the_minimal_machine(n_classes):
    X, y = make_data(n_classes=n_classes)
    one, two = (
        make_machine(MinimalKernelClassifier, solver=solver).fit(X, y)
        for solver in ("streaming", "generation")
    )
    plain = make_machine().fit(X, y)
    assert one.n_centers_ <= plain.n_centers_
    assert abs(one.n_centers_ - two.n_centers_) <= 3
    assert one.score(X, y) == pytest.approx(two.score(X, y), abs=0.01)
    assert np.all(one.n_lps_ > 1)
    assert np.abs(one.duality_gap_).max() < 1e-9


def test_a_gap_that_is_not_reached_is_told(monkeypatch):
    X, y = make_data()
    monkeypatch.setattr(crossover, "_ROWS_PER_CANDIDATE", 1)
    monkeypatch.setattr(crossover, "_MIN_ROWS", 40)
    monkeypatch.setattr(crossover, "_ROWS_PER_MARGIN_ROW", 1000)
    whole = make_machine().fit(X, y)  # more rounds, and the same optimum
    assert np.abs(whole.duality_gap_).max() < 1e-9
    monkeypatch.setattr(crossover, "_MAX_ROUNDS", 1)
    with pytest.warns(ConvergenceWarning, match=r"duality gap of up to .* came no closer"):
        machine = make_machine(solver="streaming").fit(X, y)
    assert machine.duality_gap_[0] > 1e-8
    assert machine.objective_[0] * (1 - machine.duality_gap_[0]) <= whole.objective_[0]
    assert machine.loo_error_bound_ == 1.0


@needs_callbacks
def test_an_interrupted_fit_goes_on_from_its_checkpoint(tmp_path):
    X, y = make_data()
    whole = make_machine().fit(X, y)
    callback = Interrupt(8)
    with pytest.raises(KeyboardInterrupt):
        make_machine(checkpoint=tmp_path).set_callbacks(callback).fit(X, y)
    assert "rows/s" in callback.names[0]
    assert "gap" in callback.names[0]
    machine = make_machine(checkpoint=tmp_path).fit(X, y)
    assert machine.n_passes_ < whole.n_passes_
    np.testing.assert_allclose(machine.objective_, whole.objective_, rtol=1e-9)
    with pytest.raises(ValueError, match="belongs to another fit"):
        make_machine(checkpoint=tmp_path, gamma=0.7).fit(X, y)
    with pytest.raises(ValueError, match="belongs to another fit"):
        make_machine(checkpoint=tmp_path).fit(X, y, np.where(y == 1, 2.0, 1.0))
    whole = (tmp_path / CHECKPOINT_NAME).read_bytes()
    for damaged in (b"no", whole[: len(whole) // 2]):
        (tmp_path / CHECKPOINT_NAME).write_bytes(damaged)
        with pytest.raises(ValueError, match="corrupt"):
            make_machine(checkpoint=tmp_path).fit(X, y)
    (tmp_path / CHECKPOINT_NAME).write_bytes(whole)
    with np.load(tmp_path / CHECKPOINT_NAME) as arrays:
        header, coef = arrays["header"], arrays["coef"]
    for wrong in (np.float64(1.0), coef[:-1], coef * np.inf):
        np.savez(tmp_path / CHECKPOINT_NAME, header=header, coef=wrong)
        with pytest.raises(ValueError, match="does not suit this fit"):
            make_machine(checkpoint=tmp_path).fit(X, y)


def test_a_checkpoint_keeps_the_first_program_of_the_minimal_machine(tmp_path):
    X, y = make_data()
    make_machine(MinimalKernelClassifier, checkpoint=tmp_path, max_lps=3).fit(X, y)
    one = make_machine().fit(X, y)
    with np.load(tmp_path / CHECKPOINT_NAME) as stored:
        kept = np.flatnonzero(stored["coef"][:-1, 0])
    assert len(kept) == one.n_centers_


def test_checkpoints_that_cannot_work_are_told(tmp_path):
    X, y = make_data()
    with pytest.raises(ValueError, match="whole number as random_state"):
        make_machine(checkpoint=tmp_path, random_state=None).fit(X, y)
    with pytest.warns(UserWarning, match="checkpoint has no effect"):
        make_machine(checkpoint=tmp_path).fit(X[:500], y[:500])


def test_bad_input_from_sources_gets_a_sentence(tmp_path):
    X, y = make_data(600)
    np.save(tmp_path / "X.npy", X)
    rows = open_npy(tmp_path / "X.npy")
    with pytest.raises(ValueError, match="Give a number, such as candidates=300"):
        L1KernelClassifier(candidates=None).fit(rows, y)
    with pytest.raises(ValueError, match="needs the rows in memory"):
        make_machine(solver="generation").fit(rows, y)
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        make_machine().fit(rows, y[:-1])
    with pytest.raises(ValueError, match="one class only"):
        make_machine().fit(rows, np.zeros(600))
    machine = make_machine().fit(rows, y)
    with pytest.raises(ValueError, match="has 2 features, but L1KernelClassifier is expecting 3"):
        machine.predict(da.zeros((5, 2)))
    X[17, 1] = np.nan
    np.save(tmp_path / "X.npy", X)
    with pytest.raises(ValueError, match="contains NaN"):
        make_machine().fit(rows, y)
    with pytest.raises(ValueError, match="contains NaN"):
        machine.predict(rows)


@pytest.mark.slow
@pytest.mark.parametrize("Classifier", [L1KernelClassifier, MinimalKernelClassifier])
def test_candidates_that_parts_of_the_rows_choose(tmp_path, Classifier):
    X, y = make_data(12_000)
    machine = make_machine(Classifier, candidates="union").fit(X, y)
    assert machine.n_passes_ > 0
    assert machine.duality_gap_.max() < 1e-9
    np.testing.assert_array_equal(machine.expansion_.centers, X[machine.center_indices_])
    np.save(tmp_path / "X.npy", X)
    again = make_machine(Classifier, candidates="union").fit(open_npy(tmp_path / "X.npy"), y)
    assert_same(machine, again)
    plain = make_machine(Classifier, candidates=30).fit(X, y)
    assert machine.objective_[0] < plain.objective_[0] or Classifier is MinimalKernelClassifier


def test_the_union_from_rows_sorted_by_class():
    X, y = make_data(2000)
    order = np.argsort(y, kind="stable")
    sorted_, mixed = (
        make_machine(candidates="union").fit(X[rows], y[rows])
        for rows in (order, np.arange(len(y)))
    )
    assert sorted_.n_centers_ > 0.5 * mixed.n_centers_
    assert sorted_.score(X, y) > mixed.score(X, y) - 0.01


def test_a_union_of_nothing_is_refused(monkeypatch):
    monkeypatch.setattr("kernlet.lp.l1._SAMPLE_ROWS", 1)
    with pytest.raises(ValueError, match="candidates as a number"):
        make_machine(candidates="union").fit(*make_data(500))


# -- All outputs together --

ROWS = np.array([[0.0], [1.0], [2.0], [1.0], [5.0]])  # rows 1 and 3 are equal


def solution(centers, coef, rows, duals, slacks=None, gap=0.0):
    return Solution(
        centers=np.array(centers, dtype=int),
        coef=np.array(coef, dtype=float),
        intercept=0.5,
        rows=np.array(rows, dtype=int),
        duals=np.array(duals, dtype=float),
        slacks=np.zeros(5) if slacks is None else np.array(slacks, dtype=float),
        objective=1.0,
        bound=1.0 - gap,
        n_iter=1,
        status="optimal",
    )


ONE = solution([0, 1], [1.0, 2.0], [0, 4], [0.1, 0.2])
TWO = solution([2, 3], [-1.0, 4.0], [4], [0.3])


def test_outputs_share_the_centers_that_any_of_them_uses():
    expansion, centers = join_centers(Gram(RBF(1.0), ROWS), [ONE, TWO])
    assert centers.tolist() == [0, 1, 2]
    np.testing.assert_array_equal(expansion.coef, [[1.0, 2.0, 0.0], [0.0, 4.0, -1.0]])
    np.testing.assert_array_equal(expansion.centers, ROWS[:3])


def test_duals_of_all_outputs_over_the_rows_of_any():
    rows, duals = join_duals([ONE, TWO])
    assert rows.tolist() == [0, 4]
    np.testing.assert_array_equal(duals, [[0.1, 0.2], [0.0, 0.3]])


@pytest.mark.parametrize(
    ("candidate_rows", "expected"), [(np.arange(5), 1.0), (None, 2 / 5)], ids=["rows", "points"]
)
def test_rows_that_could_change_a_machine_are_counted(candidate_rows, expected):
    assert loo_error_bound(5, candidate_rows, [ONE, TWO], 1e-8) == expected


def test_an_error_without_a_dual_counts():
    wrong = solution([], [], [], [], slacks=[0.0, 0.0, 1.5, 0.0, 0.0])
    assert loo_error_bound(5, None, [wrong], 1e-8) == 1 / 5


@pytest.mark.parametrize("gap", [1e-3, np.nan])
def test_without_an_optimum_the_bound_is_one(gap):
    assert loo_error_bound(5, None, [solution([], [], [], [], gap=gap)], 1e-8) == 1.0


# -- Automatic candidates ----------------------------------------------------------------------


def noisy_rows(n_rows=3000, n_features=20, seed=0):
    random = np.random.RandomState(seed)
    X = random.randn(n_rows, n_features)
    return X, (X[:, 0] * X[:, 1] + random.randn(n_rows) > 0).astype(int)


@pytest.mark.parametrize("Classifier", [L1KernelClassifier, MinimalKernelClassifier])
def test_few_rows_are_all_candidates(Classifier):
    X, y = make_data(600)
    auto, every = (make_machine(Classifier, candidates=c).fit(X, y) for c in ("auto", None))
    assert auto.n_candidates_ == every.n_candidates_ == 600
    np.testing.assert_array_equal(auto.expansion_.coef, every.expansion_.coef)
    assert Classifier().candidates == "auto"


def test_clean_rows_are_all_candidates():
    random = np.random.RandomState(0)
    y = random.randint(2, size=2500)
    X = random.randn(2500, 2) + 6 * y[:, None]
    assert L1KernelClassifier(random_state=0).fit(X, y).n_candidates_ == 2500


@pytest.mark.slow
def test_noisy_rows_get_few_candidates_that_are_rows():
    X, y = noisy_rows()
    machine = L1KernelClassifier(random_state=0).fit(X, y)
    assert 100 <= machine.n_candidates_ <= 500
    assert machine.duality_gap_[0] <= 1e-8
    np.testing.assert_array_equal(X[machine.center_indices_], machine.expansion_.centers)
    again = L1KernelClassifier(random_state=0).fit(X, y)
    np.testing.assert_array_equal(machine.expansion_.coef, again.expansion_.coef)


def test_more_rows_and_classes_get_fewer_candidates():
    X, y = noisy_rows(12_000)
    machine = L1KernelClassifier(random_state=0, tol=1e-3)
    machine._auto_work = 12_000 * 200**2
    assert machine.fit(X, y).n_candidates_ <= 200


def test_rows_of_a_source_get_few_candidates(tmp_path):
    X, y = make_data(3000)
    np.save(tmp_path / "X.npy", X)
    machine = make_machine(candidates="auto").fit(open_npy(tmp_path / "X.npy"), y)
    assert machine.n_candidates_ <= 500


def test_chosen_candidates_cover_better_than_random_ones():
    X, y = noisy_rows(6000, 5)
    Z, z = noisy_rows(4000, 5, seed=1)
    choose = np.random.RandomState(0)
    spread = [spread_candidates(X, 40, choose).points for _ in range(3)]
    drawn = [X[choose.permutation(len(X))[:40]] for _ in range(3)]
    of_spread, of_drawn = (
        np.mean(
            [
                L1KernelClassifier(candidates=points, tol=1e-3).fit(X, y).score(Z, z)
                for points in each
            ]
        )
        for each in (spread, drawn)
    )
    assert of_spread >= of_drawn - 0.005


@pytest.mark.parametrize("C", [0.05, 1.0])
def test_unit_vectors_as_candidates_are_the_linear_1_norm_svm(C):
    """Problems (5) and (6), against a plain call of an LP solver: K is X itself."""
    random = np.random.RandomState(0)
    X = random.randn(80, 6)
    signs = np.where(X[:, 0] - X[:, 1] + 0.5 * random.randn(80) > 0, 1.0, -1.0)
    plane = L1KernelClassifier(C, kernel="linear", candidates=np.eye(6)).fit(X, signs)
    objective, w, intercept = naive.l1_margin_primal(X, signs, np.full(80, C), np.ones(6))
    assert plane.objective_ == pytest.approx([objective], rel=1e-9)
    expected = np.zeros(6)
    expected[plane.center_indices_] = plane.expansion_.coef[0]
    np.testing.assert_allclose(expected, w, atol=1e-8)
    assert plane.expansion_.intercept == pytest.approx([intercept], abs=1e-8)
