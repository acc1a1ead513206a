"""The sketch of an exported Arduino library on a computer: a Serial that reads standard input."""

import subprocess

import numpy as np

#: What a sketch uses of the Arduino core. println() ends a line; the sketch runs until its input
#: ends.
ARDUINO_H = r"""
#pragma once
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <cmath>
inline unsigned long millis() { return 5000; }
struct SerialPort {
    int next = EOF;
    bool ended = false;
    void begin(long) { next = std::getchar(); }
    explicit operator bool() const { return true; }
    int available() { ended = next == EOF; return ended ? 0 : 1; }
    int read() { const int letter = next; next = std::getchar(); return letter; }
    void print(const char *text) { std::printf("%s", text); }
    void print(char letter) { std::printf("%c", letter); }
    void print(int value) { std::printf("%d", value); }
    void print(double value, int digits) { std::printf("%.*f", digits, value); }
    void println() { std::printf("\n"); }
    void println(const char *text) { std::printf("%s\n", text); }
};
extern SerialPort Serial;
"""
MAIN = """
#include "Arduino.h"
SerialPort Serial;
void setup();
void loop();
int main() { setup(); while (!Serial.ended) loop(); return 0; }
"""


def answers(package, case):
    """Class numbers or values of the rows of a case, sent to the sketch as lines of numbers."""
    folder = package.folder
    (sketch,) = (folder / "examples").rglob("*.ino")
    (folder / "Arduino.h").write_text(ARDUINO_H)
    (folder / "main.cpp").write_text(MAIN)
    warnings = ["-Wall", "-Wextra", "-Wpedantic", "-Werror"]
    source = folder / "src" / f"{package.name}.c"
    commands = [
        ["gcc", "-std=c99", *warnings, "-c", source, "-o", "model.o"],
        [
            *("g++", "-std=c++17", *warnings, "-I", ".", "-I", "src", "-include", "Arduino.h"),
            *("-x", "c++", sketch, "main.cpp", "-x", "none", "model.o", "-o", "sketch", "-lm"),
        ],
    ]
    for command in commands:
        made = subprocess.run(command, cwd=folder, capture_output=True, text=True)
        assert made.returncode == 0, made.stderr[:2000]
    lines = "".join(", ".join(f"{v:.9g}" for v in row) + "\n" for row in case.rows)
    said = subprocess.run(
        [folder / "sketch"], input=lines, capture_output=True, text=True, check=True
    ).stdout.splitlines()
    first, *rest = said
    assert first == rest[0]  # the row in the sketch is the first one of X
    if case.model.kind != "classifier":
        return np.array([line.split() for line in rest], dtype=float)
    # a class may have spaces in its name; scores have none
    n_scores = 1 if len(case.model.classes) == 2 else len(case.model.classes)
    names = [line.rsplit(" ", n_scores)[0] for line in rest]
    return np.array([[str(c) for c in case.model.classes].index(name) for name in names])
