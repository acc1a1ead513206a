"""Estimators whose rows are read block by block end where the same rows in memory end."""

import dask.array as da
import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.svm import SVC

import kernlet
from kernlet import (
    MMDA,
    CentroidCondenser,
    ChunkingSyntheticClassifier,
    CompactKernelClassifier,
    CompactKernelRegressor,
    CompactNoveltyDetector,
    CompressedClassifier,
    HullPerceptronClassifier,
    KernelFisherDiscriminant,
    L1KernelClassifier,
    MinimalKernelClassifier,
    ProximalClassifier,
    TypicalCondenser,
)
from kernlet.chunking import estimator as chunking_estimator
from kernlet.compact import batches as compact_batches
from kernlet.condense import centroids as centroid_rows
from kernlet.rows import open_rows, source
from kernlet.rows.npy import open_npy
from kernlet.rows.source import ArrayRows
from support.many_rows import make_data

random = np.random.RandomState(0)
X = random.randn(3000, 3).astype(np.float32)
Y = np.digitize(X[:, 0] * X[:, 1] + 0.3 * random.randn(3000), [-0.4, 0.4])
WEIGHTS = random.randint(0, 3, len(Y))


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    monkeypatch.setattr(source, "_MOST_ROWS", 1024)


def npy(folder):
    np.save(folder / "rows.npy", X)
    return open_rows(folder / "rows.npy")


def parquet(folder):
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    for number, start in enumerate(range(0, 3000, 1300)):
        frame[start : start + 1300].to_parquet(
            folder / f"part{number}.parquet", row_group_size=500, index=False
        )
    return open_rows(folder)


def dask_array(folder):
    return da.from_array(X, chunks=(700, 3))


def memory_map(folder):
    np.save(folder / "rows.npy", X)
    return np.load(folder / "rows.npy", mmap_mode="r")


MACHINES = [
    ProximalClassifier(landmarks=50, gamma=0.5, random_state=0),
    ProximalClassifier(kernel="linear", class_weight=None),
    MMDA(2, n_landmarks=40, gamma=0.5, random_state=0),
    MMDA(1, n_landmarks=40, gamma=0.5, cache_size=0, tol=1e-8, random_state=0),
    CompactKernelClassifier(8, n_epochs=3, random_state=0),
    ChunkingSyntheticClassifier(6, n_runs=1, stage_sizes=[300], gamma=0.5, random_state=0),
    L1KernelClassifier(0.1, candidates=20, gamma=0.5, solver="tall", random_state=0),
    MinimalKernelClassifier(0.1, candidates=20, gamma=0.5, solver="tall", random_state=0),
]


MARKED = [
    pytest.param(
        machine,
        id=type(machine).__name__,
        marks=[pytest.mark.slow]
        if isinstance(machine, ChunkingSyntheticClassifier | MinimalKernelClassifier)
        else [],
    )
    for machine in MACHINES
]


def values(machine, rows):
    return getattr(machine, "decision_function", getattr(machine, "transform", None))(rows)


