"""A failure that lasts and changes: one alert, whose reader hears of the new error."""

from __future__ import annotations

import dataclasses
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from compile_hud.db.ingest.results import put_documents
from compile_hud.db.queries.runs import load_last_ending
from compile_hud.db.records.alerts import Alert, AlertState
from compile_hud.db.records.results import Outcome
from compile_hud.db.records.summaries import LastEnding
from compile_hud.runner.analysis.outcomes.outcomes import fails_otherwise, reported_reason
from tests.support.builders import (
    START,
    make_alert,
    make_case,
    make_document,
    make_result,
    make_run,
)
from tests.support.stores.stored_results import save_alerts
from tests.support.terminal import Terminal

OLD = "OutOfMemoryError: tried to allocate 2.00 GiB, 312.5 MiB are free"
NEW = "BackendCompilerFailed: no choices to select\nat kernel.py:12"
NEW_AS_ONE_LINE = NEW.replace("\n", " ")
CASE = make_case("bert")


def failure(cause: str, **facts: Any) -> Alert:
    alert = make_alert(case=CASE, kind="outcome", **facts)
    return dataclasses.replace(alert, cause_text=cause)


def ending(reason: str, *, outcome: Outcome = Outcome.FAILED) -> LastEnding:
    return LastEnding(outcome=outcome, reason=reason)


@pytest.mark.parametrize(
    ("last", "text"),
    [
        (ending(NEW), f"failed: {NEW_AS_ONE_LINE}"),
        (ending(OLD, outcome=Outcome.TIMEOUT), f"timeout: {OLD}"),
        (ending(OLD), ""),
        # Only numbers differ.
        (ending("OutOfMemoryError: tried to allocate 14 GiB, 0x7fe0 MiB are free"), ""),
        (ending("", outcome=Outcome.OK), ""),
        (None, ""),
    ],
)
def test_only_another_failure_is_reported(last: LastEnding | None, text: str) -> None:
    cause = f"ok -> failed: {OLD}; since the last good run: torch 2.12.0 -> 2.13.0"
    alert = failure(cause)
    assert fails_otherwise(alert, load_last=lambda _alert: last) == text


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (
            "C++ compile error Command: g++ /tmp/hud/run-1a2b3c4d5e6f/cache/ab/cabc7x.cpp -O3",
            "C++ compile error Command: g++ /tmp/hud/run-0f9e8d7c6b5a/cache/ab/cabc7x.cpp -O3",
        ),
        (
            "Triton error at 7f3a10bc: c5kx3q2zr7yb4m2n",
            "Triton error at 00ff12ab: cq8yyz1rt7ub5m0p",
        ),
        ("x" * 400 + " 1234 " + "y" * 400, "x" * 400 + " 7 " + "y" * 400),
    ],
)
def test_folders_and_hashes_are_no_other_failure(first: str, second: str) -> None:
    cause = f"ok -> failed: {reported_reason(first)}"
    assert fails_otherwise(failure(cause), load_last=lambda _alert: ending(second)) == ""


@pytest.mark.parametrize(
    ("first", "second"),
    [("RuntimeError: other", "RuntimeError"), ("RuntimeError", "RuntimeError: other")],
)
def test_an_error_that_begins_like_another_is_another(first: str, second: str) -> None:
    assert fails_otherwise(
        failure(f"ok -> failed: {first}"), load_last=lambda _alert: ending(second)
    )


@pytest.mark.parametrize(
    "alert", [failure("ok -> failed", state=AlertState.EXPECTED), make_alert(kind="step")]
)
def test_what_is_settled_or_no_failure_fails_in_no_other_way(alert: Alert) -> None:
    assert fails_otherwise(alert, load_last=lambda _alert: pytest.fail("loaded for nothing")) == ""


@pytest.fixture
def terminal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Terminal:
    monkeypatch.chdir(tmp_path)
    terminal = Terminal(tmp_path)
    nights = [
        (Outcome.OK, ""),
        (Outcome.FAILED, OLD),
        (Outcome.FAILED, NEW),
        (Outcome.SKIPPED, "left out"),
    ]
    documents = []
    for number, (outcome, reason) in enumerate(nights):
        at = START + timedelta(days=number)
        run = make_run(f"run-{number}", plan=[CASE], started_at=at, finished_at=at)
        result = make_result(f"bert-{number}", run=run, outcome=outcome, reason=reason)
        documents.append(make_document(run, results=[result]))
    with terminal.store().write() as connection:
        put_documents(connection, documents, at=START)
    save_alerts(terminal.store(), [failure(f"ok -> failed: {OLD}")])
    return terminal


def test_who_looks_at_the_alert_reads_how_its_case_fails_now(terminal: Terminal) -> None:
    lines = terminal.hud("alerts", "show", "alert-1").stdout.splitlines()
    assert f"what       ok -> failed: {OLD}" in lines
    assert f"fails now  failed: {NEW_AS_ONE_LINE}" in lines


def test_the_newest_run_that_tried_a_case_counts_on_its_machine_alone(terminal: Terminal) -> None:
    alert, store = failure("ok -> failed"), terminal.store()
    last = load_last_ending(store, alert)
    assert last == ending(NEW)
    elsewhere = dataclasses.replace(alert, machine="other")
    assert load_last_ending(store, elsewhere) is None
    assert load_last_ending(store, dataclasses.replace(alert, case=make_case("t5"))) is None
