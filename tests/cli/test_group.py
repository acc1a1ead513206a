"""How commands end: errors, tracebacks, signals, full disks and closed pipes."""

import io
import json
import os
import signal
import stat
import subprocess
import sys
import threading
import time
import zipfile

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import skops.io
from click.testing import CliRunner
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

import kernlet
from kernlet import CompactKernelClassifier
from kernlet.cli import main
from support.exportable_models import IRIS, IRIS_LABELS
from support.signals import hear_signals


def run(*words, status=0, **more):
    result = CliRunner().invoke(main, [str(word) for word in words], **more)
    assert result.exit_code == status, result.output
    return result.output


@pytest.fixture(scope="module")
def machine():
    return CompactKernelClassifier(4, n_epochs=5, random_state=0).fit(IRIS, IRIS_LABELS)


@pytest.fixture
def files(tmp_path, machine):
    """A machine, and a table in many row groups, so that predicting it takes seconds."""
    kernlet.save(machine, tmp_path / "m.kernlet")
    rows = np.tile(IRIS, (200, 1))
    table = pa.table({name: rows[:, k] for k, name in enumerate("abcd")})
    pq.write_table(table, tmp_path / "t.parquet", row_group_size=20)
    return tmp_path / "m.kernlet", tmp_path / "t.parquet"


def fail_with(error, monkeypatch):
    def fail(*args, **more):
        raise error

    monkeypatch.setattr("kernlet.cli.predict.run", fail)


def test_what_is_unexpected_is_an_internal_error(files, monkeypatch):
    fail_with(KeyError("no such\nthing"), monkeypatch)
    said = run("predict", *files, status=70)
    assert said.startswith("Error: Internal error, KeyError: 'no such\\nthing'. Please report it")
    assert "--debug (or KERNLET_DEBUG=1)" in said
    assert said.count("\n") == 1


@pytest.mark.parametrize(
    ("words", "environment"),
    [
        (["--debug", "predict"], {}),
        (["predict", "--debug"], {}),
        (["predict"], {"KERNLET_DEBUG": "1"}),
    ],
)
@pytest.mark.parametrize("error", [KeyError("x"), ValueError("row 3 is wrong."), MemoryError()])
def test_debug_shows_the_traceback(words, environment, error, files, monkeypatch):
    fail_with(error, monkeypatch)
    status = 70 if isinstance(error, KeyError) else 1
    assert "Traceback" not in run(*words[:0], "predict", *files, status=status)
    said = run(*words, *files, status=status, env=environment)
    assert "Traceback (most recent call last)" in said
    assert "test_group.py" in said
    assert said.splitlines()[-1].startswith("Error: ")
    assert "Traceback" not in run("predict", *files, status=status, env={"KERNLET_DEBUG": "0"})


@pytest.mark.parametrize(
    ("error", "sentence"),
    [
        (ValueError("a\n  b"), "a b"),
        (ValueError(""), "ValueError"),
        (ValueError("\x1b[31m[red]\udcff"), "�[31m[red]�"),
        (ValueError("x" * 5000), "x" * 700 + " ... " + "x" * 195),
        (OSError("disk"), "disk"),
        (PermissionError(13, "Permission denied", "t.csv"), "t.csv: Permission denied."),
        (OSError(28, "No space left on device"), "No space left on device."),
        (
            MemoryError("Unable to allocate 29.1 TiB"),
            "There is not enough memory for this (Unable to allocate 29.1 TiB): give fewer rows or "
            "columns, a smaller machine, or more memory.",
        ),
    ],
)
def test_wrong_input_gets_one_sentence(error, sentence, files, monkeypatch):
    fail_with(error, monkeypatch)
    assert run("predict", *files, status=1) == f"Error: {sentence}\n"


def test_an_interruption_is_not_an_error(files, monkeypatch):
    fail_with(KeyboardInterrupt(), monkeypatch)
    said = run("predict", *files, status=1)
    assert said.split() == ["Aborted!"]


def test_options_that_are_very_long_or_evil(files, tmp_path):
    said = run("predict", "n" * 5000, files[1], status=2)
    assert len(said) < 1500
    (tmp_path / "t.csv").write_text("a,b,c,d\n1,2,3,4\n")
    said = run(
        "predict", files[0], tmp_path / "t.csv", "--separator", "\x1b[31m\nx" * 400, status=1
    )
    assert "\x1b" not in said


def test_machines_that_do_not_predict(files, tmp_path):
    for make in (kernlet.MMDA, kernlet.KernelFisherDiscriminant):
        path = tmp_path / f"{make.__name__}.kernlet"
        kernlet.save(make(random_state=0).fit(IRIS, IRIS_LABELS), path)
        for command in ("predict", "report", "explain"):
            said = run(command, path, files[1], "-o", tmp_path / "out", status=1)
            assert f"holds {make.__name__}, which computes features and predicts nothing" in said
        run("export", path, "--to", "onnx", "-o", tmp_path / "model.onnx")


