"""What a release says of itself: version, changelog, citation, recipe, README and distributions."""

import datetime
import re
import tomllib
from pathlib import Path

import jinja2
import pytest
import yaml

import kernlet
from benchmarks import results
from benchmarks.frontier import summary

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
REPOSITORY, SITE = PROJECT["urls"]["Source"], PROJECT["urls"]["Documentation"]
PYTHONS = [
    name.rpartition(" ")[2]
    for name in PROJECT["classifiers"]
    if re.fullmatch(r"Programming Language :: Python :: 3\.\d+", name)
]


def workflow(name):
    text = (ROOT / ".github" / "workflows" / name).read_text("utf-8")
    return yaml.load(text, Loader=yaml.BaseLoader)


def steps(name):
    return [step for job in workflow(name)["jobs"].values() for step in job["steps"]]


def make_targets(text):
    return re.findall(r"(?<![\w-])make ([a-z][a-z-]*)", text)


@pytest.fixture(scope="module")
def citation():
    return yaml.safe_load((ROOT / "CITATION.cff").read_text("utf-8"))


@pytest.fixture(scope="module")
def recipe():
    text = (ROOT / "recipe" / "meta.yaml").read_text("utf-8")
    environment = jinja2.Environment(undefined=jinja2.StrictUndefined)
    return yaml.safe_load(environment.from_string(text).render(PYTHON="python"))


def test_the_newest_entry_of_the_changelog_is_this_version(citation):
    text = (ROOT / "CHANGELOG.md").read_text("utf-8")
    entries = re.findall(r"^## (.*)$", text, re.MULTILINE)
    assert entries[0] == "[Unreleased]"
    released = dict(re.fullmatch(r"\[(.+)\] - (\d{4}-\d\d-\d\d)", e).groups() for e in entries[1:])
    version, date = next(iter(released.items()))
    assert kernlet.__version__ == version == citation["version"]
    assert str(citation["date-released"]) == datetime.date.fromisoformat(date).isoformat()
    for version in ("Unreleased", *released):
        assert f"\n[{version}]: {REPOSITORY}/" in text
    kinds = {"Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"}
    assert set(re.findall(r"^### (.*)$", text, re.MULTILINE)) <= kinds


def test_the_citation_names_the_addresses_of_the_project(citation):
    assert citation["url"] == SITE
    assert citation["repository-code"] == REPOSITORY
    assert citation["license"] == PROJECT["license"]


def test_the_recipe_has_the_requirements_of_the_project(recipe):
    run = [item.replace(" ", "") for item in recipe["requirements"]["run"]]
    python = f"python{PROJECT['requires-python']}"
    assert run == [python, *PROJECT["dependencies"]]
    build = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["build-system"]
    host = [item.replace(" ", "") for item in recipe["requirements"]["host"]]
    assert host == [python.replace(">=", ""), "pip", *build["requires"]]
    assert recipe["build"]["entry_points"] == [
        f"{name} = {target}" for name, target in PROJECT["scripts"].items()
    ]


def test_the_recipe_has_what_the_lint_of_conda_forge_asks_for(recipe):
    assert list(recipe) == ["package", "source", "build", "requirements", "test", "about", "extra"]
    assert recipe["package"] == {"name": PROJECT["name"], "version": kernlet.__version__}
    assert recipe["source"]["url"].endswith(f"/kernlet-{kernlet.__version__}.tar.gz")
    assert re.fullmatch("[0-9a-f]{64}", str(recipe["source"]["sha256"]).zfill(64))
    assert (recipe["build"]["noarch"], recipe["build"]["number"]) == ("python", 0)
    assert {"imports", "commands", "requires"} == set(recipe["test"])
    assert "pip check" in recipe["test"]["commands"]
    about = recipe["about"]
    assert about["license"] == PROJECT["license"]
    assert (ROOT / about["license_file"]).is_file()
    assert about["summary"] == PROJECT["description"]
    assert (about["home"], about["doc_url"]) == (REPOSITORY, SITE)
    assert recipe["extra"]["recipe-maintainers"]


