"""A machine in C that computes in integers alone: what the templates of its code ask for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from kernlet._typing import Floats
from kernlet.export.c_interface import Interface
from kernlet.export.integer_module import IntegerModule
from kernlet.export.rounding import rows_as_float32
from kernlet.integer.arithmetic import LOGARITHMS, POWERS
from kernlet.integer.machine import Bound, IntegerMachine, Probabilities
from kernlet.kernels.base import c_float
from kernlet.model.model import Model
from kernlet.quantization import encode

# Up to this many features of a kernel have 32 bits on the stack of a 32-bit processor, where they
# are read with fewer instructions than numbers of 16 bits.
FEW_FEATURES = 64
# Ternary rows of a projection that are at least this long begin with a byte: five codes at a time
# are read in half of the instructions.
WIDE_ROW = 16
_LISTED_SCALES = 100
_MOST_FEATURES = 65_535  # of 16 bits, whose sum has 32


def integer_code(model: Model, storage: str, X: Any, y: Any, **options: Any) -> IntegerCode:
    """The machine in integers, compared with the original."""
    if model.n_features > _MOST_FEATURES:
        raise ValueError(
            f"Integers have room for {_MOST_FEATURES:,} features, not for {model.n_features:,}: "
            "export the machine in float."
        )
    module = IntegerModule.of(model, options["name"], X, y, storage)
    return IntegerCode(
        storage=module.storage,
        model=model,
        rounded=module.rounded,
        tables=module.tables,
        rounding=module.rounding,
        sample=rows_as_float32(module.rows),
        X=X,
        module=module,
        **options,
    )


@dataclass(frozen=True)
class _Codes:
    """A table of codes, which are stored with ``levels`` added, as the code reads it.

    Rows of whole bytes are read a group of codes at a time, others through variables that hold
    what is left of a byte.
    """

    key: str
    bits: int
    levels: int
    row: int
    is_ternary: bool = False

    @property
    def name(self) -> str:
        """The variable that points to the next byte."""
        return {"coef": "coefs", "log_gamma": "log_widths", "log_weights": "weights"}.get(
            self.key, self.key
        )

    @property
    def is_unrolled(self) -> bool:
        """Whether all codes of a byte, or four in three bytes, are read at once."""
        group = 5 if self.is_ternary else {4: 2, 6: 4}.get(self.bits, self.row + 1)
        return self.row % group == 0

    @property
    def row_bytes(self) -> int:
        """Bytes of a row that begins and ends with a byte."""
        return self.row // 5 if self.is_ternary else self.row * self.bits // 8

    @property
    def has_state(self) -> bool:
        """Whether bits of a byte are left between codes."""
        return not (self.is_unrolled or self.bits == 8)

    @property
    def held(self) -> str:
        """The type of what is left of a byte, and of a second one below it."""
        return "uint_fast8_t" if self.is_ternary else f"uint_fast{16 if self.bits <= 8 else 32}_t"


@dataclass(frozen=True, eq=False)
class IntegerCode(Interface):
    """A model to be written in integers, and what the templates ask of it.

    Parameters
    ----------
    module : IntegerModule
        The machine in integers with its answers.
    """

    module: IntegerModule = field(kw_only=True)

    arithmetic, input_type, score_type = "integer", "int16_t", "int32_t"
    input_name = "inputs"
    templates = (
        "model_integer.h.jinja",
        "model_integer.c.jinja",
        "test_integer.c.jinja",
        "example.c.jinja",
    )
    n_powers = len(POWERS)

    @property
    def machine(self) -> IntegerMachine:
        """What the code evaluates."""
        return self.module.machine

    @property
    def bounds(self) -> Sequence[Bound]:
        """What can occur at most, and what its type holds."""
        return self.machine.bounds

    @property
    def probabilities(self) -> Probabilities | None:
        """How scores become probabilities, where the model has them."""
        return self.module.probabilities

    @property
    def n_scores(self) -> int:
        """Outputs of the machine, of all pairs of classes too."""
        return self.machine.n_outputs

    @property
    def meaning(self) -> str:
        """What the scores are."""
        if self.model.kind == "classifier" and self.model.scheme == "one vs one":
            return "There is a score for each pair i < j of classes, positive for i."
        return super().meaning

    @property
    def about_inputs(self) -> str:
        """What the inputs are, and where they end."""
        machine, helper = self.machine, f"{self.name}_from_floats"
        if machine.is_counts:
            text = "Inputs are the features themselves, whole numbers of 16 bits."
        else:
            text = f"Inputs are (feature - offset) / scale, rounded to 16 bits, by {helper}"
            text += f", or by {self.name}_from_counts" if machine.counts is not None else ""
            text += f". Offset and scale: {self._scales()}."
        nan = f"{self.macro}_MISSING_INPUT" if machine.takes_missing else "the least input"
        return (
            f"{text} The range of the rows that the machine was exported with fits; features far "
            f"outside are clamped, unlike in floating point, and NaN is {nan}."
        )

    def _scales(self) -> str:
        """Offsets and scales, one or of each feature."""
        offsets, scales = np.broadcast_arrays(self.machine.offset, self.machine.scale)
        pairs = [f"{o:.9g} and {s:.9g}" for o, s in zip(offsets, scales, strict=True)]
        if len(pairs) == 1:
            return pairs[0]
        texts = [f"{pair} of feature {i}" for i, pair in enumerate(pairs[:_LISTED_SCALES])]
        more = len(pairs) - len(texts)
        return ", ".join(texts) + (f", and {more} more in the source" if more else "")

    @property
    def factors(self) -> Floats:
        """What differences from the offsets are multiplied by."""
        return np.float32(1) / self.machine.scale

    def codes(self, key: str, row: int) -> _Codes | None:
        """A table of codes with this many in a row, where the machine has it."""
        array = self.packed.get(key)
        if array is None:
            return None
        format = array.format
        return _Codes(
            key, int(format.bits), int(format.n_levels or 0), row, format.name == "ternary"
        )

    @property
    def projection(self) -> _Codes | None:
        """The codes of the projection, whose rows of ternary codes may be filled up."""
        if self.machine.projection is None:
            return None
        codes = self.codes("projection", self.machine.projection.shape[1])
        assert codes is not None
        is_filled = codes.is_ternary and codes.row >= WIDE_ROW
        return replace(codes, row=-(-codes.row // 5) * 5) if is_filled else codes

    @property
    def _projection_bytes(self) -> Any:
        """Its table: rows of ternary codes that end within a byte are filled up with zeros."""
        codes, array = self.projection, self.packed["projection"]
        assert codes is not None
        n_more = codes.row - array.shape[1]
        if not n_more:
            return array.data
        rows = np.pad(array.codes().astype(float), ((0, 0), (0, n_more)), constant_values=-1.0)
        return encode(rows, array.format, 1.0).data

    @property
    def outputs(self) -> _Codes | None:
        """The outputs of sparse coefficients."""
        table = self.tables.integers.get("outputs")
        return None if table is None else _Codes("outputs", table.bits, 0, 1)

    @property
    def feature_type(self) -> str:
        """The type of the features that the kernel takes."""
        return "int_fast16_t" if self.machine.centers.shape[1] <= FEW_FEATURES else "int16_t"

    @property
    def step_feature_type(self) -> str:
        """The type of the numbers of features in the table of steps."""
        return "uint8_t" if self.machine.n_features <= 256 else "uint16_t"

    @cached_property
    def arrays(self) -> list[tuple[str, str, list[str]]]:
        """Constant arrays: packed tables as they are stored, integers, and those of inputs."""
        machine = self.machine
        found: list[tuple[str, str, Any]] = []
        for key in ("projection", "centers", "coef", "log_weights", "log_gamma"):
            if key in self.packed and (key != "log_gamma" or machine.log_widths is not None):
                data = self.packed[key].data if key != "projection" else self._projection_bytes
                found.append(("uint8_t", key, data))
        if machine.outputs is not None:
            found.append(("uint8_t", "outputs", self.tables.integers["outputs"].data))
        if machine.log_widths is None and len(machine.widths) > 1:
            found.append(("uint16_t", "widths", machine.widths))
        found.append(("int32_t", "intercept", machine.intercept))
        if machine.steps is not None:
            found += [
                (self.step_feature_type, "step_features", machine.steps.features),
                ("int16_t", "thresholds", machine.steps.thresholds),
                ("int16_t", "jumps", machine.steps.jumps),
            ]
        if machine.fill is not None:
            found.append(("int16_t", "fill", machine.fill))
        if self.module.uses_exp:
            found.append(("uint16_t", "powers", POWERS))
        if self.module.uses_log:
            found.append(("uint16_t", "logarithms", LOGARITHMS))
        arrays = [(kind, self._table(name), _entries(kind, data)) for kind, name, data in found]
        return arrays + self._arrays_of_inputs()

    def _arrays_of_inputs(self) -> list[tuple[str, str, list[str]]]:
        """Those that functions from features to inputs need, and a prediction does not."""
        machine = self.machine
        found: list[tuple[str, str, list[str]]] = []
        for name, values in (("offsets", machine.offset), ("factors", self.factors)):
            if len(values) > 1:
                found.append(("float", self._table(name), [c_float(value) for value in values]))
        if machine.counts is not None:
            kinds = ("int16_t", "int16_t", "int32_t", "uint8_t")
            names = ("count_bases", "count_factors", "count_offsets", "count_shifts")
            for kind, name, data in zip(kinds, names, machine.counts, strict=True):
                found.append((kind, self._table(name), _entries(kind, data)))
        return found

    @property
    def table_bytes(self) -> int:
        """Bytes of all tables that a prediction reads."""
        sizes = {"uint8_t": 1, "uint16_t": 2, "int16_t": 2, "int32_t": 4}
        of_inputs = {name for _, name, _ in self._arrays_of_inputs()}
        arrays = [array for array in self.arrays if array[1] not in of_inputs]
        return sum(sizes[kind] * len(entries) for kind, _, entries in arrays)

    @property
    def test_inputs(self) -> list[list[int]]:
        """Inputs of the test rows."""
        return self.module.test_inputs

    @cached_property
    def test(self) -> dict[str, Any]:
        """Inputs, scores and class numbers of the test rows, as constants."""
        module = self.module
        rows = [", ".join(_entries("int16_t", row)) for row in module.test_inputs]
        return {"rows": rows, **self._answers(np.array(module.test_scores))}

    def expected(self, rows: Floats) -> dict[str, Any]:
        """Scores and classes of rows of features, as constants."""
        return self._answers(self.module.scores(self.machine.quantized(rows)))

    def _answers(self, scores: Any) -> dict[str, Any]:
        codes = self.returned(self.module.codes(scores)) if self.module.has_classes else []
        return {
            "scores": [", ".join(_entries("int32_t", row)) for row in scores],
            "classes": ", ".join(map(str, codes)),
        }


def _entries(kind: str, numbers: Any) -> list[str]:
    """Integers as C constants."""
    suffix = "u" if kind.startswith("u") else ""
    lowest = {"int16_t": "-32767 - 1", "int32_t": "-2147483647 - 1"}
    bits = 15 if kind == "int16_t" else 31
    return [
        lowest[kind] if number == -(2**bits) and kind in lowest else f"{number}{suffix}"
        for number in np.asarray(numbers).ravel().tolist()
    ]
