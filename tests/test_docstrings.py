"""The docstrings of the reference describe all parameters and fitted attributes."""

import inspect
import pkgutil
import re
from pathlib import Path

import pytest

import kernlet
from support.fitting import fitted

API = Path(__file__).parents[1] / "docs" / "reference" / "api.md"
LISTED = re.findall(r"^   ([A-Za-z]\S*)$", API.read_text("utf-8"), re.MULTILINE)
PUBLIC = [name for name in kernlet.__all__ if name != "__version__"]
ESTIMATORS = [name for name in PUBLIC if hasattr(getattr(kernlet, name), "fit")]


def docstring(name):
    """The docstring of a name of the reference."""
    return inspect.getdoc(pkgutil.resolve_name(f"kernlet.{name}"))


def described(name, section):
    """Names in a section of a docstring, with their descriptions."""
    pattern = rf"^{section}\n-+\n(.*?)(?=^\S[^\n]*\n-+$|\Z)"
    found = re.search(pattern, docstring(name), re.MULTILINE | re.DOTALL)
    entries, current = {}, []
    for line in found[1].splitlines() if found else []:
        if line and not line.startswith(" "):
            names, separator, kind = line.partition(" : ")
            assert separator, f"{name}: {line!r} has no type"
            assert not kind.startswith("see "), f"{name}: {line!r} sends the reader elsewhere"
            current = names.split(", ")
            entries.update(dict.fromkeys(current, ""))
        else:
            for entry in current:
                entries[entry] += line.strip()
    return entries


@pytest.mark.parametrize("name", LISTED)
def test_each_parameter_and_attribute_is_described(name):
    for section in ("Parameters", "Attributes"):
        assert not [entry for entry, text in described(name, section).items() if not text]


@pytest.mark.parametrize("name", PUBLIC)
def test_parameters_are_those_of_the_signature(name):
    documented = described(name, "Parameters")
    assert list(documented) == list(inspect.signature(getattr(kernlet, name)).parameters)


@pytest.mark.parametrize("name", ESTIMATORS)
def test_defaults_are_those_of_the_signature(name):
    stated = dict(re.findall(r"^(\w+) : .*default=(.+)$", docstring(name), re.MULTILINE))
    for parameter in inspect.signature(getattr(kernlet, name)).parameters.values():
        if parameter.default is not inspect.Parameter.empty:
            assert eval(stated[parameter.name]) == parameter.default


@pytest.mark.parametrize("name", ESTIMATORS)
@pytest.mark.filterwarnings("ignore")
def test_each_fitted_attribute_is_described(name):
    estimator = fitted(name)
    names = (name for name in dir(estimator) if name.endswith("_") and not name.startswith("_"))
    public = {attribute for attribute in names if hasattr(estimator, attribute)}
    assert public <= set(described(name, "Attributes"))


@pytest.mark.parametrize("name", PUBLIC)
def test_each_docstring_has_an_example(name):
    assert ">>> " in docstring(name)
