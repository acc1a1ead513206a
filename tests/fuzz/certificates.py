"""Certificates of all solvers against independent ones, on random and degenerate problems.

What a certificate claims is checked without trusting another solver's last digits. For a machine of
objective P and relative gap g:

- P, computed again from the machine's own predictions and coefficients, is what it says;
- P (1 - g) is a lower bound on the optimum. Any point of the problem has an objective above the
  optimum, so that of another solver's answer, however rounded, must not lie below the bound;
- a gap above ``tol`` comes with a warning, and every number is finite.

``slack`` is everywhere the rounding of the objectives compared: kernel values differ in their last
digit between blocks of different shapes, and so do decision values, by eps times the sum of
|coefficient times kernel value|, which the costs multiply.
"""

from __future__ import annotations

import warnings
from dataclasses import replace
from pathlib import Path
from unittest import mock

import numpy as np
from scipy.linalg import LinAlgError, eigh
from scipy.optimize import linprog, minimize
from sklearn.exceptions import ConvergenceWarning

import kernlet
import naive
from fuzz.campaign import Target, check_sentence
from fuzz.certificates_problems import draw_problem
from kernlet.compression.refit import refit
from kernlet.lp import generation
from kernlet.squared.hull import Removal

EPS = np.finfo(float).eps
# Gaps below this are round-off for every estimator: GAP_WORTH_WARNING of sklearn_base.
ROUND_OFF = 1e-8
MERCER = ("rbf", "poly", "linear")


# -- What every certificate must satisfy -----------------------------------------------------


class RefusedError(Exception):
    """A fit that ended with a sentence."""


def fit(machine, problem, train=None):
    """Fit, or train in another way; the machine and whether it warned."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            if train is None:
                machine.fit(problem.X, problem.y, problem.weights)
            else:
                train(machine)
        except ValueError as error:
            check_sentence(error)
            raise RefusedError from error
    noise = [w for w in caught if issubclass(w.category, RuntimeWarning)]
    assert not noise, f"a numpy warning escaped: {noise[0].message}"
    expansion = machine.expansion_
    assert np.isfinite(expansion.coef).all(), "coefficients are not finite"
    assert np.isfinite(expansion.intercept).all(), "intercepts are not finite"
    return machine, any(issubclass(w.category, ConvergenceWarning) for w in caught)


def outcome(has_warned):
    """The word for a problem that was solved."""
    return "warned" if has_warned else "certified"


def check_gap(gap, tol, has_warned):
    """A gap is finite, not negative but for rounding, and warned of above ``tol``."""
    assert np.isfinite(gap), f"the gap is {gap}"
    assert gap >= -ROUND_OFF, f"the gap is {gap:.2e}"
    assert gap <= max(tol, ROUND_OFF) or has_warned, f"a gap of {gap:.1e} without a warning"


def check_close(claimed, found, slack, what):
    """Two values of one number agree up to rounding."""
    assert abs(claimed - found) <= slack, f"{what} is {found!r}, not {claimed!r} (+- {slack:.1e})"


def check_bound(claimed, gap, reference, slack):
    """The lower bound of a certificate is not above an objective that another solver reached."""
    bound = claimed * (1 - gap)
    assert bound <= reference + slack, (
        f"the bound is {bound!r} (objective {claimed!r}, gap {gap:.1e}), and another solver "
        f"reached {reference!r} (+- {slack:.1e})"
    )


class Values:
    """Kernel values between two sets of points in float64, with bounds on their rounding errors."""

    def __init__(self, kernel, X, Z):
        X, Z = (np.asarray(A, dtype=float) for A in (X, Z))
        self.K = np.asarray(kernel(X, Z))
        products = np.linalg.norm(X, axis=1)[:, None] * np.linalg.norm(Z, axis=1)
        unit = 4 * EPS * np.sqrt(X.shape[1] + 4)
        if (
            kernel.name == "rbf"
        ):  # evaluated about a point near all; an exponent's error is relative
            middle = np.median(np.vstack([X, Z]), axis=0)
            squares = [np.square(A - middle).sum(axis=1) for A in (X, Z)]
            exponents = kernel.gamma * (squares[0][:, None] + squares[1] + EPS * products)
            self.errors = unit * self.K * (1.0 + exponents)
        elif kernel.name == "linear":
            self.errors = unit * products
        else:
            inner = abs(kernel.gamma) * products + abs(kernel.coef0)
            q = np.abs(kernel.gamma * (X @ Z.T) + kernel.coef0)
            degree = getattr(kernel, "degree", 1)
            steep = degree * q ** (degree - 1) if kernel.name == "poly" else 1.0
            self.errors = unit * (inner * steep + np.abs(self.K))

    def __getitem__(self, rows):
        part = object.__new__(Values)
        part.K, part.errors = self.K[rows], self.errors[rows]
        return part

    def rounding(self, coef, intercept=0.0):
        """Rounding errors of K coef + intercept."""
        sums = np.abs(self.K) @ np.abs(coef) + abs(intercept)
        return 2 * (self.errors @ np.abs(coef)) + 8 * EPS * sums * np.sqrt(len(coef) + 4)


def values_of(machine, X, Z):
    """Kernel values of the machine's kernel."""
    return Values(machine.expansion_.kernel, X, Z)


