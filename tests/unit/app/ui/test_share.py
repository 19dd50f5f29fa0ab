"""The shareable contents of a view: Markdown, tables, names of files."""

from __future__ import annotations

import csv
import dataclasses
import io
from datetime import timedelta

import pytest
from syrupy.assertion import SnapshotAssertion

from compile_hud.app.ui.share import HERE, code, file_name
from compile_hud.app.views.series.markdown import series_csv, series_markdown
from compile_hud.db.records.results import RunRef
from tests.support.builders import START, make_alert
from tests.support.records.page_results import point, series_page

BAD = RunRef(run_id="run-1", revision="rev-1", at=START + timedelta(days=1))


def test_the_markdown_of_a_series_says_what_changed_and_how_to_measure_it(
    words: SnapshotAssertion,
) -> None:
    page = series_page([point(0), point(1, 0.012)], alerts=[make_alert(first_bad=BAD)])
    text = series_markdown(page, metric="latency_s", command="hud run --model bert")
    assert text.startswith("`latency` of `bert/")
    assert text == words
    assert "- `regression: +20.0 % [+18.0, +22.0] %" in text
    assert text.endswith(f"- {HERE}\n\n```\nhud run --model bert\n```\n")


def test_the_markdown_of_a_series_without_points_has_no_value() -> None:
    assert "latest" not in series_markdown(series_page(), metric="latency_s", command="hud run")


@pytest.mark.parametrize("text", ["a`b`c", "a\nb", "[x](http://y)", "\u202ea\0"])
def test_nothing_in_a_name_ends_its_code(text: str) -> None:
    shown = code(text)
    assert shown.isprintable()
    assert shown.count("`") == 2
    assert "\n" not in shown


def test_the_table_of_a_series_has_every_point_in_the_units_of_the_store() -> None:
    page = series_page([point(0), point(1, 0.012)], alerts=[make_alert(first_bad=BAD)])
    first, second = csv.DictReader(io.StringIO(series_csv(page, metric="latency_s")))
    assert (first["run_started_utc"], first["median"], first["unit"]) == (
        "2026-01-01T02:30:00Z",
        "0.01",
        "s",
    )
    assert (first["at_one_pace"], second["note"]) == ("", "regression: +20.0 %")


def test_the_table_of_a_series_has_what_was_judged() -> None:
    page = series_page([point(0, 0.02)], normalised=[point(0, 0.01)])
    (row,) = csv.DictReader(io.StringIO(series_csv(page, metric="latency_s")))
    assert (row["median"], row["at_one_pace"]) == ("0.02", "0.01")


def test_a_revision_is_no_formula_in_the_table() -> None:
    hostile = dataclasses.replace(point(0), revision="=HYPERLINK(1)")
    (row,) = csv.DictReader(io.StringIO(series_csv(series_page([hostile]), metric="latency_s")))
    assert row["revision"] == "'=HYPERLINK(1)"


@pytest.mark.parametrize(
    ("parts", "name"),
    [
        (("bert", "default", "latency_s"), "bert-default-latency_s"),
        (("../../etc", "<b>"), "etc-b"),
        (("\N{RIGHT-TO-LEFT OVERRIDE}",), "hud"),
        (("x" * 500,), "x" * 80),
    ],
)
def test_a_file_has_a_name_that_every_system_takes(parts: tuple[str, ...], name: str) -> None:
    assert file_name(*parts) == name
