from __future__ import annotations

import re
from pathlib import Path

import pytest

from compile_hud.runner.analysis.alerts import event_grouping as events
from compile_hud.runner.analysis.alerts import lifecycle
from compile_hud.runner.analysis.comparison import cpu_clocks as clocks
from compile_hud.runner.analysis.comparison import measurements as comparison
from compile_hud.runner.analysis.comparison import paired
from compile_hud.runner.analysis.confirmation import suspects
from compile_hud.runner.analysis.confirmation import verdict as finding
from compile_hud.runner.analysis.detection import noise_densities as densities
from compile_hud.runner.analysis.detection.config import DEFAULT_CONFIG
from compile_hud.runner.analysis.judging import attribution as cause
from compile_hud.runner.analysis.judging import machine_state as machine
from compile_hud.runner.analysis.outcomes import cadence, outcomes
from compile_hud.runner.analysis.stats import estimates as stats
from compile_hud.runner.analysis.stats import launch_noise as noise
from compile_hud.runner.detection import confirm
from compile_hud.runner.execution.paired_launches import MIN_PAIRS

TEXT = re.sub(
    r"\s+", " ", (Path(__file__).parents[2] / "docs" / "explanation" / "judging.md").read_text()
)


@pytest.mark.parametrize(
    ("phrase", "value"),
    [
        ("last {} points (`baseline_points`)", DEFAULT_CONFIG.baseline_points),
        ("{} (`min_baseline_points`)", DEFAULT_CONFIG.min_baseline_points),
        ("{} after a step (`min_points_after_step`)", DEFAULT_CONFIG.min_points_after_step),
        ("{} nights or more (`sustained_points`)", DEFAULT_CONFIG.sustained_points),
        ("{:g} of the floor (`trigger_share`)", DEFAULT_CONFIG.trigger_share),
        ("times {} (`MAD_TO_SD`)", stats.MAD_TO_SD),
        ("divided by {:.4f} (`TAILS_TO_SD`)", 1 / stats.TAILS_TO_SD),
        (
            "with fewer than {} good points (`baseline_points`) in between",
            DEFAULT_CONFIG.baseline_points,
        ),
        ("last {} points (`level_points`)", DEFAULT_CONFIG.level_points),
        ("the last {} in all (`noise_points`)", DEFAULT_CONFIG.noise_points),
        ("{} (`min_noise_points`) must be there", DEFAULT_CONFIG.min_noise_points),
        (
            "{:g} floors and at most by {:g}",
            (DEFAULT_CONFIG.allowance, DEFAULT_CONFIG.max_increment),
        ),
        ("lasts for {} nights (`max_excursion_points`)", DEFAULT_CONFIG.max_excursion_points),
        (
            "{:g} of the needed (`remaining_evidence_share`)",
            DEFAULT_CONFIG.remaining_evidence_share,
        ),
        ("a share of {:g} (`share_below`)", DEFAULT_CONFIG.share_below),
        ("exceeds {:g} times (`high_contrast`)", DEFAULT_CONFIG.high_contrast),
        ("the sum of {:g} (`required_evidence`)", DEFAULT_CONFIG.required_evidence),
        ("{} nights (`look_back_points`) before", DEFAULT_CONFIG.look_back_points),
        ("{:g} (`screening_evidence`) or less", DEFAULT_CONFIG.screening_evidence),
        ("less {:g} ln(x) (`discount_for_far`)", DEFAULT_CONFIG.discount_for_far),
        ("more by {:g} (`lead_over_small_step`)", DEFAULT_CONFIG.lead_over_small_step),
        ("more by {:g} (`lead_over_blip`)", DEFAULT_CONFIG.lead_over_blip),
        ("more by {:g} (`lead_over_mode`)", DEFAULT_CONFIG.lead_over_mode),
        ("{:g} (`extra_for_modes`)", DEFAULT_CONFIG.extra_for_modes),
        ("{:g} (`student_prior_log_odds`)", DEFAULT_CONFIG.student_prior_log_odds),
        (
            "at most {:g} (`max_log_odds`), and {:g} (`max_log_odds_far`)",
            (DEFAULT_CONFIG.max_log_odds, DEFAULT_CONFIG.max_log_odds_far),
        ),
        ("{:g} (`STUDENT_WIDTH`)", densities.STUDENT_WIDTH),
        ("{} (`min_mode_points`)", DEFAULT_CONFIG.min_mode_points),
        ("{:g} (`min_mode_share`)", DEFAULT_CONFIG.min_mode_share),
        (
            "{:g} s (`mode_range_sds`) and {:g} floors",
            (DEFAULT_CONFIG.mode_range_sds, DEFAULT_CONFIG.mode_range_floors),
        ),
        ("{} rounds (`num_em_rounds`)", DEFAULT_CONFIG.num_em_rounds),
        ("{:g} nights (`prior_transitions`)", DEFAULT_CONFIG.prior_transitions),
        ("each of {} (`NUM_PARAMETERS`)", densities.NUM_PARAMETERS),
        ("with fewer than {} points (`few_points`)", DEFAULT_CONFIG.few_points),
        (
            "{:g} ln({} / n) (`extra_for_few_noise_points`)",
            (DEFAULT_CONFIG.extra_for_few_noise_points, DEFAULT_CONFIG.few_points),
        ),
        (
            "{:g} ln({} / m) (`extra_for_young_level`)",
            (DEFAULT_CONFIG.extra_for_young_level, DEFAULT_CONFIG.few_points),
        ),
        ("by {:g} (`extra_after_return`)", DEFAULT_CONFIG.extra_after_return),
        ("within {} nights (`return_points`)", DEFAULT_CONFIG.return_points),
        ("within {:g} (`return_share`)", DEFAULT_CONFIG.return_share),
        ("nearer to it than {:g} (`recovery_share`)", DEFAULT_CONFIG.recovery_share),
        ("{:g} (`max_night_evidence`)", DEFAULT_CONFIG.max_night_evidence),
        ("{:g} (`min_night_evidence`)", DEFAULT_CONFIG.min_night_evidence),
        ("ln(n + 1) + {:g} (`rank_surprise`)", DEFAULT_CONFIG.rank_surprise),
        ("{:g} ln(x) (`far_weight`)", DEFAULT_CONFIG.far_weight),
        ("{:g} (`min_bandwidth`)", DEFAULT_CONFIG.min_bandwidth),
        ("scale {:g} (`prior_sd`)", DEFAULT_CONFIG.prior_sd),
        ("weighs {:g} / (n + {:g})", (DEFAULT_CONFIG.prior_nights, DEFAULT_CONFIG.prior_nights)),
        ("{:g} (`unlike_weight`)", DEFAULT_CONFIG.unlike_weight),
        ("{:g} (`stay_weight`)", DEFAULT_CONFIG.stay_weight),
        ("{:g} (`outlier_share`)", DEFAULT_CONFIG.outlier_share),
        ("{:g}, {:g}, {:g} and {:g} floors", DEFAULT_CONFIG.step_sizes),
        ("{:g}, {:g} and {:g} floors", DEFAULT_CONFIG.small_step_sizes),
        ("by {:g} (`drift_min_last_share`) of the mean", DEFAULT_CONFIG.drift_min_last_share),
        ("{:g} floors (`drift_short_floors`)", DEFAULT_CONFIG.drift_short_floors),
        ("{:g} standard errors (`drift_min_errors`)", DEFAULT_CONFIG.drift_min_errors),
        ("is {:g} (`drift_min_log_ratio`)", DEFAULT_CONFIG.drift_min_log_ratio),
        (
            "median of the {} points up to it (`noise_level_points`)",
            DEFAULT_CONFIG.noise_level_points,
        ),
        ("the root of {:g} (`noise_min_factor`)", DEFAULT_CONFIG.noise_min_factor),
        ("lies {:g} standard errors (`noise_min_errors`) from it", DEFAULT_CONFIG.noise_min_errors),
        (
            "lie {:g} (`noise_min_errors_between`) standard errors from",
            DEFAULT_CONFIG.noise_min_errors_between,
        ),
        ("distribution with {:g} (`tail_degrees`) degrees of freedom", DEFAULT_CONFIG.tail_degrees),
        ("p(k) <= {:g} k / m (`false_discovery_rate`)", DEFAULT_CONFIG.false_discovery_rate),
        ("of its last {} (`NUM_GAPS`) gaps", cadence.NUM_GAPS),
        ("fewer than {} (`MIN_GAPS_WITH_HOLIDAY`)", cadence.MIN_GAPS_WITH_HOLIDAY),
        ("{:g} (`LATE_AFTER_CADENCES`) times that", cadence.LATE_AFTER_CADENCES),
        ("within {} run (`NUM_RUNS_APART`)", events.NUM_RUNS_APART),
        ("in {} models (`MIN_MODELS`)", events.MIN_MODELS),
        ("{} times (`RUNS_WITHOUT`)", outcomes.RUNS_WITHOUT),
        ("worth {:g} launches (`PRIOR_DEGREES`)", noise.PRIOR_DEGREES),
        ("worth {:g} launches (`PAIR_PRIOR_DEGREES`)", noise.PAIR_PRIOR_DEGREES),
        ("within {:g} (`CALM_WIDTHS`) widths", paired.CALM_WIDTHS),
        ("prior worth {:g} (`PRIOR_RUNS`)", machine.PRIOR_RUNS),
        ("by the {} runs (`NUM_RUNS_AT_ONSET`)", cause.NUM_RUNS_AT_ONSET),
        ("{:g} times (`NOISE_GROWTH`) as wide", cause.NOISE_GROWTH),
        ("tried {} times (`MAX_TRIES`)", suspects.MAX_TRIES),
        ("({} where there is no time for more, `MIN_PAIRS`)", MIN_PAIRS),
        ("sessions of their own, {} a side (`MIN_COLD_PAIRS`)", confirm.MIN_COLD_PAIRS),
    ],
)
def test_numbers_in_the_prose_are_those_in_the_code(
    phrase: str, value: float | tuple[float, ...]
) -> None:
    assert phrase.format(*(value if isinstance(value, tuple) else (value,))) in TEXT


