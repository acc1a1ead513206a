import tracemalloc
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.base import clone
from sklearn.compose import ColumnTransformer, make_column_selector
from sklearn.decomposition import PCA, FastICA, IncrementalPCA, TruncatedSVD
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.feature_selection import SelectKBest, VarianceThreshold
from sklearn.frozen import FrozenEstimator
from sklearn.impute import KNNImputer, SimpleImputer
from sklearn.kernel_approximation import Nystroem
from sklearn.neighbors import NeighborhoodComponentsAnalysis
from sklearn.pipeline import FeatureUnion, make_pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    KBinsDiscretizer,
    MaxAbsScaler,
    MinMaxScaler,
    Normalizer,
    OneHotEncoder,
    OrdinalEncoder,
    PolynomialFeatures,
    PowerTransformer,
    RobustScaler,
    StandardScaler,
)
from sklearn.random_projection import SparseRandomProjection
from sklearn.svm import SVC, NuSVC

import kernlet
from kernlet import CompactKernelClassifier, L1KernelClassifier
from kernlet.model.model import as_model
from kernlet.model.pipeline import fold_steps
from support.exportable_models import COMPACT, IRIS, IRIS_LABELS
from support.mixed_tables import (
    CATEGORIES,
    FRAME,
    LABELS,
    NUMBERS,
    UNKNOWN,
    N,
    impute_and_encode,
    impute_and_scale,
    mixed,
)


def as_polars(frame):
    return pl.from_pandas(frame, nan_to_null=True)


def loaded(model, folder):
    kernlet.save(model, folder / "model.kernlet")
    return kernlet.load(folder / "model.kernlet")


def assert_same(pipeline, X, folder):
    """The model, its file and the pipeline agree on raw rows."""
    expected = pipeline.decision_function(X)
    model, again = as_model(pipeline), loaded(pipeline, folder)
    assert not model.steps
    assert_allclose(model.scores(model.outputs(model.rows(X))), expected, rtol=1e-7, atol=1e-8)
    assert_allclose(again.decision_function(X), expected, rtol=1e-7, atol=1e-8)
    assert_array_equal(again.predict(X), pipeline.predict(X))
    if isinstance(X, pd.DataFrame):
        assert_allclose(again.decision_function(as_polars(X)), expected, rtol=1e-7, atol=1e-8)
    return model


# -- Scalers -----------------------------------------------------------------------------------

SCALERS = [
    StandardScaler(),
    StandardScaler(with_mean=False),
    StandardScaler(with_std=False),
    MinMaxScaler(),
    MinMaxScaler((-3, 5)),
    MaxAbsScaler(),
    RobustScaler(),
    RobustScaler(with_centering=False),
    RobustScaler(with_scaling=False),
    FunctionTransformer(),
]


@given(st.lists(st.sampled_from(range(len(SCALERS))), min_size=1, max_size=4))
def test_a_chain_of_scalers_is_one_map(numbers):
    chain = make_pipeline(*(clone(SCALERS[i]) for i in numbers))
    expected = chain.fit_transform(IRIS)
    encoding, folded = fold_steps(chain.steps)
    assert encoding is None
    assert_allclose(IRIS if folded is None else folded(IRIS), expected, atol=1e-10)


def test_constant_features_stay_finite():
    X = np.hstack([IRIS, np.full((150, 1), 7.0)])
    for scaler in SCALERS[:-1]:
        _, folded = fold_steps([("s", scaler.fit(X))])
        assert_allclose(folded(X), scaler.transform(X), atol=1e-10)


def test_steps_that_change_nothing():
    steps = [("none", "passthrough"), ("nothing", None), ("same", FunctionTransformer())]
    assert fold_steps(steps) == (None, None)
    assert fold_steps([]) == (None, None)


def test_a_single_shift_is_stored_once():
    _, folded = fold_steps([("s", MaxAbsScaler().fit(IRIS))])
    assert len(folded.shift) == 1
    assert len(folded.scale) == 4


# -- Linear maps and selectors -----------------------------------------------------------------


