"""Intervals for the targets of new rows: three quantiles in one machine of eight centers.

Run it with ``python examples/prediction_intervals.py``; it writes intervals.png.
"""

import matplotlib

matplotlib.use("Agg")

import numpy as np
from matplotlib import pyplot as plt

from kernlet import CompactKernelRegressor

random = np.random.RandomState(0)
X = random.uniform(0, 6, size=(3000, 1))
y = np.sin(X[:, 0]) + (0.1 + 0.15 * X[:, 0]) * random.normal(size=3000)  # noise that grows

machine = CompactKernelRegressor(
    8, storage="int8", loss="pinball", quantile=(0.05, 0.5, 0.95), random_state=0
)
machine.fit(X[:2000], y[:2000])
low, median, high = machine.predict(X[2000:]).T
inside = np.mean((low <= y[2000:]) & (y[2000:] <= high))
print(f"{machine.n_centers_} centers in {machine.nbytes_} bytes")
print(f"{100 * inside:.1f} % of 1,000 new rows are inside the interval, which is made for 90 %")
print(f"D2 of the pinball loss {machine.score(X[2000:], y[2000:]):.3f}")

grid = np.linspace(0, 6, 300)[:, None]
low, median, high = machine.predict(grid).T
figure, axes = plt.subplots(figsize=(7, 3.6), layout="constrained")
axes.plot(X[2000:], y[2000:], ".", color="#718096", ms=3, label="new rows")
axes.fill_between(grid[:, 0], low, high, color="#2b6cb0", alpha=0.25, label="5 % to 95 %")
axes.plot(grid, median, color="#2b6cb0", label="median")
axes.set(xlabel="x", ylabel="y")
axes.legend(frameon=False, loc="upper left")
figure.savefig("intervals.png", dpi=110)
