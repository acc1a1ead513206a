import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone, is_outlier_detector
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import MinMaxScaler, PolynomialFeatures, StandardScaler
from sklearn.svm import SVC

import kernlet
from kernlet import CompactKernelClassifier, KernelExpansion, L1KernelClassifier, compress
from kernlet.export.file import ModelFileError
from kernlet.kernels.base import Kernel
from kernlet.kernels.rbf import RBF
from kernlet.model.model import Model, as_model
from kernlet.tables.encode import ColumnEncoding
from support.exportable_models import (
    CLASSIFIERS,
    DETECTORS,
    DIGITS,
    IRIS,
    IRIS_LABELS,
    IRIS_NAMES,
    REGRESSORS,
    TRANSFORMERS,
    classifier,
    detector,
    regressor,
    transformer,
)


def again(model, tmp_path):
    path = tmp_path / "model.kernlet"
    kernlet.save(model, path)
    assert [p.name for p in tmp_path.iterdir()] == ["model.kernlet"]
    return kernlet.load(path)


@pytest.mark.parametrize("name", CLASSIFIERS)
def test_a_classifier_comes_back_as_it_was(name, tmp_path):
    model, X = classifier(name)
    loaded = again(model, tmp_path)
    assert_array_equal(loaded.predict(X), model.predict(X))
    assert loaded.classes_.dtype == model.classes_.dtype
    assert_allclose(loaded.decision_function(X), model.decision_function(X), rtol=1e-9, atol=1e-9)
    assert hasattr(loaded, "predict_proba") == hasattr(model, "predict_proba")
    if hasattr(model, "predict_proba"):
        assert_allclose(loaded.predict_proba(X), model.predict_proba(X), rtol=1e-9, atol=1e-12)
    assert loaded.n_features_in_ == X.shape[1]


@pytest.mark.parametrize("name", REGRESSORS)
def test_a_regressor_comes_back_as_it_was(name, tmp_path):
    model, X = regressor(name)
    loaded = again(model, tmp_path)
    assert_allclose(loaded.predict(X), model.predict(X), rtol=1e-9)
    assert loaded.score(X, model.predict(X)) > 0.999


@pytest.mark.parametrize("name", DETECTORS)
def test_a_novelty_detector_comes_back_as_it_was(name, tmp_path):
    model, X = detector(name)
    loaded = again(model, tmp_path)
    assert_array_equal(loaded.predict(X), model.predict(X))
    assert_allclose(loaded.decision_function(X), model.decision_function(X), rtol=1e-9, atol=1e-9)
    assert_allclose(loaded.score_samples(X), model.score_samples(X), rtol=1e-9, atol=1e-9)
    assert loaded.offset_ == (model[-1] if isinstance(model, Pipeline) else model).offset_
    assert is_outlier_detector(loaded)
    with pytest.raises(ValueError, match="only a classifier"):
        kernlet.save(loaded, tmp_path / "other.kernlet", X, np.ones(len(X)))


@pytest.mark.parametrize("name", TRANSFORMERS)
def test_a_transformer_comes_back_as_it_was(name, tmp_path):
    model, X = transformer(name)
    loaded = again(model, tmp_path)
    assert_allclose(loaded.transform(X), model.transform(X), rtol=1e-9, atol=1e-12)
    frame = loaded.set_output(transform="pandas").transform(X)
    assert list(frame.columns) == list(loaded.get_feature_names_out())


def test_the_tables_of_a_compact_machine_are_stored_as_they_are(tmp_path):
    model, _ = classifier("compact int4 projected")
    loaded = again(model, tmp_path)
    assert loaded.nbytes_ == model.nbytes_
    assert loaded.expansion_.storage == model.expansion_.storage
    assert (tmp_path / "model.kernlet").stat().st_size < model.nbytes_ + 4000


