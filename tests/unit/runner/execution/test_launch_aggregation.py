"""From launch reports to a case result."""

from __future__ import annotations

import math
from dataclasses import replace
from datetime import datetime, timezone
from typing import Any

import pytest
from syrupy.assertion import SnapshotAssertion

from compile_hud.db.records.results import CaseResult, Outcome
from compile_hud.db.records.run_warning import RunWarning
from compile_hud.runner.execution.executor import CaseOrder
from compile_hud.runner.execution.launch_aggregation import (
    HOST_DIED,
    Ending,
    combine,
    has_time,
    measurements,
    needs_launch,
    report_of_ending,
)
from compile_hud.runner.protocol.messages import LaunchReport, MeasureSettings, RawMetric, Workload
from tests.support.builders import make_case

NOW = datetime(2026, 1, 1, tzinfo=timezone.utc)


def order(**settings: Any) -> CaseOrder:
    return CaseOrder(
        run_id="run",
        case=make_case(),
        workload=Workload(build="m", config={}, num_samples=1, num_tokens=None),
        settings=MeasureSettings(**settings),
    )


def combined(*reports: LaunchReport) -> CaseResult:
    return combine(
        order(), reports, result_id="id", started_at=NOW, finished_at=NOW, log_tail="the end"
    )


def ok(*samples: float, warnings: tuple[RunWarning, ...] = ()) -> LaunchReport:
    return LaunchReport(
        outcome=Outcome.OK,
        effective_mode="default",
        metrics={"latency_s": RawMetric(samples=samples, warmups=(9.0,), method="clock")},
        warnings=warnings,
    )


def test_samples_of_the_launches_stand_in_order() -> None:
    measurement = combined(ok(1.0, 2.0), ok(3.0)).measurement("latency_s")
    assert measurement is not None
    assert measurement.samples == (1.0, 2.0, 3.0)
    assert measurement.launches == (2, 1)
    assert measurement.warmups == (9.0, 9.0)
    assert measurement.unit == "s"
    assert measurement.interval[0] <= measurement.median <= measurement.interval[1]


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_a_throughput_is_as_sure_as_the_latency_it_is_computed_from(device: str) -> None:
    latencies = ((2.0e-3, 2.1e-3, 2.05e-3), (2.2e-3, 2.3e-3, 2.25e-3), (2.0e-3, 2.02e-3, 2.01e-3))
    reports = [
        LaunchReport(
            outcome=Outcome.OK,
            metrics={
                "latency_s": RawMetric(samples=samples, method="clock"),
                "throughput_tokens_per_s": RawMetric(
                    samples=tuple(512 / sample for sample in samples), method="over it"
                ),
            },
        )
        for samples in latencies
    ]
    latency, throughput = measurements(reports, device=device)
    low, high = latency.interval
    assert throughput.interval == pytest.approx((512 / high, 512 / low))
    assert throughput.median == pytest.approx(512 / latency.median)


def test_a_metric_of_some_launches_only_counts_those() -> None:
    first = LaunchReport(
        outcome=Outcome.OK, metrics={"graphs": RawMetric(samples=(1.0,), method="counter")}
    )
    measurement = combined(first, ok(1.0)).measurement("graphs")
    assert measurement is not None
    assert measurement.launches == (1,)


def test_a_result_that_failed_as_well_keeps_what_it_was_measured_with() -> None:
    workload = replace(
        order().workload, build="mine.py:build", config={"sizes": (1, 2), "batch": 8}
    )
    result = combine(
        replace(order(), workload=workload),
        [LaunchReport(outcome=Outcome.FAILED, reason="broken")],
        result_id="result",
        started_at=NOW,
        finished_at=NOW,
        log_tail="",
    )
    config = {"sizes": [1, 2], "batch": 8}
    assert result.details["workload"] == {"build": "mine.py:build", "config": config}


def test_a_result_keeps_what_its_model_is_there_for() -> None:
    workload = replace(order().workload, summary="Convolutions.")
    result = combine(
        replace(order(), workload=workload),
        [ok(1.0)],
        result_id="r",
        started_at=NOW,
        finished_at=NOW,
        log_tail="",
    )
    assert result.details["workload"]["summary"] == "Convolutions."


def test_one_failed_launch_fails_the_case() -> None:
    result = combined(ok(1.0), LaunchReport(outcome=Outcome.FAILED, reason="ValueError: no"))
    assert result.outcome is Outcome.FAILED
    assert result.reason == "ValueError: no"
    assert result.measurements == ()
    assert result.log_tail == "the end"


def test_a_warning_of_every_launch_is_reported_once() -> None:
    warning = RunWarning(code="unsettled", text="moved")
    assert combined(ok(1.0, warnings=(warning,)), ok(1.0, warnings=(warning,))).warnings == (
        warning,
    )


def wants(*reports: LaunchReport, left_s: float = math.inf, **settings: Any) -> bool:
    return needs_launch(reports, order=order(**settings), left_s=left_s)


