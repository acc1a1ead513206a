"""Figures of Tsang, Kocsor and Kwok (KDD 2006), as printed.

Sets in the order of ``SETS``; None where the paper has a dash. The copy of Tables 5 and 6 that was
read has lost its last column, that of the faces, in the lines of margin features.
"""

from __future__ import annotations

SETS = ("optdigits", "satimage", "pendigits", "letter", "mnist", "usps", "face")
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
#: Test accuracies, Table 4, by method, classifier and features a class (0: all).
ACCURACY: dict[tuple[str, str, int], Line] = {
    ("none", "SVM", 0): (96.66, 89.60, 96.74, 90.95, None, None, None),
    ("none", "1-NN", 0): (96.38, 89.35, 97.43, 95.20, 94.34, None, None),
    ("none", "ANN", 0): (94.37, 87.40, 95.19, 70.95, 90.39, 99.12, 97.40),
    ("kpca", "1-NN", 0): (94.94, 87.95, 97.37, 88.45, 9.58, 99.38, None),
    ("kpca", "ANN", 0): (93.65, 87.70, 96.05, 76.90, 10.28, 98.60, 83.61),
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
#: CPU seconds, Table 5, and kernel evaluations of an average feature, Table 6.
SECONDS: dict[tuple[str, int], Line] = {
    ("kpca", 0): (2632, 1804, 1680, 2029, 2639, 4479, 2216),
    ("kfd", 0): (1340, 1339, 1335, 1340, 1297, 2038, 1674),
    ("svm", 1): (84, 121, 127, 1911, None, None, None),
    ("svm", 3): (476, 421, 570, 9646, None, None, None),
    ("svm", 5): (1495, 900, 1674, 20860, None, None, None),
    ("core", 1): (41, 23, 20, 92, 1610, 2359, None),
    ("core", 3): (181, 78, 95, 301, 4928, 6585, None),
    ("core", 5): (332, 136, 174, 512, 8179, 10630, None),
}
POINTS: dict[tuple[str, int], Line] = {
    ("kpca", 0): (3823, 4435, 7494, 3500, 3500, 3500, 3500),
    ("kfd", 0): (3823, 4435, 7494, 3500, 3500, 3500, 3500),
    ("svm", 1): (303, 548, 293, 870, None, None, None),
    ("svm", 3): (841, 1056, 1149, 1772, None, None, None),
    ("svm", 5): (1278, 1553, 1875, 2420, None, None, None),
    ("core", 1): (279, 308, 292, 351, 434, 423, None),
    ("core", 3): (359, 334, 349, 357, 434, 398, None),
    ("core", 5): (367, 342, 353, 360, 427, 396, None),
}


def printed(line: Line, name: str) -> float | None:
    """The figure of a set in a line."""
    return line[SETS.index(name)]
