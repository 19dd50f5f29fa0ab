"""Typed columns: numbers stay numbers, names stay text, and links lead to pages of our own."""

from __future__ import annotations

import re
from datetime import datetime, timezone
from urllib.parse import unquote, urljoin
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from compile_hud.app import clock
from compile_hud.app.components.table.columns import (
    ChangeColumn,
    DurationColumn,
    IntervalColumn,
    Link,
    LinkColumn,
    NumberColumn,
    ShareColumn,
    TextColumn,
    TimeColumn,
    TrendColumn,
    VerdictColumn,
    data_table,
    link_address,
    shown_text,
)
from compile_hud.app.ui.format import Scale
from compile_hud.app.ui.theme import CHIP_COLOURS, VERDICT_SIGNS
from compile_hud.db.records.results import Verdict
from tests.support.pages.table_cells import cells_of

PAGE = "http://127.0.0.1:8501/hud/runs"
NAMES = (
    *("resnet18 default", "a/b#c?d%e+f", "javascript:alert(1)", "//evil.example/x", "..", "."),
    *("<b>x</b>", "\u202egnp.exe", "", "\\\\evil", "www.evil.example"),
)


def shown_link(address: str) -> str:
    """Return the text that the browser shows for an address in a column of links."""
    template = LinkColumn(label="x").drawn([]).settings["display_text"]
    match = re.match(template, address)
    assert match is not None
    return unquote(match[1]).lstrip("\u200b")


@pytest.mark.parametrize("name", NAMES)
def test_a_link_shows_its_text_and_opens_its_own_page(name: str) -> None:
    address = link_address(Link(name, "run?run=a&case=b%2Fc"))
    assert urljoin(PAGE, address) == "http://127.0.0.1:8501/hud/run?run=a&case=b%2Fc"
    assert shown_link(address) == (shown_text(name) or "-")


def test_a_change_that_rounds_to_zero_has_no_minus() -> None:
    table = data_table((ChangeColumn(label="change"),), [(-0.04,), (-0.06,), (None,)], label="x")
    assert [row["change"] for row in cells_of(table)] == ["+0.0 %", "-0.1 %", "-"]


@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=300))
def test_no_name_leads_to_another_site(name: str) -> None:
    address = link_address(Link(name, "alerts?event=e"))
    assert urljoin(PAGE, address) == "http://127.0.0.1:8501/hud/alerts?event=e"


def test_links_sort_by_their_text() -> None:
    names = ["zebra", "Adam", "model 2"]
    addresses = [link_address(Link(name, f"run?run={9 - i}")) for i, name in enumerate(names)]
    assert [shown_link(item) for item in sorted(addresses)] == ["Adam", "model 2", "zebra"]


@pytest.mark.parametrize(
    ("unit", "values", "label", "template", "first"),
    [
        ("s", [0.0123, 0.5, None], "cost (ms)", "%,.1f", 12.3),
        ("s", [31.5, 2.25], "cost (s)", "%,.2f", 31.5),
        ("B", [3 * 2.0**20, 5 * 2.0**20], "cost (MiB)", "%,.2f", 3.0),
        ("x", [1.25, 0.5], "cost", "%.2fx", 1.25),
        ("", [3, 12_000, None], "cost", "%,d", 3),
        ("", [0.25, 1.5], "cost", "%,.3f", 0.25),
        ("", [None], "cost", "%,d", None),
        ("s", [0.0], "cost (s)", "%,.0f", 0.0),
    ],
)
def test_numbers_of_a_column_have_one_unit_and_equal_decimals(
    unit: str, values: list[float | None], label: str, template: str, first: float | None
) -> None:
    drawn = NumberColumn(label="cost", unit=unit).drawn(values)
    assert drawn.name == label
    assert drawn.settings["format"] == template
    if first is not None:
        assert drawn.values[0] == pytest.approx(first)
    assert drawn.values.isna().tolist() == [value is None for value in values]


@pytest.mark.parametrize(
    ("durations", "label", "template"),
    [
        ([12.0, 90.0], "took (s)", "%,.1f"),
        ([3_000.0], "took (min)", "%,.1f"),
        ([None], "took (s)", "%,.0f"),
        ([20_000.0, 90_000.0], "took (h)", "%,.2f"),
    ],
)
def test_durations_have_one_unit(durations: list[float | None], label: str, template: str) -> None:
    drawn = DurationColumn(label="took").drawn(durations)
    assert (drawn.name, drawn.settings["format"]) == (label, template)


