"""Drifts, noise, accuracy and relapses in the histories of one case."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import pytest
from syrupy.assertion import SnapshotAssertion

from compile_hud.db.records.alerts import AlertState, began
from compile_hud.db.records.results import Verdict
from compile_hud.db.records.summaries import Series
from compile_hud.runner.analysis.judging import judge as judging
from tests.support.records.histories import make_series, night
from tests.support.records.judging import judge, judge_case, noisy


def with_intervals(values: Sequence[float], half_widths: Sequence[float]) -> Series:
    """Return a history whose nights have intervals of these relative half-widths."""
    series = make_series(values, metric="latency_cpu_s")
    points = tuple(
        dataclasses.replace(point, low=point.median * (1 - width), high=point.median * (1 + width))
        for point, width in zip(series.points, half_widths, strict=True)
    )
    return dataclasses.replace(series, points=points)


def test_nights_that_were_measured_worse_are_the_measurings_fault(words: SnapshotAssertion) -> None:
    values = noisy([(20, 0.010), (10, 0.0108)])
    (alert,) = judge_case([with_intervals(values, [0.01] * 20 + [0.09] * 10)])
    assert alert.cause_kind == "measurement"
    assert alert.cause_text == (words)


@pytest.mark.parametrize(("before", "after"), [(0.01, 0.05), (0.06, 0.09), (0.0, 0.09)], ids=str)
def test_wide_intervals_alone_blame_no_measuring(before: float, after: float) -> None:
    # Narrower than the step, hardly wider than before, or nothing known of before.
    values = noisy([(20, 0.010), (10, 0.0108)])
    (alert,) = judge_case([with_intervals(values, [before] * 20 + [after] * 10)])
    assert alert.cause_kind == "unknown"


def drifting(num_nights: int, *, per_night: float) -> list[float]:
    calm = noisy([(20, 1.0), (num_nights, 1.0)])
    return [value * (1 + per_night) ** max(0, number - 19) for number, value in enumerate(calm)]


def test_one_percent_a_week_is_a_drift_with_its_size() -> None:
    (alert,) = judge(drifting(70, per_night=0.01 / 7))
    assert (alert.kind, alert.verdict, alert.state) == (
        "drift",
        Verdict.REGRESSION,
        AlertState.OPEN,
    )
    assert alert.change_pct is not None
    assert 5 < alert.change_pct < 12
    assert alert.interval_pct is not None
    assert alert.interval_pct[0] < alert.change_pct < alert.interval_pct[1]
    # From the run in which it began to the one in which it was first seen, a week of 70 and more.
    assert alert.last_good is not None
    assert began(alert) == alert.last_good
    assert (alert.first_bad.at - alert.last_good.at).days >= 9
    assert alert.first_bad.at < alert.last_seen == night(89)


def test_a_drift_with_steps_is_reported_with_its_whole_change() -> None:
    # In half of them two steps and more are. Those that no run believes would hide it in a fifth.
    kinds = []
    for seed in range(40):
        flat = noisy([(120, 0.01)], cv=0.02, seed=seed)
        nights = [min(30, max(0, number - 59)) for number in range(120)]
        values = [value * 1.006**night for value, night in zip(flat, nights, strict=True)]
        changes = [alert.change_pct or 0 for alert in judge(values) if alert.kind == "drift"]
        kinds.append(max(changes, default=0))
    assert sum(change > 10 for change in kinds) >= 26


def test_a_level_that_is_neared_slowly_is_not_over_before_it_is_reached() -> None:
    kinds = []
    for seed in range(20):
        flat = noisy([(90, 0.01)], cv=0.01, seed=seed)
        values = [value * 1.006 ** max(0, number - 59) for number, value in enumerate(flat)]
        kinds += [alert for alert in judge(values) if alert.kind == "step"]
    assert len(kinds) >= 20
    assert {alert.state for alert in kinds} == {AlertState.OPEN}
    assert all(alert.last_seen == night(89) for alert in kinds)


def test_a_step_that_may_still_be_believed_is_no_drift() -> None:
    # Asked every night: a second step has little evidence at first.
    alerts = []
    for seed in range(10):
        values = noisy([(60, 1.0), (10, 1.08), (14, 1.1664)], cv=0.02, seed=seed)
        kinds = {alert.kind for stop in range(71, 85) for alert in judge(values[:stop])}
        alerts.append("drift" in kinds)
    assert sum(alerts) <= 1


def test_falling_speedup_is_a_drift_for_the_worse() -> None:
    (alert,) = judge([1 / value for value in drifting(70, per_night=0.01 / 7)], metric="speedup")
    assert (alert.kind, alert.verdict) == ("drift", Verdict.REGRESSION)
    assert alert.change_pct is not None
    assert alert.change_pct < 0


def test_noise_that_grows_is_an_alert_without_a_verdict_on_the_code() -> None:
    values = [*noisy([(60, 1.0)], cv=0.005), *noisy([(40, 1.0)], cv=0.03, seed=1)]
    (alert,) = judge(values)
    assert (alert.kind, alert.verdict, alert.state) == (
        "variance",
        Verdict.INCONCLUSIVE,
        AlertState.OPEN,
    )
    assert alert.cause_kind == "measurement"
    assert alert.cause_text.startswith("noise grew from 0.")
    assert (alert.baseline, alert.candidate) == (None, None)
    assert alert.change_pct is not None
    assert alert.change_pct > 70


def test_shrinking_noise_is_not_notified_and_ends_the_alert() -> None:
    loud = noisy([(60, 1.0)], cv=0.03)
    calm = noisy([(60, 1.0)], cv=0.005, seed=1)
    assert judge([*loud, *calm]) == []
    (alert,) = judge([*calm, *loud, *noisy([(60, 1.0)], cv=0.005, seed=2)])
    assert alert.state is AlertState.FIXED
    assert alert.last_seen < night(179)


def test_noise_of_a_wall_clock_next_to_a_cpu_time_is_not_notified() -> None:
    values = [*noisy([(60, 1.0)], cv=0.005), *noisy([(40, 1.0)], cv=0.03, seed=1)]
    wall = make_series(values, metric="latency_s")
    cpu = make_series(noisy([(100, 1.0)], seed=2), metric="latency_cpu_s")
    assert judge_case([wall, cpu]) == []
    assert [alert.kind for alert in judge_case([wall])] == ["variance"]


def test_cosine_is_judged_by_its_distance_from_one() -> None:
    distances = noisy([(20, 1e-4), (10, 1e-3)], cv=0.1)
    (alert,) = judge([1 - distance for distance in distances], metric="cosine_similarity")
    assert alert.verdict is Verdict.REGRESSION
    assert alert.is_relevant
    assert alert.baseline == pytest.approx(0.9999, abs=2e-5)
    assert alert.candidate == pytest.approx(0.999, abs=2e-4)
    assert alert.change_pct == pytest.approx(-0.09, abs=0.02)
    assert alert.interval_pct is not None
    assert alert.interval_pct[0] < alert.change_pct < alert.interval_pct[1] < 0


def test_rounding_of_a_cosine_is_not_notified() -> None:
    assert judge([1.0] * 20 + [1 - 9e-7] * 10, metric="cosine_similarity") == []


@pytest.mark.parametrize("metric", ["rmse_ratio", "max_abs_error"])
def test_error_that_doubles_twice_is_a_regression(metric: str) -> None:
    (alert,) = judge(noisy([(20, 1.0), (10, 4.0)], cv=0.05), metric=metric)
    assert alert.verdict is Verdict.REGRESSION
    assert judge(noisy([(20, 1.0), (10, 1.3)], cv=0.02), metric=metric) == []


def test_each_candidate_belongs_to_its_run() -> None:
    steps = make_series(noisy([(20, 0.010), (30, 0.0108)]), metric="latency_cpu_s")
    (step,) = judging.judge_case([steps])
    assert step.run_id == step.alert.first_bad.run_id == "run-20"
    assert step.p_value is not None
    assert step.p_value < 1e-6
    drifts = make_series(drifting(70, per_night=0.01 / 7), metric="latency_cpu_s")
    (drift,) = judging.judge_case([drifts])
    assert drift.run_id == drift.alert.first_bad.run_id
    assert drift.p_value is not None
    assert drift.p_value < 1e-6
    (count,) = judging.judge_case([make_series([1.0, 2.0], metric="graph_breaks")])
    assert count.p_value is None


@pytest.mark.parametrize("num_good", [5, 8, 12])
def test_relapse_soon_after_the_way_back_is_detected(num_good: int) -> None:
    levels = [(14, 0.010), (8, 0.012), (num_good, 0.010), (4, 0.012)]
    first, again = judge(noisy(levels))
    assert (first.state, first.first_bad.run_id) == (AlertState.FIXED, "run-14")
    assert (again.state, again.first_bad.run_id) == (AlertState.OPEN, f"run-{22 + num_good}")
    assert again.change_pct == pytest.approx(20, abs=2)


def test_each_relapse_ends_when_the_level_is_back() -> None:
    levels = [(14, 0.010), *[(8, 0.012), (8, 0.010)] * 3]
    alerts = judge(noisy(levels))
    assert [alert.first_bad.run_id for alert in alerts] == ["run-14", "run-30", "run-46"]
    assert {alert.state for alert in alerts} == {AlertState.FIXED}