@pytest.mark.parametrize(
    "step",
    [
        PCA(2),
        PCA(3, whiten=True),
        IncrementalPCA(2, whiten=True),
        TruncatedSVD(2),
        LinearDiscriminantAnalysis(),
        LinearDiscriminantAnalysis(solver="eigen", n_components=1),
        FastICA(2, random_state=0),
        NeighborhoodComponentsAnalysis(2, random_state=0),
        SparseRandomProjection(3, random_state=0),
        make_pipeline(PCA(3), MinMaxScaler(), PCA(2)),
    ],
    ids=lambda step: str(step)[:40],
)
@pytest.mark.parametrize("kernel", ["rbf", "poly"])
def test_linear_maps_are_a_matrix(step, kernel, tmp_path):
    pipeline = make_pipeline(MinMaxScaler((1, 3)), clone(step), RobustScaler(), SVC(kernel=kernel))
    model = assert_same(pipeline.fit(IRIS, IRIS_LABELS), IRIS, tmp_path)
    assert model.encoding is None
    assert model.scaler.matrix.shape == (model.expansion.centers.shape[1], 4)
    assert model.n_features == model.n_features_in == 4
    assert model.nbytes == model.expansion.nbytes + 4 * (model.scaler.matrix.size + 8)


def test_sparse_rows_stay_sparse(tmp_path):
    X = sparse.random(80, 50, 0.2, "csr", random_state=0)
    y = np.asarray(X.sum(axis=1)).ravel() > 5
    assert_same(make_pipeline(TruncatedSVD(5), SVC()).fit(X, y), X, tmp_path)
    assert_same(make_pipeline(SelectKBest(k=5), MaxAbsScaler(), SVC()).fit(X, y), X, tmp_path)


def test_sparse_rows_are_scaled_in_blocks(tmp_path):
    X = sparse.random(1500, 10_000, 0.001, "csr", random_state=0)
    pipeline = make_pipeline(MaxAbsScaler(), SVC()).fit(X[:40], [0, 1] * 20)
    again = loaded(pipeline, tmp_path)
    tracemalloc.start()
    values = again.decision_function(X)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 8 * 1500 * 10_000  # one dense copy
    assert_allclose(values, pipeline.decision_function(X), atol=1e-8)


def test_a_selection_costs_nothing(tmp_path):
    pipeline = make_pipeline(VarianceThreshold(0.5), StandardScaler(), SVC())
    model = assert_same(pipeline.fit(IRIS, IRIS_LABELS), IRIS, tmp_path)
    assert model.encoding.names == ("x0", "x2", "x3")
    assert (model.n_features_in, model.n_features, model.scaler.matrix) == (4, 3, None)
    with pytest.raises(ValueError, match="X has 3 columns, but the model takes 4"):
        loaded(pipeline, tmp_path).predict(IRIS[:, :3])


def test_selected_categories(tmp_path):
    encoder = ColumnTransformer(
        [("c", OneHotEncoder(), CATEGORIES), ("n", "passthrough", ["size"])]
    )
    pipeline = make_pipeline(encoder, SelectKBest(k=3), SVC()).fit(FRAME, LABELS)
    model = assert_same(pipeline, FRAME, tmp_path)
    assert model.n_features == 3
    assert model.scaler is None


# -- Mixed tables ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "steps",
    [
        (),
        (StandardScaler(),),
        (MaxAbsScaler(), PCA(4, whiten=True), StandardScaler()),
        (TruncatedSVD(3),),
        (LinearDiscriminantAnalysis(),),
        (SelectKBest(k=4), FunctionTransformer()),
    ],
    ids=str,
)
def test_mixed_pipelines(steps, tmp_path):
    pipeline = make_pipeline(mixed(), *map(clone, steps), SVC()).fit(FRAME, LABELS)
    for rows in (FRAME, UNKNOWN, FRAME[FRAME.columns[::-1]]):
        model = assert_same(pipeline, rows, tmp_path)
    assert set(model.encoding.names) <= {"age", "income", "city", "on"}


