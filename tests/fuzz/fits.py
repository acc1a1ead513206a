"""Fits of every public estimator, with odd parameters, to odd data.

A fit either refuses what it is given by a ValueError or TypeError that says why, or leaves an
estimator that can be used: its predictions are finite and of the right kind, its certificate is
finite and within tol unless a warning says otherwise, and no warning of NumPy reaches the user.
"""

from __future__ import annotations

import contextlib
import inspect
import io
import pickle
import warnings
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from functools import cache, partial
from numbers import Integral, Real
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, clone, is_classifier
from sklearn.dummy import DummyClassifier
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, SVR, NuSVC, NuSVR
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import _num_samples

import kernlet
from fuzz.campaign import Target, check_sentence
from fuzz.odd_data import (
    Source,
    draw_classes,
    draw_numbers,
    draw_rows,
    draw_weights,
    generator,
    happens,
    pick,
)
from kernlet.kernels.rbf import RBF

# LIBSVM itself may never end, on features of 1e100 for example.
_MAX_SVC_STEPS = 10_000


@cache
def estimators() -> dict[str, type[BaseEstimator]]:
    """All public estimators by name; a new one is here by itself."""
    public = {name: getattr(kernlet, name) for name in kernlet.__all__}
    return {
        name: value
        for name, value in public.items()
        if inspect.isclass(value) and issubclass(value, BaseEstimator)
    }


# -- Parameters ------------------------------------------------------------------------------

#: How often work is repeated: any large number is valid, and takes its time.
_REPEATS = {"n_epochs", "n_runs", "n_starts", "n_tries", "n_init", "max_rounds"}
#: Settings under which a fit takes some 10 ms.
_QUICK = {
    "n_epochs": (2, 1, 5),
    "n_runs": (1, 2),
    "n_points": (2, 4),
    "max_lps": (3, 50),
    "n_init": (1, "auto"),
    "n_jobs": (None, 1),
}
_QUICK_OF = {
    "CompressedClassifier": {"n_centers": (4, 1, 0.5), "max_iter": (10, 1)},
    "CompressedRegressor": {"n_centers": (4, 1, 0.5), "max_iter": (10, 1)},
    "CompactKernelClassifier": {"n_centers": (3, 1, 8)},
    "CompactKernelRegressor": {"n_centers": (3, 1, 8)},
    "CompactNoveltyDetector": {"n_centers": (3, 1, 8)},
}
_ODD = (
    *(0, 1, 2, 3, 7, -1, 0.5, 1.0, 0.0, -0.0, 10**30, 2**63, 2**31, -(10**30), 1e300, 1e-300),
    *(float("nan"), float("inf"), -float("inf"), True, False, None, "nonsense", "", "auto", b"x"),
    *(np.float32(0.5), np.int64(3), np.float64("nan"), np.bool_(True), np.array(3), np.ones(2)),
    *([1, 2], (0.1,), [], {}, object(), len, Fraction(1, 2), Decimal("0.5"), 1j, 5e-324, 1e-12),
)
_CLASS_WEIGHTS = (
    *("balanced", {0: 1, 1: 2}, {0: 0.0, 1: 1.0}, {0: 0, 1: 0}, {1: 1e300}, {0: float("nan")}),
    *({0: -1}, {"no": 1}, {7: 2}, {0: None}, {0: "x"}, {}, "normalized", [1, 2]),
)
_SCORINGS = (
    *("accuracy", "balanced_accuracy", "f1_macro", "neg_log_loss", "roc_auc", "roc_auc_ovr", "r2"),
    *(
        "neg_mean_squared_error",
        "f1",
        "precision_samples",
        "no_scorer",
        "top_k_accuracy",
        "jaccard",
    ),
)


def draw_estimator(source: Source, name: str, folder: Path) -> BaseEstimator:
    """An estimator with at most a few odd parameters."""
    cls = estimators()[name]
    quick = {**_QUICK, **_QUICK_OF.get(name, {})}
    allowed = inspect.signature(cls).parameters
    parameters = {key: pick(source, quick[key]) for key in quick if key in allowed}
    parameters["random_state"] = int(source.integers(0, 5))
    if "estimator" in allowed:
        parameters["estimator"] = _original(source, name)
    for _ in range(pick(source, (0, 0, 1, 1, 2, 3))):
        key = pick(source, sorted(allowed))
        parameters[key] = _setting(source, cls, key, folder)
    return cls(**{key: value for key, value in parameters.items() if key in allowed})


