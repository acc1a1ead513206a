"""Exported C in integers of random machines, compiled with sanitizers: the bits of Python."""

from __future__ import annotations

from numpy.testing import assert_array_equal

from fuzz.campaign import Target, check_sentence
from kernlet import to_c
from support.integer_c_programs import CModule, integer_c_answers
from support.integer_modules import expected_answers, random_model_with_rows, rows_for

_N_MACHINES = 20  # compiled together, which takes hardly longer than one


def compare_bits(rng, folder):
    """Several random machines, in C and in Python."""
    modules = []
    while len(modules) < _N_MACHINES:
        try:
            model, X = random_model_with_rows(rng)
            name = f"m{len(modules)}"
            to_c(model, folder / name, name=name, X=X, arithmetic="integer")
            modules.append(CModule.of(model, name, X, None))
        except ValueError as error:
            check_sentence(error)
    rows = {module.name: rows_for(module) for module in modules}
    inputs, floats = ({name: pair[i] for name, pair in rows.items()} for i in range(2))
    answers = integer_c_answers(folder, modules, inputs, floats)
    for module in modules:
        for name, values in expected_answers(module, *rows[module.name]).items():
            assert_array_equal(answers[f"{module.name}.{name}"], values, err_msg=module.name)
    return f"{_N_MACHINES} machines"


TARGETS = [Target("c-integers", "c", compare_bits, quick=1, weight=0.2)]
