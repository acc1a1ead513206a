"""Compressing an expansion to few centers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal

import numpy as np

from kernlet._typing import Floats, Indices
from kernlet.compression.refit import match, refit
from kernlet.compression.synthetic import synthesize
from kernlet.model.model import Adopted, Scheme, predicted_codes
from kernlet.sklearn_base import one_vs_rest_signs


@dataclass(frozen=True, eq=False)
class Evidence:
    """Rows by which a smaller machine is made and chosen.

    Parameters
    ----------
    X : {ndarray, sparse matrix}
        Rows as the expansion takes them, behind the preprocessing.
    original : ndarray of shape (n_rows,)
        Class numbers that the original predicts.
    codes : ndarray of shape (n_rows,) or None
        Class numbers of y.
    weights : ndarray of shape (n_rows,)
    validation : ndarray of bool of shape (n_rows,)
        The rows on which choices are made.
    may_refit : bool
        Whether coefficients may be fitted to y: not where the original weighs the rows in a way
        that is not known here.
    """

    X: Any
    original: Indices
    codes: Indices | None
    weights: Floats
    validation: Any
    may_refit: bool

    @property
    def target(self) -> Indices:
        """What a smaller machine should predict: y, or the original where there is none."""
        return self.original if self.codes is None else self.codes

    def score(self, codes: Indices, rows: Indices) -> float:
        """Weighted share of some rows that are predicted as wanted."""
        return float(np.average(codes == self.target[rows], weights=self.weights[rows]))


def halves(evidence: Evidence) -> tuple[Indices, Indices]:
    """The validation rows, one half to choose by and one to judge by."""
    check = np.flatnonzero(evidence.validation)
    return (check[::2], check[1::2]) if len(check) > 1 else (check, check)


def original_score(evidence: Evidence) -> tuple[float, float]:
    """The original's score on the rows to judge by, and its standard error."""
    _, to_judge = halves(evidence)
    score = evidence.score(evidence.original[to_judge], to_judge)
    n = len(to_judge)
    share = (n * score + 1) / (n + 2)  # a perfect score on few rows is not certain
    return score, float(np.sqrt(share * (1 - share) / n))


def weighs_classes(model: Any) -> bool:
    """Whether a class_weight, which is not known here row by row, shaped the model."""
    parameters = model.get_params() if hasattr(model, "get_params") else {}
    return any(
        name.endswith("class_weight") and value is not None for name, value in parameters.items()
    )


Coefficients = Literal["projected", "matched", "refit"]
_REFIT_COSTS = (1.0, 10.0, 100.0)


@dataclass(frozen=True)
class PathPoint:
    """A number of centers that was tried, and its score on the validation part."""

    n_centers: int
    score: float


@dataclass(frozen=True)
class Compression:
    """What a compression did.

    Parameters
    ----------
    centers_before, centers_after : int
    bytes_before, bytes_after : int
        Of centers, coefficients and intercepts in the precision they are held in; before, with
        the coefficients as LIBSVM keeps them.
    residual : float
        Relative residual of the projected machine in feature space.
    n_steps : int
        Steps of the search for centers; 1 where there is nothing to search for.
    coefficients : {"projected", "matched", "refit"}
        Where those of the smaller machine come from: the projection in feature space, least
        squares onto the decision values of the original on X, or a squared-hinge fit to y, one
        class against the rest.
    agreement : float or None
        Share of the rows of X on which both predict the same.
    accuracy_before, accuracy_after : float or None
        On X, y: optimistic where these were trained on.
    path : tuple of PathPoint
        The numbers of centers tried by ``n_centers="auto"``.
    """

    centers_before: int
    centers_after: int
    bytes_before: int
    bytes_after: int
    residual: float
    n_steps: int
    coefficients: Coefficients
    agreement: float | None = None
    accuracy_before: float | None = None
    accuracy_after: float | None = None
    path: tuple[PathPoint, ...] = ()


def predict_codes(adopted: Adopted, X: Any) -> Indices:
    """Class numbers for rows that have gone through the preprocessing."""
    return predicted_codes(
        adopted.expansion.decision_values(X),
        adopted.scheme,
        len(adopted.classes),
        adopted.votes,
        adopted.break_ties,
    )


