"""hud backfill over toolchains and commits, with launches that are drawn."""

from __future__ import annotations

import json
import os
import re
import signal
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from syrupy.assertion import SnapshotAssertion

from compile_hud.db.queries.alerts import load_alerts
from compile_hud.db.queries.results import load_document
from compile_hud.db.queries.runs import load_runs
from compile_hud.db.queries.series import find_series
from compile_hud.db.records.imported import is_imported
from compile_hud.db.records.results import Outcome
from compile_hud.runner.backfill.record import Backfill
from compile_hud.runner.backfill.stored_points import dates_of
from compile_hud.runner.bisect.record import BisectRevision
from compile_hud.runner.system.locks import immediate_lock
from tests.support.builders import START
from tests.support.runs.bisection import CASE, BisectTerminal, CommitTerminal
from tests.support.words import replacing_numbers

NAMES = tuple(f"t{number:02d}" for number in range(12))
# Up at t03 and down again at t09, so that the ends are the same.
LEVELS = {name: 0.012 if "t03" <= name < "t09" else 0.010 for name in NAMES}
OVER = ("--toolchain", *NAMES, *CASE)
STEPS = [("t02", "t03"), ("t08", "t09")]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def words(snapshot: SnapshotAssertion, tmp_path: Path) -> SnapshotAssertion:
    """Return the snapshot of a surface's words, without decimal numbers."""
    return snapshot.with_defaults(matcher=replacing_numbers(tmp_path))


def backfill(terminal: BisectTerminal, *arguments: str) -> Any:
    """Return the document of `hud backfill --json`, whatever its exit code."""
    result = terminal.hud("backfill", *arguments, "--json")
    assert result.stdout, result.stderr
    return json.loads(result.stdout)


def steps_in(document: Mapping[str, Any]) -> list[tuple[str, str]]:
    (result,) = document["results"]
    return [(step["from"], step["to"]) for step in result["steps"]]


def json_file(folder: Path) -> Path:
    (path,) = (folder / ".hud" / "backfill").glob("*.json")
    return path


def test_both_steps_of_a_history_are_reported_although_its_ends_are_the_same(
    folder: Path, words: SnapshotAssertion
) -> None:
    result = BisectTerminal(folder, LEVELS).hud("backfill", *OVER)
    assert result.exit_code == 0, result.output
    assert re.sub(r"backfill:[0-9a-f]{6}", "backfill:ID", result.stdout) == words


def test_the_change_of_a_step_has_an_interval_with_the_planted_one(folder: Path) -> None:
    document = backfill(BisectTerminal(folder, LEVELS), *OVER)
    assert steps_in(document) == STEPS
    up, down = document["results"][0]["steps"]
    assert up["interval_pct"][0] < 20 < up["interval_pct"][1]
    assert down["interval_pct"][0] < 100 * (10 / 12 - 1) < down["interval_pct"][1]
    assert document["complete"]


def test_only_the_uncertain_part_is_measured(folder: Path) -> None:
    levels = {name: 0.010 if name < "t10" else 0.013 for name in NAMES}
    terminal = BisectTerminal(folder, levels)
    document = backfill(terminal, *OVER, "--no-fill")
    assert steps_in(document) == [("t09", "t10")]
    assert len({point["index"] for point in document["points"]}) < 7
    # Every launch of a revision has one of the anchor.
    assert 2 * terminal.launches.count("t00") == len(terminal.launches)


def test_the_detector_sees_the_steps_by_the_stored_points(folder: Path) -> None:
    names = [f"t{number:02d}" for number in range(24)]
    levels = {name: 0.010 if name < "t10" else 0.012 for name in names}
    terminal = BisectTerminal(folder, levels)
    over = ("--toolchain", *names, *CASE)
    assert steps_in(backfill(terminal, *over)) == [("t09", "t10")]
    alerts = {alert.metric: alert for alert in load_alerts(terminal.store())}
    assert alerts["latency_cpu_s"].first_bad.revision.startswith("9.t10@")
    assert alerts["latency_cpu_s"].change_pct == pytest.approx(20, abs=2)


def test_the_points_are_a_series_in_the_order_of_the_revisions(folder: Path) -> None:
    terminal = BisectTerminal(folder, LEVELS)
    document = backfill(terminal, *OVER)
    (header,) = find_series(terminal.store(), metric="latency_cpu_s")
    assert header.num_points == 1 + len(document["points"])
    runs = [summary.run for summary in load_runs(terminal.store())][::-1]
    assert {run.toolchain for run in runs} == {document["stored_toolchain"]}
    assert {run.suite for run in runs} == {"backfill"}
    assert is_imported(document["stored_toolchain"])
    names = [run.revision for run in runs]
    assert names == sorted(names)


