"""What tests of several folders need."""

import os

import pytest
from hypothesis import settings

# The same examples in every run, so that a change is judged by what it changes; other examples
# with `pytest --hypothesis-profile=explore`.
settings.register_profile("steady", derandomize=True, deadline=None)
settings.register_profile("explore", deadline=None)
settings.load_profile("steady")


@pytest.fixture
def data_folder():
    """The folder of real data sets; a test that needs it is skipped where there is none."""
    folder = os.environ.get("KERNLET_DATA")
    if not folder or not os.path.isdir(folder):
        pytest.skip("set KERNLET_DATA to the folder of real data sets to run this test")
    return folder
