"""The parts of the page of the kernel diff: which results, the waterfall, one row in full."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import streamlit as st

from app import data
from app.components import choose, draw_code
from app.diffchart import waterfall_rows, waterfall_spec
from app.diffpage import DiffPage, DiffRow, DiffSide, class_words
from app.diffrows import (
    classes_of,
    diff_tables,
    fact_table,
    kernel_table,
    markdown,
    origin_table,
    row_facts,
)
from app.format import moment
from app.kernelcode import Code, code_of, unified_diff
from app.markup import heading, notice
from app.state import KernelDiffState, kernel_diff_url, swapped
from db.kernels import KernelSource
from db.summaries import RunSummary

WATERFALL_CAPTION = (
    "Each bar begins where the one above ends; the last is the whole difference. The numbers are"
    " those of the table. Vermilion makes the candidate slower, blue faster; grey is within noise,"
    " or what nobody judges. Kernels are timed under the profiler and the latencies without it:"
    " what profiling costs on one side more than on the other is unexplained, and so is what"
    " disturbed either."
)


def show_choices(
    page: DiffPage, state: KernelDiffState, *, summaries: tuple[RunSummary, ...]
) -> None:
    """Draw what can be compared: a run and a case on each side."""
    labels = {
        item.run.id: f"{moment(item.run.started_at)}  {item.run.id}  {item.run.revision}"
        for item in summaries
    }
    with st.container(horizontal=True, gap="small", vertical_alignment="bottom"):
        _choose_side("Baseline", "baseline", page.baseline, labels)
        _choose_side("Candidate", "candidate", page.candidate, labels)
        st.link_button("Swap sides", kernel_diff_url(swapped(state)))


def show_waterfall(page: DiffPage, *, generation: int) -> None:
    """Draw what each change contributes to the difference."""
    # Building a layered chart takes longer than the rest of the page.
    names = [(side.run.id, side.case_key) for side in (page.baseline, page.candidate)]
    spec = data.cached(_waterfall)(data.store_url(), generation, names, _page=page)
    st.html(heading("What contributes", level=2))
    st.vega_lite_chart(spec, key="waterfall", width="stretch")
    st.caption(WATERFALL_CAPTION)


def show_table(page: DiffPage, state: KernelDiffState) -> None:
    """Draw the rows, the filter above them, and the largest as Markdown below."""
    counts = classes_of(page)
    st.html(heading("Before and after", level=2))
    choose(
        "Class",
        name="change",
        options=["", *counts],
        value=state.change,
        format_func=lambda kind: _class_label(kind, counts),
        width=260,
    )
    shown = diff_tables(page, state)
    st.html(shown or notice(f"No row has the class {state.change}."))
    with st.expander("Copy as Markdown"):
        st.code(markdown(page), language="markdown", wrap_lines=True)


def show_row(page: DiffPage, row: DiffRow, *, state: KernelDiffState) -> None:
    """Draw one change in full: both sides, what differs, where it comes from, the code."""
    st.html(heading(f"{row.number}. {row.label}", level=2))
    st.html(notice(row.text))
    st.html(row_facts(row))
    for title, content in (
        ("Both sides", kernel_table(row)),
        ("Configuration and launch", fact_table(row)),
    ):
        if content:
            st.html(heading(title, level=3))
            st.html(content)
    if not row.is_part:
        _show_code(row, page.sources)
    if origins := origin_table(row):
        st.html(heading("Where it comes from", level=3))
        st.html(origins)
    closed = dataclasses.replace(state, row="")
    st.link_button("Close the row", kernel_diff_url(closed))


def _waterfall(*_key: str | int | list[tuple[str, str]], _page: DiffPage) -> dict[str, Any]:
    return waterfall_spec(waterfall_rows(_page))


def _show_code(row: DiffRow, sources: Mapping[str, KernelSource]) -> None:
    before, after = (code_of(side, sources) for side in (row.baseline, row.candidate))
    if not (before.text or after.text):
        st.html(notice("No code of either side: only what torch.compile generated has one here."))
        return
    st.html(heading("Generated code", level=3))
    if before.text == after.text:
        st.caption("The same on both sides.")
        draw_code(before)
        return
    if not (before.text and after.text):
        st.caption(f"The {'baseline' if before.text else 'candidate'} alone has generated code.")
        draw_code(before if before.text else after)
        return
    try:
        draw_code(Code(text=unified_diff(before, after), language="diff"))
    except ValueError as error:
        st.html(notice(f"No diff: {error}."))
    is_long = any(code.is_long for code in (before, after))
    with st.expander("Side by side", expanded=not is_long):
        for column, name, code in zip(
            st.columns(2), ("baseline", "candidate"), (before, after), strict=True
        ):
            with column:
                st.caption(name)
                draw_code(code)


def _choose_side(title: str, name: str, side: DiffSide, labels: Mapping[str, str]) -> None:
    choose(
        f"{title}: run",
        name=f"{name}_run",
        options=list(labels),
        value=side.run.id,
        format_func=lambda run_id: labels.get(run_id, run_id),
        width=300,
    )
    cases = [case.key for case in side.run.plan if not case.is_reference]
    choose(
        f"{title}: case",
        name=f"{name}_case",
        options=["", *cases],
        value=side.case_key,
        format_func=lambda key: key or "choose one",
        width=300,
    )


def _class_label(kind: str, counts: Mapping[str, int]) -> str:
    return f"{class_words(kind)} ({counts.get(kind, 0)})" if kind else "all"
