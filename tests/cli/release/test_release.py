"""hud release: two toolchains, all cases, one answer."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest
from syrupy.assertion import SnapshotAssertion

from compile_hud.db.queries.runs import load_runs
from compile_hud.db.records.results import Outcome, RunState
from compile_hud.runner.analysis.release.runs import ReleaseRules
from compile_hud.runner.errors import ExecutorError
from compile_hud.runner.execution.executor import CaseOrder
from compile_hud.runner.protocol.graphs import CapturedCase
from tests.support.fakes import FACTS, FakeExecutor
from tests.support.terminal import CONFIG, Terminal

RELEASE = ("release", "stable", "night", "--suite", "mine")
TOOLCHAINS = """
[toolchains]
stable = "/opt/stable/bin/python"
night = "/opt/night/bin/python"
"""


class Pair(Terminal):
    """A terminal with two toolchains, the second one slower by `slowdown`."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.slowdown = 1.0
        self.is_stopping = False

    def make_executor(self, *, python: Path, **values: Any) -> FakeExecutor:
        """Return the fake of the parent, slower under the second toolchain."""
        executor = super().make_executor(python=python, **values)
        executor.facts = {**FACTS, "torch_git": "a" * 40}
        if "night" in str(python):
            executor.latency_s *= self.slowdown
            executor.facts = {**FACTS, "torch_version": "2.14.0", "torch_git": "b" * 40}
        return executor

    def stop_at(self, variant: str) -> None:
        """Press Ctrl-C in the middle of the first case of this variant."""
        self.is_stopping = True

        def on_execute(order: CaseOrder) -> None:
            if self.is_stopping and order.case.variant == variant:
                self.is_stopping = False
                os.kill(os.getpid(), signal.SIGINT)

        self.on_execute = on_execute


@pytest.fixture
def terminal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Pair:
    monkeypatch.chdir(tmp_path)
    terminal = Pair(tmp_path)
    (tmp_path / "hud.toml").write_text(CONFIG + TOOLCHAINS)
    return terminal


def test_equal_toolchains_may_be_shipped(terminal: Pair, words: SnapshotAssertion) -> None:
    result = terminal.hud(*RELEASE)
    assert result.exit_code == 0, result.output
    assert result.stdout == words
    runs = [summary.run for summary in load_runs(terminal.store())]
    assert {run.toolchain for run in runs} == {"stable", "night"}
    assert {run.trigger for run in runs} == {
        ReleaseRules(baseline="stable", candidate="night").trigger
    }
    assert all(run.state is RunState.FINISHED for run in runs)


def test_a_slower_candidate_is_not_shipped(terminal: Pair, words: SnapshotAssertion) -> None:
    terminal.slowdown = 2.0
    result = terminal.hud(*RELEASE)
    assert result.exit_code == 1
    assert result.stdout == words


def test_the_document_names_clusters_and_rows(terminal: Pair) -> None:
    terminal.slowdown = 2.0
    result = terminal.hud(*RELEASE, "--json")
    document = json.loads(result.stdout)
    assert document["sign_off"]["advice"] == "do not ship"
    assert document["sign_off"]["num_regressions"] == document["sign_off"]["num_cases"] == 2
    clustered = [key for cluster in document["clusters"] for key in cluster["cases"]]
    regressed = {
        row["case"]["variant"] for row in document["rows"] if row["verdict"] == "regression"
    }
    assert len(clustered) == len(regressed) == 2
    assert document["commits_url"].endswith(f"{'a' * 40}...{'b' * 40}")
    assert all(cluster["repro"].startswith("hud compare") for cluster in document["clusters"])


def test_the_newest_release_is_shown_again_without_a_launch(terminal: Pair) -> None:
    terminal.slowdown = 2.0
    first = terminal.hud(*RELEASE)
    num = len(terminal.executors)
    again = terminal.hud("release", "stable", "night", "--report")
    assert (again.exit_code, again.stdout) == (1, first.stdout)
    assert len(terminal.executors) == num


SELECTIONS = (("--suite", "mine"), ("--model", "net", "--mode", "eager", "--mode", "default"))


@pytest.mark.parametrize("selection", SELECTIONS, ids=["suite", "custom"])
def test_a_stopped_release_goes_on_with_the_cases_that_are_left(
    terminal: Pair, selection: tuple[str, ...]
) -> None:
    terminal.stop_at("default")
    stopped = terminal.hud("release", "stable", "night", *selection)
    assert stopped.exit_code == 130
    assert "--resume" in stopped.stderr
    num = sum(len(executor.launched) for executor in terminal.executors)
    resumed = terminal.hud("release", "stable", "night", "--resume")
    assert resumed.exit_code == 0, resumed.output
    later = [key for executor in terminal.executors[2:] for key in executor.launched]
    assert num > 0
    assert {key.split("/")[-2] for key in later} == {"default"}
    assert len(load_runs(terminal.store())) == 2


