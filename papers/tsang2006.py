"""Tables 2 to 6 and both figures of Tsang et al. 2006.

I. W. Tsang, A. Kocsor and J. T. Kwok, Efficient kernel feature extraction for massive data sets,
KDD 2006. Features of MMDA, kernel Fisher discriminant (KFD) and kernel PCA are judged by nearest
neighbors, small networks and decision trees.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from matplotlib.figure import Figure as Picture

from kernlet.report.draw import picture_style
from papers.cache import Experiment
from papers.features import ALL_COUNTS, PER_CLASS, embed_digits, score_features
from papers.tables import (
    NOT_PUBLIC,
    NOT_YET,
    Figure,
    Kind,
    Measurement,
    NamedExperiments,
    PaperTable,
    Recipe,
    Results,
    Target,
    markdown_table,
)

PAPER = "tsang2006"


# Figures of the paper ----------------------------------------------------------------------------

# Data sets in the order of SETS; None where the paper has a dash. The copy of Tables 5 and 6 that
# was read lacks the last column, that of the faces, in the lines of margin features.
SETS = ("optdigits", "satimage", "pendigits", "letter", "mnist", "usps", "face")
SMALL = SETS[:3]
Line = tuple[float | None, ...]

#: Nodes of the decision trees, Table 2, and their accuracies, Table 3, by method.
TREE_NODES: dict[str, Line] = {
    "none": (143, 109, 161, 777, 1631, 876, 759),
    "kpca": (117, 113, 75, 323, 197, 43, 51),
    "kfd": (19, 43, 21, 109, 23, 3, 3),
    "svm": (19, 119, 19, 449, None, None, None),
    "core": (19, 79, 19, 285, 619, 29, 25),
}
TREE_ACCURACY: dict[str, Line] = {
    "none": (82.8, 86.3, 89.7, 81.0, 36.2, 98.0, 96.9),
    "kpca": (81.4, 87.1, 89.3, 58.9, 10.1, 97.0, 80.7),
    "kfd": (94.4, 88.6, 95.9, 79.3, 10.3, 92.5, 65.7),
    "svm": (94.9, 87.9, 97.2, 85.3, None, None, None),
    "core": (95.4, 87.8, 97.1, 90.3, 93.3, 99.3, 98.4),
}
#: Test accuracies, Table 4, by method, classifier and features per class (0: all).
ACCURACY: dict[tuple[str, str, int], Line] = {
    ("none", "SVM", 0): (96.66, 89.60, 96.74, 90.95, None, None, None),
    ("none", "1-NN", 0): (96.38, 89.35, 97.43, 95.20, 94.34, None, None),
    ("none", "ANN", 0): (94.37, 87.40, 95.19, 70.95, 90.39, 99.12, 97.40),
    ("kpca", "1-NN", 5): (94.94, 87.95, 97.37, 88.45, 9.58, 99.38, None),
    ("kpca", "ANN", 5): (93.65, 87.70, 96.05, 76.90, 10.28, 98.60, 83.61),
    ("kfd", "1-NN", 0): (97.94, 85.85, 98.03, 91.42, 11.35, 96.87, None),
    ("kfd", "ANN", 0): (97.82, 88.75, 97.68, 85.20, 10.28, 96.80, 1.96),
    ("svm", "1-NN", 1): (97.16, 87.25, 97.66, 96.55, None, None, None),
    ("svm", "1-NN", 3): (95.66, 88.95, 97.91, 96.05, None, None, None),
    ("svm", "1-NN", 5): (95.38, 89.90, 98.03, 95.42, None, None, None),
    ("svm", "ANN", 1): (95.65, 88.95, 97.19, 80.20, None, None, None),
    ("svm", "ANN", 3): (97.09, 89.65, 97.80, 82.02, None, None, None),
    ("svm", "ANN", 5): (96.48, 88.70, 97.74, 82.65, None, None, None),
    ("core", "1-NN", 1): (97.44, 88.65, 97.74, 96.78, 93.42, 99.43, None),
    ("core", "1-NN", 3): (96.44, 89.00, 97.71, 96.53, 94.70, 99.43, None),
    ("core", "1-NN", 5): (95.94, 89.50, 97.68, 96.28, 95.18, 99.41, None),
    ("core", "ANN", 1): (96.27, 89.75, 97.22, 80.97, 92.99, 99.30, 98.28),
    ("core", "ANN", 3): (97.77, 89.30, 97.85, 82.45, 93.28, 99.33, 98.39),
    ("core", "ANN", 5): (97.36, 89.95, 98.08, 82.67, 93.34, 99.34, 98.34),
}
#: CPU seconds, Table 5, and mean kernel evaluations per feature, Table 6.
SECONDS: dict[tuple[str, int], Line] = {
    ("kpca", 5): (2632, 1804, 1680, 2029, 2639, 4479, 2216),
    ("kfd", 0): (1340, 1339, 1335, 1340, 1297, 2038, 1674),
    ("svm", 1): (84, 121, 127, 1911, None, None, None),
    ("svm", 3): (476, 421, 570, 9646, None, None, None),
    ("svm", 5): (1495, 900, 1674, 20860, None, None, None),
    ("core", 1): (41, 23, 20, 92, 1610, 2359, None),
    ("core", 3): (181, 78, 95, 301, 4928, 6585, None),
    ("core", 5): (332, 136, 174, 512, 8179, 10630, None),
}
POINTS: dict[tuple[str, int], Line] = {
    ("kpca", 5): (3823, 4435, 7494, 3500, 3500, 3500, 3500),
    ("kfd", 0): (3823, 4435, 7494, 3500, 3500, 3500, 3500),
    ("svm", 1): (303, 548, 293, 870, None, None, None),
    ("svm", 3): (841, 1056, 1149, 1772, None, None, None),
    ("svm", 5): (1278, 1553, 1875, 2420, None, None, None),
    ("core", 1): (279, 308, 292, 351, 434, 423, None),
    ("core", 3): (359, 334, 349, 357, 434, 398, None),
    ("core", 5): (367, 342, 353, 360, 427, 396, None),
}


def _printed(line: Line, name: str) -> float | None:
    """The figure of a data set in a line."""
    return line[SETS.index(name)]


# Experiments -------------------------------------------------------------------------------------

SEEDS = {"optdigits": 3, "satimage": 3}  # one for the other data sets
METHODS = {
    "none": "raw columns",
    "kpca": "KPCA",
    "kfd": "KFD",
    "svm": "MMDA(SVM)",
    "core": "MMDA(CVM)",
    "landmarks": "MMDA by landmarks",
    "kfd landmarks": "KFD by landmarks",
}
#: MMDA(SVM) is the original MMDA of 2004, with which the paper compares its core sets.
BASELINES = ("none", "kpca", "kfd", "kfd landmarks", "svm")
#: Lines of our own, beside those of the paper that they are compared with.
OWN_LINES = {"core": "landmarks", "kfd": "kfd landmarks"}
OTHER_METHOD = "another method than the paper's"


def experiments(quick: bool) -> NamedExperiments:
    """The measurements by data set and method."""
    return {
        f"{name} {method}": [
            Experiment(score_features, {**parameters, "seed": seed}) for seed in range(n_seeds)
        ]
        for name in (SMALL[:1] if quick else SETS[:-1])
        for method, (parameters, n_seeds) in _parameters(name, quick).items()
    }


def _small_experiments(quick: bool) -> NamedExperiments:
    return {name: e for name, e in experiments(quick).items() if name.split()[0] in SMALL}


def _parameters(name: str, quick: bool) -> dict[str, tuple[dict[str, Any], int]]:
    """Parameters and number of seeds of each method on a data set."""
    n_seeds = 1 if quick else SEEDS.get(name, 1)

    def parameters(extractor: str, like: str, **options: Any) -> dict[str, Any]:
        """The tree has at most as many nodes as that of the paper's method ``like``."""
        n_nodes = _printed(TREE_NODES[like], name) if like else None
        return {
            "name": name,
            "method": extractor,
            "n_rows": 500 if quick else None,
            "n_nodes": n_nodes and int(n_nodes),
            "options": options,
        }

    is_small = name in SMALL
    n_landmarks = 500 if is_small else _fewest_points(name)
    counts = {"counts": list(ALL_COUNTS)} if is_small else {}  # for Figure 2
    landmarks = parameters("mmda", "", solver="landmarks", n_landmarks=n_landmarks)
    methods = {
        "none": (parameters("none", "none"), n_seeds),
        "kpca": (parameters("kpca", "kpca", **counts), n_seeds),
        "kfd": (parameters("kfd", "kfd"), n_seeds),
        "landmarks": (landmarks, 1),
        "core": (parameters("mmda", "core", solver="core"), 3 if is_small and not quick else 1),
    }
    if not is_small:
        methods["kfd landmarks"] = parameters("kfd", "", n_landmarks=1000), 1
    if is_small:
        methods["svm"] = parameters("mmda", "svm", solver="exact"), 1
    elif name == "letter":  # 6 CPU minutes; five features per class would take about 20
        methods["svm"] = parameters("mmda", "", solver="exact", n_per_class=3), 1
    return methods


