"""Slow, obvious twins of the package: the formulas again, by plain loops."""

import math
from functools import partial

import numpy as np
from scipy.optimize import linprog, nnls

# Kernels


def linear(x, z):
    return sum(a * b for a, b in zip(x, z, strict=True))


def squared_distance(x, z):
    return sum((a - b) ** 2 for a, b in zip(x, z, strict=True))


def rbf(x, z, gamma):
    return math.exp(-gamma * squared_distance(x, z))


def polynomial(x, z, gamma, degree, coef0):
    return (gamma * linear(x, z) + coef0) ** degree


def sigmoid(x, z, gamma, coef0):
    return math.tanh(gamma * linear(x, z) + coef0)


def laplacian(x, z):
    return math.exp(-sum(abs(a - b) for a, b in zip(x, z, strict=True)))


def gram(kernel, X, Z):
    """K(X, Z) for a plain function kernel(x, z)."""
    X, Z = np.asarray(X, dtype=float).tolist(), np.asarray(Z, dtype=float).tolist()
    return np.array([[kernel(x, z) for z in Z] for x in X]).reshape(len(X), len(Z))


def mean_squared_distance(X):
    """Over all ordered pairs of rows, a row with itself among them."""
    return gram(squared_distance, X, X).mean()


# --- the 1-norm machine: one plain call of an LP solver on the whole problem -----------------


def l1_margin_primal(K, signs, error_weights, coef_weights):
    """Linear program (10) as printed: variables beta, v >= |beta|, intercept and y."""
    m, s = K.shape
    zeros, eye = np.zeros((s, m)), np.eye(s)
    margin = np.hstack([-signs[:, None] * K, np.zeros((m, s)), -signs[:, None], -np.eye(m)])
    above = np.hstack([eye, -eye, np.zeros((s, 1)), zeros])
    below = np.hstack([-eye, -eye, np.zeros((s, 1)), zeros])
    answer = linprog(
        np.concatenate([np.zeros(s), coef_weights, [0.0], error_weights]),
        A_ub=np.vstack([margin, above, below]),
        b_ub=np.concatenate([-np.ones(m), np.zeros(2 * s)]),
        bounds=[(None, None)] * s + [(0, None)] * s + [(None, None)] + [(0, None)] * m,
        method="highs",
    )
    return answer.fun, answer.x[:s], answer.x[2 * s]


def l1_quadratic(H, q, c, rounds=20_000):
    """Minimise z'Hz / 2 + q'z + sum c |z|, one coordinate at a time."""
    z = np.zeros(len(q))
    for _ in range(rounds):
        before = z.copy()
        for j in range(len(q)):
            g = H[j] @ z - H[j, j] * z[j] + q[j]
            z[j] = -np.sign(g) * max(abs(g) - c[j], 0.0) / H[j, j]
        if np.abs(z - before).max() <= 1e-13 * np.abs(z).max():
            break
    return z


def l1_margin_dual(K, signs, error_weights, coef_weights):
    """Its dual (11): maximise sum t under |K' D t| <= c, d't = 0 and 0 <= t <= nu."""
    rows = K.T * signs
    answer = linprog(
        -np.ones(len(signs)),
        A_ub=np.vstack([rows, -rows]),
        b_ub=np.concatenate([coef_weights, coef_weights]),
        A_eq=signs[None, :],
        b_eq=[0.0],
        bounds=[(0.0, nu) for nu in error_weights],
        method="highs",
    )
    return -answer.fun, answer.x


def pound_machine(K, signs, C, mu, alpha, n_lps=50):
    """Algorithm 4.2 with every linear program solved from scratch; the last objective."""
    m, s = K.shape
    nu, c = np.full(m, C), np.ones(s)
    objective = np.inf
    for _ in range(n_lps):
        _, beta, intercept = l1_margin_primal(K, signs, nu, c)
        y = np.maximum(0.0, 1.0 - signs * (K @ beta + intercept))
        before = objective
        loss = [x + mu * (1.0 - np.exp(-alpha * x)) for x in (y, np.abs(beta))]
        objective = C * loss[0].sum() + loss[1].sum()
        if before - objective <= 1e-9 * objective:
            break
        nu = C * (1.0 + mu * alpha * np.exp(-alpha * y))
        c = 1.0 + mu * alpha * np.exp(-alpha * np.abs(beta))
    return objective


# --- the nearest point of a hull: its products, and the steps on whole lists -----------------


