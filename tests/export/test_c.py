"""Every export is compiled with sanitizers and compared with Python on real rows."""

import shutil
import subprocess
from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from kernlet import CompactKernelClassifier, KernelExpansion, to_c
from kernlet.export.c import EXP_ERROR
from kernlet.export.c_columns import raw_columns
from kernlet.export.c_names import c_comment, c_identifier, c_string, distinct, plain_name
from kernlet.export.c_tables import pack
from kernlet.export.rounding import likely_rows
from kernlet.kernels.base import c_float
from kernlet.kernels.polynomial import Polynomial
from kernlet.kernels.rbf import RBF
from kernlet.model.calibration import calibrated
from kernlet.model.model import Model, as_model
from kernlet.quantization import FORMATS, QuantizedExpansion, encode, encode_sparse
from kernlet.tables.dates import DateColumn
from kernlet.tables.encode import (
    CategoryColumn,
    ColumnEncoding,
    NumberColumn,
    OrdinalColumn,
)
from support.c_programs import (
    ALL_WARNINGS,
    SANITIZERS,
    STRICT,
    c_features,
    compiled,
    needs_gcc,
    run,
)
from support.exportable_models import (
    CLASSIFIERS,
    DETECTORS,
    DIGITS,
    IRIS,
    IRIS_LABELS,
    REGRESSORS,
    TRANSFORMERS,
    classifier,
    detector,
    regressor,
    transformer,
)


def close_calls(values):
    """Rows whose two best scores are next to each other."""
    if values.ndim == 1:
        return np.abs(values) < 1e-4
    best = np.sort(values, axis=1)
    return best[:, -1] - best[:, -2] < 1e-4


