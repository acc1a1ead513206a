"""Machines in integers as C: the integers of Python, bit by bit, on every processor at hand."""

import pytest
from numpy.testing import assert_array_equal

from support.c_programs import needs_gcc
from support.integer_c_programs import CModule, integer_c_answers
from support.integer_modules import (
    FORMATS,
    expected_answers,
    made,
    random_models,
    rows_for,
    shaped_models,
)


def check(folder, modules, **options):
    """Compile modules together, and compare every function with Python."""
    rows = {module.name: rows_for(module) for module in modules}
    inputs, floats = ({name: pair[i] for name, pair in rows.items()} for i in range(2))
    answers = integer_c_answers(folder, modules, inputs, floats, **options)
    for module in modules:
        for name, values in expected_answers(module, *rows[module.name]).items():
            answer = answers[f"{module.name}.{name}"]
            assert_array_equal(answer, values, err_msg=f"{module.name} {module.machine.kernel}")


@needs_gcc
def test_every_shape_computes_the_integers_of_python(tmp_path):
    check(tmp_path, made(CModule, shaped_models(FORMATS[1]), 16))


@needs_gcc
@pytest.mark.slow
@pytest.mark.parametrize("formats", [FORMATS[0], FORMATS[2]])
def test_every_format_computes_the_integers_of_python(formats, tmp_path):
    check(tmp_path, made(CModule, shaped_models(formats), 16))


@needs_gcc
@pytest.mark.slow
@pytest.mark.parametrize("start", [0, 100])
def test_random_machines_compute_the_integers_of_python(start, tmp_path):
    check(tmp_path, made(CModule, random_models(range(start, start + 60)), 40))