@pytest.mark.parametrize("machine", [NuSVC(nu=0.3), L1KernelClassifier(candidates=50)], ids=str)
def test_other_machines(machine, tmp_path):
    assert_same(make_pipeline(mixed(), machine).fit(FRAME, LABELS), UNKNOWN, tmp_path)


@pytest.mark.parametrize("steps", [(), (PCA(3, whiten=True),)], ids=str)
def test_compact_machines(steps, tmp_path):
    machine = CompactKernelClassifier(8, projection=2, storage="int4", **COMPACT)
    pipeline = make_pipeline(mixed(), *steps, machine).fit(FRAME, LABELS)
    model, again = as_model(pipeline), loaded(pipeline, tmp_path)
    assert model.expansion is pipeline[-1].expansion_
    # a compact machine rounds its own input map to float32
    for rows in (UNKNOWN, as_polars(UNKNOWN)):
        expected = pipeline.decision_function(UNKNOWN)
        assert_allclose(again.decision_function(rows), expected, rtol=1e-5, atol=1e-5)
    assert_allclose(again.predict_proba(UNKNOWN), pipeline.predict_proba(UNKNOWN), atol=1e-5)
    source = kernlet.to_c(pipeline, tmp_path, "stored", X=UNKNOWN)
    assert source.rounding.agreement == 1


