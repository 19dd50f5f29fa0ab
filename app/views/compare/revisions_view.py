"""Two revisions side by side: builds of torch, or commits of an own model."""

from __future__ import annotations

import dataclasses

import streamlit as st

from compile_hud.app.components.page_frame import (
    banners,
    choose,
    link_button,
    load_runs_with_results,
    or_all,
    stale_note,
    state_page,
)
from compile_hud.app.ui.html import heading
from compile_hud.app.ui.urls import (
    CompareState,
    RevisionsState,
    compare_url,
    parse_revisions,
    revisions_url,
)
from compile_hud.app.views.compare.data import choose_revisions, load_compare
from compile_hud.app.views.compare.records import RevisionChoice
from compile_hud.app.views.compare.tables import (
    headline,
    shown_rows,
    side_table,
)
from compile_hud.app.views.compare.view import (
    show_comparison,
    show_environment,
    show_refusal,
    show_share_of,
)
from compile_hud.db.records.results import Run
from compile_hud.db.shared.text import shortened

_NAME_LENGTH = 80
_FILTERS = ("metric", "model", "verdict")


def show() -> None:
    """Draw the comparison of two revisions."""
    state, problems = parse_revisions(st.query_params.to_dict())
    banners(problems)
    summaries = load_runs_with_results()
    if not summaries:
        return
    choice = choose_revisions(state, summaries)
    before, after = choice.baseline_run, choice.candidate_run
    if before is None or after is None or before.id == after.id:
        st.html(heading("Compare revisions"))
        _show_choices(state, choice)
        _show_nothing(state, choice)
        return
    _show_runs(state, choice, before, after)


def _show_runs(state: RevisionsState, choice: RevisionChoice, before: Run, after: Run) -> None:
    filters = {name: getattr(state, name) for name in _FILTERS}
    runs = CompareState(baseline=before.id, candidate=after.id, **filters)
    loaded = load_compare(runs)
    stale_note(loaded)
    page = loaded.value
    st.html(heading(headline(page)))
    _show_choices(state, choice)
    st.html(side_table(page))
    rows = shown_rows(page, runs)
    show_share_of(page, runs, rows)
    show_environment(page)
    if page.refusal:
        show_refusal(page, runs)
        return

    def url(filtered: CompareState) -> str:
        changes = {name: getattr(filtered, name) for name in _FILTERS}
        return revisions_url(dataclasses.replace(state, **changes))

    show_comparison(page, runs, rows, version=loaded.version, url=url)


def _show_choices(state: RevisionsState, choice: RevisionChoice) -> None:
    with st.container(horizontal=True, gap="small", vertical_alignment="bottom"):
        for label, name in (("Baseline", "baseline"), ("Candidate", "candidate")):
            choose(
                label,
                name=name,
                options=list(choice.labels),
                value=getattr(choice, name),
                format_func=lambda revision: choice.labels.get(revision, revision),
                width=400,
            )
        if len(choice.machines) > 1 or state.machine:
            choose(
                "Machine", name="machine", options=choice.machines, value=choice.machine, width=210
            )
        if len(choice.toolchains) > 1 or state.toolchain:
            choose(
                "Toolchain",
                name="toolchain",
                options=["", *choice.toolchains],
                value=state.toolchain,
                format_func=or_all,
                width=150,
            )
        swapped = dataclasses.replace(state, baseline=choice.candidate, candidate=choice.baseline)
        link_button("Swap sides", revisions_url(swapped))


def _show_nothing(state: RevisionsState, choice: RevisionChoice) -> None:
    """Draw the reason why there are no two runs to compare, and what to do."""
    if not choice.labels:
        _show_no_run(state, choice)
        return
    sides = {choice.baseline: choice.baseline_run, choice.candidate: choice.candidate_run}
    if missing := [name for name, run in sides.items() if name and run is None]:
        text = f"No run on {choice.machine} has the revision {' or '.join(missing)}."
        links = [("Compare the newest revisions", revisions_url(RevisionsState()))]
        state_page("No such revision", text=[text], links=links)
        return
    if choice.baseline and choice.candidate:
        text = "One run stands for both. Choose two revisions that were measured in different runs."
        state_page("Both sides are the same run", text=[text])
        return
    paragraphs = [
        f"All runs on {choice.machine} have the same build of torch and the same code of own"
        " models.",
        "A run with another build or commit makes a second revision.",
    ]
    commands = [
        "hud run --toolchain nightly    # another build of torch",
        "hud compare --repo . main HEAD # two commits of your code, measured now",
    ]
    links = [("Compare two runs", compare_url(CompareState()))]
    state_page("Only one revision", text=paragraphs, commands=commands, links=links)


def _show_no_run(state: RevisionsState, choice: RevisionChoice) -> None:
    links = [("Compare the newest revisions", revisions_url(RevisionsState()))]
    if not choice.toolchains:
        name = shortened(choice.machine, limit=_NAME_LENGTH)
        known = f"Machines with results: {', '.join(choice.machines)}."
        text = [f"No run with a result is of the machine {name!r}.", known]
        state_page("No such machine", text=text, links=links)
        return
    name = shortened(state.toolchain, limit=_NAME_LENGTH)
    known = f"It has runs of: {', '.join(choice.toolchains)}."
    text = [f"No run on {choice.machine} is of the toolchain {name!r}.", known]
    state_page("No such toolchain", text=text, links=links)
