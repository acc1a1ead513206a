"""Slow, obvious twins of the package: the formulas again, by plain loops."""

import math
from decimal import Decimal, localcontext
from fractions import Fraction
from functools import partial
from itertools import combinations

import numpy as np
from scipy.linalg import eigh
from scipy.optimize import linprog, minimize, nnls

# Kernels


def linear(x, z):
    return sum(a * b for a, b in zip(x, z, strict=True))


def squared_distance(x, z):
    return sum((a - b) ** 2 for a, b in zip(x, z, strict=True))


def present_distance(x, z):
    """The squared distance over the numbers of x that are not NaN, rescaled to all."""
    pairs = [(a, b) for a, b in zip(x, z, strict=True) if not math.isnan(a)]
    if not pairs:
        return squared_distance([0.0] * len(z), z)
    return len(z) / len(pairs) * sum((a - b) ** 2 for a, b in pairs)


def rbf(x, z, gamma):
    return math.exp(-gamma * squared_distance(x, z))


def rationalquadratic(x, z, gamma, alpha):
    return (1 + gamma * squared_distance(x, z) / alpha) ** -alpha


def diagonal_rbf(x, z, gamma, weights):
    """Of one center: its width and the weights of its features."""
    terms = (w * (a - b) ** 2 for a, b, w in zip(x, z, weights, strict=True))
    return math.exp(-gamma * math.fsum(terms))


def polynomial(x, z, gamma, degree, coef0):
    return (gamma * linear(x, z) + coef0) ** degree


def sigmoid(x, z, gamma, coef0):
    return math.tanh(gamma * linear(x, z) + coef0)


def laplacian(x, z, gamma=1.0):
    return math.exp(-gamma * sum(abs(a - b) for a, b in zip(x, z, strict=True)))


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


def l1_regression(K, y, below, above, epsilon, coef_weights=None):
    """The 1-norm regressor: variables beta, v >= |beta|, intercept, and what f is off by.

    ``below`` and ``above`` are the costs of f(x_i) being below y_i - epsilon and above
    y_i + epsilon, by as much as the variables in the end say.
    """
    m, s = K.shape
    eye, one, none = np.eye(s), np.ones((m, 1)), np.zeros((m, m))
    too_low = np.hstack([-K, np.zeros((m, s)), -one, -np.eye(m), none])
    too_high = np.hstack([K, np.zeros((m, s)), one, none, -np.eye(m)])
    rest = np.zeros((s, 1 + 2 * m))
    c = np.ones(s) if coef_weights is None else coef_weights
    answer = linprog(
        np.concatenate([np.zeros(s), c, [0.0], below, above]),
        A_ub=np.vstack(
            [too_low, too_high, np.hstack([eye, -eye, rest]), np.hstack([-eye, -eye, rest])]
        ),
        b_ub=np.concatenate([epsilon - y, epsilon + y, np.zeros(2 * s)]),
        bounds=[(None, None)] * s + [(0, None)] * s + [(None, None)] + [(0, None)] * (2 * m),
        method="highs",
    )
    return answer.fun, answer.x[:s], answer.x[2 * s]


def pound_regression(K, y, C, epsilon, mu, alpha, n_lps=50):
    """Algorithm 4.2 on the 1-norm regressor, every linear program from scratch."""
    m, s = K.shape
    below, above, c = np.full(m, C), np.full(m, C), np.ones(s)
    objective = np.inf
    for _ in range(n_lps):
        _, beta, intercept = l1_regression(K, y, below, above, epsilon, c)
        r = y - K @ beta - intercept
        low, high = np.maximum(0.0, r - epsilon), np.maximum(0.0, -r - epsilon)
        values = [x + mu * (1.0 - np.exp(-alpha * x)) for x in (low, high, np.abs(beta))]
        before, objective = objective, C * (values[0] + values[1]).sum() + values[2].sum()
        if before - objective <= 1e-9 * objective:
            break
        slopes = [1.0 + mu * alpha * np.exp(-alpha * x) for x in (low, high, np.abs(beta))]
        below, above, c = C * slopes[0], C * slopes[1], slopes[2]
    return objective


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


