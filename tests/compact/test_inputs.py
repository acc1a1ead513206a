"""What a compact network sees of a row: scaling, asinh, steps and block means."""

from copy import copy

import array_api_strict
import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis.extra import numpy as hnp
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.tree import DecisionTreeClassifier

from kernlet import CompactKernelClassifier
from kernlet.compact import batches as batches_module
from kernlet.compact.batches import BatchLoader
from kernlet.compact.images import block_means, image_side
from kernlet.compact.inputs import (
    Inputs,
    Steps,
    asinh_columns,
    asinh_inputs,
    block_inputs,
    tree_steps,
)
from kernlet.compact.plan import StoragePlan
from kernlet.devices import NUMPY, Device, to_numpy
from kernlet.quantization import FORMATS, QuantizedExpansion, encode, encode_steps
from naive import mapped_row

RNG = np.random.default_rng(0)
N_ROWS = 120
X = np.exp(RNG.normal(size=(N_ROWS, 4))) * [1.0, 10.0, 0.1, 3.0]
X[:, 3] = np.where(X[:, 3] > 3, 7.0, -2.0)
Y = ((X[:, 0] > 1.3) ^ (X[:, 1] > 8)).astype(int)
WEIGHTS = RNG.uniform(0.5, 2, N_ROWS)
TRAIN = np.arange(0, N_ROWS, 2)


def plan(is_asinh=False, n_steps=0, block=1):
    return StoragePlan(4, 2, 1, is_asinh=is_asinh, n_steps=n_steps, block=block)


def loader(rows=X, targets=Y, table=None, **options):
    table = np.eye(2) if table is None else table
    return BatchLoader(rows, targets, WEIGHTS, table=table, **options)


def rows_of(batches, numbers=None):
    numbers = np.arange(batches.n_rows) if numbers is None else numbers
    return to_numpy(batches.rows(batches.as_indices(numbers)))


# -- The map ---------------------------------------------------------------------------------


NUMBERS = st.floats(-1e3, 1e3, width=32)


@settings(max_examples=50, deadline=None)
@given(st.data())
def test_rows_are_those_of_the_slow_twin(data):
    n_features = data.draw(st.integers(1, 4))
    dtype = data.draw(st.sampled_from([np.float32, np.float64]))
    rows = data.draw(hnp.arrays(dtype, (3, n_features), elements=NUMBERS))
    shift = data.draw(hnp.arrays(np.float32, n_features, elements=NUMBERS))
    scale = data.draw(hnp.arrays(np.float32, n_features, elements=st.floats(0.5, 100, width=32)))
    n_steps, is_asinh = data.draw(st.integers(0, 5)), data.draw(st.booleans())
    features = data.draw(hnp.arrays(np.intp, n_steps, elements=st.integers(0, n_features - 1)))
    thresholds = data.draw(hnp.arrays(np.float16, n_steps, elements=st.floats(-9, 9, width=16)))
    packed = [encode(values, FORMATS["float32"]) for values in (shift, scale)]
    inputs = Inputs(*packed, is_asinh, Steps(features, thresholds) if n_steps else None)
    mapped = inputs(rows)
    assert mapped.dtype == np.float32
    slow = [
        mapped_row(x, shift, scale, is_asinh=is_asinh, features=features, thresholds=thresholds)
        for x in rows
    ]
    assert_array_equal(mapped[:, :n_features], inputs.map(rows))
    assert_allclose(mapped[:, :n_features], np.array(slow)[:, :n_features], rtol=1e-6)
    assert_array_equal(mapped[:, n_features:], np.array(slow)[:, n_features:])


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 4), st.integers(1, 3), st.integers(0, 100))
def test_block_means_are_those_of_the_slow_twin(n_blocks, block, seed):
    rows = np.random.default_rng(seed).normal(size=(3, (n_blocks * block) ** 2))
    inputs = Inputs(0.5, 2.0, block=block)
    slow = np.array([mapped_row(x, 0.5, 2.0, block=block) for x in rows])
    assert_allclose(inputs(rows), slow, rtol=1e-6, atol=1e-7)
    assert inputs(rows).shape[1] == n_blocks**2


def test_mapping_copies():
    for dtype in (np.float16, np.float32, np.float64):
        rows = np.ones((2, 16), dtype)
        for inputs in (Inputs(), Inputs(1.0, 2.0), Inputs(is_asinh=True), Inputs(block=2)):
            inputs(rows)[:] = 5
            assert_array_equal(rows, 1)


