"""The commands on small tables: what they print, what they write, and how they fail."""

import csv
import errno
import gzip
import re
import shutil
import subprocess
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
import skops.io
from click.testing import CliRunner
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.compose import ColumnTransformer
from sklearn.datasets import dump_svmlight_file, load_iris
from sklearn.decomposition import PCA
from sklearn.feature_selection import VarianceThreshold
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, OrdinalEncoder, StandardScaler
from sklearn.svm import SVC, SVR, OneClassSVM

import kernlet
from kernlet import CompactKernelClassifier
from kernlet.cli import ByteCount, Count, main
from kernlet.cli.fit import _advice
from kernlet.compact.plan import StoragePlan
from kernlet.export.limits import DeviceLimits
from kernlet.tables.encode import choose_scaler
from kernlet.tables.read import read_table
from support.exportable_models import DIGIT_LABELS, DIGITS, IRIS, IRIS_LABELS, detector
from support.libsvm_files import file_text
from support.mixed_tables import FRAME, LABELS, UNKNOWN, mixed

NAMES = load_iris().target_names
QUICK = ["--no-svc", "--centers", "6"]


def kernlet_command(*words, status=0):
    result = CliRunner().invoke(main, [str(word) for word in words])
    assert result.exit_code == status, result.output
    return result.output


def write_csv(path, *, spoil=None, delimiter=","):
    """Iris with a column of colours, gaps in both kinds of columns, and one spoilt cell."""
    random = np.random.RandomState(0)
    lines = [["length", "width", "leaf", "leaf width", "color", "species"]]
    for x, label in zip(IRIS, IRIS_LABELS, strict=True):
        gap = random.rand() < 0.1
        lines.append(
            ["" if gap else x[0], *x[1:], random.choice(["red", "blue", ""]), NAMES[label]]
        )
    if spoil is not None:
        row, column, text = spoil
        lines[row][column] = text
    with path.open("w", newline="") as file:
        csv.writer(file, delimiter=delimiter).writerows(lines)
    return path


@pytest.fixture(scope="module")
def iris(tmp_path_factory):
    """A table and the machine that kernlet fit made of it."""
    folder = tmp_path_factory.mktemp("iris")
    table = write_csv(folder / "iris.csv")
    said = kernlet_command(
        "fit", table, "--target", "species", *QUICK, "-o", folder / "iris.kernlet"
    )
    return table, folder / "iris.kernlet", said


def test_fit_says_what_came_out(iris):
    _, model, said = iris
    for words in ("test accuracy", "30 held-out rows", "6 centers", f"wrote {model}"):
        assert words in said
    loaded = kernlet.load(model)
    assert loaded.n_centers_ == 6
    assert loaded.summary_["data"]["missing"]["length"] > 0
    assert loaded.summary_["test"]["score"] > 0.8
    assert loaded.model_.feature_names[-1] == "color=(missing)"


def test_predict_applies_the_rule_of_the_training(iris, tmp_path):
    table, model, _ = iris
    said = kernlet_command("predict", model, table, "-o", tmp_path / "out.csv")
    assert "wrote 150 predictions" in said
    with (tmp_path / "out.csv").open() as file:
        rows = list(csv.DictReader(file))
    right = [row["prediction"] == NAMES[y] for row, y in zip(rows, IRIS_LABELS, strict=True)]
    assert np.mean(right) > 0.9
    assert f"accuracy {100 * np.mean(right):.2f} % on the 150 rows with a label" in said
    assert "was trained on 120 of these 150 rows" in said
    chances = [float(v) for k, v in rows[0].items() if k.startswith("probability of")]
    assert sum(chances) == pytest.approx(1.0, abs=1e-5)
    assert kernlet_command("predict", model, table).count("\n") >= 151


def test_a_reader_that_closes_the_pipe_is_not_an_error(iris, monkeypatch):
    def closed(*args, **more):
        raise BrokenPipeError(errno.EPIPE, "Broken pipe")

    table, model, _ = iris
    monkeypatch.setattr("kernlet.cli.predict._write_csv", closed)
    assert "Error" not in kernlet_command("predict", model, table, status=1)


def test_predict_takes_tables_with_few_labels_or_none(iris, tmp_path):
    table, model, _ = iris
    frame = pd.read_csv(table)
    first = frame.species.copy()
    for n_labels in (0, 5):
        frame["species"] = first.where(frame.index < n_labels)
        frame.to_csv(tmp_path / "t.csv", index=False)
        said = kernlet_command("predict", model, tmp_path / "t.csv", "-o", tmp_path / "out.csv")
        assert ("on the 5 rows with a label" in said) == bool(n_labels)
        assert "was trained on" not in said
    frame.drop(columns="species").to_csv(tmp_path / "t.csv", index=False)
    assert "label" not in kernlet_command("predict", model, tmp_path / "t.csv")


def test_predict_names_the_row_and_the_column_that_are_wrong(iris, tmp_path):
    _, model, _ = iris
    spoilt = write_csv(tmp_path / "spoilt.csv", spoil=(17, 1, "wide"))
    said = kernlet_command("predict", model, spoilt, status=1)
    assert "row 17, column 'width': 'wide' is not a number" in said
    assert "Traceback" not in said
    (tmp_path / "narrow.csv").write_text("length,width\n1,2\n")
    said = kernlet_command("predict", model, tmp_path / "narrow.csv", status=1)
    assert "lacks 'leaf', 'leaf width', 'color'" in said


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a,b\n1,2\n3\n", "Row 2: Expected 2 columns, got 1"),
        ("a,b\n", "no rows"),
        ("", "the file is empty"),
        ("1,2\n3,4\n", "the file has no header, and its columns are 'column_1', 'column_2'"),
        ("a,a\n3,4\n", "'a' occurs twice"),
        (
            "a,b\n1,x\n2,\n3,\n",
            "2 of 3 rows have no label in column 'b', row 2 first: add --skip",
        ),
        ("a,b\n1,\n2,\n", "Column 'b' has no labels at all"),
        (
            "a,b\n" + "".join(f"1,{i}\n" for i in range(40)),
            "40 different numbers in 40 rows: add --reg",
        ),
        ("a,b\n" + "".join(f"1,t{i}\n" for i in range(40)), "40 classes in 40 rows, too many"),
        ("a,b\n1,x\n2,x\n3,x\n4,x\n", "one class only, 'x': nothing"),
        ("a,b\n1,x\n2,y\n", "Of 2 rows, the 1 to train on are too few"),
        ("a,b\n" + "1,x\n2,y\n" * 20 + "oops,x\n", "row 41, column 'a': 'oops' is not a number"),
        (
            "a,b\n" + "".join(f"text{i},{i % 2}\n" for i in range(300)),
            "300 different texts|240 diff",
        ),
        ("a,b\n" + "".join(f"1,{i + 0.5}\n" for i in range(90)), "add --regression"),
        ("a,b\n" + "1,0.5\n2,1\n" * 20, "2 different numbers in 40 rows: add --regression"),
        ("b\n1\n2\n", "no column besides the target"),
        ("a,c\n1,2\n", "no column 'b' among 'a', 'c'"),
        ("a,b\ninf,1\n2,0\n1,1\n2,1\n3,0\n", "Row 1, column 'a': inf is too large"),
        ("a,b\n" + "1,x\n2,y\n" * 20 + "inf,x\n", "table.csv: Row 41, column 'a': inf is too"),
        ("a,b\n1,2\n3,inf\n", "Row 2, column 'b': inf is not a label"),
        ('a,"b\n1,2\n', "its quotes do not match"),
    ],
)
def test_a_table_that_is_wrong_gets_one_sentence(text, message, tmp_path):
    (tmp_path / "table.csv").write_text(text)
    words = ("fit", tmp_path / "table.csv", "--target", "b", "-o", tmp_path / "m")
    said = kernlet_command(*words, status=1)
    error = next(line for line in said.splitlines() if line.startswith("Error:"))
    assert re.search(message, error)
    assert not (tmp_path / "m").exists()


