"""Rows, machines and callbacks for tests on many rows."""

import os
import signal

import numpy as np

from kernlet import L1KernelClassifier


def make_data(n_rows=8000, n_classes=2, seed=0):
    random = np.random.RandomState(seed)
    X = random.randn(n_rows, 3).astype(np.float32)
    score = X[:, 0] * X[:, 1] + 0.3 * random.randn(n_rows)
    return X, np.digitize(score, np.quantile(score, np.arange(1, n_classes) / n_classes))


def make_machine(Classifier=L1KernelClassifier, **parameters):
    return Classifier(0.1, **({"gamma": 0.5, "candidates": 30, "random_state": 0} | parameters))


def assert_same(one, two):
    for name in ("coef", "intercept", "centers"):
        np.testing.assert_array_equal(getattr(one.expansion_, name), getattr(two.expansion_, name))
    np.testing.assert_array_equal(one.duals_, two.duals_)
    np.testing.assert_array_equal(one.objective_, two.objective_)


class KillOne:
    """Kills a worker's process once, after some passes."""

    def __init__(self, client):
        self.client, self.passes = client, 0

    def setup(self, estimator, context):
        pass

    def teardown(self, estimator, context):
        pass

    def on_fit_task_begin(self, estimator, context):
        pass

    def on_fit_task_end(self, estimator, context):
        if context.task_name.startswith("pass"):
            self.passes += 1
        if self.passes == 5:
            self.passes += 1
            os.kill(next(iter(self.client.run(os.getpid).values())), signal.SIGKILL)
        return False


class Interrupt(KillOne):
    """Ctrl-C after some passes."""

    def __init__(self, passes):
        self.limit, self.passes, self.names = passes, 0, []

    def on_fit_task_end(self, estimator, context):
        self.names.append(context.task_name)
        self.passes += 1
        if self.passes == self.limit:
            raise KeyboardInterrupt
        return False
