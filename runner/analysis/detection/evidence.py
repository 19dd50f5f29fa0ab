"""Weigh how strongly the nights of an excursion support another level, given the earlier noise.

Method: Bayesian odds. Each hypothesis - a step of the floor or more, a smaller one, a blip of one
or two nights, a new slower mode - has a likelihood ratio over no change: the mean over its sizes
and the sum over its first nights, all equally likely. The three densities of noise_densities.py
describe the nights. The weight of each density is its likelihood for the noise, then for the nights
themselves, so that a slow mode that lasts for days is expected to last. A step by d makes a
distance x as likely as x - d was before.
A step is reported if its likelihood exceeds that of no change and of all alternatives together by
factors that reflect the cost of each error.
No single night counts for more than 5, nor for much more than log(n + 1), which is what the rank of
the largest of n + 1 nights can show, unless it lies floors beyond everything: the distance of an
outlier is no evidence of a step.
New mode: a mode as far away as a step is slow in an unknown share of the nights, independently (a
finite mixture: McLachlan and Peel, 2000, with the share integrated out). The share has the prior
Beta(1, 3), 3 (1 - share)^2, a quarter on average, since a state of most nights is the level itself.
If a night has the log ratio r for the step, its ratio for the mode is the mean of share e^r +
(1 - share); these are multiplied over the nights. As for a step, all first nights count: the mode
may have begun on any night of the excursion or before it.
Assumptions: the level is known, the noise depends on the night before at most. Distances are on
logarithms in units of the floor, upwards positive: the floor is 1.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from compile_hud.runner.analysis.detection.constants import middle
from compile_hud.runner.analysis.detection.noise_densities import (
    MIN_BANDWIDTH,
    Bell,
    Chain,
    Density,
    Kernel,
    two_modes,
)
from compile_hud.runner.analysis.stats.estimates import robust_sd

# Steps that are tried, besides the median of the distances themselves: from one floor to two, near
# enough to each other that noise of half a floor does not tell them apart.
STEPS = (1.0, 1.2, 1.5, 1.9)
# What is no step: changes of up to half the floor.
SMALL_STEPS = (0.25, 0.5, -0.3)
# How far out a night lies is not to decide alone; two outliers in a row are a blip (below).
MAX_NIGHT = 5.0
MIN_NIGHT = -4.0
# Beyond log(n + 1): what any night may count more, and what one at x floors may, times log(x).
SURPRISE = 0.9
FAR_WEIGHT = 2.0
# Of normal values, this share lies more than one sd below.
SHARE_BELOW = 0.16
# Of four series three have noise of one peak, as a logarithm of odds, before its points are seen.
MORE_FOR_BELL = 1.0
# The most that these odds, or those of the chain, may become, and above a high contrast. The tails
# of the bell are a guess: less of it counts where nights stand out so far that only points tell.
MAX_ODDS = 6.0
MAX_ODDS_FAR = 2.0
HIGH_CONTRAST = 5.0
# How much likelier, as logarithms, a step must be than no change at all, which is the rule on any
# night, and than each of its rivals, which are rare themselves. These and what is asked more below
# are a balance of delay, false alarms and modes that stay silent, chosen on labelled histories and
# told on others (docs/judging.md).
NEEDED_EVIDENCE = 6.0
# The bell alone must come to this, else nothing else is asked: less than any step needs.
NEEDED_OF_BELL = 5.0
LEAD_OVER_SMALL = 0.2
LEAD_OVER_BLIP = 2.5
# Three nights that are as clear as can be lead by ln(10) = 2.3 over a mode.
LEAD_OVER_MODE = 1.1
# Noise that is told by its points rather than by a bell has modes, and a mode may hold for days.
MORE_FOR_MODES = 3.0
# Of the noise, and of the level, fewer points than these: times the logarithm of how many times
# fewer. A mode may not have been there yet.
FEW_POINTS = 34
MORE_FOR_LITTLE_NOISE = 7.0
MORE_FOR_YOUNG_LEVEL = 2.0
# So much less of both for nights at x floors, times log(x): what noise may yet do is not as far,
# and three nights that are as clear as can be are a step in a young series, too.
LESS_FOR_FAR = 6.0
# One row a hypothesis: steps, small ones, and last no change, which all are held against.
_SHIFTS = np.array([[*STEPS, *SMALL_STEPS, 0.0]]).T
# Of the rows above, and of one below them.
_PLACES = np.arange(_SHIFTS.size + 1)
# Shares of the nights in which a mode may be slow, and how likely each is.
SHARES = (np.arange(12) + 0.5) / 12
_LOG_CHANCES = np.log((1 - SHARES) ** 2 / ((1 - SHARES) ** 2).sum())


@dataclass(frozen=True, slots=True, kw_only=True)
class Rivals:
    """Log likelihood ratios over no change of what a step may be taken for."""

    small: float
    blip: float
    mode: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Demand:
    """How much evidence is a step.

    `num_noise` and `num_level` are the numbers of points that tell the noise and the level;
    `factor` multiplies what is needed.
    """

    num_noise: int
    num_level: int
    factor: float = 1.0

    def needed(self, *, median: float = 1.0, has_modes: bool = False) -> float:
        """Return what the evidence for a step must exceed whose nights are `median` floors away."""
        more = MORE_FOR_LITTLE_NOISE * _missing(self.num_noise)
        more += MORE_FOR_YOUNG_LEVEL * _missing(self.num_level)
        more -= LESS_FOR_FAR * math.log(max(1.0, median))
        needed = NEEDED_EVIDENCE + max(0.0, more)
        if has_modes:
            needed += MORE_FOR_MODES
        return self.factor * needed

    def is_met(self, found: Evidence, *, share: float = 1.0) -> bool:
        """Return whether `found` exceeds `share` of what is needed."""
        # Whether the noise has modes takes longer.
        if found.step <= share * self.needed(median=found.median):
            return False
        return found.step > share * self.needed(median=found.median, has_modes=found.has_modes)

    def is_step(self, found: Evidence) -> bool:
        """Return whether `found` exceeds what is needed, beside all rivals too."""
        if not self.is_met(found):
            return False
        needed = self.needed(median=found.median, has_modes=found.has_modes)
        return found.step > beside(found.rivals, needed=needed)


def beside(rivals: Rivals, *, needed: float) -> float:
    """Return what the evidence for a step must exceed: the sum of what all ask for.

    `needed` is what it must exceed where there are no rivals.
    """
    return _log_add(
        (
            needed,
            rivals.small + LEAD_OVER_SMALL,
            rivals.blip + LEAD_OVER_BLIP,
            rivals.mode + LEAD_OVER_MODE,
        )
    )


def _missing(num_points: int) -> float:
    """Return the logarithm of how many times fewer points there are than are enough."""
    return math.log(max(1.0, FEW_POINTS / num_points))


@dataclass(frozen=True, slots=True)
class _Nights:
    """The distances of an excursion, their median, and the most that each may count."""

    distances: np.ndarray
    median: float
    most: np.ndarray

    @property
    def sizes(self) -> tuple[float, ...]:
        """Return the steps that are tried, of which the median may be one."""
        return (self.median, *STEPS) if self.median > STEPS[0] else STEPS


class _Told:
    """What one density tells of the nights of an excursion so far."""

    def __init__(self, density: Density) -> None:
        self.density = density
        # One row a hypothesis: another night changes nothing of those before it.
        self.logs = np.empty((_SHIFTS.size, 0))

    def weigh(self, nights: _Nights) -> _Weights:
        """Return what `nights` say, which begin with those of the call before."""
        num_known = self.logs.shape[1]
        # With the last one known, which the first new one follows.
        new = nights.distances[max(0, num_known - 1) :]
        is_median_tried = len(nights.sizes) > len(STEPS)
        runs, starts = (new - _SHIFTS).ravel(), _PLACES[:-1] * new.size
        if is_median_tried:
            # In one go: on so few numbers calls take longer than arithmetic.
            runs = np.concatenate([runs, nights.distances - nights.median])
            starts = _PLACES * new.size
        logs = self.density.log_runs(runs, starts=starts)
        of_rows = logs[: _SHIFTS.size * new.size].reshape(_SHIFTS.size, new.size)
        self.logs = np.concatenate([self.logs, of_rows[:, min(1, num_known) :]], axis=1)
        rows = self.logs[:-1]
        if is_median_tried:
            rows = np.concatenate([logs[None, _SHIFTS.size * new.size :], rows])
        ratios = _limited(rows - self.logs[-1], most=nights.most)
        return _Weights(float(self.logs[-1].sum()), ratios)


@dataclass(frozen=True, slots=True)
class _Weights:
    """By one density: the logarithm of the likelihood of no change, and the ratios over that.

    Those are logarithms, one row a hypothesis and one column a night.
    """

    log_none: float
    ratios: np.ndarray


class Evidence:
    """What the nights of an excursion say, in log likelihood ratios over no change.

    `step` is that of a step, which has most likely begun `offset` nights after the first one;
    `median` is the distance of all nights, in floors. What the rivals say takes longer, and is
    asked of few nights.
    """

    def __init__(
        self,
        scales: Scales,
        nights: _Nights,
        *,
        weights: Sequence[_Weights],
        log_chances: Sequence[float],
        min_nights: int,
    ) -> None:
        self._scales = scales
        self.median = nights.median
        self._sizes = nights.sizes
        self._min_nights = min_nights
        # How likely each density tells these nights, where there is no change.
        logs = [chance + each.log_none for chance, each in zip(log_chances, weights, strict=True)]
        total = _log_add(logs)
        self._log_chances = np.array([log - total for log in logs])[:, None, None]
        self._ratios = np.array([each.ratios for each in weights])
        num_first = nights.distances.size - min_nights + 1
        # From each night on.
        self._sums = self._ratios[:, :, ::-1].cumsum(axis=2)[:, :, ::-1][:, :, :num_first]
        num_sizes = len(self._sizes)
        logs_of_places = self._log_chances + self._sums[:, :num_sizes]
        most = float(logs_of_places.max())
        places = np.exp(logs_of_places - most).sum(axis=0)
        self.step = most + math.log(float(places.sum()) / num_sizes)
        self.offset = int(places.argmax()) % num_first

    @property
    def has_modes(self) -> bool:
        """Return whether the points tell the noise better than a bell does."""
        return self._scales.odds < 0.0

    @cached_property
    def rivals(self) -> Rivals:
        """Return what else may have happened."""
        return Rivals(small=self._small(), blip=self._blip(), mode=self._mode())

    def _small(self) -> float:
        return _log_sum(self._log_chances + self._sums[:, len(self._sizes) :], len(SMALL_STEPS))

    def _blip(self) -> float:
        """Return that of one night, or two in a row, as far away as a step."""
        ratios = self._ratios[:, : len(self._sizes)]
        nights = np.concatenate([ratios, ratios[:, :, 1:] + ratios[:, :, :-1]], axis=2)
        return _log_sum(self._log_chances + nights, len(self._sizes))

    def _mode(self) -> float:
        num_sizes = len(self._sizes)
        earlier = self._scales.earlier(self._sizes)
        logs = [
            chance + log_mode(ratios[:num_sizes], earlier=earlier, min_nights=self._min_nights)
            for chance, ratios in zip(self._log_chances.ravel().tolist(), self._ratios, strict=True)
        ]
        return _log_add(logs)


class Scales:
    """What weighs the nights of one excursion, more of them each time.

    `noise` are the distances of the nights before it, in order of time; `level_error` is the
    variance of the level that they are distances from, in variances of the noise.
    """

    def __init__(self, noise: np.ndarray, *, level_error: float) -> None:
        self.noise = noise
        self.level_error = level_error
        self.sd = robust_sd(noise)
        # On the other side than the nights lie: a second mode on theirs makes noise no wider.
        below = -float(np.sort(noise)[int(SHARE_BELOW * noise.size)])
        self.width_below = max(MIN_BANDWIDTH, below)
        self.kernel = Kernel(noise, sd=self.sd, level_error=level_error)

    @cached_property
    def bell(self) -> Bell:
        """The noise as if it had one peak."""
        return Bell(self.noise, sd=self.sd, level_error=self.level_error)

    @cached_property
    def odds(self) -> float:
        """The logarithm of how much likelier the bell makes the noise than the kernel does."""
        return self.bell.log_likelihood() - self.kernel.log_likelihood()

    @cached_property
    def chain(self) -> Chain | None:
        """The noise as two modes, None where the bell tells it, or where it has too few points."""
        return two_modes(self.noise, sd=self.sd) if self.odds < 0.0 else None

    @cached_property
    def _by_bell(self) -> _Told:
        return _Told(self.bell)

    @cached_property
    def _by_others(self) -> tuple[_Told, ...]:
        others = (self.kernel,) if self.chain is None else (self.kernel, self.chain)
        return tuple(_Told(density) for density in others)

    def weigh(self, distances: np.ndarray, *, min_nights: int) -> Evidence:
        """Return the evidence that the last nights lie on a higher level, `min_nights` at least.

        `distances` are upwards and begin with those of the call before. It is by the bell alone
        where that says too little for any step.
        """
        nights = self._nights(distances)
        weights = [self._by_bell.weigh(nights)]
        found = Evidence(self, nights, weights=weights, log_chances=[0.0], min_nights=min_nights)
        if found.step <= NEEDED_OF_BELL:
            return found
        weights += [told.weigh(nights) for told in self._by_others]
        chances = self._log_chances(nights.median)
        return Evidence(self, nights, weights=weights, log_chances=chances, min_nights=min_nights)

    def earlier(self, sizes: Sequence[float]) -> np.ndarray:
        """Return how much likelier each night of the noise is `sizes` farther away, one a row."""
        noise = self.noise
        away = noise - np.array(sizes)[:, None]
        logs = self.bell.log_density(np.concatenate([away, noise[None]]))
        return _limited(logs[:-1] - logs[-1], most=MAX_NIGHT)

    def _nights(self, distances: np.ndarray) -> _Nights:
        median = middle(sorted(distances.tolist()))
        far = FAR_WEIGHT * np.log(np.maximum(1.0, distances))
        most = np.minimum(MAX_NIGHT, math.log(self.noise.size + 1) + SURPRISE + far)
        return _Nights(distances, median, most)

    def _log_chances(self, median: float) -> list[float]:
        """Return the logarithms of how likely each density, the bell first, tells the noise."""
        is_far = median > HIGH_CONTRAST * self.width_below
        return self._chances_far if is_far else self._chances

    @cached_property
    def _chances(self) -> list[float]:
        return self._chances_within(MAX_ODDS)

    @cached_property
    def _chances_far(self) -> list[float]:
        return self._chances_within(MAX_ODDS_FAR)

    def _chances_within(self, max_odds: float) -> list[float]:
        odds = [min(max_odds, self.odds + MORE_FOR_BELL), 0.0]
        if self.chain is not None:
            over_bell = self.chain.log_likelihood() - self.bell.log_likelihood()
            odds.append(min(MAX_ODDS, over_bell + self.odds))
        total = _log_add(odds)
        return [each - total for each in odds]


def _log_sum(logs: np.ndarray, num_equal: int) -> float:
    """Return the logarithm of a sum of likelihoods over `num_equal`, of which each is as likely."""
    most = float(logs.max())
    return most + math.log(float(np.exp(logs - most).sum()) / num_equal)


def _log_add(logs: Sequence[float]) -> float:
    """Return the logarithm of the sum of a few numbers that have these."""
    most = max(logs)
    return most + math.log(sum(math.exp(log - most) for log in logs))


def _limited(ratios: np.ndarray, *, most: np.ndarray | float) -> np.ndarray:
    return np.asarray(np.minimum(np.maximum(ratios, MIN_NIGHT), most))


def log_mode(ratios: np.ndarray, *, earlier: np.ndarray, min_nights: int) -> float:
    """Return the log likelihood ratio over no change of a mode that came new.

    `ratios` are those of the nights of an excursion for a step, one row a size, all of which are as
    likely. The last `min_nights` are taken to belong to the mode. `earlier` are those of the nights
    before, of the same sizes. All are in order of time.
    """
    # The last night first.
    nights = np.concatenate([earlier, ratios], axis=1)[:, ::-1]
    of_shares = np.log1p(SHARES[:, None, None] * np.expm1(nights)).cumsum(axis=2)
    logs = _LOG_CHANCES[:, None, None] + of_shares[:, :, min_nights - 1 :]
    most = float(logs.max())
    return most + float(np.log(np.exp(logs - most).sum() / ratios.shape[0]))
