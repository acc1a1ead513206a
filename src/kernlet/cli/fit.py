"""kernlet fit: from a table to the file of a machine."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import click
import numpy as np
from sklearn.model_selection import train_test_split

from kernlet.affine import AffineMap
from kernlet.cli.models import errors_of
from kernlet.cli.progress import plain_warnings, say, show_training
from kernlet.cli.reading import Table, file_digest, gaps, read_table
from kernlet.cli.scaling import choose_scaler
from kernlet.estimators import CompactKernelClassifier, CompactKernelRegressor
from kernlet.export import ShippedModel, save, ship
from kernlet.export.encoding import CategoryColumn, ColumnEncoding, as_numbers
from kernlet.export.scaling import scaler_bytes
from kernlet.export.summary import plain
from kernlet.report.peers import fit_svc

_MANY_NUMBERS = 50  # different numbers from which a target is no class


@dataclass(frozen=True, eq=False)
class Prepared:
    """Rows to train on and to test with."""

    X: Any
    y: Any
    X_test: Any
    y_test: Any
    encoding: ColumnEncoding | None
    scaler: AffineMap | None
    summary: dict[str, Any]


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
    output: Path,
) -> None:
    """Read, prepare, train, test, save; print what came out."""
    with plain_warnings():
        read = read_table(table, category=category, label=None if regression else target)
        with errors_of(table):
            data = prepare(_without(read, drop), target, regression, scale, test, seed)
        del read
        data.summary["data"] |= {"file": table.name, "sha256": file_digest(table)}
        data.summary["split"] = {"test": test, "seed": seed}
        kind = CompactKernelRegressor if regression else CompactKernelClassifier
        size = "auto" if auto else centers
        budget = _budget(max_bytes, data.scaler)
        machine = kind(size, max_bytes=budget, n_jobs=jobs, random_state=seed)
        say(f"training on {len(data.X):,} rows of {data.X.shape[1]} features")
        show_training(machine).fit(data.X, data.y)
        shipped = _shipped(machine, data)
        _test(shipped, data, svc and not regression, seed)
        save(shipped, output)
    _tell(shipped, output)


def prepare(
    table: Table, target: str | None, regression: bool, scale: str, test: float, seed: int
) -> Prepared:
    """Labels, encoding, scaling and the rows kept aside."""
    rows, y = table.split_target(target)
    summary = _summary(rows, y, target, regression)
    if rows.columns is not None and not rows.columns:
        raise ValueError("The table has no column besides the target.")
    kept, held_out = split_rows(y, test, seed, regression)
    _require_enough(y, kept, regression)
    encoding, X = None, rows.X
    if rows.columns is not None:
        say(f"encoding {len(rows.columns)} columns")
        _require_numbers(rows.columns)
        encoding = ColumnEncoding.learned({k: v[kept] for k, v in rows.columns.items()})
        _note_names_of_rows(encoding, len(kept))
        X = encoding.transform(rows.columns)
    is_category = None if encoding is None else encoding.is_category
    scaler, words = choose_scaler(X[kept], scale, is_category)
    summary["scaling"] = words
    say(f"scaling: {words}")
    if scaler is not None:
        X = scaler(X)
    return Prepared(X[kept], y[kept], X[held_out], y[held_out], encoding, scaler, summary)


def _require_enough(y: Any, kept: Any, regression: bool) -> None:
    if len(kept) < 2 or not (regression or len(np.unique(y[kept])) > 1):
        raise ValueError(
            f"Of {len(y)} rows, the {len(kept)} to train on are too few, or of one class only: "
            "give more rows, or another --test or --seed."
        )


def _require_numbers(columns: dict[str, Any]) -> None:
    """Name the row of the file that is wrong, before the rows are split."""
    for name, values in columns.items():
        if values.dtype.kind == "f":
            as_numbers(values, name)


def _note_names_of_rows(encoding: ColumnEncoding, n_rows: int) -> None:
    """Say which columns are texts that hardly repeat."""
    for column in encoding.columns:
        count = len(column.categories) if isinstance(column, CategoryColumn) else 0
        if 2 * count > max(n_rows, 8):
            say(
                f"note: column {column.name!r} has {count} different texts in {n_rows} rows; ids, "
                f"dates and the like teach nothing: --drop {column.name} leaves it out"
            )


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


def _without(table: Table, drop: tuple[str, ...]) -> Table:
    if not drop:
        return table
    if table.columns is None:
        raise ValueError("--drop is for tables of named columns.")
    unknown = [name for name in drop if name not in table.columns]
    if unknown:
        raise ValueError(f"There is no column {unknown[0]!r} to drop.")
    return Table({k: v for k, v in table.columns.items() if k not in drop})


def split_rows(y: Any, test: float, seed: int, regression: bool) -> tuple[Any, Any]:
    """Rows to train on, and rows kept aside; the same ones for the same table."""
    numbers = np.arange(len(y))
    if not test:
        return numbers, numbers[:0]
    _, counts = np.unique(y, return_counts=True)
    stratify = None if regression or counts.min() < 2 or test * len(y) < len(counts) else y
    kept, held_out = train_test_split(numbers, test_size=test, random_state=seed, stratify=stratify)
    return np.sort(kept), np.sort(held_out)


def _summary(rows: Table, y: Any, target: str | None, regression: bool) -> dict[str, Any]:
    data: dict[str, Any] = {"rows": len(y), "target": target}
    if rows.columns is not None:
        data["columns"] = len(rows.columns)
        data["missing"] = {
            name: n for name, values in rows.columns.items() if (n := int(gaps(values).sum()))
        }
    if regression:
        if y.dtype.kind not in "iuf":
            raise ValueError(f"The target {target!r} holds texts; --regression needs numbers.")
        return {"data": data | {"target range": [float(y.min()), float(y.max())]}}
    labels, counts = np.unique(y, return_counts=True)
    if len(labels) < 2:
        raise ValueError(f"The target has one class only, {str(labels[0])!r}: nothing to learn.")
    if y.dtype.kind == "f" and len(labels) > _MANY_NUMBERS:
        raise ValueError(
            f"The target has {len(labels)} different numbers: say --regression to predict them."
        )
    if len(labels) > 1000:
        raise ValueError(f"The target has {len(labels)} classes, too many to learn.")
    data["classes"] = {str(k): int(n) for k, n in zip(labels, counts, strict=True)}
    return {"data": data}


def _shipped(machine: Any, data: Prepared) -> ShippedModel:
    shipped = ship(machine)
    names = data.encoding.feature_names if data.encoding is not None else None
    return replace(
        shipped,
        scaler=data.scaler,
        encoding=data.encoding,
        feature_names=names,
        summary=shipped.summary | data.summary,
    )


def _test(shipped: ShippedModel, data: Prepared, svc: bool, seed: int) -> None:
    """Measure the machine, and an SVC, on the rows kept aside; into the summary."""
    if not len(data.y_test):
        return
    say(f"testing on {len(data.y_test):,} rows")
    outputs = shipped.expansion.decision_values(data.X_test)
    if shipped.kind == "regressor":
        error = np.mean((outputs[:, 0] - data.y_test) ** 2)
        score = 1 - error / max(np.var(data.y_test), 1e-300)
    else:
        score = np.mean(shipped.classes[shipped.codes(outputs)] == data.y_test)
    shipped.summary["test"] = {"score": float(score), "rows": len(data.y_test)}
    if svc:
        say("an SVC to compare with")
        peer = fit_svc(data.X, data.y, random_state=seed)
        measured = peer.measured(data.X_test, data.y_test)
        shipped.summary["svc"] = plain(measured)


def _tell(shipped: ShippedModel, output: Path) -> None:
    summary = shipped.summary
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
