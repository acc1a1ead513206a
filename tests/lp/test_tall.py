"""Machines on many rows: the tall method, checkpoints, candidates that parts choose."""

import dask.array as da
import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from kernlet import L1KernelClassifier, MinimalKernelClassifier
from kernlet.lp import crossover as tall_finish
from kernlet.lp import l1 as union
from kernlet.rows.source import open_npy
from support.tall_machines import Interrupt, assert_same, make_data, make_machine


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("weighted", [False, True])
def test_both_solvers_end_at_the_same_optimum(n_classes, weighted):
    X, y = make_data(n_classes=n_classes)
    weight = np.random.RandomState(1).randint(0, 3, len(y)) if weighted else None
    parameters = {"class_weight": "balanced"} if weighted else {}
    one, two = (
        make_machine(solver=solver, **parameters).fit(X, y, weight)
        for solver in ("tall", "generation")
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
    tall = make_machine(**parameters).set_params(C=C).fit(X, y)
    few = clone(tall).set_params(solver="generation").fit(lines[:, :-1], lines[:, -1], counts)
    assert tall.n_passes_ > 0
    assert tall.duality_gap_[0] < 1e-9
    assert tall.objective_[0] == pytest.approx(few.objective_[0], rel=1e-9)


@pytest.mark.parametrize("Classifier", [L1KernelClassifier, MinimalKernelClassifier])
def test_rows_that_are_nearly_equal_are_left_to_generation(Classifier):
    X, y = make_data()
    X = (X > 0) + 1e-8 * np.random.RandomState(0).randn(*X.shape)
    machine = make_machine(Classifier).set_params(C=1.0)
    with pytest.warns(ConvergenceWarning, match="duality gap"):
        clone(machine).set_params(solver="tall").fit(X, y)
    callback = Interrupt(None)  # notes the tasks, and lets them go on
    auto = clone(machine).set_callbacks(callback).fit(X, y)
    expected = clone(machine).set_params(solver="generation").fit(X, y)
    assert auto.n_passes_ > 0
    assert auto.duality_gap_[0] < 1e-9
    assert auto.objective_[0] == expected.objective_[0]
    np.testing.assert_array_equal(auto.center_indices_, expected.center_indices_)
    assert callback.names[0].startswith("pass")
    assert callback.names[-3:] == ["output", "generation", "fit"]


def test_kernel_values_beyond_all_digits_are_told_of():
    X, y = make_data(6000)
    machine = make_machine(kernel="poly", gamma=1.0).set_params(C=1.0)
    with pytest.warns(ConvergenceWarning, match="duality gap"):
        auto = clone(machine).fit(1e3 * X, y)
    with pytest.warns(ConvergenceWarning, match="duality gap"):
        tall = clone(machine).set_params(solver="tall").fit(1e3 * X, y)
    assert auto.duality_gap_[0] <= tall.duality_gap_[0]


def test_of_equal_rows_few_have_a_dual():
    X, y = make_data(6000)
    X = (X > 0).astype(float)
    tall, other = (make_machine(solver=solver).fit(X, y) for solver in ("tall", "generation"))
    assert len(tall.margin_indices_) < 1.2 * len(other.margin_indices_)
    assert tall.loo_error_bound_ < 1.2 * other.loo_error_bound_


def test_the_tall_method_is_chosen_where_rows_far_outnumber_candidates():
    X, y = make_data()
    assert make_machine().fit(X, y).n_passes_ > 0
    assert make_machine().fit(X[:4000], y[:4000]).n_passes_ == 0
    assert make_machine(candidates=500).fit(X, y).n_passes_ == 0


@pytest.mark.parametrize("n_classes", [2, 3])
def test_the_minimal_machine(n_classes):
    X, y = make_data(n_classes=n_classes)
    one, two = (
        make_machine(MinimalKernelClassifier, solver=solver).fit(X, y)
        for solver in ("tall", "generation")
    )
    plain = make_machine().fit(X, y)
    assert one.n_centers_ <= plain.n_centers_
    assert abs(one.n_centers_ - two.n_centers_) <= 3
    assert one.score(X, y) == pytest.approx(two.score(X, y), abs=0.01)
    assert np.all(one.n_lps_ > 1)
    assert np.abs(one.duality_gap_).max() < 1e-9


def test_a_gap_that_is_not_reached_is_told(monkeypatch):
    X, y = make_data()
    monkeypatch.setattr(tall_finish, "_NEAR_ROWS", 1)
    monkeypatch.setattr(tall_finish, "_FEWEST_NEAR", 40)
    monkeypatch.setattr(tall_finish, "_NEAR_SHARE", 1000)
    whole = make_machine().fit(X, y)  # more rounds, and the same optimum
    assert np.abs(whole.duality_gap_).max() < 1e-9
    monkeypatch.setattr(tall_finish, "_MOST_ROUNDS", 1)
    with pytest.warns(ConvergenceWarning, match=r"duality gap of up to .* came no closer"):
        machine = make_machine(solver="tall").fit(X, y)
    assert machine.duality_gap_[0] > 1e-8
    assert machine.objective_[0] * (1 - machine.duality_gap_[0]) <= whole.objective_[0]
    assert machine.loo_error_bound_ == 1.0


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
    whole = (tmp_path / "tall.npz").read_bytes()
    for damaged in (b"no", whole[: len(whole) // 2]):
        (tmp_path / "tall.npz").write_bytes(damaged)
        with pytest.raises(ValueError, match="damaged"):
            make_machine(checkpoint=tmp_path).fit(X, y)


def test_a_checkpoint_keeps_the_first_program_of_the_minimal_machine(tmp_path):
    X, y = make_data()
    make_machine(MinimalKernelClassifier, checkpoint=tmp_path, max_lps=3).fit(X, y)
    one = make_machine().fit(X, y)
    with np.load(tmp_path / "tall.npz") as stored:
        kept = np.flatnonzero(stored["coef"][:-1, 0])
    assert len(kept) == one.n_centers_


def test_checkpoints_that_cannot_work_are_told(tmp_path):
    X, y = make_data()
    with pytest.raises(ValueError, match="random_state as a number"):
        make_machine(checkpoint=tmp_path, random_state=None).fit(X, y)
    with pytest.warns(UserWarning, match="checkpoint has no effect"):
        make_machine(checkpoint=tmp_path).fit(X[:500], y[:500])


def test_bad_input_gets_a_sentence(tmp_path):
    X, y = make_data(600)
    np.save(tmp_path / "X.npy", X)
    rows = open_npy(tmp_path / "X.npy")
    with pytest.raises(ValueError, match="Give a number, such as candidates=300"):
        L1KernelClassifier().fit(rows, y)
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
    monkeypatch.setattr(union, "_ROWS_A_PART", 1)
    with pytest.raises(ValueError, match="candidates as a number"):
        make_machine(candidates="union").fit(*make_data(500))
