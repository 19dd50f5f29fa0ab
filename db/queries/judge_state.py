"""The state of the detector besides alerts: events, and the candidates of each case."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from sqlalchemy import delete, func, insert, select
from sqlalchemy.engine import Connection

from compile_hud.db.records.alerts import Event, EventKind
from compile_hud.db.records.results import REFERENCE_FAMILY
from compile_hud.db.schema.tables import CaseResultTable, CaseTable, EventTable, JudgedTable
from compile_hud.db.store import Store


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeState:
    """The candidates of one case (a list in JSON), and the stamp of their results and rules."""

    stamp: str
    claims: str


def load_events(store: Store, *, ids: Collection[str] | None = None) -> dict[str, Event]:
    """Return the events by id; with `ids` only those."""
    query = select(EventTable)
    if ids is not None:
        query = query.where(EventTable.c.id.in_(ids))
    with store.read() as connection:
        return {
            row.id: Event(id=row.id, kind=EventKind(row.kind), title=row.title, size=row.size)
            for row in connection.execute(query)
        }


def load_judge_states(store: Store) -> dict[str, JudgeState]:
    """Return the last state of each case, by the case's key."""
    with store.read() as connection:
        return {
            row.case_key: JudgeState(stamp=row.stamp, claims=row.claims)
            for row in connection.execute(select(JudgedTable))
        }


def load_case_stamps(store: Store) -> dict[str, str]:
    """Return a text for each case that changes with its results, by the case's key.

    The reference cases of its runs are evidence for its causes, so their results change it too.
    """
    references = (
        select(CaseResultTable.c.run_id, func.count().label("num"))
        .join(CaseTable, CaseTable.c.key == CaseResultTable.c.case_key)
        .where(CaseTable.c.family == REFERENCE_FAMILY)
        .group_by(CaseResultTable.c.run_id)
        .subquery()
    )
    stamps = (
        select(
            CaseResultTable.c.case_key,
            func.count().label("num"),
            func.min(CaseResultTable.c.finished_at).label("first"),
            func.max(CaseResultTable.c.finished_at).label("last"),
            func.sum(func.coalesce(references.c.num, 0)).label("num_references"),
        )
        .outerjoin(references, references.c.run_id == CaseResultTable.c.run_id)
        .group_by(CaseResultTable.c.case_key)
    )
    with store.read() as connection:
        return {
            row.case_key: f"{row.num} {row.first.timestamp()} {row.last.timestamp()}"
            f" {int(row.num_references)}"
            for row in connection.execute(stamps)
        }


def save_judge_states(
    store: Store,
    *,
    judged: Mapping[str, JudgeState],
    events: Iterable[Event],
    event_ids: Collection[str],
) -> None:
    """Replace the stored states and events; nothing is written if they are equal.

    Of all events, those remain that have alerts; `event_ids` returns their ids.
    """
    before, known = load_judge_states(store), load_events(store)
    newest = known | {event.id: event for event in events}
    by_id = {key: event for key, event in newest.items() if key in event_ids}
    changed = {key: item for key, item in judged.items() if before.get(key) != item}
    moved = [event for event in by_id.values() if known.get(event.id) != event]
    gone, over = before.keys() - judged.keys(), known.keys() - by_id.keys()
    if not (changed or moved or gone or over):
        return
    with store.write() as connection:
        _replace_judged(connection, changed, gone=gone)
        replaced = {*over, *(event.id for event in moved)}
        connection.execute(delete(EventTable).where(EventTable.c.id.in_(replaced)))
        if moved:
            connection.execute(insert(EventTable), [event.to_json() for event in moved])


def _replace_judged(
    connection: Connection, changed: Mapping[str, JudgeState], *, gone: Collection[str]
) -> None:
    connection.execute(delete(JudgedTable).where(JudgedTable.c.case_key.in_([*changed, *gone])))
    if changed:
        rows = [
            {"case_key": key, "stamp": item.stamp, "claims": item.claims}
            for key, item in changed.items()
        ]
        connection.execute(insert(JudgedTable), rows)
