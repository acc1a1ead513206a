"""The figures in the documentation are those that the command made."""

import json
from pathlib import Path

import pytest

from papers.reproduce import PAPERS
from papers.tables import read_tables, summarize, table_markdown

FOLDER = Path(__file__).parents[2] / "docs" / "results" / "reproduce"
TABLES = [f"{name}-{number}" for name, paper in PAPERS.items() for number in paper.TABLES]


@pytest.mark.parametrize("name", TABLES)
def test_every_page_is_made_of_its_json(name):
    facts = json.loads((FOLDER / f"{name}.json").read_text("utf-8"))
    assert not facts["quick"]
    assert (FOLDER / f"{name}.md").read_text("utf-8") == table_markdown(facts)
    assert all((FOLDER / picture).exists() for picture in facts["pictures"])


@pytest.mark.parametrize("name", TABLES)
def test_every_figure_that_is_not_met_has_a_reason(name):
    facts = json.loads((FOLDER / f"{name}.json").read_text("utf-8"))
    assert all(figure["why"] for figure in facts["figures"] if figure["verdict"] == "not met")


def test_the_summary_is_made_of_the_json_files():
    assert (FOLDER / "summary.md").read_text("utf-8") == summarize(read_tables(FOLDER))
