"""
How many bits does a number need?
=================================

Halving the bits per number halves the model, or pays for twice as many
centers. This example trains the same classifier in 32, 16, 8 and 4 bits, and
compares rounding during training with rounding afterwards.
"""

# %%
# Accuracy by format
# ------------------
# Tables of 8 and 16 bits are rounded after training. Tables of 4 bits are
# rounded while they are trained, so that centers and coefficients adapt to the
# grid.

from matplotlib import pyplot as plt
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from kernlet import CompactKernelClassifier
from kernlet.datasets import make_checkerboard
from kernlet.quantization import FORMATS, encode

X, y = load_digits(return_X_y=True)
X, X_test, y, y_test = train_test_split(
    X, y, test_size=0.4, stratify=y, random_state=0
)

curves = {}
for storage in ("float32", "float16", "int8", "int4"):
    curve = []
    for n_centers in (10, 20, 40):
        model = CompactKernelClassifier(
            n_centers, storage=storage, n_epochs=60, random_state=0
        )
        model.fit(X, y)
        curve.append((model.nbytes_, model.score(X_test, y_test)))
    curves[storage] = curve
    print(
        f"{storage:8}",
        "  ".join(f"{size:6,} bytes {score:.3f}" for size, score in curve),
    )
trained_in_4_bits = model

# %%
# Fewer bits move a curve to the left and hardly down: for a given number of
# bytes, more centers of fewer bits are better. Differences of half a point are
# within chance on 719 test rows.

fig, ax = plt.subplots(figsize=(6.4, 3.4), layout="constrained")
for (storage, curve), marker in zip(curves.items(), "osD^", strict=True):
    ax.plot(*zip(*curve, strict=True), marker + "-", label=storage)
ax.set(xlabel="bytes", ylabel="test accuracy", xscale="log", ylim=(0.96, 0.99))
ax.xaxis.set_major_formatter("{x:,.0f}")
ax.legend(title="10, 20 and 40 centers", loc="lower right")
plt.show()

# %%
# Rounding afterwards is not the same
# -----------------------------------
# Digits are easy to round: an error in one of 64 pixels matters little. The
# checkerboard has two features only, and its squares meet at sharp corners.
# Here the float32 classifier is rounded after training; with four bits it
# loses accuracy that training in four bits keeps.

board = make_checkerboard(1500, random_state=0)
full = CompactKernelClassifier(40, random_state=0).fit(board.X, board.y)
expansion = full.expansion_
print(
    f"float32:                    {full.score(board.X_test, board.y_test):.3f}"
)
for name in ("int8", "int6", "int4"):
    tables = {
        "centers": encode(expansion.centers, FORMATS[name]),
        "coef": encode(expansion.coef, FORMATS[name]),
    }
    values = expansion.replaced(**tables).decision_values(board.X_test)[:, 0]
    accuracy = ((values > 0) == board.y_test).mean()
    print(f"{name} after training:        {accuracy:.3f}")
trained = CompactKernelClassifier(40, storage="int4", random_state=0).fit(
    board.X, board.y
)
print(
    "int4 while it is trained:   "
    f"{trained.score(board.X_test, board.y_test):.3f}"
)

# %%
# Four bits are 15 levels
# -----------------------
# A center is an image here. Its 64 numbers take 256 bytes in float32 and 32 in
# four bits; the numbers stored are whole, from -7 to 7.

codes = trained_in_4_bits.expansion_.packed["centers"].codes()
fig, axes = plt.subplots(2, 5, figsize=(6.4, 2.8), layout="constrained")
for ax, image in zip(axes.flat, codes, strict=False):
    shown = ax.imshow(image.reshape(8, 8), cmap="coolwarm", vmin=-7, vmax=7)
    ax.set(xticks=[], yticks=[])
fig.colorbar(shown, ax=axes, label="stored number", ticks=[-7, 0, 7])
fig.suptitle("Ten of the 40 centers")
plt.show()
