"""A metric that ok results no longer have, although the case itself goes on."""

from __future__ import annotations

import pytest

from db.records import Alert, AlertState, Outcome, RunState, Verdict
from db.summaries import MetricHistory, OutcomePoint
from runner.analysis.events import events_of
from runner.analysis.outcomes import judge_lost_metrics
from tests.builders import make_case
from tests.histories import night


def judge(has_metric: str, *, metric: str = "speedup", model: str = "bert") -> list[Alert]:
    """Return the alerts of a night for each sign: `+` has the metric, `-` has not."""
    points = tuple(
        OutcomePoint(
            run_id=f"run-{number}",
            result_id=None,
            revision=str(number),
            at=night(number),
            suite="nightly",
            run_state=RunState.FINISHED,
            fingerprint="f",
            outcome=Outcome.OK,
        )
        for number in range(len(has_metric))
    )
    history = MetricHistory(
        case=make_case(model),
        metric=metric,
        machine="here",
        toolchain="current",
        points=points,
        has_metric=tuple(sign == "+" for sign in has_metric),
    )
    return judge_lost_metrics([history])


def test_what_three_results_in_a_row_no_longer_have_has_vanished() -> None:
    assert judge("++++++--") == []
    (alert,) = judge("++++++---")
    assert (alert.kind, alert.metric, alert.state, alert.verdict) == (
        "vanished",
        "speedup",
        AlertState.OPEN,
        Verdict.REGRESSION,
    )
    assert alert.last_good is not None
    assert (alert.last_good.run_id, alert.first_bad.run_id) == ("run-5", "run-6")
    assert alert.last_seen == night(8)
    assert alert.cause_text == "speedup is no longer there, though the case is ok"


def test_it_is_over_with_one_result_that_has_it() -> None:
    (alert,) = judge("++++++-----+")
    assert (alert.state, alert.last_seen) == (AlertState.FIXED, night(10))


@pytest.mark.parametrize(
    "has_metric",
    [
        "+++++----",
        "---------",
        "---+++++----",
        "+------+------+------",
        "++++++--++++++--",
        "+++--+++--+++---",
    ],
)
def test_what_was_never_there_for_six_results_in_a_row_is_not_missed(has_metric: str) -> None:
    assert judge(has_metric) == []


def test_each_time_that_it_was_lost_is_found_and_keeps_its_place() -> None:
    found = judge("++++++---++++++---")
    assert [(alert.first_bad.run_id, str(alert.state)) for alert in found] == [
        ("run-6", "fixed"),
        ("run-15", "open"),
    ]
    assert found[0].id == judge("++++++---")[0].id


def test_its_event_says_what_is_missing() -> None:
    (alert,) = judge("++++++---")
    (event,) = events_of([alert], runs=()).values()
    assert event.title.startswith(f"{alert.case.key}: speedup missing since ")
