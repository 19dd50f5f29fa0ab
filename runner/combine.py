"""From the reports of a case's launches to its one case result. Pure; knows no process."""

from __future__ import annotations

import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from db.metrics import METRICS
from db.records import CaseResult, Measurement, Outcome, RunWarning
from runner.analysis.stats import estimate
from runner.derived import derive
from runner.executor_api import CaseOrder
from runner.protocol import OUT_OF_MEMORY_TEXTS, LaunchReport, MeasureSettings

# Kept from every launch, in order; of the other details the first launch's are kept.
PER_LAUNCH_DETAILS = ("steps", "compile", "conditions", "telemetry")


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """How a launch's process ended: `exit N`, `signal N`, `timeout`, `cancelled` or `host died`."""

    text: str
    was_oom_killed: bool = False


HOST_DIED = Ending(text="host died")


def report_of_ending(ending: Ending, *, log_tail: str, limit_s: float) -> LaunchReport:
    """Return the report of a launch that left none behind."""
    kind, _, number = ending.text.partition(" ")
    if kind == "timeout":
        return LaunchReport(
            outcome=Outcome.TIMEOUT,
            reason=f"not done after {limit_s:.0f} s; raise [run] timeout_s if it should be",
        )
    if ending.was_oom_killed:
        return LaunchReport(
            outcome=Outcome.OUT_OF_MEMORY,
            reason="the kernel's out-of-memory killer ended the worker",
        )
    if kind == "signal":
        name = signal.Signals(int(number)).name
        if name == "SIGABRT" and any(text in log_tail for text in OUT_OF_MEMORY_TEXTS):
            return LaunchReport(
                outcome=Outcome.OUT_OF_MEMORY, reason="an allocation failed and ended the worker"
            )
        return LaunchReport(outcome=Outcome.FAILED, reason=f"the worker was killed by {name}")
    if kind == "cancelled":
        return LaunchReport(outcome=Outcome.FAILED, reason="cancelled")
    if ending == HOST_DIED:
        return LaunchReport(
            outcome=Outcome.FAILED,
            reason="the worker host died and took the case along; the next case gets a new host",
        )
    return LaunchReport(
        outcome=Outcome.FAILED,
        reason=f"the worker ended with status {number} and left no report; see the log",
    )


def needs_launch(reports: Sequence[LaunchReport], *, settings: MeasureSettings) -> bool:
    """Return whether a case with these launches wants another one; one that failed wants none."""
    if any(report.outcome is not Outcome.OK for report in reports):
        return False
    return len(reports) < settings.num_launches


def combine(
    order: CaseOrder,
    reports: Sequence[LaunchReport],
    *,
    result_id: str,
    started_at: datetime,
    finished_at: datetime,
    log_tail: str,
) -> CaseResult:
    """Return the case result of `reports`, one a launch; the first that is not ok decides."""
    worst = next((report for report in reports if report.outcome is not Outcome.OK), reports[0])
    is_ok = worst.outcome is Outcome.OK
    return CaseResult(
        id=result_id,
        run_id=order.run_id,
        case=order.case,
        outcome=worst.outcome,
        reason=worst.reason,
        # A launch that was killed tells of no mode, whatever an earlier one ran in.
        effective_mode=worst.effective_mode,
        started_at=started_at,
        finished_at=finished_at,
        warnings=_distinct(warning for report in reports for warning in report.warnings),
        measurements=_all_measurements(reports) if is_ok else (),
        details=_details(reports),
        log_tail=log_tail,
    )


def _all_measurements(reports: Sequence[LaunchReport]) -> tuple[Measurement, ...]:
    measured = measurements(reports)
    return (*measured, *derive({item.metric: item for item in measured}, details=_details(reports)))


def measurements(reports: Sequence[LaunchReport]) -> tuple[Measurement, ...]:
    """Return every metric that some launch took, its samples in launch order."""
    names = dict.fromkeys(name for report in reports for name in report.metrics)
    return tuple(_measurement(name, reports) for name in names)


def _measurement(name: str, reports: Sequence[LaunchReport]) -> Measurement:
    raws = [report.metrics[name] for report in reports if name in report.metrics]
    samples = tuple(sample for raw in raws for sample in raw.samples)
    launches = tuple(len(raw.samples) for raw in raws)
    found = estimate(samples, launches=launches)
    return Measurement(
        metric=name,
        unit=METRICS[name].unit,
        samples=samples,
        launches=launches,
        warmups=tuple(warmup for raw in raws for warmup in raw.warmups),
        median=found.value,
        interval=(found.low, found.high),
        method=raws[0].method,
    )


def _details(reports: Sequence[LaunchReport]) -> Mapping[str, Any]:
    details = dict(reports[0].details)
    details["num_launches"] = len(reports)
    for name in PER_LAUNCH_DETAILS:
        if any(name in report.details for report in reports):
            details[name] = [report.details.get(name) for report in reports]
    return details


def _distinct(warnings: Any) -> tuple[RunWarning, ...]:
    by_code = {warning.code: warning for warning in warnings}
    return tuple(by_code.values())