def predictions(machine, X):
    """Decision values, one column per output; in float64, because float32 rows get float32."""
    return machine.decision_function(np.asarray(X, dtype=float)).reshape(len(X), -1)


# -- Linear programs -------------------------------------------------------------------------


def l1_objective(values, signs, costs, prices, coef, intercept):
    """C sum slack + sum |beta|, and its rounding error."""
    slacks = np.maximum(0.0, 1.0 - signs * (values.K @ coef + intercept))
    value = costs @ slacks + prices @ np.abs(coef)
    return value, costs @ values.rounding(coef, intercept) + 1e-12 * value


def l1_reference(values, signs, costs, prices):
    """The best objective that HiGHS finds, of the primal problem in units of its coefficients."""
    # HiGHS has absolute tolerances of 1e-7: kernel values and costs of the size of 1 suit it.
    K, cost = values.K, costs.max()
    unit, (m, s) = max(np.abs(K).max(), 1e-300), K.shape
    margin = np.hstack([signs[:, None] * K / unit, -signs[:, None] * K / unit, signs[:, None],
                        -signs[:, None], np.eye(m)])  # fmt: skip
    prices_in_units = np.concatenate([prices, prices]) / unit
    scale = max(prices_in_units.max(), cost)
    answer = linprog(
        np.concatenate([prices_in_units, [0.0, 0.0], costs]) / scale,
        A_ub=-margin,
        b_ub=-np.ones(m),
        method="highs",
    )
    if answer.x is None:
        return l1_objective(values, signs, costs, prices, np.zeros(s), 0.0)
    coef = (answer.x[:s] - answer.x[s : 2 * s]) / unit
    intercept = answer.x[2 * s] - answer.x[2 * s + 1]
    return l1_objective(values, signs, costs, prices, coef, intercept)


def check_l1(machine, problem, has_warned):
    """The claims of a 1-norm machine, output by output."""
    X, expansion = problem.X[problem.kept], machine.expansion_
    decisions, costs = predictions(machine, X), problem.costs()
    values = values_of(machine, X, expansion.centers)
    candidates = values_of(machine, X, getattr(machine, "points", X))
    for k, label in enumerate(problem.positives):
        signs, coef, intercept = problem.signs(label), expansion.coef[k], expansion.intercept[k]
        claimed, gap = machine.objective_[k], machine.duality_gap_[k]
        check_gap(gap, machine.tol, has_warned)
        slack = costs @ values.rounding(coef, intercept) + 1e-9 * abs(claimed)
        found = costs @ np.maximum(0.0, 1.0 - signs * decisions[:, k]) + np.abs(coef).sum()
        check_close(claimed, found, slack, "the objective")
        ones = np.ones(candidates.K.shape[1])
        reference, error = l1_reference(candidates, signs, costs, ones)
        check_bound(claimed, gap, reference, slack + error)


