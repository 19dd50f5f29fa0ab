"""Define the settings of the detector: every number that decides something, with its reason.

The evidence thresholds, leads and extras balance delay, false alarms and new modes. They were
chosen on labelled histories and checked on others (docs/explanation/detection-measurements.md);
`benchmarks/detector_fit` shows what each field contributes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np


# Configs compare by identity, so that values derived from one are cheap to cache.
@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class DetectorConfig:
    """The settings of the detector, in nights, in floors, or in natural logarithms of odds."""

    # Shared by all rules.

    # Nights before a change whose median an alert shows as its baseline: two weeks.
    baseline_points: int = 14
    # Nights whose median is the baseline. More would lag behind a drift, fewer err more.
    level_points: int = 42
    # Nights that a baseline needs: fewer give no usable median or noise.
    min_baseline_points: int = 6
    # Nights that a step or a return needs. Blips of one or two nights are common on shared machines
    # and gone when inspected.
    sustained_points: int = 3
    # A night is back if it is within the floor of a baseline and nearer to it than this share of
    # the change.
    recovery_share: float = 0.5
    # Comparisons of two sides trigger at this share of the floor. The floor itself would miss half
    # of all changes of just 5 %.
    trigger_share: float = 0.7
    # Half of the width of a noise band, in robust sd: one night in three hundred lies outside.
    noise_band_sds: float = 3.0

    # Sequential test of an excursion.

    # Distances that describe the noise at least. A step of 30 % after a week shows in 99 % of
    # histories of 12 nights, with 8 points in 2 %. False alarms stay below one in a thousand
    # histories.
    min_noise_points: int = 7
    # First nights whose median is the baseline of a metric that may be 0.
    first_level_points: int = 8
    # Nights that a baseline needs after a step, when the noise is known already. With more, the
    # next step would be part of the young baseline.
    min_points_after_step: int = 3
    # Distances that describe the noise: older ones do not describe the current noise.
    noise_points: int = 60
    # A night adds its distance beyond this many floors to the sum: half of the floor is no sign of
    # a step.
    allowance: float = 0.5
    # A night changes the sum by this many floors at most, so that one outlier opens no long
    # excursion.
    max_increment: float = 4.0
    # A night is tested above this sum. A step of the floor reaches it in two nights, noise seldom
    # does.
    min_excursion_sum: float = 1.0
    # An excursion of more nights without a step is a change too small to report.
    max_excursion_points: int = 20
    # This share of the required evidence must remain from the night that fits best.
    remaining_evidence_share: float = 0.9
    # A level that lasts for two weeks at most and goes back is part of the series' behaviour.
    return_points: int = 14
    # A level is back if it is nearer to the older one than this share of the change.
    return_share: float = 0.25
    # A series that went back once may do so again: its next step needs this much more, as a share.
    extra_after_return: float = 1.0
    # The change may lie this many nights before its excursion.
    look_back_points: int = 20

    # Evidence: hypotheses, and the contribution of a single night.

    # Step sizes that are tested, in floors, in addition to the median distance. Noise of half a
    # floor does not separate neighbours.
    step_sizes: tuple[float, ...] = (1.0, 1.2, 1.5, 1.9)
    # Changes below the floor that are no step, in floors.
    small_step_sizes: tuple[float, ...] = (0.25, 0.5, -0.3)
    # Evidence of a night at most: the distance of one night must not decide, and two outliers in a
    # row are a blip.
    max_night_evidence: float = 5.0
    # Evidence of a night at least: a night on the old level must not outweigh several on the new
    # one.
    min_night_evidence: float = -4.0
    # Any night may count this much beyond log(n + 1), the surprise of its rank among n others.
    rank_surprise: float = 0.9
    # A night at x floors may count this much more, times log(x).
    far_weight: float = 2.0
    # The width of the noise leaves out this share of it, as one sd of normal values does on one
    # side.
    share_below: float = 0.16
    # Shares of slow nights that a new mode may have: a grid of this many.
    num_mode_shares: int = 12

    # Evidence: weights of the densities.

    # Log odds of noise with one peak before any point: three of four series have it.
    student_prior_log_odds: float = 1.0
    # The most that these odds, or those of the Markov chain, may become.
    max_log_odds: float = 6.0
    # The same for nights that stand out so far that only the points can decide: the tails of the
    # Student density are a guess.
    max_log_odds_far: float = 2.0
    # Nights stand out if their median is this many widths of the noise away.
    high_contrast: float = 5.0

    # Evidence: thresholds.

    # A step must be likelier than no change by this log ratio.
    required_evidence: float = 6.0
    # With less evidence by the Student density the other densities are not computed: no step needs
    # less.
    screening_evidence: float = 5.0
    # A step must be likelier than a change below the floor by this log ratio.
    lead_over_small_step: float = 0.2
    # A step must be likelier than a blip by this log ratio.
    lead_over_blip: float = 2.5
    # A step must be likelier than a new mode by this log ratio. Three nights that are as clear as
    # possible lead by ln(10) = 2.3.
    lead_over_mode: float = 1.1
    # Extra evidence in noise with modes, because a mode may last for days.
    extra_for_modes: float = 3.0
    # Fewer points of the noise or the baseline than these require more evidence.
    few_points: int = 34
    # Extra evidence times the logarithm of `few_points` over the points of the noise.
    extra_for_few_noise_points: float = 7.0
    # The same for the points of the baseline: a mode may not have appeared yet.
    extra_for_young_level: float = 2.0
    # Nights at x floors reduce both extras by this, times log(x): unseen noise does not reach as
    # far. Three nights that are as clear as possible are then a step in a young series, too.
    discount_for_far: float = 6.0

    # Kernel density, and common settings of all densities.

    # The share of Silverman's bandwidth, 0.9 / sqrt(2).
    kernel_bandwidth: float = 0.9 / math.sqrt(2)
    # The least width of a density, in floors: finer noise changes no decision about the floor.
    min_bandwidth: float = 0.1
    # The assumed noise of an unknown series, in floors: 2 % if the floor is 5 %.
    prior_sd: float = 0.4
    # The weight of that prior, in nights.
    prior_nights: float = 6.0
    # Share of outliers: one night in thirty.
    outlier_share: float = 0.03
    # Outliers lie anywhere within this many floors.
    outlier_range: float = 20.0
    # The weight of a night whose predecessor was at another distance.
    unlike_weight: float = 0.05
    # The weight of remaining where the night before was.
    stay_weight: float = 1.0

    # Student density.

    # Widths that are tried, in robust sd: 8 points may err by as much, 60 separate the steps.
    student_widths: tuple[float, ...] = tuple(np.exp(0.15 * np.arange(-4, 5)).tolist())
    # Positions of the peak, in standard errors of the baseline: three of variance 1.
    student_peaks: tuple[float, ...] = (-math.sqrt(1.5), 0.0, math.sqrt(1.5))

    # Two-state Markov chain.

    # Points of a mode at least: fewer are outliers.
    min_mode_points: int = 3
    # Share of the points that a mode has at least: fewer are outliers.
    min_mode_share: float = 0.08
    # Points farther from the median than this many sd plus `mode_range_floors` are outliers.
    mode_range_sds: float = 3.0
    # The floors that are added to `mode_range_sds`.
    mode_range_floors: float = 0.3
    # Transitions by chance that are assumed before any night.
    prior_transitions: float = 2.0
    # Rounds of expectation-maximisation: modes that are separate at first hardly move after these.
    num_em_rounds: int = 4

    # Drifts.

    # Nights of a block; a window has five. 1 % a week is 10 % in 70 nights, or in ten points of a
    # weekly series.
    drift_block_points: tuple[int, ...] = (2, 4, 8, 16)
    # Windows of blocks up to this size need more floors: half of a monthly season rises through 10
    # to 20 points as a drift does.
    drift_short_block_points: int = 4
    # Floors that such a short window needs.
    drift_short_floors: float = 1.7
    # Standard errors of the rise. Four windows are tested every night for years: 2 standard errors
    # would alert every month.
    drift_min_errors: float = 4.0
    # Share of the mean rise that the last one needs: with less the drift is over.
    drift_min_last_share: float = 0.25
    # Log ratio for a line over a step: e^3 is twenty to one.
    drift_min_log_ratio: float = 3.0
    # The same across known steps: a step that the detector reported is likelier than one that it
    # did not.
    drift_min_log_ratio_across_steps: float = 5.0

    # Changes of the noise.

    # Nights whose median the distances are from: few enough to follow a slow drift.
    noise_level_points: int = 15
    # Nights of the new noise. Twice the noise shows in 30 points if at all, more than that in 21.
    noise_after_points: tuple[int, ...] = (21, 30)
    # Nights before a change that describe the old noise: older ones do not describe the current
    # noise.
    noise_before_points: int = 180
    # Nights before a change at least: fewer do not describe the noise.
    noise_min_before_points: int = 30
    # The noise does not change nearer to either end than this.
    noise_min_edge_points: int = 7
    # Standard errors of the change. Two windows are tested every night for years: one quiet year in
    # thirty has a false change.
    noise_min_errors: float = 3.1
    # The same for distances from night to night: noise that comes in bursts, as modes do, stays
    # below.
    noise_min_errors_between: float = 2.4
    # A smaller factor calls for no action, and delays each step by one night at most.
    noise_min_factor: float = 1.5
    # Farther outliers count as this many mean roots: 6 sd of normal values.
    noise_max_root: float = 3.0
    # Correlations of nights up to this lag count: modes last for days, at larger lags a hundred
    # points show chance.
    noise_max_lag: int = 10

    # False discoveries.

    # Without a change, one run of a hundred has an alert, for any number of series: fewer than four
    # a year of nights. After real changes, at most one alert in a hundred is false.
    false_discovery_rate: float = 0.01
    # Points since a step at which it is tested; later ones change nothing.
    look_points: tuple[int, ...] = (3, 4, 6, 9, 14, 21)
    # Degrees of freedom of a point: a robust sd of normal values errs as an ordinary one of half as
    # many does.
    degrees_per_point: float = 0.5
    # Degrees of freedom of the tails: benchmarks on shared machines have outliers that normal tails
    # exclude.
    tail_degrees: float = 4.0
    # The least noise, as a share of the level: no measurement resolves less. A level that repeats
    # exactly has sd 0.
    min_relative_sd: float = 1e-3


DEFAULT_CONFIG = DetectorConfig()
