"""The steps in front of a machine as a column encoding and one affine map."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from inspect import getattr_static
from typing import Any

import numpy as np
from scipy.linalg import block_diag
from sklearn.compose import ColumnTransformer
from sklearn.decomposition import PCA, FastICA, IncrementalPCA, TruncatedSVD
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.feature_selection import SelectorMixin
from sklearn.frozen import FrozenEstimator
from sklearn.impute import SimpleImputer
from sklearn.neighbors import NeighborhoodComponentsAnalysis
from sklearn.pipeline import FeatureUnion, Pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    MaxAbsScaler,
    MinMaxScaler,
    OneHotEncoder,
    OrdinalEncoder,
    RobustScaler,
    StandardScaler,
)
from sklearn.random_projection import GaussianRandomProjection, SparseRandomProjection

from kernlet._typing import Floats
from kernlet.affine import AffineMap
from kernlet.kernels.gram import as_dense
from kernlet.tables.encode import (
    BOOLEANS,
    CategoryColumn,
    ColumnEncoding,
    NumberColumn,
    OrdinalColumn,
    category_text,
    is_missing,
)

# How this works
# --------------
# No data go through the steps here. Each feature is followed as a symbol instead: `Features` states
# what the features between two steps are, as map(cells). A cell is one feature of one encoded
# column of the raw table: the number of a column, or the 0 or 1 of one of its categories. Every
# step takes Features to Features:
#
#     imputers, encoders      change the cells: these must not have been computed with before
#     scalers                 compose with the map: one shift and one scale per cell
#     selectors               select cells
#     PCA, TruncatedSVD, ...  give the map a matrix
#     ColumnTransformer       selects columns, applies a step to each group, and joins the results
#
# At the end the cells become a ColumnEncoding, in the order in which the machine reads them, and
# the map becomes the scaler of the Model. Selections cost nothing this way: columns and categories
# that nothing reads are not in the encoding.


@dataclass(frozen=True)
class _Raw:
    """A column as it is in the table, and what its missing cells become (None: nothing)."""

    name: str
    fill: Any = None


@dataclass(frozen=True)
class _Cell:
    """A feature of an encoded column; ``position`` is the place of the column in the table."""

    position: int
    column: _Raw | CategoryColumn | OrdinalColumn
    feature: int = 0


@dataclass(frozen=True, eq=False)
class Features:
    """What the features between two steps are: an affine map of cells."""

    cells: tuple[_Cell, ...]
    map: AffineMap  # with a shift and a scale for every cell

    @classmethod
    def of(cls, cells: Sequence[_Cell]) -> Features:
        """Cells as they are."""
        return cls(tuple(cells), AffineMap(np.zeros(len(cells)), np.ones(len(cells))))

    def __len__(self) -> int:
        return len(self.cells) if self.map.matrix is None else len(self.map.matrix)

    def then(self, map: AffineMap) -> Features:
        """The features behind another map."""
        return replace(self, map=map @ self.map)

    def select(self, indices: Any) -> Features:
        """Some of the features, in this order."""
        indices = np.asarray(indices, dtype=np.intp)
        shift, scale, matrix = self.map.shift, self.map.scale, self.map.matrix
        if matrix is not None:
            return replace(self, map=AffineMap(shift, scale, matrix[indices]))
        cells = tuple(self.cells[i] for i in indices)
        return Features(cells, AffineMap(shift[indices], scale[indices]))

    @classmethod
    def joined(cls, blocks: Sequence[Features]) -> Features:
        """Features side by side; those that read the same cell keep their own copy of it."""
        maps = [block.map for block in blocks]
        matrix = None
        if any(map.matrix is not None for map in maps):
            matrices = [
                np.eye(len(block)) if block.map.matrix is None else block.map.matrix
                for block in blocks
            ]
            matrix = block_diag(*matrices)
        shift = np.concatenate([np.zeros(0), *(map.shift for map in maps)])
        scale = np.concatenate([np.zeros(0), *(map.scale for map in maps)])
        cells = tuple(cell for block in blocks for cell in block.cells)
        return cls(cells, AffineMap(shift, scale, matrix))

    def raw(self, number: int) -> _Cell | None:
        """The cell that a feature is, if it is a column of the table with nothing computed."""
        if self.map.matrix is not None or not isinstance(self.cells[number].column, _Raw):
            return None
        is_same = self.map.shift[number] == 0 and self.map.scale[number] == 1
        return self.cells[number] if is_same else None


def fold_steps(
    steps: Iterable[tuple[str, Any]],
) -> tuple[ColumnEncoding | None, AffineMap | None]:
    """The encoding and the map that do what fitted steps do; None where they change nothing.

    Raises
    ------
    ValueError
        For a step that a model cannot hold, in one sentence with its name.
    """
    steps = [(name, step) for name, step in steps if not _is_identity(step)]
    if not steps:
        return None, None
    first = steps[0][1]
    names = getattr(first, "feature_names_in_", None)
    n_columns = getattr(first, "n_features_in_", None)
    if n_columns is None:
        raise _refusal(*steps[0])
    texts = [f"x{i}" for i in range(n_columns)] if names is None else [str(n) for n in names]
    features = Features.of([_Cell(i, _Raw(text)) for i, text in enumerate(texts)])
    for name, step in steps:
        features = _applied(name, step, features)
    features = _distinct(features)
    is_table = names is not None and isinstance(first, ColumnTransformer)
    is_plain = all(cell.column == _Raw(texts[cell.position]) for cell in features.cells)
    if is_plain and not is_table and _positions(features) == list(range(n_columns)):
        return None, _smallest(features.map)
    columns, map = _encoded(features)
    positions, encodings = zip(*columns, strict=True)
    return ColumnEncoding(encodings, positions, n_columns, names is not None), map


# -- The steps ---------------------------------------------------------------------------------


def _applied(name: str, step: Any, features: Features) -> Features:
    """The features behind a step."""
    if isinstance(step, FrozenEstimator):
        return _applied(name, step.estimator, features)
    if _is_identity(step):
        return features
    if getattr(step, "n_features_in_", len(features)) != len(features):
        raise _refusal(name, step)  # an earlier step is not what its class says
    for kinds, convert in _STEPS:
        kind = next((kind for kind in kinds if isinstance(step, kind)), None)
        # A subclass with its own transform may do anything.
        if kind is not None and _transform_of(type(step)) is _transform_of(kind):
            return convert(name, step, features)
    raise _refusal(name, step)


def _transform_of(kind: Any) -> Any:
    return getattr_static(kind, "transform")  # without the descriptor that Pipeline has


def _is_identity(step: Any) -> bool:
    if step is None or (isinstance(step, str) and step == "passthrough"):
        return True
    return isinstance(step, FunctionTransformer) and step.func is None


def _refusal(name: str, step: Any, reason: str = "") -> ValueError:
    kind = type(step).__name__
    reason = reason or (
        "only imputers, one-hot and ordinal encoders, scalers, selectors and linear maps such as "
        "PCA can"
    )
    return ValueError(
        f"The step {name!r} ({kind}) cannot be stored with the model: {reason}; keep pipeline[:-1] "
        "in Python and compress, save or export pipeline[-1] alone (of a compressed pipeline, its "
        "expansion_)."
    )


def _pipeline(name: str, step: Any, features: Features) -> Features:
    for inner_name, inner in step.steps:
        features = _applied(f"{name}__{inner_name}", inner, features)
    return features


def _columns(name: str, step: Any, features: Features) -> Features:
    """A ColumnTransformer: each of its steps on its own columns, side by side."""
    weights = step.transformer_weights or {}
    blocks = []
    for inner_name, inner, _ in step.transformers_:
        indices = step._transformer_to_input_indices[inner_name]
        if (isinstance(inner, str) and inner == "drop") or not len(indices):
            continue
        path = f"{name}__{inner_name}"
        block = _applied(path, inner, features.select(indices))
        expected = step.output_indices_[inner_name]
        if len(block) != expected.stop - expected.start:
            raise _refusal(path, inner)
        blocks.append(_weighted(block, weights.get(inner_name)))
    return Features.joined(blocks)


def _union(name: str, step: Any, features: Features) -> Features:
    weights = step.transformer_weights or {}
    blocks = [
        _weighted(_applied(f"{name}__{inner_name}", inner, features), weights.get(inner_name))
        for inner_name, inner in step.transformer_list
        if not (isinstance(inner, str) and inner == "drop")
    ]
    return Features.joined(blocks)


def _weighted(features: Features, weight: float | None) -> Features:
    if weight is None:
        return features
    if weight == 0:  # such a map has no inverse: nothing could be composed with it
        raise ValueError("A transformer of weight 0 cannot be stored: drop it.")
    return features.then(AffineMap(np.zeros(1), np.array([weight])))


def _imputed(name: str, step: Any, features: Features) -> Features:
    """Missing cells get the statistic of their column; columns without one are left out."""
    if not is_missing(step.missing_values):
        raise _refusal(name, step, f"missing_values={step.missing_values!r} is not NaN")
    kept = [i for i, statistic in enumerate(step.statistics_) if not is_missing(statistic)]
    filled = features.select(kept)
    if features.map.matrix is None:  # behind a matrix no number is missing
        shift, scale = filled.map.shift, filled.map.scale
        cells = []
        for i, cell in enumerate(filled.cells):
            fill = step.statistics_[kept[i]]
            if shift[i] != 0 or scale[i] != 1:  # the missing cell is in front of a scaler
                fill = float(fill) / scale[i] + shift[i]
            cells.append(_with_fill(cell, fill))
        filled = replace(filled, cells=tuple(cells))
    if not step.add_indicator:
        return filled
    if features.map.matrix is not None:
        raise _refusal(name, step, "its indicator is for numbers that another step has computed")
    flags = [_missing_flag(name, step, features.cells[i]) for i in step.indicator_.features_]
    return Features.joined([filled, Features.of(flags)])


def _with_fill(cell: _Cell, fill: Any) -> _Cell:
    column = cell.column
    if isinstance(column, _Raw) and column.fill is None:
        return replace(cell, column=replace(column, fill=fill))
    if isinstance(column, OrdinalColumn):
        return replace(cell, column=_without_nan(column, fill))
    return cell  # is never missing


def _missing_flag(name: str, step: Any, cell: _Cell) -> _Cell:
    """1 where a cell is missing."""
    if not isinstance(cell.column, _Raw) or cell.column.fill is not None:
        raise _refusal(name, step, "its indicator is for cells that another step has changed")
    return replace(cell, column=CategoryColumn(cell.column.name, (), True), feature=0)


def _raw_cells(name: str, step: Any, features: Features) -> list[_Cell]:
    cells = [features.raw(i) for i in range(len(features))]
    if None in cells:
        raise _refusal(name, step, "it encodes numbers that another step has computed")
    return [cell for cell in cells if cell is not None]


def _texts(name: str, step: Any, categories: Any, column: Any) -> list[str | None]:
    """Categories of a column as texts, None for missing cells."""
    texts = [category_text(value) for value in categories]
    if None in texts and column.fill is not None:
        reason = "missing cells are among its categories, because the imputer before it does not "
        raise _refusal(name, step, f"{reason}fill both None and NaN")
    if len(set(texts)) < len(texts):
        raise _refusal(name, step, "both None and NaN are among its categories")
    return texts


def _with_booleans(index: dict[str | None, Any], categories: Any) -> dict[str | None, Any]:
    """The index, with booleans also as the numbers 0 and 1, and these as booleans.

    They are equal for scikit-learn, which makes numbers of some booleans; texts are not.
    """
    is_text = any(isinstance(value, str) for value in categories)
    if is_text or not set(index) <= {*BOOLEANS, None}:
        return index
    return index | {BOOLEANS[text]: code for text, code in index.items() if text is not None}


def _one_hot(name: str, step: Any, features: Features) -> Features:
    cells = []
    for i, cell in enumerate(_raw_cells(name, step, features)):
        texts = _texts(name, step, step.categories_[i], cell.column)
        codes, other = _one_hot_codes(step, i, texts)
        unknown = other if step.handle_unknown in ("infrequent_if_exist", "warn") else -1
        index = dict(zip(texts, codes, strict=True))
        index = _with_booleans(index, step.categories_[i])
        column = cell.column
        assert isinstance(column, _Raw)
        if column.fill is not None:  # missing cells are the category that they are filled with
            fill = category_text(column.fill)
            if fill in index:
                index[None] = index[fill]
        missing_code = (index.pop(None),) if None in index else ()
        encoded = CategoryColumn(
            column.name,
            tuple(map(str, index)),
            bool(missing_code),
            (*index.values(), *missing_code),
            None if step.handle_unknown == "error" else unknown,
        )
        cells += [_Cell(cell.position, encoded, k) for k in range(max(codes, default=-1) + 1)]
    return Features.of(cells)


def _one_hot_codes(step: Any, i: int, texts: list[str | None]) -> tuple[list[int], int]:
    """The feature of each category of column i, -1 for a dropped one, and of infrequent ones."""
    infrequent = getattr(step, "infrequent_categories_", None)
    rare = [] if infrequent is None or infrequent[i] is None else list(infrequent[i])
    rare_texts = {category_text(value) for value in rare}
    n_frequent = len(texts) - len(rare_texts)
    frequent = iter(range(n_frequent))
    codes = [n_frequent if text in rare_texts else next(frequent) for text in texts]
    other = n_frequent if rare_texts else -1
    dropped = None if step.drop_idx_ is None else step.drop_idx_[i]
    if dropped is not None:
        gone = codes[dropped]
        codes = [-1 if code == gone else code - (code > gone) for code in codes]
        other = -1 if other == gone else other - (other > gone)
    return codes, other


def _ordinal(name: str, step: Any, features: Features) -> Features:
    values = _ordinal_values(step)
    cells = []
    for cell, categories, numbers in zip(
        _raw_cells(name, step, features), step.categories_, values, strict=True
    ):
        column = cell.column
        texts = _texts(name, step, categories, column)
        assert isinstance(column, _Raw)
        index = _with_booleans(dict(zip(texts, numbers.tolist(), strict=True)), categories)
        unknown = None if step.handle_unknown == "error" else float(step.unknown_value)
        missing = index.pop(None, unknown)
        if column.fill is not None:
            missing = index.get(category_text(column.fill), unknown)
        known = tuple(map(str, index))
        encoded = OrdinalColumn(column.name, known, tuple(index.values()), missing, unknown)
        cells.append(_Cell(cell.position, encoded))
    return Features.of(cells)


def _ordinal_values(step: Any) -> list[Floats]:
    """The number of each category of each column, by encoding all of them."""
    n_rows = max(len(categories) for categories in step.categories_)
    table = np.empty((n_rows, len(step.categories_)), dtype=object)
    for i, categories in enumerate(step.categories_):
        table[:, i] = categories[0]
        table[: len(categories), i] = categories
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # an encoder that was fitted on names warns of arrays
        encoded = np.asarray(step.transform(table), dtype=np.float64)
    return [encoded[: len(cats), i] for i, cats in enumerate(step.categories_)]


def _without_nan(column: OrdinalColumn, fill: float | None) -> OrdinalColumn:
    """NaN replaced: by a number, or by None, which refuses the cell."""

    def number(value: Any) -> Any:
        return fill if value is not None and math.isnan(value) else value

    return replace(column, missing=number(column.missing), unknown=number(column.unknown))


def _selected(name: str, step: Any, features: Features) -> Features:
    return features.select(step.get_support(indices=True))


def _scaled(name: str, step: Any, features: Features) -> Features:
    return features.then(AffineMap.from_scaler(step, name))


def _projected(name: str, step: Any, features: Features) -> Features:
    shift, matrix = _projection(step)
    return features.then(AffineMap(shift, np.ones(1), np.asarray(matrix, dtype=float)))


def _projection(step: Any) -> tuple[Any, Floats]:
    """Shift and matrix of a linear map."""
    if isinstance(step, LinearDiscriminantAnalysis):
        n_components = len(step.get_feature_names_out())
        shift = step.xbar_ if step.solver == "svd" else 0.0
        return shift, step.scalings_[:, :n_components].T
    matrix = np.asarray(as_dense(step.components_))
    if getattr(step, "whiten", False) and hasattr(step, "explained_variance_"):
        deviation = np.sqrt(step.explained_variance_)
        # PCA bounds them like this, so that components without variance do not become infinite.
        matrix = matrix / np.maximum(deviation, np.finfo(deviation.dtype).eps)[:, None]
    return getattr(step, "mean_", 0.0), matrix


_STEPS: tuple[tuple[tuple[Any, ...], Callable[[str, Any, Features], Features]], ...] = (
    ((Pipeline,), _pipeline),
    ((ColumnTransformer,), _columns),
    ((FeatureUnion,), _union),
    ((SimpleImputer,), _imputed),
    ((OneHotEncoder,), _one_hot),
    ((OrdinalEncoder,), _ordinal),
    ((SelectorMixin,), _selected),
    ((StandardScaler, MinMaxScaler, MaxAbsScaler, RobustScaler), _scaled),
    (
        (
            *(PCA, IncrementalPCA, TruncatedSVD, LinearDiscriminantAnalysis, FastICA),
            *(GaussianRandomProjection, SparseRandomProjection, NeighborhoodComponentsAnalysis),
        ),
        _projected,
    ),
)


# -- From cells to an encoding -----------------------------------------------------------------


def _positions(features: Features) -> list[int]:
    return [cell.position for cell in features.cells]


def _distinct(features: Features) -> Features:
    """The same features, each cell read once.

    w1 (x - s1) + w2 (x - s2) = (w1 + w2) (x - s1) + w2 (s1 - s2).
    """
    numbers: dict[_Cell, int] = {}
    group = np.array([numbers.setdefault(cell, len(numbers)) for cell in features.cells], int)
    if len(numbers) == len(features.cells):
        return features
    map = features.map
    weights = (np.eye(len(features)) if map.matrix is None else map.matrix) * map.scale
    _, first = np.unique(group, return_index=True)
    matrix = np.zeros((len(weights), len(numbers)))
    np.add.at(matrix.T, group, weights.T)
    shift = map.shift[first]
    merged = Features(tuple(numbers), AffineMap(shift, np.ones(len(shift)), matrix))
    offset = weights @ (shift[group] - map.shift)
    try:
        return merged.then(AffineMap(-offset, np.ones(1))) if offset.any() else merged
    except ValueError:
        raise ValueError(
            "The pipeline shifts features of the same columns in ways that one affine map cannot "
            "hold: leave out the shift behind its FeatureUnion or ColumnTransformer "
            "(StandardScaler(with_mean=False)), or save pipeline[-1] alone."
        ) from None


def _encoded(features: Features) -> tuple[list[tuple[int, Any]], AffineMap | None]:
    """Columns with their positions, and the map of their features."""
    read: dict[tuple[int, Any], list[int]] = {}
    for cell in features.cells:
        read.setdefault((cell.position, cell.column), []).append(cell.feature)
    columns, order = [], []
    number = {cell: i for i, cell in enumerate(features.cells)}
    for (position, column), used in read.items():
        used = sorted(used)
        order += [number[_Cell(position, column, feature)] for feature in used]
        columns.append((position, _finished(column, used)))
    names = [name for _, column in columns for name in column.features]
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(
            f"The pipeline encodes {twice!r} in two different ways, which a model cannot hold: "
            "give the ColumnTransformer a second column with the same cells."
        )
    map, in_order = features.map, np.array(order, dtype=np.intp)
    matrix = map.matrix
    if matrix is None and order != list(range(len(order))):
        matrix = np.eye(len(order))
    matrix = None if matrix is None else matrix[:, in_order]
    return columns, _smallest(AffineMap(map.shift[in_order], map.scale[in_order], matrix))


def _finished(column: Any, used: list[int]) -> Any:
    """The column as the encoding holds it, with the features that are read."""
    if isinstance(column, CategoryColumn):
        place = {feature: i for i, feature in enumerate(used)}
        codes = tuple(place.get(code, -1) for code in column.index.values())
        unknown = None if column.unknown is None else place.get(column.unknown, -1)
        is_in_order = codes == tuple(range(len(codes)))
        return replace(column, codes=() if is_in_order else codes, unknown=unknown)
    if isinstance(column, OrdinalColumn):
        return _without_nan(column, None)
    if isinstance(column.fill, str):
        raise ValueError(
            f"The column {column.name!r} holds texts, which no step encodes: add a OneHotEncoder."
        )
    return NumberColumn(column.name, None if column.fill is None else float(column.fill))


def _smallest(map: AffineMap) -> AffineMap | None:
    """The map with a single shift or scale where all are equal; None for the identity."""
    shift, scale = (v[:1] if (v == v[:1]).all() else v for v in (map.shift, map.scale))
    if map.matrix is None and not shift.any() and (scale == 1).all():
        return None
    return AffineMap(shift, scale, map.matrix)
