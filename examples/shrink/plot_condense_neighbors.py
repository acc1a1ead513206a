"""
Fewer rows for nearest neighbours
=================================

A k-nearest-neighbour classifier stores its whole training set. Condensers make
a smaller one: centroids of each class, or the rows that are not deep inside
their class. A random subset of the same size is the baseline.
"""

# %%
# Accuracy against the rows kept
# ------------------------------
# :class:`~kernlet.CentroidCondenser` takes a share of the rows; the ``level``
# of :class:`~kernlet.TypicalCondenser` says from where on a row counts as
# typical and leaves.

import numpy as np
from matplotlib import pyplot as plt
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from sklearn.neighbors import KNeighborsClassifier

from kernlet import CentroidCondenser, TypicalCondenser

X, y = load_digits(return_X_y=True)
X, X_test, y, y_test = train_test_split(
    X, y, test_size=0.4, stratify=y, random_state=0
)


def accuracy(rows, labels):
    return KNeighborsClassifier(1).fit(rows, labels).score(X_test, y_test)


curves = {"centroids": [], "typical rows removed": [], "random rows": []}
for share in (0.02, 0.05, 0.1, 0.2, 0.4, 0.7):
    rows, labels = CentroidCondenser(share, random_state=0).fit_resample(X, y)
    curves["centroids"].append((len(rows), accuracy(rows, labels)))

    rng = np.random.default_rng(0)
    scores = []
    for _ in range(10):
        chosen = rng.choice(len(X), len(rows), replace=False)
        scores.append(accuracy(X[chosen], y[chosen]))
    curves["random rows"].append((len(rows), np.mean(scores)))

for level in (0.4, 0.5, 0.6, 0.7, 0.8, 1.0):
    rows, labels = TypicalCondenser(level=level).fit_resample(X, y)
    curves["typical rows removed"].append((len(rows), accuracy(rows, labels)))

print(f"all {len(X)} rows: accuracy {accuracy(X, y):.3f}")
for name, curve in curves.items():
    print(
        f"{name:21}",
        ", ".join(f"{size}: {score:.3f}" for size, score in curve),
    )

# %%
# Centroids are far ahead of random rows, most of all where few are kept: a
# mean of several rows is a better neighbour than any of them. Typical rows can
# leave only as long as most rows stay; below that a random subset is better.

fig, ax = plt.subplots(figsize=(6.4, 3.4), layout="constrained")
for (name, curve), marker in zip(curves.items(), "osD", strict=True):
    ax.plot(*zip(*curve, strict=True), marker + "-", label=name)
ax.axhline(accuracy(X, y), color="0.5", linestyle="--", label="all rows")
ax.set(
    xlabel="rows kept",
    ylabel="test accuracy of 1-NN",
    xscale="log",
    ylim=(0.7, 1),
)
ax.set_xticks(
    [20, 50, 100, 200, 500, 1000], ["20", "50", "100", "200", "500", "1,000"]
)
ax.minorticks_off()
ax.legend(loc="lower right")
plt.show()

# %%
# Which rows are typical?
# -----------------------
# Above, ten rows that leave first: clearly written digits. Below, ten that
# stay.

condenser = TypicalCondenser(level=0.8).fit(X, y)
kept = np.zeros(len(X), dtype=bool)
kept[condenser.sample_indices_] = True
fig, axes = plt.subplots(2, 10, figsize=(8, 2.3), layout="constrained")
for line, name, rows in (
    (axes[0], "removed", X[~kept]),
    (axes[1], "kept", X[kept]),
):
    for ax, image in zip(line, rows, strict=False):
        ax.imshow(image.reshape(8, 8), cmap="gray_r")
        ax.axis("off")
    line[0].set_title(name, loc="left", fontsize="medium")
plt.show()
