"""All exported forms of a machine predict the same, and packages are what their systems take."""

import configparser
import json
import re
from pathlib import Path

import numpy as np
import pytest
import yaml
from click.testing import CliRunner
from numpy.testing import assert_allclose

from export.runners import CASES, RUNNERS, case, require
from kernlet import save, to_package
from kernlet.cli import main
from kernlet.export.rounding import clear_rows
from kernlet.export.targets import TARGETS
from support.build_systems import (
    ARDUINO_H,
    WARNINGS,
    build,
    esp_idf_output,
    sketch_lines,
    sketch_of,
    uno_output,
    zephyr_output,
)
from support.exportable_models import TRANSFORMERS, classifier, transformer

#: Share of the rows whose class is that of Python, where features and tables are rounded further
#: than float32.
INTEGER_AGREEMENT = 0.95


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("runner", RUNNERS)
def test_every_form_predicts_what_python_predicts(runner, name, tmp_path):
    predict, arithmetic = RUNNERS[runner]
    machine = case(name)
    predicted, expected = predict(machine, tmp_path), machine.expected
    if machine.model.classes is None:
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


def test_rows_may_be_lists_and_labels_must_match(tmp_path):
    model, X = classifier("svc")
    package = to_package(model, tmp_path, "arduino", X=X.tolist(), arithmetic="integer")
    assert any("difference of a feature and a center" in note for note in package.notes)
    with pytest.raises(ValueError, match=r"y has 3 labels for \d+ rows of X"):
        to_package(model, tmp_path, "arduino", X=X, y=[0, 1, 2])


def test_a_sketch_begins_a_row_with_each_line(tmp_path):
    require("gcc", "g++")
    machine = case("steps")
    package = to_package(machine.model, tmp_path, "arduino", X=machine.rows)
    row = ",".join(f"{value:.6g}" for value in machine.rows[0])
    lines = sketch_lines(package, f"1,2\n{row}\nx,2,3,4\n{row}\n")
    assert lines[1] == f"a row has {machine.rows.shape[1]} numbers"
    assert lines[3] == "this is not a number"
    assert lines[2] == lines[-1]
    assert lines[2].split()[0] == str(machine.model.classes[machine.expected[0]])


def test_options_are_checked(tmp_path):
    model, _ = classifier("svc")
    with pytest.raises(ValueError, match="arithmetic='fixed' is not one of auto, float, integer"):
        to_package(model, tmp_path / "p", "arduino", arithmetic="fixed")
    (tmp_path / "file").touch()
    with pytest.raises(ValueError, match="file is a file: give a folder"):
        to_package(model, tmp_path / "file", "arduino")
    (tmp_path / "src").touch()
    with pytest.raises(ValueError, match="src is a file where a folder is needed"):
        to_package(model, tmp_path, "arduino")


@pytest.mark.parametrize("target", TARGETS)
def test_files_of_others_are_kept_and_those_of_an_older_export_replaced(target, tmp_path):
    model, X = classifier("svc")
    package = to_package(model, tmp_path, target, X=X)
    written = {path: path.read_bytes() for path in package.files}
    assert set(package.files) == {path for path in tmp_path.rglob("*") if path.is_file()}
    to_package(model, tmp_path, target, X=X)
    for path in package.files:
        path.write_text("mine")
        with pytest.raises(
            ValueError, match=r"is not from an earlier export.*: give another folder"
        ):
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


PAGE = (Path(__file__).parents[2] / "docs" / "how-to" / "boards.md").read_text("utf-8")
COMMANDS = re.findall(r"^kernlet (export .*)$", PAGE, re.MULTILINE)


