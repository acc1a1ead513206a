"""Make a fitted SVM small, and refine the points it is left with.

Run it with ``python examples/compress_svm.py``.
"""

import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from sklearn.svm import SVC

from kernlet import compress
from kernlet.compression.refit import refine

X, y = load_digits(return_X_y=True)
X, X_test, y, y_test = train_test_split(X, y, stratify=y, random_state=0)
svm = SVC(C=10).fit(X, y)
print(f"SVC: {len(svm.support_)} support vectors, {100 * svm.score(X_test, y_test):.1f} % correct")

for n_centers in (20, 50, 100):
    small = compress(svm, n_centers, X, y, random_state=0)
    facts = small.compression_
    print(
        f"{n_centers} centers ({facts.coefficients}): {facts.bytes_before:,} to "
        f"{facts.bytes_after:,} bytes, {100 * small.score(X_test, y_test):.1f} % correct"
    )
    if small.expansion_.n_outputs == len(small.classes_):
        fine = refine(small.expansion_, X, np.searchsorted(small.classes_, y), random_state=0)
        predicted = small.classes_[fine.expansion.decision_values(X_test).argmax(axis=1)]
        print(f"    trained together on the data: {100 * np.mean(predicted == y_test):.1f} %")
