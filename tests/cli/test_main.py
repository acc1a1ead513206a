import subprocess
import sys

from click.testing import CliRunner

import kernlet
from kernlet.cli import main


def test_help_and_version():
    runner = CliRunner()
    assert "demo" in runner.invoke(main, ["--help"]).output
    assert kernlet.__version__ in runner.invoke(main, ["--version"]).output


def test_help_does_not_import_scikit_learn():
    code = "import sys, kernlet.cli; sys.exit('sklearn' in sys.modules or 'numpy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_an_unknown_command_says_so():
    result = CliRunner().invoke(main, ["dmeo"])
    assert result.exit_code == 2
    assert "No such command" in result.output
