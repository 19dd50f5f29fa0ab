"""The one-time link of the local user, and the cookie that it is exchanged for."""

from __future__ import annotations

import logging
import threading
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import parse_qs, urlsplit

import pytest

from compile_hud.app.auth.owner import OwnerSignIn
from compile_hud.db.shared.access_rules import Role

URL = "http://127.0.0.1:8611"


def make_owner(url: str = URL, *, name: str = "grace") -> tuple[OwnerSignIn, list[str]]:
    links: list[str] = []
    return OwnerSignIn(name=name, url=url, save=links.append), links


def token_of(link: str) -> str:
    (token,) = parse_qs(urlsplit(link).query)["token"]
    return token


def sign_in(owner: OwnerSignIn) -> dict[str, str]:
    """Return the cookies of a browser that opened the current link."""
    cookie = owner.exchange(token_of(owner.link()))
    assert cookie is not None
    return {owner.cookie_name: cookie}


def test_a_token_becomes_the_session_of_the_owner_who_is_an_admin() -> None:
    owner, _ = make_owner()
    person = owner.person(sign_in(owner))
    assert person is not None
    assert (person.name, person.role, person.is_signed_in) == ("grace", Role.ADMIN, True)
    assert person.signed_as("another name") == "grace"


def test_a_replayed_token_is_refused_and_the_next_link_is_saved() -> None:
    owner, links = make_owner()
    first = token_of(owner.link())
    assert owner.exchange(first) is not None
    assert owner.exchange(first) is None
    assert links == [f"{URL}/sign-in?token={first}", owner.link()]
    assert owner.exchange(token_of(links[-1])) is not None


@pytest.mark.parametrize("token", ["", "x", "\N{SNOWMAN}", "\ud800"])
def test_a_guessed_token_is_refused_and_uses_nothing_up(token: str) -> None:
    owner, links = make_owner()
    assert owner.exchange(token) is None
    assert owner.exchange(owner.link()) is None
    assert links == [owner.link()]


def test_token_and_cookie_of_an_earlier_start_are_refused() -> None:
    before, _ = make_owner()
    token, cookies = token_of(before.link()), sign_in(before)
    owner, _ = make_owner()
    assert owner.exchange(token) is None
    assert owner.exchange(token_of(before.link())) is None
    assert owner.person(cookies) is None


def test_the_cookie_of_a_dashboard_on_another_port_is_another_one() -> None:
    owner, _ = make_owner()
    neighbour, _ = make_owner("http://127.0.0.1:8612")
    cookies = sign_in(owner) | sign_in(neighbour)
    # A browser sends the cookies of all ports of a host to each of them.
    assert len(cookies) == 2
    assert owner.person(cookies) is not None
    assert neighbour.person(cookies) is not None
    forged = {neighbour.cookie_name: cookies[owner.cookie_name]}
    assert neighbour.person(forged) is None


@pytest.mark.parametrize("value", ["", "\N{SNOWMAN}", "\ud800", "0" * 43])
def test_a_forged_cookie_is_nobodys(value: str) -> None:
    owner, _ = make_owner()
    sign_in(owner)
    assert owner.person({owner.cookie_name: value}) is None
    assert owner.person({}) is None


def test_of_several_exchanges_at_once_one_succeeds() -> None:
    owner, _ = make_owner()
    token = token_of(owner.link())
    barrier = threading.Barrier(7)

    def exchange(_number: int) -> str | None:
        barrier.wait()
        return owner.exchange(token)

    with ThreadPoolExecutor(7) as pool:
        cookies = [cookie for cookie in pool.map(exchange, range(7)) if cookie is not None]
    assert len(cookies) == 1


def test_an_ended_session_is_over_and_others_are_not() -> None:
    owner, _ = make_owner()
    first, second = sign_in(owner), sign_in(owner)
    person = owner.person(first)
    assert person is not None
    owner.end(person)
    assert owner.person(first) is None
    assert owner.person(second) is not None


def test_the_oldest_of_too_many_sessions_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("compile_hud.app.auth.owner._MAX_SESSIONS", 3)
    owner, _ = make_owner()
    browsers = [sign_in(owner) for _ in range(4)]
    assert [owner.person(cookies) is not None for cookies in browsers] == [False, True, True, True]


def test_no_log_has_a_token_or_a_cookie(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    owner, _ = make_owner()
    token, cookies = token_of(owner.link()), sign_in(owner)
    owner.exchange(token)
    assert caplog.records
    for secret in (token, token_of(owner.link()), *cookies.values()):
        assert secret not in caplog.text
        assert secret not in repr(vars(owner).get("_sessions"))


def test_the_link_fits_into_a_line_of_a_terminal() -> None:
    owner, _ = make_owner("http://127.0.0.1:65535")
    assert len(f"sign in: {owner.link()}") <= 80


def test_a_name_has_one_short_line() -> None:
    owner, _ = make_owner(name="grace\n" + "x" * 90)
    assert "\n" not in owner.name
    assert len(owner.name) == 40
