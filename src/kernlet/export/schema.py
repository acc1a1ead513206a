"""What the metadata of a model file may be: checks of JSON values that name what is wrong."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, get_args

from kernlet.model.model import Kind, Scheme
from kernlet.quantization import FORMATS
from kernlet.tables.dates import DATE_ORDERS, DATE_PARTS, DateColumn
from kernlet.tables.encode import CategoryColumn, NumberColumn, OrdinalColumn

#: The types of classes that a file may hold.
CLASS_TYPES = (
    *(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)),
    *("float32", "float64", "bool", "str", "object"),
)


class ModelFileError(ValueError):
    """A model file that is corrupt, foreign or too new."""


def corrupt(reason: str) -> ModelFileError:
    """The error of a file that is not as kernlet writes them."""
    return ModelFileError(f"is a corrupt model file: {reason}.")


_SUMMARY_LEVELS = 50
_MAX_COLUMNS = 2**24  # of a table
_MAX_BLOCK = 2**10  # pixels

# A check takes a JSON value and its path (for the message) and returns the value, or raises.
# "machine" is the expansion, "front" its input map, "tables" its packed arrays.

Check = Callable[[Any, str], Any]


def _must(be: str, test: Callable[[Any], bool]) -> Check:
    def check(value: Any, path: str) -> Any:
        if not test(value):
            raise corrupt(f"{path} must be {be}")
        return value

    return check


_flag = _must("true or false", lambda value: isinstance(value, bool))
TEXT = _must("a text", lambda value: isinstance(value, str))
_list = _must("a list", lambda value: isinstance(value, list))
_object = _must("an object", lambda value: isinstance(value, dict))


def _number(above: float = -1e300, below: float = 1e300) -> Check:
    more = f" larger than {above:g}" if above > -1e300 else ""
    more += f" and smaller than {below:g}" if below < 1e300 else ""
    # NaN is refused, because comparisons with it are false, and so are true and false.
    check = _must(
        f"a finite number{more}",
        lambda value: type(value) in (int, float) and above < value < below,
    )
    return lambda value, path: float(check(value, path))


def integer(low: int, high: int = 2**53) -> Check:
    """An integer in a range."""
    return _must(
        f"an integer from {low} to {high}",
        lambda value: type(value) is int and low <= value <= high,
    )


def _choice(*choices: str) -> Check:
    return _must(
        f"one of {', '.join(choices)}", lambda value: type(value) is str and value in choices
    )


def list_of(entry: Check, length: int | None = None) -> Check:
    """A list, as a tuple, whose entries pass a check."""

    def check(value: Any, path: str) -> tuple[Any, ...]:
        if len(_list(value, path)) != (len(value) if length is None else length):
            raise corrupt(f"{path} must have {length} entries")
        return tuple(entry(each, f"{path}[{number}]") for number, each in enumerate(value))

    return check


def _optional(check: Check) -> Check:
    return lambda value, path: None if value is None else check(value, path)


def record(**fields: Check) -> Check:
    """An object, as a dict of the given fields; other ones are left out."""

    def check(value: Any, path: str) -> dict[str, Any]:
        _object(value, path or "metadata")
        return {
            name: inner(value.get(name), f"{path}.{name}".lstrip("."))
            for name, inner in fields.items()
        }

    return check


def _summary(value: Any, path: str) -> Any:
    """JSON values of few levels, with numbers that every language has."""
    level = [_object(value, path)]
    for _ in range(_SUMMARY_LEVELS):
        inside = [v for each in level for v in (each.values() if type(each) is dict else each)]
        for number in inside:
            is_finite = type(number) is not float or math.isfinite(number)
            if not is_finite or (type(number) is int and abs(number) >= 2**63):
                raise corrupt(f"{path} holds a number that is not finite, or beyond 64 bits")
        level = [each for each in inside if type(each) in (dict, list)]
        if not level:
            return value
    raise corrupt(f"{path} has more than {_SUMMARY_LEVELS} levels")


def _column(value: Any, path: str) -> Any:
    if "date" in _object(value, path):
        column = DateColumn(*_DATE(value, path).values())
        is_matched = len(column.fills) == len(column.parts) == len(set(column.parts))
        if not is_matched or not column.parts:
            raise corrupt(f"{path} has no parts, one twice, or other numbers than parts")
        return column
    if "number" in _object(value, path):
        name, fill, passes = _NUMBER(value, path).values()
        return NumberColumn(name, fill, bool(passes))
    if "ordinal" in value:
        return _ordinal_column(_ORDINAL(value, path), path)
    fields = _CATEGORY(value, path)
    name, categories, has_missing, codes, unknown, refuses = fields.values()
    n_texts = len(categories) + has_missing
    codes = codes or ()
    unknown = None if refuses else -1 if unknown is None else unknown
    if len(set(categories)) < len(categories) or len(codes) not in (0, n_texts):
        raise corrupt(f"{path} has a category twice, or without a code")
    used = {*(codes or range(n_texts)), -1 if unknown is None else unknown} - {-1}
    if used != set(range(len(used))):
        raise corrupt(f"{path} has features without a category")
    return CategoryColumn(name, categories, has_missing, codes, unknown)


def _ordinal_column(fields: dict[str, Any], path: str) -> OrdinalColumn:
    column = OrdinalColumn(*fields.values())
    if len(column.values) != len(column.categories):
        raise corrupt(f"{path} has another number of values than of categories")
    if len(set(column.categories)) < len(column.categories):
        raise corrupt(f"{path} has a category twice")
    return column


def _machine(value: Any, path: str) -> Any:
    is_packed = "tables" in _object(value, path)
    return (_quantized_machine if is_packed else _EXPANSION)(value, path)


def _quantized_machine(value: Any, path: str) -> Any:
    """A shift and a scale are numbers, or tables with one number per feature."""
    tables = _TABLES(value["tables"], f"{path}.tables")
    numbers = {"shift": _number(-3.5e38, 3.5e38), "scale": _number(1e-30, 3.5e38)}  # in float32
    numbers = {name: check for name, check in numbers.items() if tables[name] is None}
    return {"tables": tables} | record(**numbers)(value, path) | _SHAPE(value, path)


def _packed_array(n_dimensions: int) -> Check:
    shape = list_of(integer(0, 2**31 - 1), n_dimensions)
    # In float32 a smaller step would be subnormal, or 0.
    return record(format=_choice(*FORMATS), shape=shape, step=_number(1e-38, 3.5e38))


_DATE = record(
    date=TEXT,
    order=_choice(*DATE_ORDERS),
    parts=list_of(_choice(*DATE_PARTS)),
    fills=list_of(_number()),
)
_NUMBER = record(
    number=TEXT,
    fill=_optional(_number()),
    passes_missing=_optional(_flag),  # to a machine that takes missing features
)
_CATEGORY = record(
    category=TEXT,
    values=list_of(TEXT),
    has_missing=_flag,
    codes=_optional(list_of(integer(-1))),
    unknown=_optional(integer(-1)),
    refuses_unknown=_optional(_flag),
)
_ORDINAL = record(
    ordinal=TEXT,
    categories=list_of(TEXT),
    values=list_of(_number()),
    missing=_optional(_number()),
    unknown=_optional(_number()),
)
_POSITIONS = record(
    columns=list_of(integer(0, _MAX_COLUMNS)),
    n_columns=integer(1, _MAX_COLUMNS),
    has_names=_flag,
)
_TABLES = record(
    centers=_packed_array(2),
    coef=_packed_array(2),
    projection=_optional(_packed_array(2)),
    shift=_optional(_packed_array(1)),
    scale=_optional(_packed_array(1)),
    log_gamma=_optional(_packed_array(1)),
    log_weights=_optional(_packed_array(2)),
    jumps=_optional(_packed_array(1)),
    fill=_optional(_packed_array(1)),
)
# Files of format 1 have none of these.
_SHAPE = record(
    alpha=_optional(_number(0, 3.5e38)),
    is_asinh=_optional(_flag),
    block=_optional(integer(1, _MAX_BLOCK)),
    n_outputs=_optional(integer(1, 2**31 - 1)),
    skips_missing=_optional(_flag),
)
_EXPANSION = record(
    kernel=_object,
    front=_flag,
    n_features=_optional(integer(1, 2**31 - 1)),
    curve=_optional(record(is_asinh=_flag, has_steps=_flag)),
    skips_missing=_optional(_flag),
)
MODEL = record(
    kind=_choice(*get_args(Kind)),
    machine=_machine,
    classes=_optional(record(type=_choice(*CLASS_TYPES), values=_list)),
    scheme=_choice(*get_args(Scheme)),
    votes=_flag,
    break_ties=_flag,
    temperature=_optional(_number(above=0)),
    offset=_optional(_number()),  # files of earlier versions have none
    is_flat=_flag,
    quantiles=_optional(list_of(_number(0, 1))),  # files of earlier versions have neither
    output_names=_optional(list_of(TEXT)),
    feature_names=_optional(list_of(TEXT)),
    encoding=_optional(list_of(_column)),
    positions=_optional(_POSITIONS),
    scaler=_flag,
    summary=_summary,
)