def test_values_are_normalised_to_the_anchor(folder: Path) -> None:
    terminal = BisectTerminal(folder, dict.fromkeys(NAMES, 0.010))

    def slow_down(_name: str) -> None:
        # The machine becomes slower while the history is measured.
        for name in NAMES:
            terminal.levels[name] *= 1.003
        terminal._draws.clear()

    terminal.on_launch = slow_down
    document = backfill(terminal, *OVER)
    factors = [point["cases"][0]["factor"] for point in document["points"]]
    assert factors[-1] < 0.9 < factors[0]
    medians = []
    for point in document["points"]:
        (result,) = load_document(terminal.store(), point["run_id"]).results
        measured = result.measurement("latency_cpu_s")
        assert measured is not None
        medians.append(measured.median)
        assert result.details["backfill"]["anchor"] == "t00"
    assert max(medians) / min(medians) < 1.05


def test_a_revision_that_does_not_run_is_skipped(folder: Path, words: SnapshotAssertion) -> None:
    levels = {name: 0.010 if name < "t06" else 0.012 for name in NAMES}
    terminal = BisectTerminal(folder, {**levels, "t05": 0.0, "t06": -1.0})
    result = terminal.hud("backfill", *OVER)
    assert result.exit_code == 0, result.output
    lines = result.stdout.splitlines()
    assert [line for line in lines if line.startswith("skipped")] == words
    document = backfill(terminal, "--resume", json_file(folder).stem)
    assert steps_in(document) == [("t04", "t07")]


def test_an_anchor_that_does_not_run_stops_it(folder: Path, words: SnapshotAssertion) -> None:
    for level in (0.0, -1.0):
        result = BisectTerminal(folder, {**LEVELS, "t00": level}).hud("backfill", *OVER)
        assert result.exit_code == 2
        assert result.stderr.splitlines()[-1] == words


def test_the_budget_ends_it_and_resume_continues(folder: Path, words: SnapshotAssertion) -> None:
    terminal = BisectTerminal(folder, LEVELS)
    terminal.launch_s = 30.0
    result = terminal.hud("backfill", *OVER, "--budget", "10m")
    assert result.exit_code == 1
    assert result.stderr.splitlines()[-1] == words
    known = json.loads(json_file(folder).read_text())
    document = backfill(terminal, "--resume")
    assert document["id"] == known["id"]
    assert document["points"][: len(known["points"])] == known["points"] != document["points"]
    assert steps_in(document) == STEPS
    ended = terminal.hud("backfill", "--resume").stderr
    assert ended.replace(known["id"], "ID") == words


def test_ctrl_c_keeps_the_measured_revisions(folder: Path, words: SnapshotAssertion) -> None:
    terminal = BisectTerminal(folder, LEVELS)
    seen: list[str] = []

    def interrupt(name: str) -> None:
        seen.append(name)
        if name == "t05" and seen.count("t05") == 1:
            os.kill(os.getpid(), signal.SIGINT)

    terminal.on_launch = interrupt
    result = terminal.hud("backfill", *OVER)
    assert result.exit_code == 130, result.output
    line = re.sub(r"--resume \w+", "--resume ID", result.stderr.splitlines()[-1])
    assert line == words
    assert [point["index"] for point in json.loads(json_file(folder).read_text())["points"]] == [11]
    assert steps_in(backfill(terminal, "--resume")) == STEPS


def test_a_dry_run_lists_the_revisions_and_measures_nothing(
    folder: Path, words: SnapshotAssertion
) -> None:
    terminal = BisectTerminal(folder, LEVELS)
    result = terminal.hud("backfill", *OVER, "--dry-run")
    assert (result.exit_code, terminal.launches) == (0, [])
    assert result.stdout == words
    document = backfill(terminal, *OVER, "--dry-run")
    assert (document["least_revisions"], document["more_for_a_step"]) == (5, 2)
    assert not (folder / ".hud" / "store.duckdb").exists()


def test_several_cases_are_measured_at_the_same_revisions(folder: Path) -> None:
    terminal = BisectTerminal(folder, LEVELS)
    over = ("--toolchain", *NAMES, "--model", "net", "--mode", "eager", "--mode", "default")
    document = backfill(terminal, *over)
    assert [item["case"].split("/")[4] for item in document["results"]] == ["eager", "default"]
    for result in document["results"]:
        assert [step["to"] for step in result["steps"]] == ["t03", "t09"]
    assert all(len(point["cases"]) == 2 for point in document["points"])


