"""A digest of each week is sent once, whatever was running or down."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.receiving import Inbox, receiving
from compile_hud.db.alerts.outbox import load_outbox
from compile_hud.db.records.alerts import AlertState
from compile_hud.runner.alerting.notifier import send_waiting
from tests.services.notifications.test_notifier import workspace_of
from tests.support.builders import make_alert, make_case
from tests.support.stores.stored_results import save_alerts
from tests.support.terminal import CONFIG, Terminal

DAY_S = 24 * 3600.0


@pytest.fixture
def terminal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Terminal:
    monkeypatch.chdir(tmp_path)
    return Terminal(tmp_path)


def configure(terminal: Terminal, inbox: Inbox, *, more: str = "") -> None:
    section = f'[receivers.ops]\nurl = "{inbox.url}"\nallow_private = true\nweekly = "mon 09:00"\n'
    (terminal.folder / "hud.toml").write_text(CONFIG + section + more)


def weeks(inbox: Inbox) -> list[str]:
    notifications = [
        json.loads(request.body)["data"]["notifications"] for request in inbox.requests
    ]
    return [item["weekly"]["until"][:10] for items in notifications for item in items]


def test_each_week_has_one_digest_even_where_nothing_ran_at_its_hour(terminal: Terminal) -> None:
    # The clock of the terminal begins on Thursday, 2026-01-01.
    save_alerts(terminal.store(), [make_alert("a"), make_alert("b", state=AlertState.FIXED)])
    with receiving() as inbox:
        configure(terminal, inbox)
        for days in (0, 0, 4.2, 0.1, 0, 7, 0, 14):
            terminal.clock.advance(days * DAY_S)
            send_waiting(workspace_of(terminal), notify=lambda _: None)
    assert weeks(inbox) == ["2025-12-29", "2026-01-05", "2026-01-12", "2026-01-26"]
    first = json.loads(inbox.requests[0].body)["data"]["notifications"][0]
    assert (first["kind"], first["weekly"]["open"]) == ("weekly", ["a"])


def test_a_digest_has_what_the_routes_of_its_receiver_lead_there(terminal: Terminal) -> None:
    gpt = make_alert("b", case=make_case("gpt"))
    save_alerts(terminal.store(), [make_alert("a"), gpt])
    with receiving() as inbox:
        configure(terminal, inbox, more='[routes.r]\nreceivers = "ops"\nmodels = "gpt"\n')
        send_waiting(workspace_of(terminal), notify=lambda _: None)
    (request,) = inbox.requests
    assert json.loads(request.body)["data"]["notifications"][0]["weekly"]["open"] == ["b"]


def test_without_the_setting_there_is_none(terminal: Terminal) -> None:
    with receiving() as inbox:
        configure(terminal, inbox)
        content = (terminal.folder / "hud.toml").read_text().replace("weekly", "# weekly")
        (terminal.folder / "hud.toml").write_text(content)
        send_waiting(workspace_of(terminal), notify=lambda _: None)
    assert load_outbox(terminal.store()) == ()


def test_a_week_without_anything_to_say_has_none(terminal: Terminal) -> None:
    save_alerts(terminal.store(), [make_alert("a", state=AlertState.NOISE)])
    with receiving() as inbox:
        configure(terminal, inbox)
        send_waiting(workspace_of(terminal), notify=lambda _: None)
        save_alerts(terminal.store(), [make_alert("b")])
        # What opens later in the week waits for the next digest.
        send_waiting(workspace_of(terminal), notify=lambda _: None)
        assert inbox.requests == []
        terminal.clock.advance(7 * DAY_S)
        send_waiting(workspace_of(terminal), notify=lambda _: None)
    assert len(weeks(inbox)) == 1
