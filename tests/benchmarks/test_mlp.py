"""Perceptrons: gradients, rounding, bytes, stacks, and the search within a budget."""

from dataclasses import replace
from itertools import pairwise

import array_api_strict
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.datasets import make_blobs, make_moons

from benchmarks.competitors import mlp, mlp_call, mlp_regressor, mlp_symmetric
from benchmarks.competitors.contract import Shape
from benchmarks.competitors.mlp_network import (
    gradients_of,
    held_out_outputs,
    stacks_of,
    total_loss,
    trained,
)
from benchmarks.competitors.mlp_plan import (
    SYMMETRIC,
    Plan,
    Setting,
    Task,
    examples_of,
    forward,
    inputs_of,
    pack,
)
from benchmarks.competitors.mlp_space import Space, first_settings, small_settings, variations
from kernlet.compact.network import CrossEntropy, SquaredError
from kernlet.devices import NUMPY, Device, find_device

TASK = Task(4, 3)


def rows_of(n_rows=120, n_features=4, n_classes=3):
    X, y = make_blobs(n_rows, n_features, centers=n_classes, cluster_std=2.0, random_state=1)
    return ((X - X.mean(axis=0)) / X.std(axis=0)).astype(np.float32), y


def stack_of(settings, X, y, folds=1, epochs=0.05, device=NUMPY, seed=0):
    """A trained stack with its examples; all folds have all rows."""
    rows = np.arange(len(X))
    task = settings[0].plan.task
    inputs = [inputs_of(settings[0].plan, X, y, rows) for _ in range(folds)]
    examples = examples_of(X, y, task, inputs, device)
    subsets = [rows + fold * len(X) for fold in range(folds)]
    return trained(settings, examples, inputs, subsets, epochs, seed, range(folds)), examples


# -- Gradients and rounding ------------------------------------------------------------------


