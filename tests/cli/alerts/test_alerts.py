"""`hud alerts`: people decide, and see what was decided."""

from __future__ import annotations

import dataclasses
import getpass
import json
import re
from datetime import datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import NoReturn

import pytest
from syrupy.assertion import SnapshotAssertion

from compile_hud.db.queries.alerts import load_alert, load_changes, load_series_settings
from compile_hud.db.records.alerts import Alert
from compile_hud.db.records.kernels import KernelSource
from compile_hud.db.shared.model_code import MODEL_COMMITS, code_change_text
from compile_hud.db.shared.model_sources import MODEL_LANGUAGE, MODEL_SOURCES, to_text
from compile_hud.db.store import Store
from tests.support.builders import START, make_alert, make_case, make_result, make_run
from tests.support.stores.stored_results import save_alerts
from tests.support.terminal import Terminal

PATTERN = "bert/*#latency_s"


@pytest.fixture
def terminal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Terminal:
    monkeypatch.chdir(tmp_path)
    terminal = Terminal(tmp_path)
    store = terminal.store()
    store.save_run(make_run())
    save_alerts(
        store,
        [
            make_alert("aaa1"),
            make_alert("aaa2", case=make_case("gpt2"), change_pct=50.0),
            make_alert("bbb1", case=make_case("vit"), state="fixed"),
            make_alert(
                "bbb2",
                case=make_case("t5"),
                verdict="improvement",
                state="acknowledged",
                change_pct=-20.0,
            ),
        ],
    )
    return terminal


def alert_of(terminal: Terminal, id: str) -> Alert:
    return load_alert(terminal.store(), id)


def columns(line: str) -> str:
    return re.sub("  +", " | ", line)


def test_ongoing_alerts_are_listed_largest_change_first(
    terminal: Terminal, words: SnapshotAssertion
) -> None:
    heading, *lines = terminal.hud("alerts", "list").stdout.splitlines()
    assert columns(heading) == (words)
    assert [line.split()[0] for line in lines] == ["aaa2", "aaa1", "bbb2"]
    every = terminal.json("alerts", "list", "--state", "all", "--json")
    assert [item["id"] for item in every] == ["aaa2", "aaa1", "bbb2", "bbb1"]
    assert {"owner", "muted_until", "note", "event_id", "url", "repro"} <= set(every[0])


def test_alerts_of_an_owner_are_listed(terminal: Terminal, words: SnapshotAssertion) -> None:
    assert terminal.hud("alerts", "assign", "aaa1", "ada").exit_code == 0
    (mine,) = terminal.json("alerts", "list", "--owner", "ada", "--json")
    assert mine["id"] == "aaa1"
    heading, line = terminal.hud("alerts", "list", "--owner", "ada").stdout.splitlines()
    assert columns(heading).split(" | ")[4] == "owner"
    assert columns(line).split(" | ")[4] == "ada"
    nobody = terminal.hud("alerts", "list", "--owner", "eve")
    assert nobody.stdout == ""
    assert nobody.stderr == words


def test_comments_are_stored_with_the_changes_and_decide_nothing(terminal: Terminal) -> None:
    result = terminal.hud("alerts", "comment", "aaa1", "aaa2", "--why", "asked", "--by", "ada")
    assert result.exit_code == 0
    notes = [(item.by, item.field, item.new) for item in load_changes(terminal.store())]
    assert notes == [("ada", "comment", "asked")] * 2
    assert {str(alert_of(terminal, id).state) for id in ("aaa1", "aaa2")} == {"open"}
    assert "comment" in terminal.hud("alerts", "log", "aaa1").stdout


def test_empty_comment_is_refused(terminal: Terminal, words: SnapshotAssertion) -> None:
    result = terminal.hud("alerts", "comment", "aaa1", "--why", " ")
    assert result.exit_code == 2
    assert result.stderr == words
    assert load_changes(terminal.store()) == ()


