"""The bounds of an alert, in every text that names both."""

from __future__ import annotations

from datetime import timedelta

import pytest

from compile_hud.app.components.alert_rows import alert_row
from compile_hud.app.data.page_records import AlertPage
from compile_hud.app.ui.alert_text import alert_text
from compile_hud.app.views.alerts.event_table import event_facts, event_groups
from compile_hud.app.views.alerts.markdown import alert_markdown
from compile_hud.app.views.alerts.tables import alert_facts
from compile_hud.db.records.alerts import Alert, alert_bounds
from tests.support.builders import START, make_alert, make_run, make_run_ref

GOOD = make_run_ref(make_run("run-1"))
BAD = make_run_ref(make_run("run-9", started_at=START + timedelta(days=8)))
DRIFT = make_alert(kind="drift", last_good=GOOD, first_bad=BAD)
STEP = make_alert(last_good=GOOD, first_bad=BAD)


def texts_of(alert: Alert) -> dict[str, str]:
    """Return what tells both ends of `alert`, by where."""
    page = AlertPage(
        alert=alert, text=alert_text(alert), event=None, num_other_alerts=0, series=None, changes=()
    )
    (group,) = event_groups([alert], events={})
    *_, revision, _ = alert_row(alert, now=BAD.at)
    return {
        "page of the alert": alert_facts(page, now=BAD.at),
        "page of the event": event_facts(group, now=START),
        "Markdown": alert_markdown(alert, text=alert_text(alert), command=""),
        "row": "; ".join(note.text for note in revision.notes),
        "tooltip": alert_text(alert).bounds,
    }


@pytest.mark.parametrize("view", ["page of the alert", "Markdown", "row", "tooltip"])
def test_a_drift_began_before_it_was_seen(view: str) -> None:
    text = texts_of(DRIFT)[view]
    assert 0 <= text.index("began") < text.index("first seen")


def test_an_event_of_a_drift_has_its_beginning_and_when_it_was_last_seen() -> None:
    drift, step = (texts_of(alert)["page of the event"] for alert in (DRIFT, STEP))
    assert 0 <= drift.index("began") < drift.index("last seen")
    assert "first seen" not in drift
    assert "last seen" not in step


@pytest.mark.parametrize("view", ["page of the alert", "page of the event", "Markdown", "tooltip"])
def test_a_step_is_reported_by_its_first_bad_run(view: str) -> None:
    text = texts_of(STEP)[view]
    assert 0 <= text.index("first bad") < text.index("last good")


def test_each_end_has_its_name() -> None:
    assert alert_bounds(DRIFT) == (("began", GOOD), ("first seen", BAD))
    assert alert_bounds(STEP) == (("first bad", BAD), ("last good", GOOD))
    assert alert_bounds(make_alert(first_bad=BAD)) == (("first bad", BAD), ("last good", None))
