"""Making a trained machine small: which coefficients, how many centers, and what it cost."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from kernlet.estimators.adopt import Adopted, Scheme
from kernlet.estimators.votes import predicted_codes
from kernlet.kernels.columns import Indices
from kernlet.kernels.kernel import Floats
from kernlet.problems.labels import one_vs_rest_signs
from kernlet.reduce import match, refit, synthesize

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


@dataclass(frozen=True, eq=False)
class Evidence:
    """Rows in front of the expansion, the class numbers of the original, and those of y.

    ``codes`` is None without y; ``validation`` marks the rows on which choices are made.
    """

    X: Any
    original: Indices
    codes: Indices | None
    validation: Any

    @property
    def target(self) -> Indices:
        """What a smaller machine should predict: y, or the original where there is none."""
        return self.original if self.codes is None else self.codes


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
    *,
    n_starts: int,
    max_iter: int,
    random_state: np.random.RandomState,
) -> tuple[Adopted, Compression]:
    """A machine of few synthetic centers in place of an adopted one.

    With rows to look at, the coefficients that do best on the validation part are taken.

    Parameters
    ----------
    adopted : Adopted
    n_centers : int
    evidence : Evidence or None
    n_starts, max_iter : int
    random_state : RandomState

    Returns
    -------
    smaller : Adopted
    compression : Compression
    """
    reduction = synthesize(
        adopted.expansion,
        n_centers,
        n_starts=n_starts,
        max_iter=max_iter,
        random_state=random_state,
    )
    projected = replace(adopted, expansion=reduction.expansion)
    kind: Coefficients = "projected"
    smaller = projected
    if evidence is not None:
        kind, smaller = _best(adopted, projected, evidence)
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


def _best(adopted: Adopted, projected: Adopted, evidence: Evidence) -> tuple[Coefficients, Adopted]:
    """The kind of coefficients that validates best, made again with all rows."""
    fit = np.flatnonzero(~evidence.validation)
    check = np.flatnonzero(evidence.validation)
    scores = [
        np.mean(predict_codes(trial, evidence.X[check]) == evidence.target[check])
        for _, trial in _trials(adopted, projected, evidence, fit)
    ]
    everything = np.arange(len(evidence.validation))
    return list(_trials(adopted, projected, evidence, everything))[int(np.argmax(scores))]


def _trials(
    adopted: Adopted, projected: Adopted, evidence: Evidence, rows: Indices
) -> Iterator[tuple[Coefficients, Adopted]]:
    """The same centers with each kind of coefficients, made from some rows."""
    yield "projected", projected
    kernel, centers, X = projected.expansion.kernel, projected.expansion.centers, evidence.X[rows]
    values = adopted.expansion.decision_values(X)
    yield "matched", replace(projected, expansion=match(kernel, centers, X, values))
    if evidence.codes is not None and len(np.unique(evidence.codes[rows])) == len(adopted.classes):
        numbers = np.arange(len(adopted.classes))
        signs = one_vs_rest_signs(evidence.codes[rows], numbers)
        scheme: Scheme = "one output" if len(numbers) == 2 else "one vs rest"
        for C in _REFIT_COSTS:
            expansion = refit(kernel, centers, X, signs, C=C)
            yield "refit", replace(projected, expansion=expansion, scheme=scheme, votes=False)


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
    size, sizes = max(2, len(adopted.classes)), []
    while 2 * size <= max(adopted.expansion.n_centers, 4):
        sizes.append(size)
        size *= 2
    return sizes or [max(1, adopted.expansion.n_centers // 2)]


def validated_score(smaller: Adopted, evidence: Evidence) -> float:
    """Share of the validation rows predicted as wanted."""
    check = np.flatnonzero(evidence.validation)
    return _share(predict_codes(smaller, evidence.X[check]), evidence.target[check])


def standard_error(score: float, n_rows: int) -> float:
    """Of a share measured on that many rows."""
    return float(np.sqrt(max(score * (1 - score), 1e-12) / max(1, n_rows)))


def original_score(evidence: Evidence) -> tuple[float, float]:
    """The original's share of right validation rows, and its standard error."""
    check = evidence.validation
    score = _share(evidence.original[check], evidence.target[check])
    return score, standard_error(score, int(check.sum()))


def as_floats(X: Any) -> Floats:
    """Rows as floats, sparse ones by rows."""
    if hasattr(X, "tocsr"):
        return X.tocsr()
    array = np.asarray(X)
    return array if array.dtype in (np.float32, np.float64) else array.astype(np.float64)
