"""The command line; each command imports what it needs when it runs, for a quick --help."""

import functools
import os
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import click
from click.core import ParameterSource

from kernlet import __version__
from kernlet.cli.group import CommandGroup
from kernlet.units import parse_bytes, parse_count

_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)
_TABLE = click.Path(exists=True, path_type=Path)
_FOLDER = click.Path(file_okay=False, path_type=Path)


class Count(click.ParamType):
    """A number: 500, 200k or 1M."""

    name = "count"
    parse: Callable[[Any], int] = staticmethod(parse_count)

    def convert(self, value: Any, param: Any, ctx: Any) -> int:
        """The number."""
        try:
            return self.parse(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)


class Levels(click.ParamType):
    """Levels of quantiles: 0.05,0.5,0.95."""

    name = "levels"

    def convert(self, value: Any, param: Any, ctx: Any) -> tuple[float, ...]:
        """The levels, in ascending order."""
        try:
            levels = tuple(float(part) for part in value.split(","))
        except ValueError:
            levels = ()
        if not levels or not all(a < b for a, b in pairwise((0.0, *levels, 1.0))):
            self.fail(f"{value!r} is not an ascending list such as 0.05,0.5,0.95.", param, ctx)
        return levels


class ByteCount(Count):
    """A number of bytes: 16000, 16k or 16Ki."""

    name = "bytes"
    parse = staticmethod(parse_bytes)


def _new_file(ctx: click.Context, param: click.Parameter, path: Path | None) -> Path | None:
    """Check that the output can be written, before any work is done for it."""
    if path is None:
        return None
    if ctx.params.get("kind", "onnx") != "onnx":  # export creates a folder
        if path.exists() and not path.is_dir():
            raise click.BadParameter(f"{path} is a file; name a folder.", ctx, param)
        return path
    if path.is_dir():
        raise click.BadParameter(f"{path} is a folder; name a file.", ctx, param)
    if not path.parent.is_dir():
        raise click.BadParameter(f"there is no folder {path.parent}; create it first.", ctx, param)
    if path.exists() and not os.access(path, os.W_OK):
        raise click.BadParameter(f"{path} is not writable.", ctx, param)
    # a file is replaced by a temporary one beside it; a device or a pipe is written to
    folder = Path(os.path.realpath(path)).parent
    if (path.is_file() or not path.exists()) and not os.access(folder, os.W_OK):
        raise click.BadParameter(f"the folder {folder} is not writable.", ctx, param)
    return path


def _output(force: str = "Write the output even over an input of the command.", **more: Any) -> Any:
    """The option of the output, and --force; ``_reads_table`` checks them."""
    output = click.option(
        "-o", "--output", type=click.Path(path_type=Path), callback=_new_file, **more
    )
    forced = click.option("--force", is_flag=True, help=force)
    return lambda command: output(forced(command))


_seed = click.option(
    "--seed", type=click.IntRange(0, 2**32 - 1), default=0, help="Seed of the random numbers."
)
_target = click.option(
    "--target", help="The column of the labels; by default that of the training."
)
_skip_unlabelled = click.option(
    "--skip-unlabelled", is_flag=True, help="Leave out rows without a label."
)