def test_usage_errors_have_their_own_status(iris, tmp_path):
    table, _, _ = iris
    words = ["fit", table, "--target", "species", "--centers", 5, "--auto", "-o", tmp_path / "m"]
    assert "give one" in kernlet_command(*words, status=2)
    assert "not a number of bytes" in kernlet_command(
        "fit", table, "--bytes", "16q", "-o", "m", status=2
    )
    assert "does not exist" in kernlet_command("predict", "none", table, status=2)
    said = kernlet_command("fit", table, "-o", tmp_path / "m", status=1)
    assert "Choose with --target" in said


def test_an_output_that_cannot_be_written_is_found_before_any_work(iris, tmp_path):
    table, model, _ = iris
    commands = {
        "fit": ("fit", table, "--target", "species"),
        "predict": ("predict", model, table),
        "compress": ("compress", model, table),
        "report": ("report", model, table),
        "explain": ("explain", model, table),
        "export": ("export", model, "--to", "onnx"),
    }
    for words in commands.values():
        said = kernlet_command(*words, "-o", tmp_path / "none" / "file", status=2)
        assert "there is no folder" in said
        assert "reading" not in said
        assert "is a folder" in kernlet_command(*words, "-o", tmp_path, status=2)
    words = ("export", model, "-o", table, "--to", "c")
    assert "is a file; name a folder" in kernlet_command(*words, status=2)
    assert "--seed" in kernlet_command(
        *commands["fit"], "--seed", -1, "-o", tmp_path / "m", status=2
    )


@pytest.mark.parametrize("kind", ["tsv", "semicolons.csv", "parquet", "npz", "libsvm", "csv.gz"])
def test_other_files_hold_the_same_table(kind, tmp_path):
    path = tmp_path / f"iris.{kind}"
    columns = {f"c{i}": IRIS[:, i] for i in range(4)} | {"y": IRIS_LABELS}
    if kind == "parquet":
        pq.write_table(pa.table(columns), path)
    elif kind == "npz":
        np.savez(path, X=IRIS, y=IRIS_LABELS)
    elif kind == "libsvm":
        dump_svmlight_file(IRIS, IRIS_LABELS, str(path), zero_based=False)
    else:
        sign = {"tsv": "\t", "semicolons.csv": ";", "csv.gz": ","}[kind]
        lines = [sign.join(columns)]
        lines += [sign.join(str(c[i]) for c in columns.values()) for i in range(150)]
        content = "\n".join(lines).encode()
        if kind == "csv.gz":
            content = gzip.compress(content)
        path.write_bytes(content)
    rows, classes, codes = read_table(path).split_target("y")
    X = rows.X if rows.X is not None else np.stack(list(rows.batch(0)), axis=1)
    np.testing.assert_allclose(X, IRIS, rtol=1e-6)
    np.testing.assert_array_equal(classes[codes], IRIS_LABELS)
    words = ["fit", path, "--target", "y", *QUICK, "-o", tmp_path / "m"]
    assert "test accuracy" in kernlet_command(*words)
    assert kernlet_command("predict", tmp_path / "m", path).count("\n") >= 151


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.npz", b"PK not a zip", "damaged"),
        ("a.parquet", b"nothing", "not a Parquet file"),
        ("a.txt", b"hello there", "its only line is 'hello, there'"),
    ],
)
def test_damaged_tables(name, content, message, tmp_path):
    (tmp_path / name).write_bytes(content)
    words = ("fit", tmp_path / name, "--target", "y", "-o", tmp_path / "m")
    assert message in kernlet_command(*words, status=1)


def test_columns_can_be_dropped_or_taken_for_categories(tmp_path):
    lines = ["id,code,x,y"] + [f"n{i},{i % 3},{i % 7},{(i // 2) % 2}" for i in range(300)]
    (tmp_path / "t.csv").write_text("\n".join(lines))
    words = ["fit", tmp_path / "t.csv", "--target", "y", *QUICK, "-o", tmp_path / "m"]
    assert "240 different texts" in kernlet_command(*words, status=1)
    kernlet_command(*words, "--drop", "id", "--category", "code")
    names = kernlet.load(tmp_path / "m").model_.feature_names
    assert names == ("code=0", "code=1", "code=2", "x")
    said = kernlet_command(*words, "--drop", "nothing", status=1)
    assert "--drop: There is no column 'nothing' among 'id', 'code', 'x', 'y'" in said


def test_typing_errors_in_columns_that_are_not_used(iris, tmp_path):
    lines = write_csv(tmp_path / "t.csv").read_text().splitlines()
    lines = [f"{number},{line}" for number, line in enumerate(lines)]
    lines[0], lines[7] = f"note{lines[0][1:]}", f"broken{lines[7][1:]}"
    table = tmp_path / "t.csv"
    table.write_text("\n".join(lines))
    fit = ["fit", table, "--target", "species", *QUICK, "-o", tmp_path / "m.kernlet"]
    assert "row 7, column 'note': 'broken' is not a number" in kernlet_command(*fit, status=1)
    kernlet_command(*fit, "--drop", "note")
    kernlet_command("predict", tmp_path / "m.kernlet", table)


def test_texts_that_hardly_repeat_are_noted(tmp_path):
    lines = ["day,x,y"] + [f"day {i},{i % 7},{(i // 2) % 2}" for i in range(60)]
    (tmp_path / "t.csv").write_text("\n".join(lines))
    words = ["fit", tmp_path / "t.csv", "--target", "y", *QUICK, "-o", tmp_path / "m"]
    assert "note: 'day' (48 different texts in 48 rows)" in kernlet_command(*words)
    assert "note:" not in kernlet_command(*words, "--drop", "day")


@pytest.mark.parametrize("memory", [[], ["--memory", "1k"]])
def test_rows_without_a_label_can_be_skipped(memory, tmp_path):
    lines = ["x,y"] + [f"{i % 10},{'' if i % 9 == 0 else i % 10 > 4}" for i in range(180)]
    table, model = tmp_path / "t.csv", tmp_path / "m"
    table.write_text("\n".join(lines))
    if memory:
        table = tmp_path / "t.parquet"
        pq.write_table(pa.csv.read_csv(tmp_path / "t.csv"), table, row_group_size=50)
    words = ["fit", table, "--target", "y", *QUICK, *memory, "-o", model]
    assert (
        "20 of 180 rows have no label in column 'y', row 1 first: add --skip-unlabelled"
        in kernlet_command(*words, status=1)
    )
    said = kernlet_command(*words, "--skip-unlabelled")
    assert "note: 20 rows without a label are left out" in said
    assert "accuracy 100.00 % on 32 held-out rows" in said
    assert kernlet.load(model).summary_["data"]["unlabelled"] == 20
    said = kernlet_command(
        "report", model, table, "--no-sizes", "--skip-unlabelled", "-o", tmp_path / "r.html"
    )
    assert "accuracy 100.00 % on 32 rows" in said