def l1(rng, folder: Path) -> str:
    """The 1-norm machine over all rows, by generation."""
    problem = draw_problem(rng, (*MERCER, "sigmoid"))
    machine = kernlet.L1KernelClassifier(
        problem.C,
        candidates=None,
        class_weight=problem.class_weight,
        random_state=0,
        **problem.kernel,
    )
    return _certify(check_l1, machine, problem)


def l1_streaming(rng, folder: Path) -> str:
    """The 1-norm machine over a few points, by streaming."""
    problem = draw_problem(rng, (*MERCER, "sigmoid"), max_rows=60)
    points = np.vstack([problem.X[:4], rng.normal(size=(2, problem.X.shape[1]))])
    points = points.astype(problem.X.dtype)
    machine = kernlet.L1KernelClassifier(
        problem.C,
        candidates=points,
        solver="streaming",
        class_weight=problem.class_weight,
        random_state=0,
        **problem.kernel,
    )
    machine.points = points
    return _certify(check_l1, machine, problem)


def l1_interior(rng, folder: Path) -> str:
    """The same where the interior point method takes over after the first pivots."""
    with mock.patch.multiple(generation, _MIN_WORK=0.0, _WORK_PER_OPERATION=0.0):
        return l1(rng, folder)


def minimal_without_price(rng, folder: Path) -> str:
    """mu = 0 is the 1-norm machine."""
    problem = draw_problem(rng, (*MERCER, "sigmoid"))
    machine = kernlet.MinimalKernelClassifier(
        problem.C,
        mu=0.0,
        candidates=None,
        class_weight=problem.class_weight,
        random_state=0,
        **problem.kernel,
    )
    return _certify(check_l1, machine, problem)


def check_stationary(machine, problem, has_warned):
    """A minimal machine minimises the linear program with the costs at itself."""
    X, expansion = problem.X[problem.kept], machine.expansion_
    centers, costs = expansion.centers, problem.costs()
    # Equal candidates are one center, whose coefficient only one of them need have.
    candidates = np.unique(np.vstack([X.astype(float), centers]), axis=0)
    values = values_of(machine, X, candidates)
    for k, label in enumerate(problem.positives):
        check_gap(machine.duality_gap_[k], machine.tol, has_warned)
        assert np.isfinite(machine.objective_[k])
        if has_warned or machine.n_lps_[k] >= machine.max_lps:
            continue
        signs, intercept = problem.signs(label), expansion.intercept[k]
        coef = np.zeros(len(candidates))
        for center, number in zip(centers, expansion.coef[k], strict=True):
            coef[np.flatnonzero((candidates == center).all(axis=1))[0]] += number
        slacks = np.maximum(0.0, 1.0 - signs * (values.K @ coef + intercept))
        nu = costs * _slope(machine, slacks)
        prices = _slope(machine, np.abs(coef))
        claimed, slack = l1_objective(values, signs, nu, prices, coef, intercept)
        reference, error = l1_reference(values, signs, nu, prices)
        # The rule to stop is a relative decrease of the concave objective of 1e-9; the linear
        # program may still promise more, by the curvature, which is why only 1e-4 is asked for.
        check_bound(claimed, 1e-4, reference, slack + error)


def _slope(machine, x):
    return 1.0 + machine.mu * machine.alpha * np.exp(-machine.alpha * x)


def minimal(rng, folder: Path) -> str:
    """The pound loss: a stationary vertex."""
    problem = draw_problem(rng, (*MERCER, "sigmoid"), max_rows=20)
    machine = kernlet.MinimalKernelClassifier(
        problem.C,
        mu=float(10 ** rng.uniform(-1, 2)),
        alpha=float(rng.choice([1.0, 5.0])),
        candidates=None,
        class_weight=problem.class_weight,
        random_state=0,
        **problem.kernel,
    )
    return _certify(check_stationary, machine, problem)


# -- Squared hinge ---------------------------------------------------------------------------