def pound_supports(K, signs, C):
    """Problem (18) by trying every set of centers and every set of rows with an error.

    Yields the objective f of linear program (10) and the count g = C errors + centers for each
    pair of sets that allows any machine; the minimum of f + mu g is that of (18).
    """
    m, s = K.shape
    for mask in range(2 ** (m + s)):
        chosen = np.array([mask >> k & 1 for k in range(m + s)], dtype=bool)
        rows, centers = chosen[:m], chosen[m:]
        margin = -signs[:, None] * np.hstack([K, -K, np.ones((m, 1)), -np.ones((m, 1))])
        answer = linprog(
            np.concatenate([np.ones(2 * s), [0.0, 0.0], np.full(m, C)]),
            A_ub=np.hstack([margin, -np.eye(m)]),
            b_ub=-np.ones(m),
            bounds=[(0, None if used else 0) for used in (*centers, *centers, 1, 1, *rows)],
            method="highs",
        )
        if answer.status == 0:
            yield answer.fun, C * rows.sum() + centers.sum()


def greedy_rows(K, n_points):
    """Row after row, the one whose span with those before leaves the least trace of K."""
    rows, traces = [], []
    for _ in range(n_points):
        left = {}
        for row in set(range(len(K))) - set(rows):
            basis = [*rows, row]
            inverse = np.linalg.pinv(K[np.ix_(basis, basis)])
            left[row] = np.trace(K - K[:, basis] @ inverse @ K[basis])
        rows.append(min(left, key=left.get))
        traces.append(left[rows[-1]] / np.trace(K))
    return rows, traces


def fewest_centers(K, signs, C, budget):
    """The size of the smallest subset of candidates within the budget: every subset in turn."""
    m, s = K.shape
    for size in range(s + 1):
        for subset in combinations(range(s), size):
            columns = list(subset)
            value, _, _ = l1_margin_primal(K[:, columns], signs, np.full(m, C), np.ones(size))
            if value <= budget:
                return size
    return None


def fewest_linear_errors(points, signs):
    """The fewest rows to leave out until a plane separates the rest: every subset in turn."""
    n = len(signs)
    rows = np.hstack([points, np.ones((n, 1))]) * -signs[:, None]
    for size in range(n + 1):
        for gone in combinations(range(n), size):
            kept = [i for i in range(n) if i not in gone]
            bounds = [(None, None)] * rows.shape[1]
            answer = linprog(
                np.zeros(rows.shape[1]), A_ub=rows[kept], b_ub=-np.ones(len(kept)), bounds=bounds
            )
            if not kept or answer.status == 0:
                return size
    return n


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


# --- networks of kernels: one row, one center and one feature at a time ------------------------


def network_outputs(
    X,
    centers,
    weights,
    intercept,
    log_gamma,
    projection=None,
    log_feature_scales=None,
    jumps=(),
    log_alpha=None,
    step_matrix=(),
    skips_missing=False,
):
    """Outputs of rows [u | S], as the docstring of the network states them."""
    outputs = []
    for row in np.asarray(X, dtype=float).tolist():
        n_features = len(row) - len(jumps)
        h, indicators = row[:n_features], row[n_features:]
        for is_above, jump, places in zip(indicators, jumps, step_matrix, strict=True):
            h = [u + is_above * jump * place for u, place in zip(h, places, strict=True)]
        if log_feature_scales is not None:
            h = [u * math.exp(s) for u, s in zip(h, log_feature_scales, strict=True)]
        if projection is not None:
            h = [linear(direction, h) for direction in projection]
        values = []
        for j, z in enumerate(centers):
            gamma = math.exp(log_gamma[j if len(log_gamma) > 1 else 0])
            distance = present_distance(h, z) if skips_missing else squared_distance(h, z)
            if log_alpha is None:
                values.append(math.exp(-gamma * distance))
            else:
                alpha = math.exp(log_alpha[0])
                values.append((1 + gamma * distance / alpha) ** -alpha)
        outputs.append([linear(w, values) + b for w, b in zip(weights, intercept, strict=True)])
    return np.array(outputs)


# --- machines in packed tables: codes times steps, number by number ---------------------------


def quantized_values(
    X, gamma, centers, coef, projection, intercept, shift, scale, log_weights=None
):
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
        if log_weights is not None:
            weights = [[math.exp(v) for v in row] for row in _decoded(*log_weights)]
            k = [diagonal_rbf(u, *c) for c in zip(centers, gamma, weights, strict=True)]
        values.append([linear(row, k) + float(b) for row, b in zip(coef, intercept, strict=True)])
    return np.array(values)


def _decoded(codes, step):
    return [[int(code) * step for code in row] for row in codes]


