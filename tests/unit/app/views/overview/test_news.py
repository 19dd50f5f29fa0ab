"""The changes since the last visit."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from syrupy.assertion import SnapshotAssertion

from compile_hud.app.views.overview.data import pair_marks
from compile_hud.app.views.overview.news import (
    compared_runs,
    first_possible,
    happened_at,
    news_groups,
    news_html,
)
from compile_hud.app.views.overview.records import News, StateChange
from compile_hud.db.records.alerts import Alert, AlertState
from compile_hud.db.records.results import Run, Verdict
from tests.support.builders import START, make_alert, make_case, make_run, make_run_ref

NOW = START + timedelta(days=9)


def run(number: int, **environment: object) -> Run:
    """Return the run of a night, which took an hour."""
    at = START + timedelta(days=number)
    return make_run(
        f"night-{number}",
        started_at=at,
        finished_at=at + timedelta(hours=1),
        revision=f"2.14.{number // 2}",
        environment=environment,
        fingerprint=str(environment.get("driver_version", "0")) * 8,
    )


RUNS = [run(number) for number in (3, 2, 1, 0)]


def test_a_visit_is_compared_with_the_last_run_that_had_ended() -> None:
    during = START + timedelta(days=2, minutes=30)
    assert compared_runs(RUNS, since=during) == (RUNS[2], RUNS[0])
    assert compared_runs(RUNS, since=during + timedelta(hours=1)) == (RUNS[1], RUNS[0])


def test_without_a_visit_the_run_before_counts() -> None:
    assert compared_runs(RUNS, since=None) == (RUNS[1], RUNS[0])
    assert compared_runs(RUNS[:1], since=None) == (None, RUNS[0])
    assert compared_runs([], since=None) == (None, None)


def test_a_visit_before_all_runs_sees_all_and_one_after_all_none() -> None:
    assert compared_runs(RUNS, since=START - timedelta(days=1)) == (RUNS[-1], RUNS[0])
    assert compared_runs(RUNS, since=NOW) == (RUNS[0], RUNS[0])


def test_two_runs_differ_in_torch_driver_and_model_code(words: SnapshotAssertion) -> None:
    before = run(0, driver_version="570", model_commits={"bert": "a1", "zoo": "1"})
    after = run(4, driver_version="580", model_commits={"bert": "b2", "zoo": "2"})
    assert [(group.title, group.items) for group in news_groups(pair_marks(before, after), [])] == (
        words
    )
    assert news_groups(pair_marks(before, before), []) == []


def test_a_change_may_be_as_old_as_its_detection_takes() -> None:
    nights = [run(number) for number in range(20, -1, -1)]
    newest = nights[0].started_at
    assert first_possible(nights, since=newest) == newest - timedelta(days=6)
    # A weekly suite needs as many runs, and an hourly one as many days.
    assert first_possible(nights[::7], since=newest) == nights[14].started_at
    hours = [
        make_run(f"h{number}", started_at=newest - timedelta(hours=number)) for number in range(9)
    ]
    assert first_possible(hours, since=newest) == newest - timedelta(days=6)
    assert first_possible([], since=START) == START - timedelta(days=6)


def test_an_improvement_happened_when_it_began_and_a_fix_after_the_last_bad_run() -> None:
    first, last = START + timedelta(days=3), START + timedelta(days=8)
    facts: dict[str, Any] = {
        "first_bad": make_run_ref(make_run("first", started_at=first)),
        "last_seen": last,
    }
    assert happened_at(make_alert(verdict=Verdict.IMPROVEMENT, **facts)) == first
    assert happened_at(make_alert(state=AlertState.FIXED, **facts)) == last


def changed(alert: Alert) -> StateChange:
    """Return an alert whose state has changed."""
    return StateChange(at=NOW, alert=alert)


def test_a_case_that_was_fixed_is_one_line_with_its_latency(words: SnapshotAssertion) -> None:
    fixed = [
        make_alert("a", metric="speedup", unit="x", change_pct=-9.0, state=AlertState.FIXED),
        make_alert("b", state=AlertState.FIXED),
        make_alert("c", case=make_case("vit"), verdict=Verdict.IMPROVEMENT, change_pct=-12.0),
    ]
    groups = news_groups([], map(changed, fixed))
    assert [(group.title, group.num_all) for group in groups] == [("fixed", 1), ("improvements", 1)]
    ((text, href),) = groups[0].items
    assert text == words
    assert href == "alerts?alert=b"


def test_more_than_fit_are_counted() -> None:
    alerts = [
        make_alert(str(number), case=make_case(f"m{number}"), state=AlertState.FIXED)
        for number in range(8)
    ]
    groups = tuple(news_groups([], map(changed, alerts)))
    html = news_html(News(since=None, baseline=RUNS[1], newest=RUNS[0], groups=groups), now=NOW)
    assert (len(groups[0].items), "fixed (8)" in html, "3 more" in html) == (5, True, True)


def test_the_time_of_the_changes_is_named(words: SnapshotAssertion) -> None:
    def text(**values: object) -> str:
        news = News(**{"since": None, "groups": (), **values})  # type: ignore[arg-type]
        return news_html(news, now=NOW).partition('<div class="note">')[2].partition("</div>")[0]

    visit = NOW - timedelta(days=3)
    assert [
        text(baseline=None, newest=RUNS[0]),
        text(baseline=RUNS[1], newest=RUNS[0]),
        text(baseline=RUNS[1], newest=RUNS[0], since=visit),
        text(baseline=RUNS[0], newest=RUNS[0], since=visit),
    ] == words


def test_both_runs_are_a_click_away_from_their_comparison() -> None:
    news = News(since=None, baseline=RUNS[1], newest=RUNS[0], groups=())
    assert "compare?baseline=night-2&amp;candidate=night-3" in news_html(news, now=NOW)
