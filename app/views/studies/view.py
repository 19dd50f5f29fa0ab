"""A study: its question, and the answers of the newest full run on each device."""

from __future__ import annotations

import streamlit as st
from markupsafe import Markup

from compile_hud.app import clock
from compile_hud.app.components.page_frame import (
    banners,
    choose,
    draw_chart,
    draw_legend,
    stale_note,
    state_page,
)
from compile_hud.app.ui.charts import PICK, picked
from compile_hud.app.ui.format import age, moment
from compile_hud.app.ui.html import (
    Cell,
    banner,
    caption,
    collapsible,
    grid,
    heading,
    key_values,
    table,
)
from compile_hud.app.ui.share import go
from compile_hud.app.ui.urls import DEFAULT_STUDY, parse_studies, run_url
from compile_hud.app.views.studies.data import TITLES, load_study_page
from compile_hud.app.views.studies.records import GridPart, StudySection, TablePart

_HOW_TO_GET_ONE = (
    "A run of it fills this page: in minutes with a small selection on a CPU, in hours with the"
    " published sizes on a GPU."
)


def show() -> None:
    """Draw one study."""
    state, problems = parse_studies(st.query_params.to_dict(), studies=tuple(TITLES))
    loaded = load_study_page(state.study)
    banners(problems)
    stale_note(loaded)
    page = loaded.value
    choose(
        "Study",
        name="study",
        options=list(TITLES),
        value=page.name,
        default=DEFAULT_STUDY,
        format_func=TITLES.__getitem__,
        width=420,
    )
    st.html(heading(page.title))
    st.html(banner(page.question))
    if not page.sections:
        command = f"hud study run {page.name}"
        state_page("No run of this study yet", text=[_HOW_TO_GET_ONE], commands=[command])
    for section in page.sections:
        _show_section(section, study=page.name)


def _show_section(section: StudySection, *, study: str) -> None:
    run = section.run
    st.html(heading(section.title, level=2))
    started = Cell(
        text=age(run.started_at, now=clock.now()),
        href=run_url(run.id),
        title=moment(run.started_at),
    )
    pairs = [
        ("run", started),
        ("state", Cell(text=str(run.state))),
        ("cases", Cell(text=section.outcomes)),
        *((name, Cell(text=value)) for name, value in section.common.items()),
        ("revision", Cell(text=run.revision)),
        ("machine", Cell(text=run.machine)),
        ("toolchain", Cell(text=run.toolchain)),
    ]
    st.html(key_values(pairs))
    if section.chart is not None:
        _show_chart(section, key=f"{study}-{run.id}")
    for grids in section.grids:
        _show_grids(grids)
    for part in section.parts:
        _show_part(part)


def _show_chart(section: StudySection, *, key: str) -> None:
    """Draw the chart; a click on a point that is a case opens it."""
    assert section.chart is not None
    draw_legend(section.chart_legend)
    if not section.has_picks:
        draw_chart(section.chart, key=key)
    else:
        event = draw_chart(section.chart, key=key, on_select="rerun", selection_mode=PICK)
        if case_key := picked(event, "case"):
            go(run_url(section.run.id, case_key=case_key))
    st.html(caption(section.chart_text))


def _show_grids(part: GridPart) -> None:
    st.html(heading(part.title, level=3))
    st.html(grid((grid.title, _drawn(grid)) for grid in part.grids))
    st.html(caption(part.text))


def _show_part(part: TablePart) -> None:
    if part.is_folded:
        st.html(collapsible(part.title, _drawn(part)))
        return
    st.html(heading(part.title, level=3))
    st.html(_drawn(part))


def _drawn(part: TablePart) -> Markup:
    return table(part.columns, part.rows, label=part.title)
