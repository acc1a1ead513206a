"""What a reader of kernlet opens: ``make walk``, or ``python benchmarks/walk.py``.

Tiny fits and commands are traced with `sys.setprofile`; for each the table has the files of kernlet
in which a function was called, their lines, the functions, and the deepest stack inside kernlet.
Then follow files and lines per folder, the share of comment lines, and the modules that only one
other module imports.
"""

from __future__ import annotations

import ast
import io
import sys
import tempfile
import tokenize
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import numpy as np
from sklearn.datasets import make_moons
from sklearn.svm import SVC

import kernlet

PACKAGE = Path(kernlet.__file__).parent


class Walk:
    """Records the functions of kernlet that run inside a ``with`` block."""

    def __init__(self) -> None:
        self.codes: set[CodeType] = set()
        self.depth = 0

    def __enter__(self) -> Walk:
        sys.setprofile(self._on_event)
        return self

    def __exit__(self, *_: object) -> None:
        sys.setprofile(None)

    def _on_event(self, frame: FrameType, event: str, _: Any) -> None:
        if event == "call" and _is_ours(frame.f_code):
            self.codes.add(frame.f_code)
            self.depth = max(self.depth, _depth(frame))

    @property
    def files(self) -> list[Path]:
        """Files with a function that was called."""
        return sorted({Path(code.co_filename) for code in self.codes})

    def row(self) -> list[int]:
        """Files, their lines, functions (with comprehensions and lambdas) and depth."""
        functions = {(code.co_filename, code.co_qualname) for code in self.codes}
        return [len(self.files), sum(map(_count_lines, self.files)), len(functions), self.depth]


def _is_ours(code: CodeType) -> bool:
    path = code.co_filename
    # Not the compiled templates, nor the lazy imports of kernlet/__init__.py.
    is_read = path.endswith(".py") and path != kernlet.__file__ and code.co_name != "<module>"
    return is_read and path.startswith(f"{PACKAGE}/")


def _depth(frame: FrameType | None) -> int:
    depth = 0
    while frame is not None:
        depth += _is_ours(frame.f_code)
        frame = frame.f_back
    return depth


def _count_lines(path: Path) -> int:
    return len(path.read_text(encoding="utf-8").splitlines())


def _calls(folder: Path) -> Iterator[tuple[str, Callable[[], Any]]]:
    """What is traced, each on a few rows."""
    X, y = make_moons(150, noise=0.2, random_state=0)
    many_X, many_y = make_moons(6000, noise=0.2, random_state=0)
    svc = SVC().fit(X, y)
    table, model = folder / "data.csv", folder / "model.kernlet"
    np.savetxt(table, np.column_stack([X, y]), delimiter=",", header="a,b,label", comments="")

    def command(*words: Any) -> Callable[[], Any]:
        return lambda: kernlet_command(*map(str, words))

    def fit(name: str, *parameters: Any, rows: tuple[Any, Any] = (X, y), **others: Any) -> Any:
        return lambda: getattr(kernlet, name)(*parameters, **others).fit(*rows)

    minimal = "MinimalKernelClassifier"
    yield "MinimalKernelClassifier.fit, 150 rows", fit(minimal)
    streamed = fit(minimal, rows=(many_X, many_y), candidates=50, random_state=0)
    yield "the same, 6,000 rows and 50 candidates (streaming)", streamed
    yield "HullPerceptronClassifier.fit", fit("HullPerceptronClassifier")
    yield "CoreVectorClassifier.fit", fit("CoreVectorClassifier")
    yield "CoreVectorNovelty.fit", fit("CoreVectorNovelty")
    yield "ProximalClassifier.fit", fit("ProximalClassifier")
    yield "CompactKernelClassifier(5).fit", fit("CompactKernelClassifier", 5)
    yield "CompactNoveltyDetector(5).fit", fit("CompactNoveltyDetector", 5)
    yield "MMDA.fit", fit("MMDA")
    yield "compress(svc, 5, X, y)", lambda: kernlet.compress(svc, 5, X, y)
    yield (
        "kernlet fit data.csv --centers 5",
        command("fit", table, "--target", "label", "--centers", 5, "-o", model),
    )
    yield "kernlet predict", command("predict", model, table, "-o", folder / "labels.csv")
    yield "kernlet export --to c", command("export", model, "--to", "c", "-o", folder / "c")
    yield (
        "kernlet compress",
        command("compress", model, table, "--centers", 3, "-o", folder / "small.kernlet"),
    )


def kernlet_command(*words: str) -> None:
    """Run a command of the command line, without its output."""
    from kernlet.cli import main

    with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
        main(list(words), standalone_mode=False)


def print_walks() -> None:
    """Files, lines, functions and depth of each call."""
    print("| call | files | lines | functions | depth |\n|---|--:|--:|--:|--:|")
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name, call in _calls(Path(folder)):
            call()  # imports are done once this has run, and are not part of the walk
            with Walk() as walk:
                call()
            print(f"| {name} |", " | ".join(f"{n:,}" for n in walk.row()), "|", flush=True)
            if "--files" in sys.argv:
                print("\n".join(f"    {path.relative_to(PACKAGE)}" for path in walk.files))


def print_sizes() -> None:
    """Files, lines and comment lines of each folder."""
    print("\n| folder | files | lines | comment lines | % |\n|---|--:|--:|--:|--:|")
    sizes: dict[str, list[int]] = defaultdict(lambda: [0, 0, 0])
    for path in PACKAGE.rglob("*.py"):
        name = path.relative_to(PACKAGE).parts[0]
        counts = 1, _count_lines(path), _count_comments(path)
        for folder in (name if path.parent != PACKAGE else "(top)", "all"):
            sizes[folder] = [a + b for a, b in zip(sizes[folder], counts, strict=True)]
    for folder, (files, lines, comments) in sorted(sizes.items()):
        print(f"| {folder} | {files} | {lines:,} | {comments} | {100 * comments / lines:.1f} |")


def _count_comments(path: Path) -> int:
    """Lines that are a comment and nothing else."""
    with path.open("rb") as file:
        tokens = tokenize.tokenize(file.readline)
        return sum(
            token.type == tokenize.COMMENT and token.line.lstrip().startswith("#")
            for token in tokens
        )


def single_importers() -> dict[str, str]:
    """Modules that exactly one other module imports, each with that module."""
    modules = {_module_name(path): path for path in PACKAGE.rglob("*.py")}
    importers: dict[str, set[str]] = defaultdict(set)
    for name, path in modules.items():
        for imported in _imported(path, set(modules)):
            importers[imported].add(name)
    return {
        name: next(iter(importers[name]))
        for name, path in sorted(modules.items())
        if path.name != "__init__.py" and len(importers[name]) == 1
    }


def _module_name(path: Path) -> str:
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _imported(path: Path, modules: set[str]) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names = {f"{node.module}.{alias.name}" for alias in node.names} & modules
            found |= names or {node.module}
    return found & modules


def main() -> None:
    """Print everything."""
    print_walks()
    print_sizes()
    singles = single_importers()
    public = {name for name, importer in singles.items() if name.startswith(f"{importer}.")}
    print(
        f"\n{len(singles)} modules with one importing module, {len(public)} of them public names "
        "or commands that only their package imports:"
    )
    for name, importer in singles.items():
        print(f"    {name} <- {importer}")


if __name__ == "__main__":
    main()
