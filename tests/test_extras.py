"""A core install: nothing of an extra is imported, and a missing one gets one sentence."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from sklearn.datasets import load_iris

from kernlet import CompactKernelClassifier, L1KernelClassifier, TypicalCondenser, save
from kernlet.compact.path import CompactPathDisplay
from kernlet.condense.base import DeletedImagesDisplay
from kernlet.rows import open_rows

OPTIONAL = {"dask", "matplotlib", "onnx", "pandas", "polars", "pyarrow", "rich", "torch"}
OPTIONAL |= {"unicorn"}

# None in sys.modules would do, but scikit-learn and array-api-compat look for packages there.
BLOCK = f"""
import sys

class Missing:
    @staticmethod
    def find_spec(name, path=None, target=None):
        if name.partition(".")[0] in {OPTIONAL!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Missing)
"""

CORE = """
import warnings
warnings.simplefilter("ignore")
from sklearn.datasets import load_iris
from sklearn.svm import SVC, SVR
import kernlet

X, y = load_iris(return_X_y=True)
names = [name for name in kernlet.__all__ if hasattr(getattr(kernlet, name), "fit")]
for name in names:
    estimator = getattr(kernlet, name)
    original = {"CompressedClassifier": SVC(), "CompressedRegressor": SVR()}.get(name)
    estimator = estimator() if original is None else estimator(original, 5)
    if "n_epochs" in estimator.get_params():
        estimator.set_params(n_epochs=2, n_centers=5)
    estimator.fit(X, y)
    if not hasattr(estimator, "fit_resample"):
        kernlet.save(estimator, sys.argv[1] + "/a.kernlet")
        kernlet.load(sys.argv[1] + "/a.kernlet")
        kernlet.to_c(estimator, sys.argv[1] + "/c")
print(len(names), kernlet.compress(SVC().fit(X, y), 10, X, y).score(X, y) > 0.9)
"""


def run(code, *arguments):
    """Run code in a process in which no package of an extra can be imported."""
    command = [sys.executable, "-c", BLOCK + code, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.slow
def test_every_estimator_works_without_extras(tmp_path):
    n_estimators, is_accurate = run(CORE, tmp_path).split()
    assert int(n_estimators) >= 14
    assert is_accurate == "True"


COMMANDS = """
from click.testing import CliRunner
from kernlet.cli import main
for arguments in [
    ["fit", "--target", "y", "-o", "a.kernlet"],
    ["predict", sys.argv[1]],
    ["compress", sys.argv[1], "-o", "a.kernlet"],
    ["export", "--to", "c", "--table", sys.argv[1], "-o", "folder"],
    ["report", sys.argv[1]],
]:
    arguments.insert(1, sys.argv[1])
    result = CliRunner().invoke(main, arguments)
    print(result.exit_code, result.output, end="")
for command in main.commands:
    assert CliRunner().invoke(main, [command, "--help"]).exit_code == 0
print(CliRunner().invoke(main, ["demo"]).output, end="")
"""


def test_commands_name_the_extra_and_help_needs_none(tmp_path):
    file = tmp_path / "a.csv"
    file.write_text("x,y\n1,a\n2,b\n")
    sentence = 'which is not installed: pip install "kernlet[cli]".'
    *lines, demo, _ = run(COMMANDS, file).split("\n")
    for name, line in zip(["fit", "predict", "compress", "export", "report"], lines, strict=True):
        assert line == f"1 Error: kernlet {name} needs pyarrow, {sentence}"
    assert demo == f"Error: kernlet demo needs matplotlib, {sentence}"


WITHOUT_TABLE = """
from click.testing import CliRunner
from kernlet.cli import main
folder = sys.argv[1]
for arguments in [
    ["--version"],
    ["compress", folder + "/a.kernlet", "--centers", "3", "-o", folder + "/b.kernlet"],
    ["export", folder + "/b.kernlet", "--to", "c", "-o", folder + "/c"],
]:
    result = CliRunner().invoke(main, arguments)
    assert result.exit_code == 0, result.output
"""


def test_commands_without_a_table_need_no_extra(tmp_path):
    X, y = load_iris(return_X_y=True)
    save(L1KernelClassifier().fit(X, y), tmp_path / "a.kernlet")
    run(WITHOUT_TABLE, tmp_path)
    assert (tmp_path / "c" / "b.c").exists()


def test_parquet_rows_name_the_extra(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    (tmp_path / "a.parquet").touch()
    with pytest.raises(ImportError, match=r'needs pyarrow.*pip install "kernlet\[parquet\]"'):
        open_rows(tmp_path / "a.parquet")


def test_plots_name_the_extra(monkeypatch):
    X, y = load_iris(return_X_y=True)
    machine = CompactKernelClassifier("auto", n_epochs=2, random_state=0).fit(X, y)
    condenser = TypicalCondenser().fit(X, y)
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    sentence = r'\.plot needs matplotlib.*pip install "kernlet\[plot\]"'
    with pytest.raises(ImportError, match=f"^CompactPathDisplay{sentence}"):
        CompactPathDisplay.from_estimator(machine)
    with pytest.raises(ImportError, match=f"^DeletedImagesDisplay{sentence}"):
        DeletedImagesDisplay.from_estimator(condenser, X, image_shape=(2, 2))


def test_the_report_names_the_extra():
    code = "try:\n    import kernlet.report.page\nexcept ImportError as error:\n    print(error)"
    assert run(code).endswith('pip install "kernlet[cli]".\n')


def test_extras_and_dependencies_are_those_of_the_page():
    root = Path(__file__).parents[1]
    project = tomllib.loads((root / "pyproject.toml").read_text("utf-8"))["project"]
    page = (root / "docs" / "reference" / "dependencies.md").read_text("utf-8")
    core, extras = page.split("| extra |")
    assert set(re.findall(r"^\| `(\w+)`", extras, re.MULTILINE)) == set(
        project["optional-dependencies"]
    )
    names = " ".join(re.findall(r"^\| ([a-z][^|]*) \|", core, re.MULTILINE)).replace(",", "")
    for requirement in project["dependencies"]:
        assert requirement.partition(">=")[0] in names.split()
    pages = "".join(file.read_text("utf-8") for file in (root / "docs").rglob("*.md"))
    assert set(re.findall(r"kernlet\[(\w+)\]", pages)) <= set(project["optional-dependencies"])
