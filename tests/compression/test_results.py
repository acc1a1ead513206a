"""What users get from compress: small files, probabilities, scores and a readable record."""

import copy
import io
import pickle
import warnings

import joblib
import numpy as np
import pytest
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import load_digits, make_classification, make_moons
from sklearn.frozen import FrozenEstimator
from sklearn.metrics import balanced_accuracy_score, log_loss, make_scorer
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC
from sklearn.utils._param_validation import InvalidParameterError

import kernlet
from kernlet import CompactKernelClassifier, CompressedClassifier, L1KernelClassifier, compress
from kernlet.compression.record import Compression, TriedSize
from kernlet.model.model import as_model
from kernlet.quantization import QuantizedExpansion
from kernlet.rows import ArrayRows

DIGITS, LABELS = load_digits(return_X_y=True)
DIGITS = DIGITS / 16.0


@pytest.fixture(scope="module")
def noisy():
    X, y = make_classification(1200, 11, n_informative=8, flip_y=0.2, weights=[0.7], random_state=0)
    return train_test_split(X, y, test_size=0.5, random_state=0)


@pytest.fixture(scope="module")
def moons():
    X, y = make_moons(400, noise=0.25, random_state=0)
    return X[:200], X[200:], y[:200], y[200:]


def platt(machine, X, y):
    """Fit an SVC with probabilities of its own, which scikit-learn 1.9 deprecates."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        return machine.fit(X, y)


# -- Size ----------------------------------------------------------------------------------------


def joblib_bytes(model):
    file = io.BytesIO()
    joblib.dump(model, file)
    return file.tell()


@pytest.mark.parametrize("way", ["function", "estimator"])
def test_the_original_is_not_in_the_file(noisy, way):
    X, _, y, _ = noisy
    svm = make_pipeline(StandardScaler(), SVC()).fit(X, y)
    if way == "function":
        small = compress(svm, 50, X, y, random_state=0)
    else:
        small = CompressedClassifier(clone(svm), 50, random_state=0).fit(X, y)
    assert len(pickle.dumps(svm)) > 30_000
    assert len(pickle.dumps(small)) < 10_000
    assert joblib_bytes(small) < 10_000
    again = pickle.loads(pickle.dumps(small))
    np.testing.assert_array_equal(again.predict_proba(X), small.predict_proba(X))
    assert not hasattr(small, "estimator_")


def test_the_original_is_kept_on_request(moons):
    X, _, y, _ = moons
    small = CompressedClassifier(SVC(), 5, keep_estimator=True, random_state=0).fit(X, y)
    assert len(small.estimator_.support_vectors_) > 5
    assert not hasattr(small.set_params(keep_estimator=False).fit(X, y), "estimator_")


def test_a_frozen_original_is_not_in_the_file(noisy):
    X, _, y, _ = noisy
    svm, scaler = SVC().fit(X, y), FrozenEstimator(StandardScaler().fit(X))
    calibrated = CalibratedClassifierCV(FrozenEstimator(svm), ensemble=False).fit(X, y)
    small = compress(calibrated, 50, X, y, random_state=0)
    assert small.estimator is None
    assert len(pickle.dumps(small)) < 10_000
    scaled = compress(make_pipeline(scaler, SVC()).fit(X, y), 5, X, y, random_state=0)
    assert clone(scaled).fit(X, y).n_centers_ == 5


def test_what_compress_returns_can_be_cloned_and_fitted_again(moons):
    X, X_test, y, _ = moons
    small = compress(SVC(C=3.0).fit(X, y), 6, X, y, random_state=0)
    assert not hasattr(small.estimator, "support_vectors_")
    again = clone(small).fit(X, y)
    assert again.get_params()["estimator__C"] == 3.0
    np.testing.assert_array_equal(again.predict(X_test), small.predict(X_test))


@pytest.mark.parametrize(
    "wrap", [FrozenEstimator, lambda m: make_pipeline(FrozenEstimator(m)), as_model]
)
def test_what_cannot_be_cloned_without_its_vectors_is_left_out(moons, wrap):
    X, X_test, y, _ = moons
    small = compress(wrap(SVC().fit(X, y)), 6, X, y, random_state=0)
    assert small.estimator is None
    assert "n_centers=6" in repr(small)
    assert small._repr_html_()
    copied = copy.deepcopy(small)
    np.testing.assert_array_equal(copied.predict(X_test), small.predict(X_test))


# -- Packed machines -----------------------------------------------------------------------------


@pytest.mark.parametrize("options", [{}, {"projection": 8}, {"storage": "float16"}])
def test_packed_machines_stay_packed(options):
    machine = CompactKernelClassifier(
        60, **({"storage": "int8"} | options), n_epochs=20, random_state=0
    )
    machine.fit(DIGITS[:900], LABELS[:900])
    small = compress(machine, 30, DIGITS[:900], LABELS[:900], random_state=0)
    expansion, facts = small.expansion_, small.compression_
    assert isinstance(expansion, QuantizedExpansion)
    assert expansion.storage == machine.expansion_.storage
    assert facts.bytes_after < 0.6 * facts.bytes_before or "projection" in options
    assert facts.bytes_after == small.nbytes_ < machine.nbytes_
    assert facts.agreement == np.mean(small.predict(DIGITS[:900]) == machine.predict(DIGITS[:900]))
    lost = machine.score(DIGITS[900:], LABELS[900:]) - small.score(DIGITS[900:], LABELS[900:])
    assert lost < 0.05


def test_few_bits_become_more_after_training():
    machine = CompactKernelClassifier(40, storage="int4", n_epochs=10, random_state=0)
    machine.fit(DIGITS[:900], LABELS[:900])
    small = compress(machine, 20, DIGITS[:900], LABELS[:900], random_state=0)
    assert small.expansion_.storage == {"centers": "int4", "coef": "int8"}


def test_a_packed_machine_with_few_centers_already_is_unchanged():
    machine = CompactKernelClassifier(10, storage="int4", n_epochs=3, random_state=0)
    machine.fit(DIGITS[:300], LABELS[:300])
    same = compress(machine, 10)
    assert same.nbytes_ == machine.nbytes_
    np.testing.assert_array_equal(same.predict(DIGITS), machine.predict(DIGITS))
    np.testing.assert_allclose(same.predict_proba(DIGITS), machine.predict_proba(DIGITS), atol=1e-5)


# -- Probabilities -------------------------------------------------------------------------------


@pytest.mark.parametrize("machine", [SVC(), L1KernelClassifier(random_state=0)])
def test_rows_and_labels_give_probabilities(noisy, machine):
    X, X_test, y, y_test = noisy
    small = compress(clone(machine).fit(X, y), 20, X, y, random_state=0)
    shares = small.predict_proba(X_test)
    np.testing.assert_allclose(shares.sum(axis=1), 1.0)
    np.testing.assert_allclose(np.exp(small.predict_log_proba(X_test)), shares)
    np.testing.assert_array_equal(small.classes_[shares.argmax(axis=1)], small.predict(X_test))
    base = np.full(len(y_test), y.mean())
    assert log_loss(y_test, shares) < 0.9 * log_loss(y_test, base)


def test_probabilities_of_ten_classes():
    svm = SVC(C=10).fit(DIGITS[:900], LABELS[:900])
    small = compress(svm, 60, DIGITS[:900], LABELS[:900], random_state=0)
    assert log_loss(LABELS[900:], small.predict_proba(DIGITS[900:])) < 0.4


def test_without_labels_the_error_says_what_to_do(moons):
    X, _, y, _ = moons
    for small in (compress(SVC().fit(X, y), 5), compress(SVC().fit(X, y), 5, X)):
        assert not hasattr(small, "predict_proba")
        with pytest.raises(AttributeError, match=r"give X and y, .* compress\(model, n_centers, X"):
            small.predict_proba(X)


@pytest.mark.parametrize("rows", [0, 1, 2], ids=["nothing", "rows", "rows and labels"])
def test_probabilities_of_an_svc_are_kept(noisy, rows):
    X, X_test, y, _ = noisy
    svm = platt(SVC(probability=True, random_state=0), X, y)
    small = compress(svm, 60, *(X, y)[:rows], random_state=0)
    errors = np.abs(small.predict_proba(X_test) - svm.predict_proba(X_test))
    assert errors.mean() < 0.06


@pytest.mark.parametrize("rows", [0, 2], ids=["nothing", "rows and labels"])
def test_probabilities_of_an_svc_of_ten_classes_are_kept(rows):
    svm = platt(SVC(probability=True, random_state=0), DIGITS[:900], LABELS[:900])
    small = compress(svm, 80, *(DIGITS[:900], LABELS[:900])[:rows], random_state=0)
    ours, own = small.predict_proba(DIGITS[900:]), svm.predict_proba(DIGITS[900:])
    assert np.abs(ours - own).sum(axis=1).mean() / 2 < 0.2
    assert log_loss(LABELS[900:], ours) < log_loss(LABELS[900:], own) + 0.2


def test_a_calibrated_svc_is_compressed_with_its_probabilities(noisy):
    X, X_test, y, _ = noisy
    machine = make_pipeline(StandardScaler(), SVC())
    original = CalibratedClassifierCV(machine, ensemble=False).fit(X, y)
    small = compress(original, 60, X, y, random_state=0)
    errors = np.abs(small.predict_proba(X_test) - original.predict_proba(X_test))
    assert errors.mean() < 0.1


def test_probabilities_are_saved(moons, tmp_path):
    X, X_test, y, _ = moons
    small = compress(SVC().fit(X, y), 8, X, y, random_state=0)
    kernlet.save(small, tmp_path / "small")
    loaded = kernlet.load(tmp_path / "small")
    np.testing.assert_allclose(loaded.predict_proba(X_test), small.predict_proba(X_test))


# -- Weights -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "sentence"),
    [
        (np.nan, "contains NaN"),
        (-1.0, "Negative"),
        (np.ones((200, 1)), "must be 1D"),
        (np.zeros(200), "at least one non-zero"),
        (np.ones(3), "sample_weight.shape"),
    ],
)
def test_weights_are_checked(moons, value, sentence):
    X, _, y, _ = moons
    weights = value
    if np.ndim(value) == 0:
        weights = np.where(np.arange(200) == 7, value, 1.0)
    with pytest.raises(ValueError, match=sentence):
        compress(SVC().fit(X, y), 5, X, y, sample_weight=weights)


def test_rows_without_a_weight_do_not_choose(moons):
    X, _, y, _ = moons
    weights = (np.arange(200) < 4).astype(float)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        small = compress(SVC().fit(X, y), 5, X, y, sample_weight=weights, random_state=0)
    assert small.compression_.n_rows == 200


def test_rows_are_given_as_an_array(moons):
    X, _, y, _ = moons
    with pytest.raises(TypeError, match="give some of its rows"):
        compress(SVC().fit(X, y), 5, ArrayRows(X), y)


# -- Scores --------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def rare():
    """Four clusters of a class that has 4 % of the rows."""
    random = np.random.RandomState(0)
    y = (random.uniform(size=1600) < 0.04).astype(int)
    corners = 2.5 * (2.0 * random.randint(2, size=(1600, 2)) - 1)
    X = random.normal(scale=np.where(y, 0.5, 1.0)[:, None], size=(1600, 2)) + y[:, None] * corners
    return X[:600], X[600:], y[:600], y[600:]


SCORERS = ["balanced_accuracy", "f1_macro", "roc_auc", "neg_log_loss"]


@pytest.mark.parametrize("scoring", [*SCORERS, make_scorer(balanced_accuracy_score)])
def test_scores_before_and_after(rare, scoring):
    X, X_test, y, y_test = rare
    small = compress(SVC().fit(X, y), 10, X_test, y_test, scoring=scoring, random_state=0)
    facts = small.compression_
    assert np.isfinite([facts.score_before, facts.score_after]).all()
    assert facts.scoring == (scoring if isinstance(scoring, str) else "score")
    assert f"{facts.score_after:.4f} after" in str(facts)
    assert facts.accuracy_after == small.score(X_test, y_test)
    if scoring == "balanced_accuracy":
        expected = balanced_accuracy_score(y_test, small.predict(X_test))
        assert facts.score_after == pytest.approx(expected)


def test_auto_keeps_the_score_that_is_asked_for(rare):
    """With one center accuracy hardly falls, and the rare class is lost."""
    X, X_test, y, y_test = rare
    svm = SVC().fit(X, y)
    plain = compress(svm, "auto", X_test, y_test, random_state=0).compression_
    balanced = compress(svm, "auto", X_test, y_test, scoring="balanced_accuracy", random_state=0)
    facts = balanced.compression_
    assert plain.path[0].score > 0.9 > 0.6 > facts.path[0].score
    assert facts.score_after > facts.score_before - 0.05
    meta = CompressedClassifier(SVC(), "auto", scoring="balanced_accuracy", random_state=0)
    assert meta.fit(X, y).compression_.score_after is not None


def test_groups_without_a_class_are_not_scored(rare):
    X, X_test, y, y_test = rare
    few = np.r_[np.flatnonzero(y_test == 0)[:50], np.flatnonzero(y_test == 1)[:6]]
    small = compress(
        SVC().fit(X, y), "auto", X_test[few], y_test[few], scoring="neg_log_loss", random_state=0
    )
    assert np.isfinite(small.compression_.path[-1].score)


def test_own_callables_are_scorers_too(moons):
    X, _, y, _ = moons

    def near(model, X, y):
        return -np.abs(model.decision_function(X) - (2 * y - 1)).mean()

    facts = compress(SVC().fit(X, y), "auto", X, y, scoring=near, random_state=0).compression_
    assert facts.scoring == "near"
    assert facts.score_before < 0


def test_the_rows_that_a_scorer_fails_on_are_counted():
    y = np.r_[np.zeros(100, dtype=int), np.ones(5, dtype=int)]
    X = np.random.RandomState(0).normal(size=(105, 2)) + 3.0 * y[:, None]
    rare = CompressedClassifier(SVC(), "auto", scoring="neg_log_loss", random_state=0)
    with pytest.raises(ValueError, match="score neg_log_loss of 10 rows cannot be computed"):
        rare.fit(X, y)


def test_scorers_need_labels_and_a_name_that_exists(moons):
    X, _, y, _ = moons
    svm = SVC().fit(X, y)
    with pytest.raises(ValueError, match="give y too"):
        compress(svm, 5, X, scoring="f1_macro")
    with pytest.raises(ValueError, match="need rows X"):
        compress(svm, 5, scoring="f1_macro")
    with pytest.raises(ValueError, match="need rows X"):
        compress(svm, 5, y=y)
    with pytest.raises(ValueError, match="need rows X"):
        compress(svm, 5, sample_weight=np.ones(len(y)))
    with pytest.raises(InvalidParameterError, match="'scoring' parameter"):
        compress(svm, 5, X, y, scoring="f1_micro_macro")


def test_auto_loses_no_more_than_the_error_of_its_loss(noisy):
    X, X_test, y, y_test = noisy
    svm = SVC().fit(X, y)
    path = compress(svm, "auto", X_test, y_test, random_state=1).compression_.path
    assert all(size.loss > size.standard_error for size in path[:-1])
    assert path[-1].loss <= path[-1].standard_error


# -- The record ----------------------------------------------------------------------------------


def test_the_record_reads_well(noisy):
    X, _, y, _ = noisy
    facts = compress(SVC().fit(X, y), "auto", X, y, random_state=0).compression_
    text = str(facts)
    assert text == repr(facts)
    assert f"centers      {facts.centers_before} before, {facts.centers_after} after" in text
    assert f"accuracy     {100 * facts.accuracy_before:.2f} % before" in text
    assert "measured on  600 rows: the rows given, which may include training rows" in text
    assert "sizes tried" in text
    assert max(map(len, text.splitlines())) < 160
    assert facts._repr_html_().count("<tr ") == len(text.splitlines()) - 1


def test_the_record_escapes_names_in_html():
    facts = Compression(
        9, 3, 72, 24, 0.5, 4, "refit", scoring="<b>", score_before=1.0, score_after=0.5
    )
    assert "&lt;b&gt;" in facts._repr_html_()


def test_the_record_of_the_meta_estimator_says_training_rows(moons):
    X, _, y, _ = moons
    facts = CompressedClassifier(SVC(), 5, random_state=0).fit(X, y).compression_
    assert (facts.n_rows, facts.rows) == (200, "the training rows")


def test_the_record_says_whether_the_search_converged(moons):
    X, _, y, _ = moons
    svm = SVC().fit(X, y)
    cut = compress(svm, 10, max_iter=3, random_state=0).compression_
    assert (cut.n_steps, cut.converged) == (3, False)
    assert "max_iter" in str(cut)
    done = compress(svm, 2, max_iter=10_000, random_state=0).compression_
    assert done.converged
    assert f"{done.n_steps} (converged)" in str(done)


def test_the_path_is_in_the_summary(moons):
    X, X_test, y, y_test = moons
    small = compress(SVC().fit(X, y), "auto", X_test, y_test, random_state=0)
    first, *_ = small.model_.summary["path"]
    assert TriedSize(**first) == small.compression_.path[0]


def test_verbose_prints_the_stages(moons, capsys):
    X, _, y, _ = moons
    compress(SVC().fit(X, y), 5, X, y, verbose=1, random_state=0)
    printed = capsys.readouterr().out
    assert printed.count("[CompressedClassifier] centers: ") == 1
    assert printed.count("[CompressedClassifier] coefficients: ") == 1
