"""Probabilities: temperatures fitted to labels, and probabilities that other machines have."""

import warnings

import numpy as np
import pytest
from scipy.special import log_softmax
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import load_breast_cancer, load_digits, load_iris
from sklearn.metrics import log_loss
from sklearn.multiclass import OneVsOneClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, NuSVC

import kernlet
from kernlet import CompactKernelClassifier, L1KernelClassifier
from kernlet.model.calibration import best_temperature, calibrated, reproduce
from kernlet.model.model import as_model, link

CANCER, CANCER_LABELS = load_breast_cancer(return_X_y=True)
CANCER = StandardScaler().fit_transform(CANCER)
IRIS, IRIS_LABELS = load_iris(return_X_y=True)


def platt(machine, X, y):
    """Fit an SVC with probabilities of its own, which scikit-learn 1.9 deprecates."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        return machine.fit(X, y)


def probabilities(model, X):
    model = as_model(model)
    return model.probabilities(model.outputs(X))


def test_rows_all_told_apart_do_not_make_the_temperature_extreme():
    """One row more of any class keeps probabilities away from certainty."""
    codes = np.arange(60) % 3
    outputs = 4.0 * np.eye(3)[codes]
    weights = np.ones(60)
    temperature = best_temperature(outputs, codes, weights)
    right = 1 / 61 / 3 + 60 / 61
    assert np.exp(log_softmax(outputs / temperature, axis=1)).max() == pytest.approx(
        right, abs=1e-4
    )
    assert best_temperature(outputs[:6], codes[:6], weights[:6]) > temperature
    assert best_temperature(outputs[:0], codes[:0], weights[:0]) == 1.0


@pytest.mark.parametrize("size", [1e-6, 1.0, 1e6])
def test_the_temperature_follows_the_size_of_the_scores(size):
    random = np.random.RandomState(0)
    codes = random.randint(3, size=400)
    scores = 2.0 * np.eye(3)[codes] + random.normal(size=(400, 3))
    expected = best_temperature(scores, codes, np.ones(400))
    assert best_temperature(size * scores, codes, np.ones(400)) == pytest.approx(size * expected)
    assert 0.1 < expected < 10


def test_scores_of_zero_have_equal_probabilities():
    temperature = best_temperature(np.zeros((10, 3)), np.arange(10) % 3, np.ones(10))
    np.testing.assert_allclose(link(np.zeros((1, 3)), temperature, 0.0), 1 / 3)


def test_a_sigmoid_of_two_classes_is_recovered():
    scores = np.random.RandomState(0).normal(size=200)
    temperature, offset = reproduce(scores, link(scores, 0.3, -0.7))
    assert (temperature, offset) == pytest.approx((0.3, -0.7), rel=1e-4)


def test_a_temperature_of_several_classes_is_recovered():
    scores = np.random.RandomState(0).normal(size=(200, 4))
    assert reproduce(scores, link(scores, 0.3, 0.0)) == pytest.approx((0.3, 0.0), rel=1e-3)


def test_a_falling_sigmoid_keeps_a_positive_temperature():
    scores = np.linspace(-1, 1, 50)
    temperature, _ = reproduce(scores, link(-scores, 0.3, 0.0))
    assert temperature > 0


@pytest.mark.parametrize("y", [IRIS_LABELS, IRIS_LABELS > 0], ids=["three", "two"])
def test_calibration_changes_no_prediction_and_fits_the_labels(y):
    machine = as_model(L1KernelClassifier(random_state=0).fit(IRIS[::2], y[::2]))
    model = calibrated(machine, IRIS[1::2], y[1::2])
    outputs = model.outputs(IRIS[1::2])
    np.testing.assert_array_equal(model.codes(outputs), machine.codes(outputs))
    shares = model.probabilities(outputs)
    np.testing.assert_allclose(shares.sum(axis=1), 1.0)
    np.testing.assert_allclose(np.exp(model.probabilities(outputs, log=True)), shares)
    assert log_loss(y[1::2], shares) < 0.3


def test_labels_and_kinds_that_cannot_be_calibrated():
    machine = as_model(SVC().fit(IRIS, IRIS_LABELS))
    with pytest.raises(ValueError, match="label 7, which the model does not know"):
        calibrated(machine, IRIS, np.full(150, 7))
    with pytest.raises(ValueError, match="only a classifier has"):
        calibrated(as_model(machine.expansion), IRIS, IRIS_LABELS)


@pytest.mark.parametrize("kind", [SVC, NuSVC])
def test_an_svc_of_two_classes_keeps_its_sigmoid(kind):
    svm = platt(kind(probability=True, random_state=0), CANCER, CANCER_LABELS)
    model = as_model(svm)
    assert model.offset != 0
    # LIBSVM's own answer is the end of an iteration with a tolerance of .005
    np.testing.assert_allclose(probabilities(svm, CANCER), svm.predict_proba(CANCER), atol=5e-3)


@pytest.mark.parametrize("shape", ["ovr", "ovo"])
def test_an_svc_of_several_classes_keeps_probabilities_close_to_its_own(shape):
    X, y = load_digits(return_X_y=True)
    svm = SVC(probability=True, decision_function_shape=shape, random_state=0)
    platt(svm, X[:900], y[:900])
    ours, own = probabilities(svm, X[900:]), svm.predict_proba(X[900:])
    assert np.abs(ours - own).mean() < 0.02
    assert log_loss(y[900:], ours) < log_loss(y[900:], own) + 0.05


@pytest.mark.parametrize("method", ["sigmoid", "isotonic", "temperature"])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_calibrated_classifiers_are_unwrapped(method, n_classes):
    y = np.minimum(IRIS_LABELS, n_classes - 1)
    machine = make_pipeline(StandardScaler(), SVC())
    original = CalibratedClassifierCV(machine, method=method, ensemble=False)
    try:
        original.fit(IRIS, y)
    except ValueError:
        pytest.skip("this scikit-learn has no temperature scaling")
    model = as_model(original)
    outputs = model.outputs(IRIS)
    assert np.mean(model.classes[model.codes(outputs)] == original.predict(IRIS)) > 0.97
    is_exact = n_classes == 2 and method != "isotonic"
    errors = np.abs(model.probabilities(outputs) - original.predict_proba(IRIS))
    assert errors.max() < 1e-4 if is_exact else errors.mean() < 0.1


def test_a_calibrated_compact_machine_is_unwrapped():
    machine = CompactKernelClassifier(8, n_epochs=5, random_state=0)
    original = CalibratedClassifierCV(machine, ensemble=False, cv=3).fit(CANCER, CANCER_LABELS)
    np.testing.assert_allclose(
        probabilities(original, CANCER), original.predict_proba(CANCER), atol=1e-4
    )


def test_an_ensemble_is_refused():
    with pytest.raises(ValueError, match="Fit it with ensemble=False"):
        as_model(CalibratedClassifierCV(SVC()).fit(IRIS, IRIS_LABELS))


@pytest.mark.parametrize("y", [IRIS_LABELS, IRIS_LABELS > 0], ids=["three", "two"])
@pytest.mark.parametrize("wrap", [lambda svm: svm, OneVsOneClassifier], ids=["svc", "pairs"])
def test_saved_with_rows_a_machine_has_probabilities(y, wrap, tmp_path):
    svm = wrap(SVC(gamma=0.5)).fit(IRIS[::2], y[::2])
    kernlet.save(svm, tmp_path / "without")
    loaded = kernlet.load(tmp_path / "without")
    assert not hasattr(loaded, "predict_proba")
    with pytest.raises(AttributeError, match=r"give X and y, .* save\(model, path, X, y\)"):
        loaded.predict_proba(IRIS)
    kernlet.save(svm, tmp_path / "with", IRIS[1::2], y[1::2])
    loaded = kernlet.load(tmp_path / "with")
    shares = loaded.predict_proba(IRIS)
    assert shares.shape == (150, len(np.unique(y)))
    np.testing.assert_allclose(np.exp(loaded.predict_log_proba(IRIS)), shares)
    np.testing.assert_array_equal(loaded.predict(IRIS), svm.predict(IRIS))
    with pytest.raises(ValueError, match="Give both X and y"):
        kernlet.save(svm, tmp_path / "half", IRIS)


def test_the_offset_is_saved(tmp_path):
    svm = platt(SVC(probability=True, random_state=0), CANCER, CANCER_LABELS)
    kernlet.save(svm, tmp_path / "svm")
    loaded = kernlet.load(tmp_path / "svm")
    assert loaded.model_.offset == as_model(svm).offset
    np.testing.assert_allclose(loaded.predict_proba(CANCER), probabilities(svm, CANCER))
