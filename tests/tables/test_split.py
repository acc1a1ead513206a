"""Tables that are read a row group at a time, and machines that take passes over them."""

import os
import signal
import subprocess
import sys
import time

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

import kernlet
from kernlet.cli import ByteCount, main
from kernlet.tables.read import read_table
from kernlet.tables.split import learn_encoding
from support.signals import hear_signals

COLORS = np.array(["red", "blue", "green"])


def kernlet_command(*words, status=0):
    result = CliRunner().invoke(main, [str(word) for word in words])
    assert result.exit_code == status, result.output
    return result.output


def make_frame(n_rows=6000, seed=0):
    random = np.random.RandomState(seed)
    frame = pd.DataFrame(random.randn(n_rows, 3), columns=["a", "b", "c"])
    frame["b"] *= 100
    colors = random.randint(3, size=n_rows)
    frame["color"] = COLORS[colors]
    score = frame.a * frame.b / 100 + 0.7 * (colors == 1) + 0.2 * random.randn(n_rows)
    frame["label"] = np.array(["low", "high"])[(score > 0.2).astype(int)]
    frame.loc[::97, "c"] = np.nan
    frame.loc[::89, "color"] = None
    return frame


def write_folder(folder, frame, n_files=3):
    folder.mkdir()
    for number, rows in enumerate(np.array_split(np.arange(len(frame)), n_files)):
        frame.iloc[rows].to_parquet(
            folder / f"part{number}.parquet", row_group_size=700, index=False
        )
    return folder


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    return write_folder(tmp_path_factory.mktemp("large") / "rows", make_frame())


@pytest.mark.parametrize(
    "machine",
    [
        pytest.param("compact", marks=pytest.mark.slow),
        "l1",
        pytest.param("minimal", marks=pytest.mark.slow),
    ],
)
def test_a_folder_read_piece_by_piece_gives_a_machine_as_good_as_in_memory(
    table, tmp_path, machine
):
    options = ["--target", "label", "--centers", "30", "--machine", machine]
    said = kernlet_command(
        *("fit", table, *options, "--memory", "1k", "-o", tmp_path / "one.kernlet")
    )
    assert "in batches: 6,000 rows of 5 columns" in said
    assert "an SVC of" in said
    kernlet_command("fit", table, *options, "--no-svc", "-o", tmp_path / "two.kernlet")
    one, two = (kernlet.load(tmp_path / f"{name}.kernlet") for name in ("one", "two"))
    assert one.classes_.tolist() == ["high", "low"]
    assert one.model_.encoding == two.model_.encoding
    np.testing.assert_allclose(one.model_.scaler.shift, two.model_.scaler.shift, rtol=1e-6)
    frame = make_frame(2000, seed=1)
    scores = [np.mean(each.predict(frame) == frame.label) for each in (one, two)]
    assert scores[0] > 0.85
    assert scores[0] == pytest.approx(scores[1], abs=0.02)
    assert one.summary_["test"]["rows"] == 1200
    assert one.summary_["data"]["classes"] == two.summary_["data"]["classes"]
    assert one.summary_["data"]["missing"] == two.summary_["data"]["missing"]


def test_the_exact_machine_says_its_certificate(table, tmp_path):
    said = kernlet_command(
        *("fit", table, "--target", "label", "--machine", "l1", "--C", "0.05", "--memory", "1k"),
        *("--centers", "40", "--no-svc", "--drop", "c", "-o", tmp_path / "model.kernlet"),
    )
    assert "relative duality gap" in said
    summary = kernlet.load(tmp_path / "model.kernlet").summary_
    assert summary["duality_gap"] < 1e-6
    assert summary["parameters"]["C"] == 0.05


@pytest.fixture(scope="module")
def model(table, tmp_path_factory):
    path = tmp_path_factory.mktemp("model") / "model.kernlet"
    kernlet_command("fit", table, "--target", "label", "--centers", "5", "--no-svc", "-o", path)
    return path


