"""Fit the distribution of variances over an ensemble, and moderate each variance by it.

Method: empirical Bayes. A sample variance with d degrees of freedom is s0^2 F(d, d0): the scale
s0^2 and the degrees d0 of the prior follow from mean and variance of log s^2 over the ensemble
(limma's fitFDist; Smyth, Linear Models and Empirical Bayes Methods, 2004, section 6.2). A moderated
variance is the mean of s^2 and s0^2, weighted by d and d0 (squeezeVar). If variances differ by no
more than chance, d0 is infinite and all share s0^2.
Assumptions: the variances are of normal values and independent of each other; their true values
have a scaled inverse chi-square distribution.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from compile_hud.runner.analysis.stats.estimates import Spread

# Fewer variances than these tell no distribution of variances.
MIN_VARIANCES = 4
# No clock or counter here resolves a smaller relative sd; one of 0 would make anything significant.
MIN_SD = 1e-4
_NEWTON_STEPS = 50
_TOLERANCE = 1e-10


def fit_variance_prior(variances: Sequence[float], degrees: Sequence[float]) -> Spread | None:
    """Return the prior that `variances`, with `degrees` of freedom each, come from.

    Variances without a degree of freedom are left out. None for fewer than MIN_VARIANCES.
    """
    from scipy.special import digamma, polygamma

    all_degrees = np.asarray(degrees, dtype=float)
    is_known = all_degrees > 0
    half = all_degrees[is_known] / 2
    numbers = np.maximum(np.asarray(variances, dtype=float)[is_known], MIN_SD**2)
    if numbers.size < MIN_VARIANCES:
        return None
    logs = np.log(numbers) - digamma(half) + np.log(half)
    center = float(np.mean(logs))
    excess = float(np.var(logs, ddof=1) - np.mean(polygamma(1, half)))
    if excess <= 0:
        return Spread(sd=math.exp(center / 2), degrees=math.inf)
    half_prior = trigamma_inverse(excess)
    scale = center + float(digamma(half_prior)) - math.log(half_prior)
    return Spread(sd=math.exp(scale / 2), degrees=2 * half_prior)


def moderated(variance: float, *, degrees: float, prior: Spread) -> Spread:
    """Return the spread of a `variance` with `degrees` of freedom, moderated by `prior`."""
    if math.isinf(prior.degrees):
        return prior
    total = degrees + prior.degrees
    squares = degrees * variance + prior.degrees * prior.sd**2
    return Spread(sd=max(MIN_SD, math.sqrt(squares / total)), degrees=total)


def trigamma_inverse(value: float) -> float:
    """Return y with trigamma(y) = `value` above 0, by Newton's method (Smyth, 2004, appendix)."""
    from scipy.special import polygamma

    if value > 1e7:
        return 1 / math.sqrt(value)
    if value < 1e-6:
        return 1 / value
    guess = 0.5 + 1 / value
    for _ in range(_NEWTON_STEPS):
        trigamma = float(polygamma(1, guess))
        step = trigamma * (1 - trigamma / value) / float(polygamma(2, guess))
        guess += step
        if -step / guess < _TOLERANCE:
            break
    return guess
