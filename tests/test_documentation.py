"""Every block of Python in the README and the documentation runs, page by page."""

import re
import warnings
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").glob("*.md")])
BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)


@pytest.mark.slow
@pytest.mark.parametrize(
    "page", [p for p in PAGES if BLOCK.search(p.read_text("utf-8"))], ids=lambda p: p.name
)
def test_blocks_of_a_page_run_one_after_the_other(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for block in BLOCK.findall(page.read_text("utf-8")):
            exec(compile(block, str(page.name), "exec"), names)
    assert names


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_included_results_are_there(page):
    for name in re.findall(r'--8<-- "(results/[^"]+)"', page.read_text("utf-8")):
        assert (ROOT / "docs" / name).exists()


def test_the_table_in_the_readme_is_the_one_that_was_measured():
    measured = (ROOT / "docs" / "results" / "demo.md").read_text("utf-8")
    assert measured in (ROOT / "README.md").read_text("utf-8")
