"""The kernels behind an alert, from the results of its last good and its first bad run."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from syrupy.assertion import SnapshotAssertion

from compile_hud.db.queries.kernels import load_profiled
from compile_hud.db.records.alerts import Alert
from compile_hud.db.records.kernels import KernelSource, Profile, profile_of
from compile_hud.db.records.results import CaseResult
from compile_hud.db.records.run_warning import RunWarning
from compile_hud.db.rows.sql_expressions import FEW
from compile_hud.db.store import Store
from compile_hud.runner.alerting.alert_kernels import CauseKernels, cause_kernels
from tests.support.builders import (
    START,
    make_alert,
    make_case,
    make_kernel,
    make_measurement,
    make_result,
    make_run,
    make_run_ref,
)
from tests.support.stores.stored_results import save_alerts
from tests.support.terminal import Terminal

CODE = KernelSource(hash="a" * 64, language="cpp", text="void kernel() {}")
PROFILE = Profile(num_iterations=5, iteration_s=0.01, latency_s=0.009, components={"python": 0.001})
ADD = make_kernel(source_hash=CODE.hash, mean_s=0.001)
LATER = START + timedelta(days=1)
GEMM = make_kernel("mkl_gemm", label="mkl_gemm", library="mkl", kind="gemm", mean_s=0.005)


def result_of(run_id: str, add_s: float) -> CaseResult:
    add = replace(ADD, total_s=2 * add_s, mean_s=add_s, min_s=add_s)
    return make_result(
        f"result-{run_id}",
        run=make_run(run_id),
        measurements=[make_measurement(samples=[0.01 + 2 * add_s])],
        kernels=[add, GEMM],
        sources=[CODE],
        details={"profile": PROFILE.to_json()},
    )


def ingest(store: Store, *results: CaseResult) -> None:
    for result in results:
        store.ingest(make_run(result.run_id), result, spool_id=result.id)


def alert_between(**fields: Any) -> Alert:
    good, bad = (make_run_ref(make_run(name)) for name in ("good", "bad"))
    return make_alert(**{"first_bad": bad, "last_good": good, **fields})


def test_an_alert_names_the_kernels_that_made_it_slower(
    store: Store, words: SnapshotAssertion
) -> None:
    ingest(store, result_of("good", 0.001), result_of("bad", 0.0015))
    kernels = cause_kernels([alert_between()], store=store)["alert-1"]
    (kernel,) = kernels.rows
    assert kernel == {
        "label": "cpp_fused_add",
        "class": "same_code_slower",
        "contribution_us": pytest.approx(1000),
        "text": words,
    }
    assert kernels.noise == ""


def test_kernels_behind_an_alert_say_what_makes_their_times_uncertain(
    store: Store, words: SnapshotAssertion
) -> None:
    slower = result_of("bad", 0.0015)
    noisy = replace(slower, warnings=(RunWarning(code="noisy-neighbour", text="busy"),))
    ingest(store, result_of("good", 0.001), noisy)
    kernels = cause_kernels([alert_between()], store=store)["alert-1"]
    assert kernels.noise == words
    scattered = make_measurement(samples=[0.008, 0.012, 0.02])
    ingest(store, replace(noisy, id="again", measurements=(scattered,), finished_at=LATER))
    again = cause_kernels([alert_between()], store=store)["alert-1"]
    assert (again.rows, again.noise) == ((), kernels.noise)


@pytest.mark.parametrize(
    "alert",
    [
        alert_between(last_good=None),
        alert_between(metric="compile_cold_s"),
        alert_between(case=make_case("gpt2")),
        # It became slower: no kernel explains an improvement.
        alert_between(verdict="improvement"),
    ],
    ids=["nothing before", "of compiling", "without kernels", "the other way"],
)
def test_an_alert_without_kernels_to_compare_names_none(store: Store, alert: Alert) -> None:
    ingest(store, result_of("good", 0.001), result_of("bad", 0.0015))
    assert cause_kernels([alert], store=store) == {"alert-1": CauseKernels()}


_DAMAGED = {"profile": {"num_iterations": 5, "iteration_s": 0.001, "parts": 1}}


@pytest.mark.parametrize(
    ("result", "why"),
    [
        (result_of("good", 1e300), "kernel 'cpp_fused_add_0' has"),
        (replace(result_of("good", 0.001), details=_DAMAGED), "parts"),
    ],
    ids=["absurd times", "no profile"],
)
def test_a_damaged_result_hides_the_kernels_of_its_own_alert_alone(
    store: Store, caplog: pytest.LogCaptureFixture, result: CaseResult, why: str
) -> None:
    other = make_case("gpt2")
    ingest(store, result_of("good", 0.001), result_of("bad", 0.0015))
    damaged = [
        replace(item, id=f"damaged-{item.run_id}", case=other)
        for item in (result, result_of("bad", 0.0015))
    ]
    ingest(store, *damaged)
    alerts = [alert_between(), replace(alert_between(case=other), id="alert-2")]
    kernels_by_alert = cause_kernels(alerts, store=store)
    assert (len(kernels_by_alert["alert-1"].rows), kernels_by_alert["alert-2"].rows) == (1, ())
    (record,) = caplog.records
    assert isinstance(record.args, tuple)
    assert record.args[0] == "alert-2"
    assert why in record.getMessage()


def test_only_results_with_kernels_are_read(store: Store) -> None:
    plain = make_result("plain", run=make_run("plain"))
    ingest(store, result_of("good", 0.001), plain)
    key = make_case().key
    results = load_profiled(store, {("good", key), ("plain", key), ("none", key)})
    assert results.keys() == {("good", key)}
    result = results["good", key]
    assert (profile_of(result.details), result.sources) == (PROFILE, (CODE,))
    assert [kernel.label for kernel in result.kernels] == ["cpp_fused_add", "mkl_gemm"]
    assert (result.latency_s, result.samples) == (0.012, (0.012,))
    assert load_profiled(store, ()) == {}


def test_results_are_the_same_looked_for_one_by_one_together_or_twice(store: Store) -> None:
    ingest(store, result_of("good", 0.001), result_of("bad", 0.0015))
    names = [(run_id, make_case().key) for run_id in ("bad", "good")]
    few = load_profiled(store, names)
    many = [*names, *((f"none-{number}", make_case().key) for number in range(FEW))]
    assert len(few) == 2
    assert load_profiled(store, many) == few
    assert load_profiled(store, names * 2) == few


@pytest.fixture
def terminal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Terminal:
    monkeypatch.chdir(tmp_path)
    return Terminal(tmp_path)


def test_regressions_in_json_have_the_kernels_in_their_cause(terminal: Terminal) -> None:
    ingest(terminal.store(), result_of("good", 0.001), result_of("bad", 0.0015))
    save_alerts(terminal.store(), [alert_between()])
    (alert,) = terminal.json("regressions", "--json")
    assert [kernel["label"] for kernel in alert["cause"]["kernels"]] == ["cpp_fused_add"]
    assert alert["cause"]["noise"] == ""


def test_an_alert_in_the_terminal_has_the_kernels_too(
    terminal: Terminal, words: SnapshotAssertion
) -> None:
    slower = result_of("bad", 0.0015)
    noisy = replace(slower, warnings=(RunWarning(code="noisy-neighbour", text="busy"),))
    ingest(terminal.store(), result_of("good", 0.001), noisy)
    save_alerts(terminal.store(), [alert_between()])
    lines = terminal.hud("alerts", "show", "alert-1").stdout.splitlines()
    start = next(number for number, line in enumerate(lines) if line.startswith("kernels"))
    assert [line.rstrip() for line in lines[start : start + 3]] == words
