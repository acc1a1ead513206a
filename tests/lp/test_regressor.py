"""The regressors of linear programs against plain calls of an LP solver, and their certificates."""

from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.datasets import load_diabetes
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import QuantileRegressor
from sklearn.metrics import d2_pinball_score
from sklearn.preprocessing import StandardScaler

import naive
from kernlet import L1KernelRegressor, MinimalKernelRegressor, compress, load, save
from kernlet.kernels.rbf import RBF
from kernlet.lp import generation
from kernlet.model.model import as_model
from kernlet.rows import ArrayRows, open_rows
from support.callbacks import ScoringMonitor, needs_callbacks

LOSSES = {
    "tube": {"loss": "epsilon_insensitive", "epsilon": 1.5},
    "pinball": {"loss": "pinball", "quantile": 0.3},
}
losses = pytest.mark.parametrize("loss", LOSSES.values(), ids=LOSSES)
solvers = pytest.mark.parametrize("solver", ["generation", "streaming"])


def make_data(n_rows=90, seed=0):
    random = np.random.RandomState(seed)
    X = random.randn(n_rows, 2)
    y = 40.0 + 8.0 * np.sin(2 * X[:, 0]) + 3.0 * X[:, 1] + 2.0 * random.randn(n_rows)
    return X, y


def make_machine(cls=L1KernelRegressor, **parameters):
    return cls(**({"C": 1.3, "gamma": 0.5, "random_state": 0} | parameters))


def costs(machine, weights):
    """What a unit too low and a unit too high cost, and the tube."""
    if machine.loss == "pinball":
        q = machine.quantile
        return machine.C * q * weights, machine.C * (1 - q) * weights, 0.0
    return machine.C * weights, machine.C * weights, machine.epsilon


def objective(machine, X, y, weights):
    """The objective of the machine as it predicts."""
    below, above, epsilon = costs(machine, weights)
    r = y - machine.predict(X)
    errors = below @ np.maximum(0, r - epsilon) + above @ np.maximum(0, -r - epsilon)
    return errors + np.abs(machine.expansion_.coef).sum()


def optimum(machine, X, y, weights, Z):
    return naive.l1_regression(RBF(machine.gamma)(X, Z), y, *costs(machine, weights))[0]


@losses
@solvers
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("has_points", [False, True])
def test_agrees_with_one_plain_call(loss, solver, weighted, has_points):
    X, y = make_data()
    weights = np.random.RandomState(1).uniform(0.1, 2.0, len(y)) if weighted else np.ones(len(y))
    Z = X[:15] + 0.1 if has_points else X
    candidates = Z if has_points else None
    machine = make_machine(solver=solver, candidates=candidates, **loss).fit(X, y, weights)
    expected = optimum(machine, X, y, weights, Z)
    assert machine.objective_[0] == pytest.approx(expected, rel=1e-8)
    assert objective(machine, X, y, weights) == pytest.approx(expected, rel=1e-8)
    assert machine.duality_gap_[0] <= 1e-9
    assert (machine.n_passes_ > 0) == (solver == "streaming")


@settings(max_examples=30, deadline=None)
@given(
    seed=st.integers(0, 10_000),
    n_rows=st.integers(2, 50),
    log_C=st.floats(-3, 2),
    loss=st.sampled_from(list(LOSSES.values())),
    solver=st.sampled_from(["generation", "streaming"]),
    digits=st.integers(0, 2),
)
def test_every_answer_carries_a_true_certificate(seed, n_rows, log_C, loss, solver, digits):
    X, y = make_data(n_rows, seed)
    X, y = X.round(digits), y.round(digits)  # equal rows and equal targets
    machine = make_machine(C=10.0**log_C, solver=solver, candidates=None, **loss).fit(X, y)
    expected = optimum(machine, X, y, np.ones(n_rows), X)
    assert machine.duality_gap_[0] <= 1e-8
    assert machine.objective_[0] == pytest.approx(expected, rel=1e-7, abs=1e-9)


