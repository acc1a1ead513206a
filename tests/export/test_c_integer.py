"""Machines in integers as C: the integers of Python, bit by bit, on every processor at hand."""

import re
import shutil
import subprocess
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from sklearn.datasets import load_breast_cancer
from sklearn.svm import SVC

from export.runners import case, require
from kernlet import KernelExpansion, QuantizedExpansion, to_c
from kernlet.export.emulate import instructions, missing_emulator
from kernlet.export.integer_module import IntegerModule
from kernlet.export.toolchain import TARGETS
from kernlet.kernels.polynomial import Polynomial
from kernlet.model.model import Model, as_model
from kernlet.quantization import FORMATS as PACKED_FORMATS
from kernlet.quantization import encode
from support import naive_integer
from support.c_programs import ALL_WARNINGS, needs_gcc
from support.exportable_models import classifier
from support.integer_c_programs import CModule, integer_c_answers
from support.integer_modules import (
    FORMATS,
    check_answers,
    made,
    random_models,
    rows_for,
    shaped_models,
)


def check(folder, modules):
    """Compile modules together, and compare every function with Python."""
    check_answers(modules, partial(integer_c_answers, folder, modules))


@pytest.mark.slow
@needs_gcc
def test_every_shape_computes_the_integers_of_python(tmp_path):
    check(tmp_path, made(CModule, shaped_models(FORMATS[1]), 16))


@needs_gcc
@pytest.mark.slow
@pytest.mark.parametrize("formats", [FORMATS[0], FORMATS[2]])
def test_every_format_computes_the_integers_of_python(formats, tmp_path):
    check(tmp_path, made(CModule, shaped_models(formats), 16))


@needs_gcc
@pytest.mark.slow
@pytest.mark.parametrize("start", [0, 100])
def test_random_machines_compute_the_integers_of_python(start, tmp_path):
    check(tmp_path, made(CModule, random_models(range(start, start + 60)), 40))


# -- Processors ------------------------------------------------------------------------------------

#: The scores of a row as a number of 16 bits.
DIGEST = """
#include "model.h"
int16_t inputs[MODEL_FEATURES];
int measured(void)
{
    int32_t scores[MODEL_SCORES];
    uint16_t digest = 0;
    int i;
    model_predict(inputs, scores);
    for (i = 0; i < MODEL_SCORES; ++i) {
        digest = (uint16_t)(31u * digest + (uint16_t)scores[i]);
        digest = (uint16_t)(31u * digest + (uint16_t)((uint32_t)scores[i] >> 16));
    }
    return (int16_t)digest;
}
"""


def digest(scores):
    """The same of rows of scores."""
    result = np.zeros(len(scores), dtype=np.int64)
    for column in scores.T:
        for half in (column & 0xFFFF, (column >> 16) & 0xFFFF):
            result = (31 * result + half) & 0xFFFF
    return result.astype(np.uint16).astype(np.int16)


def check_on(target, module, folder):
    """Compare the scores that a processor computes, for usual, random and extreme inputs."""
    if target == "ATmega328P" and 8 * module.machine.n_outputs > 1000:
        return  # it has 2 kB of RAM
    source = to_c(module.model, folder, X=module.rows, arithmetic="integer")
    texts = {path.name: path.read_text("utf-8") for path in source.files[:2]}
    rows = rows_for(module, 4)[0]
    run = instructions(texts, DIGEST, target, [row.astype("<i2").tobytes() for row in rows])
    expected = digest(module.machine.scores(rows))
    assert_array_equal(run.values, expected, err_msg=f"{module.name} {module.machine.kernel}")


def on_devices(test):
    """Run a test for both processors without floating point."""
    params = []
    for name in ("Cortex-M0", "ATmega328P"):
        missing = TARGETS[name].missing or missing_emulator(name)
        params.append(pytest.param(name, marks=pytest.mark.skipif(bool(missing), reason=missing)))
    return pytest.mark.parametrize("target", params)(test)


@pytest.mark.slow
@on_devices
def test_devices_compute_the_integers_of_python(target, tmp_path):
    for module in made(CModule, shaped_models(FORMATS[1]), 16)[::4]:
        check_on(target, module, tmp_path)


@on_devices
@pytest.mark.slow
def test_every_shape_on_devices(target, tmp_path):
    models = [*shaped_models(FORMATS[2]), *random_models(range(20))]
    for module in made(CModule, iter(models), 25):
        check_on(target, module, tmp_path)


