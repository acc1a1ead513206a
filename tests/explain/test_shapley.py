"""Shapley values of machines: agreement with the definition, additivity, estimates, bad input."""

import warnings
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn.datasets import load_breast_cancer, load_iris
from sklearn.decomposition import PCA
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from kernlet import CompactKernelClassifier, KernelExpansion, load, save, shapley_values
from kernlet.affine import AffineMap, CurvedMap, StepMap
from kernlet.kernels import RBF, Kernel, Laplacian, Linear, Polynomial, RationalQuadratic, Sigmoid
from kernlet.model.model import Model, as_model
from naive import shapley
from support.exportable_models import CLASSIFIERS, REGRESSORS
from support.mixed_tables import FRAME, LABELS, mixed
from support.random_machines import random_model

IRIS, KINDS = load_iris(return_X_y=True)


class Box(Kernel):
    """1 where no difference exceeds a half, else 0; a product without a name."""

    def evaluate(self, X, Z, x_norms, z_norms):
        return (np.abs(X[:, None] - Z) <= 0.5).all(axis=2).astype(float)

    def log_factor(self, differences):
        return np.where(np.abs(differences) <= 0.5, 0.0, -np.inf)


KERNELS = {
    "rbf": RBF(0.3),
    "rbf per center": RBF(np.linspace(0.1, 2.0, 6)),
    "rbf flat": RBF(0.0),
    "laplacian": Laplacian(0.2),
    "rational quadratic": RationalQuadratic(0.4, 0.8),
    "rational quadratic per center": RationalQuadratic(np.linspace(0.1, 2.0, 6), 3.0),
    "linear": Linear(),
    "box": Box(),
}
STEPS = StepMap(np.array([0, 1, 1]), np.array([0.1, -0.3, 0.4]), np.array([1.0, -2.0, 0.5]))
MAPS = {
    "none": None,
    "number": AffineMap(0.3, 1.7),
    "features": AffineMap(np.linspace(-1, 1, 8), np.linspace(0.3, 2, 8)),
    "asinh": CurvedMap(0.1, 2.0, is_asinh=True),
    "steps": CurvedMap(np.full(8, 0.1), np.linspace(0.5, 1.5, 8), is_asinh=True, steps=STEPS),
    "selection": AffineMap(0.0, 1.0, np.eye(8)[[5, 2, 2, 7]]),
}


def expansion(kernel, map=None, seed=0, n_features=8, n_outputs=2):
    rng = np.random.RandomState(seed)
    rank = n_features if map is None or map.matrix is None else len(map.matrix)
    centers = 0.5 * rng.randn(6, rank)
    return KernelExpansion(kernel, centers, rng.randn(n_outputs, 6), rng.randn(n_outputs), map)


def rows(seed=1, n_features=8):
    rng = np.random.RandomState(seed)
    return 0.5 * rng.randn(2, n_features), 0.5 * rng.randn(4, n_features)


def alone(n_features):
    return [[feature] for feature in range(n_features)]


def assert_exact(explanation, function, X, background, groups, atol=1e-10):
    assert explanation.error_kind == "bound"
    expected = np.stack([shapley(function, x, background, groups) for x in X])
    error = np.abs(explanation.values - expected)
    scale = max(1.0, np.abs(function(background)).max())
    assert not error.max() > atol * scale
    assert not (error - explanation.error).max() > 1e-14 * scale
    np.testing.assert_allclose(explanation.base_values, function(background).mean(axis=0))
    assert_additive(explanation, function(X))


def assert_additive(explanation, outputs):
    sums = explanation.values.sum(axis=1) + explanation.base_values
    scale = max(1.0, np.abs(outputs).max())
    assert not np.abs(sums - outputs.reshape(sums.shape)).max() > 1e-10 * scale


# -- Exact values ------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("map", MAPS)
@pytest.mark.parametrize("kernel", KERNELS)
def test_values_are_those_of_the_definition(kernel, map):
    f = expansion(KERNELS[kernel], MAPS[map])
    X, background = rows()
    explanation = shapley_values(f, X, background)
    assert_exact(explanation, f.decision_values, X, background, alone(8))


