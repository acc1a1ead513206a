"""kernlet explain: the page, the values as CSV, and what it says."""

import csv
import re

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner
from sklearn.datasets import load_iris
from sklearn.svm import SVC

import kernlet
from kernlet import (
    CompactKernelClassifier,
    CompactKernelRegressor,
    KernelExpansion,
    save,
    shapley_values,
)
from kernlet.cli import main
from kernlet.kernels import RBF, Linear
from kernlet.model.model import Model
from kernlet.tables.encode import ColumnEncoding

IRIS, LABELS = load_iris(return_X_y=True)
COLUMNS = ["length", "width", "=leaf", "<leaf> width"]
FRAME = pd.DataFrame(IRIS, columns=COLUMNS).assign(
    color=np.random.RandomState(0).choice(["red", "<b>blue"], len(IRIS))
)


def run(*words, status=0):
    result = CliRunner().invoke(main, [str(word) for word in words])
    assert result.exit_code == status, result.output
    return result.output


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """A table with a column of texts, and the machine of it."""
    folder = tmp_path_factory.mktemp("explain")
    FRAME.assign(species=np.array(["a", "+b", "c"])[LABELS]).to_csv(folder / "t.csv", index=False)
    words = ("fit", folder / "t.csv", "--target", "species", "--no-svc", "--centers", 6)
    run(*words, "-o", folder / "m.kernlet")
    return folder / "m.kernlet", folder / "t.csv"


def test_the_page_has_importance_classes_and_rows(files, tmp_path):
    said = run("explain", *files, "--rows", 3, "-o", tmp_path / "page.html")
    assert "exact values: no error exceeds" in said
    assert f"wrote {tmp_path / 'page.html'}" in said
    page = (tmp_path / "page.html").read_text("utf-8")
    assert page.startswith("<!doctype html>")
    assert re.findall(r'<section id="(\w+)"', page) == ["importance", "rows"]
    assert page.count("<h3>Row ") == 3
    assert "against 100 background rows, summed over the classes" in page
    assert "&lt;leaf&gt; width" in page
    assert "= &lt;b&gt;blue" in page or "= red" in page
    assert "<b>" not in page
    assert "color=red" not in page  # one bar per column of the table
    run("explain", *files, "--rows", 3, "-o", tmp_path / "again.html")
    assert (tmp_path / "again.html").read_text("utf-8") == page


def test_a_csv_file_has_the_values_of_all_rows(files, tmp_path):
    run("explain", *files, "--background", 30, "-o", tmp_path / "v.csv")
    with (tmp_path / "v.csv").open(newline="") as file:
        names, *lines = csv.reader(file)
    assert names == [
        "row",
        "output",
        "base",
        "length",
        "width",
        "'=leaf",
        "<leaf> width",
        "color",
        "bound",
    ]
    assert len(lines) == 3 * len(IRIS)
    assert [line[1] for line in lines[:3]] == ["'+b", "a", "c"]
    loaded = kernlet.load(files[0])
    others = np.sort(np.random.RandomState(0).permutation(len(IRIS))[:30])
    expected = shapley_values(loaded, FRAME, FRAME.iloc[others])
    values = np.array([line[3:-1] for line in lines], dtype=float).reshape(-1, 3, 5)
    np.testing.assert_allclose(values, expected.values.transpose(0, 2, 1), rtol=1e-6, atol=1e-9)
    scores = loaded.decision_function(FRAME).ravel()
    sums = [float(line[2]) + sum(map(float, line[3:-1])) for line in lines]
    np.testing.assert_allclose(sums, scores, atol=1e-6)


def test_estimates_are_said_to_be_estimates(tmp_path):
    rng = np.random.RandomState(0)
    X = np.concatenate([IRIS, rng.randn(150, 8)], axis=1)
    machine = CompactKernelClassifier(5, projection=2, n_epochs=2, random_state=0).fit(X, LABELS)
    save(machine, tmp_path / "m.kernlet")
    np.savez(tmp_path / "t.npz", X=X[:60], y=LABELS[:60])
    words = ("explain", tmp_path / "m.kernlet", tmp_path / "t.npz", "--background", 20)
    said = run(*words, "-o", tmp_path / "page.html")
    assert "estimates from random permutations, because a projection" in said
    page = (tmp_path / "page.html").read_text("utf-8")
    assert 'class="caution">These are estimates' in page
    run(*words, "-o", tmp_path / "v.csv")
    assert (tmp_path / "v.csv").read_text("utf-8").splitlines()[0].endswith(",standard error")


