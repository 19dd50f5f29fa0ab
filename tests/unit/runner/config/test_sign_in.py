"""The settings of the sign-in in hud.toml, and their export to the dashboard's process."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from syrupy.assertion import SnapshotAssertion

from compile_hud.db.shared.access_rules import AccessRules, Role
from compile_hud.runner.config.load import parse_config
from compile_hud.runner.config.sign_in import SignIn, export_to_child, has_local_owner
from compile_hud.runner.errors import ConfigError

AUTH = """
[auth]
issuer = "https://login.example.org/"
client_id = "hud"
client_secret = "env:HUD_CLIENT_SECRET"
"""
ENV = {"HUD_CLIENT_SECRET": "hush", "HUD_COOKIES": "0123456789abcdef" * 2}


def sign_in(text: str) -> SignIn:
    return parse_config(text, path=None, env={}).sign_in


def exported(text: str, *, url: str = "https://hud.example.org", path: str = "") -> dict[str, Any]:
    config_path = Path(path) if path else None
    variables: dict[str, Any] = json.loads(
        export_to_child(sign_in(text), url=url, path=config_path, env=ENV)
    )
    return variables


def test_without_settings_the_dashboard_is_read_only() -> None:
    assert sign_in("").rules == AccessRules()
    assert sign_in("").rules.anonymous is Role.VIEWER
    variables = exported("", url="http://10.0.0.7")
    assert AccessRules.from_json(variables.pop("rules")) == AccessRules()
    assert variables == {"path": "", "url": "http://10.0.0.7"}


def test_with_sign_in_there_is_no_anonymous_role() -> None:
    rules = sign_in(AUTH).rules
    assert (rules.issuer, rules.has_sign_in) == ("https://login.example.org", True)
    assert rules.anonymous is None
    assert (rules.viewers, rules.triagers, rules.admins) == (("*",), (), ())


@pytest.mark.parametrize(
    ("setting", "role"), [("nobody", None), ("viewer", Role.VIEWER), ("triager", Role.TRIAGER)]
)
def test_role_of_who_is_not_signed_in_can_be_set(setting: str, role: Role | None) -> None:
    assert sign_in(f'{AUTH}anonymous = "{setting}"').rules.anonymous is role
    assert sign_in(f'[auth]\nanonymous = "{setting}"').rules.anonymous is role


def test_lists_and_times_are_those_of_the_file() -> None:
    rules = sign_in(
        f'{AUTH}viewers = "*@example.org"\ntriagers = ["perf", "a@b.c"]\nadmins = "d@e.f"\n'
        'claim = "roles"\nsession = "8 h"\ntrust_email = true'
    ).rules
    assert (rules.viewers, rules.triagers) == (("*@example.org",), ("perf", "a@b.c"))
    assert (rules.admins, rules.claim, rules.session_s) == (("d@e.f",), "roles", 28800.0)
    assert rules.trusts_email


@pytest.mark.parametrize(
    "text",
    [
        '[auth]\nissuer = "https://a.b"',
        '[auth]\nclient_id = "x"',
        '[auth]\nissuer = "http://login.example.org"',
        '[auth]\nissuer = "login"',
        '[auth]\nclient_secret = "hush"',
        '[auth]\nanonymous = "admin"',
        f'{AUTH}scope = "email"',
        "[auth]\nadmins = [1]",
        "[auth]\nsession = 0",
        '[auth]\nadmin = "a@b.c"',
    ],
)
def test_an_invalid_setting_is_reported_with_its_key(text: str, words: SnapshotAssertion) -> None:
    with pytest.raises(ConfigError) as caught:
        sign_in(text)
    assert str(caught.value) == words


def test_provider_of_this_machine_needs_no_https() -> None:
    text = AUTH.replace("https://login.example.org/", "http://127.0.0.1:9400")
    assert exported(text, url="http://localhost:8501")["url"] == "http://localhost:8501"


def test_the_dashboard_gets_its_secrets_and_the_path_of_the_lists() -> None:
    variables = exported(f'{AUTH}cookie_secret = "env:HUD_COOKIES"', path="conf/hud.toml")
    assert AccessRules.from_json(variables.pop("rules")) == sign_in(AUTH).rules
    assert variables == {
        "path": str(Path("conf/hud.toml").absolute()),
        "url": "https://hud.example.org",
        "scope": "openid email profile",
        "client_secret": "hush",
        "cookie_secret": ENV["HUD_COOKIES"],
    }
    assert exported(AUTH)["cookie_secret"] == ""


@pytest.mark.parametrize(
    ("text", "url", "location"),
    [
        (AUTH, "http://hud.example.org", ("server", "url")),
        (AUTH, "https://hud.example.org/team", ("server", "url")),
        (AUTH.replace("HUD_CLIENT_SECRET", "NONE"), "https://h.org", ("auth", "client_secret")),
        (
            f'{AUTH}cookie_secret = "env:HUD_CLIENT_SECRET"',
            "https://h.org",
            ("auth", "cookie_secret"),
        ),
    ],
)
def test_sign_in_that_cannot_work_or_be_kept_secret_is_refused(
    text: str, url: str, location: tuple[str, str], words: SnapshotAssertion
) -> None:
    with pytest.raises(ConfigError) as caught:
        exported(text, url=url)
    assert (caught.value.parameters["section"], caught.value.parameters["key"]) == location
    assert str(caught.value) == words
    assert "hush" not in str(caught.value)


def test_listening_anywhere_can_be_meant() -> None:
    assert sign_in("[server]\nwithout_sign_in = true").is_open
    assert not sign_in("").is_open


@pytest.mark.parametrize(
    ("host", "public_url", "is_owned"),
    [
        ("127.0.0.1", "", True),
        ("::1", "", True),
        ("localhost", "http://localhost:9000", True),
        ("127.0.0.7", "http://[::1]:8501/hud", True),
        ("0.0.0.0", "", False),
        ("10.0.0.7", "", False),
        # A proxy in front of it has rules of its own.
        ("127.0.0.1", "https://hud.example.org", False),
        ("127.0.0.1", "http://127.0.0.1.example.org", False),
    ],
)
def test_a_dashboard_that_only_this_machine_reaches_belongs_to_its_user(
    host: str, public_url: str, is_owned: bool
) -> None:
    assert has_local_owner(sign_in(""), host=host, public_url=public_url) is is_owned


def test_sign_in_and_no_token_leave_the_dashboard_without_owner() -> None:
    host = {"host": "127.0.0.1", "public_url": ""}
    assert not has_local_owner(sign_in(AUTH), **host)
    assert not has_local_owner(replace(sign_in(""), has_token=False), **host)
    assert has_local_owner(sign_in('[auth]\nanonymous = "triager"'), **host)
