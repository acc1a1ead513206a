"""Exported Rust, many modules in one program, compiled with checks of overflow and run on rows."""

import shutil
import subprocess
from collections import defaultdict

import numpy as np
import pytest

needs_rust = pytest.mark.skipif(not shutil.which("rustc"), reason="there is no rustc")
#: Warnings are errors; in the program, so is an overflow.
STRICT = ("rustc", "--edition", "2021", "-D", "warnings")
CHECKED = (*STRICT, "-C", "opt-level=1", "-C", "debug-assertions=on")

_MAIN = """
use std::fmt::Display;

fn show<T: Display>(name: &str, values: impl IntoIterator<Item = T>) {
    let texts: Vec<String> = values.into_iter().map(|value| value.to_string()).collect();
    println!("{} {}", name, texts.join(" "));
}

fn rows<T: std::str::FromStr + Copy + Default, const N: usize>(path: &str) -> Vec<[T; N]> {
    let text = std::fs::read_to_string(path).unwrap();
    text.lines().map(|line| {
        let mut row = [T::default(); N];
        for (number, word) in row.iter_mut().zip(line.split(' ')) {
            *number = word.parse().ok().unwrap();
        }
        row
    }).collect()
}
"""
_RUN = """
fn run_{name}() {{
    for row in rows::<i16, {{ {name}::FEATURES }}>("{name}.inputs") {{
        let scores = {name}::scores(&row);
        show("{name}.scores", scores);
        {more}
    }}
    for row in rows::<f32, {{ {name}::FEATURES }}>("{name}.floats") {{
        let inputs = {name}::from_floats(&row);
        show("{name}.from_floats", inputs);
        show("{name}.values", {name}::values(&{name}::scores(&inputs)));
        {of_floats}
    }}
}}
"""
_MORE = {
    "fn predict(": 'show("{name}.class_of", [{name}::predict(&row)]);',
    "fn probabilities(": 'show("{name}.probabilities", {name}::probabilities(&scores));',
    "fn from_counts(": 'show("{name}.from_counts", {name}::from_counts(&row));',
}
_CLASS = 'show("{name}.float_class", [{name}::predict(&inputs)]);'


def library(folder, modules):
    """A library of modules that has the standard library for tests only; the name of its file."""
    declared = "\n".join(f"pub mod {name};" for name in modules)
    (folder / "library.rs").write_text(f"#![cfg_attr(not(test), no_std)]\n{declared}\n")
    return "library.rs"


def require_no_std(folder, modules):
    """Compile modules without the standard library, and without a warning."""
    path = library(folder, modules)
    command = [*STRICT, "--crate-type", "lib", "--emit", "metadata", path]
    made = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    assert made.returncode == 0, made.stderr[:3000]


def rust_answers(folder, modules, inputs, floats):
    """What modules, by name, compute from rows of inputs and of floats.

    A dictionary with arrays for the names module.function.
    """
    runs = []
    for name in modules:
        text = (folder / f"{name}.rs").read_text()
        more = [line.format(name=name) for mark, line in _MORE.items() if mark in text]
        of_floats = _CLASS.format(name=name) if "fn predict(" in text else ""
        runs.append(_RUN.format(name=name, more="\n        ".join(more), of_floats=of_floats))
        np.savetxt(folder / f"{name}.inputs", inputs[name], "%d")
        np.savetxt(folder / f"{name}.floats", floats[name], "%.9g")
    declared = "\n".join(f"mod {name};" for name in modules)
    called = "\n".join(f"    run_{name}();" for name in modules)
    main = f"{declared}\n{_MAIN}{''.join(runs)}\nfn main() {{\n{called}\n}}\n"
    (folder / "main.rs").write_text(main)
    made = subprocess.run([*CHECKED, "main.rs"], cwd=folder, capture_output=True, text=True)
    assert made.returncode == 0, made.stderr[:3000]
    ran = subprocess.run([folder / "main"], cwd=folder, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr[:2000]
    answers = defaultdict(list)
    for line in ran.stdout.splitlines():
        name, *numbers = line.split()
        answers[name].append([float(number) for number in numbers])
    return {name: np.array(numbers) for name, numbers in answers.items()}
