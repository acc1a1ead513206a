"""Condensers as samplers: containers, labels, pipelines, and pictures of the rows deleted."""

import pickle

import matplotlib
import numpy as np
import pandas as pd
import polars as pl
import pytest
from imblearn.base import is_sampler
from imblearn.pipeline import Pipeline
from imblearn.pipeline import make_pipeline as make_imblearn_pipeline
from imblearn.utils.estimator_checks import estimator_checks_generator
from scipy import sparse
from sklearn import config_context
from sklearn.base import clone
from sklearn.datasets import load_digits, load_iris
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.neighbors import KNeighborsClassifier
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from kernlet import BoundaryCondenser, CentroidCondenser, TypicalCondenser
from kernlet.condense.base import DeletedImagesDisplay

matplotlib.use("Agg")

ALL = [
    TypicalCondenser(),
    TypicalCondenser(form="literal", class_weight="normalized"),
    TypicalCondenser(kernel="rbf", landmarks=50, random_state=0),
    BoundaryCondenser(100),
    BoundaryCondenser(100, form="literal", kernel="rbf", landmarks=50, random_state=0),
    CentroidCondenser(random_state=0),
]
KEEPING = ALL[:5]


@parametrize_with_checks(ALL)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("estimator", "check"),
    [pair for condenser in ALL for pair in estimator_checks_generator(condenser)],
    ids=lambda part: getattr(getattr(part, "func", None), "__name__", type(part).__name__),
)
def test_imbalanced_learn_checks(estimator, check):
    check(estimator)


@pytest.fixture(scope="module")
def digits():
    X, y = load_digits(return_X_y=True)
    return X[:600], y[:600]


@pytest.mark.parametrize("condenser", KEEPING)
def test_rows_kept_are_rows(condenser, digits):
    X, y = digits
    rows, labels = condenser.fit_resample(X, y)
    kept = condenser.sample_indices_
    np.testing.assert_array_equal(rows, X[kept])
    np.testing.assert_array_equal(labels, y[kept])
    assert 10 <= len(kept) < 600
    assert set(labels) == set(range(10))
    record = condenser.condensation_
    assert record.kept_per_class == condenser.sampling_strategy_
    assert max(r.gap for r in record.rounds) < 1e-9
    again = clone(condenser).fit(X, y)
    np.testing.assert_array_equal(again.sample_indices_, kept)


@pytest.mark.parametrize("condenser", ALL)
@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
def test_frames_come_back_as_they_went_in(condenser, frame):
    X, y = load_iris(return_X_y=True)
    table = frame({f"x{k}": X[:, k].astype(np.float32 if k else float) for k in range(4)})
    names = np.array(["red", "green", "blue"])[y]
    column = pd.Series(names, name="color") if frame is pd.DataFrame else pl.Series("color", names)
    rows, labels = condenser.fit_resample(table, column)
    assert type(rows) is frame
    assert type(labels) is type(column)
    assert list(rows.columns) == list(table.columns)
    assert list(rows.dtypes) == list(table.dtypes)
    assert labels.dtype == column.dtype
    assert labels.name == "color"
    assert len(rows) == len(labels) < 150
    assert condenser.feature_names_in_.tolist() == list(table.columns)
    assert set(condenser.condensation_.kept_per_class) == set(names)


def test_the_index_and_other_types_of_a_frame_are_kept():
    X, y = load_iris(return_X_y=True)
    table = pd.DataFrame({"small": (10 * X[:, 0]).astype(np.int16), "long": X[:, 2]})
    table.index = [f"plant {k}" for k in range(150)]
    column = pd.Series(pd.Categorical(np.array(["r", "g", "b"])[y]), index=table.index)
    condenser = TypicalCondenser()
    rows, labels = condenser.fit_resample(table, column)
    assert rows.index.tolist() == [f"plant {k}" for k in condenser.sample_indices_]
    assert labels.index.equals(rows.index)
    assert rows.dtypes.equals(table.dtypes)
    assert labels.dtype == column.dtype
    means, names = CentroidCondenser(random_state=0).fit_resample(table, column)
    assert means.dtypes.tolist() == [np.float64, np.float64]  # a mean of whole numbers
    assert names.dtype == column.dtype
    assert means.index.equals(names.index)


@pytest.mark.parametrize("condenser", ALL)
def test_names_that_are_no_strings_and_labels_of_other_types(condenser):
    X, y = load_iris(return_X_y=True)
    rows, labels = condenser.fit_resample(pd.DataFrame(X), pd.Series(y).astype("Int64"))
    assert rows.columns.tolist() == [0, 1, 2, 3]
    assert labels.dtype == "Int64"
    words = pl.Series(np.array(["a", "b", "c"])[y]).cast(pl.Categorical)
    assert condenser.fit_resample(pl.DataFrame(X), words)[1].dtype == pl.Categorical
    column = condenser.fit_resample(pl.DataFrame(X), pl.DataFrame({"kind": y}))[1]
    assert column.columns == ["kind"]