def test_damaged_skops_files(files, tmp_path):
    machine = make_pipeline(StandardScaler(), SVC()).fit(IRIS, IRIS_LABELS)
    content = skops.io.dumps(machine)
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    schema = json.loads(members["schema.json"])
    path = tmp_path / "m.skops"

    def refusal(changed):
        with zipfile.ZipFile(path, "w") as archive:
            for name, data in (members | changed).items():
                archive.writestr(name, data)
        said = run("predict", path, files[1], status=1)
        assert said.count("\n") == 1
        return said

    arrays, n_checked = [name for name in members if name.endswith(".npy")], 0
    for name in arrays:
        array, file = np.load(io.BytesIO(members[name])), io.BytesIO()
        header = {"descr": array.dtype.str, "fortran_order": False, "shape": (10**12,)}
        np.lib.format.write_array_header_1_0(file, header)
        assert "claims the shape" in refusal({name: file.getvalue()})
        if array.shape == machine[-1].support_vectors_.shape:
            for wrong in (array[:0], array.astype("S3"), array[0], array * np.nan):
                file = io.BytesIO()
                np.save(file, wrong)
                assert "m.skops" in refusal({name: file.getvalue()})
            n_checked += 1
    assert n_checked > 0
    assert "corrupt" in refusal({"schema.json": b"[]"})
    schema["content"] = None
    assert "corrupt" in refusal({"schema.json": json.dumps(schema).encode()})


# -- Inputs are not overwritten --------------------------------------------------------------------


def test_outputs_do_not_overwrite_inputs(machine, tmp_path):
    model, table = tmp_path / "m.kernlet", tmp_path / "t.csv"
    kernlet.save(machine, model)
    lines = [",".join(map(str, [*x, y])) for x, y in zip(IRIS, IRIS_LABELS, strict=True)]
    table.write_text("a,b,c,d,y\n" + "\n".join(lines))
    (tmp_path / "hard.csv").hardlink_to(table)
    (tmp_path / "soft").symlink_to(model)
    (tmp_path / "checkpoint").mkdir()
    (tmp_path / "checkpoint" / "streaming.npz").write_bytes(b"passes")
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    commands = (
        ("fit", table, "--target", "y", "--machine", "l1", "--checkpoint", tmp_path / "checkpoint"),
        ("predict", model, table),
        ("compress", model, table, "--target", "y"),
        ("export", model, "--to", "onnx", "--table", table),
        ("report", model, table, "--target", "y"),
        ("explain", model, table),
    )
    for words in commands:
        for output in (table, tmp_path / "hard.csv", model, tmp_path / "soft"):
            if words[0] != "fit" or output.name.endswith("csv"):
                said = run(*words, "-o", output, status=2)
                assert f"The output {output} would overwrite" in said
                assert "or add --force" in said
    said = run(*commands[0], "-o", tmp_path / "checkpoint" / "streaming.npz", status=2)
    assert "would overwrite" in said
    assert before == {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}


def test_files_in_a_folder_that_is_read_are_inputs(files, tmp_path):
    model, table = files
    folder = tmp_path / "parts"
    folder.mkdir()
    for number in range(2):
        pq.write_table(pq.read_table(table).slice(0, 5), folder / f"{number}.parquet")
    assert "would overwrite" in run("predict", model, folder, "-o", folder / "1.parquet", status=2)
    run("predict", model, folder, "-o", tmp_path / "out.parquet")


def test_c_source_does_not_overwrite_its_model(files, tmp_path):
    model = files[0].rename(tmp_path / "machine.c")
    said = run("export", model, "--to", "c", "-o", tmp_path, status=2)
    assert "machine.c would overwrite" in said


def test_force_overwrites_an_input(files, tmp_path):
    model, table = files
    run("compress", model, "--centers", 3, "-o", model, "--force")
    assert kernlet.load(model).n_centers_ == 3
    short = tmp_path / "short.parquet"
    pq.write_table(pq.read_table(table).slice(0, 50), short)
    run("predict", model, short, "-o", short, "--force")
    assert "prediction" in pq.read_table(short).column_names


def test_outputs_keep_their_mode_and_their_link(files, tmp_path):
    model, table = files
    short, target, link = (tmp_path / name for name in ("short.parquet", "target.csv", "link.csv"))
    pq.write_table(pq.read_table(table).slice(0, 50), short)
    target.touch(mode=0o600)
    link.symlink_to(target)
    run("predict", model, short, "-o", link)
    assert link.is_symlink()
    assert stat.S_IMODE(target.stat().st_mode) == 0o600
    assert target.read_text().count("\n") == 51


def test_files_and_folders_that_are_read_only(files, tmp_path):
    locked, old = tmp_path / "locked", tmp_path / "old.csv"
    locked.mkdir(mode=0o555)
    old.touch(mode=0o444)
    if os.access(locked, os.W_OK):
        pytest.skip("root may write anywhere")
    for output in (locked / "out.csv", old):
        assert "is not writable" in run("predict", *files, "-o", output, status=2)


