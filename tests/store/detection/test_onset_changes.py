"""An alert whose first bad run turns out to be an earlier one takes its records along."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import pytest
from syrupy.assertion import SnapshotAssertion

from compile_hud.db.queries.alerts import load_alerts
from compile_hud.db.records.alerts import Alert, AlertState
from compile_hud.db.records.results import RunDocument
from compile_hud.db.store import Store
from compile_hud.runner.analysis.alerts.triage import set_state
from compile_hud.runner.detection.detect import detect
from tests.store.detection.test_detect import nights, put
from tests.support.stores.stored_results import save_alerts

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
    documents = nights([2.0] * LATE + [1.7] * 6)
    return [
        dataclasses.replace(
            document, run=dataclasses.replace(document.run, revision=f"r{(number + 1) // 2}")
        )
        for number, document in enumerate(documents)
    ]


def in_memory() -> Store:
    """Return an empty store."""
    store = Store("duckdb:///:memory:")
    store.migrate()
    return store


def facts(alert: Alert) -> tuple[object, ...]:
    """Return the reported fields of an alert, without its id."""
    return (alert.first_bad, alert.cause_kind, alert.cause_text, alert.environment_diff)


def test_the_cause_is_that_of_the_ends_as_they_are_now(
    store: Store, words: SnapshotAssertion
) -> None:
    documents = made_nights()
    before = put_nights(store, [*documents[:LATE], *documents[LATE + 1 :]])
    assert before.first_bad.run_id == documents[LATE + 1].run.id
    assert before.cause_text == words
    moved = put_nights(store, [documents[LATE]])
    assert moved.id == before.id
    assert facts(moved) == facts(put_nights(in_memory(), documents))
    assert (moved.cause_text, moved.environment_diff) == ("", {})


def test_what_measuring_again_reported_holds_for_the_moved_onset(store: Store) -> None:
    made = made_nights()
    before = put_nights(store, [*made[:LATE], *made[LATE + 1 :]])
    text = "measured in turn: compiler side"
    fields = {"cause": {"kind": "compiler", "text": text}}
    save_alerts(store, [dataclasses.replace(before, is_confirmed=True, confirmation=fields)])
    for documents in ([made[LATE]], nights([1.7], first=30)):
        alert = put_nights(store, documents)
        assert alert.first_bad.run_id == made[LATE].run.id
        assert (alert.id, alert.is_confirmed, alert.cause_kind) == (before.id, True, "compiler")
        assert alert.cause_text.startswith(text)


def failing_nights() -> list[RunDocument]:
    """Return nights of a case that fails from `LATE` on, the first of these on another driver."""
    documents = nights([*[2.0] * LATE, *["no room"] * 3])
    late = dataclasses.replace(documents[LATE].run, fingerprint="e" * 32)
    documents[LATE] = dataclasses.replace(documents[LATE], run=late)
    return documents


def expected(store: Store, alert: Alert) -> Alert:
    """Accept `alert` and return it as it is then."""
    decide = set_state([alert.id], AlertState.EXPECTED, why="dropped upstream")
    return store.revise_alerts(decide, by="ada").alerts[0]


@pytest.mark.parametrize("made", [failing_nights(), nights([2.0] * LATE + ["no room"] * 3)])
def test_an_expected_failure_that_began_sooner_stays_expected(
    store: Store, made: list[RunDocument]
) -> None:
    accepted = expected(store, put_nights(store, [*made[:LATE], *made[LATE + 1 :]]))
    assert put_nights(store, [made[LATE]]) == accepted
    put(store, nights([*[2.0] * 14, "another"], first=40))
    detect(store)
    assert {str(alert.state) for alert in load_alerts(store)} == {"expected", "open"}


def test_an_expected_level_that_began_sooner_stays_expected(store: Store) -> None:
    documents = nights([2.0] * LATE + [1.7] * 10)
    accepted = expected(store, put_nights(store, [*documents[:LATE], *documents[LATE + 4 :]]))
    assert put_nights(store, documents[LATE : LATE + 4]) == accepted


def test_a_failure_that_began_sooner_on_another_driver_is_one_alert(store: Store) -> None:
    documents = failing_nights()
    before = put_nights(store, [*documents[:LATE], *documents[LATE + 1 :]])
    moved = put_nights(store, [documents[LATE]])
    assert (moved.id, moved.state) == (before.id, AlertState.OPEN)
    assert moved.first_bad.run_id == documents[LATE].run.id
    assert "no room" in moved.cause_text