needs_qemu = pytest.mark.skipif(
    not (shutil.which("qemu-system-arm") and shutil.which("arm-none-eabi-gcc")),
    reason="there is no qemu-system-arm or no arm-none-eabi-gcc",
)
#: The vectors of a Cortex-M0 with 16 kB of RAM.
VECTORS = """
extern void _start(void);
__attribute__((section(".vectors"), used))
void (*const vectors[2])(void) = {(void (*)(void))0x20004000, _start};
"""


@needs_qemu
@pytest.mark.parametrize("name", ["compact int4 projected", "compact steps", "svc"])
def test_the_test_program_runs_on_a_cortex_m0(name, tmp_path):
    model, X = classifier(name)
    to_c(model, tmp_path, X=X, arithmetic="integer")
    (tmp_path / "vectors.c").write_text(VECTORS)
    places = ["--section-start=.vectors=0", "-Ttext=0x100", "-Tdata=0x20000000"]
    options = ["-mcpu=cortex-m0", "-mthumb", "-Os", "-std=c99"]
    options += ["--specs=nano.specs", "--specs=rdimon.specs", *(f"-Wl,{place}" for place in places)]
    files = ["vectors.c", "test_model.c", "model.c", "-o", "program"]
    subprocess.run(["arm-none-eabi-gcc", *options, *files], cwd=tmp_path, check=True)
    machine = ["-M", "microbit", "-nographic", "-semihosting", "-kernel", "program"]
    ran = subprocess.run(
        ["qemu-system-arm", *machine], cwd=tmp_path, capture_output=True, text=True, timeout=60
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "rows agree with Python" in ran.stdout


# -- Compilers -------------------------------------------------------------------------------------


@pytest.mark.slow
@needs_gcc
@pytest.mark.parametrize(
    "command",
    [
        ["gcc", "-std=gnu17", "-O3"],
        ["g++", "-std=c++17", "-x", "c++"],
        ["clang", "-std=c99", "-O2"],
        ["arm-none-eabi-gcc", "-std=c99", "-mcpu=cortex-m0", "-mthumb", "-Os"],
        ["avr-gcc", "-std=c99", "-mmcu=atmega328p", "-Os"],
        ["avr-g++", "-std=c++17", "-x", "c++", "-mmcu=atmega328p", "-Os"],
    ],
    ids=" ".join,
)
def test_every_shape_compiles_without_a_warning(command, tmp_path):
    require(command[0])
    warnings = [w for w in ALL_WARNINGS if w != "-Wmissing-prototypes" or "++" not in command[0]]
    parts = []
    for module in made(CModule, shaped_models(FORMATS[1]), 16):
        folder = tmp_path / module.name
        to_c(module.model, folder, name=module.name, X=module.rows, arithmetic="integer")
        parts.append(f'#include "{module.name}/{module.name}.c"\n')
        parts.append(f'#include "{module.name}/{module.name}.h"\n')
    (tmp_path / "all.c").write_text("".join(parts))
    compiled = subprocess.run(
        [*command, *warnings, "-c", "all.c", "-o", "all.o"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert compiled.returncode == 0, compiled.stderr[:3000]


# -- What the files say ----------------------------------------------------------------------------


def test_the_code_has_no_floating_point_and_little_of_a_library(tmp_path):
    model, X = classifier("compact int4 projected")
    source = to_c(model, tmp_path, X=X, arithmetic="integer")
    assert source.arithmetic == "integer"
    assert all(bound.largest <= bound.limit for bound in source.bounds)
    text = (tmp_path / "model.c").read_text("utf-8")
    predicts = text[: text.index("void model_from_floats")]
    code = predicts[predicts.index("static uint16_t model_power") :]
    assert not re.search(r"\bfloat\b|\bdouble\b|malloc|math\.h|long long|int64", code)
    assert "/" not in re.sub(r"/\*.*?\*/", "", code[: code.index("model_probabilities")])
    header = (tmp_path / "model.h").read_text("utf-8")
    for bound in source.bounds:
        assert f"{bound.what}: {bound.largest} of {bound.limit}" in header
    for size in source.size_report(emulate=False):
        if size.target == "Cortex-M0" and not size.problem:
            assert size.code + size.library < 800


def test_scales_are_in_the_header(tmp_path):
    model, X = classifier("compact unlike columns")
    to_c(model, tmp_path, X=X, arithmetic="integer")
    machine = IntegerModule.of(as_model(model), "model", X, None).machine
    header = " ".join((tmp_path / "model.h").read_text("utf-8").replace("\n * ", " ").split())
    for number, (offset, scale) in enumerate(zip(machine.offset, machine.scale, strict=True)):
        assert f"{offset:.9g} and {scale:.9g} of feature {number}" in header


def test_options_that_do_not_go_together_are_refused(tmp_path):
    model, X = classifier("svc")
    with pytest.raises(ValueError, match="arithmetic='fixed' is not one of float, integer"):
        to_c(model, tmp_path / "c", arithmetic="fixed")
    with pytest.raises(ValueError, match="exp='libm' is for float arithmetic"):
        to_c(model, tmp_path / "c", arithmetic="integer", exp="libm")
    with pytest.raises(ValueError, match="storage='float16' holds numbers that are not integers"):
        to_c(model, tmp_path / "c", "float16", arithmetic="integer", X=X)
    assert not (tmp_path / "c").exists()


@needs_gcc
def test_a_single_header_and_its_example(tmp_path):
    model, X = classifier("compact steps")
    to_c(model, tmp_path, X=X, arithmetic="integer", single_header=True, name="iris")
    assert not (tmp_path / "iris.c").exists()
    for goal in ("test", "example"):
        ran = subprocess.run(["make", goal], cwd=tmp_path, capture_output=True, text=True)
        assert ran.returncode == 0, ran.stderr
    assert "probability of" in ran.stdout


def test_packed_machines_have_the_integer_values_of_their_code():
    for module in made(CModule, shaped_models(FORMATS[1]), 16):
        machine, rows = module.machine, module.rows
        expansion = module.model.expansion
        if np.max(expansion.gamma) > 1e-12:  # else its centers are one point to the export
            expected = expansion.integer_values(rows[:5], rows)
            assert_array_equal(machine.scores(machine.quantized(rows[:5])), expected)


def test_small_scores_are_not_an_excuse(tmp_path):
    X, y = load_breast_cancer(return_X_y=True)
    model = as_model(SVC(kernel="linear").fit(X, y))
    small = replace(model.expansion, coef=1e-6 * model.expansion.coef, intercept=np.zeros(1))
    for expansion in (model.expansion, small):
        with pytest.raises(ValueError, match="In integers the scores are off by"):
            to_c(replace(model, expansion=expansion), tmp_path, X=X, arithmetic="integer")


def test_a_few_whole_rows_do_not_make_inputs_whole():
    model, X = classifier("compact int4 projected")
    rows = np.rint(X[:3])
    assert not IntegerModule.of(as_model(model), "m", rows, None).machine.is_counts


def test_the_argument_of_a_polynomial_does_not_overflow():
    rng = np.random.default_rng(0)
    X = np.zeros((200, 300))
    X[:, :2] = rng.normal(size=(200, 2))
    X[0, 2:] = 1000.0  # where no center is
    expansion = KernelExpansion(
        Polynomial(1.0, 2, 1.0), X[1:5], rng.normal(size=(1, 4)), np.zeros(1)
    )
    machine = IntegerModule.of(Model(expansion), "m", X, None).machine
    worst = np.sign(machine.centers) * 32767
    for row in [*worst.tolist(), *(-worst).tolist()]:
        expected = machine.scores(np.array([row]))[0].tolist()
        assert naive_integer.scores(machine, row) == expected  # which checks every type


@needs_gcc
def test_rows_of_a_table_go_through_the_test_program(tmp_path):
    machine = case("table")
    to_c(machine.model, tmp_path, X=machine.table, arithmetic="integer")
    ran = subprocess.run(["make", "test"], cwd=tmp_path, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "16 of 16 rows of the table agree with Python" in ran.stdout


@pytest.mark.slow
@needs_gcc
@pytest.mark.parametrize("format", ["ternary", "int4", "int6", "int8"])
@pytest.mark.parametrize("rank", [1, 2, 3, 4, 5, 10, 20])
def test_rows_of_whole_bytes_and_others(rank, format, tmp_path):
    rng = np.random.default_rng(rank)
    shapes = {"centers": (7, rank), "coef": (rank, 7), "projection": (rank, 20 + rank)}
    packed = {
        name: encode(rng.normal(size=shape), PACKED_FORMATS[format])
        for name, shape in shapes.items()
    }
    expansion = QuantizedExpansion(np.array([0.02 / rank]), intercept=np.zeros(rank), **packed)
    X = rng.normal(size=(40, 20 + rank))
    check(tmp_path, [CModule.of(Model(expansion), "m", X, None)])