def test_a_case_gets_its_least_number_of_launches() -> None:
    assert wants()
    assert wants(ok(1.0), ok(1.0))
    assert not wants(ok(1.0), ok(1.0), ok(1.0))


def test_no_planned_launch_is_begun_that_would_take_the_others_along() -> None:
    slow = replace(ok(1.0), details={"launch_wall_s": 10.0})
    assert wants(slow, left_s=10.0)
    assert not wants(slow, left_s=9.0)
    assert wants(left_s=0.0)


def test_launches_that_disagree_get_more_until_there_are_enough() -> None:
    apart = [ok(level) for level in (1.0, 1.1, 1.2, 1.0, 1.1, 1.2)]
    assert wants(*apart[:3])
    assert wants(*apart[:5])
    assert not wants(*apart)
    assert wants(*apart, max_launches=7)


def test_launches_that_come_close_to_each_other_end_it() -> None:
    near = [ok(level) for level in (1.0, 1.02, 1.0, 1.02, 1.0)]
    assert wants(*near[:3])
    assert not wants(*near)
    assert wants(*near, target_interval=0.005)


def test_the_speedup_decides_where_there_is_one() -> None:
    def both(latency_s: float) -> LaunchReport:
        speedup = RawMetric(samples=(2.0,), method="ratio")
        report = ok(latency_s)
        return replace(report, metrics={**report.metrics, "speedup": speedup})

    assert not wants(both(1.0), both(1.1), both(1.2))


@pytest.mark.parametrize("settings", [{"target_interval": 0.0}, {"max_launches": 2}])
def test_a_fixed_number_of_launches_is_respected(settings: dict[str, Any]) -> None:
    assert not wants(ok(1.0), ok(1.2), ok(1.4), **settings)


def test_a_single_launch_has_no_disagreement() -> None:
    assert not wants(ok(1.0), num_launches=1)


def test_launches_without_a_latency_have_nothing_to_agree_on() -> None:
    counted = LaunchReport(
        outcome=Outcome.OK, metrics={"graphs": RawMetric(samples=(1.0,), method="counter")}
    )
    assert not wants(counted, counted, counted)


def test_no_launch_is_begun_that_may_run_out_of_time() -> None:
    apart = [replace(ok(level), details={"launch_wall_s": 10.0}) for level in (1.0, 1.1, 1.2)]
    assert not wants(*apart, left_s=14.0)
    assert wants(*apart, left_s=16.0)


def test_a_failed_launch_is_the_last() -> None:
    assert not wants(LaunchReport(outcome=Outcome.FAILED))


def test_doubts_about_the_numbers_are_on_the_result() -> None:
    codes = [warning.code for warning in combined(ok(1.0), ok(1.5), ok(2.0)).warnings]
    assert codes == ["launches-disagree"]


def test_the_sampling_of_each_launch_is_stored() -> None:
    calm = {"stopped_by": "rounds", "num_falls": 0, "is_settled": True, "num_rounds": 1}
    reports = [replace(ok(1.0), details={"sampling": calm}) for _ in range(2)]
    assert combined(*reports).details["sampling"] == [calm, calm]


@pytest.mark.parametrize(
    ("ending", "log_tail", "outcome"),
    [
        (Ending(text="timeout"), "", Outcome.TIMEOUT),
        (Ending(text="signal 9", was_oom_killed=True), "", Outcome.OUT_OF_MEMORY),
        (Ending(text="signal 9"), "", Outcome.FAILED),
        (Ending(text="signal 6"), "std::bad_alloc", Outcome.OUT_OF_MEMORY),
        (Ending(text="signal 6"), "assertion", Outcome.FAILED),
        (Ending(text="cancelled"), "", Outcome.FAILED),
        (Ending(text="exit 3"), "", Outcome.FAILED),
        (Ending(text="exit 3"), "a\nno space\n\n", Outcome.FAILED),
        (HOST_DIED, "", Outcome.FAILED),
    ],
)
def test_an_ending_without_a_report_is_an_outcome(
    ending: Ending, log_tail: str, outcome: Outcome, words: SnapshotAssertion
) -> None:
    report = report_of_ending(ending, log_tail=log_tail, limit_s=5.0)
    assert report.outcome is outcome
    assert report.reason == words


@pytest.mark.parametrize("text", ["timeout", "signal 11"])
def test_an_ending_without_a_report_has_the_step_that_had_begun(
    text: str, words: SnapshotAssertion
) -> None:
    report = report_of_ending(Ending(text=text), log_tail="", limit_s=7.0, step="warm up")
    assert report.details["ended_in"] == "warm up"
    assert report.reason == words


def test_the_last_launch_says_whether_another_one_fits() -> None:
    cold, warm = (replace(ok(1.0), details={"launch_wall_s": wall_s}) for wall_s in (300.0, 20.0))
    assert has_time([], left_s=0.0)
    assert has_time([cold], left_s=600.0)
    assert not has_time([cold], left_s=400.0)
    assert has_time([cold, warm], left_s=40.0)
    assert not has_time([cold, warm], left_s=25.0)