def _fewest_points(name: str) -> int:
    """The fewest points of a core-set feature in the paper: landmarks are as many."""
    return int(min(_printed(POINTS["core", k], name) or np.inf for k in PER_CLASS))


# Tables ------------------------------------------------------------------------------------------

#: Reads the value of a line, named by its key, from the answer of an experiment.
Read = Callable[[dict[str, Any], Any], float | None]
Reason = Callable[[str, Any], str]


def _no_reason(name: str, key: Any) -> str:
    return ""


def _method(key: Any) -> str:
    return key if isinstance(key, str) else key[0]


def _figures(
    results: Results,
    lines: dict[Any, Line],
    quantity: str,
    kind: Kind,
    read: Read,
    reason: Reason = _no_reason,
) -> Iterator[Figure]:
    """A figure for every number of a table, and beside core sets and KFD those of landmarks."""
    for name in SETS:
        for key, line in lines.items():
            paper, method = _printed(line, name), _method(key)
            if paper is None:
                continue
            for used in filter(None, (method, OWN_LINES.get(method))):
                ours = _measurement(results, name, used, key, kind, read, reason)
                if ours is None:
                    continue
                yield Figure(
                    *(f"{name}, {_label(used, key)}", quantity, kind, paper, ours),
                    target=_target(used, kind, quantity),
                    role="baseline" if used in BASELINES else "own",
                    is_free=used in ("svm", "core") and quantity != NODES,
                    unjudged="" if used == method else OTHER_METHOD,
                )


