"""How much the nights since a certain one speak for another level, held against the noise before.

Method: a log likelihood ratio, by each of three densities: the kernel, which knows any modes, the
bell, which knows clean noise (densities.py), and the chain, which knows two modes (chain.py). Their
ratios are joined as by Bayes' theorem where the chances of all are known: 1 / (sum of chance /
ratio), which is about the least of them unless that one is unlikely. A slow mode that holds for
days is thereby expected to hold.
A step by d makes a distance x as likely as x - d was before. No single night counts for more than
5, so that one outlier, or two, are no step; nor for much more than the log(n + 1) that the rank
of the largest of n + 1 nights can tell, unless it lies beyond everything by floors.
Rivals are weighed the same way: a step of half the floor, and noise that doubled; and a mode that
came new, slow in some of the nights only (modes.py). What is enough depends on how far the nights
stand out from the noise, on how many points tell it, and on whether it has modes.
Assumptions: the level is known, the noise depends on the night before at most. Distances are on
logarithms in units of the floor, upwards positive: the floor is 1.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from runner.analysis.chain import Chain, two_modes
from runner.analysis.densities import MIN_BANDWIDTH, Bell, Density, Kernel
from runner.analysis.history import middle
from runner.analysis.modes import explanations
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
# Of normal values, this share lies more than one sd below.
SHARE_BELOW = 0.16
# Of four series three have noise of one peak, as a logarithm of odds, before its points are seen.
MORE_FOR_BELL = 1.0
# The most that these odds, or those of the chain, may become, and above a high contrast. The tails
# of the bell are a guess: less of it counts where nights stand out so far that only points tell.
MAX_ODDS = 6.0
MAX_ODDS_FAR = 2.0
HIGH_CONTRAST = 5.0
# What any step needs, and how much more than its rivals.
NEEDED_EVIDENCE = 5.5
NEEDED_ADVANTAGE = 2.0
# Three clear nights lead over a new mode by ln(10) = 2.3, and are told where hardly anything else
# speaks for one. With one night more there is more to go by.
NEEDED_LEAD = 2.1
NEEDED_LEAD_EARLY = 2.24
EARLY_NIGHTS = 3
# A mode that was never seen stands out from the noise, what the noise does by itself does not.
# Times the logarithm of the contrast.
MORE_FOR_CONTRAST = 3.8
MAX_CONTRAST = 7.0
# Noise that is told by its points rather than by a bell has modes, and a mode may hold for days.
MORE_FOR_MODES = 1.0
# Of the noise, fewer points than these: times the logarithm of how many times fewer.
LITTLE_NOISE = 34
MORE_FOR_LITTLE_NOISE = 1.5
# One row a hypothesis: steps, what is no step, and last no change, which all are held against.
_SHIFTS = np.array([[*STEPS, *SMALL_STEPS, 0.0, 0.0]]).T
_FACTORS = np.array([[*(1.0 for _ in (*STEPS, *SMALL_STEPS)), NOISE_FACTOR, 1.0]]).T
_LOG_FACTORS = np.log(_FACTORS)
# Of the rows above, and of one below them.
_PLACES = np.arange(_SHIFTS.size + 1)


@dataclass(frozen=True, slots=True)
class Evidence:
    """Log likelihood ratios over no change: of a step, and of the best of its rivals.

    `size` is that of the likeliest step, `offset` says how many nights after the first one it is
    most likely, `contrast` how many times the width of the noise the median of the nights from
    there on lies from the old level.
    `has_modes` where the noise is likelier by the kernel than by the bell.
    """

    step: float
    rival: float
    offset: int
    contrast: float
    size: float = 1.0
    has_modes: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Demand:
    """How much evidence is a step.

    `num_noise` is the number of points that tell the noise; `factor` multiplies all.
    """

    num_noise: int
    factor: float = 1.0

    def is_met(self, found: Evidence, *, share: float = 1.0) -> bool:
        """Return whether `found` exceeds `share` of what is needed, and its rival."""
        needed = self.needed(found.contrast, has_modes=found.has_modes)
        is_enough = found.step > share * needed
        return is_enough and found.step - found.rival > NEEDED_ADVANTAGE

    def is_lead(self, lead: float, *, num_nights: int) -> bool:
        """Return whether a step of `num_nights`, by `lead` likelier than a new mode, is none."""
        return lead > (NEEDED_LEAD if num_nights > EARLY_NIGHTS else NEEDED_LEAD_EARLY)

    def needed(self, contrast: float, *, has_modes: bool = False) -> float:
        """Return what the evidence for a step of `contrast` must exceed."""
        contrast = min(MAX_CONTRAST, max(1.0, contrast))
        missing = math.log(max(1.0, LITTLE_NOISE / self.num_noise))
        needed = NEEDED_EVIDENCE + MORE_FOR_CONTRAST * math.log(contrast)
        needed += MORE_FOR_LITTLE_NOISE * missing
        if has_modes:
            needed += MORE_FOR_MODES
        return self.factor * needed


@dataclass(frozen=True, slots=True)
class _Nights:
    """The distances of an excursion, their median, and the most that each may count."""

    distances: np.ndarray
    median: float
    most: np.ndarray

    @property
    def is_median_tried(self) -> bool:
        """Whether the median is a step of its own."""
        return self.median > STEPS[0]


class _Told:
    """What one density tells of the nights of an excursion so far."""

    def __init__(self, density: Density) -> None:
        self.density = density
        # One row a hypothesis: another night changes nothing of those before it.
        self.logs = np.empty((_SHIFTS.size, 0))

    def ratios(self, nights: _Nights) -> np.ndarray:
        """Return the log likelihood ratio of each night over no change, one row a hypothesis.

        `nights` begin with those of the call before. The first row is of a step by their median,
        where that is tried.
        """
        num_known = self.logs.shape[1]
        # With the last one known, which the first new one follows.
        new = nights.distances[max(0, num_known - 1) :]
        rows = ((new - _SHIFTS) / _FACTORS).ravel()
        runs, starts = rows, _PLACES[:-1] * new.size
        if nights.is_median_tried:
            # In one go: on so few numbers calls take longer than arithmetic.
            runs = np.concatenate([rows, nights.distances - nights.median])
            starts = _PLACES * new.size
        logs = self.density.log_runs(runs, starts=starts)
        of_rows = logs[: rows.size].reshape(_SHIFTS.size, new.size) - _LOG_FACTORS
        self.logs = np.concatenate([self.logs, of_rows[:, min(1, num_known) :]], axis=1)
        ratios = self.logs[:-1] - self.logs[-1]
        if nights.is_median_tried:
            ratios = np.concatenate([(logs[rows.size :] - self.logs[-1])[None], ratios])
        return np.asarray(ratios)


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
        self._by_kernel = _Told(self.kernel)

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
    def others(self) -> tuple[Density, ...]:
        """What may tell the noise better than its points do."""
        return (self.bell,) if self.chain is None else (self.bell, self.chain)

    @cached_property
    def _by_others(self) -> tuple[_Told, ...]:
        return tuple(_Told(density) for density in self.others)

    def weigh(self, distances: np.ndarray, *, min_nights: int) -> Evidence:
        """Return the evidence that the last nights lie on a higher level, from the likeliest on.

        `distances` are upwards and begin with those of the call before. At least the last
        `min_nights` are taken to be on the new level.
        """
        nights = self._nights(distances)
        sizes = (nights.median, *STEPS) if nights.is_median_tried else STEPS
        num_steps = len(sizes)
        num_offsets = distances.size - min_nights + 1
        sums = _sums(self._by_kernel, nights)[:, :num_offsets]
        missing = NEEDED_EVIDENCE - float(sums[:num_steps].max())
        # What is too little however much the others would add is not worth their time.
        is_close = missing < MAX_ODDS
        if is_close:
            chances = self._log_chances(nights.median)
            if missing < -chances[0]:
                others = [_sums(told, nights)[:, :num_offsets] for told in self._by_others]
                sums = _joined([sums, *others], log_chances=chances)
        best, offset = divmod(int(sums[:num_steps].argmax()), num_offsets)
        return Evidence(
            step=float(sums[best, offset]),
            rival=float(sums[num_steps:, offset].max()),
            offset=offset,
            contrast=middle(sorted(distances[offset:].tolist())) / self.width_below,
            size=sizes[best],
            has_modes=is_close and self.odds < 0.0,
        )

    def lead_over_mode(self, distances: np.ndarray, *, size: float, min_nights: int) -> float:
        """Return by how much a step of `size` is likelier than a mode that came new, in logarithms.

        `distances` and `min_nights` are those of `weigh`.
        """
        # Neither began on a night that was nearer to the old level.
        is_slow = self.noise > size / 2
        earlier = self.noise[is_slow.argmax() :] if is_slow.any() else self.noise[:0]
        earlier = _limited(_ratios(self.bell, earlier, size=size), most=MAX_NIGHT)
        nights = self._nights(distances)

        def explained(density: Density) -> np.ndarray:
            ratios = _limited(_ratios(density, distances, size=size), most=nights.most)
            found = explanations(ratios, earlier=earlier, min_nights=min_nights)
            return np.array([found.step, found.mode])

        each = [explained(density) for density in (self.kernel, *self.others)]
        step, mode = _joined(each, log_chances=self._log_chances(nights.median))
        return float(step - mode)

    def _nights(self, distances: np.ndarray) -> _Nights:
        median = middle(sorted(distances.tolist()))
        far = FAR_WEIGHT * np.log(np.maximum(1.0, distances))
        most = np.minimum(MAX_NIGHT, math.log(self.noise.size + 1) + SURPRISE + far)
        return _Nights(distances, median, most)

    def _log_chances(self, median: float) -> list[float]:
        """Return the logarithms of how likely each density, the kernel first, tells the noise."""
        is_far = median > HIGH_CONTRAST * self.width_below
        return self._chances_far if is_far else self._chances

    @cached_property
    def _chances(self) -> list[float]:
        return self._chances_within(MAX_ODDS)

    @cached_property
    def _chances_far(self) -> list[float]:
        return self._chances_within(MAX_ODDS_FAR)

    def _chances_within(self, max_odds: float) -> list[float]:
        odds = [0.0, min(max_odds, self.odds + MORE_FOR_BELL)]
        if self.chain is not None:
            over_bell = self.chain.log_likelihood() - self.bell.log_likelihood()
            odds.append(min(MAX_ODDS, over_bell + self.odds))
        total = float(np.logaddexp.reduce(odds))
        return [each - total for each in odds]


def _ratios(density: Density, distances: np.ndarray, *, size: float) -> np.ndarray:
    """Return the log likelihood ratio of each night for a step of `size`."""
    step, none = density.log_density(np.stack([distances - size, distances]))
    return np.asarray(step - none)


def _joined(ratios: list[np.ndarray], *, log_chances: list[float]) -> np.ndarray:
    """Return log likelihood ratios by all densities, from those by each."""
    logs = (chance - ratio for chance, ratio in zip(log_chances, ratios, strict=True))
    return np.asarray(-functools.reduce(np.logaddexp, logs))


def _sums(told: _Told, nights: _Nights) -> np.ndarray:
    """Return the log likelihood ratios of all hypotheses, over each night and all after it."""
    ratios = _limited(told.ratios(nights), most=nights.most)
    return np.asarray(ratios[:, ::-1].cumsum(axis=1)[:, ::-1])


def _limited(ratios: np.ndarray, *, most: np.ndarray | float) -> np.ndarray:
    return np.asarray(np.minimum(np.maximum(ratios, MIN_NIGHT), most))
