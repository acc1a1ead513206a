"""Tuning, refitting and resuming an interrupted run."""

from types import SimpleNamespace

import numpy as np
import pytest

from benchmarks.frontier import measure
from benchmarks.frontier.data import Split
from benchmarks.frontier.run import named
from papers.cache import ResultCache


class Constant:
    """Always the same class, with a given number of bytes."""

    n_centers = None

    def __init__(self, label, nbytes):
        self.label, self.nbytes = label, nbytes

    def predict(self, X):
        return np.full(len(X), self.label)


@pytest.fixture
def builds(monkeypatch):
    """A competitor that notes what it builds: setting 1 is right, and grows with the rows."""
    noted = []

    def build(setting, X, y, seed):
        noted.append((setting["label"], seed))
        return Constant(setting["label"], setting["bytes"] + len(X))

    settings = [{"label": 0, "bytes": 10}, {"label": 1, "bytes": 20}, {"label": 1, "bytes": 0}]
    competitor = SimpleNamespace(
        TITLE="constant",
        IS_KERNLET=False,
        IS_RANDOM=True,
        VERSION=1,
        settings=lambda shape, max_bytes: settings,
        build=build,
    )
    rows = np.zeros((30, 2), np.float32)
    labels = np.tile([1, 1, 0], 10)
    data = Split(rows, labels, rows[:9], labels[:9])
    monkeypatch.setitem(measure.COMPETITORS, "constant", competitor)
    monkeypatch.setattr(measure, "split", lambda name, seed: data)
    part = [(np.arange(20), np.arange(20, 30))]
    monkeypatch.setattr(measure, "folds", lambda name, data: part)
    monkeypatch.setattr(measure, "final_folds", lambda name, data: part * 2)
    monkeypatch.setattr(measure, "budgets_of", lambda name: ())
    monkeypatch.setattr(measure, "seeds_of", lambda name: range(2))
    monkeypatch.setattr(measure, "has_test_set", lambda name: True)
    return noted


def test_the_best_validated_setting_that_fits_is_measured(builds, tmp_path):
    record = measure.measure(ResultCache(tmp_path / "cache.json"), "any", 100, "constant")
    assert record["fits"]
    assert record["setting"] == {"label": 1, "bytes": 20}
    assert record["accuracies"] == pytest.approx([6 / 9] * 2, abs=1e-4)
    assert record["nbytes"] == 50
    assert record["n_settings"] == 3


def test_a_setting_that_outgrows_the_bytes_gives_way_to_the_next(builds, tmp_path):
    record = measure.measure(ResultCache(tmp_path / "cache.json"), "any", 45, "constant")
    assert record["setting"] == {"label": 1, "bytes": 0}  # the other one takes 50 on all rows


def test_only_the_best_that_fit_are_judged_again_and_that_decides(builds, tmp_path, monkeypatch):
    settings = [{"label": label, "bytes": 10 * i} for i, label in enumerate([0, 1, 1, 0, 1, 0])]
    measure.COMPETITORS["constant"].settings = lambda shape, max_bytes: settings
    few = [(np.arange(20), np.arange(20, 30))]
    many = [(np.arange(25), np.array([2, 5, 8, 11, 0]))]  # where class 0 is right
    monkeypatch.setattr(measure, "folds", lambda name, data: few)
    monkeypatch.setattr(measure, "final_folds", lambda name, data: many)
    record = measure.measure(ResultCache(tmp_path / "cache.json"), "any", 100, "constant")
    # class 1 is best on few rows: its three settings are the finalists, none of class 0 is
    assert record["setting"] == {"label": 1, "bytes": 10}
    assert record["validated"] == pytest.approx(1 / 5)
    assert len(builds) == len(settings) + 3 + 2
    # 25 rows and 40 bytes are too many: the best of class 0 moves up, and wins
    record = measure.measure(ResultCache(tmp_path / "cache.json"), "any", 60, "constant")
    assert record["setting"]["label"] == 0
    assert record["validated"] == pytest.approx(4 / 5)


def test_what_was_best_in_fewer_bytes_may_be_best_again(builds, tmp_path, monkeypatch):
    settings = {40: [{"label": 1, "bytes": 5}], 100: [{"label": 0, "bytes": 60}]}
    measure.COMPETITORS["constant"].settings = lambda shape, max_bytes: settings[max_bytes]
    monkeypatch.setattr(measure, "budgets_of", lambda name: (40, 100))
    record = measure.measure(ResultCache(tmp_path / "cache.json"), "any", 100, "constant")
    assert record["setting"] == {"label": 1, "bytes": 5}
    assert record["n_settings"] == 2


def test_what_does_not_fit_is_said(builds, tmp_path):
    record = measure.measure(ResultCache(tmp_path / "cache.json"), "any", 5, "constant")
    assert not record["fits"]
    assert "accuracies" not in record


def test_a_run_resumes_where_it_stopped(builds, tmp_path):
    path = tmp_path / "cache.json"
    first = measure.measure(ResultCache(path), "any", 100, "constant")
    n_builds = len(builds)
    assert n_builds == 3 + 3 * 2 + 2
    again = measure.measure(ResultCache(path), "any", 100, "constant")
    assert len(builds) == n_builds
    assert again == first
    measure.measure(ResultCache(path), "any", 45, "constant")  # one new setting, two seeds
    assert len(builds) == n_builds + 2


def test_another_version_is_measured_again(builds, tmp_path):
    path = tmp_path / "cache.json"
    measure.measure(ResultCache(path), "any", 100, "constant")
    n_builds = len(builds)
    measure.COMPETITORS["constant"].VERSION = 2
    measure.measure(ResultCache(path), "any", 100, "constant")
    assert len(builds) == 2 * n_builds


def test_a_setting_whose_training_breaks_down_is_not_chosen(builds, tmp_path):
    build = measure.COMPETITORS["constant"].build

    def breaking(setting, X, y, seed):
        if setting["bytes"] == 20:
            raise np.linalg.LinAlgError("singular")
        return build(setting, X, y, seed)

    measure.COMPETITORS["constant"].build = breaking
    record = measure.measure(ResultCache(tmp_path / "cache.json"), "any", 100, "constant")
    assert record["setting"] == {"label": 1, "bytes": 0}


def test_unknown_names_are_refused(monkeypatch):
    monkeypatch.setenv("KERNLET_FRONTIER_SETS", "sonar, mnist")
    assert named("KERNLET_FRONTIER_SETS", ("sonar", "mnist")) == ("sonar", "mnist")
    for wrong in ("sonar,moon", "sonar,"):
        monkeypatch.setenv("KERNLET_FRONTIER_SETS", wrong)
        with pytest.raises(ValueError, match="allowed are sonar, mnist"):
            named("KERNLET_FRONTIER_SETS", ("sonar", "mnist"))
    monkeypatch.delenv("KERNLET_FRONTIER_SETS")
    assert named("KERNLET_FRONTIER_SETS", ("sonar", "mnist")) == ("sonar", "mnist")
