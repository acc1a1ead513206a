"""Programs of the device benchmark predict what Python predicts; pairs follow the stated rule."""

import numpy as np
import pytest

from benchmarks.device import measure, ours, summary
from benchmarks.device.data import three_way
from benchmarks.device.peers import FAMILIES
from benchmarks.device.picture import draw_device
from kernlet import to_c
from kernlet.export.toolchain import TARGETS

_SMALL = {
    "emlearn-inline": [
        {"model": "tree", "n_trees": 1, "leaves": 8, "leaf_bits": 0, "method": "inline"},
        {"model": "extra trees", "n_trees": 5, "leaves": None, "leaf_bits": 0, "method": "inline"},
    ],
    "emlearn-tables": [
        {"model": "forest", "n_trees": 5, "leaves": 8, "leaf_bits": 8, "method": "loadable"}
    ],
    "emlearn-mlp": [{"hidden": [8], "alpha": 1e-4}],
    "m2cgen-trees": [{"model": "forest", "n_trees": 3, "leaves": 8}],
    "m2cgen-svc": [{"n_rows": 50}],
    "micromlgen-trees": [{"model": "forest", "n_trees": 3, "leaves": 8}],
    "micromlgen-svc": [{"n_rows": 50}],
}


@pytest.fixture
def iris(tmp_path, monkeypatch):
    """Iris, with fitted machines and measurements in a temporary folder."""
    monkeypatch.setattr(ours, "FOLDER", tmp_path)
    monkeypatch.setattr(measure, "FOLDER", tmp_path)
    measure._cache.cache_clear()
    yield three_way("iris")
    measure._cache.cache_clear()


needs_gcc = pytest.mark.skipif(bool(TARGETS["host"].missing), reason="needs gcc")


@needs_gcc
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("family", FAMILIES)
def test_c_of_peers_predicts_as_their_models_do(iris, family):
    with np.errstate():  # emlearn changes the state of NumPy when it is imported
        pytest.importorskip(FAMILIES[family].library, reason="peers come with the extra bench")
    for setting in _SMALL[family]:
        program = FAMILIES[family].build(iris, setting)
        X = np.concatenate([iris.X, iris.X_test])
        np.testing.assert_array_equal(program.labels(X), program.predict(X))
    assert np.geterr()["under"] == "ignore"


@needs_gcc
@pytest.mark.skipif(bool(TARGETS[measure.TARGET].missing), reason="needs arm-none-eabi-gcc")
def test_our_program_has_the_size_of_its_report(iris, tmp_path):
    program = ours.program(iris, {"max_bytes": 256}, arithmetic="float")
    assert np.mean(program.labels(iris.X_test) == iris.y_test) > 0.8
    flash, ram = program.flash(measure.TARGET)
    source = to_c(ours.machine(iris, 256), tmp_path / "c", X=iris.X)
    sizes = {size.target: size for size in source.size_report(emulate=False)}
    assert abs(flash - sizes[measure.TARGET].flash) < 40  # of the call
    assert ram == sizes[measure.TARGET].ram


def record(family, validation, flash, instructions, **setting):
    figures = {"flash": flash, "instructions": instructions, "ram": 0, "stack": 8}
    return {
        "set": "toy",
        "family": family,
        "setting": setting,
        "validation": validation,
        "test": validation - 0.01,
        **figures,
    }


def document(*records):
    facts = {"validation_rows": 900, "test_rows": 900, "test_error": 0.01}
    titles = {
        ours.INTEGER: "integer",
        ours.FLOAT: "float",
        "m2cgen-svc": "SVC",
        "emlearn-mlp": "MLP",
    }
    return {"families": titles, "sets": {"toy": facts}, "missing": {}, "records": list(records)}


def test_the_front_has_what_is_smaller_or_more_accurate():
    records = [record("m2cgen-svc", v, f, 1) for v, f in ((0.8, 10), (0.9, 20), (0.85, 30))]
    assert measure.front(records[::-1]) == records[:2]


def test_the_best_peer_is_the_smallest_within_one_standard_error():
    machine = record(ours.INTEGER, 0.9, 1000, 5000, max_bytes=1024)
    near = record("m2cgen-svc", 0.891, 3000, 4000, n_rows=50)
    far = record("emlearn-mlp", 0.88, 500, 100, hidden=[4])
    larger = record("emlearn-mlp", 0.95, 9000, 100, hidden=[8])
    page = document(machine, near, far, larger)
    assert summary.best_peer(page, machine) == near
    judged, refused = summary.peer_table(page).rows
    assert judged[-2:] == ["3", "0.8"]
    assert len(refused) == len(judged)
    assert refused[1] == "2,048, 4,096 bytes"
    assert refused[2] == "refused: not exported"
    assert summary.best_peer(document(machine), machine) is None


def test_tables_and_picture_are_made_of_every_record():
    middle = record(ours.INTEGER, 0.9, 1000, 5000, max_bytes=summary.MIDDLE)
    forest = {"model": "forest", "n_trees": 5, "leaves": 64, "leaf_bits": 8}
    page = document(middle, record("m2cgen-svc", 0.95, 3000, 400, n_rows=50))
    page["records"].append(record("emlearn-mlp", 0.5, 700, 40, **forest))
    rows = summary.family_table(page, "toy").rows
    assert [row[0] for row in rows] == ["integer, 2,048 bytes", "float", "SVC, 50 rows", "MLP"]
    assert rows[-1][1].startswith("not reached: at most 49.00 %")
    assert summary.accuracy_table(page).rows[0][5:7] == ["not reached", "at most 89.00 %"]
    assert summary.flash_table(page).rows[0][2:] == ["89.00 %", "-", "-", "49.00 %"]
    assert summary.small_target_table(page).rows == [["toy", "-", "-", "-", "-"]]
    assert len(draw_device(page).axes) == 6
