"""The annotations below a trend: the list, and the forms for triagers."""

from __future__ import annotations

from datetime import datetime, time, timezone

import streamlit as st

from compile_hud.app import clock
from compile_hud.app.auth import access
from compile_hud.app.components.author import name_field, remember_name
from compile_hud.app.data import annotations as annotation_data
from compile_hud.app.data.page_records import SeriesPage
from compile_hud.app.data.triage import DecisionNote
from compile_hud.app.ui.flash import set_flash, show_flash
from compile_hud.app.ui.html import Cell, HtmlColumn, heading, table, time_cell
from compile_hud.db.alerts.annotations import MAX_TEXT, Annotation
from compile_hud.db.shared.access_rules import Role
from compile_hud.db.shared.text import one_line, shortened

_KEY = "annotation"
_COLUMNS = (
    HtmlColumn(label="date"),
    HtmlColumn(label="annotation"),
    HtmlColumn(label="concerns"),
    HtmlColumn(label="who"),
    HtmlColumn(label="written", is_spare=True),
)
_LABEL_LENGTH = 80


def show_annotations(page: SeriesPage, *, metric: str) -> None:
    """Draw the annotations of a series, and for triagers the forms to add and remove one."""
    if page.annotations:
        st.html(heading("Annotations", level=2))
        st.html(annotation_table(page, metric=metric))
    if not access.present().may(Role.TRIAGER):
        return
    with st.container(horizontal=True, gap="small"):
        _adding(page, metric=metric)
        if page.annotations:
            _removing(page)
    show_flash(_KEY)


def annotation_table(page: SeriesPage, *, metric: str) -> str:
    """Return a row for each annotation, the newest date first."""
    patterns = annotation_data.patterns_of(page.case, metric=metric)
    words = {pattern: name for name, pattern in patterns.items()}
    rows = [
        (
            time_cell(item.at),
            Cell(text=item.text, style="prose"),
            Cell(text=words.get(item.pattern, item.pattern)),
            Cell(text=item.by),
            time_cell(item.made_at, style="quiet"),
        )
        for item in reversed(page.annotations)
    ]
    return table(_COLUMNS, rows, label="annotations")


def _adding(page: SeriesPage, *, metric: str) -> None:
    patterns = annotation_data.patterns_of(page.case, metric=metric)
    last = page.points[-1].at if page.points else clock.now()
    day = last.astimezone(clock.zone()).date()
    with st.popover("Annotate a date", key=f"{_KEY}-add"):
        st.date_input("Date", value=day, key=f"{_KEY}-date", width=160)
        st.text_input("What happened", key=f"{_KEY}-text", max_chars=MAX_TEXT, width=420)
        st.selectbox("Concerns", list(patterns), key=f"{_KEY}-pattern", width=320)
        _name_field("add")
        st.button("Save the annotation", key=f"{_KEY}-save", on_click=_add, args=(patterns,))


def _removing(page: SeriesPage) -> None:
    labels = {_label(item): item for item in reversed(page.annotations)}
    with st.popover("Remove an annotation", key=f"{_KEY}-drop"):
        st.selectbox("Annotation", list(labels), key=f"{_KEY}-which", width=420)
        _name_field("drop")
        st.button("Remove it", key=f"{_KEY}-remove", on_click=_remove, args=(labels,))


def _name_field(form: str) -> None:
    name_field(access.present(), key=f"{_KEY}-name-{form}", width=200)


def _label(annotation: Annotation) -> str:
    text = f"{annotation.at.astimezone(clock.zone()):%Y-%m-%d} {one_line(annotation.text)}"
    return f"{shortened(text, limit=_LABEL_LENGTH)} ({annotation.id[:6]})"


def _add(patterns: dict[str, str]) -> None:
    state = st.session_state
    day = state[f"{_KEY}-date"]
    if day is None:
        set_flash("Not saved: it needs a date.", key=_KEY)
        return
    author = str(state.get(f"{_KEY}-name-add", ""))
    problem = annotation_data.write(
        state[f"{_KEY}-text"],
        at=datetime.combine(day, time(), clock.zone()).astimezone(timezone.utc),
        pattern=patterns[state[f"{_KEY}-pattern"]],
        note=DecisionNote(author=author),
    )
    if not problem:
        state[f"{_KEY}-text"] = ""
        remember_name(author)
    set_flash(problem or f"Annotated {day}.", key=_KEY)


def _remove(labels: dict[str, Annotation]) -> None:
    state = st.session_state
    annotation = labels.get(state[f"{_KEY}-which"])
    if annotation is None:
        # The first of two clicks has removed it.
        return
    note = DecisionNote(author=str(state.get(f"{_KEY}-name-drop", "")))
    problem = annotation_data.remove(annotation, note=note)
    set_flash(problem or f"Removed: {_label(annotation)}.", key=_KEY)
