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
from kernlet.export.code_size import CodeSize
from kernlet.export.onnx import to_onnx
from kernlet.export.targets import TARGETS, to_package

if TYPE_CHECKING:
    from kernlet.tables.read import TableFile


def run(
    *,
    model: Path,
    kind: str,
    arithmetic: str | None,
    storage: str,
    exp: str,
    table: TableFile | None,
    target: str | None,
    output: Path,
) -> None:
    """Export, check, and print what came out."""
    if target is not None and table is None:
        raise click.UsageError("--target names a column of a table: give --table too.")
    _check_options(kind, arithmetic, storage, exp)
    machine = read_model(model, predicts=False)
    X = y = None
    if table is not None:
        from kernlet.cli.rows import labelled_rows

        # accuracies are not measured for ONNX
        X, y = labelled_rows(
            machine, table, target, required=False, note=kind != "onnx", encoded=False
        )
    # the functions in the code are named after the model file
    name = file_identifier(model.stem)
    if kind == "onnx":
        _write_graph(machine, X, output)
    elif kind == "c":
        _write_c(machine, output, storage, X=X, y=y, exp=exp, name=name)
    else:
        package = to_package(
            *(machine, output, kind),
            X=X,
            y=y,
            name=name,
            arithmetic=arithmetic or "auto",
            storage=storage,
        )
        for line in package.notes:
            click.echo(line)
        click.echo(f"wrote {TARGETS[kind].writes}: {', '.join(map(printable, package.files))}")


def _check_options(kind: str, arithmetic: str | None, storage: str, exp: str) -> None:
    """Refuse options that a format does not have, before the model is read."""
    if kind == "onnx" and (storage, exp) != ("auto", "polynomial"):
        raise click.UsageError("--storage and --exp are options of C; ONNX graphs hold float32.")
    if kind == "onnx" and arithmetic == "integer":
        raise click.UsageError("--arithmetic integer is not for ONNX, whose graphs hold float32.")
    if kind != "c" and exp != "polynomial":
        raise click.UsageError("--exp is an option of --to c.")
    if kind == "c" and arithmetic == "integer":
        raise click.UsageError("--arithmetic integer is not available for C in this version.")
    if kind not in ("c", "onnx", *TARGETS):
        raise click.UsageError(f"--to {kind} is not available in this version.")


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
    _print_sizes(machine, source)
    click.echo("wrote " + ", ".join(printable(path) for path in source.files))


def _print_sizes(machine: Any, source: CSource) -> None:
    """Print the sizes of the code for each target, with both exponentials."""
    other = "libm" if source.exp == "polynomial" else "polynomial"
    with tempfile.TemporaryDirectory() as folder:
        alternative = to_c(machine, folder, source.storage, exp=other, name=source.name)
        others = {size.target: size.flash for size in alternative.size_report()}
    smaller: list[str] = []
    larger: list[str] = []
    for size in source.size_report():
        other_flash, comparison = others[size.target], ""
        if size.flash is not None and other_flash is not None and size.flash != other_flash:
            comparison = f" ({other_flash:,} with --exp {other})"
            (smaller if size.flash < other_flash else larger).append(size.target)
        click.echo(f"{size.target}: {_size_text(size, comparison)}")
    for verdict, targets in (("smaller", smaller), ("larger", larger)):
        if targets:
            places = ", ".join(targets)
            click.echo(f"exponential: {source.exp}, linked {verdict} than {other} on {places}")


def _size_text(size: CodeSize, comparison: str) -> str:
    if size.own is None:
        return size.problem
    flash = f", {size.flash:,} bytes of flash with the run-time library" if size.flash else ""
    problem = f"; {size.problem}" if size.problem else ""
    return (
        f"{size.own:,} bytes of code and tables{flash}{comparison}; {size.ram} of RAM, at most "
        f"{size.stack} of stack{problem}"
    )
