"""From launch reports to a case result."""

from __future__ import annotations

from datetime import datetime, timezone

import pytest

from db.records import CaseResult, Outcome, RunWarning
from runner.combine import HOST_DIED, Ending, combine, report_of_ending
from runner.executor_api import CaseOrder
from runner.protocol import LaunchReport, MeasureSettings, RawMetric, Workload
from tests.builders import make_case

NOW = datetime(2026, 1, 1, tzinfo=timezone.utc)


def combined(*reports: LaunchReport) -> CaseResult:
    order = CaseOrder(
        run_id="run",
        case=make_case(),
        workload=Workload(build="m", config={}, num_samples=1, num_tokens=None),
        settings=MeasureSettings(),
    )
    return combine(
        order, reports, result_id="id", started_at=NOW, finished_at=NOW, log_tail="the end"
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


def test_a_metric_of_some_launches_only_counts_those() -> None:
    first = LaunchReport(
        outcome=Outcome.OK, metrics={"graphs": RawMetric(samples=(1.0,), method="counter")}
    )
    measurement = combined(first, ok(1.0)).measurement("graphs")
    assert measurement is not None
    assert measurement.launches == (1,)


def test_one_failed_launch_fails_the_case() -> None:
    result = combined(ok(1.0), LaunchReport(outcome=Outcome.FAILED, reason="ValueError: no"))
    assert result.outcome is Outcome.FAILED
    assert result.reason == "ValueError: no"
    assert result.measurements == ()
    assert result.log_tail == "the end"


def test_a_warning_of_every_launch_is_said_once() -> None:
    warning = RunWarning(code="unsettled", text="moved")
    assert combined(ok(1.0, warnings=(warning,)), ok(1.0, warnings=(warning,))).warnings == (
        warning,
    )


@pytest.mark.parametrize(
    ("ending", "log_tail", "outcome", "reason"),
    [
        (Ending(text="timeout"), "", Outcome.TIMEOUT, "not done after 5 s"),
        (Ending(text="signal 9", was_oom_killed=True), "", Outcome.OUT_OF_MEMORY, "out-of-memory"),
        (Ending(text="signal 9"), "", Outcome.FAILED, "killed by SIGKILL"),
        (Ending(text="signal 6"), "std::bad_alloc", Outcome.OUT_OF_MEMORY, "allocation failed"),
        (Ending(text="signal 6"), "assertion", Outcome.FAILED, "killed by SIGABRT"),
        (Ending(text="cancelled"), "", Outcome.FAILED, "cancelled"),
        (Ending(text="exit 3"), "", Outcome.FAILED, "ended with status 3"),
        (HOST_DIED, "", Outcome.FAILED, "the worker host died"),
    ],
)
def test_an_ending_without_a_report_is_an_outcome(
    ending: Ending, log_tail: str, outcome: Outcome, reason: str
) -> None:
    report = report_of_ending(ending, log_tail=log_tail, limit_s=5.0)
    assert report.outcome is outcome
    assert reason in report.reason