def _target(method: str, kind: Kind, quantity: str) -> Target:
    """Points of the exact solver describe: the optimum is unique, no choice of ours has a part."""
    if kind == "size" and method == "svm" and quantity != NODES:
        return "equal"
    return "larger" if kind == "accuracy" else "smaller"


def _label(method: str, key: Any) -> str:
    if isinstance(key, str):
        return METHODS[method]
    _, *classifier, k = key
    features = f", {k} per class" if k else ""
    return ", ".join([METHODS[method], *classifier]) + features


def _measurement(
    results: Results, name: str, method: str, key: Any, kind: Kind, read: Read, reason: Reason
) -> Measurement | str | None:
    """Ours, or why there is nothing; None for a line that is not asked for."""
    experiment = f"{name} {method}"
    if name == "face":
        return None if method in OWN_LINES.values() else NOT_PUBLIC
    if experiment not in results.named:
        return None
    if not results.have(experiment):
        return NOT_YET
    answers = results.answers(experiment)
    values = [read(answer, key) for answer in answers]
    if None in values:
        return None if method in OWN_LINES.values() else NOT_EXACT
    errors = [answer["test_error"].get(_accuracy_name(key)) for answer in answers]
    is_accuracy = kind == "accuracy"
    return Measurement(
        [float(value) for value in values if value is not None],
        answers[0]["n_test"] if is_accuracy else None,
        results.seconds(experiment),
        f"{METHODS[method]}: {_settings(method, key, answers, is_accuracy)}",
        _selection(method, key, is_accuracy),
        _alternative(key, answers) if is_accuracy else "",
        reason(name, key),
        test_error=float(np.mean(errors)) if is_accuracy and None not in errors else None,
    )


def _accuracy_name(key: Any) -> str:
    """Of a classifier in the answer of an experiment."""
    return "tree" if isinstance(key, str) else f"{key[-2]} {key[-1]}"


def _settings(method: str, key: Any, answers: list[Any], is_accuracy: bool) -> str:
    parts = ["unscaled"] if method == "none" else ["width the mean squared distance"]
    if method in ("svm", "core", "landmarks"):
        parts.append("C=1")
    if answers[0]["parameters"]:
        parts.append(answers[0]["parameters"])
    if is_accuracy and isinstance(key, str):
        parts.append("tree " + " or ".join(sorted({answer["rule"] for answer in answers})))
    if is_accuracy and key[1] == "SVM":
        parts = [f"C={answers[0]['C']:g}", "width the mean squared distance"]
    return ", ".join(parts)


def _selection(method: str, key: Any, is_accuracy: bool) -> str:
    if is_accuracy and key[1] == "SVM":
        return "C of 1, 10, 100 and 1,000 by five-fold cross-validation on training rows"
    chosen = _SELECTION[method]
    if is_accuracy and isinstance(key, str):
        chosen += "; tree pruned or best first by five-fold cross-validation on training rows"
    return chosen


