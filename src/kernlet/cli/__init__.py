"""The command line; each command imports what it needs when it runs, for a quick --help."""

import os
from functools import partial
from pathlib import Path
from typing import Any

import click

from kernlet import __version__

_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)
_TABLE = click.Path(exists=True, path_type=Path)
_FOLDER = click.Path(file_okay=False, path_type=Path)


class CommandGroup(click.Group):
    """Commands that report wrong input in one sentence, with exit status 1."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command."""
        try:
            return super().invoke(ctx)
        except (ValueError, OSError, ImportError) as error:
            message = str(error).strip() or type(error).__name__
            raise click.ClickException(" ".join(message.split())) from error


class ByteCount(click.ParamType):
    """A number of bytes: 16000, 16k or 16Ki."""

    name = "bytes"

    def convert(self, value: Any, param: Any, ctx: Any) -> int:
        """The number."""
        if isinstance(value, int):
            return value
        units = {"k": 1000, "m": 1000**2, "g": 1000**3, "": 1}
        units |= {"ki": 1024, "mi": 1024**2, "gi": 1024**3}
        text = value.strip().lower().removesuffix("b")
        digits = text.rstrip("kmgi")
        if not digits.isdecimal() or text[len(digits) :] not in units:
            self.fail(
                f"{value!r} is not a number of bytes, such as 16000, 16k or 16Ki.", param, ctx
            )
        return int(digits) * units[text[len(digits) :]]


def _new_file(ctx: click.Context, param: click.Parameter, path: Path | None) -> Path | None:
    """Check that the output can be written, before any work is done for it."""
    if path is None:
        return None
    if ctx.params.get("kind") == "c":  # export writes C to a folder, and makes it
        if path.exists() and not path.is_dir():
            raise click.BadParameter(f"{path} is a file; name a folder.", ctx, param)
        return path
    if path.is_dir():
        raise click.BadParameter(f"{path} is a folder; name a file.", ctx, param)
    if not path.parent.is_dir():
        raise click.BadParameter(f"there is no folder {path.parent}; create it first.", ctx, param)
    if not path.exists() and not os.access(path.parent, os.W_OK):
        raise click.BadParameter(f"the folder {path.parent} is not writable.", ctx, param)
    return path


_output = partial(
    click.option, "-o", "--output", type=click.Path(path_type=Path), callback=_new_file
)
_seed = partial(
    click.option, "--seed", type=click.IntRange(0, 2**32 - 1), default=0, show_default=True
)


def _choice(name: str, *choices: str, **options: Any) -> Any:
    """An option with a few values, the first of which is the default."""
    kind = click.Choice(choices)
    return click.option(name, type=kind, default=choices[0], show_default=True, **options)


@click.group(cls=CommandGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="kernlet")
def main() -> None:
    """Train, shrink and ship kernel machines that depend on very few points.

    Tables are CSV (with a header), TSV, Parquet, LIBSVM rows or .npz files, or a folder of Parquet
    files.
    """


@main.command("demo")
@click.option(
    "--folder", type=_FOLDER, default="demo", show_default=True, help="For pictures and table."
)
def run_demo(folder: Path) -> None:
    """Compare SVC and kernlet on a checkerboard and on digits."""
    from kernlet.cli.demo import run

    run(folder)