@pytest.mark.parametrize(
    "encoder",
    [
        OneHotEncoder(handle_unknown="ignore"),
        OneHotEncoder(handle_unknown="ignore", drop="first"),
        OneHotEncoder(drop="if_binary"),
        OneHotEncoder(drop=["Oslo", True]),
        OneHotEncoder(min_frequency=0.1, handle_unknown="infrequent_if_exist"),
        OneHotEncoder(min_frequency=0.1, handle_unknown="ignore"),
        OneHotEncoder(max_categories=2, handle_unknown="infrequent_if_exist", drop="first"),
        OneHotEncoder(handle_unknown="infrequent_if_exist"),
        OneHotEncoder(categories=[["Rome", "Bern", "Paris", "Oslo", np.nan], [False, True]]),
        OrdinalEncoder(encoded_missing_value=-2),
        OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=-1, min_frequency=20),
        make_pipeline(
            OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=np.nan),
            SimpleImputer(),
        ),
    ],
    ids=lambda encoder: str(encoder)[:90],
)
def test_encoders(encoder, tmp_path):
    filled = FRAME.assign(age=FRAME["age"].fillna(40))
    columns = ColumnTransformer([("c", encoder, CATEGORIES)], remainder=StandardScaler())
    pipeline = make_pipeline(columns, SVC())
    if isinstance(encoder, OrdinalEncoder) and np.isnan(encoder.encoded_missing_value):
        filled = filled.assign(city=filled["city"].fillna("Rome"))
    filled = filled.drop(columns="note")
    pipeline.fit(filled, LABELS)
    assert_same(pipeline, filled, tmp_path)
    last = encoder[0] if hasattr(encoder, "steps") else encoder
    unknown = filled.assign(city=["Paris", "Nowhere"] * (N // 2))
    if last.handle_unknown == "error":
        with pytest.raises(ValueError, match="Found unknown categories"):
            pipeline.predict(unknown)
        with pytest.raises(
            ValueError, match=r"Row 2, column 'city': 'Nowhere' is an unknown categ"
        ):
            loaded(pipeline, tmp_path).predict(unknown)
    else:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            assert_same(pipeline, unknown, tmp_path)


def test_missing_cells_without_an_imputer(tmp_path):
    columns = ColumnTransformer(
        [("n", StandardScaler(), ["income"]), ("c", OneHotEncoder(), ["on"])]
    )
    pipeline = make_pipeline(columns, SVC()).fit(FRAME, LABELS)
    model = loaded(pipeline, tmp_path)
    gaps = FRAME.assign(income=FRAME["income"].where(FRAME.index != 4))
    with pytest.raises(ValueError, match="contains NaN"):
        pipeline.predict(gaps)
    with pytest.raises(ValueError, match=r"Row 5, column 'income': the number is missing"):
        model.predict(gaps)
    with pytest.raises(ValueError, match=r"Row 1, column 'on': the cell is missing"):
        model.predict(FRAME.assign(on=None))


@pytest.mark.parametrize(
    "imputer",
    [
        SimpleImputer(),
        SimpleImputer(strategy="median", add_indicator=True),
        SimpleImputer(strategy="most_frequent"),
        SimpleImputer(strategy="constant", fill_value=-1.0),
        make_pipeline(StandardScaler(), SimpleImputer(strategy="constant", fill_value=0.5)),
        make_pipeline(SimpleImputer(strategy="constant", fill_value=7.0), SimpleImputer()),
        make_pipeline(SimpleImputer(), PCA(2), SimpleImputer()),
    ],
    ids=lambda imputer: str(imputer)[:80],
)
def test_imputers_of_arrays(imputer, tmp_path):
    X = FRAME[["age", "income", "size"]].to_numpy() / [1, 1000, 1]
    pipeline = make_pipeline(imputer, MinMaxScaler(), SVC()).fit(X, LABELS)
    model = assert_same(pipeline, X, tmp_path)
    assert model.feature_names_in is None
    assert_array_equal(loaded(pipeline, tmp_path).predict(X.tolist()), pipeline.predict(X))


def test_columns_that_are_empty_are_left_out(tmp_path):
    X = np.hstack([np.full((150, 1), np.nan), IRIS])
    for keep in (False, True):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            imputer = SimpleImputer(keep_empty_features=keep)
            model = assert_same(make_pipeline(imputer, SVC()).fit(X, IRIS_LABELS), X, tmp_path)
        assert model.n_features == 4 + keep


def test_columns_by_number_slice_mask_and_function(tmp_path):
    numbers = make_column_selector(dtype_include="number")
    for columns in ([0, 1, 4], slice("age", "income"), [True, True, False, False, True, False]):
        steps = [("n", impute_and_scale(), columns), ("c", impute_and_encode(), [-4])]
        assert_same(
            make_pipeline(ColumnTransformer(steps), SVC()).fit(FRAME, LABELS), UNKNOWN, tmp_path
        )
    steps = [("c", impute_and_encode(), ["on", "city"]), ("n", impute_and_scale(), numbers)]
    encoder = ColumnTransformer(steps, transformer_weights={"n": 2.0}, sparse_threshold=1.0)
    model = assert_same(make_pipeline(encoder, SVC()).fit(FRAME, LABELS), UNKNOWN, tmp_path)
    assert model.encoding.names == ("on", "city", "age", "income", "size")


def test_columns_of_an_array(tmp_path):
    X = FRAME.to_numpy(dtype=object)
    steps = [("c", impute_and_encode(), [2, 3]), ("no", "drop", [5])]
    encoder = ColumnTransformer(steps, remainder=impute_and_scale())
    pipeline = make_pipeline(encoder, SVC()).fit(X, LABELS)
    model = assert_same(pipeline, X, tmp_path)
    assert model.encoding.positions == (2, 3, 0, 1, 4)
    again = loaded(pipeline, tmp_path)
    for table in (FRAME, as_polars(FRAME)):  # other names: by position
        assert_allclose(again.decision_function(table), pipeline.decision_function(X), atol=1e-8)
    with pytest.raises(ValueError, match="X has 5 columns, but the model takes 6"):
        again.predict(FRAME.iloc[:, :5])


def test_arrays_of_named_columns_are_taken_by_position(tmp_path):
    frame = pd.DataFrame(IRIS, columns=list("abcd"))
    steps = [("s", StandardScaler(), [3, 0]), ("m", MinMaxScaler(), [2, 1])]
    pipeline = make_pipeline(ColumnTransformer(steps), SVC()).fit(frame, IRIS_LABELS)
    again = loaded(pipeline, tmp_path)
    expected = pipeline.decision_function(frame)
    for X in (frame, frame[list("cdab")], IRIS):
        assert_allclose(again.decision_function(X), expected, atol=1e-8)
    assert kernlet.to_c(again, tmp_path, X=IRIS, y=IRIS_LABELS).rounding.accuracy_before > 0.9
    assert_array_equal(again.feature_names_in_, ["d", "a", "c", "b"])
    with pytest.raises(ValueError, match="The table lacks 'd'"):  # not by position
        again.predict(frame.rename(columns={"d": "e"}))


def test_two_column_transformers_in_a_row(tmp_path):
    steps = [
        ("n", SimpleImputer(), ["age"]),
        ("c", SimpleImputer(strategy="most_frequent"), CATEGORIES),
    ]
    first = ColumnTransformer(steps, remainder="passthrough")
    second = ColumnTransformer(
        [("n", StandardScaler(), [0, 3, 4]), ("c", OneHotEncoder(), [1, 2, 5])]
    )
    pipeline = make_pipeline(first, second, SVC()).fit(FRAME, LABELS)
    model = assert_same(pipeline, FRAME, tmp_path)
    assert model.scaler.matrix is None


def test_columns_of_several_steps(tmp_path):
    steps = [("a", StandardScaler(), ["income", "size"]), ("b", PCA(1), ["income", "size"])]
    pipeline = make_pipeline(ColumnTransformer(steps), SVC()).fit(FRAME, LABELS)
    assert assert_same(pipeline, FRAME, tmp_path).n_features == 2
    steps = [("a", SimpleImputer(), ["age"]), ("b", SimpleImputer(strategy="median"), ["age"])]
    with pytest.raises(ValueError, match="encodes 'age' in two different ways"):
        as_model(make_pipeline(ColumnTransformer(steps), SVC()).fit(FRAME, LABELS))


def test_unions(tmp_path):
    steps = [("s", StandardScaler()), ("p", PCA(2)), ("none", "drop")]
    union = FeatureUnion(steps, transformer_weights={"p": 0.5})
    pipeline = make_pipeline(MinMaxScaler((1, 3)), union, StandardScaler(with_mean=False), SVC())
    assert_same(pipeline.fit(IRIS, IRIS_LABELS), IRIS, tmp_path)
    pipeline = make_pipeline(MinMaxScaler((1, 3)), union, RobustScaler(), SVC())
    with pytest.raises(ValueError, match="shifts features of the same columns"):
        as_model(pipeline.fit(IRIS, IRIS_LABELS))
    twice = FeatureUnion([("m", MaxAbsScaler()), ("s", StandardScaler(with_mean=False))])
    pipeline = make_pipeline(twice, CompactKernelClassifier(5, n_epochs=5, random_state=0))
    assert_same(pipeline.fit(IRIS, IRIS_LABELS), IRIS, tmp_path)
    with pytest.raises(ValueError, match="leave out the FeatureUnion"):
        kernlet.to_c(pipeline, tmp_path)


def test_frozen_steps(tmp_path):
    encoder = FrozenEstimator(mixed().fit(FRAME, LABELS))
    assert_same(make_pipeline(encoder, SVC()).fit(FRAME, LABELS), FRAME, tmp_path)


def test_booleans_that_scikit_learn_turns_into_numbers(tmp_path):
    steps = [("b", impute_and_encode(), ["on", "size"]), ("o", OrdinalEncoder(), ["on", "size"])]
    pipeline = make_pipeline(ColumnTransformer(steps[:1]), SVC()).fit(FRAME, LABELS)
    model = assert_same(pipeline, FRAME, tmp_path)
    assert model.feature_names == ("on=0", "on=1", "size=1", "size=2", "size=3")
    pipeline = make_pipeline(ColumnTransformer(steps[1:]), SVC()).fit(FRAME, LABELS)
    assert_same(pipeline, FRAME, tmp_path)


@pytest.mark.parametrize(
    "encoder", [OneHotEncoder(handle_unknown="ignore"), OrdinalEncoder()], ids=str
)
def test_booleans_are_given_as_numbers(encoder, tmp_path):
    flags = pd.DataFrame({"on": IRIS[:, 0] > 5.8, "x": IRIS[:, 1]})
    steps = ColumnTransformer([("c", encoder, ["on"])], remainder="passthrough")
    pipeline = make_pipeline(steps, SVC()).fit(flags, IRIS_LABELS)
    for dtype in (bool, object, int, float):
        model = assert_same(pipeline, flags.astype({"on": dtype}), tmp_path)
    assert model.feature_names[0] in ("on=False", "on")


def test_nullable_columns_of_pandas(tmp_path):
    nullable = FRAME.assign(age=FRAME["age"].round().astype("Int64"))
    pipeline = make_pipeline(mixed(), SVC()).fit(nullable, LABELS)
    assert_same(pipeline, nullable, tmp_path)


# -- Compression and export --------------------------------------------------------------------


@pytest.mark.parametrize("steps", [(), (PCA(4),)], ids=str)
def test_compressed_pipelines(steps, tmp_path):
    pipeline = make_pipeline(mixed(), *steps, SVC()).fit(FRAME, LABELS)
    small = kernlet.compress(pipeline, 12, FRAME, LABELS, random_state=0)
    assert_same(small, UNKNOWN, tmp_path)
    assert small.nbytes_ == loaded(small, tmp_path).nbytes_
    onnx = pytest.importorskip("onnxruntime")
    graph = kernlet.to_onnx(small, X=UNKNOWN)
    session = onnx.InferenceSession(graph.SerializeToString())
    rows = as_model(small).rows(UNKNOWN).astype(np.float32)
    assert_array_equal(session.run(["label"], {"X": rows})[0], small.predict(UNKNOWN))
    source = kernlet.to_c(small, tmp_path, X=UNKNOWN, y=LABELS)
    assert source.rounding.agreement == 1
    # a model without the pipeline can be compressed further
    again = kernlet.compress(as_model(small), 5)
    assert loaded(again, tmp_path).predict(UNKNOWN).shape == (N,)


@pytest.mark.parametrize(
    ("step", "name"),
    [
        (PolynomialFeatures(), "'polynomialfeatures' (PolynomialFeatures)"),
        (PowerTransformer(), "'powertransformer' (PowerTransformer)"),
        (KBinsDiscretizer(), "'kbinsdiscretizer' (KBinsDiscretizer)"),
        (Normalizer(), "'normalizer' (Normalizer)"),
        (Nystroem(n_components=20), "'nystroem' (Nystroem)"),
        (KNNImputer(), "'knnimputer' (KNNImputer)"),
        (FunctionTransformer(np.log1p), "'functiontransformer' (FunctionTransformer)"),
        (
            ColumnTransformer([("p", make_pipeline(PowerTransformer()), [0])]),
            "'columntransformer__p__powertransformer' (PowerTransformer)",
        ),
        (make_pipeline(StandardScaler(), OneHotEncoder()), "'pipeline__onehotencoder'"),
        (SimpleImputer(missing_values=0), "missing_values=0 is not NaN"),
    ],
    ids=str,
)
def test_other_steps_are_refused_by_name(step, name):
    pipeline = make_pipeline(step, SVC()).fit(IRIS, IRIS_LABELS)
    with pytest.raises(
        ValueError, match=r"(?s)cannot be stored.*pipeline\[:-1\].*expansion_"
    ) as error:
        as_model(pipeline)
    assert name in str(error.value)


def test_own_transform_of_a_subclass_is_refused():
    class Squared(StandardScaler):
        def transform(self, X):
            return super().transform(X) ** 2

    with pytest.raises(ValueError, match=r"'squared' \(Squared\) cannot be stored"):
        as_model(make_pipeline(Squared(), SVC()).fit(IRIS, IRIS_LABELS))


def test_two_kinds_of_missing_cells_are_refused():
    X = np.array([["yes"], [None], [np.nan]] * 9, dtype=object)
    pipeline = make_pipeline(OneHotEncoder(), SVC()).fit(X, [0, 1, 1] * 9)
    with pytest.raises(ValueError, match="both None and NaN are among its categories"):
        as_model(pipeline)


@pytest.mark.parametrize("encoder", [OneHotEncoder(), OrdinalEncoder()], ids=str)
def test_none_behind_an_imputer_of_nan_is_refused(encoder):
    X = np.array([["yes"], ["no"], [None]] * 9, dtype=object)
    encode = make_pipeline(SimpleImputer(strategy="constant", fill_value="no"), encoder)
    pipeline = make_pipeline(encode, SVC()).fit(X, [0, 1, 1] * 9)
    with pytest.raises(ValueError, match="does not fill both None and NaN"):
        as_model(pipeline)


# -- Random pipelines --------------------------------------------------------------------------

NUMBER_STEPS = st.sampled_from(
    [
        impute_and_scale(),
        impute_and_scale(strategy="median", add_indicator=True),
        make_pipeline(SimpleImputer(strategy="constant", fill_value=3), MinMaxScaler()),
        make_pipeline(SimpleImputer(strategy="most_frequent"), RobustScaler(), PCA(1)),
        make_pipeline(MaxAbsScaler(), SimpleImputer()),
    ]
)
CATEGORY_STEPS = st.sampled_from(
    [
        impute_and_encode(),
        impute_and_encode(drop="first"),
        impute_and_encode(min_frequency=0.15, handle_unknown="infrequent_if_exist"),
        OneHotEncoder(handle_unknown="ignore"),
        make_pipeline(OneHotEncoder(handle_unknown="ignore"), MaxAbsScaler()),
        OrdinalEncoder(
            handle_unknown="use_encoded_value", unknown_value=-1, encoded_missing_value=-2
        ),
    ]
)
LATER_STEPS = st.lists(
    st.sampled_from(
        [
            StandardScaler(with_mean=False),
            MaxAbsScaler(),
            PCA(2),
            PCA(2, whiten=True),
            TruncatedSVD(2),
            LinearDiscriminantAnalysis(),
            VarianceThreshold(),
            FunctionTransformer(),
        ]
    ),
    max_size=2,
)


@st.composite
def pipelines(draw):
    steps = []
    for columns, step in ((NUMBERS, NUMBER_STEPS), (CATEGORIES, CATEGORY_STEPS)):
        for group in draw(st.sampled_from([[columns], [columns[:1]], [columns[1:], columns[:1]]])):
            steps.append((f"{'_'.join(group)}", clone(draw(step)), group))
    steps = draw(st.permutations(steps))
    if draw(st.booleans()):
        steps = [*steps, ("rest", clone(draw(CATEGORY_STEPS)), ["size", "note"])]
    remainder = draw(st.sampled_from(["drop", impute_and_encode()]))
    encoder = ColumnTransformer(
        steps, remainder=remainder, sparse_threshold=draw(st.sampled_from([0, 1]))
    )
    later = [clone(step) for step in draw(LATER_STEPS)]
    machines = [SVC(gamma=0.5), SVC(kernel="poly", degree=2), SVC(kernel="linear")]
    return make_pipeline(encoder, *later, clone(draw(st.sampled_from(machines))))


@pytest.mark.slow
@given(pipeline=pipelines(), seed=st.integers(0, 99))
@settings(max_examples=30, suppress_health_check=list(HealthCheck), deadline=None)
def test_random_pipelines_agree_with_their_models(pipeline, seed, tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    random = np.random.RandomState(seed)
    rows = FRAME.iloc[random.permutation(N)[:90]].reset_index(drop=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            pipeline.fit(rows, LABELS[rows.index])
        except (TypeError, ValueError):  # not every order of these steps can be fitted
            return
        assert_same(pipeline, UNKNOWN, folder)
        onnx = pytest.importorskip("onnxruntime")
        session = onnx.InferenceSession(kernlet.to_onnx(pipeline).SerializeToString())
        model = as_model(pipeline)
        encoded = model.rows(UNKNOWN).astype(np.float32)
        scores = session.run(["scores"], {"X": encoded})[0]
    expected = pipeline.decision_function(UNKNOWN)
    assert_allclose(scores, expected, atol=2e-3 * max(1, np.abs(expected).max()))
