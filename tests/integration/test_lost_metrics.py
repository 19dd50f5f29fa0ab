"""Metrics that ok results no longer have, from the store to the alert and the pages of it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from app.alertpage import alert_title
from app.matrix import missing_cases
from app.ranking import alert_topic, change_text, mark_text
from db.queries import load_alerts
from db.records import CaseResult, Measurement, RunDocument
from db.store import Store
from runner.detect import detect
from tests.builders import make_document, make_measurement, make_result, make_run
from tests.histories import night as nth_night
from tests.integration.terminal import Terminal
from tests.integration.test_detect import put
from tests.records_v3 import make_record, write_lines


def night(number: int, metrics: Sequence[str], *, outcome: str = "ok") -> RunDocument:
    """Return a run of a night whose only case has these metrics."""
    at = nth_night(number)
    run = make_run(f"run-{number:02d}", started_at=at, finished_at=at, state="finished")
    measured = [measurement(metric, number) for metric in metrics]
    return make_document(run, results=[result(run.id, number, measured, outcome=outcome)])


def measurement(metric: str, number: int) -> Measurement:
    return make_measurement(metric, samples=[1 + 0.002 * (number % 3)])


def result(
    run_id: str, number: int, measured: Sequence[Measurement], *, outcome: str
) -> CaseResult:
    return make_result(f"r-{number}", run_id=run_id, outcome=outcome, measurements=measured)


BOTH, ALONE = ("latency_s", "speedup"), ("latency_s",)


def test_a_speedup_that_ok_results_no_longer_have_is_told_until_it_is_back(store: Store) -> None:
    put(store, [night(number, BOTH) for number in range(8)])
    for number in (8, 9):
        put(store, [night(number, ALONE)])
        assert detect(store).alerts == ()
    put(store, [night(10, ALONE)])
    (alert,) = detect(store).new
    assert (alert.kind, alert.metric, alert.first_bad.run_id) == ("vanished", "speedup", "run-08")
    assert (alert_topic(alert), change_text(alert)) == ("speedup", "vanished")
    assert mark_text(alert) == "speedup vanished"
    assert alert_title(alert) == f"{alert.case.model} {alert.case.variant} speedup vanished"
    # The case itself is there.
    assert missing_cases([alert]) == {}
    assert detect(store).alerts == (alert,)
    put(store, [night(11, BOTH)])
    (fixed,) = detect(store).fixed
    assert (fixed.id, str(fixed.state)) == (alert.id, "fixed")
    assert detect(store, is_full=True).alerts == (fixed,)


def test_failures_and_what_never_had_it_are_no_loss(store: Store) -> None:
    put(store, [night(number, ALONE) for number in range(12)])
    put(store, [night(number, (), outcome="failed") for number in range(12, 18)])
    detect(store)
    assert [alert.kind for alert in load_alerts(store)] == ["outcome"]


def test_a_failure_in_between_does_not_hide_it(store: Store) -> None:
    put(store, [night(number, BOTH) for number in range(8)])
    put(store, [night(8, ALONE), night(9, (), outcome="failed"), night(10, ALONE)])
    put(store, [night(11, ALONE)])
    detect(store)
    found = {alert.metric: alert.first_bad.run_id for alert in load_alerts(store)}
    assert found == {"outcome": "run-09", "speedup": "run-08"}


def test_a_model_that_still_passes_and_is_timed_no_longer_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    terminal = Terminal(tmp_path)
    records = []
    for number in range(14):
        for name in ("bert", "vit"):
            records.append(make_record("accuracy", "pass", model=name, night=number))
            if name == "vit" or number < 10:
                records.append(make_record("abs_latency", 10.0, model=name, night=number))
    write_lines(tmp_path / "history.json", records)
    terminal.json("import", "history.json", "--json")
    terminal.json("detect", "--json")
    (alert,) = terminal.json("regressions", "--json")
    assert (alert["model"], alert["kind"], alert["metric"]) == ("bert", "vanished", "latency_s")
    assert alert["cause"]["text"].startswith("latency_s is no longer there")
