import pickle
import sys
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import sparse
from scipy.special import log_softmax
from sklearn.base import clone
from sklearn.datasets import make_blobs, make_moons
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from kernlet import CompactKernelClassifier
from support.compact_machines import machine


@pytest.mark.parametrize("storage", ["float32", "float16", "int8", "int4"])
def test_few_centers_tell_digits_apart(digits, storage):
    X, X_test, y, y_test = digits
    small = machine(20, storage=storage).fit(X, y)
    assert small.score(X_test, y_test) > 0.95
    assert small.expansion_.storage == dict.fromkeys(("centers", "coef"), storage)
    assert small.n_centers_ == small.expansion_.n_centers == 20
    assert small.nbytes_ == small.expansion_.nbytes


@pytest.mark.parametrize("loss", ["cross_entropy", "squared_hinge"])
@pytest.mark.parametrize("width", ["shared", "per_center"])
@pytest.mark.parametrize("projection", [None, 12])
def test_losses_widths_and_projections(digits, loss, width, projection):
    X, X_test, y, y_test = digits
    small = machine(20, loss=loss, width=width, projection=projection).fit(X, y)
    assert small.score(X_test, y_test) > 0.93
    assert small.expansion_.rank == (projection or 64)
    assert len(small.expansion_.gamma) == (20 if width == "per_center" else 1)


@pytest.mark.slow
@pytest.mark.parametrize("max_bytes", [1000, 2000, 4000])
def test_everything_fits_in_the_bytes(digits, max_bytes):
    X, X_test, y, y_test = digits
    small = machine("auto", max_bytes=max_bytes, n_epochs=6).fit(X, y)
    assert small.nbytes_ <= max_bytes
    assert small.score(X_test, y_test) > 0.93
    assert f"of {max_bytes} bytes" in small.choice_
    assert small.path_
    assert all(point.nbytes <= max_bytes for point in small.path_)
    assert small.nbytes_ in {point.nbytes for point in small.path_}


@pytest.mark.parametrize("storage", ["float32", "int8"])
def test_bytes_with_storage_and_projection_given(digits, storage):
    X, _, y, _ = digits
    small = machine(
        "auto", max_bytes=5000, storage=storage, projection=8, validation_fraction=None, n_epochs=2
    ).fit(X, y)
    assert small.nbytes_ <= 5000
    assert small.expansion_.rank == 8
    assert len(small.path_) == 1
    assert np.isnan(small.validation_score_)


def test_a_number_of_centers_limits_what_fills_the_bytes(moons):
    X, _, y, _ = moons
    small = machine(5, max_bytes=2000, n_epochs=2).fit(X, y)
    assert small.n_centers_ == 5


def test_the_path_tells_what_was_tried(digits):
    X, X_test, y, y_test = digits
    small = machine("auto", n_epochs=8).fit(X, y)
    assert small.choice_.startswith(f"{small.n_centers_} centers (float32)")
    assert "the smallest within one standard error of the least log loss" in small.choice_
    for point in small.path_:
        assert point.n_centers in (10, 20, 40, 80, 128)
        assert 0 <= point.score <= 1
        assert 0 < point.standard_error < 0.05
        assert point.rank in (None, 8, 16)
        assert set(point.storage) == {"float32"}
    assert small.score(X_test, y_test) > 0.95
    chosen = [point for point in small.path_ if point.nbytes == small.nbytes_]
    assert round(small.validation_score_, 6) in [point.score for point in chosen]


def test_one_size_is_a_path_of_one(moons):
    X, _, y, _ = moons
    small = machine().fit(X, y)
    assert [point.n_centers for point in small.path_] == [10]
    assert "n_centers was given" in small.choice_


@pytest.mark.parametrize("labels", [["no", "yes"], [False, True], [-1, 1], [3.0, 7.0]])
def test_two_classes_of_any_kind(moons, labels):
    X, X_test, y, y_test = moons
    labels = np.array(labels)
    small = machine().fit(X, labels[y])
    assert small.classes_.tolist() == labels.tolist()
    assert small.score(X_test, labels[y_test]) > 0.93
    assert small.predict(X_test).dtype == labels.dtype
    assert small.expansion_.n_outputs == 1
    np.testing.assert_array_equal(
        small.predict(X_test) == labels[1], small.decision_function(X_test) > 0
    )


