"""Several targets and quantiles on the command line."""

import csv
import io

import numpy as np
import pytest
from click.testing import CliRunner
from sklearn.metrics import r2_score

import kernlet
from kernlet.cli import main

QUICK = ["--centers", "8"]


def kernlet_command(*words, status=0):
    result = CliRunner().invoke(main, [str(word) for word in words])
    assert result.exit_code == status, result.output
    return result.output


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    """Numbers of units that differ by 10^7, and a column of texts."""
    path = tmp_path_factory.mktemp("targets") / "table.csv"
    random = np.random.RandomState(0)
    a, b, c = random.uniform(0, 6, 300), random.randn(300), random.choice(["red", "blue"], 300)
    price = 1e5 * (np.sin(a) + b) + 2e4 * random.randn(300)
    size = 0.01 * np.cos(a) + 0.001 * random.randn(300)
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["a", "b", "color", "price [$]", "size"])
        writer.writerows(zip(a, b, c, price, size, strict=True))
    return path


def columns_of(text):
    rows = list(csv.DictReader(io.StringIO(text[text.index("price") :])))
    return {name: np.array([float(row[name]) for row in rows]) for name in rows[0]}


@pytest.fixture(scope="module")
def two(table, tmp_path_factory):
    """A machine of two targets, and what fit said."""
    path = tmp_path_factory.mktemp("two") / "two.kernlet"
    words = ["fit", table, "--target", "price [$]", "--target", "5", *QUICK, "-o", path]
    return path, kernlet_command(*words)


def test_several_targets_count_alike_whatever_their_units(table, two):
    path, said = two
    assert "price [$]: R2 0." in said
    assert "size: R2 0." in said
    loaded = kernlet.load(path)
    assert loaded.model_.output_names == ("price [$]", "size")
    assert loaded.summary_["data"]["target"] == ["price [$]", "size"]
    predicted = columns_of(kernlet_command("predict", path, table))
    assert list(predicted) == ["price [$]", "size"]


def test_predictions_are_near_the_targets(table, two):
    with table.open() as file:
        rows = list(csv.DictReader(file))
    predicted = columns_of(kernlet_command("predict", two[0], table))
    for name in ("price [$]", "size"):
        truth = np.array([float(row[name]) for row in rows])
        assert r2_score(truth, predicted[name]) > 0.8


@pytest.mark.slow
def test_a_report_and_exports_of_several_targets(table, two, tmp_path):
    path, said = two
    page = kernlet_command("report", path, table, "-o", tmp_path / "page.html")
    lines = [line for line in said.splitlines() if line.startswith("  size: R2")]
    assert lines[0] in page  # the held-out rows are found again
    kernlet_command("export", path, "--to", "c", "--table", table, "-o", tmp_path / "c")
    header = (tmp_path / "c" / "two.h").read_text("utf-8")
    assert "TWO_OUTPUT_PRICE = 0, /* price [$] */" in header
    assert "TWO_OUTPUT_SIZE = 1, /* size */" in header
    without = tmp_path / "features.csv"
    with table.open() as file, without.open("w", newline="") as other:
        csv.writer(other).writerows(row[:3] for row in csv.reader(file))
    kernlet_command("export", path, "--to", "javascript", "--table", without, "-o", tmp_path / "d")
    said = kernlet_command("report", path, without, "-o", tmp_path / "p.html", status=1)
    assert "There is no column 'price [$]'" in said


@pytest.mark.slow
def test_bytes_of_several_targets(table, tmp_path):
    words = ["fit", table, "--target", "price [$]", "--target", "size", "--bytes", "400"]
    said = kernlet_command(*words, "--effort", "quick", "-o", tmp_path / "m.kernlet")
    assert "coefficients (float16)" in said
    loaded = kernlet.load(tmp_path / "m.kernlet")
    assert loaded.nbytes_ <= 400
    scores = {line["name"]: line["score"] for line in loaded.summary_["test"]["outputs"]}
    assert min(scores.values()) > 0.5


def test_rows_without_one_of_the_targets(table, tmp_path):
    lines = table.read_text().splitlines()
    lines[3] = lines[3].rsplit(",", 1)[0] + ","
    path = tmp_path / "gap.csv"
    path.write_text("\n".join(lines))
    words = ["fit", path, "--target", "price [$]", "--target", "size", *QUICK]
    said = kernlet_command(*words, "-o", tmp_path / "m", status=1)
    assert "1 of 300 rows have no label in column 'size', row 3 first" in said
    said = kernlet_command(*words, "--skip-unlabelled", "-o", tmp_path / "m")
    assert "1 rows without a label are left out" in said
    assert "training on 239 rows" in said