def test_block_means_of_other_than_square_images_are_refused():
    with pytest.raises(ValueError, match=r"X has 15 columns.*3 x 3 has 9, 4 x 4 has 16.*leave"):
        image_side(15)
    with pytest.raises(ValueError, match="Images of 3 x 3 pixels cannot be divided"):
        block_means(np.ones((2, 9)), 2)
    with pytest.raises(ValueError, match="one shift and one scale"):
        Inputs(block=2, is_asinh=True)


# -- Constants -------------------------------------------------------------------------------


def test_asinh_constants_of_a_normal_column_are_median_and_deviation():
    rows = np.random.default_rng(0).normal([5.0, -100.0], [2.0, 30.0], size=(20_000, 2))
    shift, scale = asinh_columns(rows)
    assert_allclose(shift, [5, -100], rtol=0.02)
    assert_allclose(scale, [2, 30], rtol=0.03)


def test_special_columns():
    rare = np.zeros(100)
    rare[:3] = 1, 5, 9
    rows = np.column_stack([np.tile([3.0, 8.0], 50), rare, np.full(100, 4.0), np.zeros(100)])
    shift, scale = asinh_columns(rows)
    mapped = np.arcsinh((rows - shift) / scale)
    assert_allclose(mapped[:2, 0], [0, 1], atol=1e-12)  # two values
    assert scale[1] == pytest.approx(rare.std())  # q90 = q10
    assert_array_equal(mapped[:, 2:], 0)  # constants
    assert (scale > 0).all()


@pytest.mark.parametrize(("offset", "name"), [(0.0, "float16"), (12_345.678, "float32")])
def test_formats_are_those_of_all_rows(offset, name):
    # Only some rows lie where float16 cannot hold a median to a quarter of the deviation.
    rows = np.random.default_rng(0).normal(size=(200, 2))
    rows[10:, 1] = offset + rows[10:, 1]
    everything = asinh_inputs(rows, rows)
    assert everything.shift.format.name == name
    for part in (rows[:10], rows[10:]):
        inputs = asinh_inputs(part, rows)
        assert inputs.shift.format.name == name
        assert inputs.scaling_bytes == everything.scaling_bytes
        assert (inputs.scale.decoded() > 0).all()


def test_block_means_have_mean_0_and_deviation_1():
    rows = np.random.default_rng(0).normal(3, 5, size=(300, 16))
    weights = np.where(np.arange(300) < 200, 1.0, 0.0)
    inputs = block_inputs(rows, weights, 2)
    mapped = inputs(rows)[:200]
    assert mapped.mean() == pytest.approx(0, abs=1e-6)
    assert mapped.std() == pytest.approx(1, rel=1e-5)


# -- Thresholds ------------------------------------------------------------------------------


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 12), st.integers(0, 1000), st.booleans())
def test_thresholds_are_splits_of_the_tree_and_no_row_changes_its_side(n_steps, seed, is_number):
    random = np.random.default_rng(seed)
    rows = random.normal(size=(60, 3)).astype(np.float32)
    classes = random.integers(3, size=60)
    targets = random.normal(size=(60, 2)) if is_number else classes
    steps = tree_steps(rows, targets, np.ones(60), n_steps)
    assert len(steps.features) == n_steps
    assert steps.thresholds.dtype == np.float16
    assert len(set(zip(steps.features, steps.thresholds, strict=True))) == n_steps
    if not is_number:
        tree = DecisionTreeClassifier(max_leaf_nodes=n_steps + 1, random_state=0)
        tree = tree.fit(rows, classes, np.ones(60)).tree_
        splits = tree.children_left >= 0
        sides = {
            (int(d), tuple(rows[:, d] > t))
            for d, t in zip(tree.feature[splits], tree.threshold[splits], strict=True)
        }
        ours = {
            (int(d), tuple(rows[:, d] > np.float32(t)))
            for d, t in zip(steps.features, steps.thresholds, strict=True)
        }
        assert sides <= ours


def test_fewer_steps_are_the_first_of_more():
    rows = np.random.default_rng(0).normal(size=(200, 3)).astype(np.float32)
    classes = ((rows[:, 0] > 0.3) ^ (rows[:, 1] > -0.2)).astype(int)
    many = tree_steps(rows, classes, np.ones(200), 100)
    unused = many.thresholds == np.finfo(np.float16).max
    assert 0 < unused.sum() < 100  # the tree is pure before
    assert not (rows[:, many.features[unused]] > many.thresholds[unused]).any()
    for n_steps in (1, 2, 5, 99):
        few = tree_steps(rows, classes, np.ones(200), n_steps)
        assert_array_equal(few.features, many.features[:n_steps])
        assert_array_equal(few.thresholds, many.thresholds[:n_steps])


