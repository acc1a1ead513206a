"""A table of numbers, texts and booleans with missing cells, and pipelines that take it."""

import numpy as np
import pandas as pd
from sklearn.compose import ColumnTransformer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

RNG = np.random.RandomState(3)
N = 160
CITIES = ["Bern", "Oslo", "Paris", "Rome"]
FRAME = pd.DataFrame(
    {
        "age": RNG.normal(40, 10, N),
        "income": RNG.lognormal(9, 1, N),
        "city": RNG.choice(CITIES, N, p=[0.05, 0.25, 0.3, 0.4]),
        "on": RNG.rand(N) > 0.5,
        "size": RNG.choice([1, 2, 3], N),
        "note": RNG.choice(["a", "b"], N),
    }
)
FRAME.loc[::9, "age"] = np.nan
FRAME.loc[::11, "city"] = np.nan
LABELS = np.where((FRAME["age"].fillna(40) > 40) ^ (FRAME["city"] == "Rome"), "yes", "no")
NUMBERS, CATEGORIES = ["age", "income"], ["city", "on"]
UNKNOWN = FRAME.assign(city=["Paris", "Nowhere"] * (N // 2))


def impute_and_scale(**options):
    return make_pipeline(SimpleImputer(**options), StandardScaler())


def impute_and_encode(**options):
    options = {"handle_unknown": "ignore"} | options
    return make_pipeline(SimpleImputer(strategy="most_frequent"), OneHotEncoder(**options))


def mixed(*more, **options):
    steps = [("n", impute_and_scale(), NUMBERS), ("c", impute_and_encode(**options), CATEGORIES)]
    return ColumnTransformer([*steps, *more])