def _reads_table(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options on how to read a table, which becomes a TableFile, or None."""

    @functools.wraps(command)
    def run(
        table: Path | None,
        separator: str | None,
        header: bool | None,
        encoding: str | None,
        skip_unlabelled: bool = False,
        *,
        force: bool,
        **options: Any,
    ) -> None:
        _check_names(table, options["output"])
        if not force:
            inputs = (table, options.get("model"), options.get("checkpoint"))
            _keep_inputs(_outputs(options), *(path for path in inputs if path is not None))
        file = None
        if table is not None:
            from kernlet.tables.read import TableFile
            from kernlet.tables.sniff import TextFormat

            given = TextFormat(separator, header, encoding)
            file = TableFile(table, given, skip_unlabelled)
        command(table=file, **options)

    for option in reversed(_TEXT_OPTIONS):
        run = option(run)
    return run


_TEXT_OPTIONS = (
    click.option(
        "--separator",
        metavar="TEXT",
        help="What separates the cells of a text file: a character, or tab, space, comma, "
        "semicolon or pipe. Detected by default.",
    ),
    click.option(
        "--header/--no-header",
        default=None,
        help="Whether the first line names the columns; else they are column_1, column_2 and so "
        "on. Detected by default.",
    ),
    click.option(
        "--encoding",
        metavar="NAME",
        help="Encoding of a text file, such as cp1252. Detected by default.",
    ),
)


def _check_names(*paths: Path | None) -> None:
    """Refuse names of files that are not UTF-8, which pyarrow cannot open."""
    for path in paths:
        try:
            str(path).encode()
        except UnicodeEncodeError:
            raise click.UsageError(
                f"The name {path} is not UTF-8: rename the file, or make a link to it."
            ) from None


def _outputs(options: dict[str, Any]) -> list[Path]:
    """The files that a command will write."""
    output = options["output"]
    kind = options.get("kind", "onnx")
    if output is None or kind not in ("c", "micropython"):
        # packages of text replace no file that kernlet did not write
        return [output] if output is not None and kind == "onnx" else []
    from kernlet.export.c_names import c_file_names, file_identifier

    name = file_identifier(options["model"].stem)
    names: tuple[str, ...] = (f"{name}.kernlet",)
    if kind == "c":
        names = c_file_names(name, single_header=options["single_header"])
    return [output / name for name in names]


def _keep_inputs(outputs: list[Path], *inputs: Path) -> None:
    """Refuse an output that is an input, by any name, or a file in a folder that is one."""
    for output in filter(Path.is_file, outputs):
        for path in inputs:
            files = path.rglob("*") if path.is_dir() else [path]
            if any(file.is_file() and file.samefile(output) for file in files):
                raise click.UsageError(
                    f"The output {output} would overwrite {path}, an input of the command: give "
                    "another --output, or add --force."
                )


def _columns(name: str, description: str) -> Any:
    """An option with names of columns."""
    return click.option(name, multiple=True, metavar="COLUMN,...", help=description)


def _choice(name: str, choices: list[str], description: str) -> Any:
    """An option with a few values, the first of which is the default."""
    return click.option(name, type=click.Choice(choices), default=choices[0], help=description)


@click.group(
    cls=CommandGroup,
    context_settings={"help_option_names": ["-h", "--help"], "show_default": True},
)
@click.version_option(__version__, prog_name="kernlet")
def main() -> None:
    """Train, shrink and ship kernel machines that depend on very few points.

    Tables are text files (CSV with any separator, or LIBSVM rows), Parquet or .npz files, or a
    folder of Parquet files.
    """


@main.command("demo")
@click.option("--folder", type=_FOLDER, default="demo", help="For the figures and the table.")
def run_demo(folder: Path) -> None:
    """Compare SVC and kernlet on a checkerboard and on digits."""
    from kernlet.cli.demo import run

    run(folder)


@main.command("fit")
@click.argument("table", type=_TABLE)
@click.option(
    "--target",
    multiple=True,
    metavar="COLUMN",
    help="The column to predict, by its name or number; not needed for LIBSVM and .npz. Repeated, "
    "one machine predicts the numbers of several columns.",
)
@click.option(
    "--centers",
    type=click.IntRange(1),
    help="Number of centers; by default chosen by validation, and 300 rows for l1 and minimal.",
)
@click.option("--bytes", "max_bytes", type=ByteCount(), help="Bytes of the machine, such as 16k.")
@click.option(
    "--auto", is_flag=True, help="Choose the number of centers by validation: the default."
)
@_choice(
    "--effort",
    ["default", "quick", "thorough"],
    "How long --bytes or --processor searches: for about 5, 2 or 15 fits of one machine.",
)
@click.option(
    "--processor",
    type=click.Choice(["cortex-m0", "cortex-m4f", "atmega328p"]),
    help="Find the best machine for a processor, within the following limits.",
)
@click.option("--flash", type=ByteCount(), help="Bytes of code and tables, such as 8k.")
@click.option("--ram", type=ByteCount(), help="Bytes of row, scores and stack, such as 1k.")
@click.option("--instructions", type=Count(), help="Instructions per prediction, such as 200k.")
@click.option(
    "--arithmetic",
    type=click.Choice(["integer", "float"]),
    help="Of the code for --processor.  [default: float for cortex-m4f, else integer]",
)
@click.option(
    "--augment",
    type=click.Choice(["shift", "affine"]),
    help="Train square images with random shifts, or with small rotations and scalings too.",
)
@click.option("--regression", is_flag=True, help="Predict a number instead of a class.")
@click.option(
    "--quantiles",
    type=Levels(),
    help="Predict quantiles of a number, such as 0.05,0.5,0.95 for a median and an interval.",
)
@click.option(
    "--novelty",
    is_flag=True,
    help="Detect rows unlike the normal ones; all rows are, or those of --target and --normal.",
)
@click.option(
    "--normal",
    multiple=True,
    metavar="LABEL",
    help="A label of --target that is normal, for --novelty; may be repeated. Rows of others are "
    "for the test alone.",
)
@click.option(
    "--contamination",
    type=click.FloatRange(0, 0.5, min_open=True),
    default=0.05,
    help="Share of new normal rows that --novelty may flag.",
)
@_columns("--drop", "Leave out columns: a,b or repeated.")
@_columns("--category", "Treat numbers as categories: a,b or repeated.")
@_columns("--date", "Dates, which become year, month, weekday and hour: a,b or repeated.")
@_choice(
    "--missing",
    ["median", "distance", "auto"],
    "Missing numbers: replaced by the median, left out of distances, or the better by validation.",
)
@_choice(
    "--scale",
    ["auto", "standard", "none"],
    "Standardise columns; auto does so where their ranges differ much.",
)
@click.option(
    "--test", type=click.FloatRange(0, 0.9), default=0.2, help="Share of the rows to hold out."
)
@click.option(
    "--metric",
    metavar="NAME",
    help="Choose and compare by a scorer of scikit-learn: balanced_accuracy, f1_macro and so on.",
)
@click.option("--balanced", is_flag=True, help="Weigh classes inversely to their numbers of rows.")
@click.option("--svc/--no-svc", default=True, help="Compare with an SVC on at most 5,000 rows.")
@_seed
@click.option("--jobs", type=int, help="Parallel trials; -1 for all cores.")
@_choice(
    "--machine",
    ["compact", "l1", "minimal"],
    "compact: trained centers. l1, minimal: linear programs over --centers random rows.",
)
@_choice(
    "--kernel",
    ["rbf", "laplacian", "poly", "linear", "sigmoid"],
    "Kernel of l1 and minimal, its width chosen from the rows.",
)
@click.option(
    "--C",
    "C",
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
    help="Bytes that the table may take, such as 4G; larger Parquet is read in batches. By "
    "default a quarter of the memory.",
)
@_skip_unlabelled
@_reads_table
@_output(required=True, help="The file of the machine.")
def run_fit(**options: Any) -> None:
    """Train a machine on a table and measure it on held-out rows.

    Texts and booleans become one 0/1 feature per category. A missing number is replaced by the
    median, unless --missing says otherwise; missing texts are a category. This encoding is saved
    with the machine.
    """
    if sum(bool(options[name]) for name in ("centers", "max_bytes", "auto", "processor")) > 1:
        raise click.UsageError(
            "--centers, --bytes, --auto and --processor each choose a size; give one."
        )
    if options["effort"] != "default" and not (options["max_bytes"] or options["processor"]):
        raise click.UsageError("--effort is that of --bytes or --processor; give one of them.")
    _check_novelty(options)
    if options["processor"] is None:
        for name in ("flash", "ram", "instructions", "arithmetic"):
            if options[name] is not None:
                raise click.UsageError(f"--{name} is that of a processor; give --processor too.")
    from kernlet.cli.fit import run

    run(SimpleNamespace(**options))


_NOT_OF_NOVELTY = {
    "regression": "predicts a number",
    "quantiles": "predicts numbers",
    "metric": "judges predictions of labels, which the training does not see",
    "balanced": "weighs classes, and normal rows are one class",
    "svc": "compares classifiers",
    "machine": "is for classifiers",
    "missing": "is for classifiers and regressors, and a detector takes medians",
    "augment": "is for classifiers",
    "effort": "is for classifiers and regressors",
    "jobs": "is for parallel trials, which the detector does not have",
}


def _check_novelty(options: dict[str, Any]) -> None:
    """Refuse options that do not go with --novelty, or not without it."""
    context = click.get_current_context()
    defaults = {parameter.name: parameter.default for parameter in context.command.params}
    is_given = {
        name: context.get_parameter_source(name) is ParameterSource.COMMANDLINE for name in defaults
    }
    if not options["novelty"]:
        for name in ("normal", "contamination"):
            if is_given[name]:
                raise click.UsageError(f"--{name} is that of --novelty; give --novelty too.")
        return
    for name, reason in _NOT_OF_NOVELTY.items():
        is_default = name != "svc" and options[name] == defaults[name]
        if is_given[name] and options[name] and not is_default:
            raise click.UsageError(f"--{name} {reason}: leave it out of --novelty.")
    if len(options["target"]) > 1:
        raise click.UsageError("--novelty takes one --target, the column of the labels.")
    if options["target"] and not options["normal"]:
        raise click.UsageError(
            "--novelty --target needs --normal, the label of normal rows; without labels, leave "
            "out --target."
        )


@main.command("predict")
@click.argument("model", type=_FILE)
@click.argument("table", type=_TABLE)
@click.option(
    "--raw-labels", is_flag=True, help="Leave labels such as =1+1, which spreadsheets run, in CSV."
)
@_reads_table
@_output(help="A .csv or .parquet file; by default CSV on standard output.")
def run_predict(**options: Any) -> None:
    """Predict every row of a table.

    Parquet is read one row group at a time.
    """
    from kernlet.cli.predict import run

    run(**options)


@main.command("compress")
@click.argument("model", type=_FILE)
@click.argument("table", type=_FILE, required=False)
@_target
@click.option("--centers", default="100", help='A number, or "auto".')
@click.option("--metric", help="A scorer of scikit-learn to choose by, such as balanced_accuracy.")
@_seed
@_skip_unlabelled
@_reads_table
@_output(
    force="Write the machine even if it is not smaller, and even over an input.",
    required=True,
    help="The file of the smaller machine.",
)
def run_compress(**options: Any) -> None:
    """Rebuild a machine from few centers.

    MODEL is a LIBSVM model file, a skops file or a kernlet file: a classifier, a regressor or a
    novelty detector. The rows of TABLE, preferably not those it was trained on, determine the
    coefficients, calibrate the probabilities and measure the loss in accuracy or R2.
    """
    from kernlet.cli.compress import run

    run(force=click.get_current_context().params["force"], **options)


@main.command("export")
@click.argument("model", type=_FILE)
# eager: _new_file needs it, for a folder or a file
@click.option(
    "--to",
    "kind",
    type=click.Choice(
        [
            *("c", "onnx", "arduino", "platformio", "zephyr", "esp-idf"),
            *("micropython", "javascript", "rust"),
        ]
    ),
    required=True,
    is_eager=True,
    help="The format to write: C source, an ONNX graph, or a package for a system.",
)
@click.option(
    "--arithmetic",
    type=click.Choice(["float", "integer"]),
    help="Floating point, or integers alone.  [default: float where the format has it]",
)
@_choice(
    "--storage",
    ["auto", "float32", "float16", "int8", "stored"],
    "Number format of the C tables; auto: stored, as the machine has them, or else float32 (in "
    "integers, int8).",
)
@_choice("--exp", ["polynomial", "libm"], "The exponential function of the C code.")
@click.option(
    "--single-header",
    is_flag=True,
    help="Write C as one header, whose code a source file gets that defines NAME_IMPLEMENTATION.",
)
@click.option("--table", type=_FILE, help="Rows to check the export on.")
@_target
@_skip_unlabelled
@_reads_table
@_output(required=True, help="A file for ONNX, a folder for all others.")
def run_export(**options: Any) -> None:
    """Write a machine as C99 source, as an ONNX graph or as a package for a system."""
    from kernlet.cli.export import run

    run(**options)


@main.command("report")
@click.argument("model", type=_FILE)
@click.argument("table", type=_FILE)
@_target
@click.option("--sizes/--no-sizes", default=True, help="Also train other sizes and an SVC.")
@_skip_unlabelled
@_reads_table
@_output(default=Path("report.html"), help="The HTML file.")
def run_report(**options: Any) -> None:
    """Write an HTML page on the accuracy of a machine.

    It is measured on the rows of TABLE; of the table it was trained on, only on held-out rows.
    """
    from kernlet.cli.report import run

    run(**options)


@main.command("explain")
@click.argument("model", type=_FILE)
@click.argument("table", type=_FILE)
@click.option(
    "--background",
    type=click.IntRange(1),
    default=100,
    help="Number of rows, drawn from the table, that features are compared with.",
)
@click.option("--rows", type=click.IntRange(0), default=5, help="Rows that the page shows.")
@_seed
@_reads_table
@_output(default=Path("explanation.html"), help="An HTML page, or a .csv file of all values.")
def run_explain(**options: Any) -> None:
    """Say which columns the predictions of a table are due to: Shapley values.

    They are exact for most kernels, and estimates with a standard error behind a projection. The
    page has the importance of the columns, over all rows or 100 drawn from them, and the first rows
    one by one; a .csv file has the values of all rows.
    """
    from kernlet.cli.explain import run

    run(**options)
