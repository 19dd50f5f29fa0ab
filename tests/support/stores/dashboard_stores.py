"""Stores for the tests of the dashboard, filled in one transaction each."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import Any

from compile_hud.db.ingest import results as ingest
from compile_hud.db.ingest.results import put_documents
from compile_hud.db.records.alerts import Alert, AlertState
from compile_hud.db.records.results import (
    Case,
    CaseResult,
    Outcome,
    Run,
    RunDocument,
    RunState,
    Verdict,
)
from compile_hud.db.records.run_warning import RunWarning
from compile_hud.db.store import Store
from tests.support.builders import (
    START,
    make_alert,
    make_case,
    make_measurement,
    make_result,
    make_run,
    make_run_ref,
)
from tests.support.stores.stored_results import save_alerts

MODELS = ("bert", "resnet50", "unet", "llama")
MODES = ("eager", "default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs")
NUM_NIGHTS = 16
# The night from which bert in mode default is 20 % slower, and the one with a new driver.
BAD_NIGHT = 9
NEW_DRIVER_NIGHT = 5
NOW = START + timedelta(days=NUM_NIGHTS - 1, hours=5)
REGRESSED = make_case("bert", mode="default", device="cuda")
FAILING = make_case("unet", mode="max-autotune", device="cuda")
HOSTILE_NAME = "<script>alert('x')</script><b>bold</b> [link](javascript:alert(1)) `code` " + (
    "x" * 10_000
)
_BASE_S = {"bert": 0.0123, "resnet50": 0.0047, "unet": 0.141, "llama": 0.031}
_SPEEDUP = {
    "eager": 1.0,
    "default": 1.4,
    "reduce-overhead": 1.8,
    "max-autotune": 2.05,
    "max-autotune-no-cudagraphs": 1.5,
}


def cases() -> list[Case]:
    """Return every model in every mode, inference on a GPU."""
    return [make_case(model, mode=mode, device="cuda") for model in MODELS for mode in MODES]


def night(number: int, *, plan: Sequence[Case], **values: Any) -> Run:
    """Return the run of a night, finished unless `values` say otherwise."""
    at = START + timedelta(days=number)
    environment = {
        "device_name": "NVIDIA H200",
        "driver_version": "550.54" if number < NEW_DRIVER_NIGHT else "560.28",
        "torch_version": "2.13.0",
        "flags": {"TORCHINDUCTOR_CACHE_DIR": "", "allow_tf32": True},
    }
    fingerprint = ("a" if number < NEW_DRIVER_NIGHT else "b") * 64
    return make_run(
        f"run-{number:03d}",
        plan=plan,
        started_at=at,
        environment=environment,
        fingerprint=fingerprint,
        revision=f"2.13.0.dev202601{number + 1:02d}@{number:010x}",
        trigger="schedule",
        **{"suite": "nightly", "finished_at": at + timedelta(minutes=42), **values},
    )


def result_of(run: Run, case: Case, *, number: int) -> CaseResult:
    """Return the result of `case` in that night: one case fails from the bad night on, one is
    slower.
    """
    result_id = f"{run.id}-{case.model}-{case.variant}"[:64]
    if case.key == FAILING.key and number >= BAD_NIGHT:
        return make_result(
            result_id,
            run=run,
            case=case,
            outcome=Outcome.FAILED,
            reason="BackendCompilerFailed: LoweringException: no choices to select",
            log_tail="Traceback (most recent call last):\n  ...\nLoweringException\n",
        )
    is_slower = case.key == REGRESSED.key and number >= BAD_NIGHT
    wobble = 1 + 0.004 * ((number * 7 + len(case.model)) % 5 - 2)
    latency_s = _BASE_S[case.model] / _SPEEDUP[case.mode] * wobble * (1.2 if is_slower else 1)
    samples = tuple(latency_s * (1 + 0.002 * (i % 7 - 3)) for i in range(24))
    measurements = [
        make_measurement(samples=samples, launches=(8, 8, 8), warmups=(latency_s * 1.3,) * 3),
        make_measurement("peak_bytes", samples=(3.2e8,)),
        make_measurement("eager_latency_s", samples=(_BASE_S[case.model] * wobble,) * 4),
    ]
    if case.mode != "eager":
        ratio = _SPEEDUP[case.mode] / (1.2 if is_slower else 1)
        measurements += [
            make_measurement("speedup", samples=(ratio * 0.99, ratio, ratio * 1.01)),
            make_measurement("compile_cold_s", samples=(31.5,)),
            make_measurement("compile_warm_s", samples=(6.1, 6.4)),
            make_measurement("graph_breaks", samples=(float(case.model == "llama"),)),
        ]
    falls_back = case.model == "llama" and case.mode == "reduce-overhead"
    return make_result(
        result_id,
        run=run,
        case=case,
        measurements=measurements,
        effective_mode="default" if falls_back else case.mode,
        warnings=[_FALLBACK] if falls_back else [],
        details={
            "graph_breaks": [_BREAK] if falls_back else [],
            "num_launches": 3,
        },
    )


_BREAK = {"reason": "call to print", "file": "model.py", "line": 12, "function": "forward"}
_FALLBACK = RunWarning(
    code="mode-fallback",
    text="reduce-overhead fell back to default: Inductor skipped CUDA graphs 3 times",
    hint="read the skip reasons in the result's details",
)


def regression() -> Alert:
    """Return the alert about the case that became slower."""
    return make_alert(
        case=REGRESSED,
        fingerprint="b" * 64,
        first_bad=make_run_ref(night(BAD_NIGHT, plan=())),
        last_good=make_run_ref(night(BAD_NIGHT - 1, plan=())),
        last_seen=START + timedelta(days=NUM_NIGHTS - 1),
        baseline=0.00879,
        candidate=0.01054,
        is_confirmed=True,
    )


def failure() -> Alert:
    """Return the alert about the case that fails."""
    alert = make_alert(
        "alert-2",
        case=FAILING,
        kind="outcome",
        metric="outcome",
        unit="",
        first_bad=make_run_ref(night(BAD_NIGHT, plan=())),
    )
    cause = "ok -> failed: BackendCompilerFailed: LoweringException: no choices to select"
    return dataclasses.replace(alert, cause_text=cause)


def improvement() -> Alert:
    """Return an alert about a case that became faster."""
    return make_alert(
        "alert-3",
        case=make_case("resnet50", mode="max-autotune", device="cuda"),
        verdict=Verdict.IMPROVEMENT,
        metric="speedup",
        unit="x",
        baseline=1.8,
        candidate=2.05,
        change_pct=13.9,
        interval_pct=(12.1, 15.4),
        first_bad=make_run_ref(night(3, plan=())),
    )


def noise() -> Alert:
    """Return an alert that a person marked as noise."""
    return make_alert(
        "alert-4", case=make_case("llama", mode="default", device="cuda"), state=AlertState.NOISE
    )


def _as_it_is(result: CaseResult) -> CaseResult:
    return result


def fill(
    store: Store,
    *,
    num_nights: int = NUM_NIGHTS,
    is_synthetic: bool = False,
    treated: Callable[[CaseResult], CaseResult] = _as_it_is,
) -> None:
    """Write the nights, each result as `treated` returns it, and their alerts."""
    plan = cases()
    documents = []
    for number in range(num_nights):
        run = night(number, plan=plan, is_synthetic=is_synthetic)
        results = tuple(treated(result_of(run, case, number=number)) for case in plan)
        documents.append(RunDocument(run=run, results=results))
    with store.write() as connection:
        put_documents(connection, documents, at=NOW)
    save_alerts(store, [regression(), failure(), improvement(), noise()])


# From this night on the machine is 10 % slower for a while, and all its measurements with it.
SLOW_NIGHTS = range(3, 6)
NORMALISED = make_case("bert")


def fill_normalised(store: Store) -> None:
    """Write eight nights of a time on a CPU with the speed probe of the machine, and an alert."""
    documents = []
    for number in range(8):
        slower = 1.1 if number in SLOW_NIGHTS else 1.0
        run = night(NEW_DRIVER_NIGHT + number, plan=[NORMALISED])
        measurements = [
            make_measurement("latency_s", samples=(0.010 * slower,) * 3),
            make_measurement("pace_s", samples=(0.002 * slower,) * 3),
            make_measurement("peak_bytes", samples=(3.2e8,)),
        ]
        result = make_result(
            f"result-{number}", run=run, case=NORMALISED, measurements=measurements
        )
        documents.append(RunDocument(run=run, results=(result,)))
    with store.write() as connection:
        put_documents(connection, documents, at=NOW)
    first_bad = make_run_ref(documents[6].run)
    alert = make_alert("paced", case=NORMALISED, fingerprint="b" * 64, first_bad=first_bad)
    save_alerts(store, [dataclasses.replace(alert, state=AlertState.NOISE)])


# The latency of bert in mode default by toolchain; eager takes twice as long.
TOOLCHAINS = {"stable": 0.020, "nightly": 0.010}
NUM_TURNS = 4


def fill_two_toolchains(store: Store) -> None:
    """Write a run of each toolchain a night, stable before nightly, and an alert of each.

    The default of vit fails in nightly; max-autotune of bert is measured in nightly only.
    """
    shared = [make_case("bert", mode="eager"), make_case("bert"), make_case("vit")]
    documents = []
    for number in range(NUM_TURNS):
        for index, (toolchain, latency_s) in enumerate(TOOLCHAINS.items()):
            own = [make_case("bert", mode="max-autotune")] if toolchain == "nightly" else []
            at = START + timedelta(days=number, hours=index)
            run = make_run(
                f"{toolchain}-{number}",
                plan=[*shared, *own],
                started_at=at,
                finished_at=at + timedelta(minutes=9),
                toolchain=toolchain,
                revision=f"{toolchain} of night {number}",
            )
            results = [_in_toolchain(run, case, latency_s) for case in run.plan]
            documents.append(RunDocument(run=run, results=tuple(results)))
    with store.write() as connection:
        put_documents(connection, documents, at=START + timedelta(days=NUM_TURNS))
    slower = {"case": shared[1], "last_seen": documents[-1].run.started_at}
    in_stable = make_run_ref(documents[-2].run)
    in_nightly = make_run_ref(documents[-1].run)
    save_alerts(
        store,
        [
            make_alert("s", toolchain="stable", change_pct=30.0, first_bad=in_stable, **slower),
            make_alert("n", toolchain="nightly", change_pct=10.0, first_bad=in_nightly, **slower),
        ],
    )


def _in_toolchain(run: Run, case: Case, latency_s: float) -> CaseResult:
    result_id = f"{run.id}-{case.model}-{case.variant}"
    if (case.model, run.toolchain) == ("vit", "nightly"):
        return make_result(result_id, run=run, case=case, outcome=Outcome.FAILED)
    seconds = latency_s * (2 if case.mode == "eager" else 1)
    return make_result(
        result_id, run=run, case=case, measurements=[make_measurement(samples=(seconds,) * 3)]
    )


def fill_running(store: Store, *, num_done: int, started_at: datetime) -> Run:
    """Write a run in progress, with its first `num_done` results, and return it."""
    plan = cases()
    run = night(0, plan=plan, state=RunState.RUNNING, finished_at=None)
    run = make_run("run-going", plan=plan, started_at=started_at, environment=run.environment)
    with store.write() as connection:
        ingest.put_run(connection, run, at=started_at)
        for case in plan[:num_done]:
            _put(connection, run, result_of(run, case, number=0))
    return run


def fill_hostile(store: Store) -> Run:
    """Write a run of a model whose name is markup of 10 kB, and return it."""
    good, bad = (make_case(HOSTILE_NAME, mode=mode, device="cuda") for mode in ("default", "eager"))
    run = make_run("run-<i>hostile</i>", plan=(good, bad), machine="<b>box</b>")
    with store.write() as connection:
        ingest.put_run(connection, run, at=run.started_at)
        _put(connection, run, make_result("r1", run=run, case=good, warnings=[_HOSTILE_WARNING]))
        failed = make_result(
            "r2", run=run, case=bad, outcome=Outcome.FAILED, reason=HOSTILE_NAME, log_tail="</code>"
        )
        _put(connection, run, failed)
    save_alerts(store, [make_alert(case=good, machine=run.machine, first_bad=make_run_ref(run))])
    return run


_HOSTILE_WARNING = RunWarning(code="<u>", text=HOSTILE_NAME, hint="<img src=x onerror=alert(1)>")


def _put(connection: Any, run: Run, result: CaseResult) -> None:
    ingest.put_result(connection, run, result=result, spool_id=result.id, at=result.finished_at)