@pytest.mark.parametrize("quantile", [0.2, 0.5, 0.9])
def test_is_the_quantile_regressor_of_scikit_learn(quantile):
    random = np.random.RandomState(0)
    X = random.randn(120, 6)
    y = X @ [1.0, 0.0, -2.0, 0.0, 0.5, 0.0] + 10.0 + random.randn(120)
    other = QuantileRegressor(quantile=quantile, alpha=0.05, solver="highs").fit(X, y)
    machine = L1KernelRegressor(
        1 / (0.05 * 120), loss="pinball", quantile=quantile, kernel="linear", candidates=np.eye(6)
    ).fit(X, y)
    coef = np.zeros(6)
    coef[machine.center_indices_] = machine.expansion_.coef[0]
    np.testing.assert_allclose(coef, other.coef_, atol=1e-8)
    np.testing.assert_allclose(machine.expansion_.intercept[0], other.intercept_, atol=1e-8)


@losses
@solvers
@pytest.mark.parametrize("max_iter", [0, 5, 30])
def test_the_gap_of_a_fit_that_stopped_early_is_true(loss, solver, max_iter):
    X, y = make_data(150)
    whole = make_machine(solver=solver, candidates=40, **loss).fit(X, y)
    with pytest.warns(ConvergenceWarning, match="reached max_iter"):
        machine = clone(whole).set_params(max_iter=max_iter).fit(X, y)
    (best,), (value,), (gap,) = whole.objective_, machine.objective_, machine.duality_gap_
    assert gap > 1e-9
    assert value * (1 - gap) <= best * (1 + 1e-9)
    assert best <= value * (1 + 1e-9)
    assert objective(machine, X, y, np.ones(150)) == pytest.approx(value, rel=1e-9)


@losses
def test_streaming_ends_where_generation_does(loss):
    X, y = make_data(8000)
    X = X.astype(np.float32)
    machine = make_machine(C=0.05, candidates=30, **loss)
    one = clone(machine).set_params(solver="streaming").fit(X, y)
    two = clone(machine).set_params(solver="generation").fit(X, y)
    assert clone(machine).fit(X, y).n_passes_ == one.n_passes_ > 0  # what "auto" takes here
    np.testing.assert_allclose(one.objective_, two.objective_, rtol=1e-9)
    np.testing.assert_allclose(one.predict(X), two.predict(X), atol=1e-5)
    assert max(one.duality_gap_[0], two.duality_gap_[0]) <= 1e-9


@losses
def test_the_interior_point_method_ends_there_too(loss):
    X, y = make_data(200)
    expected = make_machine(**loss).fit(X, y)
    with mock.patch.multiple(generation, _MIN_WORK=0.0, _WORK_PER_OPERATION=0.0):
        machine = make_machine(**loss).fit(X, y)
    assert machine.n_iter_ < 0.6 * expected.n_iter_  # it did take over, and found the vertex
    np.testing.assert_allclose(machine.objective_, expected.objective_, rtol=1e-9)
    np.testing.assert_allclose(machine.predict(X), expected.predict(X), atol=1e-6)


@settings(max_examples=25, deadline=None)
@given(
    seed=st.integers(0, 1000),
    loss=st.sampled_from(list(LOSSES.values())),
    shift=st.floats(-1e3, 1e3),
    log_scale=st.floats(-4, 4),
    sign=st.sampled_from([1.0, -1.0]),
)
def test_units_of_y_are_those_of_the_machine(seed, loss, shift, log_scale, sign):
    """C stays; epsilon scales with y; a change of sign exchanges q and 1 - q."""
    X, y = make_data(50, seed)
    scale = sign * 10.0**log_scale
    machine = make_machine(**loss).fit(X, y)
    other = clone(machine).set_params(epsilon=machine.epsilon * abs(scale))
    if sign < 0:
        other.set_params(quantile=1 - machine.quantile)
    other.fit(X, scale * y + shift)
    size = abs(scale) * np.abs(y).max() + abs(shift)
    np.testing.assert_allclose(other.objective_, abs(scale) * machine.objective_, rtol=1e-7)
    expected = scale * machine.predict(X) + shift
    # The optimum may have several solutions; the objective of this one is the same.
    if np.abs(other.predict(X) - expected).max() > 1e-6 * size:
        value = objective(other, X, scale * y + shift, np.ones(50))
        assert value == pytest.approx(abs(scale) * machine.objective_[0], rel=1e-7)


