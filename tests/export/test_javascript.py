"""Machines of every kind in JavaScript, compared with Python."""

import subprocess

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.pipeline import make_pipeline
from sklearn.svm import SVC

from kernlet import KernelExpansion, to_package
from kernlet.export.javascript import js_label
from kernlet.export.rounding import clear_of_thresholds, clear_rows, likely_rows
from kernlet.kernels.base import Kernel
from kernlet.kernels.linear import Linear
from kernlet.model.model import Model, as_model
from kernlet.tables.dates import DATE_ORDERS, DATE_PARTS, DateColumn
from kernlet.tables.encode import CategoryColumn, ColumnEncoding, NumberColumn, OrdinalColumn
from support.exportable_models import (
    CLASSIFIERS,
    DETECTORS,
    REGRESSORS,
    TRANSFORMERS,
    classifier,
    detector,
    regressor,
    transformer,
)
from support.mixed_tables import FRAME, LABELS, mixed
from support.node_programs import NODE, needs_node, run_modules, values
from support.random_machines import (
    KERNELS,
    MAPS,
    SCHEMES,
    SHAPES,
    random_compact,
    random_model,
    with_missing,
)

pytestmark = needs_node
MADE = [*((classifier, name) for name in CLASSIFIERS), *((regressor, name) for name in REGRESSORS)]
MADE += [(detector, name) for name in DETECTORS]
MADE += [(transformer, name) for name in TRANSFORMERS]


def write_javascript(model, folder, name="model"):
    """The paths of the module and of its types."""
    return to_package(model, folder, "javascript", name=name).files


def finite(model, rows):
    """Rows whose outputs are finite, and what Python makes of them."""
    with np.errstate(all="ignore"):
        outputs = model._values(rows)
    kept = np.isfinite(outputs).all(axis=1)
    return rows[kept], outputs[kept]


def compare(models, folder, n_rows=12):
    """Write all models, run one process, and compare classes, scores and probabilities."""
    jobs, expected = [], []
    for number, (given, X) in enumerate(models):
        model = as_model(given)
        rows, outputs = finite(model, np.asarray(X, dtype=float)[:n_rows])
        path, _ = write_javascript(given, folder, f"m{number}")
        jobs.append((path, rows, []))
        expected.append((model, rows, outputs))
    for (model, rows, outputs), result in zip(expected, run_modules(folder, jobs), strict=True):
        if len(rows):
            agree(model, rows, outputs, result)


def agree(model, rows, outputs, result):
    is_asinh = getattr(model.expansion.input_map, "is_asinh", False)
    share = 1e-7 if is_asinh else 1e-9  # of float32 numbers, the last bit of which may differ
    scores = np.array(values(result["scores"])).reshape(len(rows), -1)
    python = model.scores(outputs).reshape(len(rows), -1)
    size = np.abs(python).max() + np.abs(model.expansion.coef).sum(axis=1).max()
    clear = np.arange(len(rows))
    if is_asinh:
        clear = clear_of_thresholds(model, rows)
    if not model.votes:
        assert_allclose(scores[clear], python[clear], rtol=share, atol=share * size)
    predicted = values(result["predict"])
    if model.classes is None:
        flat = model.kind == "regressor" and model.is_flat
        assert np.array_equal(predicted, scores[:, 0] if flat else scores)
        assert {a["error"] for a in result["probabilities"]} == {
            "This machine predicts numbers, and has no probabilities."
        }
        return
    margin = size * (10 * share if is_asinh else 1e-12)
    clear = np.intersect1d(clear, clear_rows(model, outputs, margin))
    assert_allclose(scores[clear], python[clear], rtol=share, atol=10 * share * size)
    labels = [js_label(label) for label in model.classes]
    assert result["classes"] == labels
    codes = model.codes(outputs)
    assert [predicted[i] for i in clear] == [labels[codes[i]] for i in clear]
    if model.temperature is None:
        assert "has no probabilities" in result["probabilities"][0]["error"]
        return
    shares = np.array(values(result["probabilities"]))
    atol = 10 * share * max(1.0, size / model.temperature)
    assert_allclose(shares[clear], model.probabilities(outputs)[clear], atol=atol)
    assert_allclose(shares.sum(axis=1), 1)


