"""The rows of the charts of a series."""

from __future__ import annotations

import dataclasses
import json
from datetime import timedelta

import pytest
from syrupy.assertion import SnapshotAssertion

from compile_hud.app.components.trend.rows import (
    alerts_of,
    change_label,
    change_pct_from_previous,
    drawn_indices,
    failure_rows,
    mark_rows,
    point_rows,
    raw_rows,
    result_samples_chart,
    sample_rows,
    scale_of,
    thinned_note,
    trend_chart,
    unit_of,
)
from compile_hud.app.components.trend.window import part_of
from compile_hud.app.data.page_records import EnvironmentChange
from compile_hud.app.ui.format import Scale
from compile_hud.db.records.alerts import AlertState
from compile_hud.db.records.results import Outcome, RunRef, RunState, Verdict
from compile_hud.db.records.summaries import MeasurementSummary, Sample
from tests.support.builders import START, make_alert
from tests.support.records.page_results import header, outcome_point, point, series_page

MS = Scale(1e-3, "ms")


def run_ref(number: int) -> RunRef:
    """Return the run of a night."""
    return RunRef(
        run_id=f"run-{number}", revision=f"rev-{number}", at=START + timedelta(days=number)
    )


def environment_change(number: int, *names: str) -> EnvironmentChange:
    """Return a change of the environment in a night, in the named facts."""
    return EnvironmentChange(
        at=START + timedelta(days=number),
        run_id=f"run-{number}",
        differences=tuple((name, "old", "new") for name in names),
    )


def test_points_are_in_the_scale_of_the_chart() -> None:
    (row,) = point_rows(series_page([point(0, 0.010)]), metric="latency_s", scale=MS)
    assert row == {
        "at": "2026-01-01T02:30:00Z",
        "value": 10.0,
        "low": pytest.approx(9.9),
        "high": pytest.approx(10.1),
        "segment": "0",
        "verdict": "unchanged",
        "shown": "10.0 ms [9.9, 10.1]",
        "num_samples": 24,
        "revision": "rev-0",
        "when": "2026-01-01 02:30 UTC",
        "text": "",
        "is_new_revision": False,
        "run_id": "run-0",
        "result_id": "result-0",
    }


def test_a_new_environment_starts_a_new_line(words: SnapshotAssertion) -> None:
    points = [point(0), point(1), point(2, fingerprint="b" * 64)]
    page = series_page(points, environment_changes=[environment_change(2, "driver")])
    rows = point_rows(page, metric="latency_s", scale=MS)
    assert [row["segment"] for row in rows] == ["0", "0", "1"]
    assert rows[2]["text"] == words


def test_the_first_bad_point_carries_the_verdict() -> None:
    page = series_page([point(0), point(1)], alerts=[make_alert(first_bad=run_ref(1))])
    rows = point_rows(page, metric="latency_s", scale=MS)
    assert [row["verdict"] for row in rows] == ["unchanged", "regression"]
    assert rows[1]["text"] == "regression: +20.0 %"


def test_new_revisions_are_marked() -> None:
    points = [point(0, revision="a"), point(1, revision="a"), point(2, revision="b")]
    rows = point_rows(series_page(points), metric="latency_s", scale=MS)
    assert [row["is_new_revision"] for row in rows] == [False, False, True]


def test_alerts_of_other_metrics_are_left_out_and_those_about_outcomes_are_not() -> None:
    alerts = [
        make_alert("own"),
        make_alert("drift", kind="drift"),
        make_alert("other", metric="peak_bytes", unit="B"),
        make_alert("other drift", kind="drift", metric="peak_bytes"),
        make_alert("broken", kind="outcome", metric="outcome"),
    ]
    alerts_of_metric = alerts_of(series_page(alerts=alerts), metric="latency_s")
    assert [alert.id for alert in alerts_of_metric] == ["own", "drift", "broken"]


def test_point_has_its_level_at_one_pace_where_a_pace_was_measured() -> None:
    page = series_page([point(0, 0.010), point(1, 0.012)], normalised=[point(0), point(1, 0.010)])
    rows = point_rows(page, metric="latency_s", scale=MS)
    assert [(row["value"], row["level"]) for row in rows] == [(10.0, 10.0), (12.0, 10.0)]
    assert rows[1]["level_shown"] == "10.0 ms"


def test_marks_have_words_and_their_own_rows_and_stay_inside(words: SnapshotAssertion) -> None:
    page = series_page(
        [point(number) for number in range(11)],
        environment_changes=[environment_change(2, "driver")],
        alerts=[
            make_alert(first_bad=run_ref(8), state=AlertState.ACKNOWLEDGED),
            make_alert("2", first_bad=run_ref(1), verdict=Verdict.IMPROVEMENT, change_pct=-9.0),
        ],
    )
    rows = mark_rows(page, metric="latency_s", scale=MS)
    assert [(row["verdict"], row["row"], row["side"]) for row in rows] == [
        ("improvement", 0, "right"),
        ("", 1, "right"),
        ("regression", 2, "left"),
    ]
    assert [row["text"] for row in rows] == words


