"""What `import kernlet` offers."""

import subprocess
import sys

import pytest

import kernlet


@pytest.mark.parametrize("name", kernlet.__all__)
def test_every_public_name_is_there(name):
    assert getattr(kernlet, name) is not None
    assert name in dir(kernlet)


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'SVC'"):
        kernlet.SVC  # noqa: B018


def test_dir_has_public_names_and_dunders_only():
    others = set(dir(kernlet)) - set(kernlet.__all__)
    assert all(name.startswith("__") and name.endswith("__") for name in others)


def test_the_package_runs_as_a_module():
    command = [sys.executable, "-m", "kernlet", "--version"]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert said == f"kernlet, version {kernlet.__version__}\n"
