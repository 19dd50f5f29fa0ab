"""Suspected regressions of a run are measured again, through `hud run`."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
from syrupy.assertion import SnapshotAssertion

from compile_hud.db.queries.alerts import load_alerts
from compile_hud.db.queries.results import load_document
from compile_hud.db.queries.runs import load_runs
from compile_hud.db.queries.series import find_series
from compile_hud.db.records.alerts import AlertState
from compile_hud.db.records.results import Outcome, Verdict
from compile_hud.runner.config.load import load_config
from compile_hud.runner.detection import confirm
from compile_hud.runner.detection.confirm import confirm_run
from compile_hud.runner.events import Event, LogMessage
from compile_hud.runner.protocol.messages import LaunchReport
from compile_hud.runner.workspace import Dependencies, Workspace
from tests.support.fakes import FACTS, FakeExecutor
from tests.support.runs.nights import LAUNCH_S, OLD_TORCH, Launches, Nights, history, slower
from tests.support.words import replacing_numbers


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("histories")


@pytest.fixture
def words(snapshot: SnapshotAssertion, tmp_path: Path) -> SnapshotAssertion:
    """Return the snapshot of a surface's words, without decimal numbers."""
    return snapshot.with_defaults(matcher=replacing_numbers(tmp_path))


@pytest.fixture
def terminal(tmp_path: Path, made: Path, monkeypatch: pytest.MonkeyPatch) -> Nights:
    monkeypatch.chdir(tmp_path)
    terminal = Nights(tmp_path, made=made)
    terminal.probe = terminal.probe_all
    return terminal


def test_a_slowdown_is_confirmed_in_its_first_night_in_turn_with_the_old_toolchain(
    terminal: Nights,
    words: SnapshotAssertion,
) -> None:
    history(terminal, facts=OLD_TORCH)
    launches = Launches(terminal, slower(0.010, 0.012, 0.012))
    result = terminal.tonight()
    assert result.exit_code == 1, result.output
    alert = terminal.alerts()["latency_cpu_s"]
    assert (alert.state, alert.verdict, alert.is_confirmed) == (
        AlertState.OPEN,
        Verdict.REGRESSION,
        True,
    )
    confirmation = alert.confirmation
    assert confirmation is not None
    assert (confirmation["verdict"], confirmation["method"], confirmation["num_tries"]) == (
        "confirmed",
        "in_turn",
        1,
    )
    assert confirmation["change_pct"] == pytest.approx(20.0, abs=2.0)
    low, high = confirmation["interval_pct"]
    assert low < confirmation["change_pct"] < high
    sides = (confirmation["baseline_side"], confirmation["candidate_side"])
    assert [side["toolchain"] for side in sides] == ["old", "current"]
    assert [side["revision"] for side in sides] == ["2.12.0@fedcba9876", alert.first_bad.revision]
    assert len(sides[0]["launch_levels"]) == sides[0]["num_launches"] == 8
    assert confirmation["seconds"] == pytest.approx(16 * LAUNCH_S)
    # The run itself, then in turn, first one and then the other first.
    names = [name for name, _ in launches.launched]
    assert names == ["new"] * 3 + ["old", "new", "new", "old"] * 4
    assert alert.cause_kind == "eager"
    assert alert.environment_diff == {"torch": ["2.12.0@fedcba9876", alert.first_bad.revision]}
    assert result.stderr == words


def test_what_was_measured_again_is_no_point_of_the_series(terminal: Nights) -> None:
    history(terminal, facts=OLD_TORCH)
    Launches(terminal, slower(0.010, 0.012, 0.012))
    terminal.tonight()
    (header,) = find_series(terminal.store(), metric="latency_cpu_s")
    assert header.num_points == 12
    assert len(load_runs(terminal.store())) == 12


def test_a_confirmed_suspect_stays_until_judged_and_is_notified_once(
    terminal: Nights,
) -> None:
    history(terminal, facts=OLD_TORCH)
    Launches(terminal, slower(0.010, 0.012, 0.012))
    terminal.tonight()
    first = terminal.alerts()
    for _ in range(3):
        terminal.clock.advance(24 * 3600)
        Launches(terminal, slower(0.010, 0.012, 0.012))
        result = terminal.tonight()
        assert result.exit_code == 0, result.output
        assert "regression" not in result.stderr
        alerts = terminal.alerts()
        assert {name: alert.id for name, alert in alerts.items()} == {
            name: alert.id for name, alert in first.items()
        }
        assert {alert.state for alert in alerts.values()} == {AlertState.OPEN}
        assert alerts["latency_cpu_s"].is_confirmed
        assert alerts["latency_cpu_s"].cause_kind == "eager"


