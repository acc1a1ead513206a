"""The algorithm of compress: centers, coefficients, their number and probabilities."""

from __future__ import annotations

import warnings
from copy import copy
from dataclasses import dataclass, replace
from numbers import Integral
from typing import Any

import numpy as np
from sklearn.utils import check_array, check_consistent_length

from kernlet._typing import Floats, Indices
from kernlet.compression.record import Coefficients, Compression, TriedSize
from kernlet.compression.refit import match, project, refit
from kernlet.compression.synthetic import Reduction, synthesize
from kernlet.expansion import KernelExpansion
from kernlet.model.calibration import calibrated_on, reproduce
from kernlet.model.model import Model, Scheme
from kernlet.model.scoring import (
    ClassPredictions,
    NumberPredictions,
    Quality,
    RowScorer,
    check_quantile_scoring,
    quantile_losses,
    quantile_score,
    row_mean,
)
from kernlet.progress import Progress
from kernlet.quantization import FORMATS, QuantizedExpansion, encode
from kernlet.sampling import hold_out
from kernlet.sklearn_base import check_weights, label_codes, one_vs_rest_signs, warn_user
from kernlet.threads import single_thread

# How this works
# --------------
# 1. Centers. `synthesize` searches for n_centers points whose span in the kernel's feature space
#    is closest to the original's outputs, all outputs sharing the points (the reduced set of
#    Burges, 1996; here by variable projection as in Gonzalez-Castano and Meyer, 2000). This needs
#    no data. The search takes place behind the input map of the expansion, which is kept.
# 2. Coefficients. For given centers there are three kinds, in order of what they need:
#      projected  the orthogonal projection in feature space; no data;
#      matched    least squares onto the original's outputs on rows X; the rows say where in
#                 feature space closeness matters;
#      refit      a squared-hinge machine trained on X, y over these centers, for a few values
#                 of C; the only kind that may be better than the original, and one-vs-rest
#                 even where the original has an output per pair of classes.
#    Each is made from the rows outside the validation part and scored on the validation part;
#    the winner is made again from all rows.
# 3. Size. With n_centers="auto" sizes double until one loses no more than the standard error of
#    its loss against the original, both measured on the same rows: errors that both make cancel,
#    so that this is stricter than a comparison with the standard error of a score. The rows that
#    chose the kind of coefficients do not judge, or the maximum over kinds would flatter a small
#    size. The others do, in groups, each by coefficients that were made without it. Where the
#    original is known to be trained on the rows outside the validation part
#    (CompressedClassifier), one half of that part chooses and the other judges.
# 4. Packed machines stay packed: centers are rounded first, the coefficients are made for the
#    rounded centers and rounded too, and every trial is scored as it would be stored.
# 5. Regressors are scored by R2, with y or else the original's values as targets, and refitted by
#    ridge regression; quantiles by D2 of the pinball loss, and never refitted: ridge regression
#    would make means of them. Novelty detectors are scored by how many labels agree with the
#    original's; their threshold is moved so that both flag equally many of the rows that made the
#    coefficients. Without y a loss of 0.01 is accepted: the original, compared with itself, has
#    no error.
# 6. Probabilities. The temperature is fitted on the validation part, by the machine whose
#    coefficients were made without it: to the probabilities of the original where it has them,
#    and to y otherwise.

# C of the refits. The centers already limit the capacity, so that the errors may cost much; three
# values a decade apart are enough to see whether they should.
_REFIT_COSTS = (1.0, 10.0, 100.0)
# The same for regressors, per row.
_REFIT_RIDGES = (1e-2, 1e-4, 1e-6)

# Formats of a compact machine were trained with; rounding afterwards needs more bits. Errors of
# the centers are made good by the coefficients, errors of the coefficients by nothing.
_FEWEST_BITS = {"centers": "int4", "coef": "int8"}

_N_GROUPS = 5  # of rows to judge by
_SMALL_LOSS = 0.01  # of R2, or of the share of equal labels, against the original itself