# --- proximal machines and eliminations: dense least squares, one row at a time -----------------


def proximal(X, signs, weights, C):
    """w and b of least 1/2 (|w|^2 + b^2) + C/2 sum n (d - x.w - b)^2, as one tall system."""
    H = np.hstack([X, np.ones((len(X), 1))])
    root = np.sqrt(C * weights)
    tall = np.vstack([root[:, None] * H, np.eye(H.shape[1])])
    right = np.concatenate([root * signs, np.zeros(H.shape[1])])
    answer = np.linalg.lstsq(tall, right, rcond=None)[0]
    return answer[:-1], answer[-1]


def proximal_values_exact(X, signs, weights, C):
    """x.w + b of every row for the same machine, by elimination in fractions."""
    H = [[Fraction(float(v)) for v in (*x, 1.0)] for x in X]
    n, C = len(H[0]), Fraction(float(C))
    N, d = ([Fraction(float(v)) for v in values] for values in (weights, signs))
    rows = range(len(H))
    A = [[sum(N[i] * H[i][a] * H[i][b] for i in rows) + (a == b) / C for b in range(n)]
         + [sum(N[i] * H[i][a] * d[i] for i in rows)] for a in range(n)]  # fmt: skip
    for a in range(n):
        A[a] = [v / A[a][a] for v in A[a]]
        for b in range(n):
            if b != a:
                A[b] = [v - A[b][a] * u for v, u in zip(A[b], A[a], strict=True)]
    answer = [line[-1] for line in A]
    values = [sum(h * v for h, v in zip(line, answer, strict=True)) for line in H]
    return np.array([float(v) for v in values])


def proximal_objective(v, X, signs, weights, C):
    errors = [d - linear(x, v[:-1]) - v[-1] for x, d in zip(X, signs, strict=True)]
    return (v @ v + C * sum(n * e * e for n, e in zip(weights, errors, strict=True))) / 2


def proximal_objective_exact(v, X, signs, weights, C, digits=80):
    """The same with many digits."""
    with localcontext() as context:
        context.prec = digits
        v, X, signs, weights = (_decimals(values) for values in (v, X, signs, weights))
        errors = signs - X @ v[:-1] - v[-1]
        return (v @ v + Decimal(float(C)) * (weights @ errors**2)) / 2


def proximal_optimum_exact(X, signs, weights, C, digits=80):
    """The minimum of the same, by elimination with many digits."""
    with localcontext() as context:
        context.prec = digits
        H = _decimals(np.hstack([X, np.ones((len(X), 1))]))
        n, C = H.shape[1], Decimal(float(C))
        N, d = _decimals(weights), _decimals(signs)
        A = np.hstack([(H.T * N) @ H, ((H.T * N) @ d)[:, None]])
        for a in range(n):
            A[a, a] += 1 / C
        for a in range(n):  # the matrix is positive definite: no pivoting
            A[a] /= A[a, a]
            for b in range(n):
                if b != a:
                    A[b] = A[b] - A[b, a] * A[a]
        v = A[:, -1]
        errors = d - H @ v
        return (v @ v + C * (N @ errors**2)) / 2


def _decimals(values):
    return np.vectorize(lambda value: Decimal(float(value)), otypes=[object])(values)


def class_normalization(signs, balanced):
    """1 / p for the p rows of the class and 1 / (m - p) for the rest, or m / 2 times that."""
    m, p = len(signs), sum(d > 0 for d in signs)
    factor = m / 2 if balanced else 1
    sides = {1: factor / p if p else 0, -1: factor / (m - p) if p < m else 0}
    return np.array([sides[int(d)] for d in signs])


def class_against_rest(X, y, rows, label, C, balanced):
    """w.x - gamma for every row of X, of the machine trained on some rows."""
    signs = np.where(y[rows] == label, 1.0, -1.0)
    w, b = proximal(X[rows], signs, class_normalization(signs, balanced), C)
    return np.array([linear(x, w) + b for x in X])


def eliminate_typical(X, y, C, *, own, balanced=True, floor=1, level=1):
    """Algorithm 2, with any plane in place of 1: rows kept."""
    kept = list(range(len(X)))
    for label in sorted(set(y.tolist())):
        f = class_against_rest(X, y, kept, label, C, balanced)
        out = [i for i in kept if f[i] > level and (y[i] == label or not own)]
        kept = take_away(kept, sorted(out, key=lambda i: -f[i]), y, floor)
    return kept


