from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta

import pytest
from syrupy.assertion import SnapshotAssertion

from compile_hud.db.ingest.results import put_documents
from compile_hud.db.queries.alerts import load_alerts
from compile_hud.db.queries.runs import load_reasons
from compile_hud.db.records.alerts import AlertState
from compile_hud.db.records.results import CaseResult, RunDocument
from compile_hud.db.records.run_warning import RunWarning
from compile_hud.db.store import Store
from compile_hud.runner.analysis.outcomes.outcomes import MAX_REASON_LENGTH
from compile_hud.runner.detection import detect as detect_module
from compile_hud.runner.detection.detect import detect
from tests.support.builders import START, make_document, make_measurement, make_result, make_run
from tests.support.stores.stored_results import save_alerts


def nights(levels: Sequence[float | str], *, first: int = 0) -> list[RunDocument]:
    """Return a run a night: a number is the speedup of its only case, a text why it failed."""
    return [_night(number, level) for number, level in enumerate(levels, start=first)]


def _night(number: int, level: float | str, *, toolchain: str = "stable") -> RunDocument:
    at = START + timedelta(days=number)
    run = make_run(f"run-{number:02d}", started_at=at, finished_at=at, toolchain=toolchain)
    return make_document(run, results=[_result(run.id, number, level)])


def _result(run_id: str, number: int, level: float | str) -> CaseResult:
    if isinstance(level, str):
        return make_result(f"r-{number}", run_id=run_id, outcome="failed", reason=level)
    speedup = make_measurement("speedup", samples=[level * (1 + 0.002 * (number % 3))])
    return make_result(f"r-{number}", run_id=run_id, measurements=[speedup])


def put(store: Store, documents: Sequence[RunDocument]) -> None:
    with store.write() as connection:
        put_documents(connection, documents, at=START)


def test_step_in_the_store_becomes_an_alert_once(store: Store) -> None:
    put(store, nights([2.0] * 12 + [1.7] * 4))
    first = detect(store)
    assert [alert.metric for alert in first.new] == ["speedup"]
    assert first.alerts == load_alerts(store)
    version = store.store_version()
    second = detect(store)
    assert (second.new, second.fixed) == ((), ())
    assert second.alerts == first.alerts
    assert store.store_version() == version


def test_an_alert_has_the_differences_of_its_bounds_and_their_cause(
    store: Store, monkeypatch: pytest.MonkeyPatch, words: SnapshotAssertion
) -> None:
    documents = nights([2.0] * 12 + [1.7] * 4)
    for number, document in enumerate(documents):
        environment = {
            "torch_version": "2.13.0" if number < 12 else "2.14.0",
            "packages": {"numpy": "2.1" if number < 12 else "2.2", "idna": "3.1"},
        }
        revision = f"{environment['torch_version']}@0123"
        run = dataclasses.replace(document.run, environment=environment, revision=revision)
        result = document.results[0]
        if number == 12:
            warning = RunWarning(code="throttled", text="too hot")
            result = dataclasses.replace(result, warnings=(warning,))
        documents[number] = dataclasses.replace(document, run=run, results=(result,))
    put(store, documents)
    (alert,) = detect(store).new
    assert alert.environment_diff == {
        "torch": ["2.13.0@0123", "2.14.0@0123"],
        "packages.numpy": ["2.1", "2.2"],
        "warnings.throttled": [None, "too hot"],
    }
    assert alert.cause_kind == "machine"
    assert alert.cause_text == (words)
    put(store, nights([1.7], first=16))
    # Ends that are the same are not looked up again.
    monkeypatch.setattr(
        "compile_hud.runner.detection.change_context.load_runs_of",
        lambda _store, ids: pytest.fail(f"{ids}"),
    )
    (again,) = detect(store).alerts
    assert (again.environment_diff, again.cause_text) == (alert.environment_diff, alert.cause_text)


def test_an_alert_names_inputs_that_changed_with_the_step(store: Store) -> None:
    documents = nights([2.0] * 12 + [1.7] * 4)
    for number, document in enumerate(documents):
        config = {"batch": 16, "mask": "none" if number < 12 else "ones"}
        details = {"workload": {"build": "ours", "config": config}}
        result = dataclasses.replace(document.results[0], details=details)
        documents[number] = dataclasses.replace(document, results=(result,))
    put(store, documents)
    (alert,) = detect(store).new
    assert alert.environment_diff == {"config.mask": ["none", "ones"]}
    assert "config.mask none -> ones" in alert.cause_text


