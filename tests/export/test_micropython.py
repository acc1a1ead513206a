"""Machines in MicroPython: the integers of Python, bit by bit, from a small table file."""

import importlib.util
import json

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from safetensors.numpy import load as load_tensors

import kernlet
from export.runners import case
from kernlet import to_package
from kernlet.export.file import ModelFileError
from kernlet.export.micropython import _cells, _MicroPython
from kernlet.tables.dates import DateColumn
from kernlet.tables.encode import CategoryColumn, NumberColumn, OrdinalColumn
from support.exportable_models import classifier, regressor
from support.integer_modules import (
    FORMATS,
    expected_answers,
    made,
    random_models,
    rows_for,
    shaped_models,
)
from support.micropython_programs import run_cpython, run_micropython

_SCRIPT = """
import json
answers = {}
with open("cases.json") as file:
    cases = json.load(file)
for name, inputs, floats in cases:
    machine = __import__(name).load(name + ".kernlet")
    scores = [machine.scores(row) for row in inputs]
    answer = {"scores": [list(row) for row in scores]}
    floats = [[float("nan") if x is None else x for x in row] for row in floats]
    answer["from_floats"] = [list(machine.inputs(row)) for row in floats]
    if machine.classes is not None:
        answer["class_of"] = [[machine.class_number(row)] for row in scores]
    if "probabilities" in machine.settings:
        answer["probabilities"] = [machine.probabilities(row) for row in scores]
    if "multipliers" in machine.tables:
        answer["from_counts"] = [list(machine.from_counts(row)) for row in inputs]
    answers[name] = answer
print(json.dumps(answers))
"""
RUNNERS = {"cpython": run_cpython, "micropython": run_micropython}


def check(folder, run, modules):
    """Compare every function of modules with Python."""
    rows = {module.name: rows_for(module, 4) for module in modules}
    for module in modules:
        (folder / f"{module.name}.py").write_text(module.text, "utf-8")
        (folder / f"{module.name}.kernlet").write_bytes(module.table_file)
    cases = [(name, inputs.tolist(), floats.tolist()) for name, (inputs, floats) in rows.items()]
    (folder / "cases.json").write_text(json.dumps(cases).replace("NaN", "null"))
    (folder / "script.py").write_text(_SCRIPT)
    answers = json.loads(run(folder, "script.py"))
    for module in modules:
        for name, values in expected_answers(module, *rows[module.name]).items():
            answer = answers[module.name].pop(name)
            assert_array_equal(answer, values, err_msg=f"{module.name} {module.machine.kernel}")
        assert not answers[module.name]


def imported(package):
    """The machine of a package, by this Python."""
    spec = importlib.util.spec_from_file_location(package.name, package.files[0])
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.load(str(package.files[1]))


@pytest.mark.slow
@pytest.mark.parametrize("runner", RUNNERS)
@pytest.mark.parametrize("formats", FORMATS)
def test_every_shape_computes_the_integers_of_python(runner, formats, tmp_path):
    check(tmp_path, RUNNERS[runner], made(_MicroPython, shaped_models(formats), 16))


@pytest.mark.slow
@pytest.mark.parametrize("runner", RUNNERS)
@pytest.mark.parametrize("start", [0, 100])
def test_random_machines_compute_the_integers_of_python(runner, start, tmp_path):
    check(
        tmp_path, RUNNERS[runner], made(_MicroPython, random_models(range(start, start + 60)), 40)
    )


def test_labels_values_and_probabilities(tmp_path):
    model, X = classifier("compact steps")
    machine = imported(to_package(model, tmp_path / "c", "micropython", X=X))
    labels = [machine.predict(row) for row in X[::3].tolist()]
    assert np.mean(labels == model.predict(X[::3])) > 0.95
    probabilities = [machine.predict_proba(row) for row in X[::7].tolist()]
    assert np.abs(probabilities - model.predict_proba(X[::7])).max() < 0.01
    model, X = regressor("unlike columns")
    machine = imported(to_package(model, tmp_path / "r", "micropython", X=X))
    values = [machine.predict(row) for row in X[::7].tolist()]
    assert np.abs(values - model.predict(X[::7])).max() < 0.02 * np.ptp(model.predict(X))
    with pytest.raises(ValueError, match="no probabilities"):
        machine.predict_proba(X[0].tolist())


def test_counts_need_no_floating_point(tmp_path):
    model, X = classifier("compact int4 projected")
    machine = imported(to_package(model, tmp_path, "micropython", X=X))
    for row in X[::100].astype(int).tolist():
        assert machine.predict_counts(row) == machine.predict(row)
    model, X = classifier("compact unlike columns")
    machine = imported(to_package(model, tmp_path, "micropython", X=X, name="other"))
    with pytest.raises(ValueError, match="not whole numbers"):
        machine.predict_counts([1, 2, 3, 4])


