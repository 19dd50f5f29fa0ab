"""The outcome of an alert that was measured again."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from datetime import datetime, timezone
from typing import Any

import pytest
from syrupy.assertion import SnapshotAssertion

from compile_hud.db.records.alerts import Alert, AlertState
from compile_hud.db.records.results import Verdict
from compile_hud.runner.analysis.comparison.measurements import Comparison
from compile_hud.runner.analysis.confirmation.confirmation import (
    conclusion_text,
    confirmation_json,
    fails_run,
    is_refuted,
    revised,
    side_json,
    with_conclusion,
)
from compile_hud.runner.analysis.confirmation.verdict import Conclusion, ConfirmationResult, Method
from compile_hud.runner.analysis.judging.attribution import Cause
from compile_hud.runner.analysis.stats.launch_levels import launch_levels
from tests.support.builders import make_alert, make_measurement, make_result

REASON = "+12.0 % is beyond the floor"
CAUSE = "in turn: compiler side"
CHANGE = Comparison(
    ratio=1.12,
    low=1.10,
    high=1.14,
    verdict=Verdict.REGRESSION,
    is_significant=True,
    is_relevant=True,
    reason=REASON,
)


def finding(conclusion: Conclusion = Conclusion.CONFIRMED, **values: Any) -> ConfirmationResult:
    return ConfirmationResult(
        **{
            "conclusion": conclusion,
            "reason": CHANGE.reason,
            "method": Method.IN_TURN,
            "cause": Cause(kind="compiler", text=CAUSE),
            "comparison": CHANGE,
            "baseline": 0.010,
            "candidate": 0.0112,
            **values,
        }
    )


def record_of(of: ConfirmationResult, *, alert: Alert, is_early: bool = False) -> Mapping[str, Any]:
    how = {"run_id": "run-1", "baseline_side": {"toolchain": "old"}}
    return confirmation_json(of, alert=alert, how=how, is_early=is_early)


def after(of: ConfirmationResult, *, alert: Alert | None = None, is_early: bool = False) -> Alert:
    alert = alert or make_alert()
    return with_conclusion(
        alert, of, document=record_of(of, alert=alert, is_early=is_early), is_early=is_early
    )


def test_a_stored_confirmation_has_numbers_method_cause_and_tries() -> None:
    alert = dataclasses.replace(make_alert(), confirmation={"num_tries": 1})
    record = record_of(finding(), alert=alert)
    assert record == {
        "verdict": "confirmed",
        "reason": REASON,
        "method": "in_turn",
        "num_tries": 2,
        "is_early": False,
        "unit": "s",
        "baseline": 0.010,
        "candidate": 0.0112,
        "change_pct": pytest.approx(12.0),
        "interval_pct": [pytest.approx(10.0), pytest.approx(14.0)],
        "cause": {"kind": "compiler", "text": CAUSE},
        "run_id": "run-1",
        "baseline_side": {"toolchain": "old"},
    }


def test_what_was_not_measured_costs_no_try_and_has_no_numbers() -> None:
    none = finding(Conclusion.INCONCLUSIVE, method=Method.NONE, comparison=None)
    record = record_of(none, alert=make_alert())
    assert (record["num_tries"], record["change_pct"], record["interval_pct"]) == (0, None, None)


def test_the_summary_of_a_side_keeps_the_level_of_each_launch() -> None:
    measurement = make_measurement(samples=[0.010, 0.012, 0.014, 0.016], launches=[2, 2])
    result = make_result(measurements=[measurement], details={"num_launches": 2})
    summary = side_json(result, "latency_s", toolchain="old", revision="2.12.0")
    assert summary["num_samples"] == 4
    assert summary["num_launches"] == 2
    assert summary["median"] == measurement.median
    assert summary["launch_levels"] == launch_levels(result, "latency_s").tolist()
    assert len(summary["launch_levels"]) == 2
    failed = side_json(
        make_result(outcome="failed"), "latency_s", toolchain="old", revision="2.12.0"
    )
    assert (failed["outcome"], failed["median"], failed["launch_levels"]) == ("failed", None, [])


def test_a_confirmed_alert_takes_the_measured_cause(words: SnapshotAssertion) -> None:
    alert = dataclasses.replace(make_alert(cause_kind="unknown"), cause_text="eager moved")
    confirmed = after(finding(), alert=alert)
    assert (confirmed.is_confirmed, confirmed.cause_kind) == (True, "compiler")
    assert confirmed.cause_text == words
    assert fails_run(confirmed)
    assert not is_refuted(confirmed)


def test_a_refuted_alert_stays_open_and_fails_nothing() -> None:
    alert = after(finding(Conclusion.REFUTED, cause=Cause()), alert=make_alert(cause_kind="eager"))
    assert (alert.state, alert.verdict) == (AlertState.OPEN, Verdict.REGRESSION)
    assert (alert.is_confirmed, alert.cause_kind) == (False, "eager")
    assert is_refuted(alert)
    assert not fails_run(alert)


def test_an_inconclusive_alert_is_reported_and_fails_nothing() -> None:
    alert = after(finding(Conclusion.INCONCLUSIVE))
    assert alert.is_confirmed is None
    assert not is_refuted(alert)
    assert not fails_run(alert)


@pytest.mark.parametrize("kind", ["step", "drift", "vanished"])
def test_an_unconfirmed_alert_fails_a_run_by_its_history(kind: str) -> None:
    assert fails_run(make_alert(kind=kind))


def test_a_masked_kernel_fails_no_run() -> None:
    assert not fails_run(make_alert(kind="masked"))


def test_an_alert_that_could_not_be_measured_again_is_reported_and_fails_nothing() -> None:
    alert = after(finding(Conclusion.INCONCLUSIVE, method=Method.NONE, comparison=None))
    assert not is_refuted(alert)
    assert not fails_run(alert)


def test_an_early_suspect_opens_when_it_is_confirmed(words: SnapshotAssertion) -> None:
    alert = dataclasses.replace(make_alert(), environment_diff={"torch": ["2.12", "2.13"]})
    confirmed = after(finding(), alert=alert, is_early=True)
    assert (confirmed.state, confirmed.verdict) == (AlertState.OPEN, Verdict.REGRESSION)
    assert confirmed.cause_text == (words)


@pytest.mark.parametrize(
    ("conclusion", "verdict"),
    [
        (Conclusion.REFUTED, Verdict.UNCHANGED),
        (Conclusion.INCONCLUSIVE, Verdict.INCONCLUSIVE),
    ],
)
def test_an_early_suspect_is_over_otherwise(conclusion: Conclusion, verdict: Verdict) -> None:
    alert = after(finding(conclusion), is_early=True)
    assert (alert.state, alert.verdict) == (AlertState.FIXED, verdict)
    assert alert.confirmation is not None


@pytest.mark.parametrize("method", [Method.IN_TURN, Method.HISTORY, Method.REPEAT])
def test_a_line_says_verdict_method_case_and_reason(
    method: Method, words: SnapshotAssertion
) -> None:
    alert = make_alert()
    line = conclusion_text(after(finding(method=method), alert=alert))
    assert line == words


def test_a_concurrent_decision_of_a_user_stays() -> None:
    confirmed = after(finding())
    until = datetime(2026, 2, 1, tzinfo=timezone.utc)
    stored = dataclasses.replace(
        make_alert(state=AlertState.ACKNOWLEDGED), owner="ada", muted_until=until, note="mine"
    )
    (revision,) = revised([confirmed], now=[stored]).revisions
    assert revision.why == "re-measured: confirmed"
    alert = revision.alert
    assert (alert.state, alert.owner, alert.muted_until, alert.note) == (
        AlertState.ACKNOWLEDGED,
        "ada",
        until,
        "mine",
    )
    assert alert.is_confirmed
    (fresh,) = revised([confirmed], now=[]).revisions
    assert fresh.alert == confirmed
    (still,) = revised([confirmed], now=[make_alert()]).revisions
    assert still.alert.state is AlertState.OPEN