@pytest.mark.nightly
def test_a_confirmed_suspect_is_fixed_once_the_level_is_back(terminal: Nights) -> None:
    history(terminal, facts=OLD_TORCH)
    Launches(terminal, slower(0.010, 0.012, 0.012))
    terminal.tonight()
    states = []
    for _ in range(3):
        terminal.clock.advance(24 * 3600)
        Launches(terminal, slower(0.010, 0.010, 0.010))
        assert terminal.tonight().exit_code == 0
        states.append(terminal.alerts()["latency_cpu_s"].state)
    assert states == [AlertState.OPEN, AlertState.OPEN, AlertState.FIXED]


def test_a_refuted_blip_is_stored_and_not_notified(
    terminal: Nights, words: SnapshotAssertion
) -> None:
    history(terminal, facts=OLD_TORCH)
    Launches(terminal, slower(0.010, 0.012, 0.010))
    result = terminal.tonight()
    assert result.exit_code == 0, result.output
    assert "regression" not in result.stderr
    assert result.stderr == words
    alert = terminal.alerts()["latency_cpu_s"]
    assert (alert.state, alert.verdict, alert.is_confirmed) == (
        AlertState.FIXED,
        Verdict.UNCHANGED,
        False,
    )
    assert alert.confirmation is not None
    assert alert.confirmation["change_pct"] == pytest.approx(0.0, abs=1.0)
    assert terminal.json("regressions", "--json") == []


def test_a_level_that_is_bad_under_the_old_toolchain_too_is_not_the_toolchains(
    terminal: Nights,
) -> None:
    terminal.use_references()
    history(terminal, facts=OLD_TORCH)
    Launches(terminal, slower(0.012, 0.012, 0.012))
    assert terminal.tonight().exit_code == 1
    alert = terminal.alerts()["latency_cpu_s"]
    assert alert.is_confirmed
    assert alert.confirmation is not None
    assert alert.confirmation["method"] == "history"
    assert "not the toolchain" in alert.cause_text


def test_without_the_old_toolchain_the_history_confirms(terminal: Nights) -> None:
    terminal.use_references()
    history(terminal)
    launches = Launches(terminal, slower(0.010, 0.012, 0.012))
    result = terminal.tonight()
    assert result.exit_code == 1, result.output
    alert = terminal.alerts()["latency_cpu_s"]
    assert alert.is_confirmed
    assert alert.confirmation is not None
    assert (alert.confirmation["method"], alert.confirmation["baseline_side"]) == ("history", None)
    assert alert.confirmation["candidate_side"]["num_launches"] == 3
    assert alert.cause_kind == "eager"
    assert "old" not in {name for name, _ in launches.launched}
    # The reference cases once more, in one launch each, then the suspect as in the run.
    again = [model for _, model in launches.launched[12:]]
    assert again == ["ref_gemm", "ref_copy", "ref_chain", "net", "net", "net"]


def test_a_toolchain_at_another_commit_is_not_the_old_one(terminal: Nights) -> None:
    terminal.use_references()
    history(terminal, facts=OLD_TORCH)
    terminal.facts_of_old["torch_git"] = "0000000000"
    Launches(terminal, slower(0.010, 0.012, 0.012))
    terminal.tonight()
    confirmation = terminal.alerts()["latency_cpu_s"].confirmation
    assert confirmation is not None
    assert confirmation["method"] == "history"


def test_a_machine_that_got_slower_is_refuted_as_a_regression(
    terminal: Nights, words: SnapshotAssertion
) -> None:
    terminal.use_references()
    history(terminal)
    Launches(terminal, slower(0.010, 0.012, 0.012, references_s=0.006))
    result = terminal.tonight()
    assert result.exit_code == 0, result.output
    alert = terminal.alerts()["latency_cpu_s"]
    assert alert.is_confirmed is False
    assert alert.cause_kind == "machine"
    assert alert.cause_text == words


