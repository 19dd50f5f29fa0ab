"""The links of messages: a GET changes nothing, the button of the page does, once."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import httpx2 as httpx
import pytest
from starlette.applications import Starlette
from starlette.testclient import TestClient
from syrupy.assertion import SnapshotAssertion

from compile_hud.app import clock
from compile_hud.app.auth import access
from compile_hud.app.auth.owner import OwnerSignIn
from compile_hud.app.data.action_links import (
    MeanwhileChanged,
    ReasonNeeded,
    act,
    load_link_request,
)
from compile_hud.app.server.action_routes import MAX_WHY_LENGTH, action_routes
from compile_hud.db.alerts.action_links import (
    LINK_SECRET_VARIABLE,
    Action,
    ActionLink,
    action_token,
    picture_token,
)
from compile_hud.db.errors import StoreLocked
from compile_hud.db.queries.alerts import load_alert, load_changes, newest_change_number
from compile_hud.db.records.alerts import Alert, AlertState
from compile_hud.db.records.triage import Revision
from compile_hud.db.rows.mapping import put_notifications
from compile_hud.db.store import Store
from compile_hud.runner.analysis.alerts.triage import TriageDecision
from tests.support.builders import make_alert, make_case, make_notification
from tests.support.pages.page_elements import visible_text

SECRET = "0123456789abcdef0123456789abcdef"
HOSTILE = "<script>alert(1)</script>\N{RIGHT-TO-LEFT OVERRIDE}\"'"


@pytest.fixture(scope="module")
def empty(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a store with its tables, to be copied: making them takes longer than a test."""
    path = tmp_path_factory.mktemp("empty") / "store.duckdb"
    Store(f"duckdb:///{path}").migrate()
    return path