def test_predictions_of_a_folder_go_to_parquet_or_csv(table, model, tmp_path):
    said = kernlet_command("predict", model, table, "-o", tmp_path / "answers.parquet")
    assert "wrote 6,000 predictions" in said
    answers = pd.read_parquet(tmp_path / "answers.parquet")
    assert pq.ParquetFile(tmp_path / "answers.parquet").num_row_groups == 9
    loaded = kernlet.load(model)
    frame = make_frame()
    np.testing.assert_array_equal(answers["prediction"], loaded.predict(frame))
    np.testing.assert_allclose(
        answers[["probability of high", "probability of low"]],
        loaded.predict_proba(frame),
        atol=1e-5,
    )
    kernlet_command("predict", model, table, "-o", tmp_path / "answers.csv")
    lines = pd.read_csv(tmp_path / "answers.csv")
    np.testing.assert_array_equal(lines["prediction"], answers["prediction"])
    assert lines.columns.tolist() == answers.columns.tolist()


def test_predictions_of_a_csv_file_go_to_parquet(model, tmp_path):
    make_frame(50).to_csv(tmp_path / "rows.csv", index=False)
    kernlet_command("predict", model, tmp_path / "rows.csv", "-o", tmp_path / "answers.parquet")
    assert len(pd.read_parquet(tmp_path / "answers.parquet")) == 50


def test_a_fault_leaves_no_file_and_says_where_it_is(table, model, tmp_path):
    frame = make_frame(2000)
    frame.loc[1500, "a"] = np.inf
    folder = write_folder(tmp_path / "bad", frame)
    output = tmp_path / "answers.parquet"
    said = kernlet_command("predict", model, folder, "-o", output, status=1)
    assert "counted from row 1335 on: Row 167, column 'a': inf is too large." in said
    assert not list(tmp_path.glob("*answers*"))


def test_a_fit_counts_rows_and_gaps_of_the_file(tmp_path):
    frame = make_frame(2000)
    table = pa.Table.from_pandas(frame, preserve_index=False)
    gaps = pa.array(np.where(frame.index % 10 == 0, np.nan, 1.0))  # NaN, not null
    table = table.set_column(0, "a", gaps)
    pq.write_table(table, tmp_path / "rows.parquet", row_group_size=700)
    columns, everything = ["c", "color", "label"], np.arange(2000)
    rows = read_table(tmp_path / "rows.parquet", max_bytes=0).without(columns)
    _, _, missing = learn_encoding(rows, everything)
    assert missing == {"a": 200}
    frame.loc[1500, "a"] = np.inf
    folder = write_folder(tmp_path / "bad", frame)
    with pytest.raises(ValueError, match="counted from row 1335 on: Row 167, column 'a'"):
        learn_encoding(read_table(folder, max_bytes=0).without(columns), everything[::7])


def test_files_of_whole_and_other_numbers(tmp_path):
    frame = make_frame(400)
    first, second = frame[:200].copy(), frame[200:]
    first["a"] = np.arange(200)
    first.to_parquet(tmp_path / "part0.parquet", index=False)
    second.to_parquet(tmp_path / "part1.parquet", index=False)
    assert read_table(tmp_path).batch(0)["a"].to_pylist()[:3] == [0, 1, 2]
    second.drop(columns="a").to_parquet(tmp_path / "part1.parquet", index=False)
    with pytest.raises(ValueError, match=r"part1.parquet has other columns than part0.parquet"):
        read_table(tmp_path)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--target", "nothing"], "There is no column 'nothing'"),
        ([], "Choose with --target which of 'a', 'b', 'c', 'color', 'label' to predict"),
        (["--target", "label", "--regression"], "raise --memory"),
        (["--target", "label", "--drop", "z"], "--drop: There is no column 'z' among"),
        (["--target", "a"], "different numbers in 6,000 rows: add --regression"),
        (["--target", "label", "--category", "b"], "Leave them out with --drop b, or group"),
        (["--target", "label", "--category", "nope"], "--category: There is no column 'nope'"),
    ],
)
def test_bad_options_get_a_sentence(table, tmp_path, words, message):
    said = kernlet_command(
        "fit", table, *words, "--memory", "1k", "-o", tmp_path / "model.kernlet", status=1
    )
    assert message in said


