"""
Digits in two kilobytes
=======================

How accurate can a classifier of handwritten digits be if everything it stores
fits in 250, 500, 1,000 or 2,000 bytes?
:class:`~kernlet.CompactKernelClassifier` chooses the number of centers, the
bits per number and a projection for each budget. An SVC of 285 kilobytes is
the reference.
"""

# %%
# One classifier per budget
# -------------------------
# ``max_bytes`` limits everything that a prediction needs: centers,
# coefficients, intercepts, widths and the scaling of the inputs. ``choice_``
# says what was chosen. ``effort`` and ``n_epochs`` keep this example short;
# with their defaults the search takes several times as long and compares more
# candidates.

from textwrap import fill

from matplotlib import pyplot as plt
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from sklearn.svm import SVC

from kernlet import CompactKernelClassifier

X, y = load_digits(return_X_y=True)
X, X_test, y, y_test = train_test_split(
    X, y, test_size=0.4, stratify=y, random_state=0
)

models = {}
for max_bytes in (250, 500, 1000, 2000):
    model = CompactKernelClassifier(
        max_bytes=max_bytes, effort="quick", n_epochs=20, random_state=0
    )
    models[max_bytes] = model.fit(X, y)
    accuracy = model.score(X_test, y_test)
    print(f"{max_bytes} bytes: test accuracy {accuracy:.3f}")
print(fill(models[1000].choice_))

# %%
# The SVC keeps its support vectors in 64-bit numbers.

svc = SVC(C=10).fit(X, y)
svc_bytes = (
    svc.support_vectors_.nbytes + svc.dual_coef_.nbytes + svc.intercept_.nbytes
)
svc_accuracy = svc.score(X_test, y_test)
print(
    f"SVC: {len(svc.support_)} support vectors, {svc_bytes:,} bytes, accuracy "
    f"{svc_accuracy:.3f}"
)

# %%
# Accuracy against bytes
# ----------------------
# The SVC is more accurate than all of them. At two kilobytes little is left of
# the difference, at less than a hundredth of its size.

fig, ax = plt.subplots(figsize=(6.4, 3.4), layout="constrained")
sizes = [model.nbytes_ for model in models.values()]
scores = [model.score(X_test, y_test) for model in models.values()]
ax.plot(sizes, scores, "o-", label="CompactKernelClassifier")
ax.plot(svc_bytes, svc_accuracy, "s", label="SVC")
for size, score in [
    *zip(sizes, scores, strict=True),
    (svc_bytes, svc_accuracy),
]:
    ax.annotate(
        f"{size:,}",
        (size, score),
        xytext=(0, 7),
        textcoords="offset points",
        ha="center",
    )
ax.set(xlabel="bytes", ylabel="test accuracy", xscale="log", ylim=(0.94, 1))
ax.xaxis.set_major_formatter("{x:,.0f}")
ax.legend(loc="lower right")
plt.show()

# %%
# What the search tried
# ---------------------
# ``path_`` has the candidates that were compared in full, with their bytes and
# cross-validated accuracy. The log loss decides among them, which also counts
# how sure a model is:

for point in models[2000].path_:
    kind = (
        "no projection"
        if point.rank is None
        else f"projection to {point.rank}"
    )
    print(
        f"{point.n_centers:3} centers, {kind:16} {point.nbytes:5,} bytes: "
        f"accuracy {point.score:.4f}"
    )
