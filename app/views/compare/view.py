"""Two runs side by side: nights, revisions, variants, toolchains or devices."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Sequence

import streamlit as st

from compile_hud.app.components.code_diff import show_code_diff
from compile_hud.app.components.evidence import difference_table
from compile_hud.app.components.machine_status import machine_notice
from compile_hud.app.components.page_frame import (
    banners,
    choose,
    link_button,
    load_runs_with_results,
    or_all,
    stale_note,
    state_page,
)
from compile_hud.app.components.table.columns import DataTable
from compile_hud.app.components.table.filters import draw_count
from compile_hud.app.components.table.view import draw_table
from compile_hud.app.data import store
from compile_hud.app.data.cache import computed_once
from compile_hud.app.data.commands import comparing_command, run_command
from compile_hud.app.ui.html import banner, caption, collapsible, heading
from compile_hud.app.ui.share import Share, file_name, show_share
from compile_hud.app.ui.urls import OVERVIEW_METRICS, CompareState, compare_url, parse_compare
from compile_hud.app.views.compare.data import load_compare
from compile_hud.app.views.compare.markdown import compare_markdown
from compile_hud.app.views.compare.records import ComparedRow, ComparePage
from compile_hud.app.views.compare.row_table import level_table, row_table
from compile_hud.app.views.compare.tables import (
    compared_csv,
    headline,
    mean_table,
    metrics_of,
    models_of,
    one_sided_text,
    run_label,
    shown_rows,
    side_table,
    suggestions,
    verdict_tiles,
)
from compile_hud.db.errors import NotFoundError
from compile_hud.db.records.imported import is_imported
from compile_hud.db.records.metrics import metric_label
from compile_hud.db.records.results import Verdict
from compile_hud.db.records.summaries import RunSummary
from compile_hud.db.shared.text import none_of

LEVELS_CAPTION = (
    "No verdict: the environments differ, so a change cannot be attributed to the code. A new"
    " baseline starts with the candidate."
)
# A longer list of differences pushes the table off the screen.
_SHOWN_DIFFERENCES = 5
MEANS_CAPTION = (
    "Geometric mean of candidate / baseline over the cases that are ok on both sides. Means are"
    " not tested: cases of one run are correlated."
)


def show() -> None:
    """Draw the comparison of two runs."""
    state, problems = parse_compare(st.query_params.to_dict())
    banners(problems)
    summaries = load_runs_with_results()
    if not summaries:
        return
    try:
        loaded = load_compare(state)
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
    show_share_of(page, state, rows)
    if others := suggestions(page, summaries=summaries):
        st.html(collapsible("Compare the candidate with", others))
    show_environment(page)
    if page.refusal:
        show_refusal(page, state)
    elif is_same:
        text = ["Choose two variants of it, or another run."]
        state_page("Both sides are the same run", text=text)
    else:
        show_comparison(page, state, rows, version=loaded.version)


def show_comparison(
    page: ComparePage,
    state: CompareState,
    rows: Sequence[ComparedRow],
    *,
    version: int,
    url: Callable[[CompareState], str] = compare_url,
) -> None:
    """Draw the verdicts of two runs.

    `version` is the store's at which `page` was read; `url` makes the address of the page with
    other filters.
    """
    if moved := machine_notice(page.machine):
        st.html(banner(*moved))
    if page.resolution:
        st.html(banner(*(f"{sentence}." for sentence in page.resolution)))
    st.html(verdict_tiles(page))
    if page.noise:
        st.html(caption(f"Noise of the comparisons learnt from {page.noise}."))
    if means := mean_table(page.means, page=page):
        st.html(means)
        st.html(caption(MEANS_CAPTION))
    st.html(heading("Case by case, worst first", level=2))
    show_filters(page, state)
    if not rows:
        show_no_match(page, state, url=url)
        return
    draw_count(len(rows), len(page.rows), noun="comparison")
    # Thousands of rows take longer than everything else on the page.
    table = computed_once(_row_table)(store.store_url(), version, state, _rows=rows, _page=page)
    draw_table(table, key="comparisons")
    if lonely := one_sided_text(page):
        st.html(lonely)


def _row_table(*_key: object, _rows: Sequence[ComparedRow], _page: ComparePage) -> DataTable:
    return row_table(_rows, page=_page)


def show_share_of(page: ComparePage, state: CompareState, rows: Sequence[ComparedRow]) -> None:
    """Draw the buttons that share the comparison; its address names both runs."""
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
    """Return `state` with the ids of its runs, for links that stay valid."""
    return dataclasses.replace(state, baseline=page.baseline.id, candidate=page.candidate.id)


def _is_same_variant(state: CompareState) -> bool:
    both = (state.baseline_variant, state.candidate_variant)
    return both[0] == both[1] or not all(both)


def show_choices(
    state: CompareState, summaries: tuple[RunSummary, ...], *, variants: tuple[str, ...]
) -> None:
    """Draw the choices: a run and a variant on each side."""
    labels = {summary.run.id: run_label(summary) for summary in summaries}
    with st.container(horizontal=True, gap="small", vertical_alignment="bottom"):
        for label, side in (("Baseline", "baseline"), ("Candidate", "candidate")):
            choose(
                label,
                name=side,
                options=list(labels),
                value=getattr(state, side),
                format_func=lambda run_id: labels.get(run_id, run_id),
                width=400,
            )
            choose(
                f"{label} variant",
                name=f"{side}_variant",
                options=["", *variants],
                value=getattr(state, f"{side}_variant"),
                format_func=lambda name: name or "same variant on both sides",
                width=200,
            )
        swapped = dataclasses.replace(
            state,
            baseline=state.candidate,
            candidate=state.baseline,
            baseline_variant=state.candidate_variant,
            candidate_variant=state.baseline_variant,
        )
        link_button("Swap sides", compare_url(swapped))


def show_environment(page: ComparePage) -> None:
    """Draw the differences between the environments of the two runs."""
    for item in page.code_changes:
        st.html(banner(f"{item.change.model}: {item.change.text}"))
        show_code_diff(item)
    names = list(page.environment)
    content = difference_table(
        page.environment, ends=("baseline", "candidate"), label="environment changes"
    )
    if not names:
        st.html(banner("The environments are identical."))
    elif len(names) <= _SHOWN_DIFFERENCES:
        st.html(content)
    else:
        st.html(
            collapsible(f"The environments differ in {len(names)}: {', '.join(names)}", content)
        )


def show_refusal(page: ComparePage, state: CompareState) -> None:
    """Draw the reason why the two runs do not compare, and their levels side by side."""
    problem, _, remedy = page.refusal.partition(". ")
    st.html(banner(f"No verdict: {problem}.", *([f"{remedy}."] if remedy else [])))
    st.html(heading("Levels of both", level=2))
    choose(
        "Table shows",
        name="metric",
        options=OVERVIEW_METRICS,
        value=state.metric or OVERVIEW_METRICS[0],
        default=OVERVIEW_METRICS[0],
        format_func=metric_label,
        width=200,
    )
    shown = state.metric or OVERVIEW_METRICS[0]
    pairs = [pair for pair in page.levels if pair.metric == shown]
    if not page.levels:
        text = ["The two runs have no model in common in the same phase, shape, dtype and variant."]
        state_page("Nothing in common", text=text)
        return
    draw_table(level_table(pairs, page=page), key="levels")
    st.html(caption(LEVELS_CAPTION))


def show_filters(page: ComparePage, state: CompareState) -> None:
    """Draw the filters of the rows."""
    with st.container(horizontal=True, gap="small"):
        choose(
            "Verdict",
            name="verdict",
            options=["", *map(str, Verdict)],
            value=state.verdict,
            width=160,
            format_func=or_all,
        )
        choose(
            "Metric",
            name="metric",
            options=["", *metrics_of(page)],
            value=state.metric,
            format_func=lambda name: metric_label(name) if name else "all",
            width=200,
        )
        choose(
            "Model",
            name="model",
            options=["", *models_of(page)],
            value=state.model,
            width=200,
            format_func=or_all,
        )


def show_no_other(error: NotFoundError, summaries: tuple[RunSummary, ...]) -> None:
    """Draw that a second run is missing, and the command that makes one."""
    title = "Nothing to compare with"
    if len(summaries) > 1:
        text = [f"{error}.", "Choose another run above; the page Runs lists all there are."]
        state_page(title, text=text)
        return
    run = summaries[0].run
    variants = list(dict.fromkeys(case.variant for case in run.plan if not case.is_reference))
    links = []
    if len(variants) > 1:
        both = CompareState(
            baseline=run.id,
            baseline_variant=variants[0],
            candidate=run.id,
            candidate_variant=variants[1],
        )
        links = [(f"Compare {variants[1]} with {variants[0]} of this run", compare_url(both))]
    text = [
        f"{error}.",
        f"Run {run.id} is the only run in this store, and a comparison needs a second one.",
        f"`hud run` on {run.machine} measures it; `hud ingest` and `hud import` store results from"
        " elsewhere.",
    ]
    command = "" if is_imported(run.toolchain) else run_command(run)
    state_page(
        title,
        text=text,
        commands=[command] if command else [],
        links=links,
    )


def show_no_match(
    page: ComparePage, state: CompareState, *, url: Callable[[CompareState], str]
) -> None:
    """Draw which filter leaves no row."""
    one_less = [
        f"{name} ({num})"
        for name in ("verdict", "metric", "model")
        if getattr(state, name)
        and (num := len(shown_rows(page, dataclasses.replace(state, **{name: ""}))))
    ]
    text = [f"{none_of(len(page.rows), 'comparison')}."]
    if one_less:
        text.append(f"Setting one of these back to all shows rows: {', '.join(one_less)}.")
    state_page("Nothing matches the filters", text=text)
    everything = dataclasses.replace(state, verdict="", metric="", model="")
    link_button("Show everything", url(everything))
