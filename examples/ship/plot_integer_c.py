"""
C code without floating point
=============================

Small microcontrollers have no floating-point unit. :func:`~kernlet.to_c`
writes a classifier as C that uses integers alone, and states the largest value
that any sum can take. This example exports a classifier of digits, compiles it
if there is a compiler, and compares C with Python.
"""

# %%
# Train and export
# ----------------
# Four bits per number; the pixels, whole numbers from 0 to 16, are the inputs
# as they are.

import shutil
import subprocess
import tempfile
from pathlib import Path

import numpy as np
from matplotlib import pyplot as plt
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from kernlet import CompactKernelClassifier, to_c

X, y = load_digits(return_X_y=True)
X, X_test, y, y_test = train_test_split(
    X, y, test_size=0.4, stratify=y, random_state=0
)
model = CompactKernelClassifier(
    30, storage="int4", n_epochs=60, random_state=0
).fit(X, y)

folder = Path(tempfile.mkdtemp())
source = to_c(model, folder, X=X, y=y, name="digits", arithmetic="integer")
print([path.name for path in source.files])
print(
    f"{source.table_bytes} bytes of tables; test accuracy "
    f"{model.score(X_test, y_test):.3f}"
)

# %%
# The header has the interface and the bounds, which hold for any input:

for what, largest, limit in source.bounds:
    print(f"{what:38} {largest:13,} of {limit:13,}")

# %%
# And this is what a program calls:

header = (folder / "digits.h").read_text(encoding="utf-8")
print(
    *[
        line
        for line in header.splitlines()
        if line.startswith("int digits_predict")
    ]
)

# %%
# Compile and compare
# -------------------
# The generated ``test_digits.c`` compares C with Python on some of the rows.
# It runs on this computer; the same file compiles for a device.

compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
if compiler is None:
    print(
        "This computer has no C compiler; the next lines would compile and "
        "run the test."
    )
else:
    files = [str(folder / "digits.c"), str(folder / "test_digits.c")]
    program = str(folder / "test_digits")
    subprocess.run(
        [compiler, "-std=c99", "-Os", *files, "-o", program, "-lm"], check=True
    )
    print(
        subprocess.run(
            [program], check=True, capture_output=True, text=True
        ).stdout
    )

# %%
# What integers cost
# ------------------
# ``integer_values`` computes in Python what the C code computes, to the last
# bit. The picture compares its scores with those in floating point: the
# differences are far smaller than those between classes.

exact = model.expansion_.decision_values(X_test)
integers = model.expansion_.integer_values(X_test, rows=X)
step = (exact * integers).sum() / (integers.astype(float) ** 2).sum()
same = np.mean(exact.argmax(axis=1) == integers.argmax(axis=1))
print(f"same class for {same:.2%} of {len(X_test)} test rows")
print(
    "accuracy in integers "
    f"{np.mean(model.classes_[integers.argmax(axis=1)] == y_test):.3f}"
)

fig, (left, right) = plt.subplots(1, 2, figsize=(8, 3.3), layout="constrained")
left.plot(exact.ravel(), step * integers.ravel(), ".", markersize=2)
left.set(xlabel="score in floating point", ylabel="score in integers")
right.hist((step * integers - exact).ravel(), bins=60)
right.set(xlabel="difference of a score", ylabel="scores")
right.locator_params(axis="x", nbins=5)
plt.show()

shutil.rmtree(folder)
