"""kernlet fit: a machine from a table."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import click
import numpy as np
from sklearn.dummy import DummyClassifier, DummyRegressor
from sklearn.metrics import get_scorer, roc_auc_score

from kernlet.affine import AffineMap, scaler_bytes
from kernlet.cli.common import check_metric, show_training
from kernlet.compact.classifier import CompactKernelClassifier
from kernlet.compact.inputs import present_medians
from kernlet.compact.novelty import CompactNoveltyDetector
from kernlet.compact.plan import STORAGE, StoragePlan
from kernlet.compact.regressor import CompactKernelRegressor
from kernlet.console import plain_warnings, printable, say
from kernlet.devices import is_sparse
from kernlet.export.file import save
from kernlet.export.limits import DeviceLimits
from kernlet.lp.l1 import L1KernelClassifier
from kernlet.lp.minimal import MinimalKernelClassifier
from kernlet.model.calibration import calibrated_on
from kernlet.model.model import Model, as_model
from kernlet.quantization import encode
from kernlet.report.evaluate import (
    MIN_TEST_ROWS,
    OutputScores,
    balanced_accuracy,
    balanced_standard_error,
    fit_svc,
    majority_share,
    measure_svc,
    output_lines,
    regression_scores,
    scorer_value,
    standard_error,
)
from kernlet.rows.source import RowSource, memory_bytes
from kernlet.sklearn_base import label_codes
from kernlet.tables.read import errors_in, file_digest, read_table
from kernlet.tables.split import Prepared, prepare

_LP_MACHINES = {"l1": L1KernelClassifier, "minimal": MinimalKernelClassifier}
_N_CANDIDATES = 300
# C of the linear programs weighs the sum of errors against the 1-norm of the coefficients. Errors
# grow with the rows and coefficients do not, so that C * n_rows is what stays constant.
_C_TIMES_ROWS = 5000.0
_MAX_C = 3.0
_CHECKPOINT = "streaming.npz"
# The costs are estimated in a search, and measured afterwards: where a limit is exceeded, this many
# smaller machines are trained.
_MORE_FITS = 2
_EXPORTED_ROWS = 1000
_LIKE_TARGETS = 2.0  # largest deviation of several targets over the least
_RARE_CLASSES_MISSED = 0.1  # balanced accuracy below the accuracy
_SVC_ROWS, _SVC_TEST_ROWS = 5_000, 20_000  # read from a table that is not in memory


def run(options: SimpleNamespace) -> None:
    """Read, prepare, train, test, save; print the results. Options: see ``kernlet fit --help``."""
    if len(options.target) > 1 or options.quantiles:
        options.regression = True  # there is nothing else to do with them
    if len(options.target) > 1 and options.quantiles:
        raise ValueError("--quantiles are those of one target: give one --target.")
    if options.quantiles and options.metric is not None:
        raise ValueError("--quantiles are judged by their pinball loss: leave --metric out.")
    if options.machine == "compact":
        if options.C is not None or options.checkpoint is not None or options.kernel != "rbf":
            raise ValueError("--C, --kernel and --checkpoint are for --machine l1 and minimal.")
    elif options.regression or options.max_bytes or options.auto or options.augment:
        raise ValueError(
            f"--machine {options.machine} takes --centers, the number of rows that may become "
            "centers, but not --regression, --quantiles, several --target, --bytes, --auto or "
            "--augment."
        )
    elif options.missing != "median":
        raise ValueError(f"--missing {options.missing} is for --machine compact.")
    elif options.processor is not None:
        raise ValueError("--processor is for --machine compact, which has tables of few bits.")
    if options.regression and options.balanced:
        raise ValueError("--balanced weighs classes, which --regression does not have.")
    check_metric(options.metric)
    with plain_warnings():
        data = _read(options)
        if options.metric is not None:
            _check_suits(options.metric, data)
        limits = None if options.processor is None else _limits(options, data)
        estimator = _estimator(options, data, limits)
        say(f"training on {len(data.y):,} rows of {data.X.shape[1]} features")
        _train(estimator, data, options.checkpoint)
        model = _with_table(as_model(estimator), data, options.quantiles)
        if limits is not None:
            estimator, model = _within(limits, estimator, model, options, data)
        if len(data.y_test):
            model = _test(model, estimator, data, options)
        save(model, options.output)
    _print_results(model, options)


def _read(options: SimpleNamespace) -> Prepared:
    """The rows to train and test on; the summary says where they come from."""
    targets = options.target
    path, label = options.table.path, targets[0] if targets and not options.regression else None
    max_bytes = _memory() if options.memory is None else options.memory
    table = read_table(
        path,
        category=[*options.category, *options.date],  # dates are read as texts
        label=label,
        names=[*options.drop, *targets],
        text_format=options.table.text_format,
        max_bytes=max_bytes,
    )
    if not table.in_memory:
        say(
            f"reading {path.name} in batches: {table.n_rows:,} rows of {len(table.names)} columns "
            "are more than memory should hold (--memory sets the limit)"
        )
    with errors_in(path):
        table.chosen("--category", options.category)
        data = prepare(
            table,
            targets if len(targets) > 1 else targets[0] if targets else None,
            regression=options.regression,
            drop=options.drop,
            dates=options.date,
            skip_unlabelled=options.table.skip_unlabelled,
            scale="machine" if options.novelty else options.scale,
            test=options.test,
            seed=options.seed,
            missing=options.missing,
            normal=options.normal if options.novelty else None,
        )
    # by these kernlet report finds the rows that the machine has not seen
    data.summary["data"] |= {"file": path.name, "sha256": file_digest(path)}
    data.summary["split"] = {"test": options.test, "seed": options.seed}
    return data


def _check_suits(metric: str, data: Prepared) -> None:
    """Refuse a scorer that cannot judge the labels, before any training."""
    dummy, examples = DummyClassifier(strategy="prior"), "balanced_accuracy, f1_macro, roc_auc_ovr"
    if data.classes is None:
        dummy, examples = DummyRegressor(), "r2, neg_mean_absolute_error"
    X = np.zeros((len(data.y), 1))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            get_scorer(metric)(dummy.fit(X, data.y), X, data.y)
    except (AttributeError, TypeError, ValueError) as error:
        raise ValueError(
            f"--metric {metric} cannot judge this target ({error}); others are {examples}."
        ) from None


def _limits(options: SimpleNamespace, data: Prepared) -> DeviceLimits:
    """The limits of a processor, after saying what they leave for the machine."""
    limits = DeviceLimits(
        options.processor,
        options.flash,
        options.ram,
        options.instructions,
        options.arithmetic or "auto",
        has_scaler=data.scaler is not None,
    )
    shape = _shape(options, data)
    max_bytes = limits.max_bytes(*shape)
    what = "tables" if data.scaler is None else "tables beside those of the scaling"
    plain = StoragePlan(*shape, 1, formats=STORAGE["int4"])
    given = " ".join(f"--{name} {limit}" for name, limit in limits.limits.items())
    say(
        f"{limits.target}, {limits.arithmetic} arithmetic: {given} leaves {max_bytes:,} bytes for "
        f"{what}, and allows {limits.max_centers(plain):,} centers in four bits without a "
        "projection"
    )
    return limits


def _shape(options: SimpleNamespace, data: Prepared) -> tuple[int, int]:
    """Numbers of features and of outputs."""
    if options.novelty:
        return data.X.shape[1], 1
    if data.classes is None:
        return data.X.shape[1], len(options.quantiles or ()) or data.y[:1].size
    n_classes = len(np.unique(data.y))
    return data.X.shape[1], n_classes if n_classes > 2 else 1


def _within(
    limits: DeviceLimits, estimator: Any, model: Model, options: SimpleNamespace, data: Prepared
) -> tuple[Any, Model]:
    """A machine that stays within the limits where it is measured, if need be another one."""
    searched = limits
    for attempt in range(_MORE_FITS + 1):
        # without the columns, whose encoding is not part of a prediction
        cost = limits.measure(replace(model, encoding=None, feature_names=None), _raw_rows(data))
        excess = limits.exceeded(cost)
        if not excess:
            break
        if attempt == _MORE_FITS:
            raise ValueError(
                f"After {attempt + 1} fits the machine still takes {' and '.join(excess)} on a "
                f"{limits.target}: raise the limits."
            )
        say(f"the machine takes {' and '.join(excess)}: training a smaller one")
        searched = searched.tightened(cost)
        estimator = _estimator(options, data, searched)
        _train(estimator, data, options.checkpoint)
        model = _with_table(as_model(estimator), data, options.quantiles)
    model.summary["device"] = {
        "processor": limits.processor,
        "arithmetic": limits.arithmetic,
        "limits": limits.limits,
        "cost": asdict(cost) | {"estimated": list(cost.estimated)},
        "usage": limits.describe(cost),
    }
    return estimator, model


def _raw_rows(data: Prepared) -> Any:
    """Training rows before they were scaled, some of them."""
    rows = np.linspace(0, len(data.y) - 1, min(_EXPORTED_ROWS, len(data.y))).astype(int)
    X = data.X.take(rows) if isinstance(data.X, RowSource) else data.X[rows]
    X = X.toarray() if is_sparse(X) else np.asarray(X)
    # in float32, in which whole numbers are whole again
    return X if data.scaler is None else np.float32(X / data.scaler.scale + data.scaler.shift)


def _estimator(options: SimpleNamespace, data: Prepared, limits: DeviceLimits | None = None) -> Any:
    """The machine that the options ask for, not fitted."""
    if options.novelty:
        return _detector(options, data, limits)
    weights: dict[str, Any] = {"class_weight": "balanced"} if options.balanced else {}
    if options.quantiles:
        weights = {"loss": "pinball", "quantile": options.quantiles}
    elif _are_unlike(data.y) and (options.max_bytes or limits is not None):
        if limits is not None:
            raise ValueError(
                "The targets have deviations that differ by more than a factor of "
                f"{_LIKE_TARGETS:g}, which tables of few bits cannot hold: bring them to like "
                "units for --processor, or fit a machine for each."
            )
        weights = {"storage": "float16"}  # one step for the integers of all targets is too coarse
    if options.machine == "compact":
        make = CompactKernelRegressor if options.regression else CompactKernelClassifier
        max_bytes = _budget(options.max_bytes, data.scaler)
        if limits is not None:
            max_bytes = limits.max_bytes(*_shape(options, data))
        return make(
            options.centers or "auto",
            max_bytes=max_bytes,
            max_centers=None if limits is None else limits.max_centers,
            effort=options.effort,
            augment=options.augment,
            missing="error" if options.missing == "median" else options.missing,
            scale=False,  # --scale has done it, or was not to
            scoring=options.metric,
            n_jobs=options.jobs,
            random_state=options.seed,
            **weights,
        )
    n_rows = len(data.y)
    return _LP_MACHINES[options.machine](
        min(_MAX_C, _C_TIMES_ROWS / n_rows) if options.C is None else options.C,
        kernel=options.kernel,
        candidates=min(n_rows, options.centers or _N_CANDIDATES),
        tol=1e-6,
        checkpoint=options.checkpoint,
        n_jobs=options.jobs,
        random_state=options.seed,
        **weights,
    )


def _detector(options: SimpleNamespace, data: Prepared, limits: DeviceLimits | None) -> Any:
    """The novelty detector that the options ask for, not fitted."""
    within: dict[str, Any] = {"max_bytes": options.max_bytes}
    if limits is not None:
        within = {
            "max_bytes": limits.max_bytes(*_shape(options, data)),
            "max_centers": limits.max_centers,
        }
    return CompactNoveltyDetector(
        options.centers or "auto",
        contamination=options.contamination,
        scale={"auto": "auto", "standard": True, "none": False}[options.scale],
        random_state=options.seed,
        **within,
    )


def _memory() -> int:
    """A quarter of the computer's memory, in bytes."""
    return memory_bytes() // 4