@pytest.mark.slow
def test_trained_machines_of_every_kind(tmp_path):
    compare([make(name) for make, name in MADE], tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("formats", [("int4",), ("int8", "int6", "ternary"), ("float16",)])
def test_compact_machines_of_every_shape(formats, tmp_path):
    rng = np.random.default_rng(0)
    points = lambda rng, *shape: rng.normal(size=shape)  # noqa: E731
    models = [random_compact(rng, formats=formats, points=points, **s) for s in SHAPES.values()]
    rows = [rng.normal(size=(12, model.n_features)) for model in models]
    pairs = zip(models, rows, strict=True)
    compare([(model, with_missing(model, X)) for model, X in pairs], tmp_path)


def keeps_digits(model):
    """Whether round-off of a distance is still round-off behind the exponential."""
    kernel, size = model.expansion.kernel, np.abs(model.expansion.centers).max()
    return not kernel.is_translation_invariant or np.max(kernel.gamma) * max(1.0, size) ** 2 < 1e6


@pytest.mark.slow
def test_random_machines(tmp_path):
    rng = np.random.default_rng(1)
    fixed = [{"kernel": kernel, "formats": ()} for kernel in dict.fromkeys((*KERNELS, "diagonal"))]
    fixed += [{"map": map} for map in MAPS]
    fixed += [{"kind": "classifier", "scheme": scheme} for scheme in SCHEMES for _ in range(12)]
    fixed += [{"kind": "novelty"}] * 6
    fixed += [{"scaler": "matrix", "formats": ()}] + [{}] * 90
    models = filter(keeps_digits, [random_model(rng, **options) for options in fixed])
    exportable = [(model, likely_rows(model, 12)) for model in models]
    assert len(exportable) > 100
    compare(exportable, tmp_path)


# -- Rows of tables --------------------------------------------------------------------------------

NUMBERS = [1, -2.5, 0, 1e-5, 123456.75, 1e21, 3e30, 2**60, "1.5", " 7 ", "1e3", ".5", "5.", "", "x"]
NUMBERS += ["nan", "-inf", "0x10", True, False, None]
TEXTS = [
    "red",
    " red ",
    "Red",
    "blue",
    "",
    "NA",
    "?",
    "(missing)",
    "\u00e9",
    "b\u2028c",
    "</script>",
]
BOOLEANS = ["true", "TRUE", "False", " false", True, False, "1", "0", 1, 0.0, "1.0", "yes"]
VALUES = ["1", "1.0", "01", "1e0", "10e-1", "+1", "-1", "0.1", "0.10000000149011612", 0.1, 1.0, 10]
VALUES += ["9007199254740993", 9007199254740992, "1e400", "-0", 1e-7, 0.00012, 2.5e-5, "2.5E-05"]
MOMENTS = ["2024-01-31", "2024-01-31 00:00:00", "2024-01-31T00:00:00.000000000", "2024-02-30"]
MOMENTS += ["2024-01-31 18:30", "2024-01-31T19:30:00+01:00", "2024-01-31 18:30:00.5 UTC"]
MOMENTS += ["2024-01-31 18:30:00Z", "2024-01-31T18:30:61", "0001-01-01T00:00+01:00", "2024-01-31Z"]
MOMENTS += ["2024-01-31 18:30:00.5", "2024-01-31T24:00", "2024-01-31T18:30+24:00", "0000-01-01"]
WRITTEN = ["1/31/2024", "31.1.2024", "31.1.24 7:05", "1/31/70 12:01 am", "1/31/69 12:01 p.m."]
WRITTEN += ["2024 1 31", "24-1-31", "20240131", "21000131", "2024-1-31T7:05:09.25Z", "NaT", "soon"]
WRITTEN += [1706725800, "1706725800.5", 1706725800000, "-1e9", 12345, 1e14, "1e300", "1/31-2024"]
WRITTEN += ["0/1/2024", "32.1.2024", "2024-01-31 24:10", "2024-01-31, 23:59", "0000-01-01"]
CELLS = [*NUMBERS, *TEXTS, *BOOLEANS, *VALUES, *MOMENTS, *WRITTEN]

COLUMNS = [
    NumberColumn("n", 2.5),
    NumberColumn("</script><!--\u2028\"'`${x}", None),
    CategoryColumn("c", ("red", "blue", "\u00e9", "b\u2028c", "</script>"), True),
    CategoryColumn("c", ("red", "blue"), False, unknown=None),
    CategoryColumn("c", ("red", "blue", "NA"), False, codes=(0, 0, 1), unknown=1),
    CategoryColumn("c", ("red", "NA", "?"), True, codes=(1, 0, -1, 2), unknown=-1),
    CategoryColumn("b", ("False", "True"), False),
    CategoryColumn("b", ("0", "1", "False", "True"), True, codes=(0, 1, 0, 1, 2)),
    CategoryColumn("v", ("1", "10", "0.1", "9007199254740993", "2.5E-05"), False),
    CategoryColumn("v", ("1", "01", "1e-07", "0.10000000149011612", "true"), False),
    CategoryColumn("d", ("2024-01-31", "2024-01-31 18:30:00", "2024-01-31 18:30:00.5"), True),
    CategoryColumn("m", (), True),
    OrdinalColumn("o", ("red", "blue"), (3.0, -1.5), missing=7.0, unknown=None),
    OrdinalColumn("o", ("1", "10"), (0.0, 1.0), missing=None, unknown=-1.0),
    *(DateColumn("t", o, tuple(DATE_PARTS), (2000.0, 1.5, 2.0, 3.0)) for o in DATE_ORDERS),
    DateColumn("t", "day-month-year", ("weekday",), (2.5,)),
]


def table_model(*columns, **options):
    encoding = ColumnEncoding(columns, **options)
    width = len(encoding.feature_names)
    expansion = KernelExpansion(Linear(), np.ones((1, width)), np.ones((1, 1)), np.zeros(1))
    return Model(expansion, encoding=encoding)


def in_python(column, cell):
    try:
        return column.encoded([cell])[0].tolist()
    except ValueError:
        return None


def test_cells_become_what_python_makes_of_them(tmp_path):
    jobs = []
    for number, column in enumerate(COLUMNS):
        path, _ = write_javascript(table_model(column), tmp_path, f"m{number}")
        jobs.append((path, [], [{column.name: cell} for cell in CELLS]))
    for column, result in zip(COLUMNS, run_modules(tmp_path, jobs), strict=True):
        assert result["features"] == list(column.features)
        for cell, answer in zip(CELLS, result["encode"], strict=True):
            expected = in_python(column, cell)
            value = answer.get("value")
            encoded = None if value is None else list(map(float, value))
            assert encoded == expected, (column, cell, answer)
            assert expected is not None or answer["error"].startswith(f'Column "{column.name}": ')


def test_rows_of_a_table(tmp_path):
    pipeline = make_pipeline(mixed(), SVC()).fit(FRAME, LABELS)
    path, _ = write_javascript(pipeline, tmp_path)
    cells = [
        {name: None if isinstance(cell, float) and cell != cell else cell for name, cell in row}
        for row in (zip(FRAME, record, strict=True) for record in FRAME.to_numpy(object).tolist())
    ]
    (encoded,) = run_modules(tmp_path, [(path, [], [*cells, list(cells[0].values())])])
    rows = np.array(values(encoded["encode"]))
    assert_array_equal(rows[:-1], as_model(pipeline).encoded(FRAME))
    assert_array_equal(rows[-1], rows[0])
    (result,) = run_modules(tmp_path, [(path, rows[:-1], [])])
    assert values(result["predict"]) == pipeline.predict(FRAME).tolist()
    scores = np.array(values(result["scores"]))[:, 0]
    assert_allclose(scores, pipeline.decision_function(FRAME), rtol=1e-9, atol=1e-12)


def test_dates_are_taken_in_utc(tmp_path):
    column = DateColumn("t", "month-day-year", ("year", "month", "weekday", "hour"), (1, 2, 3, 4))
    day = CategoryColumn("t", ("2024-01-31", "2024-01-31 18:30:00"), False)
    path, _ = write_javascript(table_model(column, day), tmp_path)
    cells = [{"t": {"date": "2024-01-31T19:30:00+01:00"}}, {"t": {"date": "2024-01-31"}}]
    (result,) = run_modules(tmp_path, [(path, [], cells)])
    assert values(result["encode"]) == [[2024, 1, 2, 18, 0, 1], [2024, 1, 2, 0, 1, 0]]


# -- Bad input and odd names -----------------------------------------------------------------------


def test_bad_input_gets_one_sentence(tmp_path):
    write_javascript(table_model(NumberColumn("a", None)), tmp_path, "table")
    write_javascript(classifier("svc")[0], tmp_path, "iris")
    script = """
        import * as table from "./table.mjs";
        import * as iris from "./iris.mjs";
        const calls = [
          () => iris.predict([1, 2, 3]), () => iris.predict([1, 2, NaN, 4]),
          () => iris.predict("1234"), () => iris.scores([1, 2, "3", 4]), () => iris.predict(),
          () => iris.probabilities([1, 2, 3, 4]),
          () => table.encode({ b: 1 }), () => table.encode(null), () => table.encode({ a: null }),
          () => table.encode({ a: 1e31 }), () => table.predict([1e308 * 10]),
        ];
        for (const call of calls) {
          try { console.log("no error", call()); } catch (error) { console.log(error.message); }
        }
        console.log(iris.predict(new Float32Array([5, 3, 1, 0])));
    """
    (tmp_path / "bad.mjs").write_text(script)
    ran = subprocess.run([NODE, tmp_path / "bad.mjs"], capture_output=True, text=True, check=True)
    assert ran.stdout.splitlines() == [
        "A row must have 4 numbers, one for each of `features`, not 3.",
        "Feature 2 (x2) must be a finite number, not NaN.",
        "A row must be an array of 4 numbers.",
        "Feature 2 (x2) must be a finite number, not 3.",
        "A row must be an array of 4 numbers.",
        "This machine has no probabilities: kernlet.save(model, path, X, y) adds them from "
        "held-out rows.",
        'The row lacks the column "a".',
        "encode takes an object with a cell for each column.",
        'Column "a": the number is missing, and the machine has no value for missing numbers.',
        'Column "a": 1e+31 is too large.',
        "Feature 0 (a) must be a finite number, not Infinity.",
        "setosa",
    ]


ODD = [
    "</script><script>alert(1)</script>",
    "<!--",
    "a\u2028b\u2029c",
    "\"'`${1}\\",
    "*/ /* //",
    "\n\r",
]
ODD += ["\ud800", "\u202edcba", "\x00\x7f", "__proto__"]


def test_odd_names_are_kept_and_do_no_harm(tmp_path):
    n = len(ODD)
    expansion = KernelExpansion(Linear(), np.eye(n), np.eye(n), np.zeros(n))
    model = Model(expansion, "classifier", np.array(ODD, dtype=object), feature_names=tuple(ODD))
    path, types = write_javascript(model, tmp_path)
    for text in (path.read_text("utf-8"), types.read_text("utf-8")):
        assert "<" not in text.replace("i < ", "").replace("<<", "").replace("c < ", "").replace(
            "j < ", ""
        )
        assert all(c.isprintable() or c == "\n" for c in text)
    (result,) = run_modules(tmp_path, [(path, np.eye(n), [])])
    assert result["features"] == result["classes"] == values(result["predict"]) == ODD


@pytest.mark.parametrize(
    ("label", "expected"),
    [
        *[(np.int64(2**53 - 1), 2**53 - 1), (np.int64(2**53), str(2**53)), (np.True_, True)],
        *[(np.float32(0.5), 0.5), (np.str_("a"), "a"), (b"a", "b'a'")],
    ],
)
def test_labels(label, expected):
    assert js_label(label) == expected
    assert type(js_label(label)) is type(expected)


def test_a_kernel_without_javascript_is_refused(tmp_path):
    class Cosine(Kernel):
        pass

    expansion = KernelExpansion(Cosine(), np.eye(2), np.ones((1, 2)), np.zeros(1))
    with pytest.raises(ValueError, match="is code, and a file holds none"):
        write_javascript(expansion, tmp_path)
    assert not list(tmp_path.iterdir())


def test_large_tables_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("kernlet.export.javascript._MAX_TABLE_BYTES", 1000)
    with pytest.raises(ValueError, match=r"bytes of JavaScript, more than 1,000: make it smaller"):
        write_javascript(classifier("svc")[0], tmp_path)


def test_packed_tables_stay_small(tmp_path):
    model = classifier("compact int4 projected")[0]
    path, _ = write_javascript(model, tmp_path)
    assert path.stat().st_size < 5500 + 1.4 * model.nbytes_
