from __future__ import annotations

import math
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest

from compile_hud.db.errors import MixedStoreError
from compile_hud.db.queries.alerts import load_alerts
from compile_hud.db.queries.kernels import load_profiled
from compile_hud.db.queries.runs import load_runs
from compile_hud.db.records.alerts import Alert, AlertState
from compile_hud.db.records.kernels import profile_of
from compile_hud.db.records.results import Outcome, Verdict
from compile_hud.db.store import Store
from compile_hud.models_zoo.catalog.variants import MODES
from compile_hud.runner.alerting.alert_kernels import cause_kernels
from compile_hud.runner.analysis.kernels.diff import kernel_bounds
from compile_hud.runner.demo.history import (
    DRIFT,
    FAILING,
    FIXED,
    GAIN,
    MACHINE,
    MEMORY_BOUND,
    NOISY,
    STEP,
    VANISHED,
    fill_demo,
    synthetic_history,
)
from tests.support.builders import make_result, make_run
from tests.support.fakes import FakeClock

NIGHTS = 60
NOON = datetime(2026, 11, 20, 12, tzinfo=timezone.utc)


def noon() -> datetime:
    return NOON


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Store:
    """Return a store with the whole demo; it takes seconds, so the tests share it and only read."""
    store = Store(f"duckdb:///{tmp_path_factory.mktemp('demo')}/demo.duckdb")
    fill_demo(store, now=noon, nights=NIGHTS)
    return store


def alerts_of(store: Store, name: tuple[str, str]) -> list[Alert]:
    return [
        alert
        for alert in load_alerts(store)
        if (alert.case.model, alert.case.mode) == name and alert.metric != "latency_s"
    ]


def test_every_run_is_labelled_synthetic(demo: Store) -> None:
    runs = [summary.run for summary in load_runs(demo, limit=100)]
    assert len(runs) == NIGHTS
    assert all(run.is_synthetic for run in runs)
    assert {run.machine for run in runs} == {MACHINE} == {"synthetic-demo"}


def test_last_run_was_last_night(demo: Store) -> None:
    starts = [summary.run.started_at for summary in load_runs(demo, limit=100)]
    assert max(starts) == NOON.replace(hour=2, minute=30)
    assert len({start.date() for start in starts}) == NIGHTS


def test_every_night_has_a_revision_of_its_own(demo: Store) -> None:
    assert len({summary.run.revision for summary in load_runs(demo, limit=100)}) == NIGHTS


def test_new_driver_starts_a_new_environment(demo: Store) -> None:
    runs = [summary.run for summary in load_runs(demo, limit=100)]
    assert len({run.fingerprint for run in runs}) == 2
    assert {run.environment["driver_version"] for run in runs} == {"570.86.15", "580.65.06"}


def test_a_step_has_kernels_behind_it_that_add_up_to_it(demo: Store) -> None:
    (alert,) = alerts_of(demo, STEP)
    kernels = cause_kernels([alert], store=demo)[alert.id]
    row = kernels.rows[0]
    assert row["label"] == "triton_per_fused_add_native_layer_norm"
    assert (row["class"], kernels.noise) == ("other_code", "")
    names = kernel_bounds(alert)
    before, after = (load_profiled(demo, names)[name] for name in names)
    assert before.latency_s is not None
    assert after.latency_s is not None
    change_us = 1e6 * (after.latency_s - before.latency_s)
    assert 0.5 * change_us < row["contribution_us"] < 1.5 * change_us
    for result in (before, after):
        profile = profile_of(result.details)
        assert profile is not None
        assert math.fsum(profile.components.values()) == pytest.approx(profile.iteration_s)
        busy_s = math.fsum(kernel.total_s for kernel in result.kernels)
        assert busy_s + profile.components["idle"] == pytest.approx(profile.iteration_s)
        assert all(source.text.startswith("# synthetic: ") for source in result.sources)


def test_planted_step_is_an_open_regression(demo: Store) -> None:
    (alert,) = alerts_of(demo, STEP)
    assert (alert.verdict, alert.state, alert.metric) == (
        Verdict.REGRESSION,
        AlertState.OPEN,
        "speedup",
    )
    assert alert.change_pct == pytest.approx(100 * (1 / 1.08 - 1), abs=1.0)


