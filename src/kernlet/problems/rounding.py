"""Rounding numbers to a few levels, in a way that training can see through."""

from __future__ import annotations

from array_api_compat import array_namespace

from kernlet.kernels.lifted import Array


def rounded(values: Array, log_step: Array, n_levels: int) -> Array:
    """The nearest multiples of a step, from -n_levels to n_levels of them.

    Parameters
    ----------
    values : array
    log_step : array of shape (1,)
        The logarithm of the step.
    n_levels : int
        Multiples of the step on either side of 0.

    Returns
    -------
    rounded : array of the shape of values

    Examples
    --------
    >>> import numpy as np
    >>> from kernlet.problems.rounding import rounded
    >>> rounded(np.array([0.2, 0.9, 5.0]), np.array([0.0]), 2)
    array([0., 1., 2.])
    """
    xp = array_namespace(values)
    step = xp.exp(log_step)
    return xp.clip(xp.round(values / step), -n_levels, n_levels) * step


def through_rounding(
    slopes: Array, values: Array, log_step: Array, n_levels: int
) -> tuple[Array, Array]:
    """Derivatives by the numbers and by the log of their step, from those by the rounded numbers.

    Learned step size quantisation (Esser et al., 2020): rounding passes a derivative on as if it
    were not there, except beyond the last level; the step feels the error it makes.

    Parameters
    ----------
    slopes : array
        Derivatives by the rounded numbers.
    values : array
        The numbers before rounding.
    log_step : array of shape (1,)
    n_levels : int

    Returns
    -------
    by_values : array of the shape of values
    by_log_step : array of shape (1,)
    """
    xp = array_namespace(values)
    step = xp.exp(log_step)
    multiples = values / step
    codes = xp.clip(xp.round(multiples), -n_levels, n_levels)
    inside = xp.astype(xp.abs(multiples) <= n_levels, values.dtype)
    by_step = xp.sum(slopes * (codes - inside * multiples))
    return slopes * inside, by_step * step
