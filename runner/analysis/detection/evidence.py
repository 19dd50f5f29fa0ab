"""Weigh how strongly the nights of an excursion support another level, given the earlier noise.

Method: Bayesian odds. The hypotheses are a step of the floor or more, a smaller one, a blip of one
or two nights, and a new slower mode. Each has a likelihood ratio over no change: the mean over its
sizes and the sum over its first nights, all equally likely. The three densities of
noise_densities.py describe the nights. The weight of each density is its likelihood for the noise,
then for the nights themselves. A slow mode that lasts for days is therefore expected to last. A
step by d makes a distance x as likely as x - d was before.
A step is reported if its likelihood exceeds that of no change, and that of all alternatives
together, by factors. These reflect the cost of each error.
No single night counts for more than 5, nor for much more than log(n + 1). The rank of the largest
of n + 1 nights shows no more. A night floors beyond everything counts more. The distance of an
outlier alone is no evidence of a step.
New mode: a mode as far away as a step is slow in an unknown share of the nights, independently (a
finite mixture: McLachlan and Peel, 2000, with the share integrated out). The share has the prior
Beta(1, 3), 3 (1 - share)^2. It is a quarter on average: a state of most nights is the level itself.
A night with the log ratio r for the step has a ratio for the mode: the mean of share e^r +
(1 - share). These are multiplied over the nights. As for a step, all first nights count: the mode
may have begun on any night of the excursion or before it.
Assumptions: the level is known, the noise depends on the night before at most. Distances are on
logarithms in units of the floor, upwards positive: the floor is 1.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np

from compile_hud.runner.analysis.detection.config import DEFAULT_CONFIG, DetectorConfig
from compile_hud.runner.analysis.detection.noise_densities import (
    Density,
    KernelDensity,
    StudentDensity,
    TwoStateMarkov,
    find_two_modes,
)
from compile_hud.runner.analysis.stats.estimates import robust_sd, sorted_median


@dataclass(frozen=True, slots=True, kw_only=True)
class AlternativeHypotheses:
    """Log likelihood ratios over no change of the alternatives to a step."""

    small: float
    blip: float
    mode: float


@dataclass(frozen=True, slots=True, kw_only=True)
class EvidenceThreshold:
    """The evidence that a step requires.

    `num_noise` and `num_level` are the numbers of points that describe the noise and the level;
    `factor` multiplies the threshold.
    """

    num_noise: int
    num_level: int
    factor: float = 1.0
    config: DetectorConfig = DEFAULT_CONFIG

    def required(self, *, median: float = 1.0, has_modes: bool = False) -> float:
        """Return the threshold for a step whose nights are `median` floors away."""
        config = self.config
        extra = config.extra_for_few_noise_points * self._log_shortfall(self.num_noise)
        extra += config.extra_for_young_level * self._log_shortfall(self.num_level)
        extra -= config.discount_for_far * math.log(max(1.0, median))
        required = config.required_evidence + max(0.0, extra)
        if has_modes:
            required += config.extra_for_modes
        return self.factor * required

    def is_exceeded(self, evidence: Evidence, *, share: float = 1.0) -> bool:
        """Return whether `evidence` exceeds `share` of the threshold."""
        # The modes of the noise take longer to compute, so they come last.
        if evidence.step <= share * self.required(median=evidence.median):
            return False
        required = self.required(median=evidence.median, has_modes=evidence.has_modes)
        return evidence.step > share * required

    def is_step(self, evidence: Evidence) -> bool:
        """Return whether `evidence` exceeds the threshold and all alternatives."""
        if not self.is_exceeded(evidence):
            return False
        required = self.required(median=evidence.median, has_modes=evidence.has_modes)
        return evidence.step > self.combined(evidence.alternatives, required=required)

    def combined(self, alternatives: AlternativeHypotheses, *, required: float) -> float:
        """Return the threshold over `alternatives`, `required` without any."""
        config = self.config
        return _log_add(
            (
                required,
                alternatives.small + config.lead_over_small_step,
                alternatives.blip + config.lead_over_blip,
                alternatives.mode + config.lead_over_mode,
            )
        )

    def _log_shortfall(self, num_points: int) -> float:
        """Return the logarithm of the ratio of enough points to `num_points`, at least 0."""
        return math.log(max(1.0, self.config.few_points / num_points))


@dataclass(frozen=True, slots=True)
class _ExcursionNights:
    """The distances of an excursion, their median, the steps to try, and each night's limit."""

    distances: np.ndarray
    median: float
    sizes: tuple[float, ...]
    limits: np.ndarray
    # The median is the first of `sizes`.
    has_median: bool


