"""Weights, targets and parameters that fits refuse, in every estimator, and what that leaves."""

from fractions import Fraction

import numpy as np
import pytest
from sklearn.base import clone, is_regressor
from sklearn.svm import SVC, SVR
from sklearn.utils._param_validation import InvalidParameterError

import kernlet
from kernlet import (
    CompactKernelClassifier,
    CompactKernelRegressor,
    CompressedClassifier,
    CompressedRegressor,
    ProximalClassifier,
    compress,
)
from kernlet.compression.refit import refine, refit
from kernlet.model.calibration import calibrated
from kernlet.model.model import as_model

X = np.random.default_rng(0).normal(size=(30, 2))
y = np.arange(30) % 2
QUICK = [
    kernlet.MMDA(),
    kernlet.ChunkingSyntheticClassifier(n_runs=1, n_points=2),
    CompactKernelClassifier(2, n_epochs=1),
    CompactKernelRegressor(2, n_epochs=1),
    kernlet.CompactNoveltyDetector(2),
    CompressedClassifier(SVC(), 2, max_iter=5),
    CompressedClassifier(SVC(), "auto", max_iter=5),
    CompressedRegressor(SVR(), 2, max_iter=5),
    CompressedRegressor(SVR(), "auto", max_iter=5),
    kernlet.CoreVectorClassifier(),
    kernlet.CoreVectorNovelty(),
    kernlet.HullPerceptronClassifier(),
    kernlet.KernelFisherDiscriminant(),
    kernlet.L1KernelClassifier(),
    kernlet.L1KernelRegressor(),
    kernlet.MinimalKernelClassifier(),
    kernlet.MinimalKernelRegressor(),
    ProximalClassifier(),
]
for each in QUICK:
    each.random_state = 0
names = [type(each).__name__ for each in QUICK]
estimators = pytest.mark.parametrize("estimator", QUICK, ids=names)


def weights_with(value):
    return np.append(np.ones(29), value)


BAD_WEIGHTS = [
    (weights_with(np.nan), "sample_weight contains NaN"),
    (weights_with(np.inf), "sample_weight contains infinity"),
    (weights_with(-1.0), "Negative values in data passed to `sample_weight`"),
    (-1.0, "Negative values"),
    (np.zeros(30), "at least one non-zero number"),
    (np.ones(5), r"sample_weight.shape == \(5,\), expected \(30,\)"),
    (np.ones((30, 1)), "1D array or scalar"),
    (np.full(30, 1.7e308), "add up to inf, which is too large"),
    (np.full(30, 5e-324), "which is too small to divide by"),
    (weights_with(1j), "complex numbers"),
    (np.array(["heavy"] * 30), r"sample_weight holds 'heavy' \(.*not a number"),
]


@estimators
@pytest.mark.parametrize(("weights", "sentence"), BAD_WEIGHTS)
def test_wrong_weights_are_refused(estimator, weights, sentence):
    with pytest.raises(ValueError, match=sentence):
        clone(estimator).fit(X, y, sample_weight=weights)


@estimators
@pytest.mark.parametrize("weights", [2.0, np.float32(2), [2] * 30, np.full(30, 2.0, dtype=object)])
def test_weights_as_a_number_a_list_or_objects_are_those_of_an_array(estimator, weights):
    expected = clone(estimator).fit(X, y, sample_weight=np.full(30, 2.0))
    fitted = clone(estimator).fit(X, y, sample_weight=weights)
    np.testing.assert_array_equal(fitted.expansion_.coef, expected.expansion_.coef)


@pytest.mark.parametrize(("weights", "sentence"), BAD_WEIGHTS)
def test_wrong_weights_are_refused_by_functions(weights, sentence):
    svm = SVC().fit(X, y)
    model = as_model(svm)
    signs = np.where(y, 1.0, -1.0)[None, :]
    kernel, centers = model.expansion.kernel, X[:3]
    calls = [
        lambda: compress(svm, 2, X, y, sample_weight=weights),
        lambda: calibrated(model, X, y, weights),
        lambda: refit(kernel, centers, X, signs, weights=weights),
        lambda: refine(model.expansion, X, y, n_epochs=1, sample_weight=weights),
    ]
    for call in calls:
        with pytest.raises(ValueError, match=sentence):
            call()


@estimators
def test_booleans_and_fractions_are_not_numbers(estimator):
    names = {"C", "n_centers", "n_landmarks", "n_features_per_class"}
    name = next(iter(names & set(estimator.get_params(deep=False))), "coef0")
    for value in (True, np.bool_(False), Fraction(1, 2)):
        with pytest.raises(InvalidParameterError, match=f"'{name}' parameter of .* an int, a flo"):
            clone(estimator).set_params(**{name: value}).fit(X, y)
    if name == "n_centers" and isinstance(estimator, CompressedClassifier):
        with pytest.raises(InvalidParameterError, match="'n_centers' parameter of compress"):
            compress(SVC().fit(X, y), True)


