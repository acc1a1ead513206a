"""What the commands share: models from files, and progress of a fit."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.metrics import get_scorer_names

from kernlet.console import say
from kernlet.export.file import load
from kernlet.model.model import Model, as_model
from kernlet.npy import check_arrays
from kernlet.progress import ProgressBar

_SECONDS_BETWEEN_LINES = 5.0


def read_model(path: Path, *, predicts: bool = True) -> Model:
    """The portable model in any file that holds a machine, by default one that predicts."""
    # by content and not by name: names of model files follow no convention
    with path.open("rb") as file:
        start = file.read(8)
    if start.startswith(b"PK\x03\x04"):  # skops files are ZIP archives
        model = _skops_model(path)
    else:
        model = as_model(path if start in (b"svm_type", b"kernel_t") else load(path))
    if model.kind == "expansion":
        raise ValueError(f"{path} holds an expansion without classes, not a classifier.")
    if predicts and model.kind == "transformer":
        raise ValueError(
            f"{path} holds {model.summary.get('estimator') or 'a transformer'}, which computes "
            "features and predicts nothing: use kernlet.load and transform in Python, or kernlet "
            "export."
        )
    return model


def _skops_model(path: Path) -> Model:
    """The model of a skops file; types that could run code are refused."""
    try:
        from skops import io
    except ImportError:
        raise ImportError(
            f"{path} needs skops, which is not installed: pip install skops."
        ) from None
    try:
        check_arrays(path)
        unknown = io.get_untrusted_types(file=path)
        loaded = None if unknown else io.load(path, trusted=[])
    except MemoryError:
        raise
    except Exception as error:  # skops does not define exceptions for corrupt files
        reason = str(error)[:200].rstrip(".") or type(error).__name__  # some quote the file
        raise ValueError(f"{path} is corrupt, or not a skops file ({reason}).") from None
    if unknown:
        raise ValueError(
            f"{path} holds types that are not trusted: {', '.join(sorted(unknown)[:5])}. Inspect "
            "and load it in Python, and save it with kernlet.save."
        )
    try:
        return _checked(as_model(loaded))
    except MemoryError:
        raise
    except Exception as error:
        # Arrays that do not fit together make numpy raise anything; our sentences have a full stop.
        if isinstance(error, TypeError | ValueError) and str(error).endswith("."):
            raise ValueError(f"{path}: {error}") from None
        raise ValueError(f"{path} is corrupt: the arrays in it do not fit together.") from error


def _checked(model: Model) -> Model:
    """The model, if it can predict a row of zeros."""
    outputs = model.outputs(np.zeros((1, model.n_features)))
    if not np.isfinite(outputs).all():
        raise ValueError("the machine in it has infinite outputs, or NaN.")
    if model.classes is not None:
        model.classes[model.codes(outputs)]
    return model


def check_metric(name: str | None) -> None:
    """Refuse what is not the name of a scorer."""
    if name is not None and name not in get_scorer_names():
        raise ValueError(
            f"--metric {name} is not a scorer of scikit-learn, such as balanced_accuracy, f1_macro "
            "or roc_auc."
        )


def trained_on(model: Model) -> dict[str, Any]:
    """What the file states about the training data; it may state anything."""
    data = model.summary.get("data")
    return data if isinstance(data, dict) else {}


def show_training(estimator: Any) -> Any:
    """Give an estimator a progress bar, or lines if standard error is not a terminal."""
    if ProgressBar is None:  # scikit-learn before 1.9
        return estimator.set_params(verbose=1)
    estimator.set_callbacks(ProgressBar() if sys.stderr.isatty() else EpochLines())
    return estimator


# A bar redraws its line, which makes a log file unreadable; here each message is a new line.
class EpochLines:
    """A scikit-learn callback that prints the number of finished tasks every few seconds."""

    def setup(self, estimator: Any, context: Any) -> None:
        """Start counting."""
        self.done, self.last = 0, time.monotonic()

    def on_fit_task_begin(self, estimator: Any, context: Any) -> None:
        """Nothing to print."""

    def on_fit_task_end(self, estimator: Any, context: Any) -> None:
        """Print the number of tasks, or the name of a pass over all rows."""
        self.done += 1
        if time.monotonic() - self.last > _SECONDS_BETWEEN_LINES:
            self.last = time.monotonic()
            name = str(context.task_name)
            say(f"  {name}" if name.startswith("pass") else f"  {self.done} epochs or trials done")

    def teardown(self, estimator: Any, context: Any) -> None:
        """Nothing to release."""
