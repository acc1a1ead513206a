"""What notebooks show: the link to the documentation and the table of a fitted machine."""

import re
import subprocess
import sys
import tomllib
from html import unescape
from pathlib import Path

import numpy as np
import pytest
import sklearn
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, OneClassSVM

import kernlet
from kernlet.model.model import as_model
from kernlet.notebook import count_of_labels, facts_table
from kernlet.sklearn_base import DOCUMENTATION, documentation_page
from support.fitting import NAMES, fitted, problem

CONDENSERS = {name for name in NAMES if name.endswith("Condenser")}
HOSTILE = "<script>alert('x')</script>"


def table(html):
    """The table of facts in the HTML of an object, as a dictionary."""
    rows = re.findall(r'<th scope="row"[^>]*>(.*?)</th><td[^>]*>(.*?)</td>', html)
    return {unescape(name): unescape(value) for name, value in rows}


def test_the_address_is_that_of_the_project():
    project = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text("utf-8"))
    assert project["project"]["urls"]["Documentation"] == DOCUMENTATION


@pytest.mark.parametrize("name", NAMES)
def test_a_fitted_estimator_shows_its_page_and_its_facts(name):
    estimator = fitted(name)
    html = estimator._repr_html_()
    assert f'href="{DOCUMENTATION}reference/api/kernlet.{name}.html"' in html
    facts = table(html)
    if name in CONDENSERS:
        assert facts["rows"].startswith("60 before, ")
        assert facts["classes"].startswith("3 (0: ")
    else:
        assert f"{estimator.n_centers_:,}" in facts["centers"]
        assert f"{getattr(estimator, 'nbytes_', estimator.expansion_.nbytes):,}" in facts["bytes"]
    assert facts["features"] == "3"
    assert "nan" not in facts.values()
    assert table(clone(estimator)._repr_html_()) == {}


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("MinimalKernelClassifier", "relative duality gap .*e-.* \\(largest of 3 outputs\\)"),
        ("CoreVectorNovelty", "relative gap to the optimum .*; furthest row .* radii outside"),
        ("KernelFisherDiscriminant", "round-off at most"),
        ("ProximalClassifier", "relative residual of the normal equations"),
    ],
)
def test_certificates_are_named_in_words(name, words):
    assert re.search(words, table(fitted(name)._repr_html_())["certificate"])


def test_a_gap_of_one_is_not_called_a_bound():
    machine = fitted("ProximalClassifier")
    machine.gap_ = 1.0
    certificate = table(machine._repr_html_())["certificate"]
    assert "relative gap to the optimum 1, which is not a bound" in certificate


def test_names_are_escaped():
    X, y = problem()
    names = np.array([HOSTILE, "b", "c"])
    machine = kernlet.ProximalClassifier().fit(X, names[y])
    for shown in (machine, as_model(machine), kernlet.compress(SVC().fit(X, names[y]), 3)):
        html = shown._repr_html_()
        assert HOSTILE not in html
        assert HOSTILE in table(html)["classes"]
    html = kernlet.BoundaryCondenser().fit(X, names[y])._repr_html_()
    assert HOSTILE not in html


def test_long_lists_and_long_labels_are_cut():
    assert count_of_labels(range(10)) == "10 (0, 1, 2, 3, 4, 5, ...)"
    assert count_of_labels(["a" * 31]) == f"1 ({'a' * 30}...)"


def test_there_is_no_table_without_facts():
    assert facts_table([]) == ""


def test_text_displays_stay_text():
    machine = fitted("ProximalClassifier")
    assert table(machine._repr_mimebundle_()["text/html"]) == table(machine._repr_html_())
    with sklearn.config_context(display="text"):
        assert set(machine._repr_mimebundle_()) == {"text/plain"}
        assert not hasattr(machine, "_repr_html_")


def test_pipelines_and_searches_show_the_link():
    X, y = problem()
    pipeline = make_pipeline(StandardScaler(), kernlet.ProximalClassifier()).fit(X, y)
    search = GridSearchCV(pipeline, {"proximalclassifier__C": [1.0, 10.0]}, cv=2).fit(X, y)
    for shown in (pipeline, search):
        assert documentation_page("ProximalClassifier") in shown._repr_html_()


def test_classes_without_a_page_link_to_the_function_that_makes_them(tmp_path):
    X, y = problem()
    small = kernlet.compress(OneClassSVM().fit(X), 3)
    assert documentation_page("compress") in small._repr_html_()
    assert table(small._repr_html_())["centers"].endswith(" 3 after")
    kernlet.save(kernlet.ProximalClassifier().fit(X, y), tmp_path / "m.kernlet")
    loaded = kernlet.load(tmp_path / "m.kernlet")
    assert documentation_page("load") in loaded._repr_html_()
    assert table(loaded._repr_html_())["bytes"] == f"{loaded.nbytes_:,}"


def test_bytes_of_steps_before_a_compressed_machine_are_shown():
    X, y = problem()
    small = kernlet.compress(make_pipeline(StandardScaler(), SVC()).fit(X, y), 3)
    assert small.nbytes_ > small.compression_.bytes_after
    facts = table(small._repr_html_())
    assert facts["bytes stored"] == f"{small.nbytes_:,}, preprocessing included"


def test_subclasses_of_others_have_no_link():
    class Other(kernlet.ProximalClassifier):
        pass

    assert Other()._get_doc_link() == ""


def test_a_model_shows_what_it_is_made_of():
    X, y = problem()
    facts = table(as_model(SVC().fit(X, y))._repr_html_())
    assert facts["model"] == "classifier"
    assert facts["kernel"].startswith("rbf")


def test_importing_the_package_does_not_import_scikit_learn():
    code = "import sys, kernlet; print('sklearn' in sys.modules, 'kernlet.notebook' in sys.modules)"
    command = [sys.executable, "-c", code]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert said == "False False\n"
