from __future__ import annotations

import gzip
import json
import math
from collections import defaultdict
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest

from compile_hud.db.alerts.annotations import load_annotations
from compile_hud.db.errors import MixedStoreError, StoreError
from compile_hud.db.jobs.health import SchedulerStatus, load_health
from compile_hud.db.queries.alerts import load_alerts
from compile_hud.db.queries.kernels import load_profiled
from compile_hud.db.queries.results import load_document, load_result, load_result_summaries
from compile_hud.db.queries.runs import load_runs, load_suite_runs
from compile_hud.db.records.alerts import Alert, AlertState
from compile_hud.db.records.kernels import profile_of
from compile_hud.db.records.metrics import CACHE_EVENTS, CACHE_METRICS
from compile_hud.db.records.results import Outcome, Phase, Run, Verdict
from compile_hud.db.shared.trace_paths import find_trace, traces_folder
from compile_hud.db.store import Store
from compile_hud.models_zoo.catalog.variants import MODES
from compile_hud.runner.alerting.alert_kernels import cause_kernels
from compile_hud.runner.analysis.kernels.diff import kernel_bounds
from compile_hud.runner.analysis.release.report import DocumentPair, release_report
from compile_hud.runner.analysis.release.runs import find_releases
from compile_hud.runner.analysis.studies.catalog import FAMILIES
from compile_hud.runner.demo.demo_store import fill_demo
from compile_hud.runner.demo.history import (
    DRIFT,
    FAILING,
    FIXED,
    FP32_NIGHTS,
    FP32_SPIKE,
    GAIN,
    MACHINE,
    MAIN,
    MEMORY_BOUND,
    NOISY,
    RELEASE_FAILING,
    RELEASE_SLOWER_MODES,
    SECOND,
    STEP,
    SUITE,
    TRAINING_STEP,
    VANISHED,
    synthetic_history,
)
from tests.support.builders import make_result, make_run
from tests.support.fakes import FakeClock

NIGHTS = 60
NOON = datetime(2026, 11, 20, 12, tzinfo=timezone.utc)


def noon() -> datetime:
    return NOON


def trace_totals(path: Path) -> dict[str, float]:
    """Return the seconds of each kernel of a trace."""
    totals: dict[str, float] = defaultdict(float)
    for event in json.loads(gzip.decompress(path.read_bytes()))["traceEvents"]:
        if event["cat"] == "kernel":
            totals[event["name"]] += 1e-6 * event["dur"]
    return totals


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Store:
    """Return a store with the whole demo; it takes seconds, so the tests share it and only read."""
    store = Store(f"duckdb:///{tmp_path_factory.mktemp('demo')}/demo.duckdb")
    fill_demo(store, now=noon, nights=NIGHTS, traces=traces_folder(store.url))
    return store


def base_alerts(store: Store) -> list[Alert]:
    """Return the alerts of the first block of cases on the first machine."""
    return [
        alert
        for alert in load_alerts(store)
        if alert.machine == MACHINE
        and (alert.case.is_reference or alert.case.dtype == "bf16")
        and alert.case.phase == "inference"
    ]


def alerts_of(store: Store, name: tuple[str, str]) -> list[Alert]:
    return [
        alert
        for alert in base_alerts(store)
        if (alert.case.model, alert.case.mode) == name and alert.metric != "latency_s"
    ]


def nightly_runs(store: Store) -> list[Run]:
    """Return the nights of the first machine."""
    runs = [summary.run for summary in load_runs(store, limit=200)]
    return [run for run in runs if run.machine == MACHINE and run.suite == SUITE]


def test_a_store_that_cannot_be_written_is_reported_before_a_history_is_made(
    tmp_path: Path,
) -> None:
    (tmp_path / "file").touch()
    store = Store(f"duckdb:///{tmp_path}/file/hud.duckdb")
    events: list[object] = []
    with pytest.raises((StoreError, OSError)):
        fill_demo(store, now=noon, notify=events.append)
    assert not events


def test_every_run_is_labelled_synthetic(demo: Store) -> None:
    runs = [summary.run for summary in load_runs(demo, limit=200)]
    # A night of both machines, a study, and both sides of a release.
    assert len(runs) == 2 * NIGHTS + 3
    assert all(run.is_synthetic for run in runs)
    assert {run.machine for run in runs} == {MACHINE, SECOND.name}
    assert all(run.machine.startswith("synthetic-") for run in runs)


