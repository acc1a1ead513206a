"""Compressing fitted machines, as a function and as a meta-estimator."""

import pickle
import sys
import warnings
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.datasets import load_digits, make_blobs, make_classification, make_moons
from sklearn.exceptions import NotFittedError
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.model_selection import GridSearchCV, train_test_split
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, NuSVC
from sklearn.utils._param_validation import InvalidParameterError
from sklearn.utils.estimator_checks import parametrize_with_checks

from kernlet import ChunkingSyntheticClassifier, CompressedClassifier, L1KernelClassifier, compress
from kernlet.compression.choice import ValidationData, sizes_to_try
from kernlet.compression.estimator import has_class_weight
from kernlet.datasets import load
from kernlet.expansion import KernelExpansion
from kernlet.kernels.rbf import RBF
from kernlet.model.model import Model, as_classifier, as_model
from kernlet.model.scoring import RowScorer
from kernlet.sklearn_base import label_codes

PAIRS = "the class of the largest probability need not win most pairs, as with SVC"


@parametrize_with_checks(
    [
        CompressedClassifier(SVC(), n_centers=10, max_iter=20, random_state=0),
        CompressedClassifier(SVC(), n_centers="auto", max_iter=20, random_state=0),
    ],
    expected_failed_checks=lambda estimator: {
        **({"check_classifiers_train": PAIRS} if estimator.n_centers == "auto" else {}),
        "check_classifiers_one_label_sample_weights": "SVC refuses that with a sentence of its own",
        "check_sample_weight_equivalence_on_dense_data": (
            "the search for centers starts from random members of the support vectors"
        ),
        "check_sample_weight_equivalence_on_sparse_data": (
            "the search for centers starts from random members of the support vectors"
        ),
    },
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


@pytest.fixture(scope="module")
def digits():
    X, y = load_digits(return_X_y=True)
    return train_test_split(X / 16.0, y, test_size=0.5, stratify=y, random_state=0)


@pytest.fixture(scope="module")
def moons():
    X, y = make_moons(300, noise=0.2, random_state=0)
    return X[:200], X[200:], y[:200], y[200:]


@pytest.mark.parametrize("given", ["nothing", "rows", "rows and labels"])
def test_few_centers_keep_the_accuracy(digits, given):
    X, X_test, y, y_test = digits
    svm = SVC(gamma=0.1, C=10).fit(X, y)
    rows = {"nothing": (), "rows": (X,), "rows and labels": (X, y)}[given]
    small = compress(svm, 60, *rows, random_state=0)
    assert small.n_centers_ == 60
    assert small.score(X_test, y_test) > svm.score(X_test, y_test) - 0.03


def test_the_record_tells_what_was_done(digits):
    X, _, y, _ = digits
    svm = SVC(gamma=0.1, C=10).fit(X, y)
    small = compress(svm, 60, X, y, random_state=0)
    facts = small.compression_
    assert facts.centers_before == len(svm.support_)
    assert facts.centers_after == 60
    svm_bytes = svm.support_vectors_.nbytes + svm.dual_coef_.nbytes + svm.intercept_.nbytes
    assert facts.bytes_before == svm_bytes
    assert facts.bytes_after == small.expansion_.nbytes
    assert facts.bytes_after == small.nbytes_
    assert facts.agreement == np.mean(small.predict(X) == svm.predict(X))
    assert facts.accuracy_before == svm.score(X, y)
    assert facts.accuracy_after == small.score(X, y)
    assert 0 < facts.residual < 1
    assert facts.coefficients in ("projected", "matched", "refit")


def test_without_rows_nothing_is_claimed_about_them(moons):
    X, _, y, _ = moons
    facts = compress(SVC().fit(X, y), 5, random_state=0).compression_
    assert (facts.agreement, facts.accuracy_before, facts.accuracy_after) == (None, None, None)
    assert facts.coefficients == "projected"


@pytest.mark.parametrize("shape", ["ovr", "ovo"])
def test_votes_and_their_shape_are_kept_unless_refitted(digits, shape):
    X, X_test, y, _ = digits
    svm = SVC(gamma=0.1, C=10, decision_function_shape=shape).fit(X, y)
    small = compress(svm, 80, random_state=0)
    assert small.decision_function(X_test).shape == svm.decision_function(X_test).shape
    assert small.classes_.tolist() == svm.classes_.tolist()


def test_as_many_centers_as_there_are_change_nothing(digits):
    X, X_test, y, _ = digits
    svm = SVC(gamma=0.1).fit(X, y)
    same = compress(svm, 10_000)
    np.testing.assert_allclose(
        same.decision_function(X_test), svm.decision_function(X_test), atol=1e-10
    )
    np.testing.assert_array_equal(same.predict(X_test), svm.predict(X_test))
    assert same.compression_.residual == 0.0


@pytest.mark.parametrize(
    "model",
    [
        SVC(),
        NuSVC(nu=0.3),
        OneVsRestClassifier(SVC()),
        make_pipeline(StandardScaler(), SVC()),
        GridSearchCV(SVC(), {"C": [1.0, 10.0]}, cv=2),
        L1KernelClassifier(random_state=0),
        ChunkingSyntheticClassifier(n_runs=2, random_state=0),
    ],
    ids=lambda model: type(model).__name__,
)
def test_every_kind_of_machine(model, moons):
    X, X_test, y, y_test = moons
    fitted = clone(model).fit(X, y)
    small = compress(fitted, 8, X, y, random_state=0)
    assert small.n_centers_ <= 8
    assert small.score(X_test, y_test) > fitted.score(X_test, y_test) - 0.05


def test_a_compressed_machine_can_be_compressed_again(moons):
    X, _, y, _ = moons
    small = compress(compress(SVC().fit(X, y), 20, random_state=0), 6, X, y, random_state=0)
    assert small.n_centers_ == 6
    assert small.compression_.centers_before == 20


def test_a_fraction_of_the_centers(moons):
    X, _, y, _ = moons
    svm = SVC().fit(X, y)
    assert compress(svm, 0.1, random_state=0).n_centers_ == round(0.1 * len(svm.support_))


def test_auto_takes_the_smallest_number_that_is_good_enough(moons):
    X, X_test, y, y_test = moons
    svm = SVC().fit(X, y)
    small = compress(svm, "auto", X_test, y_test, random_state=0)
    path = small.compression_.path
    assert [point.n_centers for point in path] == sorted(point.n_centers for point in path)
    assert small.n_centers_ == path[-1].n_centers < len(svm.support_)
    assert all(point.score < path[-1].score for point in path[:-1])


def test_auto_says_so_where_nothing_is_good_enough():
    """Labels without any rule: the SVM knows its rows by heart, few centers cannot."""
    random = np.random.RandomState(0)
    X, y = random.randn(150, 2), random.randint(2, size=150)
    svm = SVC(C=1e4, gamma=200.0).fit(X, y)
    with pytest.warns(UserWarning, match="does not compress"):
        compress(svm, "auto", X, y, max_iter=5, random_state=0)


def test_auto_needs_rows_and_labels(moons):
    X, _, y, _ = moons
    with pytest.raises(ValueError, match="needs rows X and labels y"):
        compress(SVC().fit(X, y), "auto", X)


def test_sizes_to_try_are_geometric_up_to_half(moons):
    X, _, y, _ = moons
    model = as_classifier(SVC().fit(X, y))
    sizes = sizes_to_try(model)
    assert sizes == [2**k for k in range(len(sizes))]
    assert sizes[-1] <= model.expansion.n_centers / 2


@pytest.mark.parametrize("n_centers", [0, -1, 1.5, "many", None])
def test_a_wrong_number_of_centers(moons, n_centers):
    X, _, y, _ = moons
    with pytest.raises(InvalidParameterError, match="'n_centers' parameter"):
        compress(SVC().fit(X, y), n_centers)
    with pytest.raises(InvalidParameterError, match="'n_centers' parameter"):
        CompressedClassifier(SVC(), n_centers).fit(X, y)


def test_labels_that_the_model_does_not_know(moons):
    X, _, y, _ = moons
    with pytest.raises(ValueError, match="label 7, which the model does not know"):
        compress(SVC().fit(X, y), 5, X, np.where(y == 1, 7, 0))


def test_not_fitted(moons):
    with pytest.raises(NotFittedError):
        compress(SVC(), 5)
    with pytest.raises(NotFittedError):
        CompressedClassifier(SVC()).predict(moons[0])


def test_kernels_without_a_feature_space_are_refused(moons):
    X, _, y, _ = moons
    with pytest.raises(ValueError, match="positive semi-definite"):
        compress(SVC(kernel="sigmoid").fit(X, y), 5)


def test_meta_estimator_in_a_grid_search_over_the_number_of_centers(moons):
    X, X_test, y, y_test = moons
    search = GridSearchCV(
        CompressedClassifier(make_pipeline(StandardScaler(), SVC()), random_state=0),
        {"n_centers": [2, 10], "estimator__svc__C": [1.0, 10.0]},
        cv=2,
    ).fit(X, y)
    assert search.score(X_test, y_test) > 0.85
    again = pickle.loads(pickle.dumps(search.best_estimator_))
    np.testing.assert_array_equal(again.predict(X_test), search.predict(X_test))


def test_meta_estimator_chooses_on_rows_that_its_trial_has_not_seen(moons):
    X, X_test, y, y_test = moons
    small = CompressedClassifier(SVC(), "auto", random_state=0).fit(X, y)
    assert small.n_centers_ == small.compression_.path[-1].n_centers
    assert small.score(X_test, y_test) > 0.85


def test_sample_weight_goes_to_the_estimator(moons):
    X, _, y, _ = moons
    weight = np.where(y == 1, 5.0, 1.0)
    small = CompressedClassifier(SVC(gamma=1.0), 10, keep_estimator=True, random_state=0)
    weighted = small.fit(X, y, sample_weight=weight).estimator_
    expected = SVC(gamma=1.0).fit(X, y, sample_weight=weight)
    np.testing.assert_allclose(weighted.dual_coef_, expected.dual_coef_)


def test_frames_and_strings(moons):
    X, X_test, y, y_test = moons
    frame = pd.DataFrame(X, columns=["east", "north"])
    labels = np.array(["out", "in"])[y]
    small = CompressedClassifier(SVC(), 10, random_state=0).fit(frame, labels)
    assert small.feature_names_in_.tolist() == ["east", "north"]
    predicted = small.predict(pd.DataFrame(X_test, columns=["east", "north"]))
    assert np.mean(predicted == np.array(["out", "in"])[y_test]) > 0.85


def test_same_random_state_same_machine(moons):
    X, _, y, _ = moons
    svm = SVC().fit(X, y)
    one, two = (compress(svm, 7, X, y, random_state=3) for _ in range(2))
    np.testing.assert_array_equal(one.expansion_.centers, two.expansion_.centers)
    np.testing.assert_array_equal(one.expansion_.coef, two.expansion_.coef)


def test_more_outputs_share_their_centers():
    X, y = make_classification(
        300, n_features=6, n_informative=5, n_redundant=0, n_classes=4, random_state=0
    )
    small = compress(SVC().fit(X, y), 20, random_state=0)
    assert small.expansion_.coef.shape == (6, 20)


def test_usps_eight_against_the_rest_in_twenty_points(data_folder):
    digits = load("usps")
    X, X_test = (2.0 * np.asarray(A, dtype=float) - 1.0 for A in (digits.X, digits.X_test))
    svm = SVC(C=10, gamma=1 / 128).fit(X, digits.y == 8)
    small = compress(svm, 20, random_state=0)
    lost = svm.score(X_test, digits.y_test == 8) - small.score(X_test, digits.y_test == 8)
    assert lost <= 0.003


def test_libsvm_files_predict_print_and_travel(tmp_path):
    """Two classes on a line: the sign of x."""
    lines = ["svm_type c_svc", "kernel_type linear", "nr_class 2", "total_sv 2", "rho 0"]
    lines += ["label 1 -1", "nr_sv 1 1", "SV", "0.5 1:1 ", "-0.5 1:-1 ", ""]
    path = tmp_path / "line.model"
    path.write_text("\n".join(lines))
    for model in (path, str(path)):
        small = compress(model, 1)
        assert small.predict([[3.0], [-2.0]]).tolist() == [1, -1]
        assert "line.model" in repr(small)
        again = pickle.loads(pickle.dumps(small))
        assert again.predict([[3.0]]).tolist() == [1]
        with pytest.raises(InvalidParameterError):
            compress(model, 1.5)


def test_text_goes_through_its_vectoriser():
    texts, y = ["a lynx", "an asp", "lynx lynx", "asp asp"] * 5, [0, 1, 0, 1] * 5
    model = make_pipeline(TfidfVectorizer(), SVC()).fit(texts, y)
    small = compress(model, 2, texts, y, random_state=0)
    assert small.predict(["lynx", "asp"]).tolist() == [0, 1]


def test_weights_are_not_forgotten_by_coefficients_refitted(moons):
    X, _, y, _ = moons
    weight = np.where(y == 1, 50.0, 1.0)
    small = CompressedClassifier(SVC(C=0.1), 20, keep_estimator=True, random_state=0)
    small.fit(X, y, sample_weight=weight)
    before, after = (m.score(X, y, weight) for m in (small.estimator_, small))
    assert after >= before - 0.01


def test_coefficients_are_not_refitted_where_the_weights_are_not_known(moons):
    X, _, y, _ = moons
    svm = SVC(class_weight={0: 1, 1: 20}).fit(X, y)
    facts = compress(svm, 30, X, y, random_state=0).compression_
    assert facts.coefficients != "refit"
    assert facts.agreement > 0.97


def test_auto_judges_by_rows_that_made_no_choice(moons, monkeypatch):
    """The rows to judge by are in neither the fit nor the choice of coefficients."""
    import kernlet.compression.choice as module

    X, _, y, _ = moons
    fitted_to, judged = [], []
    make, judge = module._with_coefficients, module.ValidationData.judge
    monkeypatch.setattr(
        module, "_with_coefficients", lambda *given: fitted_to.append(given[-1]) or make(*given)
    )
    monkeypatch.setattr(
        module.ValidationData,
        "judge",
        lambda data, model, small, groups: (
            judged.append((data, fitted_to[-len(groups) :], groups))
            or judge(data, model, small, groups)
        ),
    )
    compress(SVC().fit(X, y), "auto", X, y, random_state=0)
    CompressedClassifier(SVC(), "auto", random_state=0).fit(X, y)
    assert len(judged) > 2
    for data, rows, groups in judged:
        assert not set(np.concatenate(groups)) & set(data.rows_to_choose())
        assert all(not set(group) & set(fit) for group, fit in zip(groups, rows, strict=True))
        assert data.held_out_only == (len(np.concatenate(groups)) < len(X) / 2)


@pytest.mark.parametrize(
    ("rows", "labels", "sentence"),
    [
        (slice(10), slice(9), "inconsistent numbers of samples"),
        (slice(1), slice(1), "at least two"),
        (slice(0), slice(0), "minimum of 1 is required"),
    ],
)
def test_rows_that_do_not_do(moons, rows, labels, sentence):
    X, _, y, _ = moons
    with pytest.raises(ValueError, match=sentence):
        compress(SVC().fit(X, y), 5, X[rows], y[labels])


def test_not_a_number_is_refused_behind_a_pipeline_too(moons):
    X, _, y, _ = moons
    model = make_pipeline(StandardScaler(), SVC()).fit(X, y)
    small = compress(model, 5, X, y, random_state=0)
    with pytest.raises(ValueError, match="NaN"):
        small.predict([[np.nan, 0.0]])


def test_a_constant_machine(moons):
    X = np.repeat(moons[0][:5], 40, axis=0)
    y = np.tile([0, 1], 100)
    small = compress(SVC().fit(X, y), 3, X, y, random_state=0)
    assert small.predict(X).shape == (200,)


def test_a_linear_machine_is_one_point(moons):
    X, X_test, y, _ = moons
    svm = SVC(kernel="linear").fit(X, y)
    small = compress(svm, 1000)
    assert small.n_centers_ == 1
    np.testing.assert_allclose(small.decision_function(X_test), svm.decision_function(X_test))


def test_of_equally_good_machines_the_smaller_is_taken():
    X, y = make_blobs(600, centers=20, cluster_std=0.01, n_features=4, random_state=0)
    small = compress(SVC().fit(X, y), 25, X, y, random_state=0)
    assert small.score(X, y) == 1.0
    assert small.expansion_.n_outputs == 20


def test_nothing_is_warned_about_on_good_data(moons):
    X, _, y, _ = moons
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        compress(SVC().fit(X, y), 10, X, y, random_state=0)


def validation_data(codes=None, weights=None, n_validation=10):
    original = np.zeros(40, dtype=int)
    validation = np.arange(40) < n_validation
    weights = np.ones(40) if weights is None else weights
    return ValidationData(np.zeros((40, 2)), original, codes, weights, validation, may_refit=True)


@pytest.mark.parametrize("held_out_only", [False, True])
def test_rows_to_choose_by_and_to_judge_by_never_meet(held_out_only):
    data = replace(validation_data(), held_out_only=held_out_only)
    groups, fits = zip(*data.groups_to_judge(), strict=True)
    judged = np.concatenate(groups)
    expected = range(10) if held_out_only else range(40)
    assert sorted([*data.rows_to_choose(), *judged]) == list(expected)
    assert len(groups) == 5
    for group, rows in zip(groups, fits, strict=True):
        assert not set(group) & set(rows)
    if held_out_only:
        assert not set(np.concatenate(fits)) & set(range(10))


def test_a_single_row_does_both():
    data = replace(validation_data(n_validation=1), held_out_only=True)
    ((group, _),) = data.groups_to_judge()
    assert group.tolist() == data.rows_to_choose().tolist() == [0]


def constant(code):
    """A model of two classes that predicts the same for every row."""
    expansion = KernelExpansion(RBF(1.0), np.zeros((0, 2)), np.zeros((1, 0)), [2.0 * code - 1])
    return Model(expansion, "classifier", classes=np.arange(2), scheme="one output")


def test_the_target_is_y_or_else_the_original():
    codes, rows = np.ones(40, dtype=int), np.arange(40)
    assert validation_data(codes).score(constant(1), rows).value == 1
    assert validation_data().score(constant(0), rows).value == 1


def test_scores_are_weighted():
    codes = np.arange(40) % 2
    weights = np.where(codes == 0, 3.0, 1.0)
    rows = np.arange(4)
    assert validation_data(codes, weights).score(constant(0), rows).value == 6 / 8
    scorer = RowScorer("balanced_accuracy", codes, weights)
    balanced = replace(validation_data(codes, weights), scorer=scorer)
    assert balanced.score(constant(0), rows).value == 1 / 2


@pytest.mark.parametrize("scoring", [None, "accuracy"])
def test_losses_are_measured_on_the_same_rows(scoring):
    codes = np.arange(40) % 4 // 3  # 0, 0, 0, 1
    scorer = None if scoring is None else RowScorer(scoring, codes, np.ones(40))
    data = replace(validation_data(codes), scorer=scorer)
    groups = [np.arange(start, 40, 4) for start in range(4)]
    score, loss, error = data.judge(constant(0), [constant(0)] * 4, groups)
    assert (score, loss) == (0.75, 0.0)
    assert error < 0.03  # the standard error of the score itself is .07
    score, loss, error = data.judge(constant(0), [constant(1)] * 4, groups)
    assert (score, loss) == pytest.approx((0.25, 0.5))
    assert 0.1 < error < 0.6


def test_labels_become_numbers_and_strangers_are_refused():
    classes = np.array(["asp", "lynx"])
    assert label_codes(classes, ["lynx", "asp", "lynx"]).tolist() == [1, 0, 1]
    with pytest.raises(ValueError, match="label 'newt', which the model does not know"):
        label_codes(classes, ["lynx", "newt"])


@pytest.mark.parametrize(
    ("model", "expected"),
    [
        (SVC(), False),
        (SVC(class_weight="balanced"), True),
        (make_pipeline(StandardScaler(), SVC(class_weight={0: 2})), True),
        ("line.model", False),
    ],
)
def test_class_weights_are_seen_through_pipelines(model, expected):
    assert has_class_weight(model) is expected


def test_a_model_is_compressed_to_a_model_and_takes_rows_of_features():
    X, y = load_digits(return_X_y=True)
    pipeline = make_pipeline(StandardScaler(), SVC()).fit(X[:600], y[:600])
    model = as_model(pipeline)
    small = compress(model, 40, X[:600], y[:600], random_state=0)
    assert (small.model_.expansion.n_centers, small.model_.scaler) == (40, model.scaler)
    assert small.model_.summary["compression"]["centers_after"] == 40
    assert as_model(small) is small.model_
    np.testing.assert_array_equal(
        small.predict(X), model.classes[small.model_.codes(small.model_.outputs(X))]
    )
    with pytest.raises(ValueError, match="X has 3 features, but the model takes 64"):
        compress(model, 5, X[:, :3], y)


def test_bare_expansions_are_refused(moons):
    X, _, y, _ = moons
    machine = L1KernelClassifier(random_state=0).fit(X, y)
    with pytest.raises(TypeError, match="is not a kernel classifier"):
        compress(machine.expansion_, 3)


def test_verbose_prints_the_tasks(moons, capsys):
    X, _, y, _ = moons
    CompressedClassifier(SVC(), "auto", verbose=1, random_state=0).fit(X, y)
    printed = capsys.readouterr().out
    for task in ("trial estimator", "1 centers", "estimator", "centers", "coefficients"):
        assert f"[CompressedClassifier] {task}: " in printed


def test_a_slow_support_vector_machine_is_announced(monkeypatch):
    X, y = make_moons(569, noise=0.2, random_state=0)
    monkeypatch.setattr(sys.modules[has_class_weight.__module__], "_MANY_ROWS", 500)
    machine = CompressedClassifier(make_pipeline(StandardScaler(), SVC()), 5)
    with pytest.warns(UserWarning, match="SVC takes minutes to hours for 569 rows"):
        machine.fit(X, y)


# Scores that the rows do not define


def test_a_score_that_one_class_does_not_define_is_replaced_with_a_warning(recwarn):
    X, y = make_moons(60, noise=0.2, random_state=0)
    svm = SVC().fit(X, y)
    one = y == 0
    for n_centers in ("auto", 4):
        small = compress(svm, n_centers, X[one], y[one], scoring="roc_auc", random_state=0)
        assert small.compression_.scoring is None
        assert all(np.isfinite(tried.score) for tried in small.compression_.path)
    messages = [str(warning.message) for warning in recwarn]
    assert len(messages) == 2
    assert all("roc_auc is not defined on the held-out rows" in each for each in messages)
    small = compress(svm, "auto", X, y, scoring="roc_auc", random_state=0)
    assert small.compression_.score_after > 0.9


def test_weights_are_validated_before_the_estimator_sees_them():
    X, y = make_moons(60, noise=0.2, random_state=0)
    pipeline = make_pipeline(StandardScaler(), SVC())
    small = CompressedClassifier(pipeline, 4, random_state=0)
    with pytest.raises(ValueError, match="Negative values"):
        small.fit(X, y, svc__sample_weight=-np.ones(60))
    assert small.fit(X, y, svc__sample_weight=2.0).score(X, y) > 0.8
