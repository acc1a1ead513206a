"""Exported packages built on a computer, with stand-ins for the systems that they are made for.

The stand-ins do with the files of a package what the systems do: Arduino compiles the sketch and
the sources of the library, Zephyr reads the module, its Kconfig and its CMake file, ESP-IDF the
component and its example.
"""

import os
import subprocess

import numpy as np

#: What a sketch uses of the Arduino core; avr-g++ has no C++ library. The port reads standard
#: input, and the program runs until that ends.
ARDUINO_H = r"""
#pragma once
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
inline unsigned long millis() { return 5000; }
struct SerialPort {
    int next = EOF;
    bool ended = false;
    void begin(long) { next = getchar(); }
    explicit operator bool() const { return true; }
    int available() { ended = next == EOF; return ended ? 0 : 1; }
    int read() { const int letter = next; next = getchar(); return letter; }
    void print(const char *text) { printf("%s", text); }
    void print(char letter) { printf("%c", letter); }
    void print(int number) { printf("%d", number); }
    void print(double value, int digits) { printf("%.*f", digits, value); }
    void println() { printf("\n"); }
    void println(const char *text) { printf("%s\n", text); }
};
extern SerialPort Serial;
"""
ARDUINO_MAIN = """
#include "Arduino.h"
SerialPort Serial;
void setup();
void loop();
int main() { setup(); while (!Serial.ended) loop(); return 0; }
"""
WARNINGS = ["-Wall", "-Wextra", "-Wpedantic", "-Werror"]

#: Modules of EXTRA_ZEPHYR_MODULES with the settings of prj.conf; the application is a program.
ZEPHYR = r"""
project(Zephyr-Kernel LANGUAGES C)
add_executable(app)
set_target_properties(app PROPERTIES C_STANDARD 99)
function(zephyr_include_directories)
  foreach(folder ${ARGN})
    target_include_directories(app PRIVATE ${CMAKE_CURRENT_SOURCE_DIR}/${folder})
  endforeach()
endfunction()
macro(zephyr_library_named name)
  add_library(${name} STATIC)
  set(ZEPHYR_CURRENT_LIBRARY ${name})
  target_link_libraries(app PRIVATE ${name} m)
endmacro()
function(zephyr_library_sources)
  target_sources(${ZEPHYR_CURRENT_LIBRARY} PRIVATE ${ARGN})
endfunction()
set(known "")
foreach(module ${EXTRA_ZEPHYR_MODULES})
  file(STRINGS ${module}/zephyr/module.yml lines)
  foreach(line ${lines})
    if(line MATCHES "^  cmake: (.+)$")
      set(cmake_folder ${module}/${CMAKE_MATCH_1})
    elseif(line MATCHES "^  kconfig: (.+)$")
      file(STRINGS ${module}/${CMAKE_MATCH_1} kconfig REGEX "^config ")
      string(REPLACE "config " "CONFIG_" kconfig "${kconfig}")
      list(APPEND known ${kconfig})
    endif()
  endforeach()
endforeach()
file(STRINGS ${CMAKE_SOURCE_DIR}/prj.conf settings REGEX "^CONFIG_")
foreach(setting ${settings})
  string(REPLACE "=" ";" pair ${setting})
  list(GET pair 0 symbol)
  if(NOT symbol IN_LIST known)
    message(FATAL_ERROR "undefined symbol ${symbol}")
  endif()
  set(${symbol} y)
endforeach()
add_subdirectory(${cmake_folder} module)
"""

#: A component is a folder with a CMakeLists.txt; main sees all others.
ESP_IDF = r"""
function(idf_component_register)
  cmake_parse_arguments(ARG "" "" "SRCS;INCLUDE_DIRS;REQUIRES" ${ARGN})
  if(ARG_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "unknown argument ${ARG_UNPARSED_ARGUMENTS}")
  endif()
  foreach(source ${ARG_SRCS})
    target_sources(app PRIVATE ${CMAKE_CURRENT_SOURCE_DIR}/${source})
  endforeach()
  foreach(folder ${ARG_INCLUDE_DIRS})
    target_include_directories(app PRIVATE ${CMAKE_CURRENT_SOURCE_DIR}/${folder})
  endforeach()
endfunction()
macro(project name)
  _project(${name} LANGUAGES C)
  file(WRITE ${CMAKE_BINARY_DIR}/start.c
    "void app_main(void);\nint main(void) { app_main(); return 0; }\n")
  add_executable(app ${CMAKE_BINARY_DIR}/start.c)
  target_link_libraries(app PRIVATE m)
  foreach(component ${EXTRA_COMPONENT_DIRS} ${CMAKE_SOURCE_DIR}/main)
    get_filename_component(label ${component} ABSOLUTE)
    get_filename_component(label ${label} NAME)
    add_subdirectory(${component} ${label})
  endforeach()
endmacro()
"""


