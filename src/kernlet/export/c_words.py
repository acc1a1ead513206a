"""Values as C writes them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

import numpy as np

from kernlet.tables import Table


def c_float(value: Any) -> str:
    """A float constant.

    Examples
    --------
    >>> from kernlet.export.c_words import c_float
    >>> c_float(1), c_float(-0.25)
    ('1.0f', '-0.25f')
    """
    with np.errstate(over="ignore"):
        number = np.float32(value)
    if not np.isfinite(number):
        raise ValueError(
            f"{value:g} does not fit in float32: scale the features, for example with a "
            "StandardScaler in front."
        )
    text = f"{number:.9g}"
    return f"{text}f" if "." in text or "e" in text else f"{text}.0f"


def c_string(text: str) -> str:
    r"""A string constant, in UTF-8, of printable ASCII alone.

    Examples
    --------
    >>> from kernlet.export.c_words import c_string
    >>> print(c_string('a"b'))
    "a\042b"
    """
    return '"' + "".join(_c_character(byte) for byte in text.encode("utf-8", "replace")) + '"'


def _c_character(byte: int) -> str:
    if 32 <= byte < 127 and chr(byte) not in '"\\?':
        return chr(byte)
    return f"\\{byte:03o}"


def c_comment(text: Any, longest: int = 100) -> str:
    """A line of text that can stand in a comment and cannot end it.

    Examples
    --------
    >>> from kernlet.export.c_words import c_comment
    >>> c_comment("ends here */ int x;")
    'ends here * / int x;'
    """
    line = " ".join(str(text).encode("ascii", "backslashreplace").decode().split())
    line = line.replace("\\", "/").replace("*/", "* /").replace("/*", "/ *")
    line = re.sub(r"\?(?=\?)", "? ", line)  # no trigraphs
    line = line.replace("*/", "* /").replace("/*", "/ *")
    return line if len(line) <= longest else line[: longest - 3] + "..."


def c_identifier(text: str) -> str:
    """A name for C made of a text.

    Examples
    --------
    >>> from kernlet.export.c_words import c_identifier
    >>> c_identifier("my model-2"), c_identifier("7")
    ('my_model_2', 'model_7')
    """
    name = re.sub(r"[^0-9A-Za-z]+", "_", text).strip("_").lower()
    if not name:
        return "model"
    return f"model_{name}" if name[0].isdigit() else name


def rows_of(words: Iterable[str], width: int = 12) -> list[str]:
    """Constants, some a line."""
    words = list(words)
    return [", ".join(words[i : i + width]) for i in range(0, len(words), width)]


def table_words(table: Table) -> list[str]:
    """The entries of a table: numbers, codes, or packed bytes."""
    if table.format.name == "float32":
        return [c_float(value) for value in (table.data * np.float32(table.step)).ravel()]
    if table.format.name == "float16":
        return [f"{bits}u" for bits in table.data.ravel().view(np.uint16).tolist()]
    if table.format.name == "int8":
        return [str(code) for code in table.codes().ravel().tolist()]
    return [f"{byte}u" for byte in table.data.tolist()]
