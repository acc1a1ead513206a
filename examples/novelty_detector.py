"""Rows unlike the normal ones: a detector of 200 bytes, and where it draws the line.

Run it with ``python examples/novelty_detector.py``; it writes novelty.png.
"""

import matplotlib

matplotlib.use("Agg")

import numpy as np
from matplotlib import pyplot as plt
from sklearn.datasets import make_moons
from sklearn.metrics import roc_auc_score

from kernlet import CompactNoveltyDetector

X, _ = make_moons(6000, noise=0.08, random_state=0)
normal, new = X[:3000], X[3000:]
anomalies = np.random.RandomState(0).uniform([-2, -1.5], [3, 2], size=(3000, 2))

detector = CompactNoveltyDetector(max_bytes=200, contamination=0.05, random_state=0).fit(normal)
is_normal = np.arange(6000) < 3000
scores = detector.score_samples(np.vstack([new, anomalies]))
print(detector.choice_)
print(f"{detector.n_centers_} centers in {detector.nbytes_} bytes")
print(f"{100 * np.mean(detector.predict(new) < 0):.1f} % false alarms, of 5 % asked for")
print(f"{100 * np.mean(detector.predict(anomalies) < 0):.1f} % of random rows found")
print(f"ROC AUC {roc_auc_score(is_normal, scores):.3f}")

grid = np.stack(np.meshgrid(np.linspace(-2, 3, 250), np.linspace(-1.5, 2, 200)), axis=-1)
values = detector.decision_function(grid.reshape(-1, 2)).reshape(200, 250)
figure, axes = plt.subplots(figsize=(7, 4.2), layout="constrained")
axes.contourf(*grid.T.swapaxes(1, 2), values, levels=[0, values.max()], colors=["#bee3f8"])
axes.plot(*new[:1000].T, ".", color="#718096", ms=3, label="new normal rows")
found = detector.predict(anomalies[:150]) < 0
axes.plot(*anomalies[:150][found].T, "x", color="#c53030", ms=5, label="random rows, found")
axes.plot(*anomalies[:150][~found].T, "+", color="#2b6cb0", ms=6, label="random rows, missed")
axes.contour(*grid.T.swapaxes(1, 2), values, levels=[0], colors=["#2b6cb0"])
axes.set(xlabel="first feature", ylabel="second feature")
axes.legend(loc="upper right", framealpha=1)
figure.savefig("novelty.png", dpi=110)
