"""The texts of an alert."""

from __future__ import annotations

import dataclasses
from typing import Any

from syrupy.assertion import SnapshotAssertion

from compile_hud.app.ui.alert_text import alert_text
from tests.support.builders import make_alert


def again(**values: Any) -> str:
    confirmation = {"verdict": "confirmed", "method": "in_turn", "reason": "it is", **values}
    return alert_text(dataclasses.replace(make_alert(), confirmation=confirmation)).confirmation


def test_the_evidence_has_verdict_method_interval_time_and_reason(words: SnapshotAssertion) -> None:
    side = {"toolchain": "old", "num_launches": 8}
    text = again(baseline_side=side, interval_pct=[10.0, 14.0], seconds=90.0)
    assert text == words
    assert "10.0" in text
    assert text.endswith(": it is")


def test_what_was_not_measured_tells_its_reason_alone() -> None:
    text = again(verdict="inconclusive", method="none", baseline_side=None, reason="no time")
    assert text == "inconclusive: no time"
    assert alert_text(make_alert()).confirmation == ""


def test_a_masked_kernel_has_its_change_and_the_series_of_the_latency() -> None:
    text = alert_text(make_alert(kind="masked"))
    assert text.topic == "kernel (masked)"
    assert (text.metric, text.shown_metric) == ("", "latency_s")
    assert "metric=" not in text.url
