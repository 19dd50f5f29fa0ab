"""The page of settings, and that no secret reaches it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from compile_hud.db.shared.settings_snapshot import (
    SETTINGS_VARIABLE,
    settings_from_json,
    settings_to_json,
)
from compile_hud.runner.config.load import parse_config
from compile_hud.runner.config.schema import SETTINGS, HudToml
from compile_hud.runner.config.snapshot import (
    number_text,
    shown_settings,
    shown_value,
    without_links,
)
from compile_hud.runner.scheduling.supervisor import dashboard_environment
from tests.app.conftest import OpenPage
from tests.support.pages.page_elements import html_of, text_of, texts_of_rows

CONFIG = """
[store]
url = "postgresql://hud:hunter2@db.example.org:5432/hud"
[run]
launches = 7
memory_limit = 8_500_000_000
[suites."<b>mine</b>"]
models = ["bert", "gpt2"]
[receivers.chat]
kind = "webhook"
url = "https://chat.example.org/hooks/hunter3?key=hunter4"
secret = "env:CHAT_SECRET"
"""


@pytest.fixture
def exported_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Export the settings of a hud.toml to this process, and return them."""
    path = tmp_path / "hud.toml"
    path.write_text(CONFIG, encoding="utf-8")
    return export_settings(path, monkeypatch)


def export_settings(path: Path, monkeypatch: pytest.MonkeyPatch, **env: str) -> str:
    with monkeypatch.context() as patch:
        # The store of a test's own dashboard is in the first.
        for name in ("HUD_DATABASE_URL", "HUD_STATE_DIR"):
            patch.delenv(name, raising=False)
        for name, value in env.items():
            patch.setenv(name, value)
        text = dashboard_environment(parse_config(CONFIG, path=path, env=env))[SETTINGS_VARIABLE]
    monkeypatch.setenv(SETTINGS_VARIABLE, text)
    return text


@pytest.mark.usefixtures("seeded")
def test_a_variable_is_in_force(
    open_page: OpenPage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "hud.toml"
    path.write_text(CONFIG, encoding="utf-8")
    env = {"HUD_STATE_DIR": "/var/lib/hud", "HUD_DATABASE_URL": "postgresql://a:hunter5@db/hud"}
    export_settings(path, monkeypatch, **env)
    page = open_page("settings")
    paths = {row[0]: row[1:3] for row in texts_of_rows(page, "settings of paths")}
    assert paths["state"] == ["/var/lib/hud", "HUD_STATE_DIR"]
    store = {row[0]: row[1:3] for row in texts_of_rows(page, "settings of store")}
    assert store["url"] == ["postgresql://db/...", "HUD_DATABASE_URL"]
    export_settings(path, monkeypatch)
    paths = {row[0]: row[1:3] for row in texts_of_rows(open_page("settings"), "settings of paths")}
    assert paths["state"] == [".hud", "default"]


@pytest.mark.usefixtures("exported_settings", "seeded")
def test_the_page_shows_what_is_set_and_what_is_a_default(open_page: OpenPage) -> None:
    page = open_page("settings")
    assert not page.exception
    rows = {row[0]: row[1:3] for row in texts_of_rows(page, "settings of run")}
    assert rows["launches"] == ["7 launches", "hud.toml"]
    assert rows["memory_limit"] == ["8.5 GB", "hud.toml"]
    assert rows["timeout_s"] == ["15 min", "default"]
    assert rows["target_interval"] == ["2 %", "default"]
    assert rows["confirm"][1] == "default"
    mine = {row[0]: row[1] for row in texts_of_rows(page, "settings of suites.<b>mine</b>")}
    assert mine["models"] == "bert, gpt2"
    assert "<b>mine" not in html_of(page)


@pytest.mark.usefixtures("seeded")
def test_no_secret_is_shown_or_handed_over(exported_settings: str, open_page: OpenPage) -> None:
    text = text_of(open_page("settings"))
    for number in ("hunter2", "hunter3", "hunter4"):
        assert number not in exported_settings
        assert number not in text
    rows = {(item.section, item.key): item.value for item in settings_from_json(exported_settings)}
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
        (
            "sizes",
            {"small": {"num_tokens": 32, "kinds": [1, 2]}},
            "{ small = { num_tokens = 32, kinds = 1, 2 } }",
        ),
        ("headers", {"Authorization": "abc"}, "(not shown)"),
        (
            "options",
            {"token": "abc", "url": "https://a.example/b"},
            "{ token = (not shown), url = https://a.example/... }",
        ),
        ("models", ["x" * 500], "x" * 157 + "..."),
    ],
)
def test_a_value_is_text_without_a_secret(key: str, value: object, shown: str) -> None:
    assert shown_value(key, value) == shown