@pytest.mark.slow
@pytest.mark.parametrize("kernel", ["rbf", "laplacian"])
def test_values_of_twelve_features_are_those_of_the_definition(kernel):
    f = expansion(KERNELS[kernel], n_features=12)
    X, background = rows(n_features=12)
    explanation = shapley_values(f, X, background)
    assert_exact(explanation, f.decision_values, X, background, alone(12))


@pytest.mark.parametrize("kernel", KERNELS)
def test_groups_are_players(kernel):
    f = expansion(KERNELS[kernel])
    X, background = rows()
    groups = {"some": [1, 5, 6], "two": [7, 0]}
    explanation = shapley_values(f, X, background, groups=groups)
    assert explanation.feature_names == ("two", "some", "x2", "x3", "x4")
    assert_exact(explanation, f.decision_values, X, background, [[7, 0], [1, 5, 6], [2], [3], [4]])
    assert np.isnan(explanation.data[:, :2]).all()
    np.testing.assert_array_equal(explanation.data[:, 2:], X[:, 2:5])


def test_groups_that_a_matrix_does_not_mix_are_exact():
    matrix = np.kron(np.eye(4), np.array([[0.5, 0.5]]))  # means of two features
    f = expansion(RBF(0.5), AffineMap(0.0, 1.0, matrix))
    X, background = rows()
    pairs = {f"mean {i}": [2 * i, 2 * i + 1] for i in range(4)}
    explanation = shapley_values(f, X, background, groups=pairs, n_permutations=1)
    assert_exact(explanation, f.decision_values, X, background, list(pairs.values()))
    assert shapley_values(f, X, background, n_permutations=1).error_kind == "standard error"


@pytest.mark.parametrize("seed", range(12))
def test_random_packed_machines_are_explained_as_stored(seed):
    rng = np.random.default_rng(seed)
    model = random_model(rng, formats=("int8", "int4", "int8"), kernel="rbf", map="columns")
    X = rng.normal(size=(3, model.n_features))
    background = rng.normal(size=(5, model.n_features))
    explanation = shapley_values(model, X, background)
    scores = model.outputs(X)
    if model.kind == "classifier":
        scores = model.class_scores(scores)
    assert explanation.error_kind == "bound"
    assert_additive(explanation, scores)


