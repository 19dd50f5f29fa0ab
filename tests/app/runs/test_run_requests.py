"""Run requests: the required role, the queued job, and double clicks."""

from __future__ import annotations

import re
from datetime import timedelta
from pathlib import Path

import pytest
from syrupy.assertion import SnapshotAssertion

from compile_hud.app import clock
from compile_hud.app.components.run_request_form import RunChoice, suites_of
from compile_hud.app.data import run_requests
from compile_hud.app.data.triage import DecisionNote
from compile_hud.db.jobs.health import Health, load_health, save_scheduler
from compile_hud.db.queries.results import load_document
from compile_hud.db.store import Store
from tests.app.conftest import OpenPage, SignIn
from tests.support.builders import make_scheduler
from tests.support.pages.page_elements import texts_of
from tests.support.stores import dashboard_stores

CASE = f"case {dashboard_stores.FAILING.key}"


@pytest.fixture
def store(seeded: Path) -> Store:
    """Return the filled store that the pages show."""
    return Store(f"duckdb:///{seeded}", now=lambda: dashboard_stores.NOW)


def queue_of(store: Store) -> list[tuple[str, str, str]]:
    health: Health = load_health(store)
    return [(job.suite, job.toolchain, job.trigger) for job in health.open_jobs]


def test_a_triager_asks_for_the_suite_of_a_run_and_twice_is_once(
    open_page: OpenPage, store: Store, sign_in: SignIn, words: SnapshotAssertion
) -> None:
    sign_in("tom")
    page = open_page("run", run="run-003")
    page.text_input(key="ask-why-run").input("after\nthe fix").run()
    page.button(key="ask-go-run").click().run()
    assert not page.exception
    assert texts_of(page, "notice", "empty") == words
    assert queue_of(store) == [("nightly", "stable", "tom@example.org: after the fix")]
    page.button(key="ask-go-run").click().run()
    (refusal,) = texts_of(page, "notice")
    assert re.sub(r"[\d-]+ [\d:]+ UTC", "TIME", refusal) == words
    assert len(queue_of(store)) == 1


def test_two_in_one_minute_have_one_key(
    store: Store, sign_in: SignIn, words: SnapshotAssertion
) -> None:
    sign_in("tom")
    assert (
        run_requests.ask_for("nightly", toolchain="stable", machine=None, note=DecisionNote()) == ""
    )
    job = store.lease_job()
    assert job is not None
    store.finish_job(job.id, run_id=None, state="failed", reason="gone")
    again = run_requests.ask_for("nightly", toolchain="stable", machine=None, note=DecisionNote())
    assert again == words


@pytest.mark.parametrize(
    ("first", "second", "num_jobs"),
    [("alpha", "beta", 2), ("alpha", "alpha", 1), (None, "beta", 1), ("alpha", None, 1)],
)
def test_each_machine_is_queried_once(
    store: Store,
    sign_in: SignIn,
    monkeypatch: pytest.MonkeyPatch,
    *,
    first: str | None,
    second: str | None,
    num_jobs: int,
) -> None:
    sign_in("tom")
    for minute, machine in enumerate((first, second)):
        now = dashboard_stores.NOW + timedelta(minutes=minute)
        monkeypatch.setattr(clock, "now", lambda now=now: now)
        run_requests.ask_for("nightly", toolchain="stable", machine=machine, note=DecisionNote())
    assert len(queue_of(store)) == num_jobs


def test_a_case_is_requested_alone_and_for_its_machine(
    open_page: OpenPage, store: Store, sign_in: SignIn
) -> None:
    sign_in("ada")
    page = open_page("run", run="run-012", case=dashboard_stores.FAILING.key)
    page.button(key="ask-go-case").click().run()
    assert queue_of(store) == [(CASE, "stable", "ada@example.org")]
    (job,) = load_health(store).open_jobs
    assert job.machine == load_document(store, "run-012").run.machine


@pytest.mark.usefixtures("seeded")
def test_a_suite_is_requested_on_a_machine_with_a_scheduler(store: Store) -> None:
    run = load_document(store, "run-012").run
    anywhere = RunChoice(suite=run.suite, toolchain=run.toolchain, machine=None)
    assert suites_of([run, run]) == [anywhere]
    save_scheduler(store, make_scheduler(machine=run.machine))
    # A sign of life is no news, and what is read is kept for some seconds.
    store.save_run(run)
    (suite,) = suites_of([run, run])
    assert suite.label == f"{anywhere.label} on {run.machine}"


def test_the_page_of_runs_offers_what_was_run(
    open_page: OpenPage, store: Store, sign_in: SignIn, words: SnapshotAssertion
) -> None:
    sign_in("tom")
    page = open_page("runs")
    page.button(key="ask-go-now").click().run()
    assert queue_of(store) == [("nightly", "stable", "tom@example.org")]
    assert texts_of(page, "caption") == words


@pytest.mark.parametrize("name", ["eve", ""])
def test_requesting_a_run_needs_a_triager(
    name: str, open_page: OpenPage, store: Store, sign_in: SignIn, words: SnapshotAssertion
) -> None:
    sign_in(name)
    page = open_page("run", run="run-003")
    assert not [button for button in page.button if str(button.key).startswith("ask-")]
    problem = run_requests.ask_for(
        "nightly", toolchain="stable", machine=None, note=DecisionNote(author="eve")
    )
    assert problem == words
    assert queue_of(store) == []


@pytest.mark.usefixtures("anybody_triages")
@pytest.mark.parametrize("name", ["", "  ", "judge"])
def test_a_request_without_sign_in_needs_a_name(
    name: str, store: Store, words: SnapshotAssertion
) -> None:
    problem = run_requests.ask_for(
        "nightly", toolchain="stable", machine=None, note=DecisionNote(author=name)
    )
    assert problem == words
    assert queue_of(store) == []


@pytest.mark.usefixtures("locked")
def test_a_locked_store_is_reported_as_locked(sign_in: SignIn) -> None:
    sign_in("tom")
    problem = run_requests.ask_for("nightly", toolchain="stable", machine=None, note=DecisionNote())
    assert problem.startswith("Not queued: ")
    assert "process" in problem
