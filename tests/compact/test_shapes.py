"""Shapes of compact machines by their public parameters, and the search for them."""

import re

import numpy as np
import pytest
from sklearn.base import clone

from kernlet import CompactKernelClassifier, CompactKernelRegressor

RANDOM = np.random.default_rng(0)


@pytest.fixture(scope="module")
def table():
    """A table whose three classes end at thresholds, of 2,400 rows."""
    X = RANDOM.normal(size=(2400, 5))
    return X, (X[:, 0] > 0.3).astype(int) + ((X[:, 1] > 0.5) & (X[:, 0] > 0))


@pytest.fixture(scope="module")
def images():
    """Blurred noise on 16 x 16 pixels, of four classes."""
    y = np.arange(400) % 4
    small = RANDOM.normal(size=(400, 4, 4)) * 0.3
    small[np.arange(400), y, y] += 2
    return np.kron(small, np.ones((4, 4))).reshape(400, 256), y


SHAPES = [
    {"kernel": "rational_quadratic"},
    {"width": "per_center"},
    {"width": "per_feature"},
    {"n_steps": 3},
    {"n_steps": 3, "width": "per_feature"},
    {"classes_per_center": 2},
    {"kernel": "rational_quadratic", "width": "per_center", "classes_per_center": 1},
]


def shape_of(machine):
    """The shape of a fitted machine, in terms of its parameters."""
    f = machine.expansion_
    return {
        "kernel": f.kernel.name,
        "classes_per_center": f.n_entries,
        "n_steps": 0 if f.steps is None else len(f.steps.features),
        "block_means": f.block == 2,
    }


@pytest.mark.slow
@pytest.mark.parametrize("size", [{"n_centers": 6, "storage": "int4"}, {"max_bytes": 300}])
@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: "-".join(map(str, shape.values())))
def test_a_given_shape_is_that_of_the_machine(table, shape, size):
    X, y = table
    machine = CompactKernelClassifier(**size, **shape, n_epochs=2, effort="quick", random_state=0)
    machine.fit(X, y)
    expected = {name: value for name, value in shape.items() if name != "width"}
    assert expected.items() <= shape_of(machine).items()
    if "width" in shape:
        words = shape["width"].replace("per_", "a width per ")
        assert words in machine.choice_
    assert machine.nbytes_ <= 300
    assert machine.nbytes_ in [point.nbytes for point in machine.path_ if point.is_full]
    assert machine.score(X, y) > 0.4


@pytest.mark.parametrize("size", [{"n_centers": 6}, {"max_bytes": 400}])
def test_a_regressor_has_shapes_too(table, size):
    X, y = table
    for shape in ({"kernel": "rational_quadratic"}, {"n_steps": 2}):
        machine = CompactKernelRegressor(**size, **shape, n_epochs=2, effort="quick")
        machine.set_params(random_state=0).fit(X[:2100], 10.0 * y[:2100])
        assert shape.items() <= shape_of(machine).items()


def test_without_a_budget_auto_is_the_plain_machine(table):
    machine = CompactKernelClassifier(6, n_epochs=1, random_state=0).fit(*table)
    plain = CompactKernelClassifier(
        6,
        kernel="rbf",
        width="shared",
        classes_per_center=None,
        n_steps=0,
        block_means=False,
        n_epochs=1,
        random_state=0,
    ).fit(*table)
    expected = {"kernel": "rbf", "classes_per_center": None, "n_steps": 0, "block_means": False}
    assert shape_of(machine) == expected
    assert np.array_equal(machine.expansion_.coef, plain.expansion_.coef)


def test_images_have_means_of_blocks(images):
    X, y = images
    machine = CompactKernelClassifier(4, block_means=True, n_epochs=3, random_state=0).fit(X, y)
    assert shape_of(machine)["block_means"]
    assert machine.expansion_.centers.shape == (4, 64)
    assert "means of 2 x 2 pixels" in machine.choice_
    assert machine.score(X, y) > 0.8


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"block_means": True}, "5 columns, which are not the pixels of a square image"),
        ({"augment": "shift"}, "5 columns, which are not the pixels of a square image"),
        ({"classes_per_center": 4}, "but a center has 3 coefficients; give at most"),
    ],
)
def test_contradictions_are_refused_in_a_sentence(table, parameters, message):
    for size in ({"n_centers": 6}, {"max_bytes": 500}):
        with pytest.raises(ValueError, match=re.escape(message)):
            CompactKernelClassifier(**size, **parameters).fit(*table)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"n_steps": 2}, "leave n_steps=2 out"),
        ({"width": "per_feature"}, 'leave width="per_feature" out'),
        ({"scale": True}, "leave scale=True out"),
        ({"projection": 65}, "projection=65 is more than the 64 means of 2 x 2 pixels"),
    ],
)
def test_block_means_have_one_scale(images, parameters, message):
    with pytest.raises(ValueError, match=message):
        CompactKernelClassifier(4, block_means=True, **parameters).fit(*images)
    odd = images[0][:, :225]
    with pytest.raises(ValueError, match="have an odd side, 15"):
        CompactKernelClassifier(4, block_means=True).fit(odd, images[1])


