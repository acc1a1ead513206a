"""Missing values of compact machines: medians, distances over present features, the choice."""

import pickle
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.datasets import load_breast_cancer, load_digits, load_iris
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import kernlet
import naive
from kernlet import CompactKernelRegressor, KernelExpansion, compress, runtime, to_c, to_onnx
from kernlet.affine import AffineMap, ColumnRanges
from kernlet.compact.inputs import asinh_columns, mean_and_deviation
from kernlet.expansion import present_distances
from kernlet.kernels.linear import Linear
from kernlet.kernels.rational_quadratic import RationalQuadratic
from kernlet.kernels.rbf import RBF
from kernlet.model.model import as_model
from support.compact_machines import machine

IRIS, LABELS = load_iris(return_X_y=True)
FORMS = {
    "plain": {},
    "rational quadratic, widths": {"kernel": "rational_quadratic", "width": "per_center"},
    "feature widths and steps": {"width": "per_feature", "n_steps": 3},
    "int4, columns": {"storage": "int4", "scale": True},
    "few classes": {"classes_per_center": 2, "storage": "int8"},
}
every_form = pytest.mark.parametrize("form", FORMS.values(), ids=FORMS.keys())


def deleted(X, share=0.3, seed=0):
    """A copy with a share of the numbers missing, and all of the first row."""
    X = np.array(X, dtype=float)
    X[np.random.RandomState(seed).uniform(size=X.shape) < share] = np.nan
    X[0] = np.nan
    return X


HOLES = deleted(IRIS)


# -- Distances -------------------------------------------------------------------------------


