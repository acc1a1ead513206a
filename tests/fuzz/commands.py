"""Command lines of every command: valid and damaged files, evil names, options at their limits."""

from __future__ import annotations

import io
import json
import os
import tempfile
import zipfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import skops.io
from sklearn.datasets import dump_svmlight_file, load_iris
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

import kernlet
from fuzz.campaign import Target, check_sentence, run_command
from fuzz.mutate import damage
from kernlet.atomic import Checkpoint, stored_numbers
from kernlet.chunking import RunRecord
from kernlet.chunking.estimator import StagesDone
from kernlet.cli.common import read_model
from kernlet.report.page import write_report

Rng = np.random.Generator

_IRIS, _LABELS = load_iris(return_X_y=True)
_COLORS = np.array(["red", "blue", "", "=1+1", "[bold]x[/]"])
_COLUMNS = ("a", "b", "c", "d", "color", "y")

# -- Files -----------------------------------------------------------------------------------------


@cache
def _tables() -> dict[str, bytes]:
    """Thirty irises in every format, by suffix."""
    rng = np.random.default_rng(0)
    rows = rng.permutation(150)[:30]
    X, y, colors = _IRIS[rows], _LABELS[rows], rng.choice(_COLORS, 30)
    lines = [",".join(_COLUMNS)]
    lines += [
        ",".join(map(str, [*x, color, label])) for x, color, label in zip(X, colors, y, strict=True)
    ]
    arrays, text, parquet = io.BytesIO(), io.BytesIO(), io.BytesIO()
    np.savez(arrays, X=X, y=y)
    dump_svmlight_file(X, y, text, zero_based=False)
    columns = dict(zip("abcd", X.T, strict=True)) | {"color": colors.tolist(), "y": y}
    pq.write_table(pa.table(columns), parquet, row_group_size=10)
    return {
        "csv": "\n".join(lines).encode(),
        "numbers.csv": "\n".join(["a,b,c,d", *(",".join(map(str, x)) for x in X)]).encode(),
        "npz": arrays.getvalue(),
        "svm": text.getvalue(),
        "parquet": parquet.getvalue(),
    }


@cache
def _models() -> dict[str, bytes]:
    """Machines of every kind, and files of other libraries, by name."""
    compact = {"n_epochs": 3, "random_state": 0}
    machines = {
        "classifier": kernlet.CompactKernelClassifier(4, **compact).fit(_IRIS, _LABELS),
        "packed": kernlet.CompactKernelClassifier(4, storage="int4", **compact).fit(_IRIS, _LABELS),
        "texts": kernlet.CompactKernelClassifier(4, **compact).fit(_IRIS, _COLORS[_LABELS + 2]),
        "regressor": kernlet.CompactKernelRegressor(4, **compact).fit(_IRIS, _IRIS[:, 0]),
        "novelty": kernlet.CompactNoveltyDetector(max_bytes=100, random_state=0).fit(_IRIS),
        "regressors": kernlet.CompactKernelRegressor(4, **compact).fit(_IRIS, _IRIS[:, :2]),
        "l1": kernlet.L1KernelClassifier(random_state=0).fit(_IRIS, _LABELS),
        "mmda": kernlet.MMDA(random_state=0).fit(_IRIS, _LABELS),
        "fisher": kernlet.KernelFisherDiscriminant(random_state=0).fit(_IRIS, _LABELS),
        "expansion": kernlet.L1KernelClassifier(random_state=0).fit(_IRIS, _LABELS).expansion_,
    }
    contents = {"libsvm": _LIBSVM, "skops": _skops()}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model"
        for name, machine in machines.items():
            kernlet.save(machine, path)
            contents[name] = path.read_bytes()
        table = path.with_name("t.csv")
        table.write_bytes(_tables()["csv"])
        words = ["fit", table, "--target", "y", "--centers", 3, "--no-svc", "-o", path]
        run_command(words)
        contents["table"] = path.read_bytes()
    return contents


