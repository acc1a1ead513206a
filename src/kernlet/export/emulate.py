"""Instructions, cycles and stack of compiled C, counted in emulators of the targets."""

from __future__ import annotations

import re
import struct
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kernlet.export.toolchain import OPTIONS, TARGETS, ToolError, run_tool
from kernlet.extras import require

# How this works
# --------------
# The C is compiled and linked for the target, and a function of it is called once per row.
#
# Cortex-M: unicorn (the processor of QEMU as a library) runs the code and reports every basic
# block that it enters. Its instructions are those that objdump lists between its first and last
# address; whether its last instruction, a branch, was taken follows from the block that comes
# next. Unicorn does not know cycles: these are estimated with the numbers that ARM publishes for
# each instruction, for memory without wait states. Instructions that the condition of an IT block
# skips are counted: they take a cycle too.
#
# ATmega328P: a program of some lines (templates/count_avr.c), linked with simavr, runs one
# instruction after the other. simavr counts cycles as the processor does.
#
# Stack: the memory below the stack pointer is filled with a pattern; the lowest byte that a call
# has changed tells how much it used, functions of the run-time library included.

_HARNESS = """
extern int measured(void);
volatile int result;
int main(void) { for (;;) { result = measured(); } }
"""
_CODE, _CODE_BYTES = 0x0, 1 << 26
_RAM, _RAM_BYTES = 0x20000000, 1 << 20
_RETURN = _RAM  # an address that is never executed
_PAINT = 0xA5
_LONGEST = 300  # seconds of emulation

_CONDITIONS = "eq|ne|cs|hs|cc|lo|mi|pl|vs|vc|hi|ls|ge|lt|gt|le"
#: Classes of Thumb instructions by their names, without ".w" and the like; the first that matches.
_CLASSES = {
    "call": re.compile(r"blx?$"),
    "branch": re.compile(rf"bx?({_CONDITIONS})?$|cbn?z|tb[bh]"),
    "load or store of several": re.compile(r"v?ldm|v?stm|v?push|v?pop|ldrd|strd"),
    "load or store": re.compile(r"v?ldr|v?str"),
    "float division or root": re.compile(r"vdiv|vsqrt"),
    "float multiply and add": re.compile(r"vn?ml[as]|vfn?m[as]"),
    "division": re.compile(r"[su]div"),
    "multiplication": re.compile(r"v?n?mul|ml[as]|[su]m[ul]"),
    "system": re.compile(r"mrs|msr|dsb|dmb|isb"),
}


@dataclass(frozen=True)
class Execution:
    """What calls of a C function cost, one number per row.

    ``cycles`` of the ATmega328P are those of the processor, and estimates for Cortex-M.
    ``stack`` has the bytes that a call uses below those of its caller, at most over the rows.
    ``values`` are what ``measured`` returned, and ``classes`` the instructions of all rows by class
    (Cortex-M).
    """

    instructions: tuple[int, ...]
    cycles: tuple[int, ...]
    is_estimate: bool
    stack: int
    values: tuple[int, ...]
    classes: Mapping[str, int]


def missing_emulator(target: str) -> str:
    """What to install to run code of a target, or nothing."""
    if target == "host":
        return "instructions are counted for other targets"
    if target != "ATmega328P":
        try:
            _unicorn(target)
        except ImportError as error:
            return str(error).rstrip(".")
        return ""
    try:
        with tempfile.TemporaryDirectory() as folder:
            run_tool(Path(folder), "gcc", "-E", str(_AVR_COUNTER), "-o", "counter.i")
    except ToolError:
        return f"{target} needs gcc and simavr: apt install gcc libsimavr-dev"
    return ""


def instructions(
    sources: Mapping[str, str],
    main: str,
    target: str,
    rows: Sequence[bytes],
    *,
    function: str = "measured",
    options: tuple[str, ...] = OPTIONS,
) -> Execution:
    """Compile C for a target, and count what a function of it executes for each row.

    Parameters
    ----------
    sources : mapping of str to str
        Names and texts of C files and headers.
    main : str
        C source with a global array ``inputs`` and ``int measured(void)``, which makes the call.
    target : {"Cortex-M0", "Cortex-M4F", "ATmega328P"}
        The processor that is emulated.
    rows : sequence of bytes
        Written to ``inputs`` before each call, little-endian as these processors are.
    function : str, default="measured"
        What is counted, from its first instruction to its return; ``measured`` must call it.
    options : tuple of str
        Of the compiler.

    Returns
    -------
    execution : Execution

    Raises
    ------
    ToolError
        Where a tool is missing, or the C does not compile or run.
    ImportError
        Where unicorn is missing.
    """
    if missing := TARGETS[target].missing:
        raise ToolError(missing)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        texts = {**sources, "kernlet_measured.c": main, "kernlet_harness.c": _HARNESS}
        for file, text in texts.items():
            (folder / file).write_text(text, encoding="utf-8")
        TARGETS[target].link(folder, *(f for f in texts if f.endswith(".c")), options=options)
        addresses = _symbols(folder, target)
        for symbol in ("inputs", "measured", function):
            if symbol not in addresses:
                raise ToolError(f"the linked program has no {symbol}")
        run = _run_avr if target == "ATmega328P" else _run_arm
        return run(folder, target, addresses, function, rows)