@pytest.mark.parametrize(
    ("section", "key", "value", "shown"),
    [
        ("run", "timeout_s", 900.0, "15 min"),
        ("run", "timeout_s", 7200, "2 h"),
        ("run", "timeout_s", 90.5, "90.5 s"),
        ("run", "wait_idle", 0, "0 s"),
        ("traces", "max_size", 2_000_000_000, "2 GB"),
        ("traces", "max_size", 512, "512 B"),
        ("traces", "max_size", 0, "0 B"),
        ("run", "target_interval", 0.07, "7 %"),
        ("run", "confirm_share", 2.0, "200 %"),
        ("traces", "nights", 1, "1 night"),
        ("run", "launches", 3, "3 launches"),
        ("suites.NAME", "launches", 3, "3 launches"),
        ("run", "launches", 2.5, "2.5"),
        ("server", "port", 8501, "8501"),
    ],
)
def test_a_number_has_its_unit(section: str, key: str, value: float, shown: str) -> None:
    row = next(item for item in SETTINGS if (item.section, item.key) == (section, key))
    assert number_text(value, row=row) == shown


def test_every_number_that_a_setting_takes_has_a_unit_or_is_a_port() -> None:
    bare = set()
    for row in SETTINGS:
        content: Any = 2
        for name in (row.key, *reversed(row.section.split("."))):
            content = {name: content}
        try:
            HudToml.model_validate(content)
        except ValidationError as error:
            if any(item["type"] == "value_error" for item in error.errors()):
                continue
        if number_text(2, row=row) == "2":
            bare.add((row.section, row.key))
    assert bare == {("server", "port")}


def test_of_several_numbers_the_last_has_the_unit(tmp_path: Path) -> None:
    path = tmp_path / "hud.toml"
    path.write_text(
        '[shapes.mine]\nsize = "small"\nbatch = 4\nlength = [16, 32]\n', encoding="utf-8"
    )
    shown = {
        item.key: item.value
        for item in shown_settings(path, env={})
        if item.section == "shapes.mine"
    }
    assert (shown["batch"], shown["length"]) == ("4 samples", "16, 32 tokens")


def test_the_purpose_of_a_setting_is_shown_whole_and_without_markdown() -> None:
    for item in shown_settings(None, env={}):
        assert "](" not in item.description
        assert not item.description.endswith("...")
    assert without_links("A ([b](a.md#b)), `x` in [c d](#c).") == "A, `x` in c d."


@pytest.mark.usefixtures("exported_settings", "seeded")
def test_names_in_what_a_setting_is_for_are_code(open_page: OpenPage) -> None:
    assert "<code>env:NAME</code>" in html_of(open_page("settings"))


def test_all_settings_fit_into_a_variable_of_the_environment(tmp_path: Path) -> None:
    # 128 KiB is what one may have on Linux.
    assert len(settings_to_json(shown_settings(None, env={}))) < 40_000
    broken = tmp_path / "hud.toml"
    broken.write_text("[", encoding="utf-8")
    assert shown_settings(broken, env={}) == shown_settings(None, env={})