def eliminate_boundary(X, y, T, M, C, *, nested, balanced=True, floor=1):
    """Algorithm 1: rows kept."""
    kept = list(range(len(X)))
    for label in sorted(set(y.tolist())):
        candidates = kept
        for _ in range(M):
            f = class_against_rest(X, y, candidates, label, C, balanced)
            source = candidates if nested else kept
            before, candidates = candidates, [i for i in source if -1 < f[i] < 1]
            if len(candidates) < max(T, 1) or candidates == before:
                break
        if not nested or len(candidates) < T:
            kept = take_away(kept, sorted(candidates, key=lambda i: abs(f[i])), y, floor)
    return kept


def bootstrapped_rows(X, y, n_neighbors):
    """Each row becomes the mean of its nearest rows of the same class, itself included."""
    means = []
    for i in range(len(X)):
        own = [j for j in range(len(X)) if y[j] == y[i]]
        own.sort(key=lambda j: squared_distance(X[i], X[j]))
        means.append(sum(X[j] for j in own[:n_neighbors]) / min(n_neighbors, len(own)))
    return np.array(means)


def eliminate_atypical(X, y, count):
    """Rows kept; h grows until ``count`` rows have another class among h neighbours."""
    kept = list(range(len(X)))
    for h in range(1, len(X)):
        found = []
        for i in kept:
            nearest = sorted((squared_distance(X[i], X[j]), j) for j in range(len(X)) if j != i)
            others = [d for d, j in nearest[:h] if y[j] != y[i]]
            if others:
                found.append((min(others), i))
        for _, i in sorted(found):
            if len(X) - len(kept) < count:
                kept.remove(i)
    return kept


def take_away(kept, out, y, floor):
    """Take rows away in the order given, while their class has more than its floor."""
    left = list(kept)
    for i in out:
        if sum(y[j] == y[i] for j in left) > floor:
            left.remove(i)
    return left


# --- enclosing balls and margin features: by Gauss and Seidel, and by plain minimisation ------


def gauss_seidel(K, signs, costs, images, n_sweeps=20_000, tol=1e-13):
    """The paper's updates of alpha and gamma, one number at a time; alpha and gamma."""
    m, s = images.shape
    Q = [
        [signs[i] * signs[j] * (K[i][j] + 1) + (i == j) / costs[i] for j in range(m)]
        for i in range(m)
    ]
    alpha, gamma = np.zeros(m), np.zeros(s)
    Q, YF = np.array(Q), signs[:, None] * images
    for _ in range(n_sweeps):
        before = alpha.copy()
        for q in range(s):
            gamma[q] -= YF[:, q] @ alpha + gamma[q]
        for i in range(m):
            slope = Q[i] @ alpha + YF[i] @ gamma - 1.0
            alpha[i] = max(0.0, alpha[i] - slope / Q[i, i])
        if np.abs(alpha - before).max() <= tol * np.abs(alpha).max():
            break
    return alpha, gamma


def margin_feature(K, signs, costs, images):
    """Dual weights of a machine orthogonal to directions: nonnegative least squares.

    min 1/2 a'Qa - sum a over a >= 0 is min |R a - v|^2 with R'R = Q and R'v = 1.
    """
    Q = signs[:, None] * signs * (K + 1.0 - images @ images.T) + np.diag(1.0 / costs)
    R = np.linalg.cholesky(Q).T
    a, _ = nnls(R, np.linalg.solve(R.T, np.ones(len(K))), maxiter=100 * len(K))
    return a


def enclosing_ball(Q):
    """Center (in the span's coordinates) and radius of the smallest ball, by its definition.

    Q are the inner products of the points; the furthest of them is minimised by SLSQP.
    """
    points = np.linalg.cholesky(Q)
    start = np.append(points.mean(axis=0), 4.0 * np.trace(Q))

    def room(variables):  # R^2 - |X_i - center|^2
        return variables[-1] - np.square(points - variables[:-1]).sum(axis=1)

    def room_slopes(variables):
        return np.c_[2.0 * (points - variables[:-1]), np.ones(len(points))]

    last = np.append(np.zeros(len(points)), 1.0)
    found = minimize(
        lambda variables: variables[-1],
        start,
        jac=lambda variables: last,
        constraints={"type": "ineq", "fun": room, "jac": room_slopes},
        method="SLSQP",
        options={"maxiter": 1000, "ftol": 1e-14},
    )
    assert found.success, found.message
    return found.x[:-1], math.sqrt(found.x[-1])


