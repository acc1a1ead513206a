"""From a table to training rows and held-out rows, in memory or in batches."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
from sklearn.model_selection import train_test_split

from kernlet.affine import AffineMap
from kernlet.console import say
from kernlet.rows.source import PiecewiseRows, RowSubset
from kernlet.tables.dates import learned_dates
from kernlet.tables.encode import (
    MAX_CATEGORIES,
    CategoryColumn,
    ColumnEncoding,
    as_numbers,
    category_text,
    choose_scaler,
    distinct_texts,
    learned_categories,
    listed,
)
from kernlet.tables.read import DataTable, column_name, errors_in, is_number_type
from kernlet.tables.sniff import is_date
from kernlet.tables.spelling import find_categories

# How this works
#
# One path serves tables of every size; only its last step asks whether the table is in memory.
#
# 1. The labels of all rows are read and become indices of classes, 4 bytes per row.
# 2. `split_rows` draws the held-out rows from the labels alone, before any feature is read. The
#    same table, share and seed give the same rows: `kernlet report` repeats the split to find the
#    rows that a machine has not seen.
# 3. One pass over the batches checks the numbers, counts missing cells, collects the categories
#    of the training rows, finds columns that cannot be used, and takes a sample of training rows:
#    all of them if they are in memory, otherwise at most 100,000.
# 4. Medians and the scaler come from the sample, categories from all training rows: a median of a
#    sample is nearly that of the table, but a rare category may be missing from it. Held-out rows
#    never enter. A category that only they have is unknown to the machine, as it would be later.
# 5. `EncodedRows` encodes and scales a batch when it is read. A table in memory is encoded at
#    once, so that training sees arrays; otherwise training sees the row source, and each pass
#    over the rows reads and encodes the file again.

_MIN_DISTINCT = 10  # labels: fewer are classes, however few the rows
_MAX_CLASSES = 1000
_MIN_COUNTED = 20  # rows: a shorter column of 1, 2, 3 and so on may be a quantity
_MAX_SAMPLE = 100_000  # rows; the standard error of a mean is then 0.3 % of a deviation


@dataclass(frozen=True, eq=False)
class Prepared:
    """Training rows and held-out rows, as arrays or row sources, encoded and scaled.

    Labels of a classifier are indices into ``classes``; others have None there. Those of a novelty
    detector are 1 for normal rows and -1 for anomalies, which are all held out.
    """

    X: Any
    y: Any
    X_test: Any
    y_test: Any
    classes: Any
    encoding: ColumnEncoding | None
    scaler: AffineMap | None
    summary: dict[str, Any]


def prepare(
    table: DataTable,
    target: str | Sequence[str] | None,
    *,
    regression: bool,
    drop: Sequence[str],
    dates: Sequence[str] = (),
    skip_unlabelled: bool = False,
    scale: str,
    test: float,
    seed: int,
    missing: str = "median",
    normal: Sequence[str] | None = None,
) -> Prepared:
    """Split a table, and learn its encoding and scaling from the training rows.

    Several targets, which are numbers, make ``y`` a matrix with a column for each. ``missing`` is
    "median", "distance" or, where training rows lack numbers, "auto": with the latter two missing
    numbers stay NaN. With ``normal``, only rows of these labels, or all if there are none, are
    trained on.
    """
    if not table.in_memory and (regression or normal is not None):
        option = "--regression" if regression else "--novelty"
        raise ValueError(f"{option} needs the table in memory: raise --memory.")
    dropped, dates = table.chosen("--drop", drop), table.chosen("--date", dates)
    targets = [target] if target is None or isinstance(target, str) else list(target)
    features = table.without(dropped)
    if normal is None:
        features, classes, codes, y, target_summary = _split_targets(
            table, features, targets, skip_unlabelled, regression
        )
    else:
        classes, codes, y = None, np.zeros(table.n_rows, dtype=int), np.ones(table.n_rows)
        target_summary = {"normal": list(normal)}
        if normal:
            features, labels, codes = features.split_target(targets[0], skip_unlabelled)
            y, target_summary = _normal_signs(labels, codes, normal)
    if unused := [name for name in dates if name not in features.names]:
        raise ValueError(
            f"--date names {unused[0]!r}, which is the target or a column that --drop leaves out."
        )
    labelled = np.flatnonzero(codes >= 0)
    if len(labelled) < len(codes):
        target_summary["unlabelled"] = len(codes) - len(labelled)
        advice = table.advice_on_labels(column_name(table.names, targets[0] or "") or "")
        say(f"note: {len(codes) - len(labelled):,} rows without a label are left out{advice}")
    names = [name and (column_name(table.names, name) or name) for name in targets]
    summary: dict[str, Any] = {"rows": table.n_rows, "target": names}
    if len(names) == 1:
        summary["target"] = names[0]
    if features.has_columns and not features.names:
        raise ValueError("The table has no column besides the target.")
    features.check_numbers(features.names)
    if normal is not None:
        training, held_out = split_normal_rows(y[labelled] > 0, test, seed)
    else:
        training, held_out = split_rows(y[labelled], test, seed, regression)
    training, held_out = labelled[training], labelled[held_out]
    is_one_class = normal is None and not regression and len(np.unique(y[training])) < 2
    if len(training) < 2 or is_one_class:
        raise ValueError(
            f"Of {len(labelled)} rows, the {len(training)} to train on are too few, or all of one "
            "class: provide more rows, or another --test or --seed."
        )
    encoding, scaler, learned = _learn(features, training, dates, scale, missing)
    if encoding is not None and not features.in_memory:
        rows = EncodedRows(features, encoding, scaler)
        X_training, X_held_out = RowSubset(rows, training), RowSubset(rows, held_out)
    else:
        X = _encoded(features.batch(0), encoding, scaler)
        X_training, X_held_out = X[training], X[held_out]
    return Prepared(
        X_training,
        y[training],
        X_held_out,
        y[held_out],
        None if regression else classes,
        encoding,
        scaler,
        {"data": summary | learned["data"] | target_summary, "scaling": learned["scaling"]},
    )


def _split_targets(
    table: DataTable,
    features: DataTable,
    targets: Sequence[str | None],
    skip_unlabelled: bool,
    regression: bool,
) -> tuple[DataTable, Any, Any, Any, dict[str, Any]]:
    """Features, classes and codes of the (last) target, all targets as y, and their summary."""
    if len(targets) > 1:
        if not table.has_columns:
            raise ValueError("Several --target are for tables with named columns.")
        targets = [column_name(table.names, str(name)) or name for name in targets]
        if twice := [name for name in targets if targets.count(name) > 1]:
            raise ValueError(f"--target names {twice[0]!r} twice.")
    columns, ranges, is_labelled = [], {}, np.full(table.n_rows, True)
    for target in targets:
        features, classes, codes = features.split_target(target, skip_unlabelled)
        summary = _target_summary(classes, codes[codes >= 0], target, regression)
        is_labelled &= codes >= 0
        if not regression:
            return features, classes, codes, codes, summary
        columns.append(classes[codes].astype(np.float64))
        ranges[target] = summary["target range"]
    codes = np.where(is_labelled, codes, -1)
    if len(columns) == 1:
        return features, classes, codes, columns[0], summary
    return features, classes, codes, np.stack(columns, axis=1), {"target range": ranges}


def _normal_signs(labels: Any, codes: Any, normal: Sequence[str]) -> tuple[Any, dict[str, Any]]:
    """1 for rows with a label of ``normal`` and -1 for others, and what the summary says of them.

    ``labels`` are the distinct ones, and ``codes`` their indices.
    """
    texts = [str(category_text(label)) for label in labels.tolist()]
    found = find_categories(normal, {text: text for text in texts})
    for name, (_, is_known) in zip(normal, found, strict=True):
        if not is_known:
            raise ValueError(f"--normal {name} is not a label; the labels are {listed(texts)}.")
    known = sorted({str(text) for text, _ in found})
    is_normal = np.isin(texts, known)
    counts = np.bincount(codes[codes >= 0], minlength=len(texts)).tolist()
    classes = dict(zip(texts, counts, strict=True))
    return np.where(is_normal[codes], 1, -1), {"normal": known, "classes": classes}


def _learn(
    features: DataTable, training: Any, dates: Sequence[str], scale: str, missing: str
) -> tuple[ColumnEncoding | None, AffineMap | None, dict[str, Any]]:
    """Encoding and scaling of the training rows, and what the summary says of them."""
    encoding, summary = None, {}
    if features.has_columns:
        say(f"encoding {len(features.names)} columns")
        encoding, sample, n_missing = learn_encoding(features, training, dates)
        summary = {"columns": len(features.names), "missing": n_missing}
        passing = encoding if missing == "median" else encoding.passing_missing()
        rows = passing.transform(sample)
        if missing == "distance" or np.isnan(rows).any():
            encoding = passing
        scaler, message = choose_scaler(rows, scale, encoding.is_category)
    else:
        scaler, message = choose_scaler(features.X[training], scale)
    say(f"scaling: {message}")
    return encoding, scaler, {"data": summary, "scaling": message}


def split_rows(y: Any, test: float, seed: int, regression: bool) -> tuple[Any, Any]:
    """Training rows and held-out rows, the same for the same labels; stratified where possible."""
    rows = np.arange(len(y))
    if not test:
        return rows, rows[:0]
    _, counts = np.unique(y, return_counts=True)
    stratify = None if regression or counts.min() < 2 or test * len(y) < len(counts) else y
    training, held_out = train_test_split(
        rows, test_size=test, random_state=seed, stratify=stratify
    )
    return np.sort(training), np.sort(held_out)


def split_normal_rows(is_normal: Any, test: float, seed: int) -> tuple[Any, Any]:
    """Training rows and held-out rows of a novelty detector: all anomalies are held out."""
    normal = np.flatnonzero(is_normal)
    if len(normal) < 2:
        raise ValueError(f"There are too few normal rows to train on, {len(normal)}: provide more.")
    training, held_out = split_rows(np.zeros(len(normal)), test, seed, regression=True)
    return normal[training], np.union1d(normal[held_out], np.flatnonzero(~is_normal))


def _target_summary(
    classes: Any, codes: Any, target: str | None, regression: bool
) -> dict[str, Any]:
    if regression:
        if classes.dtype.kind not in "iuf":
            raise ValueError(
                f"The target {target!r} holds texts; --regression, --quantiles and several targets "
                "need numbers."
            )
        return {"target range": [float(classes[0]), float(classes[-1])]}
    if len(classes) < 2:
        raise ValueError(f"The target has one class only, {str(classes[0])!r}: nothing to learn.")
    is_number = classes.dtype.kind in "iuf"
    is_decimal = classes.dtype.kind == "f" and (classes != np.rint(classes)).any()
    hardly_repeats = len(classes) > _MIN_DISTINCT and 2 * len(classes) > len(codes)
    if is_decimal or (is_number and (hardly_repeats or len(classes) > _MAX_CLASSES)):
        raise ValueError(
            f"The target has {len(classes):,} different numbers in {len(codes):,} rows: add "
            "--regression to predict them."
        )
    if hardly_repeats or len(classes) > _MAX_CLASSES:
        raise ValueError(
            f"The target has {len(classes):,} classes in {len(codes):,} rows, too many to learn: "
            "choose another with --target."
        )
    counts = np.bincount(codes, minlength=len(classes)).tolist()
    return {"classes": dict(zip(map(str, classes.tolist()), counts, strict=True))}


def learn_encoding(
    table: DataTable, training: Any, dates: Sequence[str] = ()
) -> tuple[ColumnEncoding, Any, dict[str, int]]:
    """The encoding of the training rows, a sample of them, and missing cells per column."""
    is_training = np.zeros(table.n_rows, dtype=bool)
    is_training[training] = True
    sampled = training
    if not table.in_memory and len(training) > _MAX_SAMPLE:
        random = np.random.RandomState(0)
        sampled = np.sort(random.choice(training, _MAX_SAMPLE, replace=False))
    observed = {name: _Observed(name) for name in table.names}
    samples = []
    for start, batch in table.batches():
        stop = start + batch.num_rows
        for name in table.names:
            with errors_in(start=start):
                observed[name].add(batch[name], is_training[start:stop], start)
        first, last = np.searchsorted(sampled, [start, stop])
        samples.append(batch.take(pa.array(sampled[first:last] - start)))
    _report_unusable([column for column in observed.values() if column.name not in dates])
    sample = pa.concat_tables(samples)
    learned = {c.name: c for c in ColumnEncoding.learned(sample.drop_columns(list(dates))).columns}
    columns: list[Any] = []
    for name in table.names:
        if name in dates:
            columns.append(learned_dates(name, sample[name]))
            if example := columns[-1].example(sample[name]):
                say(f"note: {name!r} is read as {columns[-1].order}: {example}")
        elif isinstance(learned[name], CategoryColumn):
            columns.append(learned_categories(name, observed[name].texts, len(training)))
        else:
            columns.append(learned[name])
    _note_identifiers(columns, len(training))
    missing = {name: column.n_missing for name, column in observed.items() if column.n_missing}
    return ColumnEncoding(tuple(columns)), sample, missing


@dataclass(eq=False)
class _Observed:
    """What the batches of a table tell about a column."""

    name: str
    n_missing: int = 0
    n_rows: int = 0  # of the training
    texts: set[str | None] = field(default_factory=set)  # of training rows
    low: float = np.inf  # of the numbers of training rows
    high: float = -np.inf
    first: float = 0.0  # the number in the first row
    counts_rows: bool = True  # whether each number is one more than that of the row before

    def add(self, cells: Any, is_training: Any, start: int) -> None:
        """Look at a batch that begins with a row of the table."""
        self.n_rows += int(np.count_nonzero(is_training))
        if not is_number_type(cells.type):
            self.counts_rows = False
            self.n_missing += cells.null_count
            if len(self.texts) <= MAX_CATEGORIES + 1:  # enough to know that there are too many
                texts, codes = distinct_texts(cells)
                self.texts.update(texts[code] for code in np.unique(codes[is_training]))
            return
        numbers = as_numbers(cells, self.name)
        self.n_missing += int(np.count_nonzero(np.isnan(numbers)))
        known = numbers[is_training & ~np.isnan(numbers)]
        if len(known):
            self.low, self.high = min(self.low, known.min()), max(self.high, known.max())
        if self.counts_rows and len(numbers):
            self.first = numbers[0] if start == 0 else self.first
            expected = self.first + start + np.arange(len(numbers))
            self.counts_rows = np.array_equal(numbers, expected)

    @property
    def categories(self) -> list[str]:
        """The texts that are not missing."""
        return [text for text in self.texts if text is not None]

    @property
    def holds_dates(self) -> bool:
        """Whether all texts look like dates."""
        return bool(self.categories) and all(map(is_date, self.categories))

    @property
    def problem(self) -> str:
        """Why the column cannot be used, or nothing."""
        if not self.categories and self.low > self.high:
            return "empty"
        count = len(self.categories)
        if count <= MAX_CATEGORIES:
            return ""
        return "dates" if self.holds_dates else f"{count:,} different texts in {self.n_rows:,} rows"

    @property
    def doubt(self) -> str:
        """Why the column teaches nothing, or nothing."""
        if self.low == self.high or (not self.low <= self.high and len(self.texts) == 1):
            return "constant"
        return "counts the rows" if self.counts_rows and self.n_rows > _MIN_COUNTED else ""


def _report_unusable(columns: list[_Observed]) -> None:
    """Raise for columns that cannot be used, and point out those that teach nothing."""
    problems = {column.name: column.problem for column in columns if column.problem}
    doubts = {
        column.name: column.doubt for column in columns if column.doubt and not column.problem
    }
    drop = drop_options([*problems, *doubts])
    if not problems:
        if doubts:
            say(f"note: {_with_reasons(doubts)}: {drop} leaves out what teaches nothing")
        return
    dates = [column.name for column in columns if column.problem == "dates"]
    parts = [f"Columns that cannot be used: {_with_reasons(problems)}"]
    if doubts:
        parts.append(f"columns that teach nothing: {_with_reasons(doubts)}")
    advice = f"Leave them out with {drop}"
    if dates:
        others = [name for name in [*problems, *doubts] if name not in dates]
        use = f"{drop_options(others)} {drop_options(dates, '--date')}".strip()
        advice += f", or use the dates with {use}"
    if any(column.problem not in ("", "dates", "empty") for column in columns):
        advice += f", or group the texts into at most {MAX_CATEGORIES}"
    raise ValueError(f"{'; '.join(parts)}. {advice}.")


def _with_reasons(columns: dict[str, str]) -> str:
    return ", ".join(f"{name!r} ({reason})" for name, reason in columns.items())


def drop_options(names: Sequence[str], option: str = "--drop") -> str:
    """The option with all columns, as it can be copied to a shell."""
    joined = ",".join(name for name in names if "," not in name)
    values = [*([joined] if joined else []), *(name for name in names if "," in name)]
    return " ".join(f"{option} {shlex.quote(value)}" for value in values)


def _note_identifiers(columns: Sequence[Any], n_rows: int) -> None:
    """Point out columns of texts that hardly repeat."""
    found = [
        column
        for column in columns
        if isinstance(column, CategoryColumn) and 2 * len(column.categories) > max(n_rows, 8)
    ]
    dates = [
        c.name
        for c in columns
        if isinstance(c, CategoryColumn) and c.categories and all(map(is_date, c.categories))
    ]
    if not found:
        if dates:
            use = drop_options(dates, "--date")
            say(f"note: each date in {listed(dates)} is a category; {use} makes numbers of them")
        return
    texts = {c.name: f"{len(c.categories)} different texts in {n_rows} rows" for c in found}
    hint = f"; {drop_options(dates, '--date')} makes numbers of dates" if dates else ""
    say(
        f"note: {_with_reasons(texts)}: ids and the like teach nothing; "
        f"{drop_options(list(texts))} leaves them out{hint}"
    )


def _encoded(batch: Any, encoding: ColumnEncoding | None, scaler: AffineMap | None) -> Any:
    """A batch of a table as the rows a machine is trained on."""
    X = batch if encoding is None else encoding.transform(batch)
    return X if scaler is None else scaler(X)


class EncodedRows(PiecewiseRows):
    """Row source over the batches of a table, encoded and scaled when they are read, in float32."""

    def __init__(
        self, table: DataTable, encoding: ColumnEncoding, scaler: AffineMap | None
    ) -> None:
        self.table, self.encoding, self.scaler = table, encoding, scaler
        self.shape = (table.n_rows, len(encoding.feature_names))
        self.dtype, self.starts = np.dtype(np.float32), table.starts

    def load_piece(self, number: int) -> Any:
        """A batch, encoded and scaled."""
        return _encoded(self.table.batch(number), self.encoding, self.scaler)
