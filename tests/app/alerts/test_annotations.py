"""Annotations below and in a trend: their look, their forms and the role that these need."""

from __future__ import annotations

from datetime import date, timedelta
from typing import TYPE_CHECKING, Any

import pytest
from syrupy.assertion import SnapshotAssertion

from compile_hud.app.components.trend.rows import mark_rows, scale_of
from compile_hud.app.data import annotations as annotation_data
from compile_hud.app.data.store import open_store, store_url
from compile_hud.app.data.triage import DecisionNote
from compile_hud.app.views.series.markdown import series_csv
from compile_hud.db.alerts.annotations import load_annotations, new_annotation, put_annotations
from compile_hud.db.store import Store
from tests.app.conftest import OpenPage, SignIn
from tests.support.builders import START, make_case
from tests.support.pages.page_elements import html_of, text_of, texts_of, texts_of_rows
from tests.support.records.page_results import point, series_page
from tests.support.stores import dashboard_stores

if TYPE_CHECKING:
    from streamlit.testing.v1 import AppTest

HOSTILE = "=1+1 <script>x</script> \u202e`**b**`"
CASE = dashboard_stores.REGRESSED.key


def stored(seeded: Any) -> Store:
    return Store(f"duckdb:///{seeded}")


def press(page: AppTest, key: str) -> AppTest:
    return page.button(key=key).click().run()


def write(page: AppTest, text: str, *, concerns: str = "everything") -> AppTest:
    """Fill in the form and save it."""
    page.date_input(key="annotation-date").set_value(date(2026, 1, 5))
    page.text_input(key="annotation-text").set_value(text)
    page.selectbox(key="annotation-pattern").set_value(concerns)
    if any(item.key == "annotation-name-add" for item in page.text_input):
        page.text_input(key="annotation-name-add").set_value("eve")
    return press(page, "annotation-save")


@pytest.mark.usefixtures("anybody_triages")
def test_what_a_triager_writes_is_in_the_list_and_removed_on_record(
    open_page: OpenPage, seeded: Any
) -> None:
    page = write(open_page("series", case=CASE), HOSTILE)
    assert not page.exception
    (row,) = texts_of_rows(page, "annotations")
    assert row[0] == "2026-01-05 00:00 UTC"
    assert row[1] == HOSTILE.replace("\u202e", "?")
    assert row[2:4] == ["everything", "eve (not signed in)"]
    assert "<script>" not in html_of(page)
    # Of every series, and on the page of an alert.
    assert texts_of_rows(open_page("alerts", alert="alert-1"), "annotations") == [row]

    page.text_input(key="annotation-name-drop").set_value("tom")
    page = press(page, "annotation-remove")
    assert texts_of_rows(page, "annotations") == []
    (annotation,) = load_annotations(stored(seeded), with_removed=True)
    assert annotation.removed_by == "tom (not signed in)"


@pytest.mark.usefixtures("anybody_triages")
def test_two_clicks_annotate_once_and_an_empty_text_is_refused(
    open_page: OpenPage, seeded: Any, words: SnapshotAssertion
) -> None:
    page = open_page("series", case=CASE)
    assert texts_of(write(page, " "), "notice")[-1] == words
    write(page, "new driver", concerns="this series")
    page = write(page, "new driver", concerns="this series")
    assert "Annotated 2026-01-05." in text_of(page)
    assert [item.text for item in load_annotations(stored(seeded))] == ["new driver"]
    other = open_page("series", case=CASE, metric="speedup")
    assert texts_of_rows(other, "annotations") == []


@pytest.mark.usefixtures("seeded")
def test_a_viewer_is_refused_on_the_server(
    open_page: OpenPage, sign_in: SignIn, seeded: Any, words: SnapshotAssertion
) -> None:
    sign_in("eve")
    page = open_page("series", case=CASE)
    assert "annotation-save" not in [item.key for item in page.button]
    when, pattern = START, "*"
    refused = annotation_data.write("x", at=when, pattern=pattern, note=DecisionNote(author="ada"))
    assert refused == words
    sign_in("tom")
    assert (
        annotation_data.write("x", at=when, pattern=pattern, note=DecisionNote(author="ada")) == ""
    )
    (annotation,) = load_annotations(stored(seeded))
    assert annotation.by == "tom@example.org"
    sign_in("")
    assert "sign in" in annotation_data.remove(annotation, note=DecisionNote())
    sign_in("tom")
    assert annotation_data.remove(annotation, note=DecisionNote()) == ""
    again = annotation_data.write("x", at=when, pattern=pattern, note=DecisionNote())
    assert again == words


@pytest.mark.usefixtures("anybody_triages", "store_path")
def test_a_blank_name_is_refused(words: SnapshotAssertion) -> None:
    refused = annotation_data.write("x", at=START, pattern="*", note=DecisionNote(author=" "))
    assert refused == words
    assert load_annotations(open_store(store_url())) == ()


def test_a_trend_marks_annotations_with_their_text() -> None:
    notes = [
        new_annotation(text, at=START + timedelta(days=days), pattern="*", by="ada", made_at=START)
        for text, days in (("new\ndriver", 1), ("today", 2), ("long ago", -400))
    ]
    page = series_page([point(0), point(1)], annotations=notes)
    marks = mark_rows(page, metric="latency_s", scale=scale_of(page, metric="latency_s"))
    assert [mark["text"] for mark in marks] == ["annotation: new driver", "annotation: today"]
    assert marks[0]["said"] == "ada: new driver"
    # Said in words and not by a colour.
    assert {mark["verdict"] for mark in marks} == {""}


def test_the_table_of_a_series_has_annotations_at_the_next_point() -> None:
    note = new_annotation(
        "new driver", at=START + timedelta(hours=3), pattern="*", by="ada", made_at=START
    )
    page = series_page([point(0), point(1), point(2)], annotations=[note])
    lines = series_csv(page, metric="latency_s").splitlines()
    assert [line.endswith("annotation: new driver") for line in lines] == [
        *(False, False, True, False),
    ]


def test_a_model_is_not_all_models_that_begin_alike(store: Store) -> None:
    patterns = annotation_data.patterns_of(make_case("a[b]"), metric="latency_s")
    note = new_annotation("x", at=START, pattern=patterns["model a[b]"], by="ada", made_at=START)
    put_annotations(store, [note])
    page = series_page([point(0)], case=make_case("a[b]"))
    other = series_page([point(0)], case=make_case("ab"))
    assert annotation_data.annotated(page, metric="latency_s").annotations == (note,)
    assert annotation_data.annotated(other, metric="latency_s").annotations == ()
