"""Rows of tables in C: constants for categories of any text, and test vectors that are encoded."""

import re
import shutil
import subprocess
from collections import Counter
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_array_equal
from sklearn.pipeline import make_pipeline
from sklearn.svm import SVC

from export.runners import case
from kernlet import KernelExpansion, to_c
from kernlet.export.emulate import instructions, missing_emulator
from kernlet.export.toolchain import TARGETS
from kernlet.kernels.linear import Linear
from kernlet.kernels.rbf import RBF
from kernlet.model.model import Model, as_model
from kernlet.tables.dates import DateColumn
from kernlet.tables.encode import CategoryColumn, ColumnEncoding, NumberColumn, OrdinalColumn
from support.c_programs import ALL_WARNINGS, c_features, compiled, needs_gcc
from support.mixed_tables import FRAME, LABELS, mixed

# Texts that clean to the same name, to none, or to a word of C; columns whose constants, functions
# or enums would be those of another one, or a macro of the code.
TEXTS = {
    "a": ("", "3d", "a b", "a-b", "a\0b", "b_c", "b c", "int", "missing", "other"),
    "\u4e2d": ("\u4e2d", "\u6587"),
    "a_b": ("c", "c d"),
    "A b": ("c",),
    "feature": ("age", "s"),
    "class": ("ok",),
    "category": ("a_b_c",),
    "category a": ("x",),
    "a from text": ("x",),
    "test": ("rows", "raw rows", "tolerance"),
    "table": ("bytes",),
    "read": ("float", "byte"),
    "in": ("flash",),
    "is": ("text",),
    "raw": ("x",),
    "special": ("x",),
    "missing": ("x",),
    "M": ("x" * 300, '"', "\\", "??/", "*/", "%s"),
}
MANY = tuple(f"n{number}" for number in range(300))


def hostile_model(kind="classifier"):
    """A machine for columns and classes of such names."""
    columns = [CategoryColumn(name, texts, True) for name, texts in TEXTS.items()]
    columns.append(OrdinalColumn("many", MANY, tuple(map(float, range(300))), -1.0, -2.0))
    return model_of(*columns, kind=kind)


def model_of(*columns, kind="classifier"):
    """A machine for columns, of classes that are called as sizes are."""
    encoding = ColumnEncoding(columns)
    n_features = len(encoding.feature_names)
    centers = np.random.RandomState(0).normal(size=(6, n_features))
    coef = np.random.RandomState(1).normal(size=(3, 6))
    classes = np.array(["ES", "es", "names"]) if kind == "classifier" else None
    names = encoding.feature_names
    expansion = KernelExpansion(RBF(0.1 / n_features), centers, coef, np.zeros(3))
    return Model(expansion, kind, classes, encoding=encoding, feature_names=names)


def enumerators(header):
    """Names of all constants, and the macros beside them."""
    text = re.sub(r"/\*.*?\*/", "", header, flags=re.DOTALL)
    return re.findall(r"^    (\w+) = \d+,", text, re.MULTILINE), re.findall(r"#define (\w+)", text)


@pytest.mark.parametrize(
    ("compiler", "options"),
    [
        ("gcc", "-std=c99"),
        ("g++", "-std=c++17"),
        ("clang", "-std=c99"),
        ("arm-none-eabi-gcc", "-std=c99 -mcpu=cortex-m0 -mthumb"),
        ("avr-gcc", "-std=c99 -mmcu=atmega328p"),
    ],
)
@pytest.mark.parametrize("kind", ["classifier", "expansion"])
def test_categories_and_columns_of_any_name_compile(kind, compiler, options, tmp_path):
    if not shutil.which(compiler):
        pytest.skip(f"there is no {compiler}")
    to_c(hostile_model(kind), tmp_path, name="m")
    warnings = [w for w in ALL_WARNINGS if "++" not in compiler or w != "-Wmissing-prototypes"]
    for file in ("m.c", "example_m.c", "test_m.c"):
        if file == "test_m.c" and compiler == "avr-gcc":
            continue  # more rows than an array of AVR holds
        command = [compiler, *options.split(), *warnings, "-c", file, "-o", "m.o"]
        subprocess.run(command, cwd=tmp_path, check=True)