@settings(max_examples=50, deadline=None)
@given(seed=st.integers(0, 10_000), share=st.sampled_from([0.0, 0.3, 0.7, 1.0]))
def test_distances_over_present_features_are_those_of_the_formula(seed, share):
    random = np.random.default_rng(seed)
    Z = random.normal(size=(3, 4))
    X = np.where(random.random((5, 4)) < share, np.nan, random.normal(size=(5, 4)))
    expected = naive.gram(naive.present_distance, X, Z)
    assert_allclose(present_distances(X, Z), expected, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("kernel", [RBF(0.7), RBF(np.array([0.2, 1.0])), RationalQuadratic(0.5)])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_an_expansion_skips_what_is_missing(kernel, dtype):
    random = np.random.default_rng(0)
    Z, coef = random.normal(size=(2, 4)), random.normal(size=(3, 2))
    map = AffineMap(random.normal(size=4), np.exp(random.normal(size=4)))
    expansion = KernelExpansion(kernel, Z, coef, np.ones(3), map, skips_missing=True)
    X = deleted(random.normal(size=(40, 4))).astype(dtype)
    distances = naive.gram(naive.present_distance, map(X.astype(float)), Z)
    values = distances * np.broadcast_to(kernel.gamma, 2)
    if isinstance(kernel, RBF):
        values = np.exp(-values)
    else:
        values = (1 + values / kernel.alpha) ** -kernel.alpha
    tolerance = 1e-5 if dtype == np.float32 else 1e-10
    assert expansion.missing == "distance"
    assert_allclose(expansion.decision_values(X), values @ coef.T + 1, atol=tolerance)
    whole = np.nan_to_num(X)
    plain = replace(expansion, skips_missing=False)
    assert_array_equal(expansion.decision_values(whole), plain.decision_values(whole))
    assert_array_equal(expansion.mapped.decision_values(map(X)), expansion.decision_values(X))


def test_only_squared_distances_of_features_can_leave_some_out():
    arrays = np.zeros((1, 2)), np.ones((1, 1)), np.zeros(1)
    for kernel, map in [
        (Linear(), None),
        (RBF(1.0), AffineMap(0.0, 1.0, np.ones((2, 3)))),
        (RBF(1.0), AffineMap(0.0, 1.0, fill=np.zeros(2))),
    ]:
        with pytest.raises(ValueError, match="can be left out of squared distances only"):
            KernelExpansion(kernel, *arrays, map, skips_missing=True)


def test_fill_values_compose_with_the_maps_before_them():
    random = np.random.default_rng(0)
    shift, scale = random.normal(size=3), np.exp(random.normal(size=3))
    fill = random.normal(size=3)
    first, second = AffineMap(shift, scale), AffineMap(1.0, 2.0, fill=fill)
    X = deleted(random.normal(size=(9, 3)))
    assert_allclose((second @ first)(X), second(first(X)), rtol=1e-12)
    assert_allclose((second @ first).fill, fill / scale + shift)
    assert (AffineMap(0.0, 1.0) @ second).fill is second.fill
    assert second.nbytes == first.nbytes + 3 * 8 - 2 * 2 * 8
    with pytest.raises(ValueError, match="several widths"):
        AffineMap(np.zeros(2), 1.0, fill=fill)


# -- Statistics of columns -------------------------------------------------------------------


def test_statistics_of_columns_leave_out_what_is_missing():
    random = np.random.default_rng(0)
    X = deleted(random.normal(size=(400, 3)) * [1.0, 5.0, 0.1] + [0.0, 3.0, 7.0])
    weights = random.uniform(size=400)
    ranges = ColumnRanges.of(X, skip_missing=True)
    assert ranges.has_missing
    assert_array_equal(ranges.low, np.nanmin(X, axis=0))
    assert_array_equal(ranges.high, np.nanmax(X, axis=0))
    shift, scale = ranges.standardising(X, weights)
    for column, mean, deviation in zip(X.T, shift, scale, strict=True):
        known = ~np.isnan(column)
        expected = np.average(column[known], weights=weights[known])
        square = np.average((column[known] - expected) ** 2, weights=weights[known])
        assert mean == pytest.approx(expected)
        assert deviation == pytest.approx(np.sqrt(square))
    mean, deviation = mean_and_deviation(X, largest=ranges.largest, has_missing=True)
    assert mean == pytest.approx(np.nanmean(X))
    assert deviation == pytest.approx(np.nanstd(X))
    for number, pair in enumerate(zip(*asinh_columns(X), strict=True)):
        alone = asinh_columns(X[~np.isnan(X[:, number])][:, [number]])
        assert_allclose(pair, np.ravel(alone))


def test_a_binary_column_stays_binary_with_missing_values():
    X = np.array([[0.0], [1.0], [np.nan], [1.0]])
    shift, scale = ColumnRanges.of(X, skip_missing=True).standardising(X)
    assert (shift[0], scale[0]) == (0.0, 1.0)


# -- Machines --------------------------------------------------------------------------------


@every_form
def test_medians_are_those_of_the_training_rows(form):
    fitted = machine(6, missing="median", **form).fit(HOLES, LABELS)
    medians = np.nanmedian(HOLES, axis=0)
    assert_allclose(fitted.expansion_.fill.decoded(), medians, rtol=1e-3)
    filled = np.where(np.isnan(HOLES), fitted.expansion_.fill.decoded(), HOLES)
    assert_array_equal(fitted.decision_function(HOLES), fitted.decision_function(filled))
    assert fitted.expansion_.missing == "median"
    assert fitted.score(HOLES, LABELS) > 0.8


@pytest.mark.slow
@every_form
def test_distances_need_nothing_stored(form):
    fitted = machine(6, missing="distance", **form).fit(HOLES, LABELS)
    plain = machine(6, **form).fit(np.nan_to_num(HOLES, nan=5.0), LABELS)
    assert fitted.nbytes_ == plain.nbytes_
    assert fitted.expansion_.missing == "distance"
    assert fitted.score(HOLES, LABELS) > 0.8
    assert np.isfinite(fitted.decision_function(np.full((1, 4), np.nan))).all()


@pytest.mark.slow
@every_form
def test_where_nothing_is_missing_the_machine_is_the_plain_one(form):
    plain = machine(6, **form).fit(IRIS, LABELS)
    for missing in ("distance", "auto"):
        other = machine(6, missing=missing, **form).fit(IRIS, LABELS)
        assert_array_equal(other.decision_function(IRIS), plain.decision_function(IRIS))
        assert (other.temperature_, other.nbytes_) == (plain.temperature_, plain.nbytes_)
    assert other.expansion_.missing == "error"
    with pytest.raises(ValueError, match="fitted to rows without missing values"):
        other.predict(HOLES)


def test_the_better_treatment_is_chosen_on_held_out_rows():
    X, y = load_breast_cancer(return_X_y=True)
    X = deleted(X, 0.2)
    fitted = machine(8, missing="auto").fit(X, y)
    tried = {point.missing: point for point in fitted.path_}
    assert set(tried) == {"median", "distance"}
    assert "treatments of missing values" in fitted.choice_
    best = max(tried.values(), key=lambda point: point.score)
    assert tried[fitted.expansion_.missing].score >= best.score - 2 * best.standard_error
    alone = machine(8, missing="auto", validation_fraction=None).fit(X, y)
    assert alone.expansion_.missing == "median"


@pytest.mark.slow
@pytest.mark.parametrize("n_rows", [400, 2400])
def test_a_search_tries_both_treatments_within_the_bytes(n_rows):
    X, y = load_digits(return_X_y=True)
    rows = np.random.RandomState(0).randint(len(X), size=n_rows)
    X, y = deleted(X[rows], 0.3), y[rows]
    options = {"max_bytes": 900, "effort": "quick", "n_epochs": 6}
    fitted = machine("auto", missing="auto", **options).fit(X, y)
    assert {point.missing for point in fitted.path_} == {"median", "distance"}
    assert all(point.rank is None for point in fitted.path_ if point.missing == "distance")
    assert fitted.nbytes_ <= 900
    assert fitted.nbytes_ == pickle.loads(pickle.dumps(fitted)).expansion_.nbytes
    only = machine("auto", missing="distance", **options).fit(X, y)
    assert {(point.missing, point.rank, point.block) for point in only.path_} == {
        ("distance", None, 1)
    }


def test_a_size_is_chosen_with_both_treatments():
    X, y = load_digits(return_X_y=True)
    X, y = np.vstack([X, X]), np.concatenate([y, y])
    fitted = machine("auto", missing="auto", max_centers=20, n_epochs=3).fit(deleted(X), y)
    assert {point.missing for point in fitted.path_} == {"median", "distance"}


def test_regression_with_missing_values():
    X = np.random.RandomState(0).uniform(-1, 1, (300, 3))
    y = 50 + 10 * X[:, 0] - 5 * X[:, 1]
    for missing in ("median", "distance"):
        regressor = CompactKernelRegressor(12, missing=missing, n_epochs=40, random_state=0)
        assert regressor.fit(deleted(X, 0.1), y).score(deleted(X, 0.1), y) > 0.7


def test_a_fit_continues_with_its_treatment():
    fitted = machine(6, missing="median", warm_start=True).fit(HOLES, LABELS)
    fill = fitted.expansion_.fill.decoded()
    fitted.set_params(missing="auto").fit(HOLES, LABELS)
    assert_array_equal(fitted.expansion_.fill.decoded(), fill)
    with pytest.raises(ValueError, match="missing='distance', but the machine to start from"):
        fitted.set_params(missing="distance").fit(HOLES, LABELS)
    with pytest.raises(ValueError, match="takes no missing values: start afresh"):
        machine(6, missing="auto", init=machine(6).fit(IRIS, LABELS)).fit(HOLES, LABELS)


@pytest.mark.parametrize(
    ("parameters", "rows", "message"),
    [
        ({}, HOLES, 'takes no missing values: give missing="auto"'),
        ({"missing": "distance", "projection": 2}, HOLES, "projection=2 mixes them"),
        ({"missing": "median"}, np.full_like(IRIS, np.nan), "has no number, only NaN"),
        ({"missing": "median"}, sparse.csr_array(HOLES), "sparse matrix that contains NaN"),
        ({"missing": "median"}, np.where(IRIS > 5, np.inf, IRIS), "infinity"),
        ({"missing": "median", "augment": "shift"}, HOLES, "images without missing pixels"),
    ],
)
def test_what_cannot_be_treated_is_refused_in_one_sentence(parameters, rows, message):
    with pytest.raises(ValueError, match=message):
        machine(6, **parameters).fit(rows, LABELS)


def test_images_with_missing_pixels_have_block_means_of_medians_only():
    X, y = load_digits(return_X_y=True)
    X = deleted(X, 0.1)
    fitted = machine(20, missing="median", block_means=True, n_epochs=5).fit(X, y)
    assert fitted.expansion_.block == 2
    assert fitted.score(X, y) > 0.6
    with pytest.raises(ValueError, match="block_means=True mixes them"):
        machine(20, missing="distance", block_means=True).fit(X, y)


def test_tags_say_whether_missing_values_are_taken():
    for missing in ("error", "median", "distance", "auto"):
        tags = machine(6, missing=missing).__sklearn_tags__()
        assert tags.input_tags.allow_nan == (missing != "error")


# -- After training --------------------------------------------------------------------------


@pytest.mark.parametrize("missing", ["median", "distance"])
def test_a_scaler_in_front_passes_missing_values_on(missing, tmp_path):
    pipeline = make_pipeline(StandardScaler(), machine(6, missing=missing)).fit(HOLES, LABELS)
    model = as_model(pipeline)
    assert model.missing == missing
    expected = pipeline.decision_function(HOLES)
    assert_allclose(model.scores(model.outputs(HOLES)), expected, rtol=1e-6)
    kernlet.save(pipeline, tmp_path / "m.kernlet")
    loaded = kernlet.load(tmp_path / "m.kernlet")
    assert_allclose(loaded.decision_function(HOLES), expected, rtol=1e-6)
    assert loaded.__sklearn_tags__().input_tags.allow_nan
    assert_allclose(
        runtime.load(tmp_path / "m.kernlet").decision_function(HOLES), expected, rtol=1e-6
    )
    to_onnx(pipeline, X=HOLES)
    assert to_c(pipeline, tmp_path, X=HOLES).rounding.agreement == 1.0
    with pytest.raises(ValueError, match="infinity"):
        loaded.predict(np.full((1, 4), np.inf))


def test_an_imputer_in_front_leaves_nothing_missing():
    pipeline = make_pipeline(SimpleImputer(), machine(6, missing="auto")).fit(HOLES, LABELS)
    assert pipeline[-1].expansion_.missing == "error"
    model = as_model(pipeline)
    expected = pipeline.decision_function(HOLES)
    assert_allclose(model.scores(model.outputs(model.rows(HOLES))), expected, rtol=1e-6)


def test_a_matrix_in_front_would_spread_missing_values():
    model = as_model(machine(6, missing="distance").fit(HOLES, LABELS))
    model = replace(model, scaler=AffineMap(np.zeros(4), np.ones(4), np.eye(4)))
    assert model.missing == "error"
    with pytest.raises(ValueError, match="NaN"):
        model.features(HOLES)


def test_compress_takes_medians_and_refuses_distances():
    medians = machine(12, missing="median").fit(HOLES, LABELS)
    small = compress(medians, 6, HOLES, LABELS, random_state=0)
    assert small.score(HOLES, LABELS) > 0.7
    with pytest.raises(ValueError, match="leaves missing features out of its distances"):
        compress(machine(6, missing="distance").fit(HOLES, LABELS), 3)


def test_arrays_of_other_libraries():
    torch = pytest.importorskip("torch")
    medians = machine(6, missing="median").fit(HOLES, LABELS)
    rows = torch.asarray(HOLES, dtype=torch.float32)
    assert_allclose(medians.decision_function(rows), medians.decision_function(HOLES), atol=1e-3)
    distances = machine(6, missing="distance").fit(HOLES, LABELS)
    whole = torch.asarray(IRIS, dtype=torch.float32)
    assert_allclose(
        distances.decision_function(whole), distances.decision_function(IRIS), atol=1e-3
    )
    with pytest.raises(ValueError, match="NaN"):
        distances.decision_function(rows)
    with pytest.raises(TypeError, match="computed with numpy only"):
        distances.expansion_.decision_values(rows)


def test_rows_of_a_source_may_lack_numbers(tmp_path):
    from kernlet.rows import open_rows

    np.save(tmp_path / "rows.npy", HOLES)
    rows = open_rows(tmp_path / "rows.npy")
    for missing in ("median", "distance"):
        fitted = machine(6, missing=missing).fit(rows, LABELS)
        alone = machine(6, missing=missing).fit(HOLES, LABELS)
        assert_allclose(fitted.decision_function(rows), alone.decision_function(HOLES), atol=1e-6)
