"""Packages that an extra installs: one sentence with the pip command where one is missing."""

from __future__ import annotations

from importlib import import_module
from typing import Any


def missing(what: str, package: str, extra: str) -> ImportError:
    """The error of ``what``, which needs a package that is not installed."""
    return ImportError(
        f'{what} needs {package}, which is not installed: pip install "kernlet[{extra}]".',
        name=package,
    )


def require(module: str, what: str, extra: str) -> Any:
    """Import a module that ``what`` needs and ``extra`` installs."""
    try:
        return import_module(module)
    except ModuleNotFoundError:
        raise missing(what, module.partition(".")[0], extra) from None
