"""The bounds and the re-measurement on the page of an alert."""

from __future__ import annotations

import dataclasses
from typing import Any

from syrupy.assertion import SnapshotAssertion

from compile_hud.app.components.evidence import confirmation_text, difference_table
from tests.support.builders import make_alert


def again(**values: Any) -> str:
    confirmation = {"verdict": "confirmed", "method": "in_turn", "reason": "it is", **values}
    return confirmation_text(dataclasses.replace(make_alert(), confirmation=confirmation))


def test_the_evidence_has_verdict_method_interval_time_and_reason(words: SnapshotAssertion) -> None:
    side = {"toolchain": "old", "num_launches": 8}
    text = again(baseline_side=side, interval_pct=[10.0, 14.0], seconds=90.0)
    assert text == words
    assert "10.0" in text
    assert text.endswith(": it is")


def test_what_was_not_measured_tells_its_reason_alone() -> None:
    text = again(verdict="inconclusive", method="none", baseline_side=None, reason="no time")
    assert text == "inconclusive: no time"
    assert confirmation_text(make_alert()) == ""


def test_each_difference_of_the_ends_is_a_row() -> None:
    difference = {"torch": ["2.12", "2.13"], "packages.pip": [None, "25.0"]}
    html = difference_table(difference, ends=("last good", "first bad"), label="environment")
    for text in ("torch", "2.12", "2.13", "packages.pip", "25.0", "last good", "first bad"):
        assert text in html


def test_ends_that_differ_in_nothing_have_no_table() -> None:
    assert difference_table({}, ends=("last good", "first bad"), label="environment") == ""