@pytest.mark.slow
@pytest.mark.parametrize("condenser", ALL)
@pytest.mark.parametrize("kind", [sparse.csr_matrix, sparse.csr_array, sparse.csc_matrix])
def test_sparse_in_sparse_out(condenser, kind, digits):
    X, y = digits
    rows, labels = condenser.fit_resample(kind(X), y)
    assert sparse.issparse(rows)
    assert isinstance(rows, sparse.sparray) == isinstance(kind(X), sparse.sparray)
    dense, same = clone(condenser).fit_resample(X, y)
    np.testing.assert_array_equal(labels, same)
    if not isinstance(condenser, CentroidCondenser):  # k-means rounds otherwise when sparse
        np.testing.assert_array_equal(rows.toarray(), dense)


@pytest.mark.parametrize("condenser", ALL)
def test_labels_of_all_kinds(condenser, digits):
    X, y = digits
    for labels in (
        y == 3,
        y.astype(str),
        y.astype(str).astype(object),
        y.astype(np.int8),
        y.tolist(),
    ):
        found = clone(condenser).fit_resample(X, labels)[1]
        assert type(found) is type(labels)
        assert set(found) == set(labels)


@pytest.mark.parametrize("condenser", ALL)
def test_bad_input_gets_a_sentence(condenser, digits):
    X, y = digits
    condenser = clone(condenser)
    for rows, labels, sentence in [
        (X, np.zeros(600), r"one class only \(0\.0\); training"),
        (X, y[:-1], "inconsistent numbers"),
        (np.where(X == 5, np.nan, X), y, "NaN"),
        (X, [1, "a"] * 300, "mix types"),
        (X[:0], y[:0], "0 sample"),
        (X, np.linspace(0, 1, 600), "Unknown label type"),
    ]:
        with pytest.raises(ValueError, match=sentence):
            condenser.fit_resample(rows, labels)
    assert not hasattr(condenser, "condensation_")


@pytest.mark.parametrize(
    ("condenser", "sentence"),
    [
        (TypicalCondenser(C=0.0), "'C' parameter"),
        (TypicalCondenser(form="best"), "'form' parameter"),
        (TypicalCondenser(level=np.nan), "'level' parameter"),
        (TypicalCondenser(level=-np.inf), "'level' parameter"),
        (TypicalCondenser(level="1"), "'level' parameter"),
        (TypicalCondenser(min_per_class=0), "'min_per_class' parameter"),
        (TypicalCondenser(kernel="rbf", landmarks=-1), "landmarks=-1 is out of range"),
        (BoundaryCondenser(0), "'threshold' parameter"),
        (BoundaryCondenser(max_rounds=0), "'max_rounds' parameter"),
        (CentroidCondenser(0.0), "'keep' parameter"),
        (CentroidCondenser(1.5), "'keep' parameter"),
    ],
)
def test_bad_parameters_get_a_sentence(condenser, sentence, digits):
    with pytest.raises(ValueError, match=sentence):
        condenser.fit_resample(*digits)


@pytest.mark.parametrize("condenser", ALL)
def test_a_floor_under_every_class(condenser, digits):
    X, y = digits
    rare = np.r_[np.flatnonzero(y == 0)[:4], np.flatnonzero(y != 0)]
    condenser = clone(condenser).set_params(min_per_class=9).fit(X[rare], y[rare])
    kept = condenser.sampling_strategy_
    assert kept[0] == 4
    assert min(kept[k] for k in range(1, 10)) >= 9


@pytest.mark.parametrize("condenser", ALL)
@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_matrix, sparse.coo_matrix])
def test_one_column_for_each_class(condenser, kind, digits):
    X, y = digits
    table = kind(np.eye(10, dtype=int)[y])
    rows, labels = clone(condenser).fit_resample(X, table)
    dense = labels.toarray() if sparse.issparse(labels) else labels
    assert sparse.issparse(labels) == sparse.issparse(table)
    np.testing.assert_array_equal(dense.argmax(axis=1), clone(condenser).fit_resample(X, y)[1])
    assert len(rows) == len(dense)


@pytest.mark.parametrize("condenser", [TypicalCondenser(), BoundaryCondenser()])
def test_sums_too_large_get_a_sentence(condenser):
    X = sparse.random_array((20, 60_000), density=1e-3, format="csr", random_state=0)
    with pytest.raises(ValueError, match=r"each of 3 classes take 80 GB.*CentroidCondenser"):
        condenser.fit(X, np.arange(20) % 3)


def test_means_have_no_numbers(digits):
    condenser = CentroidCondenser(random_state=0).fit(*digits)
    assert not hasattr(condenser, "sample_indices_")
    with pytest.raises(AttributeError, match="makes new rows"):
        condenser.sample_indices_  # noqa: B018


