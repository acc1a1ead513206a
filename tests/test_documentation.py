"""Every cell in the README and the documentation runs, and so does every example."""

import os
import pkgutil
import re
import runpy
import subprocess
import sys
import warnings
from pathlib import Path

import matplotlib.pyplot as plt
import pytest
import yaml

import kernlet
from papers.reproduce import PAPERS

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
EXAMPLES = sorted((ROOT / "examples").glob("*/plot_*.py"))
GENERATED = ("results", "gallery", "api")
PAGES = sorted(
    [
        ROOT / "README.md",
        *(p for p in DOCS.rglob("*.md") if not set(p.relative_to(DOCS).parts) & set(GENERATED)),
    ]
)
CELL = re.compile(
    r"^```(?:python|\{code-cell\} python)\n(?::[^\n]*\n)*(.*?)^```", re.MULTILINE | re.DOTALL
)
NAME = re.compile(r"(?<!/)\b(?:kernlet|papers)(?!\.md\b)(?:\.[A-Za-z_]\w*)+")
TEST_OF_PAGE = pytest.mark.parametrize("page", PAGES, ids=lambda p: p.relative_to(ROOT).as_posix())


def run_command(command):
    """What a notebook does with a line that starts with an exclamation mark."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    done = subprocess.run(
        command, shell=True, env={**os.environ, "PATH": path}, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr


def python_of(cell):
    """A cell with its commands as calls of :func:`run_command`."""
    if cell.startswith("%%bash\n"):
        return f"run_command({cell.partition(chr(10))[2]!r})"
    return re.sub(
        r"^!(.*(?:\\\n.*)*)$", lambda m: f"run_command({m[1]!r})", cell, flags=re.MULTILINE
    )


@pytest.mark.slow
@TEST_OF_PAGE
def test_cells_of_a_page_run_one_after_the_other(page, tmp_path, monkeypatch):
    cells = CELL.findall(page.read_text("utf-8"))
    if not cells:
        pytest.skip("no Python on this page")
    monkeypatch.chdir(tmp_path)
    if "sklearn.callback" in page.read_text("utf-8"):
        pytest.importorskip("sklearn.callback", reason="scikit-learn before 1.9 has no callbacks")
    names: dict[str, object] = {
        "__name__": "__main__",
        "run_command": run_command,
        "display": lambda *values: None,
    }
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        # matplotlib 3.9 with a newer pyparsing
        warnings.filterwarnings(
            "ignore", category=DeprecationWarning, module="matplotlib|pyparsing"
        )
        for cell in cells:
            exec(compile(python_of(cell), str(page.name), "exec"), names)
    plt.close("all")


@pytest.mark.slow
@pytest.mark.parametrize("example", EXAMPLES, ids=lambda p: p.stem)
def test_examples_run(example, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MPLBACKEND", "Agg")
    plt = pytest.importorskip("matplotlib.pyplot")
    plt.switch_backend("Agg")
    plt.close("all")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        # matplotlib 3.9 with a newer pyparsing
        warnings.filterwarnings(
            "ignore", category=DeprecationWarning, module="matplotlib|pyparsing"
        )
        # plt.show() without a window: sphinx-gallery collects the figures instead
        warnings.filterwarnings("ignore", message="FigureCanvasAgg is non-interactive")
        try:
            runpy.run_path(str(example), run_name="__main__")
            n_figures = len(plt.get_fignums())
        finally:
            plt.close("all")
    assert n_figures
    assert capsys.readouterr().out
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda p: p.stem)
def test_examples_are_pages_of_the_gallery(example):
    text = example.read_text("utf-8")
    title, underline = text.splitlines()[1:3]
    assert underline == "=" * len(title)
    assert text.count("\n# %%\n") >= 2
    assert (example.parent / "README.txt").exists()


def test_the_gallery_has_examples():
    assert len(EXAMPLES) >= 15
    assert sorted((ROOT / "examples").rglob("*.py")) == EXAMPLES


@TEST_OF_PAGE
def test_names_of_a_page_exist(page):
    for name in re.findall(NAME, page.read_text("utf-8")):
        assert pkgutil.resolve_name(name) is not None


def test_the_reference_has_all_public_names():
    page = (DOCS / "reference" / "api.md").read_text("utf-8")
    listed = re.findall(r"^   ([A-Za-z]\S*)$", page, re.MULTILINE)
    assert len(listed) == len(set(listed))
    assert {name for name in kernlet.__all__ if name != "__version__"} <= set(listed)


def test_the_five_papers_are_cited_alike():
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text("utf-8"))
    page = (DOCS / "references.bib").read_text("utf-8").replace("{SVM}", "SVM")
    entries = dict(re.findall(r"^@\w+\{(\w+),\n  title +=(.*?)^\}", page, re.MULTILINE | re.DOTALL))
    assert {"kernlet", *PAPERS} <= set(entries)
    for paper in citation["references"]:
        (entry,) = [text for text in entries.values() if f"{{{paper['title']}}}" in text]
        assert f"{{{paper['year']}}}" in entry
        assert len(paper["authors"]) == 1 + entry.count(" and ")


def test_the_messages_in_the_error_list_are_in_the_source():
    """Each message of the list, its parts between dots, is a literal somewhere in the package."""
    page = (DOCS / "reference" / "errors.md").read_text("utf-8").partition("\n## Rows\n")[2]
    messages = re.findall(r"^\| `([^`]+)` \|", page, re.MULTILINE)
    assert len(messages) > 50
    source = "".join(
        re.sub(r'["\']\s*f?["\']', "", path.read_text("utf-8"))
        for path in (ROOT / "src" / "kernlet").rglob("*.py")
    )
    missing = [
        part.strip()
        for message in messages
        for part in message.split("...")
        if part.strip() not in source
    ]
    assert missing == []
