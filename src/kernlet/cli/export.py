"""kernlet export: C99 source, an ONNX graph, or a package for a system."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kernlet.atomic import atomic_write
from kernlet.cli.common import read_model
from kernlet.console import printable
from kernlet.export.c import CSource, to_c
from kernlet.export.c_names import file_identifier
from kernlet.export.code_size import size_lines
from kernlet.export.onnx import to_onnx
from kernlet.export.targets import TARGETS, to_package
from kernlet.integer.machine import bound_lines

if TYPE_CHECKING:
    from kernlet.tables.read import TableFile


def run(
    *,
    model: Path,
    kind: str,
    arithmetic: str | None,
    single_header: bool,
    storage: str,
    exp: str,
    table: TableFile | None,
    target: str | None,
    output: Path,
) -> None:
    """Export, check, and print what came out."""
    if target is not None and table is None:
        raise click.UsageError("--target names a column of a table: give --table too.")
    _check_options(kind, arithmetic, storage, exp, single_header)
    machine = read_model(model, predicts=False)
    X = y = None
    if table is not None:
        from kernlet.cli.rows import labelled_rows

        # accuracies are not measured for ONNX and JavaScript
        note = kind not in ("onnx", "javascript")
        X, y = labelled_rows(machine, table, target, required=False, note=note, encoded=False)
    # the functions in the code are named after the model file
    options: dict[str, Any] = {"X": X, "y": y, "name": file_identifier(model.stem)}
    if kind == "onnx":
        _write_graph(machine, X, output)
    elif kind == "c":
        options["arithmetic"] = arithmetic or "float"
        _write_c(machine, output, storage, exp=exp, single_header=single_header, **options)
    else:
        options["arithmetic"] = arithmetic or "auto"
        _write_package(machine, output, kind, storage, **options)


def _check_options(
    kind: str, arithmetic: str | None, storage: str, exp: str, single_header: bool
) -> None:
    """Refuse options that a format does not have, before the model is read."""
    if kind not in ("c", "onnx", *TARGETS):
        raise click.UsageError(f"--to {kind} is not available in this version.")
    if arithmetic is not None and kind in TARGETS and arithmetic not in TARGETS[kind].arithmetics:
        taken = " and ".join(TARGETS[kind].arithmetics)
        raise click.UsageError(f"--to {kind} computes in {taken} arithmetic only.")
    if kind == "onnx" and (storage, exp) != ("auto", "polynomial"):
        raise click.UsageError("--storage and --exp are options of C; ONNX graphs hold float32.")
    if kind == "onnx" and arithmetic == "integer":
        raise click.UsageError("--arithmetic integer is not for ONNX, whose graphs hold float32.")
    if kind != "c" and (exp != "polynomial" or single_header):
        raise click.UsageError("--exp and --single-header are options of --to c.")
    if arithmetic == "integer" and exp != "polynomial":
        raise click.UsageError("--exp is for --arithmetic float; integers have their own.")


def _write_graph(machine: Any, X: Any, output: Path) -> None:
    graph = to_onnx(machine, X=X)
    with atomic_write(output) as temporary:
        temporary.write_bytes(graph.SerializeToString())
    size = output.stat().st_size
    click.echo(f"wrote {printable(output)} ({size:,} bytes), checked with onnxruntime")


def _write_c(machine: Any, output: Path, storage: str, **options: Any) -> None:
    source = to_c(machine, output, storage, **options)
    chosen = " (the machine's own)" if storage == "auto" and source.storage == "stored" else ""
    click.echo(f"{source.table_bytes:,} bytes of tables, held as {source.storage}{chosen}")
    click.echo(f"before and after, on {source.rounding.n_rows:,} {source.rounding.rows}:")
    for line in source.rounding.lines():
        click.echo(f"  {line}")
    for line in bound_lines(source.bounds):
        click.echo(line)
    _print_sizes(machine, source)
    click.echo("wrote " + ", ".join(printable(path) for path in source.files))


def _write_package(machine: Any, output: Path, target: str, storage: str, **options: Any) -> None:
    package = to_package(machine, output, target, storage=storage, **options)
    for line in package.notes:
        click.echo(line)
    if TARGETS[target].has_storage:  # made of C, which is counted with its test program
        options |= {"arithmetic": package.arithmetic, "name": package.name}
        with tempfile.TemporaryDirectory() as folder:
            for line in size_lines(to_c(machine, folder, storage, **options).size_report()):
                click.echo(line)
    click.echo(f"wrote {TARGETS[target].writes}: {', '.join(map(printable, package.files))}")


def _print_sizes(machine: Any, source: CSource) -> None:
    """Print what the code takes on each target, and the flash with the other exponential."""
    sizes = source.size_report()
    for line in size_lines(sizes):
        click.echo(line)
    if source.arithmetic == "integer":
        return  # no exponential is called
    other = "libm" if source.exp == "polynomial" else "polynomial"
    with tempfile.TemporaryDirectory() as folder:
        alternative = to_c(machine, folder, source.storage, exp=other, name=source.name)
        others = {size.target: size.flash for size in alternative.size_report(emulate=False)}
    differences = []
    for size in sizes:
        flash, other_flash = size.flash, others[size.target]
        if flash is not None and other_flash is not None and flash != other_flash:
            differences.append(f"{flash - other_flash:+,} on {size.target}")
    if differences:
        click.echo(f"--exp {source.exp} against {other}, bytes of flash: {', '.join(differences)}")
