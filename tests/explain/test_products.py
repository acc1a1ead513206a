"""Exact values of product games: agreement with the definition, the bound, and many players."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernlet.explain import products
from kernlet.explain.products import ProductGame
from kernlet.kernels.base import Kernel
from kernlet.kernels.laplacian import Laplacian
from kernlet.kernels.rational_quadratic import RationalQuadratic
from kernlet.kernels.rbf import RBF


def game_of(a, c):
    """Values of one product game, by the definition."""
    p = len(a)
    values = np.zeros(p)
    for size in range(p):
        weight = math.factorial(size) * math.factorial(p - size - 1) / math.factorial(p)
        for S in itertools.combinations(range(p), size):
            for player in set(range(p)) - set(S):
                rest = [c[e] for e in range(p) if e not in S and e != player]
                both = math.prod(a[e] for e in S) * math.prod(rest)
                values[player] += weight * (a[player] - c[player]) * both
    return values


class Given(Kernel):
    """A product of the factors exp(x), whatever the center."""

    def log_factor(self, differences):
        return differences


def exact_values(a, c):
    """Values of one product game of any factors."""
    with np.errstate(divide="ignore"):
        a, c = np.log([a]), np.log([c])
    p = a.shape[1]
    game = ProductGame(Given(), np.zeros((1, p)), np.ones((1, 1)), np.arange(p), p)
    values, bound = game.values(a, c, np.zeros((1, 1)))
    assert not bound.any()
    return values[0, :, 0]


@pytest.mark.parametrize("p", range(1, 13))
def test_half_as_many_nodes_as_players_are_exact(p):
    rng = np.random.RandomState(p)
    for a, c in ((rng.rand(p), rng.rand(p)), (rng.rand(p) > 0.3, rng.rand(p) > 0.5)):
        a, c = a.astype(float), c.astype(float)
        np.testing.assert_allclose(exact_values(a, c), game_of(a, c), atol=1e-15)


def test_values_are_those_of_exact_arithmetic():
    rng = np.random.RandomState(0)
    a, c = rng.rand(40), rng.rand(40)
    polynomial = [[Fraction(1)] for _ in a]
    for player in range(40):  # coefficients in t of the product without the player
        for e in range(40):
            if e != player:
                low, step = Fraction(c[e]), Fraction(a[e]) - Fraction(c[e])
                old = [*polynomial[player], Fraction(0)]
                shifted = [Fraction(0), *polynomial[player]]
                polynomial[player] = [low * x + step * y for x, y in zip(old, shifted, strict=True)]
    exact = [
        float((Fraction(a[e]) - Fraction(c[e])) * sum(q / (k + 1) for k, q in enumerate(poly)))
        for e, poly in enumerate(polynomial)
    ]
    np.testing.assert_allclose(exact_values(a, c), exact, rtol=1e-13)


def of_factors(kernel, p, J, rng):
    centers = rng.randn(J, p)
    return ProductGame(kernel, centers, rng.randn(2, J), np.arange(p), p)


@settings(max_examples=60)
@given(st.integers(11, 90), st.floats(0.01, 30.0), st.integers(0, 10**6), st.booleans())
def test_fewer_nodes_are_within_their_bound(p, width, seed, is_laplacian):
    rng = np.random.RandomState(seed)
    kernel = (Laplacian if is_laplacian else RBF)(width / p)
    game = of_factors(kernel, p, 3, rng)
    X, background = rng.randn(2, p), rng.randn(4, p)
    exact, none = game.values(X, background, np.zeros((2, 2)))
    assert not none.any()
    for share in (1e-1, 1e-4, 1e-8):
        allowed = np.full((2, 2), share * np.abs(exact).max())
        values, bound = game.values(X, background, allowed)
        assert (bound <= allowed).all()
        errors = np.abs(values - exact).sum(axis=1)
        assert (errors <= bound + 1e-13 * np.abs(game.coef).sum(axis=1)).all()


def test_fewer_nodes_are_used(monkeypatch):
    used = []
    nodes = products._nodes
    monkeypatch.setattr(products, "_nodes", lambda m: used.append(m) or nodes(m))
    rng = np.random.RandomState(0)
    game = of_factors(RBF(1 / 60), 60, 5, rng)
    X, background = rng.randn(1, 60), rng.randn(20, 60)
    products._table.cache_clear()
    game.values(X, background, np.full((1, 2), 1e-8))
    assert used[-1] < 12
    game.values(X, background, np.zeros((1, 2)))
    assert used[-1] == 29


@pytest.mark.parametrize("gamma", [1e-3, 0.05, 5.0, 1e6])
def test_hundreds_of_players_give_numbers(gamma):
    rng = np.random.RandomState(1)
    game = of_factors(RBF(gamma), 800, 2, rng)
    game = ProductGame(game.kernel, 0.05 * game.centers, game.coef, game.owner, 800)
    X, background = 0.05 * rng.randn(1, 800), 0.05 * rng.randn(3, 800)
    for allowed in (0.0, 1e-9):
        values, bound = game.values(X, background, np.full((1, 2), allowed))
        assert np.isfinite(values).all()
        assert not bound.max() > allowed
        k = game.kernel(np.concatenate([X, background]), game.centers) @ game.coef.T
        np.testing.assert_allclose(values.sum(axis=1)[0], k[0] - k[1:].mean(axis=0), atol=1e-9)


def test_blocks_of_centers_and_background_rows_add_up(monkeypatch):
    rng = np.random.RandomState(2)
    game = of_factors(RBF(rng.rand(7)), 5, 7, rng)
    X, background = rng.randn(4, 5), rng.randn(9, 5)
    allowed = np.zeros((4, 2))
    at_once, _ = game.values(X, background, allowed)
    monkeypatch.setattr(products, "_BLOCK", 30)
    monkeypatch.setattr(products, "_MOST_BACKGROUND", 4)
    np.testing.assert_allclose(game.values(X, background, allowed)[0], at_once, atol=1e-15)


def test_players_that_do_not_move_are_left_out_exactly():
    rng = np.random.RandomState(3)
    game = of_factors(RBF(0.3), 12, 4, rng)
    X, background = rng.randn(1, 12), rng.randn(5, 12)
    background[:, 2:] = X[:, 2:]
    values, _ = game.values(X, background, np.zeros((1, 2)))
    assert not values[:, 2:].any()
    k = game.kernel(np.concatenate([X, background]), game.centers) @ game.coef.T
    np.testing.assert_allclose(values.sum(axis=1)[0], k[0] - k[1:].mean(axis=0), atol=1e-14)


@pytest.mark.parametrize("alpha", [0.3, 1.0, 4.5, 1e3, 1e6])
@pytest.mark.parametrize("tol", [1e-4, 1e-11])
def test_a_rational_quadratic_is_a_mixture_of_gaussians(alpha, tol):
    kernel = RationalQuadratic(0.7, alpha)
    parts, bound = kernel.as_products(tol)
    assert bound <= tol
    points = np.concatenate([[0.0], np.geomspace(1e-4, 1e4, 400)])[:, None]
    mixture = sum(weight * part(points, np.zeros((1, 1))) for weight, part in parts)
    error = np.abs(mixture - kernel(points, np.zeros((1, 1)))).max()
    assert not error > bound + 1e-14 * (1 + alpha / 1e3)


def test_a_heavy_tail_has_no_mixture():
    assert RationalQuadratic(1.0, 1e-5).as_products(1e-10) is None