def test_every_constant_has_one_name(tmp_path):
    to_c(hostile_model(), tmp_path, name="m")
    names, macros = enumerators((tmp_path / "m.h").read_text("utf-8"))
    for file in ("m.c", "test_m.c"):  # where macros have two definitions, for AVR and others
        macros += set(re.findall(r"#define (\w+)", (tmp_path / file).read_text("utf-8")))
    defined = Counter([*names, *macros])
    assert set(defined.values()) == {1}
    assert {"M_CLASS_ES_0", "M_CLASS_ES_1", "M_CLASS_NAMES", "M_CLASSES"} <= set(defined)
    assert {"M_FEATURE_FEATURE_S", "M_FEATURES"} <= set(defined)
    n_texts = sum(map(len, TEXTS.values())) + len(MANY)
    assert sum(name.startswith("M_CATEGORY_") for name in names) == n_texts


@pytest.mark.slow
@needs_gcc
def test_categories_of_any_text_become_the_features_of_python(tmp_path):
    model = hostile_model()
    source = to_c(model, tmp_path)
    header = (tmp_path / "model.h").read_text("utf-8")
    assert "uint8_t a;" in header
    assert "uint16_t many;" in header
    ran = subprocess.run([compiled(source)], capture_output=True, text=True, check=True)
    assert "16 of 16 rows of the table agree" in ran.stdout
    table = {}
    for column in model.encoding.columns:
        texts = [text for text in column.categories if "\0" not in text]  # which ends a text in C
        cells = [None, "unknown", *texts]
        table[column.name] = [cells[row % len(cells)] for row in range(2 + len(MANY))]
    features, refused = c_features(tmp_path, model, table)
    assert_array_equal(features, model.encoding.transform(table))
    assert not refused.any()


@needs_gcc
def test_a_column_that_is_encoded_twice_has_the_categories_of_both(tmp_path):
    columns = (
        CategoryColumn("kind", ("a", "b"), False),
        NumberColumn("x", 1.0),
        OrdinalColumn("kind", ("b", "c"), (2.0, 3.0), 4.0, 5.0),
        CategoryColumn("x", (), True),
    )
    model = model_of(*columns)
    source = to_c(model, tmp_path)
    header = (tmp_path / "model.h").read_text("utf-8").replace("\n     * ", " ")
    names, _ = enumerators(header)
    assert [n for n in names if "CATEGORY" in n] == [f"MODEL_CATEGORY_KIND_{n}" for n in "ABC"]
    assert "MODEL_MISSING sets kind to 4; MODEL_OTHER sets kind to 5 */" in header
    assert subprocess.run([compiled(source)], check=False).returncode == 0
    table = {"kind": ["a", "b", "c", "d", None], "x": [1.0, None, 3.0, None, 5.0]}
    features, _ = c_features(tmp_path, model, table)
    assert_array_equal(features, model.encoding.transform(table))


@needs_gcc
def test_the_size_of_a_row_does_not_depend_on_that_of_enums(tmp_path):
    to_c(hostile_model(), tmp_path, name="m")
    (tmp_path / "size.c").write_text(
        '#include "m.h"\nint main(void) { return (int)sizeof(struct m_raw); }\n'
    )
    sizes = []
    for option in ("-fshort-enums", "-fno-short-enums"):
        subprocess.run(["gcc", option, "size.c", "-o", "size"], cwd=tmp_path, check=True)
        sizes.append(subprocess.run([tmp_path / "size"], check=False).returncode)
    n_bytes = len(TEXTS) + len(TEXTS) % 2 + 2  # the last field has two
    assert sizes == [n_bytes, n_bytes]