def test_an_expansion_comes_back_as_one(tmp_path):
    expansion = KernelExpansion(RBF(0.5), np.eye(3), np.ones((2, 3)), np.zeros(2))
    loaded = again(expansion, tmp_path)
    assert isinstance(loaded, KernelExpansion)
    assert_array_equal(loaded.decision_values(np.eye(3)), expansion.decision_values(np.eye(3)))


def test_feature_names_are_kept_and_checked(tmp_path):
    frame = pd.DataFrame(IRIS, columns=list("abcd"))
    model = make_pipeline(StandardScaler(), SVC()).fit(frame, IRIS_LABELS)
    loaded = again(model, tmp_path)
    assert_array_equal(loaded.feature_names_in_, list("abcd"))
    assert_array_equal(loaded.predict(frame), model.predict(frame))
    with pytest.raises(ValueError, match="feature names"):
        loaded.predict(frame[list("dcba")])
    with pytest.raises(ValueError, match="features"):
        loaded.predict(IRIS[:, :2])


def test_a_loaded_machine_is_frozen_and_goes_on_being_useful(tmp_path):
    model, X = classifier("compact")
    loaded = again(model, tmp_path)
    assert clone(loaded) is loaded
    assert loaded.fit(X, None) is loaded
    y = model.predict(X)
    assert loaded.score(X, y) == 1.0
    assert_array_equal(FrozenEstimator(loaded).predict(X), y)
    smaller = compress(loaded, 10, X, y, random_state=0)
    assert smaller.n_centers_ == 10
    refined = CompactKernelClassifier(init=loaded, n_epochs=1, random_state=0).fit(X, y)
    assert refined.n_centers_ == loaded.n_centers_
    assert "30 centers" in repr(loaded)


def test_saving_what_was_loaded_changes_nothing(tmp_path):
    model, X = classifier("compact scaled")
    first = again(model, tmp_path)
    second = again(first, tmp_path)
    assert_array_equal(second.decision_function(X), first.decision_function(X))
    third = again(make_pipeline(StandardScaler(), first).set_params().fit(X, None), tmp_path)
    scaled = StandardScaler().fit_transform(X)
    assert_allclose(third.decision_function(X), first.decision_function(scaled), atol=1e-8)
    assert third.model_.temperature == first.model_.temperature


@pytest.mark.slow
def test_equal_models_make_equal_files_in_every_process(tmp_path):
    """The order of names in the file must not depend on a hash."""
    code = (
        "import sys, numpy as np, kernlet\n"
        "from kernlet.kernels.rbf import RBF\n"
        "X = np.arange(6.0).reshape(3, 2)\n"
        "model = kernlet.KernelExpansion(RBF(1.0), X, np.ones((1, 3)), np.zeros(1))\n"
        "kernlet.save(model, sys.argv[1])\n"
    )
    paths = [tmp_path / str(number) for number in range(4)]
    for path in paths:
        subprocess.run([sys.executable, "-c", code, str(path)], check=True)
    assert len({path.read_bytes() for path in paths}) == 1
    assert kernlet.load(paths[0]).n_centers == 3


def test_compressed_machines_of_loaded_ones_keep_their_scaler(tmp_path):
    model, X = classifier("svc far away")
    loaded = again(model, tmp_path)
    small = compress(loaded, 8, X, IRIS_LABELS, random_state=0)
    assert_array_equal(again(small, tmp_path).predict(X), small.predict(X))


def test_a_search_is_taken_for_what_it_found(tmp_path):
    search = GridSearchCV(SVC(), {"C": [1, 10]}).fit(IRIS, IRIS_LABELS)
    assert_array_equal(again(search, tmp_path).predict(IRIS), search.predict(IRIS))


def test_the_summary_tells_where_a_machine_comes_from(tmp_path):
    model = L1KernelClassifier(C=3.0, random_state=0).fit(IRIS, IRIS_LABELS)
    summary = again(model, tmp_path).summary_
    assert summary["estimator"] == "L1KernelClassifier"
    assert summary["parameters"]["C"] == 3.0
    assert summary["loo_error_bound"] == model.loo_error_bound_
    assert summary["duality_gap"] == pytest.approx(model.duality_gap_.max())
    path = again(classifier("compact")[0], tmp_path).summary_["path"]
    assert path[0]["n_centers"] == 30