def test_many_classes():
    X, y = make_blobs(1500, n_features=8, centers=150, cluster_std=0.5, random_state=0)
    small = machine(150, n_epochs=15).fit(X, y)
    assert small.score(X, y) > 0.98
    assert small.predict_proba(X).shape == (1500, 150)


def test_fewer_centers_than_classes():
    X, y = make_blobs(400, n_features=4, centers=12, random_state=0)
    small = machine(5, n_epochs=60).fit(X, y)
    assert small.n_centers_ == 5
    assert small.score(X, y) > 0.6


def test_rows_of_weight_zero_are_not_there(moons):
    X, X_test, y, _ = moons
    weight = np.r_[np.zeros(80), np.ones(220)]
    weighted, without = machine().fit(X, y, weight), machine().fit(X[80:], y[80:])
    np.testing.assert_array_equal(
        weighted.decision_function(X_test), without.decision_function(X_test)
    )


def test_weights_count_in_proportion_only(moons):
    X, X_test, y, _ = moons
    weights = np.random.default_rng(0).uniform(0.5, 2, len(y))
    one, eight = machine().fit(X, y, weights), machine().fit(X, y, 8 * weights)
    np.testing.assert_allclose(
        one.decision_function(X_test), eight.decision_function(X_test), rtol=1e-3, atol=1e-3
    )


def test_a_heavier_class_is_predicted_more_often():
    X, y = make_blobs(400, centers=[[0, 0], [1, 1]], random_state=0)
    shares = [
        np.mean(machine(6).fit(X, y, np.where(y == 1, weight, 1.0)).predict(X) == 1)
        for weight in (0.1, 1.0, 10.0)
    ]
    assert shares[0] < shares[1] - 0.1
    assert shares[2] > shares[1] + 0.1


def test_class_weight_is_a_sample_weight(moons):
    X, X_test, y, _ = moons
    by_class = machine(class_weight={0: 3.0, 1: 1.0}).fit(X, y)
    by_row = machine().fit(X, y, np.array([3.0, 1.0])[y])
    np.testing.assert_array_equal(
        by_class.decision_function(X_test), by_row.decision_function(X_test)
    )


def test_balanced_weights_find_the_rare_class():
    X, y = make_blobs([400, 40], centers=[[0, 0], [1.5, 1.5]], random_state=0)
    plain, balanced = machine(6).fit(X, y), machine(6, class_weight="balanced").fit(X, y)
    rare = y == 1
    assert np.mean(balanced.predict(X[rare]) == 1) > np.mean(plain.predict(X[rare]) == 1) + 0.1


@pytest.mark.parametrize("container", [sparse.csr_matrix, sparse.csr_array, sparse.csc_array])
@pytest.mark.parametrize("projection", [None, 8])
def test_sparse_rows_give_about_the_same_machine(digits, container, projection):
    X, X_test, y, _ = digits
    dense = machine(15, n_epochs=5, projection=projection).fit(X, y)
    thin = machine(15, n_epochs=5, projection=projection).fit(container(X), y)
    assert np.mean(thin.predict(container(X_test)) == dense.predict(X_test)) > 0.99
    np.testing.assert_allclose(
        dense.decision_function(container(X_test)), dense.decision_function(X_test), atol=1e-4
    )


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
def test_frames_give_feature_names_and_are_checked_against_them(moons, frame):
    X, _, y, _ = moons
    table = frame({"east": X[:, 0], "north": X[:, 1]})
    small = machine(n_epochs=3).fit(table, y)
    assert small.feature_names_in_.tolist() == ["east", "north"]
    np.testing.assert_array_equal(small.predict(table), machine(n_epochs=3).fit(X, y).predict(X))
    with pytest.raises(ValueError, match="feature names"):
        small.predict(table[["north", "east"]])