def _symbols(folder: Path, target: str) -> dict[str, int]:
    """Addresses of the functions and variables of a program."""
    lines = (line.split() for line in TARGETS[target].tool(folder, "nm", "program"))
    return {words[2]: int(words[0], 16) for words in lines if len(words) == 3}


# -- ATmega328P ------------------------------------------------------------------------------------

_AVR_COUNTER = Path(__file__).parent / "templates" / "count_avr.c"


def _run_avr(
    folder: Path, target: str, addresses: dict[str, int], function: str, rows: Sequence[bytes]
) -> Execution:
    try:
        run_tool(folder, "gcc", "-O2", str(_AVR_COUNTER), "-o", "count_avr", "-lsimavr")
    except ToolError:
        raise ToolError(missing_emulator(target) or "simavr does not link") from None
    places = [f"{addresses[name]:x}" for name in (function, "inputs", "_end")]
    command = ("./count_avr", "program", target.lower(), *places, str(len(rows[0])))
    lines = run_tool(folder, *command, given=b"".join(rows)).splitlines()
    counts, cycles, stack, values = zip(*(map(int, line.split()) for line in lines), strict=True)
    return Execution(counts, cycles, False, max(stack), values, {})


# -- Cortex-M --------------------------------------------------------------------------------------


def _unicorn(target: str) -> Any:
    return require("unicorn", f"Counting instructions of {target}", "device")


def _run_arm(
    folder: Path, target: str, addresses: dict[str, int], function: str, rows: Sequence[bytes]
) -> Execution:
    processor = _Processor(target, (folder / "program").read_bytes())
    code = _disassembled(folder, target)
    counts, cycles, stacks, values = [], [], [], []
    classes: Counter[str] = Counter()
    for row in rows:
        processor.write(addresses["inputs"], row)
        edges, stack = processor.call(addresses["measured"], addresses[function])
        values.append(processor.result)
        stacks.append(stack)
        n_cycles = 0
        found: Counter[str] = Counter()
        for (start, size, following), number in edges.items():
            block = [code[a] for a in range(start, start + size, 2) if a in code]
            for instruction in block:
                found[instruction.kind] += number
            n_cycles += number * sum(_cycles(target, block, following != start + size))
        counts.append(found.total())
        cycles.append(n_cycles)
        classes += found
    return Execution(tuple(counts), tuple(cycles), True, max(stacks), tuple(values), dict(classes))


class _Processor:
    """A Cortex-M with a program in its memory."""

    def __init__(self, target: str, program: bytes) -> None:
        unicorn = _unicorn(target)
        self._arm = arm = unicorn.arm_const
        self._unicorn, self._hook = unicorn, unicorn.UC_HOOK_BLOCK
        self._machine = unicorn.Uc(
            unicorn.UC_ARCH_ARM, unicorn.UC_MODE_THUMB | unicorn.UC_MODE_MCLASS
        )
        is_m0 = target == "Cortex-M0"
        self._machine.ctl_set_cpu_model(
            arm.UC_CPU_ARM_CORTEX_M0 if is_m0 else arm.UC_CPU_ARM_CORTEX_M4
        )
        self._machine.mem_map(_CODE, _CODE_BYTES)
        self._machine.mem_map(_RAM, _RAM_BYTES)
        for address, content in _segments(program):
            self._machine.mem_write(address, content)

    def write(self, address: int, content: bytes) -> None:
        """Write into the memory."""
        self._machine.mem_write(address, content)

    @property
    def result(self) -> int:
        """What the last function returned."""
        value = self._machine.reg_read(self._arm.UC_ARM_REG_R0)
        return int(value - (value >> 31 << 32))

    def call(self, start: int, function: int) -> tuple[Counter[tuple[int, int, int]], int]:
        """Call a function; the blocks that another one executes meanwhile, and its stack.

        Blocks are counted by their address, their size and the address of the next one.
        """
        arm, machine = self._arm, self._machine
        edges: Counter[tuple[int, int, int]] = Counter()
        last = back = top = 0
        size = 0

        def entered(_: Any, address: int, n_bytes: int, __: Any) -> None:
            nonlocal last, size, back, top
            if back:
                edges[last, size, address] += 1
                if address == back and machine.reg_read(arm.UC_ARM_REG_SP) == top:
                    back = 0
            elif address == function & ~1 and not edges:
                back = machine.reg_read(arm.UC_ARM_REG_LR) & ~1
                top = machine.reg_read(arm.UC_ARM_REG_SP)
            last, size = address, n_bytes

        machine.mem_write(_RAM, bytes([_PAINT]) * _RAM_BYTES)
        machine.reg_write(arm.UC_ARM_REG_SP, _RAM + _RAM_BYTES)
        machine.reg_write(arm.UC_ARM_REG_LR, _RETURN | 1)
        hook = machine.hook_add(self._hook, entered)
        try:
            machine.emu_start(start | 1, _RETURN, timeout=_LONGEST * 1_000_000)
        except self._unicorn.UcError as error:
            raise ToolError(f"the emulator stopped ({error})") from None
        finally:
            machine.hook_del(hook)
        if machine.reg_read(arm.UC_ARM_REG_PC) != _RETURN or not edges:
            raise ToolError(f"the function did not return within {_LONGEST} s of emulation")
        if back:  # the counted function was the one called: there is no block after it
            edges[last, size, _RETURN] += 1
        memory = machine.mem_read(_RAM, top - _RAM)
        return edges, len(bytes(memory).lstrip(bytes([_PAINT])))


