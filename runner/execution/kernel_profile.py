"""Convert the trace of a launch into the kernels of its case result."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from compile_hud.db.errors import RecordError
from compile_hud.db.records.graphs.host_times import HOST_TIMES
from compile_hud.db.records.metrics import METRICS
from compile_hud.db.records.results import CaseResult, Measurement, Outcome
from compile_hud.db.records.run_warning import RunWarning
from compile_hud.db.shared.trace_paths import trace_name
from compile_hud.runner.analysis.stats.estimates import estimate
from compile_hud.runner.errors import TraceError
from compile_hud.runner.execution.utilisation import peaks_in_trace
from compile_hud.runner.persistence.trace_store import copy_file
from compile_hud.runner.protocol.messages import notes_path
from compile_hud.runner.traces.profile import KernelReport, load_kernel_notes, read_kernels

logger = logging.getLogger(__name__)

NUM_KERNELS = "num_kernels"
GUARD_S = "guard_s"
GUARD_METHOD = "ranges of Dynamo's cache look-up in the trace, summed over each iteration"
METHOD = "calls of kernels an iteration in the trace"


def with_kernels(result: CaseResult, *, trace: Path, peaks: Mapping[str, Any]) -> CaseResult:
    """Return `result` with the kernels of the first launch, unchanged without a trace.

    A trace that cannot be read costs the result nothing but a warning.
    """
    if result.outcome is not Outcome.OK or not trace.exists():
        return result
    latency = result.measurement("latency_s")
    try:
        report = read_kernels(
            trace,
            notes=load_kernel_notes(notes_path(trace)),
            latency_s=None if latency is None else latency.median,
            peaks=peaks_in_trace(result.case.dtype, peaks=peaks),
        )
    except (OSError, RecordError, TraceError) as error:
        warning = RunWarning(
            code="no-kernels",
            text=f"the trace could not be read: {error}",
            hint="the other numbers of this result were taken before and stand",
        )
        return replace(result, warnings=(*result.warnings, warning))
    profile = replace(report.profile, trace=trace_name(result.id) or "")
    return replace(
        result,
        kernels=report.kernels,
        sources=report.sources,
        measurements=(*result.measurements, _count(report), *_guard_check(report)),
        details={**host_times(result.details, report=report), "profile": profile.to_json()},
    )


def host_times(details: Mapping[str, Any], *, report: KernelReport) -> Mapping[str, Any]:
    """Return `details` with what a trace has of the gaps between graphs, if they were measured."""
    measured = details.get(HOST_TIMES)
    if not isinstance(measured, Mapping) or not report.gap_operators_s:
        return details
    in_trace = {
        "gap_operators_s": list(report.gap_operators_s),
        "gap_guards_s": list(report.gap_guards_s),
    }
    return {**details, HOST_TIMES: {**measured, **in_trace}}


def store_trace(result: CaseResult, *, trace: Path, folder: Path) -> CaseResult:
    """Copy the trace of `result` into `folder`; where that fails, return it without its trace.

    The original stays, with its case: more launches may follow, and then another result.
    """
    profile = result.details.get("profile")
    if profile is None:
        return result
    try:
        folder.mkdir(parents=True, exist_ok=True)
        copy_file(trace, folder / profile["trace"])
    except OSError as error:
        logger.warning("cannot keep the trace of %s: %s", result.case.key, error)
        details = {**result.details, "profile": {**profile, "trace": ""}}
        return replace(result, details=details)
    return result


def _count(report: KernelReport) -> Measurement:
    number = sum(kernel.count for kernel in report.kernels if not kernel.is_dispatch)
    return Measurement(
        metric=NUM_KERNELS,
        unit=METRICS[NUM_KERNELS].unit,
        samples=(number,),
        launches=(1,),
        median=number,
        interval=(number, number),
        method=METHOD,
    )


def _guard_check(report: KernelReport) -> tuple[Measurement, ...]:
    """Return the time of the guards, nothing where no compiled code was looked up."""
    if not report.guard_s:
        return ()
    level = estimate(report.guard_s)
    return (
        Measurement(
            metric=GUARD_S,
            unit=METRICS[GUARD_S].unit,
            samples=report.guard_s,
            launches=(len(report.guard_s),),
            median=level.value,
            interval=(level.low, level.high),
            method=GUARD_METHOD,
        ),
    )
