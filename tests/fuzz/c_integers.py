"""Exported C in integers of random machines, compiled with sanitizers: the bits of Python."""

from __future__ import annotations

from functools import partial

from fuzz.campaign import Target, check_sentence
from kernlet import to_c
from support.integer_c_programs import CModule, integer_c_answers
from support.integer_modules import check_answers, random_model_with_rows

_N_MACHINES = 10  # compiled together, which takes hardly longer than one


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
    check_answers(modules, partial(integer_c_answers, folder, modules))
    return f"{_N_MACHINES} machines"


TARGETS = [Target("c-integers", "c", compare_bits, quick=1, weight=0.2)]
