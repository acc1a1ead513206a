"""
Prediction intervals in 76 bytes
================================

A single number does not say how far off it may be. With the pinball loss,
:class:`~kernlet.CompactKernelRegressor` predicts several quantiles with one
set of centers, for example an interval that holds 90 % of new targets. The
baseline is gradient boosting with one model per quantile.
"""

# %%
# Noise that grows
# ----------------
# The noise grows with x, so that an interval of fixed width would be wrong
# nearly everywhere.

import numpy as np
from matplotlib import pyplot as plt
from sklearn.ensemble import GradientBoostingRegressor

from kernlet import CompactKernelRegressor

rng = np.random.RandomState(0)
X = rng.uniform(0, 6, size=(3000, 1))
y = np.sin(X[:, 0]) + (0.1 + 0.15 * X[:, 0]) * rng.normal(size=3000)
X, X_test, y, y_test = X[:2000], X[2000:], y[:2000], y[2000:]

quantiles = (0.05, 0.5, 0.95)
model = CompactKernelRegressor(
    8, storage="int8", loss="pinball", quantile=quantiles, random_state=0
).fit(X, y)
boosting = [
    GradientBoostingRegressor(
        loss="quantile", alpha=quantile, random_state=0
    ).fit(X, y)
    for quantile in quantiles
]


def coverage(low, high):
    return np.mean((low <= y_test) & (y_test <= high))


low, median, high = model.predict(X_test).T
print(f"{model.n_centers_} centers in {model.nbytes_} bytes")
print(
    f"inside the interval for 90 %: {coverage(low, high):.1%} of "
    f"{len(y_test)} new rows"
)
boosted = [one.predict(X_test) for one in boosting]
print(f"gradient boosting, 300 trees: {coverage(boosted[0], boosted[2]):.1%}")

# %%
# Measure the coverage on held-out rows, as here. Quantiles are estimates: on
# few rows, models with many centers have intervals that are too narrow.

# %%
# The interval and the median
# ---------------------------
# The band of the compact model widens with the noise and is smooth. Trees
# follow single rows.

grid = np.linspace(0, 6, 300)[:, None]
bands = {
    f"CompactKernelRegressor, {model.nbytes_} bytes": model.predict(grid).T,
    "gradient boosting": [one.predict(grid) for one in boosting],
}
fig, axes = plt.subplots(
    1, 2, figsize=(8, 3.3), sharey=True, layout="constrained"
)
for ax, (name, (low, median, high)) in zip(axes, bands.items(), strict=True):
    ax.plot(X_test, y_test, ".", color="0.5", markersize=2.5, label="new rows")
    ax.fill_between(
        grid[:, 0],
        low,
        high,
        color="C0",
        alpha=0.3,
        linewidth=0,
        label="5 % to 95 %",
    )
    ax.plot(grid, median, color="C1", label="median")
    ax.set(title=name, xlabel="x")
axes[0].set_ylabel("y")
handles, labels = axes[0].get_legend_handles_labels()
fig.legend(handles, labels, loc="outside lower center", ncols=3)
plt.show()