def _alternative(key: Any, answers: list[Any]) -> str:
    """What cross-validation said of the two kinds of trees."""
    if not isinstance(key, str):
        return ""
    by_rule = answers[0]["by_rule"]
    return "five folds: " + ", ".join(f"{rule} {score:.2f}" for rule, score in by_rule.items())


_SELECTION = {
    "none": "nothing to select",
    "kpca": "width is the paper's",
    "kfd": "width is the paper's; alpha for 1-NN on a fifth of the training rows",
    "svm": "C and width are the paper's",
    "core": "C and width are the paper's, also eps=0.001 and samples of 59 rows",
    "landmarks": "C and width are the paper's",
}
_SELECTION["kfd landmarks"] = _SELECTION["kfd"]
NODES = "nodes of the tree"
NOT_EXACT = "not measured: three exact features per class take 6 minutes, five an estimated 20"
_NETWORK_NOTE = (
    "The network has ten hidden units, as in the paper, and weight decay 1, the best on held-out "
    "training rows of optdigits and pendigits."
)
_TREE_NOTE = (
    "Trees have at most the paper's number of nodes, so that accuracies are compared at equal "
    "size. They are CART trees with two rows per leaf or more, either pruned (grown fully, then "
    "cost-complexity pruning to the largest subtree that is no larger than the paper's) or grown "
    "best node first; five-fold cross-validation on at most 5,000 training rows takes one of the "
    "two, the pruned tree if they are equal. The paper has C4.5."
)
_GENERAL_NOTE = (
    "Three seeds on optdigits and satimage (core sets: also on pendigits), one elsewhere; the test "
    "sets are the official ones. MMDA(CVM) is measured with core sets and MMDA(SVM) with the exact "
    "solver. Lines by landmarks are other methods than the paper's, kernlet's default for many "
    "rows: they are shown beside the paper's MMDA(CVM) and KFD, and not judged. KPCA and KFD have "
    "3,500 random rows of the larger data sets, as in the paper. The extended USPS is rebuilt; "
    "its standard errors are those of 623 digits, of which each is tested at 121 shifts. The "
    "faces are not public."
)


def build_nodes(results: Results, quick: bool) -> PaperTable:
    """Table 2: sizes of trees."""
    figures = _figures(results, TREE_NODES, NODES, "size", lambda answer, key: answer.get("nodes"))
    title = "Table 2: sizes of decision trees"
    judged = [figure for figure in figures if not figure.unjudged]  # landmarks: as core sets
    return PaperTable(PAPER, "2", title, judged, [_TREE_NOTE, _GENERAL_NOTE])


def _accuracy(answer: dict[str, Any], key: Any) -> float | None:
    value: float | None = answer["accuracy"].get(_accuracy_name(key))
    return value


def build_trees(results: Results, quick: bool) -> PaperTable:
    """Table 3: accuracies of trees."""
    quantity = "tree, test accuracy, %"
    figures = _figures(results, TREE_ACCURACY, quantity, "accuracy", _accuracy, _tree_reason)
    title = "Table 3: accuracies of decision trees"
    return PaperTable(PAPER, "3", title, list(figures), [_TREE_NOTE, _GENERAL_NOTE])


def _tree_reason(name: str, key: Any) -> str:
    return (
        "a CART tree of the size of the paper's pruned C4.5 makes less of these columns, pruned or "
        "grown best first"
    )


def build_accuracies(results: Results, quick: bool) -> PaperTable:
    """Table 4: 1-NN, networks and SVM."""
    quantity = "test accuracy, %"
    figures = _figures(results, ACCURACY, quantity, "accuracy", _accuracy, _accuracy_reason)
    notes = [
        _NETWORK_NOTE,
        "The paper's KPCA and KFD of 3,500 random rows are no better than chance on mnist, from "
        "which it concludes that sampling ruins them. By the same protocol they are not here: KPCA "
        "is ahead of margin features with 1-NN on mnist and the extended USPS.",
        _GENERAL_NOTE,
    ]
    return PaperTable(PAPER, "4", "Table 4: test accuracies", list(figures), notes)


def _accuracy_reason(name: str, key: Any) -> str:
    if key[0] in ("none", "kpca", "kfd"):
        return (
            "a baseline without margin features; scales, widths and training of the paper's "
            "baselines are not stated in full"
        )
    if key[1] == "ANN":
        return "training and initial weights of the paper's network are not stated"
    if name != "satimage":
        return ""
    return (
        "in the paper core sets are 1.4 points ahead of the exact features, which have 87.25 there "
        "and 87.20 here; ours are not"
    )


