"""The command line; each command imports what it needs when it runs."""

import os
from pathlib import Path
from typing import Any

import click

from kernlet import __version__

_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)
_TABLE = click.Path(exists=True, path_type=Path)
_OUT = click.Path(path_type=Path)
_SEED = click.IntRange(0, 2**32 - 1)


def _new_file(ctx: click.Context, param: click.Parameter, path: Path | None) -> Path | None:
    """A file that can be written, found out before anything is done for it."""
    if path is not None and path.is_dir():
        raise click.BadParameter(f"{path} is a folder; name a file.", ctx, param)
    return _inside_folder(ctx, param, path)


def _new_folder(ctx: click.Context, param: click.Parameter, path: Path | None) -> Path | None:
    """A file, or the folder that C is written to."""
    if ctx.params.get("kind") != "c":
        return _new_file(ctx, param, path)
    if path is not None and path.exists() and not path.is_dir():
        raise click.BadParameter(f"{path} is a file; name a folder.", ctx, param)
    return path


def _inside_folder(ctx: click.Context, param: click.Parameter, path: Path | None) -> Path | None:
    if path is not None and not path.parent.is_dir():
        raise click.BadParameter(f"there is no folder {path.parent}; make it first.", ctx, param)
    if path is not None and not path.exists() and not os.access(path.parent, os.W_OK):
        raise click.BadParameter(f"nothing can be written in {path.parent}.", ctx, param)
    return path


class OneSentence(click.Group):
    """A group whose commands end with one sentence where input is wrong (exit status 1)."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command."""
        try:
            return super().invoke(ctx)
        except (ValueError, OSError, ImportError) as error:
            said = str(error).strip() or type(error).__name__
            raise click.ClickException(" ".join(said.split())) from error


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
            self.fail(f"{value!r} is no number of bytes, such as 16000, 16k or 16Ki.", param, ctx)
        return int(digits) * units[text[len(digits) :]]


@click.group(cls=OneSentence, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="kernlet")
def main() -> None:
    """Train, shrink and ship kernel machines that depend on very few points.

    Tables are CSV (with a line of column names), TSV, Parquet, LIBSVM rows or .npz files, or a
    folder of Parquet files.
    """


@main.command("demo")
@click.option(
    "--folder",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("demo"),
    show_default=True,
    help="Where the pictures and the table go.",
)
def run_demo(folder: Path) -> None:
    """Compare SVC and kernlet on a checkerboard and on digits."""
    from kernlet.cli.demo import run

    run(folder)


@main.command("fit")
@click.argument("table", type=_TABLE)
@click.option("--target", help="The column to predict; not needed for LIBSVM and .npz.")
@click.option("--centers", type=click.IntRange(1), help="Points the machine may depend on.")
@click.option("--bytes", "max_bytes", type=ByteCount(), help="Bytes it may take, such as 16k.")
@click.option("--auto", is_flag=True, help="The fewest centers that do as well as more.")
@click.option("--regression", is_flag=True, help="Predict a number instead of a class.")
@click.option("--drop", multiple=True, metavar="COLUMN", help="Leave a column out.")
@click.option("--category", multiple=True, metavar="COLUMN", help="Numbers that are names.")
@click.option(
    "--scale",
    type=click.Choice(["auto", "standard", "none"]),
    default="auto",
    show_default=True,
    help="Bring columns to one scale; auto does so where they are unlike.",
)
@click.option(
    "--test",
    type=click.FloatRange(0, 0.9),
    default=0.2,
    show_default=True,
    help="Share of the rows that is kept aside for the test.",
)
@click.option("--svc/--no-svc", default=True, help="Compare with an SVC of at most 5,000 rows.")
@click.option("--seed", type=_SEED, default=0, show_default=True)
@click.option("--jobs", type=int, default=None, help="Trials side by side; -1 for all cores.")
@click.option(
    "--machine",
    type=click.Choice(["compact", "l1", "minimal"]),
    default="compact",
    show_default=True,
    help="compact: trained centers. l1, minimal: linear programs over --centers random rows.",
)
@click.option(
    "--C",
    "C",
    type=click.FloatRange(0, min_open=True),
    help="Weight of errors, of l1 and minimal; 5000 over the number of rows unless given.",
)
@click.option(
    "--checkpoint",
    type=click.Path(file_okay=False, path_type=Path),
    help="Folder in which l1 and minimal keep the machine of every pass, to go on from.",
)
@click.option(
    "--memory",
    type=ByteCount(),
    help="Bytes that the table may take, such as 4G; larger Parquet is read piece by piece.",
)
@click.option(
    *("-o", "--output"),
    type=_OUT,
    required=True,
    callback=_new_file,
    help="The file of the machine.",
)
def run_fit(**options: Any) -> None:
    """Train a machine on a table and measure it on rows kept aside.

    Texts and booleans become one number a category; a missing number is taken as the median, a
    missing text as a category of its own. The rule travels with the machine.
    """
    sizes = [name for name in ("centers", "max_bytes", "auto") if options[name]]
    if len(sizes) > 1:
        raise click.UsageError("--centers, --bytes and --auto each choose a size; give one.")
    from kernlet.cli.fit import run

    run(**options)


