"""Refining a machine on data: centers, coefficients, intercepts and width together."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from scipy import sparse
from sklearn.utils import check_random_state

from kernlet.devices import find_device, to_numpy
from kernlet.expansion import KernelExpansion
from kernlet.kernels import RBF
from kernlet.problems.joint_margin import JointMargin, Machine
from kernlet.problems.losses import CrossEntropy, SquaredHinge
from kernlet.solvers.examples import Examples, mean_and_deviation
from kernlet.solvers.joint_descent import RATES, Recipe, descend


@dataclass(frozen=True, eq=False)
class Refinement:
    """A refined machine, and how the loss went.

    Parameters
    ----------
    expansion : KernelExpansion
        With as many centers as before, elsewhere.
    losses : tuple of float
        Mean loss of each epoch.
    """

    expansion: KernelExpansion
    losses: tuple[float, ...]


def refine(
    expansion: KernelExpansion,
    X: Any,
    codes: Any,
    *,
    loss: Literal["cross_entropy", "squared_hinge"] = "cross_entropy",
    smoothing: float = 0.1,
    noise: float = 0.1,
    n_epochs: int = 60,
    batch_size: int = 256,
    rates: dict[str, float] | None = None,
    sample_weight: Any = None,
    device: str | None = None,
    random_state: Any = None,
) -> Refinement:
    """Train all numbers of a Gaussian machine together, from where they are.

    Mini-batches and Adam in float32; the rows are shifted and scaled by one mean and one
    deviation, which is undone in the answer. Time is about 4 n_rows n_centers n_features an
    epoch; memory is a float32 copy of X, if that is small, and a few matrices of
    batch_size x n_centers. :class:`~kernlet.CompactKernelClassifier` does the same and more with
    ``init=``: projection, small storage, probabilities.

    Parameters
    ----------
    expansion : KernelExpansion
        With an rbf kernel and one output (two classes) or one a class.
    X : {ndarray, sparse matrix} of shape (n_rows, n_features)
    codes : ndarray of shape (n_rows,)
        Class numbers, from 0.
    loss : {"cross_entropy", "squared_hinge"}, default="cross_entropy"
    smoothing : float, default=0.1
        Of the labels, with cross-entropy.
    noise : float, default=0.1
        Deviation of the noise added to the inputs, in their own deviation.
    n_epochs : int, default=60
    batch_size : int, default=256
    rates : dict, default=None
        Learning rates of "centers", "weights", "intercept" and "log_gamma" where they should
        differ from .1, .5, .5 and .05.
    sample_weight : array-like of shape (n_rows,), default=None
    device : str, default=None
        "cuda" trains on a GPU, through torch; None with numpy.
    random_state : int, RandomState instance or None

    Returns
    -------
    refinement : Refinement

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from kernlet import MinimalKernelClassifier
    >>> from kernlet.reduce import refine
    >>> X, y = make_moons(300, noise=0.2, random_state=0)
    >>> machine = MinimalKernelClassifier(random_state=0).fit(X, y)
    >>> fine = refine(machine.expansion_, X, y, n_epochs=20, random_state=0)
    >>> fine.losses[-1] < fine.losses[0]
    True
    """
    expansion = expansion.unfolded()
    _check(expansion, codes)
    kind = CrossEntropy(smoothing) if loss == "cross_entropy" else SquaredHinge()
    shift, scale = mean_and_deviation(X)
    weights = np.ones(X.shape[0]) if sample_weight is None else np.asarray(sample_weight, float)
    rows = np.flatnonzero(weights)
    examples = Examples(
        X[rows],
        np.asarray(codes)[rows],
        weights[rows] / weights[rows].mean(),
        table=kind.target_table(max(2, expansion.n_outputs)),
        shift=shift,
        scale=scale,
        device=find_device(device),
    )
    start = scaled_machine(expansion, shift, scale)
    start = Machine(**{name: examples.device.send(a) for name, a in start.arrays().items()})
    recipe = Recipe(n_epochs, batch_size, noise, {**RATES, **(rates or {})})
    found = descend(JointMargin(kind), start, examples, recipe, check_random_state(random_state))
    return Refinement(_unscaled(found.machine, expansion, shift, scale), found.losses)


def scaled_machine(expansion: KernelExpansion, shift: float, scale: float) -> Machine:
    """An rbf machine in inputs (x - shift) / scale, as arrays of numpy.

    Parameters
    ----------
    expansion : KernelExpansion
    shift, scale : float

    Returns
    -------
    machine : Machine
    """
    centers = expansion.centers
    centers = centers.toarray() if sparse.issparse(centers) else centers
    gamma = expansion.kernel.gamma * scale**2  # type: ignore[attr-defined]
    return Machine(
        (centers - shift) / scale,
        expansion.coef,
        expansion.intercept,
        np.log(np.array([gamma])),
    )


def _check(expansion: KernelExpansion, codes: Any) -> None:
    if not isinstance(expansion.kernel, RBF):
        raise ValueError(f"Only rbf machines can be refined, not {expansion.kernel!r}.")
    n_classes = int(np.max(codes)) + 1
    if not expansion.n_centers:
        raise ValueError("The machine has no centers to refine.")
    if max(2, n_classes) > max(2, expansion.n_outputs):
        raise ValueError(
            f"codes hold {n_classes} classes, but the machine has {expansion.n_outputs} outputs; "
            "give it one output a class."
        )


def _unscaled(
    machine: Machine, expansion: KernelExpansion, shift: float, scale: float
) -> KernelExpansion:
    machine = Machine(**{name: to_numpy(array) for name, array in machine.arrays().items()})
    gamma = float(np.exp(machine.log_gamma[0])) / scale**2
    centers = (machine.centers.astype(np.float64) * scale + shift).astype(expansion.centers.dtype)
    coef, intercept = machine.weights.astype(np.float64), machine.intercept.astype(np.float64)
    return KernelExpansion(RBF(gamma), centers, coef, intercept)
