"""Every block of Python in the README and the documentation runs, and so does every example."""

import pkgutil
import re
import runpy
import warnings
from pathlib import Path

import pytest
import yaml

import kernlet
from papers.reproduce import PAPERS

ROOT = Path(__file__).parents[1]
PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").glob("*.md")])
BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)


@pytest.mark.slow
@pytest.mark.parametrize(
    "page", [p for p in PAGES if BLOCK.search(p.read_text("utf-8"))], ids=lambda p: p.name
)
def test_blocks_of_a_page_run_one_after_the_other(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    if "sklearn.callback" in page.read_text("utf-8"):
        pytest.importorskip("sklearn.callback", reason="scikit-learn before 1.9 has no callbacks")
    names: dict[str, object] = {}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for block in BLOCK.findall(page.read_text("utf-8")):
            exec(compile(block, str(page.name), "exec"), names)
    assert names


@pytest.mark.slow
@pytest.mark.parametrize("example", sorted((ROOT / "examples").glob("*.py")), ids=lambda p: p.name)
def test_examples_run(example, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        # matplotlib 3.9 with a newer pyparsing
        warnings.filterwarnings(
            "ignore", category=DeprecationWarning, module="matplotlib|pyparsing"
        )
        runpy.run_path(str(example), run_name="__main__")
    assert capsys.readouterr().out


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_names_of_a_page_exist(page):
    for name in re.findall(r"\b(?:kernlet|papers)(?:\.[A-Za-z_]\w*)+", page.read_text("utf-8")):
        assert pkgutil.resolve_name(name) is not None


def test_the_reference_has_all_public_names():
    listed = re.findall(r"^::: (\S+)", (ROOT / "docs" / "api.md").read_text("utf-8"), re.MULTILINE)
    assert len(listed) == len(set(listed))
    assert {f"kernlet.{name}" for name in kernlet.__all__ if name != "__version__"} <= set(listed)


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_included_results_are_there(page):
    for name in re.findall(r'--8<-- "(results/[^"]+)"', page.read_text("utf-8")):
        assert (ROOT / "docs" / name).exists()


def test_the_table_in_the_readme_is_the_one_that_was_measured():
    measured = (ROOT / "docs" / "results" / "demo.md").read_text("utf-8")
    assert measured in (ROOT / "README.md").read_text("utf-8")


def test_the_five_papers_are_cited_alike():
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text("utf-8"))
    page = (ROOT / "docs" / "references.md").read_text("utf-8").replace("{SVM}", "SVM")
    entries = dict(re.findall(r"^@\w+\{(\w+),\n  title +=(.*?)^\}", page, re.MULTILINE | re.DOTALL))
    assert set(entries) == {"kernlet", *PAPERS}
    for paper in citation["references"]:
        (entry,) = [text for text in entries.values() if f"{{{paper['title']}}}" in text]
        assert f"{{{paper['year']}}}" in entry
        assert len(paper["authors"]) == 1 + entry.count(" and ")
