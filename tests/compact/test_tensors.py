import pickle
import sys

import numpy as np
import pytest

from support.compact_machines import machine


def test_a_device_without_torch_says_what_to_install(moons, monkeypatch):
    X, _, y, _ = moons
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(ImportError, match=r"needs torch, which is not installed.*kernlet\[torch\]"):
        machine(device="cuda").fit(X, y)


@pytest.mark.parametrize(
    "parameters",
    [{}, {"storage": "int4", "projection": 12, "width": "per_center"}],
    ids=["plain", "packed"],
)
def test_torch_trains_about_the_same_machine(digits, parameters):
    pytest.importorskip("torch")
    X, X_test, y, _ = digits
    ours = machine(15, n_epochs=3, **parameters).fit(X, y)
    theirs = machine(15, n_epochs=3, device="torch", **parameters).fit(X, y)
    assert np.mean(ours.predict(X_test) == theirs.predict(X_test)) > 0.98
    assert isinstance(theirs.expansion_.centers, np.ndarray)
    assert pickle.loads(pickle.dumps(theirs)).predict(X_test).shape == (len(X_test),)


def test_torch_chooses_and_goes_on(moons):
    pytest.importorskip("torch")
    X, X_test, y, y_test = moons
    small = machine(None, max_bytes=200, device="torch", warm_start=True).fit(X, y)
    small.set_params(early_stopping=True).fit(X, y)
    assert small.nbytes_ <= 200
    assert small.score(X_test, y_test) > 0.9


@pytest.mark.parametrize("projection", [None, 8])
@pytest.mark.parametrize("width", ["shared", "per_center"])
def test_tensors_have_the_values_of_arrays(digits, projection, width):
    torch = pytest.importorskip("torch")
    X, X_test, y, _ = digits
    small = machine(15, n_epochs=2, projection=projection, width=width).fit(X, y)
    values = small.decision_function(torch.asarray(X_test, dtype=torch.float32))
    assert isinstance(values, torch.Tensor)
    np.testing.assert_allclose(values.numpy(), small.decision_function(X_test), atol=1e-3)
    np.testing.assert_array_equal(
        small.predict(torch.asarray(X_test, dtype=torch.float32)), small.predict(X_test)
    )