def test_a_drift_is_a_slope_between_its_levels_and_no_point_of_it_a_step() -> None:
    step = make_alert(first_bad=run_ref(3), last_seen=START + timedelta(days=9))
    drift = dataclasses.replace(step, kind="drift", last_good=run_ref(1))
    page = series_page([point(number) for number in range(11)], alerts=[drift])
    (row,) = mark_rows(page, metric="latency_s", scale=MS)
    assert (row["text"], row["verdict"]) == ("drift: +20.0 %, [+18.0, +22.0] %", "regression")
    assert (row["since"], row["until"]) == ("2026-01-02T02:30:00Z", "2026-01-10T02:30:00Z")
    assert row["at"] == "2026-01-04T02:30:00Z"
    assert (row["from"], row["to"]) == (10.0, 12.0)
    points = point_rows(page, metric="latency_s", scale=MS)
    assert {row["verdict"] for row in points} == {"unchanged"}
    assert points[3]["text"] == "drift: +20.0 %"
    # A part of the series has that part of the slope: of eight nights the third to the fifth.
    part = dataclasses.replace(page, points=page.points[3:6])
    (row,) = mark_rows(part, metric="latency_s", scale=MS)
    assert (row["since"], row["until"]) == ("2026-01-04T02:30:00Z", "2026-01-06T02:30:00Z")
    assert (row["from"], row["to"]) == pytest.approx((10.5, 11.0))
    assert "is_elsewhere" not in row
    (row,) = mark_rows(
        dataclasses.replace(page, points=page.points[10:]), metric="latency_s", scale=MS
    )
    assert "since" not in row


def test_a_part_within_a_drift_has_its_slope_and_no_line_of_a_run_that_is_not_there() -> None:
    step = make_alert(first_bad=run_ref(3), last_seen=START + timedelta(days=9))
    drift = dataclasses.replace(step, kind="drift", last_good=run_ref(1))
    page = series_page([point(number) for number in range(11)], alerts=[step, drift])
    since, until = START + timedelta(days=5), START + timedelta(days=7)
    part = part_of(page, since=since, until=until)
    assert part.alerts == (drift,)
    (row,) = mark_rows(part, metric="latency_s", scale=MS)
    assert (row["at"], row["since"]) == ("2026-01-06T02:30:00Z", "2026-01-06T02:30:00Z")
    assert row["text"].endswith("first seen 2026-01-04 02:30 UTC")
    spec = trend_chart(metric="latency_s", _page=part)
    marks = [layer for layer in spec["layer"] if "x2" in layer["encoding"]]
    assert [layer["mark"]["strokeWidth"] for layer in marks] == [2.5]
    assert not any(
        layer["mark"].get("strokeWidth") == 1.5 and layer["encoding"].keys() == {"x", "tooltip"}
        for layer in spec["layer"]
    )
    # One night has no slope, and no room for a line of another night either.
    night = part_of(page, since=START + timedelta(days=6), until=START + timedelta(days=6.5))
    (row,) = mark_rows(night, metric="latency_s", scale=MS)
    assert (row["at"], row["is_elsewhere"]) == ("2026-01-07T02:30:00Z", True)
    assert "since" not in row
    empty = dataclasses.replace(part, points=())
    assert len(mark_rows(empty, metric="latency_s", scale=MS)) == 1
    after = part_of(page, since=START + timedelta(days=10), until=None)
    assert after.alerts == ()


def test_a_mark_has_its_runs_cause_and_note() -> None:
    regression = make_alert(first_bad=run_ref(3), last_good=run_ref(1))
    alert = dataclasses.replace(regression, note="known:\nsee 12", cause_text="new torch")
    page = series_page([point(number) for number in range(5)], alerts=[alert])
    (row,) = mark_rows(page, metric="latency_s", scale=MS)
    assert row["text"].endswith('%: "known: see 12"')
    assert (row["after"], row["cause"]) == ("2026-01-02T02:30:00Z", "new torch")
    assert row["between"] == "2026-01-02 02:30 UTC and 2026-01-04 02:30 UTC"