@dataclass(frozen=True, eq=False)
class ValidationData:
    """Rows from which coefficients are made, and held-out rows on which choices are made.

    ``X`` are rows behind scaler and input map, ``original`` the classes (as numbers) that the
    original predicts and ``probabilities`` those that it gives, ``codes`` the classes of y where
    it is given, ``is_held_out`` a mask, ``scorer`` replaces the accuracy, ``held_out_only``
    whether other rows have trained the original and may not judge it. Of a regressor,
    ``original`` are its outputs, ``targets`` those of y where it is given, and ``deviations`` those
    of what it is compared with, which R2 is relative to; ``quantiles`` are those that it predicts.
    """

    X: Any
    original: Any
    codes: Indices | None
    weights: Floats
    is_held_out: Any
    may_refit: bool
    scorer: RowScorer | None = None
    probabilities: Floats | None = None
    held_out_only: bool = False
    targets: Floats | None = None
    deviations: Floats | None = None
    quantiles: tuple[float, ...] | None = None

    @classmethod
    def of(
        cls,
        model: Model,
        rows: Any,
        y: Any,
        weights: Any,
        held_out: Indices | tuple[float, np.random.RandomState],
        may_refit: bool,
        scoring: Any = None,
        probabilities: Floats | None = None,
    ) -> ValidationData:
        """Data for compressing a model, from rows of features.

        ``held_out`` are rows that the model was not trained on, or the share of rows to draw, and
        a source of random numbers.
        """
        held_out_only = not isinstance(held_out, tuple)
        check_consistent_length(rows, y)
        n_rows = rows.shape[0]
        if n_rows < 2:
            raise ValueError(
                "X has one row (n_samples = 1): give at least two to choose by, or none at all."
            )
        if scoring is not None and y is None:
            raise ValueError("scoring compares predictions with labels: give y too.")
        check_quantile_scoring(scoring, len(model.quantiles or ()))
        weights = check_weights(weights, rows)
        codes = targets = None
        if y is not None and model.kind == "regressor":
            targets = _checked_targets(model, y)
        elif y is not None:
            codes = label_codes(model.classes, y)
        if isinstance(held_out, tuple):
            held_out = _draw(weights, codes, *held_out)
        is_held_out = np.zeros(n_rows, dtype=bool)
        is_held_out[held_out] = True
        X, map = model.scaled(rows), model.expansion.input_map
        X = X if map is None else map(X)
        outputs = model.expansion.mapped.decision_values(X)
        if probabilities is None and model.temperature is not None:
            probabilities = model.probabilities(outputs)
        original: Any = outputs
        deviations, labels = None, targets
        if model.kind == "regressor":
            deviations = _deviations(outputs if targets is None else targets, weights)
            is_flat = model.is_flat or model.quantiles is not None
            labels = targets[:, 0] if targets is not None and is_flat else targets
        else:
            original = model.codes(outputs)
            labels = None if codes is None else model.classes[codes]
        data = cls(
            X,
            original,
            codes,
            weights,
            is_held_out,
            may_refit and model.quantiles is None,
            None if scoring is None else RowScorer(scoring, labels, weights),
            probabilities,
            held_out_only,
            targets,
            deviations,
            model.quantiles,
        )
        scorer = data.scorer
        return data if scorer is None else data._with_defined_scorer(model, scorer.name)

    def _with_defined_scorer(self, model: Model, name: str) -> ValidationData:
        """The data without a scorer that is not defined on the rows that choose or judge."""
        judging = np.concatenate([group for group, _ in self.groups_to_judge()])
        every = np.arange(len(self.is_held_out))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # of scikit-learn, at every score
            scores = [
                self.score(model, rows).value for rows in (every, self.rows_to_choose(), judging)
            ]
        if np.isfinite(scores).all():
            return self
        warn_user(
            f"The score {name} is not defined on the held-out rows, which may lack a class; the "
            f"{self._usual_score} chooses instead. Give more "
            "rows, of every class.",
            UserWarning,
        )
        return replace(self, scorer=None)

    @property
    def _usual_score(self) -> str:
        if self.quantiles is not None:
            return "D2"
        return "accuracy" if self.deviations is None else "R2"

    def score(self, model: Model, rows: Indices, *, with_error: bool = False) -> Quality:
        """By the scorer or, without one, the weighted share of rows that are predicted right."""
        return self._score_outputs(model, self.outputs(model, rows), rows, with_error)

    def outputs(self, model: Model, rows: Indices) -> Floats:
        """Outputs of a model for some rows."""
        return model.expansion.mapped.decision_values(self.X[rows])

    def _score_outputs(
        self, model: Model, outputs: Floats, rows: Indices, with_error: bool
    ) -> Quality:
        weights = self.weights[rows]
        if self.deviations is not None:
            if self.scorer is None:
                shares = self._shares_explained(outputs, rows)
                return row_mean(shares, weights / (weights.max() or 1.0))
            numbers = NumberPredictions(model.scores(outputs))
            return self.scorer.quality(numbers, rows, with_error=with_error)
        codes = model.codes(outputs)
        if self.scorer is None:
            target = self.original if self.codes is None else self.codes
            return row_mean(codes == target[rows], weights)
        assert self.codes is not None
        # scorers of probabilities compare machines that are calibrated alike
        model = calibrated_on(model, outputs, self.codes[rows], weights)
        predictions = ClassPredictions(
            model.classes, model.scores(outputs), codes, model.probabilities(outputs)
        )
        return self.scorer.quality(predictions, rows, with_error=with_error)

    def _shares_explained(self, outputs: Floats, rows: Indices) -> Floats:
        """1 - (f - t)^2 / variance of each row, the mean of the outputs: R2 is the mean of rows.

        Quantiles are compared with y by their pinball losses, whose mean is that of D2.
        """
        if self.quantiles is not None and self.targets is not None:
            targets, weights = self.targets[rows, 0], self.weights[rows]
            return 1.0 - quantile_losses(targets, outputs, self.quantiles, weights)
        truth = self.original if self.targets is None else self.targets
        assert self.deviations is not None
        return 1.0 - np.mean(_squares(outputs - truth[rows], self.deviations), axis=1)

    @property
    def accepted_loss(self) -> float:
        """What a size may lose where rows are compared with the original itself."""
        return _SMALL_LOSS if self.codes is None and self.targets is None else 0.0

    def rows_to_choose(self) -> Indices:
        """The held-out rows or, where no others may judge, one half of them."""
        held_out = self._by_class(np.flatnonzero(self.is_held_out))
        return held_out[::2] if self.held_out_only else held_out

    def groups_to_judge(self) -> list[tuple[Indices, Indices]]:
        """Groups of the other rows, the classes in each, and the rows to make coefficients from."""
        every, held_out = np.arange(len(self.is_held_out)), np.flatnonzero(self.is_held_out)
        rows = np.setdiff1d(held_out if self.held_out_only else every, self.rows_to_choose())
        rows = self._by_class(rows if len(rows) else held_out)  # a single row does both
        n_groups = min(_N_GROUPS, len(rows))
        groups = [rows[group::n_groups] for group in range(n_groups)]
        if self.held_out_only:
            kept = np.flatnonzero(~self.is_held_out)
            return [(group, kept) for group in groups]
        return [(group, np.setdiff1d(every, group)) for group in groups]

    def _by_class(self, rows: Indices) -> Indices:
        if self.codes is None:
            return rows
        return rows[np.argsort(self.codes[rows], kind="stable")]

    def judge(
        self, model: Model, small: list[Model], groups: list[Indices]
    ) -> tuple[float, float, float]:
        """Score of smaller models, one per group, its loss against the model, and its error."""
        rows = np.concatenate(groups)
        of_groups = [self.outputs(each, group) for each, group in zip(small, groups, strict=True)]
        after = self._score_outputs(small[0], np.concatenate(of_groups), rows, with_error=True)
        before = self.score(model, rows, with_error=True)
        # One more row on which they differ: few rows could otherwise have no error at all.
        error = np.hypot(before.error_of_difference(after), 1 / len(rows))
        return after.value, before.value - after.value, float(error)


