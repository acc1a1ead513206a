"""
The fewest centers that cross-validation allows
===============================================

A grid search usually returns the setting with the highest score. Several
settings are often equally good up to chance, and among them the smallest model
is the better choice. This example lets ``GridSearchCV`` choose the fewest
centers within one standard error of the best score, and reads the certificate
of the result.
"""

# %%
# Search with two metrics
# -----------------------
# :func:`~kernlet.selection.count_centers` is a scorer that counts centers, and
# :func:`~kernlet.selection.fewest_centers` a rule for ``refit``.

import numpy as np
from matplotlib import pyplot as plt
from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import GridSearchCV, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from kernlet import MinimalKernelClassifier
from kernlet.selection import count_centers, fewest_centers

X, y = load_breast_cancer(return_X_y=True)
X, X_test, y, y_test = train_test_split(
    X, y, test_size=0.4, stratify=y, random_state=0
)

search = GridSearchCV(
    make_pipeline(StandardScaler(), MinimalKernelClassifier(random_state=0)),
    {
        "minimalkernelclassifier__C": [0.1, 0.3, 1, 3, 10],
        "minimalkernelclassifier__gamma": [0.003, 0.01, 0.03],
        "minimalkernelclassifier__mu": [1, 10],
    },
    scoring={"score": "accuracy", "centers": count_centers},
    refit=fewest_centers,
    cv=5,
).fit(X, y)
model = search.best_estimator_[-1]
print(
    {name.split("__")[1]: value for name, value in search.best_params_.items()}
)
print(
    f"{model.n_centers_} centers, test accuracy "
    f"{search.best_estimator_.score(X_test, y_test):.3f}"
)

# %%
# For comparison, an SVC with its own grid search, by accuracy alone:

svc = GridSearchCV(
    make_pipeline(StandardScaler(), SVC()),
    {"svc__C": [0.1, 1, 10, 100], "svc__gamma": [0.003, 0.01, 0.03]},
    cv=5,
).fit(X, y)
n_support = len(svc.best_estimator_[-1].support_)
print(
    f"SVC: {n_support} support vectors, test accuracy "
    f"{svc.score(X_test, y_test):.3f}"
)

# %%
# The SVC is more accurate here, with many times the centers. What one standard
# error gives away is the price of the smaller model.

# %%
# All settings at once
# --------------------
# Each dot is a setting. The dashed line lies one standard error below the best
# score; the setting furthest to the left above the line is taken.

results = search.cv_results_
scores, centers = results["mean_test_score"], results["mean_test_centers"]
best = np.argmax(scores)
limit = scores[best] - results["std_test_score"][best] / np.sqrt(5)

fig, ax = plt.subplots(figsize=(6.4, 3.4), layout="constrained")
ax.plot(centers, scores, "o", alpha=0.8, label="setting")
ax.plot(centers[best], scores[best], "s", color="C2", label="best score")
chosen = search.best_index_
ax.plot(centers[chosen], scores[chosen], "D", color="C1", label="chosen")
ax.axhline(
    limit, color="0.5", linestyle="--", label="best less one standard error"
)
ax.set(
    xlabel="centers (mean over the folds)", ylabel="cross-validated accuracy"
)
fig.legend(loc="outside upper center", ncols=4, fontsize="small")
plt.show()

# %%
# The certificate
# ---------------
# ``duality_gap_`` bounds the relative distance of the last linear program from
# its optimum. ``tol`` is the gap at which a fit stops; a fit that cannot reach
# it warns and reports the gap it has.

print(f"tol {model.tol:.0e}, duality gap reached {model.duality_gap_[0]:.1e}")