@solvers
@pytest.mark.parametrize("quantile", [0.05, 0.3, 0.5, 0.9])
def test_rows_below_a_quantile(solver, quantile):
    X, y = make_data(300)
    machine = make_machine(loss="pinball", quantile=quantile, solver=solver, candidates=25)
    residuals = y - machine.fit(X, y).predict(X)
    assert np.sum(residuals < -1e-7) <= quantile * 300 <= np.sum(residuals < 1e-7)
    # Rows on the machine alone have a dual between those of its sides.
    duals = np.zeros(300)
    duals[machine.margin_indices_] = machine.duals_[0]
    np.testing.assert_allclose(duals[residuals > 1e-7], 1.3 * quantile)
    np.testing.assert_allclose(duals[residuals < -1e-7], 1.3 * (quantile - 1))
    assert abs(duals.sum()) < 1e-9
    assert np.sum(np.abs(residuals) <= 1e-7) == machine.n_centers_ + 1


def test_a_quantile_is_known_as_one(tmp_path):
    X, y = make_data(150)
    machine = make_machine(loss="pinball", quantile=0.9, candidates=25).fit(X, y)
    score = d2_pinball_score(y, machine.predict(X), alpha=0.9)
    assert machine.score(X, y) == pytest.approx(score)
    assert as_model(machine).quantiles == machine.quantiles_ == (0.9,)
    save(machine, tmp_path / "m.kernlet")
    assert load(tmp_path / "m.kernlet").score(X, y) == pytest.approx(score)
    small = compress(machine, machine.n_centers_ // 2, X, y, random_state=0)
    assert small.quantiles_ == (0.9,)
    assert np.mean(y <= small.predict(X)) == pytest.approx(0.9, abs=0.07)
    with pytest.raises(ValueError, match="a quantile of one target, but y has 2 columns; fit a"):
        clone(machine).fit(X, np.stack([y, y], axis=1))
    assert as_model(make_machine(candidates=25).fit(X, y)).quantiles is None


def test_duals_of_the_tube():
    X, y = make_data(300)
    machine = make_machine(epsilon=1.5).fit(X, y)
    residuals = y - machine.predict(X)
    duals = np.zeros(300)
    duals[machine.margin_indices_] = machine.duals_[0]
    np.testing.assert_allclose(duals[residuals > 1.5 + 1e-7], 1.3)
    np.testing.assert_allclose(duals[residuals < -1.5 - 1e-7], -1.3)
    assert not duals[np.abs(residuals) < 1.5 - 1e-7].any()
    correlations = duals @ RBF(0.5)(X, X)
    assert np.abs(correlations).max() <= 1 + 1e-9
    np.testing.assert_allclose(np.abs(correlations[machine.center_indices_]), 1.0)


@pytest.mark.slow
@solvers
@pytest.mark.parametrize("cls", [L1KernelRegressor, MinimalKernelRegressor])
def test_targets_within_the_tube_give_a_constant(solver, cls):
    X, y = make_data(60)
    for targets, epsilon in ((np.full(60, 0.1), 0.0), (y, 0.51 * np.ptp(y))):
        machine = make_machine(cls, epsilon=epsilon, solver=solver).fit(X, targets)
        assert machine.n_centers_ == 0
        assert machine.objective_[0] == machine.duality_gap_[0] == 0.0
        np.testing.assert_array_equal(machine.predict(X), 0.5 * (targets.min() + targets.max()))


@pytest.mark.slow
@solvers
@pytest.mark.parametrize("cls", [L1KernelRegressor, MinimalKernelRegressor])
def test_several_targets_are_those_one_by_one(solver, cls):
    X, y = make_data(120)
    Y = np.stack([y, 1e-3 * X[:, 0] ** 2, np.full(120, 7.0)], axis=1)
    machine = make_machine(cls, solver=solver, epsilon=1e-4, candidates=20)
    together = clone(machine).fit(X, Y)
    assert together.predict(X).shape == (120, 3)
    for k in range(3):
        alone = clone(machine).fit(X, Y[:, k])
        np.testing.assert_allclose(together.objective_[k], alone.objective_[0], rtol=1e-8)
        size = np.abs(Y[:, k]).max()
        np.testing.assert_allclose(together.predict(X)[:, k], alone.predict(X), atol=1e-6 * size)
    assert clone(machine).fit(X, y[:, None]).predict(X).shape == (120, 1)


@pytest.mark.slow
def test_same_answer_whatever_n_jobs():
    X, y = make_data(120)
    Y = np.stack([y, X[:, 0] ** 2], axis=1)
    one, two = (make_machine(n_jobs=n_jobs).fit(X, Y) for n_jobs in (1, 2))
    np.testing.assert_array_equal(one.expansion_.coef, two.expansion_.coef)
    np.testing.assert_array_equal(one.expansion_.centers, two.expansion_.centers)


@pytest.mark.parametrize("cls", [L1KernelRegressor, MinimalKernelRegressor])
def test_sources_of_rows(cls, tmp_path):
    X, y = make_data(3000)
    machine = make_machine(cls, C=0.1, candidates=20, solver="streaming")
    expected = clone(machine).fit(X, y)
    np.save(tmp_path / "rows.npy", X)
    rows = open_rows(tmp_path / "rows.npy")
    fitted = clone(machine).set_params(solver="auto").fit(rows, y)
    np.testing.assert_array_equal(fitted.predict(X), expected.predict(X))
    np.testing.assert_allclose(fitted.predict(rows), expected.predict(X), rtol=1e-9)
    with pytest.raises(ValueError, match="needs the rows in memory"):
        clone(machine).set_params(solver="generation").fit(ArrayRows(X), y)
    with pytest.raises(ValueError, match="Row 3 of y"):
        clone(machine).fit(ArrayRows(X), np.where(np.arange(3000) == 3, None, y))


@losses
def test_automatic_candidates_of_many_rows(loss):
    X, y = make_data(6000)
    machine = make_machine(C=0.1, **loss).fit(X, y)
    assert machine.n_candidates_ in (500, 6000)
    assert machine.duality_gap_[0] <= 1e-9


def test_numbers_beyond_double_precision_are_refused():
    X, y = make_data(20)
    for wrong in (np.sign(y - 40.0) * 1.7e308, (y - 40.0) * 1e-320):
        with pytest.raises(ValueError, match="are too large or too small for double precision"):
            make_machine(epsilon=0.0).fit(X, wrong)


@pytest.mark.parametrize("cls", [L1KernelRegressor, MinimalKernelRegressor])
def test_what_comes_after_training(cls, tmp_path):
    X, y = make_data()
    machine = make_machine(cls).fit(X, y)
    model = as_model(machine)
    assert model.kind == "regressor"
    np.testing.assert_array_equal(model.scores(model.outputs(X)), machine.predict(X))
    save(machine, tmp_path / "model.safetensors")
    np.testing.assert_array_equal(
        load(tmp_path / "model.safetensors").predict(X), machine.predict(X)
    )
    summary = load(tmp_path / "model.safetensors").model_.summary
    assert summary["estimator"] == cls.__name__
    assert summary["duality_gap"] <= 1e-9
    assert machine.nbytes_ == machine.expansion_.nbytes


def test_a_checkpoint_belongs_to_its_targets(tmp_path):
    X, y = make_data(3000)
    machine = make_machine(C=0.1, candidates=20, solver="streaming", checkpoint=tmp_path)
    first = clone(machine).fit(X, y)
    again = clone(machine).fit(X, y)
    assert again.n_passes_ < first.n_passes_
    np.testing.assert_allclose(again.objective_, first.objective_, rtol=1e-9)
    with pytest.raises(ValueError, match="belongs to another fit"):
        clone(machine).fit(X, np.roll(y, 1))


@needs_callbacks
def test_callbacks_see_machines_in_the_units_of_y():
    X, y = make_data()
    monitor = ScoringMonitor(scoring="neg_mean_absolute_error")
    make_machine(C=100.0, epsilon=0.1).set_callbacks(monitor).fit(X, y)
    errors = [-line["neg_mean_absolute_error"] for line in monitor.get_logs().data]
    assert len(errors) > 3
    assert max(errors) < 3.0  # of targets about 40


# -- The minimal machine ---------------------------------------------------------------------


def test_no_price_is_the_1_norm_machine():
    X, y = make_data()
    one = make_machine(epsilon=1.0).fit(X, y)
    other = make_machine(MinimalKernelRegressor, epsilon=1.0, mu=0.0).fit(X, y)
    np.testing.assert_allclose(other.objective_, one.objective_, rtol=1e-9)
    np.testing.assert_allclose(other.pound_objective_ * other.scale_, one.objective_, rtol=1e-9)
    np.testing.assert_array_equal(other.center_indices_, one.center_indices_)


@solvers
@pytest.mark.parametrize("seed", range(3))
def test_minimal_agrees_with_programs_from_scratch(seed, solver):
    X, y = make_data(60, seed)
    machine = make_machine(MinimalKernelRegressor, epsilon=1.0, solver=solver, candidates=X[:20])
    machine.fit(X, y)
    K = RBF(0.5)(X, X[:20])
    scale, shift = machine.scale_[0], machine.shift_[0]
    assert scale == pytest.approx(np.abs(y - y.mean()).mean())
    targets = (y - shift) / scale
    expected = naive.pound_regression(K, targets, 1.3, 1.0 / scale, 10.0, 5.0)
    r = (y - machine.predict(X)) / scale
    slacks = np.maximum(0.0, np.abs(r) - 1.0 / scale)
    beta = np.abs(machine.expansion_.coef[0]) / scale
    value = sum(
        factor * (x + 10.0 * (1 - np.exp(-5.0 * x))).sum()
        for factor, x in ((1.3, slacks), (1, beta))
    )
    assert value == pytest.approx(expected, rel=1e-3)
    step = 1.3 * (slacks + 10.0 * (slacks > 1e-6)).sum() + (beta + 10.0).sum()
    assert machine.pound_objective_[0] == pytest.approx(step, rel=1e-6)
    assert machine.duality_gap_[0] <= 1e-9
    assert machine.n_lps_[0] > 1


def test_minimal_machines_have_fewer_centers_and_ignore_outliers():
    X, y = load_diabetes(return_X_y=True)
    X = StandardScaler().fit_transform(X)
    one = L1KernelRegressor(C=3.0, epsilon=30.0).fit(X, y)
    minimal = MinimalKernelRegressor(C=3.0, epsilon=30.0).fit(X, y)
    assert minimal.n_centers_ < one.n_centers_
    assert minimal.score(X, y) > 0.4
    t = np.linspace(0, 6, 120)[:, None]
    clean = np.sin(t[:, 0])
    wrong = clean + np.where(np.arange(120) % 5 == 0, 3.0, 0.0)
    errors = [
        np.abs(cls(C=1.0, epsilon=0.1).fit(t, wrong).predict(t) - clean).max()
        for cls in (MinimalKernelRegressor, L1KernelRegressor)
    ]
    assert errors[0] < 0.15 < errors[1]


def test_minimal_warns_where_more_programs_would_help():
    X, y = make_data()
    with pytest.warns(ConvergenceWarning, match="still improving after max_lps=2"):
        make_machine(MinimalKernelRegressor, max_lps=2).fit(X, y)


@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 1000), shift=st.floats(-1e3, 1e3), log_scale=st.floats(-4, 4))
def test_units_of_y_are_those_of_the_minimal_machine(seed, shift, log_scale):
    X, y = make_data(50, seed)
    scale = 10.0**log_scale
    machine = make_machine(MinimalKernelRegressor, epsilon=1.0).fit(X, y)
    other = clone(machine).set_params(epsilon=scale).fit(X, scale * y + shift)
    np.testing.assert_allclose(other.pound_objective_, machine.pound_objective_, rtol=1e-4)