@pytest.mark.slow
@pytest.mark.parametrize("command", COMMANDS)
def test_commands_of_the_page_run(command, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    save(classifier("compact steps")[0], "iris.kernlet")
    result = CliRunner().invoke(main, command.split())
    assert result.exit_code == 0, result.output
    for path in re.findall(
        r"`((?:web|iris|board|firmware)/[\w./]+)`", PAGE
    ):  # files that the page names
        assert (tmp_path / path).exists() or path.split("/")[0] not in command


# -- Packages of C ---------------------------------------------------------------------------------

#: What Arduino accepts as category, and the fields that every library has.
CATEGORIES = [
    "Display",
    "Communication",
    "Signal Input/Output",
    "Sensors",
    "Device Control",
    "Timing",
    "Data Storage",
    "Data Processing",
    "Other",
]
ARDUINO_FIELDS = {
    *("name", "version", "author", "maintainer", "sentence", "paragraph", "category", "url"),
    *("architectures", "includes"),
}


@pytest.fixture(params=CASES)
def any_case(request):
    return case(request.param)


def test_an_arduino_library_has_its_metadata(tmp_path):
    machine = case("table")
    package = to_package(machine.model, tmp_path, "arduino", X=machine.table, name="Reife 2")
    lines = (tmp_path / "library.properties").read_text("utf-8").splitlines()
    fields = dict(line.split("=", 1) for line in lines if not line.startswith("#"))
    assert set(fields) == ARDUINO_FIELDS
    assert all(fields[field] for field in ARDUINO_FIELDS - {"url"})
    assert re.fullmatch(r"[a-zA-Z0-9][a-zA-Z0-9 _.-]{0,62}", fields["name"])
    assert re.fullmatch(r"\d+\.\d+\.\d+", fields["version"])
    assert fields["category"] in CATEGORIES
    assert (tmp_path / "src" / fields["includes"]).is_file()
    # four fields, separated by single tabs
    keywords = (tmp_path / "keywords.txt").read_text("utf-8").splitlines()
    words = [line.split("\t") for line in keywords if not line.startswith("#")]
    assert {kind for _, kind in words} == {"KEYWORD2", "LITERAL1"}
    assert {f"{package.name}_predict", f"{package.name}_encode"} <= {word for word, _ in words}
    # a sketch has the name of its folder
    sketch = sketch_of(package)
    assert sketch.suffix == ".ino"
    assert sketch.stem == sketch.parent.name
    assert len(sketch.stem) <= 63
    assert sketch.parents[1] == tmp_path / "examples"


def test_sketches_compile_for_avr(any_case, tmp_path):
    require("avr-g++")
    package = to_package(any_case.model, tmp_path / "p", "arduino", X=any_case.rows)
    (tmp_path / "Arduino.h").write_text(ARDUINO_H)
    options = ["-mmcu=atmega328p", "-Os", "-std=gnu++11", *WARNINGS, "-I", ".", "-I", "p/src"]
    build(["avr-g++", *options, "-x", "c++", "-c", sketch_of(package)], tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["steps", "table"])
def test_a_sketch_runs_on_an_uno(name, tmp_path):
    require("arduino-builder", "avr-g++", "simavr")
    machine = case(name)
    package = to_package(machine.model, tmp_path / "p", "arduino", X=machine.rows)
    (tmp_path / "b").mkdir()
    said = uno_output(package, tmp_path / "b")
    (row,) = re.findall(r"A row of the class (.*), by Python", sketch_of(package).read_text())
    assert f"{row} " in said


def test_a_platformio_library_has_its_manifest(tmp_path):
    machine = case("steps")
    package = to_package(machine.model, tmp_path, "platformio", X=machine.rows, name="a" * 99)
    manifest = json.loads((tmp_path / "library.json").read_text("utf-8"))
    assert re.fullmatch(r"[^:;/,@<>]{1,50}", manifest["name"])
    assert manifest["version"] == "1.0.0"
    assert len(manifest["description"]) <= 255
    assert all(re.fullmatch(r"[a-z\d\-_+. ]{1,50}", word) for word in manifest["keywords"])
    assert "license" not in manifest  # which is the user's to choose
    assert (tmp_path / "src" / manifest["headers"]).is_file()
    (example,) = manifest["examples"]
    files = {tmp_path / example["base"] / file for file in example["files"]}
    assert files < set(package.files)
    project = configparser.ConfigParser()
    project.read(tmp_path / example["base"] / "platformio.ini")
    library = project["env"]["lib_deps"].strip().removeprefix(f"{package.name}=symlink://")
    assert (tmp_path / example["base"] / library).resolve() == tmp_path.resolve()
    environments = [name for name in project.sections() if name.startswith("env:")]
    assert all({"platform", "board"} <= set(project[name]) for name in environments)


@pytest.mark.slow
def test_a_zephyr_module_builds_and_its_sample_predicts(any_case, tmp_path):
    require("cmake", "gcc")
    package = to_package(any_case.model, tmp_path / "p", "zephyr", X=any_case.rows, name="My Pump")
    (tmp_path / "b").mkdir()
    assert "the same as Python" in zephyr_output(package, tmp_path / "b")


def test_a_zephyr_module_has_its_metadata(tmp_path):
    machine = case("steps")
    to_package(machine.model, tmp_path, "zephyr", X=machine.rows, name="My Pump")
    module = yaml.safe_load((tmp_path / "zephyr" / "module.yml").read_text("utf-8"))
    assert set(module) == {"name", "build", "samples"}
    assert re.fullmatch(r"[a-z0-9-]+", module["name"])
    assert (tmp_path / module["build"]["cmake"] / "CMakeLists.txt").is_file()
    assert (tmp_path / module["build"]["kconfig"]).is_file()
    (sample,) = [path for folder in module["samples"] for path in (tmp_path / folder).iterdir()]
    assert {"CMakeLists.txt", "prj.conf", "sample.yaml", "src"} == {
        path.name for path in sample.iterdir()
    }
    tests = yaml.safe_load((sample / "sample.yaml").read_text("utf-8"))
    assert tests["tests"]["sample.kernlet.my_pump"]["harness"] == "console"


def test_the_kconfig_of_a_zephyr_module_is_read(tmp_path):
    kconfiglib = pytest.importorskip("kconfiglib")
    machine = case("steps")
    to_package(machine.model, tmp_path, "zephyr", X=machine.rows, name="My Pump")
    (tmp_path / "all").write_text(f'config FPU\n\tbool "FPU"\nsource "{tmp_path}/Kconfig"\n')
    settings = kconfiglib.Kconfig(str(tmp_path / "all"), warn_to_stderr=False)
    settings.load_config(str(tmp_path / "samples" / "my_pump" / "prj.conf"))
    assert not settings.warnings
    assert settings.syms["KERNLET_MY_PUMP"].str_value == "y"
    assert settings.syms["FPU"].str_value == "y"


@pytest.mark.slow
@pytest.mark.parametrize("name", TRANSFORMERS)
def test_transformers_are_packages_too(name, tmp_path):
    require("cmake", "gcc")
    model, X = transformer(name)
    package = to_package(model, tmp_path / "p", "esp-idf", X=X)
    (tmp_path / "b").mkdir()
    assert "the same as Python" in esp_idf_output(package, tmp_path / "b")


@pytest.mark.slow
def test_an_esp_idf_component_builds_and_its_example_predicts(any_case, tmp_path):
    require("cmake", "gcc")
    rows = any_case.rows if any_case.table is None else any_case.table
    package = to_package(any_case.model, tmp_path / "p", "esp-idf", X=rows)
    main = tmp_path / "p" / "examples" / package.name / "main" / "main.c"
    is_encoded = "model_encode(&row, features)" in main.read_text("utf-8")
    assert is_encoded == (any_case.table is not None)
    (tmp_path / "b").mkdir()
    assert "the same as Python" in esp_idf_output(package, tmp_path / "b")
    manifest = yaml.safe_load((tmp_path / "p" / "idf_component.yml").read_text("utf-8"))
    assert set(manifest) == {"version", "description", "dependencies"}
    assert manifest["version"] == "1.0.0"
    assert manifest["dependencies"] == {"idf": ">=4.4"}