def build_seconds(results: Results, quick: bool) -> PaperTable:
    """Table 5: CPU time of the features."""
    figures = _figures(results, SECONDS, "CPU seconds of the features", "time", _fit_seconds)
    notes = [
        "One fit with five features per class: the times of one and three are those at which its "
        "first features were found. The paper's times are of an Athlon 4400+ and MATLAB.",
        _GENERAL_NOTE,
    ]
    return PaperTable(PAPER, "5", "Table 5: time of feature extraction", list(figures), notes)


def _fit_seconds(answer: dict[str, Any], key: Any) -> float | None:
    seconds: float | None = answer["fit"].get(str(key[1]))
    return seconds


def build_points(results: Results, quick: bool) -> PaperTable:
    """Table 6: kernel evaluations per feature, and the certificate of section 4.4."""
    figures = [
        *_figures(
            *(results, POINTS, "kernel evaluations per feature", "size"),
            lambda answer, key: answer["points"].get(str(key[1])),
            _points_reason,
        ),
        *_ball_figures(results),
    ]
    notes = [
        "Averages over features. All features of landmarks share their points, so that their "
        "number is the cost of all features together; core sets of different classes are different "
        "points. A later core set of a class takes points of the earlier ones first, which the "
        "paper does not say of its own; without that, five features per class need 454, 543 and "
        "564 points on optdigits, satimage and pendigits. The points of MMDA(SVM) are the support "
        "vectors of an optimum that is unique: a description, not an achievement.",
        "Section 4.4: if all rows lie within 1 + eps radii of the center of a core set's ball, the "
        "square of the optimal radius is at most (1 + eps)^2 that of the ball. The true eps over "
        "all rows is the certificate `ball_gap_`. It is larger than 0.001, as a sample of 59 rows "
        "without a row outside ends the search. The radius has a large constant part: the duality "
        "gap relative to the classifier's objective (`gap_`) reaches 0.9 or more at late features.",
        _GENERAL_NOTE,
    ]
    title = "Table 6: kernel evaluations per feature"
    return PaperTable(PAPER, "6", title, figures, notes)


def _ball_figures(results: Results) -> Iterator[Figure]:
    """What section 4.4 bounds by (1 + eps)^2 - 1, at the worst feature."""
    for name in SETS[:-1]:
        experiment = f"{name} core"
        if not results.have(experiment):
            continue
        gaps = [answer["certificates"]["ball_gap"] for answer in results.answers(experiment)]
        ours = Measurement([100 * ((1 + eps) ** 2 - 1) for eps in gaps], parameters="solver=core")
        quantity = "squared radius below the optimum, at most, %"
        yield Figure(
            *(f"{name}, MMDA(CVM)", quantity, "other", 100 * (1.001**2 - 1), ours), target="smaller"
        )


def _points_reason(name: str, key: Any) -> str:
    return (
        "at the optimum, to a gap of 1e-8, more rows have a positive dual than by the paper's SMO, "
        "whose tolerance is not stated: on optdigits a working set that stops at a gap of 20 % or "
        "5 % has 267 or 329 points where the paper has 303 and the optimum 493"
    )


_DIGITS = "digits 0, 6 and 9"


def _digit_experiments(quick: bool) -> NamedExperiments:
    return {_DIGITS: [Experiment(embed_digits, {"digits": [0, 6, 9], "seed": 0})]}


@picture_style()
def build_digits(results: Results, quick: bool) -> PaperTable:
    """Figure 1: three digits in the plane."""
    title = "Figure 1: three digits in the plane"
    quantity = "test rows classified correctly by 1-NN, %"
    if not results.have(_DIGITS):
        missing = Figure("digits", quantity, "other", None, NOT_YET)
        return PaperTable(PAPER, "figure1", title, [missing])
    (places,) = results.answers(_DIGITS)
    picture = Picture(figsize=(9, 4), layout="constrained")
    figures = []
    for axes, method in zip(picture.subplots(1, 2), ("KFD", "MMDA"), strict=True):
        points, labels = np.array(places[method]), np.array(places["labels"])
        for label in (0, 6, 9):
            axes.plot(*points[labels == label].T, ".", markersize=3, label=f"digit {label}")
        axes.set(title=method, xlabel="first feature", ylabel="second feature")
        correct = Measurement([places[f"{method} 1-NN"]], len(labels), results.seconds(_DIGITS))
        figures.append(Figure(method, quantity, "other", None, correct))
    picture.legend(
        *axes.get_legend_handles_labels(), loc="outside upper center", ncols=3, markerscale=4
    )
    notes = ["Digits 0, 6 and 9 of the test set of optdigits in two features; nothing to judge."]
    pictures = {"tsang2006-figure1.png": picture}
    return PaperTable(PAPER, "figure1", title, figures, notes, pictures)