@pytest.mark.slow
@pytest.mark.parametrize("condenser", ALL)
def test_a_step_of_an_imbalanced_learn_pipeline(condenser, digits):
    X, y = digits
    assert is_sampler(condenser)
    pipe = Pipeline(
        [("scale", StandardScaler()), ("fewer", condenser), ("neighbors", KNeighborsClassifier(1))]
    )
    assert pipe.fit(X, y).n_features_in_ == 64
    assert len(pipe[-1]._fit_X) < 600
    assert pipe.predict(X).shape == (600,)
    name = "min_per_class"
    grid = {f"fewer__{name}": [1, 20], "neighbors__n_neighbors": [1, 3]}
    search = GridSearchCV(pipe, grid, cv=3).fit(X, y)
    assert search.best_score_ > 0.75
    with config_context(enable_metadata_routing=True):
        assert cross_val_score(pipe, X, y, cv=3).min() > 0.4
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(pipe)).predict(X), pipe.predict(X))


def test_condensers_in_a_row(digits):
    X, y = digits
    both = make_imblearn_pipeline(TypicalCondenser(), BoundaryCondenser(100))
    rows, labels = both.fit_resample(X, y)
    first, some = TypicalCondenser().fit_resample(X, y)
    second, fewer = BoundaryCondenser(100).fit_resample(first, some)
    np.testing.assert_array_equal(rows, second)
    np.testing.assert_array_equal(labels, fewer)


def test_typical_rows_are_not_missed_and_means_beat_chance(digits):
    X, y = digits
    X_test, y_test = (A[600:] for A in load_digits(return_X_y=True))

    def score(rows, labels):
        return KNeighborsClassifier(1).fit(rows, labels).score(X_test, y_test)

    full = score(X, y)
    assert score(*TypicalCondenser().fit_resample(X, y)) > full - 0.02
    means = [score(*CentroidCondenser(0.1, random_state=s).fit_resample(X, y)) for s in range(5)]
    chance = []
    for seed in range(5):
        rows = np.random.RandomState(seed).permutation(600)[:60]
        chance.append(score(X[rows], y[rows]))
    assert np.mean(means) > np.mean(chance) + 0.03


@pytest.mark.parametrize(
    "condenser", [TypicalCondenser(), TypicalCondenser(level=-0.5), BoundaryCondenser(300)]
)
def test_a_line_for_each_class(condenser):
    X, y = load_digits(return_X_y=True)
    condenser.fit(X, y)
    display = DeletedImagesDisplay.from_estimator(condenser, X, image_shape=(8, 8), n_images=5)
    assert [len(line) <= 5 for line in display.lines] == [True] * 10
    assert display.image_.get_array().shape == (100, 50)
    assert [t.get_text() for t in display.ax_.get_yticklabels()] == display.labels
    clearest = condenser.condensation_.rounds[0]
    if isinstance(condenser, TypicalCondenser):
        row = clearest.deleted[np.argmax(clearest.values)]
        np.testing.assert_array_equal(display.lines[0][0].ravel(), X[row])
    matplotlib.pyplot.close(display.figure_)


def test_sparse_rows_are_drawn():
    X, y = load_digits(return_X_y=True)
    condenser = TypicalCondenser().fit(X, y)
    of_dense, of_sparse = (
        DeletedImagesDisplay.from_estimator(condenser, rows, image_shape=(8, 8))
        for rows in (X, sparse.csr_matrix(X))
    )
    for one, other in zip(of_dense.lines, of_sparse.lines, strict=True):
        np.testing.assert_array_equal(one, other)
    matplotlib.pyplot.close("all")


def test_what_cannot_be_drawn_gets_a_sentence():
    X, y = load_digits(return_X_y=True)
    condenser = TypicalCondenser().fit(X, y)
    with pytest.raises(ValueError, match="have 63 numbers"):
        DeletedImagesDisplay.from_estimator(condenser, X, image_shape=(7, 9))
    with pytest.raises(ValueError, match="makes new ones"):
        DeletedImagesDisplay.from_estimator(
            CentroidCondenser(random_state=0).fit(X, y), X, image_shape=(8, 8)
        )


@pytest.mark.parametrize("kind", [TypicalCondenser, BoundaryCondenser])
def test_large_integers_and_ill_conditioned_kernels(kind):
    X, y = np.random.RandomState(0).normal(size=(60, 2)), np.arange(60) % 2
    kept = kind(C=10**30).fit(X, y).sample_indices_
    np.testing.assert_array_equal(kept, kind(C=1e30).fit(X, y).sample_indices_)
    far = kind(kernel="poly", gamma=1.0, coef0=1.0, landmarks=20, random_state=0)
    record = far.fit(X + 10, y).condensation_
    assert max(elimination.gap for elimination in record.rounds) < 1e-6
