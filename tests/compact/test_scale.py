"""Columns that are standardised inside the machine."""

import pickle
from dataclasses import replace

import array_api_strict
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.datasets import load_digits, load_iris, make_moons
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

import kernlet
from kernlet import CompactKernelClassifier, CompactKernelRegressor, compress
from kernlet.affine import ColumnRanges
from kernlet.compact import batches as batches_module
from kernlet.compact.batches import BatchLoader
from kernlet.compact.inputs import Inputs, column_scaling
from kernlet.devices import NUMPY, Device, to_numpy
from kernlet.quantization import PackedArray, encode_columns
from kernlet.rows import as_rows

FAST = {"n_epochs": 15, "random_state": 0}


def people(n_rows=1500, seed=0):
    """Ages, incomes, years as a customer and calls, unscaled; 15 % leave."""
    random = np.random.default_rng(seed)
    age, tenure = random.uniform(18, 90, n_rows), random.uniform(0, 20, n_rows)
    income = np.clip(random.lognormal(10.8, 0.6, n_rows), 1e4, 2e5)
    calls = random.integers(0, 50, n_rows)
    z = 1.5 * np.sin(age / 12) + 1.5 * (np.log(income) - 10.8) ** 2 - 0.15 * tenure
    z += 0.1 * (calls - 25) * (tenure < 5)
    return np.column_stack([age, income, tenure, calls]), (z > np.quantile(z, 0.85)).astype(int)


PEOPLE, LEAVES = people()
NEW_PEOPLE, NEW_LEAVES = people(seed=1)


def is_per_column(machine):
    return isinstance(machine.expansion_.scale, PackedArray)


def test_unscaled_columns_do_as_well_as_behind_a_scaler():
    machine = CompactKernelClassifier(40, random_state=0).fit(PEOPLE, LEAVES)
    piped = make_pipeline(StandardScaler(), CompactKernelClassifier(40, random_state=0))
    accuracies = [m.score(NEW_PEOPLE, NEW_LEAVES) for m in (machine, piped.fit(PEOPLE, LEAVES))]
    assert is_per_column(machine)
    assert not is_per_column(piped[-1])
    assert accuracies[0] > accuracies[1] - 0.01
    unscaled = CompactKernelClassifier(40, scale=False, random_state=0).fit(PEOPLE, LEAVES)
    assert unscaled.score(NEW_PEOPLE, NEW_LEAVES) < accuracies[0] - 0.03


@pytest.mark.parametrize("kind", [CompactKernelClassifier, CompactKernelRegressor])
@pytest.mark.parametrize("name", ["digits", "iris", "moons", "standardised", "one-hot"])
def test_nothing_changes_for_columns_alike(kind, name):
    X, y = load_digits(return_X_y=True) if name == "digits" else load_iris(return_X_y=True)
    if name == "moons":
        X, y = make_moons(200, noise=0.1, random_state=0)
    if name in ("standardised", "one-hot"):
        X, y = StandardScaler().fit_transform(PEOPLE), LEAVES
    if name == "one-hot":  # of rare values
        X = np.hstack([X, np.arange(len(X))[:, None] % 97 == np.arange(20)])
    auto, off = (kind(8, scale=scale, n_epochs=2, random_state=0) for scale in ("auto", False))
    auto.fit(X, y), off.fit(X, y)
    assert auto.nbytes_ == off.nbytes_
    assert_array_equal(*(m.expansion_.decision_values(X) for m in (auto, off)))


@pytest.mark.parametrize("storage", ["float32", "float16", "int8", "int4"])
@pytest.mark.parametrize("projection", [None, 3])
def test_scales_are_counted(storage, projection):
    options = {"storage": storage, "projection": projection, "n_epochs": 2, "random_state": 0}
    scaled = CompactKernelClassifier(5, **options).fit(PEOPLE, LEAVES)
    plain = CompactKernelClassifier(5, scale=False, **options).fit(PEOPLE, LEAVES)
    # two float16 numbers per column and two steps, in place of a shift and a scale
    assert scaled.nbytes_ == plain.nbytes_ + 2 * 2 * 4 + 2 * 4 - 8
    assert scaled.path_[-1].nbytes == scaled.nbytes_
    assert "standardised columns" in scaled.choice_
    assert "standardised" not in plain.choice_


