"""The page of settings, and that no secret reaches it."""

from __future__ import annotations

from pathlib import Path

import pytest

from db.shown_settings import SETTINGS_VARIABLE, settings_from_json, settings_to_json
from runner.config import parse_config
from runner.shown_settings import shown_settings, shown_value
from runner.supervise import dashboard_environment
from tests.app.conftest import OpenPage
from tests.app.looking import html_of, text_of, texts_of_rows

CONFIG = """
[store]
url = "postgresql://hud:hunter2@db.example.org:5432/hud"
[run]
launches = 7
[suites."<b>mine</b>"]
models = ["bert", "gpt2"]
[receivers.chat]
kind = "webhook"
url = "https://chat.example.org/hooks/hunter3?key=hunter4"
secret = "env:CHAT_SECRET"
"""


@pytest.fixture
def handed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Return what the dashboard's process is told of a hud.toml, and tell it this process."""
    path = tmp_path / "hud.toml"
    path.write_text(CONFIG, encoding="utf-8")
    text = dashboard_environment(parse_config(CONFIG, path=path, env={}))[SETTINGS_VARIABLE]
    monkeypatch.setenv(SETTINGS_VARIABLE, text)
    return text


@pytest.mark.usefixtures("handed_over", "seeded")
def test_the_page_shows_what_is_set_and_what_is_a_default(open_page: OpenPage) -> None:
    page = open_page("settings")
    assert not page.exception
    rows = {row[0]: row[1:3] for row in texts_of_rows(page, "settings of run")}
    assert rows["launches"] == ["7", "hud.toml"]
    assert rows["confirm"][1] == "default"
    mine = {row[0]: row[1] for row in texts_of_rows(page, "settings of suites.<b>mine</b>")}
    assert mine["models"] == "bert, gpt2"
    assert "<b>mine" not in html_of(page)


@pytest.mark.usefixtures("seeded")
def test_no_secret_is_shown_or_handed_over(handed_over: str, open_page: OpenPage) -> None:
    text = text_of(open_page("settings"))
    for number in ("hunter2", "hunter3", "hunter4"):
        assert number not in handed_over
        assert number not in text
    rows = {(item.section, item.key): item.value for item in settings_from_json(handed_over)}
    assert rows["store", "url"] == "postgresql://db.example.org:5432/..."
    assert rows["receivers.chat", "url"] == "https://chat.example.org/..."
    assert rows["receivers.chat", "secret"] == "env:CHAT_SECRET"


@pytest.mark.parametrize(
    ("key", "value", "shown"),
    [
        ("token", "abc", "(not shown)"),
        ("password", "file:/run/secrets/p", "file:/run/secrets/p"),
        ("url", "duckdb:///.hud/store.duckdb", "duckdb:///.hud/store.duckdb"),
        ("url", "http://[broken", "(not shown)"),
        ("url", "mailto://user:pass@", "(not shown)"),
        ("confirm", True, "true"),
        (
            "admins",
            ["ada@example.org", "*@example.org", "team"],
            "...@example.org, *@example.org, team",
        ),
        ("nights", None, ""),
        ("models", ["x" * 500], "x" * 157 + "..."),
    ],
)
def test_a_value_is_text_without_a_secret(key: str, value: object, shown: str) -> None:
    assert shown_value(key, value) == shown


def test_all_settings_fit_into_a_variable_of_the_environment(tmp_path: Path) -> None:
    # 128 KiB is what one may have on Linux.
    assert len(settings_to_json(shown_settings(None))) < 40_000
    broken = tmp_path / "hud.toml"
    broken.write_text("[", encoding="utf-8")
    assert shown_settings(broken) == shown_settings(None)
