"""The kernels of one case in one run: where its time goes, down to the generated code."""

from __future__ import annotations

import streamlit as st

from compile_hud.app.components.page_frame import not_found_page, notices, stale_note, state_page
from compile_hud.app.data.page_records import KernelsPage
from compile_hud.app.ui.html import Cell, Column, beside, facts, heading, notice, table
from compile_hud.app.ui.urls import KernelsState, kernels_url, parse_kernels
from compile_hud.app.views.kernels import data as kernel_data
from compile_hud.app.views.kernels.breakdown import (
    header_facts,
    no_trace_text,
    parts_bars,
    parts_table,
)
from compile_hud.app.views.kernels.figures import show_icicle, show_roofline, show_strip
from compile_hud.app.views.kernels.tables import kernel_id
from compile_hud.app.views.kernels.view import show_kernel, show_table
from compile_hud.db.errors import NotFoundError
from compile_hud.db.records.results import Outcome

_HOW_TO_GET_THEM = (
    "Kernels are recorded after the samples of every case that ends ok ([run] kernels = true, which"
    " is the default). Reference cases and imported histories have none.",
    "`hud run` measures again.",
)


def show() -> None:
    """Draw the kernels page."""
    state, problems = parse_kernels(st.query_params.to_dict())
    notices(problems)
    try:
        loaded = kernel_data.load_kernels_page(state.run, case_key=state.case)
    except NotFoundError as error:
        not_found_page("No such result", error)
        return
    stale_note(loaded)
    page = loaded.value
    if page.result is None:
        _show_cases(page)
    elif not page.kernels:
        _show_nothing(page)
    else:
        _show_result(page, state, generation=loaded.generation)


def _show_cases(page: KernelsPage) -> None:
    """Draw which cases of the run have kernels."""
    if not page.cases:
        run = page.run
        text = f"Run {run.id} of {run.revision} ({run.toolchain}) has no kernels."
        state_page("No kernels", text=[text, *_HOW_TO_GET_THEM])
        return
    st.html(heading(f"Kernels of run {page.run.id}"))
    rows = [
        (Cell(text=case.key, href=kernels_url(page.run.id, case_key=case.key)),)
        for case in page.cases
    ]
    st.html(table((Column(label="case"),), rows, label="cases with kernels"))


def _show_nothing(page: KernelsPage) -> None:
    assert page.result is not None
    result = page.result
    why = "" if result.outcome is Outcome.OK else f" It ended {result.outcome}."
    text = [f"Run {page.run.id} has no kernels of {result.case.key}.{why}", *_HOW_TO_GET_THEM]
    state_page("No kernels", text=text)
    notices([warning.text for warning in result.warnings if "kernel" in warning.code])


def _show_result(page: KernelsPage, state: KernelsState, *, generation: int) -> None:
    assert page.result is not None
    case = page.result.case
    st.html(heading(f"Kernels of {case.model} {case.variant}"))
    st.html(facts(header_facts(page)))
    texts = (page.noise, page.profile_problem, no_trace_text(page))
    notices([text for text in texts if text])
    if page.profile is not None:
        st.html(heading("Where the time goes", level=2))
        bars = parts_bars(page.profile, is_noisy=bool(page.noise))
        st.html(beside(bars, parts_table(page.profile)))
    show_table(page, state)
    kernel = next((item for item in page.kernels if kernel_id(item) == state.kernel), None)
    if kernel is not None:
        show_kernel(page, kernel)
    elif state.kernel:
        st.html(notice(f"This result has no kernel {state.kernel}. Choose one in the table."))
    show_icicle(page, generation=generation)
    show_strip(page, generation=generation)
    show_roofline(page, generation=generation)
