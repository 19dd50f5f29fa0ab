"""How much the nights since a certain one speak for another level, held against the noise before.

Method: a log likelihood ratio. The density of a night's distance from the level is learnt from the
distances of earlier nights: a kernel density (Student's with 3 degrees of freedom, so that tails
stay heavy), in which those earlier nights count more whose own predecessor lay where this night's
did (a conditional density: Rosenblatt, 1969). A slow mode that holds for days is thereby expected
to hold. Little history is supplemented by a prior and by the chance of an outlier anywhere.
A step by d makes a distance x as likely as x - d was before. No single night counts for more than
5, so that one outlier, or two, are no step; nor for much more than the log(n + 1) that the rank
of the largest of n + 1 nights can tell, unless it lies beyond everything by floors.
Rivals are weighed the same way: a step of half the floor, and noise that doubled.
Assumptions: the level is known, the noise depends on the night before at most. Distances are on
logarithms in units of the floor, upwards positive: the floor is 1.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from runner.analysis.history import middle
from runner.analysis.stats import robust_sd

# Steps that are tried, besides the median of the distances themselves.
STEPS = (1.0, 1.2, 1.5, 1.9)
# What is no step: changes of up to half the floor, and noise that doubled.
SMALL_STEPS = (0.25, 0.5, -0.3)
NOISE_FACTOR = 2.0
# Two outliers in a row and an ordinary night stay below the 12 that a step needs.
MAX_NIGHT = 5.0
MIN_NIGHT = -4.0
# Beyond log(n + 1): what any night may count more, and what one at x floors may, times log(x).
SURPRISE = 0.9
FAR_WEIGHT = 2.0
# The kernel's width is 0.64 (0.9 / sqrt(2)) of Silverman's rule, a tenth of the floor at least:
# finer noise changes no decision about the floor.
BANDWIDTH = 0.9 / math.sqrt(2)
MIN_BANDWIDTH = 0.1
# An unknown series is taken to have a noise of 2 % where the floor is 5 %, as six nights would say.
PRIOR_SD = 0.4
PRIOR_NIGHTS = 6.0
# One night in thirty is an outlier, anywhere within 20 floors.
OUTLIERS = 0.03
OUTLIER_RANGE = 20.0
# What a night not preceded by its like counts, and what staying where one was yesterday does.
UNLIKE_WEIGHT = 0.05
STAY_WEIGHT = 0.6
# Student's density with 3 degrees of freedom at 0.
_PEAK = 2 / (math.pi * math.sqrt(3))


@dataclass(frozen=True, slots=True)
class Evidence:
    """Log likelihood ratios over no change: of a step, and of the best of its rivals.

    `offset` says how many nights after the first one the step is most likely, `contrast` how many
    robust sd of the noise the median of the nights from there on lies from the old level.
    """

    step: float
    rival: float
    offset: int
    contrast: float


def weigh(
    distances: np.ndarray, *, noise: np.ndarray, level_error: float, min_nights: int
) -> Evidence:
    """Return the evidence that the last nights lie on a higher level, for the likeliest first one.

    `distances` are those of the nights in question, `noise` those of the nights before, both from
    the old level and in order of time; `level_error` is the variance of that level, in variances
    of the noise. At least the last `min_nights` are taken to be on the new level.
    """
    steps = [*STEPS, max(STEPS[0], middle(sorted(distances.tolist())))]
    shifts = np.array([0.0, *steps, *SMALL_STEPS])
    rows = np.vstack([distances - shifts[:, None], distances / NOISE_FACTOR])
    sd = robust_sd(noise)
    logs = np.log(_density(rows, noise, sd=sd, level_error=level_error))
    logs[-1] -= math.log(NOISE_FACTOR)
    far = FAR_WEIGHT * np.log(np.maximum(1.0, distances))
    most = np.minimum(MAX_NIGHT, math.log(noise.size + 1) + SURPRISE + far)
    ratios = np.clip(logs[1:] - logs[0], MIN_NIGHT, most)
    # Sums over each night and all after it.
    sums = ratios[:, ::-1].cumsum(axis=1)[:, ::-1]
    offsets = distances.size - min_nights + 1
    best, offset = np.unravel_index(np.argmax(sums[: len(steps), :offsets]), (len(steps), offsets))
    return Evidence(
        step=float(sums[best, offset]),
        rival=float(sums[len(steps) :, offset].max()),
        offset=int(offset),
        contrast=middle(sorted(distances[offset:].tolist())) / max(MIN_BANDWIDTH, sd),
    )


def _density(
    distances: np.ndarray, noise: np.ndarray, *, sd: float, level_error: float
) -> np.ndarray:
    """Return the density of each distance after the one before it, one row a hypothesis."""
    silverman = BANDWIDTH * sd * noise.size**-0.2
    width = math.sqrt(silverman**2 + MIN_BANDWIDTH**2 + level_error * sd**2)
    near = _kernel((distances[:, :, None] - noise) / width)
    learnt = near.mean(axis=2)
    # Weights of the earlier nights: how near their predecessors lay to this night's predecessor.
    follows = UNLIKE_WEIGHT + near[:, :-1, :-1]
    stays = STAY_WEIGHT * near[:, :-1]
    total = follows.sum(axis=2) + stays.sum(axis=2)
    matched = np.einsum("ijk,ijk->ij", follows, near[:, 1:, 1:])
    matched += np.einsum("ijk,ijk->ij", stays, near[:, 1:])
    learnt[:, 1:] = matched / total
    share = PRIOR_NIGHTS / (noise.size + PRIOR_NIGHTS)
    known = (1 - share) * learnt * (_PEAK / width)
    known += share * _kernel(distances / PRIOR_SD) * (_PEAK / PRIOR_SD)
    return np.asarray((1 - OUTLIERS) * known + OUTLIERS / OUTLIER_RANGE)


def _kernel(distances: np.ndarray) -> np.ndarray:
    """Return Student's density with 3 degrees of freedom, 1 at its peak."""
    return np.asarray((1 + distances**2 / 3) ** -2)