#: Methods of Figure 2, with a line and a marker each.
_GROWING: dict[str, dict[str, Any]] = {
    "svm": {"linewidth": 4, "alpha": 0.5},
    "core": {"marker": "o"},
    "landmarks": {"marker": "x", "linestyle": "--"},
    "kpca": {"marker": "^", "linestyle": "-."},
    "kfd": {"marker": "s", "linestyle": ":"},
}


@picture_style()
def build_growth(results: Results, quick: bool) -> PaperTable:
    """Figure 2: CPU time and accuracy of the network against the number of features."""
    title = "Figure 2: number of features, CPU time and accuracy"
    names = [name for name in SMALL if results.have(*(f"{name} {m}" for m in _GROWING))]
    if not names:
        missing = Figure("all sets", "network, %", "other", None, NOT_YET)
        return PaperTable(PAPER, "figure2", title, [missing])
    picture = Picture(figsize=(10, 5.5), layout="constrained")
    grid = picture.subplots(2, len(names), squeeze=False, sharex="col")
    figures, rows = [], []
    for (times, accuracies), name in zip(grid.T, names, strict=True):
        for method, style in _GROWING.items():
            answers = results.answers(f"{name} {method}")
            curves = _curves(answers)
            for axes, values in zip((times, accuracies), curves, strict=True):
                axes.plot(ALL_COUNTS, values, markersize=4, label=METHODS[method], **style)
            cells = [f"{a:.2f} / {s:.1f}" for s, a in zip(*curves, strict=True)]
            rows.append([name, METHODS[method], *cells])
            figures.append(_last_point(f"{name}, {METHODS[method]}", answers))
        times.set(title=name, ylabel="CPU seconds of the features", yscale="log")
        accuracies.set(xlabel="features per class", ylabel="network, test accuracy, %")
    picture.legend(*times.get_legend_handles_labels(), loc="outside upper center", ncols=5)
    counts = [f"{k} per class" for k in ALL_COUNTS]
    notes = [
        "Test accuracy of the network in %, and CPU seconds of the features:",
        markdown_table(["data set", "features", *counts], rows),
        "The paper's curves are not printed as numbers: nothing to judge. KFD has one feature "
        "fewer than classes, whatever the number of the others. The time of KPCA is that of the "
        "randomized solver, one fit for each number of features.",
        "KFD is ahead of margin features on optdigits and pendigits, and KPCA, with five features "
        "per class, on pendigits.",
        _NETWORK_NOTE,
    ]
    pictures = {"tsang2006-figure2.png": picture}
    return PaperTable(PAPER, "figure2", title, figures, notes, pictures)


def _curves(answers: list[Any]) -> tuple[list[float], list[float]]:
    """Mean CPU seconds and accuracies of the network for all numbers of features per class."""
    keys = [_count_key(answers[0], k) for k in ALL_COUNTS]
    seconds = [float(np.mean([a["fit"][key] for a in answers])) for key in keys]
    accuracies = [float(np.mean([a["accuracy"][f"ANN {key}"] for a in answers])) for key in keys]
    return seconds, accuracies


def _count_key(answer: dict[str, Any], k: int) -> str:
    """The name of so many features per class in an answer; KFD has but one number of them."""
    return str(k) if str(k) in answer["fit"] else "0"


def _last_point(row: str, answers: list[Any]) -> Figure:
    k = ALL_COUNTS[-1]
    name = f"ANN {_count_key(answers[0], k)}"
    ours = Measurement([answer["accuracy"][name] for answer in answers])
    return Figure(row, f"network, {k} features per class, %", "other", None, ours)


TABLES: dict[str, Recipe] = {
    "2": Recipe(experiments, build_nodes),
    "3": Recipe(experiments, build_trees),
    "4": Recipe(experiments, build_accuracies),
    "5": Recipe(experiments, build_seconds),
    "6": Recipe(experiments, build_points),
    "figure1": Recipe(_digit_experiments, build_digits),
    "figure2": Recipe(_small_experiments, build_growth),
}
