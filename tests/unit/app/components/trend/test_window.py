"""The part of a series that is drawn, and its points."""

from __future__ import annotations

from datetime import timedelta

import hypothesis.strategies as st
from hypothesis import given

from compile_hud.app.components.trend.window import part_of, thinned_indices
from compile_hud.app.data.series import with_samples
from tests.support.builders import START, make_alert, make_run_ref
from tests.support.records.page_results import outcome_point, point, series_page

NIGHTS = [point(number) for number in range(10)]
DAY = timedelta(days=1)


def test_a_part_has_the_runs_between_its_ends_and_what_happened_there() -> None:
    late = make_alert("late", first_bad=make_run_ref())
    page = series_page(
        NIGHTS,
        normalised=NIGHTS,
        outcomes=[outcome_point(number, None) for number in range(10)],
        alerts=[late],
    )
    part = part_of(page, since=START + 3 * DAY, until=START + 5 * DAY)
    for items in (part.points, part.normalised, part.outcomes):
        assert [item.run_id for item in items] == ["run-3", "run-4", "run-5"]
    assert part.alerts == ()


def test_an_open_end_is_open_and_the_whole_is_the_page_itself() -> None:
    page = series_page(NIGHTS)
    assert len(part_of(page, since=START + 8 * DAY, until=None).points) == 2
    assert len(part_of(page, since=None, until=START + DAY).points) == 2
    assert part_of(page, since=None, until=None) is page


@given(
    values=st.lists(st.floats(0.1, 10.0), min_size=1, max_size=300),
    limit=st.integers(2, 40),
    data=st.data(),
)
def test_extremes_and_changes_are_preserved(
    values: list[float], limit: int, data: st.DataObject
) -> None:
    always = data.draw(st.sets(st.integers(0, len(values) - 1), max_size=5))
    places = thinned_indices(values, always=always, limit=limit)
    assert places == sorted(set(places))
    assert len(places) <= max(limit, 2) + 2 + len(always)
    assert always <= set(places) or len(values) <= limit
    shown = [values[index] for index in places]
    assert (min(shown), max(shown)) == (min(values), max(values))
    assert {0, len(values) - 1} <= set(places)


def test_a_short_series_keeps_every_point() -> None:
    assert thinned_indices([3.0, 1.0, 2.0], always=(), limit=3) == [0, 1, 2]


def test_samples_are_drawn_of_as_many_of_the_newest_runs_as_fit() -> None:
    page = series_page([point(number) for number in range(300)])
    page_part = with_samples(page)
    # 24 samples a point and 4000 at most.
    assert len(page_part) == 166
    assert page_part[-1].run_id == "run-299"
    assert with_samples(series_page()) == ()
