"""The cases that are measured again."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from compile_hud.db.records.alerts import Alert, AlertState
from compile_hud.db.records.results import Run, Verdict
from compile_hud.db.records.summaries import Series
from compile_hud.db.records.triage import SeriesSettings
from compile_hud.runner.analysis.confirmation.suspects import (
    ProvisionalAlerts,
    early_suspects,
    sort_by_severity,
    suspects_among,
)
from compile_hud.runner.analysis.judging.judge import alert_id, judge_case
from compile_hud.runner.analysis.judging.series_rules import SeriesRules
from tests.support.builders import make_alert, make_case, make_run, make_run_ref
from tests.support.records.histories import make_series, night

RULES = SeriesRules()


def noisy(num: int, level: float, *, cv: float = 0.005, seed: int = 0) -> list[float]:
    return [float(v) for v in level * (1 + cv * np.random.default_rng(seed).standard_normal(num))]


def run_of(number: int, **values: Any) -> Run:
    """Return the run of night `number`."""
    return make_run(f"run-{number}", started_at=night(number), **values)


def suspects_of(
    series: Series | Sequence[Series],
    *,
    alerts: Sequence[Alert] = (),
    rules: SeriesRules = RULES,
    number: int | None = None,
) -> list[Alert]:
    histories = [series] if isinstance(series, Series) else list(series)
    newest = len(histories[0].points) - 1 if number is None else number
    return early_suspects(histories, run=run_of(newest), alerts=alerts, rules=rules)


def judged_in(values: Sequence[float]) -> list[Alert]:
    """Return what the judge finds in this history of CPU time."""
    series = make_series(values, metric="latency_cpu_s")
    return [candidate.alert for candidate in judge_case([series])]


def test_a_night_outside_the_noise_is_a_suspect_with_all_its_facts() -> None:
    series = make_series([*noisy(10, 0.010), 0.0112], metric="latency_cpu_s")
    (alert,) = suspects_of(series)
    assert (alert.kind, alert.state, alert.verdict) == ("step", AlertState.OPEN, Verdict.REGRESSION)
    assert alert.first_bad.run_id == "run-10"
    assert alert.last_good is not None
    assert alert.last_good.run_id == "run-9"
    assert alert.last_seen == night(10)
    assert alert.baseline == pytest.approx(0.010, rel=0.01)
    assert alert.candidate == pytest.approx(0.0112, rel=0.001)
    assert alert.change_pct == pytest.approx(12.0, abs=1.0)
    assert alert.interval_pct is not None
    assert 0 < alert.interval_pct[0] < 12.0 < alert.interval_pct[1]
    assert alert.is_relevant


def test_a_suspect_is_the_alert_that_the_judge_will_raise() -> None:
    values = [*noisy(10, 0.010), *noisy(3, 0.0112, seed=1)]
    (judged,) = judged_in(values)
    for stop in (11, 12):
        (alert,) = suspects_of(make_series(values[:stop], metric="latency_cpu_s"))
        assert alert.id == judged.id


def test_a_lower_speedup_is_a_suspect_in_its_own_numbers() -> None:
    (alert,) = suspects_of(make_series([*noisy(10, 2.0), 1.7]))
    assert alert.candidate == pytest.approx(1.7, rel=0.001)
    assert alert.change_pct == pytest.approx(-15.0, abs=1.0)
    assert alert.interval_pct is not None
    assert alert.interval_pct[0] < alert.change_pct < alert.interval_pct[1] < 0


@pytest.mark.parametrize(
    "values",
    [
        [*noisy(10, 0.010), 0.0101],
        # Outside the noise, but within the trigger.
        [*noisy(10, 0.010, cv=0.001), 0.01025],
        # Beyond the trigger, but noise is wide.
        [*noisy(14, 0.010, cv=0.08), 0.0108],
        # Better is no suspect.
        [*noisy(10, 0.010), 0.0085],
        # Two nights tell no noise.
        [0.010, 0.010, 0.020],
        # The night before last.
        [*noisy(10, 0.010), 0.0112, 0.010],
    ],
    ids=["level", "small", "noisy", "better", "young", "over"],
)
def test_other_nights_are_no_suspects(values: list[float]) -> None:
    assert suspects_of(make_series(values, metric="latency_cpu_s")) == []


def test_only_the_newest_point_of_this_run_here_counts() -> None:
    series = make_series([*noisy(10, 0.010), 0.0112], metric="latency_cpu_s")
    assert suspects_of(series, number=9) == []
    elsewhere = make_series([*noisy(10, 0.010), 0.0112], metric="latency_cpu_s", machine="other")
    assert suspects_of(elsewhere) == []
    nightly = make_series([*noisy(10, 0.010), 0.0112], metric="latency_cpu_s", toolchain="nightly")
    assert suspects_of(nightly) == []


@pytest.mark.parametrize(
    "metric", ["graph_breaks", "eager_latency_s", "cosine_similarity", "unheard_of"]
)
def test_counts_and_what_is_not_judged_are_no_suspects(metric: str) -> None:
    assert suspects_of(make_series([*[3.0] * 10, 9.0], metric=metric)) == []


def test_a_reference_case_is_no_suspect() -> None:
    case = make_case("ref_gemm", family="reference", mode="eager")
    values = [*noisy(10, 0.010), 0.0112]
    assert suspects_of(make_series(values, metric="latency_cpu_s", case=case)) == []


def test_the_wall_clock_of_a_cpu_is_a_suspect_with_its_cpu_time_alone() -> None:
    bad, good = [*noisy(10, 0.010), 0.0125], noisy(11, 0.010)
    wall = make_series(bad, metric="latency_s")
    assert suspects_of([wall, make_series(good, metric="latency_cpu_s")]) == []
    both = suspects_of([wall, make_series(bad, metric="latency_cpu_s")])
    assert [alert.metric for alert in both] == ["latency_s", "latency_cpu_s"]
    on_gpu = make_case(device="cuda")
    assert len(suspects_of(make_series(bad, metric="latency_s", case=on_gpu))) == 1


def test_after_a_known_step_the_new_level_counts() -> None:
    values = [*noisy(10, 0.010), *noisy(5, 0.0112, seed=1)]
    series = make_series(values, metric="latency_cpu_s")
    (step,) = judged_in(values)
    assert suspects_of(series, alerts=[step]) == []
    worse = make_series([*values, 0.0130], metric="latency_cpu_s")
    (alert,) = suspects_of(worse, alerts=[step])
    assert alert.baseline == pytest.approx(0.0112, rel=0.01)


def test_the_floor_and_the_baseline_set_by_users_count() -> None:
    series = make_series([*noisy(10, 0.010), 0.0112], metric="latency_cpu_s")
    pattern = series.header.key
    lax = SeriesRules(settings=[SeriesSettings(pattern=pattern, floor=0.30)])
    assert suspects_of(series, rules=lax) == []
    anew = SeriesRules(settings=[SeriesSettings(pattern=pattern, baseline_run_id="run-10")])
    assert suspects_of(series, rules=anew) == []


def test_a_suspect_remembers_its_earlier_tries() -> None:
    series = make_series([*noisy(10, 0.010), 0.0112], metric="latency_cpu_s")
    (first,) = suspects_of(series)
    earlier = dataclasses.replace(first, state=AlertState.FIXED, confirmation={"num_tries": 2})
    (again,) = suspects_of(series, alerts=[earlier])
    assert (again.id, again.confirmation) == (earlier.id, {"num_tries": 2})


# A third slower on the newest night.
SPEED_PROBES_S = [*[0.0006] * 10, 0.0008]


def with_speed_probe(
    values: Sequence[float], probe_s: Sequence[float] = SPEED_PROBES_S
) -> list[Series]:
    """Return the CPU time of a case and, in the same runs, the pace of the machine."""
    return [
        make_series(values, metric="latency_cpu_s"),
        make_series(probe_s, metric="pace_s"),
    ]


def test_a_slow_night_of_the_machine_is_no_suspect() -> None:
    slowed = [*noisy(10, 0.010), 0.010 * 4 / 3]
    assert len(suspects_of(with_speed_probe(slowed)[0])) == 1
    assert suspects_of(with_speed_probe(slowed)) == []


def test_slower_code_on_a_fast_night_of_the_machine_is_a_suspect_at_its_size() -> None:
    (alert,) = suspects_of(
        with_speed_probe([*noisy(10, 0.010), 0.0112 * 0.75], [*SPEED_PROBES_S[:10], 0.00045])
    )
    assert alert.change_pct == pytest.approx(12.0, abs=1.0)
    assert alert.candidate == pytest.approx(0.0112, rel=0.01)


def open_alert(**values: Any) -> Alert:
    return make_alert(first_bad=make_run_ref(run_of(3)), last_seen=night(5), **values)


def test_open_regressions_of_the_newest_run_are_suspects() -> None:
    alert = open_alert()
    assert suspects_among([alert], run=run_of(5)) == [alert]
    assert suspects_among([alert], run=run_of(3)) == [alert]
    assert suspects_among([alert], run=run_of(4)) == []


@pytest.mark.parametrize(
    "changed",
    [
        {"state": AlertState.ACKNOWLEDGED},
        {"state": AlertState.FIXED},
        {"verdict": Verdict.IMPROVEMENT},
        {"kind": "vanished"},
        {"machine": "other"},
        {"toolchain": "nightly"},
        {"is_confirmed": True},
        {"confirmation": {"num_tries": 3}},
    ],
    ids=str,
)
def test_other_alerts_are_no_suspects(changed: dict[str, Any]) -> None:
    alert = dataclasses.replace(open_alert(), **changed)
    assert suspects_among([alert], run=run_of(5)) == []


def test_the_refuted_and_the_inconclusive_are_tried_again() -> None:
    alert = dataclasses.replace(open_alert(), is_confirmed=False, confirmation={"num_tries": 2})
    assert suspects_among([alert], run=run_of(5)) == [alert]


def test_the_worst_case_comes_first_and_a_failure_before_it() -> None:
    mild, bad = make_case("mild"), make_case("bad")
    alerts = [
        make_alert("a", case=mild, candidate=0.011),
        make_alert("b", case=bad, candidate=0.012),
        make_alert("c", case=bad, metric="speedup", baseline=2.0, candidate=1.0),
        make_alert("d", case=make_case("fails"), kind="outcome", metric="outcome"),
    ]
    groups = sort_by_severity(alerts)
    assert [[alert.id for alert in group] for group in groups.values()] == [
        ["d"],
        ["c", "b"],
        ["a"],
    ]


def provisional_alerts(
    alert: Alert,
    values: Sequence[float],
    *,
    detected: Sequence[Alert] = (),
    others: Sequence[Series] = (),
) -> list[Alert]:
    """Return what stands of a confirmed `alert` when this history is judged, `beside` others."""
    watcher = ProvisionalAlerts([alert], rules=RULES)
    histories = [make_series(values, metric="latency_cpu_s"), *others]
    assert list(watcher.observe(histories)) == histories
    return watcher.not_in(detected)


def confirmed(values: Sequence[float]) -> Alert:
    (alert,) = suspects_of(make_series(values, metric="latency_cpu_s"))
    return dataclasses.replace(alert, is_confirmed=True, confirmation={"is_early": True})


def test_a_confirmed_suspect_stands_until_three_nights_are_back() -> None:
    values = [*noisy(10, 0.010), 0.0112]
    alert = confirmed(values)
    (same,) = provisional_alerts(alert, [*values, 0.0112])
    assert (same.state, same.last_seen) == (AlertState.OPEN, night(11))
    (waiting,) = provisional_alerts(alert, [*values, 0.010, 0.010])
    assert waiting.state is AlertState.OPEN
    (over,) = provisional_alerts(alert, [*values, 0.010, 0.010, 0.010])
    assert (over.state, over.last_seen) == (AlertState.FIXED, night(10))


def test_a_level_that_is_back_on_slow_nights_of_the_machine_is_back() -> None:
    values = [*noisy(10, 0.010), 0.0112]
    later = [*values, *[0.0134] * 3]
    speed_probe = make_series([*[0.0006] * 11, *[0.0008] * 3], metric="pace_s")
    (over,) = provisional_alerts(confirmed(values), later, others=[speed_probe])
    assert over.state is AlertState.FIXED
    (still,) = provisional_alerts(confirmed(values), later)
    assert still.state is AlertState.OPEN


def test_a_suspect_survives_the_pruning_of_speed_probes() -> None:
    values = [*noisy(10, 0.010), 0.0112]
    # What remains begins on a machine half as fast.
    later = make_series([0.020] * 6 + [0.0224], metric="latency_cpu_s", first_night=4)
    watcher = ProvisionalAlerts([confirmed(values)], rules=RULES)
    assert list(watcher.observe([later])) == [later]
    (alert,) = watcher.not_in([])
    assert (alert.state, alert.last_seen) == (AlertState.OPEN, night(10))


def test_a_detected_suspect_is_not_listed_twice() -> None:
    values = [*noisy(10, 0.010), *noisy(3, 0.0112, seed=1)]
    alert = confirmed(values[:11])
    alerts = judged_in(values)
    assert provisional_alerts(alert, values, detected=alerts) == []
    moved = [dataclasses.replace(item, id="another") for item in alerts]
    assert provisional_alerts(alert, values, detected=moved) == []
    long_ago = [
        dataclasses.replace(item, first_bad=make_run_ref(run_of(2)), last_seen=night(4))
        for item in alerts
    ]
    assert len(provisional_alerts(alert, values, detected=long_ago)) == 1


@pytest.mark.parametrize(
    "changed",
    [
        {"is_confirmed": False},
        {"state": AlertState.FIXED},
        {"confirmation": {"is_early": False}},
    ],
    ids=str,
)
def test_what_is_not_confirmed_over_or_the_judges_does_not_stand(changed: dict[str, Any]) -> None:
    values = [*noisy(10, 0.010), 0.0112]
    assert provisional_alerts(dataclasses.replace(confirmed(values), **changed), values) == []


def test_a_suspect_whose_nights_were_pruned_stands_as_it_is() -> None:
    values = [*noisy(10, 0.010), 0.0112]
    alert = confirmed(values)
    assert provisional_alerts(alert, values[:5]) == [alert]


def test_the_identity_is_that_of_series_kind_and_run() -> None:
    series = make_series([*noisy(10, 0.010), 0.0112], metric="latency_cpu_s")
    (alert,) = suspects_of(series)
    assert alert.id == alert_id(series.header.key, kind="step", first_bad_run_id="run-10")