@pytest.mark.slow
@needs_gcc
@pytest.mark.parametrize("name", CLASSIFIERS)
def test_float32_gives_the_classes_of_python(name, tmp_path):
    model, X = classifier(name)
    some = X[:: max(1, len(X) // 150)]
    source = to_c(model, tmp_path, X=X)
    program = compiled(source)
    assert subprocess.run([program], check=False).returncode == 0
    codes, scores = run(program, some, True)
    values = model.decision_function(some)
    far = ~close_calls(values)
    assert far.sum() > 0.9 * len(some)
    assert_array_equal(model.classes_[codes][far], model.predict(some)[far])
    assert_allclose(scores.reshape(values.shape), values, atol=2e-4 * np.abs(values).max())
    assert source.rounding.agreement == 1.0


@pytest.mark.slow
@needs_gcc
@pytest.mark.parametrize("storage", ["float16", "int8", "stored"])
@pytest.mark.parametrize("exp", ["libm", "polynomial"])
@pytest.mark.parametrize(
    "name", ["compact scaled", "compact mixed", "compact int4 projected", "compact widths", "poly"]
)
def test_rounded_tables_do_what_the_record_says(name, storage, exp, tmp_path):
    if storage == "stored" and name == "poly":
        pytest.skip("a machine without packed arrays")
    model, X = classifier(name)
    some = X[::10]
    source = to_c(model, tmp_path, storage, X=some, exp=exp)
    codes, scores = run(compiled(source), some, True)
    values = as_model(model).scores(as_model(model).outputs(some))
    agreement = np.mean(model.classes_[codes] == model.predict(some))
    assert agreement == pytest.approx(source.rounding.agreement, abs=2 / len(some))
    if not as_model(model).votes:
        error = np.abs(scores - values).max()
        assert error == pytest.approx(source.rounding.largest_score_error, abs=1e-4 * 9)
    assert agreement > 0.95


@needs_gcc
@pytest.mark.parametrize("formats", [("int8", "float32"), ("float32", "int8"), ("int4", "float16")])
def test_centers_and_projection_may_have_different_formats(formats, tmp_path):
    random = np.random.RandomState(0)
    shapes = {"centers": (4, 3), "projection": (3, 6)}
    packed = {
        name: encode(random.normal(size=shape), FORMATS[format])
        for (name, shape), format in zip(shapes.items(), formats, strict=True)
    }
    coef = encode(random.normal(size=(2, 4)), FORMATS["float32"])
    machine = QuantizedExpansion(0.5, coef=coef, intercept=np.zeros(2), **packed)
    X = random.normal(size=(20, 6))
    values = run(compiled(to_c(machine, tmp_path, "stored", X=X)), X, False)
    assert_allclose(values, machine.decision_values(X), atol=1e-5)


@needs_gcc
@pytest.mark.parametrize("optimize", ["-Os", "-O2"])
@pytest.mark.parametrize("n_entries", [None, 2])
def test_ternary_codes_read_in_order_give_the_bits_of_codes_read_by_number(
    n_entries, optimize, tmp_path
):
    random = np.random.RandomState(0)
    shapes = {"centers": (23, 7), "coef": (3, 23), "projection": (7, 11)}
    codes = {name: random.randint(-1, 2, shape).astype(float) for name, shape in shapes.items()}
    codes["projection"][:, 4] = 0.0  # a feature that no number depends on: NaN there is seen too
    X = np.float32(random.normal(size=(60, 11)))
    X[50:55, 4], X[55:, 2] = np.nan, np.nan
    said = []
    for format in ("ternary", "int8"):  # whose codes have a byte each
        packed = {name: encode(0.5 * c, FORMATS[format], 0.5) for name, c in codes.items()}
        if n_entries is not None:
            packed["coef"] = encode_sparse(0.5 * codes["coef"], n_entries, FORMATS[format], 0.5)
        machine = QuantizedExpansion(0.3, intercept=np.ones(3), shift=0.1, scale=1.7, **packed)
        source = to_c(machine, tmp_path, "stored", X=X[:50])
        assert ("next_digit" in (tmp_path / "model.c").read_text()) == (format == "ternary")
        build = ["gcc", *STRICT, optimize, "model.c", "test_model.c", "-o", "run", "-lm"]
        subprocess.run(build, cwd=source.folder, check=True)
        said.append(run(tmp_path / "run", X, False))
    assert np.isfinite(said[0][:50]).all()
    assert np.isnan(said[0][50:]).all()
    assert_array_equal(said[0], said[1])


@needs_gcc
@pytest.mark.parametrize("name", REGRESSORS)
def test_regressors(name, tmp_path):
    model, X = regressor(name)
    source = to_c(model, tmp_path, X=X, y=model.predict(X))
    values = run(compiled(source), X[:50], False)
    assert_allclose(
        values.reshape(model.predict(X[:50]).shape), model.predict(X[:50]), rtol=1e-4, atol=1e-5
    )
    assert source.rounding.agreement is None
    assert source.rounding.accuracy_after > 0.9999


@pytest.mark.slow
@needs_gcc
@pytest.mark.parametrize("name", DETECTORS)
@pytest.mark.parametrize("arithmetic", ["float", "integer"])
def test_novelty_detectors(name, arithmetic, tmp_path):
    model, X = detector(name)
    source = to_c(model, tmp_path, X=X, y=model.predict(X), arithmetic=arithmetic)
    program = compiled(source)
    assert (
        "rows agree with Python" in subprocess.run([program], capture_output=True).stdout.decode()
    )
    labels, scores = run(program, X[:60], 1)
    assert_array_equal(labels, np.where(scores[:, 0] >= 0, 1, -1))
    assert set(labels) == {-1, 1}
    expected = model.predict(X[:60])
    if arithmetic == "float":
        clear = np.abs(model.decision_function(X[:60])) > 2 * source.tolerance
        assert_array_equal(labels[clear], expected[clear])
    assert np.mean(labels == expected) > 0.9
    header = source.files[0].read_text("utf-8")
    assert "MODEL_CLASS_OUTLIER = -1" in header
    assert "class_names" not in header
    example = ["gcc", *STRICT, "example_model.c", "model.c", "-o", "example", "-lm"]
    subprocess.run(example, cwd=tmp_path, check=True)
    said = subprocess.run([tmp_path / "example"], capture_output=True, check=True).stdout
    assert said.split()[0] in (b"inlier", b"outlier")


@needs_gcc
def test_nan_is_an_outlier(tmp_path):
    model, X = detector("one class")
    program = compiled(to_c(model, tmp_path, X=X))
    labels, _ = run(program, np.full((1, 4), np.nan), 1)
    assert labels == [-1]
    assert "makes every score NaN and the class -1" in (tmp_path / "model.h").read_text()


def test_labels_of_novelties_are_signs(tmp_path):
    model, X = detector("one class")
    with pytest.raises(ValueError, match="1 for inliers and -1 for outliers"):
        to_c(model, tmp_path, X=X, y=np.zeros(len(X)))


@needs_gcc
@pytest.mark.parametrize("name", TRANSFORMERS)
def test_transformers(name, tmp_path):
    model, X = transformer(name)
    features = run(compiled(to_c(model, tmp_path, X=X)), X[:50], False)
    expected = model.transform(X[:50])
    assert_allclose(features, expected, atol=2e-4 * np.abs(expected).max())


@needs_gcc
def test_an_expansion_gives_its_outputs(tmp_path):
    expansion = KernelExpansion(Polynomial(0.5, 3, 1.0), np.eye(3), np.ones((2, 3)), np.zeros(2))
    values = run(compiled(to_c(expansion, tmp_path)), np.eye(3), False)
    assert_allclose(values, expansion.decision_values(np.eye(3)), rtol=1e-6)


@pytest.mark.slow
@needs_gcc
@pytest.mark.parametrize(
    "name", ["compact", "compact two classes", "svc", "svc pairs", "svc two classes", "one vs one"]
)
@pytest.mark.parametrize("offset", [0.0, -0.25])
def test_probabilities(name, offset, tmp_path):
    original, X = classifier(name)
    model = calibrated(as_model(original), X, original.predict(X))
    n_classes = len(model.classes)
    model = replace(model, temperature=0.7, offset=offset if n_classes == 2 else 0.0)
    to_c(model, tmp_path, name="digits")
    main = f"""
    #include "digits.h"
    #include <stdio.h>
    static const float x[] = {{ {", ".join(map(c_float, X[5]))} }};
    int main(void) {{
        float scores[DIGITS_SCORES], probabilities[DIGITS_CLASSES];
        int c, best = digits_predict(x, scores);
        if (best != digits_predict(x, NULL)) return 1;
        digits_probabilities(scores, probabilities);
        for (c = 0; c < DIGITS_CLASSES; ++c) printf("%.9g ", (double)probabilities[c]);
        return 0;
    }}"""
    (tmp_path / "main.c").write_text(main)
    command = ["gcc", *STRICT, *SANITIZERS, "main.c", "digits.c", "-o", "main", "-lm"]
    subprocess.run(command, cwd=tmp_path, check=True)
    said = subprocess.run([tmp_path / "main"], capture_output=True, text=True, check=True).stdout
    found = np.array(said.split(), dtype=float)
    assert len(found) == n_classes
    assert_allclose(found, model.probabilities(model.outputs(X[5:6]))[0], atol=1e-5)


@needs_gcc
def test_the_exponential_without_a_library_keeps_its_bound(tmp_path):
    kernel = KernelExpansion(RBF(1.0), np.zeros((1, 1)), np.ones((1, 1)), np.zeros(1))
    program = compiled(to_c(kernel, tmp_path, exp="polynomial"), sanitize=False)
    assert "math.h" not in (tmp_path / "model.c").read_text()
    x = np.sqrt(np.concatenate([np.linspace(0, 87, 20_001), np.linspace(0, 2, 20_001)]))
    x = np.float32(x).astype(float)[:, None]
    found = run(program, x, False)[:, 0]
    exact = np.exp(-(np.float32(x[:, 0]) * np.float32(x[:, 0])).astype(float))
    inside = exact > np.exp(-87)
    assert np.abs(found / exact - 1)[inside].max() < EXP_ERROR
    assert found[~inside].max(initial=0.0) < 2e-38


@needs_gcc
def test_names_cannot_break_out_of_the_source(tmp_path):
    classes = np.array(['"; int x[', "*/ #error", "\u00e9\n\\", "a???/", "%d"])
    order = np.argsort(classes)
    expansion = KernelExpansion(RBF(1.0), np.eye(5), np.eye(5), np.zeros(5))
    model = Model(
        expansion,
        "classifier",
        classes[order],
        feature_names=("*/", "/*", "\\", "???/", "\u4e2d" * 200),
        summary={"estimator": "*/ #error"},
    )
    source = to_c(model, tmp_path)
    compiled(source)
    text = (tmp_path / "model.c").read_text("utf-8")
    assert all(c_string(name) in text for name in classes.tolist())


@needs_gcc
def test_the_makefile_builds_and_tests(tmp_path):
    model, X = classifier("compact scaled")
    to_c(model, tmp_path / "new" / "folder", X=X)
    made = subprocess.run(
        ["make", "-s", "-C", tmp_path / "new" / "folder"], capture_output=True, text=True
    )
    assert made.returncode == 0, made.stderr
    assert "16 of 16 rows agree" in made.stdout


@needs_gcc
@pytest.mark.parametrize("single_header", [False, True])
def test_the_example_prints_the_answer_of_python(single_header, tmp_path):
    model = table_model()
    to_c(model, tmp_path, name="m", single_header=single_header)
    made = subprocess.run(["make", "-s", "-C", tmp_path, "test", "example"], capture_output=True)
    assert made.returncode == 0, made.stderr
    said = made.stdout.decode("utf-8")
    assert "16 of 16 rows agree" in said
    assert "16 of 16 rows of the table agree" in said
    row = {
        "Temp [\u00b0C]": 3.0,
        "site": "*/ ??/",
        "int": False,
        "3 d": 3.5,
        "3.d": 2.5,
        "code": "",
    }
    assert set(row) == set(TABLE)
    outputs = model.outputs(model.encoded({name: [cell] for name, cell in row.items()}))
    code = model.codes(outputs)[0]
    assert f"class {code}: {model.classes[code]}\n" in said
    for name, number in zip(model.classes, model.probabilities(outputs)[0], strict=True):
        assert f"probability of {name}: {number:.3f}\n" in said


@pytest.mark.slow
@needs_gcc
def test_a_single_header_is_implemented_once_and_included_anywhere(tmp_path):
    model, X = classifier("compact mixed")
    source = to_c(model, tmp_path, X=X, name="one", single_header=True)
    two = to_c(model, tmp_path / "two", X=X, name="one")
    assert [path.name for path in source.files] == [
        *("one.h", "test_one.c", "example_one.c", "Makefile")
    ]
    assert {path.name for path in tmp_path.iterdir() if path.is_file()} == {
        path.name for path in source.files
    }
    assert source.size_report() == two.size_report()
    include = '#include "one.h"\n'
    (tmp_path / "a.c").write_text(f"{include}#define ONE_IMPLEMENTATION\n{2 * include}")
    (tmp_path / "b.c").write_text(f"{2 * include}int main(void) {{ return one_predict(0, 0); }}\n")
    command = ["gcc", *STRICT, *ALL_WARNINGS, "a.c", "b.c", "-o", "both"]
    subprocess.run(command, cwd=tmp_path, check=True)
    header = (tmp_path / "one.h").read_text("utf-8")
    assert "defines ONE_IMPLEMENTATION before it includes this header" in header


def test_stored_tables_are_the_default_of_packed_machines(tmp_path):
    for name, storage in [("compact mixed", "stored"), ("compact int8", "stored")]:
        source = to_c(classifier(name)[0], tmp_path)
        assert source.storage == storage
        assert source.table_bytes < 0.5 * to_c(classifier(name)[0], tmp_path, "float32").table_bytes
    for name in ("compact", "svc"):
        assert to_c(classifier(name)[0], tmp_path).storage == "float32"
    assert "Storage: float32" in (tmp_path / "model.h").read_text("utf-8")


@pytest.mark.slow
@needs_gcc
@pytest.mark.parametrize("exp", ["polynomial", "libm"])
@pytest.mark.parametrize("name", ["compact mixed", "svc", "svc pairs", "core"])
@pytest.mark.parametrize("optimize", ["-Os", "-O2"])
def test_the_test_program_is_as_strict_as_the_header_says(name, exp, optimize, tmp_path):
    model, X = classifier(name)
    source = to_c(model, tmp_path, X=X, exp=exp)
    assert f"at most {source.tolerance:.2g}, which" in (tmp_path / "model.h").read_text("utf-8")
    test = tmp_path / "test_model.c"
    assert f"#define MODEL_TEST_TOLERANCE {c_float(source.tolerance)}" in test.read_text("utf-8")
    assert float(f"{source.tolerance:.2g}") == source.tolerance
    assert 0 < source.tolerance < 1e-5 * max(3.0, source.rounding.largest_score)
    build = ["gcc", *STRICT, optimize, "model.c", "test_model.c", "-o", "run", "-lm"]
    subprocess.run(build, cwd=tmp_path, check=True)
    assert subprocess.run([tmp_path / "run"], check=False).returncode == 0
    # intercepts that are off by a little more fail
    code = (tmp_path / "model.c").read_text("utf-8")
    assert "model_intercept_at(c)" in code
    more = c_float(30 * source.tolerance)
    wrong = code.replace("model_intercept_at(c)", f"model_intercept_at(c) + {more}")
    (tmp_path / "model.c").write_text(wrong, "utf-8")
    subprocess.run(build, cwd=tmp_path, check=True)
    assert subprocess.run([tmp_path / "run"], check=False).returncode == 1


def test_what_rounding_costs_is_returned_and_written(tmp_path):
    model = CompactKernelClassifier(20, n_epochs=20, random_state=0).fit(IRIS, IRIS_LABELS)
    source = to_c(model, tmp_path, "int8", X=IRIS, y=IRIS_LABELS)
    record = source.rounding
    assert record.accuracy_before == pytest.approx(model.score(IRIS, IRIS_LABELS))
    assert record.n_rows == 150
    assert 0 < record.largest_score_error < 0.2
    header = (tmp_path / "model.h").read_text()
    assert f"accuracy {100 * record.accuracy_before:.2f} % before" in header
    assert f"largest error of a score {record.largest_score_error:.3g}" in header
    assert "on 150 rows given, which may include training rows:" in header
    assert "Storage: int8" in header
    assert source.table_bytes == 20 * 4 + 20 * 3 + 4 * (1 + 1 + 3 + 1)


TABLE = {
    "Temp [\u00b0C]": [20.5, None, 3.0, 1e-3, -7.25, 1e30],
    "site": ["K\u00f6ln", "Berlin", None, "*/ ??/", 'a "quote"', "K\u00f6ln"],
    "int": [True, False, True, True, False, True],
    "3 d": [1, 2, 3, 4, 5, 6],
    "3.d": [1.5, None, 3.5, None, None, 2.5],
    "code": ["7", "8", "a\0b", "9" * 120, "", "7"],
}
LABELS = ["ok", "wear & tear", "ok", "-1", "1", "\u4e2d"]


def table_model(table=TABLE, labels=LABELS):
    """A machine for a table of mixed columns."""
    encoding = ColumnEncoding.learned(table)
    rows = np.clip(encoding.transform(table), -10, 10)
    machine = as_model(CompactKernelClassifier(6, n_epochs=5, random_state=0).fit(rows, labels))
    return replace(machine, encoding=encoding, feature_names=encoding.feature_names)


def test_the_header_says_features_classes_and_encoding(tmp_path):
    to_c(table_model(), tmp_path, name="m")
    header = (tmp_path / "m.h").read_text("utf-8")
    for words in (
        "    M_FEATURE_TEMP_C = 0, /* Temp [\u00b0C] */",
        "    M_FEATURE_SITE_KOLN = 3, /* site=K\u00f6ln */",
        "    M_FEATURE_SITE_MISSING = 5, /* site=(missing) */",
        "    M_FEATURE_3_D_8 = 8, /* 3 d */",  # alike: with their numbers
        "    M_FEATURE_3_D_9 = 9, /* 3.d */",
        "    M_CLASS_MINUS_1 = 0, /* -1 */",
        "    M_CLASS_OK = 2, /* ok */",
        "    M_CLASS_UNNAMED = 4, /* \u4e2d */",
        "/* Temp [\u00b0C]; NAN becomes 3 */",
        "enum m_site_category {\n"
        '    M_CATEGORY_SITE_UNNAMED = 2, /* "* / ? ?/" */\n'
        '    M_CATEGORY_SITE_BERLIN = 3, /* "Berlin" */\n'
        '    M_CATEGORY_SITE_KOLN = 4, /* "K\u00f6ln" */\n'
        '    M_CATEGORY_SITE_A_QUOTE = 5, /* "a "quote"" */\n'
        "};",
        "/* site; one of enum m_site_category; M_MISSING sets site=(missing) to 1 */",
        "/* int; one of enum m_column_int_category */",
        "    uint8_t column_int;",
        "uint8_t m_column_int_from_text(const char *text);",
        "all features of a column are 0 for M_MISSING and M_OTHER. */",
    ):
        assert words in header


@pytest.mark.parametrize("compiler", ["gcc", "clang", "g++", "arm-none-eabi-gcc", "avr-gcc"])
def test_any_names_compile(compiler, tmp_path):
    if not shutil.which(compiler):
        pytest.skip(f"there is no {compiler} to compile with")
    to_c(table_model(), tmp_path, name="m")
    options = ["-Wall", "-Wextra", "-Werror", "-pedantic", "-c"]
    options += ["-mmcu=atmega328p"] if compiler == "avr-gcc" else []
    standards = ["-std=c++11", "-std=c++20"] if compiler == "g++" else ["-std=c99", "-std=gnu11"]
    for standard in standards:
        for file in ("m.c", "example_m.c"):
            command = [compiler, standard, *options, file, "-o", "m.o"]
            subprocess.run(command, cwd=tmp_path, check=True)


@needs_gcc
def test_a_row_of_a_table_becomes_the_features_of_python(tmp_path):
    model = table_model()
    to_c(model, tmp_path)
    new = {
        "Temp [\u00b0C]": [None, 0.1, -3e8, 5.0],
        "site": ["Paris", "berlin", None, "*/ ??/"],
        "int": [None, "other", True, False],
        "3 d": [None, 1.0, 2.0, 1 / 3],
        "3.d": [7.0, 8.0, None, None],
        "code": [None, "", "9" * 119, "7"],
    }
    table = {name: [*TABLE[name], *new[name]] for name in TABLE}
    # a string of C cannot hold a NUL
    table["code"] = ["7" if cell == "a\0b" else cell for cell in table["code"]]
    features, refused = c_features(tmp_path, model, table)
    assert_array_equal(features, model.encoding.transform(table))
    assert not refused.any()


@needs_gcc
@pytest.mark.parametrize("missing", [None, 7.0])
@pytest.mark.parametrize("unknown", [None, 0.0, 9.0])
def test_cells_that_python_refuses_are_refused(missing, unknown, tmp_path):
    category_unknown = {None: None, 0.0: -1, 9.0: 1}[unknown]
    columns = (
        OrdinalColumn("grade", ("a", "b", "zero"), (1.0, 2.5, 0.0), missing, unknown),
        NumberColumn("x", 3.0),
        # one category has no feature, two share one
        CategoryColumn("kind", ("a", "b", "zero"), False, (-1, 0, 0), category_unknown),
        NumberColumn("y", None),
    )
    encoding = ColumnEncoding(columns)
    texts = ["a", "b", "zero", "c", None]
    table = {"grade": texts, "x": [1.0, None, 2.0, 0.5, 1.0], "kind": texts[::-1]}
    table = {name: cells * 2 for name, cells in table.items()} | {"y": [5.0] * 9 + [None]}
    rows = np.eye(len(encoding.feature_names))
    model = replace(as_model(SVC().fit(rows, rows[:, 0])), encoding=encoding)
    to_c(model, tmp_path)
    features, refused = c_features(tmp_path, model, table)
    for i, flag in enumerate(refused):
        row = {name: [cells[i]] for name, cells in table.items()}
        try:
            expected = encoding.transform(row)[0]
        except ValueError:
            assert flag
        else:
            assert not flag
            assert_array_equal(features[i], expected)
    header = (tmp_path / "model.h").read_text("utf-8").replace("\n     * ", " ")
    assert header.count("MODEL_OTHER is refused") == 2 * (unknown is None)
    assert header.count("MODEL_MISSING is refused") == (unknown is None) * (1 + (missing is None))
    assert ("MODEL_OTHER sets grade to 9" in header) == (unknown == 9.0)
    assert ("MODEL_MISSING sets grade to 7" in header) == (missing == 7.0)
    assert "y; NAN is refused" in header


@needs_gcc
def test_missing_numbers_are_flagged_by_the_field_of_the_number(tmp_path):
    # what an imputer with add_indicator=True becomes
    columns = (NumberColumn("age", 3.0), NumberColumn("x", 0.0), CategoryColumn("age", (), True))
    encoding = ColumnEncoding(columns)
    model = replace(as_model(SVC().fit(np.eye(3), [0, 1, 1])), encoding=encoding)
    to_c(model, tmp_path)
    table = {"age": [1.0, None], "x": [5.0, 6.0]}
    features, _ = c_features(tmp_path, model, table)
    assert_array_equal(features, encoding.transform(table))
    header = (tmp_path / "model.h").read_text("utf-8")
    assert header.index("float age;") < header.index("float x;")
    assert "/* age; NAN becomes 3; NAN sets age=(missing) to 1 */" in header


def test_dates_are_given_by_their_parts():
    date = DateColumn("when", "year-month-day", ("month", "hour"), (6.0, 12.5))
    month, hour, size = raw_columns(ColumnEncoding((date, NumberColumn("size", 1.0))), "m")
    assert (month.type, month.field, size.field) == ("float", "when_month", "size")
    rule = "features[1] = !(raw->when_hour <= raw->when_hour) ? 12.5f : raw->when_hour;"
    assert hour.statements == (rule,)
    assert hour.about == "when_hour: 0 to 23; NAN becomes 12.5"


@pytest.mark.parametrize("name", ["compact scaled", "compact int4 projected", "svc far away"])
def test_rows_are_made_up_where_none_are_given(name):
    model, X = classifier(name)
    rows = likely_rows(as_model(model))
    assert rows.shape == (200, X.shape[1])
    assert np.abs(rows.mean() - X.mean()) < 3 * X.std()


def test_what_cannot_be_exported_is_refused(tmp_path):
    model = SVC().fit(IRIS, IRIS_LABELS)
    for options, message in [
        ({"storage": "int7"}, "not one of auto, float32"),
        ({"storage": "stored"}, "machines that hold packed arrays"),
        ({"exp": "fast"}, "not one of polynomial"),
        ({"name": "my model"}, "not a name in C"),
        ({"X": IRIS[:, :2]}, "rows of 4 features"),
        ({"X": np.full((2, 4), np.nan)}, "NaN"),
    ]:
        with pytest.raises(ValueError, match=message):
            to_c(model, tmp_path / "out", **options)
    assert not (tmp_path / "out").exists()
    wide = sparse.csr_array((3, 2**30))
    expansion = KernelExpansion(RBF(1.0), wide, np.ones((1, 3)), np.zeros(1))
    with pytest.raises(ValueError, match="too wide"):
        to_c(expansion, tmp_path)
    empty = KernelExpansion(RBF(1.0), np.zeros((0, 2)), np.zeros((1, 0)), np.zeros(1))
    with pytest.raises(ValueError, match="without centers"):
        to_c(empty, tmp_path)


def test_words_of_c():
    assert c_identifier("My Model.v2") == "my_model_v2"
    assert c_identifier("--") == "model"
    assert c_identifier("struct") == "model_struct"
    assert plain_name("-0.5 \u00b5m Stra\u00dfe") == "minus_0_5_m_strasse"
    assert distinct(["a", "b", "a", "a_2"]) == ["a_0", "b", "a_2_2", "a_2"]
    assert c_comment("a\u202eb\x00\\") == r"a\u202eb\x00" + "\\"
    assert "*/" not in c_comment("**//*/ */*/")
    assert c_comment("x" * 200).endswith("...")
    assert "??" not in c_comment("???/ ????")
    with pytest.raises(ValueError, match="does not fit in float32"):
        c_float(1e39)
    assert np.float32(c_float(0.1)[:-1]) == np.float32(0.1)


def test_a_scaler_in_front_is_part_of_the_code(tmp_path):
    pipeline = make_pipeline(StandardScaler(), SVC()).fit(DIGITS + 100, DIGITS[:, 20] > 8)
    source = to_c(pipeline, tmp_path, X=DIGITS + 100)
    assert source.rounding.agreement == 1.0
    assert "given unscaled" in (tmp_path / "model.h").read_text()


@needs_gcc
@pytest.mark.parametrize("scale", [1e20, 1e-23])
def test_what_float32_cannot_compute_is_refused(scale, tmp_path):
    random = np.random.RandomState(0)
    X = random.normal(size=(80, 2))
    y = X[:, 0] * X[:, 1] > 0
    model = SVC().fit(X * scale, y)
    with pytest.raises(ValueError, match=r"float32.* scale the features"):
        to_c(model, tmp_path / "out", X=X * scale, y=y)
    assert not (tmp_path / "out").exists()
    for machine, storage in [
        (model, "int8"),  # whose codes are scaled
        (make_pipeline(StandardScaler(), SVC()).fit(X * scale, y), "float32"),
    ]:
        source = to_c(machine, tmp_path / storage, storage, X=X * scale, y=y)
        assert subprocess.run([compiled(source)], check=False).returncode == 0


def test_rows_that_float32_cannot_tell_apart_are_counted(tmp_path):
    random = np.random.RandomState(0)
    X = random.normal(size=(200, 2)) + 3e8
    y = X[:, 0] > X[:, 1]
    source = to_c(make_pipeline(StandardScaler(), SVC()).fit(X, y), tmp_path, X=X, y=y)
    assert source.rounding.agreement < 1.0


@pytest.mark.parametrize("name", CLASSIFIERS)
def test_outputs_in_float32_are_near_those_in_float64(name):
    model, X = classifier(name)
    rounded, tables = pack(as_model(model), "float32")
    rows = X[:20].astype(np.float32)
    exact = rounded.outputs(rows.astype(float))
    outputs, sizes = tables.outputs(rows)
    assert (sizes >= 0.9999 * np.abs(outputs)).all()
    assert outputs.dtype == np.float32
    assert_allclose(outputs, exact, atol=2e-4 * max(1.0, np.abs(exact).max()))