def test_without_reference_cases_the_history_of_a_time_is_inconclusive(
    terminal: Nights, words: SnapshotAssertion
) -> None:
    history(terminal)
    Launches(terminal, slower(0.010, 0.012, 0.012))
    result = terminal.tonight()
    assert result.exit_code == 0
    assert result.stderr == words
    alert = terminal.alerts()["latency_cpu_s"]
    assert (alert.state, alert.verdict, alert.is_confirmed) == (
        AlertState.FIXED,
        Verdict.INCONCLUSIVE,
        None,
    )
    assert alert.confirmation is not None
    reason = "no reference case tells whether the machine got slower"
    assert alert.confirmation["reason"] == reason


def test_a_confirmation_has_minutes_however_short_its_run_was(
    terminal: Nights, words: SnapshotAssertion
) -> None:
    history(terminal)
    terminal.share = "0.2"
    Launches(terminal, slower(0.010, 0.012, 0.012))
    result = terminal.tonight()
    assert result.stderr == words
    assert terminal.alerts()["latency_cpu_s"].confirmation is not None


def test_cases_beyond_the_time_budget_are_reported_and_not_measured(
    terminal: Nights, monkeypatch: pytest.MonkeyPatch, words: SnapshotAssertion
) -> None:
    monkeypatch.setattr(confirm, "MIN_BUDGET_S", 0.0)
    history(terminal)
    terminal.share = "0.2"
    launches = Launches(terminal, slower(0.010, 0.012, 0.012))
    result = terminal.tonight()
    assert result.exit_code == 0
    assert launches.num_new == 1
    assert result.stderr == words
    assert terminal.alerts() == {}


def test_an_unconfirmed_step_is_notified_and_fails_no_run(
    terminal: Nights, words: SnapshotAssertion
) -> None:
    history(terminal)
    terminal.share = "0"
    codes = []
    for _ in range(3):
        terminal.clock.advance(24 * 3600)
        Launches(terminal, slower(0.010, 0.012, 0.012))
        result = terminal.tonight()
        codes.append(result.exit_code)
    assert codes == [0, 0, 0]
    assert result.stderr == words
    alert = terminal.alerts()["latency_cpu_s"]
    assert (alert.state, alert.is_confirmed) == (AlertState.OPEN, None)
    assert alert.confirmation is not None
    assert (alert.confirmation["method"], alert.confirmation["num_tries"]) == ("none", 0)


@pytest.mark.nightly
def test_a_refuted_step_fails_no_run_and_is_tried_three_times(terminal: Nights) -> None:
    history(terminal, facts=OLD_TORCH)
    tries = []
    for _ in range(4):
        terminal.clock.advance(24 * 3600)
        Launches(terminal, slower(0.010, 0.012, 0.010))
        result = terminal.tonight()
        assert result.exit_code == 0, result.output
        confirmation = terminal.alerts()["latency_cpu_s"].confirmation
        assert confirmation is not None
        tries.append(confirmation["num_tries"])
    assert tries == [1, 2, 3, 3]


def test_no_confirm_measures_nothing_again(terminal: Nights) -> None:
    history(terminal, facts=OLD_TORCH)
    for night in range(3):
        terminal.clock.advance(24 * 3600)
        launches = Launches(terminal, slower(0.010, 0.012, 0.012))
        result = terminal.tonight("--no-confirm")
        assert launches.num_new == 1
        assert result.exit_code == (1 if night == 2 else 0)
    assert terminal.alerts()["latency_cpu_s"].confirmation is None


def test_the_setting_is_overruled_by_the_option(terminal: Nights) -> None:
    history(terminal, facts=OLD_TORCH)
    text = (terminal.folder / "hud.toml").read_text()
    (terminal.folder / "hud.toml").write_text(text.replace("[run]\n", "[run]\nconfirm = false\n"))
    launches = Launches(terminal, slower(0.010, 0.012, 0.012))
    terminal.tonight()
    assert launches.num_new == 1
    terminal.clock.advance(24 * 3600)
    terminal.tonight("--confirm")
    assert "old" in {name for name, _ in launches.launched}


