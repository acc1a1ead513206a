"""Exports of every shape compile without a warning: compilers, standards, C and C++."""

import re
import shutil
import subprocess
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest

from kernlet import KernelExpansion, to_c
from kernlet.kernels.base import Kernel
from kernlet.kernels.rbf import RBF
from kernlet.model.model import Model
from kernlet.quantization import FORMATS
from kernlet.tables.encode import CategoryColumn, ColumnEncoding, NumberColumn, OrdinalColumn
from support.c_programs import ALL_WARNINGS
from support.random_machines import KERNELS, MAPS, SCHEMES, SHAPES, random_compact, random_model

# Names that other headers of a program may define: the private names of the code without their
# prefix, Arduino's macros, and those of <math.h> in GNU mode by its inclusion.
HOSTILE = """
#include <math.h>
#include <string.h>
#define F(text) (text)
#define B0 0
#define B1 1
#define PI 3.14
#define HIGH 1
#define LOW 0
#define DEFAULT 1
#define EXTERNAL 0
#define min(a, b) ((a) < (b) ? (a) : (b))
#define max(a, b) ((a) > (b) ? (a) : (b))
#define abs(x) ((x) > 0 ? (x) : -(x))
#define round(x) ((x) >= 0 ? (long)((x) + 0.5) : (long)((x) - 0.5))
#define sq(x) ((x) * (x))
#define bit(b) (1UL << (b))
#define word(...) makeWord(__VA_ARGS__)
"""
PRIVATE = """
CLASSES FEATURES RANK CENTERS OUTPUTS SCORES ROWS TOLERANCE EXP IN_FLASH READ_FLOAT READ_BYTE
READ_SHORT IS_TEXT MISSING OTHER table_centers table_coef table_projection table_intercept
table_shift table_scale table_gamma centers_at coef_at projection_at from_half bounded_exp
hyperbolic_tangent limited map_features kernel_value machine_outputs largest sum_of_vote class_names
feature special from_text predict encode agrees raw_agrees same_scores print_rows gamma_at
log_gamma_at intercept_at outputs_at features_at thresholds_at jumps_at shift_at scale_at
log_plus_one area_sine block_mean
"""


@dataclass(frozen=True)
class Laplacian(Kernel):
    """A kernel of a user, with a term and a function of its own."""

    gamma: float
    name: ClassVar[str] = "laplacian of test_c_compilers"
    is_translation_invariant: ClassVar[bool] = True
    c_term: ClassVar[str] = "(float)fabsf(t)"  # a double in old libraries of AVR

    def evaluate(self, X, Z, x_norms, z_norms):
        return np.exp(-self.gamma * np.abs(X[:, None] - Z[None]).sum(axis=2))

    def c_code(self, s):
        return f"a = {self.c_parameter('gamma')};\nreturn EXP(-a * {s}) * hyperbolic_tangent(a);"


def table_model():
    """Numbers, texts that are refused or not, and fields with the names of macros."""
    columns = (
        NumberColumn("min", 1.0),
        NumberColumn("y0", None),
        OrdinalColumn("round", ("a", "b"), (0.0, 1.0), None, None),
        CategoryColumn("slots", ("\u00e9", "??/"), True),
        CategoryColumn("min", (), True),
    )
    encoding = ColumnEncoding(columns)
    n_features = len(encoding.feature_names)
    expansion = KernelExpansion(
        RBF(0.1), np.eye(n_features), np.eye(n_features), np.ones(n_features)
    )
    classes = np.array([f"class {i}" for i in range(n_features)])
    names = encoding.feature_names
    return Model(expansion, "classifier", classes, encoding=encoding, feature_names=names)


def shapes():
    """Models of every shape, with the storage to export them in."""
    rng = np.random.default_rng(0)
    for format in FORMATS:
        for map in MAPS:
            kernel = "rbf widths" if map in (None, "projection") else "rbf"
            yield random_model(rng, formats=(format,), map=map, kernel=kernel), "auto"
    for kernel in dict.fromkeys((*KERNELS, "diagonal")):
        for storage, map in zip(("float32", "float16", "int8", "float32"), MAPS, strict=True):
            yield random_model(rng, formats=(), kernel=kernel, map=map), storage
    for options in SHAPES.values():
        yield Model(random_compact(rng, **options)), "auto"
    for scheme in SCHEMES:
        for _ in range(4):
            yield random_model(rng, kind="classifier", scheme=scheme, scaler="columns"), "auto"
    for kind in ("regressor", "transformer", "expansion", "novelty"):
        yield random_model(rng, kind=kind), "auto"
    yield table_model(), "auto"
    same = ColumnEncoding((OrdinalColumn("x", ("a",), (0.0,), 0.0, 0.0),))  # whatever the cell
    expansion = KernelExpansion(RBF(0.1), np.ones((1, 1)), np.ones((1, 1)), np.ones(1))
    yield Model(expansion, encoding=same, feature_names=same.feature_names), "auto"
    yield Model(KernelExpansion(Laplacian(0.5), np.eye(3), np.eye(3), np.ones(3))), "float32"


