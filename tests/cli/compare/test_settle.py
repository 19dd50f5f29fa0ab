"""hud compare --settle and --fail-on: what happens to comparisons that cannot tell."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.support.fakes import FACTS, FakeExecutor
from tests.support.terminal import Terminal

RUN = ("run", "--suite", "mine", "--no-confirm", "--fail-on", "none")


class Undecided(Terminal):
    """A terminal with two results between which 4 % lie: too little to tell from noise."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        for name, latency_s in (("before", 0.0100), ("after", 0.0104)):
            self.latency_s = latency_s
            assert self.hud(*RUN, "--no-store", "--json", f"{name}.json").exit_code == 0
        self.executors.clear()

    def compare(self, *options: str) -> Any:
        return self.hud("compare", "before.json", "after.json", *options)


@pytest.fixture
def terminal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Undecided:
    monkeypatch.chdir(tmp_path)
    return Undecided(tmp_path)


def test_an_undecided_comparison_reports_the_detectable_change(terminal: Undecided) -> None:
    document = json.loads(terminal.compare("--json").stdout)
    (resolution,) = document["resolution"]
    assert resolution["num_inconclusive"] == resolution["num_compared"] == 2
    assert resolution["could_have_seen_pct"] > 5
    assert resolution["launches_to_settle"] >= 4
    assert document["noise"] == {"table": 2}
    rows = [row for row in document["rows"] if row["metric"] == "latency_s"]
    assert all(row["verdict"] == "inconclusive" and row["noise"] == "table" for row in rows)
    assert all(0 < row["p_value"] <= row["q_value"] <= 1 for row in rows)
    assert terminal.compare().stdout.count("undecided ") == 1


@pytest.mark.parametrize(
    ("options", "exit_code"),
    [((), 0), (("--fail-on", "regression"), 0), (("--fail-on", "inconclusive"), 3)],
)
def test_an_undecided_comparison_fails_on_request(
    terminal: Undecided, options: tuple[str, ...], exit_code: int
) -> None:
    assert terminal.compare(*options).exit_code == exit_code


def test_a_regression_fails_before_what_cannot_be_told(terminal: Undecided) -> None:
    terminal.latency_s = 0.030
    assert terminal.hud(*RUN, "--no-store", "--json", "slow.json").exit_code == 0
    options = ("--fail-on", "inconclusive")
    assert terminal.hud("compare", "before.json", "slow.json", *options).exit_code == 1


def test_a_result_against_itself_is_identical(terminal: Undecided) -> None:
    result = terminal.hud("compare", "before.json", "before.json", "--json")
    assert result.exit_code == 0
    assert {row["verdict"] for row in json.loads(result.stdout)["rows"]} == {"identical"}


def test_undecided_cases_are_launched_in_turn(terminal: Undecided) -> None:
    result = terminal.compare("--settle", "1")
    assert result.exit_code == 0, result.output
    # Both sides are launched, and the case that is slower in the files is not.
    (launched,) = [executor.launched for executor in terminal.executors if executor.launched]
    assert {num % 2 for num in Counter(launched).values()} == {0}
    assert len(set(launched)) == 2
    document = json.loads(terminal.compare("--settle", "--json").stdout)
    verdicts = [row["verdict"] for row in document["rows"] if row["metric"] == "latency_s"]
    assert verdicts == ["identical", "identical"]


def test_the_candidate_is_launched_alone_where_the_baseline_is_gone(
    terminal: Undecided,
) -> None:
    def set_up(executor: FakeExecutor, _python: Path) -> None:
        executor.facts = {**FACTS, "torch_git": "fedcba9876543210"}

    terminal.on_executor = set_up
    assert terminal.hud(*RUN, "--no-store", "--json", "other.json").exit_code == 0
    terminal.executors.clear()
    result = terminal.hud("compare", "before.json", "other.json", "--settle", "1")
    assert result.exit_code == 0, result.output
    assert terminal.executors[0].executed
    assert not terminal.executors[0].launched


def test_decided_comparisons_need_no_launches(terminal: Undecided) -> None:
    assert terminal.hud("compare", "before.json", "before.json", "--settle").exit_code == 0
    assert terminal.executors == []


@pytest.mark.parametrize("option", ["--settle", "--confirm=2"])
def test_what_measures_until_it_is_clear_is_not_settled(terminal: Undecided, option: str) -> None:
    result = terminal.hud("compare", "--toolchain", "a", "--toolchain", "b", option)
    assert result.exit_code == 2
    assert option.partition("=")[0] in result.stderr
