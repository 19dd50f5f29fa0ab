"""Combine the launch reports of a case into one case result. Pure: no processes."""

from __future__ import annotations

import math
import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any

from compile_hud.db.records.metrics import METRICS
from compile_hud.db.records.results import CaseResult, Measurement, Outcome
from compile_hud.db.records.run_warning import RunWarning
from compile_hud.db.shared.quantities import rounded_to_zero
from compile_hud.runner.analysis.stats.break_even import calls_to_pay_back
from compile_hud.runner.analysis.stats.estimates import Estimate, estimate
from compile_hud.runner.analysis.stats.launch_levels import measured_levels
from compile_hud.runner.analysis.stats.launch_noise import launch_spread
from compile_hud.runner.analysis.stats.quality_checks import (
    Attempts,
    find_headline,
    stability_warnings,
)
from compile_hud.runner.analysis.stats.sample_checks import half_width
from compile_hud.runner.execution.executor import CaseOrder
from compile_hud.runner.protocol.messages import OUT_OF_MEMORY_TEXTS, LaunchReport, Workload

# These details are lists with an entry for each launch; others have the first launch's value.
PER_LAUNCH_DETAILS = (
    "steps",
    "launch_wall_s",
    "compile",
    "compilations",
    "sampling",
    "conditions",
    "telemetry",
)

# A timeout would cost the case its result, so there must be time for a slower launch.
SPARE_TIME = 1.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """The ending of a launch: `exit N`, `signal N`, `timeout`, `cancelled` or `host died`."""

    text: str
    was_oom_killed: bool = False


HOST_DIED = Ending(text="host died")
# The ending of a launch that failed on a full disk.
DISK_FULL = "disk full"


def report_disk_full(report: LaunchReport, *, folder: Path) -> LaunchReport:
    """Return the `report` of a launch that failed while the disk under `folder` was full."""
    return replace(
        report,
        reason=f"the disk under {folder} is full; {report.reason}",
        details={**report.details, "ended_by": DISK_FULL},
    )


def report_of_ending(
    ending: Ending, *, log_tail: str, limit_s: float, step: str = ""
) -> LaunchReport:
    """Return the report of a launch that left none; `step` is the last one that it began."""
    report = _report_of_ending(ending, log_tail=log_tail, limit_s=limit_s)
    if not step or ending.text == "cancelled":
        return report
    reason = f"{report.reason}; the step was `{step}`"
    return replace(report, reason=reason, details={**report.details, "ended_in": step})


def _report_of_ending(ending: Ending, *, log_tail: str, limit_s: float) -> LaunchReport:
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
        return LaunchReport(
            outcome=Outcome.FAILED,
            reason=f"the worker was killed by {name}",
            details={"ended_by": name},
        )
    if kind == "cancelled":
        return LaunchReport(outcome=Outcome.FAILED, reason="cancelled")
    if ending == HOST_DIED:
        return LaunchReport(
            outcome=Outcome.FAILED,
            reason="the worker host died and took the case along; the next case gets a new host",
            details={"ended_by": ending.text},
        )
    last_line = next((line for line in reversed(log_tail.splitlines()) if line.strip()), "")
    log_end = f"the end of its log: {last_line.strip()}" if last_line else "its log is empty"
    return LaunchReport(
        outcome=Outcome.FAILED,
        reason=f"the worker ended with status {number} and left no report; {log_end}",
    )


def needs_launch(
    reports: Sequence[LaunchReport], *, order: CaseOrder, left_s: float = math.inf
) -> bool:
    """Return whether the case needs another launch; a failed launch ends the case.

    Beyond `num_launches`, another launch follows while the launches disagree by more than the
    target. `left_s` is the remaining time of the case. It must suffice for another launch as slow
    as the slowest, since a timeout would cost the case its result. A single launch disagrees with
    no other.
    """
    settings = order.settings
    if any(report.outcome is not Outcome.OK for report in reports):
        return False
    slowest_s = max((_wall_s(report) for report in reports), default=0.0)
    if len(reports) < settings.num_launches:
        return left_s >= slowest_s
    if not 1 < len(reports) < settings.max_launches or settings.target_interval == 0:
        return False
    if left_s < SPARE_TIME * slowest_s:
        return False
    measured = {item.metric: item for item in measurements(reports, device=order.case.device)}
    headline = find_headline(measured)
    if headline is None:
        return False
    levels = measured_levels(measured, headline)
    return half_width(levels) > settings.target_interval


def has_time(reports: Sequence[LaunchReport], *, left_s: float) -> bool:
    """Return whether a launch that is somewhat slower than the last one fits into `left_s`."""
    return not reports or left_s >= SPARE_TIME * _wall_s(reports[-1])