def test_an_encoding_travels(tmp_path):
    table = {"size": [1.0, None, 3.0, 9.0], "color": ["red", "blue", None, "red"]}
    encoding = ColumnEncoding.learned(table)
    X = encoding.transform(table)
    machine = SVC().fit(X, [0, 1, 0, 1])
    model = as_model(machine)
    model = Model(
        model.expansion,
        "classifier",
        model.classes,
        model.scheme,
        encoding=encoding,
        feature_names=encoding.feature_names,
    )
    loaded = again(model, tmp_path)
    assert_array_equal(loaded.predict(table), machine.predict(X))
    assert_array_equal(loaded.predict(pd.DataFrame(table)), machine.predict(X))
    assert_array_equal(loaded.feature_names_in_, ["size", "color"])
    assert loaded.n_features_in_ == 2
    with pytest.raises(ValueError, match="lacks 'color'"):
        loaded.predict({"size": [1.0]})
    assert_array_equal(loaded.predict(X), machine.predict(X))
    with pytest.raises(ValueError, match="rows of 4 features are expected"):
        loaded.predict(X[:, :2])
    with pytest.raises(ValueError, match="NaN or infinity"):
        loaded.predict(np.full_like(X, np.nan))


@pytest.mark.parametrize(
    "classes",
    [
        np.array(["a", 'b"*/', "\u00e9\u4e2d"]),
        np.array(["a", "b", "c"], dtype=object),
        np.array([-1.5, 0.0, 2.5]),
        np.array([1, 2, 255], dtype=np.uint8),
        np.array([0, 1, 2**62]),
    ],
    ids=repr,
)
def test_labels_of_all_kinds_come_back(classes, tmp_path):
    expansion = KernelExpansion(RBF(0.5), np.eye(3), np.eye(3), np.zeros(3))
    model = Model(expansion, "classifier", classes)
    labels = again(model, tmp_path).predict(np.eye(3))
    assert_array_equal(labels, classes)
    assert labels.dtype == classes.dtype


class OwnKernel(Kernel):
    def of_products(self, products, x_norms, z_norms):
        return products


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (
            make_pipeline(MinMaxScaler(clip=True), SVC()),
            r"clip=True.*fit it with clip=False",
        ),
        (make_pipeline(PolynomialFeatures(2), SVC()), "cannot be stored with the model: only"),
        (L1KernelClassifier(kernel=OwnKernel()), "is code, and a file holds none"),
    ],
)
def test_what_cannot_be_saved_is_refused_with_a_sentence(model, message, tmp_path):
    model.fit(IRIS, IRIS_LABELS)
    with pytest.raises(ValueError, match=message):
        kernlet.save(model, tmp_path / "model.kernlet")
    assert not list(tmp_path.iterdir())


def test_other_estimators_are_refused(tmp_path):
    with pytest.raises(TypeError, match="not a kernel machine"):
        kernlet.save(StandardScaler().fit(IRIS), tmp_path / "model.kernlet")


def test_a_file_larger_than_allowed_is_refused(tmp_path):
    kernlet.save(SVC().fit(IRIS, IRIS_NAMES), tmp_path / "m")
    with pytest.raises(ModelFileError, match="larger max_bytes than 100"):
        kernlet.load(tmp_path / "m", max_bytes=100)
    with pytest.raises(FileNotFoundError):
        kernlet.load(tmp_path / "other")


def test_scalers_far_away_keep_their_digits(tmp_path):
    model, X = classifier("svc far away")
    assert_allclose(
        again(model, tmp_path).decision_function(X), model.decision_function(X), atol=1e-9
    )
    assert DIGITS.shape[1] == 64
