"""
What compressed centers look like
=================================

The support vectors of an SVC are training rows: images of digits that are hard
to tell apart. The centers that :func:`~kernlet.compress` makes are points of
its own. This example shows both as images, and then fine-tunes the centers on
the data.
"""

# %%
# From hundreds of support vectors to 30 centers
# ----------------------------------------------

from matplotlib import pyplot as plt
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from sklearn.svm import SVC

from kernlet import CompactKernelClassifier, compress

X, y = load_digits(return_X_y=True)
X, X_test, y, y_test = train_test_split(
    X, y, test_size=0.4, stratify=y, random_state=0
)
svc = SVC(C=10).fit(X, y)
small = compress(svc, 30, X, y, random_state=0)
print(
    f"SVC        {len(svc.support_)} support vectors, accuracy "
    f"{svc.score(X_test, y_test):.3f}"
)
print(
    f"compressed  {small.n_centers_} centers,         accuracy "
    f"{small.score(X_test, y_test):.3f}"
)

# %%
# Fine-tune on the data
# ---------------------
# ``compress`` imitates the SVC. :class:`~kernlet.CompactKernelClassifier` can
# start from the SVC and trains the centers for the labels instead. It has one
# output per class, where the SVC has one per pair of classes, and stores
# numbers in 8 bits.

tuned = CompactKernelClassifier(
    30, init=svc, storage="int8", random_state=0
).fit(X, y)
print(
    f"fine-tuned  {tuned.n_centers_} centers,         accuracy "
    f"{tuned.score(X_test, y_test):.3f}"
)
print(f"bytes: {small.nbytes_:,} compressed, {tuned.nbytes_:,} fine-tuned")

# %%
# Three sets of points
# --------------------
# Each row has ten images. Support vectors are digits as they were written.
# Compressed centers look like blurred digits: each stands for many support
# vectors. Fine-tuned centers need not look like digits at all; they are where
# they separate the classes best.

centers = tuned.expansion_.unfolded().centers
rows = {
    "support vectors": svc.support_vectors_[:: len(svc.support_) // 10],
    "compressed": small.expansion_.centers[::3],
    "fine-tuned": centers[::3],
}
fig, axes = plt.subplots(3, 10, figsize=(8, 3.2), layout="constrained")
for line, (name, images) in zip(axes, rows.items(), strict=True):
    for ax, image in zip(line, images, strict=False):
        ax.imshow(image.reshape(8, 8), cmap="gray_r")
        ax.axis("off")
    line[0].set_title(name, loc="left", fontsize="medium")
plt.show()

# %%
# Which class does a center speak for?
# ------------------------------------
# Coefficients of the fine-tuned centers: one row per class, one column per
# center. Most centers speak for one class and against one or two others.

fig, ax = plt.subplots(figsize=(7, 3), layout="constrained")
coef = tuned.expansion_.coef
order = coef.argmax(axis=0).argsort(kind="stable")
limit = abs(coef).max()
shown = ax.imshow(
    coef[:, order], cmap="coolwarm", vmin=-limit, vmax=limit, aspect="auto"
)
ax.set(xlabel="center", ylabel="class", yticks=range(0, 10, 3))
fig.colorbar(shown, label="coefficient")
plt.show()
