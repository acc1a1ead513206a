"""Instructions, cycles and stack in the emulators."""

import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from kernlet import KernelExpansion, to_c
from kernlet.export import emulate
from kernlet.export.emulate import instructions, missing_emulator
from kernlet.export.toolchain import TARGETS, ToolError
from kernlet.kernels.rbf import RBF
from kernlet.model.model import Model

CORTEX = ["Cortex-M0", "Cortex-M4F"]


def needs(target):
    missing = TARGETS[target].missing or missing_emulator(target)
    return pytest.mark.skipif(bool(missing), reason=missing)


def targets(*names):
    return pytest.mark.parametrize("target", [pytest.param(n, marks=needs(n)) for n in names])


#: A loop of n rounds, n being the input.
LOOP = """
int inputs[1];
int loop(int n);
int measured(void) { return loop(inputs[0]); }
"""
LOOP_ARM = """
__attribute__((naked)) int loop(int n) {
    __asm__(".syntax unified\\n"
            "push {r4, r5}\\n"
            "movs r1, #0\\n"
            "1: adds r1, r1, r0\\n"
            "ldr r2, [sp]\\n"
            "subs r0, r0, #1\\n"
            "bne 1b\\n"
            "mov r0, r1\\n"
            "pop {r4, r5}\\n"
            "bx lr\\n");
}
"""


@targets(*CORTEX)
def test_instructions_and_cycles_of_a_loop(target):
    rows = [np.array([n], "<i4").tobytes() for n in (1, 10, 1000)]
    run = instructions(
        {"loop.c": LOOP_ARM + "int loop(int n);"}, LOOP, target, rows, function="loop"
    )
    assert run.values == (1, 55, 500500)
    assert run.instructions == (9, 45, 4005)
    # push and pop 3 each, mov 1 each, bx 3; a round: two of 1, a load of 2, the branch 3 or 1
    assert run.cycles == tuple(11 + 7 * n - 2 for n in (1, 10, 1000))
    assert run.is_estimate
    assert run.stack == 8
    assert run.classes["branch"] == 1011 + 3


@targets("ATmega328P")
def test_cycles_of_avr_are_those_of_a_delay(target):
    delay = "int wait(int n) { (void)n; __builtin_avr_delay_cycles(100000); return -7; }\n"
    main = "int inputs[1];\nint wait(int n);\nint measured(void) { return wait(inputs[0]); }"
    run = instructions({"wait.c": delay}, main, target, [b"\0\0"] * 3, function="wait")
    assert run.cycles == (100_006,) * 3  # two instructions load -7, and 4 cycles of ret
    assert run.values == (-7,) * 3
    assert not run.is_estimate
    assert run.stack == 2  # the return address


SUM = """
int inputs[1];
static volatile char area[1];
__attribute__((noinline)) static int below(int n) {
    volatile char room[50];
    int i;
    for (i = 0; i < 50; ++i) room[i] = (char)n;
    return room[n] + area[0];
}
int measured(void) { volatile char more[30]; more[0] = (char)below(inputs[0]); return more[0]; }
"""


@targets(*CORTEX, "ATmega328P")
def test_stack_is_the_deepest_of_all_calls(target):
    run = instructions({}, SUM, target, [np.array([3], "<i4").tobytes()])
    assert 50 + run.values[0] <= run.stack <= 130
    assert run.values == (3,)


def predicting(model, X, folder, storage="auto"):
    """Source, main and rows of a model that predicts."""
    to_c(model, folder, storage)
    sources = {name: (Path(folder) / name).read_text("utf-8") for name in ("model.c", "model.h")}
    main = (
        '#include "model.h"\n#include <stddef.h>\nfloat inputs[MODEL_FEATURES];\n'
        "int measured(void) { return model_predict(inputs, NULL); }\n"
    )
    return sources, main, [row.astype("<f4").tobytes() for row in X]


@pytest.fixture(scope="module")
def classifier():
    rng = np.random.default_rng(3)
    centers, coef = rng.normal(size=(20, 5)), rng.normal(size=(3, 20))
    expansion = KernelExpansion(RBF(0.2), centers, coef, np.zeros(3))
    model = Model(expansion, "classifier", np.arange(3))
    return model, np.float32(rng.normal(size=(6, 5)))