def fisher(Phi, labels, alpha, n_directions):
    """Generalised eigenvectors of the two scatters, built row by row, for explicit features."""
    classes = sorted(set(labels))
    mean = Phi.mean(axis=0)
    d = Phi.shape[1]
    between, within = np.zeros((d, d)), alpha * np.eye(d)
    for c in classes:
        rows = Phi[labels == c]
        center = rows.mean(axis=0)
        between += len(rows) * np.outer(center - mean, center - mean)
        for row in rows:
            within += np.outer(row - center, row - center)
    values, vectors = eigh(between, within)
    order = np.argsort(-values)[:n_directions]
    return values[order], np.sqrt(len(Phi)) * (Phi - mean) @ vectors[:, order]


# --- the relevance vector machine: all alphas re-estimated at once --------------------------------


def relevance_mode(Phi, y, alpha):
    """Most probable weights and their covariance, over the functions of finite alpha."""
    kept = np.isfinite(alpha)
    P, a, t = Phi[:, kept], alpha[kept], np.where(y, 1.0, 0.0)
    w = np.zeros(kept.sum())
    for _ in range(60):
        p = 1 / (1 + np.exp(-P @ w))
        H = P.T @ (P * (p * (1 - p))[:, None]) + np.diag(a)
        step = np.linalg.solve(H, P.T @ (t - p) - a * w)
        w = w + step * min(1.0, 5.0 / (1e-300 + np.abs(P @ step).max()))
    return kept, w, np.linalg.inv(H)


def relevance(Phi, y, alpha, n_rounds):
    """alpha_i <- (1 - alpha_i Sigma_ii) / w_i^2, those beyond 1e9 being infinite."""
    alpha = alpha.copy()
    for _ in range(n_rounds):
        kept, w, covariance = relevance_mode(Phi, y, alpha)
        new = (1 - alpha[kept] * np.diag(covariance)) / np.maximum(w**2, 1e-300)
        alpha[kept] = np.where(new > 1e9, np.inf, new)
    kept, w, _ = relevance_mode(Phi, y, alpha)
    weights = np.zeros(Phi.shape[1])
    weights[kept] = w
    return alpha, weights


def relevance_evidence(Phi, y, alpha):
    """The log marginal likelihood in Laplace's approximation."""
    kept, w, covariance = relevance_mode(Phi, y, alpha)
    values = np.where(y, 1.0, -1.0) * (Phi[:, kept] @ w)
    likelihood = -np.log1p(np.exp(-values)).sum() - 0.5 * alpha[kept] @ w**2
    return likelihood + 0.5 * np.log(alpha[kept]).sum() + 0.5 * np.linalg.slogdet(covariance)[1]


# --- machines on a budget of support vectors -----------------------------------------------------


def forgetron(K, signs, order, budget):
    """Weights by row of the self-tuned Forgetron, and the deviation and mistakes it has summed."""
    stored = []  # pairs of row and weight, the oldest first
    total, mistakes = 0.0, 0

    def value(x):
        return sum(weight * signs[i] * K[i][x] for i, weight in stored)

    for t in order:
        if signs[t] * value(t) > 0:
            continue
        mistakes += 1
        stored.append((t, 1.0))
        if len(stored) <= budget:
            continue
        r, weight = stored[0]
        margin = signs[r] * value(r)

        def cost(x, w=weight, m=margin):
            return (x * w) ** 2 + 2 * x * w - 2 * (x * w) * (x * m)

        low, high = 0.0, 1.0
        if cost(1.0) + total > 15 / 32 * mistakes:
            for _ in range(100):
                middle = (low + high) / 2
                if cost(middle) + total <= 15 / 32 * mistakes:
                    low = middle
                else:
                    high = middle
            high = low
        total += cost(high)
        stored = [(i, high * weight) for i, weight in stored][1:]
    return stored, total, mistakes


