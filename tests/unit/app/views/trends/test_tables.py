"""Texts, tables and rows of the page of trends."""

from __future__ import annotations

from dataclasses import replace

import pytest
from syrupy.assertion import SnapshotAssertion

from compile_hud.app.ui.urls import RELATIVE, TrendsState
from compile_hud.app.views.trends.markdown import trends_markdown
from compile_hud.app.views.trends.tables import (
    MAX_POINTS,
    mark_table,
    panel_columns,
    part_words,
    summary_table,
)
from compile_hud.app.views.trends.view import trends_command
from compile_hud.runner.analysis.trends.records import PASS_RATE, MarkKind, TrendMark
from tests.support.builders import START, make_case
from tests.support.records.mode_trends import history_run, point, trend, trends_of

SPEEDUPS = trends_of(
    trend("default", [1.5, 1.6, 1.8]),
    trend("max-autotune", [2.0, 2.0, 1.9]),
    trend("default", [1.0, 1.0, 0.75], metric=PASS_RATE),
)
ALERT = TrendMark(
    kind=MarkKind.ALERT,
    at=history_run(1).at,
    text="vit default: latency_s +8.6 % (open)",
    run_id="night-1",
    case=make_case("vit", mode="default"),
    metric="latency_s",
    verdict="regression",
    id="a1",
)


def test_summary_has_a_row_for_each_metric(words: SnapshotAssertion) -> None:
    assert summary_table(SPEEDUPS, state=TrendsState()) == words


def test_summary_of_groups_has_a_row_for_each_group(words: SnapshotAssertion) -> None:
    trends = trends_of(
        trend("default", [1.5, 1.6], by="model", group="vit"),
        trend("default", [1.5, 1.5], by="model", group="bert"),
        trend("max-autotune", [2.5, 2.0], by="model", group="bert"),
    )
    assert summary_table(trends, state=TrendsState(by="model")) == words


def test_names_that_are_markup_are_text() -> None:
    name = "<script>alert('x')</script>"
    trends = trends_of(trend("default", [1.5, 1.6], by="model", group=name))
    assert "<script" not in summary_table(trends, state=TrendsState(by="model"))
    assert panel_columns(trends, state=TrendsState(by="model"))[0].title == f"{name} / default"


def test_each_mode_has_a_column_of_panels() -> None:
    columns = panel_columns(SPEEDUPS, state=TrendsState())
    assert [column.title for column in columns] == ["default", "max-autotune"]
    assert [[panel.title for panel in column.panels] for column in columns] == [
        ["speedup 1.80x, +20.0 %", "pass rate 75.0 %, -25.0 points"],
        ["speedup 1.90x, -5.0 %"],
    ]
    assert columns[0].time == ("2026-01-01T02:30:00Z", "2026-01-03T02:30:00Z")


def test_each_group_has_a_column_and_the_rest_is_left_out() -> None:
    trends = trends_of(
        *(trend("default", [1.5, 1.6], by="model", group=name) for name in ("bert", "t5", "vit"))
    )
    columns = panel_columns(trends, state=TrendsState(by="model"), num_columns=2)
    assert [column.title for column in columns] == ["bert / default", "t5 / default"]


@pytest.mark.parametrize(
    ("metric", "changes"), [("speedup", [0.0, 6.7, 20.0]), (PASS_RATE, [0.0, 0.0, -25.0])]
)
def test_relative_values_are_changes_since_the_first_run(metric: str, changes: list[float]) -> None:
    column, *_ = panel_columns(SPEEDUPS, state=TrendsState(scale=RELATIVE))
    panel = column.panels[0 if metric == "speedup" else 1]
    assert [round(row["value"], 1) for row in panel.points] == changes


def test_alert_stands_in_the_panel_of_its_mode_and_metric() -> None:
    trends = replace(SPEEDUPS, marks=(ALERT, replace(ALERT, metric="outcome")))
    default, other = panel_columns(trends, state=TrendsState())
    assert [len(panel.alerts) for panel in default.panels] == [1, 1]
    assert [len(panel.alerts) for panel in other.panels] == [0]


