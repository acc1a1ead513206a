"""kernlet fit: a machine from a table."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import click
import numpy as np

from kernlet.affine import AffineMap, scaler_bytes
from kernlet.cli.common import errors_of, show_training
from kernlet.compact.classifier import CompactKernelClassifier
from kernlet.compact.regressor import CompactKernelRegressor
from kernlet.console import plain_warnings, say
from kernlet.export.file import save
from kernlet.lp.l1 import L1KernelClassifier
from kernlet.lp.minimal import MinimalKernelClassifier
from kernlet.model.model import Model, as_model, plain
from kernlet.report.evaluate import fit_svc
from kernlet.rows.source import RowSource
from kernlet.tables.read import file_digest, note_batches, read_table
from kernlet.tables.split import Prepared, prepare

_LP_MACHINES = {"l1": L1KernelClassifier, "minimal": MinimalKernelClassifier}
_N_CANDIDATES = 300
# C of the linear programs weighs the sum of errors against the 1-norm of the coefficients. Errors
# grow with the rows and coefficients do not, so that C * n_rows is what stays constant.
_C_TIMES_ROWS = 5000.0
_MAX_C = 3.0
_CHECKPOINT = "streaming.npz"
_DEFAULT_MEMORY = 2 * 2**30  # bytes, where the system does not report its memory (Windows)
_SVC_ROWS, _SVC_TEST_ROWS = 5_000, 20_000  # read from a table that is not in memory


@dataclass(frozen=True)
class FitOptions:
    """The options of the command."""

    table: Path
    target: str | None
    centers: int | None
    max_bytes: int | None
    auto: bool
    regression: bool
    drop: tuple[str, ...]
    category: tuple[str, ...]
    scale: str
    test: float
    svc: bool
    seed: int
    jobs: int | None
    machine: str
    C: float | None
    checkpoint: Path | None
    memory: int | None
    output: Path

    def __post_init__(self) -> None:
        if self.machine == "compact":
            if self.C is not None or self.checkpoint is not None:
                raise ValueError("--C and --checkpoint are for --machine l1 and minimal.")
        elif self.regression or self.max_bytes is not None or self.auto:
            raise ValueError(
                f"--machine {self.machine} takes --centers, the number of rows that may become "
                "centers, but not --regression, --bytes or --auto."
            )


def run(**options: Any) -> None:
    """Read, prepare, train, test, save; print the results."""
    given = FitOptions(**options)
    with plain_warnings():
        data = _read(given)
        estimator = _estimator(given, data)
        say(f"training on {len(data.y):,} rows of {data.X.shape[1]} features")
        _train(estimator, data, given.checkpoint)
        model = _with_table(as_model(estimator), data)
        _test(model, data, given.svc and not given.regression, given.seed)
        save(model, given.output)
    _print_results(model, given.output)


def _read(given: FitOptions) -> Prepared:
    """The rows to train and test on; the summary says where they come from."""
    path, label = given.table, None if given.regression else given.target
    table = read_table(path, category=given.category, label=label, max_bytes=_memory(given.memory))
    if not table.in_memory:
        note_batches(path, table)
    with errors_of(path):
        data = prepare(
            table,
            given.target,
            regression=given.regression,
            drop=given.drop,
            scale=given.scale,
            test=given.test,
            seed=given.seed,
        )
    data.summary["data"] |= {"file": path.name, "sha256": file_digest(path)}
    data.summary["split"] = {"test": given.test, "seed": given.seed}
    return data


def _estimator(given: FitOptions, data: Prepared) -> Any:
    """The machine that the options ask for, not fitted."""
    if given.machine == "compact":
        make = CompactKernelRegressor if given.regression else CompactKernelClassifier
        return make(
            "auto" if given.auto else given.centers,
            max_bytes=_budget(given.max_bytes, data.scaler),
            n_jobs=given.jobs,
            random_state=given.seed,
        )
    n_rows = len(data.y)
    return _LP_MACHINES[given.machine](
        min(_MAX_C, _C_TIMES_ROWS / n_rows) if given.C is None else given.C,
        candidates=min(n_rows, given.centers or _N_CANDIDATES),
        tol=1e-6,
        checkpoint=given.checkpoint,
        n_jobs=given.jobs,
        random_state=given.seed,
    )


def _memory(memory: int | None) -> int:
    """Bytes that a table may take as float64: a quarter of the machine's memory by default."""
    if memory is not None:
        return memory
    if not hasattr(os, "sysconf"):
        return _DEFAULT_MEMORY
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 4