def shrink(
    adopted: Adopted,
    n_centers: int,
    evidence: Evidence | None,
    **search: Any,
) -> tuple[Adopted, Compression]:
    """A machine of few synthetic centers in place of an adopted one.

    With rows to look at, the coefficients that do best on the validation part are taken.

    Parameters
    ----------
    adopted : Adopted
    n_centers : int
    evidence : Evidence or None
    **search : dict
        ``n_starts``, ``max_iter`` and ``random_state`` of the search for centers.

    Returns
    -------
    smaller : Adopted
    compression : Compression
    """
    reduction = synthesize(adopted.expansion, n_centers, **search)
    projected = replace(adopted, expansion=reduction.expansion)
    kind: Coefficients = "projected"
    smaller = projected
    if evidence is not None:
        kind, make, _ = _choose(adopted, projected, evidence, np.flatnonzero(evidence.validation))
        smaller = make(np.arange(len(evidence.validation)))
    agreement, before, after = _shares(smaller, evidence)
    compression = Compression(
        centers_before=adopted.expansion.n_centers,
        centers_after=smaller.expansion.n_centers,
        bytes_before=_stored_bytes(adopted),
        bytes_after=smaller.expansion.nbytes,
        residual=reduction.residual,
        n_steps=max(1, len(reduction.residuals) - 2),
        coefficients=kind,
        agreement=agreement,
        accuracy_before=before,
        accuracy_after=after,
    )
    return smaller, compression


def judge(adopted: Adopted, n_centers: int, evidence: Evidence, **search: Any) -> float:
    """Score of a number of centers on rows that neither coefficients nor their kind have seen."""
    expansion = synthesize(adopted.expansion, n_centers, **search).expansion
    projected = replace(adopted, expansion=expansion)
    to_choose, to_judge = halves(evidence)
    *_, trial = _choose(adopted, projected, evidence, to_choose)
    return evidence.score(predict_codes(trial, evidence.X[to_judge]), to_judge)


Maker = Callable[[Indices], Adopted]


def _choose(
    adopted: Adopted, projected: Adopted, evidence: Evidence, check: Indices
) -> tuple[Coefficients, Maker, Adopted]:
    """The kind of coefficients that does best on some rows, made without the validation part.

    Of equally good ones the smaller machine is taken.
    """
    fit = np.flatnonzero(~evidence.validation)
    makers = list(_makers(adopted, projected, evidence, fit))
    trials = [make(fit) for _, make in makers]
    scores = [evidence.score(predict_codes(t, evidence.X[check]), check) for t in trials]
    best = max(range(len(trials)), key=lambda i: (scores[i], -trials[i].expansion.nbytes, -i))
    return (*makers[best], trials[best])


def _makers(
    adopted: Adopted, projected: Adopted, evidence: Evidence, fit: Indices
) -> Iterator[tuple[Coefficients, Maker]]:
    """Each kind of coefficients for the same centers, to be made from some rows."""
    kernel, centers = projected.expansion.kernel, projected.expansion.centers
    yield "projected", lambda rows: projected
    if not projected.expansion.n_centers or not len(fit):
        return

    def matched(rows: Indices) -> Adopted:
        values = adopted.expansion.decision_values(evidence.X[rows])
        return replace(projected, expansion=match(kernel, centers, evidence.X[rows], values))

    yield "matched", matched
    numbers = np.arange(len(adopted.classes))
    codes = evidence.codes
    if codes is None or not evidence.may_refit or len(np.unique(codes[fit])) < len(numbers):
        return
    scheme: Scheme = "one output" if len(numbers) == 2 else "one vs rest"

    def refitted(rows: Indices, C: float) -> Adopted:
        signs = one_vs_rest_signs(codes[rows], numbers)
        X, weights = evidence.X[rows], evidence.weights[rows]
        expansion = refit(kernel, centers, X, signs, C=C, weights=weights)
        return replace(projected, expansion=expansion, scheme=scheme, votes=False)

    for C in _REFIT_COSTS:
        yield "refit", partial(refitted, C=C)


def _shares(
    smaller: Adopted, evidence: Evidence | None
) -> tuple[float | None, float | None, float | None]:
    """Agreement with the original, and the accuracy of both, as far as they can be known."""
    if evidence is None:
        return None, None, None
    codes = predict_codes(smaller, evidence.X)
    agreement = _share(codes, evidence.original)
    if evidence.codes is None:
        return agreement, None, None
    return agreement, _share(evidence.original, evidence.codes), _share(codes, evidence.codes)


def _share(codes: Indices, others: Indices) -> float:
    return float(np.mean(codes == others))


def _stored_bytes(adopted: Adopted) -> int:
    """Bytes of the original: LIBSVM keeps n_classes - 1 coefficients a center for all pairs."""
    expansion = adopted.expansion
    if adopted.scheme != "one vs one":
        return expansion.nbytes
    spare = expansion.n_outputs - (len(adopted.classes) - 1)
    return expansion.nbytes - spare * expansion.n_centers * expansion.coef.itemsize


def sizes_to_try(adopted: Adopted) -> list[int]:
    """A geometric path of numbers of centers, from one a class to half of the original."""
    size, sizes = 1 if adopted.expansion.n_outputs == 1 else len(adopted.classes), []
    while 2 * size <= max(adopted.expansion.n_centers, 4):
        sizes.append(size)
        size *= 2
    return sizes or [max(1, adopted.expansion.n_centers // 2)]