def test_looks_in_the_prose_are_those_in_the_code() -> None:
    *first, last = DEFAULT_CONFIG.look_points
    assert f"{', '.join(map(str, first))} and {last} points (`look_points`)" in TEXT


def test_shares_in_the_prose_are_those_in_the_code() -> None:
    assert f"{100 * comparison.FAMILY_ERROR:g} % (`FAMILY_ERROR`)" in TEXT
    assert f"a move of {100 * machine.STEADY_WITHIN:g} % (`STEADY_WITHIN`)" in TEXT
    assert outcomes.MIN_COMPANIONS == 0.5
    assert lifecycle.SAME_LEVEL_SHARE == 0.5
    assert "nearer than half (`SAME_LEVEL_SHARE`)" in TEXT
    assert "at least half (`MIN_COMPANIONS`)" in TEXT
    assert finding.REFUTING_SHARE == 0.5
    assert "below half (`REFUTING_SHARE`) of it" in TEXT


def test_priors_in_the_prose_are_those_in_the_code() -> None:
    def percent(metric: str, device: str) -> str:
        return f"{100 * noise.prior_sd(metric, device=device):g} %"

    assert f"{percent('speedup', 'cpu')} for a speedup" in TEXT
    assert f"{percent('latency_cpu_s', 'cpu')} for CPU time" in TEXT
    assert f"{percent('latency_s', 'cpu')} for a CPU's wall clock" in TEXT
    assert f"{percent('latency_s', 'cuda')} for latency and" in TEXT
    assert f"{percent('speedup', 'cuda')} for a speedup there" in TEXT
    calm, wall = (noise.calm_sd(name, device="cpu") for name in ("latency_cpu_s", "latency_s"))
    assert f"{100 * calm:g} % for CPU time, {100 * wall:g} % for a CPU's wall clock where" in TEXT
    assert f"{percent('compile_cold_s', 'cpu')} for compile times on a CPU" in TEXT
    assert f"{percent('compile_cold_s', 'cuda')} for compile times on a GPU" in TEXT
    busy = noise.prior_sd("compile_cold_s", device="cpu", is_quiet=False)
    assert f"({100 * busy:g} % on a busy one)" in TEXT
    assert f"{percent('compile_cold_cpu_s', 'cpu')} for the CPU time of a cold compile" in TEXT
    assert f"within {100 * (clocks.QUIET_RATIO - 1):.0f} % of all CPU time, `QUIET_RATIO`" in TEXT
