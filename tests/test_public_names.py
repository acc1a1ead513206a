"""What `import kernlet` offers."""

import pytest

import kernlet


@pytest.mark.parametrize("name", kernlet.__all__)
def test_every_public_name_is_there(name):
    assert getattr(kernlet, name) is not None
    assert name in dir(kernlet)


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'SVC'"):
        kernlet.SVC  # noqa: B018
