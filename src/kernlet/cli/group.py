"""How commands end: one sentence for every error, and clean exits on signals."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
import traceback
from collections.abc import Iterator
from typing import Any

import click

from kernlet.console import printable
from kernlet.extras import missing

_OPTIONAL_PACKAGES = {"matplotlib", "pyarrow", "rich"}
_MAX_MESSAGE = 900  # characters; messages of other libraries may quote all of the input
_DEBUG = "kernlet.debug"


class InternalError(click.ClickException):
    """An error that is not the user's."""

    exit_code = 70  # EX_SOFTWARE of sysexits.h


class CommandGroup(click.Group):
    """Commands that report wrong input in one sentence, with exit status 1.

    Anything unexpected is an internal error, with exit status 70. ``--debug`` shows tracebacks.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.params.append(_debug_option())

    def add_command(self, cmd: click.Command, name: str | None = None) -> None:
        """Add a command, which takes --debug too."""
        cmd.params.append(_debug_option())
        super().add_command(cmd, name)

    def main(self, *args: Any, **kwargs: Any) -> Any:
        """Run the program; SIGTERM and SIGHUP end it as an exception does."""
        with _signals_as_exits():
            return super().main(*args, **kwargs)

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command."""
        try:
            result = super().invoke(ctx)
            sys.stdout.flush()  # a full disk is an error of the command, not of the interpreter
            return result
        except click.ClickException as error:
            # usage errors quote what was typed, which may be anything
            error.message = _shortened(error.message)  # type: ignore[misc]
            raise
        except (click.exceptions.Exit, click.Abort):
            raise
        except Exception as error:
            if isinstance(error, OSError):
                _abandon_output()
            if isinstance(error, BrokenPipeError):  # such as | head, about which click is silent
                raise
            if _wants_debug(ctx):
                click.echo("".join(traceback.format_exception(error)), err=True)
            raise _explained(error, str(ctx.invoked_subcommand)) from error


def _debug_option() -> click.Option:
    return click.Option(
        ["--debug"],
        is_flag=True,
        expose_value=False,
        callback=_set_debug,
        help="Show the traceback of an error.",
    )


def _set_debug(ctx: click.Context, param: click.Parameter, value: bool) -> None:
    if value:
        ctx.meta[_DEBUG] = True


def _wants_debug(ctx: click.Context) -> bool:
    return _DEBUG in ctx.meta or os.environ.get("KERNLET_DEBUG", "0") not in ("", "0")


def _explained(error: Exception, command: str) -> click.ClickException:
    """What the user is shown of an error."""
    message = str(error).strip() or type(error).__name__
    package = (getattr(error, "name", None) or "").partition(".")[0]
    if package in _OPTIONAL_PACKAGES:
        message = str(missing(f"kernlet {command}", package, "cli"))
    elif isinstance(error, OSError) and error.strerror:
        place = "" if error.filename is None else f"{error.filename}: "
        message = f"{place}{error.strerror}."
    if isinstance(error, ValueError | OSError | ImportError):
        return click.ClickException(_shortened(message))
    if isinstance(error, MemoryError):
        detail = f" ({_shortened(message).rstrip('.')})" if str(error) else ""
        return click.ClickException(
            f"There is not enough memory for this{detail}: give fewer rows or columns, "
            "a smaller machine, or more memory."
        )
    return InternalError(
        f"Internal error, {type(error).__name__}: {_shortened(message)}. Please report it to the "
        "developers with its traceback, which --debug (or KERNLET_DEBUG=1) shows."
    )


def _shortened(message: str) -> str:
    """One line that a terminal can show, of a message that may have many lines."""
    message = printable(message)
    if len(message) <= _MAX_MESSAGE:
        return message
    return f"{message[: _MAX_MESSAGE - 200]} ... {message[-195:]}"


def _abandon_output() -> None:
    """Stop writing to a standard output that fails: the interpreter would complain once more."""
    try:
        sys.stdout.flush()
    except OSError:
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115


@contextlib.contextmanager
def _signals_as_exits() -> Iterator[None]:
    """Let SIGTERM and SIGHUP raise SystemExit, so that temporary files are removed.

    Signals that somebody handles or ignores already, as nohup does, are left alone.
    """

    def leave(number: int, frame: Any) -> None:
        raise SystemExit(128 + number)  # what a shell reports of a program that a signal has ended

    names = ("SIGTERM", "SIGHUP")  # Windows has no SIGHUP
    numbers = [getattr(signal, name) for name in names if hasattr(signal, name)]
    if threading.current_thread() is not threading.main_thread():
        numbers = []  # others may not set handlers
    numbers = [number for number in numbers if signal.getsignal(number) is signal.SIG_DFL]
    for number in numbers:
        signal.signal(number, leave)
    try:
        yield
    finally:
        for number in numbers:
            signal.signal(number, signal.SIG_DFL)
