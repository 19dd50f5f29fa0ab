"""The small form that queues a run, or one case again."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import streamlit as st

from compile_hud.app import clock
from compile_hud.app.auth import access
from compile_hud.app.components.author import name_field, remember_name
from compile_hud.app.data import run_requests
from compile_hud.app.data.health import load_health_page
from compile_hud.app.data.triage import DecisionNote
from compile_hud.app.ui.flash import set_flash, show_flash
from compile_hud.app.ui.html import caption
from compile_hud.db.errors import StoreError
from compile_hud.db.records.imported import is_imported
from compile_hud.db.records.results import Run
from compile_hud.db.shared.access_rules import Role


@dataclass(frozen=True, slots=True, kw_only=True)
class RunChoice:
    """The suite and toolchain of a requested run, and its machine; None for any."""

    suite: str
    toolchain: str
    machine: str | None

    @property
    def label(self) -> str:
        text = f"{self.suite} in {self.toolchain}"
        return text if self.machine is None else f"{text} on {self.machine}"


def suites_of(runs: Iterable[Run]) -> list[RunChoice]:
    """Return the suites of `runs` that can be requested, each once.

    Any scheduler takes the request for a machine without one, such as a node of a cluster.
    """
    scheduled = run_requests.scheduled_machines()
    choices = (
        RunChoice(
            suite=run.suite,
            toolchain=run.toolchain,
            machine=run.machine if run.machine in scheduled else None,
        )
        for run in runs
    )
    return list(dict.fromkeys(choices))


def run_request_form(title: str, choices: Sequence[RunChoice], *, key: str) -> None:
    """Draw a button that opens a form to queue one of `choices`, for triagers only.

    Imported results have no suite to request.
    """
    person = access.present()
    offered = [item for item in choices if not is_imported(item.toolchain)]
    if not offered or not person.may(Role.TRIAGER):
        return
    with st.popover(title, key=f"ask-{key}"):
        if len(offered) > 1:
            labels = [item.label for item in offered]
            st.selectbox("Run", labels, key=f"ask-what-{key}", width=320)
        name_field(person, key=f"ask-name-{key}", width=320)
        st.text_input("Reason", key=f"ask-why-{key}", width=320)
        st.button("Queue run", key=f"ask-go-{key}", on_click=_ask, args=(offered, key))
        st.html(caption(_what_happens()))
    show_flash(f"ask-{key}")


def _ask(offered: Sequence[RunChoice], key: str) -> None:
    state = st.session_state
    label = state.get(f"ask-what-{key}", offered[0].label)
    choice = next(item for item in offered if item.label == label)
    author = str(state.get(f"ask-name-{key}", ""))
    note = DecisionNote(author=author, reason=str(state[f"ask-why-{key}"]))
    problem = run_requests.ask_for(
        choice.suite, toolchain=choice.toolchain, machine=choice.machine, note=note
    )
    if not problem:
        remember_name(author)
    message = problem or f"Queued: {choice.label}. The page Health shows the queue."
    set_flash(message, key=f"ask-{key}")


def _what_happens() -> str:
    """Return a text on the machines that will execute the run, or on a missing scheduler."""
    try:
        health = load_health_page().value.health
    except StoreError:
        return ""
    now = clock.now()
    alive = [item.machine for item in health.schedulers if item.is_alive(now=now)]
    if not alive:
        return "No scheduler is running: the run waits until `hud up` or `hud schedule` runs."
    return "A scheduler executes it when it is idle. Its progress is then at the top of every page."
