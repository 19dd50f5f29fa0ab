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
from compile_hud.runner.analysis.detection import constants as history
from compile_hud.runner.analysis.detection import drift, evidence, variance
from compile_hud.runner.analysis.detection import false_discovery as fdr
from compile_hud.runner.analysis.detection import noise_densities as chain
from compile_hud.runner.analysis.detection import noise_densities as densities
from compile_hud.runner.analysis.detection import sequential_test as watch
from compile_hud.runner.analysis.judging import attribution as cause
from compile_hud.runner.analysis.judging import machine_state as machine
from compile_hud.runner.analysis.outcomes import cadence, outcomes
from compile_hud.runner.analysis.stats import estimates as stats
from compile_hud.runner.analysis.stats import launch_noise as noise
from compile_hud.runner.detection import confirm
from compile_hud.runner.execution.paired_launches import MIN_PAIRS

TEXT = re.sub(r"\s+", " ", (Path(__file__).parents[2] / "docs" / "judging.md").read_text())


@pytest.mark.parametrize(
    ("phrase", "value"),
    [
        ("last {} points (`BASELINE_POINTS`)", history.BASELINE_POINTS),
        ("{} (`MIN_BASELINE_POINTS`)", history.MIN_BASELINE_POINTS),
        ("{} nights or more (`SUSTAINED_POINTS`)", history.SUSTAINED_POINTS),
        ("{:g} of the floor (`TRIGGER_OF_FLOOR`)", history.TRIGGER_OF_FLOOR),
        ("times {} (`MAD_TO_SD`)", stats.MAD_TO_SD),
        ("divided by {:.4f} (`TAILS_TO_SD`)", 1 / stats.TAILS_TO_SD),
        ("with fewer than {} good points (`BASELINE_POINTS`) in between", history.BASELINE_POINTS),
        ("last {} points (`LEVEL_POINTS`)", history.LEVEL_POINTS),
        ("the last {} in all (`NOISE_POINTS`)", watch.NOISE_POINTS),
        ("{} (`MIN_NOISE_POINTS`) must be there", watch.MIN_NOISE_POINTS),
        ("{:g} floors and at most by {:g}", (watch.ALLOWANCE, watch.MAX_INCREMENT)),
        ("lasts for {} nights (`MAX_EXCURSION`)", watch.MAX_EXCURSION),
        ("{:g} of the needed (`LEFT_EVIDENCE`)", watch.LEFT_EVIDENCE),
        ("a share of {:g} (`SHARE_BELOW`)", evidence.SHARE_BELOW),
        ("exceeds {:g} times (`HIGH_CONTRAST`)", evidence.HIGH_CONTRAST),
        ("the sum of {:g} (`NEEDED_EVIDENCE`)", evidence.NEEDED_EVIDENCE),
        ("{} nights (`LOOK_BACK`) before", watch.LOOK_BACK),
        ("{:g} (`NEEDED_OF_BELL`) or less", evidence.NEEDED_OF_BELL),
        ("less {:g} ln(x) (`LESS_FOR_FAR`)", evidence.LESS_FOR_FAR),
        ("more by {:g} (`LEAD_OVER_SMALL`)", evidence.LEAD_OVER_SMALL),
        ("more by {:g} (`LEAD_OVER_BLIP`)", evidence.LEAD_OVER_BLIP),
        ("more by {:g} (`LEAD_OVER_MODE`)", evidence.LEAD_OVER_MODE),
        ("{:g} (`MORE_FOR_MODES`)", evidence.MORE_FOR_MODES),
        ("{:g} (`MORE_FOR_BELL`)", evidence.MORE_FOR_BELL),
        (
            "at most {:g} (`MAX_ODDS`), and {:g} (`MAX_ODDS_FAR`)",
            (evidence.MAX_ODDS, evidence.MAX_ODDS_FAR),
        ),
        ("{:g} (`STUDENT_WIDTH`)", densities.STUDENT_WIDTH),
        ("{} (`MIN_MODE_POINTS`)", chain.MIN_MODE_POINTS),
        ("{:g} (`MIN_MODE_SHARE`)", chain.MIN_MODE_SHARE),
        ("{:g} s (`MAX_SD`) and {:g} floors", (chain.MAX_SD, chain.MAX_DISTANCE)),
        ("{} rounds (`NUM_ROUNDS`)", chain.NUM_ROUNDS),
        ("{:g} nights (`PRIOR_NIGHTS`)", chain.PRIOR_MOVES),
        ("each of {} (`NUM_PARAMETERS`)", chain.NUM_PARAMETERS),
        ("with fewer than {} points (`FEW_POINTS`)", evidence.FEW_POINTS),
        (
            "{:g} ln({} / n) (`MORE_FOR_LITTLE_NOISE`)",
            (evidence.MORE_FOR_LITTLE_NOISE, evidence.FEW_POINTS),
        ),
        (
            "{:g} ln({} / m) (`MORE_FOR_YOUNG_LEVEL`)",
            (evidence.MORE_FOR_YOUNG_LEVEL, evidence.FEW_POINTS),
        ),
        ("by {:g} (`MORE_AFTER_RETURN`)", watch.MORE_AFTER_RETURN),
        ("within {} nights (`RETURN_POINTS`)", watch.RETURN_POINTS),
        ("within {:g} (`RETURN_SHARE`)", watch.RETURN_SHARE),
        ("nearer to it than {:g} (`BACK_SHARE`)", history.BACK_SHARE),
        ("{:g} (`MAX_NIGHT`)", evidence.MAX_NIGHT),
        ("{:g} (`MIN_NIGHT`)", evidence.MIN_NIGHT),
        ("ln(n + 1) + {:g} (`SURPRISE`)", evidence.SURPRISE),
        ("{:g} ln(x) (`FAR_WEIGHT`)", evidence.FAR_WEIGHT),
        ("{:g} (`MIN_BANDWIDTH`)", densities.MIN_BANDWIDTH),
        ("scale {:g} (`PRIOR_SD`)", densities.PRIOR_SD),
        ("weighs {:g} / (n + {:g})", (densities.PRIOR_NIGHTS, densities.PRIOR_NIGHTS)),
        ("{:g} (`UNLIKE_WEIGHT`)", densities.UNLIKE_WEIGHT),
        ("{:g} (`STAY_WEIGHT`)", densities.STAY_WEIGHT),
        ("{:g} (`OUTLIERS`)", densities.OUTLIERS),
        ("{:g}, {:g}, {:g} and {:g} floors", evidence.STEPS),
        ("{:g}, {:g} and {:g} floors", evidence.SMALL_STEPS),
        ("by {:g} (`MIN_LAST_SHARE`) of the mean", drift.MIN_LAST_SHARE),
        ("{:g} floors (`SHORT_FLOORS`)", drift.SHORT_FLOORS),
        ("{:g} standard errors (`MIN_ERRORS`)", drift.MIN_ERRORS),
        ("is {:g} (`MIN_LOG_LIKELIHOOD_RATIO`)", drift.MIN_LOG_LIKELIHOOD_RATIO),
        ("median of the {} points up to it (`LEVEL_POINTS`)", variance.LEVEL_POINTS),
        ("the root of {:g} (`MIN_FACTOR`)", variance.MIN_FACTOR),
        ("lies {:g} standard errors (`MIN_ERRORS`) from it", variance.MIN_ERRORS),
        ("lie {:g} (`MIN_ERRORS_BETWEEN`) standard errors from", variance.MIN_ERRORS_BETWEEN),
        ("distribution with {:g} (`TAIL_DEGREES`) degrees of freedom", fdr.TAIL_DEGREES),
        ("p(k) <= {:g} k / m (`FALSE_DISCOVERY_RATE`)", fdr.FALSE_DISCOVERY_RATE),
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
    *first, last = fdr.LOOKS
    assert f"{', '.join(map(str, first))} and {last} points (`LOOKS`)" in TEXT


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
    calm, wall = (noise.calm_sd(name, device="cpu") for name in ("latency_cpu_s", "latency_s"))
    assert f"{100 * calm:g} % for CPU time, {100 * wall:g} % for a CPU's wall clock where" in TEXT
    assert f"{percent('compile_cold_s', 'cpu')} for compile times on a CPU" in TEXT
    assert f"{percent('compile_cold_s', 'cuda')} for compile times on a GPU" in TEXT
    busy = noise.prior_sd("compile_cold_s", device="cpu", is_quiet=False)
    assert f"({100 * busy:g} % on a busy one)" in TEXT
    assert f"{percent('compile_cold_cpu_s', 'cpu')} for the CPU time of a cold compile" in TEXT
    assert f"within {100 * (clocks.QUIET_RATIO - 1):.0f} % of all CPU time, `QUIET_RATIO`" in TEXT