def test_a_tie_in_float16_goes_to_the_side_below():
    # Midway between neighbours of float16: it rounds to even, here up to the higher number.
    low, high = np.float16(1 + 2**-10), np.float16(1 + 2 * 2**-10)
    rows = np.array([[low], [high]], dtype=np.float32)
    steps = tree_steps(rows, np.array([0, 1]), np.ones(2), 1)
    assert_array_equal(rows[:, 0] > steps.thresholds.astype(np.float32), [False, True])


def test_weights_decide_and_pure_rows_need_no_step():
    rows = np.array([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]], np.float32).repeat(5, axis=0)
    classes = rows[:, 0].astype(int)
    classes[:5] = 1 - classes[:5]
    heavy = np.where(np.arange(20) < 5, 1e-6, 1.0)
    assert tree_steps(rows, classes, heavy, 1).features[0] == 0
    largest = np.finfo(np.float16).max
    assert_array_equal(tree_steps(rows, np.zeros(20, int), np.ones(20), 3).thresholds, largest)
    beyond = rows * 1e6 + 1e6
    assert_array_equal(tree_steps(beyond, classes, heavy, 1).thresholds, largest)


# -- The loader ------------------------------------------------------------------------------

KINDS = [plan(True), plan(False, 5), plan(True, 5)]


@pytest.mark.parametrize("device", [NUMPY, Device(array_api_strict)], ids=["numpy", "strict"])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("container", [np.asarray, sparse.csr_array, lambda X: X.astype("f4")])
@pytest.mark.parametrize("cached_bytes", [2**30, 0])
def test_rows_of_a_plan(monkeypatch, device, kind, container, cached_bytes):
    monkeypatch.setattr(batches_module, "CACHED_BYTES", cached_bytes)
    base = loader(container(X), device=device, inputs=Inputs(1.0, 2.0))
    batches = base.for_plan(kind, TRAIN)
    n_columns = 4 + kind.n_steps
    assert (batches.n_features, batches.n_steps, batches.n_columns) == (4, kind.n_steps, n_columns)
    assert base.scaling_bytes_of(kind.is_asinh, 1) == batches.inputs.scaling_bytes
    rows = rows_of(batches)
    assert rows.dtype == np.float32
    assert_allclose(rows, batches.inputs(X), rtol=1e-4, atol=1e-5)
    assert set(np.unique(rows[:, 4:])) <= {0.0, 1.0}
    numbers = np.array([3, 50, 7])
    assert_array_equal(rows_of(batches.subset(numbers), np.arange(3)), rows[numbers])
    assert_array_equal(
        to_numpy(batches.targets(batches.as_indices(numbers))), np.eye(2)[Y[numbers]]
    )
    assert base.for_plan(plan(), TRAIN) is base
    assert batches.for_plan(kind, TRAIN).inputs is batches.inputs


@pytest.mark.parametrize("kind", [*KINDS, plan(block=2)])
def test_constants_come_from_training_rows_alone(kind):
    rows = X if kind.block == 1 else np.tile(X, 4)
    changed, targets = rows.copy(), Y.copy()
    others = np.setdiff1d(np.arange(N_ROWS), TRAIN)
    changed[others] += RNG.normal(size=changed[others].shape)
    targets[others] = 1 - targets[others]
    ours = loader(rows).for_plan(kind, TRAIN)
    theirs = loader(changed, targets).for_plan(kind, TRAIN)
    assert_array_equal(rows_of(ours)[TRAIN], rows_of(theirs)[TRAIN])
    reversed_order = loader(rows).for_plan(kind, TRAIN[::-1].copy())
    assert_array_equal(rows_of(ours), rows_of(reversed_order))


def test_rows_of_no_weight_are_not_seen():
    weights = np.where(np.arange(N_ROWS) < 60, 1.0, 0.0)
    kind, everything = plan(True, 4), np.arange(N_ROWS)
    ours = BatchLoader(X, Y, weights, table=np.eye(2)).for_plan(kind, everything)
    alone = BatchLoader(X[:60], Y[:60], weights[:60], table=np.eye(2)).for_plan(kind, np.arange(60))
    assert_array_equal(rows_of(ours)[:60], rows_of(alone))


