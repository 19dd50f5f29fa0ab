"""hud isolate over two toolchains with real packages, and launches that are drawn."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from pathlib import Path

import pytest
from syrupy.assertion import SnapshotAssertion

from compile_hud.runner.isolate import environments, mixtures
from tests.support.runs.bisection import CASE
from tests.support.runs.isolation import NEW, OLD, IsolateTerminal, names_of, slow_part


def test_the_package_that_is_slow_has_all_of_the_change(
    folder: Path, words: SnapshotAssertion
) -> None:
    terminal = IsolateTerminal(folder, OLD, NEW, cost=slow_part)
    result = terminal.hud("isolate", "old", "new", *CASE)
    assert result.exit_code == 0, result.output
    lines = result.stdout.splitlines()
    assert lines[-2].endswith("part-3 1.0 -> 2.0")
    assert lines[-1].endswith("the rest")
    assert len(lines) == 5
    assert result.stderr == words


def test_the_document_has_shares_with_intervals(folder: Path) -> None:
    document = IsolateTerminal(folder, OLD, NEW, cost=slow_part).isolate()
    assert names_of(document) == [["part-3"]]
    (share,) = document["shares"]
    low, high = share["interval_pct"]
    assert low < 100 < high
    assert low < share["share_pct"] < high
    assert abs(document["rest"]["share_pct"]) < 20
    assert document["ends"]["ratio"] == pytest.approx(1.3, rel=0.05)
    assert document["num_mixtures"] <= 10


def test_a_variable_is_named(folder: Path) -> None:
    document = IsolateTerminal(
        folder,
        OLD,
        NEW,
        cost=lambda facts: 0.014 if facts.get("HUD_SLOW") == "a b" else 0.010,
        variables={"HUD_SLOW": "a b", "HUD_FAST": "1"},
    ).isolate()
    assert names_of(document) == [["HUD_SLOW"]]
    assert document["shares"][0]["differences"][0] == {
        "kind": "variable",
        "name": "HUD_SLOW",
        "before": None,
        "after": "a b",
    }


def test_values_of_variables_may_be_any_bytes_and_secrets_are_masked(folder: Path) -> None:
    terminal = IsolateTerminal(
        folder, OLD, NEW, cost=lambda facts: 0.014 if "HUD_API_TOKEN" in facts else 0.010
    )
    python = folder / "new" / "python"
    lines = b"export HUD_API_TOKEN=T0KEN-of-42\nexport HUD_BYTES='\xff \n\"'\nexec "
    python.write_bytes(python.read_bytes().replace(b"exec ", lines))
    result = terminal.hud("isolate", "old", "new", *CASE)
    assert result.exit_code == 0, result.output
    assert "HUD_API_TOKEN=*** (only after)" in result.stdout
    assert "HUD_BYTES=?" in result.stderr
    document = terminal.isolate()
    assert [item["after"] for item in document["shares"][0]["differences"]] == ["***"]
    assert "T0KEN" not in f"{result.output}{document}"


def test_a_function_that_bash_exports_is_no_variable(folder: Path) -> None:
    terminal = IsolateTerminal(folder, OLD, NEW, cost=slow_part)
    python = folder / "new" / "python"
    lines = "module() { true; }\nexport -f module\nexec "
    text = python.read_text().replace("#!/bin/sh", "#!/usr/bin/env bash")
    python.write_text(text.replace("exec ", lines))
    document = terminal.isolate()
    assert names_of(document) == [["part-3"]]
    assert not document["unusable"]


def test_two_packages_that_are_slow_together_are_named_together(folder: Path) -> None:
    def cost(facts: Mapping[str, str]) -> float:
        return 0.013 if {facts.get("part-0"), facts.get("part-4")} == {"2.0"} else 0.010

    document = IsolateTerminal(folder, OLD, NEW, cost=cost).isolate()
    assert names_of(document) == [["part-0", "part-4"]]
    assert document["shares"][0]["kind"] == "together"


def test_two_causes_share_the_change(folder: Path) -> None:
    def cost(facts: Mapping[str, str]) -> float:
        return (
            0.010
            * (1.2 if facts.get("part-1") == "2.0" else 1)
            * (1.1 if facts.get("part-4") == "2.0" else 1)
        )

    document = IsolateTerminal(folder, OLD, NEW, cost=cost).isolate()
    assert names_of(document) == [["part-1"], ["part-4"]]
    larger, smaller = (share["share_pct"] for share in document["shares"])
    assert 50 < larger < 80
    assert 20 < smaller < 50


def test_a_package_that_only_one_side_has_is_a_difference(folder: Path) -> None:
    new = {**OLD, "plugin": "3.1"}
    document = IsolateTerminal(
        folder, OLD, new, cost=lambda facts: 0.012 if "plugin" in facts else 0.010
    ).isolate()
    assert names_of(document) == [["plugin"]]
    assert document["differences"] == [
        {"kind": "package", "name": "plugin", "before": None, "after": "3.1"}
    ]


def test_packages_that_do_not_run_apart_are_reported(
    folder: Path, words: SnapshotAssertion
) -> None:
    def cost(facts: Mapping[str, str]) -> float:
        if facts.get("part-0") != facts.get("part-1"):
            return 0
        return 0.013 if facts.get("part-1") == "2.0" else 0.010

    terminal = IsolateTerminal(
        folder, {"part-0": "1.0", "part-1": "1.0"}, {"part-0": "2.0", "part-1": "2.0"}, cost=cost
    )
    result = terminal.hud("isolate", "old", "new", *CASE)
    assert result.exit_code == 1
    assert result.stdout == words


def test_the_limit_of_toolchains_ends_the_search(folder: Path) -> None:
    document = IsolateTerminal(folder, OLD, NEW, cost=slow_part).isolate("--max-toolchains", "4")
    assert document["shares"][0]["kind"] == "unseparated"
    assert "part-3" in names_of(document)[0]
    assert document["num_mixtures"] <= 2


@pytest.mark.parametrize("new", [OLD, NEW], ids=["same packages", "other packages"])
def test_toolchains_of_one_speed_have_nothing_to_isolate(
    folder: Path, new: Mapping[str, str], words: SnapshotAssertion
) -> None:
    terminal = IsolateTerminal(folder, OLD, new, cost=lambda _facts: 0.010)
    result = terminal.hud("isolate", "old", "new", *CASE)
    assert result.exit_code == 1
    assert result.stdout == words


def test_a_change_without_a_difference_is_reported(folder: Path, words: SnapshotAssertion) -> None:
    levels = iter([0.010, 0.015])
    terminal = IsolateTerminal(folder, OLD, OLD, cost=lambda _facts: next(levels))
    result = terminal.hud("isolate", "old", "new", *CASE)
    assert result.exit_code == 1
    assert result.stdout == words


def test_packages_of_another_python_are_named_and_not_searched(
    folder: Path, monkeypatch: pytest.MonkeyPatch, words: SnapshotAssertion
) -> None:
    numbers = itertools.count()
    monkeypatch.setattr(environments, "minor", lambda _python: (str(next(numbers)),))
    result = IsolateTerminal(folder, OLD, NEW, cost=slow_part).hud("isolate", "old", "new", *CASE)
    assert result.exit_code == 1
    assert result.stdout == words


def test_both_toolchains_must_run_the_case(folder: Path, words: SnapshotAssertion) -> None:
    terminal = IsolateTerminal(
        folder, OLD, NEW, cost=lambda facts: -1 if facts["part-0"] == "2.0" else 0.010
    )
    result = terminal.hud("isolate", "old", "new", *CASE)
    assert result.exit_code == 2
    assert result.stderr == words


def test_an_interpreter_that_prints_is_refused(folder: Path, words: SnapshotAssertion) -> None:
    terminal = IsolateTerminal(folder, OLD, NEW, cost=slow_part)
    python = folder / "new" / "python"
    python.write_text(python.read_text().replace("exec ", "echo hello\nexec "))
    result = terminal.hud("isolate", "old", "new", *CASE)
    assert result.exit_code == 2
    assert result.stderr == words


def test_one_case_and_known_toolchains_are_needed(folder: Path, words: SnapshotAssertion) -> None:
    terminal = IsolateTerminal(folder, OLD, NEW, cost=slow_part)
    for arguments in (("old", "ne", *CASE), ("old", "new", "--model", "net"), ("old", *CASE)):
        result = terminal.hud("isolate", *arguments)
        assert result.exit_code == 2
        assert result.stderr == words


def test_nothing_is_left_of_the_mixtures(folder: Path) -> None:
    document = IsolateTerminal(folder, OLD, NEW, cost=slow_part).isolate()
    names = {path.name for path in (folder / ".hud" / "isolate").iterdir()}
    assert names == {".lock", f"{document['id']}.json"}


def test_a_python_that_makes_no_environment_in_time_is_named(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mixtures, "_BUILD_TIMEOUT_S", 0.0)
    document = IsolateTerminal(folder, OLD, NEW, cost=slow_part).isolate()
    assert all("in 0 s" in item["reason"] for item in document["unusable"])
    assert document["unusable"]