def squared_objective(values, signs, costs, dual):
    """P of the machine with coefficients signs * dual over all rows, and its rounding error."""
    coef = signs * dual
    slacks = np.maximum(0.0, 1.0 - signs * (values.K @ coef + coef.sum()))
    norm = coef @ values.K @ coef + coef.sum() ** 2
    errors = values.rounding(coef, coef.sum()) + 8 * EPS * np.abs(coef).sum()
    rounding = errors @ np.abs(coef) + costs @ (errors * (slacks + errors))
    return 0.5 * (norm + costs @ slacks**2), rounding


def squared_reference(K, signs, costs):
    """The dual by nonnegative least squares; None where rounding hides its matrix."""
    try:
        dual = naive.margin_feature(K, signs, costs, np.zeros((len(K), 1)))
    except (LinAlgError, RuntimeError):
        return None
    return dual if np.isfinite(dual).all() else None


def check_core(machine, problem, has_warned):
    """The claims of a core vector machine."""
    X, expansion, costs = problem.X[problem.kept], machine.expansion_, problem.costs()
    check_gap(machine.gap_, machine.tol, has_warned)
    decisions, centers = predictions(machine, X), expansion.centers
    values, own = values_of(machine, X, X), values_of(machine, centers, centers)
    rows = values_of(machine, X, centers)
    for k, label in enumerate(problem.positives):
        signs, coef, b = problem.signs(label), expansion.coef[k], expansion.intercept[k]
        slacks = np.maximum(0.0, 1.0 - signs * decisions[:, k])
        found = 0.5 * (coef @ own.K @ coef + b * b + costs @ slacks**2)
        errors, claimed = rows.rounding(coef, b), machine.objective_[k]
        slack = np.abs(coef) @ own.rounding(coef) + 1e-9 * abs(found)
        slack += costs @ (errors * (slacks + errors))
        # Equal rows are one center, and dual weights of 1e8 cancel: their rounding exceeds that
        # of the machine, and allowed if it is far below tol.
        relative = max(machine.gap_, 0.0) + 0.1 * machine.tol
        check_close(claimed, found, 4 * slack + relative * claimed, "the objective")
        dual = squared_reference(values.K, signs, costs)
        if dual is not None:
            reference, error = squared_objective(values, signs, costs, dual)
            slack = 4 * slack + 0.1 * machine.tol * claimed + error
            check_bound(claimed, machine.gap_, reference, slack)


def core(rng, folder: Path) -> str:
    """Core vector machines, by tol or by eps, with and without samples."""
    problem = draw_problem(rng, MERCER)
    machine = kernlet.CoreVectorClassifier(
        problem.C,
        tol=float(rng.choice([1e-3, 1e-6])),
        sample_size=[None, 5][rng.integers(2)],
        class_weight=problem.class_weight,
        random_state=0,
        **problem.kernel,
    )
    return _certify(check_core, machine, problem)


def check_hull(machine, problem, has_warned):
    """The claims of a hull perceptron: its gap and margin, and the norm of the nearest point."""
    check_gap(machine.gap_, machine.tol, has_warned)
    all_rows, costs = problem.kept, problem.costs()
    values = values_of(machine, problem.X[all_rows], problem.X[all_rows])
    support = np.searchsorted(all_rows, machine.support_indices_)
    gaps = []
    for k, label in enumerate(problem.positives):
        signs = problem.signs(label)
        alpha = np.zeros(len(signs))
        alpha[support] = machine.alpha_[k]
        check_close(1.0, alpha.sum(), 1e-9, "the sum of alpha")
        # Rows that were removed are unknown: those of the answer bound the nearest point, too.
        rows = np.arange(len(alpha)) if machine.removal is None else np.flatnonzero(alpha)
        signs, alpha, ridge = signs[rows], alpha[rows], 0.5 / costs[rows]
        part = values[np.ix_(rows, rows)]
        Q = signs[:, None] * signs * (part.K + 1.0) + np.diag(ridge)
        margins = Q @ alpha
        squared = max(alpha @ margins, ridge @ alpha**2)
        errors = part.rounding(alpha, 1.0) + 8 * EPS * ridge * alpha
        rounding = 4 * errors.max() / squared + 1e-9
        if not rounding < 1e-3:
            continue  # nothing can be said about the last digits of |W|
        gaps.append((1.0 - margins.min() / squared, rounding))
        check_close(
            machine.margin_[k],
            margins.min() / np.sqrt(squared),
            rounding * np.sqrt(squared) if machine.removal is None else np.inf,
            "the margin",
        )
        try:
            nearest = naive.nearest_in_hull(Q)
        except (LinAlgError, RuntimeError):
            continue
        norm, size = np.sqrt(max(nearest @ Q @ nearest, 0.0)), np.sqrt(squared)
        bound = (1.0 - machine.gap_) * size
        assert bound <= norm + rounding * size, f"nearest point at {norm!r}, bound {bound!r}"
    if machine.removal is None and len(gaps) == len(problem.positives):
        worst, slack = max(gap for gap, _ in gaps), max(error for _, error in gaps)
        assert machine.gap_ >= worst - slack, f"the gap is {worst!r}, not {machine.gap_!r}"
        # Where round-off counts it is a bound, over all rows together and so a wider one than ours.
        assert machine.gap_ <= worst + 100 * slack, f"the gap is {worst!r}, not {machine.gap_!r}"