class _DensityScores:
    """The log densities of an excursion's nights so far, by one density."""

    def __init__(self, density: Density) -> None:
        self.density = density
        # Steps, small ones, and last no change, which all others are compared with.
        self.shifts = _hypothesis_shifts(density.config)
        # One row a hypothesis: another night changes no earlier column.
        self.logs = np.empty((self.shifts.size, 0))

    def weigh(self, nights: _ExcursionNights) -> _Weights:
        """Return the weights of `nights`, which begin with those of the call before."""
        num_known, num_shifts = self.logs.shape[1], self.shifts.size
        # The last known night is included, since the first new one follows it.
        new = nights.distances[max(0, num_known - 1) :]
        runs = (new - self.shifts).ravel()
        starts = np.arange(num_shifts + nights.has_median) * new.size
        if nights.has_median:
            # One call: on so few numbers a call takes longer than the arithmetic.
            runs = np.concatenate([runs, nights.distances - nights.median])
        logs = self.density.log_runs(runs, starts=starts)
        new_logs = logs[: num_shifts * new.size].reshape(num_shifts, new.size)
        self.logs = np.concatenate([self.logs, new_logs[:, min(1, num_known) :]], axis=1)
        rows = self.logs[:-1]
        if nights.has_median:
            rows = np.concatenate([logs[None, num_shifts * new.size :], rows])
        floor = self.density.config.min_night_evidence
        ratios = _clipped(rows - self.logs[-1], least=floor, most=nights.limits)
        return _Weights(float(self.logs[-1].sum()), ratios)


@dataclass(frozen=True, slots=True)
class _Weights:
    """One density's log likelihood of no change, and the log ratios relative to it.

    `ratios` has one row a hypothesis and one column a night.
    """

    log_none: float
    ratios: np.ndarray


class Evidence:
    """The log likelihood ratios of an excursion over no change.

    `step` is the ratio of a step, which most likely began `offset` nights after the first one;
    `median` is the distance of all nights, in floors. The alternatives take longer, and are
    computed for few nights.
    """

    def __init__(
        self,
        scales: Scales,
        nights: _ExcursionNights,
        *,
        weights: Sequence[_Weights],
        log_chances: Sequence[float],
        min_nights: int,
    ) -> None:
        self._scales = scales
        self.median = nights.median
        self._sizes = nights.sizes
        self._min_nights = min_nights
        # The probability of each density for these nights, if there is no change.
        logs = [chance + each.log_none for chance, each in zip(log_chances, weights, strict=True)]
        total = _log_add(logs)
        self._log_chances = np.array([log - total for log in logs])[:, None, None]
        self._ratios = np.array([each.ratios for each in weights])
        num_first = nights.distances.size - min_nights + 1
        # Each column is the sum from that night on.
        self._sums = self._ratios[:, :, ::-1].cumsum(axis=2)[:, :, ::-1][:, :, :num_first]
        num_sizes = len(self._sizes)
        step_logs = self._log_chances + self._sums[:, :num_sizes]
        most = float(step_logs.max())
        likelihoods = np.exp(step_logs - most).sum(axis=0)
        self.step = most + math.log(float(likelihoods.sum()) / num_sizes)
        self.offset = int(likelihoods.argmax()) % num_first

    @property
    def has_modes(self) -> bool:
        """Return whether the points describe the noise better than a single peak does."""
        return self._scales.odds < 0.0

    @cached_property
    def alternatives(self) -> AlternativeHypotheses:
        """The alternatives to a step."""
        return AlternativeHypotheses(small=self._small(), blip=self._blip(), mode=self._mode())

    def _small(self) -> float:
        sums = self._sums[:, len(self._sizes) :]
        return _log_sum(self._log_chances + sums, len(self._scales.config.small_step_sizes))

    def _blip(self) -> float:
        """Return the ratio of one night, or two in a row, as far away as a step."""
        ratios = self._ratios[:, : len(self._sizes)]
        nights = np.concatenate([ratios, ratios[:, :, 1:] + ratios[:, :, :-1]], axis=2)
        return _log_sum(self._log_chances + nights, len(self._sizes))

    def _mode(self) -> float:
        num_sizes = len(self._sizes)
        earlier = self._scales.earlier_ratios(self._sizes)
        logs = [
            chance
            + new_mode_log_ratio(
                ratios[:num_sizes],
                earlier=earlier,
                min_nights=self._min_nights,
                config=self._scales.config,
            )
            for chance, ratios in zip(self._log_chances.ravel().tolist(), self._ratios, strict=True)
        ]
        return _log_add(logs)