@pytest.mark.slow
@pytest.mark.parametrize("name", CLASSIFIERS | REGRESSORS)
def test_every_kind_of_machine_is_explained(name):
    machine, X = (CLASSIFIERS | REGRESSORS)[name]()
    model = as_model(machine)
    X = X[:: len(X) // 3]
    explanation = shapley_values(machine, X, X[::2], n_permutations=4, random_state=0)
    outputs = model.outputs(model.rows(X))
    scores = model.class_scores(outputs) if model.kind == "classifier" else outputs
    assert_additive(explanation, scores)
    n_outputs = 1 if scores.ndim == 1 else scores.shape[1]
    assert len(explanation.output_names) == n_outputs
    assert explanation.error.shape == explanation.values.shape


def test_scores_of_two_classes_are_for_the_second():
    machine = SVC().fit(IRIS, KINDS == 2)
    explanation = shapley_values(machine, IRIS[::10], IRIS[::9])
    assert explanation.output_names == ("True",)
    assert_additive(explanation, machine.decision_function(IRIS[::10]))


def test_a_table_is_explained_by_its_columns(tmp_path):
    machine = make_pipeline(mixed(), SVC()).fit(FRAME, LABELS)
    save(machine, tmp_path / "a.kernlet")
    X, background = FRAME[:3], FRAME[20:24]
    explanation = shapley_values(load(tmp_path / "a.kernlet"), X, background)
    model = as_model(machine)
    names = model.encoding.names
    assert explanation.feature_names == names
    widths = [len(column.features) for column in model.encoding.columns]
    ends = np.cumsum(widths)
    groups = [list(range(end - width, end)) for end, width in zip(ends, widths, strict=True)]

    def function(rows):
        return model.class_scores(model.outputs(rows)).reshape(len(rows), -1)

    encoded = [model.rows(table) for table in (X, background)]
    assert_exact(explanation, function, *encoded, groups)
    assert list(explanation.data[1:, names.index("city")]) == list(X["city"][1:])
    by_group = shapley_values(machine, X, background, groups={"place": ["city", "on"]})
    assert by_group.feature_names[-1] == "place"
    assert_additive(by_group, function(encoded[0]))


def test_a_matrix_before_a_linear_machine_is_exact():
    machine = make_pipeline(StandardScaler(), PCA(2), SVC(kernel="linear")).fit(IRIS, KINDS)
    X, background = IRIS[::40], IRIS[::30]
    model = as_model(machine)
    explanation = shapley_values(machine, X, background)
    assert_exact(
        explanation, lambda rows: model.class_scores(model.outputs(rows)), X, background, alone(4)
    )


def test_a_machine_without_centers_has_values_of_zero():
    f = KernelExpansion(RBF(1.0), np.zeros((0, 3)), np.zeros((2, 0)), np.array([1.0, 2.0]))
    explanation = shapley_values(f, np.ones((2, 3)), np.zeros((4, 3)))
    assert not explanation.values.any()
    np.testing.assert_array_equal(explanation.base_values, [1.0, 2.0])


def test_many_features_of_which_few_move():
    rng = np.random.RandomState(0)
    f = KernelExpansion(RBF(0.1), rng.rand(3, 40_000) < 1e-4, rng.randn(1, 3), np.zeros(1))
    X, background = (rng.rand(n, 40_000) < 1e-4 for n in (1, 5))
    explanation = shapley_values(f, X.astype(float), background.astype(float))
    assert_additive(explanation, f.decision_values(X.astype(float)))
    never = ~(X | background).any(axis=0)
    assert not explanation.values[0, never].any()


def test_sparse_rows_are_explained_as_dense_ones():
    machine = SVC().fit(sparse.csr_array(IRIS), KINDS)
    sparse_values = shapley_values(machine, sparse.csr_array(IRIS[:4]), sparse.csr_array(IRIS[::9]))
    dense = shapley_values(machine, IRIS[:4], IRIS[::9])
    np.testing.assert_array_equal(sparse_values.values, dense.values)


def test_a_tolerance_is_kept():
    X, y = load_breast_cancer(return_X_y=True)
    machine = make_pipeline(StandardScaler(), SVC()).fit(X, y)
    exact = shapley_values(machine, X[::100], X[::30], tol=0)
    rough = shapley_values(machine, X[::100], X[::30], tol=1e-2)
    difference = np.abs(rough.values - exact.values)
    assert (difference <= rough.error + exact.error).all()
    assert rough.error.max() > 1e3 * exact.error.max()


# -- Invariants --------------------------------------------------------------------------------

NUMBERS = st.floats(-3, 3, allow_subnormal=False)


@st.composite
def games(draw):
    seed, d = draw(st.integers(0, 10**6)), draw(st.integers(2, 9))
    kernel = draw(
        st.sampled_from([RBF(0.4), RBF(3.0), Laplacian(0.5), RationalQuadratic(0.5, 2.0)])
    )
    return expansion(kernel, seed=seed, n_features=d), *rows(seed, d)


@settings(max_examples=40)
@given(games())
def test_values_add_up_to_the_outputs(game):
    f, X, background = game
    assert_additive(shapley_values(f, X, background), f.decision_values(X))


@settings(max_examples=30)
@given(games())
def test_a_feature_without_influence_has_no_value(game):
    f, X, background = game
    centers = f.centers.copy()
    same = X.copy()
    background = background.copy()
    background[:, 0] = same[:, 0] = 0.7  # never changes
    f = KernelExpansion(f.kernel, centers, f.coef, f.intercept)
    assert not shapley_values(f, same, background).values[:, 0].any()


@settings(max_examples=30)
@given(games())
def test_alike_features_have_equal_values(game):
    f, X, background = game
    for points in (f.centers, X, background):
        points[:, 1] = points[:, 0]
    values = shapley_values(f, X, background).values
    np.testing.assert_allclose(values[:, 0], values[:, 1], atol=1e-13)


@settings(max_examples=30)
@given(games(), NUMBERS, NUMBERS)
def test_values_are_linear_in_the_coefficients(game, first, second):
    f, X, background = game
    mixed = KernelExpansion(
        f.kernel, f.centers, first * f.coef[:1] + second * f.coef[1:], np.zeros(1)
    )
    values = shapley_values(f, X, background).values
    combined = first * values[:, :, 0] + second * values[:, :, 1]
    np.testing.assert_allclose(
        shapley_values(mixed, X, background).values[:, :, 0], combined, atol=1e-9
    )


# -- Estimates ---------------------------------------------------------------------------------

DENSE = AffineMap(0.0, 1.0, np.random.RandomState(5).randn(3, 8) / 2)
SAMPLED = {
    "projection": (RBF(0.5), DENSE),
    "polynomial": (Polynomial(degree=3, gamma=0.5, coef0=1.0), None),
    "sigmoid": (Sigmoid(gamma=0.5, coef0=0.1), MAPS["features"]),
}


@pytest.mark.parametrize("name", SAMPLED)
def test_few_features_are_explained_by_all_coalitions(name):
    f = expansion(*SAMPLED[name])
    X, background = rows()
    explanation = shapley_values(f, X, background, n_permutations=100)
    assert_exact(explanation, f.decision_values, X, background, alone(8))


@pytest.mark.parametrize("name", SAMPLED)
@pytest.mark.parametrize(("n_background", "n_permutations"), [(4, 40), (30, 60)])
def test_standard_errors_cover_the_values(name, n_background, n_permutations):
    f = expansion(*SAMPLED[name])
    X, background = rows()[0], 0.5 * np.random.RandomState(7).randn(n_background, 8)
    exact = shapley_values(f, X, background, n_permutations=5000)
    assert exact.error_kind == "bound"
    errors, covered = [], []
    for seed in range(25):
        options = {"n_permutations": n_permutations, "random_state": seed}
        sampled = shapley_values(f, X, background, **options)
        assert sampled.error_kind == "standard error"
        assert_additive(sampled, f.decision_values(X))
        errors.append(sampled.values - exact.values)
        covered.append(np.abs(errors[-1]) < 1.96 * sampled.error)
    assert np.mean(covered) > 0.85
    assert (np.abs(np.mean(errors, axis=0)) < np.std(errors, axis=0)).all()  # no bias


def test_more_permutations_estimate_better():
    f = expansion(*SAMPLED["projection"])
    X, background = rows()
    exact = shapley_values(f, X, background, n_permutations=1000).values
    few, many = (
        shapley_values(f, X, background, n_permutations=n, random_state=0) for n in (8, 56)
    )
    assert few.error_kind == many.error_kind == "standard error"
    assert many.error.mean() < few.error.mean() / 2
    assert np.abs(many.values - exact).mean() < np.abs(few.values - exact).mean()


def test_an_estimate_follows_from_its_random_state():
    f = expansion(*SAMPLED["projection"])
    X, background = rows()
    options = {"n_permutations": 8, "random_state": 3}
    first = shapley_values(f, X, background, **options)
    again = shapley_values(f, X[1:], background, **options)
    np.testing.assert_allclose(again.values, first.values[1:], atol=1e-14)
    other = shapley_values(f, X, background, n_permutations=8, random_state=4)
    assert np.abs(other.values - first.values).max() > 1e-6


def test_a_projected_machine_is_explained_by_its_pixels():
    machine = CompactKernelClassifier(6, projection=2, n_epochs=3, random_state=0).fit(IRIS, KINDS)
    explanation = shapley_values(machine, IRIS[::50], IRIS[::15])
    assert explanation.error_kind == "bound"  # 16 coalitions of four features
    assert_additive(explanation, machine.decision_function(IRIS[::50]))


# -- Result and errors -------------------------------------------------------------------------


def test_importance_is_the_mean_absolute_value():
    explanation = shapley_values(SVC().fit(IRIS, KINDS), IRIS[::10], IRIS[::9])
    np.testing.assert_array_equal(explanation.importance(), np.abs(explanation.values).mean(axis=0))
    assert repr(explanation).startswith("Explanation(15 rows, 4 features, 3 outputs; bound at most")


def test_the_importance_is_drawn():
    pyplot = pytest.importorskip("matplotlib.pyplot")
    axes = shapley_values(SVC().fit(IRIS, KINDS), IRIS[::10], IRIS[::9]).plot(max_features=3)
    assert [text.get_text() for text in axes.get_yticklabels()] == ["x1", "x3", "x2"]
    assert len(axes.get_legend().get_texts()) == 3
    pyplot.close(axes.figure)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_a_shap_explanation_has_the_same_numbers(n_classes):
    pytest.importorskip("shap")
    y = np.minimum(KINDS, n_classes - 1)
    explanation = shapley_values(SVC().fit(IRIS, y), IRIS[::10], IRIS[::9])
    other = explanation.to_shap()
    assert other.shape == ((15, 4) if n_classes == 2 else (15, 4, 3))
    np.testing.assert_array_equal(
        other.values.reshape(explanation.values.shape), explanation.values
    )
    np.testing.assert_array_equal(
        np.reshape(other.base_values, (15, -1))[0], explanation.base_values
    )
    np.testing.assert_array_equal(other.data, IRIS[::10])


def test_without_shap_there_is_one_sentence(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "shap", None)
    explanation = shapley_values(SVC().fit(IRIS, KINDS), IRIS[:1], IRIS[::9])
    with pytest.raises(ImportError, match="to_shap needs shap, which is not installed"):
        explanation.to_shap()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"background": None}, "background is None: give rows"),
        ({"background": IRIS[:, :2]}, "background has 2 features, but the model takes 4"),
        ({"background": IRIS[:0]}, "background has no rows"),
        ({"background": np.full((1, 4), np.nan)}, "In background: Input contains NaN"),
        ({"background": IRIS[0]}, "In background: Expected 2D array"),
        ({"tol": -1.0}, "tol=-1.0 must be"),
        ({"tol": np.nan}, "tol=nan must be"),
        ({"tol": "small"}, "tol='small' must be"),
        ({"n_permutations": 0}, "n_permutations=0 must be"),
        ({"n_permutations": 1.5}, "n_permutations=1.5 must be"),
        ({"groups": {"a": [0], "b": [0, 1]}}, "'x0' is in the groups 'a' and 'b'"),
        ({"groups": {"a": [4]}}, "has the feature 4, which the model lacks"),
        ({"groups": {"a": ["petal"]}}, "has the feature 'petal', which the model lacks"),
        ({"groups": {"a": []}}, "must be a list of at least one feature"),
        ({"groups": {"a": "x0"}}, "must be a list of at least one feature"),
        ({"groups": {"a": 5}}, "must be a list of at least one feature, not 5"),
        ({"groups": {"a": [0, 0]}}, "Group 'a' has the feature 'x0' twice"),
        ({"groups": {"x3": [0, 1]}}, "'x3' has the name of a feature that is in no group"),
        ({"groups": {"1": [0], 1: [2]}}, "Two groups have the name '1'"),
    ],
)
def test_bad_input_gets_a_sentence(options, message):
    machine = SVC().fit(IRIS, KINDS)
    options = {"background": IRIS[::9]} | options
    with pytest.raises(ValueError, match=message):
        shapley_values(machine, IRIS[:2], **options)


