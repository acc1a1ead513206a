"""
Why did the model say so? Exact Shapley values
==============================================

Shapley values divide a score among the features. For most kernel models
kernlet computes them exactly, where general explainers sample. This example
explains an SVC in a pipeline: first all test rows, then one of them.
"""

# %%
# Explain a pipeline
# ------------------
# The first argument is any model that kernlet can read; the background is a
# sample of training rows. Values of a row sum to its score less the mean score
# of the background.

import numpy as np
from matplotlib import pyplot as plt
from sklearn.datasets import load_wine
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from kernlet import shapley_values

X, y = load_wine(return_X_y=True, as_frame=True)
y = np.where(y == 0, "cultivar 0", "another")
X, X_test, y, y_test = train_test_split(
    X, y, test_size=0.5, stratify=y, random_state=0
)
model = make_pipeline(StandardScaler(), SVC()).fit(X, y)
background = X.sample(50, random_state=0)

explanation = shapley_values(model, X_test, background)
print(f"test accuracy {model.score(X_test, y_test):.3f}")
print(explanation)

# %%
# The sum of the values is the score, to round-off:

sums = explanation.base_values + explanation.values.sum(axis=1)
difference = np.abs(sums[:, 0] - model.decision_function(X_test)).max()
print(f"largest difference to decision_function: {difference:.1e}")
print("positive scores mean", model.classes_[1])

# %%
# All rows
# --------
# On the left the importance, the mean absolute value. On the right each dot is
# a row: its place is the Shapley value, its colour the value of the feature. A
# large amount of proline speaks for cultivar 0, a small one against it.

values = explanation.values[:, :, 0]
order = np.argsort(explanation.importance()[:, 0])[-8:]
names = [explanation.feature_names[k] for k in order]

fig, (bars, dots) = plt.subplots(
    1, 2, figsize=(8, 3.8), sharey=True, layout="constrained"
)
bars.barh(names, explanation.importance()[order, 0])
bars.set(xlabel="mean |Shapley value|")
rng = np.random.default_rng(0)
for place, feature in enumerate(order):
    column = X_test.iloc[:, feature].rank(pct=True)
    jitter = place + rng.uniform(-0.25, 0.25, len(column))
    points = dots.scatter(
        values[:, feature], jitter, c=column, s=9, cmap="coolwarm"
    )
dots.axvline(0, color="0.5", linewidth=0.8)
dots.set(xlabel="Shapley value")
bar = fig.colorbar(points, ax=dots, ticks=[0.05, 0.95])
bar.set_ticklabels(["low", "high"])
bar.set_label("value of the feature")
plt.show()

# %%
# One row
# -------
# The row nearest the boundary: which features pull it to either side? Bars to
# the right speak for cultivar 0.

row = int(np.argmin(np.abs(model.decision_function(X_test))))
score = model.decision_function(X_test)[row]
order = np.argsort(np.abs(values[row]))[-8:]
print(
    f"score {score:+.3f}, mean score of the background "
    f"{explanation.base_values[0]:+.3f}"
)

fig, ax = plt.subplots(figsize=(6.4, 3.2), layout="constrained")
amounts = X_test.iloc[row]
labels = [
    f"{explanation.feature_names[k]} = {amounts.iloc[k]:g}" for k in order
]
colors = ["C0" if value > 0 else "C1" for value in values[row, order]]
ax.barh(labels, values[row, order], color=colors)
ax.axvline(0, color="0.5", linewidth=0.8)
ax.set(xlabel="Shapley value")
plt.show()

# %%
# The features are changed one at a time, also where they depend on each other:
# a value says what the model does with a feature, not what causes what.
