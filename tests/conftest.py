"""What tests of several folders need."""

import os

import pytest


@pytest.fixture
def data_folder():
    """The folder of real data sets; a test that needs it is skipped where there is none."""
    folder = os.environ.get("KERNLET_DATA")
    if not folder or not os.path.isdir(folder):
        pytest.skip("set KERNLET_DATA to the folder of real data sets to run this test")
    return folder