def test_names_that_are_not_utf_8(files, tmp_path):
    model, table = files
    odd = tmp_path / os.fsdecode(b"\xff.parquet")
    table.rename(odd)
    assert "is not UTF-8: rename" in run("predict", model, odd, status=2)


# -- In a process of its own -----------------------------------------------------------------------

COMMAND = [sys.executable, "-m", "kernlet"]


def outputs_in(folder, name):
    return [path for path in folder.iterdir() if name in path.name]


def wait_for(condition, process):
    deadline = time.monotonic() + 60
    while not condition():
        assert not process.poll(), process.stderr.read()
        assert time.monotonic() < deadline
        time.sleep(0.005)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "status"), [("SIGTERM", 143), ("SIGHUP", 129), ("SIGINT", 1), ("SIGKILL", -9)]
)
def test_a_signal_while_predicting(name, status, files, tmp_path):
    model, table = files
    out = tmp_path / "out.csv"
    for _ in range(10):  # the command may be done before the signal arrives
        out.write_text("old")
        process = subprocess.Popen(
            [*COMMAND, "predict", model, table, "-o", out],
            stderr=subprocess.PIPE,
            text=True,
            preexec_fn=hear_signals,
        )
        with process:
            wait_for(
                lambda p=process: p.poll() == 0 or len(outputs_in(tmp_path, "out.csv")) == 2,
                process,
            )
            process.send_signal(getattr(signal, name))
            said = process.stderr.read()
        if process.returncode:
            break
    assert process.returncode == status, said
    assert "Traceback" not in said
    assert out.read_text() == "old"
    assert len(outputs_in(tmp_path, "out.csv")) == 1 + (name == "SIGKILL")


@pytest.mark.slow
@pytest.mark.parametrize("name", ["SIGTERM", "SIGINT", "SIGKILL"])
def test_a_signal_while_fitting_leaves_a_checkpoint(name, tmp_path):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60_000, 4))
    np.savez(tmp_path / "t.npz", X=X, y=(X[:, 0] * X[:, 1] + rng.normal(size=len(X)) > 0) * 1)
    checkpoint, out = tmp_path / "checkpoint", tmp_path / "m.kernlet"
    words = [*COMMAND, "fit", tmp_path / "t.npz", "--machine", "l1", "--no-svc", "-o", out]
    words += ["--checkpoint", checkpoint, "--centers", "30"]
    options = {"stderr": subprocess.PIPE, "text": True, "preexec_fn": hear_signals}
    with subprocess.Popen(words, **options) as process:
        wait_for((checkpoint / "streaming.npz").exists, process)
        process.send_signal(getattr(signal, name))
        said = process.stderr.read()
    assert process.returncode in {"SIGTERM": (143,), "SIGINT": (1,), "SIGKILL": (-9,)}[name], said
    assert "Traceback" not in said
    if name != "SIGKILL":
        assert "the same command resumes from the checkpoint" in said
        assert list(checkpoint.iterdir()) == [checkpoint / "streaming.npz"]
    assert not out.exists()
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    assert "resuming from the checkpoint" in done.stderr
    assert kernlet.load(out).n_centers_ > 0


@pytest.mark.slow
@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
def test_a_full_disk(files, tmp_path):
    model, table = files
    words = [*COMMAND, "predict", model, table]
    with open("/dev/full", "w") as full:
        done = subprocess.run(words, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == "Error: No space left on device."
    out = tmp_path / "out.csv"
    out.write_text("old")
    limit = "import resource, signal; signal.signal(signal.SIGXFSZ, signal.SIG_IGN); "
    limit += "resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000)); "
    limit += "from kernlet.cli import main; main()"
    for name in ("out.csv", "out.parquet"):
        words = [sys.executable, "-c", limit, "predict", model, table, "-o", tmp_path / name]
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        assert done.returncode == 1, done.stderr
        assert "File too large" in done.stderr.splitlines()[-1]
        assert str(tmp_path / name) in done.stderr.splitlines()[-1]
    assert [path.name for path in outputs_in(tmp_path, "out")] == ["out.csv"]
    assert out.read_text() == "old"


@pytest.mark.slow
def test_a_reader_that_leaves(files):
    words = [*COMMAND, "predict", *files]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(words, **pipes, text=True) as process:
        assert process.stdout.readline().startswith("prediction,")
        process.stdout.close()
        said = process.stderr.read()
    assert process.returncode == 1
    assert "Error" not in said
    assert "Exception" not in said


def test_handlers_of_others_are_left_alone(files):
    seen = []
    before = signal.signal(signal.SIGTERM, lambda *arguments: seen.append("theirs"))
    try:
        run("predict", *files[:1], status=2)
        signal.raise_signal(signal.SIGTERM)
        assert seen == ["theirs"]
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        run("predict", *files[:1], status=2)
        assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    finally:
        signal.signal(signal.SIGTERM, before)
    said = []
    thread = threading.Thread(target=lambda: said.append(run("predict", files[0], status=2)))
    thread.start()
    thread.join()
    assert "Missing argument" in said[0]
