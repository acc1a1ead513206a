"""Exported C of random machines, compiled with sanitizers and compared with Python.

Rows near the centers must give the scores of Python within what the header says. Rows of NaN,
infinities and numbers as large or as small as float32 holds must give what the header says of them,
and no undefined behaviour.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from functools import cache

import numpy as np

from fuzz.campaign import Target, check_sentence
from kernlet import KernelExpansion, to_c
from kernlet.export.c_tables import pack
from kernlet.export.rounding import clear_rows, likely_rows
from kernlet.kernels.diagonal import DiagonalRBF
from kernlet.kernels.laplacian import Laplacian
from kernlet.kernels.linear import Linear
from kernlet.kernels.rational_quadratic import RationalQuadratic
from kernlet.kernels.rbf import RBF
from kernlet.kernels.sigmoid import Sigmoid
from kernlet.model.model import Model
from kernlet.tables.encode import CategoryColumn, ColumnEncoding, NumberColumn, OrdinalColumn
from support.c_programs import ALL_WARNINGS, SANITIZERS, UNLIMITED, c_features, compiled
from support.random_machines import random_model

_N_ROWS = 30
_STANDARDS = {
    "gcc": ("c99", "c11", "gnu17"),
    "clang": ("c99", "c11", "gnu17"),
    "g++": ("c++11", "c++17", "gnu++20"),
    "clang++": ("c++11", "c++17", "gnu++20"),
}
_MAIN = """
#include "m.c"
#include <stdio.h>
int main(void)
{
    static float x[M_FEATURES], scores[M_SCORES];
    while (fread(x, sizeof x, 1, stdin) == 1) {
%s        fwrite(scores, sizeof scores, 1, stdout);
    }
    return 0;
}
"""
_CLASS = """        const int number = m_predict(x, scores);
        if (number != m_predict(x, NULL)) return 9;
        fwrite(&number, sizeof number, 1, stdout);
"""
_PROBABILITIES = """        static float p[M_CLASSES];
        m_probabilities(scores, p);
        fwrite(p, sizeof p, 1, stdout);