def hull_products(K, signs, costs):
    """Q_ij = d_i d_j (1 + k_ij) + delta_ij / (2 C_i)."""
    m = len(K)
    return np.array(
        [
            [signs[i] * signs[j] * (1 + K[i][j]) + (i == j) / (2 * costs[i]) for j in range(m)]
            for i in range(m)
        ]
    )


def nearest_in_hull(Q):
    """Weights of the nearest point: a nonnegative least-squares problem, but for scale."""
    half = np.linalg.cholesky(Q).T
    m = len(Q)
    weights, _ = nnls(np.vstack([half, np.ones(m)]), np.append(np.zeros(m), 1.0), maxiter=100 * m)
    return weights / weights.sum()


def sk_step(Q, alpha):
    """One step of Schlesinger and Kozinec, everything from scratch."""
    n2 = math.fsum(
        a * b * q
        for a, line in zip(alpha, Q, strict=True)
        for b, q in zip(alpha, line, strict=True)
    )
    g = [math.fsum(q * a for q, a in zip(line, alpha, strict=True)) for line in Q]
    l = g.index(min(g))  # noqa: E741
    move = min(1.0, (n2 - g[l]) / (n2 - 2 * g[l] + Q[l][l]))
    return [(1 - move) * a + move * (i == l) for i, a in enumerate(alpha)]


def mdm_step(Q, alpha):
    """One step of MDM, every partner tried."""
    g = [math.fsum(q * a for q, a in zip(line, alpha, strict=True)) for line in Q]
    l = g.index(min(g))  # noqa: E741
    best = (0.0, None, 0.0)
    for j in range(len(alpha)):
        if alpha[j] > 0 and j != l:
            curvature = Q[l][l] + Q[j][j] - 2 * Q[l][j]
            t = min(alpha[j], (g[j] - g[l]) / curvature)
            gain = 2 * t * (g[j] - g[l]) - t * t * curvature
            if gain > best[0]:
                best = (gain, j, t)
    _, j, t = best
    if j is None:
        return list(alpha)
    return [a + t * (i == l) - t * (i == j) for i, a in enumerate(alpha)]


# --- gradients and reduced sets: differences, and norms in feature space by double sums ------


def twin(kernel):
    """The plain function of the same name and parameters as a kernel."""
    return partial(globals()[type(kernel).__name__.lower()], **vars(kernel))


def derivative(function, at, h=1e-5):
    """Central differences of a number, in the shape of ``at``."""
    at = np.asarray(at, dtype=float)
    slope = np.zeros_like(at)
    for index in np.ndindex(at.shape):
        step = np.zeros_like(at)
        step[index] = h
        slope[index] = (function(at + step) - function(at - step)) / (2 * h)
    return slope


def squared_norm(kernel, centers, coef):
    """|sum_j coef_j f(center_j)|^2 in feature space, added over the outputs."""
    K = gram(twin(kernel), centers, centers)
    return math.fsum(
        float(row[i] * row[j] * K[i, j])
        for row in np.asarray(coef, dtype=float)
        for i in range(len(K))
        for j in range(len(K))
    )


def squared_distance_in_feature_space(kernel, C, U, Z, W):
    """|U f(C) - W f(Z)|^2."""
    return squared_norm(kernel, np.vstack([C, Z]), np.hstack([U, -W]))


def squared_hinge(K, P, signs, costs, w, b):
    """1/2 w'Pw + 1/2 sum c (1 - d f)_+^2, row by row."""
    value = 0.5 * math.fsum(
        float(w[i] * w[j] * P[i, j]) for i in range(len(w)) for j in range(len(w))
    )
    for row, sign, cost in zip(K, signs, costs, strict=True):
        f = math.fsum(float(k * weight) for k, weight in zip(row, w, strict=True)) + b
        value += 0.5 * cost * max(0.0, 1.0 - sign * f) ** 2
    return value


# --- machines in packed tables: codes times steps, number by number ---------------------------


def quantized_values(X, gamma, centers, coef, projection, intercept, shift, scale):
    """Decision values of tables given as (codes, step); projection may be None."""
    gamma = [float(g) for g in gamma]
    centers, coef = _decoded(*centers), _decoded(*coef)
    gamma = gamma if len(gamma) > 1 else gamma * len(centers)
    values = []
    for x in np.asarray(X, dtype=float).tolist():
        u = [(number - shift) / scale for number in x]
        if projection is not None:
            u = [linear(row, u) for row in _decoded(*projection)]
        k = [rbf(u, z, g) for z, g in zip(centers, gamma, strict=True)]
        values.append([linear(row, k) + float(b) for row, b in zip(coef, intercept, strict=True)])
    return np.array(values)


def _decoded(codes, step):
    return [[int(code) * step for code in row] for row in codes]