class Scales:
    """The densities that weigh the nights of one excursion, more of them each time.

    `noise` are the distances of the nights before it, in order of time; `level_error` is the
    variance of the level that they are distances from, in variances of the noise.
    """

    def __init__(
        self, noise: np.ndarray, *, level_error: float, config: DetectorConfig = DEFAULT_CONFIG
    ) -> None:
        self.noise = noise
        self.level_error = level_error
        self.config = config
        self.sd = robust_sd(noise)
        # On the opposite side of the nights: a second mode on theirs makes noise no wider.
        below = -float(np.sort(noise)[int(config.share_below * noise.size)])
        self.width_below = max(config.min_bandwidth, below)
        self.kernel = KernelDensity(noise, sd=self.sd, level_error=level_error, config=config)

    @cached_property
    def student(self) -> StudentDensity:
        """The noise as if it had one peak."""
        return StudentDensity(
            self.noise, sd=self.sd, level_error=self.level_error, config=self.config
        )

    @cached_property
    def odds(self) -> float:
        """The log odds of the Student density over the kernel density, for the noise."""
        return self.student.log_likelihood() - self.kernel.log_likelihood()

    @cached_property
    def chain(self) -> TwoStateMarkov | None:
        """Return the noise as two modes; None if it has one peak, or too few points."""
        if self.odds >= 0.0:
            return None
        return find_two_modes(self.noise, sd=self.sd, config=self.config)

    @cached_property
    def _student_scores(self) -> _DensityScores:
        return _DensityScores(self.student)

    @cached_property
    def _other_scores(self) -> tuple[_DensityScores, ...]:
        others = (self.kernel,) if self.chain is None else (self.kernel, self.chain)
        return tuple(_DensityScores(density) for density in others)

    def weigh(self, distances: np.ndarray, *, min_nights: int) -> Evidence:
        """Return the evidence that the last nights, at least `min_nights`, are on a higher level.

        `distances` are upwards and begin with those of the previous call. Only the Student density
        counts if its evidence is too small for any step.
        """
        nights = self._nights(distances)
        weights = [self._student_scores.weigh(nights)]
        evidence = Evidence(self, nights, weights=weights, log_chances=[0.0], min_nights=min_nights)
        if evidence.step <= self.config.screening_evidence:
            return evidence
        weights += [scores.weigh(nights) for scores in self._other_scores]
        chances = self._log_chances(nights.median)
        return Evidence(self, nights, weights=weights, log_chances=chances, min_nights=min_nights)

    def earlier_ratios(self, sizes: Sequence[float]) -> np.ndarray:
        """Return the log ratio of each night of the noise for steps of `sizes`, one a row."""
        noise, config = self.noise, self.config
        away = noise - np.array(sizes)[:, None]
        logs = self.student.log_density(np.concatenate([away, noise[None]]))
        return _clipped(
            logs[:-1] - logs[-1], least=config.min_night_evidence, most=config.max_night_evidence
        )

    def _nights(self, distances: np.ndarray) -> _ExcursionNights:
        config = self.config
        median = sorted_median(sorted(distances.tolist()))
        far = config.far_weight * np.log(np.maximum(1.0, distances))
        rank = math.log(self.noise.size + 1) + config.rank_surprise
        limits = np.minimum(config.max_night_evidence, rank + far)
        sizes = config.step_sizes
        has_median = median > sizes[0]
        if has_median:
            sizes = (median, *sizes)
        return _ExcursionNights(distances, median, sizes, limits, has_median)

    def _log_chances(self, median: float) -> list[float]:
        """Return the log probability of each density for the noise, the Student density first."""
        is_far = median > self.config.high_contrast * self.width_below
        return self._chances_far if is_far else self._chances

    @cached_property
    def _chances(self) -> list[float]:
        return self._chances_within(self.config.max_log_odds)

    @cached_property
    def _chances_far(self) -> list[float]:
        return self._chances_within(self.config.max_log_odds_far)

    def _chances_within(self, max_odds: float) -> list[float]:
        odds = [min(max_odds, self.odds + self.config.student_prior_log_odds), 0.0]
        if self.chain is not None:
            over_student = self.chain.log_likelihood() - self.student.log_likelihood()
            odds.append(min(self.config.max_log_odds, over_student + self.odds))
        total = _log_add(odds)
        return [each - total for each in odds]


