"""What a new user does first, with nothing installed but kernlet: see ``make smoke``.

``python smoke.py core`` needs the core dependencies, ``python smoke.py commands`` the extra cli.
"""

import importlib.metadata
import os
import subprocess
import sys
import tempfile
from pathlib import Path


def core() -> None:
    """Import, fit, compress, save, load, export."""
    import kernlet

    assert kernlet.__version__ == importlib.metadata.version("kernlet")
    assert "site-packages" in kernlet.__file__
    for name in kernlet.__all__:
        getattr(kernlet, name)

    from sklearn.datasets import load_iris
    from sklearn.svm import SVC

    X, y = load_iris(return_X_y=True)
    machine = kernlet.CompactKernelClassifier(max_bytes=256, random_state=0).fit(X, y)
    assert machine.nbytes_ <= 256
    assert machine.score(X, y) > 0.9
    kernlet.save(machine, "iris.kernlet")
    assert (kernlet.load("iris.kernlet").predict(X) == machine.predict(X)).all()
    kernlet.to_c(machine, "iris_c")
    assert list(Path("iris_c").glob("*.c"))
    small = kernlet.compress(SVC().fit(X, y), n_centers=6, X=X, y=y)
    assert small.score(X, y) > 0.9


def commands() -> None:
    """From a table to predictions, C and a report."""
    rows = ["width,height,kind,species"]
    for i in range(120):
        width, height = (i * 37 % 101) / 10, (i * 53 % 97) / 10
        species = "large" if width * height > 20 else "small"
        rows.append(f"{width},{height},{'ab'[i % 2]},{species}")
    Path("train.csv").write_text("\n".join(rows) + "\n", encoding="utf-8")
    for command in (
        "--version",
        "fit train.csv --target species --bytes 512 --effort quick -o model.kernlet",
        "predict model.kernlet train.csv -o predicted.csv",
        "export model.kernlet --to c -o model_c",
        "report model.kernlet train.csv -o report.html",
    ):
        arguments = [sys.executable, "-m", "kernlet", *command.split()]
        done = subprocess.run(arguments, capture_output=True, text=True, encoding="utf-8")
        assert done.returncode == 0, f"kernlet {command}\n{done.stdout}{done.stderr}"
    script = Path(sys.executable).with_name("kernlet.exe" if os.name == "nt" else "kernlet")
    subprocess.run([script, "--help"], check=True, stdout=subprocess.DEVNULL)
    assert len(Path("predicted.csv").read_text("utf-8").splitlines()) == len(rows)
    assert list(Path("model_c").glob("*.c"))
    assert "<html" in Path("report.html").read_text("utf-8")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        {"core": core, "commands": commands}[sys.argv[1]]()
        os.chdir(Path(folder).parent)
    print(f"Python {sys.version.split()[0]}: {sys.argv[1]} works")
