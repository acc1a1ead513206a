"""Machines in integers: bounds, the scalar form, and agreement with floating point."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal
from sklearn.datasets import load_digits, load_wine
from sklearn.decomposition import PCA
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from kernlet import CompactKernelClassifier, CompactKernelRegressor, QuantizedExpansion
from kernlet.export.integer import integer_machine, integer_outputs, integer_tables
from kernlet.export.rounding import likely_rows
from kernlet.integer.machine import Probabilities, integer_codes, pair_sums
from kernlet.kernels.rbf import RBF
from kernlet.model.model import as_model, predicted_codes
from kernlet.quantization import FORMATS, encode
from support import naive_integer as naive
from support.random_machines import SHAPES, random_compact, random_model, with_missing


def built(model, rows):
    rounded, tables = integer_tables(as_model(model))
    return rounded, integer_machine(rounded, tables, rows)


def shaped(name, formats=("int4",), seed=0):
    rng = np.random.default_rng(seed)
    points = lambda rng, *shape: rng.normal(size=shape)  # noqa: E731
    expansion = random_compact(rng, **{"points": points, "formats": formats, **SHAPES[name]})
    return expansion, with_missing(expansion, rng.normal(size=(80, expansion.n_features)))


def hostile_rows(rng, machine):
    """Inputs that reach the bounds: random ones, extremes, the worst signs of a row of P."""
    n = machine.n_features
    rows = [rng.integers(-32768, 32768, (4, n)), np.full((1, n), -32768), np.full((1, n), 32767)]
    if machine.projection is not None and machine.block == 1:
        signs = machine.projection[rng.integers(len(machine.projection))]
        worst = np.where(signs > 0, 32767, -32768)[None]
        rows += [worst, -1 - worst]
    return np.concatenate(rows)


@pytest.mark.parametrize("formats", [("int8",), ("int6",), ("int4",), ("int4", "int4", "ternary")])
@pytest.mark.parametrize("name", SHAPES)
def test_every_shape_computes_what_floating_point_does(name, formats):
    expansion, X = shaped(name, formats)
    rounded, machine = built(expansion, X)
    exact = rounded.outputs(X)
    assert np.abs(integer_outputs(machine, X) - exact).max() < 2e-3 * np.abs(exact).max()
    assert all(bound.largest <= bound.limit for bound in machine.bounds)
    if expansion.missing != "error":
        inputs = np.concatenate(
            [machine.quantized(X[:40]), hostile_rows(np.random.default_rng(0), machine)]
        )
        expected = [naive.scores(machine, row) for row in inputs.tolist()]
        assert_array_equal(machine.scores(inputs), expected)


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_random_machines_agree_with_their_scalar_form_and_nothing_overflows(seed):
    rng = np.random.default_rng(seed)
    model = random_model(rng)
    rows = likely_rows(model, 20)
    rows = np.rint(3 * rows) if rng.random() < 0.4 else rows
    try:
        _, machine = built(model, rows)
    except ValueError:  # random machines may be too narrow, too far from zero, or constant
        return
    assert all(bound.largest <= bound.limit for bound in machine.bounds)
    inputs = np.concatenate([machine.quantized(rows[:3]), hostile_rows(rng, machine)])
    expected = [naive.scores(machine, row) for row in inputs.tolist()]
    assert_array_equal(machine.scores(inputs), expected)


@pytest.mark.parametrize("name", ["plain", "projected", "columns", "widths"])
def test_the_limit_of_features_loses_nothing(name):
    expansion, X = shaped(name)
    _, machine = built(expansion, X)
    far = replace(machine, limit=10 * machine.limit)  # arrays hold more than 16 bits
    rng = np.random.default_rng(1)
    inputs = np.concatenate([rng.integers(-32768, 32768, (500, X.shape[1])), machine.quantized(X)])
    assert_array_equal(machine.scores(inputs), far.scores(inputs))


def test_an_expansion_has_the_values_of_its_export():
    for name in SHAPES:
        expansion, X = shaped(name)
        machine = expansion.integer_machine(X)
        difference = expansion.integer_values(X) * machine.score_step - expansion.decision_values(X)
        assert np.abs(difference).max() < 2e-3 * np.abs(expansion.decision_values(X)).max()
        assert_array_equal(expansion.integer_values(X[:5], rows=X), expansion.integer_values(X)[:5])


def test_counts_are_inputs_where_features_have_one_scale():
    X, y = load_digits(return_X_y=True)
    estimator = CompactKernelClassifier(20, n_epochs=10, storage="int4", random_state=0).fit(X, y)
    _, machine = built(estimator, X)
    assert machine.is_counts
    assert_array_equal(machine.quantized(X), X)
    labels = integer_codes(machine.scores(X), "one vs rest", 10, True)
    assert np.mean(labels == estimator.predict(X)) > 0.998


def test_whole_numbers_become_inputs_by_integers():
    X, y = load_digits(return_X_y=True)
    X = X + 100 * np.arange(64)
    scaler = StandardScaler().fit(X)
    estimator = CompactKernelClassifier(20, n_epochs=10, storage="int4", random_state=0)
    pipeline = make_pipeline(scaler, estimator).fit(X, y)
    _, machine = built(pipeline, X)
    assert not machine.is_counts
    assert machine.counts is not None
    assert np.abs(machine.counted(X) - machine.quantized(X)).max() <= 3
    labels = integer_codes(machine.scores(machine.counted(X)), "one vs rest", 10, True)
    assert np.mean(labels == pipeline.predict(X)) > 0.998


def test_inputs_outside_their_range_and_nan():
    expansion, X = shaped("projected")
    _, machine = built(expansion, X)
    rows = np.array([[np.inf], [-np.inf], [np.nan], [1e30]]) * np.ones(X.shape[1])
    assert machine.quantized(rows)[:, 0].tolist() == [32767, -32768, -32768, 32767]


@pytest.mark.parametrize("kernel", ["rbf", "poly", "sigmoid", "linear", "laplacian"])
def test_a_support_vector_machine_of_any_kernel(kernel):
    X, y = load_wine(return_X_y=True)
    kernel = kernel if kernel != "laplacian" else "rbf"
    pipeline = make_pipeline(StandardScaler(), SVC(kernel=kernel)).fit(X, y)
    model = as_model(pipeline)
    rounded, machine = built(model, X)
    scores = machine.scores(machine.quantized(X))
    labels = integer_codes(scores, model.scheme, 3, model.break_ties)
    assert np.mean(labels == rounded.codes(rounded.outputs(X))) > 0.98
    assert np.mean(model.classes[labels] == y) > 0.95


def test_a_principal_component_analysis_in_front():
    X, y = load_digits(return_X_y=True)
    estimator = CompactKernelClassifier(20, n_epochs=10, random_state=0, scale=False)
    pipeline = make_pipeline(PCA(12), estimator).fit(X, y)
    _, machine = built(pipeline, X)
    labels = integer_codes(machine.scores(machine.quantized(X)), "one vs rest", 10, True)
    assert np.mean(labels == pipeline.predict(X)) > 0.97  # the matrix has eight bits


def test_a_regressor():
    X, y = load_wine(return_X_y=True)
    X, y = np.delete(X, 0, axis=1), X[:, 0]
    regressor = CompactKernelRegressor(12, n_epochs=30, storage="int8", random_state=0).fit(X, y)
    _, machine = built(regressor, X)
    assert np.abs(integer_outputs(machine, X)[:, 0] - regressor.predict(X)).max() < 0.02


@pytest.mark.parametrize("break_ties", [False, True])
@pytest.mark.parametrize("scheme", ["one output", "one vs rest", "one vs one"])
def test_classes_are_those_of_the_model(scheme, break_ties):
    rng = np.random.default_rng(0)
    n_classes = 2 if scheme == "one output" else 4
    n_outputs = {"one output": 1, "one vs rest": 4, "one vs one": 6}[scheme]
    scores = rng.integers(-3, 4, (2000, n_outputs))
    expected = predicted_codes(scores.astype(float), scheme, n_classes, break_ties)
    assert_array_equal(integer_codes(scores, scheme, n_classes, break_ties), expected)


def test_sums_of_pairs_fit_in_32_bits():
    rng = np.random.default_rng(0)
    model = random_model(rng, kind="classifier", scheme="one vs one", formats=("int8",), map=None)
    _, machine = built(replace(model, scaler=None), likely_rows(replace(model, scaler=None)))
    bound = machine.bounds[-1]
    assert bound.what == "sum of scores"
    sums = pair_sums(machine.scores(hostile_rows(rng, machine)), len(model.classes))
    assert np.abs(sums).max() <= bound.largest


@pytest.mark.parametrize("temperature", [0.03, 1.0, 20.0])
def test_probabilities_are_those_of_floating_point(temperature):
    rng = np.random.default_rng(0)
    step = 3e-6
    scores = rng.integers(-(10**6), 10**6, (500, 5))
    exact = np.exp((scores - scores.max(axis=1, keepdims=True)) * step / temperature)
    exact /= exact.sum(axis=1, keepdims=True)
    found = Probabilities.of(step, temperature).q15(scores) / 32768
    assert np.abs(found - exact).max() < 3e-4
    two = Probabilities.of(step, temperature, offset=0.5).q15(scores[:, 0]) / 32768
    exact = 1 / (1 + np.exp(-(scores[:, 0] * step - 0.5) / temperature))
    assert np.abs(two[:, 1] - exact).max() < 3e-4
    assert_array_equal(two.sum(axis=1), 1)


def test_machines_that_do_not_fit_are_refused():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(20, 2))
    coef = encode(np.ones((1, 3)), FORMATS["int4"])
    for gamma, message in ((1e-30, "of 0"), (1e12, "too narrow")):
        centers = encode(rng.normal(size=(3, 2)), FORMATS["int4"])
        expansion = QuantizedExpansion(np.array([gamma]), centers, coef, np.zeros(1))
        with pytest.raises(ValueError, match=message):
            expansion.integer_values(X)
    wide = encode(rng.normal(size=(3, 200000)), FORMATS["int8"])
    expansion = QuantizedExpansion(np.array([1e-4]), wide, coef, np.zeros(1))
    with pytest.raises(ValueError, match="32 bits"):
        expansion.integer_values(rng.normal(size=(5, 200000)))


def test_storage_without_codes_is_refused():
    X, y = load_wine(return_X_y=True)
    model = as_model(SVC().fit(X, y))
    with pytest.raises(ValueError, match="not integers"):
        integer_tables(model, "float16")
    assert isinstance(model.expansion.kernel, RBF)
