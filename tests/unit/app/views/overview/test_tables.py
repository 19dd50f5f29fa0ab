"""The tables of the run and series pages, and the parts of the overview."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
from syrupy.assertion import SnapshotAssertion

from compile_hud.app.components.latest_results import silence_text
from compile_hud.app.components.trend.view import trend_caption
from compile_hud.app.data.page_records import ModeSummary, RunPage
from compile_hud.app.ui.format import Scale, outcome_label
from compile_hud.app.ui.html import Cell, HtmlColumn
from compile_hud.app.ui.urls import OverviewState
from compile_hud.app.views.overview.tables import (
    alert_sections,
    learning_text,
    mode_tile,
    unwatched_text,
)
from compile_hud.app.views.runs.measurements import measurement_table
from compile_hud.app.views.runs.tables import (
    case_table,
    environment_table,
    num_cases,
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
    samples_caption,
    sibling_table,
)
from compile_hud.db.jobs.health import SchedulerState, ScheduleState
from compile_hud.db.records.metrics import Direction
from compile_hud.db.records.results import Outcome, Verdict
from compile_hud.db.records.summaries import RunSummary
from tests.support.builders import START, make_alert, make_case, make_run, make_run_ref
from tests.support.records.page_results import (
    header,
    latest,
    point,
    result_summary,
    run_page,
    series_page,
)

MS = Scale(1e-3, "ms")


def mode_summary(
    *,
    mean: float | None,
    num_ok: int = 4,
    num_speedups: int = 4,
    failures: tuple[tuple[str, int], ...] = (),
    untried: tuple[tuple[str, int], ...] = (),
    missing: tuple[tuple[str, int], ...] = (),
    fallbacks: tuple[tuple[str, int], ...] = (),
) -> ModeSummary:
    """Return what max-autotune does for four models."""
    return ModeSummary(
        variant="max-autotune",
        mean=mean,
        num_common=3,
        num_subjects=4,
        num_speedups=num_speedups,
        num_ok=num_ok,
        num_attempted=4,
        failures=failures,
        untried=untried,
        missing=missing,
        effective_modes=fallbacks,
    )


def test_the_tile_distinguishes_missing_cases_from_late_ones(words: SnapshotAssertion) -> None:
    summary = mode_summary(mean=2.0, num_ok=1, missing=(("vanished", 1), ("late", 2)))
    _, cell = mode_tile(summary)
    assert cell.notes[1].text == words


def test_tile_says_what_is_not_ok_and_what_does_not_count(words: SnapshotAssertion) -> None:
    failures, untried = (("failed", 1), ("out_of_memory", 1)), (("skipped", 2),)
    summary = mode_summary(
        mean=2.0, num_ok=1, failures=failures, untried=untried, missing=(("late", 1),)
    )
    _, cell = mode_tile(summary)
    assert [note.text for note in cell.notes[1:]] == words


def cases_of(page: RunPage) -> tuple[tuple[HtmlColumn, ...], list[tuple[Cell, ...]]]:
    return case_table(page, num_shown=100)


def test_cases_are_listed_from_broken_to_fine() -> None:
    cases = {outcome: make_case(f"model-{outcome}") for outcome in Outcome}
    results = [result_summary(case, outcome=outcome) for outcome, case in cases.items()]
    _, rows = cases_of(run_page(results))
    texts = [row[2].text for row in rows]
    bad = ["failed", "timeout", "out of memory", "inaccurate", "lost", "skipped"]
    assert texts[: len(bad)] == bad
    # The others have the order of the plan.
    assert texts[len(bad) :] == [
        outcome_label(outcome) for outcome in Outcome if outcome_label(outcome) not in bad
    ]


def test_only_dimensions_that_differ_have_a_column() -> None:
    results = [result_summary(make_case(dtype="fp32")), result_summary(make_case(dtype="bf16"))]
    columns, rows = cases_of(run_page(results))
    assert [column.label for column in columns[:4]] == ["model", "variant", "dtype", "outcome"]
    assert [row[2].text for row in rows] == ["fp32", "bf16"]


def test_a_regression_is_marked_only_in_its_first_bad_run() -> None:
    alert = make_alert(first_bad=make_run_ref(make_run("run-1")))
    here = run_page([result_summary()], alerts=[alert])
    later = run_page([result_summary()], run=make_run("run-2"), alerts=[alert])
    improvement = make_alert(verdict=Verdict.IMPROVEMENT)
    better = run_page([result_summary()], alerts=[improvement])
    marks = [[note.text for note in cases_of(page)[1][0][2].notes] for page in (here, later)]
    assert marks == [["latency +20.0 %"], []]
    assert cases_of(better)[1][0][2].notes == ()


def test_a_case_without_a_result_says_whether_one_will_come() -> None:
    going = run_page([], run=make_run())
    over = run_page([], run=make_run(finished_at=START))
    assert [cases_of(page)[1][0][2].text for page in (going, over)] == ["to do", "no result"]


@pytest.mark.parametrize("num_shown", range(5))
def test_the_first_cases_are_those_with_which_all_begin(num_shown: int) -> None:
    plan = tuple(make_case(f"model-{number}") for number in range(4))
    results = [
        result_summary(plan[1]),
        result_summary(plan[2], outcome=Outcome.FAILED),
    ]
    page = run_page(results, run=make_run(plan=plan))
    columns, rows = cases_of(page)
    assert num_cases(page) == len(rows) == 4
    assert case_table(page, num_shown=num_shown) == (columns, rows[:num_shown])


def test_a_fallback_is_reported_in_table_and_facts() -> None:
    result = result_summary(make_case(mode="max-autotune"), effective_mode="default")
    _, ((*_, outcome, _eager, _latency, _, _, _, _, _, _),) = cases_of(run_page([result]))
    assert [note.text for note in outcome.notes] == ["ran as default"]
    assert "max-autotune (ran as default)" in result_facts(result)


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
    assert "{&quot;a&quot;: 1}" in environment_table({"flags": {"a": 1}})


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


def test_the_newest_points_are_listed_first() -> None:
    page = series_page([point(number) for number in range(25)])
    whole = point_table(page, metric="latency_s", scale=MS)
    newest = point_table(page, metric="latency_s", scale=MS, num_shown=20)
    assert (whole.count("<tr>"), newest.count("<tr>")) == (26, 21)
    assert whole.startswith(newest.partition("</tbody>")[0])


def test_a_point_of_one_sample_has_no_interval(words: SnapshotAssertion) -> None:
    single = replace(point(0, 2.0), low=2.0, high=2.0, num_samples=1)
    page = series_page([single])
    facts = {name: cell.text for name, cell in header_facts(page, metric="energy_j")}
    assert facts["latest energy"] == "2.00 J"
    about = {name: cell.text for name, cell in point_facts(page, single, metric="energy_j")}
    assert (about["estimate"], about["samples"]) == ("2.00 J", "1, so no interval")
    rows = point_table(page, metric="energy_j", scale=Scale(1.0, "J"))
    assert 'title="one sample has no interval"><div class="text">-</div>' in rows
    assert trend_caption(page) == words
    assert "95 % interval; a click opens" in trend_caption(series_page([single, point(1)]))
    assert samples_caption(1) != samples_caption(2)


def test_an_alert_is_reported_with_interval_levels_and_both_revisions(
    words: SnapshotAssertion,
) -> None:
    alert = make_alert(last_good=make_run_ref(make_run(revision="2.12")))
    (text,) = alert_notices(series_page(alerts=[alert]), metric="latency_s")
    assert text == (words)


def test_a_vanished_series_is_reported_without_numbers(words: SnapshotAssertion) -> None:
    alert = make_alert(kind="vanished", metric="outcome")
    (text,) = alert_notices(series_page(alerts=[alert]), metric="latency_s")
    assert text == words


def test_more_regressions_than_fit_are_folded(words: SnapshotAssertion) -> None:
    alerts = [
        make_alert(str(number), case=make_case(f"model-{number}"), change_pct=5.0 + number)
        for number in range(14)
    ]
    title, sections = alert_sections(OverviewState(), alerts, now=START)
    assert title == words
    assert [section.count("<tr>") for section in sections] == [13, 3]
    assert "2 more, less severe" in sections[1]


def test_muted_regressions_are_behind_a_fold_and_need_no_attention() -> None:
    alert = make_alert("a", case=make_case("bert"))
    muted = replace(alert, muted_until=START + timedelta(days=1))
    other = make_alert("b", case=make_case("vit"))
    title, sections = alert_sections(OverviewState(), [muted, other], now=START)
    assert title.startswith("1 case")
    assert ["bert" in section for section in sections] == [False, True]
    later = START + timedelta(days=2)
    title, (section,) = alert_sections(OverviewState(), [muted, other], now=later)
    assert title.startswith("2 cases")


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


def test_a_case_is_one_line_however_many_alerts_it_has(words: SnapshotAssertion) -> None:
    case = make_case("bert")
    alerts = [
        make_alert("a", case=case, change_pct=20.0),
        make_alert("b", case=case, metric="speedup", unit="x", change_pct=-9.0),
        make_alert("c", case=make_case("vit"), kind="vanished", metric="outcome", unit=""),
        make_alert("d", case=make_case("unet"), kind="outcome", metric="outcome", unit=""),
    ]
    title, (section,) = alert_sections(OverviewState(), alerts, now=START, newest_runs={"run-1"})
    assert title == words
    assert section.count("<tr>") == 4
    assert "and speedup -9.0 %" in section


def test_facts_of_all_cases_are_left_out_of_each_line() -> None:
    alerts = [make_alert(str(number), case=make_case(f"m{number}")) for number in range(2)]
    common = ("phase", "shape", "dtype", "device")
    _, (section,) = alert_sections(OverviewState(), alerts, now=START, common=common)
    assert "inference tiny" not in section
    other = make_alert("other", case=make_case(dtype="bf16"))
    _, (section,) = alert_sections(OverviewState(), [*alerts, other], now=START, common=common)
    assert '<div class="note">bf16</div>' in section


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
    assert silence_text(late, now=START + timedelta(hours=1)) == (words)


def test_improvements_are_folded_and_not_called_bad() -> None:
    better = make_alert(verdict=Verdict.IMPROVEMENT, change_pct=-9.0)
    _, (section,) = alert_sections(OverviewState(), [better], now=START)
    assert "<summary>Improvements: 1</summary>" in section
    assert "first better revision" in section
    assert "first bad" not in section


def test_toolchains_are_named_in_every_table_of_alerts() -> None:
    alerts = [
        make_alert(str(number), case=make_case(f"model-{number}"), toolchain="nightly")
        for number in range(13)
    ]
    alerts.append(make_alert("better", toolchain="nightly", verdict=Verdict.IMPROVEMENT))
    _, sections = alert_sections(OverviewState(), alerts, now=START, names_toolchain=True)
    assert [section.count("toolchain nightly") for section in sections] == [12, 1, 1]


def test_an_empty_list_is_reported_in_the_title_only() -> None:
    assert alert_sections(OverviewState(), [], now=START) == ("No open regressions", [])


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


def test_a_real_mean_stands_as_it_is(words: SnapshotAssertion) -> None:
    name, tile = mode_tile(mode_summary(mean=2.0, fallbacks=(("default", 1),)))
    assert (name, tile.text, tile.style) == ("max-autotune", "2.00x", "")
    assert [note.text for note in tile.notes] == words


def test_a_mode_that_never_really_ran_is_in_brackets() -> None:
    _, tile = mode_tile(mode_summary(mean=1.02, fallbacks=(("default", 4),)))
    assert (tile.text, tile.style) == ("(1.02x)", "quiet")


@pytest.mark.parametrize(("num_speedups", "num_ok"), [(4, 4), (0, 4), (0, 0)])
def test_a_mode_without_a_mean_has_a_reason(
    num_speedups: int, num_ok: int, words: SnapshotAssertion
) -> None:
    _, tile = mode_tile(mode_summary(mean=None, num_speedups=num_speedups, num_ok=num_ok))
    assert tile.style == "quiet"
    assert (tile.text, tile.notes[0].text) == words
