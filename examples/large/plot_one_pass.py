"""
200,000 rows in one pass, and how to forget some of them
========================================================

:class:`~kernlet.ProximalClassifier` needs sums over the rows and nothing else.
Rows can therefore be read once, block by block, and be taken back later: after
``partial_forget`` the model is the one that a fit without these rows would
give.
"""

# %%
# Learn block by block
# --------------------
# The rows arrive in 20 blocks of 10,000 and are not kept. The landmarks, 150
# random rows of a first sample, are the centers of the model.

import time

import numpy as np
from matplotlib import pyplot as plt
from sklearn.linear_model import SGDClassifier

from kernlet import ProximalClassifier

N_BLOCKS, N_ROWS = 20, 10_000


def block(number):
    """Ten columns; the class depends on a product and on a square."""
    rng = np.random.default_rng(number)
    X = rng.normal(size=(N_ROWS, 10))
    y = (
        X[:, 0] * X[:, 1]
        + 0.5 * (X[:, 2] ** 2 - 1)
        + rng.normal(scale=0.3, size=N_ROWS)
        > 0
    )
    return X, y


X_test, y_test = block(1000)
landmarks = block(2000)[0][:150]
settings = {"kernel": "rbf", "gamma": 0.05, "landmarks": landmarks, "C": 10.0}

start = time.process_time()
model = ProximalClassifier(**settings).fit_blocks(
    block(k) for k in range(N_BLOCKS)
)
seconds = time.process_time() - start
print(
    f"{model.n_samples_seen_:,} rows in {seconds:.1f} CPU seconds, "
    f"{model.n_centers_} centers"
)
print(
    f"test accuracy {model.score(X_test, y_test):.3f}, certificate: gap "
    f"{model.gap_:.0e}"
)

# %%
# A linear model that learns from blocks is faster. It cannot learn a product
# of columns:

sgd = SGDClassifier(random_state=0)
for k in range(N_BLOCKS):
    sgd.partial_fit(*block(k), classes=[False, True])
print(f"SGDClassifier: test accuracy {sgd.score(X_test, y_test):.3f}")

# %%
# Spoiled blocks, learned and forgotten
# -------------------------------------
# Thirty more blocks arrive whose labels were exchanged by mistake. Once that
# is known, they are subtracted again; no other row has to be read.

history = [model.score(X_test, y_test)]
for k in range(30):
    X, y = block(3000 + k)
    model.partial_fit(X, ~y)
    history.append(model.score(X_test, y_test))
for k in range(30):
    X, y = block(3000 + k)
    model.partial_forget(X, ~y)
    history.append(model.score(X_test, y_test))

fresh = ProximalClassifier(**settings).fit_blocks(
    block(k) for k in range(N_BLOCKS)
)
difference = np.abs(
    model.decision_function(X_test) - fresh.decision_function(X_test)
).max()
print(f"largest difference of a score from a fresh fit: {difference:.0e}")

# %%
# With twenty spoiled blocks the wrong labels outweigh the right ones, and the
# model turns round. When all of them are forgotten, it is what it was.

fig, ax = plt.subplots(figsize=(6.4, 3.2), layout="constrained")
ax.plot(range(31), history[:31], label="spoiled blocks are learned")
ax.plot(range(30, 61), history[30:], label="and forgotten")
ax.set(xlabel="calls", ylabel="test accuracy", ylim=(0, 1))
fig.legend(loc="outside upper center", ncols=2)
plt.show()

# %%
# Rows far on the correct side of the boundary count as errors, too. For as
# many centers, :class:`~kernlet.CompactKernelClassifier` is usually more
# accurate.
