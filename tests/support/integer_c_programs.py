"""Machines in integers as C, many in one program, compiled with sanitizers and run on rows."""

import subprocess
from collections import defaultdict
from dataclasses import dataclass

import numpy as np

from kernlet import to_c
from kernlet.export.integer_module import IntegerModule
from support.c_programs import ALL_WARNINGS, SANITIZERS, STRICT, UNLIMITED

_MAIN = r"""
#include <stdio.h>
#include <stdlib.h>

static void show(const char *name, const long *numbers, int n)
{
    int i;
    printf("%s", name);
    for (i = 0; i < n; ++i) {
        printf(" %ld", numbers[i]);
    }
    printf("\n");
}
#define SHOW(name, array, n) do { \
    long *numbers = malloc(sizeof(long) * (n)); \
    int number; \
    for (number = 0; number < (n); ++number) numbers[number] = (long)(array)[number]; \
    show(name, numbers, n); \
    free(numbers); \
} while (0)
"""
_RUN = """
static void run_{m}(void)
{{
    static int16_t inputs[{M}_FEATURES], others[{M}_FEATURES];
    static float features[{M}_FEATURES];
    int32_t scores[{M}_SCORES];
    int i, code = 0;
    FILE *file = fopen("{m}.inputs", "r");
    (void)others;
    while (file != NULL && fscanf(file, "%d", &code) == 1) {{
        inputs[0] = (int16_t)code;
        for (i = 1; i < {M}_FEATURES && fscanf(file, "%d", &code) == 1; ++i) {{
            inputs[i] = (int16_t)code;
        }}
        {predict}
        SHOW("{m}.scores", scores, {M}_SCORES);
        {more}
    }}
    fclose(file);
    file = fopen("{m}.floats", "r");
    while (file != NULL && fscanf(file, "%f", features) == 1) {{
        for (i = 1; i < {M}_FEATURES && fscanf(file, "%f", features + i) == 1; ++i) {{
        }}
        {m}_from_floats(features, inputs);
        SHOW("{m}.from_floats", inputs, {M}_FEATURES);
    }}
    fclose(file);
}}
"""
_PREDICT = """code = {m}_predict(inputs, scores);
        SHOW("{m}.class_of", &code, 1);
        if ({m}_predict(inputs, NULL) != code) {{
            abort();
        }}"""
_PROBABILITIES = """{{
            uint16_t probabilities[{M}_CLASSES];
            {m}_probabilities(scores, probabilities);
            SHOW("{m}.probabilities", probabilities, {M}_CLASSES);
        }}"""
_COUNTS = """{m}_from_counts(inputs, others);
        SHOW("{m}.from_counts", others, {M}_FEATURES);"""


@dataclass(frozen=True)
class CModule(IntegerModule):
    """A machine in integers that is written as C."""


def integer_c_answers(folder, modules, inputs, floats):
    """What the code of modules computes from rows of inputs and of floats.

    A dictionary with arrays for the names module.function.
    """
    parts = []
    for module in modules:
        m = module.name
        to_c(module.model, folder / m, name=m, X=module.rows, arithmetic="integer")
        text = (folder / m / f"{m}.h").read_text("utf-8")
        names = {"m": m, "M": m.upper()}
        more = [
            code.format(**names)
            for code, mark in (
                (_PROBABILITIES, "_probabilities("),
                (_COUNTS, "void {m}_from_counts("),
            )
            if mark.format(m=m) in text
        ]
        predict = _PREDICT if f"int {m}_predict(" in text else "{m}_predict(inputs, scores);"
        run = _RUN.format(predict=predict.format(**names), more="\n        ".join(more), **names)
        parts.append(f'#include "{m}/{m}.c"\n{run}')
        np.savetxt(folder / f"{m}.inputs", inputs[m], "%d")
        np.savetxt(folder / f"{m}.floats", floats[m], "%.9g")
    calls = "\n".join(f"    run_{module.name}();" for module in modules)
    main = f"{_MAIN}{''.join(parts)}\nint main(void)\n{{\n{calls}\n    return 0;\n}}\n"
    (folder / "main.c").write_text(main, "utf-8")
    options = [*STRICT, *SANITIZERS, *ALL_WARNINGS]
    command = [*UNLIMITED, "gcc", *options, "main.c", "-o", "main"]
    made = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    assert made.returncode == 0, made.stderr[:3000]
    command = [*UNLIMITED, str(folder / "main")]
    ran = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr[:3000]
    answers = defaultdict(list)
    for line in ran.stdout.splitlines():
        name, *numbers = line.split()
        answers[name].append([int(number) for number in numbers])
    return {name: np.array(numbers) for name, numbers in answers.items()}
