"""Metrics that ok results no longer have, from the store to the alert and the pages of it."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from datetime import timedelta
from pathlib import Path

import pytest
from syrupy.assertion import SnapshotAssertion

from compile_hud.app.components.trend.rows import alert_label
from compile_hud.app.ui.alert_text import alert_text, case_title
from compile_hud.app.views.alerts.event_table import EventGroup
from compile_hud.db.ingest.results import put_documents
from compile_hud.db.queries.alerts import load_alerts
from compile_hud.db.queries.judge_state import load_events
from compile_hud.db.queries.outcomes import load_ok_results
from compile_hud.db.queries.runs import load_plans
from compile_hud.db.records.alerts import Alert
from compile_hud.db.records.results import REFERENCE_FAMILY, Case, CaseResult, Run, RunDocument
from compile_hud.db.records.triage import missing_cases
from compile_hud.db.store import Store
from compile_hud.runner.analysis.kernels.diff import kernel_bounds
from compile_hud.runner.detection.detect import detect
from tests.support.builders import (
    START,
    make_alert,
    make_case,
    make_document,
    make_measurement,
    make_result,
    make_run,
)
from tests.support.records.histories import night as nth_night
from tests.support.records.v3_records import DAY_S, commit_of, make_record, write_lines
from tests.support.stores.stored_results import save_alerts
from tests.support.terminal import Terminal

# What the ok results of a case have in a night: `+` latency and speedup, `-` the latency alone,
# `a` neither, as after an accuracy check; `x` is no ok result.
METRICS = {"+": ("latency_s", "speedup"), "-": ("latency_s",), "a": ()}
# Of an alert that tells of no level.
NO_LEVELS = {"baseline": None, "candidate": None, "change_pct": None, "interval_pct": None}
BERT, VIT = make_case("bert"), make_case("vit")


def make_night(number: int, signs: Mapping[Case, str], **facts: object) -> RunDocument:
    """Return a run of a night with what each case has in it."""
    at = nth_night(number)
    values = {"id": f"run-{number:03}", "suite": "nightly", "started_at": at, "finished_at": at}
    run = make_run(plan=list(signs), **{**values, **facts})
    return make_document(run, results=[cell(run, case, sign) for case, sign in signs.items()])


def cell(run: Run, case: Case, sign: str, *, id: str = "") -> CaseResult:
    measured = [make_measurement(name, samples=[1.0]) for name in METRICS.get(sign, ())]
    outcome = "failed" if sign == "x" else "ok"
    name = id or f"{case.model}-{case.mode}-{run.id}"
    return make_result(name, run=run, case=case, outcome=outcome, measurements=measured)


def nights(signs: str, *, first: int = 0, case: Case = BERT, **facts: object) -> list[RunDocument]:
    return [
        make_night(number, {case: sign}, **facts) for number, sign in enumerate(signs, start=first)
    ]


def put(store: Store, documents: Sequence[RunDocument]) -> None:
    with store.write() as connection:
        put_documents(connection, documents, at=START)


def ends(alerts: Sequence[Alert]) -> list[tuple[str, str, str]]:
    return [(alert.metric, alert.first_bad.run_id, str(alert.state)) for alert in alerts]


def test_a_speedup_that_ok_results_no_longer_have_is_reported_until_it_is_back(
    store: Store,
) -> None:
    put(store, nights("++++++++"))
    for number in (8, 9):
        put(store, nights("-", first=number))
        assert detect(store).alerts == ()
    put(store, nights("-", first=10))
    (alert,) = detect(store).new
    assert (alert.kind, *ends([alert])[0]) == ("vanished", "speedup", "run-008", "open")
    assert alert.last_good is not None
    assert alert.last_good.run_id == "run-007"
    assert detect(store).alerts == detect(store, is_full=True).alerts == (alert,)
    put(store, nights("+", first=11))
    (fixed,) = detect(store).fixed
    assert (fixed.id, str(fixed.state)) == (alert.id, "fixed")
    assert detect(store, is_full=True).alerts == (fixed,)


def test_pages_name_the_missing_metric_once(store: Store, words: SnapshotAssertion) -> None:
    put(store, nights("++++++++---"))
    (alert,) = detect(store).new
    assert (alert_text(alert).topic, alert_text(alert).change) == ("speedup", "missing")
    assert alert_text(alert).mark == "speedup missing"
    assert alert_text(alert).title == f"{case_title(alert.case)}: speedup missing"
    assert alert_label(alert) == "regression: speedup missing"
    assert EventGroup(event=None, alerts=(alert,)).title == f"{alert.case.key}: speedup missing"
    (event,) = load_events(store).values()
    assert event.title == words
    # The case itself is there, and no kernel made it so.
    assert missing_cases([alert]) == {}
    assert kernel_bounds(alert) == ()


def test_a_second_detection_keeps_the_cause(store: Store, words: SnapshotAssertion) -> None:
    # Only the driver is another: a step of the speedup would be the machine's.
    before, after = ({"device": "cpu", "driver": driver} for driver in ("550", "560"))
    put(store, nights("++++++++", environment=before, fingerprint="a" * 64))
    put(store, nights("---", first=8, environment=after, fingerprint="b" * 64))
    (first,) = detect(store).alerts
    assert first.cause_kind == "unknown"
    assert first.cause_text == words
    put(store, nights("-", first=11, environment=after, fingerprint="b" * 64))
    (second,) = detect(store).alerts
    assert second == dataclasses.replace(first, last_seen=nth_night(11))
    assert detect(store, is_full=True).alerts == (second,)


def test_what_goes_to_and_fro_stays_open_until_it_was_there_for_fourteen_results(
    store: Store,
) -> None:
    put(store, nights("++++++++---+--"))
    (alert,) = detect(store).alerts
    assert ends([alert]) == [("speedup", "run-008", "open")]
    put(store, nights("+" * 13, first=14))
    assert detect(store).fixed == ()
    put(store, nights("+", first=27))
    assert [item.id for item in detect(store).fixed] == [alert.id]
    # Much later it is lost again: the same alert comes back.
    put(store, nights("---", first=28))
    assert [item.id for item in detect(store).new] == [alert.id]


def test_failures_do_not_count_and_what_never_was_there_is_no_loss(store: Store) -> None:
    put(store, nights("++++++++-xx-x"))
    put(store, nights("------------", case=VIT, machine="m2", first=20))
    detect(store)
    assert [alert.metric for alert in load_alerts(store)] == ["outcome"]
    put(store, nights("-", first=40))
    detect(store)
    run_ids = {alert.metric: alert.first_bad.run_id for alert in load_alerts(store)}
    assert run_ids == {"outcome": "run-009", "speedup": "run-008"}


def test_a_case_without_times_loses_latency_and_speedup_in_one_event(
    store: Store, words: SnapshotAssertion
) -> None:
    put(store, [make_night(n, {BERT: sign, VIT: "+"}) for n, sign in enumerate("++++++++aaa")])
    alerts = detect(store).alerts
    assert sorted(ends(alerts)) == [
        ("latency_s", "run-008", "open"),
        ("speedup", "run-008", "open"),
    ]
    (event,) = load_events(store).values()
    assert event.title == words


def test_reference_cases_are_not_notified_and_eager_cases_have_no_speedup(
    store: Store,
) -> None:
    reference = make_case("ref_gemm", family=REFERENCE_FAMILY, mode="eager")
    eager = make_case(mode="eager")
    signs = [{reference: sign, eager: sign} for sign in "--------aaa"]
    put(store, [make_night(number, night) for number, night in enumerate(signs)])
    (alert,) = detect(store).alerts
    assert (alert.case, alert.metric) == (eager, "latency_s")


@pytest.mark.parametrize("other", [{"suite": "accuracy"}, {"machine": "m2"}, {"toolchain": "rc"}])
@pytest.mark.parametrize("signs", ["+" * 16, "+" * 10 + "-" * 6])
def test_another_suite_machine_or_toolchain_may_do_without(
    store: Store, other: Mapping[str, str], signs: str
) -> None:
    documents = nights(signs)
    for number in range(len(signs)):
        at = nth_night(number) + timedelta(hours=1)
        accuracy = make_night(
            number, {BERT: "a"}, id=f"z-{number}", started_at=at, finished_at=at, **other
        )
        documents.append(accuracy)
    put(store, documents)
    assert [end[1:] for end in ends(detect(store).alerts)] == (
        [("run-010", "open")] if "-" in signs else []
    )


def test_runs_by_hand_neither_lose_a_metric_nor_bring_it_back(store: Store) -> None:
    put(store, nights("++++++++"))
    put(store, nights("aaaa", first=8, suite="custom"))
    assert detect(store).alerts == ()
    put(store, nights("---", first=12))
    assert len(detect(store).new) == 1
    put(store, nights("++++", first=15, suite="custom"))
    assert detect(store).fixed == ()


@pytest.mark.parametrize(("first", "last"), [("-", "+"), ("+", "-"), ("-", "x")])
def test_of_a_case_that_was_measured_again_in_its_run_the_last_result_counts(
    store: Store, first: str, last: str
) -> None:
    put(store, nights("++++++++"))
    for number in range(8, 11):
        run = make_night(number, {BERT: last}).run
        store.save_run(run)
        late = run.started_at + timedelta(hours=1)
        again = dataclasses.replace(
            cell(run, BERT, last, id=f"again-{number}"), started_at=late, finished_at=late
        )
        store.ingest(run, cell(run, BERT, first), spool_id=f"first-{number}")
        store.ingest(run, again, spool_id=f"again-{number}")
    missing = [alert for alert in detect(store).alerts if alert.kind == "vanished"]
    assert ends(missing) == ([("speedup", "run-008", "open")] if last == "-" else [])


def test_a_run_that_began_meanwhile_is_not_there_yet(store: Store) -> None:
    put(store, nights("++++++++---"))
    runs = load_plans(store)
    at = START - timedelta(hours=1)
    put(store, [make_night(99, {BERT: "+"}, started_at=at, finished_at=at)])
    results = load_ok_results(store, runs=runs, metrics=("speedup",), num_without=3)
    assert dict(zip(results.runs.tolist(), results.has[:, 0].tolist(), strict=True)) == {
        number: number < 8 for number in range(11)
    }


def test_only_cases_of_which_some_results_lack_it_are_read(store: Store) -> None:
    signs = [{BERT: sign, VIT: "+", make_case("t5"): "-"} for sign in "++++++++---"]
    put(store, [make_night(number, night) for number, night in enumerate(signs)])
    runs = load_plans(store)
    for num_without, num_results in ((3, 11), (4, 0)):
        results = load_ok_results(
            store, runs=runs, metrics=("latency_s", "speedup"), num_without=num_without
        )
        assert results.has.shape == (num_results, 2)
        assert {results.case_keys[number] for number in results.cases} <= {BERT.key}


# Lost and back, to and fro, seldom there from the beginning, and seldom there from some night on.
COURSES = {
    BERT: "+" * 12 + "---+-++---" + "+" * 15 + "-" * 8 + "+" * 3,
    VIT: "+" * 9 + "aaa" + "+" * 16 + "a" * 20,
    make_case("t5"): "a+a-a+aaaa+-" * 4,
    make_case("unet"): "+" * 20 + "------+" * 4,
}


@pytest.mark.slow
@pytest.mark.nightly
def test_judging_what_is_new_finds_what_judging_everything_finds() -> None:
    ours, theirs = Store("duckdb:///:memory:"), Store("duckdb:///:memory:")
    seen = set()
    for number in range(48):
        document = make_night(number, {case: signs[number] for case, signs in COURSES.items()})
        put(ours, [document])
        put(theirs, [document])
        if number % 3 == 0:
            assert detect(ours) == detect(theirs, is_full=True)
            assert load_alerts(ours) == load_alerts(theirs)
            assert load_events(ours) == load_events(theirs)
            seen.update(ends(load_alerts(ours)))
    assert {(metric, state) for metric, _, state in seen} == {
        (metric, state) for metric in ("latency_s", "speedup") for state in ("open", "fixed")
    }
    assert {alert.case.model for alert in load_alerts(ours)} == {"bert", "vit", "unet"}


def judge_imported(terminal: Terminal, records: Sequence[Mapping[str, object]]) -> None:
    write_lines(terminal.folder / "history.json", records)
    terminal.json("import", "history.json", "--json")
    terminal.json("detect", "--json")


@pytest.fixture
def terminal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Terminal:
    monkeypatch.chdir(tmp_path)
    terminal = Terminal(tmp_path)
    # After every night that is imported.
    terminal.clock.advance(365 * DAY_S)
    return terminal


def test_an_imported_model_that_still_passes_and_is_timed_no_longer_is_reported(
    terminal: Terminal,
) -> None:
    records = []
    for number in range(14):
        for name in ("bert", "vit"):
            records.append(make_record("accuracy", "pass", model=name, night=number))
            if name == "vit" or number < 10:
                records.append(make_record("abs_latency", 10.0, model=name, night=number))
    judge_imported(terminal, records)
    (alert,) = terminal.json("regressions", "--json")
    assert (alert["model"], alert["kind"], alert["metric"]) == ("bert", "vanished", "latency_s")
    assert alert["first_bad"]["revision"] == commit_of(10)
    assert alert["last_good"]["revision"] == commit_of(9)
    assert (alert["confirmed"], alert["change_pct"], alert["cause"]["kernels"]) == (None, None, [])
    assert "TorchInductor" in alert["cause"]["text"]
    assert "bert" in alert["event"]["title"]
    assert "latency missing" in alert["event"]["title"]
    output = terminal.hud("regressions").stdout
    assert ("latency" in output, "missing" in output) == (True, True)


@pytest.mark.parametrize("nights_between", [2, 3, 7])
def test_an_imported_latency_that_is_measured_seldom_is_never_missed(
    terminal: Terminal, nights_between: int
) -> None:
    records = []
    for number in range(60):
        records.append(make_record("accuracy", "pass", night=number))
        if number % nights_between == 0 and number < 40:
            records.append(make_record("abs_latency", 10.0, night=number))
    judge_imported(terminal, records)
    assert terminal.json("regressions", "--state", "all", "--json") == []


def verdict_in(terminal: Terminal, alert: Alert) -> str:
    lines = terminal.hud("alerts", "show", alert.id).stdout.splitlines()
    (line,) = [line for line in lines if line.startswith("verdict")]
    return line.removeprefix("verdict").strip()


def test_a_missing_metric_is_shown_with_its_last_value_and_date(
    terminal: Terminal, words: SnapshotAssertion
) -> None:
    store = terminal.store()
    put(store, nights("++++++++---"))
    (alert,) = detect(store).new
    assert verdict_in(terminal, alert) == words(name="missing")
    put(store, nights("xxx", first=11))
    (fails,) = detect(store).new
    assert verdict_in(terminal, fails) == words(name="failing")


def test_what_is_missing_is_shown_where_the_run_before_it_is_gone(terminal: Terminal) -> None:
    store = terminal.store()
    put(store, nights("+"))
    save_alerts(
        store,
        [
            make_alert("aaa1", kind="vanished", metric="speedup", **NO_LEVELS),
            make_alert("bbb1", kind="vanished", metric="outcome", **NO_LEVELS),
            make_alert(
                "ccc1", kind="outcome", metric="outcome", verdict="improvement", **NO_LEVELS
            ),
        ],
    )
    verdicts = [verdict_in(terminal, alert).partition(" since ")[0] for alert in load_alerts(store)]
    assert sorted(verdicts) == [
        "improvement, passing again",
        "regression, missing",
        "regression, speedup missing",
    ]