@pytest.mark.parametrize("make", [npy, parquet, dask_array, memory_map], ids=lambda f: f.__name__)
@pytest.mark.parametrize("machine", MARKED)
def test_the_machine_is_that_of_rows_in_memory(machine, make, tmp_path):
    rows = make(tmp_path)
    memory, other = clone(machine).fit(X, Y), clone(machine).fit(rows, Y)
    np.testing.assert_allclose(values(other, X), values(memory, X), rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(values(other, rows), values(other, X), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("gamma", ["scale", "mean_distance"])
@pytest.mark.parametrize("machine", MACHINES[:3], ids=lambda m: type(m).__name__)
def test_rules_for_gamma_are_those_of_rows_in_memory(machine, gamma, tmp_path):
    machine = clone(machine).set_params(gamma=gamma)
    memory, other = clone(machine).fit(X, Y), machine.fit(npy(tmp_path), Y)
    np.testing.assert_allclose(values(other, X), values(memory, X), atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("machine", MACHINES, ids=lambda m: type(m).__name__)
@pytest.mark.parametrize("make", [npy, dask_array], ids=lambda f: f.__name__)
def test_rows_of_no_weight_are_left_out_as_in_memory(machine, make, tmp_path):
    if isinstance(machine, ChunkingSyntheticClassifier | MinimalKernelClassifier):
        machine, make = clone(machine), npy  # one source is enough for slow machines
        if isinstance(machine, MinimalKernelClassifier):
            machine.set_params(max_lps=2)
    labels = np.where(WEIGHTS > 0, Y, 7)
    memory = clone(machine).fit(X, labels, WEIGHTS)
    other = clone(machine).fit(make(tmp_path), labels, WEIGHTS)
    assert other.classes_.tolist() == [0, 1, 2]
    np.testing.assert_allclose(values(other, X), values(memory, X), atol=1e-5)


@pytest.mark.parametrize("make", [npy, dask_array], ids=lambda f: f.__name__)
def test_means_are_those_of_rows_in_memory(make, tmp_path):
    memory, labels = CentroidCondenser(0.02, random_state=0).fit_resample(X, Y)
    means, other = CentroidCondenser(0.02, random_state=0).fit_resample(make(tmp_path), Y)
    np.testing.assert_array_equal(means, memory)
    np.testing.assert_array_equal(other, labels)


def test_means_of_classes_that_do_not_fit_into_memory(tmp_path, monkeypatch):
    whole = CentroidCondenser(0.02, random_state=0).fit(X, Y).condensation_
    monkeypatch.setattr(centroid_rows, "MAX_CLASS_BYTES", 12 * 300)
    found = CentroidCondenser(0.02, random_state=0).fit(npy(tmp_path), Y).condensation_
    assert found.sizes.sum() == len(Y)
    np.testing.assert_array_equal(np.bincount(found.codes, found.sizes), np.bincount(Y))
    assert np.all(found.inertia < 1.2 * whole.inertia)
    for code in range(3):  # what is said of the means holds: each row with the nearest
        means, own = found.rows[found.codes == code], X[code == Y]
        squares = ((own[:, None].astype(float) - means) ** 2).sum(axis=2).min(axis=1).sum()
        assert squares <= found.inertia[code] * (1 + 1e-6)


def test_labels_may_be_a_column(tmp_path):
    pd.DataFrame(X, columns=["a", "b", "c"]).assign(label=Y).to_parquet(tmp_path / "rows.parquet")
    rows = open_rows(tmp_path / "rows.parquet")
    machine = ProximalClassifier(kernel="linear").fit(rows, "label")
    assert machine.feature_names_in_.tolist() == ["a", "b", "c"]
    means, labels = CentroidCondenser(0.01, random_state=0).fit_resample(rows, "label")
    assert means.shape == (30, 3)
    assert set(labels) == {0, 1, 2}
    with pytest.raises(ValueError, match=r"open the rows with columns=\[\.\.\.\]"):
        machine.predict(open_rows(tmp_path / "rows.parquet", columns=["b", "a", "c"]))


def test_all_that_predict_take_sources(tmp_path):
    rows = npy(tmp_path)
    fisher = KernelFisherDiscriminant(gamma=0.5, n_landmarks=30, random_state=0).fit(X, Y)
    np.testing.assert_allclose(fisher.transform(rows), fisher.transform(X), atol=1e-6)
    regressor = CompactKernelRegressor(5, n_epochs=2, random_state=0).fit(X, X[:, 0])
    np.testing.assert_allclose(regressor.predict(rows), regressor.predict(X), atol=1e-6)
    small = CompressedClassifier(SVC(gamma=0.5), n_centers=10, random_state=0).fit(X[:300], Y[:300])
    np.testing.assert_array_equal(small.predict(rows), small.predict(X))
    np.testing.assert_allclose(small.decision_function(rows), small.decision_function(X), atol=1e-6)
    compact = CompactKernelClassifier(5, n_epochs=2, random_state=0).fit(X, Y)
    np.testing.assert_allclose(compact.predict_proba(rows), compact.predict_proba(X), atol=1e-6)
    kernlet.save(compact, tmp_path / "model.kernlet")
    loaded = kernlet.load(tmp_path / "model.kernlet")
    np.testing.assert_array_equal(loaded.predict(rows), loaded.predict(X))
    np.testing.assert_array_equal(loaded.predict(dask_array(None)), loaded.predict(X))


def test_bad_input_gets_a_sentence(tmp_path):
    rows = npy(tmp_path)
    with pytest.raises(ValueError, match="landmarks=None takes every row"):
        ProximalClassifier(landmarks=None).fit(rows, Y)
    with pytest.raises(ValueError, match='Use solver="landmarks"'):
        MMDA(solver="core").fit(rows, Y)
    with pytest.raises(TypeError, match="TypicalCondenser needs its rows in memory"):
        TypicalCondenser().fit(rows, Y)
    with pytest.raises(TypeError, match="KernelFisherDiscriminant needs its rows in memory"):
        KernelFisherDiscriminant().fit(rows, Y)
    with pytest.raises(ValueError, match="one class only"):
        CentroidCondenser().fit(rows, np.zeros(3000))
    with pytest.raises(ValueError, match="one class only"):
        ProximalClassifier().fit(rows, np.zeros(3000))
    bad = X.copy()
    bad[2999, 1] = np.inf
    for machine in (MACHINES[0], MACHINES[2], CentroidCondenser()):
        with pytest.raises(ValueError, match="contains infinity"):
            clone(machine).fit(ArrayRows(bad), Y)
    bad[2999, 1] = np.nan
    with pytest.raises(ValueError, match="contains NaN"):
        clone(MACHINES[4]).fit(ArrayRows(bad), Y)
    with pytest.raises(TypeError, match="CompactKernelRegressor needs its rows in memory"):
        CompactKernelRegressor().fit(rows, X[:, 0])
    with pytest.raises(TypeError, match="CompactNoveltyDetector needs its rows in memory"):
        CompactNoveltyDetector().fit(rows)
    with pytest.raises(TypeError, match="ProximalClassifier needs its rows in memory"):
        ProximalClassifier().partial_fit(rows, Y)
    for machine in MACHINES:
        with pytest.raises(ValueError, match="no rows"):
            clone(machine).fit(ArrayRows(X[:0]), Y[:0])


@pytest.mark.parametrize("hold", [True, False])
def test_compact_machines_from_a_file(tmp_path, monkeypatch, hold):
    """Held rows give the machine of memory; others are gone through in shuffled blocks."""
    X, y = make_data(3000)
    np.save(tmp_path / "X.npy", X)
    if not hold:
        monkeypatch.setattr(compact_batches, "CACHED_BYTES", 0)
    machine = CompactKernelClassifier(10, n_epochs=15, random_state=0)
    memory = clone(machine).fit(X, y)
    machine.fit(open_npy(tmp_path / "X.npy"), y)
    if hold:
        np.testing.assert_allclose(
            machine.decision_function(X), memory.decision_function(X), atol=1e-3
        )
    assert machine.score(X, y) == pytest.approx(memory.score(X, y), abs=0.03)
    np.testing.assert_array_equal(machine.predict(open_npy(tmp_path / "X.npy")), machine.predict(X))


def test_synthetic_points_from_a_file(tmp_path, monkeypatch):
    X, y = make_data(3000)
    np.save(tmp_path / "X.npy", X)
    rows = open_npy(tmp_path / "X.npy")
    machine = ChunkingSyntheticClassifier(6, n_runs=2, stage_sizes=[500], random_state=0, gamma=0.5)
    memory = clone(machine).fit(X, y)
    machine.fit(rows, y)
    np.testing.assert_allclose(machine.decision_function(rows), memory.decision_function(X))
    monkeypatch.setattr(chunking_estimator, "_MAX_LAST_SAMPLE", 1000)
    assert clone(machine).fit(rows, y).stages_[-1][0].n_rows == 1000


def test_others_say_that_they_need_memory():
    with pytest.raises(TypeError, match="HullPerceptronClassifier needs its rows in memory"):
        HullPerceptronClassifier().fit(da.zeros((5, 2)), np.arange(5) % 2)