@pytest.fixture(scope="module")
def quantiles(table, tmp_path_factory):
    """A machine of three quantiles, and what fit said."""
    path = tmp_path_factory.mktemp("quantiles") / "q.kernlet"
    words = ["fit", table, "--target", "price [$]", "--drop", "size"]
    return path, kernlet_command(*words, "--quantiles", "0.1,0.5,0.9", *QUICK, "-o", path)


@pytest.mark.slow
def test_quantiles_have_names_and_a_coverage(table, quantiles, tmp_path):
    path, said = quantiles
    assert "test D2 0." in said
    assert "price [$]_q0.9: " in said
    assert "the interval holds " in said
    predicted = columns_of(kernlet_command("predict", path, table))
    assert list(predicted) == ["price [$]_q0.1", "price [$]_q0.5", "price [$]_q0.9"]
    low, middle, high = predicted.values()
    assert (low <= middle).all()
    assert (middle <= high).all()
    page = kernlet_command("report", path, table, "-o", tmp_path / "page.html")
    lines = [line for line in said.splitlines() if "the interval holds" in line]
    assert lines[0] in page
    words = ["export", path, "--to", "c", "--arithmetic", "integer", "--table", table]
    assert "D2 0." in kernlet_command(*words, "-o", tmp_path / "c")
    assert "Q_OUTPUT_PRICE_Q0_1 = 0" in (tmp_path / "c" / "q.h").read_text("utf-8")


@pytest.mark.slow
def test_compressed_quantiles_stay_quantiles(table, quantiles, tmp_path):
    words = ["compress", quantiles[0], table, "--centers", "5", "-o", tmp_path / "m.kernlet"]
    said = kernlet_command(*words)
    assert "D2 0." in said
    assert "fitted to y" not in said
    assert "leave --metric out" in kernlet_command(*words, "--metric", "r2", status=1)
    assert kernlet.load(tmp_path / "m.kernlet").model_.quantiles == (0.1, 0.5, 0.9)


@pytest.mark.slow
def test_one_target_of_machines_that_have_other_ones(table, two, quantiles, tmp_path):
    for words in (["report"], ["compress", "--centers", "4"]):
        words = [*words, two[0], table, "--target", "size", "-o", tmp_path / "page.html"]
        said = kernlet_command(*words, status=1)
        assert "leave --target out, and 'price [$]', 'size' are taken from the table" in said
    words = ["report", quantiles[0], table, "--target", "size", "-o", tmp_path / "page.html"]
    said = kernlet_command(*words)
    assert "note: the machine predicts quantiles of 'price [$]', compared here with 'size'" in said
    words[4] = "4"  # the number of its column
    assert "compared here with" not in kernlet_command(*words)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--target", "size", "--target", "color"], "The target 'color' holds texts; --regression"),
        (["--target", "size", "--target", "5"], "--target names 'size' twice"),
        (["--target", "size", "--target", "other"], "There is no column 'other'"),
        (["--target", "size", "--target", "a", "--quantiles", "0.5"], "give one --target"),
        (["--target", "size", "--quantiles", "0.5", "--metric", "r2"], "leave --metric out"),
        (["--target", "color", "--quantiles", "0.5"], "The target 'color' holds texts"),
        (["--target", "size", "--target", "a", "--balanced"], "--balanced weighs classes"),
        (["--target", "size", "--target", "a", "--machine", "l1"], "--quantiles, several --target"),
        (["--target", "size", "--quantiles", "0.5", "--machine", "l1"], "not --regression, --quan"),
        (
            ["--target", "size", "--target", "a", "--processor", "cortex-m0", "--flash", "8k"],
            "bring them to like units for --processor",
        ),
    ],
)
def test_what_does_not_go_together(table, options, message, tmp_path):
    size = [] if "--processor" in options else QUICK
    said = kernlet_command("fit", table, *options, *size, "-o", tmp_path / "m", status=1)
    assert message in said
    assert "Traceback" not in said


@pytest.mark.parametrize("levels", ["0.9,0.1", "0,0.5", "high", "", "0.1,,0.9", "nan"])
def test_levels_that_are_refused(table, levels, tmp_path):
    words = ["fit", table, "--target", "size", "--quantiles", levels, "-o", tmp_path / "m"]
    assert "is not an ascending list such as 0.05,0.5,0.95" in kernlet_command(*words, status=2)


def test_npz_files_have_one_target(tmp_path):
    np.savez(tmp_path / "t.npz", X=np.random.RandomState(0).randn(50, 2), y=np.arange(50.0))
    words = ["fit", tmp_path / "t.npz", *QUICK, "-o", tmp_path / "m.kernlet"]
    said = kernlet_command(*words, "--target", "a", "--target", "b", status=1)
    assert "Several --target are for tables with named columns" in said
    kernlet_command(*words, "--quantiles", "0.2,0.8")
    said = kernlet_command("predict", tmp_path / "m.kernlet", tmp_path / "t.npz")
    assert "q0.2,q0.8\n" in said
