"""
A rare class: weights, scoring and the threshold
================================================

With 3 % of the rows in the class that matters, a classifier can be 97 %
accurate and useless. This example trains
:class:`~kernlet.CompactKernelClassifier` within 400 bytes in three ways and
looks at recall, precision and the threshold of the decision.
"""

# %%
# Three fits
# ----------
# ``class_weight="balanced"`` counts rows of the rare class more, as in
# scikit-learn. ``scoring="balanced_accuracy"`` leaves the training as it is,
# and lets the search compare candidates by the mean recall of the classes.

import numpy as np
from matplotlib import pyplot as plt
from sklearn.datasets import make_classification
from sklearn.ensemble import RandomForestClassifier
from sklearn.metrics import (
    average_precision_score,
    balanced_accuracy_score,
    precision_recall_curve,
    precision_score,
    recall_score,
)
from sklearn.model_selection import train_test_split

from kernlet import CompactKernelClassifier

X, y = make_classification(
    6000,
    10,
    n_informative=6,
    weights=[0.97],
    flip_y=0.01,
    class_sep=1.2,
    random_state=0,
)
X, X_test, y, y_test = train_test_split(
    X, y, test_size=0.5, stratify=y, random_state=0
)
print(f"{y.sum()} of {len(y)} training rows are in the rare class")

shared = {"max_bytes": 400, "effort": "quick", "random_state": 0}
models = {
    "plain": CompactKernelClassifier(**shared),
    "scoring": CompactKernelClassifier(scoring="balanced_accuracy", **shared),
    "class_weight": CompactKernelClassifier(class_weight="balanced", **shared),
    "random forest": RandomForestClassifier(random_state=0),
}
for name, model in models.items():
    predicted = model.fit(X, y).predict(X_test)
    print(
        f"{name:14} accuracy {np.mean(predicted == y_test):.3f}, "
        f"balanced {balanced_accuracy_score(y_test, predicted):.3f}, "
        f"recall {recall_score(y_test, predicted):.2f}, "
        f"precision {precision_score(y_test, predicted):.2f}"
    )

# %%
# The threshold matters most
# --------------------------
# Each line shows what a model can reach with any threshold on its probability;
# the dot is the threshold of ``predict``. Balanced weights buy recall with
# much precision, and the line itself is a little lower: fewer rows decide the
# fit. The other scoring changes little here, since the candidates rank alike
# by both measures. To choose a threshold, use scikit-learn's
# ``TunedThresholdClassifierCV`` on the plain model. A random forest, without a
# limit on its size, is not ahead.

fig, ax = plt.subplots(figsize=(6.4, 3.6), layout="constrained")
for place, (name, model) in enumerate(models.items()):
    rare = model.predict_proba(X_test)[:, 1]
    precision, recall, _ = precision_recall_curve(y_test, rare)
    area = average_precision_score(y_test, rare)
    ax.plot(recall, precision, color=f"C{place}", label=f"{name} ({area:.2f})")
    predicted = model.predict(X_test)
    ax.plot(
        recall_score(y_test, predicted),
        precision_score(y_test, predicted),
        "o",
        color=f"C{place}",
    )
ax.set(
    xlabel="recall of the rare class",
    ylabel="precision",
    xlim=(0, 1.02),
    ylim=(0, 1.02),
)
fig.legend(loc="outside right upper", title="average precision")
plt.show()
