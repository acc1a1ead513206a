"""Shapley values of a trained machine, exact where the kernel is a product over the features."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from sklearn.utils import check_random_state

from kernlet._typing import Floats, Indices
from kernlet.affine import AffineMap, CurvedMap
from kernlet.expansion import KernelExpansion
from kernlet.explain.products import ProductGame
from kernlet.explain.sampled import (
    MovedGame,
    all_coalitions,
    has_few_coalitions,
    permutations,
    sampled_values,
)
from kernlet.extras import require
from kernlet.kernels.gram import as_dense
from kernlet.kernels.linear import Linear
from kernlet.model.model import Model, as_model
from kernlet.tables.encode import column_names, has_columns, listed
from kernlet.threads import single_thread

_EPS = float(np.finfo(np.float64).eps)
# Of a mixture of Gaussians: the least and the largest error that is asked for, as a share of k.
_MIXTURE_ERRORS = 1e-13, 1e-6


@dataclass(frozen=True, eq=False)
class Explanation:
    """Shapley values, and how far they may be off.

    ``values[i, e, c]`` is what player e (a feature, a column of a table or a group of them) adds to
    output c of row i: values of a row sum to its output less ``base_values[c]``.

    Parameters
    ----------
    values : ndarray of shape (n_rows, n_players, n_outputs)
        The Shapley values.
    base_values : ndarray of shape (n_outputs,)
        Mean outputs of the background rows.
    data : ndarray of shape (n_rows, n_players)
        The explained rows: numbers or cells; NaN for a group of several columns.
    feature_names : tuple of str
        Names of the players.
    output_names : tuple of str
        Classes, or names of what a regressor predicts.
    error : ndarray of shape (n_rows, n_players, n_outputs)
        How far each value may be off.
    error_kind : {"bound", "standard error"}
        Whether no value is off by more than ``error``, or values are estimates from random
        permutations, and ``error`` is their standard error.

    Examples
    --------
    >>> import numpy as np
    >>> from kernlet import KernelExpansion, shapley_values
    >>> from kernlet.kernels.rbf import RBF
    >>> f = KernelExpansion(RBF(1.0), np.zeros((1, 2)), np.array([[1.0]]), np.zeros(1))
    >>> explanation = shapley_values(f, np.array([[1.0, 0.0]]), np.array([[0.0, 2.0]]))
    >>> explanation.values[0, :, 0].round(3), explanation.importance()[:, 0].round(3)
    (array([-0.322,  0.671]), array([0.322, 0.671]))
    """

    values: Floats
    base_values: Floats
    data: Any
    feature_names: tuple[str, ...]
    output_names: tuple[str, ...]
    error: Floats
    error_kind: Literal["bound", "standard error"]

    def __repr__(self) -> str:
        names = ("row", "feature", "output")
        sizes = zip(self.values.shape, names, strict=True)
        shape = ", ".join(f"{size} {name}{'s' * (size != 1)}" for size, name in sizes)
        return f"Explanation({shape}; {self.error_kind} at most {self.error.max(initial=0.0):.1e})"

    def importance(self) -> Floats:
        """Mean absolute values over the rows, of shape (n_players, n_outputs)."""
        return np.abs(self.values).mean(axis=0)

    def to_shap(self) -> Any:
        """The values as a ``shap.Explanation``, for the plots of that package."""
        shap = require("shap", "Explanation.to_shap", "bench")
        one = len(self.output_names) == 1
        base = np.tile(self.base_values, (len(self.values), 1))
        return shap.Explanation(
            self.values[:, :, 0] if one else self.values,
            base_values=base[:, 0] if one else base,
            data=self.data,
            feature_names=list(self.feature_names),
            output_names=None if one else list(self.output_names),
        )

    def plot(self, *, ax: Any = None, max_features: int = 20) -> Any:
        """Draw the importance of the features, stacked over the outputs, into matplotlib axes."""
        plt = require("matplotlib.pyplot", "Explanation.plot", "plot")
        if ax is None:
            _, ax = plt.subplots(layout="constrained")
        importance = self.importance()
        order = np.argsort(-importance.sum(axis=1), kind="stable")[:max_features][::-1]
        left = np.zeros(len(order))
        names = [self.feature_names[player].replace("$", r"\$") for player in order]
        for output, column in zip(self.output_names, importance.T, strict=True):
            ax.barh(names, column[order], left=left, label=output)
            left += column[order]
        ax.set_xlabel("mean |Shapley value|")
        if len(self.output_names) > 1:
            ax.legend(loc="lower right")
        return ax


def shapley_values(
    model: Any,
    X: Any,
    background: Any,
    *,
    groups: Mapping[str, Sequence[int | str]] | None = None,
    tol: float = 1e-10,
    n_permutations: int = 500,
    random_state: Any = None,
) -> Explanation:
    """What each feature adds to the outputs of a machine: interventional Shapley values.

    The value of a feature is what the output gains, on average, when it takes the number of the
    explained row instead of that of a background row, over all orders in which features may do so.
    The values of a row sum to its output less the mean output of the background.

    They are exact for the kernels rbf (any widths), laplacian, rational_quadratic and linear,
    also behind scalers, asinh and step maps. Behind a matrix that mixes features (a projection,
    PCA), and for other kernels, they are estimates from random permutations with a standard error,
    unless there are so few features that all coalitions can be tried.

    Parameters
    ----------
    model : Model, fitted estimator, KernelExpansion, or the path of a LIBSVM model file
        Whatever :func:`kernlet.save` takes. A classifier is explained by its scores: one for two
        classes, positive for the second; else one per class; of one machine per pair of classes
        (SVC) the sum of the outputs in favour of each class. A regressor of several quantiles is
        explained by its outputs before they are sorted: the values sum to those, which differ from
        ``predict`` in rows where quantiles cross.
    X : array-like or table of shape (n_rows, n_features)
        The rows to explain, as ``predict`` takes them; without missing values where
        ``missing="distance"``.
    background : array-like or table of shape (n_background, n_features)
        What features are compared with: about 100 typical rows, such as a random sample of the
        training rows. Time grows with their number.
    groups : dict, default=None
        Features that are explained together, by name: ``{"place": ["latitude", "longitude"]}``,
        features by name or number. Others stay alone. Without it the columns of a table are
        explained, each with all its categories, or else the features.
    tol : float, default=1e-10
        Largest error of exact values, as a share of the output's deviation over the background (or
        of the row's distance from its mean, if larger). With 0 nothing but round-off remains.
    n_permutations : int, default=500
        Of estimates: random orders, each used forwards and backwards; rounded up to the same
        number for each background row, at least two. Ignored where values are exact.
    random_state : int, RandomState instance or None, default=None
        Of estimates.

    Returns
    -------
    explanation : Explanation

    Notes
    -----
    Exact values take time proportional to rows x background x centers x features x nodes, where
    nodes are at most half the features and usually about 8; estimates rows x permutations x
    features x centers. Memory is a few megabytes beside the result.

    References
    ----------
    Mohammadi, Chau, Muandet (2025), "Computing exact Shapley values in polynomial time for
    product-kernel methods", arXiv 2505.16516. Lundberg, Lee (2017), "A unified approach to
    interpreting model predictions". Owen (1972), "Multilinear extensions of games".

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.svm import SVC
    >>> from kernlet import shapley_values
    >>> X, y = load_iris(return_X_y=True, as_frame=True)
    >>> explanation = shapley_values(SVC().fit(X, y), X[:50], X[::3])
    >>> for name, value in zip(explanation.feature_names, explanation.importance()[:, 0]):
    ...     print(f"{name}: {value:.2f}")
    sepal length (cm): 0.14
    sepal width (cm): 0.18
    petal length (cm): 2.17
    petal width (cm): 0.43
    >>> explanation.error_kind, bool(explanation.error.max() < 1e-10)
    ('bound', True)
    """
    if background is None:
        raise ValueError(
            "background is None: give rows to compare with, about 100 typical ones, such as a "
            "random sample of the training rows."
        )
    if not (isinstance(tol, int | float | np.number) and float(tol) >= 0):
        raise ValueError(f"tol={tol!r} must be a number of at least 0.")
    if not (isinstance(n_permutations, int | np.integer) and n_permutations >= 1):
        raise ValueError(f"n_permutations={n_permutations!r} must be an integer of at least 1.")
    machine = as_model(model)
    rows, others = _rows(machine, X, "X"), _rows(machine, background, "background")
    options = {"tol": tol, "n_permutations": n_permutations, "random_state": random_state}
    return explain_rows(machine, rows, others, groups=groups, table=X, **options)


def explain_rows(
    model: Model,
    rows: Floats,
    others: Floats,
    *,
    groups: Mapping[str, Sequence[int | str]] | None = None,
    table: Any = None,
    tol: float = 1e-10,
    n_permutations: int = 500,
    random_state: Any = None,
) -> Explanation:
    """:func:`shapley_values` of encoded rows; ``table`` has their cells, for ``data``."""
    players = _Players.of(model, groups)
    refuse_missing(model, rows, "X")
    refuse_missing(model, others, "background")
    # rows far away overflow on the way to a kernel of 0
    with single_thread(), np.errstate(over="ignore", invalid="ignore"):
        outputs = np.asarray(model.outputs(rows), dtype=np.float64)
        with _errors_in("background"):
            other_outputs = np.asarray(model.outputs(others), dtype=np.float64)
        to_scores = _scores(model)
        base = other_outputs.mean(axis=0) @ to_scores
        spread = (other_outputs @ to_scores).std(axis=0)
        far = np.maximum(spread, np.abs(outputs @ to_scores - base))
        parts = _Parts.of(model, to_scores)
        explained = parts.explained(rows, others, players, tol * far)
        kind: Literal["bound", "standard error"] = "bound"
        if explained is None:
            explained, kind = parts.estimated(rows, others, players, n_permutations, random_state)
    values, error = explained
    is_finite = (np.isfinite(values) & ~np.isnan(error)).all(axis=(1, 2))
    if not is_finite.all():
        raise ValueError(
            f"Row {int(is_finite.argmin())} of X, counted from 0, or the background overflows, so "
            "that it has no Shapley values: scale the features, for example with a StandardScaler "
            "in front."
        )
    names = _output_names(model, values.shape[2])
    data = players.data(model, table, rows)
    return Explanation(values, base, data, players.names, names, error, kind)


def refuse_missing(model: Model, rows: Floats, what: str) -> None:
    """Refuse missing features of encoded rows where distances leave them out.

    Distances are rescaled by how many features are present: the kernel is not a product then.
    """
    if not model.expansion.skips_missing:
        return
    lacking = np.flatnonzero(np.isnan(rows).any(axis=1))
    if len(lacking):
        are = "row lacks a value" if len(lacking) == 1 else "rows lack values"
        raise ValueError(
            f"{len(lacking)} {are} in {what}, first row {lacking[0]}, counted from 0, and a "
            'machine with missing="distance" has Shapley values of complete rows only: drop such '
            'rows, or train with missing="median".'
        )


def _rows(model: Model, table: Any, what: str) -> Floats:
    """Validated rows of X or of the background."""
    with _errors_in(what):
        _check_names(model, table, what)
        return as_dense(model.rows(table)).astype(np.float64, copy=False)


@contextmanager
def _errors_in(what: str) -> Iterator[None]:
    """Let errors about rows name the table that they are in."""
    try:
        yield
    except ValueError as error:
        if str(error).startswith("Found array with 0 sample"):
            raise ValueError(f"{what} has no rows: give at least one.") from None
        if what == "X":
            raise
        message = re.sub(r"(?<![\w'])X(?![\w'])", what, str(error))
        raise ValueError(message if what in message else f"In {what}: {message}") from None


def _check_names(model: Model, table: Any, what: str) -> None:
    """Refuse named columns that are not those of the training, in their order, as predict does."""
    names = model.feature_names
    if model.encoding is not None or names is None or not has_columns(table):
        return  # an encoding takes its columns by name
    given = list(column_names(table))
    if given == list(names) or not all(isinstance(name, str) for name in given):
        return
    lacking = [name for name in names if name not in set(given)]
    unknown = [name for name in given if name not in set(names)]
    if lacking:
        raise ValueError(
            f"{what} lacks {listed(lacking)}; the machine was trained on {listed(names)}."
        )
    if unknown:
        raise ValueError(
            f"{what} has {listed(unknown)}, which the machine was not trained on: it takes "
            f"{listed(names)}."
        )
    raise ValueError(
        f"{what} has its columns in another order than the machine was trained on: it takes "
        f"{listed(names)}."
    )


def _scores(model: Model) -> Floats:
    """The matrix from outputs of the expansion to what is explained."""
    one_each = np.eye(model.expansion.n_outputs)
    if model.kind != "classifier":
        return one_each
    # scores of classes are linear in the outputs, unlike votes
    return model.class_scores(one_each).reshape(len(one_each), -1)


def _output_names(model: Model, n_outputs: int) -> tuple[str, ...]:
    if model.kind == "classifier":
        classes = [str(label) for label in model.classes]
        return tuple(classes if len(classes) == n_outputs else classes[-1:])
    if len(model.output_labels) == n_outputs:
        return model.output_labels
    if n_outputs == 1:
        return ({"regressor": "prediction", "novelty": "score"}.get(model.kind, "output"),)
    return tuple(f"output {number}" for number in range(n_outputs))


# -- Players -----------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class _Players:
    """Features, columns or groups of them, and to which of them each feature belongs."""

    names: tuple[str, ...]
    owner: Indices  # of each feature of a row
    columns: tuple[Any, ...]  # the only column (or feature) of each player; None of a group

    @classmethod
    def of(cls, model: Model, groups: Mapping[str, Sequence[int | str]] | None) -> _Players:
        """Columns of the table or features, those of a group together."""
        if model.encoding is None:
            names = model.feature_names or tuple(f"x{i}" for i in range(model.n_features))
            column_of = np.arange(model.n_features)
        else:
            names = model.encoding.names
            place = {name: number for number, name in enumerate(names)}
            owners = [place[c.name] for c in model.encoding.columns for _ in c.features]
            column_of = np.array(owners, dtype=np.intp)
        names = tuple(str(name) for name in names)
        members = _members(groups, names)
        group_of = {number: group for group, numbers in members.items() for number in numbers}
        players: dict[tuple[str, Any], list[int]] = {}
        for number in range(len(names)):
            group = group_of.get(number)
            key = ("column", number) if group is None else ("group", group)
            players.setdefault(key, []).append(number)
        player_of = np.empty(len(names), dtype=np.intp)
        for player, numbers in enumerate(players.values()):
            player_of[numbers] = player
        return cls(
            tuple(names[name] if kind == "column" else name for kind, name in players),
            player_of[column_of],
            tuple(numbers[0] if len(numbers) == 1 else None for numbers in players.values()),
        )

    def data(self, model: Model, X: Any, rows: Floats) -> Any:
        """The cells of the explained rows, by player."""
        if model.encoding is None:
            cells = [np.full(len(rows), np.nan) if c is None else rows[:, c] for c in self.columns]
            return np.stack(cells, axis=1)
        if X is None:
            return np.full((len(rows), len(self.names)), np.nan)
        table, columns = model.encoding.column_cells(X), model.encoding.columns
        number_of: dict[str, int] = {}
        for number, column in enumerate(columns):
            number_of.setdefault(column.name, number)
        names = model.encoding.names
        data = np.full((len(rows), len(self.names)), np.nan, dtype=object)
        for player, column in enumerate(self.columns):
            if column is not None:
                cells = table(number_of[names[column]])
                data[:, player] = cells.to_pylist() if hasattr(cells, "to_pylist") else cells
        return data


def _members(
    groups: Mapping[str, Sequence[int | str]] | None, names: Sequence[str]
) -> dict[str, list[int]]:
    """The numbers of the columns of each group, checked."""
    if groups is None:
        return {}
    if not isinstance(groups, Mapping):
        raise TypeError(
            "groups must be a dict from the name of a group to its features, such as "
            f'{{"place": ["latitude", "longitude"]}}, not {type(groups).__name__}.'
        )
    place = {name: i for i, name in enumerate(names)}
    members: dict[str, list[int]] = {}
    seen: dict[int, str] = {}
    for group, features in groups.items():
        if isinstance(features, str) or not isinstance(features, Iterable) or not len(features):
            raise ValueError(
                f"Group {group!r} must be a list of at least one feature, not {features!r}."
            )
        if str(group) in members:
            raise ValueError(f"Two groups have the name {str(group)!r}: rename one.")
        numbers: list[int] = []
        for feature in features:
            is_number = isinstance(feature, int | np.integer) and not isinstance(feature, bool)
            if not is_number and not isinstance(feature, str):
                raise TypeError(
                    f"Group {group!r} has the feature {feature!r}, which is neither a name nor a "
                    "number counted from 0."
                )
            number = place.get(feature) if isinstance(feature, str) else int(feature)
            if number is None or not 0 <= number < len(names):
                raise ValueError(
                    f"Group {group!r} has the feature {feature!r}, which the model lacks: it has "
                    f"{len(names)}, from {names[0]!r} to {names[-1]!r}."
                )
            if number in numbers:
                raise ValueError(f"Group {group!r} has the feature {names[number]!r} twice.")
            if number in seen:
                raise ValueError(
                    f"Feature {names[number]!r} is in the groups {seen[number]!r} and {group!r}: "
                    "leave it in one."
                )
            seen[number] = group
            numbers.append(number)
        members[str(group)] = numbers
    for group in members:
        if place.get(group, -1) not in {-1, *seen}:
            raise ValueError(
                f"Group {group!r} has the name of a feature that is in no group: rename the group."
            )
    return members


# -- The machine as a game ---------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class _Parts:
    """f(x) = coef k(matrix h(x) + offset, centers), where h maps each feature by itself.

    The features that h takes are those of a row; without a matrix it is the identity.
    """

    maps: tuple[AffineMap, ...]
    matrix: Floats | None
    offset: Floats
    expansion: KernelExpansion  # over its coordinates, with the scores that are explained

    @classmethod
    def of(cls, model: Model, to_scores: Floats) -> _Parts:
        given = model.expansion
        expansion = KernelExpansion(
            given.kernel,
            as_dense(given.centers).astype(np.float64),
            to_scores.T @ given.coef.astype(np.float64),
            to_scores.T @ given.intercept.astype(np.float64),
        )
        first, then = model.scaler, given.input_map
        if first is None or first.matrix is None:
            maps = [each for each in (first, then) if each is not None]
            alone = tuple(replace(each, matrix=None) for each in maps)
            matrix = None if then is None or then.matrix is None else then.matrix
            matrix = None if matrix is None else matrix.astype(np.float64)
            return cls(alone, matrix, np.zeros(1), expansion)
        matrix, offset = first.matrix.astype(np.float64), np.zeros(1)
        if isinstance(then, CurvedMap):
            raise ValueError(
                "The machine has an asinh or steps behind a PCA or another matrix, whose features "
                "cannot be told apart there: explain pipeline[-1] on transformed rows."
            )
        if then is not None:
            scale = np.broadcast_to(then.scale.astype(np.float64), len(matrix))
            matrix, offset = scale[:, None] * matrix, -scale * then.shift
            if then.matrix is not None:
                last = then.matrix.astype(np.float64)
                matrix, offset = last @ matrix, last @ offset
        return cls((replace(first, matrix=None),), matrix, offset, expansion)

    def features(self, X: Floats) -> Floats:
        """h(x), each feature by itself."""
        for each in self.maps:
            X = each(X)
        return X

    def coordinates(self, H: Floats) -> Floats:
        """What the kernel takes."""
        return (H if self.matrix is None else H @ self.matrix.T) + self.offset

    def explained(
        self, X: Floats, background: Floats, players: _Players, allowed: Floats
    ) -> tuple[Floats, Floats] | None:
        """Exact values with their bounds; None where there is no formula."""
        H, other = self.features(X), self.features(background)
        if isinstance(self.expansion.kernel, Linear):
            return self._linear(H, other, players)
        owner = self._owner_of_coordinates(players.owner)
        coef = self.expansion.coef
        sizes = np.abs(coef).sum(axis=1)
        share = (allowed / np.maximum(4 * sizes, np.finfo(float).tiny)).min(initial=1.0)
        parts = self.expansion.kernel.as_products(float(np.clip(share, *_MIXTURE_ERRORS)))
        if owner is None or parts is None:
            return None
        order = np.argsort(owner, kind="stable")
        U, other = self.coordinates(H)[:, order], self.coordinates(other)[:, order]
        centers, (products, left_out) = self.expansion.centers[:, order], parts
        n_players = len(players.names)
        values = np.zeros((len(U), n_players, len(coef)))
        errors = np.zeros_like(allowed)
        for weight, kernel in products:
            game = ProductGame(kernel, centers, weight * coef, owner[order], n_players)
            part, bound = game.values(U, other, allowed / (2 * len(products)))
            values += part
            errors += bound
        # A value is a mean of differences of two outputs, each off by what the sum leaves out.
        errors += 2 * left_out * sizes + _rounding(n_players, self.expansion, U, other)
        return values, np.repeat(errors[:, None], n_players, axis=1)

    def _owner_of_coordinates(self, owner: Indices) -> Indices | None:
        """The player of each coordinate; None where one belongs to several."""
        if self.matrix is None:
            return owner
        owners = np.zeros(len(self.matrix), dtype=np.intp)
        for number, row in enumerate(self.matrix):
            present = np.unique(owner[row != 0])
            if len(present) > 1:
                return None
            owners[number] = present[0] if len(present) else 0  # the same for all rows
        return owners

    def _linear(self, H: Floats, other: Floats, players: _Players) -> tuple[Floats, Floats]:
        """Values of a linear function: its coefficients times the distances from the means."""
        slopes = self.expansion.coef @ self.expansion.centers
        slopes = slopes if self.matrix is None else slopes @ self.matrix
        terms = (H - other.mean(axis=0))[:, :, None] * slopes.T
        belongs = np.zeros((len(players.names), H.shape[1]))
        belongs[players.owner, np.arange(H.shape[1])] = 1.0
        values = belongs @ terms
        largest = np.maximum(np.abs(H), np.abs(other).max(axis=0)) @ np.abs(slopes.T)
        error = 4 * (len(other) + len(players.owner)) * _EPS * largest
        return values, np.repeat(error[:, None], len(players.names), axis=1)

    def estimated(
        self,
        X: Floats,
        background: Floats,
        players: _Players,
        n_permutations: int,
        random_state: Any,
    ) -> tuple[tuple[Floats, Floats], Literal["bound", "standard error"]]:
        """Values by all coalitions of few players, or by permutations, and their errors."""
        H, other = self.features(X), self.features(background)
        U, n_players = self.coordinates(other), len(players.names)
        expansion = self.expansion
        game = MovedGame(
            expansion.decision_values,
            self.matrix,
            players.owner,
            n_players,
            expansion.n_outputs,
            expansion.n_centers,
        )
        n_per_row = max(2, -(-n_permutations // len(other)))
        if has_few_coalitions(n_players, n_per_row):
            values = np.stack([all_coalitions(game, h, other, U) for h in H])
            sizes = np.abs(expansion.decision_values(np.concatenate([U, self.coordinates(H)])))
            error = np.full(values.shape, 64 * n_players * _EPS) * (1 + sizes.max(axis=0))
            return (values, error), "bound"
        random = check_random_state(random_state)
        orders = permutations(n_players, len(other), n_per_row, random)
        # the same permutations for all rows: a row is explained alike alone and among others
        results = [sampled_values(game, h, other, U, orders) for h in H]
        values, errors = (np.stack(arrays) for arrays in zip(*results, strict=True))
        return (values, errors), "standard error"


def _rounding(n_players: int, expansion: KernelExpansion, U: Floats, other: Floats) -> Floats:
    """An allowance for round-off, of shape (n_rows, n_outputs)."""
    sizes = np.abs(expansion.coef).sum(axis=1)
    return np.broadcast_to(8 * (n_players + 8) * _EPS * sizes, (len(U), len(sizes)))
