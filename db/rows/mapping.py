"""Records to rows and back; notifications are also inserted here."""

from __future__ import annotations

import dataclasses
import functools
import json
import math
import operator
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timezone
from hashlib import md5, sha256
from types import SimpleNamespace
from typing import Any

from sqlalchemy import Row, func, insert, select, update
from sqlalchemy.engine import Connection

from compile_hud.db.records.alerts import Alert, AlertState
from compile_hud.db.records.imported import Statement, stated_directions
from compile_hud.db.records.metrics import Direction
from compile_hud.db.records.notifications import (
    AlertChangeKind,
    Notification,
    NotificationState,
    Severity,
)
from compile_hud.db.records.results import (
    Case,
    CaseResult,
    Dtype,
    Measurement,
    Outcome,
    Phase,
    Run,
    RunRef,
    RunState,
    Verdict,
    series_key,
)
from compile_hud.db.records.run_warning import RunWarning
from compile_hud.db.records.triage import AlertChange, ChangedField, SeriesSettings
from compile_hud.db.schema.tables import OutboxTable
from compile_hud.db.shared.text import one_line

Values = dict[str, Any]
_CASE_FIELDS = tuple(field.name for field in dataclasses.fields(Case))
_case_fields_of = operator.attrgetter(*_CASE_FIELDS)
_ALERT_TIMES = ("first_bad_at", "last_good_at", "last_seen", "muted_until")


def utc(moment: datetime) -> datetime:
    """Return `moment`, which a driver gave in its own time zone, in UTC."""
    return moment.astimezone(timezone.utc)


def statements(result: CaseResult, *, run: Run) -> dict[str, Statement]:
    """Return the better direction of each series in the file of an imported `result`."""
    return {
        series_key(result.case, metric=metric, fingerprint=run.fingerprint): Statement(
            direction=direction, at=run.started_at
        )
        for metric, direction in stated_directions(result).items()
    }


def statement_values(statement: Statement | None) -> Values:
    """Return the columns of `series` with the better direction, null if it is unknown."""
    if statement is None:
        return {"direction": None, "direction_at": None}
    return {"direction": str(statement.direction), "direction_at": utc(statement.at)}


def statement_record(row: Row[Any]) -> Statement | None:
    """Return the stated direction in a row of `series`, None without one."""
    if row.direction is None or row.direction_at is None:
        return None
    return Statement(direction=Direction(row.direction), at=utc(row.direction_at))


def utc_or_none(moment: datetime | None) -> datetime | None:
    """Return `moment` in UTC, None for None."""
    return None if moment is None else utc(moment)


def clean_text(text: str) -> str:
    """Return `text` in the form that both databases store: no NUL character, no lone surrogate.

    The tail of a crashed worker's log may have any byte, and must not block the spool for ever.
    """
    # Nearly all texts are such; a history has hundreds of thousands.
    if text.isascii() and "\0" not in text:
        return text
    return (
        text.encode("utf-8", "replace").decode("utf-8").replace("\0", "\N{REPLACEMENT CHARACTER}")
    )