@pytest.mark.parametrize("n_rows", [200, 2400])
def test_block_means_of_unlike_columns_need_no_scale_per_column(images, n_rows):
    rows = np.resize(np.arange(400), n_rows)
    X, y = images[0][rows] * np.logspace(0, 3, 256), images[1][rows]
    machine = CompactKernelClassifier(max_bytes=500, block_means=True, n_epochs=1, effort="quick")
    machine.set_params(random_state=0).fit(X, y)
    assert f" {machine.nbytes_} of 500 bytes" in machine.choice_
    assert "standardised columns" not in machine.choice_


def test_a_machine_to_start_from_keeps_its_shape(table):
    shape = {"kernel": "rational_quadratic", "classes_per_center": 2}
    first = CompactKernelClassifier(6, storage="int8", n_epochs=1, random_state=0, **shape)
    first.fit(*table)
    second = CompactKernelClassifier(init=first, n_epochs=1, random_state=0).fit(*table)
    assert shape_of(second) == shape_of(first)
    with pytest.raises(ValueError, match="kernel='rbf', but the machine to start from has 'rat"):
        clone(second).set_params(init=first, kernel="rbf").fit(*table)


def test_all_classes_per_center_may_be_trained_further(table):
    machine = CompactKernelClassifier(6, classes_per_center=3, n_epochs=1, warm_start=True)
    machine.set_params(random_state=0).fit(*table)
    assert machine.fit(*table).expansion_.n_entries is None


# -- The search ------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def searched(table):
    machine = CompactKernelClassifier(max_bytes=500, n_epochs=12, random_state=0)
    return machine.fit(*table)


def test_a_table_of_thresholds_gets_steps(table, searched):
    assert shape_of(searched)["n_steps"]
    assert searched.score(*table) > 0.95


def test_the_choice_and_the_path_say_what_was_done(searched):
    assert re.search(r"smoothing \S+, \d+ of 500 bytes: the best", searched.choice_)
    n_fits = float(re.search(r"Effort 'default': (\S+) full fits", searched.choice_)[1])
    assert 1 < n_fits <= 5
    path = searched.path_
    assert {point.kernel for point in path} == {"rbf", "rational_quadratic"}
    assert {point.smoothing for point in path} == {0.0, 0.03, 0.1}
    assert 1 <= sum(point.is_full for point in path) <= 3


@pytest.mark.parametrize("kernel", ["rbf", "rational_quadratic"])
def test_the_scales_of_an_asinh_map_count_with_a_given_kernel_too(table, searched, kernel):
    machine = CompactKernelClassifier(max_bytes=500, kernel=kernel, effort="quick", n_epochs=1)
    machine.set_params(random_state=0).fit(*table)
    sizes = [
        {p.nbytes for p in path if p.is_asinh and (p.n_centers, p.n_steps, p.kernel) == shape}
        for path, shape in ((searched.path_, (12, 8, "rbf")), (machine.path_, (12, 8, kernel)))
    ]
    alpha = 4 if kernel == "rational_quadratic" else 0
    assert sizes[1] == {nbytes + alpha for nbytes in sizes[0]} != set()


def test_a_given_number_of_centers_above_the_limits_is_lowered_within_a_budget(table):
    X, y = table
    options = {"n_epochs": 1, "effort": "quick", "max_bytes": "100k", "random_state": 0}
    machine = CompactKernelClassifier(12, max_centers=7, **options).fit(X, y)
    assert machine.n_centers_ == 7
    machine = CompactKernelClassifier(1000, kernel="rbf", **options).fit(X[:60], y[:60])
    assert machine.n_centers_ == 60


def test_the_number_of_processes_changes_nothing(table, searched):
    other = clone(searched).set_params(n_jobs=2).fit(*table)
    assert other.choice_ == searched.choice_
    assert np.array_equal(other.expansion_.coef, searched.expansion_.coef)
    assert other.path_ == searched.path_


def test_verbose_names_stages_and_the_time_left(table, capsys):
    X, y = table
    machine = CompactKernelClassifier(max_bytes=200, n_epochs=2, effort="quick", verbose=1)
    machine.set_params(random_state=0).fit(X, y)
    text = capsys.readouterr().out
    assert re.search(r"search: shapes, \d+ candidates\n", text)
    assert re.search(r"search: noise, \d+ candidates? \(about \d+ s left\)", text)
    assert re.search(r"training: \S+ s\n$", text)  # nothing is left
    machine.fit(X[:300], y[:300])
    text = capsys.readouterr().out
    assert re.search(r"search: plain machines, \d+ candidates\n", text)
    assert re.search(r"search: finalists, \d+ candidates \(about \d+ s left\)", text)


def test_quick_spends_less(table):
    fits = {}
    for effort in ("quick", "default"):
        machine = CompactKernelClassifier(max_bytes=500, n_epochs=24, effort=effort)
        machine.set_params(random_state=0).fit(*table)
        fits[effort] = float(re.search(r"(\S+) full fits", machine.choice_)[1])
    assert fits["quick"] <= 2 < fits["default"] <= 5


def test_given_smoothing_is_kept(table):
    machine = CompactKernelClassifier(max_bytes=300, smoothing=0.05, n_epochs=1, effort="quick")
    machine.set_params(random_state=0).fit(*table)
    assert {point.smoothing for point in machine.path_} == {None}
    hinge = clone(machine).set_params(smoothing="auto", loss="squared_hinge").fit(*table)
    assert {point.smoothing for point in hinge.path_} == {None}
