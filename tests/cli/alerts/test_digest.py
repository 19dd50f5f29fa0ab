"""`hud alerts digest` shows or sends what a receiver would hear, if there is anything to say."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from syrupy.assertion import SnapshotAssertion

from benchmarks.receiving import receiving
from compile_hud.db.alerts.outbox import load_outbox
from tests.support.builders import make_alert, make_case, make_run
from tests.support.stores.stored_results import save_alerts
from tests.support.terminal import CONFIG, Terminal


@pytest.fixture
def terminal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Terminal:
    monkeypatch.chdir(tmp_path)
    terminal = Terminal(tmp_path)
    terminal.store().save_run(make_run())
    return terminal


def configure(terminal: Terminal, url: str) -> None:
    receivers = f'[receivers.ops]\nurl = "{url}"\nallow_private = true\n[receivers.vits]\n'
    routes = f'url = "{url}"\nallow_private = true\n[routes.v]\nreceivers = "vits"\nmodels = "vi*"'
    (terminal.folder / "hud.toml").write_text(f"{CONFIG}{receivers}{routes}\n")


def test_a_dry_run_prints_the_digest_of_each_receiver(
    terminal: Terminal, words: SnapshotAssertion
) -> None:
    save_alerts(terminal.store(), [make_alert("a"), make_alert("b", state="fixed")])
    with receiving() as inbox:
        configure(terminal, inbox.url)
        result = terminal.hud("alerts", "digest", "--dry-run")
        (of_ops, of_vits) = terminal.json("alerts", "digest", "--dry-run", "--json")
        assert len(terminal.json("alerts", "digest", "o*", "--dry-run", "--json")) == 1
    assert (result.exit_code, result.stdout) == (0, words)
    assert (of_ops["is_empty"], of_ops["weekly"]["open"], of_ops["answer"]) == (False, ["a"], None)
    assert (of_vits["receiver"], of_vits["is_empty"]) == ("vits", True)
    assert inbox.requests == []
    assert load_outbox(terminal.store()) == ()


def test_without_receivers_a_dry_run_prints_all_alerts(
    terminal: Terminal, words: SnapshotAssertion
) -> None:
    assert terminal.hud("alerts", "digest", "--dry-run").stdout == words
    save_alerts(terminal.store(), [make_alert("a", case=make_case("dit"))])
    assert terminal.hud("alerts", "digest", "--dry-run").stdout == words
    assert terminal.hud("alerts", "digest").stdout == ""


def test_a_digest_is_sent_to_those_who_have_something_to_hear(
    terminal: Terminal, words: SnapshotAssertion
) -> None:
    save_alerts(terminal.store(), [make_alert("a")])
    with receiving() as inbox:
        configure(terminal, inbox.url)
        result = terminal.hud("alerts", "digest")
    assert (result.exit_code, result.stdout) == (0, words)
    (request,) = inbox.requests
    (notification,) = json.loads(request.body)["data"]["notifications"]
    assert notification["weekly"]["open"] == ["a"]


def test_a_receiver_that_fails_is_an_exit_code(terminal: Terminal) -> None:
    save_alerts(terminal.store(), [make_alert("a")])
    configure(terminal, "http://127.0.0.1:9/")
    assert terminal.hud("alerts", "digest").exit_code == 1