@lru_cache(maxsize=8)
def _hypothesis_shifts(config: DetectorConfig) -> np.ndarray:
    """Return the distance of each hypothesis, one a row: steps, small ones, and no change."""
    return np.array([[*config.step_sizes, *config.small_step_sizes, 0.0]]).T


@lru_cache(maxsize=8)
def _mode_shares(config: DetectorConfig) -> tuple[np.ndarray, np.ndarray]:
    """Return the shares of nights that a new mode may have, and their log probabilities."""
    shares = (np.arange(config.num_mode_shares) + 0.5) / config.num_mode_shares
    return shares, np.log((1 - shares) ** 2 / ((1 - shares) ** 2).sum())


def new_mode_log_ratio(
    ratios: np.ndarray,
    *,
    earlier: np.ndarray,
    min_nights: int,
    config: DetectorConfig = DEFAULT_CONFIG,
) -> float:
    """Return the log likelihood ratio over no change of a new mode.

    `ratios` are those of an excursion's nights for a step, one row a size, all equally likely. The
    last `min_nights` belong to the mode. `earlier` are those of the nights before, of the same
    sizes. All are in order of time.
    """
    shares, log_chances = _mode_shares(config)
    # The last night first.
    nights = np.concatenate([earlier, ratios], axis=1)[:, ::-1]
    sums = np.log1p(shares[:, None, None] * np.expm1(nights)).cumsum(axis=2)
    logs = log_chances[:, None, None] + sums[:, :, min_nights - 1 :]
    most = float(logs.max())
    return most + float(np.log(np.exp(logs - most).sum() / ratios.shape[0]))


def _log_sum(logs: np.ndarray, num_equal: int) -> float:
    """Return the log of a sum of likelihoods over `num_equal` equally likely ones."""
    most = float(logs.max())
    return most + math.log(float(np.exp(logs - most).sum()) / num_equal)


def _log_add(logs: Sequence[float]) -> float:
    """Return the log of the sum of a few numbers, given their logs."""
    most = max(logs)
    return most + math.log(sum(math.exp(log - most) for log in logs))


def _clipped(ratios: np.ndarray, *, least: float, most: np.ndarray | float) -> np.ndarray:
    return np.asarray(np.minimum(np.maximum(ratios, least), most))