@pytest.mark.parametrize("n_outputs", [1, 2])
def test_a_regressor_is_explained(n_outputs, tmp_path):
    y = IRIS[:, 3 - n_outputs + 1 :]
    y = y[:, 0] if n_outputs == 1 else y
    machine = CompactKernelRegressor(5, n_epochs=2, random_state=0).fit(IRIS[:, :2], y)
    save(machine, tmp_path / "m.kernlet")
    table = tmp_path / "t.csv"
    pd.DataFrame(IRIS[:40, :2], columns=["a", "b"]).to_csv(table, index=False)
    run("explain", tmp_path / "m.kernlet", table, "-o", tmp_path / "p.html", "--rows", 1)
    page = (tmp_path / "p.html").read_text("utf-8")
    assert ("Output by output" in page) == (n_outputs == 2)
    assert page.count("<h3>Row ") == 1


def test_quantiles_have_names_and_a_note(tmp_path):
    rng = np.random.RandomState(0)
    f = KernelExpansion(RBF(0.3), rng.randn(5, 4), rng.randn(2, 5), np.zeros(2))
    model = Model(f, "regressor", is_flat=False, quantiles=(0.1, 0.9))
    save(model, tmp_path / "m.kernlet")
    np.savez(tmp_path / "t.npz", X=IRIS[:20])
    words = ("explain", tmp_path / "m.kernlet", tmp_path / "t.npz", "-o")
    assert "values are of the quantiles before they are sorted" in run(*words, tmp_path / "v.csv")
    with (tmp_path / "v.csv").open(newline="") as file:
        assert [line[1] for line in csv.reader(file)][:3] == ["output", "q0.1", "q0.9"]
    run(*words, tmp_path / "p.html")
    page = (tmp_path / "p.html").read_text("utf-8")
    assert "The values are of the quantiles before they are sorted" in page
    assert "score of q0.1:" in page


def test_the_errors_of_a_csv_file_are_those_of_all_rows(tmp_path):
    X = np.concatenate([np.zeros((100, 4)), IRIS[:20]])
    f = KernelExpansion(Linear(), np.ones((1, 4)), np.ones((1, 1)), np.zeros(1))
    save(Model(f, "regressor"), tmp_path / "m.kernlet")
    np.savez(tmp_path / "t.npz", X=X)
    words = ("explain", tmp_path / "m.kernlet", tmp_path / "t.npz", "--background", 1)
    said = run(*words, "-o", tmp_path / "v.csv")
    with (tmp_path / "v.csv").open(newline="") as file:
        lines = np.array(list(csv.reader(file))[1:])[:, 3:].astype(float)
    values, errors = np.abs(lines[:, :-1]).max(axis=1), lines[:, -1]
    assert max(errors[:100]) < 0.5 * max(errors)
    sentence = f"no error exceeds {max(errors):.1e}; the largest value is {max(values):.3g}"
    assert sentence in said


def test_missing_values_that_distances_leave_out_get_a_sentence(tmp_path):
    f = KernelExpansion(RBF(0.3), IRIS[::40], np.ones((1, 4)), np.zeros(1), skips_missing=True)
    frame = pd.DataFrame(IRIS.copy(), columns=list("abcd"))
    encoding = ColumnEncoding.learned(frame).passing_missing()
    names = encoding.feature_names
    model = Model(f, "regressor", encoding=encoding, feature_names=names)
    save(model, tmp_path / "m.kernlet")
    frame.loc[[120, 140], "c"] = np.nan
    frame.to_csv(tmp_path / "t.csv", index=False)
    words = ("explain", tmp_path / "m.kernlet", tmp_path / "t.csv", "--background", 5)
    said = run(*words, "-o", tmp_path / "v.csv", status=1)
    assert "2 rows lack values in the table, first row 120, counted from 0" in said
    assert "Traceback" not in said
    assert not (tmp_path / "v.csv").exists()


def test_a_machine_of_pairs_shows_the_class_that_it_predicts(tmp_path):
    machine = SVC().fit(IRIS, LABELS)
    save(machine, tmp_path / "m.kernlet")
    table = tmp_path / "t.csv"
    pd.DataFrame(IRIS, columns=COLUMNS).to_csv(table, index=False)
    run("explain", tmp_path / "m.kernlet", table, "-o", tmp_path / "p.html", "--rows", 4)
    page = (tmp_path / "p.html").read_text("utf-8")
    shown = re.findall(r"<h3>Row \d: (\d)</h3>", page)
    assert shown == [str(label) for label in machine.predict(IRIS[:4])]


def test_bad_tables_get_a_sentence(files, tmp_path):
    FRAME[["length"]].to_csv(tmp_path / "t.csv", index=False)
    said = run("explain", files[0], tmp_path / "t.csv", "-o", tmp_path / "p.html", status=1)
    assert "The table lacks" in said
    assert "Traceback" not in said
    said = run("explain", *files, "--background", 0, "-o", tmp_path / "p.html", status=2)
    assert "--background" in said