def _budget(max_bytes: int | None, scaler: AffineMap | None) -> int | None:
    """The bytes that a scaler leaves to the machine."""
    if max_bytes is None:
        return None
    used = scaler_bytes(scaler)
    if used >= max_bytes:
        raise ValueError(
            f"The scaler alone takes {used} of {max_bytes} bytes: raise --bytes, or add "
            "--scale none."
        )
    return max_bytes - used


def _train(estimator: Any, data: Prepared, checkpoint: Path | None) -> None:
    """Fit; after an interruption, say what can be resumed."""
    kept = None if checkpoint is None else checkpoint / _CHECKPOINT
    if kept is not None and kept.exists():
        say(f"resuming from the checkpoint in {checkpoint}")
    try:
        show_training(estimator).fit(data.X, data.y)
    except KeyboardInterrupt:
        if kept is not None and kept.exists():
            say(f"interrupted; the same command resumes from the checkpoint in {checkpoint}")
        elif kept is not None:
            say(f"interrupted before the first pass over all rows: no checkpoint in {checkpoint}")
        raise


def _with_table(model: Model, data: Prepared) -> Model:
    """The model with the encoding and the classes of its table."""
    return replace(
        model,
        # it was trained on indices of classes
        classes=model.classes if data.classes is None else data.classes[model.classes],
        scaler=data.scaler,
        encoding=data.encoding,
        feature_names=None if data.encoding is None else data.encoding.feature_names,
        summary=model.summary | data.summary,
    )


def _test(model: Model, data: Prepared, svc: bool, seed: int) -> None:
    """Measure the machine, and an SVC, on the held-out rows; into the summary."""
    if not len(data.y_test):
        return
    say(f"testing on {len(data.y_test):,} rows")
    outputs = _outputs(model, data.X_test)
    if data.classes is None:
        error = np.mean((outputs[:, 0] - data.y_test) ** 2)
        score = 1 - error / max(np.var(data.y_test), 1e-300)
    else:
        score = np.mean(model.classes[model.codes(outputs)] == data.classes[data.y_test])
    model.summary["test"] = {"score": float(score), "rows": len(data.y_test)}
    if svc:
        say("training an SVC for comparison")
        X, y = _sample(data.X, data.y, _SVC_ROWS)
        peer = fit_svc(X, y, random_state=seed)
        measured = peer.measured(*_sample(data.X_test, data.y_test, _SVC_TEST_ROWS))
        model.summary["svc"] = plain(measured)


def _outputs(model: Model, X: Any) -> Any:
    """Outputs for rows that are encoded and scaled already."""
    if not isinstance(X, RowSource):
        return model.expansion.decision_values(X)
    return np.concatenate([model.expansion.decision_values(block) for _, block in X.blocks()])


def _sample(X: Any, y: Any, max_rows: int) -> tuple[Any, Any]:
    """Rows in memory as they are; of a row source, a random sample."""
    if not isinstance(X, RowSource):
        return X, y
    numbers = np.sort(np.random.RandomState(0).permutation(len(y))[:max_rows])
    return X.take(numbers), y[numbers]


def _print_results(model: Model, output: Path) -> None:
    summary = model.summary
    if "duality_gap" in summary:
        click.echo(f"relative duality gap {summary['duality_gap']:.1e}")
    else:
        click.echo(summary.get("choice", ""))
    if "test" in summary:
        score, rows = summary["test"]["score"], summary["test"]["rows"]
        value = f"R2 {score:.4f}" if model.kind == "regressor" else f"accuracy {100 * score:.2f} %"
        click.echo(f"test {value} on {rows:,} held-out rows")
    click.echo(f"{model.expansion.n_centers} centers, {model.nbytes:,} bytes of tables")
    if "svc" in summary:
        peer = summary["svc"]
        click.echo(
            f"an SVC of {peer['training_rows']:,} rows: {100 * peer['accuracy']:.2f} %, "
            f"{peer['centers']:,} centers, {peer['nbytes']:,} bytes"
        )
    click.echo(f"wrote {output}")
