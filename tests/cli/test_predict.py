"""kernlet predict: labels that spreadsheets would run, and files that end early."""

import csv
from inspect import signature

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from kernlet.cli import main

LABELS = ["=1+1", "+x", "-1", "@sum", "\tcell", "plain", "-x"]


def run(*words, status=0):
    # click before 8.2 mixes both outputs unless asked not to
    options = {"mix_stderr": False} if "mix_stderr" in signature(CliRunner).parameters else {}
    result = CliRunner(**options).invoke(main, [str(word) for word in words])
    assert result.exit_code == status, result.output
    return result


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    folder = tmp_path_factory.mktemp("predict")
    y = np.arange(210) % len(LABELS)
    frame = pd.DataFrame({"x": y + np.random.default_rng(0).uniform(0, 0.1, len(y))})
    frame.assign(y=np.array(LABELS)[y]).to_parquet(folder / "t.parquet", index=False)
    options = ["--target", "y", "--centers", "20", "--no-svc"]
    run("fit", folder / "t.parquet", *options, "-o", folder / "m.kernlet")
    return folder


@pytest.mark.parametrize("is_file", [False, True])
def test_labels_that_are_formulas(trained, is_file, tmp_path):
    words = ["predict", trained / "m.kernlet", trained / "t.parquet"]
    words += ["-o", tmp_path / "out.csv"] if is_file else []

    def predicted(*more):
        result = run(*words, *more)
        text = (tmp_path / "out.csv").read_text() if is_file else result.stdout
        table = list(csv.reader(text.splitlines()))
        assert table[0][:2] == ["prediction", "probability of \tcell"]
        return {row[0] for row in table[1:]}, result.stderr

    labels, output = predicted()
    assert labels == {"'=1+1", "'+x", "-1", "'@sum", "'\tcell", "plain", "'-x"}
    assert "get a ' in front" in output
    labels, output = predicted("--raw-labels")
    assert labels == set(LABELS)
    assert "get a ' in front" not in output


def test_parquet_has_the_labels_as_they_are(trained, tmp_path):
    run("predict", trained / "m.kernlet", trained / "t.parquet", "-o", tmp_path / "o.parquet")
    assert set(pq.read_table(tmp_path / "o.parquet")["prediction"].to_pylist()) == set(LABELS)


def test_an_output_that_fails_leaves_nothing(trained, tmp_path):
    table = tmp_path / "t.parquet"
    columns = {"x": pa.array(["1", "2", "3", "word"])}
    pq.write_table(pa.table(columns), table, row_group_size=2)
    for name in ("o.csv", "o.parquet"):
        words = ["predict", trained / "m.kernlet", table, "-o", tmp_path / name]
        output = run(*words, status=1).stderr
        assert "counted from row 3 on: Row 2, column 'x': 'word' is not a number" in output
    assert [path.name for path in tmp_path.iterdir()] == ["t.parquet"]
