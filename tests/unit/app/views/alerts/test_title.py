"""The heading of an alert's page."""

from __future__ import annotations

import dataclasses

import pytest

from compile_hud.app.ui.alert_text import alert_text
from tests.support.builders import make_alert, make_case


@pytest.mark.parametrize(
    ("kind", "title"),
    [
        ("step", "bert default +20.0 %"),
        ("drift", "bert default drift +20.0 %"),
        ("variance", "bert default noise +20.0 %"),
    ],
)
def test_a_percentage_that_is_no_step_says_of_what_it_is(kind: str, title: str) -> None:
    alert = dataclasses.replace(make_alert(case=make_case("bert", mode="default")), kind=kind)
    assert alert_text(alert).title == title