@needs_gcc
def test_texts_are_left_out_of_a_program_that_looks_none_up(tmp_path):
    to_c(case("table").model, tmp_path, name="m")
    main = """
    #include "m.h"
    int main(void) {
        struct m_raw row;
        float features[M_FEATURES];
        row.weight_g = row.length = 1.0f;
        row.shape = M_CATEGORY_SHAPE_FLAT;
        row.color = COLOR;
        return m_encode(&row, features) + m_predict(features, 0);
    }
    """
    options = ["-O1", "-ffunction-sections", "-fdata-sections", "-Wl,--gc-sections", "-s"]
    for color, is_kept in [("M_CATEGORY_COLOR_KOLN", False), ('m_color_from_text("")', True)]:
        (tmp_path / "main.c").write_text(main.replace("COLOR;", f"{color};"))
        command = ["gcc", *options, "main.c", "m.c", "-o", "program"]
        subprocess.run(command, cwd=tmp_path, check=True)
        assert ("K\u00f6ln".encode() in (tmp_path / "program").read_bytes()) == is_kept


@needs_gcc
def test_the_example_of_the_page_compiles(tmp_path):
    to_c(case("table").model, tmp_path, name="fruit")
    page = (Path(__file__).parents[2] / "docs" / "how-to" / "export-c.md").read_text("utf-8")
    (code,) = re.findall(r'```c\n#include "fruit.h"\n(.*?)```', page, re.DOTALL)
    program = '#include "fruit.h"\n#include <stdio.h>\nint main(void) {' + code + "return 0; }\n"
    (tmp_path / "main.c").write_text(program, "utf-8")
    command = ["gcc", "-std=c99", *ALL_WARNINGS, "main.c", "fruit.c", "-o", "run"]
    subprocess.run(command, cwd=tmp_path, check=True)
    assert subprocess.run([tmp_path / "run"], check=False).returncode == 0


@pytest.mark.parametrize("target", ["Cortex-M0", "ATmega328P"])
def test_texts_are_looked_up_on_a_device(target, tmp_path):
    if missing := TARGETS[target].missing or missing_emulator(target):
        pytest.skip(missing)
    to_c(case("table").model, tmp_path, name="m")
    main = """
    #include "m.h"
    char inputs[8];
    int measured(void) { return m_color_from_text(inputs[0] == '-' ? 0 : inputs); }
    """
    sources = {path: (tmp_path / path).read_text("utf-8") for path in ("m.h", "m.c")}
    cells = ["-", "green", "K\u00f6ln", "red", "Koln", ""]
    rows = [cell.encode().ljust(8, b"\0") for cell in cells]
    assert instructions(sources, main, target, rows).values == (0, 3, 2, 4, 1, 1)


# -- The test program ------------------------------------------------------------------------------


def said(source):
    """What the test program prints, and its exit status."""
    ran = subprocess.run([compiled(source)], capture_output=True, text=True, check=False)
    return ran.stdout, ran.returncode


@needs_gcc
@pytest.mark.parametrize(
    "as_given",
    [
        lambda frame: frame,
        lambda frame: frame.to_dict("list"),
        lambda frame: frame.to_dict("records"),
        lambda frame: pytest.importorskip("pyarrow").Table.from_pandas(frame),
        lambda frame: pytest.importorskip("polars").from_pandas(frame),
    ],
)
def test_rows_of_the_table_go_through_the_encoding(as_given, tmp_path):
    model = make_pipeline(mixed(), SVC()).fit(FRAME, LABELS)
    source = to_c(model, tmp_path, X=as_given(FRAME))
    assert said(source) == (
        "16 of 16 rows agree with Python\n16 of 16 rows of the table agree with Python\n",
        0,
    )
    program = (tmp_path / "test_model.c").read_text("utf-8")
    for cell in ("NAN", "MODEL_OTHER", "MODEL_CATEGORY_CITY_ROME", "MODEL_CATEGORY_ON_TRUE"):
        assert cell in program.partition("test_model_raw[")[2]


