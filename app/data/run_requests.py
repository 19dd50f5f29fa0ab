"""Run requests from pages: a part of app/data/store.py.

Each request checks the role of the person again, whatever the page has shown.
"""

from __future__ import annotations

from compile_hud.app import clock
from compile_hud.app.auth import access
from compile_hud.app.data.health import load_health_page
from compile_hud.app.data.store import open_store, store_url
from compile_hud.app.data.triage import DecisionNote
from compile_hud.app.ui.format import local_moment
from compile_hud.db.errors import StoreError
from compile_hud.db.jobs.health import load_health
from compile_hud.db.records.triage import JUDGE, is_reserved
from compile_hud.db.shared.access_rules import Person, Role
from compile_hud.db.shared.text import one_line, shortened

ACTION = "queueing runs"
_MAX_WHY = 200


def scheduled_machines() -> frozenset[str]:
    """Return the machines that ever had a scheduler; none while the store is locked."""
    try:
        health = load_health_page().value.health
    except StoreError:
        return frozenset()
    return frozenset(item.machine for item in health.schedulers)


def ask_for(suite: str, *, toolchain: str, machine: str | None, note: DecisionNote) -> str:
    """Queue a run of `suite` on `machine`, or any; return the reason if it is not queued, else "".

    A second click queues nothing: an equal job that is queued or in progress is refused, and two
    requests in one minute share a key. The queue records the person, the time and the reason.
    """
    person = access.present()
    try:
        access.require(person, Role.TRIAGER, action=ACTION)
        problem = _enqueue(suite, toolchain=toolchain, machine=machine, person=person, note=note)
    except (access.NotAllowed, StoreError) as error:
        problem = str(error)
    return f"Not queued: {problem}." if problem else ""


def _enqueue(
    suite: str, *, toolchain: str, machine: str | None, person: Person, note: DecisionNote
) -> str:
    """Queue the run; return the reason if it is not queued, else ""."""
    if not person.is_signed_in and is_reserved(note.author):
        return f"enter your name ('{JUDGE}' is reserved)"
    store = open_store(store_url())
    for job in load_health(store, num_ended=0).open_jobs:
        is_there = machine is None or job.machine in (None, machine)
        if is_there and (job.suite, job.toolchain) == (suite, toolchain):
            since = local_moment(job.enqueued_at)
            return f"it has been in the queue since {since} ({job.trigger})"
    is_new = store.enqueue_job(
        dedupe_key=f"asked {suite} {toolchain} {clock.now():%Y-%m-%dT%H:%M}",
        suite=suite,
        toolchain=toolchain,
        trigger=_trigger(person.signed_as(note.author), why=note.reason),
        machine=machine,
    )
    return "" if is_new else "it was queued in this minute already"


def _trigger(by: str, *, why: str) -> str:
    reason = shortened(one_line(why), limit=_MAX_WHY)
    return f"{one_line(by)}: {reason}" if reason else one_line(by)