def test_a_verdict_is_a_sign_and_a_word_in_its_colour() -> None:
    drawn = VerdictColumn(label="verdict").drawn([Verdict.REGRESSION, None])
    assert drawn.values.tolist() == [["\u25b2 regression"], []]
    colours = dict(zip(drawn.settings["options"], drawn.settings["color"], strict=True))
    assert colours["\u25b2 regression"] == CHIP_COLOURS[Verdict.REGRESSION]
    assert len(colours) == len(Verdict) == len(VERDICT_SIGNS)


def test_a_value_beyond_all_numbers_is_an_empty_cell() -> None:
    scale = Scale(1e-3, "ms")
    numbers = NumberColumn(label="cost", unit="s", scale=scale).drawn([1.7e308, 0.5])
    assert numbers.values.isna().tolist() == [True, False]
    texts = IntervalColumn(label="cost", scale=scale).drawn([(0.1, 1.7e308), (0.1, 0.2), None])
    assert texts.values.tolist() == [None, "[100, 200]", None]


def test_small_lines_have_one_scale_in_which_noise_looks_like_noise() -> None:
    drawn = TrendColumn(label="nights").drawn([(10.0, 10.1, 9.9), (5.0,), (), (1.0, 1.0, 40.0)])
    first, second, third, last = drawn.values
    assert first == pytest.approx([1.0, 1.01, 0.99])
    assert (second, third) == (None, None)
    # An outlier is at the edge, and does not flatten the other lines.
    assert last[-1] == drawn.settings["y_max"] == pytest.approx(1.6)
    quiet = TrendColumn(label="nights").drawn([(10.0, 10.1)])
    assert (quiet.settings["y_min"], quiet.settings["y_max"]) == pytest.approx((0.9, 1.1))


def test_shares_changes_and_times_are_numbers() -> None:
    at = datetime(2026, 3, 4, 5, 6, tzinfo=timezone.utc)
    table = data_table(
        (ShareColumn(label="ok"), ChangeColumn(label="change"), TimeColumn(label="at")),
        [(0.5, -12.0, at), (None, None, None)],
        label="things",
    )
    assert table.frame.iloc[0].tolist() == [50.0, -12.0, at]
    assert table.frame.iloc[1].isna().all()
    assert list(table.columns) == ["ok", "change", "at (UTC)"]


def test_times_name_the_zone_of_the_browser_and_stay_the_same_moments(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    at = datetime(2026, 7, 8, 9, 10, tzinfo=timezone.utc)
    monkeypatch.setattr(clock, "zone", lambda: ZoneInfo("Africa/Nairobi"))
    table = data_table((TimeColumn(label="seen"),), [(at,)], label="runs")
    drawn = TimeColumn(label="seen").drawn([at])
    assert list(table.columns) == ["seen (Africa/Nairobi)"]
    assert drawn.settings["timezone"] == "Africa/Nairobi"
    assert table.frame.iloc[0].tolist() == [at]


def test_texts_are_one_printable_line_of_limited_length() -> None:
    (text, nothing) = TextColumn(label="why").drawn(["a\n\u202eb " + "x" * 9_000, None]).values
    assert text.startswith("a ?b x")
    assert len(text) == 240
    assert nothing is None


def test_hidden_columns_are_offered_and_equal_headings_are_numbered() -> None:
    columns = (TextColumn(label="a"), TextColumn(label="b", is_hidden=True), TextColumn(label="a"))
    table = data_table(columns, [("1", "2", "3")], label="things")
    assert table.order == ("a", "a 2")
    assert list(table.frame) == ["a", "b", "a 2"]


def test_a_table_without_rows_has_its_columns() -> None:
    table = data_table(
        (TextColumn(label="a"), NumberColumn(label="n", unit="s")), [], label="things"
    )
    assert (list(table.columns), len(table.frame)) == (["a", "n (s)"], 0)


def test_a_share_beyond_all_numbers_leaves_the_column_as_it_is() -> None:
    whole = NumberColumn(label="share", unit="share").drawn([0.5])
    assert type(NumberColumn(label="share", unit="share").drawn([1e308, 0.5])) is type(whole)


@pytest.mark.parametrize(
    ("num_ok", "of", "percent"),
    [(0, 40, 0), (1, 900, 1), (17, 40, 42), (1598, 1603, 99), (7, 7, 100), (2, 3, 67)],
)
def test_only_all_of_a_share_is_the_whole(num_ok: int, of: int, percent: int) -> None:
    (value,) = ShareColumn(label="passed").drawn([num_ok / of]).values
    assert value == percent