def _budget(max_bytes: int | None, scaler: AffineMap | None) -> int | None:
    """The bytes that a scaler leaves to the machine."""
    if max_bytes is None:
        return None
    used = scaler_bytes(scaler)
    if used >= max_bytes:
        raise ValueError(
            f"The scaler alone takes {used} of {max_bytes} bytes: raise --bytes, or add "
            "--scale none."
        )
    return max_bytes - used


def _train(estimator: Any, data: Prepared, checkpoint: Path | None) -> None:
    """Fit; after an interruption, say what can be resumed."""
    saved = None if checkpoint is None else checkpoint / _CHECKPOINT
    if saved is not None and saved.exists():
        say(f"resuming from the checkpoint in {checkpoint}")
    units = _units(data.y)
    try:
        show_training(estimator).fit(data.X, data.y if units is None else data.y / units)
    except (KeyboardInterrupt, SystemExit):  # SIGTERM raises SystemExit
        if saved is not None and saved.exists():
            say(f"interrupted; the same command resumes from the checkpoint in {checkpoint}")
        elif saved is not None:
            say(f"interrupted before the first pass over all rows: no checkpoint in {checkpoint}")
        raise
    if units is not None:
        estimator.expansion_ = _in_units(estimator.expansion_, units)


def _units(y: Any) -> Any:
    """Deviations of several targets, by which each counts for as much; None for like ones."""
    return np.std(y, axis=0) if _are_unlike(y) else None