def test_planted_improvement_is_reported(demo: Store) -> None:
    (alert,) = alerts_of(demo, GAIN)
    assert (alert.verdict, alert.state) == (Verdict.IMPROVEMENT, AlertState.OPEN)


def test_step_that_went_away_is_fixed(demo: Store) -> None:
    (alert,) = alerts_of(demo, FIXED)
    assert (alert.verdict, alert.state) == (Verdict.REGRESSION, AlertState.FIXED)


def test_failing_case_is_reported_with_its_reason(demo: Store) -> None:
    (alert,) = alerts_of(demo, FAILING)
    assert alert.kind == "outcome"
    assert "OutOfResources" in alert.cause_text


def test_vanished_case_is_reported(demo: Store) -> None:
    (alert,) = alerts_of(demo, VANISHED)
    assert (alert.kind, alert.state) == ("vanished", AlertState.OPEN)


def test_slower_memory_is_the_machines_doing(demo: Store) -> None:
    alerts = [alert for alert in load_alerts(demo) if alert.case.model in MEMORY_BOUND]
    assert {alert.cause_kind for alert in alerts} == {"machine"}
    assert {alert.metric for alert in alerts} == {"latency_s"}
    (copy,) = [alert for alert in alerts if alert.case.is_reference]
    assert "ref_copy (memory)" in copy.cause_text


def test_nothing_else_is_reported(demo: Store) -> None:
    """The noisy series has no step (docs/judging.md)."""
    alerted = {(alert.case.model, alert.case.mode) for alert in load_alerts(demo)}
    machine = {("ref_copy", "eager"), *(("nn_transformer", mode) for mode in MODES)}
    assert alerted == {STEP, GAIN, FIXED, FAILING, VANISHED, DRIFT} | machine
    assert NOISY not in alerted


def test_slow_drift_is_reported_as_one(demo: Store) -> None:
    alerts = [alert for alert in load_alerts(demo) if (alert.case.model, alert.case.mode) == DRIFT]
    assert {alert.kind for alert in alerts} == {"drift"}
    for alert in alerts:
        # The kernels and the environment of weeks apart, and not of two nights in a row.
        (began, _), (first_seen, _) = kernel_bounds(alert)
        assert alert.last_good is not None
        assert (alert.first_bad.at - alert.last_good.at).days >= 9
        assert (began, first_seen) == (alert.last_good.run_id, alert.first_bad.run_id)


def test_failed_case_has_a_log_and_no_number() -> None:
    last = list(synthetic_history(now=noon, nights=20, seed=0))[-1]
    (failed,) = [result for result in last.results if result.outcome is not Outcome.OK]
    assert (failed.case.model, failed.case.mode) == FAILING
    assert failed.measurements == ()
    assert "OutOfResources" in failed.log_tail


def test_history_is_the_same_for_a_seed_and_another_for_another() -> None:
    def history(seed: int) -> list[object]:
        return [night.results for night in synthetic_history(now=noon, nights=2, seed=seed)]

    assert history(1) == history(1)
    assert history(1) != history(2)


def test_demo_before_half_past_two_ends_the_night_before() -> None:
    early = NOON.replace(hour=1)
    (night,) = synthetic_history(now=lambda: early, nights=1, seed=0)
    assert night.run.started_at == early.replace(hour=2, minute=30) - timedelta(days=1)


def test_filling_a_store_twice_changes_nothing(duckdb_url: str) -> None:
    store = Store(duckdb_url)
    assert fill_demo(store, now=noon, nights=2) == 86
    assert fill_demo(store, now=noon, nights=2) == 0
    assert len(load_runs(store)) == 2


def test_store_with_real_runs_is_refused(tmp_path: Path, now: FakeClock) -> None:
    store = Store(f"duckdb:///{tmp_path}/real.duckdb", now=now)
    store.ingest(make_run(), make_result(), spool_id="spool-1")
    with pytest.raises(MixedStoreError) as caught:
        fill_demo(store, now=noon, nights=1)
    assert caught.value.parameters["kind"] == "synthetic"
    assert len(load_runs(store)) == 1