def _draw(
    weights: Floats, codes: Indices | None, fraction: float, random: np.random.RandomState
) -> Indices:
    """Held-out rows, classes in proportion where they are known; at least one."""
    rows = np.flatnonzero(weights)  # without a weight they could not choose
    if codes is not None:
        _, held_out = hold_out(codes[rows], fraction, random)
        if len(held_out):
            return rows[held_out]
    return random.permutation(rows)[: max(1, round(fraction * len(rows)))]


def _checked_targets(model: Model, y: Any) -> Floats:
    """Targets of a regressor, a column per output; of quantiles one, which is that of all."""
    values = check_array(y, ensure_2d=False, dtype=np.float64, input_name="y")
    values = values.reshape(len(values), -1)
    n_columns, n_outputs = values.shape[1], model.expansion.n_outputs
    has = f"y has {n_columns} column{'s' if n_columns != 1 else ''}"
    if model.quantiles is not None and n_columns != 1:
        raise ValueError(f"{has}; the model predicts quantiles of one target.")
    if model.quantiles is None and n_columns != n_outputs:
        numbers = "one number" if n_outputs == 1 else f"{n_outputs} numbers"
        raise ValueError(f"{has}; the model predicts {numbers} per row.")
    return values


def _deviations(values: Floats, weights: Floats) -> Floats:
    """Of each column; 1 where it is constant. Squares of large numbers would overflow."""
    shares, sizes = weights / weights.sum(), np.abs(values).max(axis=0)
    units = np.where(sizes > 0, sizes, 1.0)
    scaled = values / units
    deviations = units * np.sqrt(shares @ (scaled - shares @ scaled) ** 2)
    return np.where(deviations > 0, deviations, 1.0)