@needs_gcc
def test_rows_of_an_array_go_through_the_encoding_too(tmp_path):
    array = FRAME.to_numpy(dtype=object)
    names = list(FRAME.columns)
    pipeline = mixed()
    pipeline.set_params(
        transformers=[
            (name, step, [names.index(column) for column in columns])
            for name, step, columns in pipeline.transformers
        ]
    )
    model = make_pipeline(pipeline, SVC()).fit(array, LABELS)
    assert "16 of 16 rows of the table" in said(to_c(model, tmp_path, X=array))[0]
    # rows of features are no table: all rows are made up
    rows = as_model(case("table").model)
    assert "16 of 16 rows of the table" in said(to_c(rows, tmp_path, X=case("table").rows))[0]


@needs_gcc
def test_dates_and_refused_cells_are_in_the_test_program(tmp_path):
    date = DateColumn("when", "year-month-day", ("month", "hour"), (6.0, 12.5))
    strict = CategoryColumn("kind", ("x", "y"), False, unknown=None)
    model = model_of(date, strict, NumberColumn("size", None))
    stamps = pd.date_range("2024-01-31 10:00", periods=40, freq="31h").insert(3, pd.NaT)[:40]
    table = {"when": stamps, "kind": ["x", "y"] * 20, "size": np.linspace(-1, 2, 40)}
    for X in (None, table):
        output, status = said(to_c(model, tmp_path, X=X))
        assert status == 0
        assert "16 of 16 rows of the table agree" in output
        rows = (tmp_path / "test_model.c").read_text("utf-8")
        rows = rows.partition("test_model_raw[")[2].partition("};")[0]
        assert "OTHER" not in rows
        assert "MISSING" not in rows
        assert rows.count("NAN, NAN, MODEL_CATEGORY") == 1  # of a made-up row
        assert ", NAN }" not in rows


@pytest.mark.slow
@needs_gcc
@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("features[1] = 1.0f;", "features[1] = 1.00000012f;"),  # the last bit
        ("case M_CATEGORY_COLOR_RED:", "case 77:"),
        ("!(raw->weight_g <= raw->weight_g) ?", "0 ?"),
        ("int refused = 0;", "int refused = 1;"),
    ],
)
@pytest.mark.parametrize("is_given", [True, False])
def test_a_wrong_encoding_fails_the_test_program(is_given, right, wrong, tmp_path):
    machine = case("table")
    source = to_c(machine.model, tmp_path, name="m", X=machine.table if is_given else None)
    code = (tmp_path / "m.c").read_text("utf-8")
    assert said(source)[1] == 0
    assert right in code
    (tmp_path / "m.c").write_text(code.replace(right, wrong), "utf-8")
    output, status = said(source)
    assert "16 of 16 rows agree" in output
    assert "16 of 16 rows of the table" not in output
    assert status == 1


@needs_gcc
def test_scores_that_float_computes_less_exactly_are_not_compared(tmp_path):
    # the outputs of an unbounded kernel at made-up cells are larger than those of the rows given
    columns = (OrdinalColumn("kind", ("a", "b"), (1.0, 1e6), 1e6, 1e6), NumberColumn("x", 0.0))
    expansion = KernelExpansion(Linear(), np.eye(2), np.ones((1, 2)), np.zeros(1))
    encoding = ColumnEncoding(columns)
    model = Model(expansion, encoding=encoding, feature_names=encoding.feature_names)
    table = {"kind": ["a"] * 20, "x": np.linspace(0, 1, 20).tolist()}
    for X, n_predicted in [(table, 13), (np.zeros((9, 2)), 0)]:
        source = to_c(model, tmp_path, X=X)
        program = (tmp_path / "test_model.c").read_text("utf-8")
        assert f"#define MODEL_TEST_RAW_PREDICTED {n_predicted} " in program
        output, status = said(source)
        assert "16 of 16 rows of the table agree" in output
        assert status == 0