@pytest.mark.parametrize("max_bytes", [120, 400])
def test_max_bytes_is_kept(max_bytes):
    machine = CompactKernelClassifier(max_bytes=max_bytes, n_epochs=3, random_state=0)
    machine.fit(PEOPLE, LEAVES)
    assert is_per_column(machine)
    assert machine.nbytes_ <= max_bytes
    assert all(point.nbytes <= max_bytes for point in machine.path_)


def test_scale_can_be_asked_for():
    X, y = make_moons(200, noise=0.1, random_state=0)
    machine = CompactKernelClassifier(8, scale=np.True_, **FAST).fit(X, y)
    assert_allclose(machine.expansion_.input_map.shift, X.mean(axis=0), rtol=1e-3)
    assert_allclose(1 / machine.expansion_.input_map.scale, X.std(axis=0), rtol=1e-3)
    with pytest.raises(ValueError, match="'scale' parameter"):
        CompactKernelClassifier(scale="standard").fit(X, y)


@pytest.mark.parametrize("cached_bytes", [2**30, 0])
@pytest.mark.parametrize("container", [np.float32, sparse.csr_array, as_rows])
def test_rows_of_every_kind_give_one_machine(container, cached_bytes, monkeypatch):
    monkeypatch.setattr(batches_module, "CACHED_BYTES", cached_bytes)
    X = np.where(PEOPLE > 8, PEOPLE, 0.0).astype(np.float32)  # the same numbers in every kind
    dense = CompactKernelClassifier(8, **FAST).fit(X.astype(np.float64), LEAVES)
    other = CompactKernelClassifier(8, **FAST).fit(container(X), LEAVES)
    assert is_per_column(other)
    for ours, theirs in zip(_map(dense), _map(other), strict=True):
        assert_allclose(ours, theirs, rtol=1e-6)
    values = other.decision_function(X.astype(np.float64))
    assert_allclose(other.decision_function(container(X)), values, rtol=1e-3, atol=1e-3)
    if cached_bytes or container is not as_rows:  # else read in another order
        expected = dense.decision_function(X.astype(np.float64))
        assert_allclose(values, expected, rtol=2e-2, atol=2e-2)


def _map(machine):
    return machine.expansion_.input_map.shift, machine.expansion_.input_map.scale


def test_weights_count_rows():
    weights = np.arange(len(PEOPLE)) % 3
    repeated = np.repeat(PEOPLE, weights, axis=0)
    ranges, kept = ColumnRanges.of(PEOPLE), weights > 0
    ours = ranges.standardising(PEOPLE[kept], weights[kept])
    assert_allclose(ours[0], repeated.mean(axis=0))
    assert_allclose(ours[1], repeated.std(axis=0))


def test_warm_start_and_init_keep_the_scale():
    machine = CompactKernelClassifier(8, warm_start=True, **FAST).fit(PEOPLE, LEAVES)
    before = _map(machine)
    machine.fit(PEOPLE * 2, LEAVES)
    assert_array_equal(_map(machine), before)
    refined = CompactKernelClassifier(init=machine, scale=False, n_epochs=1, random_state=0)
    assert_array_equal(_map(refined.fit(PEOPLE, LEAVES)), before)
    assert refined.nbytes_ == machine.nbytes_
    with pytest.raises(ValueError, match="takes 190 bytes, more than max_bytes=188"):
        CompactKernelClassifier(init=machine, max_bytes=188).fit(PEOPLE, LEAVES)


def test_a_machine_of_unscaled_columns_is_refined_as_it_is():
    X = PEOPLE[:300] * [1, 1e-3, 1, 1]
    svc = SVC(gamma=0.01).fit(X, LEAVES[:300])
    refined = CompactKernelClassifier(init=svc, n_epochs=1, random_state=0).fit(X, LEAVES[:300])
    assert not is_per_column(refined)
    scaled = CompactKernelClassifier(init=svc, scale=True, **FAST).fit(X, LEAVES[:300])
    assert is_per_column(scaled)
    assert scaled.score(X, LEAVES[:300]) > 0.85
    points = CompactKernelClassifier(init=PEOPLE[:20], n_epochs=1, random_state=0)
    assert is_per_column(points.fit(PEOPLE, LEAVES))
    assert points.n_centers_ == 20


