"""The results over the runs of a scope, and the trends that follow from them."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

import numpy as np
import pytest

from compile_hud.app.data.mode_summaries import mode_summaries
from compile_hud.db.alerts.annotations import new_annotation, put_annotations
from compile_hud.db.ingest.results import put_documents, put_results
from compile_hud.db.queries.latest import load_latest
from compile_hud.db.queries.trends import TrendInputs, load_trend_inputs
from compile_hud.db.records.results import Case, Outcome, RunDocument
from compile_hud.db.store import Store
from compile_hud.runner.analysis.modes.comparison import compare_modes
from compile_hud.runner.analysis.trends.answers import change_text
from compile_hud.runner.analysis.trends.records import (
    PASS_RATE,
    TREND_METRICS,
    MarkKind,
    ModePoint,
    ModeTrends,
)
from compile_hud.runner.analysis.trends.trends import (
    TrendSelection,
    change_of,
    trends_with_marks,
)
from tests.support.builders import (
    make_alert,
    make_case,
    make_measurement,
    make_result,
    make_run,
    make_run_ref,
)
from tests.support.stores.stored_results import save_alerts
from tests.support.stores.trend_stores import (
    DRIVER,
    FAILS,
    JOINS,
    PARTIAL,
    fill_trends,
    night,
)

FIRST_NIGHT = night(0)
Trends = Mapping[tuple[str, str, str], tuple[ModePoint, ...]]


@pytest.fixture
def filled(store: Store) -> Store:
    fill_trends(store)
    fill_trends(store, machine="other", num_nights=2)
    return store


def inputs_of(store: Store, *, since: datetime = FIRST_NIGHT) -> TrendInputs:
    metrics = [name for name in TREND_METRICS if name != PASS_RATE]
    return load_trend_inputs(store, machine="box", toolchain="stable", since=since, metrics=metrics)


def trends_of(store: Store, *, since: datetime = FIRST_NIGHT, **selection: Any) -> ModeTrends:
    inputs = inputs_of(store, since=since)
    return trends_with_marks(
        inputs.history,
        alerts=inputs.alerts,
        remarks=inputs.annotations,
        environments=inputs.environments,
        selection=TrendSelection(**selection),
    )


def by_name(trends: ModeTrends) -> Trends:
    return {(item.metric, item.mode, item.group): item.points for item in trends.trends}


def test_point_is_the_state_after_each_run(filled: Store) -> None:
    points = by_name(trends_of(filled))["speedup", "default", ""]
    assert [point.run.id for point in points] == [f"night-{number}-box" for number in range(6)]
    # A run of a single model leaves the numbers of the others in force.
    assert [point.num_counted for point in points] == [2, 2, 2, 3, 2, 2]
    assert [point.num_measured for point in points] == [2, 2, 1, 3, 2, 2]
    assert [point.num_subjects for point in points] == [2, 2, 2, 3, 3, 3]
    assert points[PARTIAL].own / points[PARTIAL - 1].own == pytest.approx(2**0.5)
    assert points[JOINS].joined == ("t5/inference/tiny/fp32/cpu",)
    assert points[FAILS].left == ("vit/inference/tiny/fp32/cpu",)


def test_only_measured_models_move_a_trend(filled: Store) -> None:
    points = by_name(trends_of(filled))["speedup", "default", ""]
    # 4 of bert and 8 of t5 in the last night. bert doubled while vit was in the cohort.
    newest = 32**0.5
    assert [point.value for point in points] == pytest.approx([newest / 2**0.5] * 2 + [newest] * 4)


def test_mode_with_the_code_of_another_one_has_its_numbers(filled: Store) -> None:
    trends = by_name(trends_of(filled))
    same, default = (trends["speedup", name, ""] for name in ("reduce-overhead", "default"))
    assert [point.value for point in same] == [point.value for point in default]


def test_pass_rate_counts_the_newest_result_of_each_case(filled: Store) -> None:
    trends = by_name(trends_of(filled))
    points = trends[PASS_RATE, "max-autotune", ""]
    assert [(point.num_counted, point.num_subjects) for point in points] == [
        *[(2, 2)] * 3,
        (3, 3),
        *[(2, 3)] * 2,
    ]
    assert {point.value for point in trends[PASS_RATE, "default", ""]} == {1.0}


def test_newest_values_are_those_of_overview_and_modes(filled: Store) -> None:
    cells = [
        cell
        for cell in load_latest(filled, machine="box", toolchain="stable")
        if not cell.summary.case.is_reference
    ]
    tiles = {item.variant: item for item in mode_summaries(cells, alerts=())}
    trends = by_name(trends_of(filled))
    for mode, tile in tiles.items():
        newest = trends["speedup", mode, ""][-1]
        assert newest.value == pytest.approx(tile.mean)
        assert (newest.num_counted, newest.num_subjects) == (tile.num_common, tile.num_subjects)
        passed = trends[PASS_RATE, mode, ""][-1]
        assert (passed.num_counted, passed.num_subjects) == (tile.num_ok, tile.num_attempted)
    (group,) = compare_modes(cells, alerts=())
    for mode in group.choice.modes:
        newest = trends["speedup", mode.variant, ""][-1]
        assert [newest.value, newest.low, newest.high] == pytest.approx(
            [mode.speedup.value, mode.speedup.low, mode.speedup.high]
        )
        compiled = trends["compile_cold_s", mode.variant, ""][-1]
        assert compiled.value == pytest.approx(mode.compile_s.value)


def test_results_before_the_range_are_in_force_in_it(filled: Store) -> None:
    whole = by_name(trends_of(filled))["speedup", "default", ""]
    part = by_name(trends_of(filled, since=night(PARTIAL)))["speedup", "default", ""]
    assert [point.value for point in part] == [point.value for point in whole[PARTIAL:]]
    # Also those that are older than the time read before the range.
    late = night(PARTIAL) + timedelta(days=400)
    with filled.write() as connection:
        run = make_run("late", started_at=late, finished_at=late, plan=(make_case("bert"),))
        result = make_result(
            "late-bert",
            run=run,
            case=make_case("bert"),
            measurements=[make_measurement("speedup", samples=(4.0,))],
        )
        put_documents(connection, [RunDocument(run=run, results=(result,))], at=late)
    (point,) = by_name(trends_of(filled, since=late))["speedup", "default", ""]
    assert (point.num_counted, point.num_subjects, point.num_measured) == (2, 3, 1)
    assert point.value == pytest.approx(32**0.5)


def test_second_result_of_a_case_in_a_run_replaces_the_first(filled: Store) -> None:
    case = make_case("bert", mode="default")
    again = make_result(
        "again",
        run_id="night-5-box",
        case=case,
        finished_at=night(DRIVER) + timedelta(hours=2),
        measurements=[make_measurement("speedup", samples=(16.0,))],
    )
    run = dataclasses.replace(make_run("night-5-box", started_at=night(DRIVER)), plan=(case,))
    with filled.write() as connection:
        put_results(connection, run, results=[("again", again)], at=night(6))
    newest = by_name(trends_of(filled))["speedup", "default", ""][-1]
    assert newest.value == pytest.approx((16 * 8) ** 0.5)


def test_missing_case_is_not_ok_and_leaves_the_cohort(filled: Store) -> None:
    case = make_case("t5", mode="default")
    missed = make_alert(
        kind="vanished",
        case=case,
        first_bad=dataclasses.replace(make_run_ref(), at=night(DRIVER), run_id="night-5-box"),
    )
    save_alerts(filled, [missed])
    trends = by_name(trends_of(filled))
    assert [point.num_counted for point in trends["speedup", "default", ""]][-2:] == [2, 1]
    assert trends["speedup", "default", ""][-1].value == pytest.approx(4.0)
    passed = trends[PASS_RATE, "default", ""][-1]
    assert (passed.num_counted, passed.num_subjects) == (2, 3)


@pytest.mark.parametrize(
    ("by", "groups"),
    [
        ("model", {"bert", "vit", "t5"}),
        ("family", {"transformer", "vision"}),
        ("phase", {"inference"}),
        ("dtype", {"fp32"}),
        ("device", {"cpu"}),
    ],
)
def test_each_value_of_a_dimension_has_its_trend(filled: Store, by: str, groups: set[str]) -> None:
    shown = trends_of(filled, by=by, metrics=("speedup",), modes=("default",))
    assert {trend.group for trend in shown.trends} == groups
    assert {trend.mode for trend in shown.trends} == {"default"}


def test_cohort_stays_common_to_modes_that_are_not_selected(filled: Store) -> None:
    (trend,) = trends_of(filled, metrics=("speedup",), modes=("default",)).trends
    assert trend.points[-1].num_counted == 2
    change = change_of(trend)
    assert change is not None
    assert change.value == pytest.approx(2**0.5)


def test_filter_of_the_cases_selects_the_cohort(filled: Store) -> None:
    def is_transformer(case: Case) -> bool:
        return case.family == "transformer"

    points = by_name(trends_of(filled, fits=is_transformer))["speedup", "max-autotune", ""]
    assert [point.num_counted for point in points] == [1, 1, 1, 2, 2, 2]


def test_marks_are_changes_of_torch_machine_models_and_cohort(filled: Store) -> None:
    remark = new_annotation("new fans", at=night(1), pattern="bert/*", by="ann", made_at=night(1))
    other = new_annotation("ignored", at=night(1), pattern="gpt2/*", by="ann", made_at=night(1))
    put_annotations(filled, [remark, other])
    first_bad = dataclasses.replace(make_run_ref(), at=night(FAILS), run_id="night-4-box")
    failing = make_case("vit", family="vision", mode="max-autotune")
    alerts = [
        make_alert("a", kind="outcome", case=failing, first_bad=first_bad),
        make_alert("b", case=make_case("bert"), state="noise", first_bad=first_bad),
        make_alert("c", case=make_case("bert"), machine="other", first_bad=first_bad),
    ]
    save_alerts(filled, alerts)
    marks = {(mark.kind, mark.at): mark for mark in trends_of(filled).marks}
    assert {key: mark.text for key, mark in marks.items()} == {
        (MarkKind.ANNOTATION, night(1)): "new fans",
        (MarkKind.REVISION, night(JOINS)): "2.13.0 -> 2.14.0",
        (MarkKind.MODEL_CODE, night(4)): "bert c0 -> c1",
        (MarkKind.ALERT, night(FAILS)): "vit / max-autotune: failing (open)",
        (MarkKind.ENVIRONMENT, night(DRIVER)): "driver_version 570 -> 580",
    }
    assert marks[MarkKind.ALERT, night(FAILS)].case == failing


def test_new_environment_cuts_all_but_ratios(filled: Store) -> None:
    trends = {(item.metric, item.mode): item for item in trends_of(filled).trends}
    compiled, speedup = trends["compile_cold_s", "default"], trends["speedup", "default"]
    assert [point.segment for point in compiled.points] == [1] * DRIVER + [0]
    assert change_text(compiled) == ""
    assert {point.segment for point in speedup.points} == {0}
    earlier = trends_of(filled, metrics=("peak_bytes",), modes=("default",), since=night(1))
    assert [len(trend.linked) for trend in earlier.trends] == [1]


def test_change_names_the_date_since_which_it_is_comparable(filled: Store) -> None:
    fill_late = dataclasses.replace(
        make_run("late", started_at=night(DRIVER + 1), finished_at=night(DRIVER + 1)),
        fingerprint="580" * 20,
        plan=(make_case("bert"),),
    )
    measured = [make_measurement("compile_cold_s", samples=(50.0,))]
    result = make_result("late", run=fill_late, case=make_case("bert"), measurements=measured)
    with filled.write() as connection:
        put_documents(connection, [RunDocument(run=fill_late, results=(result,))], at=night(9))
    trend, *_ = trends_of(filled, metrics=("compile_cold_s",), modes=("default",)).trends
    # The cold compile of bert rises from 40 to 50 s, that of t5 stays.
    assert change_text(trend) == "+11.8 % since 2026-01-06"


def test_empty_range_has_no_trend(filled: Store) -> None:
    shown = trends_of(filled, since=night(40))
    assert (shown.trends, shown.runs, shown.marks) == ((), (), ())


def test_columns_are_the_cases_with_a_result_in_the_scope(filled: Store) -> None:
    metrics = ["speedup"]
    (mine, other) = (
        load_trend_inputs(
            filled, machine=name, toolchain="stable", since=night(0), metrics=metrics
        ).history
        for name in ("box", "other")
    )
    assert {case.model for case in mine.cases} == {"bert", "vit", "t5"}
    # The other machine stopped before t5 joined.
    assert {case.model for case in other.cases} == {"bert", "vit"}
    assert other.values["speedup"].shape == (3, 3, 8)


def test_matrices_have_a_row_for_older_runs_and_one_for_each_run(filled: Store) -> None:
    history = inputs_of(filled, since=night(3)).history
    assert history.num_before == 3
    assert history.outcomes.shape == (7, 12)
    assert history.outcomes[0].max() == -1
    failed = list(Outcome).index(Outcome.FAILED)
    rows, columns = np.nonzero(history.outcomes == failed)
    assert rows.tolist() == [5, 6]
    assert {history.cases[column].key for column in columns} == {
        make_case("vit", mode="max-autotune").key
    }


def test_alerts_of_other_modes_are_no_marks_of_a_selection(filled: Store) -> None:
    inputs = inputs_of(filled)
    modes = ("eager", "default", "max-autotune")
    first_bad = dataclasses.replace(make_run_ref(), at=night(FAILS), run_id="night-4-box")
    alerts = [
        make_alert(mode, case=make_case("bert", mode=mode, device="cpu"), first_bad=first_bad)
        for mode in modes
    ]
    trends = trends_with_marks(
        inputs.history,
        alerts=alerts,
        remarks=(),
        environments=inputs.environments,
        selection=TrendSelection(modes=("max-autotune",)),
    )
    marked = {mark.id for mark in trends.marks if mark.kind is MarkKind.ALERT}
    # Eager is one side of every speedup.
    assert marked == {"eager", "max-autotune"}
