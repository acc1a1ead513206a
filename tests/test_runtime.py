"""Predictions from model files with NumPy and safetensors alone."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from kernlet import load, runtime, save
from support.exportable_models import DETECTORS, classifier, detector, regressor


def made(name):
    return detector(name) if name in DETECTORS else classifier(name)


#: Everything that kernlet depends on but NumPy and safetensors.
OTHERS = ("sklearn", "scipy", "pandas", "highspy", "jinja2", "click", "threadpoolctl")
SERVE = """
import resource, sys

class Refuse:
    def find_spec(self, name, *_):
        if name.partition(".")[0] in {others}:
            raise ImportError(f"{{name}} is not installed")

sys.meta_path.insert(0, Refuse())
from kernlet import runtime
import numpy as np

machine = runtime.load("model.kernlet")
np.save("answers.npy", machine.predict(np.load("rows.npy")))
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


@pytest.mark.parametrize("model", ["compact steps", "svc", "regressor", "diagonal mixture"])
def test_nothing_but_numpy_and_safetensors_is_needed(model, tmp_path):
    machine, X = regressor("unlike columns") if model == "regressor" else made(model)
    save(machine, tmp_path / "model.kernlet")
    np.save(tmp_path / "rows.npy", X)
    script = SERVE.format(others=OTHERS)
    # a process of its own, started by a small one: memory of this one would count as a peak
    command = ["sh", "-c", '"$0" -c "$1"', sys.executable, script]
    ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    answers = np.load(tmp_path / "answers.npy")
    assert_array_equal(answers, load(tmp_path / "model.kernlet").predict(X))
    if sys.platform == "linux":
        assert int(ran.stdout) < 40 * 1024  # kB


def test_a_machine_has_the_answers_of_load(tmp_path):
    machine, X = classifier("compact two classes")
    path = Path(tmp_path) / "model.kernlet"
    save(machine, path)
    served, loaded = runtime.load(path), load(path)
    assert served.kind == "classifier"
    assert_array_equal(served.classes, loaded.classes_)
    for method in ("predict", "decision_function", "predict_proba"):
        assert_array_equal(getattr(served, method)(X), getattr(loaded, method)(X))
    with pytest.raises(AttributeError, match="A classifier has no score_samples"):
        served.score_samples(X)


def test_a_novelty_detector_has_the_answers_of_load(tmp_path):
    machine, X = detector("one class")
    path = Path(tmp_path) / "model.kernlet"
    save(machine, path)
    served, loaded = runtime.load(path), load(path)
    assert served.kind == "novelty"
    for method in ("predict", "decision_function", "score_samples"):
        assert_array_equal(getattr(served, method)(X), getattr(loaded, method)(X))
    with pytest.raises(AttributeError, match="predict_proba"):
        served.predict_proba(X)