@pytest.mark.parametrize(
    ("command", "state"),
    [("ack", "acknowledged"), ("expect", "expected"), ("noise", "noise")],
)
def test_a_state_is_set_with_author_and_reason_and_taken_back(
    terminal: Terminal, command: str, state: str
) -> None:
    (change,) = terminal.json("alerts", command, "aaa1", "--by", "ada", "--why", "known", "--json")
    assert (change["id"], change["state"], change["note"]) == ("aaa1", state, "known")
    taken_back = terminal.hud("alerts", "reopen", "aaa1", "--by", "bob")
    assert taken_back.stderr.count("bert default latency") == 1
    changes = load_changes(terminal.store(), alert_id="aaa1")
    assert [(item.by, item.old, item.new, item.why) for item in changes] == [
        ("ada", "open", state, "known"),
        ("bob", state, "open", ""),
    ]
    assert terminal.hud("alerts", "reopen", "aaa1").stderr == "nothing to change\n"


def test_reopen_lifts_the_mutes_of_ack_and_names_them(
    terminal: Terminal, words: SnapshotAssertion
) -> None:
    terminal.hud("alerts", "ack", "aaa1", "aaa2", "--until", "2026-02-01T07:30")
    reopened = terminal.hud("alerts", "reopen", "aaa1", "bbb2", "--by", "bob")
    assert reopened.stderr == words
    assert alert_of(terminal, "aaa1").muted_until is None
    assert alert_of(terminal, "aaa2").muted_until is not None
    changes = load_changes(terminal.store(), alert_id="aaa1")
    assert [(str(item.field), item.new) for item in changes if item.by == "bob"] == [
        ("state", "open"),
        ("muted_until", ""),
    ]


def test_reopen_says_how_to_lift_the_mute_of_an_open_alert(
    terminal: Terminal, words: SnapshotAssertion
) -> None:
    terminal.hud("alerts", "mute", "aaa2", "--until", "2026-03-01")
    assert terminal.hud("alerts", "reopen", "aaa2").stderr == words
    assert alert_of(terminal, "aaa2").muted_until is not None


def test_without_a_name_the_user_of_the_machine_decides(terminal: Terminal) -> None:
    terminal.hud("alerts", "ack", "aaa1")
    assert load_changes(terminal.store())[0].by == getpass.getuser()