@main.command("predict")
@click.argument("model", type=_FILE)
@click.argument("table", type=_TABLE)
@click.option(
    *("-o", "--output"),
    type=_OUT,
    callback=_new_file,
    help="A CSV file, or Parquet by its name; CSV on standard output unless given.",
)
def run_predict(model: Path, table: Path, output: Path | None) -> None:
    """Predict every row of a table; Parquet goes a row group at a time."""
    from kernlet.cli.predict import run

    run(model, table, output)


@main.command("compress")
@click.argument("model", type=_FILE)
@click.argument("table", type=_FILE, required=False)
@click.option("--target", help="The column of the labels in TABLE.")
@click.option("--centers", default="100", show_default=True, help='A number, or "auto".')
@click.option("--seed", type=_SEED, default=0, show_default=True)
@click.option(
    *("-o", "--output"),
    type=_OUT,
    required=True,
    callback=_new_file,
    help="The file of the smaller machine.",
)
def run_compress(**options: Any) -> None:
    """Rebuild a machine from few points.

    MODEL is a LIBSVM model file, a skops file or a kernlet file; rows of TABLE, best ones that it
    was not trained on, choose the coefficients and tell what was lost.
    """
    from kernlet.cli.compress import run

    run(**options)


@main.command("export")
@click.argument("model", type=_FILE)
@click.option(
    "--to", "kind", type=click.Choice(["c", "onnx"]), required=True, is_eager=True
)  # before --output
@click.option(
    "--storage",
    type=click.Choice(["float32", "float16", "int8", "stored"]),
    default="float32",
    show_default=True,
    help="How C holds its tables; stored: as the machine does.",
)
@click.option(
    "--exp",
    type=click.Choice(["libm", "polynomial"]),
    default="libm",
    show_default=True,
    help="Where C takes the exponential from.",
)
@click.option("--table", type=_FILE, help="Rows to check on.")
@click.option("--target", help="The column of the labels in the table.")
@click.option(
    *("-o", "--output"),
    type=_OUT,
    required=True,
    callback=_new_folder,
    help="A folder for C, a file for ONNX.",
)
def run_export(**options: Any) -> None:
    """Write a machine as C99 source or as an ONNX graph."""
    from kernlet.cli.export import run

    run(**options)


@main.command("report")
@click.argument("model", type=_FILE)
@click.argument("table", type=_FILE)
@click.option("--target", help="The column of the labels; the one of the training unless given.")
@click.option("--sizes/--no-sizes", default=True, help="Train other sizes and an SVC beside it.")
@click.option(
    *("-o", "--output"),
    type=_OUT,
    callback=_new_file,
    default=Path("report.html"),
    show_default=True,
)
def run_report(**options: Any) -> None:
    """Write one page on how well a machine does on the rows of a table."""
    from kernlet.cli.report import run

    run(**options)
