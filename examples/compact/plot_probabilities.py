"""
Probabilities that can be trusted
=================================

A probability of 80 % should be right in 80 % of the cases. Compact classifiers
fit one temperature on held-out rows for that. A reliability diagram shows how
well it works, beside a calibrated SVC and naive Bayes.
"""

# %%
# Three models, one measure
# -------------------------
# The log loss punishes probabilities that are too sure or too unsure; lower is
# better.

import numpy as np
from matplotlib import pyplot as plt
from sklearn.calibration import CalibratedClassifierCV, calibration_curve
from sklearn.datasets import make_moons
from sklearn.metrics import log_loss
from sklearn.naive_bayes import GaussianNB
from sklearn.svm import SVC

from kernlet import CompactKernelClassifier

X, y = make_moons(1500, noise=0.4, random_state=0)
X_test, y_test = make_moons(20_000, noise=0.4, random_state=1)

compact = CompactKernelClassifier(20, storage="int8", random_state=0)
models = {
    "CompactKernelClassifier": compact,
    "SVC, calibrated": CalibratedClassifierCV(SVC(), ensemble=False),
    "naive Bayes": GaussianNB(),
}
probabilities = {}
for name, model in models.items():
    probabilities[name] = model.fit(X, y).predict_proba(X_test)[:, 1]
    loss = log_loss(y_test, probabilities[name])
    print(
        f"{name:24} log loss {loss:.4f}, accuracy "
        f"{model.score(X_test, y_test):.3f}"
    )

# %%
# What the temperature does
# -------------------------
# Labels are smoothed in training, so that raw scores are too unsure. Scores
# are divided by the temperature; here it is below 1 and corrects that.

scores = compact.decision_function(X_test)
raw = 1 / (1 + np.exp(-scores))
probabilities["without the temperature"] = raw
print(
    f"temperature {compact.temperature_:.2f}, log loss without it "
    f"{log_loss(y_test, raw):.4f}"
)

# %%
# Reliability diagram
# -------------------
# A line on the diagonal is right: of the rows with a probability of 0.8, 80 %
# are in the class.

fig, ax = plt.subplots(figsize=(6.4, 4), layout="constrained")
ax.plot([0, 1], [0, 1], ":", color="0.5")
for (name, probability), marker in zip(
    probabilities.items(), "osD^", strict=True
):
    share, mean = calibration_curve(y_test, probability, n_bins=10)
    ax.plot(mean, share, marker + "-", markersize=4, label=name)
ax.set(xlabel="predicted probability", ylabel="share of the class")
fig.legend(loc="outside right upper")
plt.show()

# %%
# The line without the temperature is too steep: such a model is more often
# right than it says. The sigmoid of the calibrated SVC and naive Bayes bend
# away in a part of the range. One temperature serves all probabilities alike
# and could not mend that. With a few thousand training rows and more, labels
# are smoothed less, and the temperature is often close to 1.
