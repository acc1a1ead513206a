"""The benchmark of drift: its streams, runs and tables."""

import numpy as np
import pytest

from benchmarks.suites import drift
from benchmarks.suites.drift import MACHINES, accuracy_table, cost_table, draw_drift, run


def blobs(seed=0):
    """Two classes whose names change after half of the rows."""
    random = np.random.RandomState(seed)
    y = random.randint(2, size=1600)
    X = random.randn(1600, 3) + 3.0 * y[:, None]
    return X, np.where(np.arange(1600) < 800, y, 1 - y)


@pytest.fixture
def small_blocks(monkeypatch):
    monkeypatch.setattr(drift, "BLOCK_ROWS", 100)


@pytest.mark.slow
@pytest.mark.parametrize("name", MACHINES)
@pytest.mark.filterwarnings("ignore")
def test_every_machine_is_tested_on_a_block_before_it_learns_it(name, small_blocks):
    machine = MACHINES[name](0)
    accuracies, _ = run(machine, *blobs())
    assert len(accuracies) == 15
    assert accuracies[6] > 0.9
    assert accuracies[7] < 0.2  # the first block after the change
    adapts = name.startswith(("Compact", "the same", "MLP", "Nys", "RBF")) and "once" not in name
    assert (accuracies[-1] > 0.8) == adapts or "Proximal" in name
    assert 4 * 2 * 3 <= machine.nbytes < 20_000


def test_tables_and_picture(monkeypatch, small_blocks):
    monkeypatch.setattr(drift, "STREAMS", {"pendigits, turning": blobs})
    names = ("CompactKernelClassifier", "GaussianNB")
    records = [drift.measured("pendigits, turning", name, (0, 1)) for name in names]
    document = {"block_rows": 100, "records": records}
    assert accuracy_table(document).rows[0][1].startswith("**")
    assert len(cost_table(document).rows) == 2
    assert len(draw_drift(document).axes) == 8


def test_turned_and_permuted_streams_begin_as_they_were():
    board = drift.turning_board(0)
    assert board[0].shape == (10_000, 2)
    x, y = board[0][:100], board[1][:100]
    assert np.mean(np.floor(x).sum(axis=1) % 2 == y) > 0.95
