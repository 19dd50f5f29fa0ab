"""Two runs side by side: nights, revisions, variants, toolchains or devices."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence

import streamlit as st

from compile_hud.app.components.machine_status import machine_notice
from compile_hud.app.components.page_frame import (
    empty_store,
    no_result,
    notices,
    stale_note,
    state_page,
)
from compile_hud.app.data import store as data
from compile_hud.app.data.mode_summaries import comparing_command
from compile_hud.app.ui.html import caption, folded, heading, notice
from compile_hud.app.ui.share import Share, file_name, show_share
from compile_hud.app.ui.urls import CompareState, compare_url, parse_compare
from compile_hud.app.views.compare import data as compare_data
from compile_hud.app.views.compare.markdown import compare_markdown
from compile_hud.app.views.compare.records import ComparedRow, ComparePage
from compile_hud.app.views.compare.tables import (
    compared_csv,
    headline,
    mean_table,
    one_sided_text,
    row_sections,
    shown_rows,
    side_table,
    suggestions,
    verdict_tiles,
)
from compile_hud.app.views.compare.view import (
    show_choices,
    show_environment,
    show_filters,
    show_no_match,
    show_no_other,
    show_refusal,
)
from compile_hud.db.errors import NotFoundError

MEANS_CAPTION = (
    "Geometric mean of candidate / baseline over the cases that are ok on both sides, each weighing"
    " the same; the tooltip has the least and the largest. A change of the mean has no verdict: the"
    " cases of one run share what that run did to all of them."
)


def show() -> None:
    """Draw the comparison of two runs."""
    state, problems = parse_compare(st.query_params.to_dict())
    notices(problems)
    summaries = data.load_runs_page().value
    if not summaries:
        empty_store(data.store_name())
        return
    if not any(summary.num_by_outcome for summary in summaries):
        no_result(summaries)
        return
    try:
        loaded = compare_data.load_compare(state)
    except NotFoundError as error:
        st.html(heading("Compare"))
        show_choices(state, summaries, variants=())
        show_no_other(error, summaries)
        return
    stale_note(loaded)
    page = loaded.value
    state = _resolved(state, page)
    is_same = page.baseline.id == page.candidate.id and _is_same_variant(state)
    st.html(heading("Compare" if is_same else headline(page)))
    show_choices(state, summaries, variants=page.variants)
    st.html(side_table(page))
    rows = shown_rows(page, state)
    _show_share(page, state, rows)
    if others := suggestions(page, summaries=summaries):
        st.html(folded("Compare the candidate with", others))
    show_environment(page)
    if page.refusal:
        show_refusal(page, state)
    elif is_same:
        text = ["Both sides are the same run. Choose two variants of it, or another run."]
        state_page("Nothing can differ", text=text)
    else:
        _show_comparison(page, state, rows)


def _show_comparison(page: ComparePage, state: CompareState, rows: Sequence[ComparedRow]) -> None:
    if moved := machine_notice(page.machine):
        st.html(notice(moved))
    st.html(verdict_tiles(page))
    if means := mean_table(page.means, page=page):
        st.html(means)
        st.html(caption(MEANS_CAPTION))
    st.html(heading("Case by case, worst first", level=2))
    show_filters(page, state)
    if not rows:
        show_no_match(page, state)
        return
    for section in row_sections(rows, page=page):
        st.html(section)
    if lonely := one_sided_text(page):
        st.html(lonely)


def _show_share(page: ComparePage, state: CompareState, rows: Sequence[ComparedRow]) -> None:
    command = comparing_command(page.baseline, page.candidate)
    share = Share(
        name=file_name("compare", page.baseline.id, page.candidate.id),
        url=compare_url(state),
        markdown=compare_markdown(page, rows=rows, command=command),
        command=command,
        csv=functools.partial(compared_csv, rows, page=page) if rows else None,
    )
    show_share(share)


def _resolved(state: CompareState, page: ComparePage) -> CompareState:
    """Return `state` with the runs that it stands for, for links that stay."""
    return dataclasses.replace(state, baseline=page.baseline.id, candidate=page.candidate.id)


def _is_same_variant(state: CompareState) -> bool:
    both = (state.baseline_variant, state.candidate_variant)
    return both[0] == both[1] or not all(both)