def _segments(program: bytes) -> Iterator[tuple[int, bytes]]:
    """Addresses and contents of what an ELF file (32 bits, little-endian) loads."""
    (table,) = struct.unpack_from("<I", program, 28)
    entry_size, n_entries = struct.unpack_from("<HH", program, 42)
    for number in range(n_entries):
        kind, offset, address, _, n_bytes = struct.unpack_from(
            "<5I", program, table + number * entry_size
        )
        if kind == 1 and n_bytes:
            yield address, program[offset : offset + n_bytes]


@dataclass(frozen=True)
class _Instruction:
    """A Thumb instruction, with the number of registers of a list in its operands."""

    name: str
    kind: str
    n_registers: int
    writes_pc: bool


def _disassembled(folder: Path, target: str) -> dict[int, _Instruction]:
    """The instructions of a program by their addresses."""
    code = {}
    for line in TARGETS[target].tool(folder, "objdump", "-d", "--no-show-raw-insn", "program"):
        address, colon, text = line.partition(":\t")
        if colon and text:
            name, _, operands = text.partition("\t")
            code[int(address, 16)] = _instruction(name.strip(), operands)
    return code


def _instruction(name: str, operands: str) -> _Instruction:
    base = name.split(".")[0]
    kind = next((kind for kind, names in _CLASSES.items() if names.match(base)), "other")
    listed = re.search(r"\{(.*)\}", operands)
    n_registers, writes_pc = 2 * base.startswith(("ldrd", "strd")), operands.startswith("pc")
    for part in listed[1].split(",") if listed else ():
        first, _, last = part.strip().partition("-")
        n_registers += 1 if not last else int(last[1:]) - int(first[1:]) + 1
        writes_pc |= first == "pc"
    if listed and base.startswith("v") and listed[1].startswith("d"):
        n_registers *= 2  # words of a double register
    return _Instruction(base, kind, n_registers, writes_pc)


# Cycles of an instruction, with memory that has no wait states.
# Cortex-M0: "Cortex-M0 Technical Reference Manual" (ARM DDI 0432), table of the instruction
# summary, with the multiplier of one cycle (the other one takes 32).
# Cortex-M4F: "Cortex-M4 Technical Reference Manual" (ARM DDI 0439), tables of the instruction set
# and of the floating-point unit. Three are ranges there: a branch that is taken refills the
# pipeline in 1 to 3 cycles (2 here), a division takes 2 to 12 (7 here), and a load or store after
# another one takes 1 instead of 2.
_REFILL, _DIVISION = 2, 7


def _cycles(target: str, block: Sequence[_Instruction], is_taken: bool) -> Iterator[int]:
    """Cycles of each instruction of a block, the last of which may branch."""
    is_m0 = target == "Cortex-M0"
    previous = ""
    for instruction in block:
        kind, is_last = instruction.kind, instruction is block[-1]
        if kind == "call":
            yield (4 if instruction.name == "bl" else 3) if is_m0 else 1 + _REFILL
        elif kind == "branch":
            extra = instruction.name.startswith("tb")
            yield (3 if is_m0 else 1 + _REFILL + extra) if is_last and is_taken else 1
        elif kind == "load or store of several":
            refill = instruction.writes_pc * (3 if is_m0 else _REFILL)
            yield 1 + instruction.n_registers + refill
        elif kind == "load or store":
            yield 2 - (not is_m0 and previous == kind) + instruction.writes_pc * _REFILL
        elif kind == "system":
            yield 4 if is_m0 else 2
        elif instruction.writes_pc:
            yield 3 if is_m0 else 1 + _REFILL
        else:
            yield {
                "division": _DIVISION,
                "float division or root": 14,
                "float multiply and add": 3,
            }.get(kind, 1)
        previous = kind