def clean_json(value: Any) -> Any:
    """Return `value` in the form that both databases store; a number that is not finite becomes
    text.
    """
    if isinstance(value, str):
        return clean_text(value)
    if isinstance(value, Mapping):
        return {clean_text(str(key)): clean_json(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [clean_json(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value


def run_values(run: Run) -> Values:
    """Return the row of `run`, without its heartbeat."""
    return {
        "id": run.id,
        "state": str(run.state),
        "started_at": utc(run.started_at),
        "finished_at": utc_or_none(run.finished_at),
        "suite": run.suite,
        "toolchain": run.toolchain,
        "revision": run.revision,
        "machine": run.machine,
        "fingerprint": run.fingerprint,
        "environment": clean_json(run.environment),
        "plan_hash": plan_hash(run.plan),
        "num_planned": len(run.plan),
        "trigger": run.trigger,
        "is_synthetic": run.is_synthetic,
    }


def plan_values(plan: Sequence[Case]) -> Values:
    """Return the row of `plan` in `plans`."""
    return {"hash": plan_hash(plan), "cases": [case.to_json() for case in plan]}


def plan_hash(plan: Sequence[Case]) -> str:
    """Return the SHA-256 of the cases of `plan`, in their order."""
    return _plan_hash(tuple(plan))


# The runs of a history have few different plans.
@functools.lru_cache(maxsize=64)
def _plan_hash(plan: tuple[Case, ...]) -> str:
    content = json.dumps([case.to_json() for case in plan], sort_keys=True)
    return sha256(content.encode()).hexdigest()


def run_record(row: Row[Any], *, plan: tuple[Case, ...]) -> Run:
    """Return the run of a row that has all columns of `runs`."""
    return Run(
        id=row.id,
        state=RunState(row.state),
        started_at=utc(row.started_at),
        finished_at=utc_or_none(row.finished_at),
        suite=row.suite,
        toolchain=row.toolchain,
        revision=row.revision,
        machine=row.machine,
        fingerprint=row.fingerprint,
        environment=row.environment,
        plan=plan,
        trigger=row.trigger,
        is_synthetic=row.is_synthetic,
    )


def case_values(case: Case) -> Values:
    """Return the row of `case`."""
    return {"key": case.key, **case.to_json()}


def case_record(row: Row[Any]) -> Case:
    """Return the case of a row that has all columns of `cases`."""
    return _case(*_case_fields_of(row))


# A page has thousands of rows about the same cases, and a record takes longer than its row.
@functools.lru_cache(maxsize=20_000)
def _case(*values: str) -> Case:
    facts: dict[str, Any] = dict(zip(_CASE_FIELDS, values, strict=True))
    return Case(**{**facts, "phase": Phase(facts["phase"]), "dtype": Dtype(facts["dtype"])})


def result_values(result: CaseResult) -> Values:
    """Return the row of `result` in `case_results`."""
    return {
        "id": result.id,
        "run_id": result.run_id,
        "case_key": result.case.key,
        "outcome": str(result.outcome),
        "reason": clean_text(result.reason),
        "effective_mode": result.effective_mode,
        "started_at": utc(result.started_at),
        "finished_at": utc(result.finished_at),
        "warnings": clean_json([warning.to_json() for warning in result.warnings]),
        "details": clean_json(result.details),
        "log_tail": clean_text(result.log_tail),
    }


def result_record(row: Row[Any], *, measurements: Iterable[Measurement]) -> CaseResult:
    """Return the result of a row that has the columns of `case_results` and `cases`."""
    return CaseResult(
        id=row.result_id,
        run_id=row.run_id,
        case=case_record(row),
        outcome=Outcome(row.outcome),
        reason=row.reason,
        effective_mode=row.effective_mode,
        started_at=utc(row.started_at),
        finished_at=utc(row.finished_at),
        warnings=warnings_of(row),
        measurements=tuple(measurements),
        details=row.details,
        log_tail=row.log_tail,
    )


def warnings_of(row: Row[Any]) -> tuple[RunWarning, ...]:
    """Return the warnings of a row of `case_results`."""
    return tuple(RunWarning.from_json(item) for item in row.warnings)


def measurement_values(result: CaseResult, *, run: Run) -> list[Values]:
    """Return the rows of `result` in `measurements`."""
    keys = {
        item.metric: series_key(result.case, metric=item.metric, fingerprint=run.fingerprint)
        for item in result.measurements
    }
    return [
        {
            "result_id": result.id,
            "metric": item.metric,
            "series_key": keys[item.metric],
            "run_id": run.id,
            "case_key": result.case.key,
            "run_started_at": utc(run.started_at),
            "unit": item.unit,
            "num_samples": len(item.samples),
            "median": item.median,
            "low": item.interval[0],
            "high": item.interval[1],
            "method": clean_text(item.method),
            "launches": list(item.launches),
            "series_hash": series_hash(keys[item.metric]),
        }
        for item in result.measurements
    ]


def series_hash(key: str) -> int:
    """Return the number by which `measurements` finds the rows of a series; others may share it."""
    return int(md5(key.encode(), usedforsecurity=False).hexdigest()[:7], 16)


def measurement_record(
    row: Row[Any], *, samples: Sequence[float], warmups: Sequence[float]
) -> Measurement:
    """Return the measurement of a row of `measurements` with its samples, in the metric's unit.

    If a rule removed the samples, the median replaces them, and the method says so.
    """
    if not samples:
        return Measurement(
            metric=row.metric,
            unit=row.unit,
            samples=(row.median,),
            median=row.median,
            interval=(row.low, row.high),
            method=f"{row.method}; samples removed",
        )
    return Measurement(
        metric=row.metric,
        unit=row.unit,
        samples=tuple(samples),
        warmups=tuple(warmups),
        launches=tuple(row.launches),
        median=row.median,
        interval=(row.low, row.high),
        method=row.method,
    )


def sample_columns(result: CaseResult) -> dict[str, list[Any]]:
    """Return the rows of `result` in `samples`, by column."""
    rows = [row for item in result.measurements for row in _sample_rows(result.id, item)]
    names = ("result_id", "metric", "is_warmup", "position", "launch", "value")
    return {name: [row[index] for row in rows] for index, name in enumerate(names)}


def _sample_rows(result_id: str, item: Measurement) -> list[tuple[Any, ...]]:
    launches = [number for number, count in enumerate(item.launches) for _ in range(count)] or [
        0
    ] * len(item.samples)
    samples = zip(launches, item.samples, strict=True)
    return [
        (result_id, item.metric, True, position, 0, value)
        for position, value in enumerate(item.warmups)
    ] + [
        (result_id, item.metric, False, position, launch, value)
        for position, (launch, value) in enumerate(samples)
    ]


def alert_values(alert: Alert) -> Values:
    """Return the row of `alert`."""
    good = alert.last_good
    low, high = alert.interval_pct or (None, None)
    return {
        "id": alert.id,
        "series_key": alert.series_key,
        "kind": alert.kind,
        "state": str(alert.state),
        "verdict": str(alert.verdict),
        "case_key": alert.case.key,
        "metric": alert.metric,
        "unit": alert.unit,
        "machine": alert.machine,
        "toolchain": alert.toolchain,
        "fingerprint": alert.fingerprint,
        "first_bad_run_id": alert.first_bad.run_id,
        "first_bad_revision": alert.first_bad.revision,
        "first_bad_at": utc(alert.first_bad.at),
        "last_good_run_id": None if good is None else good.run_id,
        "last_good_revision": None if good is None else good.revision,
        "last_good_at": None if good is None else utc(good.at),
        "last_seen": utc(alert.last_seen),
        "baseline": alert.baseline,
        "candidate": alert.candidate,
        "change_pct": alert.change_pct,
        "interval_low_pct": low,
        "interval_high_pct": high,
        "is_significant": alert.is_significant,
        "is_relevant": alert.is_relevant,
        "is_confirmed": alert.is_confirmed,
        "cause_kind": alert.cause_kind,
        "cause_text": clean_text(alert.cause_text),
        "event_id": alert.event_id or None,
        "owner": one_line(alert.owner) or None,
        "muted_until": utc_or_none(alert.muted_until),
        "note": one_line(alert.note) or None,
        "confirmation": clean_json(alert.confirmation),
        "environment_diff": clean_json(alert.environment_diff),
        "bisection": clean_json(alert.bisection),
    }


def alert_record(row: Any) -> Alert:
    """Return the alert of a row that has the columns of `alerts` and `cases`."""
    return Alert(
        id=row.id,
        series_key=row.series_key,
        kind=row.kind,
        state=AlertState(row.state),
        verdict=Verdict(row.verdict),
        case=case_record(row),
        metric=row.metric,
        unit=row.unit,
        machine=row.machine,
        toolchain=row.toolchain,
        fingerprint=row.fingerprint,
        first_bad=RunRef(
            run_id=row.first_bad_run_id, revision=row.first_bad_revision, at=utc(row.first_bad_at)
        ),
        last_good=_last_good(row),
        last_seen=utc(row.last_seen),
        baseline=row.baseline,
        candidate=row.candidate,
        change_pct=row.change_pct,
        interval_pct=_interval_pct(row),
        is_significant=row.is_significant,
        is_relevant=row.is_relevant,
        is_confirmed=row.is_confirmed,
        cause_kind=row.cause_kind,
        cause_text=row.cause_text,
        event_id=row.event_id or "",
        owner=row.owner or "",
        muted_until=utc_or_none(row.muted_until),
        note=row.note or "",
        confirmation=row.confirmation,
        environment_diff=row.environment_diff,
        bisection=row.bisection,
    )


def alert_document(alert: Alert) -> Values:
    """Return all of `alert` as a JSON object; `document_alert` reads it."""
    values = alert_values(alert) | alert.case.to_json()
    times = {name: values[name].isoformat() for name in _ALERT_TIMES if values[name] is not None}
    return values | times


def document_alert(document: Mapping[str, Any]) -> Alert:
    """Return the alert of `alert_document`."""
    times = {
        name: datetime.fromisoformat(document[name])
        for name in _ALERT_TIMES
        if document[name] is not None
    }
    return alert_record(SimpleNamespace(**{**document, **times}))


def change_values(change: AlertChange) -> Values:
    """Return the row of `change`, without its number."""
    # The id of a run is stored unchanged: a replay makes settings of it.
    clean = one_line if change.field is ChangedField.OWNER else clean_text
    return {
        "id": change.id,
        "alert_id": change.alert_id,
        "pattern": change.pattern,
        "at": utc(change.at),
        "field": str(change.field),
        "by": one_line(change.by),
        "old": clean(change.old),
        "new": clean(change.new),
        "why": one_line(change.why),
    }


def change_record(row: Row[Any]) -> AlertChange:
    """Return the change of a row of `alert_changes`."""
    return AlertChange(
        id=row.id,
        alert_id=row.alert_id,
        pattern=row.pattern,
        at=utc(row.at),
        by=row.by,
        field=ChangedField(row.field),
        old=row.old,
        new=row.new,
        why=row.why,
    )


def settings_values(settings: SeriesSettings) -> Values:
    """Return the row of `settings`."""
    return {
        "pattern": settings.pattern,
        "floor": settings.floor,
        "muted_until": utc_or_none(settings.muted_until),
        "owner": one_line(settings.owner) or None,
        "baseline_run_id": settings.baseline_run_id or None,
    }


def settings_record(row: Row[Any]) -> SeriesSettings:
    """Return the settings of a row of `series_settings`."""
    return SeriesSettings(
        pattern=row.pattern,
        floor=row.floor,
        muted_until=utc_or_none(row.muted_until),
        owner=row.owner or "",
        baseline_run_id=row.baseline_run_id or "",
    )


def _last_good(row: Row[Any]) -> RunRef | None:
    if row.last_good_run_id is None:
        return None
    return RunRef(
        run_id=row.last_good_run_id,
        revision=row.last_good_revision,
        at=utc(row.last_good_at),
    )


def _interval_pct(row: Row[Any]) -> tuple[float, float] | None:
    if row.interval_low_pct is None:
        return None
    return (row.interval_low_pct, row.interval_high_pct)


def put_notifications(connection: Connection, notifications: Sequence[Notification]) -> None:
    """Add the new ones of `notifications` in this order; a dropped one becomes pending again."""
    by_id = {item.id: item for item in notifications}
    if not by_id:
        return
    columns = select(OutboxTable.c.id, OutboxTable.c.state).where(OutboxTable.c.id.in_(by_id))
    known = {row.id: row.state for row in connection.execute(columns)}
    last = connection.execute(select(func.max(OutboxTable.c.number))).scalar() or 0
    new = [item for item in by_id.values() if item.id not in known]
    rows = [{**_values(item), "number": number} for number, item in enumerate(new, last + 1)]
    if rows:
        connection.execute(insert(OutboxTable), rows)
    dropped = [id for id, state in known.items() if state == NotificationState.DROPPED]
    for id in dropped:
        revived = {"state": str(NotificationState.PENDING), "due_at": utc(by_id[id].due_at)}
        connection.execute(update(OutboxTable).where(OutboxTable.c.id == id).values(**revived))


def _values(item: Notification) -> Values:
    return {
        "id": item.id,
        "receiver": item.receiver,
        "subject": item.subject,
        "kind": str(item.kind),
        "severity": str(item.severity),
        "title": one_line(item.title),
        "alert_ids": list(item.alert_ids),
        "created_at": utc(item.created_at),
        **delivery_values(item),
    }


def delivery_values(item: Notification) -> Values:
    """Return the columns that change while `item` is delivered."""
    return {
        "due_at": utc(item.due_at),
        "state": str(item.state),
        "num_attempts": item.num_attempts,
        "num_together": item.num_together,
        "delivery_id": item.delivery_id,
        "holder": item.holder,
        "attempted_at": utc_or_none(item.attempted_at),
        "last_error": clean_text(item.last_error),
    }


def notification_record(row: Row[Any]) -> Notification:
    """Return the notification of a row of `outbox`."""
    return Notification(
        id=row.id,
        receiver=row.receiver,
        subject=row.subject,
        kind=AlertChangeKind(row.kind),
        severity=Severity(row.severity),
        title=row.title,
        alert_ids=tuple(row.alert_ids),
        created_at=utc(row.created_at),
        due_at=utc(row.due_at),
        number=row.number,
        state=NotificationState(row.state),
        num_attempts=row.num_attempts,
        num_together=row.num_together,
        delivery_id=row.delivery_id,
        holder=row.holder,
        attempted_at=utc_or_none(row.attempted_at),
        last_error=row.last_error,
    )