def test_a_long_series_is_drawn_in_part_and_the_chart_says_so() -> None:
    points = [point(number, 0.01 + 0.001 * (number == 777)) for number in range(2000)]
    page = series_page(points, alerts=[make_alert(first_bad=run_ref(1001))])
    spec = trend_chart(metric="latency_s", _page=page)
    data = [layer["data"] for layer in spec["layer"]]
    # The lines, dots and bars of the points are one table.
    (shown,) = (
        [row["run_id"] for row in rows["values"]]
        for rows in data
        if "result_id" in rows.get("values", [{}])[0]
    )
    assert len(shown) < 200
    assert {"run-777", "run-1001"} < set(shown)
    note = f"{len(drawn_indices(page, metric='latency_s'))} of 2000 runs are drawn"
    assert note in json.dumps(spec)


def test_a_short_series_is_drawn_whole() -> None:
    page = series_page([point(number) for number in range(30)])
    assert drawn_indices(page, metric="latency_s") == list(range(30))
    assert thinned_note(30, of=30) == ""


def test_single_samples_stand_at_their_run_without_warm_ups() -> None:
    page = series_page([point(0), point(1)])
    samples = {
        "result-1": [
            Sample(value=0.2, launch=0, is_warmup=True),
            Sample(value=0.012, launch=0, is_warmup=False),
        ]
    }
    rows = raw_rows(page, samples, scale=MS)
    assert rows == [{"at": "2026-01-02T02:30:00Z", "value": pytest.approx(12.0)}]


def test_a_mark_without_any_points_does_not_divide_by_zero() -> None:
    page = series_page(alerts=[make_alert(first_bad=run_ref(1))])
    assert [row["side"] for row in mark_rows(page, metric="latency_s", scale=MS)] == ["right"]


@pytest.mark.parametrize("names", [(), ("a", "b", "c", "d")], ids=["no-facts", "many-facts"])
def test_a_change_of_environment_names_a_few_facts(
    names: tuple[str, ...], words: SnapshotAssertion
) -> None:
    assert change_label(environment_change(1, *names)) == words


def test_runs_without_a_number_are_marked_and_running_ones_are_not() -> None:
    page = series_page(
        outcomes=[
            outcome_point(0, Outcome.OK),
            outcome_point(1, Outcome.TIMEOUT),
            outcome_point(2, None),
            outcome_point(3, None, run_state=RunState.RUNNING),
            outcome_point(4, Outcome.FAILED, run_state=RunState.RUNNING),
        ]
    )
    assert [(row["run_id"], row["text"]) for row in failure_rows(page)] == [
        ("run-1", "timeout"),
        ("run-2", "no result"),
        ("run-4", "failed"),
    ]


def test_samples_lie_launch_by_launch_with_warm_ups_in_front() -> None:
    samples = [
        Sample(value=0.02, launch=0, is_warmup=True),
        Sample(value=0.010, launch=0, is_warmup=False),
        Sample(value=0.011, launch=0, is_warmup=False),
        Sample(value=0.012, launch=1, is_warmup=False),
    ]
    rows = sample_rows(samples, scale=MS)
    assert [(row["launch"], row["position"], row["kind"], row["shown"]) for row in rows] == [
        (1, 1, "warm-up", "20.0 ms"),
        (1, 2, "sample", "10.0 ms"),
        (1, 3, "sample", "11.0 ms"),
        (2, 1, "sample", "12.0 ms"),
    ]


def test_the_change_is_from_the_point_before_in_the_same_environment() -> None:
    points = [
        *(point(0, 0.010), point(1, 0.011), point(2, 0.0055)),
        *(point(number, 0.022, fingerprint="b" * 64) for number in (3, 4)),
    ]
    changes = [change_pct_from_previous(points, number) for number in range(5)]
    assert changes == [None, pytest.approx(10.0), pytest.approx(-50.0), None, 0.0]


def test_a_count_that_was_zero_has_no_relative_change() -> None:
    assert change_pct_from_previous([point(0, 0.0), point(1, 1.0)], 1) is None


def test_an_imported_metric_keeps_its_unit() -> None:
    page = series_page(headers=[header(metric="theirs")])
    assert unit_of(page, metric="theirs") == "widgets"
    assert unit_of(page, metric="nobody's") == "1"
    assert scale_of(series_page([point(0)]), metric="latency_s") == MS


@pytest.mark.parametrize(
    ("metric", "unit", "lines"),
    [
        ("latency_s", "s", ["latency (ms)"]),
        ("throughput_samples_per_s", "samples/s", ["throughput (samples)", "(samples/s)"]),
    ],
)
def test_a_long_title_next_to_samples_has_two_lines(
    metric: str, unit: str, lines: list[str]
) -> None:
    measured = MeasurementSummary(
        metric=metric, unit=unit, median=0.010, low=0.009, high=0.011, method="", num_samples=1
    )
    spec = result_samples_chart(measured, samples=[])
    titles = [layer["encoding"]["y"]["title"] for layer in spec["layer"]]
    assert titles == [lines] * len(titles)
