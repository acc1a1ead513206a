"""
Missing values: fill in the median, or leave them out?
======================================================

Kernel models need a number in every place.
:class:`~kernlet.CompactKernelClassifier` can fill in the median of a column,
or measure distances over the features that are present. This example deletes
10 to 50 % of the values of two tables and compares both, beside an SVC behind
scikit-learn's ``SimpleImputer``.
"""

# %%
# Delete values at random
# -----------------------
# The first table is generated: eight sensors of a machine with nine operating
# states, which fall into three classes. The second one is scikit-learn's
# breast cancer table. The same share is missing in training and test rows.
# With ``missing="distance"`` nothing is stored for it; the squared distance
# over the present features is scaled up to all features.

import numpy as np
from matplotlib import pyplot as plt
from sklearn.datasets import load_breast_cancer, make_blobs
from sklearn.impute import SimpleImputer
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from kernlet import CompactKernelClassifier

sensors, state = make_blobs(
    1500, 8, centers=9, cluster_std=2.5, random_state=0
)
tables = {
    "sensors": (sensors, state % 3),
    "breast cancer": load_breast_cancer(return_X_y=True),
}

settings = {"n_centers": 20, "storage": "int8", "random_state": 0}
models = {
    "median": CompactKernelClassifier(missing="median", **settings),
    "distance": CompactKernelClassifier(missing="distance", **settings),
    "SVC": make_pipeline(
        SimpleImputer(strategy="median"), StandardScaler(), SVC()
    ),
}
shares = (0.0, 0.1, 0.3, 0.5)
rng = np.random.default_rng(0)
curves = {}
for name, (X, y) in tables.items():
    for share in shares:
        holes = np.where(rng.random(X.shape) < share, np.nan, X)
        X_train, X_test, y_train, y_test = train_test_split(
            holes, y, test_size=0.5, stratify=y, random_state=0
        )
        scores = [
            model.fit(X_train, y_train).score(X_test, y_test)
            for model in models.values()
        ]
        curves.setdefault(name, []).append(scores)

print(f"{'':27}" + "".join(f"{name:10}" for name in models))
for name, curve in curves.items():
    for share, scores in zip(shares, curve, strict=True):
        line = "     ".join(f"{score:.3f}" for score in scores)
        print(f"{name:13} {share:3.0%} missing: {line}")

# %%
# Which is better depends on the data
# -----------------------------------
# The columns of the sensors have several modes, and their medians lie between
# the states: distances over the present features are clearly better. On breast
# cancer, where columns have one mode, neither is better throughout, and the
# SVC, which stores all its support vectors, is ahead or level.

fig, axes = plt.subplots(
    1, 2, figsize=(7.2, 3.2), sharey=True, layout="constrained"
)
for ax, (name, curve) in zip(axes, curves.items(), strict=True):
    for label, scores, marker in zip(
        models, np.transpose(curve), "osD", strict=True
    ):
        ax.plot(np.multiply(shares, 100), scores, marker + "-", label=label)
    ax.set(title=name, xlabel="values missing, %")
axes[0].set_ylabel("test accuracy")
handles, labels = axes[0].get_legend_handles_labels()
fig.legend(handles, labels, loc="outside lower center", ncols=3)
plt.show()

# %%
# Let validation choose
# ---------------------
# ``missing="auto"`` compares both on held-out rows and keeps the better one.

for name, (X, y) in tables.items():
    holes = np.where(rng.random(X.shape) < 0.3, np.nan, X)
    auto = CompactKernelClassifier(missing="auto", **settings).fit(holes, y)
    print(f"{name}, 30 % missing: {auto.expansion_.missing}")
