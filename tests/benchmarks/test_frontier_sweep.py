"""Cells in parallel processes, and the way back into the cache."""

import json
import subprocess
import sys

import numpy as np
import pytest

from benchmarks.frontier import data, measure, sweep
from benchmarks.frontier.rows import pack_rows, unpack_rows


def test_rows_survive_packing():
    for n in (1, 8, 2001):
        right = np.random.RandomState(n).rand(n) < 0.9
        assert np.array_equal(unpack_rows(pack_rows(right)), right)


def test_a_line_is_a_cell():
    for line in ("letter 4096 compact_call 2", "iris 256 shared_trees -"):
        assert str(sweep.cells_of(line)) == line


def test_the_plan_starts_with_the_goals_and_repeats_nothing():
    cells = sweep.plan()
    assert len(set(cells)) == len(cells)
    assert (cells[0].name, cells[0].budget) == ("letter", 1024)
    assert {(cell.name, cell.budget) for cell in cells} >= set(sweep.GOALS)
    assert all(cell.budget in data.budgets_of(cell.name) for cell in cells)
    assert all(cost > 0 for cost in sweep.estimates(cells))


def test_cells_are_chosen_by_patterns_and_left_out_where_they_are_done(tmp_path):
    path = tmp_path / "before.json"
    path.write_text(json.dumps({"cells": [["iris 256 compact_call 1", 2.0]]}))
    only = ["iris 256 compact_call *", "!* 3"]
    cells = [str(cell) for cell in sweep.chosen_cells(only, [path])]
    assert cells[:2] == ["iris 256 compact_call 0", "iris 256 compact_call 2"]
    assert "iris 256 compact_call 3" not in cells
    exact = sweep.chosen_cells(["iris 512 compact_call 0"], [])
    assert [str(cell) for cell in exact] == ["iris 512 compact_call 0"]


@pytest.mark.slow
def test_results_of_a_sweep_are_those_of_the_benchmark(tmp_path, monkeypatch):
    monkeypatch.setattr(measure, "FOLDER", tmp_path)
    out = tmp_path / "sweep.json"
    cells = [sweep.cells_of("iris 256 hist_gradient_boosting -")]
    sweep.Sweep(cells, 1, 120.0, out).run()
    document = json.loads(out.read_text())
    assert document["cells"][0][0] == str(cells[0])
    assert not document["failed"]
    sweep.merge([out])
    monkeypatch.setenv("KERNLET_FRONTIER_CACHED", "1")
    record = measure.measure(measure.cache_of("iris"), "iris", 256, "hist_gradient_boosting")
    assert len(record["accuracies"]) == 10
    assert np.mean(unpack_rows(record["right"][0])) == pytest.approx(
        record["accuracies"][0], abs=1e-4
    )
    assert record["made"][0]["device"] == "cpu"
    with pytest.raises(measure.NotMeasuredError):
        measure.measure(measure.cache_of("iris"), "iris", 256, "random_forest")


@pytest.mark.slow
def test_a_broken_cell_does_not_end_the_sweep(tmp_path):
    cells = [sweep.Cell("no such set", 256, "compact_call", 0)]
    run = sweep.Sweep(cells, 1, 60.0, tmp_path / "sweep.json")
    run.run()
    assert "no such set" in run.document["failed"][str(cells[0])]


@pytest.mark.slow
def test_a_sweep_needs_no_package_of_other_competitors():
    code = (
        "import sys\n"
        "for name in ('highspy', 'matplotlib', 'rich', 'safetensors', 'pandas', 'onnx'):\n"
        "    sys.modules[name] = None\n"
        "from benchmarks.frontier import sweep\n"
        "from benchmarks.competitors import COMPETITORS\n"
        "for name in ('compact_call', 'shared_trees', 'seeded_features', 'boosting_regressor'):\n"
        "    COMPETITORS[name]\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
