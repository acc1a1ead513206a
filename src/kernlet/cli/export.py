"""kernlet export: C99 source or an ONNX graph."""

from __future__ import annotations

from pathlib import Path

import click

from kernlet.atomic import atomic_write
from kernlet.cli.common import labelled_rows, read_model
from kernlet.export.c import c_identifier, to_c
from kernlet.export.onnx import to_onnx
from kernlet.tables.read import TableFile


def run(
    *,
    model: Path,
    kind: str,
    storage: str,
    exp: str,
    table: TableFile | None,
    target: str | None,
    output: Path,
) -> None:
    """Export, check, and print what came out."""
    machine = read_model(model)
    X, y = labelled_rows(machine, table, target, required=False)
    if kind == "onnx":
        graph = to_onnx(machine, X=X)
        with atomic_write(output) as temporary:
            temporary.write_bytes(graph.SerializeToString())
        click.echo(f"wrote {output} ({output.stat().st_size:,} bytes), checked with onnxruntime")
        return
    # the functions in C are named after the model file
    name = c_identifier(model.stem)
    source = to_c(machine, output, storage, X=X, y=y, exp=exp, name=name)
    click.echo(f"{source.table_bytes:,} bytes of tables, held as {storage}")
    click.echo(f"before and after, on {source.rounding.n_rows:,} {source.rounding.rows}:")
    for line in source.rounding.lines():
        click.echo(f"  {line}")
    for size in source.size_report():
        if size.flash is None:
            click.echo(f"{size.target}: does not compile ({size.problem})")
        else:
            click.echo(
                f"{size.target}: {size.flash:,} bytes of flash, {size.ram} of RAM, at most "
                f"{size.stack} of stack"
            )
    click.echo("wrote " + ", ".join(str(path) for path in source.files))
