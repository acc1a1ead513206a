"""The machine that kernlet fit trains."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import click
import numpy as np

from kernlet.affine import AffineMap, scaler_bytes
from kernlet.cli.common import errors_of
from kernlet.compact.classifier import CompactKernelClassifier
from kernlet.compact.regressor import CompactKernelRegressor
from kernlet.console import plain_warnings, say, show_training
from kernlet.export.file import save
from kernlet.lp.l1 import L1KernelClassifier
from kernlet.lp.minimal import MinimalKernelClassifier
from kernlet.model.model import Model, as_model, plain
from kernlet.report.evaluate import fit_svc
from kernlet.rows.source import RowSource
from kernlet.tables.read import file_digest, read_table
from kernlet.tables.split import Prepared, is_large, note_rows, prepare, prepare_large, without

_CANDIDATES = 300
_ERRORS = 5000.0  # C times the number of rows
_EXACT = {"l1": L1KernelClassifier, "minimal": MinimalKernelClassifier}


@dataclass(frozen=True)
class MachineChoice:
    """What the options say of the machine.

    Parameters
    ----------
    kind : {"compact", "l1", "minimal"}
    size : int, "auto" or None
        Centers of a compact machine, candidates of the others.
    C : float or None
        Of the others; None for 5,000 over the number of rows, 3 at most.
    checkpoint : Path or None
        Of the others, the folder in which the machine of every pass is kept.
    jobs : int or None
    seed : int
    """

    kind: str
    size: Any
    C: float | None
    checkpoint: Path | None
    jobs: int | None
    seed: int

    def require(self, *, regression: bool, max_bytes: int | None) -> None:
        """Refuse options that do not go together."""
        if self.kind == "compact":
            if self.C is not None or self.checkpoint is not None:
                raise ValueError("--C and --checkpoint are for --machine l1 and minimal.")
        elif regression or max_bytes is not None or self.size == "auto":
            raise ValueError(
                f"--machine {self.kind} takes --centers, the points that it may choose from, and "
                "neither --regression, --bytes nor --auto."
            )

    def make(self, n_rows: int, *, regression: bool, max_bytes: int | None) -> Any:
        """The machine, not fitted yet."""
        if self.kind == "compact":
            make = CompactKernelRegressor if regression else CompactKernelClassifier
            return make(self.size, max_bytes=max_bytes, n_jobs=self.jobs, random_state=self.seed)
        return _EXACT[self.kind](
            min(3.0, _ERRORS / n_rows) if self.C is None else self.C,
            candidates=min(n_rows, self.size or _CANDIDATES),
            tol=1e-6,
            checkpoint=self.checkpoint,
            n_jobs=self.jobs,
            random_state=self.seed,
        )


def run(
    *,
    table: Path,
    target: str | None,
    centers: int | None,
    max_bytes: int | None,
    auto: bool,
    regression: bool,
    drop: tuple[str, ...],
    category: tuple[str, ...],
    scale: str,
    test: float,
    svc: bool,
    seed: int,
    jobs: int | None,
    machine: str,
    C: float | None,
    checkpoint: Path | None,
    memory: int | None,
    output: Path,
) -> None:
    """Read, prepare, train, test, save; print what came out."""
    choice = MachineChoice(machine, "auto" if auto else centers, C, checkpoint, jobs, seed)
    choice.require(regression=regression, max_bytes=max_bytes)
    with plain_warnings():
        with errors_of(table):
            is_piecewise = is_large(table, memory)
        if is_piecewise:
            note_rows(table)
            with errors_of(table):
                data = prepare_large(table, target, regression, drop, category, scale, test, seed)
        else:
            read = read_table(table, category=category, label=None if regression else target)
            with errors_of(table):
                data = prepare(without(read, drop), target, regression, scale, test, seed)
            del read
        data.summary["data"] |= {"file": table.name, "sha256": file_digest(table)}
        data.summary["split"] = {"test": test, "seed": seed}
        budget = _budget(max_bytes, data.scaler)
        estimator = choice.make(len(data.y), regression=regression, max_bytes=budget)
        say(f"training on {len(data.y):,} rows of {data.X.shape[1]} features")
        _train(estimator, data, checkpoint)
        shipped = _shipped(estimator, data)
        _test(shipped, data, svc and not regression, seed)
        save(shipped, output)
    _tell(shipped, output)


def _train(machine: Any, data: Prepared, checkpoint: Path | None) -> None:
    """Fit; an interruption says what is left of it."""
    if checkpoint is not None and (checkpoint / "tall.npz").exists():
        say(f"going on from the machine in {checkpoint}")
    try:
        show_training(machine).fit(data.X, data.y)
    except KeyboardInterrupt:
        if checkpoint is not None and (checkpoint / "tall.npz").exists():
            say(f"interrupted; the same command goes on from the machine kept in {checkpoint}")
        elif checkpoint is not None:
            say(f"interrupted before a pass over all rows: nothing is kept in {checkpoint}")
        raise


def _budget(max_bytes: int | None, scaler: AffineMap | None) -> int | None:
    """The bytes that a scaler leaves to the machine."""
    if max_bytes is None:
        return None
    taken = scaler_bytes(scaler)
    if taken >= max_bytes:
        raise ValueError(
            f"The scaler alone takes {taken} of {max_bytes} bytes: raise --bytes, or say "
            "--scale none."
        )
    return max_bytes - taken


def _shipped(machine: Any, data: Prepared) -> Model:
    shipped = as_model(machine)
    names = data.encoding.feature_names if data.encoding is not None else None
    return replace(
        shipped,
        classes=shipped.classes if data.classes is None else data.classes[shipped.classes],
        scaler=data.scaler,
        encoding=data.encoding,
        feature_names=names,
        summary=shipped.summary | data.summary,
    )


def _test(shipped: Model, data: Prepared, svc: bool, seed: int) -> None:
    """Measure the machine, and an SVC, on the rows kept aside; into the summary."""
    if not len(data.y_test):
        return
    say(f"testing on {len(data.y_test):,} rows")
    outputs = _outputs(shipped, data.X_test)
    if shipped.kind == "regressor":
        error = np.mean((outputs[:, 0] - data.y_test) ** 2)
        score = 1 - error / max(np.var(data.y_test), 1e-300)
    else:
        y_test = data.y_test if data.classes is None else data.classes[data.y_test]
        score = np.mean(shipped.classes[shipped.codes(outputs)] == y_test)
    shipped.summary["test"] = {"score": float(score), "rows": len(data.y_test)}
    if svc:
        say("an SVC to compare with")
        shipped.summary["svc"] = plain(_measured_svc(data, seed))


def _outputs(shipped: Model, X: Any) -> Any:
    """Outputs for rows that are encoded and scaled already."""
    if not isinstance(X, RowSource):
        return shipped.expansion.decision_values(X)
    return np.concatenate([shipped.expansion.decision_values(block) for _, block in X.blocks()])


def _measured_svc(data: Prepared, seed: int) -> dict[str, Any]:
    if not isinstance(data.X, RowSource):
        return fit_svc(data.X, data.y, random_state=seed).measured(data.X_test, data.y_test)
    some = (_some(data.X, data.y, 5_000), _some(data.X_test, data.y_test, 20_000))
    return fit_svc(*some[0], random_state=seed).measured(*some[1])


def _some(X: RowSource, y: Any, most: int) -> tuple[Any, Any]:
    """Rows of a source and their labels, some where they are many."""
    numbers = np.sort(np.random.RandomState(0).permutation(len(y))[:most])
    return X.take(numbers), y[numbers]


def _tell(shipped: Model, output: Path) -> None:
    summary = shipped.summary
    if "duality_gap" in summary:
        click.echo(f"relative duality gap {summary['duality_gap']:.1e}")
    else:
        click.echo(summary.get("choice", ""))
    if "test" in summary:
        what = "R2" if shipped.kind == "regressor" else "accuracy"
        score, rows = summary["test"]["score"], summary["test"]["rows"]
        value = f"{score:.4f}" if what == "R2" else f"{100 * score:.2f} %"
        click.echo(f"test {what} {value} on {rows:,} rows kept aside")
    click.echo(f"{shipped.expansion.n_centers} centers, {shipped.nbytes:,} bytes of tables")
    if "svc" in summary:
        peer = summary["svc"]
        click.echo(
            f"an SVC of {peer['training_rows']:,} rows: {100 * peer['accuracy']:.2f} %, "
            f"{peer['centers']:,} centers, {peer['nbytes']:,} bytes"
        )
    click.echo(f"wrote {output}")