def test_a_release_has_its_planted_regressions_in_two_clusters(demo: Store) -> None:
    (runs,) = find_releases([summary.run for summary in load_runs(demo, limit=200)])
    before, after = (
        load_document(demo, run.id, has_kernels=True) for run in (runs.baseline, runs.candidate)
    )
    report = release_report([DocumentPair(baseline=before, candidate=after)])
    assert report.sign_off.num_undecided == 0
    slower = {
        case.key
        for case in after.run.plan
        if (case.phase is Phase.TRAINING and case.mode in RELEASE_SLOWER_MODES)
        or (
            (case.model, case.mode) == RELEASE_FAILING
            and (case.phase, case.dtype) == (Phase.INFERENCE, "bf16")
        )
    }
    clusters = [{item.case.key for item in named.cluster.cases} for named in report.clusters]
    assert set.union(*clusters) == slower
    assert [len(keys) for keys in clusters] == [len(slower) - 1, 1]
    assert report.clusters[0].cause


def test_last_run_was_last_night(demo: Store) -> None:
    starts = [run.started_at for run in nightly_runs(demo)]
    assert max(starts) == NOON.replace(hour=2, minute=30)
    assert len({start.date() for start in starts}) == NIGHTS


@pytest.mark.parametrize("hour", range(24))
def test_the_first_machine_has_the_newest_run_at_any_hour(hour: int) -> None:
    newest = [
        list(synthetic_history(now=lambda: NOON.replace(hour=hour), nights=1, seed=0, machine=item))
        for item in (MAIN, SECOND)
    ]
    first, second = (documents[-1].run.started_at for documents in newest)
    assert timedelta(0) < first - second < timedelta(hours=12)


def test_every_night_has_a_revision_of_its_own(demo: Store) -> None:
    assert len({run.revision for run in nightly_runs(demo)}) == NIGHTS


def test_new_driver_starts_a_new_environment(demo: Store) -> None:
    runs = nightly_runs(demo)
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
    alerts = [alert for alert in base_alerts(demo) if alert.case.model in MEMORY_BOUND]
    assert {alert.cause_kind for alert in alerts} == {"machine"}
    assert {alert.metric for alert in alerts} == {"latency_s"}
    (copy,) = [alert for alert in alerts if alert.case.is_reference]
    assert "ref_copy (memory)" in copy.cause_text


def test_nothing_else_is_reported(demo: Store) -> None:
    """The noisy series has no step (docs/explanation/detection.md)."""
    alerted = {(alert.case.model, alert.case.mode) for alert in base_alerts(demo)}
    machine = {("ref_copy", "eager"), *(("nn_transformer", mode) for mode in MODES)}
    assert alerted == {STEP, GAIN, FIXED, FAILING, VANISHED, DRIFT} | machine
    assert NOISY not in alerted
    others = {
        (alert.machine, alert.case.phase, alert.case.dtype, alert.case.model, alert.case.mode)
        for alert in load_alerts(demo)
    } - {
        (alert.machine, alert.case.phase, alert.case.dtype, alert.case.model, alert.case.mode)
        for alert in base_alerts(demo)
    }
    assert others == {
        (MACHINE, "training", "bf16", *TRAINING_STEP),
        (MACHINE, "inference", "fp32", *FP32_SPIKE),
        (SECOND.name, "inference", "bf16", *STEP),
    }


def test_there_is_an_alert_in_each_state(demo: Store) -> None:
    alerts = load_alerts(demo)
    assert {alert.state for alert in alerts} == set(AlertState)
    acknowledged = [alert for alert in alerts if alert.state is AlertState.ACKNOWLEDGED]
    assert {(alert.case.model, alert.case.mode) for alert in acknowledged} == {DRIFT}
    assert {alert.owner for alert in acknowledged} == {"ada"}
    muted = [alert for alert in alerts if alert.muted_until is not None]
    assert {alert.machine for alert in muted} == {SECOND.name}