def test_groups_are_a_dict():
    with pytest.raises(TypeError, match="groups must be a dict"):
        shapley_values(SVC().fit(IRIS, KINDS), IRIS[:2], IRIS[::9], groups=[[0, 1]])


@pytest.mark.parametrize("feature", [None, 1.7, True])
def test_features_of_a_group_are_names_or_numbers(feature):
    with pytest.raises(TypeError, match="which is neither a name nor a number"):
        shapley_values(SVC().fit(IRIS, KINDS), IRIS[:2], IRIS[::9], groups={"a": [feature]})


def test_a_group_may_have_the_name_of_one_of_its_features():
    groups = {"x0": ["x0", np.int64(2)]}
    explanation = shapley_values(SVC().fit(IRIS, KINDS), IRIS[:2], IRIS[::9], groups=groups)
    assert explanation.feature_names == ("x0", "x1", "x3")


@pytest.mark.parametrize("what", ["X", "background"])
def test_missing_features_that_distances_leave_out_get_a_sentence(what):
    f = replace(expansion(RBF(0.3)), skips_missing=True)
    tables = dict(zip(("X", "background"), rows(), strict=True))
    assert np.isfinite(shapley_values(f, **tables).values).all()
    tables[what][1, 2] = np.nan
    with pytest.raises(ValueError, match=f"1 row lacks a value in {what}, first row 1.*drop"):
        shapley_values(f, **tables)


