"""
A checkerboard from 22 points
=============================

The checkerboard is a classic test of nonlinear classifiers: 1,000 points, 16
squares, two classes. A support vector machine keeps a large part of the
training rows. The minimal kernel classifier counts the rows it uses and finds
a model that depends on very few of them.
"""

# %%
# Train three classifiers on the same points
# ------------------------------------------
# All three use the Gaussian kernel of the same width. ``SVC`` minimises a
# squared norm, :class:`~kernlet.L1KernelClassifier` the sum of the absolute
# coefficients, and :class:`~kernlet.MinimalKernelClassifier` the number of
# nonzero coefficients, by a sequence of linear programs.

from matplotlib import pyplot as plt
from sklearn.svm import SVC

from kernlet import L1KernelClassifier, MinimalKernelClassifier
from kernlet.datasets import make_checkerboard

board = make_checkerboard(n_samples=1000, random_state=0)
svc = SVC(C=1000, gamma=2).fit(board.X, board.y)
l1 = L1KernelClassifier(C=1000, gamma=2, random_state=0).fit(board.X, board.y)
minimal = MinimalKernelClassifier(C=1000, gamma=2, mu=100, random_state=0).fit(
    board.X, board.y
)

models = {
    "SVC": (svc, svc.support_vectors_),
    "L1KernelClassifier": (l1, l1.expansion_.centers),
    "MinimalKernelClassifier": (minimal, minimal.expansion_.centers),
}
for name, (model, centers) in models.items():
    accuracy = model.score(board.X_test, board.y_test)
    print(f"{name:24} {len(centers):4} centers, test accuracy {accuracy:.3f}")

# %%
# The last linear program comes with a certificate: the relative duality gap
# says how far its objective can be from the optimum.

print(f"duality gap: {minimal.duality_gap_[0]:.1e}")

# %%
# What each model depends on
# --------------------------
# Colours show the predicted class, the line is the boundary between the
# classes, and the dots are the centers. The support vectors of the SVC line up
# along the edges of the squares. A linear program has no reason to keep them:
# its centers may lie anywhere, and few are enough.

fig, axes = plt.subplots(
    1, 3, figsize=(8, 3.1), sharey=True, layout="constrained"
)
side = 199
x1, x2 = board.X_test.T.reshape(2, side, side)
for ax, (name, (model, centers)) in zip(axes, models.items(), strict=True):
    values = model.decision_function(board.X_test).reshape(side, side)
    ax.contourf(x1, x2, values > 0, levels=1, colors=["C0", "C1"], alpha=0.25)
    ax.contour(x1, x2, values, levels=[0], colors="0.5", linewidths=1)
    ax.plot(*centers.T, "o", color="C2", markersize=4)
    ax.set(
        title=f"{name}\n{len(centers)} centers", xlabel="$x_1$", aspect="equal"
    )
axes[0].set_ylabel("$x_2$")
plt.show()
