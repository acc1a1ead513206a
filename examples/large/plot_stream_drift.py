"""
A stream that changes
=====================

Sensors age, and users change their habits: a model that was right last month
may be wrong today. ``partial_fit`` of
:class:`~kernlet.CompactKernelClassifier` learns block by block, follows a slow
change, and forgets the past after an abrupt one. A model that is fitted once
and scikit-learn's ``MLPClassifier`` are the baselines.
"""

# %%
# A stream of 100 blocks
# ----------------------
# Blocks of 100 rows of a board of 2 x 2 squares. From block 30 to 60 the board
# turns by 1.5 degrees per block; at block 70 the two classes change places.
# Each model predicts a block before it may learn from it.

import numpy as np
from matplotlib import pyplot as plt
from sklearn.neural_network import MLPClassifier

from kernlet import CompactKernelClassifier

TURN, SWAP, N_BLOCKS = 30, 70, 100


def board(number):
    rng = np.random.default_rng(number)
    X = rng.uniform(-1, 1, size=(100, 2))
    angle = np.deg2rad(1.5 * np.clip(number - TURN, 0, 30))
    turned = X @ [
        [np.cos(angle), -np.sin(angle)],
        [np.sin(angle), np.cos(angle)],
    ]
    y = turned[:, 0] * turned[:, 1] > 0
    return X, y if number < SWAP else ~y


stream = CompactKernelClassifier(
    20, storage="int8", memory_size=250, random_state=0
)
network = MLPClassifier(30, learning_rate_init=0.01, random_state=0)
first_rows = [board(k) for k in range(10)]
fixed = CompactKernelClassifier(20, storage="int8", random_state=0)
fixed.fit(
    np.vstack([X for X, _ in first_rows]),
    np.concatenate([y for _, y in first_rows]),
)

scores = {
    "partial_fit": [],
    "MLPClassifier": [],
    "fitted to the first 10 blocks": [],
}
for number in range(N_BLOCKS):
    X, y = board(number)
    if number >= 10:
        for values, model in zip(
            scores.values(), (stream, network, fixed), strict=True
        ):
            values.append(model.score(X, y))
    stream.partial_fit(X, y, classes=[False, True])
    for _ in range(
        10
    ):  # as many passes as partial_fit of the compact model makes by itself
        network.partial_fit(X, y, classes=[False, True])

print(f"{'mean accuracy':30} before   turning   after the swap")
for name, values in scores.items():
    parts = np.split(values, [TURN - 10, SWAP - 10])
    print(f"{name:30}", "     ".join(f"{np.mean(part):.3f}" for part in parts))
n_weights = sum(
    table.size for table in (*network.coefs_, *network.intercepts_)
)
print(
    f"bytes: {stream.nbytes_} with 8 bits per number; {4 * n_weights} for the "
    "network in float32"
)

# %%
# Before and after each change
# ----------------------------
# Means of five blocks. The model that is fitted once loses as soon as the
# board turns, and is as often wrong as right when it has turned by 45 degrees.
# The other two follow the slow change, the network a little better. After the
# swap both fall; the compact model notices the change, drops its memory and
# recovers first.

fig, ax = plt.subplots(figsize=(6.8, 3.6), layout="constrained")
for name, values in scores.items():
    smooth = np.convolve(values, np.ones(5) / 5, mode="valid")
    ax.plot(range(14, N_BLOCKS), smooth, label=name)
for place, what in ((TURN, "board turns"), (SWAP, "classes swap")):
    ax.axvline(place, color="0.5", linestyle=":")
    ax.annotate(what, (place + 0.5, 0.03))
ax.set(
    xlabel="block of 100 rows",
    ylabel="accuracy before learning",
    ylim=(0, 1.02),
)
fig.legend(loc="outside upper center", ncols=3)
plt.show()

# %%
# Without a change one fit to all rows is better than a stream. Use
# ``partial_fit`` where rows keep coming and their meaning may move.
