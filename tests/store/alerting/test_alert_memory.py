"""The memory behind an alert, from the results of its last good and its first bad run."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from compile_hud.db.queries.results import load_details
from compile_hud.db.records.alerts import Alert
from compile_hud.db.records.memory.peak import MEMORY_PEAK, PeakHolders
from compile_hud.db.records.results import Case
from compile_hud.db.rows.sql_expressions import FEW
from compile_hud.db.store import Store
from compile_hud.runner.alerting.alert_memory import alert_memory
from tests.support.builders import make_alert, make_case, make_result, make_run, make_run_ref
from tests.support.records.memory_peaks import MIB, make_holder, make_peak
from tests.support.stores.stored_results import save_alerts
from tests.support.terminal import Terminal

PRODUCT = make_holder("aten::mm", 8 * MIB)
PLANTED = make_holder("aten::exp", 3 * MIB, module="layers.0", line="/m/net.py:11")


def save(store: Store, run_id: str, details: dict[str, Any], *, case: Case | None = None) -> None:
    case = case or make_case()
    name = f"{run_id}-{case.model}"
    result = make_result(name, run=make_run(run_id), case=case, details=details)
    store.ingest(make_run(run_id), result, spool_id=name)


def save_two(store: Store, *peaks: PeakHolders) -> None:
    for run_id, peak in zip(("good", "bad"), peaks, strict=True):
        save(store, run_id, {MEMORY_PEAK: peak.to_json()})


def alert_between(**fields: Any) -> Alert:
    good, bad = (make_run_ref(make_run(name)) for name in ("good", "bad"))
    return make_alert(**{"first_bad": bad, "last_good": good, "metric": "peak_bytes", **fields})


def test_an_alert_about_memory_names_the_operator_that_grew(store: Store) -> None:
    save_two(store, make_peak(PRODUCT), make_peak(PRODUCT, PLANTED))
    (row,) = alert_memory([alert_between()], store=store)["alert-1"]
    assert (row["operator"], row["module"], row["line"]) == (
        "aten::exp",
        "layers.0",
        "/m/net.py:11",
    )
    assert (row["change_bytes"], row["baseline_bytes"]) == (3 * MIB, None)


def test_an_improvement_names_the_operator_that_shrank(store: Store) -> None:
    save_two(store, make_peak(PRODUCT, PLANTED), make_peak(PRODUCT))
    alert = alert_between(verdict="improvement")
    (row,) = alert_memory([alert], store=store)["alert-1"]
    assert (row["operator"], row["change_bytes"]) == ("aten::exp", -3 * MIB)


@pytest.mark.parametrize(
    "alert",
    [
        alert_between(last_good=None),
        alert_between(metric="latency_s"),
        alert_between(case=make_case("gpt2")),
    ],
    ids=["nothing before", "of a time", "without results"],
)
def test_an_alert_without_two_peaks_names_no_operator(store: Store, alert: Alert) -> None:
    save_two(store, make_peak(PRODUCT), make_peak(PRODUCT, PLANTED))
    assert alert_memory([alert], store=store) == {"alert-1": []}


def test_a_damaged_result_hides_the_memory_of_its_own_alert_alone(
    store: Store, caplog: pytest.LogCaptureFixture
) -> None:
    other = make_case("gpt2")
    save_two(store, make_peak(PRODUCT), make_peak(PRODUCT, PLANTED))
    for run_id in ("good", "bad"):
        save(store, run_id, {MEMORY_PEAK: {"rows": 3}}, case=other)
    alerts = [alert_between(), replace(alert_between(case=other), id="alert-2")]
    memory = alert_memory(alerts, store=store)
    assert (len(memory["alert-1"]), memory["alert-2"]) == (1, [])
    (record,) = caplog.records
    assert isinstance(record.args, tuple)
    assert record.args[0] == "alert-2"
    assert "'rows'" in record.getMessage()


def test_details_are_those_of_the_named_results_alone(store: Store) -> None:
    save_two(store, make_peak(PRODUCT), make_peak(PRODUCT, PLANTED))
    save(store, "good", {"other": 1}, case=make_case("gpt2"))
    key = make_case().key
    few = load_details(store, {("good", key), ("none", key)})
    assert few == {("good", key): {MEMORY_PEAK: make_peak(PRODUCT).to_json()}}
    many = [("good", key), *((f"none-{number}", key) for number in range(FEW))]
    assert load_details(store, many) == few
    assert load_details(store, ()) == {}


def test_regressions_in_json_name_the_operator_in_their_cause(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    terminal = Terminal(tmp_path)
    save_two(terminal.store(), make_peak(PRODUCT), make_peak(PRODUCT, PLANTED))
    save_alerts(terminal.store(), [alert_between()])
    (alert,) = terminal.json("regressions", "--json")
    assert [row["operator"] for row in alert["cause"]["memory"]] == ["aten::exp"]