def test_an_alert_whose_last_good_run_is_gone_has_no_difference(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "compile_hud.runner.detection.change_context.load_runs_of", lambda _store, _ids: {}
    )
    put(store, nights([2.0] * 12 + [1.7] * 4))
    (alert,) = detect(store).new
    assert alert.environment_diff is None
    monkeypatch.undo()
    # Found again, it is looked up again.
    (alert,) = detect(store).alerts
    assert alert.environment_diff == {}


def test_toolchains_in_turn_have_alerts_of_their_own(store: Store) -> None:
    levels = [2.0] * 12 + [1.7] * 4
    toolchains = ("stable", "nightly")
    put(
        store,
        [
            _night(2 * number + index, level, toolchain=toolchain)
            for number, level in enumerate(levels)
            for index, toolchain in enumerate(toolchains)
        ],
    )
    alerts = {alert.toolchain: alert for alert in detect(store).new}
    assert sorted(alerts) == ["nightly", "stable"]
    assert alerts["stable"].first_bad.run_id == "run-24"
    assert alerts["nightly"].first_bad.run_id == "run-25"
    assert alerts["stable"].id != alerts["nightly"].id
    put(store, [_night(32, "CppCompileError", toolchain="nightly")])
    (failure,) = detect(store).new
    assert (failure.kind, failure.toolchain) == ("outcome", "nightly")


def test_nothing_to_judge_is_no_error(store: Store) -> None:
    report = detect(store)
    assert (report.alerts, report.new, report.fixed) == ((), (), ())


def test_acknowledged_alert_stays_so_until_the_level_is_back(store: Store) -> None:
    put(store, nights([2.0] * 12 + [1.7] * 4))
    (alert,) = detect(store).new
    save_alerts(store, [dataclasses.replace(alert, state=AlertState.ACKNOWLEDGED)])
    put(store, nights([1.7], first=16))
    report = detect(store)
    assert [item.state for item in report.alerts] == [AlertState.ACKNOWLEDGED]
    assert report.new == ()
    put(store, nights([2.0] * 3, first=17))
    report = detect(store)
    assert [item.state for item in load_alerts(store)] == [AlertState.FIXED]
    assert [item.id for item in report.fixed] == [alert.id]


def test_alert_that_users_called_noise_stays_closed(store: Store) -> None:
    put(store, nights([2.0] * 12 + [1.7] * 4))
    (alert,) = detect(store).new
    save_alerts(store, [dataclasses.replace(alert, state=AlertState.NOISE)])
    put(store, nights([1.7] * 4, first=16))
    assert detect(store).new == ()
    assert [item.state for item in load_alerts(store)] == [AlertState.NOISE]


def test_failure_is_reported_with_its_reason_and_keeps_it(store: Store) -> None:
    put(store, nights([2.0, "CppCompileError: " + "x" * 1000]))
    (alert,) = detect(store).new
    assert alert.kind == "outcome"
    assert alert.cause_text.startswith("ok -> failed: CppCompileError: xxx")
    assert len(alert.cause_text) == len("ok -> failed: ") + MAX_REASON_LENGTH
    put(store, nights(["another"], first=2))
    (again,) = detect(store).alerts
    assert again.cause_text == alert.cause_text
    assert again.last_seen > alert.last_seen


def test_failure_without_a_reason_is_reported_too(store: Store) -> None:
    put(store, nights([2.0, ""]))
    (alert,) = detect(store).new
    assert alert.cause_text == "ok -> failed"


def test_result_that_was_pruned_meanwhile_is_reported_without_its_reason(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    def without_results(store: Store, _ids: Iterable[str]) -> Mapping[str, str]:
        return load_reasons(store, ["pruned"])

    monkeypatch.setattr(detect_module, "load_reasons", without_results)
    put(store, nights([2.0, "CppCompileError"]))
    (alert,) = detect(store).new
    assert alert.cause_text == "ok -> failed"


def test_vanished_case_has_no_reason_to_look_up(store: Store, words: SnapshotAssertion) -> None:
    documents = nights([2.0, 2.0])
    put(store, [documents[0], dataclasses.replace(documents[1], results=())])
    (alert,) = detect(store).new
    assert alert.kind == "vanished"
    assert alert.cause_text == words


def test_a_stored_value_that_no_measurement_can_have_is_reported_by_each_judgement(
    store: Store,
) -> None:
    # An earlier version took it in.
    put(store, nights([2.0] * 9 + [7e-313] + [2.0] * 5 + [1.6] * 4))
    first, second = detect(store), detect(store)
    assert [alert.metric for alert in first.new] == ["speedup"]
    assert second.alerts == first.alerts
    for report in (first, second):
        (item,) = report.unjudged
        assert "run-09" in item.reason
    assert detect(store, is_full=True).alerts == first.alerts