def test_all_columns_that_cannot_be_used_are_named_at_once(tmp_path):
    lines = ['id,when,nr,site,empty,x,y,"a,b"']
    for i in range(300):
        lines.append(
            f"n{i},2024-01-{i % 28 + 1:02d} {i % 24}:{i % 60:02d},{i},here,,{i % 7},{i % 2},u{i}"
        )
    (tmp_path / "t.csv").write_text("\n".join(lines))
    words = ["fit", tmp_path / "t.csv", "--target", "y", *QUICK, "-o", tmp_path / "m"]
    said = kernlet_command(*words, status=1)
    for text in (
        "'id' (240 different texts in 240 rows), 'when' (dates), 'empty' (empty)",
        "teach nothing: 'nr' (counts the rows), 'site' (constant)",
        "--drop id,when,empty,nr,site --drop a,b, or use the dates with --drop id,empty,nr,site "
        "--drop a,b --date when, or group",
    ):
        assert text in said
    drop = ["--drop", "id,empty", "--drop", "a,b"]
    said = kernlet_command(*words, *drop, "--date", "when")
    assert "note: 'nr' (counts the rows), 'site' (constant): --drop nr,site leaves out" in said
    assert "note:" not in kernlet_command(*words, *drop, "--drop", "nr, site,when")


def test_how_dates_are_used_is_noted(tmp_path):
    lines = [f"{1 + i % 9}/{1 + i % 5}/2024,{i % 7},{i % 2}" for i in range(200)]
    table = tmp_path / "t.csv"
    table.write_text("\n".join(["when,a,y", *lines]))
    fit = ["fit", table, "--target", "y", *QUICK, "-o", tmp_path / "m.kernlet"]
    assert "each date in 'when' is a category; --date when makes" in kernlet_command(*fit)
    output = kernlet_command(*fit, "--date", "when")
    assert "note: 'when' is read as month-day-year: 7/2/2024 is 2024-07-02" in output
    assert "category" not in output


@pytest.mark.parametrize("options", [("--date", "y"), ("--date", "day", "--drop", "day")])
def test_dates_that_are_not_features_are_refused(options, tmp_path):
    rows = [f"2024-01-{1 + i % 28:02},{i % 5},{i % 2}" for i in range(40)]
    (tmp_path / "t.csv").write_text("\n".join(["day,x,y", *rows]))
    words = ("fit", tmp_path / "t.csv", "--target", "y", *QUICK, "-o", tmp_path / "m")
    said = kernlet_command(*words, *options, status=1)
    assert f"--date names '{options[1]}', which is the target or a column that --drop" in said


def test_dates_become_numbers_that_vary(tmp_path):
    random = np.random.RandomState(0)
    hours, days = random.randint(24, size=200), random.randint(1, 29, size=200)
    lines = ["ts;x;y"]
    for hour, day in zip(hours, days, strict=True):
        lines.append(
            f"{day}.3.2024 {hour}:15;{random.rand():.3f};{'day' if hour > 11 else 'night'}"
        )
    table, model = tmp_path / "t.csv", tmp_path / "m.kernlet"
    table.write_text("\n".join(lines))
    words = ["fit", table, "--target", "y", "--date", "ts", "--no-svc", "--centers", 10]
    kernlet_command(*words, "-o", model)
    loaded = kernlet.load(model)
    assert loaded.model_.feature_names == ("ts_weekday", "ts_hour", "x")
    assert loaded.summary_["test"]["score"] > 0.9
    frame = pd.DataFrame({"ts": pd.to_datetime(["2024-03-05 03:00", "2024-03-05 20:00"]), "x": 0.5})
    assert loaded.predict(frame).tolist() == ["night", "day"]
    frame["ts"] = ["5.3.2024 03:00", "5.3.2024 20:00"]
    assert loaded.predict(frame).tolist() == ["night", "day"]
    assert kernlet_command("predict", model, table).count("\n") >= 201
    (tmp_path / "bad.csv").write_text("ts;x\n1.3.2024 5:00;1\nsoon;2\n")
    said = kernlet_command("predict", model, tmp_path / "bad.csv", status=1)
    assert "Row 2, column 'ts': 'soon' is not a date, written as day-month-year" in said
    pd.read_csv(table, sep=";").to_parquet(tmp_path / "t.parquet")
    words[1] = tmp_path / "t.parquet"
    kernlet_command(*words, "--memory", "1k", "-o", tmp_path / "two.kernlet")
    assert kernlet.load(tmp_path / "two.kernlet").model_.encoding == loaded.model_.encoding


def test_regression_with_scaling_and_bytes(tmp_path):
    table = write_csv(tmp_path / "iris.csv")
    table.write_text("\n".join(table.read_text().splitlines()[:61]))
    words = ["fit", table, "--target", "leaf", "--regression", "--bytes", "300"]
    said = kernlet_command(*words, "--scale", "standard", "-o", tmp_path / "m")
    assert "test R2" in said
    loaded = kernlet.load(tmp_path / "m")
    assert loaded.nbytes_ <= 300  # with the scaler
    assert loaded.model_.scaler is not None
    said = kernlet_command("predict", tmp_path / "m", table)
    assert "prediction\n" in said


@pytest.fixture(scope="module")
def rare(tmp_path_factory):
    """A table with a class of one row in twelve, and what kernlet fit says about it."""
    path = tmp_path_factory.mktemp("rare") / "rare.csv"
    random = np.random.RandomState(0)
    X = random.randn(600, 2)
    score = X[:, 0] * X[:, 1] + 0.4 * random.randn(600)
    labels = np.where(score > 1.2, "hot", np.where(score > 0, "ok", "low"))
    lines = [f"{a:.4f},{b:.4f},{label}" for (a, b), label in zip(X, labels, strict=True)]
    path.write_text("a,b,y\n" + "\n".join(lines))
    return path


@pytest.mark.slow
def test_fit_says_more_than_the_accuracy(rare, tmp_path):
    words = ["fit", rare, "--target", "y", "--centers", 3, "-o", tmp_path / "m"]
    said = kernlet_command(*words)
    test = kernlet.load(tmp_path / "m").summary_["test"]
    labels = pd.read_csv(rare).y
    assert test["majority"] == pytest.approx(labels.value_counts(normalize=True).max(), abs=0.01)
    assert test["balanced_accuracy"] < test["score"]
    assert f"the largest class is {100 * test['majority']:.2f} % of them" in said
    assert f"balanced accuracy {100 * test['balanced_accuracy']:.2f} %" in said
    assert "rare classes are often missed: try --balanced" in said
    metric = ["--metric", "f1_macro", "--balanced"]
    said = kernlet_command(*words, *metric)
    better = kernlet.load(tmp_path / "m").summary_
    assert better["parameters"]["class_weight"] == "balanced"
    assert better["parameters"]["scoring"] == "f1_macro"
    assert better["test"]["balanced_accuracy"] > test["balanced_accuracy"]
    assert f"f1_macro {better['test']['metric_score']:.4f}" in said
    assert better["svc"]["metric_score"] > 0.5
    assert "rare classes" not in said
    said = kernlet_command(*words, "--metric", "neg_log_loss")  # an SVC has no probabilities
    assert "neg_log_loss -0." in said
    assert "neg_log_loss unknown" in said


