"""Machines in Rust: the integers of Python, bit by bit, without a standard library or a panic."""

import shutil
import subprocess
from functools import partial

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from kernlet import to_package
from kernlet.export.rust import _Rust, rust
from support.exportable_models import classifier, regressor
from support.integer_modules import (
    FORMATS,
    check_answers,
    made,
    random_models,
    shaped_models,
)
from support.rust_programs import STRICT, library, needs_rust, require_no_std, rust_answers


def written(folder, modules):
    """The files of modules in a folder; their names."""
    for module in modules:
        (folder / f"{module.name}.rs").write_text(module.text)
    return [module.name for module in modules]


def check(folder, modules):
    """Compile modules together, and compare every function with Python."""
    names = written(folder, modules)
    require_no_std(folder, names)
    answers = check_answers(modules, partial(rust_answers, folder, names))
    for module in modules:
        if module.has_classes:
            codes = module.codes(module.machine.scores(answers[f"{module.name}.from_floats"]))
            assert_array_equal(answers[f"{module.name}.float_class"][:, 0], codes)


@pytest.mark.slow
@needs_rust
def test_every_shape_computes_the_integers_of_python(tmp_path):
    check(tmp_path, made(_Rust, shaped_models(FORMATS[1]), 16))


@needs_rust
@pytest.mark.slow
@pytest.mark.parametrize("formats", [FORMATS[0], FORMATS[2]])
def test_every_format_computes_the_integers_of_python(formats, tmp_path):
    check(tmp_path, made(_Rust, shaped_models(formats), 16))


@needs_rust
@pytest.mark.slow
@pytest.mark.parametrize("start", [0, 100])
def test_random_machines_compute_the_integers_of_python(start, tmp_path):
    check(tmp_path, made(_Rust, random_models(range(start, start + 60)), 40))


@needs_rust
def test_the_tests_in_a_module_pass_and_clippy_has_nothing_to_say(tmp_path):
    models = [classifier("compact steps"), classifier("svc"), regressor("unlike columns")]
    modules = made(_Rust, iter(models_with_rows(models)), 3)
    path = library(tmp_path, written(tmp_path, modules))
    subprocess.run([*STRICT, "--test", path, "-o", "tests"], cwd=tmp_path, check=True)
    ran = subprocess.run([tmp_path / "tests"], capture_output=True, text=True)
    assert ran.returncode == 0, ran.stdout
    assert "5 passed" in ran.stdout
    if not shutil.which("clippy-driver"):
        pytest.skip("there is no clippy")
    command = ["clippy-driver", *STRICT[1:], "--crate-type", "lib", "--emit", "metadata", path]
    said = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert said.returncode == 0, said.stderr[:3000]


def models_with_rows(pairs):
    from kernlet.model.model import as_model

    return [(as_model(model), X[::3]) for model, X in pairs]


def test_names_and_bounds_are_in_the_file(tmp_path):
    model, X = classifier("compact unlike columns")
    package = to_package(model, tmp_path, "rust", X=X, name="match")
    (path,) = package.files
    text = path.read_text("utf-8")
    assert path.name == "match_model.rs"  # match is a keyword
    assert '"setosa", "versicolor", "virginica"' in text
    assert "//! - distance: " in text
    assert any(note.strip().startswith("distance: ") for note in package.notes)


def test_any_class_name_is_a_string_of_rust():
    assert _Rust.string('a"\\\n\u00e9\x00') == '"a\\u{22}\\u{5c}\\u{a}\\u{e9}\\u{0}"'


def test_the_export_gives_files_and_notes():
    model, X = models_with_rows([classifier("svc")])[0]
    files, notes = rust(model, name="iris", arithmetic="integer", X=X, y=None)
    assert list(files) == ["iris.rs"]
    assert "bytes of tables" in notes[0]
    assert np.all([isinstance(note, str) for note in notes])
