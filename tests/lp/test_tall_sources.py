"""Machines of rows that are not in memory: files, Parquet, Dask and its workers."""

import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
from distributed import Client, LocalCluster
from sklearn.base import clone

from kernlet import (
    ChunkingSyntheticClassifier,
    CompactKernelClassifier,
    HullPerceptronClassifier,
    L1KernelClassifier,
    MinimalKernelClassifier,
)
from kernlet.chunking import estimator as chunking_synthetic
from kernlet.compact import network as compact_network
from kernlet.rows import dask as dask_rows
from kernlet.rows import open_rows, source
from kernlet.rows.source import open_npy
from support.tall_machines import KillOne, assert_same, make_data, make_machine

pq = pytest.importorskip("pyarrow.parquet")


@pytest.fixture
def small_blocks(monkeypatch):
    monkeypatch.setattr(source, "_MOST_ROWS", 1024)


@pytest.mark.parametrize("gamma", [0.5, "scale", "mean_distance"])
def test_rows_in_a_file_give_the_machine_of_rows_in_memory(tmp_path, small_blocks, gamma):
    X, y = make_data()
    np.save(tmp_path / "X.npy", X)
    rows = open_npy(tmp_path / "X.npy")
    memory = make_machine(gamma=gamma).fit(X, y)
    machine = make_machine(gamma=gamma).fit(rows, y)
    if gamma == 0.5:
        assert_same(machine, memory)
    np.testing.assert_allclose(machine.objective_, memory.objective_, rtol=1e-6)
    np.testing.assert_array_equal(machine.predict(rows), machine.predict(X))
    np.testing.assert_allclose(machine.decision_function(rows), machine.decision_function(X))


def test_labels_are_a_column_of_parquet_files_or_dataframes(tmp_path, small_blocks):
    X, y = make_data(n_classes=3)
    labels = np.array(["low", "middle", "high"])[y]
    frame = pd.DataFrame(X, columns=["a", "b", "c"]).assign(label=labels)
    frame.to_parquet(tmp_path / "rows.parquet", row_group_size=700)
    memory = make_machine().fit(X, labels)
    rows = open_rows(tmp_path / "rows.parquet")
    collection = dd.from_pandas(frame, npartitions=3)
    for given in (rows, collection):
        machine = make_machine().fit(given, "label")
        assert_same(machine, memory)
        assert machine.feature_names_in_.tolist() == ["a", "b", "c"]
    np.testing.assert_array_equal(
        machine.predict(collection.drop(columns="label")), memory.predict(X)
    )


@pytest.mark.parametrize("Classifier", [L1KernelClassifier, MinimalKernelClassifier])
def test_dask_arrays_without_a_cluster(small_blocks, Classifier):
    X, y = make_data()
    memory = make_machine(Classifier).fit(X, y)
    rows = da.from_array(X, chunks=(900, 3))
    assert_same(make_machine(Classifier).fit(rows, da.from_array(y)), memory)
    np.testing.assert_array_equal(memory.predict(rows), memory.predict(X))


def test_predictions_choose_the_features_of_training(tmp_path):
    X, y = make_data(6000)
    frame = pd.DataFrame(X, columns=["a", "b", "c"]).assign(label=y, more=0.0)
    frame.to_parquet(tmp_path / "rows.parquet")
    rows = open_rows(tmp_path / "rows.parquet")
    machine = make_machine().fit(open_rows(tmp_path / "rows.parquet", ["a", "b", "c"]), y)
    np.testing.assert_array_equal(machine.predict(rows), machine.predict(frame[["a", "b", "c"]]))


def kept_names():
    return len(dask_rows._worker_caches)


def test_workers_keep_blocks_within_their_share(small_blocks, monkeypatch):
    X, y = make_data()
    offered = []
    worker_cache = dask_rows.worker_cache

    def noted(name, max_bytes):
        cache = worker_cache(name, max_bytes)
        offered.append((max_bytes, len(cache._blocks)))
        return cache

    monkeypatch.setattr(dask_rows, "worker_cache", noted)
    rows = da.from_array(X, chunks=(1024, 3))
    for cache_size, n_kept in ((100, 8), (0.3, 2)):  # 1024 x 30 float32 take 0.12 MB
        machine = make_machine(cache_size=cache_size).fit(rows, y)
        assert_same(machine, make_machine().fit(X, y))
        assert offered[-1] == (int(cache_size * 2**20), n_kept)
        assert kept_names() == 0


def test_a_cluster_gives_the_serial_answer_and_may_lose_a_worker(small_blocks):
    X, y = make_data()
    memory = make_machine().fit(X, y)
    with (
        LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None
        ) as cluster,
        Client(cluster) as client,
    ):
        rows = da.from_array(X, chunks=(1024, 3)).persist()
        assert_same(make_machine().fit(rows, y), memory)
        assert_same(make_machine(cache_size=0.1).fit(rows, y), memory)  # a few blocks are kept
        assert set(client.run(kept_names).values()) == {0}
        killer = KillOne(client)
        machine = make_machine().set_callbacks(killer).fit(rows, y)
        assert killer.passes > 6
        assert_same(machine, memory)


@pytest.mark.parametrize("hold", [True, False])
def test_compact_machines_from_a_file(tmp_path, small_blocks, monkeypatch, hold):
    """Held rows give the machine of memory; others are gone through in shuffled blocks."""
    X, y = make_data(3000)
    np.save(tmp_path / "X.npy", X)
    if not hold:
        monkeypatch.setattr(compact_network, "CACHED_BYTES", 0)
    machine = CompactKernelClassifier(10, n_epochs=15, random_state=0)
    memory = clone(machine).fit(X, y)
    machine.fit(open_npy(tmp_path / "X.npy"), y)
    if hold:
        np.testing.assert_allclose(
            machine.decision_function(X), memory.decision_function(X), atol=1e-3
        )
    assert machine.score(X, y) == pytest.approx(memory.score(X, y), abs=0.03)
    np.testing.assert_array_equal(machine.predict(open_npy(tmp_path / "X.npy")), machine.predict(X))


def test_synthetic_points_from_a_file(tmp_path, small_blocks, monkeypatch):
    X, y = make_data(3000)
    np.save(tmp_path / "X.npy", X)
    rows = open_npy(tmp_path / "X.npy")
    machine = ChunkingSyntheticClassifier(6, n_runs=2, stage_sizes=[500], random_state=0, gamma=0.5)
    memory = clone(machine).fit(X, y)
    machine.fit(rows, y)
    np.testing.assert_allclose(machine.decision_function(rows), memory.decision_function(X))
    monkeypatch.setattr(chunking_synthetic, "_LARGEST_SAMPLE", 1000)
    assert clone(machine).fit(rows, y).stages_[-1][0].n_rows == 1000


def test_others_say_that_they_need_memory():
    with pytest.raises(TypeError, match="HullPerceptronClassifier needs its rows in memory"):
        HullPerceptronClassifier().fit(da.zeros((5, 2)), np.arange(5) % 2)
