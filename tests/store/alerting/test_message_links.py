"""Links in messages: their secret, their presence and their content."""

from __future__ import annotations

import re
import stat
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest
from syrupy.assertion import SnapshotAssertion

from compile_hud.db.alerts.action_links import (
    LINK_SECRET_VARIABLE,
    Action,
    ActionLink,
    read_action,
    read_picture,
)
from compile_hud.db.records.alerts import AlertState
from compile_hud.db.records.notifications import Notification
from compile_hud.runner.alerting.message_links import Linker, link_secret, make_linker
from compile_hud.runner.alerting.notifier import build_messages
from compile_hud.runner.config.load import Config, parse_config
from compile_hud.runner.errors import ConfigError
from compile_hud.runner.scheduling.supervisor import dashboard_environment
from compile_hud.runner.workspace import Dependencies, Workspace
from tests.support.builders import START, make_alert, make_notification
from tests.support.stores.stored_results import save_alerts

SECRET = "0123456789abcdef0123456789abcdef"
URL = 'url = "https://hud.example.org/perf/"\n'


def config_of(folder: Path, more: str = URL) -> Config:
    return parse_config(f"[server]\n{more}", path=folder / "hud.toml", env={})


def workspace_of(config: Config) -> Workspace:
    return Workspace(
        config=config, dependencies=Dependencies(now=lambda: START, env={"LINKS": SECRET})
    )


def linker_of(config: Config) -> Linker:
    linker = make_linker(config, env={"LINKS": SECRET}, now=lambda: START)
    assert linker is not None
    return linker


def test_the_secret_is_made_once_and_readable_by_its_owner_only(tmp_path: Path) -> None:
    config = config_of(tmp_path)
    with ThreadPoolExecutor(8) as pool:
        secrets = set(pool.map(lambda _: link_secret(config, env={}), range(8)))
    assert len(secrets) == 1
    (file,) = config.state_dir.iterdir()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert file.read_text().strip() in secrets


def test_the_secret_may_lie_elsewhere(tmp_path: Path) -> None:
    (tmp_path / "shared").write_text(f"{SECRET}\n")
    for source in ("env:LINKS", "file:shared"):
        config = config_of(tmp_path, f'{URL}link_secret = "{source}"\n')
        assert link_secret(config, env={"LINKS": SECRET}) == SECRET


@pytest.mark.parametrize(
    ("env", "parameter"), [({}, "reason"), ({"LINKS": "hunter2"}, "num_characters")]
)
def test_a_bad_secret_is_reported_and_not_shown(
    tmp_path: Path, env: dict[str, str], parameter: str, words: SnapshotAssertion
) -> None:
    config = config_of(tmp_path, f'{URL}link_secret = "env:LINKS"\n')
    with pytest.raises(ConfigError) as caught:
        link_secret(config, env=env)
    assert parameter in caught.value.parameters
    assert str(caught.value) == words
    assert "hunter2" not in f"{caught.value} {caught.value.parameters}"


def test_a_secret_that_cannot_be_made_is_reported(tmp_path: Path) -> None:
    (tmp_path / ".hud").write_text("no folder")
    with pytest.raises(ConfigError) as caught:
        link_secret(config_of(tmp_path), env={})
    assert caught.value.parameters == {
        "section": "server",
        "key": "link_secret",
        "problem": "not-readable",
    }


def test_the_dashboard_gets_the_secret_that_the_runner_signs_with(tmp_path: Path) -> None:
    config = config_of(tmp_path)
    secret = dashboard_environment(config)[LINK_SECRET_VARIABLE]
    url = linker_of(config).picture("a")
    token = url.removeprefix("https://hud.example.org/perf/pictures/").removesuffix(".png")
    assert read_picture(token, key=secret.encode(), now=START) == "a"


def test_without_an_address_there_are_no_links_and_no_secret(tmp_path: Path) -> None:
    config = config_of(tmp_path, "port = 1\n")
    assert make_linker(config, env={}, now=lambda: START) is None
    assert dashboard_environment(config)[LINK_SECRET_VARIABLE] == ""
    save_alerts(workspace_of(config).store(), [make_alert("a")])
    (item,) = build_messages([make_notification(alert_ids=["a"])], workspace=workspace_of(config))
    assert (item.actions, item.picture_url) == ({}, "")
    assert not (config.state_dir / "link_secret").exists()


def test_a_message_without_its_secret_goes_without_links(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    config = config_of(tmp_path, f'{URL}link_secret = "env:NOTHING"\n')
    save_alerts(workspace_of(config).store(), [make_alert("a")])
    (item,) = build_messages([make_notification(alert_ids=["a"])], workspace=workspace_of(config))
    assert item.actions == {}
    (record,) = caplog.records
    assert isinstance(record.args, tuple)
    assert "link_secret" in str(record.args[0])


def message_of(state: AlertState, linker: Linker) -> tuple[Notification, dict[str, str]]:
    notification = make_notification("msg_1")
    return notification, linker.actions(notification, states=[state], number=7)


def test_links_name_what_can_still_be_decided(tmp_path: Path) -> None:
    linker = linker_of(config_of(tmp_path))
    _, actions = message_of(AlertState.OPEN, linker)
    assert list(actions) == ["acknowledge", "expected", "noise"]
    assert list(message_of(AlertState.ACKNOWLEDGED, linker)[1]) == ["expected", "noise"]
    assert message_of(AlertState.FIXED, linker)[1] == {}
    match = re.fullmatch(r"https://hud\.example\.org/perf/act/([A-Za-z0-9_.-]+)", actions["noise"])
    assert match is not None
    link = ActionLink(notification_id="msg_1", action=Action.NOISE, number=7)
    assert read_action(match[1], key=linker.key, now=START) == link
    assert SECRET not in repr(replace(linker, key=SECRET.encode()))


def test_messages_link_to_the_public_address(tmp_path: Path) -> None:
    config = config_of(tmp_path)
    save_alerts(workspace_of(config).store(), [make_alert("a")])
    (item,) = build_messages([make_notification(alert_ids=["a"])], workspace=workspace_of(config))
    assert item.alerts[0]["url"].startswith("https://hud.example.org/perf/series?case=")
    assert set(item.actions) == {"acknowledge", "expected", "noise"}
    assert "/perf/pictures/" in item.picture_url