_LIBSVM = b"""svm_type c_svc
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


@cache
def _skops() -> bytes:
    machine = make_pipeline(StandardScaler(), SVC(gamma=0.5, C=0.2)).fit(_IRIS, _LABELS)
    return bytes(skops.io.dumps(machine))


_STEMS = (
    "t", "[red]y", "[b]", "a\nb", "x'y\"z", "-o", "--force", " ", "é", "\udcff\udcfe", "n" * 180,
    "%s{0}", "\x1b[31m", "..x", "$(id)", "a;b", "CON", "\u202e", "😀", "-",
)  # fmt: skip


def _path(rng: Rng, folder: Path, suffix: str) -> Path:
    """A name that no other file of the case has, mostly with the right suffix."""
    if rng.random() < 0.05:
        suffix = str(rng.choice(["", "csv", "parquet", "npz", "gz", "csv.gz", "kernlet", "html"]))
    stem = _STEMS[rng.integers(len(_STEMS))] if rng.random() < 0.4 else "file"
    for number in range(100):
        path = folder / f"{stem}{number or ''}.{suffix}"
        if not os.path.lexists(path):
            return path
    raise AssertionError("no name is free")


def _write(rng: Rng, folder: Path, contents: dict[str, bytes], suffix: str = "") -> Path:
    """One of some files, a third of the time damaged."""
    name = str(rng.choice(list(contents)))
    content = contents[name]
    if rng.random() < 0.3:
        content = damage(content, rng)
    path = _path(rng, folder, suffix or name)
    path.write_bytes(content)
    if rng.random() < 0.05:
        link = _path(rng, folder, suffix or name)
        link.symlink_to(path)
        return link
    return path


def _parts(rng: Rng, folder: Path) -> Path:
    """A folder of Parquet files."""
    parts = folder / "parts"
    parts.mkdir()
    for number in range(int(rng.integers(3))):
        (parts / f"{number}.parquet").write_bytes(_tables()["parquet"])
    return parts


# -- Arguments -------------------------------------------------------------------------------------

_TEXTS = (
    "y", "a", "color", "0", "6", "-1", "", " ", "a,b", "a,,b", "no", "\n", "[red]", "'", "\x1b[0m",
    "x" * 2000, "column_1", "\udcff", "y,y",
)  # fmt: skip
_NUMBERS = ("0", "1", "2", "3", "-1", "1e3", "nan", "inf", "0.5", "99999999999999999999", "", "x")
_BYTES = ("0", "1", "64", "300", "4k", "1Ki", "2G", "-1", "x", "99999999999999999999", "1e3", "")
_METRICS = ("accuracy", "balanced_accuracy", "f1_macro", "roc_auc", "neg_log_loss", "r2", "no", "")

_TEXT_FORMAT = {
    "--separator": (",", ";", "tab", "space", "", "||", "\n", "\x00", "é", '"'),
    "--encoding": ("utf-8", "utf-16", "cp1252", "ascii", "no", "", "base64", "rot13", "utf-7"),
    "--header": None,
    "--no-header": None,
    "--force": None,
    "--debugg": None,
}
_LABELLED = {"--target": _TEXTS, "--skip-unlabelled": None} | _TEXT_FORMAT
_SIZES = ("1", "2", "3", "0", "-1", "auto", "x", "99999999999999999999")
_COMPRESS = {"--centers": _SIZES, "--metric": _METRICS, "--seed": _NUMBERS} | _LABELLED
_EXPORT = {
    "--to": ("c", "onnx", "no"),
    "--storage": ("auto", "float32", "float16", "int8", "stored", "int1"),
    "--exp": ("polynomial", "libm", "no"),
} | _LABELLED
_FIT = {
    "--bytes": _BYTES,
    "--memory": _BYTES,
    "--regression": None,
    "--quantiles": ("0.5", "0.1,0.9", "0.9,0.1", "0", "1", "", ",", "x", "nan", "1e-300,0.5"),
    "--drop": _TEXTS,
    "--category": _TEXTS,
    "--date": _TEXTS,
    "--scale": ("auto", "standard", "none", "no"),
    "--test": ("0", "0.1", "0.5", "0.9", "1", "-1", "nan", "1e-9"),
    "--metric": _METRICS,
    "--balanced": None,
    "--seed": ("0", "4294967295", "4294967296", "-1"),
    "--jobs": ("1", "0", "x"),
    "--machine": ("compact", "l1", "minimal", "no"),
    "--kernel": ("rbf", "laplacian", "poly", "linear", "sigmoid", "no"),
    "--C": ("1", "1e-300", "1e300", "nan", "inf", "0", "-1", "1e-5"),
} | _LABELLED


def _options(rng: Rng, options: dict[str, tuple[str, ...] | None], mean: float) -> list[str]:
    words = []
    for _ in range(rng.poisson(mean)):
        name = str(rng.choice(list(options)))
        values = options[name]
        words += [name] if values is None else [name, values[rng.integers(len(values))]]
    return words


def _output(rng: Rng, folder: Path, inputs: list[Path], suffix: str) -> Path:
    """A new file, an old one, an input, or one that cannot be written."""
    draw = rng.random()
    if draw < 0.6:
        return _path(rng, folder, suffix)
    if draw < 0.75:
        path = _path(rng, folder, suffix)
        path.write_bytes(b"old")
        return path
    if draw < 0.9:
        return inputs[rng.integers(len(inputs))]
    return [folder, folder / "no" / "x", Path(os.devnull), folder / ("n" * 300)][rng.integers(4)]


def _run(words: list[Any], folder: Path, output: Path, inputs: list[Path]) -> str:
    """Run a command; what it must not do, whatever it was given, is a fault."""
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    path = os.environ.get("PATH", "")
    os.environ["PATH"] = ""  # no compilers: sizes of C programs take seconds
    try:
        code, said = run_command([os.fspath(word) for word in [*words, "-o", output]])
    finally:
        os.environ["PATH"] = path
    after = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    left = [path.name for path in after if path.name.endswith(".part")]
    assert not left, f"temporary files are left: {left}"
    if code == 0:
        assert output.exists() or output == Path("-"), f"no output: {said}"
    else:
        assert code in (1, 2), f"exit code {code}: {said}"
        check_sentence(said.strip().splitlines()[-1])
    changed = {path for path in before.keys() | after.keys() if before.get(path) != after.get(path)}
    if code == 0:  # the output, by its names, and for C the files in it
        changed = {path for path in changed if path.parent != output}
        changed = {path for path in changed if path.resolve() != output.resolve()}
        if "--force" not in words:
            changed |= {path for path in inputs if before.get(path) != after.get(path)}
    assert not changed, f"{min(changed).name!r} was changed"
    return "done" if code == 0 else ("refused" if code == 1 else "usage")


def _table(rng: Rng, folder: Path) -> Path:
    return _parts(rng, folder) if rng.random() < 0.05 else _write(rng, folder, _tables())


def command_line(rng: Rng, folder: Path) -> str:
    """Predict, compress and export."""
    command = str(rng.choice(["predict", "predict", "compress", "export"]))
    model, words = _write(rng, folder, _models(), "kernlet"), [command]
    inputs = [model, _table(rng, folder)]
    if command == "predict":
        words += [*inputs, *_options(rng, _TEXT_FORMAT, 0.7)]
        output = _output(rng, folder, inputs, str(rng.choice(["csv", "parquet"])))
    elif command == "compress":
        inputs = inputs[: 1 + (rng.random() < 0.5)]
        words += [*inputs, "--centers", "2", *_options(rng, _COMPRESS, 1.0)]
        output = _output(rng, folder, inputs, "kernlet")
    else:
        words += [model, "--to", "onnx" if rng.random() < 0.3 else "c"]
        inputs = inputs[: 1 + (rng.random() < 0.5)]
        words += ["--table", inputs[1]] if len(inputs) > 1 else []
        words += _options(rng, _EXPORT, 1.0)
        is_c = [words[k + 1] for k, word in enumerate(words) if word == "--to"][-1] == "c"
        output = folder / "source" if is_c else _output(rng, folder, inputs, "onnx")
        if is_c and rng.random() < 0.2:
            output = folder
    return _run(words, folder, output, inputs)


def command_fit(rng: Rng, folder: Path) -> str:
    """Fit, with little to train."""
    table = _table(rng, folder)
    words: list[Any] = ["fit", table, "--no-svc"]
    words += ["--target", "y"] if rng.random() < 0.8 else []
    words += ["--centers", str(rng.choice(_SIZES[:3] if rng.random() < 0.9 else _SIZES))]
    words += _options(rng, _FIT, 1.5)
    if rng.random() < 0.1:
        words += ["--checkpoint", folder / "checkpoint"]
    output = _output(rng, folder, [table], "kernlet")
    return _run(words, folder, output, [table])


def command_report(rng: Rng, folder: Path) -> str:
    """Report, mostly without other sizes."""
    inputs = [_write(rng, folder, _models(), "kernlet"), _table(rng, folder)]
    words: list[Any] = ["report", *inputs, "--no-sizes"]
    words += ["--target", "y"] if rng.random() < 0.8 else []
    output = _output(rng, folder, inputs, "html")
    return _run([*words, *_options(rng, _LABELLED, 0.7)], folder, output, inputs)


# -- What a model file says of its training --------------------------------------------------------

_VALUES: tuple[Callable[[Rng], Any], ...] = (
    lambda rng: None,
    lambda rng: bool(rng.integers(2)),
    lambda rng: 10 ** int(rng.integers(500)),
    lambda rng: -(10 ** int(rng.integers(4000))),
    lambda rng: float(rng.choice([0.0, -1.0, 1e308, 5e-324, 0.5])),
    lambda rng: str(
        rng.choice(["", "<script>", "a" * 3000, "\ud800", "\x00", "{{ 1 }}", "\u202e"])
    ),
    lambda rng: [_value(rng) for _ in range(rng.integers(3))],
    lambda rng: {str(rng.choice(_KEYS)): _value(rng) for _ in range(rng.integers(4))},
)
_KEYS = (
    "gap", "duality_gap", "loo_error_bound", "estimator", "choice", "scaling", "parameters", "test",
    "score", "validation_score", "data", "file", "sha256", "target", "missing", "split", "seed",
    "rows", "svc", "normal", "x",
)  # fmt: skip


def _value(rng: Rng) -> Any:
    return _VALUES[rng.integers(len(_VALUES))](rng)


def summaries(rng: Rng, folder: Path) -> str:
    """A report of a machine whose file says anything of its training."""
    model = _loaded(str(rng.choice(["classifier", "regressor", "l1"])))
    summary = {key: _value(rng) for key in rng.choice(_KEYS, 6)}
    object.__setattr__(model, "summary", json.loads(json.dumps(summary)))
    y = _LABELS if model.kind == "classifier" else _IRIS[:, 0]
    write_report(model, _IRIS[:8], y[:8], folder / "report.html", sizes=False)
    page = (folder / "report.html").read_text(encoding="utf-8")
    assert "<script>" not in page
    return "written"


@cache
def _loaded(name: str) -> Any:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model"
        path.write_bytes(_models()[name])
        return read_model(path)


# -- Archives: checkpoints and skops files ---------------------------------------------------------


def _damaged_archive(content: bytes, rng: Rng) -> bytes:
    """Damage to the archive, or to a member with its checksum made good again."""
    if rng.random() < 0.4:
        return damage(content, rng)
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    name = str(rng.choice(list(members)))
    draw = rng.random()
    if draw < 0.1:
        del members[name]
    elif draw < 0.2:
        members[name] = members[str(rng.choice(list(members)))]
    elif name.endswith(".npy") and draw < 0.7:
        members[name] = _claiming(members[name], rng)
    else:
        members[name] = damage(members[name], rng)
    file = io.BytesIO()
    method = int(rng.choice([zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED]))
    with zipfile.ZipFile(file, "w", method) as archive:
        for member, data in members.items():
            archive.writestr(member, data)
    return file.getvalue()


def _claiming(content: bytes, rng: Rng) -> bytes:
    """The same numbers under another shape or type."""
    array = np.load(io.BytesIO(content))
    shape = [
        (),
        (1,),
        (10**12,),
        (10**12, 4),
        (-1, 4),
        (0, 3),
        (2, 3),
        array.shape[::-1],
        array.shape,
    ]
    types = [array.dtype.str, "<f4", "<f8", "<i8", "|b1", "<U4", "<c16", "|O", ">f8", "<f2", "|S3"]
    header = {
        "descr": types[rng.integers(len(types))] if rng.random() < 0.5 else array.dtype.str,
        "fortran_order": bool(rng.integers(2)),
        "shape": shape[rng.integers(len(shape))],
    }
    file = io.BytesIO()
    np.lib.format.write_array_header_1_0(file, header)
    numbers = array.ravel()
    if array.dtype.kind == "f" and len(numbers) and rng.random() < 0.3:
        numbers[rng.integers(len(numbers))] = rng.choice([np.nan, np.inf, -np.inf, 1e308])
    return file.getvalue() + numbers.tobytes()


def checkpoints(rng: Rng, folder: Path) -> str:
    """The files that interrupted fits resume from."""
    checkpoint = Checkpoint(folder / "fit.npz", "this fit")
    is_stages = rng.random() < 0.5
    checkpoint.path.write_bytes(_damaged_archive(_stages() if is_stages else _passes(), rng))
    try:
        if is_stages:
            done = StagesDone.load(checkpoint, 3)
            assert done.candidates is None or done.candidates.shape[1] == 3
        else:
            coef = checkpoint.load(lambda _, arrays: stored_numbers(arrays["coef"], 5, 2))
            assert coef is not None
            assert np.isfinite(coef).all()
    except ValueError as error:
        check_sentence(error)
        return "refused"
    return "accepted"


@cache
def _stages() -> bytes:
    record = RunRecord(
        40, 40, 1.5, (0.5, 0.75), 9, 4, 20, 21, 0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.1, 1e-9, 0.2, 0.1
    )
    points = np.random.default_rng(0).normal(size=(8, 3))
    return _saved(lambda checkpoint: StagesDone(((record,),), points, points[:4]).save(checkpoint))


@cache
def _passes() -> bytes:
    return _saved(lambda checkpoint: checkpoint.save({}, coef=np.ones((5, 2))))


def _saved(save: Callable[[Checkpoint], None]) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        checkpoint = Checkpoint(Path(folder) / "fit.npz", "this fit")
        save(checkpoint)
        return checkpoint.path.read_bytes()


def skops_files(rng: Rng, folder: Path) -> str:
    """Files of skops: what still loads must predict or say why not."""
    path = folder / "model.skops"
    path.write_bytes(_damaged_archive(_skops(), rng))
    try:
        model = read_model(path)
        predicted = model.classes[model.codes(model.outputs(_IRIS[:5]))]
    except (ValueError, OSError) as error:
        check_sentence(error)
        return "refused"
    assert len(predicted) == 5
    return "accepted"


TARGETS = [
    Target("command-lines", "files", command_line, quick=40, weight=0.05),
    Target("command-fits", "fits", command_fit, quick=6, weight=0.1),
    Target("command-reports", "files", command_report, quick=8, weight=0.01),
    Target("summaries", "files", summaries, quick=5, weight=0.02),
    Target("checkpoints", "files", checkpoints, quick=60),
    Target("skops", "files", skops_files, quick=30, weight=0.2),
]
