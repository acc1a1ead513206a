"""Sizes of exported C, linked and run on each target."""

import shutil

import numpy as np
import pytest

from kernlet import CompactKernelClassifier, to_c
from kernlet.export import size_report
from kernlet.export.code_size import CodeSize, linked_size, size_lines
from kernlet.export.emulate import missing_emulator
from kernlet.export.toolchain import TARGETS, ToolError
from support.c_programs import needs_gcc
from support.exportable_models import IRIS, IRIS_LABELS, classifier, regressor

DEVICES = [
    pytest.param(name, marks=pytest.mark.skipif(bool(target.missing), reason=target.missing))
    for name, target in TARGETS.items()
    if name != "host"
]


@pytest.mark.slow
@pytest.mark.parametrize("target", DEVICES)
def test_flash_is_what_a_program_grows_by(target, tmp_path):
    model, X = classifier("compact int8")
    sizes = {}
    for exp in ("polynomial", "libm"):
        source = to_c(model, tmp_path, X=X, exp=exp)
        size = {size.target: size for size in source.size_report()}[target]
        assert size.problem == missing_emulator(target)
        assert 200 < size.code < 2000
        # constants that are shift, width and so on are in the code
        assert abs(size.tables - source.table_bytes) < 20
        assert 0 <= size.library < 6000
        assert size.flash == size.code + size.tables + size.library
        assert 0 <= size.ram < 16
        assert 64 * 4 < size.stack < 1000  # the scaled features are there
        sizes[exp] = size
    # expf is not in the machine's own code, and larger than the polynomial
    assert sizes["libm"].code < sizes["polynomial"].code
    assert sizes["polynomial"].flash < sizes["libm"].flash
    main = '#include "model.h"\nint main(void) { model_predict(0, 0); return 0; }\n'
    texts = {name: (tmp_path / name).read_text("utf-8") for name in ("model.c", "model.h")}
    assert linked_size(texts, main, target) == (size.flash, size.ram)


@pytest.mark.slow
@pytest.mark.parametrize("target", DEVICES)
def test_instructions_and_cycles_of_a_prediction(target, tmp_path):
    if missing := missing_emulator(target):
        pytest.skip(missing)
    for model, X in (classifier("compact int8"), regressor("flat")):
        size = {s.target: s for s in to_c(model, tmp_path, X=X).size_report()}[target]
        assert not size.problem
        # at least a few for each number of the centers
        assert size.instructions > 3 * model.expansion_.centers.size
        assert 1 < size.cycles / size.instructions < 2
        assert size.cycles_are_estimates == (target != "ATmega328P")


@pytest.mark.slow
@pytest.mark.parametrize("target", DEVICES)
def test_instructions_grow_with_the_centers(target, tmp_path):
    if missing := missing_emulator(target):
        pytest.skip(missing)
    counts = []
    for n_centers in (4, 8, 12):
        machine = CompactKernelClassifier(n_centers, storage="int8", n_epochs=2, random_state=0)
        source = to_c(machine.fit(IRIS, IRIS_LABELS), tmp_path, X=IRIS)
        sizes = {size.target: size for size in source.size_report()}
        counts.append(sizes[target].instructions)
    steps = np.diff(counts)
    assert steps[0] == pytest.approx(steps[1], rel=0.5)  # exp returns early where it is 0
    assert counts[0] < 2 * steps[0]


@pytest.mark.slow
@needs_gcc
def test_sizes_on_the_host_and_of_what_does_not_compile(tmp_path):
    model, X = classifier("compact int8")
    host = to_c(model, tmp_path, X=X).size_report(emulate=False)[0]
    assert host.target == "host"
    assert 200 < host.code < 2000
    assert host.flash is host.instructions is None
    (tmp_path / "broken.c").write_text("int x = ;")
    sizes = [
        size for size in size_report(tmp_path / "broken.c") if not TARGETS[size.target].missing
    ]
    assert all(size.code is size.flash is None for size in sizes)
    assert all("does not compile (expected" in size.problem for size in sizes)


@needs_gcc
def test_what_does_not_link_keeps_the_size_of_its_own(tmp_path):
    (tmp_path / "lost.h").write_text("int lost_predict(const float *x, float *scores);")
    (tmp_path / "lost.c").write_text(
        '#include "lost.h"\nint absent(void);\n'
        "int lost_predict(const float *x, float *scores) "
        "{ (void)x; (void)scores; return absent(); }"
    )
    for size in size_report(tmp_path / "lost.c")[1:]:
        if TARGETS[size.target].missing:
            continue
        assert size.code > 0
        assert size.flash is None
        assert "does not link (" in size.problem


@pytest.mark.skipif(bool(TARGETS["Cortex-M0"].missing), reason=TARGETS["Cortex-M0"].missing)
def test_without_test_rows_the_sizes_remain(tmp_path):
    pytest.importorskip("unicorn")
    to_c(classifier("compact int8")[0], tmp_path)
    (tmp_path / "test_model.c").write_text("")
    size = size_report(tmp_path / "model.c")[1]
    assert size.flash > 0
    assert size.instructions is None
    assert size.problem == "does not run (test_model.c has no rows)"


def test_missing_tools_are_named_and_the_table_is_aligned(tmp_path, monkeypatch):
    source = to_c(classifier("compact int8")[0], tmp_path)
    monkeypatch.setattr(shutil, "which", lambda name: None)
    sizes = source.size_report()
    assert [size.target for size in sizes] == list(TARGETS)
    assert all("apt install" in size.problem for size in sizes)
    lines = size_lines(sizes)
    assert lines[0].split()[0] == "target"
    assert any(line.startswith("Cortex-M0, Cortex-M4F: no arm-none-eabi-gcc:") for line in lines)
    with pytest.raises(ToolError, match="apt install gcc-avr"):
        linked_size({}, "", "ATmega328P")
    cells = {"code": 500, "tables": 12000, "library": 3, "ram": 0, "stack": 90}
    numbers = CodeSize("Cortex-M0", "gcc", **cells, instructions=123456, cycles=234567)
    estimate = CodeSize("M4F", "gcc", **cells, cycles=9, cycles_are_estimates=True)
    head, first, second, note = size_lines([numbers, estimate])
    assert len(head) == len(first) == len(second)
    assert first.split() == [
        "Cortex-M0",
        "500",
        "12,000",
        "3",
        "12,503",
        "0",
        "90",
        "123,456",
        "234,567",
    ]
    assert second.split()[-2:] == ["-", "~9"]
    assert "estimated" in note