def test_regression_on_unscaled_columns():
    y = np.sin(PEOPLE[:, 0] / 12) + np.log(PEOPLE[:, 1]) - 0.1 * PEOPLE[:, 2]
    machine = CompactKernelRegressor(40, random_state=0).fit(PEOPLE[:1000], 1e3 * y[:1000])
    assert is_per_column(machine)
    assert machine.score(PEOPLE[1000:], 1e3 * y[1000:]) > 0.9
    machine.set_params(warm_start=True).fit(PEOPLE, 1e3 * y)
    assert machine.score(PEOPLE, 1e3 * y) > 0.9


def test_files_and_pickles_hold_the_scales(tmp_path):
    machine = CompactKernelClassifier(8, storage="int4", **FAST).fit(PEOPLE, LEAVES)
    kernlet.save(machine, tmp_path / "m.kernlet")
    loaded = kernlet.load(tmp_path / "m.kernlet")
    for copy in (loaded.model_.expansion, pickle.loads(pickle.dumps(machine)).expansion_):
        assert copy.nbytes == machine.nbytes_
        assert_array_equal(copy.decision_values(PEOPLE), machine.expansion_.decision_values(PEOPLE))


@pytest.mark.parametrize(
    ("name", "changed", "sentence"),
    [
        ("scale", {"data": np.zeros(4, np.float16)}, "its scales are not positive"),
        ("shift", {"data": np.full(4, np.inf, np.float16)}, "hold NaN or infinity"),
        ("shift", {"data": np.zeros(3, np.float16), "shape": (3,)}, "several widths"),
    ],
)
def test_corrupt_scales_are_refused(name, changed, sentence, tmp_path):
    expansion = CompactKernelClassifier(8, **FAST).fit(PEOPLE, LEAVES).expansion_
    object.__setattr__(expansion, name, replace(getattr(expansion, name), **changed))
    with pytest.raises(ValueError, match=sentence):
        kernlet.save(expansion, tmp_path / "m.kernlet")


def test_columns_that_are_constant_binary_or_far_from_zero():
    random = np.random.default_rng(0)
    y = random.integers(0, 2, 600)
    X = np.column_stack(
        [
            random.normal(1e5, 3e4, 600),
            np.full(600, 7e6),
            random.random(600) < 0.02,
            np.where(random.random(600) < 0.3, 40.0, 10.0),
            2000 + 4 * y + random.normal(size=600),
            1.0 + 1e-9 * random.normal(size=600),
        ]
    )
    machine = CompactKernelClassifier(8, random_state=0).fit(X, y)
    mapped = machine.expansion_.input_map(X)
    assert np.abs(mapped[:, 1]).max() < 1e-3
    assert_array_equal(np.unique(mapped[:, 2]), [0, 1])
    assert_allclose(np.unique(mapped[:, 3]), [0, 1], atol=1e-3)
    assert np.abs(mapped[:, 4].mean()) < 0.25
    assert mapped[:, 4].std() == pytest.approx(1, abs=1e-3)
    assert np.ptp(mapped[:, 5]) < 1e-6
    assert machine.score(X, y) > 0.95


def test_numbers_beyond_float32_are_refused_in_one_column():
    X = PEOPLE * [1, 1e40, 1, 1]
    with pytest.raises(ValueError, match=r"go up to .*e[+]4., beyond what float32 can hold"):
        CompactKernelClassifier(8).fit(X, LEAVES)
    tiny = CompactKernelClassifier(8, **FAST).fit(PEOPLE * [1, 1, 1e-40, 1], LEAVES)
    assert np.isfinite(tiny.decision_function(PEOPLE)).all()


def test_float16_is_used_where_it_is_exact_enough():
    near, far = np.array([45.0, 9e4, 1e-3]), np.array([45.0, 9e4, 1e7])
    scale = np.array([20.0, 5e4, 1e-3])
    assert [a.format.name for a in encode_columns(near, scale)] == ["float16", "float16"]
    assert [a.format.name for a in encode_columns(far, scale)] == ["float32", "float16"]
    wide = np.array([1e-9, 5e4, 1.0])
    assert [a.format.name for a in encode_columns(0 * near, wide)] == ["float16", "float32"]
    assert_allclose(encode_columns(near, scale)[1].decoded(), scale, rtol=1e-3)