def test_metrics_that_cannot_be_computed(rare, tmp_path):
    words = ["fit", rare, "--target", "y", *QUICK, "-o", tmp_path / "m"]
    assert "--metric best is not a scorer" in kernlet_command(*words, "--metric", "best", status=1)
    words = ["fit", rare, "--target", "a", "--regression", *QUICK[1:], "-o", tmp_path / "m"]
    assert "weighs classes" in kernlet_command(*words, "--balanced", status=1)
    said = kernlet_command(*words, "--metric", "accuracy", status=1)
    assert "--metric accuracy cannot judge this target (continuous is not supported)" in said
    assert "others are r2, neg_mean_absolute_error." in said
    said = kernlet_command(*words, "--metric", "neg_mean_absolute_error", "--drop", "y")
    assert re.search(r"test R2 \S+ on 120 held-out rows, neg_mean_absolute_error -0\.\d+", said)


@pytest.mark.parametrize(
    ("score", "options", "message"),
    [
        (0.80, {}, "advice: 10.0 points below the SVC: try --centers 24 or --machine minimal"),
        (0.80, {"max_bytes": 1000}, "try --auto, --bytes 2000 or --machine minimal"),
        (0.80, {"processor": "cortex-m0"}, "below the SVC: try higher limits of the processor"),
        (0.80, {"machine": "l1"}, "try more --centers, another --C, or --machine compact"),
        (0.895, {}, "as good as the SVC at 1/50 of its size"),
        (0.95, {}, "better than the SVC at 1/50 of its size"),
        (0.89, {"rows": 1}, "caution: a test on 1 row says little"),
        (0.89, {"rows": 12}, "caution: a test on 12 rows says little"),
        (0.80, {"metric": "balanced_accuracy"}, "as good as the SVC"),  # within an error of 0.2
    ],
)
def test_advice_follows_from_the_figures(score, options, message):
    rows = options.pop("rows", 1000)
    model = SimpleNamespace(
        kind="classifier",
        nbytes=100,
        expansion=SimpleNamespace(n_centers=12),
        summary={
            "test": {
                "score": score,
                "balanced_accuracy": score,
                "balanced_error": 0.2,
                "metric_score": score if "metric" in options else None,
                "rows": rows,
            },
            "svc": {"accuracy": 0.9, "metric_score": 0.9, "nbytes": 5000},
        },
    )
    defaults = {"machine": "compact", "centers": None, "max_bytes": None, "balanced": False}
    defaults |= {"metric": None, "processor": None}
    assert message in _advice(model, SimpleNamespace(**defaults | options))


def test_a_table_of_five_rows_is_learned_with_a_caution(tmp_path):
    (tmp_path / "t.csv").write_text("a,y\n1,u\n2,u\n3,v\n4,v\n5,v\n")
    words = ("fit", tmp_path / "t.csv", "--target", "y", *QUICK, "-o", tmp_path / "m")
    said = kernlet_command(*words)
    assert "on 1 held-out row;" in said
    assert "caution: a test on 1 row says little" in said
    words = ("report", tmp_path / "m", tmp_path / "t.csv", "--no-sizes", "-o", tmp_path / "r.html")
    assert "on 1 row, too few to say much" in kernlet_command(*words)


def test_accuracies_on_training_rows_are_labelled(iris, tmp_path):
    table, model, _ = iris
    note = "note: the machine was trained on 120 of these 150 rows"
    for words in (
        ("compress", model, table, "--centers", 3, "-o", tmp_path / "small"),
        ("export", model, "--to", "c", "--table", table, "-o", tmp_path / "c"),
    ):
        assert note in kernlet_command(*words)
    options = ["--target", "species", *QUICK, "--test", 0, "-o", tmp_path / "all"]
    kernlet_command("fit", table, *options)
    words = ("report", tmp_path / "all", table, "--no-sizes", "-o", tmp_path / "r.html")
    assert "on 150 rows that it was trained on, which is too optimistic" in kernlet_command(*words)
    assert "rows of iris.csv, on which it was trained" in (tmp_path / "r.html").read_text("utf-8")


def test_a_target_that_is_named_must_be_there(iris, tmp_path):
    table, model, _ = iris
    words = ("export", model, "--to", "c", "--table", table, "--target", "no", "-o", tmp_path / "c")
    assert "There is no column 'no' among" in kernlet_command(*words, status=1)


def test_an_svc_stands_beside_the_machine(tmp_path):
    table = write_csv(tmp_path / "iris.csv")
    words = ("fit", table, "--target", "species", "--centers", 6, "-o", tmp_path / "m")
    assert "an SVC of 120 rows" in kernlet_command(*words)
    assert kernlet.load(tmp_path / "m").summary_["svc"]["accuracy"] > 0.8


def test_export(iris, tmp_path):
    table, model, _ = iris
    said = kernlet_command(
        *("export", model, "--to", "c", "--storage", "int8", "--table", table),
        *("--exp", "polynomial", "-o", tmp_path / "c"),
    )
    assert "before, " in said
    assert (tmp_path / "c" / "iris.h").exists()
    made = subprocess.run(["make", "-s", "-C", tmp_path / "c"], capture_output=True, text=True)
    assert "16 of 16 rows agree" in made.stdout
    assert "150 rows given, which may include training rows" in said
    said = kernlet_command("export", model, "--to", "onnx", "-o", tmp_path / "iris.onnx")
    assert "checked with onnxruntime" in said
    assert (tmp_path / "iris.onnx").stat().st_size > 500


@pytest.mark.slow
@pytest.mark.parametrize("exp", ["polynomial", "libm"])
def test_export_keeps_packed_tables_and_says_which_exponential_is_smaller(exp, iris, tmp_path):
    machine = kernlet.CompactKernelClassifier(8, storage="int4", n_epochs=5, random_state=0)
    kernlet.save(machine.fit(IRIS, IRIS_LABELS), tmp_path / "packed.kernlet")
    words = ("export", tmp_path / "packed.kernlet", "--to", "c", "--exp", exp)
    said = kernlet_command(*words, "-o", tmp_path / "c")
    assert "held as stored (the machine's own)" in said
    assert "near its centers" in said
    head = next(line for line in said.splitlines() if line.startswith("target "))
    names = "target code tables library flash ram stack instructions cycles"
    assert head.split() == names.split()
    lines = [line for line in said.splitlines() if line.startswith("Cortex-M0")]
    if shutil.which("arm-none-eabi-gcc"):
        assert all(len(line) == len(head) for line in lines[:1])
        line = next(line for line in said.splitlines() if line.startswith(f"--exp {exp} against"))
        assert f"{'-' if exp == 'polynomial' else '+'}" in line.split("flash: ")[1].split()[0]
    else:
        assert "apt install gcc-arm-none-eabi" in lines[0]


