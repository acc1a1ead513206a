"""A kernel of your own in a pipeline, with its width chosen by cross-validation.

Run it with ``python examples/own_kernel.py``.
"""

from dataclasses import dataclass

from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import GridSearchCV, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from kernlet import MinimalKernelClassifier
from kernlet.kernels.base import Kernel


@dataclass(frozen=True)
class RationalQuadratic(Kernel):
    """k(x, z) = 1 / (1 + |x - z|^2 / scale)."""

    scale: float
    is_translation_invariant = True

    def of_products(self, products, x_norms, z_norms):
        """The formula."""
        return 1.0 / (1.0 + (x_norms + z_norms - 2.0 * products) / self.scale)


X, y = load_breast_cancer(return_X_y=True)
X, X_test, y, y_test = train_test_split(X, y, stratify=y, random_state=0)
pipeline = make_pipeline(StandardScaler(), MinimalKernelClassifier(random_state=0))
grid = {
    "minimalkernelclassifier__kernel": [RationalQuadratic(s) for s in (10.0, 30.0, 100.0)],
    "minimalkernelclassifier__C": [0.3, 1.0, 3.0],
}
search = GridSearchCV(pipeline, grid, cv=5).fit(X, y)
machine = search.best_estimator_[-1]
print(f"{machine.expansion_.kernel}, C={machine.C}: {machine.n_centers_} centers of {len(X)} rows")
print(f"{100 * search.score(X_test, y_test):.1f} % correct")
