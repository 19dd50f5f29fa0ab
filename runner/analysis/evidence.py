"""How much the nights since a certain one speak for another level, held against the noise before.

Method: a log likelihood ratio. The density of a night's distance from the level is learnt from the
distances of earlier nights: a kernel density (Student's with 3 degrees of freedom, so that tails
stay heavy), in which those earlier nights count more whose own predecessor lay where this night's
did (a conditional density: Rosenblatt, 1969). A slow mode that holds for days is thereby expected
to hold. Little history is supplemented by a prior and by the chance of an outlier anywhere.
A step by d makes a distance x as likely as x - d was before. No single night counts for more than
5, so that one outlier, or two, are no step; nor for much more than the log(n + 1) that the rank
of the largest of n + 1 nights can tell, unless it lies beyond everything by floors.
Rivals are weighed the same way: a step of half the floor, and noise that doubled. What is enough
depends on how far the nights stand out from the noise, and on how many points tell it.
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
# Two outliers in a row and an ordinary night stay below what a step of their contrast needs.
MAX_NIGHT = 5.0
MIN_NIGHT = -4.0
# Beyond log(n + 1): what any night may count more, and what one at x floors may, times log(x).
SURPRISE = 0.9
FAR_WEIGHT = 2.0
# The kernel's width is 0.64 (0.9 / sqrt(2)) of Silverman's rule, a tenth of the floor at least:
# finer noise changes no decision about the floor.
BANDWIDTH = 0.9 / math.sqrt(2)
MIN_BANDWIDTH = 0.1
# Of normal values, this share lies more than one sd below.
SHARE_BELOW = 0.16
# An unknown series is taken to have a noise of 2 % where the floor is 5 %, as six nights would say.
PRIOR_SD = 0.4
PRIOR_NIGHTS = 6.0
# One night in thirty is an outlier, anywhere within 20 floors.
OUTLIERS = 0.03
OUTLIER_RANGE = 20.0
# What a night not preceded by its like counts, and what staying where one was yesterday does.
UNLIKE_WEIGHT = 0.05
STAY_WEIGHT = 1.0
# What any step needs, and how much more than its rivals.
NEEDED_EVIDENCE = 7.5
NEEDED_ADVANTAGE = 2.0
# A mode that was never seen stands out from the noise, what the noise does by itself does not.
# Times the logarithm of the contrast.
MORE_FOR_CONTRAST = 2.0
MAX_CONTRAST = 8.0
# What stands out so far and goes between its nights is a mode: a step does not go.
HIGH_CONTRAST = 4.0
MORE_FOR_A_NIGHT_BACK = 2.4
# Of the noise, fewer points than these: times the logarithm of how many times fewer.
LITTLE_NOISE = 34
MORE_FOR_LITTLE_NOISE = 1.8
# Student's density with 3 degrees of freedom at 0.
_PEAK = 2 / (math.pi * math.sqrt(3))
# One row a hypothesis: steps, what is no step, and last no change, which all are held against.
_SHIFTS = np.array([[*STEPS, *SMALL_STEPS, 0.0, 0.0]]).T
_FACTORS = np.array([[*(1.0 for _ in (*STEPS, *SMALL_STEPS)), NOISE_FACTOR, 1.0]]).T


@dataclass(frozen=True, slots=True)
class Evidence:
    """Log likelihood ratios over no change: of a step, and of the best of its rivals.

    `offset` says how many nights after the first one the step is most likely, `contrast` how many
    times the width of the noise the median of the nights from there on lies from the old level.
    """

    step: float
    rival: float
    offset: int
    contrast: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Demand:
    """How much evidence is a step.

    `num_noise` is the number of points that tell the noise; `is_back` where one of the nights was
    near the old level again; `factor` multiplies all.
    """

    num_noise: int
    is_back: bool = False
    factor: float = 1.0

    def is_met(self, found: Evidence, *, share: float = 1.0) -> bool:
        """Return whether `found` exceeds `share` of what is needed, and its rival."""
        is_enough = found.step > share * self.needed(found.contrast)
        return is_enough and found.step - found.rival > NEEDED_ADVANTAGE

    def needed(self, contrast: float) -> float:
        """Return what the evidence for a step of `contrast` must exceed."""
        contrast = min(MAX_CONTRAST, max(1.0, contrast))
        missing = math.log(max(1.0, LITTLE_NOISE / self.num_noise))
        needed = NEEDED_EVIDENCE + MORE_FOR_CONTRAST * math.log(contrast)
        needed += MORE_FOR_LITTLE_NOISE * missing
        if self.is_back and contrast > HIGH_CONTRAST:
            needed += MORE_FOR_A_NIGHT_BACK
        return self.factor * needed


class Scales:
    """What weighs the nights of one excursion, more of them each time.

    `noise` are the distances of the nights before it, in order of time; `level_error` is the
    variance of the level that they are distances from, in variances of the noise.
    """

    def __init__(self, noise: np.ndarray, *, level_error: float) -> None:
        self.noise = noise
        self.sd = robust_sd(noise)
        # On the other side than the nights lie: a second mode on theirs makes noise no wider.
        below = -float(np.sort(noise)[int(SHARE_BELOW * noise.size)])
        self.width_below = max(MIN_BANDWIDTH, below)
        silverman = BANDWIDTH * self.sd * noise.size**-0.2
        self.width = math.sqrt(silverman**2 + MIN_BANDWIDTH**2 + level_error * self.sd**2)
        # Of the nights so far: another night changes nothing of those before it.
        self.logs = np.empty((_SHIFTS.size, 0))

    def weigh(self, distances: np.ndarray, *, min_nights: int) -> Evidence:
        """Return the evidence that the last nights lie on a higher level, from the likeliest on.

        `distances` are upwards and begin with those of the call before. At least the last
        `min_nights` are taken to be on the new level.
        """
        self._add(distances)
        logs, num_steps = self.logs, len(STEPS)
        step = middle(sorted(distances.tolist()))
        if step > STEPS[0]:
            logs = np.vstack([self._log_density(distances[None] - step), logs])
            num_steps += 1
        far = FAR_WEIGHT * np.log(np.maximum(1.0, distances))
        most = np.minimum(MAX_NIGHT, math.log(self.noise.size + 1) + SURPRISE + far)
        ratios = np.minimum(np.maximum(logs[:-1] - logs[-1], MIN_NIGHT), most)
        # Sums over each night and all after it.
        sums = ratios[:, ::-1].cumsum(axis=1)[:, ::-1]
        num_offsets = distances.size - min_nights + 1
        best, offset = divmod(int(sums[:num_steps, :num_offsets].argmax()), num_offsets)
        return Evidence(
            step=float(sums[best, offset]),
            rival=float(sums[num_steps:, offset].max()),
            offset=offset,
            contrast=middle(sorted(distances[offset:].tolist())) / self.width_below,
        )

    def _add(self, distances: np.ndarray) -> None:
        num_known = self.logs.shape[1]
        if num_known < distances.size:
            # With the last one known, which the first new one follows.
            nights = distances[max(0, num_known - 1) :]
            logs = self._log_density((nights - _SHIFTS) / _FACTORS) - np.log(_FACTORS)
            self.logs = np.hstack([self.logs, logs[:, nights.size - distances.size + num_known :]])

    def _log_density(self, distances: np.ndarray) -> np.ndarray:
        """Return that of each distance after the one before it, one row a hypothesis."""
        near = _kernel((distances[:, :, None] - self.noise) / self.width)
        learnt = near.mean(axis=2)
        # Weights of the earlier nights: how near their predecessors lay to this night's, and they
        # themselves.
        weights = STAY_WEIGHT * near[:, :-1]
        weights[:, :, 1:] += UNLIKE_WEIGHT + near[:, :-1, :-1]
        learnt[:, 1:] = (weights * near[:, 1:]).sum(axis=2) / weights.sum(axis=2)
        share = PRIOR_NIGHTS / (self.noise.size + PRIOR_NIGHTS)
        known = (1 - share) * (_PEAK / self.width) * learnt
        known += share * (_PEAK / PRIOR_SD) * _kernel(distances / PRIOR_SD)
        return np.asarray(np.log((1 - OUTLIERS) * known + OUTLIERS / OUTLIER_RANGE))


def _kernel(distances: np.ndarray) -> np.ndarray:
    """Return Student's density with 3 degrees of freedom, 1 at its peak."""
    root = 1 + distances * distances / 3
    return np.asarray(1 / (root * root))