def test_user_without_a_name_is_a_number(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    def nameless() -> NoReturn:
        raise KeyError("getpwuid(): uid not found: 4711")

    monkeypatch.setattr(getpass, "getuser", nameless)
    monkeypatch.setattr("os.getuid", lambda: 4711)
    terminal.hud("alerts", "ack", "aaa1")
    assert load_changes(terminal.store())[0].by == "uid 4711"


def test_a_user_with_the_name_of_the_judge_is_no_judge(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(getpass, "getuser", lambda: "Judge")
    terminal.hud("alerts", "ack", "aaa1")
    assert load_changes(terminal.store())[0].by == "user Judge"


@pytest.mark.parametrize("name", ["", " ", "judge", "JUDGE "])
def test_name_that_is_no_person_is_refused(
    terminal: Terminal, name: str, words: SnapshotAssertion
) -> None:
    result = terminal.hud("alerts", "ack", "aaa1", "--by", name)
    assert result.exit_code == 2
    assert result.stderr == words


def test_several_alerts_are_decided_at_once_or_none(
    terminal: Terminal, words: SnapshotAssertion
) -> None:
    assert terminal.hud("alerts", "ack", "aaa1", "aaa2").stderr.startswith(
        "2 alerts acknowledged: "
    )
    refused = terminal.hud("alerts", "expect", "aaa1", "bbb1")
    assert refused.exit_code == 2
    assert refused.stderr == (words)
    assert alert_of(terminal, "aaa1").state == "acknowledged"


@pytest.mark.parametrize("command", ["ack", "show", "log"])
def test_id_that_names_no_alert_or_several_is_one_clear_line(
    terminal: Terminal, command: str, words: SnapshotAssertion
) -> None:
    several = terminal.hud("alerts", command, "aaa")
    assert several.exit_code == 2
    assert several.stderr == (words)
    unknown = terminal.hud("alerts", command, "zzz")
    assert unknown.stderr == (words)


def test_alert_is_muted_until_a_day_and_shown_as_muted(terminal: Terminal) -> None:
    terminal.hud("alerts", "mute", "aaa1", "--until", "2026-02-01")
    assert alert_of(terminal, "aaa1").muted_until == START.replace(month=2, hour=0, minute=0)
    line = next(line for line in terminal.hud("regressions").stdout.splitlines() if "aaa1" in line)
    assert "open, muted until 2026-02-01 00:00" in line
    terminal.clock.moment = START + timedelta(days=60)
    assert "muted" not in terminal.hud("regressions").stdout
    terminal.hud("alerts", "mute", "aaa1", "--until", "none")
    assert alert_of(terminal, "aaa1").muted_until is None


def test_end_of_a_mute_may_have_a_time_and_a_zone(terminal: Terminal) -> None:
    terminal.hud("alerts", "mute", "aaa1", "--until", "2026-02-01T10:00+02:00")
    assert alert_of(terminal, "aaa1").muted_until == START.replace(month=2, hour=8, minute=0)


@pytest.mark.parametrize(
    "until",
    [
        "soon",
        "2025-01-01",
    ],
)
def test_an_invalid_end_of_a_mute_is_refused(
    terminal: Terminal, until: str, words: SnapshotAssertion
) -> None:
    result = terminal.hud("alerts", "mute", "aaa1", "--until", until)
    assert result.exit_code == 2
    assert result.stderr == words


def test_series_have_floor_mute_owner_and_baseline(
    terminal: Terminal, words: SnapshotAssertion
) -> None:
    assert terminal.hud("alerts", "series").stderr == words
    (change,) = terminal.json("alerts", "floor", PATTERN, "8%", "--why", "bimodal", "--json")
    assert change["floor"] == pytest.approx(0.08)
    terminal.hud("alerts", "assign", PATTERN, "ada")
    terminal.hud("alerts", "mute", PATTERN, "--until", "2026-02-01")
    terminal.hud("alerts", "expect", PATTERN, "--from", "run")
    heading, line = terminal.hud("alerts", "series").stdout.splitlines()
    assert columns(heading) == words
    assert columns(line) == f"{PATTERN} | 8.00% | 2026-02-01 00:00 | ada | run-1"
    assert terminal.json("alerts", "series", "--json") == [
        item.to_json() for item in load_series_settings(terminal.store())
    ]
    alert = alert_of(terminal, "aaa1")
    assert (alert.owner, alert.muted_until is None) == ("ada", False)
    assert alert_of(terminal, "aaa2").owner == ""
    for command in (
        ("floor", PATTERN, "none"),
        ("assign", PATTERN, "none"),
        ("mute", PATTERN, "--until", "none"),
        ("expect", PATTERN, "--from", "none"),
    ):
        terminal.hud("alerts", *command)
    line = terminal.hud("alerts", "series").stdout.splitlines()[1]
    assert columns(line) == f"{PATTERN} | - | - | - | -"


def test_a_pattern_that_still_applies_is_reported_on_release_of_a_series(
    terminal: Terminal,
    words: SnapshotAssertion,
) -> None:
    key = alert_of(terminal, "aaa1").series_key
    terminal.hud("alerts", "floor", "bert/*", "8%")
    terminal.hud("alerts", "floor", key, "9%")
    holds = (
        "the floor of 'bert/*', 8.00%, holds for 1 of these series: change it there, or give"
        " another one here\n"
    )
    taken_back = terminal.hud("alerts", "floor", key, "none")
    assert taken_back.stderr == words
    again = terminal.hud("alerts", "floor", key, "none", "--json")
    assert (json.loads(again.stdout)[0]["floor"], again.stderr) == (None, holds)
    assert terminal.hud("alerts", "floor", key, "none").stderr == f"nothing to change\n{holds}"
    assert terminal.hud("alerts", "assign", key, "none").stderr == "nothing to change\n"


def test_an_expired_mute_applies_to_no_series(terminal: Terminal, words: SnapshotAssertion) -> None:
    key = alert_of(terminal, "aaa1").series_key
    terminal.hud("alerts", "mute", "bert/*", "--until", "2026-02-01")
    muted = terminal.hud("alerts", "mute", key, "--until", "none")
    assert muted.stderr == words
    terminal.clock.moment = START + timedelta(days=60)
    assert terminal.hud("alerts", "mute", key, "--until", "none").stderr == "nothing to change\n"


def test_what_is_set_already_is_nothing_to_change(terminal: Terminal) -> None:
    terminal.hud("alerts", "floor", PATTERN, "8%")
    assert terminal.hud("alerts", "floor", PATTERN, "8%").stderr == "nothing to change\n"
    assert len(load_changes(terminal.store())) == 1


def test_key_of_a_series_names_it_as_well(terminal: Terminal) -> None:
    key = alert_of(terminal, "aaa1").series_key
    assert terminal.hud("alerts", "floor", key, "0.1").exit_code == 0
    assert load_series_settings(terminal.store())[0].pattern == key


@pytest.mark.parametrize(
    "command",
    [("floor", "5%"), ("assign", "ada"), ("mute", "--until", "2030-01-01"), ("expect", "--from")],
)
def test_pattern_that_fits_no_series_is_refused(
    terminal: Terminal, command: tuple[str, ...], words: SnapshotAssertion
) -> None:
    name, *rest = command
    if name == "expect":
        rest = ["--from", "latest"]
    result = terminal.hud("alerts", name, "berd/*", *rest)
    assert result.exit_code == 2
    assert result.stderr == words


def test_floor_that_is_no_percentage_is_refused(
    terminal: Terminal, words: SnapshotAssertion
) -> None:
    result = terminal.hud("alerts", "floor", PATTERN, "much")
    assert result.exit_code == 2
    assert result.stderr == words


@pytest.mark.parametrize("least", ["-5%", "-0.05"])
def test_floor_with_a_sign_is_refused_as_a_floor(
    terminal: Terminal, least: str, words: SnapshotAssertion
) -> None:
    result = terminal.hud("alerts", "floor", PATTERN, least)
    assert result.exit_code == 2
    assert result.stderr == words
    typo = terminal.hud("alerts", "floor", PATTERN, "5%", "--wy", "noise")
    assert "--wy" in typo.stderr
    assert typo.stderr == words


def test_one_alert_is_shown_with_its_changes(terminal: Terminal, words: SnapshotAssertion) -> None:
    terminal.hud("alerts", "assign", "aaa1", "ada", "--by", "bob", "--why", "knows bert")
    lines = terminal.hud("alerts", "show", "aaa1").stdout.splitlines()
    assert [columns(line) for line in lines[:8]] == words
    assert columns(lines[-1]) == (words)
    content = terminal.json("alerts", "show", "aaa1", "--json")
    assert content["id"] == "aaa1"
    assert [change["by"] for change in content["changes"]] == ["bob"]


def test_code_that_changed_with_an_alert_is_shown_with_its_diff(terminal: Terminal) -> None:
    alert = alert_of(terminal, "aaa1")
    assert terminal.json("alerts", "show", "aaa1", "--json")["model_code"] is None
    ends = []
    for text in ("scale = 1.5\n", "scale = 2.5\n"):
        name = f"code-{len(ends)}"
        source = KernelSource(
            hash=name, language=MODEL_LANGUAGE, text=to_text({"net.py": text}, is_cut=False)
        )
        facts = {MODEL_COMMITS: {"bert": name}, MODEL_SOURCES: {"bert": name}}
        run = dataclasses.replace(make_run(name), environment=facts)
        result = make_result(name, run=run, case=alert.case)
        terminal.store().ingest(run, dataclasses.replace(result, sources=(source,)), spool_id=name)
        ends.append(dataclasses.replace(alert.first_bad, run_id=name))
    save_alerts(
        terminal.store(), [dataclasses.replace(alert, last_good=ends[0], first_bad=ends[1])]
    )
    shown = terminal.hud("alerts", "show", "aaa1").stdout
    assert f"{code_change_text('code-0', 'code-1')}:\n  --- baseline/net.py\n" in shown
    assert "  -scale = 1.5\n  +scale = 2.5\n" in shown
    content = terminal.json("alerts", "show", "aaa1", "--json")["model_code"]
    assert content["model"] == "bert"
    assert content["diff"][-3:-1] == ["-scale = 1.5", "+scale = 2.5"]


def test_log_has_alerts_and_series(terminal: Terminal, words: SnapshotAssertion) -> None:
    assert terminal.hud("alerts", "log").stderr == words
    terminal.hud("alerts", "ack", "aaa1", "--by", "ada", "--why", "on it")
    terminal.hud("alerts", "mute", PATTERN, "--until", "2026-02-01", "--by", "ada")
    terminal.hud("alerts", "floor", PATTERN, "8%", "--by", "ada")
    heading, *lines = terminal.hud("alerts", "log").stdout.splitlines()
    assert columns(heading) == words
    assert [columns(line) for line in lines] == words
    assert len(terminal.json("alerts", "log", "--json")) == 3
    (change,) = terminal.json("alerts", "log", "aaa1", "--json")
    assert (change["field"], change["new"], change["why"]) == ("state", "acknowledged", "on it")


def test_log_is_replayed_in_another_store(terminal: Terminal, words: SnapshotAssertion) -> None:
    terminal.hud("alerts", "ack", "aaa1", "--by", "ada", "--why", "on it")
    terminal.hud("alerts", "ack", "aaa2", "--by", "ada")
    terminal.hud("alerts", "floor", PATTERN, "8%")
    log = terminal.folder / "log.json"
    log.write_text(terminal.hud("alerts", "log", "--json").stdout)
    again = ("--store", str(terminal.folder / "again.duckdb"))
    other = Store(f"duckdb:///{terminal.folder}/again.duckdb")
    save_alerts(other, [make_alert("aaa1")])
    result = terminal.hud("alerts", "replay", str(log), *again)
    assert result.stdout == words
    assert result.stderr == words
    assert load_alert(other, "aaa1").note == "on it"
    assert terminal.json("alerts", "replay", str(log), *again, "--json") == {
        "replayed": 0,
        "left_out": 1,
    }


def test_file_that_is_no_log_is_refused(terminal: Terminal, words: SnapshotAssertion) -> None:
    (terminal.folder / "log.json").write_text("{}")
    result = terminal.hud("alerts", "replay", "log.json")
    assert result.exit_code == 2
    assert result.stderr == (words)


@pytest.mark.parametrize(
    "wrong",
    [
        {"by": 7},
        {"new": "much"},
        {"new": "nan"},
        {"field": "state", "new": "good"},
        {"field": "muted_until", "new": "soon"},
    ],
)
def test_change_that_cannot_be_replayed_is_reported_with_file_and_number(
    terminal: Terminal, wrong: dict[str, object], words: SnapshotAssertion
) -> None:
    terminal.hud("alerts", "floor", PATTERN, "8%")
    (change,) = terminal.json("alerts", "log", "--json")
    (terminal.folder / "log.json").write_text(json.dumps([change, {**change, **wrong}]))
    result = terminal.hud("alerts", "replay", "log.json")
    assert result.exit_code == 2
    assert result.stderr == words


@pytest.mark.parametrize(
    ("muted_until", "is_notified"),
    [(START + timedelta(days=30), False), (START, True), (None, True)],
)
def test_a_muted_alert_is_not_notified_and_fails_no_run(
    terminal: Terminal,
    monkeypatch: pytest.MonkeyPatch,
    muted_until: datetime | None,
    is_notified: bool,
) -> None:
    alert = dataclasses.replace(make_alert(toolchain="current"), muted_until=muted_until)
    report = SimpleNamespace(new=[alert], alerts=[alert], events={}, unjudged=())
    monkeypatch.setattr("compile_hud.runner.cli.run.after_run.detect", lambda _store, **_: report)
    result = terminal.hud("run", "--suite", "mine", "--no-confirm")
    assert ("regression: bert/" in result.stderr) is is_notified
    assert result.exit_code == int(is_notified)