def _wall_s(report: LaunchReport) -> float:
    return float(report.details.get("launch_wall_s", 0.0))


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
    measured = _all_measurements(reports, device=order.case.device) if is_ok else ()
    details = _details(reports, workload=order.workload)
    warnings = [warning for report in reports for warning in report.warnings]
    warnings += stability_warnings(measured, details=details, attempts=_quality_evidence(order))
    return CaseResult(
        id=result_id,
        run_id=order.run_id,
        case=order.case,
        outcome=worst.outcome,
        reason=worst.reason,
        # A killed launch has no mode, even if an earlier launch has one.
        effective_mode=worst.effective_mode,
        started_at=started_at,
        finished_at=finished_at,
        warnings=_distinct(warnings),
        measurements=measured,
        details=details,
        log_tail=log_tail,
    )


def _quality_evidence(order: CaseOrder) -> Attempts:
    settings = order.settings
    return Attempts(
        device=order.case.device,
        num_launches=settings.num_launches,
        max_launches=settings.max_launches,
        num_rounds=settings.num_rounds,
        budget_s=settings.budget_s,
        num_threads=settings.num_threads,
        target_interval=settings.target_interval,
    )


def _all_measurements(reports: Sequence[LaunchReport], *, device: str) -> tuple[Measurement, ...]:
    measured = measurements(reports, device=device)
    return (*measured, *break_even({item.metric: item for item in measured}))


def measurements(reports: Sequence[LaunchReport], *, device: str) -> tuple[Measurement, ...]:
    """Return every metric that some launch took on `device`, its samples in launch order."""
    names = dict.fromkeys(name for report in reports for name in report.metrics)
    return tuple(_measurement(name, reports, device=device) for name in names)


def _measurement(name: str, reports: Sequence[LaunchReport], *, device: str) -> Measurement:
    raws = [report.metrics[name] for report in reports if name in report.metrics]
    # The error of an output in fp64 can be smaller than any number that the store takes.
    samples = tuple(rounded_to_zero(sample) for raw in raws for sample in raw.samples)
    launches = tuple(len(raw.samples) for raw in raws)
    prior = launch_spread(name, device=device)
    level = estimate(samples, launches=launches, prior=prior)
    return Measurement(
        metric=name,
        unit=METRICS[name].unit,
        samples=samples,
        launches=launches,
        warmups=tuple(warmup for raw in raws for warmup in raw.warmups),
        median=level.value,
        interval=(level.low, level.high),
        method=raws[0].method,
    )


def _details(reports: Sequence[LaunchReport], *, workload: Workload) -> Mapping[str, Any]:
    details = dict(reports[0].details)
    # A name in hud.toml may mean another model or other numbers tomorrow.
    details["workload"] = {
        "build": workload.build,
        "config": {
            key: list(value) if isinstance(value, tuple) else value
            for key, value in workload.config.items()
        },
        **({"summary": workload.summary} if workload.summary else {}),
        **({"variant": flat} if (flat := workload.compile.flat) else {}),
    }
    details["num_launches"] = len(reports)
    # `ended_by` belongs to the last launch, which left no report.
    details |= {key: value for key, value in reports[-1].details.items() if key == "ended_by"}
    for name in PER_LAUNCH_DETAILS:
        if any(name in report.details for report in reports):
            details[name] = [report.details.get(name) for report in reports]
    return details


def _distinct(warnings: Sequence[RunWarning]) -> tuple[RunWarning, ...]:
    by_code = {warning.code: warning for warning in warnings}
    return tuple(by_code.values())


BREAK_EVEN_METRICS = ("break_even_calls", "break_even_warm_calls")


def break_even(measured: Mapping[str, Measurement]) -> tuple[Measurement, ...]:
    """Return the numbers of calls after which faster calls repay the cold and the warm compile.

    The result is empty if the speedup is not significant: its interval includes 1.
    """
    speedup = measured.get("speedup")
    # The speedup uses this clock too. Wall time would include other work of the machine.
    latency = measured.get("latency_cpu_s") or measured.get("latency_s")
    if speedup is None or latency is None:
        return ()
    break_evens = []
    for name, cost in (
        ("break_even_calls", measured.get("compile_cold_s")),
        ("break_even_warm_calls", measured.get("compile_warm_s")),
    ):
        if cost is None:
            continue
        calls = calls_to_pay_back(
            _estimate(cost), latency=_estimate(latency), speedup=_estimate(speedup)
        )
        if calls is not None:
            break_evens.append(
                Measurement(
                    metric=name,
                    unit=METRICS[name].unit,
                    samples=(calls.value,),
                    launches=(1,),
                    median=calls.value,
                    interval=(calls.low, calls.high),
                    method=f"{cost.metric} / ({latency.metric} x (speedup - 1))",
                )
            )
    return tuple(break_evens)


def _estimate(measured: Measurement) -> Estimate:
    return Estimate(measured.median, *measured.interval)
