"""Alerts whose first bad run turns out to be an earlier one: what is known of them goes along."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from db.queries import load_alerts
from db.records import Alert, RunDocument
from db.store import Store
from runner.detect import detect
from tests.integration.test_detect import nights, put
from tests.stored import save_alerts

# The night at which the speedup falls, which comes late.
LATE = 12


def put_nights(store: Store, documents: Sequence[RunDocument]) -> Alert:
    """Store these nights, judge, and return the only alert."""
    put(store, documents)
    detect(store)
    (alert,) = load_alerts(store)
    return alert


def made_nights() -> list[RunDocument]:
    """Return nights of which two have one revision each, from one level to another."""
    made = nights([2.0] * LATE + [1.7] * 6)
    return [
        dataclasses.replace(
            document, run=dataclasses.replace(document.run, revision=f"r{(number + 1) // 2}")
        )
        for number, document in enumerate(made)
    ]


def in_memory() -> Store:
    """Return an empty store."""
    store = Store("duckdb:///:memory:")
    store.migrate()
    return store


def facts(alert: Alert) -> tuple[object, ...]:
    """Return what is told of an alert, without its id."""
    return (alert.first_bad, alert.cause_kind, alert.cause_text, alert.environment_diff)


def test_the_cause_is_that_of_the_ends_as_they_are_now(store: Store) -> None:
    made = made_nights()
    before = put_nights(store, [*made[:LATE], *made[LATE + 1 :]])
    assert before.first_bad.run_id == made[LATE + 1].run.id
    assert before.cause_text == "since the last good run: revision r6 -> r7"
    moved = put_nights(store, [made[LATE]])
    assert moved.id == before.id
    assert facts(moved) == facts(put_nights(in_memory(), made))
    assert (moved.cause_text, moved.environment_diff) == ("", {})


def test_what_measuring_again_told_holds_for_the_moved_onset(store: Store) -> None:
    made = made_nights()
    before = put_nights(store, [*made[:LATE], *made[LATE + 1 :]])
    told = {"cause": {"kind": "compiler", "text": "measured in turn: compiler side"}}
    save_alerts(store, [dataclasses.replace(before, is_confirmed=True, confirmation=told)])
    for documents in ([made[LATE]], nights([1.7], first=30)):
        alert = put_nights(store, documents)
        assert alert.first_bad.run_id == made[LATE].run.id
        assert (alert.id, alert.is_confirmed, alert.cause_kind) == (before.id, True, "compiler")
        assert alert.cause_text.startswith("measured in turn: compiler side")