def test_a_failure_of_the_candidate_alone_is_a_regression(terminal: Pair) -> None:
    def break_night(executor: FakeExecutor, python: Path) -> None:
        if "night" in str(python):
            executor.ENDINGS = {"net": Outcome.FAILED}

    terminal.on_executor = break_night
    document = json.loads(terminal.hud(*RELEASE, "--json").stdout)
    assert document["sign_off"]["num_regressions"] == 2


def test_the_report_is_written_as_markdown(terminal: Pair, words: SnapshotAssertion) -> None:
    terminal.slowdown = 2.0
    terminal.hud(*RELEASE, "--markdown", "report.md")
    assert (terminal.folder / "report.md").read_text() == words


def test_a_report_judges_by_the_rules_of_its_release(terminal: Pair) -> None:
    terminal.slowdown = 1.3
    options = ("--fail-above", "60%", "--max-launches", "9")
    assert terminal.hud(*RELEASE, *options).exit_code == 0
    assert terminal.hud("release", "stable", "night", "--report").exit_code == 0
    again = terminal.hud("release", "stable", "night", "--report", "--fail-above", "5%")
    assert again.exit_code == 2
    assert "--fail-above" in again.stderr


def test_a_toolchain_with_an_odd_name_has_a_report(terminal: Pair) -> None:
    text = TOOLCHAINS.replace("night =", '"odd (night) -> x" =')
    (terminal.folder / "hud.toml").write_text(CONFIG + text)
    names = ("release", "stable", "odd (night) -> x")
    first = terminal.hud(*names, "--suite", "mine")
    assert first.exit_code == 0, first.output
    assert terminal.hud(*names, "--report").stdout == first.stdout


def test_nothing_is_shipped_where_all_cases_fail(terminal: Pair) -> None:
    def break_both(executor: FakeExecutor, _python: Path) -> None:
        executor.ENDINGS = {"net": Outcome.FAILED}

    terminal.on_executor = break_both
    assert terminal.hud(*RELEASE).exit_code == 0
    result = terminal.hud(*RELEASE, "--fail-on", "inconclusive", "--json")
    assert result.exit_code == 3
    document = json.loads(result.stdout)
    assert document["sign_off"]["advice"] != "ship"
    assert len(document["failing"]) == document["sign_off"]["num_failing"] == 2


def test_a_finished_release_names_the_command_for_open_cases(terminal: Pair) -> None:
    assert terminal.hud(*RELEASE).exit_code == 0
    result = terminal.hud("release", "stable", "night", "--resume")
    assert result.exit_code == 2
    assert "--settle" in result.stderr


def test_each_cluster_has_a_script_of_its_representative(terminal: Pair) -> None:
    terminal.slowdown = 2.0
    result = terminal.hud(*RELEASE, "--scripts", "scripts/new")
    assert result.exit_code == 1
    scripts = sorted((terminal.folder / "scripts" / "new").iterdir())
    document = json.loads(terminal.hud("release", "stable", "night", "--report", "--json").stdout)
    representatives = [cluster["representative"] for cluster in document["clusters"]]
    titles = [path.read_text().splitlines()[0] for path in scripts]
    assert [title.strip('"').partition(",")[0] for title in titles] == representatives
    assert [path.name in result.stderr for path in scripts] == [True] * len(scripts)


def test_a_script_that_cannot_be_had_is_reported_and_the_report_stands(terminal: Pair) -> None:
    terminal.slowdown = 2.0

    def no_script(executor: FakeExecutor, _python: Path) -> None:
        def graphs(order: CaseOrder) -> CapturedCase:
            raise ExecutorError(f"no script of {order.case.key}: it broke")

        executor.graphs = graphs  # type: ignore[method-assign]

    terminal.on_executor = no_script
    result = terminal.hud(*RELEASE, "--scripts", "scripts")
    assert result.exit_code == 1
    assert "it broke" in result.stderr
    assert not (terminal.folder / "scripts").exists()


@pytest.mark.parametrize(
    "arguments",
    [
        ("release", "stable", "stable"),
        ("release", "stable"),
        ("release", "stable", "nightt"),
        (*RELEASE, "--budget", "soon"),
        (*RELEASE, "--budget", "0m"),
        (*RELEASE, "--report", "--budget", "9h"),
        (*RELEASE, "--resume", "--max-launches", "9"),
        ("release", "stable", "night", "--resume"),
        ("release", "stable", "night", "--report"),
        ("release", "2.12.0", "2.13.0", "--model", "nonesuch"),
    ],
)
def test_what_cannot_be_done_is_one_error_before_any_launch(
    terminal: Pair, arguments: tuple[str, ...], words: SnapshotAssertion
) -> None:
    result = terminal.hud(*arguments)
    assert result.exit_code == 2
    assert result.stderr == words
    assert terminal.executors == []