"""


def compare_with_python(rng, folder):
    """One random machine, in C and in Python."""
    model = random_model(rng)
    storages = ("auto",) if hasattr(model.expansion, "packed") else ("float32", "float16", "int8")
    storage, exp = str(rng.choice(storages)), str(rng.choice(["polynomial", "libm"]))
    rows = likely_rows(model, _N_ROWS)
    rows[1::3] += rng.normal(size=rows[1::3].shape) * rows.std()
    try:
        source = to_c(model, folder, storage, X=rows, exp=exp, name="m")
    except ValueError as error:
        check_sentence(error)
        return "refused"
    special = special_rows(rng, rows.astype(np.float32))
    answers = _run(folder, model, rng, np.vstack([rows.astype(np.float32), special]))
    ordinary = {name: values[: len(rows)] for name, values in answers.items()}
    _check_ordinary(model, source, rows, ordinary)
    _check_special(model, source, special, {n: v[len(rows) :] for n, v in answers.items()})
    return model.kind


def special_rows(rng, rows):
    """Rows with numbers that a program of ordinary rows never sees."""
    numbers = [np.nan, np.inf, -np.inf, 1e19, -1e19, 1e30, 1e34, -1e38, 3.4e38, 1e-40, -1e-45, 0.0]
    special = []
    for number in np.float32(numbers):
        alone = rows[rng.integers(len(rows))].copy()
        alone[rng.integers(len(alone))] = number
        some = rows[rng.integers(len(rows))].copy()
        some[rng.random(len(some)) < 0.5] = number
        special += [alone, some, np.full_like(alone, number)]
    signs = rng.choice(np.float32([-1.0, 1.0]), size=(6, rows.shape[1]))
    sizes = np.float32([np.inf, 3.4e38, 1e38, 1e36, 1e25, 1e19])
    return np.vstack([special, signs * sizes[:, None]])


@cache
def _compilers():
    return [name for name in _STANDARDS if shutil.which(name)]


def _run(folder, model, rng, rows):
    """Class numbers, scores and probabilities by the program."""
    has_classes = model.classes is not None
    call = _CLASS + _PROBABILITIES if has_classes else "        m_predict(x, scores);\n"
    (folder / "main.c").write_text(_MAIN % call, "ascii")
    compiler = str(rng.choice(_compilers()))
    language = "c++" if compiler.endswith("++") else "c"
    warnings = [w for w in ALL_WARNINGS if language == "c" or w != "-Wmissing-prototypes"]
    options = [f"-std={rng.choice(_STANDARDS[compiler])}", *warnings, "-O1", *SANITIZERS]
    command = [*UNLIMITED, compiler, "-x", language, *options, "main.c", "-o", "run", "-lm"]
    made = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert made.returncode == 0, f"{compiler} {options[0]}: {made.stderr}"
    command = [*UNLIMITED, str(folder / "run")]
    ran = subprocess.run(command, input=rows.tobytes(), capture_output=True, check=False)
    assert ran.returncode == 0, f"{ran.returncode}: {ran.stderr.decode('utf-8', 'replace')}"
    n_scores = np.atleast_2d(model.scores(np.zeros((1, model.expansion.n_outputs)))).size
    fields = [("scores", np.float32, (n_scores,))]
    if has_classes:
        n_classes = len(model.classes)
        fields = [("classes", np.int32), ("probabilities", np.float32, (n_classes,)), *fields]
    records = np.frombuffer(ran.stdout, fields)
    assert len(records) == len(rows)
    return {name: records[name] for name in records.dtype.names}


def _check_ordinary(model, source, rows, answers):
    """Scores within the bound of the header, classes where they are clear, probabilities."""
    rounded = pack(model, source.storage)[0]
    outputs = rounded.outputs(rows.astype(np.float32).astype(np.float64))
    expected = rounded.scores(outputs).reshape(len(rows), -1)
    errors = np.abs(answers["scores"] - expected)
    clear = np.arange(len(rows))
    if model.classes is not None:
        clear = clear_rows(model, outputs, 2 * source.tolerance)
        assert np.array_equal(answers["classes"][clear], rounded.codes(outputs)[clear])
    checked = errors[clear] if model.votes else errors  # votes jump where a pair changes its sign
    assert (checked <= source.tolerance).all(), f"{checked.max()} exceeds {source.tolerance}"
    if model.classes is not None:
        sums = model.class_scores(outputs).reshape(len(rows), -1)
        slack = 2 * source.tolerance
        if model.votes:  # s is recovered from s / (3 (abs(s) + 1)), with the digits that remain
            slack = slack + 3 * (np.abs(sums).max(axis=1) + 1) ** 2 * source.tolerance
        differences = np.abs(answers["probabilities"] - rounded.probabilities(outputs)).max(axis=1)
        bound = np.broadcast_to(slack / model.temperature + 1e-5, len(rows))
        assert (differences[clear] <= bound[clear]).all()


def _check_special(model, source, rows, answers):
    """What the header says of NaN and of infinite and large features."""
    header = source.files[0].read_text("utf-8").replace("\n * ", " ")
    is_nan = np.isnan(rows).any(axis=1)
    assert np.isnan(answers["scores"][is_nan]).all()
    if model.classes is not None:
        assert ((answers["classes"] >= 0) & (answers["classes"] < len(model.classes))).all()
        number = int(re.search(r"NaN and the class (\d+)", header)[1])
        assert (answers["classes"][is_nan] == number).all()
        assert np.isnan(answers["probabilities"][is_nan]).all()
    bounded = RBF | DiagonalRBF | RationalQuadratic | Laplacian | Sigmoid
    is_bounded = isinstance(model.expansion.kernel, bounded)
    assert ("infinite ones too, give finite scores" in header) == is_bounded
    if is_bounded:
        assert np.isfinite(answers["scores"][~is_nan]).all()
        if model.classes is not None:
            totals = answers["probabilities"][~is_nan].sum(axis=1)
            assert (np.abs(totals - 1) < 1e-5).all()


# -- Rows of tables --------------------------------------------------------------------------------

_NAMES = ("int", "a b", "a-b", "\u00b5m", "", "y0", "min", "B1", "*/", "3d", "class", "slots", "%s")
# Python also takes other spellings (spaces around a text, "" for a missing one), C these alone.
_TEXTS = ("a", "A", "a b", '"', "\\", "??/", "*/", "\u00e9", "%s", "a\nb", "x" * 300, "\U0001f600")


def encode_rows(rng, folder):
    """The rows of a random table as features, in C and in Python."""
    names = rng.permutation(_NAMES)[: rng.integers(1, 6)].tolist()
    columns = tuple(_random_column(rng, str(name)) for name in names)
    encoding = ColumnEncoding(columns)
    n_features = len(encoding.feature_names)
    expansion = KernelExpansion(Linear(), np.eye(n_features), np.ones((1, n_features)), np.zeros(1))
    names = encoding.feature_names
    model = Model(expansion, encoding=encoding, feature_names=names)
    source = to_c(model, folder)
    ran = subprocess.run([compiled(source, sanitize=False)], stdout=subprocess.PIPE, check=True)
    assert b" rows of the table agree" in ran.stdout
    table = {column.name: _random_cells(rng, column) for column in columns}
    features, refused = c_features(folder, model, table)
    for i, flag in enumerate(refused):
        try:
            expected = encoding.transform({name: [cells[i]] for name, cells in table.items()})[0]
        except ValueError as error:
            check_sentence(error)
            assert flag
        else:
            assert not flag
            assert np.array_equal(features[i], expected.astype(np.float32))
    return "refused cells" if refused.any() else "encoded"


def _random_column(rng, name):
    kind, texts = rng.integers(3), sorted(rng.permutation(_TEXTS)[: rng.integers(1, 5)].tolist())
    numbers = [None, 0.0, float(rng.normal()), 7.0]
    if kind == 0:
        return NumberColumn(name, numbers[rng.integers(4)])
    if kind == 1:
        values = tuple(rng.normal(size=len(texts)).round(2).tolist())
        missing, unknown = numbers[rng.integers(4)], numbers[rng.integers(4)]
        return OrdinalColumn(name, tuple(texts), values, missing, unknown)
    has_missing = bool(rng.random() < 0.5)
    n_codes = len(texts) + has_missing
    codes = tuple(range(n_codes)) if rng.random() < 0.5 else (0, *rng.integers(-1, 2, n_codes - 1))
    unknown = (None, -1, 0)[rng.integers(3)]
    return CategoryColumn(name, tuple(texts), has_missing, tuple(map(int, codes)), unknown)


def _random_cells(rng, column, n_rows=12):
    if isinstance(column, NumberColumn):
        cells = [None, np.nan, 1e30, -1e20, 1e-45, 0.1]
    else:
        cells = [None, "other", *_TEXTS, *column.categories, *column.categories]
    return [cells[rng.integers(len(cells))] for _ in range(n_rows)]


TARGETS = [
    Target("c-programs", "c", compare_with_python, quick=8),
    Target("c-tables", "c", encode_rows, quick=4),
]
