"""
Shrink an SVC pipeline
======================

A fitted pipeline of a ``ColumnTransformer`` and an SVC is accurate, but it
keeps hundreds of support vectors. :func:`~kernlet.compress` rebuilds it from a
few centers and keeps the preparation of the columns. Bytes, time per
prediction and accuracy are compared before and after.
"""

# %%
# A table of mixed columns
# ------------------------
# A generated table of customers: numbers, a category, and missing incomes.

import time

import numpy as np
import pandas as pd
from matplotlib import pyplot as plt
from sklearn.compose import make_column_transformer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.svm import SVC

import kernlet

rng = np.random.default_rng(0)
table = pd.DataFrame(
    {
        "age": rng.normal(45, 12, 4000).round(),
        "income": rng.lognormal(10, 0.6, 4000).round(),
        "visits": rng.poisson(5, 4000),
        "city": rng.choice(["Bern", "Oslo", "Rome"], 4000),
    }
)
interest = (table["age"] - 45) / 12 * np.where(table["city"] == "Rome", -1, 1)
interest = (
    interest + (table["visits"] - 5) / 4 + rng.normal(scale=0.5, size=4000)
)
buys = np.where(interest > 0, "yes", "no")
table.loc[::20, "income"] = np.nan
train, valid, test = slice(0, 2000), slice(2000, 3000), slice(3000, None)

columns = make_column_transformer(
    (
        make_pipeline(SimpleImputer(), StandardScaler()),
        ["age", "income", "visits"],
    ),
    (OneHotEncoder(handle_unknown="ignore"), ["city"]),
)
pipeline = make_pipeline(columns, SVC()).fit(table[train], buys[train])
print(f"{len(pipeline[-1].support_)} support vectors")

# %%
# Compress it
# -----------
# Give rows that the SVC was not trained on where you can: they choose the
# coefficients, and the accuracies of the record are measured on them.

small = kernlet.compress(
    pipeline, 20, table[valid], buys[valid], random_state=0
)
print(small.compression_)

# %%
# The result takes raw tables, as the pipeline does, and has probabilities:

print(
    small.predict(table[test])[:4],
    small.predict_proba(table[test])[0].round(2),
)

# %%
# Before and after
# ----------------
# The fastest of 21 calls, for one row and for 1,000 rows.


def milliseconds(model, rows):
    times = []
    for _ in range(21):
        start = time.perf_counter()
        model.predict(rows)
        times.append(time.perf_counter() - start)
    return 1000 * min(times)


print("                before      after")
for n_rows in (1, 1000):
    before, after = (
        milliseconds(model, table[test][:n_rows])
        for model in (pipeline, small)
    )
    print(f"rows: {n_rows:5} {before:7.2f} ms {after:7.2f} ms")
scores = [model.score(table[test], buys[test]) for model in (pipeline, small)]
print("accuracy    {:7.3f}    {:7.3f}".format(*scores))
record = small.compression_
print(f"bytes       {record.bytes_before:7,}    {record.bytes_after:7,}")

# %%
# For single rows pandas and the column transformer take most of the time, and
# little is gained. With many rows at a time, or on a device without pandas,
# the number of centers counts.

# %%
# How few centers are enough?
# ---------------------------
# The accuracy on the test rows against the size. Few centers are often as good
# as the original; very few lose. ``compress(..., "auto", ...)`` makes the
# choice by validation.

sizes = (2, 3, 5, 10, 20, 40)
curve = []
for n_centers in sizes:
    one = kernlet.compress(
        pipeline, n_centers, table[valid], buys[valid], random_state=0
    )
    curve.append(
        (one.compression_.bytes_after, one.score(table[test], buys[test]))
    )

fig, ax = plt.subplots(figsize=(6.4, 3.4), layout="constrained")
ax.plot(*zip(*curve, strict=True), "o-", label="compressed, 2 to 40 centers")
ax.plot(record.bytes_before, scores[0], "s", label="SVC")
ax.axhline(scores[0], color="0.5", linestyle=":")
ax.set(xlabel="bytes", ylabel="test accuracy", xscale="log")
ax.xaxis.set_major_formatter("{x:,.0f}")
ax.legend(loc="lower right")
plt.show()