def test_rows_of_tables_are_dictionaries(tmp_path):
    table = case("table")
    machine = imported(to_package(table.model, tmp_path, "micropython", X=table.rows))
    cells = zip(*table.table.values(), strict=True)
    rows = [dict(zip(table.table, row, strict=True)) for row in cells]
    assert_array_equal(np.float32([machine.features(row) for row in rows]), np.float32(table.rows))
    labels = table.model.classes[table.expected]
    assert np.mean([machine.predict(row) for row in rows] == labels) > 0.95
    with pytest.raises(KeyError):
        machine.predict({"length": 1.0})


COLUMNS = [
    NumberColumn("n", 2.5),
    NumberColumn("never", None),
    NumberColumn("passes", None, passes_missing=True),
    CategoryColumn("c", ("1", "b c"), True),
    CategoryColumn("few", ("x", "y"), False, (0, 0), 1),
    CategoryColumn("strict", ("x", "y"), False, unknown=None),
    CategoryColumn("gap", (), True),
    OrdinalColumn("o", ("low", "high"), (0.0, 3.5), missing=-1.0, unknown=7.0),
    DateColumn("day", "year-month-day", ("month", "weekday"), (6.0, 2.0)),
]


@pytest.mark.parametrize("column", COLUMNS, ids=lambda column: column.name)
def test_cells_become_the_features_of_python(column, tmp_path):
    encoded = _module(tmp_path)._encoded
    cells = [1.0, "b c", "x", "y", "high", "other", None, float("nan"), -3]
    if isinstance(column, NumberColumn):
        cells = [1.0, 7, "2.5", None]
    if isinstance(column, DateColumn):  # a board is given the parts
        month, weekday = _cells(column)
        assert encoded(month, 12) + encoded(weekday, None) == [12.0, 2.0]
        return
    (how,) = _cells(column)
    for cell in cells:
        given = None if cell is None or cell != cell else cell
        try:
            expected = column.encoded(np.array([cell], dtype=object))[0].tolist()
        except ValueError:
            with pytest.raises(ValueError, match=f"column {column.name} refuses"):
                encoded(how, given)
            continue
        assert_array_equal(encoded(how, given), expected)


def _module(folder):
    model, X = classifier("svc")
    package = to_package(model, folder, "micropython", X=X)
    spec = importlib.util.spec_from_file_location("board", package.files[0])
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_table_file_is_small_and_in_the_safetensors_format(tmp_path):
    model, X = classifier("compact int4 projected")
    package = to_package(model, tmp_path, "micropython", X=X, name="digits")
    data = package.files[1].read_bytes()
    tensors = load_tensors(data)
    packed = model.expansion_.packed
    assert tensors["centers"].tobytes() == packed["centers"].data.tobytes()
    header = int.from_bytes(data[:8], "little")
    assert len(data) == 8 + header + sum(tensor.nbytes for tensor in tensors.values())
    assert header < 2000
    with pytest.raises(ModelFileError):
        kernlet.load(package.files[1])


def test_a_model_file_is_not_replaced_by_tables(tmp_path):
    model, X = classifier("svc")
    kernlet.save(model, tmp_path / "model.kernlet")
    with pytest.raises(ValueError, match=r"model\.kernlet is not from an earlier export"):
        to_package(model, tmp_path, "micropython", X=X)
    assert kernlet.load(tmp_path / "model.kernlet")


def test_damaged_tables_and_wrong_rows_are_refused(tmp_path):
    model, X = classifier("svc")
    package = to_package(model, tmp_path, "micropython", X=X)
    machine = imported(package)
    with pytest.raises(ValueError, match="a row has 4 features"):
        machine.predict([1.0])
    with pytest.raises(ValueError, match="a row has 4 inputs"):
        machine.scores([1] * 5)
    with pytest.raises(ValueError, match="list of 4 features"):
        machine.predict({"a": 1.0})
    data = package.files[1].read_bytes()
    package.files[1].write_bytes(data[:-1])
    with pytest.raises(ValueError, match="is cut off"):
        imported(package)


@pytest.mark.parametrize("name", ["lambda", "json", "machine"])
def test_a_module_has_a_name_that_can_be_imported(name, tmp_path):
    model, X = classifier("svc")
    package = to_package(model, tmp_path, "micropython", X=X, name=name)
    assert [path.name for path in package.files] == [f"{name}_model.py", f"{name}_model.kernlet"]
