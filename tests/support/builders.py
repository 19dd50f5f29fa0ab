"""Builders of valid records; a call names only the fields that its test is about."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta, timezone
from typing import Any

from compile_hud.db.jobs.health import SchedulerState
from compile_hud.db.records.alerts import Alert, AlertState
from compile_hud.db.records.kernels import Kernel, KernelSource
from compile_hud.db.records.metrics import METRICS
from compile_hud.db.records.notifications import AlertChangeKind, Notification, Severity
from compile_hud.db.records.results import (
    Case,
    CaseResult,
    Dtype,
    Measurement,
    Outcome,
    Phase,
    Run,
    RunDocument,
    RunRef,
    RunState,
    Verdict,
    series_key,
)
from compile_hud.db.records.run_warning import RunWarning

START = datetime(2026, 1, 1, 2, 30, tzinfo=timezone.utc)
FINGERPRINT = "f" * 64


def make_case(
    model: str = "bert",
    *,
    family: str = "transformer",
    phase: Phase | str = Phase.INFERENCE,
    shape: str = "tiny",
    dtype: Dtype | str = Dtype.FP32,
    mode: str = "default",
    variant: str | None = None,
    backend: str | None = None,
    device: str = "cpu",
) -> Case:
    """Return a case; the variant is named as the mode, and eager has no backend."""
    is_eager = mode == "eager"
    return Case(
        model=model,
        family=family,
        phase=Phase(phase),
        shape=shape,
        dtype=Dtype(dtype),
        mode=mode,
        variant=mode if variant is None else variant,
        backend=("" if is_eager else "inductor") if backend is None else backend,
        device=device,
    )


def make_measurement(
    metric: str = "latency_s",
    *,
    samples: Sequence[float] = (0.010, 0.011, 0.012),
    unit: str | None = None,
    median: float | None = None,
    interval: tuple[float, float] | None = None,
    method: str = "median, bootstrap 95 %",
    launches: Sequence[int] = (),
    warmups: Sequence[float] = (),
) -> Measurement:
    """Return a measurement whose summary follows from `samples`."""
    definition = METRICS.get(metric)
    return Measurement(
        metric=metric,
        unit=(definition.unit if definition else "1") if unit is None else unit,
        samples=tuple(samples),
        median=statistics.median(samples) if median is None else median,
        interval=(min(samples), max(samples)) if interval is None else interval,
        method=method,
        launches=tuple(launches),
        warmups=tuple(warmups),
    )


def make_kernel(
    name: str = "cpp_fused_add_0",
    *,
    label: str = "cpp_fused_add",
    kind: str = "fused",
    library: str = "inductor-cpp",
    count: float = 2.0,
    mean_s: float = 0.001,
    share: float = 0.2,
    num_bytes: float | None = 1e6,
    flops: float | None = None,
    roofline: float | None = None,
    operators: Sequence[str] = ("aten.add.Tensor",),
    shapes: str = "[8, 16]",
    source_hash: str = "",
) -> Kernel:
    """Return a kernel whose calls all take `mean_s`."""
    return Kernel(
        name=name,
        label=label,
        kind=kind,
        library=library,
        device="cpu",
        count=count,
        total_s=count * mean_s,
        mean_s=mean_s,
        min_s=mean_s,
        share=share,
        num_bytes=num_bytes,
        flops=flops,
        roofline=roofline,
        operators=tuple(operators),
        shapes=shapes,
        source_hash=source_hash,
    )


def make_run(
    id: str = "run-1",
    *,
    plan: Sequence[Case] | None = None,
    started_at: datetime = START,
    finished_at: datetime | None = None,
    state: RunState | str = RunState.RUNNING,
    suite: str = "quick",
    toolchain: str = "stable",
    revision: str = "2.13.0+abc1234",
    machine: str = "box",
    environment: Mapping[str, Any] | None = None,
    fingerprint: str = FINGERPRINT,
    trigger: str = "manual",
    is_synthetic: bool = False,
) -> Run:
    """Return a running run of one case, or a finished one when `finished_at` is given."""
    if finished_at is not None and state == RunState.RUNNING:
        state = RunState.FINISHED
    return Run(
        id=id,
        started_at=started_at,
        finished_at=finished_at,
        state=RunState(state),
        suite=suite,
        toolchain=toolchain,
        revision=revision,
        machine=machine,
        environment={"device": "cpu", "torch": "2.13.0"} if environment is None else environment,
        fingerprint=fingerprint,
        plan=(make_case(),) if plan is None else tuple(plan),
        trigger=trigger,
        is_synthetic=is_synthetic,
    )


def make_result(
    id: str = "result-1",
    *,
    run: Run | None = None,
    run_id: str | None = None,
    case: Case | None = None,
    outcome: Outcome | str = Outcome.OK,
    measurements: Sequence[Measurement] | None = None,
    kernels: Sequence[Kernel] = (),
    sources: Sequence[KernelSource] = (),
    started_at: datetime | None = None,
    finished_at: datetime | None = None,
    reason: str | None = None,
    effective_mode: str | None = None,
    warnings: Sequence[RunWarning] = (),
    details: Mapping[str, Any] | None = None,
    log_tail: str = "",
) -> CaseResult:
    """Return a result of `case` (default: the run's first); without numbers unless ok."""
    outcome = Outcome(outcome)
    if case is None:
        case = make_case() if run is None or not run.plan else run.plan[0]
    if measurements is None:
        measurements = (make_measurement(),) if outcome is Outcome.OK else ()
    started_at = started_at or (START if run is None else run.started_at)
    is_ok = outcome is Outcome.OK
    return CaseResult(
        id=id,
        run_id=run_id or ("run-1" if run is None else run.id),
        case=case,
        outcome=outcome,
        started_at=started_at,
        finished_at=finished_at or started_at + timedelta(seconds=10),
        reason=("" if is_ok else f"{outcome} on purpose") if reason is None else reason,
        effective_mode=case.mode if effective_mode is None else effective_mode,
        warnings=tuple(warnings),
        measurements=tuple(measurements),
        kernels=tuple(kernels),
        sources=tuple(sources),
        details={} if details is None else details,
        log_tail=log_tail,
    )


def make_document(run: Run | None = None, *, results: Sequence[CaseResult] = ()) -> RunDocument:
    """Return a run with `results` (default: one ok result a planned case)."""
    run = make_run() if run is None else run
    made = results or [
        make_result(f"{run.id}-result-{number}", run=run, case=case)
        for number, case in enumerate(run.plan)
    ]
    return RunDocument(run=run, results=tuple(made))


def make_run_ref(run: Run | None = None) -> RunRef:
    """Return the reference to `run` (default: the default run)."""
    run = make_run() if run is None else run
    return RunRef(run_id=run.id, revision=run.revision, at=run.started_at)


def make_alert(
    id: str = "alert-1",
    *,
    case: Case | None = None,
    kind: str = "step",
    state: AlertState | str = AlertState.OPEN,
    verdict: Verdict | str = Verdict.REGRESSION,
    metric: str = "",
    unit: str = "s",
    machine: str = "box",
    toolchain: str = "stable",
    fingerprint: str = FINGERPRINT,
    first_bad: RunRef | None = None,
    last_good: RunRef | None = None,
    last_seen: datetime = START,
    baseline: float | None = 0.010,
    candidate: float | None = 0.012,
    change_pct: float | None = 20.0,
    interval_pct: tuple[float, float] | None = (18.0, 22.0),
    is_confirmed: bool | None = None,
    cause_kind: str = "unknown",
) -> Alert:
    """Return an alert; without numbers for an outcome, without levels for noise.

    Without a `metric` it is about the outcome of its case or, by its kind, about the latency or a
    kernel.
    """
    case = case or make_case()
    if not metric:
        is_ending = kind in ("outcome", "vanished", "late")
        metric = "outcome" if is_ending else "kernel_s" if kind == "masked" else "latency_s"
    has_levels = kind in ("step", "drift", "masked")
    has_change = has_levels or kind == "variance"
    return Alert(
        id=id,
        series_key=series_key(case, metric=metric, fingerprint=fingerprint),
        kind=kind,
        state=AlertState(state),
        verdict=Verdict(verdict),
        case=case,
        metric=metric,
        unit=unit,
        machine=machine,
        toolchain=toolchain,
        fingerprint=fingerprint,
        first_bad=first_bad or make_run_ref(),
        last_seen=last_seen,
        last_good=last_good,
        baseline=baseline if has_levels else None,
        candidate=candidate if has_levels else None,
        change_pct=change_pct if has_change else None,
        interval_pct=interval_pct if has_change else None,
        is_confirmed=is_confirmed,
        cause_kind=cause_kind,
    )


def make_notification(
    id: str = "msg_1",
    *,
    receiver: str = "ops",
    subject: str | None = None,
    kind: AlertChangeKind | str = AlertChangeKind.OPENED,
    severity: Severity | str = Severity.MAJOR,
    title: str = "bert is slower",
    alert_ids: Sequence[str] | None = None,
    number: int = 1,
    created_at: datetime = START,
    due_at: datetime | None = None,
) -> Notification:
    """Return a pending notification about an alert of its own."""
    return Notification(
        id=id,
        receiver=receiver,
        subject=f"event of {id}" if subject is None else subject,
        kind=AlertChangeKind(kind),
        severity=Severity(severity),
        title=title,
        alert_ids=(f"alert of {id}",) if alert_ids is None else tuple(alert_ids),
        created_at=created_at,
        due_at=due_at or created_at,
        number=number,
    )


def make_scheduler(*, machine: str = "box") -> SchedulerState:
    """Return the report of an idle scheduler."""
    return SchedulerState(
        machine=machine,
        process=f"{machine}/7/1",
        version="0.1.0",
        started_at=START,
        heartbeat_at=START,
    )
