"""List the fields of the detector's config: the score that each moves, and its neutral value.

The neutral value is the one at which the field has no effect. A field without one is a choice of
scale: it can be moved but not dropped.
"""

from __future__ import annotations

from typing import Any

from benchmarks.detector_fit.scores import (
    Score,
    drift_costs,
    noise_costs,
    p_value_costs,
    step_costs,
)

UNLIMITED = 1e9
TINY = 1e-9

STEPS: dict[str, Any] = {
    "baseline_points": None,
    "level_points": None,
    "min_baseline_points": None,
    "sustained_points": 1,
    "recovery_share": 1.0,
    "min_noise_points": 0,
    "first_level_points": None,
    "min_points_after_step": None,
    "noise_points": 10_000,
    "allowance": 0.0,
    "max_increment": UNLIMITED,
    "min_excursion_sum": 0.0,
    "max_excursion_points": 10_000,
    "remaining_evidence_share": 0.0,
    "return_points": 0,
    "return_share": UNLIMITED,
    "extra_after_return": 0.0,
    "look_back_points": 0,
    "step_sizes": (1.0,),
    "small_step_sizes": (0.0,),
    "max_night_evidence": UNLIMITED,
    "min_night_evidence": -UNLIMITED,
    "rank_surprise": UNLIMITED,
    "far_weight": 0.0,
    "share_below": None,
    "num_mode_shares": 1,
    "student_prior_log_odds": 0.0,
    "max_log_odds": UNLIMITED,
    "max_log_odds_far": UNLIMITED,
    "high_contrast": UNLIMITED,
    "required_evidence": 0.0,
    "screening_evidence": -UNLIMITED,
    "lead_over_small_step": -UNLIMITED,
    "lead_over_blip": -UNLIMITED,
    "lead_over_mode": -UNLIMITED,
    "extra_for_modes": 0.0,
    "few_points": 1,
    "extra_for_few_noise_points": 0.0,
    "extra_for_young_level": 0.0,
    "discount_for_far": 0.0,
    "kernel_bandwidth": None,
    "min_bandwidth": TINY,
    "prior_sd": None,
    "prior_nights": TINY,
    "outlier_share": TINY,
    "outlier_range": None,
    "unlike_weight": 0.0,
    "stay_weight": 0.0,
    "student_widths": (1.0,),
    "student_peaks": (0.0,),
    "min_mode_points": 1,
    "min_mode_share": 0.0,
    "mode_range_sds": UNLIMITED,
    "mode_range_floors": 0.0,
    "prior_transitions": TINY,
    "num_em_rounds": 1,
}
DRIFTS: dict[str, Any] = {
    "drift_block_points": (16,),
    "drift_short_block_points": 0,
    "drift_short_floors": 1.0,
    "drift_min_errors": 0.0,
    "drift_min_last_share": -UNLIMITED,
    "drift_min_log_ratio": 0.0,
    "drift_min_log_ratio_across_steps": 0.0,
}
NOISE: dict[str, Any] = {
    "noise_level_points": None,
    "noise_after_points": (30,),
    "noise_before_points": 10_000,
    "noise_min_before_points": None,
    "noise_min_edge_points": 1,
    "noise_min_errors": 0.0,
    "noise_min_errors_between": -UNLIMITED,
    "noise_min_factor": 1.0,
    "noise_max_root": UNLIMITED,
    "noise_max_lag": 0,
}
P_VALUES: dict[str, Any] = {
    "false_discovery_rate": 1.0,
    "look_points": (21,),
    "degrees_per_point": UNLIMITED,
    "tail_degrees": UNLIMITED,
    "min_relative_sd": TINY,
}
# Comparisons of two sides and the drawn noise band use these; the detector does not.
OTHERS = ("trigger_share", "noise_band_sds")

# Without one of these the detector is worse on NUM_SHOWN histories of each kind. These histories do
# not show the contribution of the other fields.
NUM_SHOWN = 36
SHOWN = (
    "allowance",
    "max_excursion_points",
    "extra_after_return",
    "step_sizes",
    "small_step_sizes",
    "min_night_evidence",
    "far_weight",
    "drift_block_points",
    "drift_short_block_points",
    "drift_short_floors",
    "drift_min_log_ratio",
    "noise_min_errors",
    "noise_max_root",
    "false_discovery_rate",
    "required_evidence",
    "lead_over_small_step",
    "lead_over_blip",
    "lead_over_mode",
    "extra_for_modes",
    "few_points",
    "extra_for_few_noise_points",
    "extra_for_young_level",
    "discount_for_far",
    "student_peaks",
)

GROUPS: tuple[tuple[Score, dict[str, Any]], ...] = (
    (step_costs, STEPS),
    (drift_costs, DRIFTS),
    (noise_costs, NOISE),
    (p_value_costs, P_VALUES),
)