def _setting(source: Source, cls: type[BaseEstimator], key: str, folder: Path) -> Any:
    """A value of a parameter: special ones, others that its constraints allow, or anything."""
    if key == "random_state":
        return pick(source, (0, None, np.random.RandomState(0), -1, 2**40, "seed"))
    if key == "estimator":
        return _original(source, cls.__name__)
    if key == "checkpoint":  # no other folder than this
        return pick(source, (str(folder), folder / "state", str(folder / "no" / "such"), 3, True))
    if key == "n_jobs":
        return pick(source, (None, 1, 0, "two", 1.5))
    if happens(source, 25):
        odd = pick(source, _ODD)
        return 2 if key in _REPEATS and isinstance(odd, Real) and odd > 50 else odd
    special = _special().get(key)
    if special is not None and happens(source, 70):
        return pick(source, special)
    constraint = pick(source, cls._parameter_constraints[key])
    return _allowed(source, constraint, 50 if key in _REPEATS else 10**12)


def _allowed(source: Source, constraint: Any, most: int) -> Any:
    """A value that a constraint allows; numbers up to ``most`` or at the limits."""
    if isinstance(constraint, StrOptions):
        return pick(source, sorted(constraint.options))
    if constraint == "boolean":
        return pick(source, (False, True))
    if constraint in ("array-like", "sparse matrix"):
        return generator(source).normal(size=(int(source.integers(1, 6)), 2))
    if isinstance(constraint, Interval):
        low = -most if constraint.left is None else constraint.left
        high = most if constraint.right is None else constraint.right
        if constraint.type is Integral:
            return int(pick(source, (low, min(low + 1, high), min(5, high), high)))
        near = pick(source, (low, high, np.nextafter(low, high), np.nextafter(high, low)))
        inside = pick(source, (1e-9, 1e-3, 0.3, 0.9, 3.0, 1e3))
        return float(near) if happens(source, 40) else float(np.clip(inside, low, high))
    return None


def _original(source: Source, name: str) -> Any:
    """What may be compressed, and what may not."""
    numbers = (
        *(SVR(), SVR(kernel="linear"), SVR(C=100.0), NuSVR(nu=0.2), SVR(epsilon=0.01)),
        *(make_pipeline(StandardScaler(), SVR()), SVR(gamma=1e9)),
    )
    originals = (
        *(numbers if name == "CompressedRegressor" else ()),
        *(SVC(), SVC(kernel="linear"), SVC(kernel="poly", degree=2), SVC(C=100.0), NuSVC(nu=0.2)),
        *(make_pipeline(StandardScaler(), SVC()), SVC(class_weight="balanced"), SVC(gamma=1e-9)),
        *(
            SVC(gamma=1e9),
            SVC(kernel="sigmoid"),
            kernlet.ProximalClassifier(),
            DummyClassifier(),
            SVR(),
        ),
        *(kernlet.CompactKernelClassifier(4, n_epochs=1, random_state=0), SVC(kernel=RBF(1.0))),
        *(kernlet.L1KernelClassifier(), kernlet.MMDA(), StandardScaler(), None, "SVC", SVC),
    )
    original = pick(source, originals if happens(source, 30) else originals[:7])
    if isinstance(original, SVC | NuSVC | SVR | NuSVR):
        original.set_params(max_iter=_MAX_SVC_STEPS)
    return original


@cache
def _fitted() -> dict[str, Any]:
    """Fitted models to start from, for two features and the classes 0 and 1."""
    X = np.random.default_rng(0).normal(size=(20, 2))
    y = np.arange(20) % 2
    return {
        "SVC": SVC().fit(X, y),
        "linear": SVC(kernel="linear").fit(X, y),
        "SVR": SVR().fit(X, X[:, 0]),
        "compact": kernlet.CompactKernelClassifier(3, n_epochs=1, random_state=0).fit(X, y),
        "regressor": kernlet.CompactKernelRegressor(3, n_epochs=1, random_state=0).fit(X, y),
        "unfitted": SVC(),
    }