def test_exports_are_checked_on_rows_with_and_without_labels(iris, tmp_path):
    _, model, _ = iris
    lines = write_csv(tmp_path / "t.csv").read_text().splitlines()
    lines[3] = lines[3].rpartition(",")[0] + ","
    (tmp_path / "t.csv").write_text("\n".join(lines))
    words = ("export", model, "--table", tmp_path / "t.csv")
    assert "149 rows given" in kernlet_command(*words, "--to", "c", "-o", tmp_path / "c")
    kernlet_command(*words, "--to", "onnx", "-o", tmp_path / "t.onnx")
    table, _, _ = iris
    words = ("export", model, "--table", table, "--to", "onnx", "-o", tmp_path / "t.onnx")
    assert "optimistic" not in kernlet_command(*words)


def test_export_refuses_a_target_that_is_not_in_the_table(iris, tmp_path):
    table, model, _ = iris
    words = ("export", model, "--to", "c", "--target", "foo", "-o", tmp_path / "c")
    assert "There is no column 'foo' among" in kernlet_command(*words, "--table", table, status=1)
    assert "give --table too" in kernlet_command(*words, status=2)
    assert not (tmp_path / "c").exists()


def test_options_of_c_are_refused_for_onnx(iris, tmp_path):
    words = ("export", iris[1], "--to", "onnx", "-o", tmp_path / "t.onnx")
    assert "options of C" in kernlet_command(*words, "--storage", "int8", status=2)
    assert "options of C" in kernlet_command(*words, "--exp", "libm", status=2)
    assert "not for ONNX" in kernlet_command(*words, "--arithmetic", "integer", status=2)
    assert "options of --to c" in kernlet_command(*words, "--single-header", status=2)


def test_export_of_a_single_header(iris, tmp_path):
    table, model, _ = iris
    words = ("export", model, "--to", "c", "--single-header", "--table", table, "-o", tmp_path)
    said = kernlet_command(*words)
    assert said.splitlines()[-1].startswith("wrote ")
    assert "iris.c" not in {path.name for path in tmp_path.iterdir()}
    made = subprocess.run(["make", "-s", "-C", tmp_path], capture_output=True, text=True)
    assert "16 of 16 rows agree" in made.stdout


@pytest.mark.slow
@pytest.mark.parametrize("target", ["arduino", "platformio", "zephyr", "esp-idf"])
def test_export_of_packages(target, iris, tmp_path):
    table, model, _ = iris
    words = ("export", model, "--to", target, "--table", table, "-o", tmp_path / "p")
    said = kernlet_command(*words, "--storage", "int8")
    assert "held as int8" in said
    assert "150 rows given" in said
    assert "accuracy" in said
    assert (tmp_path / "p" / "src" / "iris.h").exists()
    assert "options of --to c" in kernlet_command(*words, "--exp", "libm", status=2)
    assert "is a file; name a folder" in kernlet_command(*words[:-1], table, status=2)
    (tmp_path / "p" / "README.md").write_text("mine")
    assert "is not from an earlier export" in kernlet_command(*words, status=1)


@pytest.mark.parametrize("kind", ["kernlet", "skops", "libsvm"])
def test_compress_takes_files_of_three_kinds(kind, iris, tmp_path):
    path = tmp_path / "model"
    table = tmp_path / "iris.npz"
    np.savez(table, X=IRIS, y=IRIS_LABELS)
    svm = make_pipeline(StandardScaler(), SVC()).fit(IRIS, IRIS_LABELS)
    if kind == "kernlet":
        kernlet.save(svm, path)
    elif kind == "skops":
        skops.io.dump(svm, path)
    else:
        path.write_text(LIBSVM)
    size = 2 if kind == "libsvm" else 4
    said = kernlet_command("compress", path, table, "--centers", size, "-o", tmp_path / "small")
    assert f"before, {size} after" in said
    assert "same class for" in said
    assert "measured on 150 rows: the rows given, which may include training rows" in said
    small = kernlet.load(tmp_path / "small")
    assert small.n_centers_ == size
    assert small.predict_proba(IRIS).shape == (150, 3)


def test_novelty_detectors(tmp_path):
    model, X = detector("one class")
    kernlet.save(model, tmp_path / "model")
    frame = pd.DataFrame(X, columns=list("abcd"))
    frame.to_csv(tmp_path / "rows.csv", index=False)
    output = tmp_path / "predictions.csv"
    kernlet_command("predict", tmp_path / "model", tmp_path / "rows.csv", "-o", output)
    table = pd.read_csv(output)
    assert_array_equal(table["prediction"], model.predict(X))
    assert_allclose(table["score"], model.decision_function(X), rtol=1e-7, atol=1e-9)
    share = 100 * np.mean(model.predict(X) < 0)
    words = ("report", tmp_path / "model", tmp_path / "rows.csv", "-o", tmp_path / "page.html")
    assert f"{share:.2f} % flagged as outliers of 150 rows\n" in kernlet_command(*words)
    frame["kind"] = np.where(IRIS_LABELS == 2, "odd", "usual")
    frame.to_csv(tmp_path / "rows.csv", index=False)
    said = kernlet_command(*words, "--target", "kind")
    assert "rows labelled 'odd', the rarer of two labels, count as outliers" in said
    assert "150 rows; ROC AUC 0." in said
    code = ("export", tmp_path / "model", "--to", "c", "--table", tmp_path / "rows.csv")
    said = kernlet_command(*code, "--target", "kind", "-o", tmp_path / "c")
    assert "same class for 100.00 % of the rows" in said
    frame["kind"] = IRIS_LABELS
    frame.to_csv(tmp_path / "rows.csv", index=False)
    said = kernlet_command(*words, "--target", "kind", status=1)
    assert "The labels have 3 different values, and a novelty detector has two" in said


@pytest.mark.parametrize("kind", ["kernlet", "skops", "libsvm"])
def test_compress_takes_regressors_and_novelty_detectors(kind, tmp_path):
    path, table = tmp_path / "model", tmp_path / "rows.csv"
    rows, numbers = IRIS[:, :3], IRIS[:, 3]
    frame = pd.DataFrame(rows, columns=list("abc"))
    frame["size"] = numbers
    frame.to_csv(table, index=False)
    frame.drop(columns="size").to_csv(tmp_path / "bare.csv", index=False)
    for machine in (SVR(C=10.0).fit(rows, numbers), OneClassSVM(nu=0.2).fit(rows)):
        if kind == "kernlet":
            kernlet.save(machine, path)
        elif kind == "skops":
            skops.io.dump(machine, path)
        else:
            path.write_text(file_text(machine))
        words = ("compress", path, tmp_path / "bare.csv", "--centers", 5, "-o", tmp_path / "small")
        said = kernlet_command(*words)
        assert "before, 5 after" in said
        is_regressor = isinstance(machine, SVR)
        assert ("with the original" if is_regressor else "same class for") in said
        small = kernlet.load(tmp_path / "small")
        assert np.corrcoef(small.predict(rows), machine.predict(rows))[0, 1] > 0.8
        if is_regressor:
            said = kernlet_command(*words[:2], table, *words[3:], "--target", "size")
            assert "r2 0.9" in said