@pytest.mark.parametrize("n_classes", [2, 10])
@pytest.mark.parametrize("loss", ["cross_entropy", "squared_hinge"])
def test_probabilities(digits, n_classes, loss):
    X, X_test, y, _ = digits
    small = machine(15, n_epochs=8, loss=loss).fit(X[y < n_classes], y[y < n_classes])
    probabilities = small.predict_proba(X_test)
    assert probabilities.shape == (len(X_test), n_classes)
    assert (probabilities >= 0).all()
    np.testing.assert_allclose(probabilities.sum(axis=1), 1.0, rtol=1e-6)
    np.testing.assert_array_equal(
        small.classes_[probabilities.argmax(axis=1)], small.predict(X_test)
    )
    logs = small.predict_log_proba(X_test)
    assert np.isfinite(logs).all()
    np.testing.assert_allclose(np.exp(logs), probabilities, atol=1e-9)


@pytest.mark.parametrize("loss", ["cross_entropy", "squared_hinge"])
def test_the_temperature_makes_new_rows_likelier(digits, loss):
    X, X_test, y, y_test = digits
    small = machine(15, loss=loss, n_epochs=10).fit(X, y)

    def cross_entropy(temperature):
        logs = log_softmax(small.decision_function(X_test) / temperature, axis=1)
        return -np.mean(logs[np.arange(len(y_test)), y_test])

    assert small.temperature_ != 1.0
    assert cross_entropy(small.temperature_) < cross_entropy(1.0)


def test_without_a_validation_part_there_is_no_temperature(moons):
    X, X_test, y, y_test = moons
    small = machine(validation_fraction=None, keep_history=True).fit(X, y)
    assert small.temperature_ == 1.0
    assert np.isnan(small.validation_score_)
    assert small.n_iter_ == len(small.history_) == 20
    assert small.score(X_test, y_test) > 0.93


@pytest.mark.parametrize(
    "parameters",
    [
        {"n_centers": 10},
        pytest.param({"n_centers": "auto"}, marks=pytest.mark.slow),
        {"n_centers": "auto", "max_bytes": 300},
    ],
    ids=["one size", "auto", "bytes"],
)
def test_same_answer_with_the_same_seed_whatever_n_jobs(moons, parameters):
    X, X_test, y, _ = moons
    parameters = {**parameters, "n_epochs": 4}
    one = machine(**parameters).fit(X, y)
    values = one.decision_function(X_test)
    for n_jobs in (1, 2):
        other = machine(**parameters, n_jobs=n_jobs).fit(X, y)
        np.testing.assert_array_equal(other.decision_function(X_test), values)
        assert other.path_ == one.path_
    another = machine(**{**parameters, "random_state": 1}).fit(X, y)
    assert not np.array_equal(another.decision_function(X_test), values)


def test_pickles_and_clones(digits):
    X, X_test, y, _ = digits
    small = machine(15, storage="int4", n_epochs=3).fit(X, y)
    again = pickle.loads(pickle.dumps(small))
    np.testing.assert_array_equal(again.decision_function(X_test), small.decision_function(X_test))
    np.testing.assert_array_equal(
        clone(small).fit(X, y).decision_function(X_test), small.decision_function(X_test)
    )
    assert len(pickle.dumps(small.expansion_)) < small.nbytes_ + 2000


def test_searches_and_pipes(moons):
    X, X_test, y, y_test = moons
    units = np.array([1.0, 1000.0])
    piped = make_pipeline(StandardScaler(), machine(n_epochs=10))
    search = GridSearchCV(piped, {"compactkernelclassifier__n_centers": [1, 8]}, cv=2)
    search.fit(X * units, y)
    assert search.best_params_["compactkernelclassifier__n_centers"] == 8
    assert search.score(X_test * units, y_test) > 0.93


def test_heavy_rows_are_not_outvoted_by_batches_of_light_ones():
    random = np.random.RandomState(0)
    X = np.repeat(2 * random.randn(4, 2), 500, axis=0)
    y = np.tile(np.arange(500) == 0, 4).astype(int)
    weights = np.where(y == 1, 5000.0, 1.0)
    small = machine(8, n_epochs=40).fit(X, y, weights)
    assert small.score(X, y, weights) > 0.9


# -- Hard input -------------------------------------------------------------------------------


