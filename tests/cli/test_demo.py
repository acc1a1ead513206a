import pytest
from click.testing import CliRunner

from kernlet.cli import main


@pytest.mark.slow
def test_demo_prints_a_table_and_writes_two_pictures(tmp_path, monkeypatch):
    """With one setting for each grid: the choice of parameters has a test of its own."""
    monkeypatch.setattr("kernlet.cli.demo.BOARD_GRID", {"C": [100], "gamma": [4]})
    monkeypatch.setattr("kernlet.cli.demo.DIGITS_GRID", {"C": [3], "gamma": [0.08]})
    folder = tmp_path / "new" / "demo"
    result = CliRunner().invoke(main, ["demo", "--folder", str(folder)], catch_exceptions=False)
    assert result.exit_code == 0
    for name in ("SVC", "L1KernelClassifier", "MinimalKernelClassifier"):
        assert result.output.count(f"| {name} |") == 2
    assert sorted(p.name for p in folder.iterdir()) == [
        "checkerboard.png",
        "digits.png",
        "table.md",
    ]
    assert (folder / "checkerboard.png").read_bytes().startswith(b"\x89PNG")
