"""A Model from the arrays of an SVC."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils import check_array

from kernlet.affine import AffineMap
from kernlet.kernels.base import Kernel
from kernlet.kernels.gram import as_dense
from kernlet.model.convert import svc_expansion
from kernlet.model.model import Model


def from_svc_arrays(
    support_vectors: Any,
    dual_coef: Any,
    intercept: Any,
    classes: Any,
    n_support: Any = None,
    *,
    gamma: float,
    kernel: str = "rbf",
    degree: int = 3,
    coef0: float = 0.0,
    scaler: AffineMap | None = None,
) -> Model:
    """A classifier from the arrays of an SVC, whatever version of scikit-learn trained it.

    Parameters
    ----------
    support_vectors : {array-like, sparse matrix} of shape (n_vectors, n_features)
        ``support_vectors_``, in the order of the classes.
    dual_coef : {array-like, sparse matrix} of shape (n_classes - 1, n_vectors)
        ``dual_coef_``.
    intercept : array-like of shape (n_pairs,)
        ``intercept_``, one per pair of classes.
    classes : array-like of shape (n_classes,)
        ``classes_``, in ascending order.
    n_support : array-like of shape (n_classes,), default=None
        ``n_support_``; not needed for two classes.
    gamma : float
        As a number: ``_gamma`` of an SVC whose parameter is "scale" or "auto".
    kernel : {"rbf", "laplacian", "poly", "linear", "sigmoid"}, default="rbf"
        Name of the kernel.
    degree : int, default=3
        Degree of the polynomial kernel.
    coef0 : float, default=0.0
        Constant of the polynomial and sigmoid kernels.
    scaler : AffineMap, default=None
        x -> (x - shift) * scale before the kernel. That of a StandardScaler is
        ``AffineMap(mean_, 1 / scale_)``.

    Returns
    -------
    model : Model
        For :func:`kernlet.compress`, ``save``, ``to_c`` and ``to_onnx``.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.svm import SVC
    >>> from kernlet import compress
    >>> from kernlet.model.arrays import from_svc_arrays
    >>> X, y = load_iris(return_X_y=True)
    >>> svm = SVC(gamma=0.5).fit(X, y)
    >>> names = ("support_vectors_", "dual_coef_", "intercept_", "classes_", "n_support_")
    >>> arrays = [getattr(svm, name) for name in names]  # saved where the SVC can be loaded
    >>> small = compress(from_svc_arrays(*arrays, gamma=0.5), 9, X, y, random_state=0)
    >>> bool((small.predict(X) == svm.predict(X)).mean() > 0.95)
    True
    """
    vectors = check_array(support_vectors, accept_sparse="csr", input_name="support_vectors")
    duals = check_array(as_dense(dual_coef), dtype=np.float64, input_name="dual_coef")
    values, labels = np.ravel(np.asarray(intercept, dtype=np.float64)), np.asarray(classes)
    k = len(labels)
    if n_support is None and k == 2:
        n_support = (duals.shape[1], 0)  # the two classes have the same single row of duals
    counts = np.ravel(np.asarray([] if n_support is None else n_support, dtype=int))
    if k < 2 or not np.array_equal(np.unique(labels), labels):
        raise ValueError("classes must be two or more labels in ascending order, as classes_ are.")
    for name, shape, expected in (
        ("dual_coef", duals.shape, (k - 1, vectors.shape[0])),
        ("intercept", values.shape, (k * (k - 1) // 2,)),
        ("n_support", counts.shape, (k,)),
    ):
        if shape != expected:
            raise ValueError(
                f"{name} has shape {shape}; {k} classes and {vectors.shape[0]} support vectors "
                f"need {expected}."
            )
    if counts.sum() != vectors.shape[0]:
        raise ValueError(
            f"n_support adds up to {counts.sum()}, but support_vectors has {vectors.shape[0]} rows."
        )
    parameters = {"name": kernel, "gamma": float(gamma), "degree": degree, "coef0": float(coef0)}
    return Model(
        svc_expansion(Kernel.from_dict(parameters), vectors, duals, values, counts),
        "classifier",
        classes=labels,
        scheme="one output" if k == 2 else "one vs one",
        votes=k > 2,
        break_ties=False,
        scaler=scaler,
        summary={"estimator": "SVC arrays"},
    )