def test_compress_keeps_the_encoding(iris, tmp_path):
    table, model, _ = iris
    kernlet_command("compress", model, table, "--centers", 3, "-o", tmp_path / "small")
    assert kernlet_command("predict", tmp_path / "small", table).count("\n") >= 151
    assert "is a number" in kernlet_command(
        "compress", model, "--centers", "few", "-o", tmp_path / "x", status=2
    )


def test_machines_without_probabilities_get_them_from_held_out_rows(tmp_path):
    table, model = write_csv(tmp_path / "iris.csv"), tmp_path / "model"
    words = ("fit", table, "--target", "species", "--machine", "l1", "--centers", 20, "--no-svc")
    kernlet_command(*words, "-o", model)
    said = kernlet_command("predict", model, table)
    assert "prediction,probability of setosa,probability of versicolor" in said
    loaded = kernlet.load(model)
    assert 0.01 < loaded.model_.temperature < 100
    kernlet_command(*words, "--test", 0, "-o", model)  # no rows are held out
    assert kernlet.load(model).model_.temperature is None


def test_linear_programs_take_another_kernel(tmp_path):
    table, model = write_csv(tmp_path / "iris.csv"), tmp_path / "model"
    words = ("fit", table, "--target", "species", "--kernel", "laplacian", "--no-svc", "-o", model)
    assert "--kernel and --checkpoint are for --machine l1" in kernlet_command(*words, status=1)
    said = kernlet_command(*words, "--machine", "l1")
    assert float(re.search(r"test accuracy ([\d.]+) %", said)[1]) > 90
    assert kernlet.load(model).expansion_.kernel.name == "laplacian"
    kernlet_command("compress", model, table, "--centers", 6, "-o", tmp_path / "small", "--force")
    assert kernlet.load(tmp_path / "small").expansion_.kernel.name == "laplacian"
    report = tmp_path / "report.html"
    kernlet_command("report", model, table, "-o", report)
    assert "laplacian, gamma" in report.read_text("utf-8")


def test_compress_chooses_by_a_metric(iris, tmp_path):
    table, model, _ = iris
    words = ("compress", model, "--centers", 3, "-o", tmp_path / "small", "--metric")
    said = kernlet_command(*words, "f1_macro", table)
    assert re.search(r"^f1_macro [01]\.\d+ before, [01]\.\d+ after", said, re.MULTILINE)
    assert "is not a scorer" in kernlet_command(*words, "f1_micro_macro", table, status=1)
    assert "give a TABLE too" in kernlet_command(*words, "f1_macro", status=2)


def test_compress_refuses_to_grow_a_machine(iris, tmp_path):
    table, model, _ = iris
    n_centers, small = kernlet.load(model).n_centers_, tmp_path / "small"
    words = ("compress", model, table, "--centers", n_centers, "-o", small)
    said = kernlet_command(*words, status=1)
    assert "nothing was written. Give fewer --centers" in said
    assert not small.exists()
    kernlet_command(*words, "--force")
    assert kernlet.load(small).n_centers_ == n_centers


def test_compress_keeps_packed_storage_and_says_what_is_lost(tmp_path):
    machine = CompactKernelClassifier(40, storage="int4", n_epochs=10, random_state=0)
    kernlet.save(machine.fit(DIGITS, DIGIT_LABELS), tmp_path / "model")
    np.savez(tmp_path / "digits.npz", X=DIGITS, y=DIGIT_LABELS)
    words = ("compress", tmp_path / "model", tmp_path / "digits.npz", "-o", tmp_path / "s")
    said = kernlet_command(*words, "--centers", 4)
    assert kernlet.load(tmp_path / "s").nbytes_ < machine.nbytes_ / 2
    assert re.search(r"accuracy falls by \d+\.\d points: give more --centers", said)
    assert "accuracy falls" not in kernlet_command(*words, "--centers", 35)


LIBSVM = """svm_type c_svc
kernel_type rbf
gamma 0.5
nr_class 3
total_sv 3
rho 0 0 0
label 0 1 2
nr_sv 1 1 1
SV
1 1 1:5 2:3.4 3:1.5 4:0.2
-1 1 1:5.9 2:2.8 3:4.3 4:1.3
-1 -1 1:6.6 2:3 3:5.6 4:2
"""


def test_files_that_hold_no_machine_are_refused(iris, tmp_path):
    table, model, _ = iris
    skops.io.dump(make_pipeline(FunctionTransformer(len), SVC()), tmp_path / "code.skops")
    said = kernlet_command("predict", tmp_path / "code.skops", table, status=1)
    assert "not trusted" in said or "not a kernel machine" in said or "fitted" in said
    (tmp_path / "zip").write_bytes(b"PK\x03\x04 nothing")
    assert "corrupt" in kernlet_command("predict", tmp_path / "zip", table, status=1)
    (tmp_path / "cut").write_bytes(model.read_bytes()[:-9])
    assert "corrupt" in kernlet_command("predict", tmp_path / "cut", table, status=1)
    skops.io.dump(StandardScaler().fit(IRIS), tmp_path / "scaler.skops")
    assert "not a kernel machine" in kernlet_command(
        "predict", tmp_path / "scaler.skops", table, status=1
    )


def test_too_few_bytes_are_told_without_parameters_of_python(iris, tmp_path):
    table, _, _ = iris
    words = ("fit", table, "--target", "species", "--bytes", 10, "-o", tmp_path / "m")
    said = kernlet_command(*words, "--scale", "none", status=1)
    assert "more bytes or fewer features." in said
    assert "auto" not in said.splitlines()[-1]
    said = kernlet_command(*words, "--scale", "standard", status=1)
    assert "The scaler alone takes" in said


@pytest.mark.slow
@pytest.mark.parametrize("missing", ["distance", "auto"])
def test_missing_numbers_stay_missing(missing, iris, tmp_path):
    table, out = tmp_path / "gaps.csv", tmp_path / "gaps.kernlet"
    frame = pd.read_csv(iris[0])
    frame.loc[::3, "leaf"] = np.nan
    frame.to_csv(table, index=False)
    words = ["fit", table, "--target", "species", "--missing", missing, "-o", out]
    kernlet_command(*words, "--centers", 6, "--seed", 0)
    loaded = kernlet.load(out)
    assert (
        loaded.model_.missing
        in {"distance": ("distance",), "auto": ("median", "distance")}[missing]
    )
    assert np.isnan(loaded.model_.encoded(frame)).any()
    kernlet_command("predict", out, table, "-o", tmp_path / "answers.csv")
    answers = pd.read_csv(tmp_path / "answers.csv")["prediction"]
    assert (answers == loaded.predict(frame)).all()
    for arithmetic in ("float", "integer"):
        folder = tmp_path / arithmetic
        kernlet_command(
            "export", out, "--to", "c", "--table", table, "--arithmetic", arithmetic, "-o", folder
        )
        assert "NAN stays NAN" in (folder / "gaps.h").read_text()
        if shutil.which("gcc"):
            made = subprocess.run(["make", "-s"], cwd=folder, capture_output=True, text=True)
            assert made.returncode == 0, made.stdout + made.stderr
            assert "16 of 16 rows of the table agree" in made.stdout
    output = kernlet_command(*words, "--machine", "l1", "--force", status=1)
    assert f"--missing {missing} is for --machine compact." in output


