"""The order in which undecided cases are launched."""

from __future__ import annotations

import math

from compile_hud.db.records.metrics import Direction
from compile_hud.db.records.results import Case
from compile_hud.runner.analysis.comparison.log_change import LogChange
from compile_hud.runner.analysis.comparison.measurements import Judgement, decide_change
from compile_hud.runner.analysis.comparison.noise_model import ComparisonNoise
from compile_hud.runner.analysis.comparison.runs import CaseComparison
from compile_hud.runner.analysis.stats.estimates import Spread
from compile_hud.runner.detection.settle_comparison import undecided_cases
from tests.support.builders import make_case

BERT, GPT2, VIT = (make_case(name) for name in ("bert", "gpt2", "vit"))


def row(case: Case, metric: str, *, error: float, launch_sd: float = 0.05) -> CaseComparison:
    """Return a comparison of equal levels with this standard error."""
    comparison = decide_change(
        LogChange(log=0.0, error=error, degrees=math.inf, launch_sd=launch_sd),
        direction=Direction.LOWER_IS_BETTER,
        judgement=Judgement(floor=0.05, noise=ComparisonNoise(launch=Spread(0.02, 8.0))),
    )
    return CaseComparison(
        case=case, metric=metric, unit="s", baseline=1.0, candidate=1.0, comparison=comparison
    )


def test_speedups_come_first_and_then_the_fewest_launches() -> None:
    rows = [
        row(BERT, "latency_s", error=0.06, launch_sd=0.02),
        row(GPT2, "latency_s", error=0.06, launch_sd=0.30),
        row(GPT2, "speedup", error=0.06, launch_sd=0.02),
        row(VIT, "speedup", error=0.06, launch_sd=0.10),
    ]
    assert [item.case for item in undecided_cases(rows, fail_above=0.05)] == [VIT, GPT2, BERT]


def test_decided_rows_and_cold_compilations_need_no_launch() -> None:
    rows = [
        row(BERT, "speedup", error=0.001),
        row(BERT, "compile_cold_s", error=0.3),
        row(GPT2, "compile_warm_s", error=0.3),
    ]
    (item,) = undecided_cases(rows, fail_above=0.05)
    assert (item.case, item.is_by_speedup) == (GPT2, False)