@pytest.fixture(scope="module")
def exports(tmp_path_factory):
    """A folder with the exports of all shapes and sources that include all of them."""
    folder = tmp_path_factory.mktemp("exports")
    names, sources = [], []
    for number, (model, storage) in enumerate(shapes()):
        if model.expansion.centers.size + model.n_features**2 > 5000:
            continue  # an array of AVR has 32767 bytes at most
        for exp in ("polynomial", "libm"):
            name = f"m{number}_{exp}"
            is_single = number % 4 == 0
            try:
                to_c(model, folder, storage, exp=exp, name=name, single_header=is_single)
            except ValueError:  # random numbers need not fit in float32
                continue
            names.append(name)
            single = f'#define {name.upper()}_IMPLEMENTATION\n#include "{name}.h"'
            sources.append(single if is_single else f'#include "{name}.c"')
    assert len(names) > 1.5 * number
    lines = [HOSTILE, *(f"#define {name} broken+" for name in PRIVATE.split())]
    (folder / "all.c").write_text("\n".join([*lines, *sources, ""]))
    tests = [f'#define main main_of_{n}\n#include "test_{n}.c"\n#undef main' for n in names]
    prototypes = [f"int main_of_{n}(int argc, char **argv);" for n in names]
    (folder / "tests.c").write_text("\n".join(["#include <stdio.h>", *prototypes, *tests, ""]))
    examples = [f'#define main main_of_{n}\n#include "example_{n}.c"\n#undef main' for n in names]
    prototypes = [f"int main_of_{n}(void);" for n in names]
    lines = ["#include <stdio.h>", *prototypes, *examples, ""]
    (folder / "examples.c").write_text("\n".join(lines))
    return folder


def compilations():
    """Compilers with options for a target, and a standard of C or C++."""
    hosts = [("gcc", ""), ("clang", ""), ("g++", ""), ("clang++", "")]
    arm = "-mthumb -mcpu=cortex-"
    targets = [("arm-none-eabi-gcc", f"{arm}{core}") for core in ("m0", "m4")]
    targets += [("avr-gcc", "-mmcu=atmega328p"), ("avr-g++", "-mmcu=atmega328p")]
    for compiler, options in hosts + targets:
        is_plus = compiler.endswith("++")
        gnu = "gnu11" if compiler == "avr-gcc" else "gnu17"  # which is often an old version
        for standard in ("c++11", "c++17", "gnu++17") if is_plus else ("c99", "c11", gnu):
            is_slow = (compiler, standard) not in FAST
            marks = [pytest.mark.slow] if is_slow else []
            if not shutil.which(compiler):
                marks.append(pytest.mark.skip(reason=f"there is no {compiler}"))
            yield pytest.param(compiler, options, standard, marks=marks)


FAST = {("gcc", "gnu17"), ("clang", "c99"), ("g++", "c++17"), ("avr-gcc", "gnu11")}
FAST |= {("arm-none-eabi-gcc", "c99")}


@pytest.mark.slow
@pytest.mark.parametrize(("compiler", "options", "standard"), list(compilations()))
def test_every_shape_compiles_without_a_warning(compiler, options, standard, exports):
    language = "c++" if compiler.endswith("++") else "c"
    warnings = [w for w in ALL_WARNINGS if language == "c" or w != "-Wmissing-prototypes"]
    is_host = not options
    syntax = "-fsyntax-only"
    for source, *optimize in [("all.c", "-Os"), ("tests.c", syntax), ("examples.c", syntax)]:
        if source == "all.c" and is_host:
            optimize = ["-O2", "-fsyntax-only"] if compiler.startswith("clang") else ["-O2"]
        if source == "tests.c" and "avr" in compiler:
            continue  # rows for a computer, of some megabytes
        command = [compiler, "-x", language, f"-std={standard}", *options.split(), *warnings]
        made = subprocess.run(
            [*command, *optimize, "-c", source, "-o", f"{compiler}.o"],
            cwd=exports,
            capture_output=True,
            text=True,
        )
        assert made.returncode == 0, made.stderr[:3000]


def test_every_name_of_a_source_has_its_prefix(exports):
    defined = re.compile(
        r"^#define (\w+)|^(?:static |extern )?(?:const )?(?:struct )?\w+ "
        r"(?:\*const )?\*?(\w+)[\[({]|^enum (\w+) |^    (\w+) = \d+,",
        re.MULTILINE,
    )
    n_names = 0
    for path in exports.glob("*.[ch]"):
        name = path.stem
        if name in ("all", "tests", "examples"):
            continue
        text = re.sub(r"/\*.*?\*/", "", path.read_text("utf-8"), flags=re.DOTALL)
        for match in defined.finditer(text):
            found, base = next(filter(None, match.groups())), re.sub("^(test|example)_", "", name)
            assert found.startswith(
                (f"{base}_", f"{base.upper()}_", f"KERNLET_{base.upper()}_", f"test_{base}_")
            ) or found in ("main", "if", "for"), (path.name, found)
            n_names += 1
    assert n_names > 1000
