"""Refining a machine on data: centers, coefficients, intercepts and width together."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state

from kernlet.expansion import KernelExpansion
from kernlet.kernels import RBF
from kernlet.kernels.kernel import Floats
from kernlet.problems.joint_margin import JointMargin, Loss, Machine
from kernlet.solvers.adam import Adam, Schedule, batches, n_batches

RATES = {"centers": 0.1, "weights": 0.5, "intercept": 0.5, "log_gamma": 0.05}


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
    loss: Loss = "cross_entropy",
    smoothing: float = 0.1,
    noise: float = 0.1,
    n_epochs: int = 60,
    batch_size: int = 256,
    rates: dict[str, float] | None = None,
    sample_weight: Any = None,
    random_state: Any = None,
) -> Refinement:
    """Train all numbers of a Gaussian machine together, from where they are.

    Mini-batches and Adam in float32; the rows are shifted and scaled by one mean and one
    deviation, which is undone in the answer. Time is about 6 n_rows n_centers n_features an
    epoch; memory is a float32 copy of X and a few matrices of batch_size x n_centers.

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
    _check(expansion, codes)
    random = check_random_state(random_state)
    rows = X.toarray() if sparse.issparse(X) else np.asarray(X)
    shift, scale = float(rows.mean()), float(rows.std()) or 1.0
    rows = ((rows - shift) / scale).astype(np.float32)
    codes = np.asarray(codes)
    weights = np.ones(len(rows)) if sample_weight is None else np.asarray(sample_weight, float)
    problem = JointMargin(loss, smoothing)
    start = _scaled(expansion, shift, scale)
    factor = 1.0
    while True:
        search = _Search(problem, start, {**RATES, **(rates or {})}, factor, noise, random)
        losses = search.run(rows, codes, weights, n_epochs, batch_size)
        if np.isfinite(losses).all():
            break
        factor /= 2.0
        warnings.warn(
            f"The loss became infinite; starting again with learning rates times {factor:g}.",
            ConvergenceWarning,
            stacklevel=2,
        )
        if factor < 1e-3:
            return Refinement(expansion, ())
    return Refinement(_unscaled(search.machine, expansion, shift, scale), tuple(losses))


class _Search:
    """Adam on a machine, in epochs of shuffled batches with noisy inputs."""

    def __init__(
        self,
        problem: JointMargin,
        start: Machine,
        rates: dict[str, float],
        factor: float,
        noise: float,
        random: np.random.RandomState,
    ) -> None:
        self.problem, self.start, self.machine = problem, start, start
        self.rates = {name: factor * rate for name, rate in rates.items()}
        self.noise, self.random = np.float32(noise), random

    def run(
        self, X: Floats, codes: Any, weights: Floats, n_epochs: int, batch_size: int
    ) -> list[float]:
        """Mean losses of the epochs; stops where a loss is not finite."""
        per_epoch = n_batches(len(X), batch_size)
        search = Adam(self.start.arrays(), self.rates, Schedule(n_epochs * per_epoch))
        losses: list[float] = []
        generator = np.random.default_rng(self.random.randint(2**31 - 1))
        with np.errstate(over="ignore", invalid="ignore"):
            for batch in batches(len(X), batch_size, n_epochs, self.random):
                noisy = generator.standard_normal((len(batch), X.shape[1]), dtype=np.float32)
                noisy *= self.noise
                noisy += X[batch]
                self.machine = Machine(**search.arrays)
                value, slope = self.problem.value_and_gradient(
                    self.machine, noisy, codes[batch], weights[batch]
                )
                losses.append(value)
                if not np.isfinite(value):
                    return losses
                search.step(slope.arrays())
        self.machine = Machine(**search.arrays)
        return [float(np.mean(part)) for part in np.array_split(losses, n_epochs)]


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


def _scaled(expansion: KernelExpansion, shift: float, scale: float) -> Machine:
    """The machine in shifted and scaled inputs, in float32."""
    centers = expansion.centers
    centers = centers.toarray() if sparse.issparse(centers) else centers
    gamma = expansion.kernel.gamma * scale**2  # type: ignore[attr-defined]
    return Machine(
        ((centers - shift) / scale).astype(np.float32),
        expansion.coef.astype(np.float32),
        expansion.intercept.astype(np.float32),
        np.log(np.array([gamma])).astype(np.float32),
    )


def _unscaled(
    machine: Machine, expansion: KernelExpansion, shift: float, scale: float
) -> KernelExpansion:
    gamma = float(np.exp(machine.log_gamma[0])) / scale**2
    centers = (machine.centers.astype(np.float64) * scale + shift).astype(expansion.centers.dtype)
    coef, intercept = machine.weights.astype(np.float64), machine.intercept.astype(np.float64)
    return KernelExpansion(RBF(gamma), centers, coef, intercept)