def _are_unlike(y: Any) -> bool:
    """Whether y has columns whose deviations differ much."""
    if np.ndim(y) < 2:
        return False
    deviations = np.std(y, axis=0)
    return bool(deviations.min() > 0 and deviations.max() > _LIKE_TARGETS * deviations.min())


def _in_units(expansion: Any, units: Any) -> Any:
    """A compact machine whose outputs are multiplied by one number each."""
    coef = expansion.packed["coef"]
    scaled = encode(units[:, None] * coef.decoded().astype(np.float64), coef.format)
    return expansion.replaced(coef=scaled, intercept=units * expansion.intercept)


def _with_table(model: Model, data: Prepared, quantiles: tuple[float, ...] | None = None) -> Model:
    """The model with the encoding, the classes and the targets of its table."""
    target = data.summary["data"]["target"]
    names = target if isinstance(target, list) else None
    if quantiles and target is not None:
        names = [f"{target}_q{level:g}" for level in quantiles]
    return replace(
        model,
        output_names=None if names is None else tuple(names),
        # it was trained on indices of classes
        classes=model.classes if data.classes is None else data.classes[model.classes],
        scaler=data.scaler,
        encoding=data.encoding,
        feature_names=None if data.encoding is None else data.encoding.feature_names,
        summary=model.summary | data.summary,
    )


