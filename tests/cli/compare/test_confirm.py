"""hud compare --confirm: what became worse is measured again before it counts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from syrupy.assertion import SnapshotAssertion

from compile_hud.runner.toolchains.registry import Probe
from tests.support.fakes import FACTS, FakeExecutor
from tests.support.runs.runs import interrupt, on_case
from tests.support.terminal import CONFIG, Terminal

RUN = ("run", "--suite", "mine", "--no-confirm", "--fail-on", "none", "--json")


class Judged(Terminal):
    """A terminal with two results: `before.json`, and a slower `after.json`."""

    def __init__(self, folder: Path, *, options: tuple[str, ...] = ("--no-store",)) -> None:
        super().__init__(folder)
        assert self.hud(*RUN, "before.json", *options).exit_code == 0
        self.latency_s = 0.020
        assert self.hud(*RUN, "after.json", *options).exit_code == 0
        self.executors.clear()

    def compare(self, *options: str) -> Any:
        return self.hud("compare", "before.json", "after.json", *options)


@pytest.fixture
def terminal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Judged:
    monkeypatch.chdir(tmp_path)
    return Judged(tmp_path)


def test_a_confirmed_suspect_fails(terminal: Judged, words: SnapshotAssertion) -> None:
    result = terminal.compare("--confirm", "2")
    assert result.exit_code == 1
    assert result.stderr == words
    assert result.stdout.count("re-measured: confirmed") == 2
    keys = terminal.executors[0].executed
    assert len(keys) == 4
    # In turn with each other, round by round.
    assert keys[:2] == keys[2:]
    assert len(set(keys)) == 2


def test_an_unconfirmed_suspect_fails_nothing(terminal: Judged) -> None:
    terminal.latency_s = 0.010
    result = terminal.compare("--confirm", "2", "--all")
    assert result.exit_code == 0
    assert result.stdout.count("not confirmed") == 2
    assert "no regressions" in result.stdout


def test_nothing_is_measured_again_by_default(terminal: Judged) -> None:
    assert terminal.compare().exit_code == 1
    assert terminal.executors == []


def test_nothing_is_measured_again_without_a_suspect(terminal: Judged) -> None:
    result = terminal.hud("compare", "before.json", "before.json", "--confirm", "2")
    assert result.exit_code == 0
    assert terminal.executors == []


def test_another_torch_confirms_nothing_and_the_suspects_fail(
    terminal: Judged, words: SnapshotAssertion
) -> None:
    terminal.facts["torch_version"] = "2.14.0"
    result = terminal.compare("--confirm", "2")
    assert result.exit_code == 1
    assert result.stderr == words
    assert terminal.executors[0].executed == []


def test_ctrl_c_ends_it_and_reports_it(terminal: Judged, words: SnapshotAssertion) -> None:
    terminal.on_execute = on_case(1, interrupt)
    result = terminal.compare("--confirm", "2")
    assert result.exit_code == 130
    assert result.stderr == words


def test_a_toolchain_at_the_baselines_revision_takes_turns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: SnapshotAssertion
) -> None:
    monkeypatch.chdir(tmp_path)
    terminal = Terminal(tmp_path)
    terminal.probe = lambda _python: Probe(torch_version="2.13.0+cpu")
    toolchains = '[toolchains]\nbase = "/opt/base/bin/python"\n'
    (tmp_path / "hud.toml").write_text(CONFIG + toolchains)

    def set_up(executor: FakeExecutor, python: Path) -> None:
        if "base" in str(python):
            executor.facts = {**FACTS, "torch_git": "fedcba9876543210"}

    terminal.on_executor = set_up
    run = (*RUN[:-1], "--no-store", "--json")
    assert terminal.hud(*run, "before.json", "--toolchain", "base").exit_code == 0
    terminal.latency_s = 0.020
    assert terminal.hud(*run, "after.json").exit_code == 0
    terminal.executors.clear()
    result = terminal.hud("compare", "before.json", "after.json", "--confirm", "2")
    assert result.stderr == words
    # Both are as slow as each other, measured in turn: the machine was slower, not the torch.
    assert result.exit_code == 0
    sides = [executor.launched for executor in terminal.executors if executor.launched]
    assert len(sides) == 2
    assert sides[0] == sides[1]


def test_two_toolchains_need_no_confirmation(terminal: Judged, words: SnapshotAssertion) -> None:
    result = terminal.hud("compare", *["--toolchain", "current"] * 2, "--confirm", "2")
    assert result.exit_code == 2
    assert result.stderr == words


def test_markdown_shows_the_launches_where_there_are_no_nights(terminal: Judged) -> None:
    assert terminal.compare("--markdown", "out.md").exit_code == 1
    text = Path("out.md").read_text(encoding="utf-8")
    assert "**regression**" in text
    assert "\u2581\u2588" in text
    assert not (terminal.folder / ".hud").exists()


@pytest.mark.nightly
def test_markdown_shows_the_nights_of_the_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    terminal = Judged(tmp_path, options=())
    assert terminal.hud(*RUN, "after.json").exit_code == 0
    terminal.compare("--markdown", "out.md")
    assert "\u2581\u2588\u2588 |" in Path("out.md").read_text(encoding="utf-8")


def test_markdown_that_cannot_be_written_is_reported(
    terminal: Judged, words: SnapshotAssertion
) -> None:
    result = terminal.compare("--markdown", "nowhere/out.md")
    assert result.exit_code == 2
    assert result.stderr == words


def test_a_comment_without_a_pull_request_is_a_warning(
    terminal: Judged, words: SnapshotAssertion
) -> None:
    result = terminal.compare("--comment", "hud")
    assert result.exit_code == 1
    assert result.stderr == words