def hull(rng, folder: Path) -> str:
    """Hull perceptrons by pairs of rows, to many digits or few."""
    problem = draw_problem(rng, MERCER)
    machine = kernlet.HullPerceptronClassifier(
        problem.C,
        tol=float(rng.choice([1e-3, 1e-9])),
        class_weight=problem.class_weight,
        **problem.kernel,
    )
    return _certify(check_hull, machine, problem)


def hull_sk(rng, folder: Path) -> str:
    """By the steps of Schlesinger and Kozinec, of which a few are allowed."""
    problem = draw_problem(rng, MERCER, max_rows=16)
    machine = kernlet.HullPerceptronClassifier(
        problem.C,
        solver="sk",
        tol=1e-2,
        max_iter=2000,
        class_weight=problem.class_weight,
        **problem.kernel,
    )
    return _certify(check_hull, machine, problem)


def hull_removal(rng, folder: Path) -> str:
    """With removal of support vectors."""
    problem = draw_problem(rng, MERCER)
    machine = kernlet.HullPerceptronClassifier(
        problem.C,
        removal=Removal(rounds=2, which=str(rng.choice(["rows", "support"]))),
        class_weight=problem.class_weight,
        **problem.kernel,
    )
    return _certify(check_hull, machine, problem)


def check_mmda(machine, problem, has_warned):
    """First features point where the optimum does, as far as the gap allows; lines orthonormal."""
    tol = machine.tol or {"exact": 1e-8, "landmarks": 1e-5, "core": 1e-3}[machine.solver]
    for gap in machine.gap_:
        check_gap(gap, tol, has_warned)
    X, costs, expansion = problem.X[problem.kept], problem.costs(), machine.expansion_
    own = values_of(machine, expansion.centers, expansion.centers)
    values, across = values_of(machine, X, X), values_of(machine, X, expansion.centers)
    for k, label in enumerate(problem.positives):
        signs, coef = problem.signs(label), expansion.coef[k]
        error = np.abs(coef) @ own.rounding(coef)
        if not coef.any() or error > 1e-3:
            continue  # no direction, or none that float64 can hold
        check_close(1.0, coef @ own.K @ coef, 1e-4 + error, "the norm of a feature")
        dual = squared_reference(values.K, signs, costs)
        if dual is None:
            continue
        best = signs * dual
        objective, slack = squared_objective(values, signs, costs, dual)
        norm = np.sqrt(max(best @ values.K @ best, 0.0))
        # P grows by 1/2 |w - w*|^2: directions differ by 2 |w - w*| / |w*| at most. The answer of
        # the reference is uncertain by its duality gap.
        lower = dual.sum() - 0.5 * (
            best @ values.K @ best + best.sum() ** 2 + np.sum(dual**2 / costs)
        )
        gap = max(machine.gap_[k], 0.0) + machine.error_bound_[k]
        distance = np.sqrt(2 * gap * objective + 2 * slack)
        distance += np.sqrt(2 * max(objective - lower, 0.0) + 2 * slack)
        # 1e-3 is for landmarks in float32.
        allowed = 2 * distance / norm if norm > 0 else np.inf
        allowed += 1e-3 if machine.solver == "landmarks" else 1e-5
        if allowed < 0.5:
            cosine = (best @ across.K @ coef) / norm
            length = np.sqrt(max(0.0, 2 - 2 * cosine))
            assert length <= allowed, f"directions differ by {length:.1e}, allowed {allowed:.1e}"


