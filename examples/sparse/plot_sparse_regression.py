"""
Sparse regression and its tube
==============================

Support vector regression ignores errors inside a tube of half-width
``epsilon`` and keeps every row on or outside of it.
:class:`~kernlet.L1KernelRegressor` has the same loss, but penalises absolute
coefficients, so that few of them are nonzero.
:class:`~kernlet.MinimalKernelRegressor` counts centers, and rows outside the
tube, so that single outliers do not pull at the curve.
"""

# %%
# Noisy data with outliers
# ------------------------
# The targets have noise of deviation 0.2; one row in twenty is an outlier.
# ``epsilon`` is twice the deviation of the noise.

import numpy as np
from matplotlib import pyplot as plt
from sklearn.svm import SVR

from kernlet import L1KernelRegressor, MinimalKernelRegressor

rng = np.random.default_rng(0)
x = np.sort(rng.uniform(0, 10, 300))
truth = np.sin(x) + 0.3 * x
y = truth + rng.normal(scale=0.2, size=300)
y[::20] += rng.choice([-2.5, 2.5], size=15)
X = x[:, None]

shared = {"C": 3, "gamma": 0.5, "epsilon": 0.4}
svr = SVR(**shared).fit(X, y)
models = {
    "SVR": (svr, svr.support_),
    "L1KernelRegressor": (
        l1 := L1KernelRegressor(**shared).fit(X, y),
        l1.center_indices_,
    ),
    "MinimalKernelRegressor": (
        minimal := MinimalKernelRegressor(**shared, random_state=0).fit(X, y),
        minimal.center_indices_,
    ),
}
for name, (model, centers) in models.items():
    error = np.abs(model.predict(X) - truth).mean()
    print(
        f"{name:23} {len(centers):3} centers, mean distance to the true curve "
        f"{error:.3f}"
    )

# %%
# The certificate of the 1-norm model is a relative duality gap; an ``SVR``
# reports none.

print(f"duality gap of L1KernelRegressor: {l1.duality_gap_[0]:.1e}")

# %%
# The three curves
# ----------------
# The band is the tube, and rings mark the rows that a model keeps. The SVR
# keeps all rows at the border of the tube and beyond, outliers included; the
# other two keep a handful. A center is just a place for a bump: it may be an
# outlier, and the curve still need not go near it.

fig, axes = plt.subplots(
    1, 3, figsize=(8, 3.1), sharey=True, layout="constrained"
)
grid = np.linspace(0, 10, 300)
for ax, (name, (model, centers)) in zip(axes, models.items(), strict=True):
    curve = model.predict(grid[:, None])
    ax.plot(x, y, ".", color="0.5", markersize=3)
    ax.fill_between(
        grid, curve - 0.4, curve + 0.4, color="C0", alpha=0.25, linewidth=0
    )
    ax.plot(grid, curve, color="C0")
    ax.plot(
        x[centers], y[centers], "o", color="C1", markersize=5, fillstyle="none"
    )
    ax.set(title=f"{name}\n{len(centers)} centers", xlabel="x")
axes[0].set_ylabel("y")
plt.show()

# %%
# Choose ``epsilon`` about as large as the noise. With a much narrower tube
# most rows lie outside, and a count of them says little: the minimal regressor
# then loses accuracy and saves few centers.