def test_a_case_that_fails_at_a_revision_leaves_the_others_there(
    folder: Path, words: SnapshotAssertion
) -> None:
    terminal = BisectTerminal(folder, LEVELS)
    terminal.fails = {"t11": "default", "t03": "default"}
    over = ("--toolchain", *NAMES, "--model", "net", "--mode", "eager", "--mode", "default")
    result = terminal.hud("backfill", *over)
    assert result.exit_code == 0, result.output
    lines = result.stdout.splitlines()
    assert [line for line in lines if line.startswith("skipped")] == words
    document = backfill(terminal, "--resume", json_file(folder).stem)
    steps = [[(step["from"], step["to"]) for step in item["steps"]] for item in document["results"]]
    assert steps == [[("t02", "t03"), ("t08", "t09")], [("t02", "t04"), ("t08", "t09")]]
    # The failure is a result of its run.
    store = terminal.store()
    stored = [
        (summary.run.revision, item.case.mode, item.outcome)
        for summary in load_runs(store)
        for item in load_document(store, summary.run.id).results
        if item.outcome is not Outcome.OK
    ]
    assert sorted(stored) == [
        ("9.t03@0123456789", "default", Outcome.INACCURATE),
        ("9.t11@0123456789", "default", Outcome.INACCURATE),
    ]
    assert Backfill.from_json(json.loads(json_file(folder).read_text())).is_complete


def test_what_is_stored_comes_back_as_it_was(folder: Path) -> None:
    BisectTerminal(folder, LEVELS).hud("backfill", *OVER)
    document = json.loads(json_file(folder).read_text())
    assert Backfill.from_json(document).to_json() == document


@pytest.mark.parametrize("content", ["{", '{"schema_version": 9}'])
def test_a_damaged_file_is_reported_by_name(
    folder: Path, content: str, words: SnapshotAssertion
) -> None:
    terminal = BisectTerminal(folder, LEVELS)
    (folder / ".hud" / "backfill").mkdir(parents=True)
    (folder / ".hud" / "backfill" / "x.json").write_text(content)
    result = terminal.hud("backfill", "--resume")
    assert result.exit_code == 2
    assert result.stderr == words


def test_two_at_a_time_are_refused(folder: Path, words: SnapshotAssertion) -> None:
    terminal = BisectTerminal(folder, LEVELS)
    lock = folder / ".hud" / "backfill" / ".lock"
    with immediate_lock(lock, on_conflict=lambda _pid: AssertionError()):
        result = terminal.hud("backfill", *OVER)
    assert result.exit_code == 2
    assert result.stderr == words


@pytest.mark.parametrize(
    "arguments",
    [
        ("--toolchain", "t00", *CASE),
        ("--resume", "x"),
        ("--resume", "x", "--model", "net"),
        ("--resume", "x", "--floor", "2%"),
        ("--resume", "x", "--budget", "2h"),
        CASE,
    ],
)
def test_an_impossible_backfill_is_refused(
    folder: Path, arguments: tuple[str, ...], words: SnapshotAssertion
) -> None:
    terminal = BisectTerminal(folder, LEVELS)
    result = terminal.hud("backfill", *arguments)
    assert result.exit_code == 2
    assert result.stderr == words
    assert terminal.executors == []


SUBJECTS = [f"commit {number:02d}" for number in range(10)]
COMMITS = {name: 0.010 if name < "commit 04" else 0.0125 for name in SUBJECTS}


def test_commits_are_points_with_their_own_revision(folder: Path) -> None:
    terminal = CommitTerminal(folder, COMMITS)
    document = backfill(terminal, *terminal.ends("commit 00", "commit 09"), *CASE)
    commits = terminal.commits
    assert steps_in(document) == [(commits["commit 03"], commits["commit 04"])]
    runs = [summary.run for summary in load_runs(terminal.store())][::-1]
    points = sorted({0, *(point["index"] for point in document["points"])})
    assert [run.revision for run in runs] == [commits[SUBJECTS[index]][:10] for index in points]
    assert all(run.environment["model_commits"]["net"] == run.revision for run in runs)
    assert len(terminal.executors) == 1
    assert not list((folder / ".hud" / "backfill" / "checkouts").iterdir())


def test_a_point_has_the_date_of_its_commit_or_nightly_in_the_order_of_the_revisions() -> None:
    def commit(day: int) -> BisectRevision:
        return BisectRevision(name="c", authored_at=f"2026-03-{day:02d}T05:06:07+02:00")

    dates = dates_of([commit(4), commit(2), commit(5)], now=START)
    assert dates == sorted(dates)
    assert (dates[1] - dates[0]).total_seconds() == 1
    nights = [BisectRevision(name=f"2.14.0.dev202603{day}") for day in (10, 12)]
    assert [date.day for date in dates_of(nights, now=START)] == [10, 12]
    for names in (("2.12.0", "2.13.0"), ("2.14.0.dev20269999", "2.14.0.dev20260301")):
        revisions = [BisectRevision(name=name) for name in names]
        first, last = dates_of(revisions, now=START)
        assert (last - first).total_seconds() == 1
        assert last < START