def _special() -> dict[str, tuple[Any, ...]]:
    """Values of parameters that no constraint spells out."""
    points = np.random.default_rng(0).normal(size=(4, 2))
    return {
        "class_weight": _CLASS_WEIGHTS,
        "scoring": (*_SCORINGS, lambda estimator, X, y: 0.0, lambda estimator, X, y: float("nan")),
        "max_bytes": (200, "1k", "2Ki", "1", 40, "many", "-3k", 1e3, 10**30, "1e400k"),
        "init": (points, points.tolist(), points * np.nan, points[:, :1], *_fitted().values()),
        "kernel": (RBF(1.0), RBF(1e-300), RBF(1e300), RBF(np.array([1.0, 2.0])), "cosine"),
        "gamma": ("scale", "auto", "mean_distance", 1e-300, 1e300, 1e-5, 1e5, np.ones(2)),
        "quantile": (0.5, 1, (0.1, 0.9), [0.5], (0.9, 0.1), [], [0.1, "a"], [None], [[0.1], [0.9]]),
        "C": (1e-300, 1e300, 1e-9, 1e9, 1e12, 10**30, [1.0, 10.0], [], (0.0,)),
        "tol": (0, 0.0, 1e-16, 0.5, 1e300, 1),
        "eps": (0, 0.0, 1e-16, 0.5, 1e300, 1),
        "degree": (1, 2, 20, 1000, 10**6, 10**30),
        "coef0": (1.0, -1.0, 1e300, -1e300, 0),
        "candidates": (None, 1, 3, 0.5, 1.0, 0, -1, 10**30, 2.0, points, points[:0], "union"),
        "landmarks": (None, 1, 3, 0.5, 1.0, 0, -1, 10**30, 2.0, points, points[:0]),
        "stage_sizes": ("auto", [5, 10], [10, 5], [0], [10**30], ["a"], [], (2.5,), [[5]]),
        "removal": (kernlet.Removal(), kernlet.Removal(which="support", stop="fall", cv=2), "yes"),
        "device": ("cpu", "cuda", "nonsense"),
        "n_epochs": (1, 2, 8),
        "n_centers": ("auto", 1, 2, 20, 10**30, 0.3),
        "verbose": (1, 2, True, -1),
    }


# -- The property ----------------------------------------------------------------------------


def fit_and_check(source: Source, folder: Path, name: str) -> str:
    """Draw an estimator and data, fit, and check what came of it."""
    estimator = draw_estimator(source, name, folder)
    X = draw_rows(source, folder)
    n_rows = _count(X)
    y = (draw_numbers if name.endswith("Regressor") else draw_classes)(source, n_rows)
    data: list[Any] = [X, y]
    if "sample_weight" in inspect.signature(estimator.fit).parameters or name.startswith("Compr"):
        weights = draw_weights(source, n_rows)
        data += [] if weights is None else [weights]
    # An SVC has its own warnings of NumPy.
    only_in = "/kernlet/" if name.startswith("Compressed") else ""
    outcome, told = _attempt(partial(_fit, estimator, *data), only_in)
    if isinstance(outcome, Exception):
        assert not _is_fitted(estimator), "a refused fit left a fitted estimator"
        return "refused"
    _check_certificate(estimator, told)
    before = _check_use(estimator, X)
    if happens(source, 10) and isinstance(estimator.get_params()["random_state"], int):
        _check_repetition(estimator, data, before)
    if happens(source, 10):
        _check_failed_refit(source, estimator, X, before)
    return "warned" if told else "fitted"


def _count(X: Any) -> int:
    try:
        return _num_samples(X)
    except TypeError:
        return 20


def _fit(estimator: Any, X: Any, y: Any, *weights: Any) -> Any:
    if hasattr(estimator, "fit_resample"):
        return estimator.fit_resample(X, y)
    return estimator.fit(X, y, **({"sample_weight": weights[0]} if weights else {}))


def _attempt(call: Callable[[], Any], only_in: str = "") -> tuple[Any, list[Warning]]:
    """The result, or the error that refuses it in a sentence, and the warnings.

    Warnings of NumPy are faults, if they come from a file whose path has ``only_in``.
    """
    with warnings.catch_warnings(record=True) as caught, _silence():
        warnings.simplefilter("always")
        try:
            outcome = call()
        except (ValueError, TypeError) as error:
            if isinstance(error, UnicodeError | NotFittedError):
                check_sentence(error)
            _require_origin(error)
            outcome = error
        # A model to start from may lack a package, a device, or the right to write a file.
        except (ImportError, OSError) as error:
            outcome = error
    if isinstance(outcome, Exception):
        check_sentence(outcome)
    for warning in caught:
        where = f"{Path(warning.filename).name}:{warning.lineno}"
        is_numpy = warning.category is RuntimeWarning and only_in in warning.filename
        assert not is_numpy, f"a warning of NumPy at {where}: {warning.message}"
    return outcome, [warning.message for warning in caught if not isinstance(warning.message, str)]


def _silence() -> Any:
    return contextlib.redirect_stdout(io.StringIO())


