import numpy as np
import pytest
from numpy.testing import assert_allclose

from kernlet.export.c_tables import float32_outputs, store
from kernlet.model.model import as_model
from support.shipped_machines import CLASSIFIERS, classifier


@pytest.mark.parametrize("name", CLASSIFIERS)
def test_the_machine_in_float32_is_near_the_one_in_float64(name):
    model, X = classifier(name)
    machine = store(as_model(model), "float32")
    rows = X[:20].astype(np.float32)
    exact = machine.expansion.decision_values(rows.astype(float))
    found = float32_outputs(machine, rows)
    assert found.dtype == np.float32
    assert_allclose(found, exact, atol=2e-4 * max(1.0, np.abs(exact).max()))
