"""The frame that several views share: banners, states, filters, the live part of a page."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

import streamlit as st
from markupsafe import Markup

from compile_hud.app import clock
from compile_hud.app.auth import access
from compile_hud.app.data import store
from compile_hud.app.data.page_records import Loaded
from compile_hud.app.data.runs import load_newest_runs
from compile_hud.app.ui.code import HighlightedCode
from compile_hud.app.ui.format import duration, moment
from compile_hud.app.ui.html import banner, button_link
from compile_hud.app.ui.legend import LegendItem, legend
from compile_hud.app.ui.progress import Progress, progress_of, running
from compile_hud.app.ui.templates.environment import render
from compile_hud.app.ui.urls import RunsState, run_url, runs_url
from compile_hud.db.errors import NotFoundError, StoreError, StoreLocked, StoreTooNew, StoreTooOld
from compile_hud.db.records.summaries import RunSummary
from compile_hud.db.shared.access_rules import Person
from compile_hud.db.shared.text import counted_of

# Two seconds are live enough for people and cost the store nothing: the poll reads a stamp file.
POLL_S = 2.0
# Each attempt waits up to data.LOCK_TIMEOUT_S for the lock.
RETRY_S = 5.0
# Pixels.
_CODE_HEIGHT = 560


def guarded(draw: Callable[[], None]) -> None:
    """Draw; on a store error draw the error page with advice instead."""
    try:
        draw()
    except StoreError as error:
        error_page(error)


def error_page(error: StoreError) -> None:
    """Draw an error of the store with advice; the page tries again if that may help."""
    title, advice = _advice(error)
    state_page(title, text=[str(error), *advice])
    if not isinstance(error, StoreTooNew):
        _retrying([])


def _advice(error: StoreError) -> tuple[str, list[str]]:
    if isinstance(error, StoreLocked):
        return "The store is locked", [
            "This page loads by itself as soon as the other process releases it.",
        ]
    if isinstance(error, StoreTooNew):
        return "The store is newer than this dashboard", []
    if isinstance(error, StoreTooOld):
        return "The store is older than this dashboard", [
            "Back it up first if you may want to go back. This page loads by itself after the"
            " upgrade.",
        ]
    return "The store cannot be read", [
        "`hud doctor` checks the store and says what is wrong with it.",
    ]


def state_page(
    title: str,
    *,
    text: Sequence[str],
    commands: Sequence[str] = (),
    links: Sequence[tuple[str, str]] = (),
) -> None:
    """Draw a page without data: the problem, a command to type, and links.

    `links` are texts and addresses.
    """
    texts = map(_sentence, text)
    st.html(render("parts.html", "state", title=title, texts=texts, commands=commands, links=links))


def not_found_page(title: str, error: NotFoundError) -> None:
    """Draw the page of a run or result that does not exist, with a link to all runs."""
    state_page(title, text=[str(error)], links=[("To all runs", runs_url(RunsState()))])


def _sentence(text: str) -> str:
    """Return `text`, which may be an error message, as a sentence of its own."""
    end = "" if text.endswith((".", ":", "?")) else "."
    return f"{text[:1].upper()}{text[1:]}{end}"


def empty_store(name: str) -> None:
    """Draw the command that fills an empty store."""
    text = (
        f"The store {name} is empty. Type one of these in the project's folder; this page fills by"
        " itself while the run is going."
    )
    commands = [
        "make run    # the quick suite, then this page",
        "hud run     # one run now",
        "hud demo    # a separate store with a synthetic history",
    ]
    state_page("Nothing has been measured yet", text=[text], commands=commands)


def no_result(summaries: Sequence[RunSummary]) -> None:
    """Draw the progress to expect when there are runs and no result."""
    going = running(tuple(summaries))
    if any(not progress_of(summary, now=clock.now()).is_silent for summary in going):
        text = "Results appear here as they come in, case by case; the page updates by itself."
        state_page("The first run is going", text=[text])
        return
    if going:
        text = "It has no result yet. Another run begins afresh and marks this one interrupted."
        state_page("The first run has stopped", text=[text], commands=["hud run"])
        return
    text = "There was a run, but it ended before its first result."
    state_page("No result yet", text=[text], commands=["hud run"])


def load_runs_with_results() -> tuple[RunSummary, ...]:
    """Return the newest runs; where none has a result, draw the reason and return none."""
    summaries = load_newest_runs().value
    if not summaries:
        empty_store(store.store_name())
    elif not any(summary.num_by_outcome for summary in summaries):
        no_result(summaries)
        return ()
    return summaries


def link_button(text: str, url: str) -> None:
    """Draw a link to a page of the dashboard as a button, which opens in this tab."""
    st.html(button_link(text, url), width="content")


def banners(texts: Sequence[str]) -> None:
    """Draw each text as a banner."""
    for text in texts:
        st.html(banner(text))


def stale_note(loaded: Loaded[Any]) -> None:
    """Draw a banner and try again if the page may be out of date."""
    if loaded.stale_reason:
        st.html(banner(f"Shown as it was last read: {loaded.stale_reason}"))
        _retrying([])


def synthetic_banner(summaries: Sequence[RunSummary]) -> None:
    """Draw a banner if the numbers are synthetic."""
    if any(summary.run.is_synthetic for summary in summaries):
        st.html(
            banner(
                "SYNTHETIC DATA: this store was filled by hud demo. No number on any page was"
                " measured.",
                style="synthetic",
            )
        )


def read_only_banner() -> None:
    """Draw a banner if this dashboard cannot write to the store."""
    if store.is_read_only():
        text = (
            f"READ-ONLY: this dashboard may read {store.store_name()} and not write it. No decision"
            " and no run can be saved here."
        )
        st.html(banner(text))


@st.fragment(run_every=POLL_S)
def live(summaries: Sequence[RunSummary], *, known_version: int, known_person: Person) -> None:
    """Draw the progress of running runs, and redraw the page after a change of the store.

    A change of the rights of the person at the page redraws it too.
    """
    try:
        has_changed = store.store_version() != known_version or access.present() != known_person
    except StoreError:
        has_changed = True
    if has_changed:
        st.rerun(scope="app")
    now = clock.now()
    for summary in running(tuple(summaries)):
        st.html(progress_html(summary, progress_of(summary, now=now)))


def progress_html(summary: RunSummary, progress: Progress) -> Markup:
    """Return the progress of a run as a line of text over a bar."""
    share = progress.num_done / progress.num_planned if progress.num_planned else 0.0
    words = [counted_of(progress.num_done, progress.num_planned, "case")]
    if progress.is_silent:
        words.append(
            f"no heartbeat for {duration(progress.silent_s)}: the runner has probably"
            " died; the next hud run on that machine marks it interrupted"
        )
    else:
        if progress.current is not None:
            words.append(f"now {progress.current.model} {progress.current.variant}")
        words.append(f"started {duration(progress.since_start_s)} ago")
        if progress.left_s is not None:
            words.append(f"about {duration(progress.left_s)} left")
    run = summary.run
    return render(
        "parts.html",
        "progress",
        run=run,
        href=run_url(run.id),
        title=f"suite {run.suite} on {run.machine}, started {moment(run.started_at)}",
        words=", ".join(words),
        share=f"{share:.1%}",
    )


def choose(
    label: str, *, name: str, options: Sequence[str], value: str, default: str = "", **shown: Any
) -> None:
    """Draw a choice whose state is the URL parameter `name`.

    `value` is the present one of the URL. It is offered even if no data have it, so that one sees
    which filter excludes everything. `shown` goes to st.selectbox.
    """
    key = f"choice-{name}"
    st.session_state[key] = value
    offered = list(options) if value in options else [*options, value]
    st.selectbox(label, offered, key=key, on_change=_chosen, args=(name, default), **shown)


def switch(
    label: str, *, name: str, options: Sequence[str], value: str, default: str, **shown: Any
) -> None:
    """Draw a few choices side by side, whose state is the URL parameter `name`.

    `value` is the present one; `shown` goes to st.segmented_control.
    """
    key = f"choice-{name}"
    st.session_state[key] = value
    st.segmented_control(
        label,
        options,
        key=key,
        label_visibility="collapsed",
        on_change=_chosen,
        args=(name, default),
        **shown,
    )


def or_all(value: str) -> str:
    """Return the label of a value of a filter, which lets everything through if it is empty."""
    return value or "all"


def draw_chart(spec: Mapping[str, Any], *, key: str, **shown: Any) -> Any:
    """Draw a chart as wide as the page, and return the selection in it.

    Its height is reserved, so the page below does not jump. `shown` goes to st.vega_lite_chart.
    """
    chart = dict(spec)
    return st.vega_lite_chart(chart, key=key, width="stretch", height=chart["height"], **shown)


def draw_legend(items: Iterable[LegendItem]) -> None:
    """Draw the signs of a chart; nothing without any, because Streamlit refuses empty HTML."""
    if shown := legend(items):
        st.html(shown)


def draw_code(code: HighlightedCode) -> None:
    """Draw generated code in a box; long code scrolls."""
    st.code(code.text, language=code.language, height=_CODE_HEIGHT if code.is_long else "content")


def type_in(label: str, *, name: str, value: str, **shown: Any) -> None:
    """Draw a text field whose state is the URL parameter `name`.

    `value` is the present one of the URL; `shown` goes to st.text_input.
    """
    key = f"choice-{name}"
    show_value(key, value)
    st.text_input(label, key=key, on_change=_chosen, args=(name, ""), **shown)


def enter_number(label: str, *, name: str, value: int | None, limit: int, **shown: Any) -> None:
    """Draw a field for a whole number from 1 to `limit`; its state is the URL parameter `name`.

    `value` is the present one of the URL, None without one; `shown` goes to st.number_input.
    """
    key = f"choice-{name}"
    show_value(key, value)
    st.number_input(
        label,
        min_value=1,
        max_value=limit,
        step=1,
        value=None,
        key=key,
        on_change=_entered,
        args=(name,),
        **shown,
    )


def show_value(key: str, value: object) -> None:
    """Let a field to type in show `value`.

    Setting a value replaces the text that is being typed, so nothing is set that is there.
    """
    state, page = st.session_state, f"page of {key}"
    # Pages have fields of one key, and each field has a value of its own.
    if key not in state or state[key] != value or state.get(page) != st.context.url:
        state[key], state[page] = value, st.context.url


def _entered(name: str) -> None:
    value = st.session_state[f"choice-{name}"]
    if value is None:
        st.query_params.pop(name, None)
    else:
        st.query_params[name] = str(value)


def _chosen(name: str, default: str) -> None:
    value = st.session_state[f"choice-{name}"]
    # A second click on the choice of a switch gives None.
    if value in (default, None):
        st.query_params.pop(name, None)
    else:
        st.query_params[name] = value


@st.fragment(run_every=RETRY_S)
def _retrying(drawn: list[datetime]) -> None:
    # Streamlit calls the fragment once while it draws the page, then by the timer.
    if drawn:
        st.rerun(scope="app")
    drawn.append(clock.now())
