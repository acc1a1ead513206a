"""Random machines in integers, rows that reach their bounds, and what Python says of these."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.testing import assert_array_equal

from kernlet.export.rounding import likely_rows
from kernlet.integer.machine import pair_sums
from kernlet.model.model import Model
from support.random_machines import SHAPES, random_compact, random_model, with_missing

FORMATS = (("int8",), ("int6", "int4", "ternary"), ("int4", "ternary", "int6"))


def shaped_models(formats: tuple[str, ...]) -> Iterator[tuple[Model, Any]]:
    """A model of every shape with rows, by turns a classifier of each scheme and none."""
    for number, options in enumerate(SHAPES.values()):
        rng = np.random.default_rng(number)
        scheme = ("one vs rest", "one vs one", "one output", "")[number % 4]
        n_outputs = 1 if scheme == "one output" else 3
        points = lambda rng, *shape: rng.normal(size=shape)  # noqa: E731
        expansion = random_compact(
            rng, **{"points": points, "formats": formats, "n_outputs": n_outputs, **options}
        )
        model = Model(expansion)
        if scheme:
            classes = np.arange(2 if n_outputs == 1 else 3)
            rule = {"scheme": scheme, "break_ties": number % 8 < 4, "votes": number % 3 == 0}
            model = replace(model, kind="classifier", classes=classes, temperature=0.3, **rule)
        X = rng.normal(size=(120, expansion.n_features))
        X = np.rint(10 * X) if number % 5 == 0 else X
        yield model, with_missing(expansion, X)


def random_models(seeds: range) -> Iterator[tuple[Model, Any]]:
    """Models of any kernel, map and scheme with rows, of floats or whole numbers."""
    for seed in seeds:
        yield random_model_with_rows(np.random.default_rng(seed))


def random_model_with_rows(rng: np.random.Generator) -> tuple[Model, Any]:
    """A model of any kernel, map and scheme, and rows of floats or whole numbers."""
    model = random_model(rng)
    X = likely_rows(model, 120)
    return model, np.clip(np.rint(5 * X), -3000, 3000) if rng.random() < 0.3 else X


def made(make: Any, models: Iterator[tuple[Model, Any]], fewest: int) -> list[Any]:
    """The modules of all models that have a form in integers; at least ``fewest``."""
    modules = []
    for model, X in models:
        try:
            modules.append(make.of(model, f"m{len(modules)}", X, None))
        except ValueError:  # too narrow, too far from zero, or a map that cannot be composed
            continue
    assert len(modules) >= fewest
    return modules


def rows_for(module: Any, n_rows: int = 20) -> tuple[Any, Any]:
    """Inputs and rows of floats: usual, random and extreme ones."""
    rng, n = np.random.default_rng(0), module.machine.n_features
    ends = np.full((2, n), [[-32768], [32767]])
    inputs = [module.machine.quantized(module.rows[:n_rows]), ends]
    inputs += [
        rng.integers(-32768, 32768, (n_rows, n)),
        rng.choice([-32768, 0, 32767], (n_rows, n)),
    ]
    if module.machine.projection is not None and module.machine.block == 1:
        worst = np.where(module.machine.projection > 0, 32767, -32768)
        inputs += [worst, -1 - worst]
    floats = [module.rows[:n_rows], rng.normal(size=(5, n)) * 10.0 ** rng.integers(-9, 30, (5, n))]
    floats += [np.full((3, n), [[3e38], [-3e38], [0.0]])]
    return np.concatenate(inputs), np.float32(np.concatenate(floats))


def check_answers(modules: list[Any], answers_of: Any) -> dict[str, Any]:
    """Compare every function of modules with Python; what ``answers_of`` returned.

    ``answers_of(inputs, floats)`` runs the modules on rows, by their names.
    """
    rows = {module.name: rows_for(module) for module in modules}
    inputs, floats = ({name: pair[i] for name, pair in rows.items()} for i in range(2))
    answers = answers_of(inputs, floats)
    for module in modules:
        for name, values in expected_answers(module, *rows[module.name]).items():
            answer = answers[f"{module.name}.{name}"]
            assert_array_equal(answer, values, err_msg=f"{module.name} {module.machine.kernel}")
    return answers


def expected_answers(module: Any, inputs: Any, floats: Any) -> dict[str, Any]:
    """What each function of a module returns for these rows, by name."""
    machine, model = module.machine, module.model
    scores = machine.scores(inputs)
    answers = {"scores": scores, "from_floats": machine.quantized(floats)}
    if machine.counts is not None:
        answers["from_counts"] = machine.counted(inputs)
    if model.classes is None:
        return answers
    codes = module.codes(scores)[:, None]
    answers["class_of"] = model.classes[codes] if model.kind == "novelty" else codes
    if module.probabilities is not None:
        is_pairs, is_two = model.scheme == "one vs one", len(model.classes) == 2
        values = pair_sums(scores, len(model.classes)) if is_pairs else scores
        values = values[:, -1] if is_two and model.scheme != "one vs rest" else values
        answers["probabilities"] = module.probabilities.q15(values)
    return answers