def _test(model: Model, estimator: Any, data: Prepared, options: SimpleNamespace) -> Model:
    """Measure the machine, and an SVC, on the held-out rows; into the summary.

    A classifier without probabilities gets them from these rows.
    """
    say(f"testing on {len(data.y_test):,} rows")
    outputs = _outputs(model, data.X_test)
    test: dict[str, Any] = {"rows": len(data.y_test)}
    if model.kind == "novelty":
        test = _novelty_scores(model, outputs, data.y_test > 0)
    elif data.classes is None:
        test |= regression_scores(model, outputs, data.y_test)
    else:
        truth, predicted = data.classes[data.y_test], model.classes[model.codes(outputs)]
        test["score"] = float(np.mean(predicted == truth))
        test["majority"] = majority_share(truth)
        test["balanced_accuracy"] = balanced_accuracy(truth, predicted)
        test["balanced_error"] = balanced_standard_error(truth, predicted)
        model = _with_probabilities(model, outputs, truth)
    if options.metric is not None:
        test["metric"] = options.metric
        test["metric_score"] = scorer_value(options.metric, estimator, data.X_test, data.y_test)
    model.summary["test"] = test
    if options.svc and data.classes is not None:
        say("training an SVC for comparison")
        X, y = _sample(data.X, data.y, _SVC_ROWS)
        medians = _present_medians(X)
        X = _filled(X, medians)
        weight = "balanced" if options.balanced else None
        svc = fit_svc(X, y, class_weight=weight, scoring=options.metric, random_state=options.seed)
        X_test, y_test = _sample(data.X_test, data.y_test, _SVC_TEST_ROWS)
        X_test = _filled(X_test, medians)
        model.summary["svc"] = measure_svc(svc, X_test, y_test)
        model.summary["svc"]["metric_score"] = scorer_value(options.metric, svc, X_test, y_test)
    return model