@main.command("fit")
@click.argument("table", type=_TABLE)
@click.option("--target", help="The column to predict; not needed for LIBSVM and .npz.")
@click.option("--centers", type=click.IntRange(1), help="Number of centers.")
@click.option("--bytes", "max_bytes", type=ByteCount(), help="Bytes it may take, such as 16k.")
@click.option("--auto", is_flag=True, help="The fewest centers that are as accurate as more.")
@click.option("--regression", is_flag=True, help="Predict a number instead of a class.")
@click.option("--drop", multiple=True, metavar="COLUMN", help="Leave a column out.")
@click.option("--category", multiple=True, metavar="COLUMN", help="Its numbers are names.")
@_choice(
    *("--scale", "auto", "standard", "none"),
    help="Standardise columns; auto does so where their ranges differ much.",
)
@click.option(
    "--test",
    type=click.FloatRange(0, 0.9),
    default=0.2,
    show_default=True,
    help="Share of the rows that is held out for testing.",
)
@click.option("--svc/--no-svc", default=True, help="Compare with an SVC on at most 5,000 rows.")
@_seed()
@click.option("--jobs", type=int, default=None, help="Parallel trials; -1 for all cores.")
@_choice(
    *("--machine", "compact", "l1", "minimal"),
    help="compact: trained centers. l1, minimal: linear programs over --centers random rows.",
)
@click.option(
    *("--C", "C"),
    type=click.FloatRange(0, min_open=True),
    help="Cost of errors, for l1 and minimal; by default 5000 / number of rows, at most 3.",
)
@click.option(
    "--checkpoint",
    type=_FOLDER,
    help="Folder in which l1 and minimal save every pass, to resume from.",
)
@click.option(
    "--memory",
    type=ByteCount(),
    help="Bytes that the table may take, such as 4G; larger Parquet is read in batches.",
)
@_output(required=True, help="The file of the machine.")
def run_fit(**options: Any) -> None:
    """Train a machine on a table and measure it on held-out rows.

    Texts and booleans become one 0/1 feature per category. A missing number is replaced by the
    median; missing texts are a category. This encoding is saved with the machine.
    """
    sizes = [name for name in ("centers", "max_bytes", "auto") if options[name]]
    if len(sizes) > 1:
        raise click.UsageError("--centers, --bytes and --auto each choose a size; give one.")
    from kernlet.cli.fit import run

    run(**options)


@main.command("predict")
@click.argument("model", type=_FILE)
@click.argument("table", type=_TABLE)
@_output(help="A CSV file, or Parquet by its name; CSV on standard output unless given.")
def run_predict(model: Path, table: Path, output: Path | None) -> None:
    """Predict every row of a table; Parquet is read one row group at a time."""
    from kernlet.cli.predict import run

    run(model, table, output)


@main.command("compress")
@click.argument("model", type=_FILE)
@click.argument("table", type=_FILE, required=False)
@click.option("--target", help="The column of the labels in TABLE.")
@click.option("--centers", default="100", show_default=True, help='A number, or "auto".')
@_seed()
@_output(required=True, help="The file of the smaller machine.")
def run_compress(**options: Any) -> None:
    """Rebuild a machine from few centers.

    MODEL is a LIBSVM model file, a skops file or a kernlet file. The rows of TABLE, preferably not
    those it was trained on, determine the coefficients and measure the loss in accuracy.
    """
    from kernlet.cli.compress import run

    run(**options)


@main.command("export")
@click.argument("model", type=_FILE)
# eager: --output is checked by what is written to it
@click.option("--to", "kind", type=click.Choice(["c", "onnx"]), required=True, is_eager=True)
@_choice(
    *("--storage", "float32", "float16", "int8", "stored"),
    help="Number format of the C tables; stored: as the machine has them.",
)
@_choice(*("--exp", "libm", "polynomial"), help="The exponential function of the C code.")
@click.option("--table", type=_FILE, help="Rows to check the export on.")
@click.option("--target", help="The column of the labels in the table.")
@_output(required=True, help="A folder for C, a file for ONNX.")
def run_export(**options: Any) -> None:
    """Write a machine as C99 source or as an ONNX graph."""
    from kernlet.cli.export import run

    run(**options)


@main.command("report")
@click.argument("model", type=_FILE)
@click.argument("table", type=_FILE)
@click.option("--target", help="The column of the labels; by default that of the training.")
@click.option("--sizes/--no-sizes", default=True, help="Also train other sizes and an SVC.")
@_output(default=Path("report.html"), show_default=True)
def run_report(**options: Any) -> None:
    """Write one page on how accurate a machine is on the rows of a table."""
    from kernlet.cli.report import run

    run(**options)
