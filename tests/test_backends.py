"""Runs side by side on Ray and Spark, through joblib, where these are installed.

They take a minute to start their workers: set KERNLET_TEST_BACKENDS to run them.
"""

import os
import shutil

import joblib
import numpy as np
import pytest
from sklearn.base import clone

from kernlet import ChunkingSyntheticClassifier

pytestmark = pytest.mark.skipif(
    "KERNLET_TEST_BACKENDS" not in os.environ, reason="KERNLET_TEST_BACKENDS is not set"
)

random = np.random.RandomState(0)
X = random.randn(600, 3)
Y = np.digitize(X[:, 0] * X[:, 1], [-0.4, 0.4])
MACHINE = ChunkingSyntheticClassifier(4, n_runs=2, stage_sizes=[200], gamma=0.5, random_state=0)


def check_same(backend):
    serial = clone(MACHINE).fit(X, Y)
    with joblib.parallel_config(backend=backend, n_jobs=2):
        machine = clone(MACHINE).fit(X, Y)
    np.testing.assert_array_equal(machine.expansion_.coef, serial.expansion_.coef)
    np.testing.assert_array_equal(machine.expansion_.centers, serial.expansion_.centers)


def test_ray(monkeypatch):
    monkeypatch.setenv("RAY_AUTH_MODE", "disabled")
    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    ray = pytest.importorskip("ray")
    from ray.util.joblib import register_ray

    register_ray()
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    try:
        check_same("ray")
    finally:
        ray.shutdown()


@pytest.mark.skipif(shutil.which("java") is None, reason="Spark needs Java")
def test_spark():
    pytest.importorskip("pyspark")
    joblibspark = pytest.importorskip("joblibspark")
    from pyspark.sql import SparkSession

    joblibspark.register_spark()
    session = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    session = session.getOrCreate()
    try:
        check_same("spark")
    finally:
        session.stop()
