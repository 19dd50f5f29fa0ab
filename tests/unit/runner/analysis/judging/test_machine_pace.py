"""Histories on a machine whose pace changes."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from compile_hud.db.records.summaries import Series
from compile_hud.runner.analysis.judging.judge import judge_case
from tests.support.builders import make_case
from tests.support.records.histories import make_series

NIGHTS = 40
# The machine is a third slower from night 20 on.
SPEED_PROBES_S = [0.0006] * 20 + [0.0008] * 20
STEADY = [0.010 + 0.0001 * (night % 3) for night in range(NIGHTS)]
SLOWED = [
    value * probe_s / SPEED_PROBES_S[0]
    for value, probe_s in zip(STEADY, SPEED_PROBES_S, strict=True)
]


def kinds(histories: Sequence[Series]) -> list[tuple[str, str]]:
    """Return the metric and the kind of everything that is found in one case."""
    return [(candidate.alert.metric, candidate.alert.kind) for candidate in judge_case(histories)]


def test_machine_that_slows_down_is_no_step_of_the_code() -> None:
    slowed = make_series(SLOWED, metric="latency_cpu_s")
    assert kinds([slowed]) == [("latency_cpu_s", "step")]
    assert kinds([slowed, make_series(SPEED_PROBES_S, metric="pace_s")]) == []


def test_code_that_slows_down_while_the_machine_speeds_up_is_detected_at_its_size() -> None:
    costs = [value * (1.2 if night >= 20 else 1.0) for night, value in enumerate(STEADY)]
    measured = [cost / probe_s for cost, probe_s in zip(costs, SPEED_PROBES_S, strict=True)]
    probe_s = [0.0006 / value for value in SPEED_PROBES_S]
    (candidate,) = judge_case(
        [make_series(measured, metric="latency_cpu_s"), make_series(probe_s, metric="pace_s")]
    )
    assert candidate.alert.first_bad.run_id == "run-20"
    assert candidate.alert.change_pct == pytest.approx(20.0, abs=1.5)


def test_history_that_begins_before_its_pace_has_no_step_where_the_pace_begins() -> None:
    series = make_series(STEADY, metric="latency_cpu_s")
    late = make_series([0.0, *SPEED_PROBES_S[1:20], *[0.0] * 20], metric="pace_s")
    assert kinds([series, late]) == []


def test_reference_case_keeps_the_time_that_tells_of_the_machine() -> None:
    case = make_case(family="reference", model="ref_gemm", mode="eager", variant="eager")
    slowed = make_series(SLOWED, metric="latency_cpu_s", case=case)
    speed_probe = make_series(SPEED_PROBES_S, metric="pace_s", case=case)
    assert kinds([slowed, speed_probe]) == [("latency_cpu_s", "step")]


@pytest.mark.parametrize("metric", ["peak_bytes", "compile_cold_s"])
def test_samples_without_a_speed_probe_are_not_normalised(metric: str) -> None:
    slowed = make_series(SLOWED, metric=metric)
    alerts = kinds([slowed, make_series(SPEED_PROBES_S, metric="pace_s")])
    assert alerts == kinds([slowed])
    assert (metric, "step") in alerts
