"""The output of `hud regressions`."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

import pytest
from syrupy.assertion import SnapshotAssertion

from compile_hud.db.queries.judge_state import save_judge_states
from compile_hud.db.records.alerts import Alert, Event, EventKind
from tests.support.builders import make_alert, make_case, make_run
from tests.support.stores.stored_results import save_alerts
from tests.support.terminal import Terminal


@pytest.fixture
def terminal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Terminal:
    monkeypatch.chdir(tmp_path)
    return Terminal(tmp_path)


def put_alerts(terminal: Terminal, *alerts: Alert) -> None:
    store = terminal.store()
    store.save_run(make_run())
    save_alerts(store, alerts)


def test_regressions_are_listed_worst_first(terminal: Terminal, words: SnapshotAssertion) -> None:
    put_alerts(
        terminal,
        make_alert("a", change_pct=20.0),
        make_alert("b", case=make_case("gpt2"), change_pct=50.0),
        make_alert("c", case=make_case("vit"), kind="outcome", metric="outcome", unit=""),
        make_alert("d", case=make_case("t5"), state="fixed"),
        make_alert("e", case=make_case("moe"), verdict="improvement", change_pct=-60.0),
    )
    lines = terminal.hud("regressions").stdout.splitlines()
    assert [line.split()[:2] for line in lines[1:]] == [
        ["c", "vit/inference/tiny/fp32/default/cpu"],
        ["b", "gpt2/inference/tiny/fp32/default/cpu"],
        ["a", "bert/inference/tiny/fp32/default/cpu"],
    ]
    assert re.sub(" +", " ", lines[3]) == (words)
    assert [item["id"] for item in terminal.json("regressions", "--json")] == ["c", "b", "a"]
    fixed = terminal.json("regressions", "--state", "fixed", "--json")
    assert [item["id"] for item in fixed] == ["d"]
    assert len(terminal.json("regressions", "--state", "all", "--json")) == 5


def test_a_drift_and_noise_are_listed_as_such(terminal: Terminal) -> None:
    put_alerts(
        terminal,
        make_alert("a", kind="drift"),
        make_alert("b", kind="variance", verdict="inconclusive", change_pct=10.0),
    )
    lines = terminal.hud("regressions", "--state", "all").stdout.splitlines()[1:]
    assert [re.split("  +", line)[2] for line in lines] == [
        "latency (drift)",
        "latency (noise)",
    ]
    shown = terminal.hud("alerts", "show", "a").stdout
    assert re.search("^metric +latency [(]drift[)]$", shown, re.MULTILINE)


def test_a_regression_in_json_has_a_repro_command_and_an_address(
    terminal: Terminal, words: SnapshotAssertion
) -> None:
    put_alerts(terminal, make_alert())
    (alert,) = terminal.json("regressions", "--json")
    assert alert["repro"] == words
    assert alert["url"] == (
        "http://127.0.0.1:8501/series?case=bert%2Finference%2Ftiny%2Ffp32%2Fdefault%2Fcpu"
        "&metric=latency_s&machine=box&toolchain=stable"
    )
    assert alert["toolchain"] == "stable"
    assert alert["repro"].endswith("--toolchain stable")


def test_regressions_name_the_toolchain_where_there_are_several(terminal: Terminal) -> None:
    put_alerts(terminal, make_alert("a"))
    assert "toolchain" not in terminal.hud("regressions").stdout
    put_alerts(terminal, make_alert("b", toolchain="nightly"))
    heading, *lines = terminal.hud("regressions").stdout.splitlines()
    assert heading.split()[:4] == ["id", "case", "toolchain", "metric"]
    assert sorted(line.split()[2] for line in lines) == ["nightly", "stable"]


def test_a_table_names_the_machine_where_there_are_several(terminal: Terminal) -> None:
    put_alerts(terminal, make_alert("a"))
    assert "machine" not in terminal.hud("regressions").stdout
    put_alerts(terminal, dataclasses.replace(make_alert("b"), machine="workstation"))
    for command in (("regressions",), ("alerts", "list"), ("alerts", "ack", "--all-open")):
        heading, *lines = terminal.hud(*command).stdout.splitlines()
        assert heading.split()[:4] == ["id", "case", "machine", "metric"], command
        assert sorted(line.split()[2] for line in lines) == ["box", "workstation"]


def test_the_confirmation_is_shown_next_to_the_verdict(
    terminal: Terminal, words: SnapshotAssertion
) -> None:
    confirmation = {"verdict": "refuted", "method": "in_turn", "reason": "both are alike"}
    refuted = dataclasses.replace(
        make_alert("aaa1"),
        confirmation={**confirmation, "baseline_side": {"toolchain": "old"}},
        is_confirmed=False,
        environment_diff={"torch": ["2.12", "2.13"]},
    )
    unmeasured = dataclasses.replace(
        make_alert("bbb2", case=make_case("gpt2")), confirmation={**confirmation, "method": "none"}
    )
    put_alerts(terminal, refuted, unmeasured)
    lines = terminal.hud("regressions").stdout.splitlines()
    assert ["regression, refuted" in line for line in sorted(lines[1:])] == [True, False]
    listed = {item["id"]: item for item in terminal.json("regressions", "--json")}
    assert listed["aaa1"]["confirmed"] is False
    assert listed["aaa1"]["confirmation"]["reason"] == "both are alike"
    assert listed["aaa1"]["environment_diff"] == {"torch": ["2.12", "2.13"]}
    shown = terminal.hud("alerts", "show", "aaa1").stdout
    assert shown == words


def test_no_regression_is_reported(terminal: Terminal) -> None:
    terminal.store().save_run(make_run())
    text = "no alert in the store .hud/store.duckdb yet\n"
    assert terminal.hud("regressions").stderr == text
    put_alerts(terminal, make_alert("a", state="noise"))
    text = "no alert in state open in the store .hud/store.duckdb; --state all lists every one\n"
    assert terminal.hud("regressions").stderr == text


def test_regressions_take_the_filters_of_the_alert_list(terminal: Terminal) -> None:
    put_alerts(terminal, make_alert("a"), make_alert("b", case=make_case("vit")))
    (shown,) = terminal.json("regressions", "--model", "vit", "--json")
    assert shown["id"] == "b"


def test_alerts_of_one_event_are_one_notification(
    terminal: Terminal, words: SnapshotAssertion
) -> None:
    event = Event(id="e", kind=EventKind.REVISION, title="2 of 9 cases: slower", size=2)
    save_judge_states(terminal.store(), judged={}, events=[event], event_ids={"e"})
    together = [make_alert("a"), make_alert("b", case=make_case("vit"))]
    put_alerts(
        terminal,
        make_alert("c", case=make_case("t5")),
        *(dataclasses.replace(alert, event_id="e") for alert in together),
    )
    lines = terminal.hud("regressions").stdout.splitlines()
    assert lines[-1] == words
    events = {item["id"]: item["event"] for item in terminal.json("regressions", "--json")}
    event_fields = {"id": "e", "kind": "revision", "title": "2 of 9 cases: slower", "size": 2}
    assert events == {"a": event_fields, "b": event_fields, "c": None}