def test_the_readme_is_short_and_stands_alone():
    text = (ROOT / "README.md").read_text("utf-8")
    assert len(text.splitlines()) <= 80
    assert len(re.findall(r"^\|[-:| ]+\|$", text, re.MULTILINE)) == 1
    for address in re.findall(r"\]\(([^)]*)\)", text):
        assert address.startswith("https://"), f"{address} is not found from the package index"
        prefix, _, path = address.partition("/main/")
        if prefix == f"{REPOSITORY}/blob" or (prefix and (ROOT / "docs" / "images").exists()):
            assert (ROOT / path).exists()


def numbers(text):
    return [float(number) for number in re.findall(r"[\d.]+", text.replace(",", ""))]


@pytest.mark.slow
def test_the_readme_shows_what_its_code_prints(capsys):
    """Up to two points of accuracy; the search may choose other bytes with other versions."""
    text = (ROOT / "README.md").read_text("utf-8")
    (block,) = re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    shown = [line.split("  # ")[1] for line in block.splitlines() if line.startswith("print(")]
    exec(compile(block, "README.md", "exec"), {})
    for ours, theirs in zip(shown, capsys.readouterr().out.splitlines(), strict=True):
        assert re.sub(r"[\d.,]+", "", ours) == re.sub(r"[\d.,]+", "", theirs)
        assert numbers(ours)[0] == pytest.approx(numbers(theirs)[0], abs=2)
    budget = int(re.search(r"max_bytes=(\d+)", block)[1])
    assert max(numbers(ours)[1], numbers(theirs)[1]) <= budget


def test_the_readme_has_the_table_that_was_measured():
    document, _ = results.read_frontier()
    assert results.frontier_table(document) in (ROOT / "README.md").read_text("utf-8")


def test_the_paper_cites_its_references_and_the_stored_results():
    text = (ROOT / "paper" / "paper.md").read_text("utf-8").split("---\n", 2)[2]
    assert 750 <= len(text.split()) <= 1200
    entries = re.findall(
        r"^@\w+\{(\w+),", (ROOT / "paper" / "paper.bib").read_text("utf-8"), re.MULTILINE
    )
    assert set(re.findall(r"@(\w+)", text)) == set(entries)
    text = " ".join(text.split())
    document, _ = results.read_frontier()
    best = list(summary.best_comparisons(document))
    ahead, tied, behind = (sum(c.verdict == v for c in best) for v in summary.VERDICTS)
    assert f"standard error {ahead} times, tied {tied} times and behind {behind} times" in text
    headline = (ROOT / "docs" / "results" / "reproduce" / "summary.md").read_text("utf-8")
    cells = re.search(r"the paper's method: accuracy \| (\d+) \| (\d+) \| .* of (\d+) \|", headline)
    beaten, met, total = map(int, cells.groups())
    assert f"Of {total} accuracies" in text
    assert f"{beaten + met} are met" in text


def test_workflows_run_make_targets_that_exist():
    phony = (ROOT / "Makefile").read_text("utf-8").replace("\\\n", " ")
    known = set(re.search(r"^\.PHONY: (.*)$", phony, re.MULTILINE)[1].split())
    for name in ("ci.yml", "release.yml"):
        for step in steps(name):
            if "run" in step:
                assert set(make_targets(step["run"])) <= known
                assert step["run"].startswith("make "), step["run"]
    for page in ("CONTRIBUTING.md", ".github/PULL_REQUEST_TEMPLATE.md", ".ci/run"):
        code = re.findall(
            r"^(?:    )?make .*$|`make [^`]*`", (ROOT / page).read_text("utf-8"), re.M
        )
        assert code
        assert set(make_targets("\n".join(code))) <= known


def test_workflows_test_the_pythons_that_the_classifiers_name():
    jobs = workflow("ci.yml")["jobs"]
    assert jobs["test"]["strategy"]["matrix"]["python"] == PYTHONS
    assert PROJECT["requires-python"] == f">={PYTHONS[0]}"


def test_workflows_have_least_permissions_and_pinned_actions():
    for name in ("ci.yml", "release.yml"):
        assert workflow(name)["permissions"] == {"contents": "read"}
        for step in steps(name):
            assert "secrets." not in str(step)
            if "uses" in step:
                assert re.search(r"@(v\d+|release/v\d+)$", step["uses"])
