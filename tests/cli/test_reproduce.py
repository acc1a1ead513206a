"""kernlet reproduce on small data: what it prints, writes and keeps, and how it fails."""

import json

import numpy as np
import pytest
from click.testing import CliRunner
from sklearn.datasets import load_digits, make_classification

from kernlet.cli import main
from kernlet.datasets import Dataset
from kernlet.reproduce import cells

READERS = (
    "stage_runs",
    "removal_paths",
    "condensed_sets",
    "feature_scores",
    "digit_machines",
    "uci_folds",
)


def small_set(name):
    """Copies of scikit-learn's digits with noise, or two overlapping clouds."""
    if name in ("usps", "optdigits"):
        X, y = load_digits(return_X_y=True)
        n_rows, n_test = (6000, 600) if name == "usps" else (1200, 400)
        random = np.random.RandomState(0)
        chosen = random.randint(len(X), size=n_rows + n_test)
        X = X[chosen] / 16 + 0.05 * random.randn(n_rows + n_test, X.shape[1])
        return Dataset(name, X[:n_rows], y[chosen][:n_rows], X[n_rows:], y[chosen][n_rows:])
    X, y = make_classification(300, 10, flip_y=0.1, random_state=0)
    return Dataset(name, X, y)


@pytest.fixture
def small_data(monkeypatch):
    for reader in READERS:
        monkeypatch.setattr(f"kernlet.reproduce.{reader}.load", small_set)


def kernlet_command(*words, status=0):
    result = CliRunner().invoke(main, ["reproduce", *map(str, words)])
    assert result.exit_code == status, result.output
    return result.output


@pytest.mark.parametrize(
    ("paper", "table"),
    [("mkc", "2"), ("cs", "1"), ("sk", "cleveland"), ("mpsvm", "3"), ("mmda", "4")],
)
@pytest.mark.usefixtures("small_data")
def test_a_quick_table_of_each_paper(paper, table, tmp_path):
    said = kernlet_command(paper, "--table", table, "--quick", "--folder", tmp_path)
    facts = json.loads((tmp_path / f"{paper}-{table}.json").read_text())
    assert facts["quick"]
    assert "(quick: fewer rows, folds and seeds)" in facts["title"]
    assert {f["verdict"] for f in facts["figures"]} & {"beaten", "met", "not met"}
    page = (tmp_path / f"{paper}-{table}.md").read_text()
    assert page in said
    assert (tmp_path / "summary.md").read_text() in said
    again = kernlet_command(paper, "--table", table, "--quick", "--folder", tmp_path)
    assert "kept" in again  # nothing was measured twice
    assert (tmp_path / f"{paper}-{table}.md").read_text() == page


@pytest.mark.usefixtures("small_data")
def test_a_run_goes_on_where_it_was_stopped(tmp_path, monkeypatch):
    measure, measured = cells.Cell.measure, []

    def stopped(cell):
        if len(measured) == 2:
            raise KeyboardInterrupt
        measured.append(cell.key)
        return measure(cell)

    words = "sk", "--table", "cleveland", "--quick", "--folder", tmp_path
    monkeypatch.setattr(cells.Cell, "measure", stopped)
    said = kernlet_command(*words, status=130)
    assert "goes on from there" in said
    monkeypatch.setattr(cells.Cell, "measure", measure)
    said = kernlet_command(*words)
    assert said.count(": kept") == 2
    assert (tmp_path / "sk-cleveland.png").exists() or (tmp_path / "sk-cleveland.json").exists()


@pytest.mark.parametrize("paper", ["mkc", "cs", "sk", "mpsvm", "mmda"])
def test_kept_measures_nothing(paper, tmp_path, monkeypatch):
    monkeypatch.setattr(cells.Cell, "measure", lambda cell: pytest.fail("measured"))
    assert "not measured yet" in kernlet_command(paper, "--kept", "--folder", tmp_path)
    assert not (tmp_path / "cells").exists()


def test_an_unknown_table_is_named_with_those_there_are():
    assert "sk has no table '9'; it has reduction, cleveland" in kernlet_command(
        "sk", "--table", "9", status=1
    )
    assert "--table belongs to one paper" in kernlet_command("all", "--table", "1", status=2)
    assert "Invalid value for" in kernlet_command("svm", status=2)


def test_missing_data_name_the_variable(tmp_path, monkeypatch):
    def offline(*_):
        raise OSError("no network")

    monkeypatch.setenv("KERNLET_DATA", str(tmp_path))
    monkeypatch.setattr("kernlet.datasets.loaders.fetch", offline)
    said = kernlet_command("sk", "--table", "pima", "--folder", tmp_path, status=1)
    assert "set KERNLET_DATA to a folder that holds pima.npz" in said
    assert said.count("Error:") == 1


def test_damaged_results_are_named(tmp_path):
    (tmp_path / "cells").mkdir()
    (tmp_path / "cells" / "mpsvm.json").write_text("{")
    words = "mpsvm", "--table", "2", "--folder", tmp_path
    assert "mpsvm.json is damaged" in kernlet_command(*words, status=1)
    assert "data not public" in kernlet_command(*words, "--fresh")
    (tmp_path / "other.json").write_text("{}")
    said = kernlet_command("summary", "--folder", tmp_path, status=1)
    assert "other.json holds no table" in said


def test_a_summary_needs_tables(tmp_path):
    assert "There is no table" in kernlet_command("summary", "--folder", tmp_path, status=1)