def _novelty_scores(model: Model, outputs: Any, is_normal: Any) -> dict[str, Any]:
    """Rates of false alarms and of anomalies found, and ROC AUC; None where rows are missing."""
    is_flagged = model.classes[model.codes(outputs)] < 0
    n_normal, n_anomalies = int(is_normal.sum()), int((~is_normal).sum())
    has_both = n_normal and n_anomalies
    return {
        "rows": n_normal,
        "anomalies": n_anomalies,
        "false_alarms": float(is_flagged[is_normal].mean()) if n_normal else None,
        "found": float(is_flagged[~is_normal].mean()) if n_anomalies else None,
        "roc_auc": float(roc_auc_score(is_normal, model.scores(outputs))) if has_both else None,
    }


def _with_probabilities(model: Model, outputs: Any, truth: Any) -> Model:
    """A temperature, which changes no prediction, from held-out rows of known classes."""
    known = np.isin(truth, model.classes)
    if model.temperature is not None or not known.any():
        return model
    return calibrated_on(model, outputs[known], label_codes(model.classes, truth[known]))


def _outputs(model: Model, X: Any) -> Any:
    """Outputs for rows that are encoded and scaled already; model.outputs would scale again."""
    if not isinstance(X, RowSource):
        return model.expansion.decision_values(X)
    return np.concatenate([model.expansion.decision_values(block) for _, block in X.blocks()])


def _sample(X: Any, y: Any, max_rows: int) -> tuple[Any, Any]:
    """Rows in memory as they are; of a row source, a random sample."""
    if not isinstance(X, RowSource):
        return X, y
    numbers = np.sort(np.random.RandomState(0).permutation(len(y))[:max_rows])
    return X.take(numbers), y[numbers]


def _present_medians(X: Any) -> Any:
    """Medians of the columns without NaN; None where there is none."""
    if is_sparse(X) or not np.isnan(X).any():
        return None
    return present_medians(X)


def _filled(X: Any, medians: Any) -> Any:
    """Rows for an SVC, which takes no missing numbers."""
    return X if medians is None else np.where(np.isnan(X), medians.astype(X.dtype), X)


def _print_results(model: Model, options: SimpleNamespace) -> None:
    summary = model.summary
    # linear programs have a certificate; a compact machine has a reason for its size
    if "duality_gap" in summary:
        click.echo(f"relative duality gap {summary['duality_gap']:.1e}")
    else:
        click.echo(summary.get("choice", ""))
    test, peer = summary.get("test"), summary.get("svc")
    if test is not None:
        rows = f"{test['rows']:,} held-out row{'s' if test['rows'] != 1 else ''}"
        if model.kind == "novelty":
            for line in _novelty_lines(test, options.contamination):
                click.echo(line)
        elif model.kind == "regressor":
            name = "D2" if model.quantiles else "R2"
            click.echo(f"test {name} {test['score']:.4f} on {rows}{_metric(options.metric, test)}")
            outputs = [OutputScores(**line) for line in test.get("outputs", ())]
            for line in output_lines(model, outputs, test.get("coverage")):
                click.echo(line)
        else:
            majority = f"the largest class is {100 * test['majority']:.2f} % of them"
            click.echo(f"test accuracy {100 * test['score']:.2f} % on {rows}; {majority}")
            click.echo(_balanced(test) + _metric(options.metric, test))
    scaling = f", {scaler_bytes(model.scaler)} of them for scaling" if model.scaler else ""
    click.echo(f"{model.expansion.n_centers} centers, {model.nbytes:,} bytes of tables{scaling}")
    if (device := summary.get("device")) is not None:
        how = "" if device["cost"]["estimated"] else ", measured"
        on = f"{device['processor']}, {device['arithmetic']} arithmetic{how}"
        click.echo(f"{on}: {device['usage']}")
    if peer is not None:
        click.echo(
            f"an SVC of {peer['training_rows']:,} rows: {100 * peer['accuracy']:.2f} %, "
            f"{_balanced(peer)}{_metric(options.metric, peer)}, {peer['centers']:,} centers, "
            f"{peer['nbytes']:,} bytes"
        )
    if advice := _advice(model, options):
        click.echo(advice)
    click.echo(f"wrote {printable(options.output)}")


