"""The report of a range, as Markdown and as one HTML file."""

from __future__ import annotations

import base64
import csv
import io
import re
from dataclasses import replace
from html.parser import HTMLParser

from syrupy.assertion import SnapshotAssertion

from compile_hud.runner.analysis.trends.records import PASS_RATE, MarkKind, TrendMark
from compile_hud.runner.reporting.trend_report import report_html, report_markdown
from tests.support.builders import START, make_case
from tests.support.records.mode_trends import history_run, point, trend, trends_of

HOSTILE = "<script>alert(1)</script>|*x*"
ALERT = TrendMark(
    kind=MarkKind.ALERT,
    at=history_run(1).at,
    text="vit default: latency_s +8.6 % (open)",
    case=make_case("vit", mode="default"),
    metric="latency_s",
    verdict="regression",
)
TRENDS = trends_of(
    trend("default", [1.5, 1.6, 1.8]),
    trend("max-autotune", [2.0, 2.0, 1.9]),
    trend("default", [1.0, 1.0, 0.75], metric=PASS_RATE),
    marks=[ALERT],
)
# Elements without an end.
VOID = {"meta", "br", "link", "img"}


class Elements(HTMLParser):
    """The elements of a page; an element that ends in the wrong order is an error."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.names: list[str] = []
        self.urls: list[str] = []
        self._open: list[str] = []
        self.feed(page)
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.names.append(tag)
        self.urls += [value or "" for name, value in attrs if name in ("href", "src")]
        if tag not in VOID:
            self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag


def test_markdown_has_a_table_for_each_metric(words: SnapshotAssertion) -> None:
    assert report_markdown(TRENDS, at=START) == words


def test_a_demo_says_in_both_formats_that_nothing_was_measured() -> None:
    runs = tuple(replace(run, is_synthetic=index == 1) for index, run in enumerate(TRENDS.runs))
    for report in (report_markdown, report_html):
        assert "SYNTHETIC DATA" in report(replace(TRENDS, runs=runs), at=START)
        assert "SYNTHETIC" not in report(TRENDS, at=START)


def test_groups_have_a_column() -> None:
    trends = trends_of(*(trend("default", [1.5], by="model", group=name) for name in ("a", "b")))
    lines = report_markdown(trends, at=START).splitlines()
    assert [line.split(" | ")[0] for line in lines if line.startswith("| ")] == [
        *("| model", "| ---", "| a", "| b"),
    ]


def test_page_is_whole_and_has_a_chart_for_each_trend() -> None:
    elements = Elements(report_html(TRENDS, at=START))
    assert elements.names.count("svg") == len(TRENDS.trends)
    assert elements.names.count("table") == 2
    assert "script" not in elements.names


def test_page_loads_nothing() -> None:
    page = report_html(TRENDS, at=START)
    (url,) = Elements(page).urls
    assert url.startswith("data:text/csv;base64,")
    assert not re.search(r"https?://|url\(|@import", page)


def test_page_has_all_points_as_csv() -> None:
    (url,) = Elements(report_html(TRENDS, at=START)).urls
    text = base64.b64decode(url.partition(",")[2]).decode()
    rows = list(csv.DictReader(io.StringIO(text)))
    assert len(rows) == sum(len(item.points) for item in TRENDS.trends)


def test_names_are_text_in_both_formats() -> None:
    own = trend("default", [1.5, 1.6], by="model", group=HOSTILE)
    changed = point(1, 1.6, joined=(HOSTILE,))
    trends = replace(
        trends_of(replace(own, points=(own.points[0], changed))),
        machine=HOSTILE,
        marks=(replace(ALERT, text=HOSTILE),),
    )
    assert "script" not in Elements(report_html(trends, at=START)).names
    markdown = report_markdown(trends, at=START)
    assert "<script" not in markdown
    assert "*x*" not in markdown
    assert {line.count(" | ") for line in markdown.splitlines() if line[:2] == "| "} == {7}


def test_underscores_and_arrows_of_markdown_are_plain_and_markup_is_escaped() -> None:
    marks = tuple(
        replace(ALERT, text=text)
        for text in ("driver_version 570 -> 580", "_emphasis_ of a_", "<a>b", "a > b")
    )
    markdown = report_markdown(replace(TRENDS, marks=marks), at=START)
    assert "driver_version 570 -> 580" in markdown
    assert "&#95;emphasis&#95; of a&#95;" in markdown
    assert "&#60;a&#62;b" in markdown
    assert "a &#62; b" in markdown


def test_title_names_the_fastest_mode(words: SnapshotAssertion) -> None:
    page = report_html(TRENDS, at=START)
    assert re.findall(r"<(?:title|h1)>(.*?)</", page)[:1] == words
