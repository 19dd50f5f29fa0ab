"""HTML of tables: what comes from the store is text, never markup."""

from __future__ import annotations

import math
import re
from datetime import datetime, timezone
from html.parser import HTMLParser
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st
from syrupy.assertion import SnapshotAssertion

from compile_hud.app import clock
from compile_hud.app.ui.html import (
    Bar,
    Cell,
    HtmlColumn,
    Note,
    Part,
    banner,
    collapsible,
    heading,
    key_values,
    link,
    metric_tiles,
    stack,
    table,
    time_cell,
)

HOSTILE = '<img src=x onerror="alert(1)">\'&'


class Elements(HTMLParser):
    """Collects the names of the elements and the values of their attributes."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.names: set[str] = set()
        self.attributes: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.names.add(tag)
        self.attributes.update(name for name, _ in attrs)


@pytest.mark.parametrize(
    ("text", "content"),
    [
        ("`hud <run>` does", "<code>hud &lt;run&gt;</code> does"),
        ("one ` is a sign", "one ` is a sign"),
        ("`a` and `b", "<code>a</code> and `b"),
    ],
)
def test_what_is_between_backticks_in_a_notice_is_code(text: str, content: str) -> None:
    assert f'<div class="hud-line">{content}</div>' in banner(text)


def test_a_notice_has_a_line_for_each_text() -> None:
    lines = re.findall('<div class="hud-line">(.*?)</div>', banner("one", "<two>"))
    assert lines == ["one", "&lt;two&gt;"]


@given(st.text())
def test_no_text_becomes_an_element_or_an_attribute(text: str) -> None:
    cell = Cell(text=text, href=text, title=text, notes=(Note(text=text, href=text),))
    page = (
        table([HtmlColumn(label=text, title=text)], [[cell]], label=text)
        + key_values([(text, cell)])
        + metric_tiles([(text, cell)])
        + collapsible(text, "")
        + banner(text)
        + heading(text)
        + link(text, text)
    )
    elements = Elements(page)
    assert elements.names <= {
        *("div", "table", "thead", "tbody", "tr", "th", "td", "a"),
        *("dl", "dt", "dd", "details", "summary", "code"),
    }
    assert elements.attributes <= {
        *("class", "href", "title", "scope", "role", "tabindex"),
        *("aria-label", "aria-level"),
    }


def test_markup_in_a_cell_is_shown_as_it_was_written() -> None:
    page = table([HtmlColumn(label="model")], [[Cell(text=HOSTILE)]], label="models")
    assert "&lt;img src=x onerror=&#34;alert(1)&#34;&gt;&#39;&amp;" in page


def test_sign_that_turns_the_writing_is_shown_as_a_question_mark() -> None:
    assert "bert?default?" in heading("bert\u202edefault\x1b")


def test_revision_breaks_before_its_commit_and_nowhere_else() -> None:
    cell = Cell(text="2.14.0.dev20261112+cpu.06a9", style="revision", href="run")
    assert ">2.14.0.dev20261112+<wbr>cpu.06a9</a>" in table(
        [HtmlColumn(label="")], [[cell]], label=""
    )


def test_name_of_a_kernel_breaks_between_its_words_and_its_link_stays_whole() -> None:
    cell = Cell(text="aten::add_relu", style="symbol strong", href="kernel-diff?change=other_code")
    html = table([HtmlColumn(label="")], [[cell]], label="")
    assert ">aten:<wbr>:<wbr>add_<wbr>relu</a>" in html
    assert 'href="kernel-diff?change=other_code"' in html


def test_long_texts_are_cut() -> None:
    cell = Cell(text="x" * 10_000, title="y" * 10_000)
    assert len(table([HtmlColumn(label="model")], [[cell]], label="models")) < 1500


@pytest.mark.parametrize(("href", "num_stops"), [("", 1), ("run", 0)])
def test_table_that_scrolls_is_reached_by_keyboard(href: str, num_stops: int) -> None:
    html = table([HtmlColumn(label="a")], [[Cell(text="1", href=href)]], label="t")
    stop = '<div class="hud-scroll" tabindex="0" role="group" aria-label="t">'
    assert html.count(stop) == html.count("tabindex") == num_stops


def test_a_table_in_full(words: SnapshotAssertion) -> None:
    columns = [HtmlColumn(label="model"), HtmlColumn(label="speedup", title="why", is_number=True)]
    cell = Cell(
        text="1.34x",
        href="series?case=c",
        style="cell-bad",
        notes=(Note(text="latency +21 %", style="note bad"),),
    )
    assert table(columns, [[Cell(text="bert"), cell]], label="results") == (words)


@pytest.mark.parametrize("name", ["spare", "brief"])
def test_a_column_that_is_less_in_a_narrow_window_is_marked_in_heading_and_cells(name: str) -> None:
    column = HtmlColumn(label="a", is_number=True, **{f"is_{name}": True})
    html = table([column], [[Cell(text="1")]], label="t")
    assert html.count(f'class="number {name}"') == 2


def test_parts_of_a_bar_are_shares_of_the_longest_and_say_their_size() -> None:
    bars = [
        Bar(name="long", parts=(Part(name="a", size=3.0), Part(name="b", size=1.0))),
        Bar(name="short", parts=(Part(name="b", size=0.1),)),
    ]
    html = stack(bars, unit="s", label="times")
    assert 'class="p0" style="width:75.00%" title="a: 3.00 s">3.00<' in html
    assert 'class="p1" style="width:25.00%" title="b: 1.00 s">1.00<' in html
    # Too narrow for its number; the tooltip has it.
    assert 'class="p1" style="width:2.50%" title="b: 0.100 s"><' in html
    assert html.count("<i ") == 2


def test_bars_without_a_length_are_drawn_empty() -> None:
    html = stack([Bar(name="none", parts=(Part(name="a", size=0.0),))], unit="s", label="times")
    assert "width:0.00%" in html
    assert stack([], unit="s", label="times").startswith('<div class="hud-stack"')


def test_names_in_a_bar_are_text() -> None:
    html = stack([Bar(name=HOSTILE, parts=(Part(name=HOSTILE, size=1.0),))], unit="s", label="t")
    assert "img" not in Elements(html).names


def test_a_fact_is_cut_short_unless_it_is_there_to_be_read_whole() -> None:
    text = "because " * 40
    assert text.strip() not in key_values([("cause", Cell(text=text.strip()))])
    assert text.strip() in key_values([("cause", Cell(text=text.strip(), style="whole"))])


def test_a_trend_is_an_outline_from_the_oldest_to_the_newest() -> None:
    html = table([HtmlColumn(label="a")], [[Cell(text="2", trend=(1.0, 1.0, 2.0))]], label="t")
    assert "clip-path:polygon(0.0% 84%, 50.0% 84%, 100.0% 0%, 100% 100%, 0% 100%)" in html


def test_the_lowest_number_of_a_trend_is_seen_too() -> None:
    html = table([HtmlColumn(label="a")], [[Cell(text="2", trend=(1.0, 1.0, 2.0, 2.0))]], label="t")
    assert "polygon(0.0% 92%, 33.3% 92%, 66.7% 0%, 100.0% 0%, 100% 100%, 0% 100%)" in html


@pytest.mark.parametrize("values", [(), (1.0,), (1.0, math.nan), (math.inf, 1.0)])
def test_one_number_is_no_trend(values: tuple[float, ...]) -> None:
    html = table([HtmlColumn(label="a")], [[Cell(text="2", trend=values)]], label="t")
    assert "clip-path" not in html


def test_noise_looks_flat_and_what_never_moves_is_in_the_middle() -> None:
    html = table([HtmlColumn(label="a")], [[Cell(text="2", trend=(5.0, 5.0))]], label="t")
    assert "polygon(0.0% 46%, 100.0% 46%," in html
    html = table([HtmlColumn(label="a")], [[Cell(text="0", trend=(0.0, 0.0))]], label="t")
    assert "polygon(0.0% 0%, 100.0% 0%," in html


def test_a_time_is_that_of_the_reader_and_its_tooltip_utc(monkeypatch: pytest.MonkeyPatch) -> None:
    at = datetime(2026, 5, 4, 22, 10, tzinfo=timezone.utc)
    plain = time_cell(at, href="run?run=a")
    assert (plain.text, plain.title) == ("2026-05-04 22:10 UTC", "")
    monkeypatch.setattr(clock, "zone", lambda: ZoneInfo("Asia/Tokyo"))
    local = time_cell(at, style="quiet")
    assert (local.text, local.title) == ("2026-05-05 07:10 UTC+9", "2026-05-04 22:10 UTC")
    assert 'title="2026-05-04 22:10 UTC"' in key_values([("started", local)])