def mmda(rng, folder: Path) -> str:
    """Margin features by all three solvers."""
    problem = draw_problem(rng, MERCER)
    solver = str(rng.choice(["exact", "landmarks", "core"]))
    machine = kernlet.MMDA(
        1,
        solver=solver,
        C=min(problem.C, 1e4),
        eps=None,
        sample_size=None,
        class_weight=problem.class_weight,
        random_state=0,
        **problem.kernel,
    )
    return _certify(check_mmda, machine, replace(problem, C=min(problem.C, 1e4)))


def refits(rng, folder: Path) -> str:
    """The squared-hinge machine over given centers against a quasi-Newton method."""
    problem = draw_problem(rng, MERCER)
    X, costs = problem.X[problem.kept].astype(float), problem.costs()
    if not 1e-3 <= np.abs(X).max(initial=0.0) <= 1e3 or costs.max() / costs.min() > 1e6:
        return "skipped"  # quasi-Newton methods need a problem of one scale
    kernel = kernlet.kernels.make_kernel(**{"degree": 3, "coef0": 0.0, "gamma": 1.0, "X": X}
                                         | problem.kernel)  # fmt: skip
    centers = np.unique(X, axis=0)[:5]
    signs = problem.signs(problem.positives[0])
    machine = refit(kernel, centers, X, signs, C=1.0, weights=costs)
    K, P = kernel(X, centers), kernel(centers, centers)
    P[np.diag_indices(len(P))] += 1e-10 * np.trace(P) / len(P)  # as refit does

    def objective(v):
        slacks = np.maximum(0.0, 1.0 - signs * (K @ v[:-1] + v[-1]))
        push = costs * signs * slacks
        slope = np.append(P @ v[:-1] - K.T @ push, -push.sum())
        return 0.5 * (v[:-1] @ P @ v[:-1] + costs @ slacks**2), slope

    ours = np.append(machine.coef[0], machine.intercept[0])
    assert np.isfinite(ours).all()
    found = minimize(objective, np.zeros(len(ours)), jac=True, method="L-BFGS-B")
    zero = objective(np.zeros(len(ours)))[0]
    best, value = min(found.fun, zero), objective(ours)[0]
    # refit has no certificate. It ends at a Newton decrement of 1e-6, or where round-off in an
    # ill-conditioned penalty stops it: then far below the objective of the zero machine only.
    assert value <= best * (1 + 1e-4) + 1e-5 * zero, f"{value!r}, and {best!r} was reached"
    return "certified"


# -- Least squares ---------------------------------------------------------------------------


def check_proximal(machine, problem, has_warned):
    """The claims of a proximal classifier, in extended precision."""
    check_gap(machine.gap_, 1e-6, has_warned)
    X, y = problem.X[problem.kept].astype(float), problem.y[problem.kept]
    weights = np.ones(len(y)) if problem.weights is None else problem.weights[problem.kept]
    expansion = machine.expansion_
    is_linear = problem.kernel["kernel"] == "linear"
    H = values_of(machine, X, expansion.centers)
    if is_linear:  # the features are the columns, which have no errors
        H.K, H.errors = X, np.zeros(X.shape)
    coefficients = expansion.centers if is_linear else expansion.coef
    for k, label in enumerate(problem.positives):
        signs = problem.signs(label)
        if machine.class_weight is None or isinstance(machine.class_weight, dict):
            n = problem.costs() / problem.C
        else:
            own, rest = weights[signs > 0].sum(), weights[signs < 0].sum()
            share = weights.sum() / 2 if machine.class_weight == "balanced" else 1.0
            n = weights * np.where(signs > 0, share / own, share / rest)
        # The intercept is rounded beside s.w, s a point near the rows.
        coef, b = coefficients[k], expansion.intercept[k]
        claimed = machine.objective_[k]
        found, slack = least_squares_objective(H, signs, n, problem.C, coef, b)
        # Relative to 1e-7 of the zero machine's objective where it interpolates the signs.
        floor = 1e-7 * 0.5 * problem.C * n.sum()
        slack += machine.gap_ * max(claimed, floor)
        if machine.gap_ == 1.0:
            continue  # which certifies nothing, and is warned of
        check_close(claimed, found, slack, "the objective")
        reference = least_squares_reference(H, signs, n, problem.C)
        value, error = least_squares_objective(H, signs, n, problem.C, *reference)
        check_bound(max(claimed, floor), machine.gap_, max(value, floor), slack + error)


