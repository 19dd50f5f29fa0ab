"""Audit of the nights: each is there once and whole, or explained; every alert was reported."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date
from pathlib import Path

from benchmarks.nights.machine import Machine
from benchmarks.nights.simulation import FaultKind, Plan, Rule
from compile_hud.db.alerts.outbox import load_outbox
from compile_hud.db.jobs.health import load_health
from compile_hud.db.jobs.queue import JobState, QueuedJob
from compile_hud.db.queries.alerts import load_alerts
from compile_hud.db.queries.results import load_document
from compile_hud.db.queries.runs import load_runs
from compile_hud.db.records.alerts import Alert
from compile_hud.db.records.notifications import (
    WAITING,
    AlertChangeKind,
    Notification,
    NotificationState,
)
from compile_hud.db.records.results import CaseResult, Outcome, RunDocument, RunState
from compile_hud.db.store import Store

# More than thirty nights have.
ALL = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """The evidence after the nights.

    `taken` are the ids of notifications in the order in which the receiver took them. `orphans` are
    processes that should have ended. `left` are files that should have gone into the store.
    """

    jobs: tuple[QueuedJob, ...]
    documents: tuple[RunDocument, ...]
    alerts: tuple[Alert, ...]
    notifications: tuple[Notification, ...]
    taken: tuple[str, ...]
    orphans: tuple[str, ...]
    left: tuple[str, ...]

    def runs_of(self, key: str) -> list[RunDocument]:
        """Return the runs of the job with this key."""
        return [item for item in self.documents if item.run.trigger == f"job {key}"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Fate:
    """The outcome of one schedule in one night, and its explanation if it is not ok."""

    night: date
    schedule: str
    thrown_in: str
    came: str
    explained_by: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Audit:
    """Outcome of each night, and the problems, which should be none."""

    fates: tuple[Fate, ...]
    problems: tuple[str, ...]


def gather(machine: Machine) -> Evidence:
    """Return the evidence on `machine` and at its receiver."""
    store = Store(f"duckdb:///{machine.store_path}")
    health = load_health(store, num_ended=ALL)
    runs = [summary.run for summary in load_runs(store, limit=ALL)]
    documents = [load_document(store, run.id) for run in reversed(runs)]
    return Evidence(
        jobs=(*health.ended_jobs, *health.open_jobs),
        documents=tuple(documents),
        alerts=tuple(load_alerts(store)),
        notifications=load_outbox(store),
        taken=tuple(machine.taken()),
        orphans=tuple(machine.seen.orphans),
        left=tuple(_files_left(machine.state)),
    )


def _files_left(state: Path) -> Iterator[str]:
    for folder in ("jobs", "spool", "work"):
        for path in (state / folder).rglob("*"):
            if path.is_file():
                yield str(path.relative_to(state))


def audit(evidence: Evidence, *, plan: Plan) -> Audit:
    """Return the audit of the nights of `plan` by `evidence`."""
    jobs: dict[tuple[str, str], list[QueuedJob]] = defaultdict(list)
    for job in evidence.jobs:
        name, _, at = job.dedupe_key.partition(" ")
        jobs[name, at.partition("T")[0]].append(job)
    fates, problems = [], []
    for night, troubles in plan.nights():
        for rule in plan.rules:
            if not rule.moments(night):
                continue
            night_jobs = jobs.pop((rule.name, night.isoformat()), [])
            wrong = list(_wrong_with(night_jobs, evidence=evidence))
            problems += [f"{text} ({rule.name} {night})" for text in wrong]
            fates.append(_fate(night, rule, troubles, night_jobs, evidence=evidence))
    problems += [f"unexpected: a job {name} of {day}" for name, day in jobs]
    problems += [f"orphan: {text}" for text in evidence.orphans]
    problems += [f"left over: {path}" for path in evidence.left]
    problems += _untold_failures(evidence)
    problems += _untold_alerts(evidence)
    problems += _unsent(evidence)
    problems += _unseen_slowdown(evidence, plan=plan)
    return Audit(fates=tuple(fates), problems=tuple(problems))


def _wrong_with(jobs: list[QueuedJob], *, evidence: Evidence) -> Iterator[str]:
    """Yield the problems of one schedule in one night, by its jobs."""
    if not jobs:
        yield "missing: no job"
    if len(jobs) > 1:
        yield f"duplicate: {len(jobs)} jobs"
    for job in jobs:
        runs = evidence.runs_of(job.dedupe_key)
        if len(runs) > 1:
            yield f"duplicate: {len(runs)} runs"
        if job.state is JobState.FAILED:
            if not job.reason:
                yield "missing: its job failed and says nothing"
            continue
        if job.state is not JobState.DONE:
            yield f"missing: its job is {job.state}, held by {job.holder}"
        if not runs:
            yield "missing: no run"
        for document in runs:
            yield from _wrong_with_run(document)


def _wrong_with_run(document: RunDocument) -> Iterator[str]:
    if document.run.state is not RunState.FINISHED:
        yield f"missing: run {document.run.id} is {document.run.state}"
    planned = Counter(case.key for case in document.run.plan)
    measured = Counter(result.case.key for result in document.results)
    for key in planned - measured:
        yield f"missing: no result of {key} in run {document.run.id}"
    for key in measured - planned:
        yield f"duplicate: results of {key} in run {document.run.id}"
    for result in document.results:
        if result.outcome is not Outcome.OK and not result.reason:
            yield f"missing: {result.case.key} is {result.outcome} and says nothing"


def _untold_failures(evidence: Evidence) -> Iterator[str]:
    """Yield the bad results without a reported alert that covers their time."""
    notified = _notified_alerts(evidence)
    for document in evidence.documents:
        for result in document.results:
            if result.outcome is Outcome.OK:
                continue
            at = document.run.started_at
            if not any(
                alert.case.key == result.case.key and alert.first_bad.at <= at <= alert.last_seen
                for alert in evidence.alerts
                if alert.id in notified
            ):
                yield f"lost alert: {_ending(result)} in run {document.run.id}"


def _notified_alerts(evidence: Evidence) -> set[str]:
    """Return the ids of the alerts that the receiver got as something bad."""
    bad = (AlertChangeKind.OPENED, AlertChangeKind.REOPENED)
    return {
        id
        for item in evidence.notifications
        if item.kind in bad and item.id in evidence.taken
        for id in item.alert_ids
    }


def _untold_alerts(evidence: Evidence) -> Iterator[str]:
    notified = _notified_alerts(evidence)
    for alert in evidence.alerts:
        if alert.id not in notified:
            yield f"lost alert: {alert.case.key} {alert.metric}, {alert.cause_text}"


def _unsent(evidence: Evidence) -> Iterator[str]:
    """Yield the notifications that the receiver did not take exactly once."""
    times = Counter(evidence.taken)
    for item in evidence.notifications:
        if item.state in (*WAITING, NotificationState.DEAD):
            yield f"lost alert: {item.title!r} is {item.state}"
        elif item.state is NotificationState.SENT and times[item.id] != 1:
            what = "duplicate" if times[item.id] else "lost alert"
            yield f"{what}: {item.title!r} was sent, and taken {times[item.id]} times"


def _unseen_slowdown(evidence: Evidence, *, plan: Plan) -> Iterator[str]:
    if any(FaultKind.SLOWER in troubles for troubles in plan.troubles.values()) and not any(
        alert.metric == "latency_s" and alert.case.model == "steady" for alert in evidence.alerts
    ):
        yield "lost alert: a model became slower, and no alert says so"


def _fate(
    night: date,
    rule: Rule,
    troubles: tuple[FaultKind, ...],
    jobs: list[QueuedJob],
    *,
    evidence: Evidence,
) -> Fate:
    documents = [item for job in jobs for item in evidence.runs_of(job.dedupe_key)]
    results = [result for document in documents for result in document.results]
    num_planned = sum(len(document.run.plan) for document in documents)
    num_ok = sum(result.outcome is Outcome.OK for result in results)
    attempts = [f"attempt {job.num_attempts}" for job in jobs if job.num_attempts > 1]
    reasons = [job.reason for job in jobs if job.reason]
    endings = [_ending(result) for result in results if result.outcome is not Outcome.OK]
    return Fate(
        night=night,
        schedule=rule.name,
        thrown_in=", ".join(troubles) if rule.name == "berlin" else "",
        came=", ".join([f"{num_ok} of {num_planned} ok" if documents else "no run", *attempts]),
        explained_by="; ".join([*reasons, *endings]),
    )


def _ending(result: CaseResult) -> str:
    return f"{result.case.model} {result.outcome}: {result.reason.splitlines()[0]}"
