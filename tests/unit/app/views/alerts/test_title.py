"""The heading of an alert's page."""

from __future__ import annotations

import dataclasses

import pytest

from compile_hud.app.ui.alert_text import alert_text
from tests.support.builders import make_alert, make_case


@pytest.mark.parametrize(
    ("kind", "topic"),
    [
        ("step", "latency"),
        ("drift", "latency (drift)"),
        ("variance", "latency (noise)"),
    ],
)
def test_the_heading_names_the_case_the_metric_and_the_kind_of_change(
    kind: str, topic: str
) -> None:
    alert = dataclasses.replace(make_alert(case=make_case("bert", mode="default")), kind=kind)
    assert alert_text(alert).title == f"bert / default: {topic} +20.0 %"