def test_missing_numbers_cost_nothing_where_there_are_none(iris, tmp_path):
    table = tmp_path / "whole.csv"
    pd.DataFrame(IRIS, columns=list("abcd")).assign(y=IRIS_LABELS).to_csv(table, index=False)
    contents = []
    for missing in ("median", "auto"):
        out = tmp_path / f"{missing}.kernlet"
        kernlet_command("fit", table, "--target", "y", "--missing", missing, *QUICK, "-o", out)
        model = kernlet.load(out).model_
        contents.append((model.nbytes, model.missing, model.encoding, model.outputs(IRIS).tolist()))
    assert contents[0] == contents[1]
    assert contents[0][1] == "error"


def test_effort_and_augment(iris, tmp_path):
    table, _, _ = iris
    words = ("fit", table, "--target", "species", "-o", tmp_path / "m", "--no-svc")
    said = kernlet_command(*words, "--effort", "quick", status=2)
    assert "--effort is that of --bytes" in said
    kernlet_command(*words, "--bytes", 200, "--effort", "quick")
    assert kernlet.load(tmp_path / "m").nbytes_ <= 200
    assert kernlet.load(tmp_path / "m").model_.summary["parameters"]["effort"] == "quick"
    said = kernlet_command(*words, "--centers", 3, "--augment", "shift", status=1)
    assert "not the pixels of a square image" in said
    said = kernlet_command(*words, "--machine", "l1", "--augment", "shift", status=1)
    assert "--bytes, --auto or --augment" in said


# -- Limits of a processor -------------------------------------------------------------------------

M4F = ("--processor", "cortex-m4f")


@pytest.mark.parametrize(
    ("words", "status", "message"),
    [
        (["--flash", "8k"], 2, "--flash is that of a processor; give --processor too."),
        (["--arithmetic", "float"], 2, "--arithmetic is that of a processor"),
        ([*M4F, "--flash", "8k", "--bytes", "2k"], 2, "each choose a size; give one."),
        ([*M4F, "--flash", "8k", "--centers", "9"], 2, "each choose a size; give one."),
        ([*M4F, "--instructions", "8Ki"], 2, "'8Ki' is not a number such as 500, '200k'"),
        ([*M4F, "--flash", "8k", "--machine", "l1"], 1, "--processor is for --machine compact"),
        ([*M4F, "--ram", "1k"], 1, "Give flash or instructions: RAM does not limit the tables."),
        ([*M4F, "--flash", "500"], 1, "a single center for 7 features and 3 outputs takes about"),
        (["--processor", "atmega328p", "--ram", "3k"], 1, "the ATmega328P has 2,048 bytes."),
    ],
)
def test_limits_that_make_no_sense_are_refused(words, status, message, iris, tmp_path):
    table, _, _ = iris
    said = kernlet_command(
        "fit", table, "--target", "species", *words, "-o", tmp_path / "m", status=status
    )
    assert message in said
    assert "training on" not in said
    assert not (tmp_path / "m").exists()


def test_a_machine_for_a_processor(iris, tmp_path):
    table, _, _ = iris
    words = ("fit", table, "--target", "species", "--no-svc", "--effort", "quick")
    limits = ("--flash", "2k", "--ram", "400", "--instructions", "3k")
    said = kernlet_command(*words, *M4F, *limits, "-o", tmp_path / "m")
    assert re.search(
        r"Cortex-M4F, float arithmetic: --flash 2000 --ram 400 --instructions 3000 leaves \S+ "
        r"bytes for tables beside those of the scaling, and allows \d+ centers in four bits",
        said,
    )
    device = kernlet.load(tmp_path / "m").summary_["device"]
    assert (device["processor"], device["arithmetic"]) == ("cortex-m4f", "float")
    assert device["limits"] == {"flash": 2000, "ram": 400, "instructions": 3000}
    assert all(device["cost"][name] <= limit for name, limit in device["limits"].items())
    measured = "" if device["cost"]["estimated"] else ", measured"
    assert f"cortex-m4f, float arithmetic{measured}: {device['usage']}" in said
    assert re.search(r"\d of 2,000 bytes of flash( \(estimated\))?, \S+ of 400 bytes of RAM", said)


@pytest.mark.slow
def test_a_machine_that_exceeds_a_limit_is_trained_again(iris, tmp_path, monkeypatch):
    table, _, _ = iris
    words = ("fit", table, "--target", "species", "--no-svc", "--effort", "quick", *M4F)
    words += ("--flash", "2k", "-o", tmp_path / "m")
    shares = []

    def measure(limits, model, X):
        cost = limits.estimate(StoragePlan.of(model.expansion))
        shares.append(model.nbytes)
        return replace(cost, flash=2500 if len(shares) < n_too_large else 1900)

    monkeypatch.setattr(DeviceLimits, "measure", measure)
    n_too_large = 2
    said = kernlet_command(*words)
    assert (
        said.count("the machine takes 2,500 of 2,000 bytes of flash (estimated): training a") == 1
    )
    assert "1,900 of 2,000 bytes of flash (estimated)" in said
    assert len(shares) == 2
    (tmp_path / "m").unlink()
    n_too_large = 10
    said = kernlet_command(*words, status=1)
    assert "After 3 fits the machine still takes 2,500 of 2,000 bytes of flash" in said
    assert not (tmp_path / "m").exists()


@pytest.mark.parametrize("split", [{"test": [1]}, {"test": 7.0}, {"test": 0.2, "seed": "x"}, 3])
def test_a_report_does_not_trust_what_a_file_says_of_its_split(split, iris, tmp_path):
    table, model, _ = iris
    shipped = kernlet.load(model).model_
    changed = replace(shipped, summary=shipped.summary | {"split": split})
    kernlet.save(changed, tmp_path / "m")
    words = ("report", tmp_path / "m", table, "--no-sizes", "-o", tmp_path / "r.html")
    assert "on 150 rows" in kernlet_command(*words)
    assert "left out, with --no-sizes" in (tmp_path / "r.html").read_text("utf-8")


def test_a_machine_without_an_encoding_takes_columns_by_name(tmp_path):
    frame = pd.DataFrame(IRIS, columns=list("abcd"))
    kernlet.save(SVC().fit(frame, IRIS_LABELS), tmp_path / "m")
    frame[list("dcba")].to_csv(tmp_path / "t.csv", index=False)
    said = kernlet_command("predict", tmp_path / "m", tmp_path / "t.csv")
    found = [int(line) for line in said.splitlines() if line.isdecimal()]
    assert np.mean(np.array(found) == IRIS_LABELS) > 0.95
    frame["b"] = ["wide"] * 150
    frame.to_csv(tmp_path / "t.csv", index=False)
    said = kernlet_command("predict", tmp_path / "m", tmp_path / "t.csv", status=1)
    assert "Row 1, column 'b': 'wide' is not a number" in said


