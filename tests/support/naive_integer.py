"""Machines in integers, one number at a time; every step must fit in the type that C gives it."""

from __future__ import annotations

import math


def typed(value, bits, signed=True):
    """The value, if a type holds it."""
    value = int(value)
    low, high = (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if signed else (0, (1 << bits) - 1)
    assert low <= value <= high, f"{value} does not fit in {bits} bits"
    return value


def int16(value):
    return typed(value, 16)


def int32(value):
    return typed(value, 32)


def uint16(value):
    return typed(value, 16, False)


def uint32(value):
    return typed(value, 32, False)


def clamp(value, low, high):
    return min(max(value, low), high)


def half(shift):
    return (1 << shift) >> 1


def mul16(a, multiplier, type):
    """The product without 64 bits, in the parts that C computes."""
    high = type(type(a >> 16) * uint16(multiplier))
    low = uint32(uint32(a & 0xFFFF) * multiplier) >> 16
    return type(high + low)


def rescaled(a, rescale):
    product = mul16(a, rescale.multiplier, int32)
    if rescale.shift <= 0:
        return int32(product << -rescale.shift)
    return int32(product + half(rescale.shift)) >> rescale.shift


def table_of_powers():
    return [round(65535 * 2 ** (-i / 32)) for i in range(33)]


def exp2_neg(t, fraction, more=0):
    n = (uint32(t) >> fraction) + more
    if n > 16:
        return 0
    rest = t % (1 << fraction)
    powers, i = table_of_powers(), int(rest / 2**fraction * 32)
    r = int(rest * 32 * 2048 / 2**fraction) % 2048
    value = powers[i] - (uint32((powers[i] - powers[i + 1]) * r) >> 11)
    return uint16(uint32(uint16(value) + half(n)) >> n)


def log2_int(y):
    y = uint32(y)
    n = y.bit_length() - 1
    table = [min(65535, round(65536 * math.log2(1 + i / 32))) for i in range(33)]
    place = (y - (1 << n)) * 32 * 2048 // (1 << n)  # 16 bits
    i, r = place // 2048, place % 2048
    rise = uint16(table[i + 1] - table[i])
    bulge = uint32(uint16(uint32(rise * rise) >> 12) * uint16(uint32(r * (2048 - r)) >> 11) * 45)
    return uint32((n << 16) + table[i] + (uint32(rise * r) >> 11) + (bulge >> 22))


def asinh(v, asinh):
    size = abs(int16(v))
    root = math.isqrt(uint32(uint32(size * size) + (1 << (2 * asinh.bits))))
    logarithm = log2_int(uint32(size + root)) - (asinh.bits << 16)
    value = rescaled(max(logarithm, 0), asinh.rescale)
    return int16(value if v >= 0 else -value)


def mapped(machine, row):
    """What the kernel takes."""
    row = [int16(q) for q in row]
    if machine.fill is not None:
        row = [int16(f) if q == -32768 else q for q, f in zip(row, machine.fill, strict=True)]
    if machine.block > 1:
        side, b = math.isqrt(len(row)), machine.block
        row = [
            clamp(
                sum(row[(b * i + k) * side + b * j + h] for k in range(b) for h in range(b)),
                -32768,
                32767,
            )
            for i in range(side // b)
            for j in range(side // b)
        ]
    w = []
    for i, q in enumerate(row):
        v = q
        if machine.front is not None:
            m, o, s = machine.front
            v = int32(int32(int32(q * int16(m)) - int32(o)) + half(s)) >> s
        v = int16(clamp(v, machine.low, machine.high))
        v = v if machine.asinh is None else asinh(v, machine.asinh)
        jumps = 0
        if machine.steps is not None:
            for feature, threshold, jump in zip(*machine.steps, strict=True):
                jumps += int16(jump) if feature == i and v > int16(threshold) else 0
        w.append(int16(v + jumps))
    if machine.projection is not None:
        sums = []
        for codes in machine.projection.tolist():
            total = 0
            for code, number in zip(codes, w, strict=True):
                total = int32(total + code * number)
            sums.append(rescaled(total, machine.rescale))
        w = sums
    return [int16(clamp(u, -machine.limit, machine.limit)) for u in w]


def kernel_value(machine, u, j, present=None):
    z = machine.centers[j].tolist()
    if machine.base is not None:
        return _of_product(machine, u, z)
    f, total = machine.center_shift, 0
    shifts = [0] * len(u) if machine.weights is None else machine.weights.shifts[j].tolist()
    for a, b, shift, counts in zip(u, z, shifts, present or [True] * len(u), strict=True):
        difference = int16(a - int16(b << f)) if counts else 0
        size = abs(difference) if machine.kernel == "laplacian" else difference**2
        total = uint32(total + (uint32(size) >> shift))
    if present is not None:
        n = sum(present)
        total = uint32(uint32(total // n * len(u)) + uint32(total % n * len(u)) // n)
    width = uint16(machine.widths[j if len(machine.widths) > 1 else 0])
    t = mul16(uint32(total << machine.distance_shift), width, uint32)
    if machine.rational is not None:
        bits, shift, multiplier = machine.rational
        logarithm = log2_int(uint32((1 << bits) + t)) - (bits << 16)
        t = mul16(uint32(logarithm << shift), multiplier, uint32)
    return exp2_neg(t, machine.fraction, machine.value_shift)


def _of_product(machine, u, z):
    total = 0
    for a, b in zip(u, z, strict=True):
        total = int32(total + a * b)
    b = int32(rescaled(total, machine.base) + int32(machine.base_offset))
    if machine.kernel == "sigmoid":
        e = exp2_neg(abs(b), machine.fraction)
        value = int32((65535 - e) * 32767) // (65535 + e)
        value = value if b > 0 else -value if b < 0 else 0
    else:
        b = int16(clamp(b, -32767, 32767))
        value = b
        for _ in range(machine.degree - 1):
            value = int16(int32(int32(value * b) + 16384) >> 15)
    return int32(value + half(machine.value_shift)) >> machine.value_shift


def scores(machine, row):
    """Scores of one row of inputs."""
    u, present = mapped(machine, row), None
    if machine.skips_missing:
        present = [q != -32768 for q in row]
        if not any(present):
            u, present = [0] * len(u), [True] * len(u)
    totals = [int32(b) for b in machine.intercept.tolist()]
    for j in range(len(machine.centers)):
        value = kernel_value(machine, u, j, present)
        for place, code in enumerate(machine.coef[j].tolist()):
            output = place if machine.outputs is None else int(machine.outputs[j, place])
            totals[output] = int32(totals[output] + int32(value * code))
    return totals