def test_no_more_centers_than_rows():
    X, y = make_moons(40, noise=0.1, random_state=0)
    small = machine(1000, n_epochs=60).fit(X, y)
    assert small.n_centers_ <= 40
    assert small.score(X, y) > 0.9


@pytest.mark.parametrize("n_rows", [2, 3, 4, 5])
def test_a_handful_of_rows(n_rows):
    X, y = np.arange(2.0 * n_rows).reshape(-1, 2), np.arange(n_rows) % 2
    small = machine(n_epochs=5).fit(X, y)
    assert set(small.predict(X)) <= {0, 1}
    assert np.isfinite(small.predict_proba(X)).all()


def test_equal_rows(moons):
    X, _, y, _ = moons
    small = machine(20).fit(np.repeat(X[:10], 20, axis=0), np.repeat(y[:10], 20))
    assert small.score(X[:10], y[:10]) > 0.85
    constant = machine(4, n_epochs=5).fit(np.ones((20, 3)), np.array([0] * 14 + [1] * 6))
    assert constant.predict(np.ones((3, 3))).tolist() == [0, 0, 0]


def test_constant_features_and_one_feature(moons):
    X, X_test, y, y_test = moons
    wide, wide_test = (np.hstack([part, np.zeros((len(part), 2))]) for part in (X, X_test))
    assert machine().fit(wide, y).score(wide_test, y_test) > 0.93
    assert machine().fit(X[:, 1:], y).score(X_test[:, 1:], y_test) > 0.75


@pytest.mark.parametrize("scale", [1e-6, 1e6])
@pytest.mark.parametrize("offset", [0.0, 1e6, 1e8])
@pytest.mark.parametrize("projection", [None, 2])
def test_scale_and_offset_change_little(moons, scale, offset, projection):
    X, X_test, y, y_test = moons

    def moved(rows):
        return scale * (rows + offset)

    small = machine(projection=projection).fit(moved(X), y)
    assert small.score(moved(X_test), y_test) > 0.93


def test_not_a_number_and_one_class_are_refused(moons):
    X, _, y, _ = moons
    for bad in (np.nan, np.inf):
        with pytest.raises(ValueError, match=r"NaN|infinity"):
            machine().fit(np.vstack([X[1:], [[bad, 0.0]]]), y)
    with pytest.raises(ValueError, match="one class only"):
        machine().fit(X, np.ones(len(X)))


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"projection": 3}, "projection=3 is more than the 2 features"),
        ({"max_bytes": 20}, "max_bytes=20 is too little for 2 features"),
        ({"n_centers": "auto", "validation_fraction": None}, 'n_centers="auto" is chosen on held'),
        ({"max_bytes": 900, "validation_fraction": None}, "is chosen on held-out rows"),
        ({"n_centers": 0}, "n_centers"),
        ({"storage": "int5"}, "storage"),
        ({"loss": "hinge"}, "loss"),
        ({"smoothing": 1.0}, "smoothing"),
        ({"noise": -1.0}, "noise"),
        ({"learning_rate": 0.0}, "learning_rate"),
        ({"width": "some"}, "width"),
    ],
)
def test_parameters_that_make_no_sense(moons, parameters, message):
    X, _, y, _ = moons
    with pytest.raises(ValueError, match=message):
        machine(**{"n_centers": "auto", **parameters}).fit(X, y)


def test_wild_rates_end_in_a_warning_and_not_in_numbers_that_are_none(moons):
    X, _, y, _ = moons
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        small = machine(learning_rate=100.0).fit(X, y)
    assert np.isfinite(small.decision_function(X)).all()


@pytest.mark.parametrize("scale", [1e-50, 1e-200, 1e200])
def test_numbers_beyond_float32_are_refused(moons, scale):
    X, _, y, _ = moons
    with pytest.raises(ValueError, match="beyond what float32 can hold"):
        machine().fit(scale * X, y)


def test_a_large_budget_is_not_filled_with_more_than_the_data_support(moons):
    X, X_test, y, y_test = moons
    small = machine("auto", max_bytes="100k").fit(X, y)
    assert small.n_centers_ <= 300 // 4
    assert small.score(X_test, y_test) > 0.93


# -- Devices ----------------------------------------------------------------------------------


