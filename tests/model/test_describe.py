import numpy as np
import pytest
from sklearn.svm import SVC

from kernlet.model.describe import describe, operations
from kernlet.model.model import as_model
from support.exportable_models import IRIS, IRIS_LABELS
from support.random_machines import SHAPES, random_compact


def machine(name):
    return random_compact(np.random.default_rng(0), **SHAPES[name])


@pytest.mark.parametrize(
    ("name", "key", "text"),
    [
        ("widths", "widths", "one per center, in one byte"),
        ("float widths", "widths", "one per center"),
        ("asinh", "input map", "a scale per feature, asinh"),
        ("two classes", "coefficients", "2 of 3 outputs per center"),
        ("steps", "input map", "6 steps in 3 of the features"),
        ("blocks", "input map", "means of 2 x 2 pixels"),
        (
            "blocks of three, projected",
            "input map",
            "means of 3 x 3 pixels, projection to 8 numbers",
        ),
        ("plain", "storage", "centers int4, coef int4"),
        ("diagonal", "weights", "one of three per feature of each center"),
        ("diagonal", "storage", "centers int4, coef int4, log_weights ternary"),
    ],
)
def test_what_a_machine_is_made_of(name, key, text):
    assert describe(machine(name))[key] == text


def test_what_is_not_there_is_not_said():
    assert list(describe(machine("plain"))) == ["kernel", "storage"]
    assert list(describe(as_model(SVC().fit(IRIS, IRIS_LABELS)).expansion)) == ["kernel"]
    assert describe(machine("rational quadratic"))["kernel"].startswith("rational_quadratic, gamma")


@pytest.mark.parametrize(
    ("name", "counts"),
    [
        ("plain", (7 * (9 + 3), 7, 0, 0)),
        ("one class", (7 * (9 + 1), 7, 0, 0)),
        ("widths", (7 * (9 + 3), 14, 0, 0)),
        ("rational quadratic", (7 * (9 + 3), 7, 7, 0)),
        ("diagonal", (7 * (2 * 9 + 3), 7, 0, 0)),
        ("asinh", (7 * (9 + 3), 7, 9, 0)),
        ("steps", (7 * (9 + 3), 7, 0, 6)),
        ("projected", (7 * (8 + 3) + 8 * 9, 7, 0, 0)),
        ("blocks of three, projected", (7 * (8 + 3) + 8 * 9, 7, 0, 0)),
    ],
)
def test_operations_of_a_prediction(name, counts):
    assert tuple(operations(machine(name))) == counts


@pytest.mark.parametrize(("kernel", "has_any"), [("rbf", True), ("linear", False), ("poly", False)])
def test_exponentials_of_kernels_that_have_them(kernel, has_any):
    expansion = as_model(SVC(kernel=kernel).fit(IRIS, IRIS_LABELS)).expansion
    assert operations(expansion).exponentials == has_any * expansion.n_centers