def _require_origin(error: Exception) -> None:
    """Errors are raised by checks, of kernlet or scikit-learn, and not by the first crash."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    home = trace.tb_frame.f_globals.get("__name__", "") if trace is not None else ""
    assert home.partition(".")[0] in _RAISERS, f"{type(error).__name__} from {home}: {error}"


#: joblib and pandas have sentences of their own, about n_jobs and missing values.
_RAISERS = {"kernlet", "sklearn", "joblib", "pandas", "narwhals"}


def _is_fitted(estimator: Any) -> bool:
    try:
        estimator.__sklearn_tags__()
    except Exception:  # parameters of any kind
        return False
    return hasattr(estimator, "expansion_")


def _outputs(estimator: Any, X: Any) -> dict[str, Any]:
    """What a fitted estimator says of rows."""
    names = ("predict", "decision_function", "predict_proba", "transform")
    if hasattr(estimator, "fit_resample"):
        return {"sample_indices_": getattr(estimator, "sample_indices_", np.empty(0))}
    return {name: getattr(estimator, name)(X) for name in names if hasattr(estimator, name)}


def _check_use(estimator: Any, X: Any) -> dict[str, Any]:
    """Check predictions for the training rows, also of a pickled copy."""
    outputs, _ = _attempt(lambda: _outputs(estimator, X))
    if isinstance(outputs, Exception):
        raise AssertionError(f"fitted, but cannot predict: {outputs}") from outputs
    n_rows = _num_samples(X)
    for name, values in outputs.items():
        if name == "sample_indices_":
            continue
        assert isinstance(values, np.ndarray), f"{name} is a {type(values).__name__}"
        assert len(values) == n_rows, f"{name} of {n_rows} rows has the shape {values.shape}"
        if values.dtype.kind == "f" and not (name == "predict" and is_classifier(estimator)):
            assert np.isfinite(values).all(), f"{name} is not finite"
    if is_classifier(estimator):
        predicted = outputs["predict"]
        assert predicted.shape == (n_rows,)
        assert predicted.dtype == estimator.classes_.dtype
        assert np.isin(predicted, estimator.classes_).all()
        if "predict_proba" in outputs:
            probabilities = outputs["predict_proba"]
            assert probabilities.shape == (n_rows, len(estimator.classes_))
            assert np.allclose(probabilities.sum(axis=1), 1.0)
    _require_equal(
        _outputs(pickle.loads(pickle.dumps(_picklable(estimator))), X), outputs, "pickle"
    )
    return outputs


def _picklable(estimator: Any) -> Any:
    """The estimator without a scorer that no pickle could hold."""
    if callable(getattr(estimator, "scoring", None)):
        estimator.scoring = None
    return estimator


def _require_equal(values: dict[str, Any], expected: dict[str, Any], what: str) -> None:
    for name, value in values.items():
        same = np.array_equal(value, expected[name])
        assert same, f"{name} differs after {what}"


#: Scores of rows that were held out are NaN where none were.
_MAY_BE_NAN = {"validation_score_", "loo_error_bound_"}


def _check_certificate(estimator: Any, told: list[Warning]) -> None:
    """All numbers that a fit leaves are finite, and a gap above tol comes with a warning."""
    for name, value in vars(estimator).items():
        if name.endswith("_") and not name.startswith("_") and isinstance(value, float):
            assert np.isfinite(value) or name in _MAY_BE_NAN, f"{name} is {value}"
    if any(isinstance(message, ConvergenceWarning) for message in told):
        return
    for name in ("gap_", "duality_gap_"):
        gap, tol = getattr(estimator, name, None), getattr(estimator, "tol", None)
        if gap is not None and tol is not None and getattr(estimator, "eps", None) is None:
            # Below 1e-8 is round-off, which no parameter can ask for less of.
            assert np.all(np.asarray(gap) <= max(float(tol), 1e-8)), f"{name}={gap}, no warning"


def _check_repetition(estimator: Any, data: list[Any], before: dict[str, Any]) -> None:
    """The same random_state gives the same numbers, bit by bit."""
    if getattr(estimator, "checkpoint", None) is not None:
        return
    again = clone(estimator)
    with contextlib.suppress(TypeError), warnings.catch_warnings(), _silence():
        warnings.simplefilter("ignore")
        _fit(again, *data)
    _require_equal(_outputs(again, data[0]), before, "a second fit")


def _check_failed_refit(source: Source, estimator: Any, X: Any, before: dict[str, Any]) -> None:
    """A refit that is refused leaves the estimator as it was, or not fitted."""
    if hasattr(estimator, "fit_resample"):
        return
    rows = np.random.default_rng(0).normal(size=(20, 3))
    y: Any = np.array(["other", "labels"])[np.arange(20) % 2]
    bad = pick(source, ("rows", "weights", "parameter", "class_weight"))
    weights: tuple[Any, ...] = ()
    if bad == "rows":
        rows[3, 1] = np.nan
    if bad == "weights":
        weights = (np.full(20, -1.0),)
    if bad == "parameter":
        estimator.random_state = "seed"
    if bad == "class_weight":
        if not hasattr(estimator, "class_weight"):
            return
        estimator.class_weight = {"labels": -1.0, "other": 0.0}
    outcome, _ = _attempt(partial(_fit, estimator, rows, y, *weights))
    assert isinstance(outcome, Exception), f"accepted wrong {bad}"
    _require_equal(_outputs(estimator, X), before, f"a refused fit (wrong {bad})")


TARGETS = [
    Target(f"fit-{name}", "fits", partial(fit_and_check, name=name), quick=12)
    for name in estimators()
]
