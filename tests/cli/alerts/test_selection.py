"""`hud alerts ack` and its relatives decide about alerts that filters select."""

from __future__ import annotations

import dataclasses
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from syrupy.assertion import SnapshotAssertion

from compile_hud.db.queries.alerts import load_alert, load_alerts, load_changes
from compile_hud.db.queries.judge_state import save_judge_states
from compile_hud.db.records.alerts import AlertState, Event, EventKind
from tests.support.builders import START, make_alert, make_case, make_run
from tests.support.stores.stored_results import save_alerts
from tests.support.terminal import Terminal

QUIET = "reduce-overhead"


@pytest.fixture
def terminal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Terminal:
    monkeypatch.chdir(tmp_path)
    terminal = Terminal(tmp_path)
    store = terminal.store()
    store.save_run(make_run())
    save_alerts(
        store,
        [
            make_alert("a6", case=make_case("swin-2"), state="fixed"),
            *(
                dataclasses.replace(alert, event_id=f"e-{alert.case.model}")
                for alert in (
                    make_alert("a1", case=make_case("swin")),
                    make_alert("a2", case=make_case("swin", mode=QUIET)),
                    make_alert("a3", case=make_case("dit", mode=QUIET)),
                    make_alert("a4", case=make_case("dit"), state="acknowledged"),
                    make_alert("a5", case=make_case("swin"), state="noise"),
                )
            ),
        ],
    )
    return terminal


def ids_in(terminal: Terminal, state: AlertState) -> set[str]:
    return {alert.id for alert in load_alerts(terminal.store(), states=[state])}


@pytest.mark.parametrize(
    ("filters", "changed"),
    [
        (["--event", "e-swin"], {"a1", "a2"}),
        (["--event", "e-d"], {"a3"}),
        (["--model", "swin", "--mode", QUIET], {"a2"}),
        (["--model", "sw*"], {"a1", "a2"}),
        (["--mode", "reduce*"], {"a2", "a3"}),
        (["--all-open"], {"a1", "a2", "a3"}),
        (["--all-open", "--model", "dit"], {"a3"}),
    ],
)
def test_filters_select_what_is_ongoing(
    terminal: Terminal, filters: list[str], changed: set[str]
) -> None:
    result = terminal.hud("alerts", "ack", *filters, "--by", "ada", "--why", "one cause")
    assert result.exit_code == 0
    assert ids_in(terminal, AlertState.ACKNOWLEDGED) == changed | {"a4"}
    assert {(item.alert_id, item.by) for item in load_changes(terminal.store())} == {
        (id, "ada") for id in changed
    }


@pytest.mark.parametrize(
    ("filters", "listed"),
    [
        (["--model", "sw*", "--mode", QUIET], {"a2"}),
        (["--state", "all", "--model", "swin"], {"a1", "a2", "a5"}),
        (["--event", "e-d"], {"a3", "a4"}),
        (["--severity", "severe"], {"b1"}),
        (["--severity", "minor", "--model", "d*"], {"b2"}),
        (["--machine", "work*"], {"b1", "b2"}),
        (["--owner", "ada"], {"b1"}),
        (["--text", "driver TRAINING"], {"b2"}),
        (["--text", "acknowledged"], {"a4"}),
        (["--text", "eleven cases"], {"a1", "a2"}),
    ],
)
def test_the_list_takes_the_filters_of_the_page(
    terminal: Terminal, filters: list[str], listed: set[str]
) -> None:
    severe = make_alert("b1", case=make_case("dit"), change_pct=80.0)
    minor = make_alert("b2", case=make_case("dit", phase="training"), change_pct=2.0)
    owned = dataclasses.replace(severe, machine="workstation", owner="ada")
    caused = dataclasses.replace(minor, machine="workstation", cause_text="the driver changed")
    for alert in (owned, caused):
        save_alerts(terminal.store(), [alert])
    event = Event(id="e-swin", kind=EventKind.REVISION, title="eleven cases: slower", size=11)
    save_judge_states(terminal.store(), judged={}, events=[event], event_ids={"e-swin"})
    shown = terminal.json("alerts", "list", *filters, "--json")
    assert {item["id"] for item in shown} == listed


def test_filters_without_a_match_are_named(terminal: Terminal, words: SnapshotAssertion) -> None:
    for filters in (
        ["--machine", "bxo", "--text", "two words"],
        ["--model", "swin", "--severity", "severe"],
        ["--state", "all", "--owner", "eve"],
    ):
        result = terminal.hud("alerts", "list", *filters)
        assert (result.exit_code, result.stdout) == (0, "")
        assert result.stderr == words