@pytest.fixture
def store(empty: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    url = f"duckdb:///{shutil.copy(empty, tmp_path)}"
    monkeypatch.setenv("HUD_DATABASE_URL", url)
    return Store(url)


@pytest.fixture
def client(monkeypatch: pytest.MonkeyPatch) -> TestClient:
    monkeypatch.setenv(LINK_SECRET_VARIABLE, SECRET)
    return TestClient(Starlette(routes=action_routes()))


def tell(store: Store, *alerts: Alert, receiver: str = "team", title: str = "slower") -> None:
    """Store alerts and a notification about them, as the judge does."""
    revise(store, alerts)
    notification = make_notification(
        "msg_1", receiver=receiver, title=title, alert_ids=[alert.id for alert in alerts]
    )
    with store.write() as connection:
        put_notifications(connection, [notification])


def revise(store: Store, alerts: Iterable[Alert]) -> None:
    revised = tuple(alerts)
    revisions = tuple(Revision(alert=alert) for alert in revised)
    store.revise_alerts(lambda _: TriageDecision(alerts=revised, revisions=revisions), by="judge")


def link(store: Store, action: Action = Action.ACKNOWLEDGE, *, days: float = 14) -> str:
    number = newest_change_number(store)
    action_link = ActionLink(notification_id="msg_1", action=action, number=number)
    until = clock.now() + timedelta(days=days)
    return f"/act/{action_token(action_link, key=SECRET.encode(), until=until)}"


def press(client: TestClient, path: str, *, why: str = "") -> httpx.Response:
    """Open the page of a link and press its button."""
    proof = re.findall(r'name="page" value="([^"]+)"', client.get(path).text)
    return client.post(path, data={"page": proof[0] if proof else "", "why": why})


def states(store: Store, *ids: str) -> list[str]:
    return [str(load_alert(store, id).state) for id in ids]


@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_opening_a_link_changes_nothing(store: Store, client: TestClient, method: str) -> None:
    tell(store, make_alert("a"))
    before = store.store_version()
    answer = client.request(method, link(store))
    assert answer.status_code == 200
    assert (states(store, "a"), store.store_version()) == (["open"], before)


def test_a_failure_becomes_expected_only_with_a_reason(store: Store, client: TestClient) -> None:
    tell(store, make_alert("f", case=make_case("t5"), metric="outcome", kind="outcome"))
    path = link(store, Action.EXPECTED)
    assert " required>" in client.get(path).text
    assert (press(client, path).status_code, states(store, "f")) == (400, ["open"])
    assert press(client, path, why="dropped upstream").status_code == 200
    assert states(store, "f") == ["expected"]


def test_a_request_without_the_reason_that_it_needs_is_not_executed(store: Store) -> None:
    tell(store, make_alert("late", case=make_case("dlrm"), metric="outcome", kind="outcome"))
    action_link = ActionLink(notification_id="msg_1", action=Action.EXPECTED, number=99)
    with pytest.raises(ReasonNeeded):
        act(load_link_request(action_link), by="team link", why=" ")
    assert states(store, "late") == ["open"]


@pytest.mark.parametrize(
    ("action", "state"),
    [
        (Action.ACKNOWLEDGE, "acknowledged"),
        (Action.EXPECTED, "expected"),
        (Action.NOISE, "noise"),
    ],
)
def test_the_button_decides_on_record(
    store: Store, client: TestClient, action: Action, state: str
) -> None:
    tell(store, make_alert("a"))
    answer = press(client, link(store, action), why=" known since May ")
    assert (answer.status_code, states(store, "a")) == (200, [state])
    assert f"Done: 1 now {state}" in answer.text
    change = load_changes(store, alert_id="a")[-1]
    assert (change.by, change.new, change.why) == ("team link", state, "known since May")


def test_a_second_click_is_harmless(store: Store, client: TestClient) -> None:
    tell(store, make_alert("a"))
    path = link(store)
    proof = re.findall(r'name="page" value="([^"]+)"', client.get(path).text)[0]
    first, second = (client.post(path, data={"page": proof}) for _ in range(2))
    assert (first.status_code, second.status_code) == (200, 200)
    assert "Already acknowledged" in second.text
    assert len(load_changes(store, alert_id="a")) == 2


def test_two_clicks_at_once_decide_once(
    store: Store, client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    tell(store, make_alert("a"))
    path = link(store)
    proof = re.findall(r'name="page" value="([^"]+)"', client.get(path).text)[0]
    revise_alerts = Store.revise_alerts

    def after_another(self: Store, *args: object, **named: object) -> object:
        monkeypatch.setattr(Store, "revise_alerts", revise_alerts)
        client.post(path, data={"page": proof})
        return revise_alerts(self, *args, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(Store, "revise_alerts", after_another)
    answer = client.post(path, data={"page": proof})
    assert (answer.status_code, "Already acknowledged" in answer.text) == (200, True)
    assert len(load_changes(store, alert_id="a")) == 2


def test_what_changes_while_it_is_decided_is_refused(
    store: Store, client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    alert = make_alert("a")
    tell(store, alert)
    path = link(store)
    revise_alerts = Store.revise_alerts

    def after_another(self: Store, *args: object, **named: object) -> object:
        monkeypatch.setattr(Store, "revise_alerts", revise_alerts)
        revise(store, [replace(alert, state=AlertState.NOISE)])
        return revise_alerts(self, *args, **named)  # type: ignore[arg-type]

    proof = re.findall(r'name="page" value="([^"]+)"', client.get(path).text)[0]
    monkeypatch.setattr(Store, "revise_alerts", after_another)
    answer = client.post(path, data={"page": proof})
    assert (answer.status_code, states(store, "a")) == (409, ["noise"])
    assert ", noise</li>" in answer.text


def test_an_old_request_is_not_executed(store: Store) -> None:
    alert = make_alert("a")
    tell(store, alert)
    action_link = ActionLink(notification_id="msg_1", action=Action.NOISE, number=99)
    requests = load_link_request(action_link)
    revise(store, [replace(alert, state=AlertState.FIXED)])
    with pytest.raises(MeanwhileChanged):
        act(requests, by="team link", why="")
    assert states(store, "a") == ["fixed"]


def test_a_link_from_before_a_change_is_refused(store: Store, client: TestClient) -> None:
    alert = make_alert("a")
    tell(store, alert)
    path = link(store, Action.NOISE)
    # There and back: the state is what it was, and yet somebody decided.
    revise(store, [replace(alert, state=AlertState.ACKNOWLEDGED)])
    revise(store, [alert])
    for answer in (client.get(path), press(client, path)):
        assert answer.status_code == (409 if answer.request.method == "GET" else 403)
    assert states(store, "a") == ["open"]
    assert press(client, link(store, Action.NOISE)).status_code == 200


def test_what_changes_between_the_page_and_the_button_is_refused(
    store: Store, client: TestClient
) -> None:
    alert = make_alert("a")
    tell(store, alert)
    path = link(store)
    proof = re.findall(r'name="page" value="([^"]+)"', client.get(path).text)[0]
    revise(store, [replace(alert, state=AlertState.FIXED)])
    answer = client.post(path, data={"page": proof})
    assert (answer.status_code, states(store, "a")) == (409, ["fixed"])
    assert "Nothing was changed" in answer.text
    assert ": latency +20.0 %, fixed</li>" in answer.text


def test_of_an_event_what_changed_stays_and_is_counted(
    store: Store, client: TestClient, words: SnapshotAssertion
) -> None:
    alerts = [make_alert(name, case=make_case(name)) for name in "abc"]
    tell(store, *alerts)
    path = link(store, Action.NOISE)
    revise(store, [replace(alerts[1], state=AlertState.FIXED)])
    assert visible_text(client.get(path).text) == words
    assert press(client, path).status_code == 200
    assert states(store, "a", "b", "c") == ["noise", "fixed", "noise"]


@pytest.mark.parametrize("proof", ["\N{SNOWMAN}", "x" * 100_000])
def test_only_the_page_of_a_link_can_press_its_button(
    store: Store, client: TestClient, proof: str
) -> None:
    tell(store, make_alert("a"))
    answer = client.post(link(store), data={"page": proof})
    assert (answer.status_code, states(store, "a")) == (403, ["open"])


def test_a_form_of_too_many_fields_decides_nothing(store: Store, client: TestClient) -> None:
    tell(store, make_alert("a"))
    answer = client.post(link(store), data={f"field{number}": "x" for number in range(11)})
    assert (answer.status_code, states(store, "a")) == (403, ["open"])


def test_the_proof_of_one_link_is_none_for_another(store: Store, client: TestClient) -> None:
    tell(store, make_alert("a"))
    proof = re.findall(r'name="page" value="([^"]+)"', client.get(link(store)).text)[0]
    assert client.post(link(store, Action.NOISE), data={"page": proof}).status_code == 403
    assert states(store, "a") == ["open"]


@pytest.mark.parametrize(
    "token",
    [
        "x",
        "a.b",
        "a/b/c",
        "%2e%2e%2f",
        "http:%2F%2Fevil.example.org",
        "%00",
        "%3Cscript%3Ealert(1)%3C/script%3E",
        pytest.param("x" * 5000, id="long"),
        pytest.param(
            picture_token("a", key=SECRET.encode(), until=clock.now() + timedelta(days=1)),
            id="picture",
        ),
    ],
)
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_whatever_was_not_signed_gets_one_page(
    client: TestClient, token: str, method: str, words: SnapshotAssertion
) -> None:
    answer = client.request(method, f"/act/{token}")
    assert answer.status_code == 403
    assert visible_text(answer.text) == words
    assert "evil" not in answer.text
    assert "<script" not in answer.text
    assert "location" not in answer.headers


def test_an_expired_link_is_refused(
    store: Store, client: TestClient, words: SnapshotAssertion
) -> None:
    tell(store, make_alert("a"))
    answer = client.get(link(store, days=-1))
    assert answer.status_code == 410
    assert visible_text(answer.text) == words


def test_without_a_secret_there_are_no_links(
    store: Store, client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    tell(store, make_alert("a"))
    path = link(store)
    monkeypatch.delenv(LINK_SECRET_VARIABLE)
    assert client.get(path).status_code == 403


def test_a_link_to_a_missing_object_reports_it(store: Store, client: TestClient) -> None:
    assert client.get(link(store)).status_code == 404


def test_a_locked_store_is_reported(
    store: Store, client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    tell(store, make_alert("a"))
    path = link(store)

    def locked(*_: object, **__: object) -> None:
        raise StoreLocked("held by another process")

    monkeypatch.setattr("compile_hud.app.data.action_links.load_notification", locked)
    answer = client.get(path)
    assert (answer.status_code, "try again" in answer.text) == (503, True)


def test_nothing_from_the_store_is_markup_and_no_other_site_may_use_the_page(
    store: Store, client: TestClient
) -> None:
    tell(store, make_alert("a", case=make_case(HOSTILE)), receiver=HOSTILE, title=HOSTILE)
    answer = client.get(link(store))
    assert "<script" not in answer.text
    assert "\N{RIGHT-TO-LEFT OVERRIDE}" not in answer.text
    policy = answer.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "frame-ancestors 'none'" in policy
    assert "form-action 'self'" in policy
    assert answer.headers["referrer-policy"] == "same-origin"
    assert answer.headers["cache-control"] == "no-store"


def test_an_endless_reason_is_cut(store: Store, client: TestClient) -> None:
    tell(store, make_alert("a"))
    assert press(client, link(store), why="x" * 2 * MAX_WHY_LENGTH).status_code == 200
    assert load_changes(store, alert_id="a")[-1].why == "x" * MAX_WHY_LENGTH


def test_no_other_method_is_known(client: TestClient) -> None:
    assert client.put("/act/x").status_code == 405


@pytest.fixture
def owner(monkeypatch: pytest.MonkeyPatch) -> OwnerSignIn:
    """Return the sign-in of the local user of this dashboard."""
    owner = OwnerSignIn(name="grace", url="http://127.0.0.1:8611", save=lambda _link: None)
    monkeypatch.setattr(access, "owner_sign_in", lambda: owner)
    return owner


@pytest.mark.usefixtures("owner")
def test_a_link_only_shows_before_the_owner_has_signed_in(
    store: Store, client: TestClient, words: SnapshotAssertion
) -> None:
    tell(store, make_alert("a"))
    path = link(store)
    assert visible_text(client.get(path).text) == words
    answer = press(client, path)
    assert (answer.status_code, states(store, "a")) == (403, ["open"])
    assert visible_text(answer.text) == words


def test_the_owner_decides_by_a_link_under_the_own_name(
    store: Store, client: TestClient, owner: OwnerSignIn
) -> None:
    tell(store, make_alert("a"))
    cookie = owner.exchange(owner.link().partition("token=")[2])
    assert cookie is not None
    client.cookies.set(owner.cookie_name, cookie)
    path = link(store)
    assert "grace" in visible_text(client.get(path).text)
    assert (press(client, path).status_code, states(store, "a")) == (200, ["acknowledged"])
    assert load_changes(store, alert_id="a")[-1].by == "grace"