@pytest.mark.parametrize("device", [NUMPY, Device(array_api_strict)], ids=["numpy", "strict"])
def test_batches_are_what_the_stored_machine_sees(device):
    ones = np.ones(len(PEOPLE))
    shift, scale = column_scaling(PEOPLE, ColumnRanges.of(PEOPLE), ones, always=False)
    batches = BatchLoader(PEOPLE, ones[:, None], ones, inputs=Inputs(shift, scale), device=device)
    machine = CompactKernelClassifier(4, n_epochs=1, random_state=0).fit(PEOPLE, LEAVES)
    rows = to_numpy(batches.rows(batches.as_indices(np.arange(len(PEOPLE)))))
    assert_allclose(rows, machine.expansion_.input_map(PEOPLE), rtol=1e-5, atol=1e-6)
    assert_allclose(rows.std(axis=0), 1, rtol=1e-3)


def test_compress_takes_a_machine_of_scaled_columns():
    machine = CompactKernelClassifier(20, **FAST).fit(PEOPLE, LEAVES)
    piped = make_pipeline(StandardScaler(), CompactKernelClassifier(20, **FAST)).fit(PEOPLE, LEAVES)
    small, other = (compress(m, 12, PEOPLE, LEAVES, random_state=0) for m in (machine, piped))
    assert small.n_centers_ == 12
    accuracies = [m.score(NEW_PEOPLE, NEW_LEAVES) for m in (small, other)]
    assert accuracies[0] == pytest.approx(accuracies[1], abs=0.02)


# Columns far from zero


def offset_problem(offset, columns=slice(None)):
    rows = np.random.default_rng(0).normal(size=(300, 3))
    labels = rows[:, 0] + rows[:, 1] ** 2 > 0.5
    rows[:, columns] += offset
    return rows, labels


@pytest.mark.parametrize("offset", [10.0, 30.0, 1e3, 1e6])
@pytest.mark.parametrize("storage", ["float32", "int4"])
def test_a_column_far_from_the_others_costs_nothing(offset, storage):
    # One mean and deviation of all numbers would leave columns that hardly vary: 0.55 at 100.
    rows, labels = offset_problem(offset, 2)
    machine = CompactKernelClassifier(8, storage=storage, n_epochs=60, random_state=0)
    assert machine.fit(rows, labels).score(rows, labels) > 0.93
    assert isinstance(machine.expansion_.scale, PackedArray)


def test_a_constant_column_far_from_the_others_costs_nothing():
    rows, labels = offset_problem(0.0)
    rows = np.hstack([rows, np.full((300, 1), 1e6)])
    machine = CompactKernelClassifier(8, n_epochs=60, random_state=0).fit(rows, labels)
    assert machine.score(rows, labels) > 0.93


def test_columns_near_each_other_share_a_scale():
    rows, labels = offset_problem(3.0, 2)
    machine = CompactKernelClassifier(4, n_epochs=2, random_state=0).fit(rows, labels)
    assert not isinstance(machine.expansion_.scale, PackedArray)
    assert CompactKernelClassifier(4, n_epochs=2).fit(load_digits().data, load_digits().target)


@pytest.mark.parametrize("columns", [slice(None), 2])
@pytest.mark.parametrize("scale", ["auto", True, False])
def test_columns_that_float32_cannot_resolve_are_warned_of(columns, scale):
    rows, labels = offset_problem(1e15, columns)
    name = 0 if columns == slice(None) else 2
    machines = [
        CompactKernelClassifier(3, scale=scale, n_epochs=2, random_state=0),
        CompactKernelRegressor(3, scale=scale, n_epochs=2, random_state=0),
    ]
    for machine in machines:
        with pytest.warns(
            UserWarning, match=rf"^Column {name} varies by .* about 1e\+15, .*Standa"
        ):
            machine.fit(rows, labels.astype(float))
    machines[0].warm_start = True
    with pytest.warns(UserWarning, match="float32"):
        machines[0].fit(rows, labels.astype(float))


def test_columns_that_float32_resolves_are_not_warned_of(recwarn):
    for offset in (0.0, 1e3, 1e5):
        rows, labels = offset_problem(offset)
        CompactKernelClassifier(3, n_epochs=2, random_state=0).fit(rows, labels)
    assert not [warning for warning in recwarn if "float32" in str(warning.message)]
