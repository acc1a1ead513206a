"""The benchmark of regressors: machines within their bytes, verdicts, tables."""

import numpy as np
import pytest
from sklearn.metrics import r2_score

from benchmarks.frontier.data import Split
from benchmarks.suites import regression
from benchmarks.suites.regression import (
    COLUMNS,
    N_SETTINGS,
    PEERS,
    Fitted,
    Record,
    compare,
    compressed,
    tuned,
    verdict,
)

BUDGET = 300


def waves(n_rows=150):
    random = np.random.RandomState(0)
    X = random.uniform(-1, 1, (n_rows + 100, 4)).astype(np.float32)
    y = (2 * np.sin(3 * X[:, 0]) + X[:, 1]).astype(np.float32)
    y = (y - y.mean()) / y.std()
    return Split(X[:n_rows], y[:n_rows], X[n_rows:], y[n_rows:])


def r2(machine, data):
    record = Record()
    record.add(data, machine, 0.0)
    return record.scores[0]


@pytest.mark.parametrize("name", PEERS)
@pytest.mark.filterwarnings("ignore")
def test_a_peer_fits_its_bytes_and_is_better_without_a_limit(name):
    data, peer = waves(), PEERS[name]
    assert len(peer.limited) == len(peer.unlimited) == N_SETTINGS
    for setting in peer.limited[::3]:
        machine = peer.build(setting, data.X, data.y, 0, BUDGET)
        assert BUDGET / 10 < machine.nbytes <= BUDGET
    small = tuned(peer, data, 0, BUDGET, quick=True)
    large = tuned(peer, data, 0, None, quick=True)
    assert small.machine.nbytes < large.machine.nbytes
    assert 0.5 < r2(small.machine, data) < r2(large.machine, data) + 0.02


def test_an_svr_within_bytes_has_more_rows_where_they_are_inside_its_tube():
    data = waves()
    narrow, wide = (
        regression.build_svr(
            {"gamma": 1.0, "C": 10.0, "epsilon": epsilon}, data.X, data.y, 0, BUDGET
        )
        for epsilon in (0.001, 0.3)
    )
    assert r2(wide, data) > r2(narrow, data)


def test_a_compressed_svr_is_stored_within_its_bytes():
    data = waves()
    machine = compressed(data, 0, BUDGET, {"gamma": 1.0, "C": 10.0, "epsilon": 0.1})
    assert machine.nbytes <= BUDGET
    assert r2(machine, data) > 0.8


def test_r2_is_that_of_scikit_learn_and_equal_machines_are_tied():
    data = waves()
    mean = Fitted(lambda X: np.full(len(X), 0.3), 4)
    assert np.isclose(r2(mean, data), r2_score(data.y_test, np.full(100, 0.3)))
    ours, theirs = Record(), Record()
    for record in (ours, theirs):
        record.add(data, mean, 0.0)
    assert verdict(*compare(ours, theirs, "official")) == "tied"
    ours.losses = [of - 0.1 for of in ours.losses]
    assert verdict(*compare(ours, theirs, "official")) == "ahead"
    assert verdict(*compare(theirs, ours, "official")) == "behind"


@pytest.mark.parametrize("kind", ["official", "draws", "splits"])
def test_the_standard_error_is_that_of_seeds_and_rows(kind):
    random = np.random.RandomState(0)
    ours = Record(losses=list(random.rand(4, 50)))
    theirs = Record(losses=list(random.rand(4, 50)))
    rows = np.array(theirs.losses) - np.array(ours.losses)
    seeds = rows.mean(axis=1).var(ddof=1)
    expected = {
        "official": seeds / 4 + rows.mean(axis=0).var(ddof=1) / 50,
        "draws": seeds / 4 + rows.ravel().var(ddof=1) / 200,
        "splits": seeds * (1 / 4 + 3 / 7),
    }
    difference, error = compare(ours, theirs, kind)
    assert np.isclose(difference, rows.mean())
    assert np.isclose(error, np.sqrt(expected[kind]))


def test_no_target_is_among_its_features():
    assert all(column.target not in column.features for column in COLUMNS.values())


@pytest.mark.slow
def test_the_quick_run_makes_all_tables():
    tables = list(regression.regression(quick=True))
    assert len(tables) == 7
    assert all(table.rows for table in tables[:-1])