def test_options_that_do_not_go_together(table, tmp_path):
    output = ["-o", tmp_path / "model.kernlet"]
    said = kernlet_command("fit", table, "--target", "label", "--C", "1", *output, status=1)
    assert "--C, --kernel and --checkpoint are for --machine l1 and minimal" in said
    said = kernlet_command(
        "fit", table, "--target", "label", "--machine", "l1", "--auto", *output, status=1
    )
    assert "--machine l1 takes --centers" in said
    (tmp_path / "empty").mkdir()
    said = kernlet_command("fit", tmp_path / "empty", "--target", "label", *output, status=1)
    assert "no file that ends in .parquet" in said


def test_memory_is_a_number_of_bytes():
    assert ByteCount().convert("2G", None, None) == 2 * 10**9
    assert ByteCount().convert("1Gi", None, None) == 2**30


@pytest.mark.slow
def test_an_interrupted_fit_goes_on_from_its_last_pass(tmp_path):
    """A real Ctrl-C, sent to a process of its own while it goes over the rows."""
    random = np.random.RandomState(0)
    X = random.randn(150_000, 5).astype(np.float32)
    frame = pd.DataFrame(X, columns=list("abcde"))
    frame["label"] = X[:, 0] * X[:, 1] + random.randn(len(X)) > 0
    folder, kept = write_folder(tmp_path / "rows", frame), tmp_path / "kept"
    words = ["fit", folder, "--target", "label", "--machine", "l1", "--centers", "150"]
    words += ["--memory", "1k", "--no-svc", "--checkpoint", kept, "-o", tmp_path / "model.kernlet"]
    command = [sys.executable, "-c", "from kernlet.cli import main; main()", *map(str, words)]
    process = subprocess.Popen(
        command, stderr=subprocess.PIPE, text=True, env=os.environ, preexec_fn=hear_signals
    )
    deadline = time.monotonic() + 180
    while not (kept / "streaming.npz").exists() and time.monotonic() < deadline:
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 1, said
    assert "interrupted; the same command resumes from the checkpoint in" in said
    assert not (tmp_path / "model.kernlet").exists()
    said = kernlet_command(*words)
    assert "resuming from the checkpoint in" in said
    assert kernlet.load(tmp_path / "model.kernlet").summary_["duality_gap"] < 1e-6


def test_labels_of_two_kinds_are_refused(tmp_path):
    frame = make_frame(2000)
    folder = write_folder(tmp_path / "rows", frame.assign(label=frame.label == "low"), n_files=1)
    frame.assign(label=(frame.label == "low").astype(int)).to_parquet(folder / "part1.parquet")
    options = ["--target", "label", "--memory", "1", "-o", tmp_path / "model"]
    said = kernlet_command("fit", folder, *options, status=1)
    assert "write it with one type" in said


def test_predictions_of_a_folder_whose_first_row_group_is_empty(table, tmp_path):
    model = tmp_path / "model.kernlet"
    words = ("fit", table, "--target", "label", "--machine", "l1", "--centers", "20", "--no-svc")
    kernlet_command(*words, "-o", model)
    folder = write_folder(tmp_path / "rows", make_frame(50).iloc[:0], n_files=1)
    make_frame(50).to_parquet(folder / "part1.parquet", index=False)
    kernlet_command("predict", model, folder, "-o", tmp_path / "answers.parquet")
    assert len(pd.read_parquet(tmp_path / "answers.parquet")) == 50
