"""Filters stay when a person moves between pages, by links and by the bar."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from compile_hud.app.components.navigation import View
from compile_hud.app.components.shared_filters import (
    filters_to_store,
    first_moment,
    missing_filters,
    range_label,
)
from compile_hud.app.ui.urls import (
    RANGES,
    ModelState,
    ModesState,
    TrendsState,
    carry_range,
    cases_url,
    model_url,
    parse_model,
    run_url,
    series_url,
)

NAMES = ("machine", "toolchain", "range")


def view(*carries: str) -> View:
    return View(title="A", path="a", show=lambda: None, section="A", carries=carries)


def test_a_page_takes_over_only_filters_that_it_has_and_lacks() -> None:
    stored = {"machine": "box", "toolchain": "stable", "range": "365"}
    params = {"machine": "far", "model": "vit"}
    assert missing_filters(view("machine", "range"), params, stored=stored) == {"range": "365"}
    assert missing_filters(view(), params, stored=stored) == {}


def test_a_filter_that_a_page_has_no_more_is_not_kept() -> None:
    stored = {"machine": "box", "toolchain": "stable", "range": "365"}
    page = view("machine", "range")
    assert filters_to_store(page, {"machine": "far"}, stored=stored) == {
        "machine": "far",
        "toolchain": "stable",
    }
    assert filters_to_store(page, {"machine": "", "text": "x"}, stored=stored) == {
        "toolchain": "stable"
    }


@given(
    carries=st.sets(st.sampled_from(NAMES)),
    stored=st.dictionaries(st.sampled_from(NAMES), st.text(min_size=1)),
    params=st.dictionaries(st.sampled_from(NAMES), st.text()),
)
def test_what_a_page_took_over_is_kept(
    carries: set[str], stored: dict[str, str], params: dict[str, str]
) -> None:
    page = view(*carries)
    after = {**params, **missing_filters(page, params, stored=stored)}
    again = filters_to_store(page, after, stored=stored)
    assert stored.keys() <= again.keys()
    assert {name: again.get(name) for name in carries if params.get(name)} == {
        name: params[name] for name in carries if params.get(name)
    }


@pytest.fixture
def carried() -> Iterator[None]:
    """Make addresses on a page with a range of 30 days."""
    carry_range("30")
    yield
    carry_range("")


@pytest.mark.usefixtures("carried")
def test_links_have_the_range_of_the_page_where_their_page_has_one() -> None:
    assert model_url("vit") == "model?model=vit&range=30"
    assert series_url("a/b", machine="box") == "series?case=a%2Fb&machine=box&range=30"
    assert cases_url(TrendsState(range="365")) == "trends?range=365"
    assert cases_url(ModesState(model="vit")) == "modes?model=vit"
    assert run_url("run-7") == "run?run=run-7"
    assert parse_model({"model": "vit", "range": "30"}) == (
        ModelState(model="vit", range="30"),
        (),
    )


def test_the_default_range_is_in_no_address() -> None:
    carry_range("90")
    assert cases_url(ModelState(model="vit")) == "model?model=vit"


def test_an_unknown_range_is_reported() -> None:
    state, problems = parse_model({"range": "31"})
    assert (state.range, len(problems)) == ("90", 1)


def test_a_range_begins_with_a_whole_day() -> None:
    now = datetime(2026, 7, 9, 3, tzinfo=timezone.utc)
    moments = {value: first_moment(value, now=now) for value in RANGES}
    assert moments.pop("all") is None
    midnight = datetime(2026, 7, 9, tzinfo=timezone.utc)
    assert moments == {
        value: midnight - timedelta(days=int(value)) for value in ("7", "30", "90", "365")
    }
    labels = {value: range_label(value) for value in RANGES}
    assert [labels[value] for value in ("7", "90", "all")] == ["7 days", "90 days", "all runs"]