def build(command, folder, **environment):
    """Run a command of a build, which must succeed."""
    made = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, env=os.environ | environment
    )
    assert made.returncode == 0, (made.stdout + made.stderr)[-3000:]


def sketch_of(package):
    """The sketch of an Arduino library, or the main.cpp of a PlatformIO one."""
    (sketch,) = [path for path in package.files if path.suffix in (".ino", ".cpp")]
    return sketch


def sketch_lines(package, sent):
    """What the sketch of a package prints when a text is sent over Serial."""
    folder = package.folder / "build"
    folder.mkdir()
    (folder / "Arduino.h").write_text(ARDUINO_H)
    (folder / "main.cpp").write_text(ARDUINO_MAIN)
    sources = package.folder / "src"
    build(["gcc", "-std=c99", *WARNINGS, "-c", sources / f"{package.name}.c"], folder)
    options = ["-std=c++17", *WARNINGS, "-I", ".", "-I", sources]
    files = ["-x", "c++", sketch_of(package), "main.cpp", "-x", "none", f"{package.name}.o"]
    build(["g++", *options, *files, "-o", "sketch", "-lm"], folder)
    command = [folder / "sketch"]
    ran = subprocess.run(command, input=sent, capture_output=True, text=True, check=True)
    return ran.stdout.splitlines()


def sketch_answers(package, case):
    """Class numbers or values of the rows of a case, sent over Serial to the sketch."""
    sent = "".join(f"{line}\n" for line in _serial_lines(case))
    first, *answers = sketch_lines(package, sent)
    assert first in answers  # that of the row in the sketch
    if case.model.classes is None:
        return np.array([line.split() for line in answers], dtype=float)
    # a class may have spaces in its name; scores have none
    n_scores = np.size(case.model.scores(case.model.outputs(case.rows[:1])))
    names = [str(name) for name in case.model.classes]
    return np.array([names.index(line.rsplit(" ", n_scores)[0]) for line in answers])


def _serial_lines(case):
    """Rows as text: cells of a table, or features."""
    if case.table is None:
        return [", ".join(f"{v:.9g}" for v in row) for row in case.rows]
    rows = zip(*case.table.values(), strict=True)
    return [",".join("" if cell is None else str(cell) for cell in row) for row in rows]


def uno_output(package, scratch):
    """What the sketch of an Arduino library prints on an Uno: Arduino's own tools, and simavr."""
    (scratch / "libraries").mkdir()
    (scratch / "libraries" / package.name).symlink_to(package.folder)
    share = "/usr/share"  # where Debian has the builder and the core
    command = [
        *("arduino-builder", "-compile", "-fqbn", "arduino:avr:uno", "-build-path", scratch),
        *("-hardware", f"{share}/arduino/hardware", "-hardware", f"{share}/arduino-builder"),
        *("-tools", "/usr/bin", "-libraries", scratch / "libraries"),
        *("-prefs", "runtime.tools.avr-gcc.path=/usr"),
        *("-prefs", "tools.ctags.cmd.path=/usr/bin/arduino-ctags"),
        # which the core needs and Debian's avr-libc does not have
        *("-prefs", "compiler.cpp.extra_flags=-DDECIMAL_DIG=9"),
    ]
    build([*command, sketch_of(package)], scratch)
    program = scratch / f"{sketch_of(package).name}.elf"
    # the sketch never ends
    command = ["timeout", "20", "simavr", "-m", "atmega328p", "-f", "16000000", program]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as board:
        lines = iter(board.stdout.readline, b"")
        line = next((line for line in lines if b".." in line), b"")  # simavr's line ends
        board.terminate()
    return line.decode("utf-8", "replace")


def zephyr_output(package, scratch):
    """What the sample of a Zephyr module prints."""
    (scratch / "ZephyrConfig.cmake").write_text(ZEPHYR)
    sample = package.folder / "samples" / package.name
    build(["cmake", "-S", sample, "-B", "out", f"-DZephyr_DIR={scratch}"], scratch)
    return _built(scratch)


def esp_idf_output(package, scratch):
    """What the example of an ESP-IDF component prints."""
    (scratch / "tools" / "cmake").mkdir(parents=True)
    (scratch / "tools" / "cmake" / "project.cmake").write_text(ESP_IDF)
    example = package.folder / "examples" / package.name
    build(["cmake", "-S", example, "-B", "out"], scratch, IDF_PATH=str(scratch))
    return _built(scratch)


def _built(scratch):
    build(["cmake", "--build", "out"], scratch)
    return subprocess.run(
        [scratch / "out" / "app"], capture_output=True, text=True, check=True
    ).stdout