def least_squares_objective(features, signs, n, C, coef, b):
    """1/2 (|w|^2 + b^2) + C/2 sum n (d - h.w - b)^2 in extended precision, and its uncertainty."""
    rounding = features.rounding(coef, b)
    H, w, b = features.K.astype(np.longdouble), coef.astype(np.longdouble), np.longdouble(b)
    errors = signs - H @ w - b
    value = float(0.5 * (w @ w + b * b) + 0.5 * C * (n @ errors**2))
    slack = C * float(n @ (rounding * (np.abs(errors) + rounding)))
    return value, slack + 16 * EPS * float(b * b) + 1e-10 * value


def least_squares_reference(H, signs, n, C):
    """w and b by singular values, with columns of one size."""
    A = np.hstack([H.K, np.ones((len(H.K), 1))])
    root = np.sqrt(n * C)
    tall = np.vstack([root[:, None] * A, np.eye(A.shape[1])])
    sizes = np.linalg.norm(tall, axis=0)
    right = np.append(root * signs, np.zeros(A.shape[1]))
    answer = np.linalg.lstsq(tall / sizes, right, rcond=0)[0] / sizes
    return (answer[:-1], answer[-1]) if np.isfinite(answer).all() else (0 * answer[:-1], 0.0)


def proximal(rng, folder: Path) -> str:
    """Proximal classifiers with all rows, or some, as landmarks."""
    rules = ("balanced", "normalized", None, "dict")
    problem = draw_problem(rng, (*MERCER, "sigmoid"), class_weights=rules)
    machine = kernlet.ProximalClassifier(
        problem.C,
        landmarks=[None, 500, 0.5][rng.integers(3)],
        class_weight=problem.class_weight,
        random_state=0,
        **problem.kernel,
    )
    return _certify(check_proximal, machine, problem)


def proximal_blocks(rng, folder: Path) -> str:
    """The same learned in blocks, of which some, perhaps larger rows, are forgotten."""
    rules = ("balanced", "normalized", None)
    problem = draw_problem(rng, (*MERCER, "sigmoid"), class_weights=rules)
    X, y, weights = problem.X, problem.y, problem.weights
    weights = np.ones(len(y)) if weights is None else weights
    gone = X[rng.integers(0, len(X), 6)] * X.dtype.type(10.0 ** rng.integers(0, 5))
    labels = y[rng.integers(0, len(y), 6)]
    machine = kernlet.ProximalClassifier(
        problem.C, landmarks=X, class_weight=problem.class_weight, **problem.kernel
    )

    def train(machine):
        half, classes = len(y) // 2, np.unique(y[problem.kept])
        with warnings.catch_warnings():  # what counts is the answer in the end
            warnings.simplefilter("ignore", ConvergenceWarning)
            machine.partial_fit(X, y, classes, weights)
            known = np.isin(labels, classes)
            machine.partial_fit(gone[known], labels[known], sample_weight=np.ones(known.sum()))
            machine.partial_forget(X[:half], y[:half], weights[:half])
            machine.partial_fit(X[:half], y[:half], sample_weight=weights[:half])
        machine.partial_forget(gone[known], labels[known], np.ones(known.sum()))

    return _certify(check_proximal, machine, problem, train)


