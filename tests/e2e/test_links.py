"""A link of a message in a browser: the page, its button, and its picture."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta

import pytest
from playwright.sync_api import expect

from compile_hud.db.alerts.action_links import Action, ActionLink, action_token, picture_token
from compile_hud.db.queries.alerts import load_alert, load_changes, newest_change_number
from compile_hud.db.records.alerts import AlertState
from compile_hud.db.rows.mapping import put_notifications
from compile_hud.db.store import Store, utc_now
from compile_hud.runner.analysis.alerts.triage import set_state
from tests.e2e.conftest import LINK_SECRET, Watched
from tests.support.builders import make_notification
from tests.support.stores.dashboard_stores import improvement

ALERT_ID = improvement().id
WIDTHS = (1440, 800)


@pytest.fixture
def link(store: Store, address: str) -> Iterator[str]:
    """Return a link to acknowledge an alert, which is open again afterwards."""
    notification = make_notification("msg_e2e", receiver="team", alert_ids=[ALERT_ID])
    with store.write() as connection:
        put_notifications(
            connection, [replace(notification, title="<b>resnet50</b> became faster")]
        )
    number = newest_change_number(store)
    action_link = ActionLink(notification_id="msg_e2e", action=Action.ACKNOWLEDGE, number=number)
    until = utc_now() + timedelta(days=1)
    yield f"{address}/act/{action_token(action_link, key=LINK_SECRET.encode(), until=until)}"
    store.revise_alerts(set_state([ALERT_ID], AlertState.OPEN), by="test")


def test_the_button_of_the_page_decides(watched: Watched, store: Store, link: str) -> None:
    page = watched.page
    page.goto(link)
    expect(page.get_by_role("heading", name="Acknowledge?")).to_be_visible()
    expect(page.get_by_text("<b>resnet50</b> became faster")).to_be_visible()
    for width in WIDTHS:
        page.set_viewport_size({"width": width, "height": 700})
        assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert load_alert(store, ALERT_ID).state is AlertState.OPEN
    page.get_by_label("Reason").fill("known since May")
    page.get_by_role("button", name="Acknowledge").click()
    expect(page.get_by_role("heading", name="Done: 1 now acknowledged")).to_be_visible()
    change = load_changes(store, alert_id=ALERT_ID)[-1]
    assert (change.by, change.new, change.why) == ("team link", "acknowledged", "known since May")
    page.goto(link)
    expect(page.get_by_role("heading", name="Already acknowledged")).to_be_visible()


@pytest.mark.nightly
def test_a_picture_is_shown_to_holders_of_its_address(watched: Watched, address: str) -> None:
    until = utc_now() + timedelta(days=1)
    token = picture_token(ALERT_ID, key=LINK_SECRET.encode(), until=until)
    answer = watched.page.goto(f"{address}/pictures/{token}.png")
    assert answer is not None
    assert (answer.status, answer.headers["content-type"]) == (200, "image/png")
    assert answer.body().startswith(b"\x89PNG")
    # A browser asks for this one beside a picture that is opened alone, some only at leisure.
    icon = watched.page.request.get(f"{address}/favicon.ico")
    assert (icon.status, icon.headers["content-type"]) == (200, "image/png")
