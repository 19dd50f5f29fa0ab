"""The tables of the run and series pages, and the parts of the overview."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
from syrupy.assertion import SnapshotAssertion

from compile_hud.app.components.latest_results import silence_notice
from compile_hud.app.ui.format import Scale, moment
from compile_hud.app.ui.urls import OVERVIEW_TRENDS, OverviewState
from compile_hud.app.views.overview.tables import (
    alert_sections,
    learning_text,
    trend_metrics,
    trend_plots,
    unwatched_text,
)
from compile_hud.app.views.runs.measurements import measurement_table
from compile_hud.app.views.runs.tables import (
    environment_table,
    other_details,
    reasons,
    result_facts,
    run_dimensions,
)
from compile_hud.app.views.series.tables import (
    alert_notices,
    header_facts,
    metrics_of,
    point_facts,
    point_table,
    sibling_table,
)
from compile_hud.db.jobs.health import SchedulerState, ScheduleState
from compile_hud.db.records.metrics import CPU_TIME, Direction
from compile_hud.db.records.results import Outcome, Verdict
from compile_hud.db.records.summaries import RunSummary
from compile_hud.runner.analysis.trends.records import (
    PASS_RATE,
    TREND_METRICS,
    MarkKind,
    TrendMark,
)
from tests.support.builders import START, make_alert, make_case, make_run, make_run_ref
from tests.support.pages.table_cells import cells_of
from tests.support.records.mode_trends import history_run, trend, trends_of
from tests.support.records.page_results import (
    header,
    latest,
    point,
    result_summary,
    series_page,
)

DEFAULT = "default"

MS = Scale(1e-3, "ms")


def test_a_fallback_is_reported_in_the_facts() -> None:
    result = result_summary(make_case(mode="max-autotune"), effective_mode="default")
    assert f"max-autotune (fell back to {DEFAULT})" in result_facts(result)


def test_another_runtime_is_reported_in_the_facts() -> None:
    runtime = {"name": "onnxruntime", "version": "1.32.0", "num_threads": 1}
    assert "onnxruntime 1.32.0: num_threads 1" in result_facts(
        result_summary(details={"runtime": runtime})
    )
    assert "runtime" not in result_facts(result_summary())


def test_measurements_are_in_the_order_of_their_groups() -> None:
    result = result_summary(values={"theirs": 3.0, "speedup": 1.5, "latency_s": 0.012})
    html = measurement_table(result, run=make_run(toolchain="night"))
    assert html.count("toolchain=night") == 3
    places = [html.index(text) for text in (">speed<", ">speedup<", ">latency<", ">theirs<")]
    assert places == sorted(places)


@pytest.mark.parametrize(
    ("method", "marked"), [("in turn", "eager latency"), (CPU_TIME, "eager latency (CPU time)")]
)
def test_another_time_of_eager_alone_is_at_its_clock(method: str, marked: str) -> None:
    values = {"speedup": 1.5, "eager_latency_s": 0.005, "eager_latency_cpu_s": 0.005}
    result = result_summary(values=values)
    speedup = replace(result.measurements["speedup"], method=method)
    result = replace(result, measurements={**result.measurements, "speedup": speedup})
    rows = measurement_table(result, run=make_run(), own_eager_s=0.0037).split("<tr>")
    (row,) = [row for row in rows if "load differed" in row]
    assert f">{marked}<" in row
    assert "3.70 ms" in row
    assert "load differed" not in measurement_table(result, run=make_run())


def test_reasons_are_distinguished_from_other_details() -> None:
    result = result_summary(
        details={"cudagraph_skip_reasons": ["a mutated input"], "recompiles": [], "core": 1}
    )
    assert reasons(result) == [("CUDA graphs skipped", ["a mutated input"])]
    assert other_details(result) == {"core": 1}


def test_the_head_of_a_run_names_its_device() -> None:
    case = make_case("bert", device="cuda")
    named = make_run(plan=[case], environment={"device_name": "NVIDIA H200"})
    device = dict(run_dimensions(named))["device"]
    assert (device.text, [note.text for note in device.notes]) == ("NVIDIA H200", ["cuda"])
    # An imported history may not know the name.
    unnamed = dict(run_dimensions(make_run(plan=[case], environment={})))["device"]
    assert (unnamed.text, unnamed.notes) == ("cuda", ())
    both = make_run(plan=[case, make_case("gpt2", device="cpu")], environment={})
    assert "device" not in dict(run_dimensions(both))


def test_nested_facts_of_an_environment_are_json() -> None:
    assert "{&#34;a&#34;: 1}" in environment_table({"flags": {"a": 1}})


def test_metrics_are_those_of_the_machine_in_the_order_of_the_metric_table() -> None:
    headers = [
        header(metric="theirs"),
        header(metric="speedup"),
        header(metric="latency_s"),
        header(metric="peak_bytes", machine="elsewhere"),
    ]
    assert metrics_of(series_page(headers=headers)) == ["latency_s", "speedup", "theirs"]


def test_a_case_without_siblings_has_no_table_of_them() -> None:
    assert sibling_table(series_page(siblings=[header()]), metric="latency_s") == ""


def test_siblings_are_links_but_for_the_shown_one() -> None:
    siblings = [header(make_case(mode="eager")), header(make_case(mode="default"))]
    html = sibling_table(series_page(siblings=siblings), metric="latency_s")
    assert html.count("<a ") == 1
    assert "eager%2Fcpu" in html


def test_a_series_without_points_says_only_what_it_is() -> None:
    assert [name for name, _ in header_facts(series_page(), metric="latency_s")] == [
        *("phase", "shape", "dtype", "device")
    ]


@pytest.mark.parametrize(
    ("metric", "direction"),
    [
        ("theirs", Direction.HIGHER_IS_BETTER),
        ("theirs", Direction.NEITHER),
        ("theirs", None),
        ("their_throughput", None),
        ("latency_s", None),
    ],
)
def test_the_direction_of_imported_metrics_is_shown(
    metric: str, direction: Direction | None, words: SnapshotAssertion
) -> None:
    headers = [header(metric=metric, key=point(0).series_key, direction=direction)]
    page = series_page([point(0)], headers=headers)
    facts = {name: cell.text for name, cell in header_facts(page, metric=metric)}
    assert facts.get("better") == words


def test_all_points_are_listed_and_the_newest_first() -> None:
    points = [point(number) for number in range(65)]
    rows = cells_of(point_table(series_page(points), metric="latency_s", scale=MS))
    assert [row["run started"] for row in rows] == [moment(item.at) for item in reversed(points)]
    assert all(row["median (ms)"] != "-" for row in rows)


def test_a_point_of_one_sample_has_no_interval() -> None:
    single = replace(point(0, 2.0), low=2.0, high=2.0, num_samples=1)
    page = series_page([single])
    facts = {name: cell.text for name, cell in header_facts(page, metric="energy_j")}
    assert facts["latest energy"] == "2.00 J"
    about = {name: cell.text for name, cell in point_facts(page, single, metric="energy_j")}
    assert (about["estimate"], about["samples"]) == ("2.00 J", "1, so no interval")
    (row,) = cells_of(point_table(page, metric="energy_j", scale=Scale(1.0, "J")))
    assert (row["median (J)"], row["95 % interval (J)"]) == ("2.00", "-")


def test_an_alert_is_reported_with_interval_levels_and_both_revisions(
    words: SnapshotAssertion,
) -> None:
    alert = make_alert(last_good=make_run_ref(make_run(revision="2.12")))
    (lines,) = alert_notices(series_page(alerts=[alert]), metric="latency_s")
    assert lines == (words)


def test_a_vanished_series_is_reported_without_numbers(words: SnapshotAssertion) -> None:
    alert = make_alert(kind="vanished", metric="outcome")
    (lines,) = alert_notices(series_page(alerts=[alert]), metric="latency_s")
    assert lines == words


@pytest.mark.parametrize(("num_runs", "is_learning"), [(1, True), (6, True), (7, False)])
def test_the_runs_of_a_baseline_are_counted_until_there_are_enough(
    num_runs: int, is_learning: bool
) -> None:
    runs = [_summary(f"run-{number}") for number in range(num_runs)]
    others = [_summary(f"other-{number}", machine="other") for number in range(9)]
    text = learning_text([*runs, *others], machine="box", toolchain="stable")
    assert text == (f"Learning: {num_runs} of 7 runs" if is_learning else "")


def test_runs_without_a_result_that_is_ok_give_no_baseline() -> None:
    failed = replace(_summary("failed"), num_by_outcome={Outcome.FAILED: 1})
    text = learning_text([failed], machine="box", toolchain="stable")
    assert text.startswith("Learning: 0")


def _summary(name: str, *, machine: str = "box") -> RunSummary:
    run = make_run(name, machine=machine)
    return RunSummary(run=run, num_by_outcome={Outcome.OK: 1}, worked_s=1.0, heartbeat_at=None)


def test_a_silent_scheduler_is_reported_with_what_it_missed_and_what_to_do(
    words: SnapshotAssertion,
) -> None:
    schedule = ScheduleState(
        name="nightly", suite="all", toolchain="stable", rule="daily", next_at=START
    )
    late = SchedulerState(
        machine="box",
        process="host/1/1",
        version="0",
        started_at=START,
        heartbeat_at=START - timedelta(hours=3),
        schedules=(schedule,),
    )
    assert silence_notice(late, now=START + timedelta(hours=1)) == (words)


def test_results_that_are_not_ok_without_an_alert_are_counted_below_the_title(
    words: SnapshotAssertion,
) -> None:
    failed = [
        latest(make_case(f"model-{number}"), outcome=Outcome.FAILED, values={}) for number in "abc"
    ]
    fine = latest(make_case("fine"), values={})
    alert = make_alert(case=failed[0].summary.case, toolchain=failed[0].toolchain)
    alert = replace(alert, machine=failed[0].machine)
    better = replace(alert, case=failed[1].summary.case, verdict=Verdict.IMPROVEMENT)
    assert unwatched_text([*failed, fine], alerts=[alert, better]) == words
    assert unwatched_text(failed[:2], alerts=[alert]) == words
    assert unwatched_text([failed[0], fine], alerts=[alert]) == ""


def test_muted_regressions_are_behind_a_fold() -> None:
    muted = replace(make_alert("a"), muted_until=START + timedelta(days=1))
    other = make_alert("b", case=make_case("vit"))
    (section,) = alert_sections(OverviewState(), [muted, other], now=START)
    assert "<summary>Muted: 1</summary>" in section
    assert "vit" not in section
    assert alert_sections(OverviewState(), [muted, other], now=START + timedelta(days=2)) == []


def test_changes_of_the_machine_and_improvements_are_folded_and_not_called_bad() -> None:
    of_machine = replace(make_alert("a"), cause_kind="machine")
    better = make_alert("b", verdict=Verdict.IMPROVEMENT, change_pct=-9.0)
    sections = alert_sections(OverviewState(), [of_machine, better], now=START)
    assert ["machine: 1</summary>" in section for section in sections] == [True, False]
    assert ["Improvements: 1</summary>" in section for section in sections] == [False, True]
    assert "first better revision" in sections[1]
    assert "first bad" not in sections[1]


def test_toolchains_are_named_in_every_table_of_alerts() -> None:
    alerts = [
        replace(make_alert("a", toolchain="nightly"), cause_kind="machine"),
        make_alert("better", toolchain="nightly", verdict=Verdict.IMPROVEMENT),
    ]
    sections = alert_sections(OverviewState(), alerts, now=START, names_toolchain=True)
    assert [section.count("toolchain nightly") for section in sections] == [1, 1]


def test_filters_hide_alerts_of_models_and_keep_those_of_reference_cases() -> None:
    alerts = [make_alert("b", case=make_case("bert"), verdict=Verdict.IMPROVEMENT)]
    assert alert_sections(OverviewState(model="t5"), alerts, now=START) == []


def test_a_plot_has_the_lines_of_one_phase_and_lanes_of_what_happened() -> None:
    marks = [
        TrendMark(kind=kind, at=history_run(1).at, text=str(kind), id=str(kind))
        for kind in (MarkKind.REVISION, MarkKind.ENVIRONMENT, MarkKind.ANNOTATION)
    ]
    alert = TrendMark(
        kind=MarkKind.ALERT,
        at=history_run(2).at,
        text="vit default",
        case=make_case("vit", mode="default"),
        metric="latency_s",
        verdict="regression",
    )
    trends = trends_of(
        trend("default", [1.5, 1.6, 1.7], phase="inference", label="inference"),
        trend("max-autotune", [2.5, 2.0, 2.1], phase="inference", label="inference"),
        trend("default", [1.1, 1.2, 1.3], phase="training", label="training"),
        trend("default", [0.5, 1.0, 1.0], metric=PASS_RATE, phase="training", label="training"),
        marks=[*marks, alert],
    )
    first, second = trend_plots(trends, metric="speedup")
    assert [line.text for line in first.lines] == ["default 1.70x", "max-autotune 2.10x"]
    assert [lane.name for lane in first.lanes] == ["alerts", "torch", "driver", "notes"]
    assert (second.title, [len(line.points) for line in second.lines]) == ("training", [3])
    # The alert is of the other phase.
    assert [lane.name for lane in second.lanes] == ["torch", "driver", "notes"]
    (rate,) = trend_plots(trends, metric=PASS_RATE)
    assert (rate.unit, rate.lines[0].points[0]["value"]) == ("%", 50.0)
    assert trend_metrics(trends, chosen="energy_j") == ["speedup", "pass_rate", "energy_j"]


def test_a_single_run_has_no_plot() -> None:
    assert trend_plots(trends_of(trend("default", [1.5])), metric="speedup") == []


def test_the_metrics_of_the_trend_are_those_that_trends_have() -> None:
    assert tuple(TREND_METRICS) == OVERVIEW_TRENDS