@pytest.mark.parametrize("scaled", [False, True])
@pytest.mark.parametrize("what", ["X", "background"])
@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda X: X[X.columns[::-1]], "has its columns in another order"),
        (lambda X: X.rename(columns={"b": "e"}), "lacks 'b'; the machine was trained on 'a', 'b'"),
        (lambda X: X.assign(e=0.0), "has 'e', which the machine was not trained on"),
    ],
)
def test_other_columns_get_a_sentence(change, message, what, scaled):
    frame = pd.DataFrame(IRIS, columns=list("abcd"))
    machine = (make_pipeline(StandardScaler(), SVC()) if scaled else SVC()).fit(frame, KINDS)
    tables = {"X": frame[:2], "background": frame[::9]}
    expected = shapley_values(machine, **tables)
    assert expected.feature_names == ("a", "b", "c", "d")
    np.testing.assert_array_equal(
        shapley_values(machine, IRIS[:2], IRIS[::9]).values, expected.values
    )
    tables[what] = change(tables[what])
    with pytest.raises(ValueError, match=f"{what} {message}"):
        shapley_values(machine, **tables)


def test_quantiles_are_explained_before_they_are_sorted():
    f = expansion(RBF(0.3))
    X, background = rows()
    model = Model(f, "regressor", is_flat=False, quantiles=(0.1, 0.9))
    explanation = shapley_values(model, X, background)
    assert explanation.output_names == ("q0.1", "q0.9")
    sums = explanation.base_values + explanation.values.sum(axis=1)
    np.testing.assert_allclose(sums, f.decision_values(X))


