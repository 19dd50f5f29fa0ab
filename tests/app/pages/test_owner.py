"""A dashboard of the local user: read-only before the sign-in, theirs after it."""

from __future__ import annotations

from pathlib import Path

import pytest
from syrupy.assertion import SnapshotAssertion

from compile_hud.app.auth import access
from compile_hud.app.auth.owner import OwnerSignIn
from compile_hud.db.queries.alerts import load_alert, load_changes
from compile_hud.db.records.alerts import AlertState
from compile_hud.db.shared.access_rules import AccessRules, Person, Role
from compile_hud.db.store import Store
from tests.app.alerts.test_alerts import ID, field
from tests.app.conftest import OpenPage
from tests.support.pages.page_elements import text_of, texts_of


@pytest.fixture
def store(seeded: Path) -> Store:
    """Return the filled store that the pages show."""
    return Store(f"duckdb:///{seeded}")


@pytest.fixture
def owner(monkeypatch: pytest.MonkeyPatch) -> OwnerSignIn:
    """Return the sign-in of the local user; their browser has no cookie."""
    owner = OwnerSignIn(name="grace", url="http://127.0.0.1:8611", save=lambda _link: None)
    monkeypatch.setattr(access, "owner_sign_in", lambda: owner)
    # The pages of these tests have no connection that could have cookies.
    monkeypatch.setattr(access, "owner_of", lambda _cookies: None)
    return owner


@pytest.fixture
def signed_in(owner: OwnerSignIn, monkeypatch: pytest.MonkeyPatch) -> Person:
    """Sign the local user in, in the browser of the pages."""
    cookie = owner.exchange(owner.link().partition("token=")[2])
    assert cookie is not None
    cookies = {owner.cookie_name: cookie}
    monkeypatch.setattr(access, "owner_of", lambda _cookies: owner.person(cookies))
    person = owner.person(cookies)
    assert person is not None
    return person


@pytest.mark.usefixtures("store", "owner")
def test_before_the_sign_in_pages_only_show_and_say_what_to_do(
    open_page: OpenPage, words: SnapshotAssertion
) -> None:
    page = open_page("alerts", alert=ID)
    assert "bert / default: latency +20.0 %" in text_of(page)
    assert texts_of(page, "notice") == words
    assert text_of(page).rpartition("store ")[2] == words
    assert [button.label for button in page.button] == []


@pytest.mark.usefixtures("signed_in")
def test_the_owner_decides_as_an_admin_under_the_name_of_the_user(
    store: Store, open_page: OpenPage
) -> None:
    page = open_page("alerts", alert=ID)
    assert "grace (admin)" in text_of(page)
    assert "Your name" not in [item.label for item in page.text_input]
    assert "Save the floor" in [button.label for button in page.button]
    page.button("decide-acknowledged").click()
    page.run()
    assert load_alert(store, ID).state is AlertState.ACKNOWLEDGED
    assert [item.by for item in load_changes(store, alert_id=ID)] == ["grace"]


@pytest.mark.usefixtures("store")
def test_signing_out_leaves_a_page_that_only_shows(open_page: OpenPage, signed_in: Person) -> None:
    page = open_page("overview")
    page.button("sign-out").click()
    page.run()
    assert "read-only" in text_of(page)
    with pytest.raises(access.NotAllowed, match="hud sign-in"):
        access.require(access.present(), Role.TRIAGER)
    assert access.present() != signed_in


@pytest.mark.usefixtures("store", "owner")
def test_a_dashboard_where_everybody_triages_stays_one(
    open_page: OpenPage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(access, "rules", lambda: AccessRules(anonymous=Role.TRIAGER))
    page = open_page("alerts", alert=ID)
    assert field(page, "Your name").value == ""
    assert "read-only" not in text_of(page)
