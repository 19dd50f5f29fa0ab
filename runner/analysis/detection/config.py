"""Define the settings of the detector: every number that decides something, with its reason.

The evidence thresholds, leads and extras balance delay, false alarms and new modes. They were
chosen on labelled histories and checked on others (docs/explanation/judging.md);
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

    # Points before an index that a change there is compared with.
    baseline_points: int = 14
    # Points whose median is the level: more would lag behind a drift, fewer err more.
    level_points: int = 42
    # Fewer points give no usable level or noise.
    min_baseline_points: int = 6
    # One-night and two-night blips are common on shared machines and gone when inspected.
    sustained_points: int = 3
    # A night is back if it is within the floor of a level and nearer to it than this share of the
    # change from it.
    recovery_share: float = 0.5
    # Comparisons of two sides trigger at this share of the floor. The floor itself would miss half
    # of all changes of just 5 %.
    trigger_share: float = 0.7
    # Half of the width of a noise band, in robust sd: one night in three hundred lies outside.
    noise_band_sds: float = 3.0

    # Sequential test: when nights are weighed, and where a level begins.

    # Fewer points do not describe the noise. A step of 30 % after a week shows in 99 % of histories
    # of 12 nights, with 8 points in 2 %. False alarms stay below one in a thousand histories.
    min_noise_points: int = 7
    # The level of a metric that may be 0 is the median of so many first points.
    first_level_points: int = 8
    # After a step the noise is known already, and so few points are a level that the next step may
    # leave. With more, that step would be part of the young level.
    min_points_after_step: int = 3
    # Older distances do not describe the current noise.
    noise_points: int = 60
    # A night adds its distance beyond half the floor to the sum, ...
    allowance: float = 0.5
    # ... up to 4 floors, so that one outlier opens no long excursion.
    max_increment: float = 4.0
    # A step of the floor reaches this sum in two nights, noise seldom does.
    min_excursion_sum: float = 1.0
    # An excursion that lasts longer without a step is a change too small to report.
    max_excursion_points: int = 20
    # This share of the required evidence must remain at the index that fits best.
    remaining_evidence_share: float = 0.9
    # A level that lasts for two weeks at most and goes back is part of the series' behaviour.
    return_points: int = 14
    # A level is back if it is nearer to the old one than this share of the change.
    return_share: float = 0.25
    # A series that went back once may do so again: its next step needs this much more, as a share.
    extra_after_return: float = 1.0
    # The change may lie this many nights before its excursion.
    look_back_points: int = 20

    # Evidence: hypotheses, and the contribution of a single night.

    # These step sizes are tested in addition to the median of the distances. They range from one
    # floor to two, so close that noise of half a floor does not separate them.
    step_sizes: tuple[float, ...] = (1.0, 1.2, 1.5, 1.9)
    # Changes of up to half the floor are no step.
    small_step_sizes: tuple[float, ...] = (0.25, 0.5, -0.3)
    # The distance of a night must not decide by itself; two outliers in a row are a blip.
    max_night_evidence: float = 5.0
    # A night on the old level must not outweigh several on the new one.
    min_night_evidence: float = -4.0
    # Any night may count this much beyond log(n + 1), the surprise of its rank among n others.
    rank_surprise: float = 0.9
    # A night at x floors may count this much more, times log(x).
    far_weight: float = 2.0
    # This share of normal values lies more than one sd below.
    share_below: float = 0.16
    # Shares of the nights in which a new mode may be slow: a grid of this many.
    num_mode_shares: int = 12

    # Evidence: weights of the densities.

    # Three of four series have noise of one peak: their log odds before any point.
    student_prior_log_odds: float = 1.0
    # The most that these odds, or those of the Markov chain, may become.
    max_log_odds: float = 6.0
    # The tails of the Student density are a guess. It counts less for nights that stand out so far
    # that only the points can decide.
    max_log_odds_far: float = 2.0
    # Nights stand out if their median is this many widths of the noise away.
    high_contrast: float = 5.0

    # Evidence: thresholds.

    # A step must be likelier than no change by this log ratio, on any night.
    required_evidence: float = 6.0
    # With less evidence by the Student density the other densities are not computed: no step needs
    # less.
    screening_evidence: float = 5.0
    # A step must be likelier than each of its alternatives, which are rare themselves, by this.
    lead_over_small_step: float = 0.2
    lead_over_blip: float = 2.5
    # Three nights that are as clear as possible lead by ln(10) = 2.3 over a mode.
    lead_over_mode: float = 1.1
    # Noise that its points describe better than one peak has modes, and a mode may last for days.
    extra_for_modes: float = 3.0
    # Fewer points than these, of the noise or of the level, require more evidence.
    few_points: int = 34
    # Times the logarithm of the ratio of `few_points` to the points of the noise, ...
    extra_for_few_noise_points: float = 7.0
    # ... and to those of the level: a mode may not have appeared yet.
    extra_for_young_level: float = 2.0
    # Nights at x floors reduce both extras by this, times log(x): unseen noise does not reach as
    # far. Three nights that are as clear as possible are then a step in a young series, too.
    discount_for_far: float = 6.0

    # Kernel density, and common settings of all densities.

    # The width is 0.64 (0.9 / sqrt(2)) of Silverman's rule.
    kernel_bandwidth: float = 0.9 / math.sqrt(2)
    # A tenth of the floor: finer noise changes no decision about the floor.
    min_bandwidth: float = 0.1
    # An unknown series is assumed to have a noise of 2 % if the floor is 5 %, ...
    prior_sd: float = 0.4
    # ... with the weight of six nights.
    prior_nights: float = 6.0
    # One night in thirty is an outlier, ...
    outlier_share: float = 0.03
    # ... anywhere within 20 floors.
    outlier_range: float = 20.0
    # The weight of a night whose predecessor was at another distance.
    unlike_weight: float = 0.05
    # The weight of remaining where the night before was.
    stay_weight: float = 1.0

    # Student density.

    # Widths that are tried, in robust sd: 8 points may err by as much, 60 separate the steps.
    student_widths: tuple[float, ...] = tuple(np.exp(0.15 * np.arange(-4, 5)).tolist())
    # Positions of the peak, in standard errors of the level: three of variance 1.
    student_peaks: tuple[float, ...] = (-math.sqrt(1.5), 0.0, math.sqrt(1.5))

    # Two-state Markov chain.

    # Fewer points, or a smaller share of them, are outliers and no mode.
    min_mode_points: int = 3
    min_mode_share: float = 0.08
    # Points farther from the median than this many sd plus this many floors are outliers, too.
    mode_range_sds: float = 3.0
    mode_range_floors: float = 0.3
    # Transitions by chance that are assumed before any night.
    prior_transitions: float = 2.0
    # Modes that are separate at first hardly move after this many rounds.
    num_em_rounds: int = 4

    # Drifts.

    # 1 % a week is 10 % in 70 nights, or in ten points of a weekly series.
    drift_block_points: tuple[int, ...] = (2, 4, 8, 16)
    # Half of a monthly season rises through 10 to 20 points as a drift does: windows of blocks up
    # to this size need more floors.
    drift_short_block_points: int = 4
    drift_short_floors: float = 1.7
    # Four windows are tested every night for years: 2 standard errors would alert every month.
    drift_min_errors: float = 4.0
    # A smaller share of the mean rise from the last block but one to the last: the drift is over.
    drift_min_last_share: float = 0.25
    # e^3: twenty to one for a line rather than a step.
    drift_min_log_ratio: float = 3.0
    # e^5: a step that the detector reported is likelier than one that it did not.
    drift_min_log_ratio_across_steps: float = 5.0

    # Changes of the noise.

    # Points whose median the distances are from: few enough to follow a slow drift.
    noise_level_points: int = 15
    # Twice the noise shows in 30 points if at all, more than that in 21.
    noise_after_points: tuple[int, ...] = (21, 30)
    # Older points do not describe the current noise.
    noise_before_points: int = 180
    # Fewer points before a change do not describe the noise.
    noise_min_before_points: int = 30
    # The noise does not change nearer to either end than this.
    noise_min_edge_points: int = 7
    # Two windows are tested every night for years: one quiet year in thirty has a false change.
    noise_min_errors: float = 3.1
    # Noise that comes in bursts, as modes do, stays below this from point to point.
    noise_min_errors_between: float = 2.4
    # A smaller factor calls for no action, and delays each step by one night at most.
    noise_min_factor: float = 1.5
    # Times the mean root: 6 sd of normal values. Farther outliers count no more.
    noise_max_root: float = 3.0
    # Modes last for days; at larger lags, correlations of a hundred points are chance.
    noise_max_lag: int = 10

    # False discoveries.

    # Without a change, one run of a hundred has an alert, for any number of series: fewer than four
    # a year of nights. After real changes, at most one alert in a hundred is false.
    false_discovery_rate: float = 0.01
    # Points since a step at which it is tested; later ones change nothing.
    look_points: tuple[int, ...] = (3, 4, 6, 9, 14, 21)
    # A robust sd of normal values errs as an ordinary one of half as many does.
    degrees_per_point: float = 0.5
    # Benchmarks on shared machines have outliers that normal tails exclude.
    tail_degrees: float = 4.0
    # No measurement resolves a smaller share of a level. A level that repeats exactly has sd 0.
    min_relative_sd: float = 1e-3


DEFAULT_CONFIG = DetectorConfig()