@targets(*CORTEX, "ATmega328P")
def test_a_machine_predicts_in_the_emulator_what_python_predicts(target, classifier, tmp_path):
    model, X = classifier
    run = instructions(*with_target(target, *predicting(model, X, tmp_path)))
    assert run.values == tuple(model.codes(model.outputs(X.astype(float))).tolist())
    alone = instructions(
        *with_target(target, *predicting(model, X, tmp_path)), function="model_predict"
    )
    assert all(0 <= a - b < 20 for a, b in zip(run.instructions, alone.instructions, strict=True))
    assert all(c > n for n, c in zip(run.instructions, run.cycles, strict=True))


def with_target(target, sources, main, rows):
    return sources, main, target, rows


@targets(*CORTEX)
def test_blocks_have_the_instructions_that_are_executed(target, classifier, tmp_path, monkeypatch):
    """Against counting one by one, which is slow."""
    counted = Counter()
    call = emulate._Processor.call

    def slow(self, start, function):
        hook = self._unicorn.UC_HOOK_CODE
        machine, number = self._machine, len(counted)

        def executed(_, address, size, __):
            counted[number] += 1

        handle = machine.hook_add(hook, executed)
        try:
            return call(self, start, function)
        finally:
            machine.hook_del(handle)

    monkeypatch.setattr(emulate._Processor, "call", slow)
    model, X = classifier
    run = instructions(*with_target(target, *predicting(model, X[:3], tmp_path)))
    executed = tuple(counted[number] for number in range(3))
    if target == "Cortex-M0":
        assert run.instructions == executed
    else:  # those that an IT block skips are fetched, and counted, but not executed
        pairs = zip(run.instructions, executed, strict=True)
        assert all(0 <= n - m < 0.05 * m for n, m in pairs)
    assert sum(run.classes.values()) == sum(run.instructions)


@targets(*CORTEX, "ATmega328P")
def test_what_does_not_run_is_refused_in_a_sentence(target):
    with pytest.raises(ToolError, match="expected"):
        instructions({}, "int inputs[1] = ;", target, [b"\0"])
    main = "int inputs[1];\nint measured(void) { return inputs[0]; }"
    with pytest.raises(ToolError, match="has no other"):
        instructions({}, main, target, [b"\0"], function="other")


@needs("Cortex-M0")
def test_code_that_leaves_its_memory_is_refused():
    main = "int inputs[1];\nint measured(void) { return *(volatile int *)0x70000000 + inputs[0]; }"
    with pytest.raises(ToolError, match="the emulator stopped"):
        instructions({}, main, "Cortex-M0", [b"\0"])


def test_a_missing_emulator_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "unicorn", None)
    assert missing_emulator("Cortex-M0").endswith('pip install "kernlet[device]"')
    monkeypatch.setattr(emulate, "_AVR_COUNTER", Path("absent.c"))
    assert "apt install gcc libsimavr-dev" in missing_emulator("ATmega328P")
    monkeypatch.setenv("PATH", "")
    assert "apt install" in TARGETS["ATmega328P"].missing
    with pytest.raises(ToolError, match="apt install gcc-arm-none-eabi"):
        instructions({}, "", "Cortex-M0", [])


@pytest.mark.parametrize(
    ("text", "kind", "n_registers"),
    [
        ("pop {r4, r5, pc}", "load or store of several", 3),
        ("vpush {d8-d9}", "load or store of several", 4),
        ("vldmia r0!, {s14-s15}", "load or store of several", 2),
        ("ldrd r0, r1, [sp]", "load or store of several", 2),
        ("ldrb.w r0, [r1]", "load or store", 0),
        ("bls.n 8000", "branch", 0),
        ("bl 8000", "call", 0),
        ("bic.w r0, r1", "other", 0),
        ("vfma.f32 s0, s1, s2", "float multiply and add", 0),
        ("vmsr fpscr, r0", "other", 0),
        ("umull r0, r1, r2, r3", "multiplication", 0),
        ("udiv r0, r1, r2", "division", 0),
    ],
)
def test_classes_of_instructions(text, kind, n_registers):
    name, _, operands = text.partition(" ")
    instruction = emulate._instruction(name, operands)
    assert (instruction.kind, instruction.n_registers) == (kind, n_registers)
    assert instruction.writes_pc == ("pc" in operands)
