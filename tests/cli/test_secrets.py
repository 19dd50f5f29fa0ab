"""Secrets with marks in them: after runs, failures and backups no mark is anywhere."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from compile_hud.db.alerts.outbox import load_outbox
from compile_hud.db.records.triage import Revision
from compile_hud.db.store import Store
from compile_hud.runner.cli.main import main
from compile_hud.runner.workspace import Dependencies
from tests.store.maintenance.test_backup import Opened, contents
from tests.support.builders import make_alert, make_notification
from tests.support.terminal import Terminal

MARK = "canary7f3a"
CONFIG = """
[server]
url = "https://hud.example"
link_secret = "file:link.secret"
[receivers.hook]
url = "http://127.0.0.1:9/hud"
secret = "env:HUD_TEST_HOOK"
[receivers.chat]
kind = "slack"
url = "file:chat.url"
[receivers.mail]
kind = "email"
url = "smtp://127.0.0.1:9"
sender = "hud@example.org"
to = "team@example.org"
user = "hud"
password = "env:HUD_TEST_MAIL"
"""
VARIABLES = {
    "HUD_TEST_HOOK": f"whsec_{MARK}-hook-{MARK}-{MARK}",
    "HUD_TEST_MAIL": f"{MARK}-mail",
    "HUD_METRICS_TOKEN": f"{MARK}-metrics",
    "HUD_API_TOKEN": f"{MARK}-api",
    "AWS_SECRET_ACCESS_KEY": f"{MARK}-of-somebody-else",
}


@pytest.fixture
def terminal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """Return a terminal whose settings and environment lead to marked secrets beside its folder."""
    secrets, work = tmp_path / "secrets", tmp_path / "work"
    secrets.mkdir()
    work.mkdir()
    monkeypatch.chdir(work)
    terminal = Terminal(work)
    (secrets / "link.secret").write_text(f"{MARK}-link-{'x' * 40}", encoding="ascii")
    (secrets / "chat.url").write_text(f"https://127.0.0.1:9/services/{MARK}", encoding="ascii")
    text = (work / "hud.toml").read_text(encoding="utf-8") + CONFIG
    (work / "hud.toml").write_text(text.replace("file:", f"file:{secrets}/"), encoding="utf-8")
    for name, value in VARIABLES.items():
        monkeypatch.setenv(name, value)
    return terminal


def typed(terminal: Terminal, *arguments: str) -> str:
    """Return all that `hud` says when `arguments` are typed with the secrets around."""
    dependencies = Dependencies(
        make_executor=terminal.make_executor,
        now=terminal.clock,
        env={**VARIABLES, "HUD_LOCK_DIR": str(terminal.folder / "locks")},
        has_gpu=lambda: False,
        probe=terminal.probe,
    )
    result = CliRunner().invoke(main, list(arguments), obj=dependencies, prog_name="hud")
    if result.exception and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.output


def test_no_secret_is_in_store_logs_state_backup_or_output(terminal: Terminal) -> None:
    results = [typed(terminal, "run", "--suite", "mine", "--json", "result.json")]
    store = Store("duckdb:///.hud/store.duckdb", now=terminal.clock)
    opened = Opened(revisions=(Revision(alert=make_alert()),))
    notifications = [
        make_notification(f"n-{name}", receiver=name) for name in ("hook", "chat", "mail")
    ]
    store.revise_alerts(
        lambda _before: opened, by="judge", tell=lambda _before, _decided: notifications
    )
    for arguments in (
        ("--log-format", "json", "alerts", "send"),
        ("alerts", "test"),
        ("alerts", "outbox", "--json"),
        ("db", "backup", "backup.zip"),
        ("regressions", "--json"),
        ("runs", "--store", f"postgresql+psycopg://hud:{MARK}@127.0.0.1:9/hud"),
        ("runs", "--store", f"mysql://hud:{MARK}@h/hud"),
    ):
        results.append(typed(terminal, *arguments))
    # They were tried, and what went wrong was kept.
    assert {item.receiver for item in load_outbox(store) if item.num_attempts} == {
        "hook",
        "chat",
        "mail",
    }
    assert MARK not in "".join(results)
    assert MARK not in json.dumps(contents(store))
    files = [path for path in terminal.folder.rglob("*") if path.is_file()]
    assert {"store.duckdb", "backup.zip", "result.json"} <= {path.name for path in files}
    assert [path for path in files if MARK.encode() in path.read_bytes()] == []


def test_the_environment_is_stored_by_name_alone() -> None:
    from compile_hud.runner.measure.environment_facts import FLAG_VARIABLES

    """What a result keeps of the environment is a list of flags, and none sounds like a secret."""
    words = ("SECRET", "TOKEN", "PASSWORD", "KEY", "CREDENTIAL", "URL")
    assert [name for name in FLAG_VARIABLES if any(word in name for word in words)] == []
