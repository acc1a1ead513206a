"""Cases of fuzz targets that go wrong in every way; workers import them by name."""

import os
import time


def accept(rng, folder):
    return "accepted"


def draw(rng, folder):
    return str(rng.integers(2**40))


def raise_error(rng, folder):
    raise KeyError("a")


def sleep(rng, folder):
    time.sleep(100)


def abort(rng, folder):
    os.abort()


def allocate(rng, folder):
    return str(len(bytearray(20 * 2**30)))