def test_a_case_that_fails_when_it_is_measured_again_has_a_reason(
    terminal: Nights, words: SnapshotAssertion
) -> None:
    history(terminal, facts=OLD_TORCH)
    launches = Launches(terminal, slower(0.010, 0.012, 0.012))
    launches.on_launch = lambda name, number: (
        LaunchReport(outcome=Outcome.FAILED, reason="it broke")
        if (name, number) == ("new", 1)
        else None
    )
    result = terminal.tonight()
    assert result.exit_code == 0
    confirmation = terminal.alerts()["latency_cpu_s"].confirmation
    assert confirmation is not None
    assert confirmation["verdict"] == "inconclusive"
    assert confirmation["reason"] == words


def test_a_toolchain_that_changed_since_the_run_has_nothing_to_say(
    terminal: Nights, words: SnapshotAssertion
) -> None:
    history(terminal, facts=OLD_TORCH)
    launches = Launches(terminal, slower(0.010, 0.012, 0.012))
    usual = launches.on_executor

    def on_executor(executor: FakeExecutor, python: Path) -> None:
        if launches.num_new == 1 and "old" not in str(python):
            executor.facts = {**FACTS, "torch_version": "2.99.0"}
        usual(executor, python)

    terminal.on_executor = on_executor
    result = terminal.tonight()
    assert result.exit_code == 0
    assert result.stderr == words


def test_a_model_missing_in_the_settings_is_reported_without_an_error(terminal: Nights) -> None:
    history(terminal)
    Launches(terminal, slower(0.010, 0.012, 0.012))
    terminal.tonight("--no-confirm")
    text = (terminal.folder / "hud.toml").read_text().replace("[models.net]", "[models.other]")
    path = terminal.folder / "hud.toml"
    path.write_text(text.replace('models = "net"', 'models = "other"'))
    config = load_config(path, env={})
    env = {"HUD_LOCK_DIR": str(terminal.folder / "locks")}
    dependencies = Dependencies(make_executor=terminal.make_executor, now=terminal.clock, env=env)
    events: list[Event] = []
    store = terminal.store()
    report = confirm_run(
        load_document(store, "latest"),
        alerts=load_alerts(store),
        workspace=Workspace(config=config, dependencies=dependencies),
        notify=events.append,
    )
    assert {alert.is_confirmed for alert in report.alerts} == {None}
    assert "no model 'net'" in " ".join(
        event.text for event in events if isinstance(event, LogMessage)
    )


def test_ctrl_c_while_measuring_again_ends_cleanly_and_keeps_the_run(
    terminal: Nights, words: SnapshotAssertion
) -> None:
    history(terminal, facts=OLD_TORCH)
    launches = Launches(terminal, slower(0.010, 0.012, 0.012))

    def press(name: str, _index: int) -> None:
        if name == "old" and launches.launched.count(("old", "net")) == 1:
            os.kill(os.getpid(), signal.SIGINT)

    launches.on_launch = press
    result = terminal.tonight()
    assert result.exit_code == 130, result.output
    assert result.stderr.splitlines()[-1] == (words)
    assert all(executor.is_cancelled for executor in terminal.executors[-2:])
    assert not any(executor.is_open for executor in terminal.executors)
    assert len(load_runs(terminal.store())) == 12
    assert terminal.alerts() == {}


def test_a_failure_is_retried_and_a_flaky_one_is_reported(
    terminal: Nights, words: SnapshotAssertion
) -> None:
    history(terminal)
    launches = Launches(terminal, slower(0.010, 0.010, 0.010))
    launches.on_launch = lambda _name, number: (
        LaunchReport(outcome=Outcome.FAILED, reason="it broke") if number == 0 else None
    )
    result = terminal.tonight()
    # The case did fail, whatever it does later.
    assert result.exit_code == 1
    assert "regression" not in result.stderr
    alert = terminal.alerts()["outcome"]
    assert alert.is_confirmed is False
    assert alert.confirmation is not None
    assert alert.confirmation["reason"] == words


def test_a_failure_that_lasts_is_confirmed(terminal: Nights, words: SnapshotAssertion) -> None:
    history(terminal)
    launches = Launches(terminal, slower(0.010, 0.010, 0.010))
    launches.on_launch = lambda _name, _place: LaunchReport(
        outcome=Outcome.FAILED, reason="it broke"
    )
    result = terminal.tonight()
    assert result.exit_code == 1
    assert result.stderr == words
    assert terminal.alerts()["outcome"].is_confirmed