@pytest.mark.parametrize("rank", [None, 3])
@pytest.mark.parametrize("n_steps", [0, 2])
@pytest.mark.parametrize(
    ("loss", "n_outputs"), [(CrossEntropy(0.0), 3), (CrossEntropy(0.0), 1), (SquaredError(), 1)]
)
def test_the_gradient_is_that_of_finite_differences(rank, n_steps, loss, n_outputs):
    random = np.random.RandomState(0)
    rows = random.standard_normal((7, 4))
    if n_steps:
        rows = np.hstack([rows, (rows[:, :n_steps] > 0).astype(float)])
    widths = [4, *([rank] if rank else []), 5, 4, n_outputs]
    arrays = {}
    for i, (n, m) in enumerate(pairwise(widths)):
        arrays[f"W{i}"] = random.standard_normal((n, m))
        if i or not rank:
            arrays[f"b{i}"] = random.standard_normal((1, m))
    constants = {}
    if n_steps:
        arrays["jumps"] = random.standard_normal((1, n_steps))
        constants = {"owners": np.eye(4)[:n_steps]}
    targets = random.dirichlet(np.ones(n_outputs + 1), 7)[:, :n_outputs]
    targets = targets / targets.sum(axis=1, keepdims=True) if n_outputs > 1 else targets

    def value(arrays):
        outputs = forward(arrays | constants, rows)[-1]
        return float(loss.value_and_grad(outputs, targets)[0].mean())

    gradients = gradients_of(arrays | constants, rows, targets, loss)
    assert set(gradients) == set(arrays)
    for name, array in arrays.items():
        for place in np.ndindex(array.shape):
            shifted = [dict(arrays), dict(arrays)]
            for sign, of in zip((1, -1), shifted, strict=True):
                of[name] = array.copy()
                of[name][place] += sign * 1e-6
            slope = (value(shifted[0]) - value(shifted[1])) / 2e-6
            assert gradients[name][place] == pytest.approx(slope, abs=2e-7)


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 9), st.integers(1, 9), st.floats(0.01, 10.0), st.integers(0, 99))
def test_symmetric_tables_have_no_zero(n, m, step, seed):
    values = 6 * step * np.random.RandomState(seed).standard_normal((n, m)).astype(np.float32)
    table = pack(values, SYMMETRIC, step)
    decoded = table.decoded()
    levels = decoded / np.float32(step)
    assert np.allclose(levels + 0.5, np.rint(levels + 0.5), atol=1e-4)
    assert np.abs(levels).max() <= 7.5 + 1e-4
    assert table.nbytes == -(-n * m // 2) + 4
    inside = np.abs(values) < 7.5 * step
    assert np.all(np.abs(decoded - values)[inside] <= step * 0.5001)


# -- What is stored --------------------------------------------------------------------------

PLANS = [
    Plan(TASK, (5,)),
    Plan(TASK, (5, 4), 3, ("int6", "int4")),
    Plan(TASK, (4, 4, 4), None, (SYMMETRIC, SYMMETRIC)),
    Plan(TASK, (6,), None, ("ternary", "int8"), n_steps=3),
    Plan(TASK, (6,), 2, ("int8", "int4"), is_asinh=True, n_steps=2, scaling_bytes=24),
    Plan(Task(16, 2), (3,), None, ("int4", "int4"), block=2),
]


@pytest.mark.parametrize("plan", PLANS, ids=str)
def test_a_network_takes_the_bytes_of_its_plan_and_predicts_as_its_stack(plan):
    X, y = rows_of(n_features=plan.task.n_features, n_classes=plan.task.n_classes)
    stack, examples = stack_of([Setting(plan)], X, y)
    inputs = inputs_of(plan, X, y, np.arange(len(X)))
    network = stack.network(inputs)
    assert network.nbytes == plan.nbytes
    outputs = held_out_outputs(stack, examples, [np.arange(len(X))])[0][0]
    # Jumps are rounded to eight bits when they are packed.
    tolerance = 0.1 if plan.n_steps else 1e-4
    assert np.allclose(network.outputs(X), outputs, atol=tolerance)


def test_json_values_are_the_setting():
    for setting in mlp.all_settings(TASK, 3000, 1024):
        assert mlp.setting_of(mlp.as_dict(setting), TASK) == setting


# -- Stacks ----------------------------------------------------------------------------------


@pytest.mark.parametrize("formats", [("int4", "int4"), (SYMMETRIC, SYMMETRIC)])
def test_padding_and_neighbours_change_nothing(formats):
    X, y = rows_of()
    wide = Setting(Plan(TASK, (6,), None, formats), noise=0.1)
    narrow = Setting(Plan(TASK, (4,), None, ("int6", formats[1])), noise=0.1, smoothing=0.1)
    together, examples = stack_of([wide, narrow], X, y, folds=2)
    subsets = [np.arange(len(X)), np.arange(len(X), 2 * len(X))]
    outputs = held_out_outputs(together, examples, subsets)
    for number, setting in enumerate((wide, narrow)):
        alone, examples = stack_of([setting], X, y, folds=2)
        expected = held_out_outputs(alone, examples, subsets)[0]
        assert np.allclose(outputs[number], expected, atol=2e-3)


def test_stacks_have_one_depth_and_one_input_map():
    plans = [replace(plan, task=TASK, block=1) for plan in PLANS]
    candidates = [Setting(plan) for plan in (*plans, *plans)]
    stacks = stacks_of(candidates, 1, 16, NUMPY)
    assert sorted(number for stack in stacks for number in stack) == list(range(len(candidates)))
    for stack in stacks:
        plans = [candidates[number].plan for number in stack]
        assert len({(len(plan.hidden), plan.rank is None, plan.kind) for plan in plans}) == 1


@pytest.mark.parametrize("library", ["strict", "torch"])
@pytest.mark.parametrize("n_steps", [0, 2])
def test_other_libraries_train_as_numpy_does(library, n_steps):
    if library == "torch":
        pytest.importorskip("torch")
    X, y = rows_of()
    settings = [Setting(Plan(TASK, (6,), n_steps=n_steps)), Setting(Plan(TASK, (4,)), noise=0.0)]
    settings[1] = replace(settings[1], plan=replace(settings[1].plan, n_steps=n_steps))
    devices = (NUMPY, Device(array_api_strict) if library == "strict" else find_device("torch"))
    stacks = [stack_of(settings, X, y, device=device, epochs=0.01) for device in devices]
    outputs = [held_out_outputs(*of, [np.arange(len(X))]) for of in stacks]
    assert np.allclose(*outputs, atol=2e-2)
    losses = [total_loss(stack, examples) for stack, examples in stacks]
    assert losses[0] == pytest.approx(losses[1], rel=1e-2)


# -- The search ------------------------------------------------------------------------------


@pytest.mark.parametrize("is_symmetric", [False, True])
@pytest.mark.parametrize("max_bytes", [200, 1024, 20_000])
@pytest.mark.parametrize("task", [Task(21, 3), Task(144, 10), Task(5, 0)])
def test_candidates_fit_the_budget(task, max_bytes, is_symmetric):
    depths = (2, 3) if is_symmetric else (1, 2)
    space = Space(task, max_bytes, 3000, depths, is_symmetric, 2 * (4 + 2 * task.n_features))
    first = first_settings(space)
    candidates = [*first, *small_settings(space)]
    for vary in variations(space).values():
        candidates += [each for best in first[:3] for each in vary(space, best)]
    assert candidates or max_bytes == 200
    assert all(each.plan.nbytes <= max_bytes for each in candidates)
    if is_symmetric:
        assert {name for each in candidates for name in each.plan.formats} <= {SYMMETRIC}


@pytest.mark.slow
@pytest.mark.parametrize("peer", [mlp_call, mlp_symmetric])
def test_a_call_on_few_rows_uses_folds(peer):
    X, y = make_moons(120, noise=0.2, random_state=0)
    X = X.astype(np.float32)
    network = peer.build({"max_bytes": 110, "effort": "quick"}, X, y, 0)
    assert network.nbytes <= 110
    assert np.mean(network.predict(X) == y) > 0.8
    if peer is mlp_call:
        again = peer.build({"max_bytes": 110, "effort": "quick"}, X, y, 0)
        assert np.array_equal(network.outputs(X), again.outputs(X))


def test_a_call_on_many_rows_holds_out_a_fifth():
    X, y = make_moons(2400, noise=0.2, random_state=0)
    X = X.astype(np.float32)
    network = mlp_call.build({"max_bytes": 200, "effort": "quick"}, X, y, 0)
    assert network.nbytes <= 200
    assert np.mean(network.predict(X) == y) > 0.95


@pytest.mark.slow
def test_a_regressor_predicts_numbers():
    random = np.random.RandomState(0)
    X = random.uniform(-1, 1, (300, 2)).astype(np.float32)
    y = np.sin(3 * X[:, 0]) + X[:, 1] ** 2
    y = (y - y.mean()) / y.std()
    network = mlp_regressor.build({"max_bytes": 300, "effort": "quick"}, X, y, 0)
    assert network.nbytes <= 300
    assert np.mean((network.predict(X) - y) ** 2) < 0.1


def test_tuned_settings_differ_in_shape_and_training():
    found = mlp.settings(Shape(3000, 21, 3), 1024)
    assert len({(str(of["hidden"]), of["rank"]) for of in found}) >= 4
    assert len({of["smoothing"] for of in found}) == 3
    assert any(of["n_steps"] for of in found)