def _squares(errors: Floats, units: Floats) -> Floats:
    """Squares of errors in given units, at most 1e100: rows that overflow must not be NaN."""
    with np.errstate(over="ignore", invalid="ignore"):
        return np.fmin(np.abs(errors / units), 1e50) ** 2


# -- The algorithm -----------------------------------------------------------------------------


def compress_model(
    model: Model, n_centers: Any, data: ValidationData | None, progress: Progress, **search: Any
) -> tuple[Model, Compression]:
    """A Model of few synthetic centers, and a record of what was done.

    Without data the coefficients are projected. ``search`` has ``n_starts``, ``max_iter`` and
    ``random_state`` of the search for centers.
    """
    path: tuple[TriedSize, ...] = ()
    if n_centers == "auto":
        if data is None or (model.kind == "classifier" and data.codes is None):
            labels = " and labels y" if model.kind == "classifier" else ""
            raise ValueError(f'n_centers="auto" needs rows X{labels} to choose by.')
        n_centers, path = choose_size(model, data, progress, **search)
    elif not isinstance(n_centers, Integral):
        n_centers = max(1, round(n_centers * model.expansion.n_centers))
    with progress.task("centers"):
        reduction = _reduced(model, int(n_centers), **search)
        projected = _projected(model, reduction.expansion)
    with progress.task("coefficients"):
        kind: Coefficients = "projected"
        small = trial = projected
        if data is not None:
            held_out, every = np.flatnonzero(data.is_held_out), np.arange(len(data.is_held_out))
            kind, C, trial = _choose_coefficients(model, projected, data, held_out)
            small = _with_coefficients(kind, C, model, projected, data, every)
        if model.kind == "classifier":
            temperature, offset = _probabilities(model, trial, data)
            small = replace(small, temperature=temperature, offset=offset)
    return small, Compression(
        centers_before=model.expansion.n_centers,
        centers_after=small.expansion.n_centers,
        bytes_before=_libsvm_bytes(model),
        bytes_after=small.expansion.nbytes,
        residual=reduction.residual,
        n_steps=max(1, len(reduction.residuals) - 2),  # less the start and the last refit
        coefficients=kind,
        converged=reduction.converged,
        path=path,
        kind=model.kind,
        **({} if data is None else _measured(model, small, data)),
    )


def _reduced(model: Model, n_centers: int, **search: Any) -> Reduction:
    """Few synthetic centers; targets of different units count alike."""
    expansion = model.expansion.mapped
    if model.kind != "regressor" or expansion.n_outputs == 1:
        return synthesize(expansion, n_centers, **search)
    norms = expansion.feature_norms()[:, None]
    norms[norms == 0] = 1.0
    kernel, centers = expansion.kernel, expansion.centers
    alike = KernelExpansion(kernel, centers, expansion.coef / norms, expansion.intercept)
    reduction = synthesize(alike, n_centers, **search)
    smaller = reduction.expansion
    return replace(reduction, expansion=replace(smaller, coef=smaller.coef * norms))


def _measured(model: Model, small: Model, data: ValidationData) -> dict[str, Any]:
    """The figures of a record that need rows."""
    if model.kind == "regressor":
        return _measured_numbers(model, small, data)
    codes = small.codes(small.expansion.mapped.decision_values(data.X))
    measured: dict[str, Any] = {
        "n_rows": len(codes),
        "agreement": float(np.mean(codes == data.original)),
    }
    if data.codes is not None:
        measured["accuracy_before"] = float(np.mean(data.original == data.codes))
        measured["accuracy_after"] = float(np.mean(codes == data.codes))
    if data.scorer is not None:
        every = np.arange(len(codes))
        measured["scoring"] = data.scorer.name
        measured["score_before"] = data.score(model, every).value
        measured["score_after"] = data.score(small, every).value
    return measured


