"""python -m papers on small data: what it prints, writes and caches, and how it fails."""

import json

import numpy as np
import pytest
from click.testing import CliRunner
from sklearn.datasets import load_digits, make_classification

from kernlet.datasets import Dataset
from papers.__main__ import main
from papers.cache import Experiment

PAPERS = ("fung2002", "gonzalez2000", "garcia2006", "vishwanathan2002", "tsang2006")


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
    for reader in ("tasks", "fung2002", "garcia2006", "vishwanathan2002"):
        monkeypatch.setattr(f"papers.{reader}.load", small_set)


def run_command(*words, status=0):
    result = CliRunner().invoke(main, [*map(str, words)])
    assert result.exit_code == status, result.output
    return result.output


@pytest.mark.parametrize(
    ("paper", "table"),
    [
        ("fung2002", "2"),
        ("gonzalez2000", "1"),
        ("garcia2006", "cleveland"),
        ("vishwanathan2002", "3"),
        ("vishwanathan2002", "atypical"),
        ("vishwanathan2002", "bootstrap"),
        pytest.param("tsang2006", "4", marks=pytest.mark.slow),
    ],
)
@pytest.mark.usefixtures("small_data")
def test_a_quick_table_of_each_paper(paper, table, tmp_path):
    said = run_command(paper, "--table", table, "--quick", "--folder", tmp_path)
    facts = json.loads((tmp_path / f"{paper}-{table}.json").read_text())
    assert facts["quick"]
    assert "(quick: fewer rows, folds and seeds)" in facts["title"]
    assert {f["verdict"] for f in facts["figures"]} <= {"-", "quick: not judged"}
    page = (tmp_path / f"{paper}-{table}.md").read_text()
    assert page in said
    assert (tmp_path / "summary.md").read_text() in said
    again = run_command(paper, "--table", table, "--quick", "--folder", tmp_path)
    assert "cached" in again  # nothing was measured twice
    assert (tmp_path / f"{paper}-{table}.md").read_text() == page


@pytest.mark.slow
@pytest.mark.usefixtures("small_data")
def test_an_interrupted_run_resumes(tmp_path, monkeypatch):
    run, done = Experiment.run, []

    def stopped(experiment):
        if len(done) == 2:
            raise KeyboardInterrupt
        done.append(experiment.key)
        return run(experiment)

    words = "garcia2006", "--table", "cleveland", "--quick", "--folder", tmp_path
    monkeypatch.setattr(Experiment, "run", stopped)
    said = run_command(*words, status=130)
    assert "resumes there" in said
    monkeypatch.setattr(Experiment, "run", run)
    said = run_command(*words)
    assert said.count(": cached") == 2
    assert any((tmp_path / f"garcia2006-cleveland.{end}").exists() for end in ("png", "json"))


@pytest.mark.parametrize("paper", PAPERS)
def test_cached_runs_nothing(paper, tmp_path, monkeypatch):
    monkeypatch.setattr(Experiment, "run", lambda experiment: pytest.fail("measured"))
    assert "not measured yet" in run_command(paper, "--cached", "--folder", tmp_path)
    assert not (tmp_path / "cache").exists()


def test_an_unknown_table_is_named_with_those_there_are():
    assert "garcia2006 has no table '9'; it has reduction, cleveland" in run_command(
        "garcia2006", "--table", "9", status=1
    )
    assert "--table belongs to one paper" in run_command("all", "--table", "1", status=2)
    assert "Invalid value for" in run_command("svm", status=2)


def test_missing_data_name_the_variable(tmp_path, monkeypatch):
    def offline(*_):
        raise OSError("no network")

    monkeypatch.setenv("KERNLET_DATA", str(tmp_path))
    monkeypatch.setattr("kernlet.datasets.download", offline)
    said = run_command("garcia2006", "--table", "pima", "--folder", tmp_path, status=1)
    assert "set KERNLET_DATA to a folder with pima.npz" in said
    assert said.count("Error:") == 1


def test_damaged_results_are_named(tmp_path):
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache" / "vishwanathan2002.json").write_text("{")
    words = "vishwanathan2002", "--table", "2", "--folder", tmp_path
    assert "vishwanathan2002.json is corrupt" in run_command(*words, status=1)
    assert "data not public" in run_command(*words, "--fresh")
    (tmp_path / "other.json").write_text("{}")
    said = run_command("summary", "--folder", tmp_path, status=1)
    assert "other.json is not a table" in said


def test_a_summary_needs_tables(tmp_path):
    assert "There is no table" in run_command("summary", "--folder", tmp_path, status=1)