def check_fisher(machine, problem, has_warned):
    """Shares of the variance against scatters in explicit features."""
    bound = machine.error_bound_
    assert bound <= 1e-6 or has_warned, f"an error bound of {bound:.1e} without a warning"
    assert ((machine.shares_ >= 0) & (machine.shares_ <= 1)).all()
    X, y = problem.X, problem.y
    if problem.weights is not None:  # whole numbers: repeated rows
        X, y = (np.repeat(A, problem.weights.astype(int), axis=0) for A in (X, y))
    K = values_of(machine, X, X).K
    center = np.eye(len(K)) - 1.0 / len(K)
    values, vectors = eigh(center @ K @ center)
    features = vectors * np.sqrt(np.maximum(values, 0.0))
    try:
        ratios, _ = naive.fisher(features, y, machine.alpha, len(machine.shares_))
    except LinAlgError:
        assert bound > 1e-6, "the reference loses alpha, and the bound does not say so"
        return
    ratios = np.maximum(ratios, 0.0)
    # The reference centres the same kernel values, with the same rounding errors over alpha.
    slack = bound + 64 * EPS * np.sqrt(len(K)) * np.abs(K).max() / machine.alpha + 1e-8
    distance = np.abs(machine.shares_ - ratios / (1 + ratios)).max()
    assert distance <= slack, f"shares differ by {distance:.1e}, bound {slack:.1e}"


def fisher(rng, folder: Path) -> str:
    """Fisher directions over all rows."""
    problem = draw_problem(rng, MERCER)
    if problem.weights is not None:
        problem = replace(problem, weights=np.minimum(np.ceil(problem.weights), 3.0))
    machine = kernlet.KernelFisherDiscriminant(
        alpha=float(10 ** rng.uniform(-3, 2)), n_landmarks=None, **problem.kernel
    )
    return _certify(check_fisher, machine, problem)


# -- Stages ----------------------------------------------------------------------------------


def check_stages(machine, problem, has_warned):
    """The problems of all stages have certificates or a warning."""
    for record in (record for stage in machine.stages_ for record in stage):
        check_gap(record.gap, 1e-6, has_warned)
    assert np.isfinite(machine.decision_function(problem.X)).all()


def chunking(rng, folder: Path) -> str:
    """Synthetic machines by chunking, of one short run."""
    problem = draw_problem(rng, ("rbf", "poly"), max_rows=60)
    machine = kernlet.ChunkingSyntheticClassifier(
        C=problem.C,
        n_runs=1,
        n_points=3,
        solver=str(rng.choice(["lp", "smooth"])),
        class_weight=problem.class_weight,
        random_state=0,
        **problem.kernel,
    )
    return _certify(check_stages, machine, problem)


def _certify(check, machine, problem, train=None) -> str:
    try:
        machine, has_warned = fit(machine, problem, train)
    except RefusedError:
        return "refused"
    with np.errstate(all="ignore"):
        check(machine, problem, has_warned)
    return outcome(has_warned)


TARGETS = [
    Target("certificate-l1", "certificates", l1, quick=15, weight=3),
    Target("certificate-l1-streaming", "certificates", l1_streaming, quick=10, weight=2),
    Target("certificate-l1-interior", "certificates", l1_interior, quick=10, weight=2),
    Target("certificate-minimal-mu-0", "certificates", minimal_without_price, quick=10),
    Target("certificate-minimal", "certificates", minimal, quick=5),
    Target("certificate-core", "certificates", core, quick=20, weight=3),
    Target("certificate-hull", "certificates", hull, quick=20, weight=3),
    Target("certificate-hull-sk", "certificates", hull_sk, quick=5),
    Target("certificate-hull-removal", "certificates", hull_removal, quick=5),
    Target("certificate-mmda", "certificates", mmda, quick=10, weight=2),
    Target("certificate-refit", "certificates", refits, quick=10),
    Target("certificate-proximal", "certificates", proximal, quick=30, weight=4),
    Target("certificate-proximal-blocks", "certificates", proximal_blocks, quick=10, weight=2),
    Target("certificate-fisher", "certificates", fisher, quick=10, weight=2),
    Target("certificate-chunking", "certificates", chunking, quick=2, weight=0.2),
]
