"""What changed between the kernels of two results: how much each explains, and why."""

from __future__ import annotations

import dataclasses

import streamlit as st

from compile_hud.app.components.page_frame import not_found_page, notices, stale_note, state_page
from compile_hud.app.data import store as data
from compile_hud.app.ui.html import folded, heading
from compile_hud.app.ui.urls import KernelDiffState, parse_kernel_diff
from compile_hud.app.views.kernel_diff import data as diff_data
from compile_hud.app.views.kernel_diff.records import DiffPage, DiffSide
from compile_hud.app.views.kernel_diff.tables import environment_table, headline, side_table
from compile_hud.app.views.kernel_diff.view import (
    show_choices,
    show_diff_share,
    show_row,
    show_table,
    show_waterfall,
)
from compile_hud.db.errors import NotFoundError

UNLIKE_TEXT = (
    "The environments of the two runs differ in what decides about times. Which kernels belong"
    " together holds all the same; how much each contributes says what the environments do as well."
)


def show() -> None:
    """Draw the page of the kernel diff."""
    state, problems = parse_kernel_diff(st.query_params.to_dict(), classes=diff_data.CLASSES)
    notices(problems)
    try:
        loaded = diff_data.load_kernel_diff(state)
    except NotFoundError as error:
        not_found_page("No such run", error)
        return
    stale_note(loaded)
    page = loaded.value
    state = _resolved(state, page)
    st.html(heading("Kernel diff"))
    show_choices(page, state, summaries=data.load_runs_page().value)
    st.html(side_table(page))
    if page.rows:
        _show_diff(page, state)
    else:
        _show_nothing(page)


def _show_diff(page: DiffPage, state: KernelDiffState) -> None:
    if page.is_same_result:
        notices(["Both sides are the same result, so nothing can differ."])
    elif not page.is_comparable:
        notices([UNLIKE_TEXT])
    notices([page.noise] if page.noise else [])
    st.html(headline(page))
    show_diff_share(page, state)
    if environment := environment_table(page):
        st.html(folded(f"The environments differ: {', '.join(page.environment)}", environment))
    if state.row:
        _show_row(page, state)
    show_waterfall(page, state)
    show_table(page, state)


def _show_row(page: DiffPage, state: KernelDiffState) -> None:
    row = next((row for row in page.rows if str(row.number) == state.row), None)
    if row is None:
        notices([f"This diff has no row {state.row}; it has {len(page.rows)}."])
    else:
        show_row(page, row, state=state)


def _show_nothing(page: DiffPage) -> None:
    """Say which side has no kernels, and how to get them."""
    sides: list[DiffSide] = [page.baseline]
    if not page.is_same_result:
        sides.append(page.candidate)
    missing = [side for side in sides if side.missing]
    if missing or page.problem:
        text = [*([page.problem] if page.problem else []), *(side.missing for side in missing)]
        hints = list(dict.fromkeys(side.hint for side in missing if side.hint))
        if hints:
            text.append("With `[run] kernels = true`, the default, this records them:")
        state_page("Nothing to compare", text=text, commands=hints)
        return
    text = [
        "Choose a case. Two runs show what a night changed, two cases of one run what a mode does.",
        "An alert, each point of a series and the page of a case lead here as well.",
    ]
    state_page("Which kernels?", text=text)


def _resolved(state: KernelDiffState, page: DiffPage) -> KernelDiffState:
    """Return `state` with the runs and cases that it stands for, for links that stay."""
    return dataclasses.replace(
        state,
        baseline_run=page.baseline.run.id,
        baseline_case=page.baseline.case_key,
        candidate_run=page.candidate.run.id,
        candidate_case=page.candidate.case_key,
    )
