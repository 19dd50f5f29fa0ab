"""Kernels that the latency masks, from the stored results to the alert."""

from __future__ import annotations

from dataclasses import replace

import pytest

from compile_hud.db.ingest.results import put_documents
from compile_hud.db.queries.alerts import load_alerts
from compile_hud.db.queries.judge_state import load_judge_states
from compile_hud.db.queries.kernel_series import load_kernel_histories
from compile_hud.db.records.alerts import MASKED, Alert, AlertState
from compile_hud.db.records.results import RunDocument
from compile_hud.db.store import Store
from compile_hud.runner.alerting.alert_kernels import cause_kernels
from compile_hud.runner.detection.detect import DetectReport, detect
from tests.support.builders import (
    START,
    make_case,
    make_document,
    make_measurement,
    make_result,
    make_run,
)
from tests.support.records.kernel_nights import (
    ATTENTION,
    NORM,
    PRODUCT,
    Times,
    kernel_nights,
    masked_from,
    steady,
)

CASE = make_case("bert")
ONSET = 20


def documents(
    num_nights: int, *, times: Times = steady, latency_from: float = 1.0, first: int = 0
) -> list[RunDocument]:
    """Return nightly runs; the latency is times `latency_from` from the onset on."""
    made = []
    for number, night in enumerate(kernel_nights(num_nights, times=times)):
        run = make_run(
            night.run.run_id,
            plan=[CASE],
            started_at=night.run.at,
            finished_at=night.run.at,
            revision=night.run.revision,
        )
        wave = 1 + 0.001 * (number % 3)
        latency_s = night.latency_s * wave * (latency_from if number >= ONSET else 1.0)
        result = make_result(
            night.result_id,
            run=run,
            case=CASE,
            measurements=[make_measurement("latency_s", samples=[latency_s])],
            kernels=night.kernels,
        )
        made.append(make_document(run, results=[result]))
    return made[first:]


def put(store: Store, *several: RunDocument) -> None:
    with store.write() as connection:
        put_documents(connection, several, at=START)


def masked(report: DetectReport) -> list[Alert]:
    return [alert for alert in report.alerts if alert.kind == MASKED]


def test_a_masked_kernel_becomes_an_alert_on_its_third_night(store: Store) -> None:
    put(store, *documents(ONSET + 2, times=masked_from(ONSET)))
    assert not detect(store).alerts
    put(store, *documents(ONSET + 3, times=masked_from(ONSET), first=ONSET + 2))
    report = detect(store)
    (alert,) = masked(report)
    assert report.new == (alert,)
    assert (alert.first_bad.run_id, alert.metric) == (f"run-{ONSET}", "kernel_s")
    assert "(masked)" in report.events[alert.event_id].title
    assert alert.cause_text.startswith(NORM)
    # The environment of both runs is compared as for a step.
    assert f"revision torch {ONSET - 1} -> torch {ONSET}" in alert.cause_text
    assert load_alerts(store) == report.alerts


def test_its_kernels_are_those_of_the_diff(store: Store) -> None:
    put(store, *documents(ONSET + 3, times=masked_from(ONSET)))
    (alert,) = masked(detect(store))
    rows = cause_kernels([alert], store=store)[alert.id].rows
    assert [row["label"] for row in rows] == [NORM]


def test_a_second_judgement_changes_nothing(store: Store) -> None:
    put(store, *documents(ONSET + 3, times=masked_from(ONSET)))
    first = detect(store)
    again = detect(store)
    assert (again.alerts, again.new) == (first.alerts, ())
    assert detect(store, is_full=True).alerts == first.alerts


def test_a_step_of_the_latency_explains_its_kernels(store: Store) -> None:
    def times(night: int, label: str, time_us: float) -> float:
        return time_us * (1.4 if label == NORM and night >= ONSET else 1.0)

    put(store, *documents(ONSET + 6, times=times, latency_from=1.12))
    alerts = detect(store).alerts
    assert [alert.metric for alert in alerts] == ["latency_s"]


def test_equal_kernels_raise_nothing(store: Store) -> None:
    put(store, *documents(ONSET + 10))
    assert not detect(store).alerts


def test_a_kernel_that_is_back_fixes_its_alert(store: Store) -> None:
    def times(night: int, label: str, time_us: float) -> float:
        return time_us * (1.4 if label == NORM and ONSET <= night < ONSET + 5 else 1.0)

    put(store, *documents(ONSET + 4, times=times))
    (alert,) = masked(detect(store))
    assert alert.state is AlertState.OPEN
    put(store, *documents(ONSET + 12, times=times, first=ONSET + 4))
    (alert,) = masked(detect(store))
    assert alert.state is AlertState.FIXED


def test_an_alert_stays_when_its_onset_is_too_old_to_judge(store: Store) -> None:
    put(store, *documents(ONSET + 3, times=masked_from(ONSET)))
    (first,) = masked(detect(store))
    put(store, *documents(ONSET + 60, times=masked_from(ONSET), first=ONSET + 3))
    (later,) = masked(detect(store))
    assert (later.id, later.state) == (first.id, AlertState.OPEN)


def test_damaged_kernels_cost_only_their_own_verdict(
    store: Store, caplog: pytest.LogCaptureFixture
) -> None:
    *before, last = documents(ONSET)
    (result,) = last.results
    kernels = [
        replace(kernel, label="other", total_s=1e9) if kernel.label == ATTENTION else kernel
        for kernel in result.kernels
    ]
    put(store, *before, replace(last, results=(replace(result, kernels=tuple(kernels)),)))
    assert not detect(store).alerts
    assert "were not judged" in caplog.text


def test_histories_are_the_newest_results_with_kernels(store: Store) -> None:
    reference = make_run("run-99", plan=[CASE], started_at=START)
    bare = make_result("bare", run=reference, case=make_case("t5"))
    put(store, *documents(6), make_document(reference, results=[bare]))
    (history,) = load_kernel_histories(store, [CASE.key, "t5"], num_results=4)
    assert [night.run.run_id for night in history.nights] == [f"run-0{n}" for n in range(2, 6)]
    assert history.nights[0].latency_s == pytest.approx(1e-3, rel=0.01)
    assert {kernel.label for kernel in history.nights[-1].kernels} >= {NORM, PRODUCT}


def test_cases_without_kernels_have_a_state_all_the_same(store: Store) -> None:
    run = make_run("run-1", plan=[CASE])
    put(store, make_document(run, results=[make_result(run=run, case=CASE)]))
    detect(store)
    assert set(load_judge_states(store)) == {CASE.key}
