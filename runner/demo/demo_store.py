"""The store of `hud demo`: the synthetic nights, and what people and schedulers would add."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path

from compile_hud.db.alerts.annotations import new_annotation, put_annotations
from compile_hud.db.ingest.results import put_documents
from compile_hud.db.jobs.health import (
    SYNTHETIC_VERSION,
    DeviceState,
    SchedulerState,
    ScheduleState,
    save_scheduler,
)
from compile_hud.db.queries.alerts import load_alerts
from compile_hud.db.queries.runs import load_runs
from compile_hud.db.records.alerts import Alert, AlertState
from compile_hud.db.records.kernels import Profile, profile_of
from compile_hud.db.records.results import Case, CaseResult, Dtype, Phase, RunDocument
from compile_hud.db.records.triage import ONGOING
from compile_hud.db.shared.text import counted
from compile_hud.db.shared.trace_paths import trace_name
from compile_hud.db.store import Store
from compile_hud.runner.analysis.alerts.triage import Decide, set_muted, set_owner, set_state
from compile_hud.runner.analysis.studies.catalog import FAMILIES
from compile_hud.runner.demo.history import (
    BLOCKS,
    DRIFT,
    DRIVER_FROM,
    FP32_SPIKE,
    MAIN,
    SECOND,
    SECOND_BLOCKS,
    STEP,
    SUITE,
    TRAINING_STEP,
    release_runs,
    study_run,
    synthetic_history,
)
from compile_hud.runner.demo.traces import write_traces
from compile_hud.runner.detection.detect import detect
from compile_hud.runner.events import Event, LogMessage, Notify

NUM_NIGHTS = 180
# Runs are written in batches, each of some seconds, so that the progress goes on.
_BATCH = 100
_OWNER = "ada"


def _ignore(_event: Event) -> None:
    """Show no progress."""


def fill_demo(
    store: Store,
    *,
    now: Callable[[], datetime],
    nights: int = NUM_NIGHTS,
    seed: int = 0,
    traces: Path | None = None,
    notify: Notify = _ignore,
) -> int:
    """Write a synthetic history that ends last night and judge it; return the number of results.

    The traces of its newest runs go to the folder `traces`. A second call changes nothing. `notify`
    gets a message at the start of each step. Raises MixedStoreError if the store has real runs, and
    OSError if a trace cannot be written.
    """
    if any(item.run.is_synthetic for item in load_runs(store, limit=1)):
        # Nights of another length have other planted changes: a mixture is no history.
        return 0
    store.check_takes_synthetic()
    # A store that cannot be written is reported before a history is made for it.
    with store.write():
        pass
    notify(LogMessage(text=f"making {counted(nights, 'night')} of two machines"))
    documents = [
        *synthetic_history(now=now, nights=nights, seed=seed, machine=MAIN, blocks=BLOCKS),
        *synthetic_history(now=now, nights=nights, seed=seed, machine=SECOND, blocks=SECOND_BLOCKS),
        *([study_run(FAMILIES, now=now, nights=nights, seed=seed)] if nights > 4 else []),
        *(release_runs(now=now, nights=nights, seed=seed) if nights > 5 else []),
    ]
    documents.sort(key=lambda document: document.run.started_at)
    if traces is not None:
        documents = [_with_trace_names(document) for document in documents]
    num_made = sum(len(document.results) for document in documents)
    runs = counted(len(documents), "run")
    notify(LogMessage(text=f"storing {runs} with {counted(num_made, 'result')}"))
    num_results = 0
    with store.write() as connection:
        for start in range(0, len(documents), _BATCH):
            batch = documents[start : start + _BATCH]
            num_results += put_documents(connection, batch, at=now())
            num_stored = start + len(batch)
            if num_stored < len(documents):
                notify(LogMessage(text=f"{num_stored} of {runs} stored"))
    if not num_results:
        return 0
    if traces is not None:
        notify(LogMessage(text="writing the traces of the newest runs"))
        write_traces(documents, folder=traces)
    notify(LogMessage(text="judging the history"))
    report = detect(store)
    notify(LogMessage(text=f"{counted(len(report.alerts), 'alert')} opened"))
    _triage(store, now=now())
    _annotate(store, now=now(), nights=nights)
    save_scheduler(store, _scheduler(now()))
    return num_results


def _with_trace_names(document: RunDocument) -> RunDocument:
    return replace(document, results=tuple(map(_with_trace_name, document.results)))


def _with_trace_name(result: CaseResult) -> CaseResult:
    profile = profile_of(result.details)
    if profile is None or not profile.timeline:
        return result
    named: Profile = replace(profile, trace=trace_name(result.id) or "")
    return replace(result, details={**result.details, "profile": named.to_json()})


def _triage(store: Store, *, now: datetime) -> None:
    """Decide about some alerts, so that there is one in each state."""
    decisions: tuple[tuple[Collection[str], Callable[[Collection[str]], Decide]], ...] = (
        (
            _ids(store, DRIFT),
            lambda ids: set_state(ids, AlertState.ACKNOWLEDGED, why="bisecting torch nightlies"),
        ),
        (_ids(store, DRIFT), lambda ids: set_owner(ids, _OWNER)),
        (
            _ids(store, TRAINING_STEP, phase=Phase.TRAINING),
            lambda ids: set_state(ids, AlertState.EXPECTED, why="deterministic cuDNN algorithms"),
        ),
        (
            _ids(store, FP32_SPIKE, dtype=Dtype.FP32, states=(AlertState.FIXED,)),
            lambda ids: set_state(ids, AlertState.NOISE, why="the fan of the machine was dusty"),
        ),
        (
            _ids(store, STEP, machine=SECOND.name),
            lambda ids: set_muted(ids, now + timedelta(days=3), why="muted on the workstation"),
        ),
    )
    for ids, decision in decisions:
        if ids:
            store.revise_alerts(decision(ids), by=_OWNER)


def _ids(
    store: Store,
    name: tuple[str, str],
    *,
    phase: Phase = Phase.INFERENCE,
    dtype: Dtype = Dtype.BF16,
    machine: str = MAIN.name,
    states: Collection[AlertState] = ONGOING,
) -> list[str]:
    """Return the ids of the alerts of a model's mode in `states`."""

    def is_meant(alert: Alert) -> bool:
        case: Case = alert.case
        return (
            (case.model, case.mode, case.phase, case.dtype) == (*name, phase, dtype)
            and alert.machine == machine
            and alert.state in states
        )

    return [alert.id for alert in load_alerts(store) if is_meant(alert)]


def _annotate(store: Store, *, now: datetime, nights: int) -> None:
    at = now - timedelta(days=round((1 - DRIVER_FROM) * nights))
    text = "Driver 580 installed on the GPU machine."
    put_annotations(store, [new_annotation(text, at=at, pattern="*", by=_OWNER, made_at=at)])


def _scheduler(now: datetime) -> SchedulerState:
    """Return the report of a scheduler that waits for the next night."""
    next_at = now.replace(hour=2, minute=30, second=0, microsecond=0)
    if next_at <= now:
        next_at += timedelta(days=1)
    return SchedulerState(
        machine=MAIN.name,
        process=f"{MAIN.name}/1/1",
        version=SYNTHETIC_VERSION,
        started_at=now - timedelta(days=12),
        heartbeat_at=now,
        schedules=(
            ScheduleState(
                name="nightly", suite=SUITE, toolchain="nightly", rule="30 2 * * *", next_at=next_at
            ),
        ),
        devices=(DeviceState(device="cuda:0", name=MAIN.device_name),),
    )