def projectron(K, signs, order, budget, threshold, margin_updates):
    """Support and coefficients of Projectron (or ++), a linear system solved at each step."""
    support, coef = [], np.zeros(0)
    for t in order:
        k = K[support, t]
        value = signs[t] * (coef @ k)
        if value >= 1 or (value > 0 and not margin_updates):
            continue
        d = np.linalg.solve(K[np.ix_(support, support)], k)
        distance = math.sqrt(max(K[t, t] - k @ d, 0.0))
        if value <= 0 and distance > threshold and len(support) < budget:
            support.append(t)
            coef = np.append(coef, signs[t])
        elif value <= 0:
            coef = coef + signs[t] * d
        elif 1 - value > distance / threshold:
            loss, norm = 1 - value, k @ d
            step = min(loss / norm, 2 * (loss - distance / threshold) / norm, 1.0)
            coef = coef + step * signs[t] * d
    return support, coef


def kernel_perceptron(K, signs, order):
    """How often each row was a mistake."""
    counts = np.zeros(len(K))
    for t in order:
        counts[t] += signs[t] * (K[t] @ (counts * signs)) <= 0
    return counts


def pegasos(K, signs, order, regularization):
    """Coefficients and intercept after a step on each row of ``order``."""
    coef, intercept = np.zeros(len(K)), 0.0
    for t, i in enumerate(order, 1):
        is_violated = signs[i] * (K[i] @ coef + intercept) < 1
        coef, intercept = (1 - 1 / t) * coef, (1 - 1 / t) * intercept
        if is_violated:
            coef[i] += signs[i] / (regularization * t)
            intercept += signs[i] / (regularization * t)
    return coef, intercept


def golden_section(function, low, high, tol=1e-9):
    """Where a function with one maximum is largest."""
    ratio = (math.sqrt(5) - 1) / 2
    while high - low > tol:
        left, right = high - ratio * (high - low), low + ratio * (high - low)
        if function(left) < function(right):
            low = left
        else:
            high = right
    return (low + high) / 2


# Inputs of compact machines


def mapped_row(x, shift, scale, *, is_asinh=False, features=(), thresholds=(), block=1):
    """[u | S] of one row, number by number, in the float32 arithmetic of the stored machine."""
    if block > 1:
        side = math.isqrt(len(x))
        x = [
            sum(x[(i + a) * side + j + b] for a in range(block) for b in range(block)) / block**2
            for i in range(0, side, block)
            for j in range(0, side, block)
        ]
    u = []
    shifts, scales = (np.broadcast_to(value, len(x)) for value in (shift, scale))
    for value, s, a in zip(x, shifts, scales, strict=True):
        number = np.float32(value - s) * np.float32(1 / a)
        u.append(np.arcsinh(number) if is_asinh else number)
    steps = zip(features, thresholds, strict=True)
    return np.array(u + [float(u[d] > np.float32(t)) for d, t in steps], dtype=np.float32)


def replaced_in_turn(kept, new, size, places):
    """A memory of a size after new rows, one by one: into free places, then into given ones."""
    kept, places = list(kept), list(places)
    for row in new:
        if len(kept) < size:
            kept.append(row)
        else:
            kept[places.pop(0)] = row
    return kept


# --- Shapley values by their definition --------------------------------------------------------


def shapley(function, row, background, groups):
    """sum_S |S|! (p - |S| - 1)! / p! (v(S + e) - v(S)) of one row, for each group of columns.

    v(S) is the mean of function over the background rows whose columns of S are those of the row.
    """
    row, background, p = (
        np.asarray(row, dtype=float),
        np.asarray(background, dtype=float),
        len(groups),
    )
    worth = {}
    for size in range(p + 1):
        for S in combinations(range(p), size):
            mixed = background.copy()
            for player in S:
                mixed[:, groups[player]] = row[groups[player]]
            worth[S] = function(mixed).mean(axis=0)
    values = []
    for player in range(p):
        total = 0.0
        for S, value in worth.items():
            if player not in S:
                weight = math.factorial(len(S)) * math.factorial(p - len(S) - 1)
                total = total + weight * (worth[tuple(sorted((*S, player)))] - value)
        values.append(total / math.factorial(p))
    return np.array(values)


def mixture_log_density(mixture, U):
    """Logarithm of sum_j w_j prod_c exp(-(u_c - z_jc)^2 / (2 v_jc)) / sqrt(v_jc), by loops."""
    densities = []
    for u in U:
        total = 0.0
        for w, z, v in zip(mixture.weights, mixture.centers, mixture.variances, strict=True):
            component = w
            for c in range(len(u)):
                component *= math.exp(-((u[c] - z[c]) ** 2) / (2 * v[c])) / math.sqrt(v[c])
            total += component
        densities.append(math.log(total))
    return np.array(densities)