def test_a_sample_of_many_rows(monkeypatch):
    monkeypatch.setattr(batches_module, "_SAMPLE_ROWS", 50)
    kind = plan(True, 3)
    ours, again = (rows_of(loader().for_plan(kind, TRAIN)) for _ in range(2))
    assert_array_equal(ours, again)
    assert not np.array_equal(ours, rows_of(loader().for_plan(kind, TRAIN[:50])))


def test_loaders_of_plans_are_kept_but_not_pickled(monkeypatch):
    base = loader()
    first = base.for_plan(KINDS[0], TRAIN)
    assert base.for_plan(KINDS[0], TRAIN)._rows is first._rows
    assert base.for_plan(KINDS[0], TRAIN[1:])._rows is not first._rows
    assert first.for_plan(KINDS[1], TRAIN).inputs.kind == (False, 5, 1, False)
    assert first.for_plan(plan(), TRAIN).inputs is base.inputs
    assert base.subset(TRAIN).for_plan(KINDS[0], TRAIN)._rows is first._rows
    assert base._derived
    again = copy(base)
    vars(again).update(base.__getstate__())  # as in another process
    assert not again._derived
    assert_array_equal(rows_of(again.for_plan(KINDS[0], TRAIN)), rows_of(first))
    monkeypatch.setattr(batches_module, "CACHED_BYTES", 4 * N_ROWS * 5)
    small = loader()
    for kind in KINDS[:1] * 2 + [plan(True, 1)]:
        small.for_plan(kind, TRAIN)
    assert len(small._derived) == 1


def test_tables_of_targets_stay_with_their_loader():
    base = loader()
    other = base.with_table(np.array([[0.1, 0.9], [0.9, 0.1]]))
    for batches in (other, base):
        assert_array_equal(batches.for_plan(KINDS[0], TRAIN).targets(TRAIN), batches.targets(TRAIN))


def test_regression_targets_give_thresholds():
    targets = np.where(X[:, :1] > 1.3, 5.0, -5.0)
    batches = BatchLoader(X, targets, np.ones(N_ROWS)).for_plan(plan(n_steps=1), TRAIN)
    assert_array_equal(rows_of(batches)[:, 4][TRAIN], (targets > 0)[:, 0][TRAIN])


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 1000), st.booleans(), st.sampled_from([np.float32, np.float64]))
def test_the_stored_machine_has_every_row_on_the_same_side(seed, is_asinh, dtype):
    random = np.random.default_rng(seed)
    # Few values per column, some of them equal to thresholds.
    rows = (random.integers(-3, 4, size=(60, 3)) * [1.0, 0.1, 7.3] + [0.0, 100.0, -5.0]).astype(
        dtype
    )
    batches = BatchLoader(rows, random.integers(2, size=60), np.ones(60), table=np.eye(2))
    batches = batches.for_plan(plan(is_asinh, 6), np.arange(40))
    inputs, jumps = batches.inputs, 100.0 * np.arange(1, 7)
    u, above = np.split(rows_of(batches), [3], axis=1)
    steps = encode_steps(*inputs.steps, jumps, 3)
    machine = QuantizedExpansion(
        1.0,
        encode(np.zeros((1, 3)), FORMATS["float32"]),
        encode(np.ones((1, 1)), FORMATS["float32"]),
        np.zeros(1, np.float32),
        inputs.shift,
        inputs.scale,
        steps=steps,
        is_asinh=is_asinh,
    )
    again = Inputs.of(machine)
    assert again.kind == inputs.kind
    assert_array_equal(again(rows), rows_of(batches))
    expected = u.copy()
    for number, feature in enumerate(inputs.steps.features):
        expected[:, feature] += above[:, number] * steps.jumps.decoded()[number]
    assert_allclose(machine.input_map(rows), expected, rtol=1e-5, atol=1e-4)


def test_a_machine_that_is_trained_further_keeps_its_map():
    machine = CompactKernelClassifier(4, n_steps=5, n_epochs=2, random_state=0).fit(X, Y)
    further = CompactKernelClassifier(4, n_epochs=2, random_state=1, init=machine)
    further.fit(X[TRAIN] * [1, 1, 1, -1], Y[TRAIN])  # other rows
    first, second = (Inputs.of(each.expansion_) for each in (machine, further))
    assert first.kind == second.kind
    assert_array_equal(first(X), second(X))