def _measured_numbers(model: Model, small: Model, data: ValidationData) -> dict[str, Any]:
    every = np.arange(len(data.weights))
    outputs = data.outputs(small, every)
    deviations = _deviations(data.original, np.ones(len(every)))
    same = 1 - np.mean(_squares(outputs - data.original, deviations))
    measured: dict[str, Any] = {"n_rows": len(every), "agreement": float(same)}
    if data.quantiles is not None and data.targets is not None and data.scorer is None:
        y, weights = data.targets, data.weights
        sample_weight = None if (weights == weights[0]).all() else weights
        before, after = (
            quantile_score(y, machine.scores(values), data.quantiles, sample_weight)
            for machine, values in ((model, data.original), (small, outputs))
        )
        measured |= {"scoring": "D2", "score_before": before, "score_after": after}
    elif data.targets is not None:
        measured["scoring"] = "r2" if data.scorer is None else data.scorer.name
        measured["score_before"] = data.score(model, every).value
        measured["score_after"] = data.score(small, every).value
    return measured


def _probabilities(
    model: Model, trial: Model, data: ValidationData | None
) -> tuple[float | None, float]:
    """Temperature and offset of a smaller model, from one made without the held-out rows."""
    original, small = model.expansion.mapped, trial.expansion.mapped
    if data is None:
        if model.temperature is None:
            return None, 0.0
        if trial.expansion is model.expansion:  # which is small enough as it is
            return model.temperature, model.offset
        X = original.centers  # the only rows that are known
        targets = model.probabilities(original.decision_values(X))
        return reproduce(trial.class_scores(small.decision_values(X)), targets)
    held_out = data.is_held_out
    outputs = small.decision_values(data.X[held_out])
    if data.probabilities is not None:
        return reproduce(trial.class_scores(outputs), data.probabilities[held_out])
    if data.codes is None:
        return None, 0.0
    calibrated = calibrated_on(trial, outputs, data.codes[held_out], data.weights[held_out])
    return calibrated.temperature, 0.0


@single_thread()
def choose_size(
    model: Model, data: ValidationData, progress: Progress, **search: Any
) -> tuple[int, tuple[TriedSize, ...]]:
    """The smallest size on a geometric path that loses at most the standard error of its loss.

    Without y, one that loses little against the original itself.
    """
    path: list[TriedSize] = []
    for size in sizes_to_try(model):
        with progress.task(f"{size} centers"):
            path.append(TriedSize(size, *_judge(model, size, data, **search)))
        limit = max(path[-1].standard_error, data.accepted_loss)
        if path[-1].loss <= limit:  # false for a score that is not a number
            return size, tuple(path)
    last = path[-1]
    warn_user(
        f"{last.n_centers} centers, the largest number tried, lose {last.loss:.3f} of the "
        f"original's score on held-out rows, more than the standard error of that loss "
        f"({limit:.3f}): this machine does not compress. They are used all the same.",
        UserWarning,
    )
    return last.n_centers, tuple(path)


