"""
Removing support vectors, and when to stop
==========================================

A kernel perceptron of maximal margin keeps all rows with a positive weight.
García, González and Dorronsoro (2006) remove the rows of small weight, train
again, and repeat with a growing threshold. This example shows what
:class:`~kernlet.HullPerceptronClassifier` gains by that, why the removal must
stop in time, and a simpler way to have few centers.
"""

# %%
# Train, remove, train again
# --------------------------
# Overlapping classes have many support vectors. :class:`~kernlet.Removal` sets
# what leaves and when to stop; ``removal_path_`` has one record per training.
# Rows that were removed serve as validation rows: when their accuracy falls,
# the removal ends.

from matplotlib import pyplot as plt
from sklearn.cluster import KMeans
from sklearn.datasets import make_moons

from kernlet import HullPerceptronClassifier, Removal
from kernlet.compression.refit import refit
from kernlet.kernels import RBF

X, y = make_moons(800, noise=0.35, random_state=0)
X_test, y_test = make_moons(4000, noise=0.35, random_state=1)

full = HullPerceptronClassifier(C=1, gamma=1).fit(X, y)
removal = Removal(which="support", size="current", stop="fall")
stopped = HullPerceptronClassifier(C=1, gamma=1, removal=removal).fit(X, y)
for name, model in [("all support vectors", full), ("after removal", stopped)]:
    accuracy = model.score(X_test, y_test)
    print(
        f"{name:20} {model.n_centers_} centers, test accuracy {accuracy:.3f}"
    )

# %%

for record in stopped.removal_path_[1:]:
    print(
        f"factor {record.factor:.3f}: {record.n_support} support vectors, "
        f"accuracy on removed rows {record.validation_accuracy:.3f}"
    )

# %%
# Remove more than that
# ---------------------
# A single removal with a larger threshold shows what the rule prevents. The
# weight of a row grows with its error, so that the rows of largest weight are
# the outliers. A model trained on them alone learns the classes the wrong way
# round.

path = []
for factor in (0.3, 0.6, 0.9, 1.2, 1.5, 1.8, 2.1, 2.4, 2.7, 3.0):
    once = Removal(start=factor, rounds=1)
    model = HullPerceptronClassifier(C=1, gamma=1, removal=once).fit(X, y)
    path.append((model.n_centers_, model.score(X_test, y_test)))
print("{} centers, test accuracy {:.3f}".format(*path[-1]))

# %%
# Few centers in another way
# --------------------------
# Rows that carry the largest weights are poor centers. Centroids of the rows
# are better ones: take 5 to 40 of them and refit the coefficients to all rows.

refitted = []
for n_centers in (5, 10, 20, 40):
    centers = (
        KMeans(n_centers, n_init=1, random_state=0).fit(X).cluster_centers_
    )
    expansion = refit(RBF(1.0), centers, X, (2.0 * y - 1.0)[None, :], C=1)
    accuracy = ((expansion.decision_values(X_test)[:, 0] > 0) == y_test).mean()
    refitted.append((n_centers, accuracy))
    print(f"{n_centers:3} centroids, test accuracy {accuracy:.3f}")

# %%
# Removal saves a part of the support vectors at some loss. Centroids have the
# accuracy of the full model with a fraction of the centers.

fig, ax = plt.subplots(figsize=(6.4, 3.6), layout="constrained")
ax.plot(*zip(*path, strict=True), "o-", label="one removal")
ax.plot(
    stopped.n_centers_,
    stopped.score(X_test, y_test),
    "D",
    label="removal with a rule to stop",
)
ax.plot(
    *zip(*refitted, strict=True), "s-", label="k-means centroids, refitted"
)
ax.axhline(
    full.score(X_test, y_test),
    color="0.5",
    linestyle="--",
    label="all support vectors",
)
ax.axhline(0.5, color="0.5", linestyle=":", label="chance")
ax.set(xlabel="centers", ylabel="test accuracy", xscale="log")
ax.set_xticks(
    [5, 10, 20, 50, 100, 200, 500],
    ["5", "10", "20", "50", "100", "200", "500"],
)
fig.legend(loc="outside upper center", ncols=3, fontsize="small")
plt.show()