@estimators
def test_a_failed_fit_leaves_the_estimator_as_it_was(estimator):
    fitted = clone(estimator).fit(X, y)
    before = {name: value for name, value in vars(fitted).items() if name.endswith("_")}
    rows = np.random.default_rng(1).normal(size=(20, 3))
    other = np.array(["other", "labels"])[np.arange(20) % 2]
    if is_regressor(fitted):
        other = rows[:, 0]
    for wrong in ({"weights": np.full(20, np.nan)}, {"rows": np.nan}):
        data = rows * wrong.get("rows", 1.0)
        with pytest.raises(ValueError, match="NaN"):
            fitted.fit(data, other, sample_weight=wrong.get("weights"))
        after = {name: value for name, value in vars(fitted).items() if name.endswith("_")}
        assert after.keys() == before.keys()
        assert all(after[name] is before[name] for name in before)
        fitted.predict(X) if hasattr(fitted, "predict") else fitted.transform(X)


def test_a_late_failure_does_not_mix_new_classes_with_the_old_machine():
    machine = CompactKernelClassifier(2, n_epochs=1, random_state=0).fit(X, y)
    machine.class_weight = {"a": -1.0}  # noticed after the classes
    with pytest.raises(ValueError, match="class_weight"):
        machine.fit(X, np.array(["a", "b"])[y])
    assert set(machine.predict(X)) <= {0, 1}


# Targets of a regression

TARGETS = [
    (np.append(X[:29, 0].astype(object), None), "Row 29 of y, counted from 0, has no number"),
    ([0.5] * 29 + [None], "Row 29 of y"),
    (np.append(X[:29, 0], np.nan), "y contains NaN|Row 29 of y, counted from 0, has no number"),
    (np.arange(30).astype("datetime64[D]"), r"dates or times \(datetime64\).*astype"),
    (np.arange(30).astype("timedelta64[s]"), r"times \(timedelta64\).*'timedelta64\[s\]'"),
    (np.array(["a"] * 30), r"y holds text \('a'\)"),
    (X[:, 0] + 1j, "Complex data not supported: give real numbers"),
]


@pytest.mark.parametrize(("targets", "sentence"), TARGETS)
def test_targets_that_are_not_numbers(targets, sentence):
    for estimator in filter(is_regressor, QUICK):
        with pytest.raises(ValueError, match=sentence):
            clone(estimator).fit(X, targets)


def test_the_remedy_for_dates_works():
    days = np.arange(30).astype("datetime64[D]")
    seconds = days.astype("datetime64[s]").astype(float)
    assert CompactKernelRegressor(2, n_epochs=1).fit(X, seconds).predict(X).shape == (30,)


def test_infinite_labels_are_refused_without_a_warning_of_numpy(recwarn):
    labels = np.where(y, np.inf, 0.0)
    compressed = [each for each in QUICK if isinstance(each, CompressedClassifier)]
    for estimator in (*compressed, kernlet.TypicalCondenser()):
        with pytest.raises(ValueError, match="y contains infinity"):
            clone(estimator).fit(X, labels)
    assert not [warning for warning in recwarn if warning.category is RuntimeWarning]


def test_labels_of_mixed_types_are_refused_by_compressed_classifiers():
    labels = np.array([0, "a"], dtype=object)[y]
    with pytest.raises(ValueError, match=r"labels y mix types \(number, string\)"):
        CompressedClassifier(SVC(), 2).fit(X, labels)


# Numbers at the limits of parameters


@pytest.mark.parametrize("name", ["noise", "learning_rate"])
def test_numbers_that_overflow_in_float32_are_refused(name):
    with pytest.raises(InvalidParameterError, match=f"'{name}' parameter .* 1000000"):
        CompactKernelClassifier(2, **{name: 1e300}).fit(X, y)
    machine = CompactKernelClassifier(2, n_epochs=1, random_state=0, **{name: 1e6}).fit(X, y)
    assert np.isfinite(machine.decision_function(X)).all()


@pytest.mark.parametrize("fraction", [0.999, 1e-9])
@pytest.mark.parametrize("size", [{"max_bytes": 400}, {"n_centers": 3}, {"n_centers": "auto"}])
def test_any_validation_fraction(fraction, size):
    rows = np.random.default_rng(0).normal(size=(60, 3))
    machine = CompactKernelClassifier(
        validation_fraction=fraction, n_epochs=2, random_state=0, **size
    ).fit(rows, rows[:, 0] > 0)
    assert np.isfinite(machine.decision_function(rows)).all()


@pytest.mark.parametrize("scale", [1e-250, 1e30, 1e150, 1e300])
def test_weights_of_any_size_train_the_same_machine(scale):
    weights = np.random.default_rng(0).uniform(0.5, 1.0, size=30)
    machine = CompactKernelClassifier(2, n_epochs=2, random_state=0)
    expected = clone(machine).fit(X, y, weights).decision_function(X)
    fitted = machine.fit(X, y, weights * scale).decision_function(X)
    np.testing.assert_allclose(fitted, expected, rtol=1e-4, atol=1e-4)