def test_a_device_without_torch_says_what_to_install(moons, monkeypatch):
    X, _, y, _ = moons
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(ImportError, match=r"needs torch, which is not installed.*kernlet\[torch\]"):
        machine(device="cuda").fit(X, y)


@pytest.mark.parametrize(
    "parameters",
    [{}, {"storage": "int4", "projection": 12, "width": "per_center"}],
    ids=["plain", "packed"],
)
def test_torch_trains_about_the_same_machine(digits, parameters):
    pytest.importorskip("torch")
    X, X_test, y, _ = digits
    ours = machine(15, n_epochs=3, **parameters).fit(X, y)
    theirs = machine(15, n_epochs=3, device="torch", **parameters).fit(X, y)
    assert np.mean(ours.predict(X_test) == theirs.predict(X_test)) > 0.98
    assert isinstance(theirs.expansion_.centers, np.ndarray)
    assert pickle.loads(pickle.dumps(theirs)).predict(X_test).shape == (len(X_test),)


def test_torch_chooses_and_goes_on(moons):
    pytest.importorskip("torch")
    X, X_test, y, y_test = moons
    small = machine("auto", max_bytes=200, device="torch", warm_start=True).fit(X, y)
    small.set_params(early_stopping=True).fit(X, y)
    assert small.nbytes_ <= 200
    assert small.score(X_test, y_test) > 0.9


@pytest.mark.parametrize("projection", [None, 8])
@pytest.mark.parametrize("width", ["shared", "per_center"])
def test_tensors_have_the_values_of_arrays(digits, projection, width):
    torch = pytest.importorskip("torch")
    X, X_test, y, _ = digits
    small = machine(15, n_epochs=2, projection=projection, width=width).fit(X, y)
    values = small.decision_function(torch.asarray(X_test, dtype=torch.float32))
    assert isinstance(values, torch.Tensor)
    np.testing.assert_allclose(values.numpy(), small.decision_function(X_test), atol=1e-3)
    np.testing.assert_array_equal(
        small.predict(torch.asarray(X_test, dtype=torch.float32)), small.predict(X_test)
    )


# -- Choices ----------------------------------------------------------------------------------


def test_the_default_is_the_smallest_machine_that_does_as_well(moons):
    X, X_test, y, y_test = moons
    small = CompactKernelClassifier(random_state=0).fit(X, y)
    assert small.n_centers_ <= 16
    assert small.score(X_test, y_test) > 0.94
    assert "the smallest within one standard error of the least log loss of" in small.choice_
    assert not hasattr(small, "history_")


def test_a_noisy_table_gets_few_centers_whatever_the_budget():
    random = np.random.RandomState(0)
    X = random.randn(300, 6)
    y = (X[:, 0] + X[:, 1] + 1.5 * random.randn(300) > 0).astype(int)
    small, large = (machine("auto", max_bytes=b, n_epochs=40).fit(X, y) for b in (256, 4096))
    assert small.n_centers_ <= large.n_centers_ <= 16


@pytest.mark.parametrize("parameters", [{}, {"max_bytes": 2000}], ids=["auto", "bytes"])
def test_max_centers_limits_what_is_chosen(digits, parameters):
    X, _, y, _ = digits
    small = machine("auto", max_centers=13, n_epochs=2, **parameters).fit(X, y)
    assert small.n_centers_ <= 13
    assert machine(20, max_centers=5, n_epochs=2).fit(X, y).n_centers_ == 5


@pytest.mark.parametrize("parameters", [{}, {"max_bytes": 2000}], ids=["auto", "bytes"])
def test_max_centers_may_depend_on_the_shape(digits, parameters):
    X, _, y, _ = digits

    def behind_a_projection(plan):
        return 12 if plan.rank else 0

    chosen = clone(machine("auto", max_centers=behind_a_projection, n_epochs=2, **parameters))
    chosen.fit(X, y)
    assert chosen.n_centers_ <= 12
    assert chosen.expansion_.rank < 64
    again = machine("auto", max_centers=lambda plan: 9, init=chosen, n_epochs=1)
    with pytest.raises(ValueError, match="max_centers=9, but the machine to start from has"):
        again.fit(X, y)
    with pytest.raises(ValueError, match="max_centers allows no machine of 64 features and 10 out"):
        machine("auto", max_centers=lambda plan: 0, n_epochs=2, **parameters).fit(X, y)
    with pytest.raises(ValueError, match=r"allows no machine of 64 .* with 20 centers: allow more"):
        machine(20, max_centers=lambda plan: 0, n_epochs=2).fit(X, y)