def test_every_case_of_the_newest_runs_has_a_whole_profile_and_a_trace(demo: Store) -> None:
    newest = {item.run.machine: item.run for item in load_runs(demo, limit=2)}
    assert len(newest) == 2
    for run in newest.values():
        results = [
            load_result(demo, summary.id)
            for summary in load_result_summaries(demo, run.id)
            if not summary.case.is_reference and summary.outcome is Outcome.OK
        ]
        assert len(results) >= 20
        for result in results:
            profile = profile_of(result.details)
            assert profile is not None
            assert profile.timeline
            busy_s = math.fsum(span.duration_s for span in profile.timeline)
            whole_s = math.fsum(item.total_s for item in result.kernels)
            # The spans are stored in nanoseconds.
            assert busy_s == pytest.approx(whole_s, rel=1e-4)
            assert all(0 < kernel.roofline <= 1 for kernel in result.kernels if kernel.roofline)
            assert all(kernel.flops and kernel.num_bytes for kernel in result.kernels)
            path = find_trace(traces_folder(demo.url), result.id)
            assert path is not None
            table = trace_totals(path)
            for kernel in result.kernels:
                assert table[kernel.name] == pytest.approx(kernel.total_s, rel=1e-3)


def test_compiled_cases_have_the_costs_of_the_compiler_and_the_guards() -> None:
    (night,) = synthetic_history(now=noon, nights=1, seed=0)
    (result,) = (
        item
        for item in night.results
        if (item.case.model, item.case.mode, item.case.phase, item.case.dtype)
        == ("moe", "default", "inference", "bf16")
    )
    medians = {item.metric: item.median for item in result.measurements}
    warm = {event: medians[f"fxgraph_warm_{event}"] for event in CACHE_EVENTS}
    assert warm == {"hits": 1, "misses": 0, "bypasses": 1}
    assert medians.keys() >= CACHE_METRICS
    assert medians["guard_s"] < 0.01 * medians["latency_s"]
    assert 1e9 < medians["compile_peak_host_bytes"] < 1e10
    assert medians["compile_instructions"] > 1e9 * medians["compile_cold_s"]


def test_there_are_a_schedule_a_study_and_an_annotation(demo: Store) -> None:
    (scheduler,) = load_health(demo).schedulers
    # It is no process that could fall silent, or execute a request.
    for now in (NOON, NOON + timedelta(days=1)):
        assert scheduler.status(now=now) is SchedulerStatus.SYNTHETIC
        assert not scheduler.is_silent(now=now)
        assert not scheduler.is_alive(now=now)
    assert scheduler.schedules[0].next_at == NOON.replace(day=21, hour=2, minute=30)
    assert len(load_suite_runs(demo, FAMILIES.suite)) == 1
    assert len(load_annotations(demo)) == 1


def test_the_alert_that_is_noise_was_a_change_of_a_few_nights(demo: Store) -> None:
    noise = load_alerts(demo, states=[AlertState.NOISE])
    assert {(alert.case.model, alert.case.mode) for alert in noise} == {FP32_SPIKE}
    (latency,) = (alert for alert in noise if alert.metric == "latency_s")
    values = [
        item.measurements["latency_s"].median
        for run in sorted(nightly_runs(demo), key=lambda run: run.started_at)
        for item in load_result_summaries(demo, run.id)
        if item.case == latency.case
    ]
    assert latency.baseline is not None
    slow = [value > 1.15 * latency.baseline for value in values]
    assert sum(slow) == FP32_NIGHTS
    assert not any(slow[-FP32_NIGHTS:])


def test_slow_drift_is_reported_as_one(demo: Store) -> None:
    alerts = [alert for alert in base_alerts(demo) if (alert.case.model, alert.case.mode) == DRIFT]
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
    # In a night 43, 10 and 20 cases of one machine, and 23 of the other.
    assert fill_demo(store, now=noon, nights=2) == 192
    assert fill_demo(store, now=noon, nights=2) == 0
    assert len(load_runs(store)) == 4


def test_store_with_real_runs_is_refused(tmp_path: Path, now: FakeClock) -> None:
    store = Store(f"duckdb:///{tmp_path}/real.duckdb", now=now)
    store.ingest(make_run(), make_result(), spool_id="spool-1")
    with pytest.raises(MixedStoreError) as caught:
        fill_demo(store, now=noon, nights=1)
    assert caught.value.parameters["kind"] == "synthetic"
    assert len(load_runs(store)) == 1
