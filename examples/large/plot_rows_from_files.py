"""
An exact fit to rows in a file
==============================

Rows that do not fit in memory can stay in a file.
:class:`~kernlet.L1KernelClassifier` reads them block by block and still
returns the optimum of its linear program, with a certificate. This example
uses a small file; the code is the same for one of many gigabytes.
"""

# %%
# Write a file, and open it
# -------------------------
# :func:`~kernlet.rows.open_rows` takes ``.npy`` files, and Parquet files or
# folders of them if pyarrow is installed. Opening reads nothing but the
# header.

import tempfile
import time
from pathlib import Path

import numpy as np
from matplotlib import pyplot as plt
from sklearn.base import clone
from sklearn.kernel_approximation import Nystroem
from sklearn.pipeline import make_pipeline
from sklearn.svm import LinearSVC

from kernlet import L1KernelClassifier
from kernlet.rows import open_rows

rng = np.random.default_rng(0)
X = rng.normal(size=(60_000, 5)).astype(np.float32)
y = X[:, 0] * X[:, 1] + 0.3 * rng.normal(size=len(X)) > 0
X_test, y_test, X, y = X[:20_000], y[:20_000], X[20_000:], y[20_000:]

folder = tempfile.TemporaryDirectory()
np.save(Path(folder.name) / "rows.npy", X)
rows = open_rows(Path(folder.name) / "rows.npy")
print(rows.shape, rows.dtype)

# %%
# The same answer as in memory
# ----------------------------
# Fifty random rows may become centers; all 40,000 count in the errors.

settings = {"C": 0.05, "candidates": 50, "gamma": 0.2, "random_state": 0}
streamed = L1KernelClassifier(**settings).fit(rows, y)
in_memory = L1KernelClassifier(**settings).fit(X, y)
print(
    f"{streamed.n_centers_} centers after {streamed.n_passes_:.1f} passes "
    "over the file"
)
print(f"duality gap {streamed.duality_gap_[0]:.0e}")
same = np.array_equal(streamed.expansion_.coef, in_memory.expansion_.coef)
print(f"same coefficients as from memory, bit for bit: {same}")

# %%
# An alternative is a linear SVM on Nystroem features of as many rows. It is a
# little more accurate here, keeps all 50 rows as centers, needs its features
# in memory and has no certificate.

nystroem = make_pipeline(
    Nystroem(n_components=50, gamma=0.2, random_state=0),
    LinearSVC(C=0.05, random_state=0),
)
for name, model in (
    ("streaming", streamed),
    ("Nystroem and LinearSVC", nystroem),
):
    start = time.process_time()
    accuracy = clone(model).fit(X, y).score(X_test, y_test)
    print(
        f"{name:23} test accuracy {accuracy:.3f}, "
        f"{time.process_time() - start:.2f} CPU seconds"
    )

# %%
# What more rows buy
# ------------------
# With the same candidates, the fit sees 500 to 40,000 rows. The line levels
# off: from some point on, more candidates would help more than more rows.

sizes = (500, 2000, 8000, 40_000)
curves = {}
for n_candidates in (20, 50, 100):
    candidates = X[:n_candidates].astype(np.float64)
    curves[n_candidates] = []
    for size in sizes:
        model = L1KernelClassifier(
            C=2000 / size, candidates=candidates, gamma=0.2
        )
        model.fit(X[:size], y[:size])
        curves[n_candidates].append(model.score(X_test, y_test))
    print(
        f"{n_candidates} candidates:",
        *(f"{score:.3f}" for score in curves[n_candidates]),
    )

fig, ax = plt.subplots(figsize=(6.4, 3.4), layout="constrained")
for (n_candidates, scores), marker in zip(curves.items(), "osD", strict=True):
    ax.plot(sizes, scores, marker + "-", label=f"{n_candidates} candidates")
ax.set(xlabel="training rows", ylabel="test accuracy", xscale="log")
ax.set_xticks(sizes, [f"{size:,}" for size in sizes])
ax.minorticks_off()
fig.legend(loc="outside upper center", ncols=3)
plt.show()

folder.cleanup()