def test_budgets_may_be_texts(moons):
    X, X_test, y, _ = moons
    text, number = (machine("auto", max_bytes=b, n_epochs=2).fit(X, y) for b in ("0.1k", 100))
    np.testing.assert_array_equal(text.decision_function(X_test), number.decision_function(X_test))
    with pytest.raises(ValueError, match="'much' is not a number of bytes"):
        machine("auto", max_bytes="much").fit(X, y)


@pytest.mark.parametrize("parameters", [{}, {"max_bytes": 1000}], ids=["auto", "bytes"])
@pytest.mark.parametrize(
    "counts", [(1, 1), (2, 1), (1, 30), (3, 30), (4, 40, 2), (2, 2) + (1,) * 8], ids=str
)
def test_rare_classes_are_chosen_with_a_warning(counts, parameters):
    y = np.repeat(np.arange(len(counts)), counts)
    X = np.random.RandomState(0).randn(len(y), 4) + y[:, None]
    with pytest.warns(UserWarning, match=r"classes have fewer than 5 rows \(the smallest has \d\)"):
        small = machine("auto", n_epochs=4, **parameters).fit(X, y)
    assert np.isfinite(small.predict_proba(X)).all()
    assert small.predict_proba(X).shape == (len(y), len(counts))


def test_common_classes_are_not_warned_about(moons):
    X, _, y, _ = moons
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        machine("auto", n_epochs=2, max_bytes=100).fit(X, y)


def test_a_choice_respects_weights(moons):
    X, X_test, y, _ = moons
    weight = np.r_[np.zeros(80), np.ones(220)]
    weighted = machine("auto", n_epochs=3).fit(X, y, weight)
    without = machine("auto", n_epochs=3).fit(X[80:], y[80:])
    np.testing.assert_array_equal(
        weighted.decision_function(X_test), without.decision_function(X_test)
    )
    by_class = machine("auto", n_epochs=3, class_weight={0: 3.0, 1: 1.0}).fit(X, y)
    by_row = machine("auto", n_epochs=3).fit(X, y, np.array([3.0, 1.0])[y])
    np.testing.assert_array_equal(
        by_class.decision_function(X_test), by_row.decision_function(X_test)
    )
    assert by_class.validation_score_ == by_row.validation_score_


@pytest.mark.parametrize("fraction", [0.5, 0.25, 0.02])
def test_the_validation_fraction_is_the_share_of_a_fold(moons, fraction):
    X, _, y, _ = moons
    small = machine("auto", n_epochs=2, validation_fraction=fraction).fit(X, y)
    n_folds = {0.5: 2, 0.25: 4, 0.02: 10}[fraction]
    assert f"cross-validation with {n_folds} folds" in small.choice_


def test_many_rows_are_smoothed_less_and_chosen_on_a_held_out_part():
    X, y = make_moons(2500, noise=0.2, random_state=0)
    small = machine("auto", max_bytes=150, n_epochs=3).fit(X, y)
    assert "on 500 held-out rows" in small.choice_
    plain, less = (machine(5, n_epochs=2, smoothing=s).fit(X, y) for s in ("auto", 0.03))
    np.testing.assert_array_equal(plain.decision_function(X), less.decision_function(X))
    plain, more = (machine(5, n_epochs=2, smoothing=s).fit(X[:99], y[:99]) for s in ("auto", 0.1))
    np.testing.assert_array_equal(plain.decision_function(X), more.decision_function(X))


def test_pickled_machines_are_small(digits):
    X, _, y, _ = digits
    small = machine("auto", max_bytes=1256, n_epochs=3).fit(X, y)
    assert len(pickle.dumps(small)) < 4000
    again = pickle.loads(pickle.dumps(small))
    assert again.path_ == small.path_
