"""All exported forms of a machine predict the same, and packages are what their systems take."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from export.runners import CASES, RUNNERS, case
from kernlet import to_package
from kernlet.cli import main
from kernlet.export.rounding import clear_rows
from kernlet.export.targets import TARGETS
from support.exportable_models import classifier

#: Share of the rows whose class is that of Python, where features and tables are rounded further
#: than float32.
INTEGER_AGREEMENT = 0.95


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("runner", RUNNERS)
def test_every_form_predicts_what_python_predicts(runner, name, tmp_path):
    predict, arithmetic = RUNNERS[runner]
    machine = case(name)
    predicted, expected = predict(machine, tmp_path), machine.expected
    if machine.model.kind != "classifier":
        # rows of values; integers carry about three digits of the range
        spread = np.ptp(expected)
        error = {"float": 1e-4, "integer": 0.05}[arithmetic]
        assert_allclose(np.ravel(predicted), np.ravel(expected), atol=error * spread, rtol=1e-6)
        return
    assert len(predicted) == len(expected)
    if arithmetic == "integer":
        assert np.mean(predicted == expected) >= INTEGER_AGREEMENT
        return
    clear = clear_rows(machine.model, machine.model.outputs(machine.rows))
    assert len(clear) > 0.9 * len(expected)
    np.testing.assert_array_equal(predicted[clear], expected[clear])


def test_a_target_of_another_name_is_refused(tmp_path):
    model, _ = classifier("svc")
    with pytest.raises(ValueError, match=r"target='pico' is not one of .*arduino"):
        to_package(model, tmp_path / "p", "pico")
    assert not (tmp_path / "p").exists()


def test_options_are_checked(tmp_path):
    model, _ = classifier("svc")
    with pytest.raises(ValueError, match="arithmetic='fixed' is not one of auto, float, integer"):
        to_package(model, tmp_path / "p", "arduino", arithmetic="fixed")
    (tmp_path / "file").touch()
    with pytest.raises(ValueError, match="file is a file: give a folder"):
        to_package(model, tmp_path / "file", "arduino")


@pytest.mark.parametrize("target", TARGETS)
def test_files_of_others_are_kept_and_those_of_an_older_export_replaced(target, tmp_path):
    model, X = classifier("svc")
    package = to_package(model, tmp_path, target, X=X)
    written = {path: path.read_bytes() for path in package.files}
    assert set(package.files) == {path for path in tmp_path.rglob("*") if path.is_file()}
    to_package(model, tmp_path, target, X=X)
    for path in package.files:
        path.write_text("mine")
        with pytest.raises(ValueError, match=r"was not written by kernlet .*: give another folder"):
            to_package(model, tmp_path, target, X=X)
        assert path.read_text() == "mine"
        path.write_bytes(written[path])
    assert {path: path.read_bytes() for path in package.files} == written


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", ["Wär me 3", "class", "3d", "math", "print", "", "x" * 120, "中"])
def test_any_name_becomes_a_name_of_the_system(target, name, tmp_path):
    model, _ = classifier("svc")
    package = to_package(model, tmp_path, target, name=name)
    assert package.name.isidentifier()
    assert package.name.isascii()


def test_the_command_line_has_all_targets():
    (kind,) = [p for p in main.commands["export"].params if p.name == "kind"]
    assert {"c", "onnx", *TARGETS} <= set(kind.type.choices)
