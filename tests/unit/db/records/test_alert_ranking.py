"""The order of alerts, on every page and in every list."""

from __future__ import annotations

import math

import pytest

from compile_hud.db.records.results import Verdict
from compile_hud.db.records.triage import worsening, worst_first
from tests.support.builders import make_alert, make_case


def test_a_failure_is_worse_than_any_slowdown() -> None:
    assert worsening(make_alert(kind="outcome")) == math.inf


def test_what_is_higher_is_better_worsens_downwards() -> None:
    slower = make_alert(metric="speedup", unit="x", change_pct=-50.0)
    assert worsening(slower) == pytest.approx(2.0)
    assert worsening(make_alert(change_pct=100.0)) == pytest.approx(2.0)


def test_an_imported_metric_counts_as_lower_is_better() -> None:
    assert worsening(make_alert(metric="theirs", change_pct=10.0)) == pytest.approx(1.1)


def test_the_verdict_has_the_direction_of_an_imported_metric() -> None:
    fewer = make_alert(metric="theirs", change_pct=-50.0)
    more = make_alert(metric="theirs", change_pct=100.0, verdict=Verdict.IMPROVEMENT)
    assert (worsening(fewer), worsening(more)) == (pytest.approx(2.0), pytest.approx(0.5))


def test_a_total_loss_does_not_divide_by_zero() -> None:
    assert worsening(make_alert(metric="speedup", change_pct=-100.0)) > 1e6


def test_failures_come_first_then_the_largest_change_and_missing_cases_are_major() -> None:
    alerts = [
        make_alert("gain", verdict=Verdict.IMPROVEMENT, change_pct=-60.0),
        make_alert("late", kind="late", case=make_case("vit")),
        make_alert("gone", kind="vanished"),
        make_alert("small", change_pct=6.0),
        make_alert("speedup", metric="speedup", change_pct=-30.0),
        make_alert("broken", kind="outcome"),
        make_alert("large", change_pct=35.0),
        make_alert("masked", kind="masked", change_pct=400.0),
    ]
    ids = [alert.id for alert in worst_first(alerts)]
    assert ids == ["broken", "speedup", "large", "gone", "late", "small", "masked", "gain"]


def test_what_is_settled_comes_after_all_that_is_ongoing() -> None:
    alerts = [
        make_alert("broken", kind="outcome", state="fixed"),
        make_alert("large", change_pct=35.0, state="noise"),
        make_alert("gain", verdict=Verdict.IMPROVEMENT, change_pct=-60.0),
        make_alert("small", change_pct=6.0, state="acknowledged"),
        make_alert("expected", change_pct=50.0, state="expected"),
    ]
    ids = [alert.id for alert in worst_first(alerts)]
    assert ids == ["small", "gain", "broken", "expected", "large"]
