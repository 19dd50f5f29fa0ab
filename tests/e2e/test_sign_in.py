"""People sign in with a real OpenID Connect provider, and do what their role lets them."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from http.client import HTTPConnection
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from axe_playwright_python.base import AXE_FILE_PATH
from playwright.sync_api import Browser, Locator, Page, WebSocketRoute, expect

from compile_hud.db.queries.alerts import load_alert, load_changes, load_series_settings
from compile_hud.db.records.alerts import AlertState
from compile_hud.db.store import Store
from tests.e2e.test_accessibility import hindrances
from tests.support.pages.dashboard import IDLE, ROOT, free_port, serving, window
from tests.support.pages.grids import rows_of
from tests.support.servers.openid_provider import READY
from tests.support.stores import dashboard_stores

pytestmark = pytest.mark.slow

PATH = "/alerts?alert=alert-1"
LISTS = '\n[auth]\ntriagers = ["perf"]\nadmins = "ada@example.org"\nviewers = "*@example.org"\n'
PEOPLE = {
    "eve": {"email": "eve@example.org", "email_verified": True},
    "tom": {"email": "tom@example.org", "email_verified": True, "groups": ["perf"]},
    "ada": {"email": "ada@example.org", "email_verified": True},
    "mallory": {"email": "ada@example.org", "email_verified": False},
}
LENT = "audience of another, lent to us"
# Each would be an admin if what is wrong were not seen.
LIARS = {
    "wrong issuer": {"iss": "https://login.example.org"},
    "wrong audience": {"aud": "wiki"},
    LENT: {"aud": "wiki", "azp": "hud"},
    "expired": {"iat": 1_700_000_000, "exp": 1_700_000_300},
    "wrong nonce": {"nonce": "another"},
    "wrong key": {"_key": True},
    "wrong state": {"_state": True},
}


@dataclass(frozen=True, slots=True, kw_only=True)
class SignInDashboard:
    """A dashboard with sign-in, the hud.toml it runs by, and its store."""

    url: str
    config: Path
    store: Store


@pytest.fixture(scope="module")
def dashboard(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SignInDashboard]:
    """Return a dashboard whose people sign in with a provider in a process of its own."""
    folder = tmp_path_factory.mktemp("sign-in")
    store = Store(f"duckdb:///{folder / 'hud.duckdb'}")
    dashboard_stores.fill(store)
    port, provider_port = free_port(), free_port()
    client = {"id": "hud", "secret": "hush", "back": f"http://127.0.0.1:{port}/oauth2callback"}
    users = {**PEOPLE, **{name: {**PEOPLE["ada"], **fault} for name, fault in LIARS.items()}}
    command = [
        "tests.support.servers.openid_provider",
        str(provider_port),
        json.dumps(client),
        json.dumps(users),
    ]
    config = folder / "hud.toml"
    config.write_text(settings(provider_port), encoding="utf-8")
    with subprocess.Popen(
        [sys.executable, "-m", *command], stdout=subprocess.PIPE, text=True, cwd=ROOT
    ) as provider:
        assert provider.stdout is not None
        try:
            assert provider.stdout.readline() == READY
            with serving(store.url, config=config, port=port, HUD_SECRET="hush") as url:
                yield SignInDashboard(url=url, config=config, store=store)
        finally:
            provider.terminate()


def settings(provider_port: int) -> str:
    own = (
        f'issuer = "http://127.0.0.1:{provider_port}"\nclient_id = "hud"\n'
        'client_secret = "env:HUD_SECRET"\n'
    )
    return LISTS + own


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    """Return a page of a fresh profile."""
    with window(browser) as context:
        context.set_default_timeout(20_000)
        yield context.new_page()


def sign_in(page: Page, name: str) -> None:
    page.get_by_role("button", name="Sign in", exact=True).first.click()
    page.get_by_role("link", name=name, exact=True).click()


@pytest.mark.nightly
def test_words_of_the_sign_in_stand_out_in_the_dark(dashboard: SignInDashboard, page: Page) -> None:
    page.emulate_media(color_scheme="dark")
    page.goto(dashboard.url)
    expect(page.get_by_role("button", name="Sign in", exact=True).first).to_be_visible()
    page.evaluate(Path(AXE_FILE_PATH).read_text(encoding="utf-8"))
    assert hindrances(page.evaluate("axe.run({runOnly: ['color-contrast']})")) == []


def test_link_of_an_alert_leads_through_the_sign_in_to_the_alert(
    dashboard: SignInDashboard, page: Page
) -> None:
    page.goto(dashboard.url + PATH)
    expect(page.get_by_text("This dashboard needs a sign-in.")).to_be_visible()
    expect(page.get_by_text("+20.0 %")).to_have_count(0)
    sign_in(page, "eve")
    expect(page).to_have_url(dashboard.url + PATH)
    expect(page.get_by_role("heading", name="bert / default: latency +20.0 %")).to_be_visible()
    # A viewer looks, and that is all.
    expect(page.get_by_text("eve@example.org is a viewer; triaging alerts")).to_be_visible()
    expect(page.get_by_role("button", name="Noise")).to_have_count(0)
    page.reload()
    expect(page.get_by_text("signed in as eve@example.org (viewer)")).to_be_visible()

    second = page.context.new_page()
    second.goto(dashboard.url)
    expect(second.get_by_text("signed in as eve@example.org (viewer)")).to_be_visible()
    page.get_by_role("button", name="Sign out").click()
    expect(page.get_by_text("This dashboard needs a sign-in.")).to_be_visible()
    # Within a poll of the other window, without a touch.
    expect(second.get_by_text("you have signed out.")).to_be_visible()


def test_triager_decides_once_however_often_one_clicks_and_until_the_role_is_taken(
    dashboard: SignInDashboard, page: Page
) -> None:
    page.goto(dashboard.url + PATH)
    sign_in(page, "tom")
    page.get_by_label("Reason or comment").fill("after the move")
    expect(page.get_by_label("Your name")).to_have_count(0)
    page.get_by_role("button", name="Acknowledge", exact=True).dblclick()
    expect(page.get_by_role("table", name="changes").get_by_text("after the move")).to_be_visible()
    changes = load_changes(dashboard.store, alert_id="alert-1")
    assert [(item.by, item.new) for item in changes] == [("tom@example.org", "acknowledged")]
    expect(page.get_by_label("Least change that matters")).to_have_count(0)

    before = dashboard.config.read_text(encoding="utf-8")
    dashboard.config.write_text(before.replace('"perf"', '"others"'), encoding="utf-8")
    try:
        expect(page.get_by_text("tom@example.org is a viewer; triaging")).to_be_visible()
        expect(page.get_by_role("button", name="Noise")).to_have_count(0)
    finally:
        dashboard.config.write_text(before, encoding="utf-8")
    expect(page.get_by_role("button", name="Noise")).to_be_visible()
    page.goto("about:blank")


@pytest.mark.nightly
def test_viewer_is_refused_what_a_page_from_before_still_offers(
    dashboard: SignInDashboard, page: Page
) -> None:
    frames: list[str | bytes] = []
    is_holding = False

    def pass_on(window: WebSocketRoute) -> None:
        server = window.connect_to_server()
        window.on_message(server.send)
        server.on_message(lambda text: frames.append(text) if is_holding else window.send(text))

    page.route_web_socket(re.compile("_stcore/stream"), pass_on)
    page.goto(dashboard.url + PATH)
    sign_in(page, "tom")
    page.get_by_label("Reason or comment").fill("too late")
    before = load_alert(dashboard.store, "alert-1")
    is_holding = True
    lists = dashboard.config.read_text(encoding="utf-8")
    dashboard.config.write_text(lists.replace('"perf"', '"others"'), encoding="utf-8")
    try:
        # What the server says of it does not reach the page, so that the form is still there.
        page.get_by_role("button", name="Noise", exact=True).click()
        while not frames:
            page.wait_for_timeout(100)
        is_holding = False
        page.reload()
        expect(page.get_by_text("tom@example.org is a viewer; triaging")).to_be_visible()
        assert load_alert(dashboard.store, "alert-1") == before
        assert "too late" not in [item.why for item in load_changes(dashboard.store)]
    finally:
        dashboard.config.write_text(lists, encoding="utf-8")
    page.goto("about:blank")


@pytest.mark.nightly
def test_alerts_are_worked_through_by_keyboard_alone(
    dashboard: SignInDashboard, page: Page
) -> None:
    page.goto(dashboard.url + "/alerts")
    sign_in(page, "tom")
    rows = rows_of(page, "events")
    expect(rows).to_have_count(3)
    press_until(page, "j", lambda: has_focus(rows.last))
    press_until(page, "k", lambda: has_focus(rows.first))
    page.keyboard.press("x")
    expect(rows.first).to_have_attribute("aria-selected", "true")
    expect(page.get_by_role("heading", name="Triage 1 selected alert")).to_be_visible()
    reason = page.get_by_label("Reason or comment")
    expect(reason).to_be_visible()
    page.keyboard.press("d")
    expect(reason).to_be_focused()
    page.keyboard.type("jjx/ by keys")
    expect(reason).to_have_value("jjx/ by keys")
    comment = page.get_by_role("button", name="Comment only")
    comment.focus()
    # What was typed is taken when the field is left, and the form may be drawn anew for it.
    page.wait_for_timeout(500)
    comment.focus()
    expect(comment).to_be_focused()
    page.keyboard.press("Enter")
    # For a moment the form that was is there beside the new one.
    expect(page.get_by_label("Reason or comment").first).to_have_value("")
    values = [item.new for item in load_changes(dashboard.store) if item.by == "tom@example.org"]
    assert "jjx/ by keys" in values

    press_until(page, "j", lambda: has_focus(rows.last))
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile(r"/alerts\?alert="))
    expect(page.get_by_role("button", name="Expected", exact=True)).to_be_visible()
    press_until(page, "/", lambda: "alert=" not in page.url)
    expect(page.get_by_label("Search everything")).to_be_focused()
    page.goto("about:blank")


def press_until(page: Page, key: str, is_done: Callable[[], bool], *, every_ms: int = 100) -> None:
    # A key that nobody listens to yet is lost.
    for _ in range(30_000 // every_ms):
        page.keyboard.press(key)
        page.wait_for_timeout(every_ms)
        if is_done():
            return
    raise AssertionError(f"{key} does nothing")


def has_focus(row: Locator) -> bool:
    return bool(row.evaluate("row => row.contains(document.activeElement)"))


@pytest.mark.nightly
def test_admin_sets_the_floor_of_a_series(dashboard: SignInDashboard, page: Page) -> None:
    page.goto(dashboard.url + PATH)
    sign_in(page, "ada")
    # What is typed before the whole page is there may be drawn anew.
    expect(page.get_by_role("button", name="Save the floor")).to_be_visible()
    page.wait_for_selector(IDLE)
    page.get_by_label("Least change that matters").fill("7.5")
    page.get_by_label("Reason", exact=True).fill("noisy")
    page.get_by_role("button", name="Save the floor").click()
    # The form that was sent stands beside the new one until the page is whole.
    page.wait_for_function(
        """() => {
          const found = [...document.querySelectorAll('input[aria-label="Reason"]')];
          return found.length === 1 && found[0].value === "";
        }"""
    )
    expect(page.get_by_label("Least change that matters")).to_have_value("7.5")
    assert [item.floor for item in load_series_settings(dashboard.store)] == [0.075]
    page.goto("about:blank")


@pytest.mark.nightly
def test_an_unverified_address_has_no_role(dashboard: SignInDashboard, page: Page) -> None:
    page.goto(dashboard.url)
    sign_in(page, "mallory")
    expect(page.get_by_text("who has no access to this dashboard")).to_be_visible()


@pytest.mark.nightly
def test_invalid_answers_do_not_sign_in(dashboard: SignInDashboard, page: Page) -> None:
    answers = {}
    for liar in LIARS:
        page.goto(dashboard.url + PATH)
        sign_in(page, liar)
        refused = page.get_by_text("The sign-in did not succeed")
        elsewhere = page.get_by_text("you are signed in to another application")
        expect(refused.or_(elsewhere).first).to_be_visible()
        assert page.request.get(f"{dashboard.url}/traces/result-1").status == 401
        answers[liar] = elsewhere.is_visible()
        page.context.clear_cookies()
    # Only this one passes the library that checks the token.
    assert [liar for liar in LIARS if answers[liar]] == [LENT]


@pytest.mark.nightly
def test_callback_that_was_used_is_refused(dashboard: SignInDashboard, page: Page) -> None:
    seen: list[str] = []
    page.on("request", lambda request: seen.append(request.url))
    page.goto(dashboard.url)
    sign_in(page, "ada")
    expect(page.get_by_text("(admin)")).to_be_visible()
    (used,) = {url for url in seen if "/oauth2callback?" in url}
    page.context.clear_cookies()
    page.goto(used)
    expect(page.get_by_text("The sign-in did not succeed")).to_be_visible()
    page.goto(dashboard.url)
    expect(page.get_by_text("This dashboard needs a sign-in.")).to_be_visible()


def test_routes_need_a_sign_in(dashboard: SignInDashboard, page: Page) -> None:
    assert status(dashboard.url, "/traces/result-1") == 401
    assert status(dashboard.url, "/perfetto/result-1") == 401
    assert status(dashboard.url, "/healthz") == 200
    page.goto(dashboard.url)
    sign_in(page, "eve")
    expect(page.get_by_text("(viewer)")).to_be_visible()
    # Nobody kept a trace, which is for who may look to know.
    assert page.request.get(f"{dashboard.url}/traces/result-1").status == 404
    assert load_alert(dashboard.store, "alert-1").state is not AlertState.NOISE
    page.goto("about:blank")


def status(url: str, path: str) -> int:
    with closing(HTTPConnection(urlsplit(url).netloc, timeout=20)) as connection:
        connection.request("GET", path)
        return connection.getresponse().status