def sizes_to_try(model: Model) -> list[int]:
    """Powers of two times one center per class or target, up to half of the original."""
    n_outputs, sizes = model.expansion.n_outputs, []
    size = n_outputs if n_outputs == 1 or model.classes is None else len(model.classes)
    while 2 * size <= max(model.expansion.n_centers, 4):
        sizes.append(size)
        size *= 2
    return sizes or [max(1, model.expansion.n_centers // 2)]


def _judge(
    model: Model, n_centers: int, data: ValidationData, **search: Any
) -> tuple[float, float, float]:
    """Score of a size on rows that neither coefficients nor the choice of their kind have seen."""
    projected = _projected(model, _reduced(model, n_centers, **search).expansion)
    kind, C, _ = _choose_coefficients(model, projected, data, data.rows_to_choose())
    groups = data.groups_to_judge()
    small = [_with_coefficients(kind, C, model, projected, data, rows) for _, rows in groups]
    return data.judge(model, small, [group for group, _ in groups])


def _projected(model: Model, expansion: KernelExpansion) -> Model:
    """The model with an expansion from :func:`synthesize`, stored as the original is."""
    original = model.expansion
    if expansion.n_centers >= original.n_centers:  # it is as small as it can be
        return model
    if isinstance(original, QuantizedExpansion):
        rounded = _stored_as(original, expansion).mapped.centers.astype(np.float64)
        expansion = project(original.mapped, rounded)
    return replace(model, expansion=_stored_as(original, expansion))


def _stored_as(original: KernelExpansion, expansion: KernelExpansion) -> KernelExpansion:
    """An expansion behind the input map, and in the number formats, of another one."""
    if not isinstance(original, QuantizedExpansion):
        return replace(expansion, input_map=original.input_map)
    formats = {
        name: max(FORMATS[original.storage[name]], FORMATS[fewest], key=lambda f: f.bits)
        for name, fewest in _FEWEST_BITS.items()
    }
    return original.replaced(
        centers=encode(expansion.centers, formats["centers"]),
        coef=encode(expansion.coef, formats["coef"]),
        intercept=expansion.intercept.astype(original.intercept.dtype),
    )


def _choose_coefficients(
    model: Model, projected: Model, data: ValidationData, to_choose: Indices
) -> tuple[Coefficients, float, Model]:
    """The kind of coefficients, and C, that score best on some rows, made without the held-out."""
    kept = np.flatnonzero(~data.is_held_out)
    choices: list[tuple[Coefficients, float]] = [("projected", 0.0)]
    if projected.expansion.n_centers and len(kept):
        choices.append(("matched", 0.0))
        codes = data.codes if data.may_refit else None
        if codes is not None and len(np.unique(codes[kept])) == len(model.classes):
            choices += [("refit", C) for C in _REFIT_COSTS]
        if data.targets is not None and data.may_refit:
            choices += [("refit", 1 / ridge) for ridge in _REFIT_RIDGES]
    trials = [_with_coefficients(kind, C, model, projected, data, kept) for kind, C in choices]
    scores = [data.score(trial, to_choose).value for trial in trials]
    # Of equally good ones the smaller machine is taken, then the one that needs fewer data.
    best = max(range(len(trials)), key=lambda i: (scores[i], -trials[i].expansion.nbytes, -i))
    return (*choices[best], trials[best])


def _with_coefficients(
    kind: Coefficients,
    C: float,
    model: Model,
    projected: Model,
    data: ValidationData,
    rows: Indices,
) -> Model:
    """The machine over the centers of ``projected`` with coefficients made from some rows."""
    made = _of_kind(kind, C, model, projected, data, rows)
    return _with_equal_share(made, data, rows) if model.kind == "novelty" else made


def _with_equal_share(small: Model, data: ValidationData, rows: Indices) -> Model:
    """A novelty detector that flags as many of some rows as the original does.

    What is subtracted from the decision values is added to the offset: score_samples stay.
    """
    values = np.sort(data.outputs(small, rows)[:, 0])
    n_flagged = int(np.count_nonzero(data.original[rows] == 0))
    if np.count_nonzero(values < 0) == n_flagged or not 0 < n_flagged < len(values):
        return small
    shift = (values[n_flagged - 1] + values[n_flagged]) / 2
    expansion = copy(small.expansion)
    intercept = (expansion.intercept - shift).astype(expansion.intercept.dtype)
    object.__setattr__(expansion, "intercept", intercept)
    return replace(small, expansion=expansion, offset=small.offset + float(shift))


def _of_kind(
    kind: Coefficients,
    C: float,
    model: Model,
    projected: Model,
    data: ValidationData,
    rows: Indices,
) -> Model:
    if kind == "projected":
        return projected
    mapped, X = projected.expansion.mapped, data.X[rows]
    kernel, centers = mapped.kernel, mapped.centers
    if kind == "matched":
        values = model.expansion.mapped.decision_values(X)
        matched = match(kernel, centers, X, values)
        return replace(projected, expansion=_stored_as(model.expansion, matched))
    if data.targets is not None:
        weights = data.weights[rows] / (data.weights[rows].mean() or 1.0)
        values = data.targets[rows]
        fitted = match(kernel, centers, X, values, ridge=1 / C, weights=weights)
        return replace(projected, expansion=_stored_as(model.expansion, fitted))
    assert data.codes is not None
    signs = one_vs_rest_signs(data.codes[rows], np.arange(len(model.classes)))
    fitted = refit(kernel, centers, X, signs, C=C, weights=data.weights[rows])
    expansion = _stored_as(model.expansion, fitted)
    scheme: Scheme = "one output" if len(signs) == 1 else "one vs rest"
    return replace(projected, expansion=expansion, scheme=scheme, votes=False)


def _libsvm_bytes(model: Model) -> int:
    """Bytes of the original: LIBSVM stores n_classes - 1 coefficients per center for all pairs."""
    expansion = model.expansion
    if model.scheme != "one vs one":
        return expansion.nbytes
    extra = expansion.n_outputs - (len(model.classes) - 1)
    return expansion.nbytes - extra * expansion.n_centers * expansion.coef.itemsize