def test_bytes():
    convert = ByteCount().convert
    values = [convert(text, None, None) for text in ("16000", "16k", "2Ki", "1M", "1MiB", 5)]
    assert values == [16000, 16000, 2048, 10**6, 2**20, 5]
    assert [Count().convert(text, None, None) for text in ("200k", "1M", 5)] == [200_000, 10**6, 5]


def test_scaling_looks_at_ranges():
    random = np.random.RandomState(0)
    pixels = random.rand(50, 9)
    assert choose_scaler(pixels, "auto")[0] is None
    scaler, words = choose_scaler(pixels * np.array([1, 100, 1e4] * 3), "auto")
    assert "deviation 1" in words
    np.testing.assert_allclose(scaler(pixels * np.array([1, 100, 1e4] * 3)).std(axis=0), 1.0)
    assert choose_scaler(pixels[:, :2] * [1, 100], "auto")[0] is not None
    outliers = pixels.copy()
    outliers[0, 0] = 30.0
    outliers = (outliers - outliers.mean(axis=0)) / outliers.std(axis=0)
    assert choose_scaler(outliers, "auto")[0] is None
    kinds = np.array([False, True] + [True] * 7)
    scaler, words = choose_scaler(pixels * 10, "auto", kinds)
    assert scaler.scale[1] == 1.0
    assert "categories" in words
    assert choose_scaler(np.ones((5, 2)), "standard")[0](np.ones((5, 2))).tolist() == [[0, 0]] * 5


def test_the_report_of_the_training_file_looks_at_unseen_rows(iris, tmp_path):
    table, model, _ = iris
    said = kernlet_command("report", model, table, "--no-sizes", "-o", tmp_path / "r.html")
    assert "on 30 rows" in said
    page = (tmp_path / "r.html").read_text("utf-8")
    assert "30 rows of iris.csv that it has not seen" in page
    assert all(name in page for name in NAMES)


@pytest.fixture(scope="module")
def codes(tmp_path_factory):
    """A table whose only column is of numbers that are names, and whose labels are texts."""
    folder = tmp_path_factory.mktemp("codes")
    random = np.random.RandomState(0)
    lines = ["code,label"]
    for code in random.randint(0, 8, size=160):
        lines.append(f"{10 * code},{'one' if code in (0, 3) else code % 2 + 1}")
    (folder / "codes.csv").write_text("\n".join(lines))
    words = ["fit", folder / "codes.csv", "--target", "label", "--category", "code"]
    kernlet_command(*words, "--no-svc", "--centers", 8, "-o", folder / "codes.kernlet")
    later = [line for line in lines if not line.endswith("one")]
    (folder / "later.csv").write_text("\n".join(later))
    return folder


def test_every_command_reads_categories_as_the_training_did(codes, tmp_path):
    model, table = codes / "codes.kernlet", codes / "codes.csv"
    score = kernlet.load(model).summary_["test"]["score"]
    assert score > 0.9
    said = kernlet_command("report", model, table, "--no-sizes", "-o", tmp_path / "r.html")
    assert f"accuracy {100 * score:.2f} % on 32 rows" in said
    later = codes / "later.csv"
    with later.open() as file:
        labels = [row["label"] for row in csv.DictReader(file)]
    said = kernlet_command("predict", model, later).splitlines()
    found = [line.split(",")[0] for line in said if re.match(r"\w+,0\.|\w+,1\.", line)]
    share = np.mean(np.array(found) == np.array(labels))
    assert share > 0.9
    said = kernlet_command("report", model, later, "--no-sizes", "-o", tmp_path / "r.html")
    assert f"accuracy {100 * share:.2f} % on {len(labels)} rows" in said
    words = ("export", model, "--to", "c", "--table", later, "-o", tmp_path / "c")
    assert f"accuracy {100 * share:.2f} % before" in kernlet_command(*words)
    words = ("compress", model, later, "--centers", 6, "-o", tmp_path / "small")
    assert f"accuracy {100 * share:.2f} % before" in kernlet_command(*words)


def test_a_pipeline_of_scikit_learn_predicts_raw_columns(tmp_path):
    encoder = mixed(("o", OrdinalEncoder(), ["size"]))
    pipeline = make_pipeline(encoder, PCA(4), SVC()).fit(FRAME, LABELS)
    kernlet.save(pipeline, tmp_path / "model.kernlet")
    UNKNOWN.assign(label=LABELS).to_csv(tmp_path / "rows.csv", index=False)
    rows, model = tmp_path / "rows.csv", tmp_path / "model.kernlet"
    kernlet_command("predict", model, rows, "-o", tmp_path / "predicted.csv")
    predicted = (tmp_path / "predicted.csv").read_text().split()
    assert predicted == ["prediction", *pipeline.predict(UNKNOWN)]
    labelled = [rows, "--target", "label"]
    kernlet_command("report", model, *labelled, "-o", tmp_path / "report.html")
    small = tmp_path / "small.kernlet"
    kernlet_command("compress", model, *labelled, "--centers", 12, "-o", small)
    assert kernlet.load(small).n_centers_ == 12
    options = ["--table", rows, "--target", "label"]
    kernlet_command("export", small, *options, "--to", "onnx", "-o", tmp_path / "small.onnx")
    said = kernlet_command("export", small, *options, "--to", "c", "-o", tmp_path / "code")
    assert "same class for 100.00 % of the rows" in said
    assert "uint8_t city;" in (tmp_path / "code" / "model_small.h").read_text()


def test_a_pipeline_of_arrays_predicts_arrays(tmp_path):
    X = np.hstack([np.where(IRIS > 6, np.nan, IRIS), np.zeros((150, 1))])
    pipeline = make_pipeline(SimpleImputer(), VarianceThreshold(), SVC()).fit(X, IRIS_LABELS)
    kernlet.save(pipeline, tmp_path / "model.kernlet")
    np.savetxt(tmp_path / "rows.csv", X, "%.17g", ",", header="a,b,c,d,e", comments="")
    dump_svmlight_file(np.nan_to_num(X[:, :4]), IRIS_LABELS, str(tmp_path / "rows.libsvm"))
    for name, expected in (("rows.csv", X), ("rows.libsvm", np.nan_to_num(X))):
        said = CliRunner().invoke(
            main, ["predict", str(tmp_path / "model.kernlet"), str(tmp_path / name)]
        )
        labels = [line for line in said.stdout.split() if line.isdecimal()]
        assert labels == [str(label) for label in pipeline.predict(expected)]


def test_export_compares_rows_of_a_pipeline_of_arrays(tmp_path):
    steps = [("s", StandardScaler(), [3, 2, 1, 0])]  # in another order than those of the table
    pipeline = make_pipeline(ColumnTransformer(steps), SVC()).fit(IRIS, IRIS_LABELS)
    kernlet.save(pipeline, tmp_path / "model.kernlet")
    table = np.column_stack([IRIS, IRIS_LABELS])
    np.savetxt(tmp_path / "rows.csv", table, "%g", ",", header="a,b,c,d,label", comments="")
    rows = ["--table", tmp_path / "rows.csv", "--target", "label"]
    words = ("export", tmp_path / "model.kernlet", *rows, "--to", "c", "-o", tmp_path / "c")
    score = pipeline.score(IRIS, IRIS_LABELS)
    assert f"accuracy {100 * score:.2f} % before" in kernlet_command(*words)