def _novelty_lines(test: dict[str, Any], contamination: float) -> Iterator[str]:
    if test["rows"]:
        rows = f"{test['rows']:,} held-out normal row{'s' if test['rows'] != 1 else ''}"
        share = f"{100 * test['false_alarms']:.2f} %"
        yield f"false alarms: {share} of {rows}; --contamination is {100 * contamination:g} %"
    if test["anomalies"]:
        anomalies = "1 anomaly" if test["anomalies"] == 1 else f"{test['anomalies']:,} anomalies"
        auc = "" if test["roc_auc"] is None else f"; ROC AUC {test['roc_auc']:.4f}"
        yield f"found {100 * test['found']:.2f} % of {anomalies}{auc}"


def _balanced(scores: dict[str, Any]) -> str:
    return f"balanced accuracy {100 * scores['balanced_accuracy']:.2f} %"


def _metric(name: str | None, scores: dict[str, Any]) -> str:
    value = scores.get("metric_score")
    if name in ("accuracy", "balanced_accuracy"):  # printed already
        return ""
    return "" if name is None else f", {name} {'unknown' if value is None else f'{value:.4f}'}"


def _advice(model: Model, options: SimpleNamespace) -> str:
    """What the figures suggest to do next, or nothing."""
    test, peer = model.summary.get("test"), model.summary.get("svc")
    if test is None:
        return ""
    n_rows = test["rows"]
    if model.kind == "novelty" and not n_rows:
        return ""
    if n_rows < MIN_TEST_ROWS:
        rows = f"{n_rows} row{'s' if n_rows != 1 else ''}"
        return f"caution: a test on {rows} says little about others; collect more rows to be sure"
    if model.kind == "novelty":
        useless = "advice: no better than chance: are the rows of --normal alike? check --drop"
        return useless if (test["roc_auc"] or 1.0) <= 0.5 else ""
    if model.kind == "regressor":
        constant = "a constant" if model.quantiles else "the mean"
        useless = f"advice: no better than predicting {constant}; check --target and --drop"
        return useless if test["score"] <= 0 else ""
    advice = "" if peer is None else _comparison(test, peer, model, options)
    if not options.balanced and test["balanced_accuracy"] < test["score"] - _RARE_CLASSES_MISSED:
        rare = "rare classes are often missed: try --balanced"
        rare += "" if options.metric else " and --metric balanced_accuracy"
        advice = f"{advice}; {rare}" if advice else f"advice: {rare}"
    return advice


def _comparison(
    test: dict[str, Any], peer: dict[str, Any], model: Model, options: SimpleNamespace
) -> str:
    """The machine beside the SVC, by the metric that was asked for or else the accuracy."""
    score, other = test.get("metric_score"), peer.get("metric_score")
    error = test["balanced_error"]  # rare classes count as much as others in most metrics
    if score is None or other is None or options.metric == "accuracy":
        score, other = test["score"], peer["accuracy"]
        error = standard_error(score, test["rows"])
    gap, share = other - score, peer["nbytes"] / model.nbytes
    if gap > error:
        points = f"{100 * gap:.1f} points below the SVC"
        return f"advice: {points}: try {_alternatives(model, options)}"
    if share < 2:
        return ""
    better = "better than" if -gap > error else "as good as"
    return f"{better} the SVC at 1/{share:,.0f} of its size"


def _alternatives(model: Model, options: SimpleNamespace) -> str:
    if options.machine != "compact":
        return "more --centers, another --C, or --machine compact"
    if options.processor is not None:
        return "higher limits of the processor"
    other = []
    if options.centers or options.max_bytes:
        other.append("--auto")
    if options.max_bytes:
        other.append(f"--bytes {2 * options.max_bytes}")
    else:
        other.append(f"--centers {2 * model.expansion.n_centers}")
    return f"{', '.join(other)} or --machine minimal"