def test_a_novelty_detector_is_explained_by_its_score():
    model = Model(expansion(RBF(0.3), n_outputs=1), "novelty")
    explanation = shapley_values(model, rows()[0][:1], rows()[1])
    assert explanation.output_names == ("score",)
    assert repr(explanation).startswith("Explanation(1 row, 8 features, 1 output; bound")


@pytest.mark.parametrize("name", ["rbf", "laplacian", "rational quadratic", "linear"])
def test_rows_far_away_are_explained_without_a_warning(name):
    X, background = rows()
    f = expansion(KERNELS[name])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        explanation = shapley_values(f, 1e200 * X, background)
    sums = explanation.base_values + explanation.values.sum(axis=1)
    np.testing.assert_allclose(sums, f.decision_values(1e200 * X), rtol=1e-9)


def test_values_that_overflow_get_a_sentence():
    f = KernelExpansion(Linear(), np.full((1, 2), 1.5), np.ones((1, 1)), np.zeros(1))
    with pytest.raises(ValueError, match="so that it has no"):
        shapley_values(f, np.array([[1e308, -1e308]]), np.array([[-1e308, 1e308]]))


def test_a_curve_behind_a_matrix_gets_a_sentence():
    f = expansion(RBF(1.0), CurvedMap(0.0, 1.0, is_asinh=True), n_features=2)
    model = Model(f, scaler=AffineMap(0.0, 1.0, np.ones((2, 3))))
    with pytest.raises(ValueError, match="an asinh or steps behind a PCA"):
        shapley_values(model, np.zeros((1, 3)), np.ones((1, 3)))


def test_rows_that_overflow_get_a_sentence():
    f = expansion(Polynomial(degree=3, gamma=1.0, coef0=0.0))
    with pytest.raises(ValueError, match="overflows in the machine"):
        shapley_values(f, np.full((1, 8), 1e200), np.ones((1, 8)))
    with pytest.raises(ValueError, match="Row 0 of background, counted from 0, overflows"):
        shapley_values(f, np.ones((1, 8)), np.full((1, 8), 1e200))
