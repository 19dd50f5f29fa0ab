"""A release: may one toolchain replace another?"""

from __future__ import annotations

from collections.abc import Sequence

import streamlit as st

from compile_hud.app.components.evidence import difference_table
from compile_hud.app.components.page_frame import banners, choose, stale_note, state_page
from compile_hud.app.ui.html import banner, caption, collapsible, heading
from compile_hud.app.ui.share import Share, file_name, show_share
from compile_hud.app.ui.urls import ReleaseState, parse_release, release_url
from compile_hud.app.views.releases.data import load_release, load_releases
from compile_hud.app.views.releases.records import ReleasePage
from compile_hud.app.views.releases.tables import (
    cluster_table,
    improvement_table,
    machine_table,
    mean_table,
    open_table,
    release_label,
    side_table,
)
from compile_hud.db.shared.text import counted
from compile_hud.runner.analysis.release.markdown import other_means_text
from compile_hud.runner.analysis.release.mean_changes import MeanChange, by_clearness
from compile_hud.runner.analysis.release.runs import ReleaseRuns

_COMMANDS = (
    "hud toolchain add next --torch 2.13.0   # once",
    "hud release current next --budget 2h",
)
_TEXT = (
    "A release measures every case of a suite under two toolchains, with launches in turn, and says"
    " whether one may replace the other."
)
MEAN_CAPTION = (
    "Geometric means over the cases of a mode and phase. Worse and better count cases that changed"
    " by themselves."
)
CAPTION = (
    "The launches of both toolchains alternated. At most 1 change in 50 is called one by chance."
)


def show() -> None:
    """Draw one release."""
    state, problems = parse_release(st.query_params.to_dict())
    banners(problems)
    loaded = load_releases()
    releases = loaded.value
    if not releases:
        st.html(heading("Releases"))
        state_page("No release was measured yet", text=[_TEXT], commands=list(_COMMANDS))
        return
    chosen = _chosen(state, releases)
    if chosen is None:
        st.html(heading("Releases"))
        _choose(state, releases)
        text = [f"No release has the run {state.run}.", "Choose one above."]
        links = [("The newest release", release_url(""))]
        state_page("No such release", text=text, links=links)
        return
    page = load_release(tuple((pair.baseline.id, pair.candidate.id) for pair in chosen.pairs))
    stale_note(page)
    _show(page.value, chosen, releases)


def _chosen(state: ReleaseState, releases: tuple[ReleaseRuns, ...]) -> ReleaseRuns | None:
    if not state.run:
        return releases[0]
    return next((item for item in releases if item.has_candidate(state.run)), None)


def _choose(state: ReleaseState, releases: tuple[ReleaseRuns, ...]) -> None:
    labels = {item.candidate.id: release_label(item) for item in releases}
    choose(
        "Release",
        name="run",
        options=list(labels),
        value=state.run or releases[0].candidate.id,
        default=releases[0].candidate.id,
        format_func=lambda run_id: labels.get(run_id, run_id),
        width=520,
    )


def _show_means(means: Sequence[MeanChange]) -> None:
    shown, others = by_clearness(means)
    if means:
        st.html(heading("Mean changes", level=2))
        st.html(caption(MEAN_CAPTION))
    if shown:
        st.html(mean_table(shown))
    if others:
        text = other_means_text(len(others))
        st.html(collapsible(text, mean_table(others)))


def _show(page: ReleasePage, runs: ReleaseRuns, releases: tuple[ReleaseRuns, ...]) -> None:
    report = page.report
    advice, _, rest = report.sign_off.text.partition(": ")
    st.html(heading(f"{advice.capitalize()}: {rest}"))
    _choose(ReleaseState(run=runs.candidate.id), releases)
    st.html(side_table(report))
    if machines := machine_table(report):
        st.html(machines)
    show_share(
        Share(
            name=file_name("release", report.baseline.toolchain, report.candidate.toolchain),
            url=release_url(runs.candidate.id),
            markdown=page.markdown,
            command=page.command,
        )
    )
    for number, named in enumerate(report.clusters, start=1):
        st.html(heading(f"{number}. {named.text}", level=2))
        st.html(cluster_table(named))
        if named.cause:
            st.html(
                caption(f"Kernels of {named.representative.key}: {named.cause.replace('`', '')}.")
            )
    faster = improvement_table(report.improvements)
    if faster:
        st.html(collapsible(f"Faster: {len(report.improvements)}", faster))
    for title, items in (
        ("Not decided", report.undecided),
        ("Failed on both sides", report.failing),
    ):
        if items:
            st.html(heading(title, level=2))
            st.html(open_table(items, label=title))
    _show_means(report.means)
    differences = difference_table(
        report.environment, ends=("baseline", "candidate"), label="environment changes"
    )
    num = len(report.environment)
    st.html(
        collapsible(f"The environments differ in {counted(num, 'fact')}", differences)
        if num
        else banner("The environments are identical.")
    )
    st.html(caption(CAPTION))
