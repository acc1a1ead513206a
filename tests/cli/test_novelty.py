"""Novelty detectors on the command line."""

import csv
import io
import shutil
import subprocess

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner
from sklearn.metrics import roc_auc_score

import kernlet
from kernlet import CompactNoveltyDetector
from kernlet.cli import main
from kernlet.tables.split import split_normal_rows


def kernlet_command(*words, status=0):
    result = CliRunner().invoke(main, [str(word) for word in words])
    assert result.exit_code == status, result.output
    return result.output


@pytest.fixture(scope="module")
def frame():
    """A motor with three loads, of which 40 rows have a worn bearing and 20 a broken fan."""
    random = np.random.RandomState(0)
    load = np.array([0.2, 0.5, 0.9])[random.randint(3, size=600)] + 0.03 * random.randn(600)
    rpm = 3000 * load + 60 * random.randn(600)
    temperature = 40 + 25 * load + 1.5 * random.randn(600)
    vibration = 0.2 + 0.5 * load**2 + 0.05 * random.randn(600)
    state = np.array(["ok"] * 400 + ["idle"] * 140 + ["bearing"] * 40 + ["fan"] * 20)
    vibration[state == "bearing"] += 0.25
    temperature[state == "fan"] += 10
    names = {"load": load, "rpm": rpm, "temperature": temperature, "vibration": vibration}
    return pd.DataFrame(names | {"state": state}).sample(frac=1, random_state=0)


@pytest.fixture(scope="module")
def table(frame, tmp_path_factory):
    path = tmp_path_factory.mktemp("novelty") / "motor.csv"
    frame.to_csv(path, index=False)
    return path


LABELS = ["--target", "state", "--normal", "ok", "--normal", "idle"]


@pytest.fixture(scope="module")
def motor(table, tmp_path_factory):
    """A detector, and what fit said."""
    path = tmp_path_factory.mktemp("motor") / "motor.kernlet"
    return path, kernlet_command("fit", table, "--novelty", *LABELS, "--bytes", 200, "-o", path)


def test_fit_says_how_many_alarms_are_false(frame, table, motor):
    path, said = motor
    for words in ("false alarms: ", "of 108 held-out normal rows; --contamination is 5 %"):
        assert words in said
    assert "of 60 anomalies; ROC AUC " in said
    loaded = kernlet.load(path)
    assert loaded.nbytes_ <= 200
    summary = loaded.summary_
    assert summary["data"]["normal"] == ["idle", "ok"]
    assert summary["test"]["anomalies"] == 60
    assert summary["test"]["found"] > 0.9
    assert summary["test"]["false_alarms"] < 0.15


def test_the_machine_is_that_of_the_public_call(frame, motor):
    rows, labels = frame.drop(columns="state"), frame["state"].to_numpy()
    is_normal = np.isin(labels, ["ok", "idle"])
    training, held_out = split_normal_rows(is_normal, 0.2, 0)
    X = np.asarray(rows, dtype=np.float32)  # as the table is encoded
    detector = CompactNoveltyDetector(max_bytes=200, random_state=0).fit(X[training])
    loaded = kernlet.load(motor[0])
    centers = loaded.model_.expansion.centers
    np.testing.assert_array_equal(centers, detector.expansion_.centers)
    scores = detector.score_samples(X)
    np.testing.assert_allclose(loaded.score_samples(X), scores, atol=1e-4)  # in float32 and 64
    auc = roc_auc_score(is_normal[held_out], scores[held_out])
    assert loaded.summary_["test"]["roc_auc"] == pytest.approx(auc, abs=1e-3)


def test_anomalies_change_nothing_in_the_machine(frame, table, motor, tmp_path):
    others = frame.copy()
    is_anomaly = ~frame["state"].isin(["ok", "idle"])
    others.loc[is_anomaly, ["load", "rpm", "temperature", "vibration"]] = 1e6
    others.to_csv(tmp_path / "others.csv", index=False)
    words = ["fit", tmp_path / "others.csv", "--novelty", *LABELS, "--bytes", 200]
    kernlet_command(*words, "-o", tmp_path / "m.kernlet")
    first, second = kernlet.load(motor[0]), kernlet.load(tmp_path / "m.kernlet")
    X = np.asarray(frame.drop(columns="state"))
    np.testing.assert_array_equal(first.score_samples(X), second.score_samples(X))


def test_predict_and_report_find_the_rows_again(frame, table, motor, tmp_path):
    path, said = motor
    text = kernlet_command("predict", path, table)
    rows = list(csv.DictReader(io.StringIO(text[text.index("prediction") :])))
    labels = np.array([int(row["prediction"]) for row in rows])
    is_anomaly = ~frame["state"].isin(["ok", "idle"]).to_numpy()
    assert (labels[is_anomaly] < 0).mean() > 0.9
    assert (labels[~is_anomaly] > 0).mean() > 0.9
    page = kernlet_command("report", path, table, "-o", tmp_path / "page.html")
    assert "168 rows" in page
    assert said[said.index("ROC AUC") :][:14] in page