def test_alert_of_another_group_is_not_in_its_panel() -> None:
    trends = trends_of(
        *(trend("default", [1.5, 1.6], by="model", group=name) for name in ("bert", "vit")),
        marks=[ALERT],
    )
    bert, vit = panel_columns(trends, state=TrendsState(by="model"))
    assert (len(bert.panels[0].alerts), len(vit.panels[0].alerts)) == (0, 1)


def test_lines_are_annotations_and_new_environments_and_no_revisions() -> None:
    kinds = (MarkKind.ANNOTATION, MarkKind.ENVIRONMENT, MarkKind.REVISION)
    marks = [TrendMark(kind=kind, at=START, text=str(kind)) for kind in kinds]
    column, *_ = panel_columns(replace(SPEEDUPS, marks=tuple(marks)), state=TrendsState())
    assert [row["text"] for row in column.lines] == ["annotation", "environment"]


def test_long_trends_keep_extremes_and_changes_of_the_cohort() -> None:
    values = [2.0] * 500
    values[250] = 1.0
    long = trend("default", values)
    joined = point(77, 2.0, joined=("t5",))
    points = tuple(joined if item.run.id == "night-77" else item for item in long.points)
    trends = trends_of(replace(long, points=points))
    (column,) = panel_columns(trends, state=TrendsState())
    runs = {row["run_id"] for row in column.panels[0].points}
    assert len(runs) <= MAX_POINTS + 2
    assert {"night-0", "night-77", "night-250", "night-499"} <= runs


@pytest.mark.parametrize(("every", "num_drawn"), [(60, 7), (2, None)])
def test_changes_of_most_nights_do_not_fill_a_panel(every: int, num_drawn: int | None) -> None:
    points = [
        point(number, 1.5, joined=("t5",) if number % every == 0 else ()) for number in range(420)
    ]
    trends = trends_of(replace(trend("default", [1.5] * 420), points=tuple(points)))
    (column,) = panel_columns(trends, state=TrendsState())
    drawn = column.panels[0].points
    assert len(drawn) <= MAX_POINTS + 10
    assert num_drawn is None or sum(row["is_change"] for row in drawn) == num_drawn


def test_point_says_its_cohort_and_its_own_mean(words: SnapshotAssertion) -> None:
    special = point(1, 2.0, own=2.4, num_measured=1, joined=("t5", "vit"), left=("bert",))
    first = point(0, 2.0)
    trends = trends_of(replace(trend("default", [2.0, 2.0]), points=(first, special)))
    (column,) = panel_columns(trends, state=TrendsState())
    names = ("cohort", "own", "changed", "shown")
    assert [{name: row[name] for name in names} for row in column.panels[0].points] == words


def test_changes_are_listed_newest_first() -> None:
    changed = point(2, 1.8, left=("a", "b", "c", "d"))
    own = SPEEDUPS.trends[0]
    trends = trends_of(replace(own, points=(*own.points[:2], changed)), marks=[ALERT])
    _, rows = mark_table(trends)
    assert [[cell.text for cell in row][1:] for row in rows] == [
        ["cohort", "a, b, c and 1 more left"],
        ["alert", "vit default: latency_s +8.6 % (open)"],
    ]
    assert rows[1][2].href == "alerts?alert=a1"
    assert rows[0][0].href == "run?run=night-2"


def test_markdown_has_a_line_for_each_trend(words: SnapshotAssertion) -> None:
    assert trends_markdown(SPEEDUPS, command="hud trends") == words


def test_open_ends_of_a_part_have_words(words: SnapshotAssertion) -> None:
    since, until = TrendsState(since="2026-01-03T00:00"), TrendsState(until="2026-02-01T10:00")
    assert [part_words(since), part_words(until)] == words


def test_command_has_both_ends_of_a_brushed_part() -> None:
    part = TrendsState(since="2026-01-02T06:00", until="2026-02-03T12:30", mode="default")
    words = trends_command(part, SPEEDUPS).split()
    options = dict(zip(words[2::2], words[3::2], strict=True))
    assert (options["--since"], options["--until"]) == ("2026-01-02T06:00", "2026-02-03T12:30")
    assert "--until" not in trends_command(TrendsState(), SPEEDUPS)