def test_the_answer_names_what_changed(terminal: Terminal, words: SnapshotAssertion) -> None:
    assert terminal.hud("alerts", "ack", "--mode", QUIET).stderr == words
    assert terminal.hud("alerts", "ack", "--mode", QUIET).stderr == words
    assert terminal.hud("alerts", "reopen", "--model", "*").stderr == words
    assert ids_in(terminal, AlertState.OPEN) == {"a1", "a2", "a3", "a4", "a5"}
    (shown,) = terminal.json("alerts", "noise", "--model", "dit", "--mode", QUIET, "--json")
    assert (shown["id"], shown["state"]) == ("a3", "noise")


def test_many_alerts_are_counted(terminal: Terminal, words: SnapshotAssertion) -> None:
    more = [make_alert(f"b{number}", case=make_case(f"net{number}")) for number in range(7)]
    save_alerts(terminal.store(), more)
    assert terminal.hud("alerts", "ack", "--all-open").stderr == words


def test_a_mode_is_a_variant_where_one_has_its_name(terminal: Terminal) -> None:
    other = make_alert("c1", case=make_case("swin", variant="fullgraph"))
    save_alerts(terminal.store(), [other])
    terminal.hud("alerts", "ack", "--model", "swin", "--mode", "default")
    assert load_alert(terminal.store(), "c1").state is AlertState.OPEN
    terminal.hud("alerts", "ack", "--mode", "full*")
    assert load_alert(terminal.store(), "c1").state is AlertState.ACKNOWLEDGED


@pytest.mark.parametrize(
    "filters",
    [["--model", "swim"], ["--event", "e"], ["--event", "zz"], ["--all-open", "--mode", "x"]],
)
def test_filters_that_fit_nothing_are_an_error(terminal: Terminal, filters: list[str]) -> None:
    assert terminal.error("alerts", "ack", *filters).code == "not-found"
    assert load_changes(terminal.store()) == ()


def test_nothing_open_is_no_error(terminal: Terminal) -> None:
    terminal.hud("alerts", "noise", "--all-open")
    result = terminal.hud("alerts", "ack", "--all-open")
    assert (result.exit_code, result.stdout) == (0, "")


@pytest.mark.parametrize(
    "arguments",
    [
        ["ack"],
        ["noise", "a1", "--all-open"],
        ["expect", "swin/*#latency_s", "--from", "none", "--all-open"],
        ["expect", "--from", "none"],
    ],
)
def test_ids_and_filters_exclude_each_other(
    terminal: Terminal, arguments: list[str], words: SnapshotAssertion
) -> None:
    result = terminal.hud("alerts", *arguments)
    assert (result.exit_code, result.stderr) == (2, words)


@pytest.mark.parametrize(
    ("until", "end"),
    [
        ("3d", START + timedelta(days=3)),
        ("36h", START + timedelta(hours=36)),
        ("2w", START + timedelta(weeks=2)),
        ("2026-02-01T10:00+02:00", START.replace(month=2, hour=8, minute=0)),
    ],
)
def test_an_acknowledgement_has_an_end(terminal: Terminal, until: str, end: datetime) -> None:
    for command in ("ack", "mute"):
        terminal.clock.moment = START
        terminal.hud("alerts", command, "a1", "--until", until)
        assert load_alert(terminal.store(), "a1").muted_until == end
        terminal.hud("alerts", "mute", "a1", "--until", "none")


@pytest.mark.parametrize(
    "until", ["0d", "3", "3m", "-1d", "999999999w", "2025-01-01", "none", "9" * 5000 + "d"]
)
def test_an_invalid_end_is_refused(
    terminal: Terminal, until: str, words: SnapshotAssertion
) -> None:
    result = terminal.hud("alerts", "ack", "a1", "--until", until)
    assert (result.exit_code, result.stderr) == (2, words)
    assert load_changes(terminal.store()) == ()


@pytest.mark.parametrize(
    "command",
    [
        ("annotate", "add", "2026-01-01", "new\x1b[31m driver"),
        ("annotate", "add", "2026-01-01", "new driver", "--series", "a\x9b*"),
        ("annotate", "add", "2026-01-01", "new driver", "--by", "a\u202ed"),
        ("alerts", "ack", "a1", "--why", "no\x07"),
        ("alerts", "assign", "a1", "a\x1b[31mda"),
        ("import", "missing.json", "--machine", "a\x1b"),
        ("import", "missing.json", "--revision", "a\x1b"),
    ],
)
def test_control_characters_are_not_stored(terminal: Terminal, command: tuple[str, ...]) -> None:
    result = terminal.hud(*command)
    assert result.exit_code == 2
    assert "control characters" in result.stderr
    assert result.stderr.replace("\n", "").isprintable()
