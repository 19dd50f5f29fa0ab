"""Draw the changes between the kernels of two results: the contribution and reason of each."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping, Sequence

import streamlit as st

from compile_hud.app.components.page_frame import (
    banners,
    choose,
    draw_code,
    link_button,
    not_found_page,
    stale_note,
    state_page,
)
from compile_hud.app.components.table.view import draw_table
from compile_hud.app.data.runs import load_newest_runs
from compile_hud.app.ui.code import HighlightedCode, code_of, unified_diff
from compile_hud.app.ui.format import local_moment
from compile_hud.app.ui.html import banner, caption, collapsible, heading
from compile_hud.app.ui.legend import legend
from compile_hud.app.ui.share import HERE, Share, file_name, show_share
from compile_hud.app.ui.urls import KernelDiffState, kernel_diff_url, parse_kernel_diff, swapped
from compile_hud.app.views.kernel_diff.data import CLASSES, load_kernel_diff
from compile_hud.app.views.kernel_diff.records import DiffPage, DiffRow, DiffSide, class_words
from compile_hud.app.views.kernel_diff.tables import (
    SIDES,
    classes_of,
    diff_table,
    environment_table,
    fact_table,
    headline,
    kernel_table,
    markdown,
    origin_table,
    row_facts,
    side_table,
    sum_table,
)
from compile_hud.app.views.kernel_diff.waterfall import (
    waterfall,
    waterfall_legend,
    waterfall_steps,
)
from compile_hud.app.views.memory.view import show_memory_changes
from compile_hud.db.errors import NotFoundError
from compile_hud.db.records.kernels import KernelSource
from compile_hud.db.records.results import Case
from compile_hud.db.records.summaries import RunSummary
from compile_hud.db.shared.text import short_revision

WATERFALL_CAPTION = "Each bar begins where the one above ends; the last is the whole difference."
UNEXPLAINED_CAPTION = "Unexplained: kernels are timed under the profiler, latencies without it."
# With more cases the page has a choice of the model first: the browser is slow with a list of
# thousands.
_MAX_CASES = 60
# A run with its time and revision, and the key of a case, are shown whole.
_RUN_WIDTH, _CASE_WIDTH = 540, 420
UNLIKE_TEXT = (
    "The environments of the two runs differ in facts that affect times. Contributions of kernels"
    " include their effect; the matching does not depend on it."
)


def show() -> None:
    """Draw the page of the kernel diff."""
    state, problems = parse_kernel_diff(st.query_params.to_dict(), classes=CLASSES)
    banners(problems)
    try:
        loaded = load_kernel_diff(state)
    except NotFoundError as error:
        not_found_page("No such run", error)
        return
    stale_note(loaded)
    page = loaded.value
    state = _resolved(state, page)
    st.html(heading("Kernel diff"))
    show_choices(page, state, summaries=load_newest_runs().value)
    st.html(side_table(page))
    if page.rows:
        _show_diff(page, state)
    else:
        _show_nothing(page)


def _show_diff(page: DiffPage, state: KernelDiffState) -> None:
    if page.is_same_result:
        banners(["Both sides are the same result."])
    elif not page.is_comparable:
        banners([*([page.devices_text] if page.devices_text else []), UNLIKE_TEXT])
    banners([page.noise] if page.noise else [])
    st.html(headline(page))
    show_diff_share(page, state)
    if environment := environment_table(page):
        st.html(collapsible(f"The environments differ: {', '.join(page.environment)}", environment))
    if sums := sum_table(page):
        st.html(collapsible("Sums by kind, operator and module", sums))
    if state.row:
        _show_row(page, state)
    show_waterfall(page, state)
    show_table(page, state)
    if page.memory is not None:
        show_memory_changes(page.memory)


def _show_row(page: DiffPage, state: KernelDiffState) -> None:
    row = next((row for row in page.rows if str(row.number) == state.row), None)
    if row is None:
        banners([f"This diff has no row {state.row}; it has {len(page.rows)}."])
    else:
        show_row(page, row, state=state)


def _show_nothing(page: DiffPage) -> None:
    """Draw the reason why a side has no kernels, and the command that records them."""
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
    """Return `state` with the ids of its runs and the keys of its cases, for permanent links."""
    return dataclasses.replace(
        state,
        baseline_run=page.baseline.run.id,
        baseline_case=page.baseline.case_key,
        candidate_run=page.candidate.run.id,
        candidate_case=page.candidate.case_key,
    )


def show_choices(
    page: DiffPage, state: KernelDiffState, *, summaries: tuple[RunSummary, ...]
) -> None:
    """Draw the choices: a run and a case on each side, of one model if there are many."""
    labels = {
        item.run.id: "  ".join(
            (local_moment(item.run.started_at), item.run.id, short_revision(item.run.revision))
        )
        for item in summaries
    }
    sides = (page.baseline, page.candidate)
    models = {side.case.model for side in sides if side.case}
    if any(len(_measured(side)) > _MAX_CASES for side in sides):
        _choose_model(page, models)
    for name, side in zip(SIDES, sides, strict=True):
        with st.container(horizontal=True, gap="small", vertical_alignment="bottom"):
            _choose_side(name, side, labels=labels, cases=_cases_of(side, models))
            if name == SIDES[-1]:
                link_button("Swap sides", kernel_diff_url(swapped(state)))


def show_diff_share(page: DiffPage, state: KernelDiffState) -> None:
    """Draw buttons that copy the address, and the headline with the largest rows as Markdown."""
    share = Share(
        name=file_name("kernel diff", page.baseline.run.id, page.candidate.run.id),
        url=kernel_diff_url(state),
        markdown=f"{markdown(page)}\n{HERE}\n",
    )
    show_share(share)


def show_waterfall(page: DiffPage, state: KernelDiffState) -> None:
    """Draw the contribution of each change to the difference."""
    st.html(heading("What contributes", level=2))
    steps = waterfall_steps(page)
    st.html(legend(waterfall_legend(steps)) + waterfall(steps, state))
    words = [WATERFALL_CAPTION, *([UNEXPLAINED_CAPTION] if page.unexplained_s else [])]
    st.html(caption(" ".join(words)))


def show_table(page: DiffPage, state: KernelDiffState) -> None:
    """Draw the rows and the filter above them."""
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
    table = diff_table(page, state)
    if table is None:
        st.html(banner(f"No row has the class {state.change}."))
    else:
        draw_table(table, key="kernel-diff")


def show_row(page: DiffPage, row: DiffRow, *, state: KernelDiffState) -> None:
    """Draw one change in full: both sides, their differences, origin and code."""
    st.html(heading(f"{row.number}. {row.label}", level=2))
    st.html(banner(row.text))
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
    link_button("Close the row", kernel_diff_url(closed))


def _show_code(row: DiffRow, sources: Mapping[str, KernelSource]) -> None:
    before, after = (code_of(side, sources) for side in (row.baseline, row.candidate))
    if not (before.text or after.text):
        st.html(banner("No source: library kernels have none."))
        return
    st.html(heading("Generated code", level=3))
    if before.text == after.text:
        st.html(caption("The same on both sides."))
        draw_code(before)
        return
    if not (before.text and after.text):
        side = "baseline" if before.text else "candidate"
        st.html(caption(f"The {side} alone has generated code."))
        draw_code(before if before.text else after)
        return
    try:
        draw_code(HighlightedCode(text=unified_diff(before, after), language="diff"))
    except ValueError as error:
        st.html(banner(f"No diff: {error}."))
    is_long = any(code.is_long for code in (before, after))
    with st.expander("Side by side", expanded=not is_long):
        for column, name, code in zip(
            st.columns(2), ("baseline", "candidate"), (before, after), strict=True
        ):
            with column:
                st.html(caption(name))
                draw_code(code)


def _choose_model(page: DiffPage, models: Collection[str]) -> None:
    """Draw the choice of the model whose cases can be chosen.

    Both sides then have its case that is like the previous one, or else its first.
    """
    now = page.baseline.case
    cases = [*_measured(page.baseline), *_measured(page.candidate)]
    keys = [(case.model, case.key) for case in cases]
    by_model = dict(reversed(keys))
    if now is not None:
        like = now.key.removeprefix(now.model)
        by_model |= {model: case_key for model, case_key in keys if case_key == f"{model}{like}"}
    key = "diff-model"
    st.session_state[key] = now.model if now else ""
    st.selectbox(
        "Model",
        ["", *sorted({*by_model, *models})],
        key=key,
        format_func=lambda model: model or "choose one",
        on_change=_choose_case,
        args=(key, by_model),
        width=220,
    )


def _choose_case(key: str, cases: Mapping[str, str]) -> None:
    for name in ("baseline_case", "candidate_case", "change", "row"):
        st.query_params.pop(name, None)
    if case_key := cases.get(st.session_state[key]):
        st.query_params["baseline_case"] = case_key


def _cases_of(side: DiffSide, models: Collection[str]) -> list[str]:
    """Return the cases to choose from: those of `models` if the run has many."""
    cases = _measured(side)
    is_short = len(cases) <= _MAX_CASES
    return [case.key for case in cases if is_short or case.model in models]


def _measured(side: DiffSide) -> list[Case]:
    return [case for case in side.run.plan if not case.is_reference]


def _choose_side(
    name: str, side: DiffSide, *, labels: Mapping[str, str], cases: Sequence[str]
) -> None:
    title = name.capitalize()
    choose(
        f"{title}: run",
        name=f"{name}_run",
        options=list(labels),
        value=side.run.id,
        format_func=lambda run_id: labels.get(run_id, run_id),
        width=_RUN_WIDTH,
    )
    choose(
        f"{title}: case",
        name=f"{name}_case",
        options=["", *cases],
        value=side.case_key,
        format_func=lambda key: key or "choose one",
        width=_CASE_WIDTH,
    )


def _class_label(kind: str, counts: Mapping[str, int]) -> str:
    return f"{class_words(kind)} ({counts.get(kind, 0)})" if kind else "all"
