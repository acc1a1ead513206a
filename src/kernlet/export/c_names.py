"""Texts of any language as names, comments and strings of C."""

from __future__ import annotations

import re
import textwrap
import unicodedata
from collections import Counter
from collections.abc import Sequence
from typing import Any

# Words that a field cannot be called: keywords of C and C++, and macros in lower case, also of
# compilers (linux, mips), Windows (near, interface) and Qt (emit, slots). Macros with arguments,
# such as Arduino's min and round, do no harm to a field.
_RESERVED = """
alignas alignof and and_eq asm assert auto bitand bitor bool break case catch char char16_t char32_t
char8_t class co_await co_return co_yield compl complex concept const const_cast consteval constexpr
constinit continue decltype default delete do double dynamic_cast else emit enum errno explicit
export extern false far float for foreach forever friend goto huge hyper i386 if imaginary inline
int interface interrupt linux long mips mutable namespace near new noexcept noreturn not not_eq
nullptr operator or or_eq private protected public register reinterpret_cast requires restrict
return short signals signed sizeof slots small sparc static static_assert static_cast stderr stdin
stdout struct sun switch template this thread_local throw true try typedef typeid typename typeof
typeof_unqual union unix unsigned using virtual void volatile wchar_t while xor xor_eq
"""
# A header of one of these names may be found in place of the one of the C library.
_HEADERS = """
assert complex ctype errno fenv float inttypes iso646 limits locale math setjmp signal stdalign
stdarg stdatomic stdbool stddef stdint stdio stdlib stdnoreturn string tgmath threads time uchar
wchar wctype
"""


def c_file_names(name: str, *, single_header: bool = False) -> tuple[str, ...]:
    """Header, source, test program, example and Makefile of a machine with this name in C."""
    source = () if single_header else (f"{name}.c",)
    return f"{name}.h", *source, f"test_{name}.c", f"example_{name}.c", "Makefile"


def c_string(text: str) -> str:
    """A string constant, in UTF-8, of printable ASCII alone."""
    characters = [
        chr(byte) if 32 <= byte < 127 and chr(byte) not in '"\\?' else f"\\{byte:03o}"
        for byte in text.encode("utf-8", "replace")
    ]
    return '"' + "".join(characters) + '"'


def c_comment(text: Any, longest: int = 100) -> str:
    """A line of text, in UTF-8, that can stand in a comment and cannot end it."""
    characters = " ".join(str(text).split())
    # control characters, and those that change the direction of writing, are escaped
    line = "".join(
        character if character.isprintable() else ascii(character)[1:-1] for character in characters
    )
    line = re.sub(r"\?(?=\?)", "? ", line)  # no trigraphs
    for _ in range(2):  # "*/*" needs both
        line = line.replace("*/", "* /").replace("/*", "/ *")
    return line if len(line) <= longest else line[: longest - 3] + "..."


def wrapped(text: str, indent: str, first: str = "") -> str:
    """A comment in lines that begin with ``indent``, the first one with ``first``."""
    return textwrap.fill(
        text,
        width=98,
        initial_indent=first or indent,
        subsequent_indent=indent,
        break_long_words=False,
        break_on_hyphens=False,
    )


def plain_name(text: str) -> str:
    """Letters, digits and underscores made from a text, without accents; may be empty."""
    letters = unicodedata.normalize("NFKD", text.casefold())
    text = "".join(letter for letter in letters if not unicodedata.combining(letter))
    text = re.sub(r"^-(?=[.\d])", "minus_", text)
    return re.sub(r"[^0-9a-z]+", "_", text).strip("_")


def c_identifier(text: str, prefix: str = "model") -> str:
    """A C identifier made from a text."""
    name = plain_name(text)
    if not name:
        return prefix
    return f"{prefix}_{name}" if name[0].isdigit() or name in _RESERVED.split() else name


def file_identifier(text: str) -> str:
    """A C identifier that can also be the name of a header."""
    name = c_identifier(text)
    return f"model_{name}" if is_standard_header(name) else name


def is_standard_header(name: str) -> bool:
    """Whether the C library has a header of this name, on systems that ignore case too."""
    return name.lower() in _HEADERS.split()


def distinct(names: Sequence[str]) -> list[str]:
    """Names, those that occur more than once with their number appended."""
    count = Counter(names)
    taken = {name for name in names if count[name] == 1}
    result = []
    for number, name in enumerate(names):
        unique = name
        while count[name] > 1 and unique in taken | {name}:
            unique = f"{unique}_{number}"
        taken.add(unique)
        result.append(unique)
    return result