def test_all_rows_are_normal_without_labels(table, tmp_path):
    path = tmp_path / "all.kernlet"
    words = ["fit", table, "--novelty", "--drop", "state", "--contamination", 0.1, "--centers", 6]
    said = kernlet_command(*words, "-o", path)
    assert "of 120 held-out normal rows; --contamination is 10 %" in said
    assert "anomalies" not in said
    assert kernlet.load(path).n_centers_ == 6
    page = kernlet_command("report", path, table, "-o", tmp_path / "page.html")
    assert "flagged as outliers of 120 rows" in page
    assert said[said.index("alarms: ") + 8 :].split(" of ")[0] in page


def test_labels_of_npz_files(frame, tmp_path):
    y = frame["state"].isin(["ok", "idle"]).to_numpy().astype(float) + 4
    np.savez(tmp_path / "t.npz", X=frame.drop(columns="state").to_numpy(), y=y)
    words = ["fit", tmp_path / "t.npz", "--novelty", "--centers", 6]
    said = kernlet_command(*words, "--normal", "5", "-o", tmp_path / "m.kernlet")
    assert "of 60 anomalies" in said
    rest = [tmp_path / "t.npz", "-o", tmp_path / "page.html"]
    page = kernlet_command("report", tmp_path / "m.kernlet", *rest)
    assert "168 rows; ROC AUC" in page
    said = kernlet_command(*words, "-o", tmp_path / "all.kernlet")  # the labels are not used
    assert "of 120 held-out normal rows" in said
    page = kernlet_command("report", tmp_path / "all.kernlet", *rest)
    assert "of 120 rows\n" in page


def test_without_held_out_rows(table, tmp_path):
    words = ["fit", table, "--novelty", *LABELS, "--centers", 6, "--test", 0, "-o", tmp_path / "m"]
    said = kernlet_command(*words)
    assert "false alarms" not in said
    assert "of 60 anomalies\n" in said


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler")
def test_integer_c(table, motor, tmp_path):
    words = ["export", motor[0], "--to", "c", "--arithmetic", "integer", "--table", table]
    assert "same class for " in kernlet_command(*words, "-o", tmp_path / "c")
    said = subprocess.run(["make"], cwd=tmp_path / "c", check=True, capture_output=True, text=True)
    assert "rows agree with Python" in said.stdout


@pytest.mark.slow
def test_limits_of_a_processor(table, tmp_path):
    words = ["fit", table, "--novelty", *LABELS, "--processor", "cortex-m0", "--flash", "900"]
    said = kernlet_command(*words, "-o", tmp_path / "m.kernlet")
    assert "of 900 bytes of flash" in said
    cost = kernlet.load(tmp_path / "m.kernlet").summary_["device"]["cost"]
    assert cost["flash"] <= 900


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--regression"], "--regression predicts a number"),
        (["--quantiles", "0.5"], "--quantiles predicts numbers"),
        (["--metric", "roc_auc"], "--metric judges predictions of labels"),
        (["--balanced"], "--balanced weighs classes"),
        (["--svc"], "--svc compares classifiers"),
        (["--machine", "l1"], "--machine is for classifiers"),
        (["--missing", "distance"], "a detector takes medians"),
        (["--augment", "shift"], "--augment is for classifiers"),
        (["--effort", "quick", "--bytes", "1k"], "--effort is for classifiers"),
        (["--jobs", "2"], "--jobs is for parallel trials"),
        (["--target", "state"], "--novelty --target needs --normal"),
        (["--target", "state", "--target", "load", "--normal", "ok"], "takes one --target"),
        (["--contamination", "0.6"], "is not in the range"),
    ],
)
def test_options_that_do_not_go_together(table, options, message, tmp_path):
    said = kernlet_command("fit", table, "--novelty", *options, "-o", tmp_path / "m", status=2)
    assert message in said


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--target", "state", "--normal", "good"], "--normal good is not a label; the labels are"),
        (["--normal", "ok"], "Choose with --target"),
        (["--drop", "state", "--bytes", "10"], "No detector fits in 10 bytes"),
        (["--kernel", "poly"], "are for --machine l1"),
        (["--drop", "state", "--processor", "cortex-m0", "--flash", "300"], "raise the limits"),
    ],
)
def test_what_is_refused_after_reading(table, options, message, tmp_path):
    said = kernlet_command("fit", table, "--novelty", *options, "-o", tmp_path / "m", status=1)
    assert message in said
    assert "Traceback" not in said


@pytest.mark.parametrize("options", [["--normal", "ok"], ["--contamination", "0.1"]])
def test_options_of_novelty_alone(table, options, tmp_path):
    words = ["fit", table, "--target", "state", *options, "-o", tmp_path / "m"]
    assert f"{options[0]} is that of --novelty" in kernlet_command(*words, status=2)


def test_too_few_normal_rows(tmp_path):
    (tmp_path / "t.csv").write_text("a,state\n1,ok\n2,bad\n3,bad\n")
    words = ["fit", tmp_path / "t.csv", "--novelty", "--target", "state", "--normal", "ok"]
    said = kernlet_command(*words, "-o", tmp_path / "m", status=1)
    assert "too few normal rows to train on, 1" in said
